# SPDX-License-Identifier: Apache-2.0
"""LeNet with dropout on handwritten digits, trained with hyperparameters that change from step to step. lenet_infer.py uses what it learned.

    python examples/python/lenet_train.py compile --pef-name lenet
    python examples/python/lenet_train.py run -p out/lenet/lenet.pef --checkpoint lenet.safetensors

or by two processes, each with a batch of its own, which average their gradients:

    python examples/python/lenet_train.py compile --pef-name lenet --data-parallel
    mpirun -n 2 python examples/python/lenet_train.py run -p out/lenet/lenet.pef --data-parallel --data-parallel-mode inorder
"""
import math
import sys

import torch
import torch.nn as nn
from digits import digits
from torch.utils.data import DataLoader

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.progress import progress
from sambaflow.samba.sambaloader import ReplicaBatches, SambaLoader
from sambaflow.samba.utils.argparser import parse_app_args


class LeNet(nn.Module):
    """Plain PyTorch: nothing in it knows of SambaFlow."""

    def __init__(self, dropout=0.25, num_classes=10):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.pool = nn.MaxPool2d(2)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, num_classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, image):
        x = self.pool(torch.relu(self.conv1(image.reshape(-1, 1, 28, 28))))
        x = self.pool(torch.relu(self.conv2(x)))
        x = self.dropout(torch.relu(self.fc1(x.flatten(1))))
        return self.fc3(torch.relu(self.fc2(x)))


class WithLoss(nn.Module):
    """What is trained: the loss is part of the graph."""

    def __init__(self, model):
        super().__init__()
        self.model, self.criterion = model, nn.CrossEntropyLoss()

    def forward(self, image, label):
        logits = self.model(image)
        return self.criterion(logits, label), logits


def add_args(parser):
    parser.add_argument("-b", "--batch-size", type=int, default=50, help="samples in a step")
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate of the first step")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=1e-4)
    parser.add_argument("--dropout", type=float, default=0.25, help="dropout rate, which rises to this over the first epoch")


def add_run_args(parser):
    parser.add_argument("--num-epochs", type=int, default=3, help="times through the training digits")
    parser.add_argument("--checkpoint", default="lenet.safetensors", help="where the weights go")


def hyperparameters(args, step, steps, epoch_steps):
    """What a step runs with. What is left out keeps its value; nothing is compiled again."""
    return {
        "lr": args.lr * 0.5 * (1 + math.cos(math.pi * step / steps)),
        "momentum": args.momentum,
        "weight_decay": args.weight_decay,
        "p": args.dropout * min(1.0, step / epoch_steps),
    }


def train(args, model):
    traced_outputs = model.output_tensors
    data = digits(args, train=True)
    # One shuffle, of which each replica takes its part; without replicas all of it.
    dataloader = SambaLoader(DataLoader(data, batch_sampler=ReplicaBatches(data, args.batch_size, seed=args.seed)), ["image", "label"])
    section_types = ["fwd", "bckwd", "reduce", "opt"] if args.data_parallel else ["fwd", "bckwd", "opt"]
    epoch_steps, step, losses = len(dataloader), 0, []
    for epoch in range(args.num_epochs):
        for inputs in progress(dataloader, f"epoch {epoch + 1}/{args.num_epochs}"):
            hyperparam_dict = hyperparameters(args, step, args.num_epochs * epoch_steps, epoch_steps)
            # Only the loss is asked for, so only the loss comes back.
            outputs = samba.session.run(input_tensors=inputs,
                                        output_tensors=traced_outputs[:1],
                                        hyperparam_dict=hyperparam_dict,
                                        section_types=section_types)
            losses.append(outputs[0].item())
            step += 1
        if utils.is_main_process():
            print(f"epoch {epoch + 1}/{args.num_epochs}  loss {sum(losses[-epoch_steps:]) / epoch_steps:.4f}")
    if utils.is_main_process():  # all have the same weights
        samba.session.save(args.checkpoint, with_state=False)
    samba.session.to_cpu(model)  # the torch model has the weights too
    return losses


def main(argv):
    args = parse_app_args(argv, common_parser_fn=add_args, run_parser_fn=add_run_args)
    utils.set_seed(args.seed)
    image = samba.randn(args.batch_size, 784, name="image")  # dummies: only shapes and dtypes count
    label = samba.randint(10, (args.batch_size,), name="label")
    inputs = (image, label)
    model = WithLoss(LeNet(args.dropout))
    samba.from_torch_model_(model)
    optim = samba.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum, weight_decay=args.weight_decay)

    if args.command == "compile":
        pef = samba.session.compile(model, inputs, optim, name="lenet", loss_indices=[0], output_folder=args.output_folder, pef_name=args.pef_name)
        print(pef)
    # Running, or training, a model must be explicitly carried out
    if args.command == "run":
        # Trace the graph
        utils.trace_graph(model, inputs, optim, loss_indices=[0], pef=args.pef, mapping=args.mapping)
        # Within the user defined train function, call: samba.session.run
        train(args, model)


if __name__ == "__main__":
    main(sys.argv[1:])
