# SPDX-License-Identifier: Apache-2.0
"""LeNet on the test digits, from a PEF of its own that has the forward pass alone and the weights that lenet_train.py saved.

    python examples/python/lenet_infer.py compile --inference --pef-name lenet-inference
    python examples/python/lenet_infer.py run --inference -p out/lenet-inference/lenet-inference.pef --checkpoint lenet.safetensors
"""
import sys

import torch
from digits import digits
from lenet_train import LeNet
from torch.utils.data import DataLoader

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.progress import progress
from sambaflow.samba.utils.argparser import parse_app_args


class Inference(torch.nn.Module):
    """The trained model under the names it was saved by, without the loss."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, image):
        return self.model(image)


def add_args(parser):
    parser.add_argument("-b", "--batch-size", type=int, default=100, help="samples in a run")


def add_run_args(parser):
    parser.add_argument("--checkpoint", default="lenet.safetensors", help="the weights")


def infer(args, model):
    """Counts the digits that the model gets right."""
    traced_outputs = model.output_tensors
    right = total = 0
    for image, label in progress(DataLoader(digits(args, train=False), args.batch_size, drop_last=True), "testing"):
        inputs = (samba.from_torch_tensor(image, name="image"),)
        logits, = samba.session.run(input_tensors=inputs,
                                    output_tensors=traced_outputs,
                                    section_types=["fwd"])
        right += (samba.to_torch(logits).argmax(1) == label).sum().item()
        total += len(label)
    print(f"accuracy {right / total:.2%} ({right} of {total})")
    return right / total


def main(argv):
    args = parse_app_args(argv, common_parser_fn=add_args, run_parser_fn=add_run_args)
    inputs = (samba.randn(args.batch_size, 784, name="image"),)
    model = Inference(LeNet()).eval()  # no dropout
    samba.from_torch_model_(model)

    if args.command == "compile":
        pef = samba.session.compile(model, inputs, name="lenet", inference=args.inference, output_folder=args.output_folder, pef_name=args.pef_name)
        print(pef)
    if args.command == "run":
        utils.trace_graph(model, inputs, pef=args.pef, mapping=args.mapping)
        samba.session.load(args.checkpoint)
        infer(args, model)


if __name__ == "__main__":
    main(sys.argv[1:])
