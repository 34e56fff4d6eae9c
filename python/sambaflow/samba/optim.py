# SPDX-License-Identifier: Apache-2.0
"""Optimizers of torch with what the device adds. Their state lives on the device; `step` of torch still works on the host.

>>> model = torch.nn.Linear(3, 2)
>>> optimizers = [SGD([model.weight], lr=0.1, momentum=0.9, max_grad_norm=1.0), AdamW([model.bias], lr=1e-3)]
>>> optimizers[0].max_grad_norm
1.0
>>> Adam(model.parameters(), lr=1e-3, maximize=True).defaults["maximize"]
True
"""
import torch


def _shown(text, max_grad_norm):
    """torch's text of an optimizer, with what it has besides."""
    return text if max_grad_norm is None else f"{text[:-1]}max_grad_norm: {max_grad_norm}\n)"


class _Clipping:
    """What the three have besides; torch's copy and pickle know of their own attributes alone."""

    def __getstate__(self):
        return {**super().__getstate__(), "max_grad_norm": self.max_grad_norm}

    def __repr__(self):
        return _shown(super().__repr__(), self.max_grad_norm)


class SGD(_Clipping, torch.optim.SGD):
    """torch.optim.SGD; `max_grad_norm` > 0 clips the gradients of all optimizers to this global norm in GRADNORM."""

    def __init__(self, params, lr=1e-3, *args, max_grad_norm=None, **kwargs):
        super().__init__(params, lr, *args, **kwargs)
        self.max_grad_norm = max_grad_norm


class Adam(_Clipping, torch.optim.Adam):
    """torch.optim.Adam; `max_grad_norm` as in SGD."""

    def __init__(self, params, lr=1e-3, *args, max_grad_norm=None, **kwargs):
        super().__init__(params, lr, *args, **kwargs)
        self.max_grad_norm = max_grad_norm


class AdamW(_Clipping, torch.optim.AdamW):
    """torch.optim.AdamW; `max_grad_norm` as in SGD."""

    def __init__(self, params, lr=1e-3, *args, max_grad_norm=None, **kwargs):
        super().__init__(params, lr, *args, **kwargs)
        self.max_grad_norm = max_grad_norm
