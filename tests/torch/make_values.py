# SPDX-License-Identifier: Apache-2.0
"""Writes tests/unit/torch_values_FAMILY.h: what PyTorch computes for small cases of a family of operators, in float64.

    python3 tests/torch/make_values.py tests/unit

A case is an operator, its attributes in C, its inputs, and the PyTorch function that means the same. Inputs are made from a
seed by a formula that C repeats exactly, or are listed; so the header holds little but results: the output, and the gradient
of each floating input of sum(output * weights), weights made by the formula too.
"""

import sys
import textwrap

import torch
import torch.nn.functional as F

NAN, INF = float("nan"), float("inf")


def formula(seed, shape):
    """Element i is a fraction in [-1, 1]; up to 1009 elements are all different. In C: torch_formula in torch_check.h."""
    numel = torch.Size(shape).numel()
    numbers = [((i * 7919 + seed * 104729) % 1009) / 504.5 - 1 for i in range(numel)]
    return torch.tensor(numbers, dtype=torch.float64).reshape(shape)


class Input:
    def __init__(self, shape, seed=0, values=None, dtype="FLOAT64"):
        self.shape, self.seed, self.values, self.dtype = shape, seed, values, dtype

    def tensor(self):
        if self.values is None:
            result = formula(self.seed, self.shape)
        else:
            dtype = {"FLOAT64": torch.float64, "BOOL": torch.bool}.get(self.dtype, torch.int64)
            result = torch.tensor(self.values, dtype=dtype).reshape(self.shape)
        return result.requires_grad_(self.dtype == "FLOAT64")


def number(value):
    return "NAN" if value != value else "INFINITY" if value == INF else "-INFINITY" if value == -INF else "%.14g" % value


def dims(values):
    return "{%d, {%s}}" % (len(values), ", ".join(str(v) for v in values)) if values else "{0}"


GROUPS = {}


def case(group, op, name, attrs, inputs, function, smooth=True):
    """smooth: differences may be taken around the inputs."""
    GROUPS.setdefault(group, []).append((op, name, attrs, inputs, function, smooth))


def conv(name, x, w, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    attrs = "{.conv = {.stride = %s, .padding = %s, .dilation = %s, .groups = %d}}" % (
        dims(stride),
        dims(padding),
        dims(dilation),
        groups,
    )
    case(
        "conv",
        "conv2d",
        name,
        attrs,
        [Input(x, 1), Input(w, 2)],
        lambda x, w: F.conv2d(x, w, None, stride, padding, dilation, groups),
    )


conv("plain", (2, 2, 5, 4), (3, 2, 3, 3))
conv("stride, padding and dilation of each axis", (1, 2, 6, 5), (3, 2, 3, 2), (2, 1), (1, 0), (1, 2))
conv("groups", (2, 4, 5, 5), (4, 2, 3, 3), (2, 2), (1, 1), (1, 1), 2)
conv("depthwise", (1, 3, 4, 4), (3, 1, 2, 2), groups=3)
conv("depthwise, two results a channel", (1, 2, 5, 5), (4, 1, 3, 3), (3, 3), (2, 2), (2, 2), 2)
conv("rows left over", (2, 3, 4, 3), (2, 3, 1, 1), (2, 2))
conv("kernel as large as the padded input", (1, 1, 3, 3), (2, 1, 5, 5), (1, 1), (1, 1))
conv("more padding than kernel", (1, 1, 2, 3), (1, 1, 2, 2), (1, 1), (3, 3))


def pool(op, name, x, kernel, stride, padding=(0, 0), dilation=(1, 1), ceil=False, include=True, values=None):
    attrs = "{.pool2d = {.kernel = %s, .stride = %s, .padding = %s,\n      .dilation = %s, " % (
        dims(kernel),
        dims(stride),
        dims(padding),
        dims(dilation),
    )
    attrs += ".ceil_mode = %d, .count_include_pad = %d}}" % (ceil, include)
    if op == "max_pool2d":
        function = lambda x: F.max_pool2d(x, kernel, stride, padding, dilation, ceil)
    else:
        function = lambda x: F.avg_pool2d(x, kernel, stride, padding, ceil, include)
    case("conv", op, name, attrs, [Input(x, 3, values)], function, smooth=values is None)


pool("max_pool2d", "plain", (1, 2, 6, 6), (2, 2), (2, 2))
pool("max_pool2d", "overlap and padding", (2, 1, 5, 7), (3, 3), (2, 2), (1, 1))
pool("max_pool2d", "ceil_mode adds a window", (1, 1, 6, 6), (3, 3), (2, 2), ceil=True)
pool("max_pool2d", "ceil_mode drops a window in the padding", (1, 1, 5, 5), (2, 2), (3, 3), (1, 1), ceil=True)
pool("max_pool2d", "dilation", (1, 1, 7, 6), (3, 2), (1, 2), (1, 1), (2, 2))
pool("max_pool2d", "no batch", (2, 4, 4), (2, 2), (2, 2))
pool("max_pool2d", "ties", (1, 1, 2, 4), (2, 2), (2, 2), values=[1, 1, -INF, -INF, 1, 0, -INF, -INF])
pool("avg_pool2d", "plain", (1, 2, 6, 6), (2, 2), (2, 2))
pool("avg_pool2d", "padding counts", (2, 1, 5, 7), (3, 3), (2, 2), (1, 1))
pool("avg_pool2d", "padding does not count", (2, 1, 5, 7), (3, 3), (2, 2), (1, 1), include=False)
pool("avg_pool2d", "ceil_mode, padding counts", (1, 1, 6, 6), (3, 3), (2, 2), (1, 1), ceil=True)
pool("avg_pool2d", "ceil_mode, padding does not count", (1, 1, 6, 6), (3, 3), (2, 2), (1, 1), ceil=True, include=False)
pool("avg_pool2d", "ceil_mode, each axis", (1, 1, 5, 7), (3, 2), (2, 3), (1, 1), ceil=True)
pool("avg_pool2d", "ceil_mode drops a window in the padding", (1, 1, 5, 5), (2, 2), (3, 3), (1, 1), ceil=True)
pool("avg_pool2d", "no batch", (2, 4, 4), (3, 2), (1, 2))

NONE = "{.none = {0}}"
for name, a, b in [
    ("matrices", (2, 3), (3, 4)),
    ("batch by weight", (2, 3, 4), (4, 5)),
    ("weight by batch", (3, 4), (2, 4, 2)),
    ("batches broadcast", (2, 1, 3, 4), (5, 4, 2)),
    ("one batch for all", (2, 3, 2), (1, 2, 3)),
]:
    case("nn", "matmul", name, NONE, [Input(a, 4), Input(b, 5)], torch.matmul)
case("nn", "gelu", "erf", NONE, [Input((3, 4), 6)], F.gelu)
case("nn", "gelu_tanh", "tanh", NONE, [Input((3, 4), 6)], lambda x: F.gelu(x, approximate="tanh"))
for op, function in [
    ("log1p", torch.log1p),
    ("expm1", torch.expm1),
    ("sin", torch.sin),
    ("cos", torch.cos),
    ("softplus", F.softplus),
]:
    case("nn", op, "plain", NONE, [Input((3, 4), 4)], function)
for op, function in [("softmax", torch.softmax), ("log_softmax", torch.log_softmax)]:
    for dim in range(3):
        case("nn", op, "dim %d" % dim, "{.axis = {.dim = %d}}" % dim, [Input((2, 3, 4), 7)], lambda x, f=function, d=dim: f(x, d))
    case(
        "nn",
        op,
        "large and infinite",
        "{.axis = {.dim = 1}}",
        [Input((2, 3), values=[1000, -1000, 999, 0, -INF, 1])],
        lambda x, f=function: f(x, 1),
        smooth=False,
    )
for name, count, shape, eps in [
    ("last dim", 1, (2, 3, 4), 1e-5),
    ("two dims", 2, (2, 3, 4), 1e-5),
    ("all dims, large eps", 2, (3, 4), 0.5),
]:
    last = shape[len(shape) - count :]
    case(
        "nn",
        "layer_norm",
        name,
        "{.norm = {.dims = %d, .eps = %r}}" % (count, eps),
        [Input(shape, 8), Input(last, 9), Input(last, 10)],
        lambda x, w, b, s=last, e=eps: F.layer_norm(x, s, w, b, e),
    )
case(
    "nn",
    "embedding",
    "repeated indices",
    NONE,
    [Input((5, 3), 11), Input((2, 3), values=[4, 0, 2, 4, 4, 1], dtype="INT64")],
    lambda w, i: F.embedding(i, w),
)
case(
    "nn",
    "gather",
    "repeated indices",
    "{.gather = {.dim = 0}}",
    [Input((5, 3), 11), Input((2, 3), values=[4, 0, 2, 4, 4, 1], dtype="INT64")],
    lambda x, i: x.gather(0, i),
)
for reduce, way in enumerate(("", "sum", "prod", "amax", "amin")):
    case(
        "nn",
        "scatter",
        way or "distinct indices",
        "{.scatter = {.dim = 0, .reduce = %d}}" % reduce,
        [
            Input((5, 3), 13),
            Input((2, 3), values=[4, 0, 2, 4, 4, 1] if way else [4, 0, 2, 3, 4, 1], dtype="INT64"),
            Input((2, 3), 14),
        ],
        lambda x, i, s, way=way: x.scatter_reduce(0, i, s, way) if way else x.scatter(0, i, s),
    )


def cross_entropy(
    name, labels, ignore_index=-100, label_smoothing=0.0, reduction="mean", dtype="INT64", logits=None, smooth=True
):
    attrs = "{.cross_entropy = {.ignore_index = %d, .label_smoothing = %r, .reduction = %d}}" % (
        ignore_index,
        label_smoothing,
        ["mean", "sum", "none"].index(reduction),
    )
    rows = len(labels)
    case(
        "nn",
        "cross_entropy",
        name,
        attrs,
        [Input((rows, 4), 12, logits), Input((rows,), values=labels, dtype=dtype)],
        lambda x, l: F.cross_entropy(x, l, None, None, ignore_index, None, reduction, label_smoothing),
        smooth,
    )


cross_entropy("mean", [3, 0, 1])
cross_entropy("sum, int32 labels", [3, 0, 1], reduction="sum", dtype="INT32")
cross_entropy("none", [3, 0, 1], reduction="none")
cross_entropy("mean of those not ignored", [3, -100, 1])
cross_entropy("ignore_index is a class", [3, 1, 1, 0], ignore_index=1)
cross_entropy("none, ignored", [3, -7, 1], ignore_index=-7, reduction="none")
cross_entropy("smoothed mean", [3, -100, 1], label_smoothing=0.1)
cross_entropy("smoothed sum", [3, 2, -100, 1], label_smoothing=0.3, reduction="sum")
cross_entropy("smoothed, none", [3, 2, -1], ignore_index=-1, label_smoothing=0.25, reduction="none")
cross_entropy("smoothed all the way", [3, 2, 1], label_smoothing=1.0)
cross_entropy("all ignored, sum", [-100, -100], reduction="sum")
cross_entropy("all ignored, mean", [-100, -100], smooth=False)
cross_entropy("impossible classes", [0, 3], logits=[1000, 0, -INF, 5, 2, -INF, 1, -1000], smooth=False)


def attention(name, q, k, v, causal=False, scale=None, mask=None):
    """The operator's result has heads behind positions."""
    attrs = "{.attention = {.causal = %d, .masked = %d, .scale = %r}}" % (causal, mask is not None, scale or q[-1] ** -0.5)
    inputs = [Input(q, 14), Input(k, 15), Input(v, 16)]
    if mask is not None:
        inputs.append(Input(mask[0], values=mask[1], dtype="BOOL"))
    case(
        "attention",
        "attention",
        name,
        attrs,
        inputs,
        lambda q, k, v, m=None: F.scaled_dot_product_attention(q, k, v, m, 0.0, causal, scale=scale, enable_gqa=True).transpose(
            1, 2
        ),
    )


attention("plain", (2, 2, 3, 4), (2, 2, 3, 4), (2, 2, 3, 4))
attention("causal", (1, 2, 5, 3), (1, 2, 5, 3), (1, 2, 5, 3), causal=True)
attention("causal, more keys", (2, 1, 3, 4), (2, 1, 5, 4), (2, 1, 5, 2), causal=True)
attention("causal, more queries, scale", (1, 1, 5, 4), (1, 1, 3, 4), (1, 1, 3, 6), causal=True, scale=0.8)
attention("heads share keys", (1, 4, 3, 2), (1, 2, 3, 2), (1, 2, 3, 2), causal=True)
attention("negative scale", (1, 1, 2, 3), (1, 1, 4, 3), (1, 1, 4, 3), scale=-1.5)
attention("mask of keys", (2, 2, 2, 3), (2, 2, 4, 3), (2, 2, 4, 3), mask=((2, 1, 1, 4), [1, 1, 0, 1, 0, 1, 1, 0]))
attention("a query sees nothing", (1, 2, 3, 2), (1, 2, 3, 2), (1, 2, 3, 2), mask=((3, 3), [1, 0, 1, 0, 0, 0, 0, 1, 1]))


HEAD = """/* SPDX-License-Identifier: Apache-2.0
 *
 * Written by tests/torch/make_values.py with PyTorch %s; do not edit.
 * Included behind tests/unit/torch_check.h, which says what it holds. */

/* clang-format off */""" % torch.__version__.split("+")[0]


def write(group, cases, file):
    numbers, rows = [], []
    for op, name, attrs, inputs, function, smooth in cases:
        first = len(numbers)
        tensors = [i.tensor() for i in inputs]
        output = function(*tensors)
        output.backward(formula(13, output.shape))
        listed = [t for i, t in zip(inputs, tensors) if i.values is not None]
        for tensor in listed + [output] + [t.grad for t in tensors if t.grad is not None]:
            numbers += tensor.detach().flatten().tolist()
        operands = ["{SAMBA_%s, %s, %d}" % (i.dtype, dims(i.shape), i.seed if i.values is None else -1) for i in inputs]
        rows.append(
            '    {"%s", SAMBA_OP_%s, %s, %d, %d,\n     %s,\n     {%s}, %s},'
            % (name, op, "true" if smooth else "false", first, len(inputs), attrs, ", ".join(operands), dims(output.shape))
        )
    indent = "    "
    text = textwrap.fill(
        ", ".join(map(number, numbers)), 126, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
    print(HEAD, file=file)
    print("static const double torch_%s_numbers[] = {\n%s};" % (group, text), file=file)
    print("static const torch_case torch_%s_cases[] = {\n%s\n};" % (group, "\n".join(rows)), file=file)


for group, cases in GROUPS.items():
    with open(f"{sys.argv[1]}/torch_values_{group}.h", "w") as file:
        write(group, cases, file)
