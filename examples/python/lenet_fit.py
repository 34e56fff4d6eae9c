# SPDX-License-Identifier: Apache-2.0
"""The LeNet of lenet_train.py by samba.fit: no session, no loop. Tested after each epoch, stopped early, the best weights saved.

    python examples/python/lenet_fit.py --num-epochs 5 --folder out/lenet-fit
"""
import argparse
import sys

import torch
from digits import digits
from lenet_train import LeNet
from torch.utils.data import DataLoader

import sambaflow.samba as samba


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-epochs", type=int, default=5)
    parser.add_argument("--folder", default="out/lenet-fit", help="where checkpoints and best.safetensors go; a run goes on from there")
    args = parser.parse_args(argv)
    torch.manual_seed(0)
    train = DataLoader(digits(args, train=True), batch_size=50, shuffle=True)
    test = DataLoader(digits(args, train=False), batch_size=64)  # the last batch has 40
    model = LeNet()
    optim = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optim, 0.05, total_steps=args.num_epochs * len(train) + 1)
    history = samba.fit(model, train, optim, torch.nn.functional.cross_entropy, epochs=args.num_epochs, validation=test,
                        metrics=["accuracy"], monitor="accuracy", patience=3, scheduler=schedule, schedule_by="step",
                        folder=args.folder, resume=True)
    print(f"accuracy {history.best:.2%} in epoch {history.best_epoch}")


if __name__ == "__main__":
    main(sys.argv[1:])
