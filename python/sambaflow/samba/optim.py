# SPDX-License-Identifier: Apache-2.0
"""Optimizers of torch with what the device adds. Their state lives on the device; `step` of torch still works on the host."""
import torch


class SGD(torch.optim.SGD):
    """torch.optim.SGD; `max_grad_norm` > 0 clips the gradients of all optimizers to this global norm in GRADNORM."""

    def __init__(self, params, lr=1e-3, *args, max_grad_norm=None, **kwargs):
        super().__init__(params, lr, *args, **kwargs)
        self.max_grad_norm = max_grad_norm


class AdamW(torch.optim.AdamW):
    """torch.optim.AdamW; `max_grad_norm` as in SGD."""

    def __init__(self, params, lr=1e-3, *args, max_grad_norm=None, **kwargs):
        super().__init__(params, lr, *args, **kwargs)
        self.max_grad_norm = max_grad_norm
