# SPDX-License-Identifier: Apache-2.0
"""Activation functions, by torch's formulas."""
import torch
import torch.nn.functional as F

from sambaflow._core import lib
from sambaflow.samba.rules.common import cast, in_place, rank, wrapped_dim
from sambaflow.samba.trace import rule

aten = torch.ops.aten
T = torch.Tensor


def _activation(*functions):
    """An elementwise function of its input and options, which may be done in place."""

    def register(f):
        @rule(*functions)
        def traced(t, input, *args, inplace=False, **options):
            count = f.__code__.co_argcount - 2
            inplace, args = (args[count], args[:count]) if len(args) > count else (inplace, args)
            return in_place(t, input, f(t, input, *args, **options), inplace)

        return f

    return register


def _least(x, number):
    return torch.minimum(x, torch.full((), number, dtype=x.dtype))


@rule(F.softplus, aten.softplus)
def softplus(t, input, beta=1.0, threshold=20.0):
    """Beyond the threshold torch takes the input itself, from which softplus then differs by less than a float can tell."""
    if beta == 1:
        return t.wrap(lib.samba_softplus(t.value(input)))
    return t.wrap(lib.samba_softplus(t.value(input * beta))) / beta


@rule(F.logsigmoid)
def logsigmoid(t, input):
    return -softplus(t, -input)


@_activation(F.leaky_relu)
def leaky_relu(t, input, negative_slope=0.01):
    return torch.where(input > 0, input, input * negative_slope)


@rule(F.prelu, torch.prelu)
def prelu(t, input, weight):
    if weight.numel() > 1:
        weight = weight.reshape([-1] + [1] * (rank(input) - 2))
    return torch.where(input > 0, input, input * weight)


@_activation(F.elu)
def elu(t, input, alpha=1.0):
    return torch.where(input > 0, input, alpha * torch.expm1(_least(input, 0.0)))


@_activation(F.celu)
def celu(t, input, alpha=1.0):
    return torch.where(input > 0, input, alpha * torch.expm1(_least(input, 0.0) / alpha))


@_activation(F.selu)
def selu(t, input):
    return 1.0507009873554804934193349852946 * elu(t, input, 1.6732632423543772848170429916717)


@_activation(F.hardtanh)
def hardtanh(t, input, min_val=-1.0, max_val=1.0):
    return torch.clamp(input, min_val, max_val)


@_activation(F.relu6)
def relu6(t, input):
    return torch.clamp(input, 0.0, 6.0)


@_activation(F.hardsigmoid)
def hardsigmoid(t, input):
    return torch.clamp(input + 3.0, 0.0, 6.0) / 6.0


@_activation(F.hardswish)
def hardswish(t, input):
    return input * torch.clamp(input + 3.0, 0.0, 6.0) / 6.0


@_activation(F.mish)
def mish(t, input):
    return input * torch.tanh(F.softplus(input))


@_activation(F.threshold)
def threshold(t, input, threshold, value):
    return torch.where(input > threshold, input, value)


@rule(F.softsign)
def softsign(t, input):
    return input / (1 + torch.abs(input))


@rule(F.tanhshrink)
def tanhshrink(t, input):
    return input - torch.tanh(input)


@rule(F.softshrink)
def softshrink(t, input, lambd=0.5):
    return torch.where(input > lambd, input - lambd, torch.where(input < -lambd, input + lambd, 0.0))


@rule(F.hardshrink, torch.hardshrink)
def hardshrink(t, input, lambd=0.5):
    return torch.where(torch.abs(input) > lambd, input, 0.0)


@rule(F.glu)
def glu(t, input, dim=-1):
    dim = wrapped_dim(dim, rank(input))
    value, gate = input.chunk(2, dim)
    return value * torch.sigmoid(gate)


@rule(F.softmin)
def softmin(t, input, dim=None, _stacklevel=3, dtype=None):
    return F.softmax(-cast(t, input, dtype), dim)
