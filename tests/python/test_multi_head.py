# SPDX-License-Identifier: Apache-2.0
"""torch.nn.MultiheadAttention: its values are PyTorch's, whatever is asked of it, and its dropout draws in each run,
not once while tracing."""

import pytest
import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.graph import FwdGraph

MASK = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
PADDED = torch.tensor([[False] * 5, [False, False, False, True, True]])


def compiled(model, inputs, tmp_path, inference=True):
    pef = samba.session.compile(model, inputs, inference=inference, output_folder=str(tmp_path), name="heads")
    return utils.trace_graph(model, inputs, pef=pef)


@pytest.mark.parametrize(
    "options",
    [
        {"need_weights": False},
        {},
        {"average_attn_weights": False},
        {"attn_mask": MASK},
        {"attn_mask": MASK, "is_causal": True, "need_weights": False},
        {"key_padding_mask": PADDED},
        {"key_padding_mask": PADDED, "need_weights": False},
    ],
    ids=lambda options: " ".join(options) or "as it is",
)
def test_values(options, tmp_path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = torch.nn.MultiheadAttention(8, 2, dropout=0.0, batch_first=True)

        def forward(self, x, y):
            return [t for t in self.attention(x, y, y, **options) if t is not None]

    model = Model()
    x, y = torch.randn(2, 5, 8), torch.randn(2, 5, 8)
    expected = [t.detach() for t in model(x, y)]
    samba.from_torch_model_(model)
    inputs = samba.from_torch_tensor(x, name="x"), samba.from_torch_tensor(y, name="y")
    outputs = compiled(model, inputs, tmp_path)
    for got, want in zip(samba.session.run(inputs, outputs), expected, strict=True):
        torch.testing.assert_close(got.torch(), want, rtol=1e-5, atol=1e-6)  # fp32 sums of 8 in another order


@pytest.mark.parametrize("need_weights", [False, True])
def test_dropout_draws_in_each_run(need_weights, tmp_path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = torch.nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True)

        def forward(self, x):
            return self.attention(x, x, x, need_weights=need_weights)[0]

    model = samba.from_torch_model(Model().train())
    x = samba.randn(2, 5, 8, name="x")
    assert not [o for o in FwdGraph(model, (x,)) if o.op == "literal"]  # no mask drawn while tracing
    outputs = compiled(model, (x,), tmp_path, inference=False)
    (seed,) = samba.session.get_dropout_seed_argin_names()
    first, second = (
        samba.session.run((x,), outputs, {seed: number}, section_types=["FWD"])[0].torch().clone() for number in (1, 2)
    )
    assert not torch.equal(first, second)
    still = samba.session.run((x,), outputs, section_types=["FWD"], train=False)[0].torch()
    reference = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    reference.load_state_dict({name[len("attention.") :]: p.detach().torch_tensor() for name, p in model.named_parameters()})
    torch.testing.assert_close(still, reference(x.torch(), x.torch(), x.torch())[0].detach(), rtol=1e-5, atol=1e-6)
