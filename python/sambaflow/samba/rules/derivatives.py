# SPDX-License-Identifier: Apache-2.0
"""Gradients of traced tensors as traced tensors: torch.autograd.grad inside a model's forward, and what torch.func and forward
mode are made of. The C library makes the reverse pass inside the graph (samba_gradients), so what it gives has gradients itself.

A tensor that gradients are taken by may be the same node as others of equal values; a samba_variable in its place is one of its
own. Forward mode is two reverse passes: the gradient of outputs by inputs is linear in what it starts from, u, so that its
gradient by u, started from the tangents, is the outputs' tangent; u itself is never read."""

import torch

from sambaflow._core import ffi, lib
from sambaflow.errors import ArgumentError, UnsupportedError
from sambaflow.samba.rules.gradients import requires_grad, traces
from sambaflow.samba.sambatensor import from_value
from sambaflow.samba.trace import _TORCH_DTYPES

MOST = 256  # gradients that one call may unroll


def _traced(t, value):
    """A traced tensor of a value, whatever torch.no_grad() says."""
    t.check()
    shape = [lib.samba_value_size(value, d) for d in range(lib.samba_value_rank(value))]
    return from_value(value, shape, _TORCH_DTYPES[lib.samba_value_dtype(value)], t.id)


def variable(t, x):
    """The tensor as one that gradients can be taken by, and none but that."""
    value = lib.samba_variable(t.value(x))
    t.check()
    t.requiring[value.index] = True
    return _traced(t, value)


def variables(t, tree):
    """variable() of all floating-point tensors in nested lists, tuples and dicts."""
    return torch.utils._pytree.tree_map(
        lambda x: variable(t, x) if isinstance(x, torch.Tensor) and x.dtype.is_floating_point else x, tree
    )


def gradients(t, outputs, inputs, starts=None):
    """The gradient of traced tensors by others, None where nothing leads there. A start that is None: ones."""
    out = [t.value(x) for x in outputs]
    begin = ffi.NULL
    if starts is not None:
        begin = [t.value(torch.ones_like(x) if s is None else s) for x, s in zip(outputs, starts)]
    found, depends = ffi.new("samba_value[]", len(inputs)), ffi.new("bool[]", len(inputs))
    lib.samba_gradients(len(out), out, begin, len(inputs), [t.value(x) for x in inputs], found, depends)
    t.check()
    # copies: an element of an array of cffi is its memory, and no longer there than the array
    return [_traced(t, ffi.new("samba_value *", found[i])[0]) if depends[i] else None for i in range(len(inputs))]


def pushforward(t, outputs, inputs, tangents):
    """The tangent of each output for those of inputs, None where it depends on none."""
    results = []
    for y in outputs:
        u = variable(t, torch.zeros(tuple(y.shape), dtype=y.dtype))
        back = [(g, v) for g, v in zip(gradients(t, [y], inputs, [u]), tangents) if g is not None]
        if not back:
            results.append(None)
            continue
        (along,) = gradients(t, [g for g, _ in back], [u], [v for _, v in back])
        results.append(torch.zeros(tuple(y.shape), dtype=y.dtype) if along is None else along)
    return results


def refuse_many(t, what, count):
    """Each gradient of many is a part of the graph of its own."""
    if count > MOST:
        raise UnsupportedError(
            f"{what} of {count} gradients: each is a part of the graph of its own, {MOST} at most: take the gradient of sums, "
            f"or products with vectors (torch.func.vjp, jvp){t.where(code=True)}"
        )


# ---- torch.autograd.grad ----


def _start(t, i, y, given):
    """What an output's gradient starts from, of its dtype and shape; None: ones."""
    if given is None:
        if y.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        return None
    if tuple(given.shape) != tuple(y.shape):
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{i}] has a shape of {tuple(given.shape)} and output[{i}] has a shape of "
            f"{tuple(y.shape)}."
        )
    return given.to(y.dtype)


def _refuse_once(t, outputs):
    """Gradients with gradients through a Function that says it has them once."""
    info, stack, seen = ffi.new("samba_node_info *"), [t.value(y).index for y in outputs] if t.once else [], set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in t.once:
            raise UnsupportedError(
                f"create_graph=True through {t.once[node]}, a torch.autograd.Function whose backward is once_differentiable: "
                f"write backward in operations of torch without that decorator{t.where(code=True)}"
            )
        lib.samba_graph_node(t.graph, node, info)
        stack += list(info.inputs[0 : info.input_count])


@traces(torch.autograd.grad)
def grad(
    t,
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    only_inputs=True,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
):
    outputs, inputs = (list(x) if isinstance(x, (tuple, list)) else [x] for x in (outputs, inputs))
    if not all(isinstance(x, torch.Tensor) for x in outputs + inputs):
        raise UnsupportedError(
            f"torch.autograd.grad while the model is traced takes tensors, no edges of autograd's graph{t.where(code=True)}"
        )
    for i, y in enumerate(outputs):
        if not requires_grad(t, y):
            raise RuntimeError(f"element {i} of tensors does not require grad and does not have a grad_fn{t.where(code=True)}")
    if not all(requires_grad(t, x) for x in inputs):
        raise RuntimeError(f"One of the differentiated Tensors does not require grad{t.where(code=True)}")
    given = grad_outputs if isinstance(grad_outputs, (tuple, list)) else [grad_outputs] * (grad_outputs is not None)
    given = list(given) or [None] * len(outputs)
    if len(given) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(given)} gradients")
    if create_graph:
        _refuse_once(t, outputs)
    if is_grads_batched:
        return _batched(t, outputs, inputs, given, create_graph, allow_unused, materialize_grads)
    starts = [_start(t, i, y, g) for i, (y, g) in enumerate(zip(outputs, given))]
    found = gradients(t, outputs, inputs, starts)
    if not (allow_unused or materialize_grads) and any(g is None for g in found):
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if this is the "
            f"desired behavior.{t.where(code=True)}"
        )
    if materialize_grads:
        found = [torch.zeros(tuple(x.shape), dtype=x.dtype) if g is None else g for x, g in zip(inputs, found)]
    return tuple(g if create_graph or g is None else _detached(t, g) for g in found)


def _detached(t, g):
    return _traced(t, lib.samba_detach(t.value(g)))


def _batched(t, outputs, inputs, given, create_graph, allow_unused, materialize_grads):
    """A gradient for each row of grad_outputs, in rows."""
    count = next((g.shape[0] for g in given if g is not None), 0)
    refuse_many(t, "torch.autograd.grad with is_grads_batched", count)
    rows = [
        grad(
            t,
            outputs,
            inputs,
            [None if g is None else g[i] for g in given],
            create_graph=create_graph,
            allow_unused=allow_unused,
            materialize_grads=materialize_grads,
        )
        for i in range(count)
    ]
    return tuple(None if any(g is None for g in each) else torch.stack(each) for each in zip(*rows))


# ---- functions of torch.func and torch.autograd.functional, in the place of theirs: transforms.py ----


def _of_arguments(args, argnums):
    """Those that are differentiated by, as torch gives them back: one, or a tuple of them."""
    if isinstance(argnums, int):
        return args[argnums]
    return tuple(args[i] for i in argnums)


def _with(t, args, argnums):
    """The arguments with variables in the place of those that are differentiated by, and those."""
    args = list(args)
    for i in range(len(args)) if argnums is None else [argnums] if isinstance(argnums, int) else argnums:
        args[i] = variables(t, args[i])
    args = tuple(args)
    return args, args if argnums is None else _of_arguments(args, argnums)


def _auxiliary(result, has_aux, what):
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(f"{what}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return result


def grad_and_value(t, func, argnums, has_aux, args, kwargs):
    """torch.func.grad_and_value, and what torch.func.grad takes of it."""
    with torch.enable_grad():
        args, by = _with(t, args, argnums)
        output, aux = _auxiliary(func(*args, **kwargs), has_aux, "grad_and_value(f)(*args)")
        if not isinstance(output, torch.Tensor) or output.dim() != 0:
            shown = f"{output.dim()} dims" if isinstance(output, torch.Tensor) else type(output)
            raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got {shown}")
        flat, spec = torch.utils._pytree.tree_flatten(by)
        found = torch.utils._pytree.tree_unflatten(_or_zeros(flat, gradients(t, [output], flat)), spec)
    return (found, (output, aux)) if has_aux else (found, output)


def _or_zeros(like, found):
    return [torch.zeros(tuple(x.shape), dtype=x.dtype) if g is None else g for x, g in zip(like, found)]


def vjp(t, func, primals, argnums, has_aux):
    """torch.func.vjp: the function's result, and the function of what its gradient starts from."""
    with torch.enable_grad():
        args, by = _with(t, primals, argnums)
        output, aux = _auxiliary(func(*args), has_aux, "vjp(f, *primals)")
    outputs, form = torch.utils._pytree.tree_flatten(output)
    flat, spec = torch.utils._pytree.tree_flatten(by)

    def back(cotangents, retain_graph=True, create_graph=None):
        starts, given = torch.utils._pytree.tree_flatten(cotangents)
        if given != form:
            raise RuntimeError("Expected pytree structure of cotangents to be the same as that of the function's outputs")
        return torch.utils._pytree.tree_unflatten(_or_zeros(flat, gradients(t, outputs, flat, starts)), spec)

    return (output, back, aux) if has_aux else (output, back)


def jvp(t, func, primals, tangents, argnums, has_aux):
    """torch.func.jvp: the function's result and its tangent."""
    with torch.enable_grad():
        args, by = _with(t, primals, argnums)
        output, aux = _auxiliary(func(*args), has_aux, "jvp(f, primals, tangents)")
    flat, form = torch.utils._pytree.tree_flatten(by)
    along, given = torch.utils._pytree.tree_flatten(tangents)
    if form != given:
        by, form = (by,), torch.utils._pytree.tree_structure((by,))
    if form != given or any(tuple(x.shape) != tuple(v.shape) for x, v in zip(flat, along)):
        raise RuntimeError("jvp(f, primals, tangents): Expected primals and tangents to have the same structure and shapes")
    outputs, spec = torch.utils._pytree.tree_flatten(output)
    found = _or_zeros(outputs, pushforward(t, outputs, flat, along))
    found = torch.utils._pytree.tree_unflatten(found, spec)
    return (output, found, aux) if has_aux else (output, found)


def each(t, func, what):
    """torch.vmap over the rows of a basis: the function for one row after the other."""

    def rows(basis):
        flat, spec = torch.utils._pytree.tree_flatten(basis)
        count = flat[0].shape[0]
        refuse_many(t, what, count)
        results = [func(torch.utils._pytree.tree_unflatten([x[i] for x in flat], spec)) for i in range(count)]
        forms = [torch.utils._pytree.tree_flatten(r) for r in results]
        return torch.utils._pytree.tree_unflatten([torch.stack(xs) for xs in zip(*(f for f, _ in forms))], forms[0][1])

    return rows


def vmap(t, func, in_dims, out_dims, randomness, chunk_size, *args, **kwargs):
    """torch.vmap, unrolled: the function for one sample after the other, the results stacked. chunk_size is about memory that a
    graph plans by itself."""
    of, trees = torch._functorch.vmap, torch.utils._pytree
    of._check_out_dims_is_int_or_int_pytree(out_dims, func)
    count, dims, flat, spec = of._process_batched_inputs(in_dims, args, func)
    if count > MOST:
        raise UnsupportedError(
            f"torch.vmap over {count} samples, while the model is traced, which has the function once for each, {MOST} times at "
            f"most: write the batch dim out, by broadcasting, torch.bmm or torch.einsum{t.where(code=True)}"
        )
    if randomness == "same":
        raise UnsupportedError(
            "torch.vmap with randomness='same', while the model is traced: draw the random numbers before, and pass them to the "
            f"function{t.where(code=True)}"
        )

    def sample(x, d, i):
        if d is None or count > 0:
            return x if d is None else x.select(d, i)
        return torch.zeros([n for k, n in enumerate(x.shape) if k != d % x.dim()], dtype=x.dtype)  # for its shapes alone

    def one(i):
        return func(*trees.tree_unflatten([sample(x, d, i) for x, d in zip(flat, dims)], spec), **kwargs)

    results = [trees.tree_flatten(one(i)) for i in range(max(count, 1))]
    form = results[0][1]
    for x in results[0][0]:
        if not isinstance(x, torch.Tensor):
            raise ArgumentError(f"torch.vmap: the function must give tensors, and gave {type(x).__name__}{t.where(code=True)}")
    to = trees._broadcast_to_and_flatten(out_dims, form)
    if to is None:
        raise ArgumentError(f"torch.vmap: out_dims {out_dims!r} do not fit what the function gives{t.where(code=True)}")

    def together(d, each):
        return each[0] if d is None else torch.stack(each, d).narrow(d, 0, count)

    return trees.tree_unflatten([together(*pair) for pair in zip(to, zip(*(flat for flat, _ in results)))], form)
