# SPDX-License-Identifier: Apache-2.0
"""Training beside PyTorch: the same model, inputs and optimizer three times, by us in its dtype, by torch in its dtype and by
torch in float64.

What the float64 run gives is taken for exact. Rounding makes torch miss it by some distance, and ours may be a few times as far
away, no more; a mistake in a formula would be thousands of times further. Compared at every step: the loss, the gradient of every
parameter, every buffer; at the end every parameter.

At a kink (relu, max pooling) an activation within rounding of it may go either way, in ours or in torch's run, and which it does
depends on the processor. So where ours is too far away, torch trains again, up to RUNS times, with weights that are moved before
every step, element by element, by a unit in the last place up or down, as a rounding may: how far the farthest of these runs is
away says what right results may differ by. A model in float64 has no more exact run to be compared with;
it is given a millionth of what float32 is."""

import collections
import copy

import torch
from steady import steady_norms

import sambaflow.samba as samba

FACTOR = 4  # times torch's own distance
ULPS = 16  # or so many units in the last place of the largest value of its kind, where torch happens to be exact
DOUBLE = 1e-10  # of the largest value of its kind, where the model is in float64
RUNS = 24  # of torch with moved weights, at most: a kink may be met by one run in ten


def first(result):
    """The loss: alone, first of a tuple, or of a dict-like output."""
    return result if isinstance(result, torch.Tensor) else result[0]


def in_double(x):
    return x.double() if isinstance(x, torch.Tensor) and x.dtype.is_floating_point else x


def move(model, random):
    """Every weight by a unit in the last place, up or down."""
    with torch.no_grad():
        for p in model.parameters():
            up = torch.rand(p.shape, generator=random) < 0.5
            p.copy_(torch.nextafter(p, torch.where(up, torch.inf, -torch.inf).to(p.dtype)))


def _distance(x, exact):
    return (x.double() - exact.double()).norm().item() / max(exact.numel(), 1) ** 0.5


def _relative(dtype):
    return DOUBLE if dtype is torch.float64 else ULPS * torch.finfo(dtype).eps


def _largest(tensors):
    return max((x.abs().max().item() for x in tensors if x is not None and x.numel()), default=0.0)


class Peer:
    """torch's training of a copy of the model; with a seed its weights are moved before every step."""

    def __init__(self, model, make_optimizer, inputs, double=False, seed=None):
        self.model = steady_norms(copy.deepcopy(model).double() if double else copy.deepcopy(model))
        self.inputs = tuple(map(in_double, inputs)) if double else inputs
        self.optimizer, self.random = make_optimizer(self.model), None if seed is None else torch.Generator().manual_seed(seed)

    def step(self, number):
        """{what: tensor} of the step's loss and gradients and of the buffers after it."""
        if self.random is not None:
            move(self.model, self.random)
        self.optimizer.zero_grad()
        loss = first(self.model(*self.inputs))
        loss.backward()
        found = {f"loss of step {number}": loss.detach()}
        found.update(
            {
                f"gradient of {name} at step {number}": p.grad.clone()
                for name, p in self.model.named_parameters()
                if p.grad is not None
            }
        )
        found.update(
            {f"buffer {name} at step {number}": b.clone() for name, b in self.model.named_buffers() if b.dtype.is_floating_point}
        )
        self.optimizer.step()
        return found

    def parameters(self):
        return {f"parameter {name}": p.detach() for name, p in self.model.named_parameters()}


class Comparison:
    """Distances from the exact run: of ours, and the greatest of torch's runs."""

    def __init__(self, dtype):
        self.relative = _relative(dtype)
        self.mine, self.its, self.free = {}, {}, {}
        self.runs = 0  # of torch with moved weights

    def add(self, what, ours, theirs, exact, scale):
        relative = max(self.relative, _relative(theirs.dtype))  # a model of float64 may give float32
        self.mine[what], self.its[what], self.free[what] = _distance(ours, exact), _distance(theirs, exact), relative * scale

    def see(self, theirs, exact):
        for what in self.mine.keys() & theirs.keys():
            self.its[what] = max(self.its[what], _distance(theirs[what], exact[what]))

    def wrong(self):
        """What is farther away than is allowed; NaN is."""
        return [what for what, mine in self.mine.items() if not mine <= FACTOR * self.its[what] + self.free[what]]

    def check(self):
        wrong = self.wrong()
        assert not wrong, (
            f"{wrong[0]}: root mean square error {self.mine[wrong[0]]:.3g}, torch's {self.its[wrong[0]]:.3g} at most of "
            f"{1 + self.runs} runs, allowed "
            f"{FACTOR * self.its[wrong[0]] + self.free[wrong[0]]:.3g} ({len(wrong)} of {len(self.mine)} values)"
        )


def _move_until_right(comparison, make_peer, steps):
    """Runs of torch with moved weights, until ours is not too far away."""
    while comparison.wrong() and comparison.runs < RUNS:
        comparison.runs += 1
        moved, exact = make_peer(seed=comparison.runs), make_peer(double=True)
        for step in range(steps):
            comparison.see(moved.step(step), exact.step(step))
        comparison.see(moved.parameters(), exact.parameters())


def _names_of(model, original):
    """{name of a parameter of torch's: ours}; a tied parameter may have any of its names in ours."""
    ours = {name: x.sn_name for name, x in model.named_parameters()}
    names = collections.defaultdict(list)
    for name, x in original.named_parameters(remove_duplicate=False):
        names[id(x)].append(name)
    return {known[0]: ours[name] for known in names.values() for name in known if name in ours}


def train(tmp_path, model, inputs, steps=20, lr=0.01, optimizer="SGD", hyperparameters=None, original=None):
    """Trains three ways and compares; gives back the losses. `original`: torch's model, where ours is not the same module."""
    options = {"SGD": {"momentum": 0.9}, "AdamW": {"eps": 1e-4}}[
        optimizer
    ]  # a larger eps: near 0 AdamW divides rounding by rounding
    dtype, original = next(p.dtype for p in model.parameters()), copy.deepcopy(original or model)

    def peer(**which):
        return Peer(original, lambda x: getattr(torch.optim, optimizer)(x.parameters(), lr=lr, **options), inputs, **which)

    samba.from_torch_model_(model)
    given = tuple(samba.from_torch_tensor(x, name=f"in{i}") for i, x in enumerate(inputs))
    ours = getattr(samba.optim, optimizer)(model.parameters(), lr=lr, **options)
    theirs, exact = peer(), peer(double=True)
    pef = samba.session.compile(model, given, ours, name="model", loss_indices=[0], output_folder=str(tmp_path))
    samba.utils.trace_graph(model, given, ours, pef=pef, loss_indices=[0])
    comparison, losses, names = Comparison(dtype), [], _names_of(model, original)
    for step in range(steps):
        loss = samba.session.run(given, model.output_tensors[:1], hyperparam_dict=hyperparameters)[0].torch()
        losses.append(loss.item())
        its, right = theirs.step(step), exact.step(step)
        what = f"loss of step {step}"
        comparison.add(what, loss, its[what], right[what], 1 + abs(right[what].item()))
        scale = _largest(x for what, x in right.items() if what.startswith("gradient"))
        for name, p in theirs.model.named_parameters():
            what = f"gradient of {name} at step {step}"
            if what in its:
                comparison.add(what, samba.session.device_get(f"{names[name]}.grad"), its[what], right[what], scale)
            elif p.requires_grad and name in names:
                assert (
                    not samba.session.has(f"{names[name]}.grad") or not samba.session.device_get(f"{names[name]}.grad").any()
                ), name
        state = model.state_dict(keep_vars=True)
        for name, b in theirs.model.named_buffers():
            what = f"buffer {name} at step {step}"
            if name in state and samba.session.has(name):
                if what in its:
                    comparison.add(what, samba.session.device_get(name), its[what], right[what], _largest([right[what]]))
                else:
                    assert torch.equal(samba.session.device_get(name), b), name
    samba.session.to_cpu(model)
    its, right = theirs.parameters(), exact.parameters()
    scale = _largest(right.values())
    stored = {x.sn_name: x for x in model.parameters()}
    for name, mine in names.items():
        what = f"parameter {name}"
        comparison.add(what, stored[mine].torch(), its[what], right[what], scale)
    _move_until_right(comparison, peer, steps)
    comparison.check()
    return losses
