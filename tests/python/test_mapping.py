# SPDX-License-Identifier: Apache-2.0
"""Mappings and budgets of fast memory from Python:
the same bits, sections named by modules, refusals with the sizes, what runs may ask for."""

import itertools

import pytest
import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.directives import op_fusion
from sambaflow.samba.utils.pef_utils import get_pefmeta


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.norm = torch.nn.Linear(16, 48), torch.nn.Linear(48, 16), torch.nn.LayerNorm(16)

    def forward(self, x):
        return self.norm(x + self.down(torch.nn.functional.gelu(self.up(x))))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.drop, self.head = (
            torch.nn.Sequential(*(Block() for _ in range(4))),
            torch.nn.Dropout(0.1),
            torch.nn.Linear(16, 3),
        )
        op_fusion(self.blocks[1], "kept")

    def forward(self, x, label):
        y = self.head(self.drop(self.blocks(x)))
        return torch.nn.functional.cross_entropy(y, label), y


names = itertools.count()


def loaded(tmp_path, **keywords):
    """A session with a model whose weights are always the same, its inputs and its outputs."""
    samba.session.reset()
    utils.set_seed(3)
    torch.manual_seed(3)
    model = samba.from_torch_model_(Model())
    optim = samba.optim.AdamW(model.parameters(), lr=0.01, max_grad_norm=1.0)
    inputs = samba.from_torch_tensor(torch.randn(6, 16), name="x"), samba.from_torch_tensor(torch.arange(6) % 3, name="label")
    pef = samba.session.compile(
        model, inputs, optim, loss_indices=[(0,)], output_folder=str(tmp_path), pef_name=f"m{next(names)}", **keywords
    )
    outputs = utils.trace_graph(model, inputs, optim, loss_indices=[(0,)], pef=pef, mapping=keywords.get("mapping", "section"))
    return model, inputs, outputs, pef


def trained(tmp_path, **keywords):
    model, inputs, outputs, pef = loaded(tmp_path, **keywords)
    losses = [samba.session.run(inputs, outputs)[0].item() for _ in range(3)]
    weights = [x.sn_data for x in model.parameters()]
    return losses, weights, get_pefmeta(pef)


def least(tmp_path):
    with pytest.raises(ValueError, match=r"fast memory of 1 byte cannot hold stage 0 .*: model .* needs \d+ bytes") as refused:
        loaded(tmp_path, fast_memory=1)
    return int(str(refused.value).split("needs ")[1].split(" ")[0])


def test_same_bits(tmp_path):
    losses, weights, meta = trained(tmp_path)
    assert len(set(losses)) == 3 and [s["type"] for s in meta.sections] == ["FWD", "BCKWD", "GRADNORM", "OPT"]
    budget = least(tmp_path)
    for keywords in ({"fast_memory": budget}, {"fast_memory": 2 * budget}, {"mapping": "spatial"}, {"mapping": "section"}):
        again, others, meta = trained(tmp_path, **keywords)
        assert again == losses and all(torch.equal(a, b) for a, b in zip(weights, others))
        assert all(s["fast_memory"] <= keywords.get("fast_memory", meta.memory["total"]) for s in meta.sections)
        if "fast_memory" in keywords:
            assert len(meta.sections) > 4 and any("blocks." in s["name"] for s in meta.sections)
    with pytest.raises(ValueError, match="mapping 'spatial' keeps FWD and BCKWD in fast memory at once: that takes"):
        loaded(tmp_path, fast_memory=budget, mapping="spatial")
    with pytest.raises(ValueError, match="compile: mapping 'both': expected one of section, spatial"):
        loaded(tmp_path, mapping="both")
    samba.session.reset()


def test_runs_of_spatial(tmp_path):
    model, inputs, outputs, pef = loaded(tmp_path, mapping="spatial")
    assert (
        samba.session.get_section_types() == {"FWD", "BCKWD", "GRADNORM", "OPT"}
        and samba.session.loaded().sections[0] == "FWD+BCKWD"
    )
    assert samba.session.loaded().mapping == "spatial"
    loss, y = samba.session.run(inputs, outputs, section_types=["fwd"], train=False)
    torch.testing.assert_close(torch.nn.functional.cross_entropy(y.torch(), inputs[1].torch()), loss.torch())
    samba.session.run(section_types=["BCKWD"])
    with pytest.raises(RuntimeError, match="has used up those of the last"):
        samba.session.run(section_types=["BCKWD"])
    samba.session.run(inputs, outputs, section_ids=[0, [1, [2]]])
    samba.session.reset()


def test_setup(tmp_path):
    samba.session.reset()
    model = samba.from_torch_model_(torch.nn.Linear(3, 2))
    x = samba.ones(4, 3, name="x")
    plain = samba.session.compile(
        model, (x,), samba.optim.SGD(model.parameters(), lr=0.1), output_folder=str(tmp_path), pef_name="plain"
    )
    samba.session.setup({"mapping": "spatial"})
    pef = samba.session.compile(
        model, (x,), samba.optim.SGD(model.parameters(), lr=0.1), output_folder=str(tmp_path), pef_name="joint"
    )
    assert get_pefmeta(pef).sections[0]["type"] == "FWD+BCKWD"
    samba.session.trace_graph(model, (x,), pef=pef)
    with pytest.raises(RuntimeError, match="plain.pef was compiled with mapping 'section'"):
        samba.session.trace_graph(model, (x,), pef=plain)
    samba.session.reset()
