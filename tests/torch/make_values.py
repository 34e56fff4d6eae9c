# SPDX-License-Identifier: Apache-2.0
"""Writes tests/unit/values/torch_FAMILY.txt: what PyTorch computes for small cases of a family of operators, in float64.

    python3 tests/torch/make_values.py tests/unit/values

A case is an operator with its attributes as a row of text has them (tests/unit/operator_rows.h), its operands, and the PyTorch
function that means the same. Elements are made from a seed by a formula that C repeats exactly, or are listed. The row has the
value, and the gradient of each float64 operand of sum(value * weights), weights made by the formula too. torch_functions.txt has
the values of public functions, by the names that tests/unit/test_composed.c has for them.
"""

import sys

import torch
import torch.nn.functional as F

NAN, INF = float("nan"), float("inf")
FAMILIES = {}


def formula(seed, shape):
    """Element i is a fraction in [-1, 1]; up to 1009 elements are all different. In C: formula in gradient_check.h."""
    numel = torch.Size(shape).numel()
    numbers = [((i * 7919 + seed * 104729) % 1009) / 504.5 - 1 for i in range(numel)]
    return torch.tensor(numbers, dtype=torch.float64).reshape(shape)


def numbers(tensor):
    return "".join(f" {x:.17g}" for x in tensor.detach().double().flatten().tolist())


def typed(tensor):
    return f"{str(tensor.dtype)[6:]}[{','.join(map(str, tensor.shape))}]"


class Operand:
    """Of shape and seed, or of shape, values and dtype."""

    def __init__(self, shape, seed=0, values=None, dtype=torch.float64):
        self.tensor = formula(seed, shape) if values is None else torch.tensor(values, dtype=dtype).reshape(shape)
        self.text = f"({typed(self.tensor)}{f' #{seed}' if values is None else numbers(self.tensor)})"
        self.tensor.requires_grad_(dtype == torch.float64)


def case(family, operator, operands, function, smooth=True):
    """operator: its name and attributes; smooth: differences may be taken around the operands."""
    value = function(*[o.tensor for o in operands])
    value.backward(formula(13, value.shape))
    row = [operator, *[o.text for o in operands], *(["~"] if smooth else []), f"= {typed(value)}{numbers(value)}"]
    row += [f"d{i}{numbers(o.tensor.grad)}" for i, o in enumerate(operands) if o.tensor.requires_grad]
    FAMILIES.setdefault(family, []).append(" ".join(row))


def remark(family, text):
    FAMILIES.setdefault(family, []).append(f"# {text}")


def attributes(**given):
    lists = {name: str(list(value)).replace(" ", "") for name, value in given.items() if isinstance(value, tuple)}
    return "".join(
        f" {name}={lists.get(name, int(value) if isinstance(value, bool) else value)}" for name, value in given.items()
    )


# ---- elementwise: points that have an exact place in every function, and gradients where differences cannot tell them ----
POINTS = [-1, 0, 1, 4, INF, NAN]
for op in ("exp", "log", "log1p", "expm1", "sin", "cos", "softplus", "sqrt", "rsqrt", "tanh", "sigmoid", "erf"):
    function = F.softplus if op == "softplus" else getattr(torch, op)
    case("map", op, [Operand((2, 3), values=POINTS)], function, smooth=False)
    if op in ("log1p", "expm1", "sin", "cos", "softplus"):
        case("map", op, [Operand((3, 4), 4)], function)
for op, values in (("log1p", [1e-20]), ("expm1", [1e-20]), ("softplus", [-40, 1000]), ("relu", [0, NAN, -1, 2]), ("abs", [NAN])):
    function = F.softplus if op == "softplus" else getattr(torch, op)
    case("map", op, [Operand((len(values),), values=values)], function, smooth=False)
for op, way in (("gelu", "none"), ("gelu_tanh", "tanh")):
    case("map", op, [Operand((3, 4), 6)], lambda x, way=way: F.gelu(x, approximate=way))
    case("map", op, [Operand((4,), values=[-1, 0, 1, 3])], lambda x, way=way: F.gelu(x, approximate=way))


# ---- convolution and pooling ----
def conv(x, w, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    given = attributes(stride=stride, padding=padding, dilation=dilation, groups=groups)
    case(
        "conv",
        "conv2d" + given,
        [Operand(x, 1), Operand(w, 2)],
        lambda x, w: F.conv2d(x, w, None, stride, padding, dilation, groups),
    )


conv((2, 2, 5, 4), (3, 2, 3, 3))
remark("conv", "stride, padding and dilation of each axis")
conv((1, 2, 6, 5), (3, 2, 3, 2), (2, 1), (1, 0), (1, 2))
conv((2, 4, 5, 5), (4, 2, 3, 3), (2, 2), (1, 1), (1, 1), 2)
remark("conv", "depthwise, one result a channel and two")
conv((1, 3, 4, 4), (3, 1, 2, 2), groups=3)
conv((1, 2, 5, 5), (4, 1, 3, 3), (3, 3), (2, 2), (2, 2), 2)
remark("conv", "rows left over; a kernel as large as the padded input; more padding than kernel")
conv((2, 3, 4, 3), (2, 3, 1, 1), (2, 2))
conv((1, 1, 3, 3), (2, 1, 5, 5), (1, 1), (1, 1))
conv((1, 1, 2, 3), (1, 1, 2, 2), (1, 1), (3, 3))


def pool(op, x, kernel, stride, padding=(0, 0), dilation=(1, 1), ceil=False, include=True, values=None):
    given = attributes(
        kernel=kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil, count_include_pad=include
    )
    if op == "max_pool2d":
        function = lambda x: F.max_pool2d(x, kernel, stride, padding, dilation, ceil)
    else:
        function = lambda x: F.avg_pool2d(x, kernel, stride, padding, ceil, include)
    case("conv", op + given, [Operand(x, 3, values)], function, smooth=values is None)


pool("max_pool2d", (1, 2, 6, 6), (2, 2), (2, 2))
pool("max_pool2d", (2, 1, 5, 7), (3, 3), (2, 2), (1, 1))
remark("conv", "ceil_mode adds a window, and drops one in the padding")
pool("max_pool2d", (1, 1, 6, 6), (3, 3), (2, 2), ceil=True)
pool("max_pool2d", (1, 1, 5, 5), (2, 2), (3, 3), (1, 1), ceil=True)
pool("max_pool2d", (1, 1, 7, 6), (3, 2), (1, 2), (1, 1), (2, 2))
remark("conv", "no batch; ties")
pool("max_pool2d", (2, 4, 4), (2, 2), (2, 2))
pool("max_pool2d", (1, 1, 2, 4), (2, 2), (2, 2), values=[1, 1, -INF, -INF, 1, 0, -INF, -INF])
pool("avg_pool2d", (1, 2, 6, 6), (2, 2), (2, 2))
remark("conv", "padding counts, or does not; with ceil_mode, too")
pool("avg_pool2d", (2, 1, 5, 7), (3, 3), (2, 2), (1, 1))
pool("avg_pool2d", (2, 1, 5, 7), (3, 3), (2, 2), (1, 1), include=False)
pool("avg_pool2d", (1, 1, 6, 6), (3, 3), (2, 2), (1, 1), ceil=True)
pool("avg_pool2d", (1, 1, 6, 6), (3, 3), (2, 2), (1, 1), ceil=True, include=False)
pool("avg_pool2d", (1, 1, 5, 7), (3, 2), (2, 3), (1, 1), ceil=True)
pool("avg_pool2d", (1, 1, 5, 5), (2, 2), (3, 3), (1, 1), ceil=True)
pool("avg_pool2d", (2, 4, 4), (3, 2), (1, 2))

# ---- products, softmax, norms, rows by index ----
for a, b in (((2, 3), (3, 4)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 2)), ((2, 1, 3, 4), (5, 4, 2)), ((2, 3, 2), (1, 2, 3))):
    case("nn", "matmul", [Operand(a, 4), Operand(b, 5)], torch.matmul)
for op, function in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
    for dim in range(3):
        case("nn", f"{op} dim={dim}", [Operand((2, 3, 4), 7)], lambda x, f=function, d=dim: f(x, d))
    large = Operand((2, 3), values=[1000, -1000, 999, 0, -INF, 1])
    case("nn", f"{op} dim=1", [large], lambda x, f=function: f(x, 1), smooth=False)
for count, shape, eps in ((1, (2, 3, 4), 1e-5), (2, (2, 3, 4), 1e-5), (2, (3, 4), 0.5)):
    last = shape[len(shape) - count :]
    operands = [Operand(shape, 8), Operand(last, 9), Operand(last, 10)]
    case("nn", f"layer_norm dims={count} eps={eps}", operands, lambda x, w, b, s=last, e=eps: F.layer_norm(x, s, w, b, e))


def index(*values):
    return Operand((2, 3), values=values, dtype=torch.int64)


case("nn", "embedding", [Operand((5, 3), 11), index(4, 0, 2, 4, 4, 1)], lambda w, i: F.embedding(i, w))
case("nn", "gather dim=0", [Operand((5, 3), 11), index(4, 0, 2, 4, 4, 1)], lambda x, i: x.gather(0, i))
case(
    "nn",
    "scatter dim=0 reduce=0",
    [Operand((5, 3), 13), index(4, 0, 2, 3, 4, 1), Operand((2, 3), 14)],
    lambda x, i, s: x.scatter(0, i, s),
)
for reduce, way in enumerate(("sum", "prod", "amax", "amin"), 1):
    operands = [Operand((5, 3), 13), index(4, 0, 2, 4, 4, 1), Operand((2, 3), 14)]
    case("nn", f"scatter dim=0 reduce={reduce}", operands, lambda x, i, s, way=way: x.scatter_reduce(0, i, s, way))


def cross_entropy(labels, ignored=-100, smoothing=0.0, reduction="mean", dtype=torch.int64, logits=None, smooth=True):
    number = ["mean", "sum", "none"].index(reduction)
    given = attributes(ignore_index=ignored, label_smoothing=smoothing, reduction=number)
    operands = [Operand((len(labels), 4), 12, logits), Operand((len(labels),), values=labels, dtype=dtype)]
    function = lambda x, y: F.cross_entropy(x, y.long(), None, None, ignored, None, reduction, smoothing)
    case("nn", "cross_entropy" + given, operands, function, smooth)


cross_entropy([3, 0, 1])
cross_entropy([3, 0, 1], reduction="sum", dtype=torch.int32)
cross_entropy([3, 0, 1], reduction="none")
remark("nn", "some are ignored, or a class is")
cross_entropy([3, -100, 1])
cross_entropy([3, 1, 1, 0], ignored=1)
cross_entropy([3, -7, 1], ignored=-7, reduction="none")
cross_entropy([3, -100, 1], smoothing=0.1)
cross_entropy([3, 2, -100, 1], smoothing=0.3, reduction="sum")
cross_entropy([3, 2, -1], ignored=-1, smoothing=0.25, reduction="none")
cross_entropy([3, 2, 1], smoothing=1.0)
remark("nn", "all are ignored; impossible classes")
cross_entropy([-100, -100], reduction="sum")
cross_entropy([-100, -100], smooth=False)
cross_entropy([0, 3], logits=[1000, 0, -INF, 5, 2, -INF, 1, -1000], smooth=False)


# ---- attention: the operator's result has heads behind positions ----
def attention(q, k, v, causal=False, scale=None, mask=None):
    given = attributes(causal=causal, masked=mask is not None, scale=scale or q[-1] ** -0.5)
    operands = [Operand(q, 14), Operand(k, 15), Operand(v, 16)]
    if mask is not None:
        operands.append(Operand(mask[0], values=mask[1], dtype=torch.bool))

    def function(q, k, v, m=None):
        return F.scaled_dot_product_attention(q, k, v, m, 0.0, causal, scale=scale, enable_gqa=True).transpose(1, 2)

    case("attention", "attention" + given, operands, function)


attention((2, 2, 3, 4), (2, 2, 3, 4), (2, 2, 3, 4))
remark("attention", "causal; with more keys, and with more queries")
attention((1, 2, 5, 3), (1, 2, 5, 3), (1, 2, 5, 3), causal=True)
attention((2, 1, 3, 4), (2, 1, 5, 4), (2, 1, 5, 2), causal=True)
attention((1, 1, 5, 4), (1, 1, 3, 4), (1, 1, 3, 6), causal=True, scale=0.8)
remark("attention", "heads share keys; a negative scale; a mask of keys; a query that sees nothing")
attention((1, 4, 3, 2), (1, 2, 3, 2), (1, 2, 3, 2), causal=True)
attention((1, 1, 2, 3), (1, 1, 4, 3), (1, 1, 4, 3), scale=-1.5)
attention((2, 2, 2, 3), (2, 2, 4, 3), (2, 2, 4, 3), mask=((2, 1, 1, 4), [1, 1, 0, 1, 0, 1, 1, 0]))
attention((1, 2, 3, 2), (1, 2, 3, 2), (1, 2, 3, 2), mask=((3, 3), [1, 0, 1, 0, 0, 0, 0, 1, 1]))


# ---- public functions ----
def function(name, value):
    FAMILIES.setdefault("functions", []).append(f"{name} = {typed(value)}{numbers(value)}")


x, y, label = formula(17, (2, 3)), formula(18, (2, 3)), torch.tensor([2, 0])
function("mse", F.mse_loss(x, y))
function("huber", F.huber_loss(x, y, reduction="sum"))
function("triplet", F.triplet_margin_loss(x, y, -x))
function("poisson", F.poisson_nll_loss(x, y))
function("gaussian", F.gaussian_nll_loss(x, y, torch.full_like(x, 2)))
function("multi_margin", F.multi_margin_loss(x, label))
function("hinge", F.hinge_embedding_loss(x, torch.tensor([[1.0, -1, 1], [-1, -1, 1]])))
function("softmin", F.softmin(x, 1))
function("distances", torch.cdist(x, y))
function("cross_entropy", F.cross_entropy(x, label))
image, flat = formula(21, (1, 2, 7, 5)), {"mode": "bilinear", "antialias": True}
function("bilinear", F.interpolate(image, (3, 8), mode="bilinear"))
function("bilinear antialias", F.interpolate(image, (3, 8), **flat))
function("bicubic antialias", F.interpolate(image, (2, 4), mode="bicubic", antialias=True))
function("bicubic corners", F.interpolate(image, (9, 3), mode="bicubic", align_corners=True))
function("nearest-exact", F.interpolate(image, (3, 8), mode="nearest-exact"))
for places in (1, 2, 3):
    signal, pool = formula(22, (1, 2, 7, 5, 3)[: 2 + places]), getattr(F, f"adaptive_max_pool{places}d")
    function(f"adaptive_max_pool{places}d indices", pool(signal, (3, 2, 2)[:places], return_indices=True)[1].double())


def rotary(name, at, dims=8, base=10000.0, interleaved=False, angles=None):
    """Pairs of features are turned by angles, at base^(-2 pair / dims) each unless they are given."""
    x = formula(19, (2, 5, 8))
    turned, pairs = x[..., :dims], torch.arange(dims // 2, dtype=torch.float64)
    angles = at[:, None] * base ** (-2 * pairs / dims) if angles is None else angles[:, None]
    a, b = (turned[..., ::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    both = a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()
    turned = torch.stack(both, -1).flatten(-2) if interleaved else torch.cat(both, -1)
    function(name, torch.cat([turned, x[..., dims:]], -1))


places = torch.tensor([3, 0, 7, 1, 2], dtype=torch.float64)
rotary("rotary", torch.arange(5))
rotary("rotary interleaved", torch.arange(5), interleaved=True)
rotary("rotary of a part", places, dims=4, base=100.0)
rotary("rotary interleaved of a part", places, dims=6, base=500.0, interleaved=True)
rotary("rotary given", None, angles=places)
rotary("rotary interleaved given", None, dims=4, interleaved=True, angles=places)

HEAD = f"""# SPDX-License-Identifier: Apache-2.0
# Written by tests/torch/make_values.py with PyTorch {torch.__version__.split("+")[0]}; do not edit.
"""
TOLERANCES = {
    "map": "tolerance 1e-15 0",
    "functions": "# name = type and elements",
}  # else of sums: in another order they differ by some roundings

for family, rows in FAMILIES.items():
    with open(f"{sys.argv[1]}/torch_{family}.txt", "w") as file:
        print(HEAD + TOLERANCES.get(family, "tolerance 1e-10 1e-3"), *rows, sep="\n", file=file)
