# SPDX-License-Identifier: Apache-2.0
"""Activation functions."""

import torch
import torch.nn.functional as F

from sambaflow._core import lib
from sambaflow.samba.rules.common import cast, in_place, number, unsupported
from sambaflow.samba.rules.nn import softmax_dim
from sambaflow.samba.trace import rule

aten = torch.ops.aten
T = torch.Tensor


def _activation(call, *functions, **options):
    """The library's function of a tensor and numbers, as torch's `functions` have them, with their defaults;
    torch may do it in place."""
    names = tuple(options)

    @rule(*functions)
    def traced(t, input, *args, inplace=False, **given):
        if len(args) > len(names):  # the flag is the last of torch's arguments
            inplace, args = args[len(names)], args[: len(names)]
        unknown = set(given) - set(names[len(args) :])
        if unknown:
            raise TypeError(f"unexpected argument {sorted(unknown)[0]!r}")
        numbers = {**options, **dict(zip(names, args)), **given}
        return in_place(t, input, t.wrap(call(t.value(input), *(number(name, x) for name, x in numbers.items()))), inplace)


_activation(lib.samba_relu, torch.relu, T.relu, F.relu, aten.relu)
_activation(lib.samba_relu6, F.relu6)
_activation(lib.samba_silu, F.silu, aten.silu)
_activation(lib.samba_mish, F.mish, aten.mish)
_activation(lib.samba_selu, F.selu, torch.selu)
_activation(lib.samba_hardswish, F.hardswish, aten.hardswish)
_activation(lib.samba_hardsigmoid, F.hardsigmoid, aten.hardsigmoid)
_activation(lib.samba_leaky_relu, F.leaky_relu, aten.leaky_relu, negative_slope=0.01)
_activation(lib.samba_elu, F.elu, alpha=1.0)
_activation(lib.samba_celu, F.celu, torch.celu, alpha=1.0)
_activation(lib.samba_hardtanh, F.hardtanh, aten.hardtanh, min_val=-1.0, max_val=1.0)
_activation(lib.samba_hardshrink, F.hardshrink, torch.hardshrink, T.hardshrink, aten.hardshrink, lambd=0.5)
_activation(lib.samba_softshrink, F.softshrink, aten.softshrink, lambd=0.5)
_activation(lib.samba_softplus_beta, F.softplus, aten.softplus, beta=1.0, threshold=20.0)
_activation(lib.samba_log_sigmoid, F.logsigmoid)
_activation(lib.samba_softsign, F.softsign)
_activation(lib.samba_tanhshrink, F.tanhshrink)


@rule(F.rrelu, torch.rrelu, aten.rrelu)
def rrelu(t, input, lower=1 / 8, upper=1 / 3, training=False, inplace=False):
    if training:
        unsupported(
            t,
            "rrelu while it trains draws a slope for each element, which a graph does not yet: use leaky_relu, or rrelu "
            "with training=False",
        )
    return in_place(
        t, input, t.wrap(lib.samba_leaky_relu(t.value(input), (number("lower", lower) + number("upper", upper)) / 2)), inplace
    )


@rule(torch.rrelu_)
def rrelu_(t, input, lower=1 / 8, upper=1 / 3, training=False):
    return rrelu(t, input, lower, upper, training, True)


@rule(F.threshold, torch.threshold, aten.threshold)
def threshold(t, input, threshold, value, inplace=False):
    return in_place(
        t, input, t.wrap(lib.samba_threshold(t.value(input), number("threshold", threshold), number("value", value))), inplace
    )


@rule(F.gelu, aten.gelu)
def gelu(t, input, approximate="none"):
    if approximate not in ("none", "tanh"):
        raise ValueError(f"approximate must be 'none' or 'tanh', given {approximate!r}")
    return t.wrap((lib.samba_gelu_tanh if approximate == "tanh" else lib.samba_gelu)(t.value(input)))


@rule(F.prelu, torch.prelu, T.prelu)
def prelu(t, input, weight):
    return t.wrap(lib.samba_functional_prelu(t.value(input), t.value(weight)))


@rule(F.glu)
def glu(t, input, dim=-1):
    return t.wrap(lib.samba_glu(t.value(input), dim))


@rule(F.softmin)
def softmin(t, input, dim=None, _stacklevel=3, dtype=None):
    return t.wrap(lib.samba_softmin(t.value(cast(t, input, dtype)), softmax_dim(t, dim)))
