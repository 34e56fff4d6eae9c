# SPDX-License-Identifier: Apache-2.0
"""Operators by their torch names. Each is torch's function over SambaTensors: plain tensors among the arguments become
SambaTensors first, so that the result is one and tracing sees the call. `samba.add` is `samba.functional.add`.

>>> relu(torch.tensor([-1.0, 2.0])).tolist()
[0.0, 2.0]

>>> addmm(torch.ones(2), torch.ones(3, 4), torch.ones(2, 4), is_transposed=True).shape
torch.Size([3, 2])

>>> (view(torch.ones(4), 2, 2).shape, expand(torch.ones(1), 3).tolist(), repeat(torch.ones(1), 2).tolist())
(torch.Size([2, 2]), [1.0, 1.0, 1.0], [1.0, 1.0])
"""

import torch
import torch.nn.functional as F

from sambaflow.samba.functional import stir
from sambaflow.samba.functional.groups import groupby, sn_multinomial, triu_fill
from sambaflow.samba.functional.windows import sn_gather, sn_scatter
from sambaflow.samba.sambatensor import SambaTensor

_OF_TORCH = """add sub mul div floor_divide remainder pow neg abs sign exp expm1 log log1p log2 sqrt rsqrt reciprocal sin cos tanh
sigmoid erf clamp minimum maximum floor ceil round trunc where masked_fill eq ne lt le gt ge logical_and logical_or logical_not
logical_xor isnan isinf bitwise_and bitwise_or bitwise_not bitwise_xor sum mean var std prod max min amax amin argmax argmin any
all norm logsumexp cumsum reshape permute transpose t tile cat stack split chunk unbind narrow flip roll squeeze unsqueeze flatten
tril triu gather scatter scatter_add index_select index_add topk sort argsort select matmul mm bmm addmm baddbmm einsum
outer dot zeros_like ones_like full_like empty_like randn_like rand_like square""".split()
_OF_NN = """relu relu6 leaky_relu elu gelu silu mish softplus hardswish hardsigmoid pad embedding one_hot linear bilinear conv1d
conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d unfold fold max_pool1d max_pool2d max_pool3d avg_pool1d
avg_pool2d avg_pool3d lp_pool1d lp_pool2d lp_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d layer_norm batch_norm group_norm instance_norm rms_norm softmax
log_softmax dropout cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy
binary_cross_entropy_with_logits kl_div cosine_similarity scaled_dot_product_attention multi_head_attention_forward
interpolate pixel_shuffle pixel_unshuffle channel_shuffle""".split()
_METHODS = "view expand repeat".split()


def _sambas(x):
    return SambaTensor(x) if isinstance(x, torch.Tensor) and not isinstance(x, SambaTensor) else x


def _operator(name, function):
    def operator(*args, **kwargs):
        args, kwargs = torch.utils._pytree.tree_map(_sambas, (args, kwargs))
        return function(*args, **kwargs)

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"torch's {name} over SambaTensors."
    return operator


NAMES = []
for _names, _home in ((_OF_TORCH, torch), (_OF_NN, F), (_METHODS, torch.Tensor)):
    for _name in _names:
        _function = getattr(_home, _name, None)
        if _function is not None:
            globals()[_name] = _operator(_name, _function)
            NAMES.append(_name)
if "masked_fill" not in globals():
    masked_fill = _operator("masked_fill", torch.Tensor.masked_fill)


def addmm(input, mat1, mat2, *, beta=1, alpha=1, out=None, is_transposed=False):
    """torch.addmm over SambaTensors; with `is_transposed` mat2 is (n, k), as the weight of a linear layer is:
    beta * input + alpha * mat1 @ mat2.T"""
    input, mat1, mat2 = map(_sambas, (input, mat1, mat2))
    return torch.addmm(
        input, mat1, torch.t(mat2) if is_transposed else mat2, beta=beta, alpha=alpha, **({} if out is None else {"out": out})
    )


__all__ = [*NAMES, "groupby", "sn_gather", "sn_multinomial", "sn_scatter", "triu_fill"]
