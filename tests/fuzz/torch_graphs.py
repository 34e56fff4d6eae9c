#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Graphs that `fuzz --write FOLDER` wrote, computed by PyTorch: an interpreter of the graph's text, node by node. Floats are
computed in float64 and rounded to the node's dtype, integers in theirs, as the reference does; results may differ from the
reference's by what the fuzzer found that rounding does to them. A graph with a gradient is computed once more as a whole, by
autograd, and PyTorch's gradients of all inputs are compared with ours, which the next file has.

    torch_graphs.py FOLDER

A graph with an operator that PyTorch has none for (attention's own gradient, random numbers of ours) is left out,
and the operators are counted."""

import collections
import pathlib
import re
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
from steady import steady
from torch_matrices import MATRICES

NODE = re.compile(r"%(\d+) = (\w+)((?: %\d+)*)(.*) : (\w+)\[([\d,]*)\]")


class NoSuch(Exception):
    """PyTorch has no such operator, or not of this dtype."""


def numbers(text):
    return [int(x) for x in text.split(",") if x]


def attributes(text):
    found = {}
    for name, value in re.findall(r'(\w+)=(\[[^\]]*\]|"[^"]*"|\S+)', text):
        found[name] = numbers(value[1:-1]) if value[0] == "[" else value.strip('"')
    return found


def real(a, name):
    return float(a[name])


def whole(a, name):
    return int(a[name])


def windows(a, *names):
    return {name: tuple(a[name]) for name in names}


def padded(x, a):
    shape = [
        lo + hi + (n + (n - 1) * between if n else 0)
        for n, lo, hi, between in zip(x.shape, a["before"], a["after"], a["interior"])
    ]
    y = torch.full(shape, real(a, "value"), dtype=torch.float64).to(x.dtype)
    y[
        tuple(
            slice(lo, lo + (n - 1) * (between + 1) + 1 if n else lo, between + 1)
            for n, lo, between in zip(x.shape, a["before"], a["interior"])
        )
    ] = x
    return y


def pooled(call, x, a, **more):
    # dims that windows cannot leave out: torch refuses a padding beyond half a kernel, as we do
    if whole(a, "adaptive"):  # the kernel is the size of the result
        if more.get("return_indices"):
            return F.adaptive_max_pool2d(x, a["kernel"], return_indices=True)
        return (F.adaptive_avg_pool2d if call is F.avg_pool2d else F.adaptive_max_pool2d)(x, a["kernel"])
    return call(x, a["kernel"], a["stride"], a["padding"], ceil_mode=whole(a, "ceil_mode") != 0, **more)


def place_in_windows(x, a):
    values, places = pooled(F.max_pool2d, x, a, dilation=a["dilation"], return_indices=True)
    if values.isneginf().any() and not x.isneginf().any():
        raise NoSuch("max_pool2d_indices of a window that lies in the padding")  # it gives a place outside
    return places


def scores_of(ins, a):
    q, k = ins[:2]
    mask = ins[3] if whole(a, "masked") else None
    scores = q @ k.repeat_interleave(q.shape[1] // k.shape[1], 1).transpose(-1, -2) * real(a, "scale")
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    if whole(a, "causal"):
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
    return scores


def attention(ins, a):
    q, v = ins[0], ins[2]
    scores = scores_of(ins, a)
    blind = scores.isneginf().all(-1, keepdim=True)  # a query that sees nothing
    weights = torch.softmax(torch.where(blind, 0, scores), -1) * ~blind
    if whole(a, "dropout"):
        rate, seed = ins[-2].detach(), ins[-1]
        weights = torch.where(random(int(seed), weights.shape) >= rate, weights / (1 - rate), 0)
    return (weights @ v.repeat_interleave(q.shape[1] // v.shape[1], 1)).transpose(1, 2)


def attention_gradient(ins, a):
    """dq, dk, dv as src/ops/ops.h lays them out."""
    operands = [x.detach().clone().requires_grad_() for x in ins[:3]]
    found = [g.transpose(1, 2) for g in torch.autograd.grad(attention([*operands, *ins[3:-3]], a), operands, ins[-1])]
    q, k, v = ins[:3]
    if q.shape[2] == k.shape[2] and q.shape[3] == v.shape[3]:
        return torch.cat(found, 2)
    return torch.cat([g.reshape(-1) for g in found])


def random(seed, shape):
    """The library's own numbers: Philox4x32-10 by place."""
    count, numbers = int(torch.Size(shape).numel()), []
    for block in range((count + 3) // 4):
        c, k = [block & 0xFFFFFFFF, block >> 32, 0, 0], [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
        for _ in range(10):
            a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [b >> 32 ^ c[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k[1], a & 0xFFFFFFFF]
            k = [k[0] + 0x9E3779B9 & 0xFFFFFFFF, k[1] + 0xBB67AE85 & 0xFFFFFFFF]
        numbers += [(x >> 8) * 2.0**-24 for x in c]
    return torch.tensor(numbers[:count], dtype=torch.float64).reshape(shape)


def ordered(x, a):
    dim, first, count = whole(a, "dim"), whole(a, "first"), whole(a, "count")
    values, indices = (
        part.narrow(dim, first, count) for part in torch.sort(x, dim=dim, descending=whole(a, "descending") != 0, stable=True)
    )
    if whole(a, "nan") and x.dtype.is_floating_point and count:
        has, at = x.isnan().to(torch.int8).max(dim, keepdim=True)
        indices = torch.where(has > 0, at, indices)
        values = x.gather(dim, indices)
    return [values, indices]


def scattered(ins, a):
    reduce = (None, "sum", "prod", "amax", "amin")[whole(a, "reduce")]
    if reduce is None:
        return ins[0].scatter(whole(a, "dim"), ins[1].long(), ins[2])
    return ins[0].scatter_reduce(whole(a, "dim"), ins[1].long(), ins[2], reduce)


def place_along(call, x, a):
    dim = whole(a, "dim")
    return x.shape[dim] - 1 - call(x.flip(dim), dim)[1].flip(dim) if whole(a, "reverse") else call(x, dim)[1]


def batch_moments(x):
    rows = (x if x.dtype == torch.float64 else x.float()).transpose(0, 1).flatten(1)
    return torch.stack([rows.mean(1), (rows - rows.mean(1, keepdim=True)).square().mean(1)])


def batch_norm(ins, a):
    x, w, b, mean, variance, training = ins
    if bool(training) and x.numel() <= x.shape[1]:  # torch refuses channels of one element: x is its mean
        shape = [1, -1] + [1] * (x.dim() - 2)
        return (x - x) * w.reshape(shape) + b.reshape(shape)
    return steady(F.batch_norm)(x, mean.detach().clone(), variance.detach().clone(), w, b, bool(training), 0.0, real(a, "eps"))


def resample2d(x, a):
    mode = ("nearest", "nearest-exact", "bilinear", "bicubic")[whole(a, "mode")]
    if real(a, "scale_height") or real(a, "scale_width"):
        raise NoSuch("resample2d by a scale")
    more = (
        {"align_corners": whole(a, "align_corners") != 0, "antialias": whole(a, "antialias") != 0}
        if mode.startswith("bi")
        else {}
    )
    y = F.interpolate(x if x.dim() == 4 else x.unsqueeze(0), a["size"], mode=mode, **more)
    return y if x.dim() == 4 else y.squeeze(0)


def grid_sample(ins, a):
    mode, padding = {0: "nearest", 2: "bilinear", 3: "bicubic"}[whole(a, "mode")], ("zeros", "border", "reflection")
    return F.grid_sample(*ins, mode, padding[whole(a, "padding")], whole(a, "align_corners") != 0)


def group_norm(ins, a):
    x, w, b = ins  # by hand: torch refuses groups of one element, and gives NaN as a weight's gradient where there is none
    if x.numel() == 0:
        shape = [1, -1] + [1] * (x.dim() - 2)
        return x * w.reshape(shape) + b.reshape(shape)
    y = x.reshape(x.shape[0], whole(a, "groups"), x[:1].numel() // whole(a, "groups"))
    y = (y - y.mean(-1, keepdim=True)) * torch.rsqrt(y.var(-1, correction=0, keepdim=True) + real(a, "eps"))
    shape = [1, -1] + [1] * (x.dim() - 2)
    return y.reshape(x.shape) * w.reshape(shape) + b.reshape(shape)


def product(x, dims):
    """torch.prod takes one dim at a time."""
    for dim in dims:
        x = x.prod(dim, keepdim=True)
    return x


SPECIAL = {
    "reshape": lambda ins, a: ins[0].reshape(a["shape"]),
    "expand": lambda ins, a: ins[0].expand(a["shape"]),
    "permute": lambda ins, a: ins[0].permute(a["dims"]),
    "slice": lambda ins, a: ins[0][tuple(slice(*s) for s in zip(a["start"], a["stop"], a["step"]))],
    "pad": lambda ins, a: padded(ins[0], a),
    "concat": lambda ins, a: torch.cat(ins, whole(a, "dim")),
    "cast": lambda ins, a: ins[0],
    "entr": lambda ins, a: torch.special.entr(ins[0]),
    "trunc_divide": lambda ins, a: torch.div(*ins, rounding_mode="trunc"),
    "left_shift": lambda ins, a: torch.bitwise_left_shift(*ins),
    "right_shift": lambda ins, a: torch.bitwise_right_shift(*ins),
    "replica_mean": lambda ins, a: ins[0],
    "variable": lambda ins, a: ins[0],
    "detach": lambda ins, a: ins[0].detach(),
    "where": lambda ins, a: torch.where(*ins),
    "gelu_tanh": lambda ins, a: F.gelu(ins[0], approximate="tanh"),
    "sum": lambda ins, a: ins[0].sum(a["dims"], keepdim=True) if a["dims"] else ins[0],
    "amax": lambda ins, a: ins[0].amax(a["dims"], keepdim=True) if a["dims"] else ins[0],
    "amin": lambda ins, a: ins[0].amin(a["dims"], keepdim=True) if a["dims"] else ins[0],
    "prod": lambda ins, a: product(ins[0], a["dims"]),
    "argmax": lambda ins, a: (
        ins[0].argmax(a["dims"][0], keepdim=True) if len(a["dims"]) == 1 else ins[0].argmax().reshape([1] * ins[0].dim())
    ),
    "softmax": lambda ins, a: torch.softmax(ins[0], whole(a, "dim")),
    "log_softmax": lambda ins, a: torch.log_softmax(ins[0], whole(a, "dim")),
    "cumsum": lambda ins, a: along(torch.cumsum, ins[0], a),
    "cumprod": lambda ins, a: along(torch.cumprod, ins[0], a),
    "logcumsumexp": lambda ins, a: along(torch.logcumsumexp, ins[0], a),
    "sort": lambda ins, a: ordered(ins[0], a)[0],
    "argsort": lambda ins, a: ordered(ins[0], a)[1],
    "cummax": lambda ins, a: along(lambda x, dim: torch.cummax(x, dim)[0], ins[0], a),
    "cummin": lambda ins, a: along(lambda x, dim: torch.cummin(x, dim)[0], ins[0], a),
    "cummax_index": lambda ins, a: place_along(torch.cummax, ins[0], a),
    "cummin_index": lambda ins, a: place_along(torch.cummin, ins[0], a),
    "random": lambda ins, a: random(int(ins[0]), a["shape"]),
    "scatter": lambda ins, a: scattered(ins, a),
    "flip": lambda ins, a: ins[0].flip(a["dims"]),
    "batch_norm": lambda ins, a: batch_norm(ins, a),
    "sync_batch_norm": lambda ins, a: batch_norm(ins, a),
    "sync_batch_moments": lambda ins, a: batch_moments(ins[0]),
    "dropout": lambda ins, a: torch.where(random(int(ins[2]), ins[0].shape) >= ins[1], ins[0] / (1 - ins[1].detach()), 0),
    "layer_norm": lambda ins, a: F.layer_norm(ins[0], ins[0].shape[-whole(a, "dims") :], ins[1], ins[2], real(a, "eps")),
    "rms_norm": lambda ins, a: F.rms_norm(ins[0], ins[0].shape[-whole(a, "dims") :], ins[1], real(a, "eps")),
    "group_norm": lambda ins, a: group_norm(ins, a),
    "embedding": lambda ins, a: F.embedding(ins[1].long(), ins[0]) if ins[0].dim() == 2 else ins[0][ins[1].long()],
    "gather": lambda ins, a: ins[0].gather(whole(a, "dim"), ins[1].long()),
    "cross_entropy": lambda ins, a: F.cross_entropy(
        ins[0],
        ins[1].long(),
        ignore_index=whole(a, "ignore_index"),
        label_smoothing=real(a, "label_smoothing"),
        reduction=("mean", "sum", "none")[whole(a, "reduction")],
    ),
    "conv2d": lambda ins, a: F.conv2d(*ins, None, **windows(a, "stride", "padding", "dilation"), groups=whole(a, "groups")),
    "conv3d": lambda ins, a: F.conv3d(*ins, None, **windows(a, "stride", "padding", "dilation"), groups=whole(a, "groups")),
    "max_pool2d": lambda ins, a: pooled(F.max_pool2d, ins[0], a, dilation=a["dilation"]),
    "avg_pool2d": lambda ins, a: pooled(
        F.avg_pool2d,
        ins[0],
        a,
        count_include_pad=whole(a, "count_include_pad") != 0,
        divisor_override=int(a.get("divisor", 0)) or None,
    ),
    "max_pool2d_indices": lambda ins, a: place_in_windows(ins[0], a),
    "resample2d": lambda ins, a: resample2d(ins[0], a),
    "grid_sample": lambda ins, a: grid_sample(ins, a),
    "digamma": lambda ins, a: Digamma.apply(ins[0]),
    "trigamma": lambda ins, a: trigamma(ins[0]),
    "leaky_relu": lambda ins, a: torch.where(ins[0] > 0, ins[0], ins[0] * ins[1]),
    "hardshrink": lambda ins, a: torch.where(ins[0].abs() > ins[1].detach(), ins[0], 0),
    "softshrink": lambda ins, a: torch.where(
        ins[0] > ins[1], ins[0] - ins[1], torch.where(ins[0] < -ins[1], ins[0] + ins[1], 0 * ins[0])
    ),
    "fft": lambda ins, a: fourier(ins[0], a),
    "multilabel_margin": lambda ins, a: multilabel_margin(ins[0], ins[1]),
    "attention": attention,
    "attention_lse": lambda ins, a: torch.logsumexp(scores_of(ins, a), -1).nan_to_num(neginf=-torch.inf),
    "attention_grad": lambda ins, a: attention_gradient(ins, a),
}


def along(call, x, a):
    dim = whole(a, "dim")
    return call(x.flip(dim), dim).flip(dim) if whole(a, "reverse") else call(x, dim)


def trigamma(x):
    """By Hurwitz's zeta function and reflection: torch.polygamma(1, x) has 11 digits."""
    low = x < 0.5
    right = torch.special.zeta(torch.full_like(x, 2), torch.where(low, 1 - x, x))
    return torch.where(low, (torch.pi / torch.sin(torch.pi * x)) ** 2 - right, right)


class Digamma(torch.autograd.Function):
    """torch.digamma, whose gradient torch makes of that polygamma."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.digamma(x)

    @staticmethod
    def backward(ctx, dy):
        return dy * trigamma(ctx.saved_tensors[0])


def fourier(x, a):
    """ops/fourier.c says what forms, scale and pairs mean."""
    form, inverse, dim, n, scale = whole(a, "form"), whole(a, "inverse"), whole(a, "dim"), whole(a, "length"), real(a, "scale")
    pairs = torch.full([n // 2 + 1] + [1] * (x.dim() - dim - 1 - (form != 1)), real(a, "pairs"), dtype=x.dtype)
    pairs[0] = 1
    if n % 2 == 0:
        pairs[-1] = 1
    if form == 0:
        z = torch.view_as_complex(x.contiguous())
        y = torch.fft.ifft(z, dim=dim, norm="forward") if inverse else torch.fft.fft(z, dim=dim)
        return torch.view_as_real(y) * scale
    if form == 1:
        y = torch.fft.rfft(x, dim=dim)
        y = torch.view_as_real((y.conj() if inverse else y).resolve_conj())
        return y * pairs.unsqueeze(-1) * scale
    z = torch.view_as_complex(x.contiguous()) * pairs
    return torch.fft.irfft(z if inverse else z.conj(), n, dim=dim, norm="forward") * scale


def multilabel_margin(x, labels):
    classes = x.shape[-1]
    rows = x.reshape(-1, classes), labels.long().reshape(-1, classes)
    return F.multilabel_margin_loss(*rows, reduction="none").reshape(*x.shape[:-1], 1) * classes


def gradient_of(op, ins, a):
    """Gradient operators: x or w, then dy; what torch's autograd makes of the operator."""
    base = op.removesuffix("_grad")

    def slope(y, x, dy):
        return torch.autograd.grad(y, x, dy, create_graph=any(i.requires_grad for i in ins))[0]

    if base == "grid_sample_grid":
        grid = ins[1].clone() if ins[1].requires_grad else ins[1].clone().requires_grad_()
        return slope(SPECIAL["grid_sample"]([ins[0], grid], a), grid, ins[2])
    if base == "multilabel_margin":
        x = ins[0].clone() if ins[0].requires_grad else ins[0].clone().requires_grad_()
        return slope(multilabel_margin(x, ins[1]), x, ins[2])
    if base.endswith("_input") or base.endswith("_weight"):
        base, which = base.rsplit("_", 1)
        missing = torch.zeros(a["shape"], dtype=torch.float64, requires_grad=True)
        operands = [missing, ins[0]] if which == "input" else [ins[0], missing]
        return slope(SPECIAL[base](operands, a), missing, ins[1])
    if base in ("avg_pool2d", "resample2d"):
        missing = torch.zeros(a["shape"], dtype=torch.float64, requires_grad=True)
        return slope(SPECIAL[base]([missing], a), missing, ins[0])
    x, dy = torch.broadcast_tensors(*ins[:2]) if base in ("gelu", "gelu_tanh", "silu", "mish") else ins[:2]
    x = x.clone() if x.requires_grad else x.clone().requires_grad_()
    return slope(compute(base, [x], a), x, dy)


def compute(op, ins, a):
    if op in SPECIAL:
        return SPECIAL[op](ins, a)
    if op in MATRICES:
        return MATRICES[op](ins, a)
    if op.endswith("_grad"):
        return gradient_of(op, ins, a)
    call = getattr(torch, op, None) or getattr(F, op, None)
    if call is None:
        raise NoSuch(op)
    return call(*ins)


def dtype_of(word):
    return getattr(torch, word)


def read(folder, number, name, dtype, shape):
    data = bytearray((folder / f"{number}.{name}").read_bytes())
    count = 1
    for size in shape:
        count *= size
    return torch.frombuffer(data, dtype=dtype).reshape(shape) if count else torch.empty(shape, dtype=dtype)


class Leaves:
    """What a graph is computed from, and how a node's value is kept: rounded to its dtype, as the reference does;
    for autograd rounded in value alone."""

    def __init__(self, folder, number, differentiable):
        self.folder, self.number, self.differentiable, self.inputs = folder, number, differentiable, {}

    def input(self, name, dtype, shape):
        x = read(self.folder, self.number, name, dtype, shape)
        if self.differentiable and dtype.is_floating_point:
            x = x.double().requires_grad_()
        self.inputs[name] = x
        return x

    def keep(self, made, dtype):
        if not self.differentiable:
            return made.detach().to(dtype)
        if not dtype.is_floating_point:
            return made.detach().to(dtype)
        if not made.dtype.is_floating_point:
            return made.to(dtype).double()
        made = made.double()
        return made + (made.detach().to(dtype).double() - made.detach()).nan_to_num(0, 0, 0)


def values_of(text, leaves):
    """Of all nodes in order; a message where PyTorch's have another shape."""
    values = []
    for line in text.splitlines():
        node = NODE.match(line)
        if not node:
            continue
        _, op, inputs, rest, dtype, shape = node.groups()
        dtype, shape, a = dtype_of(dtype), numbers(shape), attributes(rest)
        ins = [values[int(i[1:])] for i in inputs.split()]
        if op == "input":
            values.append(leaves.input(a["name"], dtype, shape))
        elif op == "constant":
            values.append(leaves.keep(torch.full(shape, real(a, "value"), dtype=torch.float64).to(dtype), dtype))
        elif op == "literal":
            data = torch.frombuffer(bytearray.fromhex(a["data"]), dtype=dtype) if a["data"] else torch.empty(0, dtype=dtype)
            values.append(leaves.keep(data.reshape(shape), dtype))
        elif op == "iota":
            line_shape = [-1 if d == whole(a, "dim") else 1 for d in range(len(shape))]
            values.append(leaves.keep(torch.arange(shape[whole(a, "dim")]).reshape(line_shape).expand(shape).to(dtype), dtype))
        else:
            wide = [x.double() if x.dtype.is_floating_point else x for x in ins]
            try:
                made = compute(op, wide, a)
            except (RuntimeError, ValueError, TypeError, NotImplementedError, IndexError) as error:
                raise NoSuch(f"{op} of {ins[0].dtype if ins else dtype}") from error
            values.append(leaves.keep(made, dtype))
            if list(values[-1].shape) != shape:
                raise AssertionError(f"{line}\n    torch gives the shape {list(values[-1].shape)}")
    return values


def sinks_of(text):
    return [(sink[1], int(sink[2])) for sink in re.finditer(r'^(?:output|loss) "([^"]*)" %(\d+)', text, re.MULTILINE)]


def allowed_in(text):
    return {name: float(value) for name, value in re.findall(r'# allowed "([^"]*)" (\S+)', text)}


def first_wrong(found, expected, allowed):
    """Where they differ by more, or None."""
    near = (found.double() - expected.double()).abs() <= allowed
    near |= allowed == float("inf")  # a rounding may make it NaN
    bad = ~(near | (found == expected) | ((found != found) & (expected != expected)))
    return tuple(int(i) for i in bad.nonzero()[0]) if bad.any() else None


def check(folder, number):
    """A message where the graph is wrong; None where it is right."""
    text = (folder / f"{number}.txt").read_text()
    allowed, values = allowed_in(text), values_of(text, Leaves(folder, number, False))
    for name, at in sinks_of(text):
        found = values[at]
        expected = read(folder, number, name, found.dtype, list(found.shape))
        wrong = first_wrong(found, expected, allowed[name])
        if wrong is not None:
            return (
                f'graph {number}, output "{name}" at {list(wrong)}: the reference gives {expected[wrong].item()!r}, PyTorch {found[wrong].item()!r}, '  # noqa: E501
                f"allowed to differ by {allowed[name]:.3g}\n{text}"
            )
    return None


def check_autograd(folder, number, differentiated):
    """PyTorch's gradients of the whole graph against those of ours, which are the outputs of the graph `differentiated`."""
    text, ours = (folder / f"{number}.txt").read_text(), (folder / f"{differentiated}.txt").read_text()
    leaves = Leaves(folder, number, True)
    values = values_of(text, leaves)
    shapes = {
        name: (dtype_of(dtype), numbers(shape))
        for name, dtype, shape in re.findall(r'= input name="([^"]*)" .* : (\w+)\[([\d,]*)\]', text + ours)
    }
    pairs = []
    for name, at in sinks_of(text):
        if values[at].requires_grad and f"{name}.grad" in shapes:
            pairs.append((values[at], read(folder, differentiated, f"{name}.grad", *shapes[f"{name}.grad"]).double()))
    wanted = {name: x for name, x in leaves.inputs.items() if x.requires_grad}
    try:
        gradients = (
            torch.autograd.grad([y for y, _ in pairs], list(wanted.values()), [seed for _, seed in pairs], allow_unused=True)
            if pairs
            else [None] * len(wanted)
        )
    except (RuntimeError, NotImplementedError) as error:
        raise NoSuch(f"autograd: {(str(error).splitlines() or [''])[0][:80]}") from error
    allowed, delivered = allowed_in(ours), {name for name, _ in sinks_of(ours)}
    for (name, x), gradient in zip(wanted.items(), gradients):
        if f"{name}.grad" not in delivered:
            continue
        dtype, shape = shapes[name]
        found = torch.zeros(shape, dtype=torch.float64) if gradient is None else gradient
        expected = read(folder, differentiated, f"{name}.grad", dtype, shape)
        wrong = first_wrong(found, expected, allowed[f"{name}.grad"])
        if wrong is not None:
            return (
                f'graph {number}, the gradient of "{name}" at {list(wrong)}: the reference gives {expected[wrong].item()!r}, PyTorch\'s autograd {found[wrong].item()!r}, '  # noqa: E501
                f"allowed to differ by {allowed[name + '.grad']:.3g}\n{text}\n{ours}"
            )
    return None


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.set_num_threads(1)
    right, wrong, left, through = 0, 0, collections.Counter(), 0
    for path in sorted(folder.glob("*.txt"), key=lambda p: int(p.stem)):
        number, gradient = int(path.stem), re.search(r"^# gradient (\d+)", path.read_text(), re.MULTILINE)
        messages = []
        try:
            messages.append(check(folder, number))
            if gradient:
                messages.append(check_autograd(folder, number, int(gradient[1])))
                through += 1
        except NoSuch as reason:
            left[str(reason)] += 1
        except AssertionError as error:
            messages.append(f"graph {number}: {error}")
        right += messages[:1] == [None]
        wrong += any(messages)
        if any(messages) and wrong <= 5:
            print(*filter(None, messages))
    print(
        f"{right} graphs and gradients agree with PyTorch {torch.__version__.split('+')[0]}, {through} of them with its autograd "
        f"as a whole too, {wrong} do not; "
        f"{sum(left.values())} left out for what PyTorch has not:",
        ", ".join(f"{name} {count}" for name, count in left.most_common()),
    )
    return 1 if wrong or not right else 0


if __name__ == "__main__":
    sys.exit(main())
