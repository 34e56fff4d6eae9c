# SPDX-License-Identifier: Apache-2.0
"""Writing in place while a model is traced: into tensors, their parts, views of them, buffers; what torch would say afterwards, ours says too."""
import pytest
import torch
from models import beside_torch
from torch import nn

import sambaflow.samba as samba


class Writes(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.lin, self.function = nn.Linear(4, 6), function
        self.register_buffer("seen", torch.zeros(3, 6))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

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
    names = "tanh_ sigmoid_ exp_ neg_ abs_ square_ sin_ cos_ expm1_ erf_ floor_ ceil_ round_ trunc_ reciprocal_ relu_ sign_ tril_ triu_ nan_to_num_"
    made = [getattr(y.clone(), name)() for name in names.split()] + [getattr(x.exp(), name)() for name in ("sqrt_", "rsqrt_", "log_", "log1p_")]
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


@pytest.mark.parametrize("function", [value for value in list(globals().values()) if getattr(value, "__module__", "") == __name__ and value is not Writes],
                         ids=lambda f: f.__name__)  # fmt: skip
def test_writes(tmp_path, function):
    beside_torch(tmp_path, Writes(function), (torch.randn(5, 4),), steps=2)


def refused(function):
    model = samba.from_torch_model(Writes(function))
    samba.session.compile(model, (samba.randn(5, 4, name="x"),), inference=True, output_folder="unused")


def test_what_is_refused():
    def a_view_of_another_shape(self, y, x):
        column = y[:, 0]
        y.t_()
        column.mul_(2)

    with pytest.raises(NotImplementedError, match=r"into a parameter.*test_writes.py:\d+"):
        refused(lambda self, y, x: self.lin.weight.mul_(2))
    with pytest.raises(NotImplementedError, match="several elements are one"):
        refused(lambda self, y, x: y[:1].expand(5, 6).add_(1))
    with pytest.raises(NotImplementedError, match="index in one step"):
        refused(lambda self, y, x: y.new_zeros(5, 6)[0].copy_(y[0]))
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
