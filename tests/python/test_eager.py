# SPDX-License-Identifier: Apache-2.0
"""Operations on SambaTensors outside tracing:
every function that has a rule gives torch's values and gradients, through the library's kernels."""

import copy
import gc
import itertools
import math
import resource
import threading
import warnings
import weakref

import pytest
import torch
import torch.nn.functional as F

import sambaflow.samba as samba
from sambaflow.errors import ArgumentError, ShapeError
from sambaflow.samba import eager

torch.manual_seed(1)


def _n(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype)


def _p(*shape):
    return torch.rand(shape) + 0.5


def _i(high, *shape):
    return torch.randint(high, shape)


X, Y = _n(3, 4), _n(3, 4)
SCALE, SIGNS, SIGN = _p(4), torch.tensor([1.0, -1.0, 1.0]), torch.sign(Y)
STATISTICS = _n(3), _p(3), SCALE, SIGNS, SIGN  # have no gradients
LSTM = [_n(2, 3, 5), (_n(1, 3, 4), _n(1, 3, 4)), [_n(16, 5), _n(16, 4), _n(16), _n(16)], True, 1, 0.0, False, False, False]
GRU = [_n(2, 3, 5), _n(1, 3, 4), [_n(12, 5), _n(12, 4), _n(12), _n(12)], True, 1, 0.0, False, False, False]
RNN = [_n(2, 3, 5), _n(1, 3, 4), [_n(4, 5), _n(4, 4), _n(4), _n(4)], True, 1, 0.0, False, False, False]


def _matrix(make, vectors):
    """A matrix whose vectors have the signs in torch that the library gives them: docs/linear-algebra.md."""
    while True:
        a = make(torch.randn(3, 3))
        v = vectors(a)
        if (v.gather(0, (v.abs() > 0.37 * v.abs().amax(0)).int().argmax(0, keepdim=True)) > 0).all():
            return a


REGULAR = _n(3, 3) + 4 * torch.eye(3)
DEFINITE = X @ X.T + torch.eye(3)
LOWER = torch.linalg.cholesky(DEFINITE)
SYMMETRIC = _matrix(lambda a: a + a.T + torch.diag(torch.tensor([0.0, 4.0, 9.0])), lambda a: torch.linalg.eigh(a).eigenvectors)
SQUARE = _matrix(lambda a: a + torch.diag(torch.tensor([2.0, 5.0, 9.0])), lambda a: torch.linalg.svd(a).U)
# name -> calls, each (arguments, keywords). A name that is not here is tried with the arguments in GUESSES.
CASES = {
    "pow": [((_p(3, 4), 2.5), {}), ((_p(3, 4), _n(4)), {})],
    "__pow__": [((_p(3, 4), 3), {})],
    "__rpow__": [((X, 2.0), {})],
    "log": [((_p(3, 4),), {})],
    "sqrt": [((_p(3, 4),), {})],
    "rsqrt": [((_p(3, 4),), {})],
    "reciprocal": [((_p(3, 4),), {})],
    "div": [((X, _p(4)), {}), ((_i(5, 3), 2), {})],
    "add": [((X, Y), {}), ((X, _n(4)), {"alpha": 0.5}), ((X, 2.5), {}), ((_i(9, 3), 1.5), {})],
    "sub": [((X, Y), {"alpha": 2}), ((X, 1), {})],
    "rsub": [((X, 2.0), {}), ((X, Y), {})],
    "where": [((X > 0, X, Y), {}), ((X > 0, X, 0.0), {})],
    "masked_fill": [((X, X > 0, -1.5), {})],
    "clamp": [((X, -0.5, 0.5), {}), ((X,), {"max": 0.25})],
    "gelu": [((X,), {}), ((X,), {"approximate": "tanh"})],
    "logical_and": [((X > 0, Y > 0), {})],
    "logical_or": [((X > 0, Y > 0), {})],
    "logical_not": [((X > 0,), {})],
    "bitwise_not": [((X > 0,), {})],
    "__invert__": [((X > 0,), {})],
    "sum": [((X,), {}), ((X, [1], True), {}), ((_i(9, 3, 4), [0]), {})],
    "mean": [((X,), {}), ((X, [0]), {})],
    "amax": [((X, [1]), {})],
    "amin": [((X, [0], True), {})],
    "argmax": [((X,), {}), ((X, 1), {})],
    "var": [((X, [1]), {"correction": 1}), ((X, [0]), {"correction": 0})],
    "matmul": [((_n(2, 3, 4), _n(4, 5)), {}), ((_n(4), _n(4)), {})],
    "__matmul__": [((X, _n(4, 2)), {})],
    "mm": [((X, _n(4, 2)), {})],
    "bmm": [((_n(2, 3, 4), _n(2, 4, 5)), {})],
    "addmm": [((_n(5), X, _n(4, 5)), {"beta": 0.5, "alpha": 2.0})],
    "addmv": [((_n(3), X, _n(4)), {"beta": 0.5, "alpha": 2.0})],
    "addr": [((X, _n(3), _n(4)), {"beta": 0.5})],
    "addbmm": [((_n(3, 5), _n(2, 3, 4), _n(2, 4, 5)), {"alpha": 2.0})],
    "einsum": [(("ij,kj->ik", X, Y), {}), ((X, [0, 1], Y, [2, 1]), {})],
    "linalg_multi_dot": [(([X, _n(4, 2), _n(2, 5)],), {})],
    "chain_matmul": [((X, _n(4, 2), _n(2, 5)), {})],
    "baddbmm": [((_n(2, 3, 5), _n(2, 3, 4), _n(2, 4, 5)), {})],
    "linear": [((X, _n(5, 4), _n(5)), {}), ((X, _n(5, 4)), {})],
    "conv2d": [((_n(2, 4, 6, 5), _n(6, 2, 3, 3), _n(6)), {"padding": 1, "stride": 2, "groups": 2})],
    "layer_norm": [((X, [4], _n(4), _n(4)), {}), ((X, [3, 4]), {})],
    "rms_norm": [((X, [4], _n(4)), {})],
    "embedding": [((_i(7, 3, 2), _n(7, 4)), {})],
    "softmax": [((X, 1), {})],
    "log_softmax": [((X, 0), {})],
    "multi_head_attention_forward": [
        ((_n(3, 2, 4), _n(5, 2, 4), _n(5, 2, 4), 4, 2, _n(12, 4), _n(12), None, None, False, 0.0, _n(4, 4), _n(4)), {}),
        (
            (_n(3, 4), _n(5, 4), _n(5, 4), 4, 2, _n(12, 4), None, _n(1, 1, 4), _n(1, 1, 4), True, 0.0, _n(4, 4), None),
            {"need_weights": False},
        ),
    ],
    "scaled_dot_product_attention": [((_n(2, 2, 4, 8), _n(2, 2, 4, 8), _n(2, 2, 4, 8)), {"is_causal": True})],
    **{
        f"{name}{d}d{also}": [((_n(2, 3, *[6, 7, 5][:d]), 2), {}), ((_n(3, *[6, 7, 5][:d]), 3, 2, 1), {"ceil_mode": True})]
        for name, d, also in itertools.product(("max_pool", "avg_pool"), (1, 2, 3), ("", "_with_indices"))
    },
    **{f"lp_pool{d}d": [((_p(2, 3, *[6, 7, 5][:d]), 2.0, 2), {})] for d in (1, 2, 3)},
    "batch_norm": [
        ((_n(5, 3, 2), None, None, _n(3), _n(3)), {"training": True}),
        ((_n(5, 3), *STATISTICS[:2], _n(3), _n(3)), {}),
    ],
    "cross_entropy": [((_n(5, 4), _i(4, 5)), {}), ((_n(5, 4), _i(4, 5)), {"label_smoothing": 0.1, "reduction": "sum"})],
    "mse_loss": [((X, Y), {})],
    "l1_loss": [((X, Y), {"reduction": "none"})],
    "lstm": [(LSTM, {})],
    "gru": [(GRU, {})],
    "rnn_tanh": [(RNN, {})],
    "rnn_relu": [(RNN, {})],
    "cat": [(([X, _n(2, 4)],), {})],
    "stack": [(([X, Y], 1), {})],
    "pad": [((X, (1, 2, 0, 1)), {"value": 1.5})],
    "constant_pad_nd": [((X, [1, 2], 1.5), {})],
    "repeat": [((X, 2, 3), {})],
    "repeat_interleave": [((X, 2), {"dim": 0})],
    "_to_copy": [((X,), {"dtype": torch.float64})],
    **{name: [((_p(3, 4),), {})] for name in ("log1p", "log2", "log10")},
    **{name: [((_i(9, 3, 4) - 4, _i(5, 3, 4) + 1), {})] for name in ("floor_divide", "__floordiv__")},
    "__rfloordiv__": [((_i(5, 3, 4) + 1, _i(9, 3, 4) - 4), {})],
    **{name: [((torch.rand(3, 4) * 1.8 - 0.9,), {})] for name in ("asin", "arcsin", "acos", "arccos", "atanh", "arctanh")},
    **{name: [((_p(3, 4) + 1,), {})] for name in ("acosh", "arccosh")},
    **{name: [((X, _p(4)), {})] for name in ("xlogy", "fmod", "remainder", "__mod__", "__rmod__")},
    **{
        name: [((_i(9, 3, 4), _i(4, 3, 4)), {})]
        for name in ("bitwise_left_shift", "bitwise_right_shift", "__lshift__", "__rshift__", "__rlshift__", "__rrshift__")
    },
    "logit": [((torch.rand(3, 4) * 0.9 + 0.05,), {}), ((torch.rand(3, 4),), {"eps": 0.2})],
    "addcmul": [((X, Y, _n(4)), {"value": 0.5})],
    "addcdiv": [((X, Y, _p(4)), {"value": 0.5})],
    "lerp": [((X, Y, 0.3), {})],
    **{name: [((X > 0, Y > 0), {})] for name in ("logical_xor", "bitwise_xor", "__xor__")},
    **{name: [((_n(3), _n(4)), {})] for name in ("outer", "ger")},
    "heaviside": [((_i(3, 3, 4) - 1, _i(3, 3, 4)), {})],
    "prelu": [((X, _p(4)), {}), ((X, _p(1)), {})],
    "threshold": [((X, 0.1, -1.0), {})],
    "_threshold": [((X, 0.1, -1.0), {})],
    "softmin": [((X, 1), {})],
    "conv1d": [((_n(2, 4, 9), _n(6, 2, 3), _n(6)), {"padding": 1, "stride": 2, "groups": 2})],
    "conv3d": [((_n(2, 2, 4, 5, 4), _n(3, 2, 2, 3, 3), _n(3)), {"padding": 1, "stride": 2})],
    "conv_transpose1d": [((_n(2, 4, 5), _n(4, 3, 3), _n(6)), {"stride": 2, "output_padding": 1, "groups": 2})],
    "conv_transpose2d": [((_n(2, 4, 5, 4), _n(4, 3, 3, 3), _n(6)), {"stride": 2, "padding": 1, "groups": 2})],
    "soft_margin_loss": [((X, SIGN), {})],
    "kl_div": [
        ((X, F.softmax(Y, 1).detach()), {"reduction": "batchmean"}),
        ((X, F.log_softmax(Y, 1).detach()), {"log_target": True}),
    ],
    "binary_cross_entropy": [((torch.rand(3, 4) * 0.9 + 0.05, torch.rand(3, 4)), {})],
    "binary_cross_entropy_with_logits": [((X, torch.rand(3, 4)), {"pos_weight": SCALE})],
    "nll_loss": [((_n(5, 4), _i(4, 5)), {}), ((_n(5, 4), _i(4, 5), SCALE), {"ignore_index": 1})],
    "cosine_embedding_loss": [((X, Y, SIGNS), {"margin": 0.2})],
    "margin_ranking_loss": [((_n(3), _n(3), SIGNS), {"margin": 0.1})],
    "multi_margin_loss": [((_n(5, 4), _i(4, 5)), {}), ((_n(5, 4), _i(4, 5)), {"p": 2, "margin": 0.0, "reduction": "sum"})],
    "multilabel_margin_loss": [((_n(2, 4), torch.tensor([[3, 0, -1, 1], [-1, 2, 2, 0]])), {"reduction": "none"})],
    "poisson_nll_loss": [((X, _p(3, 4)), {"full": True}), ((_p(3, 4), _p(3, 4)), {"log_input": False})],
    "hinge_embedding_loss": [((X, SIGN), {})],
    "triplet_margin_loss": [((X, Y, _n(3, 4)), {"swap": True})],
    "gaussian_nll_loss": [((X, Y, _p(3, 4)), {"full": True})],
    **{name: [((X,), {}), ((X, 3, 1, True), {})] for name in ("norm", "linalg_vector_norm")},
    "dot": [((_n(4), _n(4)), {})],
    "mv": [((X, _n(4)), {})],
    "bilinear": [((_n(5, 3), _n(5, 4), _n(2, 3, 4), _n(2)), {})],
    "embedding_bag": [((_i(7, 3, 4), _n(7, 5)), {"mode": "sum"})],
    "instance_norm": [((_n(2, 3, 5), None, None, _n(3), _n(3)), {})],
    "group_norm": [((_n(2, 6, 5), 3, _n(6), _n(6)), {})],
    "local_response_norm": [((_n(2, 4, 5), 3), {})],
    "_weight_norm": [((X, _p(3, 1), 0), {})],
    **{
        f"adaptive_{kind}_pool{d}d{also}": [((_n(2, 3, *[6, 7, 5][:d]), [4, 3, 1][:d]), {}), ((_n(3, *[6, 6, 6][:d]), 1), {})]
        for kind, d, also in itertools.product(("max", "avg"), (1, 2, 3), ("", "_with_indices"))
    },
    "fold": [((_n(2, 12, 9), (4, 5), (2, 3)), {"stride": (1, 2), "padding": (0, 1)})],
    "unfold": [((_n(2, 3, 6, 5), (2, 3)), {"stride": 2, "padding": 1})],
    "conv_transpose3d": [((_n(2, 4, 3, 4, 2), _n(4, 3, 3, 2, 3), _n(6)), {"stride": 2, "output_padding": 1, "groups": 2})],
    "grid_sample": [
        ((_n(2, 3, 5, 5), _n(2, 4, 4, 2)), {"align_corners": False}),
        ((_n(2, 3, 5, 5), _n(2, 4, 4, 2)), {"padding_mode": "reflection", "align_corners": True}),
    ],
    "affine_grid": [((_n(2, 2, 3), (2, 1, 4, 5)), {"align_corners": False})],
    "max_unpool1d": [((_n(2, 3, 4), 2 * torch.arange(4).expand(2, 3, 4).contiguous(), 2), {})],
    "max_unpool2d": [((_n(2, 3, 2, 2), 5 * torch.arange(4).reshape(2, 2).expand(2, 3, 2, 2).contiguous(), 2), {})],
    "max_unpool3d": [((_n(2, 3, 2, 2, 2), 7 * torch.arange(8).reshape(2, 2, 2).expand(2, 3, 2, 2, 2).contiguous(), 2), {})],
    "searchsorted": [((torch.arange(6.0), _n(3, 4)), {})],
    "bucketize": [((_n(3, 4), torch.arange(6.0)), {})],
    "interpolate": [
        ((_n(2, 3, 4, 5),), {"scale_factor": 2.0, "mode": "bilinear"}),
        ((_n(2, 3, 4, 5),), {"size": (8, 10)}),
        ((_n(2, 3, 4, 5),), {"size": (3, 7)}),
    ],
    "pixel_shuffle": [((_n(2, 12, 3, 2), 2), {})],
    "pixel_unshuffle": [((_n(2, 3, 4, 6), 2), {})],
    "channel_shuffle": [((_n(2, 6, 3, 2), 3), {})],
    "lstm_cell": [((_n(3, 5), (_n(3, 4), _n(3, 4)), *LSTM[2]), {})],
    "gru_cell": [((_n(3, 5), _n(3, 4), *GRU[2]), {})],
    **{name: [((_n(3, 5), _n(3, 4), *RNN[2]), {})] for name in ("rnn_tanh_cell", "rnn_relu_cell")},
    **{name: [((DEFINITE,), {})] for name in ("cholesky", "linalg_cholesky", "logdet", "linalg_eigvalsh")},
    **{name: [((REGULAR,), {})] for name in ("linalg_inv", "inverse", "det", "linalg_det", "slogdet", "linalg_slogdet")},
    **{name: [((REGULAR, _n(3, 2)), {})] for name in ("linalg_solve", "linalg_lstsq")},
    **{name: [((REGULAR, 3), {})] for name in ("matrix_power", "linalg_matrix_power")},
    **{name: [((REGULAR / 4,), {})] for name in ("matrix_exp", "linalg_matrix_exp")},
    **{name: [((_n(5, 3),), {})] for name in ("qr", "linalg_qr")},
    "linalg_solve_triangular": [((REGULAR, _n(3, 2)), {"upper": True}), ((REGULAR, _n(2, 3)), {"upper": False, "left": False})],
    "triangular_solve": [((_n(3, 2), REGULAR), {})],
    "cholesky_solve": [((_n(3, 2), LOWER), {})],
    "cholesky_inverse": [((LOWER,), {})],
    "linalg_pinv": [((X,), {})],
    "_fft_r2c": [((X, [1], 0, True), {})],
    "ctc_loss": [((torch.log_softmax(_n(6, 2, 5), -1), _i(4, 2, 3) + 1, torch.tensor([6, 5]), torch.tensor([3, 2])), {})],
    "linalg_eigh": [((SYMMETRIC,), {})],
    "svd": [((SQUARE,), {})],
    "linalg_svd": [((SQUARE,), {"full_matrices": False})],
    "linalg_svdvals": [((X,), {})],
    "linalg_matrix_rank": [((X,), {})],
    "linalg_cond": [((REGULAR,), {}), ((REGULAR, -2), {})],  # torch has no gradient by other norms
    "linalg_matrix_norm": [((X,), {}), ((X, "nuc"), {}), ((X, -1), {}), ((_n(2, 3, 4), 2), {"dim": (0, 2), "keepdim": True})],
    "linalg_norm": [((X,), {}), ((X, 2), {}), ((X, 1, 1), {})],
    "pdist": [((_n(5, 3),), {}), ((_n(5, 3), 1.0), {})],
    "polygamma": [((0, _p(3, 4)), {})],
    **{name: [((_p(3, 4) + 2, 2), {})] for name in ("mvlgamma", "multigammaln")},
    **{name: [((_p(3, 4),), {})] for name in ("lgamma", "gammaln", "digamma", "psi")},
}
METHODS = {  # whose arguments stand otherwise than those of the function of that name
    torch.Tensor.where: [((X, X > 0, Y), {}), ((X, X > 0, 0.0), {})],
    torch.Tensor.polygamma: [((_p(3, 4), 0), {})],
    torch.embedding: [((_n(7, 4), _i(7, 3, 2)), {})],
    torch.ops.aten.embedding: [((_n(7, 4), _i(7, 3, 2)), {})],
}
GUESSES = [((X, Y), {}), ((X,), {}), ((X > 0, Y > 0), {}), ((X, 1), {}), ((X, _n(4, 2)), {}), ((_p(3, 4),), {})]
FUNCTIONS = [f for f in eager._library]
ALIKE = {
    "concat": "cat",
    "vdot": "dot",
    "concatenate": "cat",
    "subtract": "sub",
    "divide": "div",
    "true_divide": "div",
    "multiply": "mul",
    "__div__": "div",
}


def _id(function):
    return f"{type(function).__name__}-{getattr(function, '__name__', '')}"


def _calls(function):
    name = function.__name__.removeprefix("special_")
    name = ALIKE.get(name, name)
    if name in CASES:
        return CASES[name]
    for args, kwargs in GUESSES:
        try:
            result = function(*args, **kwargs)
            if result is not NotImplemented and all(x.isfinite().all() for x in _leaves(result)):
                return [(args, kwargs)]
        except (RuntimeError, TypeError, ValueError, IndexError):
            continue
    pytest.fail(f"{function}: a rule without an example of its arguments: add one to CASES")


def _leaves(tree):
    return [x for x in torch.utils._pytree.tree_leaves(tree) if isinstance(x, torch.Tensor)]


def _map(tree, make):
    return torch.utils._pytree.tree_map(lambda x: make(x) if isinstance(x, torch.Tensor) else x, tree)


def _leaf(x, wrap):
    smooth = x.dtype.is_floating_point and not any(x is y for y in STATISTICS)
    x = wrap(x.detach().clone())
    return x.requires_grad_() if smooth else x


def _results(function, args, kwargs, wrap):
    """Values and the gradients of the arguments, as torch tensors."""
    args, kwargs = _map((args, kwargs), lambda x: _leaf(x, wrap))
    results = _leaves(function(*args, **kwargs))
    smooth = [x for x in results if x.dtype.is_floating_point and x.requires_grad]
    leaves = [x for x in _leaves((args, kwargs)) if x.dtype.is_floating_point]
    generator = torch.Generator().manual_seed(5)
    if smooth and not isinstance(function, torch._ops.OpOverloadPacket):
        torch.autograd.backward(smooth, [wrap(torch.randn(x.shape, generator=generator).to(x.dtype)) for x in smooth])
    return [samba.to_torch(x).detach() for x in results], [x.grad if x.grad is None else samba.to_torch(x.grad) for x in leaves]


@pytest.mark.parametrize("function", FUNCTIONS, ids=_id)
def test_every_rule(function):
    """Values and gradients of torch; no torch kernel does the arithmetic."""
    for args, kwargs in METHODS.get(function) or _calls(function):
        before = eager.runs
        with warnings.catch_warnings():
            warnings.simplefilter("error", eager.HostFallbackWarning)
            values, gradients = _results(function, args, kwargs, samba.SambaTensor)
        assert eager.runs > before
        expected, expected_gradients = _results(function, args, kwargs, lambda x: x)
        torch.testing.assert_close(values, expected, rtol=2e-6, atol=1e-5)
        if function.__name__ in ("cholesky_solve", "cholesky_inverse"):  # the other triangle is not read, yet torch's has it
            expected_gradients[-1:] = [x if x is None else x.tril() for x in expected_gradients[-1:]]
        for found, wanted in zip(gradients, expected_gradients):
            torch.testing.assert_close(
                torch.zeros_like(wanted) if found is None and wanted is not None else found, wanted, rtol=1e-5, atol=2e-5
            )


DTYPES = [
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.float64,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes(dtype):
    a, b = (torch.randn(5, 3) * 4).to(dtype), (torch.randn(3) * 4).to(dtype)
    for f in (
        torch.add,
        torch.mul,
        torch.maximum,
        torch.eq,
        torch.lt,
        torch.matmul,
        torch.div,
        lambda x, y: x.sum(),
        lambda x, y: x.float() + y,
        lambda x, y: x * 2,
        lambda x, y: 3 + x,
        lambda x, y: x * 0.5,
        lambda x, y: torch.where(y > 0, x, y),
        lambda x, y: torch.relu(x),
        lambda x, y: torch.exp(x),
        lambda x, y: torch.cat([x, y[None]]),
    ):
        try:
            expected = f(a, b)
        except RuntimeError:
            continue  # torch has no such operation on this dtype
        found = f(samba.SambaTensor(a), samba.SambaTensor(b)).torch()
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (1,), (), (1, 1)], ids=str)
def test_no_elements_and_one(shape):
    a = torch.randn(shape)
    for f in (
        torch.exp,
        lambda x: x + x,
        lambda x: x.sum(),
        lambda x: x * 2,
        lambda x: torch.softmax(x, 0),
        lambda x: torch.cat([x.reshape(-1)] * 2),
    ):
        values, gradients = _results(f, (a,), {}, samba.SambaTensor)
        expected, expected_gradients = _results(f, (a,), {}, lambda x: x)
        torch.testing.assert_close(values, expected)
        torch.testing.assert_close(gradients, expected_gradients)


def test_views_and_broadcasting():
    a, b = torch.randn(4, 6), torch.randn(6, 1)
    x, y = samba.SambaTensor(a), samba.SambaTensor(b)
    for f in (
        lambda x, y: x.t() * y,
        lambda x, y: x[::2, 1:] + y[1:, 0],
        lambda x, y: y.expand(6, 4).t() @ x.t(),
        lambda x, y: x[1] * 2,
        lambda x, y: x.permute(1, 0).contiguous() - y,
        lambda x, y: torch.relu(x[:, [0, 2]]),
        lambda x, y: x[None, ..., None] / 3,
    ):
        torch.testing.assert_close(f(x, y).torch(), f(a, b))
    view = x.reshape(2, 12)
    view[0, 0] = 7  # what is a view in torch shares memory
    assert x.torch()[0, 0] == a[0, 0] == 7 and view.data_ptr() == x.data_ptr()
    assert x.t().data_ptr() == x.expand(4, 6).data_ptr() == x.unsqueeze(0).data_ptr() == a.data_ptr()


def test_in_place():
    a = torch.randn(3, 4)
    x = samba.SambaTensor(a.clone())
    for f in (
        lambda x: x.add_(2),
        lambda x: x.mul_(x),
        lambda x: x.t().sub_(1.5),
        lambda x: x[1].add_(x[0], alpha=0.5),
        lambda x: x.relu_(),
    ):
        before = eager.runs
        kept, held = x, x.torch().data_ptr()
        f(x), f(a)
        assert eager.runs == before + 1 and x is kept and x.data_ptr() == held
        torch.testing.assert_close(x.torch(), a)
    x += 1
    x -= samba.ones(4)
    torch.testing.assert_close(x.torch(), a)
    with pytest.raises(RuntimeError, match="can't be cast"):
        samba.ones(2, dtype=torch.int64).add_(1.5)
    y = samba.randn(3).requires_grad_()
    with pytest.raises(RuntimeError, match="leaf"):
        y.add_(1)
    z = y * y
    y.detach().mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_shapes_in_place():
    """The tensor's own shape follows what it holds, gradients too."""
    x = samba.from_torch_tensor(torch.arange(6.0).reshape(2, 3))
    assert x.t_().shape == x.torch().shape == (3, 2) and x.stride() == x.torch().stride()
    assert x.unsqueeze_(0).transpose_(0, 2).shape == x.torch().shape == (2, 3, 1)
    assert x.squeeze_(2).as_strided_((3,), (2,)).shape == x.torch().shape == (3,)
    assert x.clone().resize_(2, 2).shape == (2, 2)
    out = samba.empty(0)
    torch.add(samba.ones(2, 3), 1, out=out)
    assert out.shape == out.torch().shape == (2, 3)
    for q, options in ((0.5, {"dim": 1}), (0.5, {}), (torch.tensor([0.2, 0.5]), {"dim": 0, "keepdim": True})):
        plain = torch.randn(3, 4, requires_grad=True)
        ours = samba.from_torch_tensor(plain.detach().clone()).requires_grad_()
        for function in (torch.quantile, torch.nanquantile):
            wanted, got = function(plain, q, **options), function(ours, q, **options)
            assert got.shape == got.torch().shape == wanted.shape
            torch.testing.assert_close(got.torch(), wanted.detach())
            wanted.sum().backward()
            got.sum().backward()
        torch.testing.assert_close(ours.grad.torch(), plain.grad)
    weight = samba.ones(2, 3).requires_grad_()
    doubled = weight * 2
    (doubled.unsqueeze_(0) * torch.arange(6.0).reshape(1, 2, 3)).sum().backward()
    assert torch.equal(weight.grad.torch(), 2 * torch.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y, out: F.normalize(x, dim=0, out=out),
        lambda x, y, out: F.normalize(x, 2.0, 0, 1e-12, out),
        lambda x, y, out: torch.norm(x, 2, 0, False, out),
        lambda x, y, out: torch.tensordot(x, y.t(), 1, out=out),
        lambda x, y, out: torch.add(x, y, out=out),
    ],
)
def test_out(call):
    expected = call(X, Y, torch.empty(0))
    out = samba.from_torch_tensor(torch.full(expected.shape, 7.0))
    with torch.no_grad():
        assert call(samba.from_torch_tensor(X), samba.from_torch_tensor(Y), out) is out
    torch.testing.assert_close(out.torch(), expected)


def test_spectral_norm_iterates():
    """Its power iterations write their vectors by `out`."""
    model = torch.nn.utils.spectral_norm(torch.nn.Linear(6, 7))
    ours = samba.from_torch_model_(copy.deepcopy(model))
    for _ in range(3):
        torch.testing.assert_close(ours(samba.from_torch_tensor(torch.ones(2, 6))).torch(), model(torch.ones(2, 6)))
    torch.testing.assert_close(ours.weight_u.torch(), model.weight_u)


def test_autograd_as_torch():
    x = samba.SambaTensor(torch.tensor([1.0, 2.0])).requires_grad_()
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.data.tolist() == [4, 8] and isinstance(x.grad, samba.SambaTensor)
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    with pytest.raises(RuntimeError, match="scalar"):
        (x * x).backward()
    with torch.no_grad():
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad and not (x * 2).detach().requires_grad and not (x > 0).requires_grad
    assert torch.autograd.grad((x * x).sum(), x)[0].tolist() == [2, 4]
    weight = torch.randn(3, 2, requires_grad=True)  # plain tensors take part, and get plain gradients
    F.linear(x, weight).sum().backward()
    assert type(weight.grad) is torch.Tensor
    torch.testing.assert_close(weight.grad, torch.tensor([[1.0, 2.0]] * 3))
    seen = []
    h = torch.tanh(x)
    h.register_hook(lambda gradient: seen.append(gradient.tolist()))
    (h * 3).sum().backward()
    assert seen == [[3, 3]]


def test_second_derivatives():
    x = samba.SambaTensor(torch.tensor([0.5, -1.0, 2.0])).requires_grad_()
    a = x.torch().clone().requires_grad_()
    for f in (lambda x: (x * x * x).sum(), lambda x: torch.tanh(x).sum(), lambda x: torch.softmax(x, 0)[0]):
        first, plain = (torch.autograd.grad(f(v), v, create_graph=True)[0] for v in (x, a))
        second, expected = (torch.autograd.grad(g.sum() if f is not None else g, v)[0] for g, v in ((first, x), (plain, a)))
        torch.testing.assert_close(second.torch(), expected, rtol=1e-5, atol=1e-6)


def test_modules_train():
    """A module of plain torch layers, its parameters SambaTensors, trained by torch.optim: as torch does."""

    def build():
        torch.manual_seed(3)
        return torch.nn.Sequential(
            torch.nn.Linear(6, 8),
            torch.nn.BatchNorm1d(8),
            torch.nn.GELU(),
            torch.nn.LayerNorm(8),
            torch.nn.Dropout(0.25),
            torch.nn.Linear(8, 3),
        )

    ours, theirs = samba.from_torch_model_(build()), build()
    x, label = torch.randn(10, 6), torch.randint(3, (10,))
    losses = []
    for model, wrap in ((ours, samba.SambaTensor), (theirs, lambda x: x)):
        optimizer, history = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), []
        torch.manual_seed(4)  # dropout draws from torch's generator
        for _ in range(5):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(wrap(x)), wrap(label))
            loss.backward()
            optimizer.step()
            history.append(loss.item())
        losses.append(history)
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-5, atol=1e-6)
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(samba.to_torch(ours.state_dict()[name]), value, rtol=1e-4, atol=1e-5)


def test_numbers_share_programs():
    x = samba.randn(3)
    x * 0.125, x + 3, x.clamp(0.0, 1.0)
    count = len(eager._programs.by_key)
    for number in (0.25, -7.0, math.inf):
        torch.testing.assert_close((x * number).torch(), x.torch() * number)
        torch.testing.assert_close(x.clamp(-number, number).torch(), x.torch().clamp(-number, number), equal_nan=True)
        torch.testing.assert_close((x + 2**53).torch(), x.torch() + 2**53)
    assert len(eager._programs.by_key) == count
    big = samba.SambaTensor(torch.tensor([2**62]))
    assert (big + (2**62 - 1)).tolist() == [2**63 - 1]  # integers stay exact
    assert (samba.SambaTensor(torch.tensor([5, -3])) * 1.5).dtype is torch.float32


def test_errors():
    x = samba.randn(2, 3)
    with pytest.raises(ShapeError, match="add") as error:
        x + samba.randn(4)
    assert isinstance(error.value, ValueError)
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        torch.matmul(x, x)
    with pytest.raises(IndexError):
        torch.softmax(x, 5)
    with pytest.raises(ArgumentError, match=r"index|input.*\[1\] = 9 is outside \[0, 4\)"):
        F.embedding(samba.SambaTensor(torch.tensor([1, 9])), samba.randn(4, 2))
    with pytest.raises(TypeError):
        torch.add(x, "one")
    with pytest.raises(TypeError):
        torch.add(x, x, beta=1)
    with pytest.raises(RuntimeError, match="no values and no materializer"):
        samba.SambaTensor(shape=(2,)) + 1
    with pytest.raises((RuntimeError, ValueError)):
        x + torch.zeros(2, 3, device="meta")
    out = samba.zeros(2, 3)
    torch.add(x, x, out=out)
    torch.testing.assert_close(out.torch(), x.torch() * 2)


def test_second_derivative_that_is_not_there():
    image, grid = samba.randn(1, 1, 4, 4), samba.randn(1, 2, 2, 2).requires_grad_()
    gradient = torch.autograd.grad(F.grid_sample(image, grid).sum(), grid, create_graph=True)[0]
    with pytest.raises(NotImplementedError, match="grid_sample_grid_grad"):
        gradient.sum().backward()


def test_moving_data_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error", samba.HostFallbackWarning)
        x = samba.from_torch_tensor(X)
        torch.testing.assert_close(torch.block_diag(x, x).torch(), torch.block_diag(X, X))
        torch.distributions.Normal(x, x.exp(), validate_args=True).log_prob(x)  # looks whether its arguments are in their ranges


def test_what_the_library_lacks():
    x = samba.rand(3, 4)
    eager._told.discard("erfinv")
    with pytest.warns(eager.HostFallbackWarning, match="erfinv") as told:
        torch.testing.assert_close(torch.erfinv(x).torch(), torch.erfinv(x.torch()))
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.erfinv(x)  # said once
        (
            x.clone(),
            x[1:],
            x.t().contiguous(),
            x.new_zeros(3),
            torch.empty_like(x),
            x.expand(2, 3, 4),
            x.detach(),
        )  # nothing is computed


def test_programs_are_bounded(monkeypatch):
    eager._programs.clear()
    monkeypatch.setattr(eager, "MOST_PROGRAMS", 5)
    for n in range(1, 12):
        samba.ones(n) + 1
    assert len(eager._programs.by_key) == 5
    monkeypatch.setattr(eager, "MOST_BYTES", 1 << 19)
    kept = None
    for n in range(1, 6):
        x = samba.ones(20000 + n)
        x + x  # 240 KB each; larger ones would not be copied
        newest = next(reversed(eager._programs.by_key.values()))
        kept = kept or weakref.ref(newest.context)
    assert len(eager._programs.by_key) == 2 and 0 < eager._programs.bytes <= 1 << 19
    del newest
    assert kept() is None  # what is forgotten is freed
    gc.disable()
    try:
        x = samba.randn(3, 3).requires_grad_()
        torch.tanh(x).sum().backward()
        kept = [weakref.ref(program) for program in eager._programs.by_key.values()]
        eager._programs.clear()
        assert not any(program() for program in kept)  # without the collector
    finally:
        gc.enable()


def test_memory_stays():
    def step(n):
        x = samba.randn(8, n).requires_grad_()
        F.cross_entropy(torch.relu(x @ samba.randn(n, 5)), samba.randint(5, (8,))).backward()

    for n in (3, 4, 5):
        step(n)
    held = [(len(eager._programs.by_key), eager._programs.bytes)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(600):
        step(3 + i % 3)
    assert [(len(eager._programs.by_key), eager._programs.bytes)] == held
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4096  # KiB


def test_large_tensors():
    """Used where they lie: whole, as views, over themselves."""
    a, b = torch.randn(300, 301), torch.randn(301, 300)
    for f in (
        lambda x, y: torch.tanh(x @ y),
        lambda x, y: x[1:] @ y[:, 1:],
        lambda x, y: x.t() * y,
        lambda x, y: torch.softmax(x + 1, 1) @ y,
    ):
        values, gradients = _results(f, (a, b), {}, samba.SambaTensor)
        expected, expected_gradients = _results(f, (a, b), {}, lambda x: x)
        torch.testing.assert_close(values, expected, rtol=1e-5, atol=1e-4)
        torch.testing.assert_close(gradients, expected_gradients, rtol=1e-5, atol=2e-4)
    x = samba.SambaTensor(a.clone())
    x.mul_(x), x.t().add_(2), x[:, 1:].sub_(x[:, :-1].clone())
    c = a * a + 2
    c[:, 1:] -= c[:, :-1].clone()
    torch.testing.assert_close(x.torch(), c)


def test_threads():
    a, wrong = torch.randn(40, 40), []

    def work(seed):
        x = samba.SambaTensor(a.clone()).requires_grad_()
        for n in range(1, 30):
            y = torch.tanh(x[:n] @ x[:, :n]) * seed
            y.sum().backward()
            if not torch.allclose(y.torch(), torch.tanh(a[:n] @ a[:, :n]) * seed, atol=1e-4):
                wrong.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong
