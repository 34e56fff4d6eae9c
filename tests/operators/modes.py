# SPDX-License-Identifier: Apache-2.0
"""One operator's samples in every mode that the library has.

eager     call(SambaTensors), one sample at a time, and torch's backward through the library's gradients
compiled  several samples traced into one graph between neighbours that fusion takes in: each tensor comes as the transpose of an
input and is
          multiplied by an input that is 1, so is the result, which leaves transposed as well. Exact neighbours: the values stay
          what they are
reference the same graph by the plain kernels (samba_function_options.reference)
"""

import torch

from sambaflow._core import ffi, lib
from sambaflow.samba import eager
from sambaflow.samba.sambatensor import SambaTensor, from_torch_tensor, to_torch
from sambaflow.samba.trace import Tracer, at_work

tree_map, tree_leaves = torch.utils._pytree.tree_map, torch.utils._pytree.tree_leaves


def tensors_of(tree):
    return [x for x in tree_leaves(tree) if isinstance(x, torch.Tensor)]


def wants_gradient(x):
    return x.dtype.is_floating_point and not getattr(x, "no_gradient", False)


def leaves_with_gradient(tree, wrap=lambda x: x):
    """The tree with tensors as leaves of autograd, and those leaves in order."""
    leaves = []

    def leaf(x):
        if not isinstance(x, torch.Tensor):
            return x
        made = wrap(x.detach().view_as(x))
        if wants_gradient(x):
            made.requires_grad_()
            leaves.append(made)
        return made

    return tree_map(leaf, tree), leaves


def gradients(results, leaves, seeds):
    """Of each leaf, zeros where nothing depends on it."""
    pairs = [(x, seed) for x, seed in zip(results, seeds) if seed is not None and x.requires_grad]
    if not pairs or not leaves:
        return [torch.zeros_like(to_torch(x)) for x in leaves]
    found = torch.autograd.grad([x for x, _ in pairs], leaves, [seed for _, seed in pairs], allow_unused=True)
    return [torch.zeros_like(to_torch(x)) if g is None else to_torch(g).detach() for x, g in zip(leaves, found)]


def seeds_for(results, generator):
    """A random gradient for each floating-point result."""
    return [
        (torch.rand(x.shape, generator=generator, dtype=torch.float64) * 2 - 1).to(x.dtype) if x.dtype.is_floating_point else None
        for x in results
    ]


def by_torch(call, sample, seeds=None, gradient=True):
    """(results, gradients) of torch itself; gradients None where not asked for."""
    if not gradient:
        with torch.no_grad():
            return [x.detach() for x in tensors_of(call(*sample.args, **sample.kwargs))], None
    (args, kwargs), leaves = leaves_with_gradient((sample.args, dict(sample.kwargs)))
    results = tensors_of(call(*args, **kwargs))
    return [x.detach() for x in results], gradients(results, leaves, seeds(results) if callable(seeds) else seeds)


def by_eager(call, sample, seeds, gradient):
    (args, kwargs), leaves = leaves_with_gradient((sample.args, dict(sample.kwargs)), SambaTensor)
    results = tensors_of(call(*args, **kwargs))
    values = [to_torch(x).detach() for x in results]
    return values, gradients(results, leaves, [None if s is None else SambaTensor(s) for s in seeds]) if gradient else None


def _turned(x):
    """Its dims in reverse order."""
    return x.permute(*reversed(range(x.dim()))) if x.dim() > 1 else x


class Whole:
    """Samples of one operator as one graph, and what it gives: run(reference) -> [(results, gradients)]."""

    def __init__(self, call, samples, gradient):
        self.samples = samples
        tracer = Tracer("prove")
        self.given, self.names, self.wanted, facts, outputs = [], [], [], [], []
        self.counts, self.leaves = [], []  # results and leaves with a gradient, of each sample
        ones = {}

        def one(dtype):
            if dtype not in ones:
                ones[dtype] = self._input(tracer, torch.ones((), dtype=dtype), f"one_{str(dtype).removeprefix('torch.')}")
            return ones[dtype]

        with at_work(tracer):
            for k, sample in enumerate(samples):
                mine = []

                def stand_in(x):
                    if not isinstance(x, torch.Tensor):
                        return x
                    traced = self._input(tracer, _turned(x.detach()).contiguous(), f"x{k}_{len(mine)}")
                    mine.append(len(self.given) - 1)
                    if gradient and sample.gradient and wants_gradient(x):
                        self.wanted.append(len(self.given) - 1)
                    return _turned(traced) * one(x.dtype)

                before = len(self.wanted)
                args, kwargs = tree_map(stand_in, (sample.args, dict(sample.kwargs)))
                results = tensors_of(call(*args, **kwargs))
                self.leaves.append(len(self.wanted) - before)
                self.counts.append(len(results))
                for x in results:
                    y = _turned(x * one(x.dtype))
                    name = f"y{len(outputs)}"
                    lib.samba_output(tracer.graph, name.encode(), tracer.value(y))
                    outputs.append(name)
                    facts.append((y.shape, y.dtype))
            tracer.check()
        self.tracer, self.outputs, self.facts = tracer, outputs, facts
        self.programs = {}

    def _input(self, tracer, x, name):
        self.given.append(x)
        self.names.append(name)
        return tracer.input(from_torch_tensor(x, name), name)

    def _program(self, by_reference):
        if by_reference not in self.programs:
            program = eager._Program(self.tracer.context, self.tracer.graph, self.names, self.outputs, self.facts)
            program.shapes = [(x.shape, x.dtype) for x in self.given]
            if by_reference:
                program.options = ffi.new("samba_function_options *", lib.samba_function_defaults())
                program.options.reference = True
            self.programs[by_reference] = program
        return self.programs[by_reference]

    def values(self, by_reference, given=None):
        return [_turned(y) for y in self._program(by_reference).run(given or self.given)]

    def gradients(self, by_reference, seeds):
        """Of the wanted inputs, in order."""
        if not self.wanted:
            return []
        gradient = self._program(by_reference).gradient(tuple(self.wanted))
        turned = [None if s is None else _turned(s).contiguous() for s in seeds]
        given = [self.given[i] for i in gradient.reads] + [turned[j] for j in gradient.grads]
        return [_turned(g) for g in gradient.program.run(given)]

    def run(self, by_reference, seeds):
        """seeds: of all results in a row. Per sample its results and gradients."""
        values, found = self.values(by_reference), self.gradients(by_reference, seeds)
        split = []
        for count, leaves in zip(self.counts, self.leaves):
            split.append((values[:count], found[:leaves]))
            values, found = values[count:], found[leaves:]
        return split
