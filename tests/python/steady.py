# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own batch norm where its gradient is right.

PyTorch's CPU kernel of batch norm's backward reads a gradient, or an input, whose strides are nearly those of channels_last as if
it were contiguous (2.13; float32 and float64): those of (1, 8, 4, 4) as (8, 1, 32, 8), where channels_last itself has (128, 1,
32, 8). At batch 1, or with other sizes of 1, a transposed view behind the norm or in front of it is enough to make such strides;
instance norm is the batch norm of (1, N * C, ...), so it meets them at any batch.
What is compared with PyTorch around such views has input and gradient contiguous."""

import torch


class _Contiguous(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()  # what follows may work in place

    @staticmethod
    def backward(ctx, gradient):
        return gradient.contiguous()


def _is_torchs(x):
    return type(x) is torch.Tensor


def _behind(y):
    return _Contiguous.apply(y) if _is_torchs(y) and y.requires_grad else y


def steady(norm):
    """The function, whose input and gradient are contiguous; of PyTorch's own tensors alone, ours stay as they are."""

    def call(x, *args, **kwargs):
        return _behind(norm(x.contiguous() if _is_torchs(x) else x, *args, **kwargs))

    return call


def steady_norms(model):
    """The model, a reference of PyTorch's, with all its batch and instance norms so."""
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._NormBase):
            module.register_forward_pre_hook(lambda module, inputs: (inputs[0].contiguous(), *inputs[1:]))
            module.register_forward_hook(lambda module, inputs, y: _behind(y))
    return model
