# SPDX-License-Identifier: Apache-2.0
"""What Python costs around the C calls, in microseconds: a run of logistic regression on one sample by session.run, above
samba_run itself with everything made before; and what `import sambaflow` takes in a new process. tests/python/test_overhead.py
counts what is executed.

Usage: overhead.py [BUILD_FOLDER] [--json]"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn

import sambaflow.samba as samba
from sambaflow._core import ffi, lib
from sambaflow.samba.ports import host_tensor


class LogReg(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(784, 10)

    def forward(self, image, label):
        logits = self.lin(image)
        return nn.functional.cross_entropy(logits, label), logits


def c_call(session, inputs, outputs):
    """samba_run itself, with everything made before."""
    device = session.loaded()
    given = [host_tensor(x, x.sn_name) for x in inputs]
    received = [host_tensor(torch.empty(tuple(x.shape), dtype=x.dtype), x.sn_name) for x in outputs]
    options = ffi.new("samba_run_options *", lib.samba_run_defaults())
    lists = [ffi.new("samba_tensor *[]", [t.c for t in tensors]) for tensors in (given, received)]
    options.inputs, options.input_count, options.outputs, options.output_count = lists[0], len(given), lists[1], len(received)

    def call(_kept=(given, received, lists)):
        assert lib.samba_run(device.c, options) == 0

    return call


def best_of(calls, rounds=100, count=100):
    """Least microseconds of each call, measured in turns."""
    best = [float("inf")] * len(calls)
    for _ in range(rounds):
        for i, call in enumerate(calls):
            begin = time.perf_counter()
            for _ in range(count):
                call()
            best[i] = min(best[i], (time.perf_counter() - begin) / count * 1e6)
    return best


def run_us():
    """(both outputs, the loss alone)"""
    samba.session.setup({"threads": 1})
    model = samba.from_torch_model_(LogReg())
    inputs = (samba.randn(1, 784, name="image"), samba.randint(10, (1,), name="label"))
    optim = samba.optim.SGD(model.parameters(), lr=0.01)
    with tempfile.TemporaryDirectory() as folder:
        pef = samba.session.compile(model, inputs, optim, loss_indices=[0], output_folder=folder)
        outputs = samba.utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])
    found = []
    for some in (outputs, outputs[:1]):
        python, c = best_of((lambda: samba.session.run(inputs, some), c_call(samba.session, inputs, some)))
        found.append(python - c)
    return found


def import_ms():
    program = "import time; t = time.perf_counter(); import sambaflow; print(1e3 * (time.perf_counter() - t))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return min(
        float(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, env=environment).stdout)
        for _ in range(10)
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", help="not looked at")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    args = parser.parse_args()
    both, loss = run_us()
    figures = {"run_us": both, "run_loss_us": loss, "import_ms": import_ms()}
    print(
        json.dumps(figures)
        if args.json
        else (
            f"session.run costs {both:.1f} us above samba_run, for the loss alone {loss:.1f}; import sambaflow "
            f"{figures['import_ms']:.0f} ms"
        )
    )


if __name__ == "__main__":
    main()
