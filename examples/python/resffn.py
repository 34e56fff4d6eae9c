# SPDX-License-Identifier: Apache-2.0
"""ResFFNLogReg on handwritten digits, by the driver that all applications share.

    python examples/python/resffn.py compile
    python examples/python/resffn.py run -p out/ResFFNLogReg/ResFFNLogReg.pef --checkpoint resffn.safetensors
    python examples/python/resffn.py test -p out/ResFFNLogReg/ResFFNLogReg.pef
    python examples/python/resffn.py measure-performance -p out/ResFFNLogReg/ResFFNLogReg.pef
    python examples/python/resffn.py measure-sections -p out/ResFFNLogReg/ResFFNLogReg.pef

by two processes, each with a batch of its own, which average their gradients:

    python examples/python/resffn.py compile --data-parallel
    mpirun -n 2 python examples/python/resffn.py run -p out/ResFFNLogReg/ResFFNLogReg.pef --data-parallel --reduce-on-rdu

and for inference, from the weights that training left:

    python examples/python/resffn.py compile --inference -p out/inference/inference.pef
    python examples/python/resffn.py run --inference -p out/inference/inference.pef --checkpoint resffn.safetensors
"""
import sys
from typing import Tuple

import torch
import torch.nn as nn
from digits import digits
from torch.utils.data import DataLoader

import sambaflow
import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.progress import progress
from sambaflow.samba.sambaloader import ReplicaBatches, SambaLoader
from sambaflow.samba.utils.argparser import parse_app_args
from sambaflow.samba.utils.common import common_app_driver


def basic_weight_init(module):
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.05)
        nn.init.zeros_(module.bias)


class ResFFNLogReg(nn.Module):
    """Feed Forward Network with two different activation functions and a residual connection"""
    def __init__(self, num_features: int, hidden_size: int, num_classes: int) -> None:
        super().__init__()
        self.gemm1 = nn.Linear(num_features, hidden_size, bias=True)
        self.gemm2 = nn.Linear(hidden_size, hidden_size, bias=True)
        self.gemm3 = nn.Linear(hidden_size, num_classes, bias=True)

        self.norm1 = nn.LayerNorm(hidden_size)
        self.norm2 = nn.LayerNorm(hidden_size)

        self.tanh1 = nn.Tanh()
        self.sigmoid1 = nn.Sigmoid()

        self.criterion = nn.CrossEntropyLoss()

        self.apply(basic_weight_init)

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> Tuple[torch.Tensor]:
        out = self.gemm1(inputs)
        out = self.norm1(out)
        out = self.tanh1(out)
        residual = out
        out = self.gemm2(out)
        out = self.norm2(out)
        out = out + residual
        out = self.sigmoid1(out)
        out = self.gemm3(out)
        loss = self.criterion(out, targets)
        return loss, out


def add_common_args(parser):
    parser.add_argument("-b", "--batch-size", type=int, default=50, help="samples in a step")
    parser.add_argument("--num-features", type=int, default=784, help="values in an image")
    parser.add_argument("--hidden-size", type=int, default=128, help="width of the hidden layers")
    parser.add_argument("--num-classes", type=int, default=10, help="classes")
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=1e-4)


def add_run_args(parser):
    parser.add_argument("--num-epochs", type=int, default=5, help="times through the training digits")
    parser.add_argument("--checkpoint", default="", help="the weights: training writes them, inference reads them")


def loader(args, train):
    """Batches of named SambaTensors: in training those of this replica, if there are several."""
    data = digits(args, train)
    if train:
        return SambaLoader(DataLoader(data, batch_sampler=ReplicaBatches(data, args.batch_size, seed=args.seed)), ["image", "label"])
    return SambaLoader(DataLoader(data, args.batch_size, drop_last=True), ["image", "label"])


def infer(args, model):
    """Mean loss and accuracy on the test digits."""
    traced_outputs = model.output_tensors
    losses, guesses = [], []

    def process_inference_results(loss, out):
        losses.append(loss.item())
        guesses.append(out.data.argmax(1))

    dataloader = loader(args, train=False)
    for inputs in progress(dataloader, "testing"):
        # Running only fwd here for inference
        loss, out = samba.session.run(input_tensors = inputs,
                                      output_tensors = traced_outputs,
                                      section_types = ['fwd'])

        process_inference_results(loss, out)

    guesses = torch.cat(guesses)
    labels = torch.stack([label for _, label in digits(args, train=False)])[: len(guesses)]
    print(f"test loss {sum(losses) / len(losses):.4f}  accuracy {(guesses == labels).float().mean():.2%}")


def train(args, model):
    """Trains, tests, saves; only tests what was compiled for inference."""
    if args.inference:
        if args.checkpoint:
            samba.session.load(args.checkpoint)
        return infer(args, model)
    traced_outputs = model.output_tensors
    dataloader = loader(args, train=True)
    section_types = ['fwd', 'bckwd', 'reduce', 'opt'] if args.data_parallel else ['fwd', 'bckwd', 'opt']
    for epoch in range(args.num_epochs):
        total = 0.0
        for inputs in progress(dataloader, f"epoch {epoch + 1}/{args.num_epochs}"):
            outputs = samba.session.run(input_tensors=inputs,
                                        output_tensors=traced_outputs,
                                        section_types=section_types)
            total += outputs[0].item()
        if utils.is_main_process():
            print(f"epoch {epoch + 1}/{args.num_epochs}  loss {total / len(dataloader):.4f}")
    if not utils.is_main_process():  # all have the same weights: one tests and saves them
        return
    infer(args, model)
    if args.checkpoint:
        samba.session.save(args.checkpoint)


def main(argv):
    args = parse_app_args(argv, common_parser_fn=add_common_args, run_parser_fn=add_run_args)
    utils.set_seed(args.seed)

    #Input definition
    image = samba.randn(args.batch_size, args.num_features, name='image', batch_dim=0)
    label = samba.randint(args.num_classes, (args.batch_size, ), name='label', batch_dim=0)
    inputs = (image, label)

    # Model definition
    model = ResFFNLogReg(args.num_features, args.hidden_size, args.num_classes)
    samba.from_torch_model_(model)

    # Optimizer definition
    optim = sambaflow.samba.optim.SGD(model.parameters(),
                                      lr=args.lr,
                                      momentum=args.momentum,
                                      weight_decay=args.weight_decay)

    # Different run modes
    if args.command == "run":
        # Trace the graph
        utils.trace_graph(model, inputs, optim, pef=args.pef, mapping=args.mapping)
        # Within the user defined train function, call: samba.session.run
        train(args, model)
    else:
        common_app_driver(args=args,
                          model=model,
                          inputs=inputs,
                          optim=optim,
                          name=model.__class__.__name__,
                          init_output_grads=not args.inference,
                          app_dir=utils.get_file_dir(__file__))


if __name__ == "__main__":
    main(sys.argv[1:])
