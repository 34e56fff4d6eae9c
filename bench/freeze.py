# SPDX-License-Identifier: Apache-2.0
"""Training a head alone: ResNet-18 (8 images of 224 x 224) and GPT-2 124M (4 x 256 tokens, a head of its own), all else frozen,
beside PyTorch's eager step of the same model after `requires_grad_(False)`, in turns, in one process. Ours is a whole run, inputs
and loss included; theirs zero_grad, forward, backward and step. Losses must agree. Says too what the plan has of gradients.
Usage: freeze.py [--turns N] [--steps N] [--threads N] [resnet|gpt2 ...]"""

import argparse
import copy
import os
import statistics
import tempfile
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--turns", type=int, default=5)
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--threads", type=int, default=os.cpu_count())
parser.add_argument("cases", nargs="*", default=["resnet", "gpt2"])
arguments = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(arguments.threads)

import cases  # noqa: E402
import models  # noqa: E402
import torch  # noqa: E402

import sambaflow.samba as samba  # noqa: E402
import sambaflow.samba.utils as utils  # noqa: E402


class Headed(models.GPT):
    """GPT-2 with a head that is not the token table."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.head = torch.nn.Linear(settings["n_embd"], settings["vocab_size"], bias=False)

    def forward(self, input, label):
        x = self.wte(input) + self.wpe(torch.arange(input.shape[1], device=input.device))
        for block in self.h:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return self.criterion(logits.view(-1, logits.shape[-1]), label.view(-1))


def made(case):
    """The model, the start of its head's names, inputs by name."""
    if case == "resnet":
        inputs = {"image": torch.randn(8, 3, 224, 224), "label": torch.randint(1000, (8,))}
        return models.make("resnet", cases.RESNET224), "fc.", inputs
    ids = torch.randint(50257, (2, 4, 256))
    return Headed(**cases.GPT2), "head.", {"input": ids[0], "label": ids[1]}


def frozen(model, head):
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.startswith(head))
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def main(case):
    torch.manual_seed(0)
    model, head, inputs = made(case)
    plain = copy.deepcopy(model).train()
    optimizer = torch.optim.SGD(frozen(plain, head), lr=0.01, momentum=0.9)
    samba.session.reset()
    samba.from_torch_model_(model)
    model.train()
    optim = samba.optim.SGD(frozen(model, head), lr=0.01, momentum=0.9)
    given = tuple(samba.from_torch_tensor(value, name=name) for name, value in inputs.items())
    with tempfile.TemporaryDirectory() as folder:
        pef = samba.session.compile(model, given, optim, name=case, loss_indices=[0], output_folder=folder)
        outputs = utils.trace_graph(model, given, optim, pef=pef)

    def ours():
        return samba.session.run(given, outputs)[0].torch().item()

    def theirs():
        optimizer.zero_grad(set_to_none=True)
        loss = plain(**inputs)
        loss.backward()
        optimizer.step()
        return loss.item()

    times = {ours: [], theirs: []}
    for turn in range(arguments.turns + 1):
        losses = {}
        for step in times:
            for _ in range(arguments.steps):
                begin = time.perf_counter()
                losses[step] = step()
                if turn:  # the first warms up
                    times[step].append(1e3 * (time.perf_counter() - begin))
        assert abs(losses[ours] - losses[theirs]) < 1e-3 * abs(losses[theirs]), losses
    gradients = [name for name in samba.session.loaded().names("gradient") if name.endswith(".grad")]
    assert all(name.startswith((head, "output_0")) for name in gradients), gradients
    mine, other = (statistics.median(times[step]) for step in (ours, theirs))
    print(
        f"{case}: {mine:.1f} ms (best {min(times[ours]):.1f}), PyTorch {other:.1f} ms (best {min(times[theirs]):.1f}): "
        f"{other / mine:.2f} times as fast (bests {min(times[theirs]) / min(times[ours]):.2f}), losses {losses[ours]:.4f} and "
        f"{losses[theirs]:.4f}; gradients {', '.join(gradients)}",
        flush=True,
    )


for case in arguments.cases:
    main(case)
