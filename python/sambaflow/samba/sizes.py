# SPDX-License-Identifier: Apache-2.0
"""A model for inputs of several shapes in one PEF: a graph for each, over the same weights, optimizers and memory. A run goes by
the shapes of what it is given.

>>> import tempfile
>>> import torch
>>> import sambaflow.samba as samba
>>> model = samba.from_torch_model_(torch.nn.Linear(3, 2))
>>> x, last = samba.ones(4, 3, name="x"), samba.ones(1, 3, name="x")
>>> session = samba.SambaSession()
>>> with tempfile.TemporaryDirectory() as folder:
...     pef = session.compile(model, (x,), inference=True, dims={"batch": (4, 1)}, output_folder=folder)
...     outputs = session.trace_graph(model, (x,), pef=pef)
>>> [tuple(session.run((batch,), outputs)[0].shape) for batch in (x, last)]
[(4, 2), (1, 2)]
"""

import itertools

from sambaflow import errors
from sambaflow._core import ffi, lib
from sambaflow.runtime import Context, Tensor
from sambaflow.samba import trees
from sambaflow.samba.arguments import MAPPINGS, check_hooks, listed, one_of
from sambaflow.samba.arguments import optimizers as optimizer_list
from sambaflow.samba.forward import forward_graph
from sambaflow.samba.optimizers import check_owned, numbers, set_optimizers
from sambaflow.samba.sambatensor import SambaTensor
from sambaflow.samba.settings import PRECISIONS
from sambaflow.samba.starts import tell_starts
from sambaflow.samba.trace import dtype_name
from sambaflow.words import encoded, path_of, text

_PRECISIONS = dict(zip(PRECISIONS, (lib.SAMBA_FP32, lib.SAMBA_BF16)))


# ---- which sizes ----


def _check_dims(dims):
    if not isinstance(dims, dict) or not dims:
        raise errors.ArgumentTypeError(
            f"compile: dims is {{name: sizes}} of the inputs' first dims, as {{'batch': (32, 11)}}: given {dims!r:.100}"
        )
    for name, sizes in dims.items():
        if not isinstance(sizes, (tuple, list)) or not sizes or any(type(size) is not int or size < 1 for size in sizes):
            raise errors.ArgumentError(f"compile: dims[{name!r}] is {sizes!r:.100}: expected a tuple of sizes, 1 or more")
        if len(set(sizes)) != len(sizes):
            raise errors.ArgumentError(f"compile: dims[{name!r}] has a size twice: {tuple(sizes)}")


def _resized(tensor, shape):
    """An example of another shape: it has no values."""
    if tuple(tensor.shape) == tuple(shape):
        return tensor
    name, region = getattr(tensor, "sn_name", "") or None, getattr(tensor, "_sn_region_name", None)
    made = SambaTensor(shape=tuple(shape), dtype=tensor.dtype, name=name, region_name=region)
    return made.requires_grad_() if tensor.requires_grad else made


def _of_dims(inputs, dims):
    """The examples of each combination of sizes, that of `inputs` first."""
    _check_dims(dims)
    given = trees.tensors(inputs)
    own = tuple(next((x.shape[d] for x in given if d < x.dim()), sizes[0]) for d, sizes in enumerate(dims.values()))
    for x in given:
        for d, (name, sizes) in enumerate(dims.items()):
            if d < x.dim() and (x.shape[d] not in sizes or x.shape[d] != own[d]):
                wanted = f"the first input {own[d]}" if x.shape[d] in sizes else f"its sizes are {', '.join(map(str, sizes))}"
                raise errors.ShapeError(
                    f"compile: input {getattr(x, 'sn_name', '')!r} has {x.shape[d]} in dim {d}, which is {name!r} of dims, and "
                    f"{wanted}: dims names the first dims of all inputs; where they differ from input to input, give examples of "
                    "each size as `sizes`"
                )
    combinations = [own, *(each for each in itertools.product(*dims.values()) if each != own)]
    return [
        trees.mapped(lambda x, _, each=each: _resized(x, (*each[: x.dim()], *x.shape[len(each) :])), inputs, "")
        for each in combinations
    ]


def _check_alike(examples):
    """All sizes have the inputs of the first."""
    first = trees.tensors(examples[0])
    for number, other in enumerate(examples[1:]):
        its = trees.tensors(other)
        if len(its) != len(first):
            raise errors.ArgumentError(f"compile: sizes[{number}] has {len(its)} inputs, and `inputs` has {len(first)}")
        for x, y in zip(first, its):
            names = getattr(x, "sn_name", ""), getattr(y, "sn_name", "")
            if names[0] != names[1] or x.dtype != y.dtype or x.dim() != y.dim():
                raise errors.ArgumentError(
                    f"compile: an input of sizes[{number}], {names[1]!r} of {y.dtype} and {y.dim()} dims, stands where `inputs` "
                    f"has {names[0]!r} of {x.dtype} and {x.dim()} dims: sizes differ in shapes alone"
                )


def examples_of(inputs, dims, sizes):
    """The example inputs of each graph; None where there is one."""
    if dims is None and sizes is None:
        return None
    if dims is not None and sizes is not None:
        raise errors.ArgumentError("compile: dims and sizes both say which sizes there are: give one of them")
    if sizes is not None and (not isinstance(sizes, (list, tuple)) or not sizes):
        raise errors.ArgumentTypeError(
            f"compile: sizes is a list of example inputs, one item a size beside `inputs`: given {sizes!r:.100}"
        )
    examples = _of_dims(inputs, dims) if dims is not None else [inputs, *sizes]
    _check_alike(examples)
    return examples


def _labels(examples):
    """What each size is called: the sizes of the dims that vary, those that go together once."""
    rows = [[size for x in trees.tensors(each) for size in x.shape] for each in examples]
    columns = dict.fromkeys(column for column in zip(*rows) if len(set(column)) > 1)
    labels = ["x".join(map(str, row)) for row in zip(*columns)] if columns else []
    if len(set(labels)) != len(examples):
        raise errors.ArgumentError("compile: two of the sizes have inputs of the same shapes: give each once")
    return labels


# ---- compiling ----


def _target(name, pef_name, output_folder):
    return (
        ffi.new("char[]", encoded(pef_name or name, "compile: pef_name")),
        ffi.new("char[]", path_of(output_folder, "compile: output_folder")),
    )


def _options(tracer, name, chosen, optimizers, its_numbers=None):
    """samba_compile_options of a traced graph, and what they point into."""
    inference = chosen["inference"]
    one_of("precision", chosen["precision"], _PRECISIONS)
    options = ffi.new("samba_compile_options *", lib.samba_compile_defaults())
    kept = ffi.new("char[]", encoded(name, "compile: name"))
    options.name, options.graph = kept, tracer.graph
    options.inference, options.precision = inference, _PRECISIONS[chosen["precision"]]
    options.grad_accumulation_steps, options.memory_budget = chosen["grad_accumulation_steps"], chosen["memory_budget"]
    options.mapping, options.fast_memory = MAPPINGS.index(chosen["mapping"]), chosen["fast_memory"]
    options.data_parallel = chosen["data_parallel"]
    alive = None
    if not inference:
        check_owned("compile", tracer, optimizer_list("compile", optimizers))
        alive = set_optimizers(options, tracer, optimizer_list("compile", optimizers), its_numbers)
    return options, (kept, alive)


def compile_model(model, inputs, optimizers, name, loss_indices, examples, legacy, output_folder, pef_name, **chosen):
    """Traces the model, for one size or for each of `examples`, and writes the PEF, whose path it returns. `legacy`: whether
    names are those of use_legacy_names."""
    name = name or type(model).__name__
    path, inference = ffi.new("char[]", 4096), chosen["inference"]
    if examples is None:
        tracer, outputs = forward_graph(model, inputs, loss_indices, name, may_train=not inference, legacy_names=legacy)
        if not inference:
            check_hooks("compile", model)
            tell_starts(tracer, outputs, loss_indices)
        options, _kept = _options(tracer, name, chosen, optimizers)
        options.pef_name, options.output_folder = _words = _target(name, pef_name, output_folder)
        tracer.context.check(lib.samba_compile(tracer.context.c, options, path, len(path)))
        return text(path)
    context, made, known = Context(), ffi.new("samba_multigraph **"), {}
    context.check(lib.samba_multigraph_new(context.c, made))
    several, tracers = context.owned(made[0], lib.samba_multigraph_free), []
    for each, label in zip(examples, _labels(examples)):
        tracer, outputs = forward_graph(
            model, each, loss_indices, name, may_train=not inference, context=context, legacy_names=legacy
        )
        if not inference and not tracers:
            check_hooks("compile", model)
            tell_starts(tracer, outputs, loss_indices)
        tracers.append(tracer)
        its = [] if inference else numbers(tracer, optimizer_list("compile", optimizers), known)
        options, _kept = _options(tracer, name, chosen, optimizers, its)
        context.check(lib.samba_multigraph_add_size(several, options, label.encode()))
    context.check(lib.samba_multigraph_compile(several, *_target(name, pef_name, output_folder), path, len(path)))
    return text(path)


# ---- a PEF that is traced ----


def _each(function, inputs):
    """The same inputs with function(tensor, its name on the device) for each tensor."""

    def named(x, path):
        return function(x, getattr(x, "sn_name", "") or path)

    if isinstance(inputs, dict):
        return {key: trees.mapped(named, x, key) for key, x in inputs.items()}
    return [trees.mapped(named, x, f"input_{i}") for i, x in enumerate(listed(inputs))]


def graph_of(device, inputs):
    """Number of the PEF's graph that was compiled for these inputs."""
    found = []
    if not device.is_sized:
        return 0
    _each(lambda x, name: found.append(Tensor.empty(name, dtype_name(x.dtype), tuple(x.shape), device.context)), inputs)
    return device.graph_for(found)


def compare_others(session, device, model, inputs, loss_indices, own):
    """Compares the model with all graphs of the PEF but its `own`, each traced for the shapes that it has."""
    for number in range(len(device.graph_names)):
        if not device.is_sized or number == own:
            continue

        def its(x, name, number=number):
            known = device.name_in(number, name)
            return x if known is None else _resized(x, device.tensors[known][2])

        tracer, _ = forward_graph(model, _each(its, inputs), loss_indices, "", legacy_names=session._legacy_names)
        session._compare(device, tracer, number)
