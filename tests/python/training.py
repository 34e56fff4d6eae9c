# SPDX-License-Identifier: Apache-2.0
"""Training beside PyTorch: the same model, inputs and optimizer three times, by us in its dtype, by torch in its dtype and by torch in float64.

What the float64 run gives is taken for exact. Rounding makes torch miss it by some distance, and ours may be a few times as far away, no
more; a mistake in a formula would be thousands of times further. Compared at every step: the loss, the gradient of every parameter, every
buffer; at the end every parameter.

Two things are larger than rounding. At a kink (relu, max pooling) an activation within rounding of it may go either way, in ours or in
torch's run; models with many such elements are given KINK, about what one pixel contributes. A model in float64 has no more exact run to be
compared with; it is given a millionth of what float32 is."""
import copy

import torch

import sambaflow.samba as samba

FACTOR = 4  # times torch's own distance
ULPS = 16  # or so many units in the last place of the largest value of its kind, where torch happens to be exact
KINK = 1e-2  # of the largest value of its kind
DOUBLE = 1e-10  # of the largest value of its kind, where the model is in float64


def first(result):
    """The loss: alone, first of a tuple, or of a dict-like output."""
    return result if isinstance(result, torch.Tensor) else result[0]


def in_double(x):
    return x.double() if isinstance(x, torch.Tensor) and x.dtype.is_floating_point else x


def _distance(x, exact):
    return (x.double() - exact.double()).norm().item() / max(exact.numel(), 1) ** 0.5


class Comparison:
    """Distances of ours and theirs from the exact run."""

    def __init__(self, dtype, kinks):
        self.relative = DOUBLE if dtype is torch.float64 else KINK if kinks else ULPS * torch.finfo(dtype).eps
        self.worst = (0.0, "")  # ratio to what is allowed, and where

    def check(self, what, ours, theirs, exact, scale):
        """Ours may be FACTOR times as far as theirs, and so much of `scale`."""
        mine, its = _distance(ours, exact), _distance(theirs, exact)
        allowed = FACTOR * its + self.relative * scale
        assert mine <= allowed, f"{what}: root mean square error {mine:.3g}, torch's {its:.3g}, allowed {allowed:.3g}"
        self.worst = max(self.worst, (mine / allowed if allowed else 0.0, what))


def _largest(tensors):
    return max((x.abs().max().item() for x in tensors if x is not None and x.numel()), default=0.0)


def train(tmp_path, model, inputs, steps=20, lr=0.01, optimizer="SGD", kinks=False, hyperparameters=None):
    """Trains three ways and compares; gives back the losses."""
    theirs, exact = copy.deepcopy(model), copy.deepcopy(model).double()
    samba.from_torch_model_(model)
    given = tuple(samba.from_torch_tensor(x, name=f"in{i}") for i, x in enumerate(inputs))
    options = {"SGD": {"momentum": 0.9}, "AdamW": {"eps": 1e-4}}[optimizer]  # a larger eps: near 0 AdamW divides rounding by rounding
    ours = getattr(samba.optim, optimizer)(model.parameters(), lr=lr, **options)
    references = [(x, getattr(torch.optim, optimizer)(x.parameters(), lr=lr, **options), tuple(map(change, inputs)))
                  for x, change in ((theirs, lambda x: x), (exact, in_double))]  # fmt: skip
    pef = samba.session.compile(model, given, ours, name="model", loss_indices=[0], output_folder=str(tmp_path))
    samba.utils.trace_graph(model, given, ours, pef=pef, loss_indices=[0])
    dtype = next(p.dtype for p in model.parameters())
    comparison, losses, names = Comparison(dtype, kinks), [], {name: x.sn_name for name, x in model.named_parameters()}
    for step in range(steps):
        loss = samba.session.run(given, model.output_tensors[:1], hyperparam_dict=hyperparameters)[0].torch()
        expected = []
        for reference, their_optimizer, their_inputs in references:
            their_optimizer.zero_grad()
            expected.append(first(reference(*their_inputs)))
            expected[-1].backward()
        losses.append(loss.item())
        comparison.check(f"loss of step {step}", loss, *(x.detach() for x in expected), 1 + abs(expected[1].item()))
        scale = _largest(p.grad for p in exact.parameters())
        for (name, p), q in zip(theirs.named_parameters(), exact.parameters()):
            if p.grad is not None:
                comparison.check(f"gradient of {name} at step {step}", samba.session.device_get(f"{names[name]}.grad"), p.grad, q.grad, scale)
            elif p.requires_grad:
                assert not samba.session.has(f"{names[name]}.grad") or not samba.session.device_get(f"{names[name]}.grad").any(), name
        state = model.state_dict(keep_vars=True)
        for (name, p), q in zip(theirs.named_buffers(), exact.buffers()):
            if name in state and samba.session.has(name):
                if p.dtype.is_floating_point:
                    comparison.check(f"buffer {name} at step {step}", samba.session.device_get(name), p, q, _largest([q]))
                else:
                    assert torch.equal(samba.session.device_get(name), p), name
        for _, their_optimizer, _ in references:
            their_optimizer.step()
    samba.session.to_cpu(model)
    scale = _largest(p.detach() for p in exact.parameters())
    for (name, p), q, mine in zip(theirs.named_parameters(), exact.parameters(), model.parameters()):
        comparison.check(f"parameter {name}", mine.torch(), p.detach(), q.detach(), scale)
    return losses
