# SPDX-License-Identifier: Apache-2.0
"""Forecasts a series by an LSTM: trained to say the next value at each place, then asked for 24 values on its own.

    python examples/python/forecast_series.py

Two graphs share the weights in one PEF: `train` reads windows of 48 values, `next` reads one value and the LSTM's state, and
gives the next value and the state behind it. What `next` has made is its next input.
"""

import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.graph import FwdGraph, SambaGraph

HIDDEN = 32


class Train(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(1, HIDDEN, batch_first=True)
        self.head = torch.nn.Linear(HIDDEN, 1)

    def forward(self, past, future):
        hidden, _ = self.lstm(past)
        return torch.nn.functional.mse_loss(self.head(hidden), future)


class Next(torch.nn.Module):
    def __init__(self, lstm, head):
        super().__init__()
        self.lstm, self.head = lstm, head

    def forward(self, value, h, c):
        hidden, (h, c) = self.lstm(value, (h, c))
        return self.head(hidden), h, c


utils.set_seed(1)
time = torch.arange(1200.0)
series = 0.6 * torch.sin(time * 2 * torch.pi / 24) + 0.3 * torch.sin(time * 2 * torch.pi / 7) + 0.05 * torch.randn(1200)

model = samba.from_torch_model_(Train())
following = Next(model.lstm, model.head)
optim = samba.optim.Adam(model.parameters(), lr=0.01)
windows = samba.zeros(32, 48, 1, name="past"), samba.zeros(32, 48, 1, name="future")
one = samba.zeros(1, 1, 1, name="value"), samba.zeros(1, 1, HIDDEN, name="h"), samba.zeros(1, 1, HIDDEN, name="c")
samba.session.add_graph(SambaGraph(model, windows, optim, name="train", loss_indices=[0]))
samba.session.add_graph(FwdGraph(following, one, name="next"))
pef = samba.session.compile_multigraph("forecast")
losses = utils.trace_multigraph(model, windows, optim)
states = utils.trace_multigraph(following, one)
samba.session.init_multigraph_runtime(pef)

for step in range(300):
    rows = torch.randint(0, 1000 - 48, (32, 1)) + torch.arange(49)
    window = series[rows].unsqueeze(2)
    batch = samba.from_torch_tensor(window[:, :-1], name="past"), samba.from_torch_tensor(window[:, 1:], name="future")
    (loss,) = samba.session.run(batch, losses, graph_name="train")
    if (step + 1) % 100 == 0:
        print(f"step {step + 1}  loss {loss.item():.4f}")


def forecast(known, count):
    """The `count` values behind those that are known."""
    h = c = torch.zeros(1, 1, HIDDEN)
    values = known.tolist()
    for place in range(len(known) + count - 1):
        given = torch.tensor(values[place]).reshape(1, 1, 1), h, c
        named = [samba.from_torch_tensor(tensor, name=name) for tensor, name in zip(given, ("value", "h", "c"))]
        made, h, c = (tensor.torch() for tensor in samba.session.run(named, states, graph_name="next"))
        if place >= len(known) - 1:
            values.append(made.item())
    return torch.tensor(values[len(known) :])


starts = range(1048, 1176, 16)  # none of these values was trained on
errors = torch.stack([forecast(series[start - 48 : start], 24) - series[start : start + 24] for start in starts])
a_day_ago = torch.stack([series[start - 24 : start] - series[start : start + 24] for start in starts])
ours, simple = errors.square().mean().sqrt(), a_day_ago.square().mean().sqrt()
print(f"root mean square error of 24 values: {ours:.3f}; of saying what was 24 values ago: {simple:.3f}")
assert ours < 0.5 * simple
