# SPDX-License-Identifier: Apache-2.0
"""Optimizers of torch with what the device adds: a class for each row of the library's table, src/optimizers.def. Their state
lives on the device; `step` of torch still works on the host.

>>> model = torch.nn.Linear(3, 2)
>>> optimizers = [SGD([model.weight], lr=0.1, momentum=0.9, max_grad_norm=1.0), AdamW([model.bias], lr=1e-3)]
>>> optimizers[0].max_grad_norm
1.0
>>> Adam(model.parameters(), lr=1e-3, maximize=True).defaults["maximize"]
True
"""

import inspect

import torch

from sambaflow import errors
from sambaflow.samba.optimizer_facts import FACTS as _FACTS


class _Clipping:
    """What they have besides; torch's copy and pickle know of their own attributes alone."""

    def __getstate__(self):
        return {**super().__getstate__(), "max_grad_norm": self.max_grad_norm}

    def __repr__(self):
        text = super().__repr__()
        return text if self.max_grad_norm is None else f"{text[:-1]}max_grad_norm: {self.max_grad_norm}\n)"


class _Lion(torch.optim.Optimizer):
    """Chen et al. 2023, Symbolic Discovery of Optimization Algorithms, program 1, which torch has not."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, *, maximize=False):
        if not lr >= 0.0:
            raise errors.ArgumentError(f"Invalid learning rate: {lr}")
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise errors.ArgumentError(f"Invalid beta parameter at index {i}: {beta}")
        if not weight_decay >= 0.0:
            raise errors.ArgumentError(f"Invalid weight_decay value: {weight_decay}")
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay, maximize=maximize))

    @torch.no_grad()
    def step(self, closure=None):
        """One step on the host, as those of torch.optim."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state, grad = self.state[p], -p.grad if group["maximize"] else p.grad
                if "exp_avg" not in state:
                    state["exp_avg"] = torch.zeros_like(p)
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(torch.sign(state["exp_avg"] * beta1 + grad * (1 - beta1)), alpha=-group["lr"])
                state["exp_avg"].mul_(beta2).add_(grad, alpha=1 - beta2)
        return loss


_OWN = {"Lion": _Lion}  # torch has none


def _class(facts, base):
    """The class of a row: torch's, and `max_grad_norm`."""
    default = next(number.value for number in facts.hyperparameters if number.name == "lr")

    def __init__(self, params, lr=default, *args, max_grad_norm=None, **kwargs):
        base.__init__(self, params, lr, *args, **kwargs)
        self.max_grad_norm = max_grad_norm

    taken = dict(inspect.signature(base.__init__).parameters)
    taken["lr"] = taken["lr"].replace(default=default)
    norm = inspect.Parameter("max_grad_norm", inspect.Parameter.KEYWORD_ONLY, default=None)
    __init__.__signature__ = inspect.Signature([*taken.values(), norm])
    name = base.__doc__.rstrip(".") if facts.title in _OWN else f"torch.optim.{base.__name__}"
    text = f"{name}; `max_grad_norm` > 0 clips the gradients of all optimizers to this global norm in GRADNORM."
    text += f"\n\n    >>> {facts.title}(torch.nn.Linear(3, 2).parameters()).defaults['lr']\n    {default!r}\n    "
    return type(facts.title, (_Clipping, base), {"__init__": __init__, "__doc__": text, "__module__": __name__})


globals().update({title: _class(facts, _OWN.get(title) or getattr(torch.optim, title)) for title, facts in _FACTS.items()})
