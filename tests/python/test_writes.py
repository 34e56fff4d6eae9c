# SPDX-License-Identifier: Apache-2.0
"""Writing in place while a model is traced: into tensors, their parts, views of them, buffers;
what torch would say afterwards, ours says too."""

import copy
import os
import time
from random import Random

import pytest
import torch
from models import beside_torch
from torch import nn

import sambaflow.samba as samba
import sambaflow.samba.utils as utils


class Writes(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.lin, self.function = nn.Linear(4, 6), function
        self.register_buffer("seen", torch.zeros(3, 6))
        self.register_buffer("scratch", torch.zeros(3, 6), persistent=False)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.frozen = nn.Parameter(torch.linspace(-1, 1, 18).view(3, 6), requires_grad=False)

    def forward(self, x):
        y = self.lin(x)  # (5, 6), a tensor in the middle
        result = self.function(self, y, x)
        return (y if result is None else result).square().mean()


def whole_column(self, y, x):
    y[:, 0] = 0


def every_second(self, y, x):
    y[..., ::2] += x[:, :3]


def offset_steps(self, y, x):
    y[1::3, 1:6:2] = y[0, 0]
    y[-1] = x[0, 0]


def a_view_of_a_view(self, y, x):
    part = y[1:4].t()[2:]
    part.mul_(2)
    part[0] -= x[0, :3]


def the_base_under_a_view(self, y, x):
    view = y.view(6, 5)
    y.mul_(3)
    return view[1:] + 0


def both_ways(self, y, x):
    row, column = y[2], y[:, 3]
    row.zero_()
    column.add_(1)
    return torch.cat([y, row.unsqueeze(0)]) + column.sum()


def a_copy_is_not_a_view(self, y, x):
    copied = y.t().reshape(5, 6)  # torch copies here
    copied += 100
    cloned = y.clone()
    cloned.fill_(7)
    return y + copied * 0.01


def shapes(self, y, x):
    y.unsqueeze(0).squeeze(0).flatten().view(5, 6)[0, 0] = 9
    y.transpose(0, 1).select(0, 2).copy_(x[:, 0])
    y.narrow(1, 3, 3).clamp_(min=0)
    y.movedim(0, 1).unflatten(0, (2, 3))[0].sub_(y[:, 3:].t())


def shapes_in_place(self, y, x):
    z = y.clone()
    z.unsqueeze_(0)
    row = y[1]
    row.unsqueeze_(0).mul_(row.shape[0] + 2)
    row[0, 1] = 9
    y.t_()
    y[0].add_(1)
    y.transpose_(0, 1).swapaxes_(axis0=0, axis1=1)
    made = y.new_zeros(6)
    made.unsqueeze_(1).add_(y[:, :1])
    return z.reshape(z.shape[0], -1).sum() * made.squeeze_(dim=1) + torch.quantile(y, 0.5, dim=1, keepdim=True)


def out_that_is_empty(self, y, x):
    with torch.no_grad():
        out, places = x.new_empty(0), torch.empty(0, dtype=torch.int64)
        torch.sort(x, out=(out, places))
    return y.sum() * out * out.shape[0] + places


def masks(self, y, x):
    y[y > 0.5] = 0.25
    y.masked_fill_(y < -0.5, -0.125)


def index_tensors(self, y, x):
    y[torch.tensor([0, 3])] = x[:2, :1].expand(2, 6)
    y[torch.tensor([1, 2, 4]), torch.tensor([0, -1, 2])] = 2.0
    y[:, [1, 3]] = 0.5
    y.index_add_(0, torch.tensor([0, 0, 2]), torch.ones(3, 6, dtype=y.dtype))
    y.scatter_(1, torch.tensor([[0], [1], [2], [3], [4]]), 1.5)


def index_tensors_of_no_dims(self, y, x):
    k, j = (x[0, 0] > 0).long() + 1, torch.tensor([0, -1, 2])
    row = y[k]  # a view, as y[1] is
    row.mul_(3)
    y[:, k][1:3].sub_(x[:2, 0])
    cube = y.reshape(1, 5, 6).repeat(2, 1, 1)
    cube[k - 1, :, j] = x[:, :3]
    cube[k - 1, None, 1:, k] = 0.5
    cube[:, k, k] += 2
    taken = torch.ops.aten.index(cube, [k - 1, None, j])  # (3, 5): there they are index tensors like others
    return taken * torch.arange(5) + cube[k - 1, :, j].t() + row.sum()


def filled_step_by_step(self, y, x):
    out = torch.zeros(5, 3, dtype=y.dtype)
    for i in range(3):
        out[:, i] = y[:, i] * (i + 1) + (out[:, i - 1] if i else 0)
    return out


def accumulated(self, y, x):
    total = y.new_zeros(5)
    for column in y.unbind(1):
        total += column
    return total


def functions_in_place(self, y, x):
    names = (
        "tanh_ sigmoid_ exp_ neg_ abs_ square_ sin_ cos_ expm1_ erf_ floor_ ceil_ round_ trunc_ reciprocal_ relu_ sign_ tril_ "
        "triu_ nan_to_num_"
    )
    made = [getattr(y.clone(), name)() for name in names.split()] + [
        getattr(x.exp(), name)() for name in ("sqrt_", "rsqrt_", "log_", "log1p_")
    ]
    y.add_(1).mul_(2).div_(3).sub_(x.mean()).addcmul_(x[:, :1], x[:, 1:2], value=0.5).lerp_(torch.ones_like(y), 0.25)
    y += 1
    y *= 2
    y /= 3
    y -= x[:, :1]
    return torch.cat([y.flatten(), *[z.flatten() for z in made]])


def operators_without_a_rule(self, y, x):
    y.xlogy_(torch.full_like(y, 2.0))


def out_argument(self, y, x):
    with torch.no_grad():
        out = torch.empty_like(y)
        torch.add(y, 1, out=out)
    return y + out * 2


def a_buffer(self, y, x):
    self.seen[1:] = self.seen[:-1].clone()
    self.seen[0] = y.detach()[0]
    self.seen.mul_(0.5)
    self.count += 1
    return y[:3] + self.seen


def windows_and_diagonals(self, y, x):
    y.unfold(1, 2, 2)[..., 1].mul_(3)
    windows = y.unfold(0, 3, 1)
    y.fill_diagonal_(0.5)
    y.t().fill_diagonal_(0.25, wrap=True)
    return torch.cat([y.flatten(), windows.flatten()])


def places_in_memory(self, y, x):
    y.as_strided((2, 3), (12, 2)).mul_(2)
    y[1:].as_strided((2, 2), (6, 1)).fill_(0.5)
    y[2:].as_strided((2,), (1,), 14).add_(1)
    later = y.as_strided((3,), (7,))
    turned = y.t().unflatten(0, (2, 3)).permute(2, 1, 0)  # its memory is y's, in another order
    turned.as_strided((2, 2), (9, 2), 3).mul_(-1)
    chunks = turned.stride()[0], turned[1:].stride(2)
    turned.as_strided((2, 2), chunks).add_(turned[1:].storage_offset() + 2 * turned.is_contiguous())
    y.sub_(1)
    return torch.cat([y.flatten(), later, turned.as_strided((4, 3), (5, 3)).flatten()])


def rows_where_a_mask_is_true(self, y, x):
    z = torch.stack([y, y * 2], -1)
    z[y > 0] = self.seen[0, :2]  # one row for all
    z[y[:, 0] < 0] = y[:1, :2]
    z[z > 1] = y.sum()
    return z


def the_tensor_itself(self, y, x):
    y.contiguous().mul_(2)
    y.cpu().add_(1)
    y.expand(5, 6).sub_(0.5)
    y.t().contiguous().mul_(100)  # a copy
    y.to(y.dtype, copy=True).mul_(100)


def beside_autograd(self, y, x):
    y.detach().mul_(2)
    y[1].detach()[0] = 7
    y[2:].detach().t()[0] += 1
    detached = y.detach()
    y.mul_(3)
    return y * (detached + 1)


def made_of_numbers(self, y, x):
    made = [
        torch.arange(6.0, dtype=y.dtype),
        torch.eye(6, dtype=y.dtype).clone(),
        torch.tensor([1.0] * 6, dtype=y.dtype),
        torch.linspace(0, 1, 6, dtype=y.dtype),
        torch.arange(6).to(y),
        torch.as_tensor([2.0] * 6, dtype=y.dtype),
    ]
    for tensor in made:
        tensor[0] = y[0, 0]
    made[0].add_(y[1])
    made[1].masked_fill_(y[0] > 0, 3.0)
    made[2][torch.tensor([1, 3])] = y[0, :2]
    made[3].index_add_(0, torch.tensor([5]), y[0, :1])
    return torch.cat([tensor.flatten() for tensor in made])


def over_the_memory_of_what_was_made(self, y, x):
    whole = torch.arange(36.0, dtype=y.dtype).view(6, 6)
    line, turned, column, part = whole.view(-1), whole.t(), whole[:, 1], torch.zeros(5, 6, dtype=y.dtype)[2]
    before = whole.clone()
    line[2] = y[0, 0]
    turned[0] = y[1]
    whole[:, 1].mul_(2)
    whole.data[5] = y[2]
    whole.detach()[4, 4] = 0
    whole.fill_diagonal_(1)
    part.copy_(y[3])
    return torch.cat([whole, line.view(6, 6), turned, column[None], part[None], before])


def numbers_written_into_constants(self, y, x):
    constant = torch.zeros(6)
    first = y[0] + constant
    constant[0] = 5.0
    constant[1:].add_(1)
    return torch.stack([first, y[0] + constant])


def sequences_padded(self, y, x):
    return nn.utils.rnn.pad_sequence([y[0], y[1, :2], y[2, :4]], batch_first=True, padding_value=0.5)


def data(self, y, x):
    self.seen.data.mul_(0.9).add_(y.data[:3], alpha=0.1)
    self.count.data = self.count.data + 1
    y.data[0].clamp_(min=0)
    y.data = y.data * 2
    return y * self.lin.weight.data.sum() + self.seen.data.mean()


def a_frozen_parameter(self, y, x):
    before = self.frozen.clone() * y[:3]
    with torch.no_grad():
        self.frozen.mul_(0.9).add_(y[:3], alpha=0.1)
        self.frozen[0] = y[3]
    self.frozen.data[1:].clamp_(min=0)
    self.frozen.data.copy_(self.frozen + self.lin.weight[:, :3].t())
    return before + self.frozen.clone() * y[:3]


def values_with_gradients_unseen(self, y, x):
    self.seen.data.copy_(y[:3])
    self.seen.detach()[1] = y[4]
    kept = self.seen.clone() * y[:3]
    self.seen = self.seen.clone()
    self.seen[0] = y[0]
    self.seen.data[1:].add_(y[2:4])
    with torch.no_grad():
        made = y * 2
    made.data.mul_(y)
    made[1:].detach()[0] = y[3]
    result = torch.cat([kept, self.seen * y[:3], made * y])
    self.seen = self.seen.detach()
    return result


def without_gradients(self, y, x):
    before = y[3:]
    with torch.no_grad():
        y.mul_(2)
        y[0] += 1
        before[0].sub_(x[0, 0])
        inside = y[1].clone()
        made = torch.zeros_like(y)
        made.add_(y).clamp_(min=0)
    y.mul_(3)
    return torch.cat([y * (inside + made), before])


def a_buffer_that_is_set(self, y, x):
    self.seen = 0.9 * self.seen + 0.1 * y.detach()[:3]
    self.count = self.count + 1
    result = y[:3] + self.seen
    self.seen.mul_(2)
    return result


def a_state_in_a_buffer(self, y, x):
    state = torch.tanh(y[:3] * self.seen + y[:3] * self.seen[:, :1] + y[:3])  # the gradient needs the old one
    self.seen = state.detach()
    return state


def a_buffer_without_gradients(self, y, x):
    self.seen.mul_(y[:3])
    self.seen += y[:3]
    with torch.no_grad():
        self.seen.clamp_(min=0).mul_(0.5)
        self.seen[0] = 1
    result = self.seen * y[:3]
    self.seen = self.seen.detach()
    return result


@pytest.mark.parametrize(
    "function",
    [value for value in list(globals().values()) if getattr(value, "__module__", "") == __name__ and value is not Writes],
    ids=lambda f: f.__name__,
)
def test_writes(tmp_path, function):
    beside_torch(tmp_path, Writes(function), (torch.randn(5, 4),), steps=2)


WAYS = {  # (of the tensor that is written into, of the value)
    "itself": (lambda z: z, lambda z: z),
    "a row": (lambda z: z[1], lambda z: z[1]),
    "columns": (lambda z: z[:, ::2], lambda z: z[:, ::2]),
    "turned": (lambda z: z.t()[1:], lambda z: z.t()[1:]),
    "data": (lambda z: z.data, lambda z: z),
    "a row of data": (lambda z: z.data[0], lambda z: z[0]),
    "detached": (lambda z: z.detach(), lambda z: z),
    "part of detached": (lambda z: z[1:].detach().t(), lambda z: z[1:].t()),
}
VERBS = {
    "copy_": lambda z, value: z.copy_(value),
    "add_": lambda z, value: z.add_(value),
    "mul_": lambda z, value: z.mul_(value),
    "lerp_": lambda z, value: z.lerp_(value, 0.3),
    "fill": lambda z, value: z.__setitem__(..., 0.5),
}
TARGETS = ("seen", "frozen", "made", "middle", "unseen")
SOURCES = (*TARGETS, "weight", "tanh")


def drawn_program(random):
    """Writes, each (target, way, verb, source, whether autograd is off), and which tensors are read at the end."""
    count = random.randint(1, 4)
    writes = [
        (
            random.choice(TARGETS),
            random.choice(list(WAYS)),
            random.choice(list(VERBS)),
            random.choice(SOURCES),
            random.random() < 0.3,
        )
        for _ in range(count)
    ]
    return writes, [name for name in TARGETS if name in {target for target, *_ in writes} or random.random() < 0.4]


def run_program(program):
    def function(self, y, x):
        writes, read = program
        with torch.no_grad():
            unseen = y[2:] * 1.5
        tensors = dict(seen=self.seen, frozen=self.frozen, made=torch.zeros_like(y[:3]), middle=y[:3] * 1, unseen=unseen)
        for target, way, verb, source, off in writes:
            if source == "weight":
                value = self.lin.weight.t()[:3]
            else:
                value = torch.tanh(y[2:]) if source == "tanh" else tensors[source].clone()
            with torch.set_grad_enabled(not off):
                place, part = WAYS[way]
                VERBS[verb](place(tensors[target]), part(value))
        result = torch.cat([tensors[name].clone() * y[:3] for name in read] + [y])
        self.seen = self.seen.detach()
        return result

    return function


def test_drawn_writes(tmp_path):
    """Whatever is written through whatever view: values, and who has a gradient, are torch's. Drawn anew where torch refuses."""
    seed = int(os.environ.get("SAMBAFLOW_SEED") or time.time())
    print("SAMBAFLOW_SEED", seed)
    random, tried = Random(seed), 0
    while tried < 6:
        program = drawn_program(random)
        x, model = torch.randn(5, 4), Writes(run_program(program))
        try:
            its = copy.deepcopy(model)
            for _ in range(2):
                its(x).backward()
        except RuntimeError:
            continue
        if its.frozen.requires_grad:
            continue  # in torch the second step's gradient goes on into the first's graph
        print(program)
        tried += 1
        beside_torch(tmp_path, model, (x,), steps=2)
        samba.session.reset()


def refused(function):
    model = samba.from_torch_model(Writes(function))
    samba.session.compile(model, (samba.randn(5, 4, name="x"),), inference=True, output_folder="unused")


class Stateful(nn.Module):
    """Keeps the state of its last run where no run of a graph finds it."""

    def __init__(self):
        super().__init__()
        self.cell, self.state = nn.LSTM(4, 4), None

    def forward(self, x):
        y, state = self.cell(x, self.state)
        self.state = tuple(part.detach() for part in state)
        return y


def test_what_a_forward_pass_leaves(tmp_path):
    model, inputs = samba.from_torch_model_(nn.Sequential(Stateful())), (samba.randn(3, 1, 4, name="x"),)
    pef = samba.session.compile(model, inputs, inference=True, output_folder=str(tmp_path))
    with pytest.raises(
        NotImplementedError, match="'state' of module '0' has a tensor that an earlier trace of forward left there"
    ):
        utils.trace_graph(model, inputs, pef=pef)


def test_buffers_are_the_modules_own_after_a_trace(tmp_path):
    model = samba.from_torch_model_(Writes(a_buffer_that_is_set))
    seen = model.seen
    samba.session.compile(model, (samba.randn(5, 4, name="x"),), inference=True, output_folder=str(tmp_path))
    assert model.seen is seen and set(model.state_dict()) == {"seen", "count", "frozen", "lin.weight", "lin.bias"}

    def of_another_shape(self, y, x):
        self.seen = y

    def several_names(self, y, x):
        self.seen = self.seen + 1

    model = Writes(several_names)
    model.lin.register_buffer("seen", model.seen)
    lost = Writes(lambda self, y, x: setattr(self, "scratch", y))
    for model, message in (
        (Writes(of_another_shape), r"sets 'seen' of the model, a buffer that was \(3, 6\).* to a tensor of \(5, 6\)"),
        (model, "'seen' of module 'lin' is a buffer that another name has too"),
        (lost, "'scratch' of the model, a buffer that was .* state_dict does not have"),
    ):
        samba.from_torch_model_(model)
        buffers = dict(model.named_buffers())
        with pytest.raises(NotImplementedError, match=message):
            samba.session.compile(model, (samba.randn(5, 4, name="x"),), inference=True, output_folder=str(tmp_path))
        assert all(x is buffers[name] for name, x in model.named_buffers())


class Passing(nn.Module):
    """Three buffers, and what they were."""

    def __init__(self, function):
        super().__init__()
        self.lin, self.function = nn.Linear(4, 2), function
        for i, name in enumerate("abc"):
            self.register_buffer(name, torch.tensor([i + 1.0, i + 5.0]))

    def forward(self, x):
        y = self.lin(x)
        return y.sum(), *self.function(self, y.detach().mean(0))


def a_copy(self, fresh):
    was = self.a.clone(), self.a * 1, self.b[1:], self.c.view(1, 2)
    self.a.add_(1)
    self.b.add_(fresh)
    self.c = fresh
    return *was, self.a, self.b.sum() + self.c


def the_buffer_itself(self, fresh):
    was = self.a, self.b.detach(), self.c.unsqueeze(0)
    self.a, self.b, self.c = self.a + 1, fresh, self.b * 2
    return *was, self.a, self.b.clone()


def places_changed(self, fresh):
    self.a, self.b, self.c = self.b, self.c, self.a
    return (self.a * 2 + self.b,)


def shifted(self, fresh):
    self.c.copy_(self.b)
    self.b.copy_(self.a)
    self.a.copy_(fresh)
    return (self.a * 2 + self.b,)


def turned(self, fresh):
    self.a = self.a.flip(0)
    self.b[0] = self.b[1]
    self.c.copy_(self.b)
    return (self.c + fresh,)


@pytest.mark.parametrize("function", [a_copy, the_buffer_itself, places_changed, shifted, turned], ids=lambda f: f.__name__)
def test_what_buffers_were(tmp_path, function):
    """An output or another buffer that is what a buffer was before the forward pass wrote there."""
    model = Passing(function)
    traced, x = samba.from_torch_model_(copy.deepcopy(model)), samba.randn(5, 4, name="x")
    optim = samba.optim.SGD(traced.parameters(), lr=0.1)
    pef = samba.session.compile(traced, (x,), optim, output_folder=str(tmp_path), loss_indices=[0])
    outputs = utils.trace_graph(traced, (x,), optim, pef=pef, loss_indices=[0])
    expected_optim = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        expected_optim.zero_grad()
        expected = model(x.torch())
        expected[0].backward()
        results = samba.session.run((x,), outputs)
        for i, (result, value) in enumerate(zip(results[1:], expected[1:])):
            if not any(value is buffer for buffer in model.buffers()):  # else it has changed meanwhile, as a view of it has
                torch.testing.assert_close(result.torch(), value.detach(), msg=lambda text: f"output {i + 1}: {text}")
        expected_optim.step()
        for name, buffer in model.named_buffers():
            torch.testing.assert_close(samba.session.device_get(name), buffer)


def test_what_is_refused():
    def a_view_of_another_shape(self, y, x):
        column = y[:, 0]
        y.t_()
        column.mul_(2)

    with pytest.raises(NotImplementedError, match=r"into a parameter.*test_writes.py:\d+"):
        refused(lambda self, y, x: self.lin.weight.mul_(2))
    with pytest.raises(NotImplementedError, match="into a parameter"):
        refused(lambda self, y, x: self.lin.weight.data.clamp_(-1, 1))
    with pytest.raises(NotImplementedError, match="into a parameter"):
        refused(lambda self, y, x: setattr(self.lin.weight, "data", y.t()[:, :4]))
    with pytest.raises(NotImplementedError, match="memory has gaps"):
        refused(lambda self, y, x: y[:, :4].t().as_strided((2,), (1,)).mul_(2))
    with pytest.raises(NotImplementedError, match="several elements are one"):
        refused(lambda self, y, x: y.unfold(1, 2, 1).mul_(2))
    with pytest.raises(NotImplementedError, match="several elements are one"):
        refused(lambda self, y, x: y[:1].expand(5, 6).add_(1))
    outside = torch.ones(3, 6)
    for written in (
        lambda self, y, x: outside.__setitem__(0, y[0]),
        lambda self, y, x: outside[:1].copy_(y[:1]),
        lambda self, y, x: self.scratch.add_(y[:3]),
        lambda self, y, x: torch.as_tensor(outside.numpy())[0].mul_(y[0]),
    ):
        with pytest.raises(NotImplementedError, match=r"constants that was not made in forward.*test_writes.py:\d+"):
            refused(written)
    assert bool((outside == 1).all())
    with pytest.raises(NotImplementedError, match="of memory of torch.float32"):
        refused(lambda self, y, x: [(z.view(torch.int32), z.copy_(y)) for z in [torch.zeros(5, 6)]][0][0] + 1)
    with pytest.raises(NotImplementedError, match="depends on values"):
        refused(lambda self, y, x: y.__setitem__(y > 0, y[:1]))
    with pytest.raises(NotImplementedError, match="makes"):
        refused(lambda self, y, x: y[:1].add_(y))
    with pytest.raises(NotImplementedError, match="resize_ and as_strided_ change sizes"):
        refused(lambda self, y, x: y.clone().resize_(30))
    with pytest.raises(NotImplementedError, match="view of a tensor whose shape was changed in place"):
        refused(a_view_of_another_shape)
    with pytest.raises(NotImplementedError, match="change of shape in place of a parameter"):
        refused(lambda self, y, x: self.seen.unsqueeze_(0) + y[:3])
