# SPDX-License-Identifier: Apache-2.0
"""A program in the style of the slides: its model, its command line, and a line of what it did. It compiles by session.compile,
with `--way config` by a config_dict too, with `--way driver` by common_app_driver, and lets sambaflow read everything else from
the command line. test_programs.py runs it:
to load torch once, several command lines stand behind each other, divided by +, each in a session of its own."""

import sys

import torch
import torch.nn as nn

import sambaflow.samba
import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.utils.argparser import parse_app_args
from sambaflow.samba.utils.common import common_app_driver
from sambaflow.samba.utils.pef_utils import get_pefmeta


class Model(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.gemm1, self.norm, self.gemm2 = nn.Linear(features, hidden), nn.LayerNorm(hidden), nn.Linear(hidden, classes)
        self.criterion = nn.CrossEntropyLoss()

    def forward(self, inputs, targets):
        out = self.gemm2(torch.tanh(self.norm(self.gemm1(inputs))))
        return self.criterion(out, targets), out


def add_args(parser):
    parser.add_argument("--num-features", type=int, default=20)
    parser.add_argument("--hidden", type=int, default=16)
    parser.add_argument("--num-classes", type=int, default=4)
    parser.add_argument("--way", default="session")


def add_run_args(parser):
    parser.add_argument("--steps", type=int, default=60)


def train(args, model, inputs, outputs):
    """All section types in any case, as loops written for all cases ask for."""
    data = torch.randn(args.batch_size, args.num_features)
    label = (data[:, 0] > 0).long() + 2 * (data[:, 1] > 0)
    for step in range(args.steps):
        batch = samba.from_torch_tensor(data, name="image"), samba.from_torch_tensor(label, name="label")
        loss, _ = samba.session.run(
            input_tensors=batch,
            output_tensors=outputs,
            hyperparam_dict={"lr": 0.2},
            data_parallel=args.data_parallel,
            reduce_on_rdu=args.reduce_on_rdu,
            section_types=["ZEROGRAD", "FWD", "BCKWD", "GRADNORM", "REDUCE", "OPT"],
        )
        if step in (0, args.steps - 1):
            print(f"loss {loss.item():.6f}")
    samba.session.to_cpu(model)


def infer(args, model, outputs):
    image = samba.from_torch_tensor(torch.randn(args.batch_size, args.num_features), name="image")
    label = samba.from_torch_tensor(torch.zeros(args.batch_size, dtype=torch.int64), name="label")
    _, out = samba.session.run(input_tensors=(image, label), output_tensors=outputs, section_types=["fwd"])
    expected = model(image, label)[1]
    torch.testing.assert_close(out.torch(), expected.torch().detach(), rtol=1e-4, atol=1e-5)
    print("types", *sorted(samba.session.get_section_types()))


def main(argv):
    utils.set_seed(256)
    args = parse_app_args(argv=argv, common_parser_fn=add_args, run_parser_fn=add_run_args)
    # dummies: nothing of what they hold counts, label is out of every range
    image = samba.randn(args.batch_size, args.num_features, name="image", batch_dim=0).bfloat16().float()
    label = samba.full((args.batch_size,), 1000, name="label", batch_dim=0)
    inputs = (image, label)
    model = Model(args.num_features, args.hidden, args.num_classes)
    samba.from_torch_model_(model)
    optim = None if args.inference else sambaflow.samba.optim.SGD(model.parameters(), lr=0.0, momentum=0.9)
    if args.command == "run":
        outputs = utils.trace_graph(
            model, inputs, optim, pef=args.pef, mapping=args.mapping, distlearn_config=args.distlearn_config
        )
        if args.inference:
            infer(args, model, outputs)
        else:
            train(args, model, inputs, outputs)
    elif args.command == "compile" and args.way != "driver":
        said = {"config": {"config_dict": vars(args), "pef_metadata": get_pefmeta(args, model)}}.get(args.way, {})
        print(
            samba.session.compile(
                model,
                inputs,
                optim,
                name="slides",
                init_output_grads=not args.inference,
                app_dir=utils.get_file_dir(__file__),
                **said,
            )
        )
    else:
        if args.command != "compile":  # whose runs read them
            inputs = (image, samba.randint(args.num_classes, (args.batch_size,), name="label", batch_dim=0))
        common_app_driver(
            args=args,
            model=model,
            inputs=inputs,
            optim=optim,
            name="slides",
            init_output_grads=not args.inference,
            app_dir=utils.get_file_dir(__file__),
        )


if __name__ == "__main__":
    rest = sys.argv[1:]
    while rest:
        end = rest.index("+") if "+" in rest else len(rest)
        print("+", *rest[: end and 1], file=sys.stderr, flush=True)
        main(rest[:end])
        print("+", flush=True)
        samba.session.reset()
        globals().get("__warningregistry__", {}).clear()  # what was said once is said again, as in a new process
        rest = rest[end + 1 :]
