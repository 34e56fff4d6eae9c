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
from sambaflow.samba.sambaloader import SambaLoader
from sambaflow.samba.utils.argparser import parse_app_args
from sambaflow.samba.utils.common import common_app_driver
from sambaflow.samba.utils.dataset.mnist import dataset_transform
from sambaflow.samba.utils.pef_utils import get_pefmeta
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
