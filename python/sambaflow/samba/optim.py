# SPDX-License-Identifier: Apache-2.0
"""Optimizers of torch with what the device adds: a class for each row of the library's table, src/optimizers.def. Their state lives on the device;
`step` of torch still works on the host.

>>> model = torch.nn.Linear(3, 2)
>>> optimizers = [SGD([model.weight], lr=0.1, momentum=0.9, max_grad_norm=1.0), AdamW([model.bias], lr=1e-3)]
>>> optimizers[0].max_grad_norm
1.0
>>> Adam(model.parameters(), lr=1e-3, maximize=True).defaults["maximize"]
True
"""
import torch

from sambaflow.samba.optimizer_facts import FACTS as _FACTS


class _Clipping:
    """What they have besides; torch's copy and pickle know of their own attributes alone."""

    def __getstate__(self):
        return {**super().__getstate__(), "max_grad_norm": self.max_grad_norm}

    def __repr__(self):
        text = super().__repr__()
        return text if self.max_grad_norm is None else f"{text[:-1]}max_grad_norm: {self.max_grad_norm}\n)"


def _class(facts, base):
    """The class of a row: torch's, and `max_grad_norm`."""
    default = next(number.value for number in facts.hyperparameters if number.name == "lr")

    def __init__(self, params, lr=default, *args, max_grad_norm=None, **kwargs):
        base.__init__(self, params, lr, *args, **kwargs)
        self.max_grad_norm = max_grad_norm

    text = f"{base.__module__.rpartition('.')[0]}.{base.__name__}; `max_grad_norm` > 0 clips the gradients of all optimizers to this global norm in GRADNORM."
    text += f"\n\n    >>> {facts.title}(torch.nn.Linear(3, 2).parameters()).defaults['lr']\n    {default!r}\n    "
    return type(facts.title, (_Clipping, base), {"__init__": __init__, "__doc__": text, "__module__": __name__})


globals().update({title: _class(facts, getattr(torch.optim, title)) for title, facts in _FACTS.items()})
