# SPDX-License-Identifier: Apache-2.0
"""A user's program as `mypy --strict` reads it: each line is right. Only types are looked at; test_typing.py does."""

from __future__ import annotations

import torch

import sambaflow
import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.errors import ShapeError
from sambaflow.logging import samba_logger
from sambaflow.runtime import Session, Tensor
from sambaflow.samba.argconf.args import FlattenSambaArgsAllowExtra
from sambaflow.samba.directives import op_fusion, sdpa_directives
from sambaflow.samba.functional.stir import sn_imm, sn_iteridx, sn_select, sn_zipmapreduce
from sambaflow.samba.graph import FwdGraph
from sambaflow.samba.lazy_param import RNGProvider, RNGProviderFactory
from sambaflow.samba.sambaloader import SambaLoader
from sambaflow.samba.utils import SNType
from sambaflow.samba.utils.argparser import parse_app_args
from sambaflow.samba.utils.checkpoint import load_sharded_checkpoint
from sambaflow.samba.utils.common import common_app_driver
from sambaflow.samba.utils.dataset.mnist import dataset_transform
from sambaflow.samba.utils.pef_utils import PefInfoStruct, get_pef_info, get_pefmeta
from sambaflow.sambacollections import OrderedSet


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = samba.nn.Linear(784, 10)

    def forward(self, image: torch.Tensor, label: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.lin(image)
        return samba.cross_entropy(logits, label), samba.relu(logits)


def train(steps: int) -> float:
    model: Model = samba.from_torch_model_(Model())
    image: samba.SambaTensor = samba.randn(32, 784, name="image", batch_dim=0)
    inputs = (image, samba.randint(10, (32,), name="label"))
    optim = samba.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, max_grad_norm=1.0)
    pef: str = samba.session.compile(model, inputs, optim, name="digits", loss_indices=[(0,)])
    outputs = utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])
    for step in range(steps):
        loss, logits = samba.session.run(inputs, outputs, hyperparam_dict={"lr": 0.1 * 0.9**step}, section_types=["FWD", "BCKWD"])
    samba.session.run(model, inputs, outputs)
    samba.session.to_cpu(model, optim)
    weights: torch.Tensor = samba.to_torch(model.lin.weight)
    host: torch.Tensor | None = image.torch()
    names: OrderedSet[str] = samba.session.get_argin_names()
    samba_logger.info("%d names, %s, %s", len(names), host is None, weights.shape, log_limit=1)
    with samba.session.samba_profile("times.txt") as profiler:
        print(profiler.summary())
    return float(loss.item())


class Routed(torch.nn.Module):
    """Functions and directives of public programs."""

    def forward(self, x: torch.Tensor, chosen: torch.Tensor) -> samba.SambaTensor:
        with op_fusion(func_name="routing"), sdpa_directives({"tile": 64}):
            rows, counts = samba.groupby(x, chosen, num_groups=2, capacity=4)
            one: samba.SambaTensor = samba.sn_gather(rows, counts, 1, 2, batched_dims=0)
            put = samba.sn_scatter(rows, counts, one, [1], lengths=[2], batched_dims=[0], reduce="sum")
            drawn: samba.SambaTensor = samba.sn_multinomial(put.softmax(-1)[0], 1)
        masked = samba.triu_fill(x, diagonal=0)
        found: samba.SambaTensor = sn_zipmapreduce(
            lambda a: sn_select(sn_iteridx(-1, SNType.INT32) > 1, a, sn_imm(0.0)), [masked, drawn], reduce="sum", dims=-1
        )
        return found


def generate(model: torch.nn.Module, folder: str) -> list[float]:
    inputs = (samba.zeros(1, dtype=torch.int64, name="token"),)
    outputs: tuple[samba.SambaTensor, ...] = utils.trace_multigraph(model, inputs)
    outputs[0].sn_region_name = "token"
    samba.session.add_graph(FwdGraph(inputs, outputs, "decode"))
    info: PefInfoStruct = get_pef_info("out/decode/decode.pef")
    missing: list[str] = load_sharded_checkpoint(model, folder, strict=False).missing_keys
    seed: int = RNGProviderFactory(seed=1)("weight").seed + len(missing)
    weight: torch.Tensor = RNGProvider(seed).rng().normal(size=(2, 2))
    if samba.session.is_valid_aux_tensor_name("mask"):
        samba.session.add_aux_tensor("mask", weight).sn_data = weight
    args = FlattenSambaArgsAllowExtra(batch_size=4, pef_name=info.graph_names[0])
    samba.session.setup(args)
    with samba.lazy_param(seed=args.seed):
        samba.session.profiler.start_event("decode")
    seconds: float = samba.session.profiler.end_event("decode", count=args.batch_size)
    rate: float = samba.session.profiler.get_throughputs("decode")
    return [seconds, rate, *samba.session.profiler.get_latencies("decode")]


def alone(pef: str, rows: bytearray) -> list[float]:
    try:
        session = Session(pef, threads=2)
        out = Tensor.zeros("output_1", "float32", (32, 10), session.context)
        session.run([Tensor.wrap("image", rows)], [out], {"lr": 0.1}, section_types=("FWD",), train=False)
        found: list[float] = out.tolist()
        return found
    except ShapeError as error:
        raise SystemExit(f"{sambaflow.__version__}: {error}") from error


def application() -> None:
    args = parse_app_args(common_parser_fn=lambda parser: parser.add_argument("--hidden", type=int))
    common_app_driver(args, Model(), (samba.rand(2, 784, name="image"),), None, "digits")
    for image, label in SambaLoader([(torch.rand(2, 784), torch.ones(2))], ["image", "label"]):
        print(image.sn_name, dataset_transform()(label), get_pefmeta(args.pef).section_types)
