# SPDX-License-Identifier: Apache-2.0
"""What Python costs around the C calls: a run, an import."""
import os
import subprocess
import sys
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


def best_of(calls, rounds=40, count=100):
    """Least microseconds of each call, measured in turns."""
    best = [float("inf")] * len(calls)
    for _ in range(rounds):
        for i, call in enumerate(calls):
            begin = time.perf_counter()
            for _ in range(count):
                call()
            best[i] = min(best[i], (time.perf_counter() - begin) / count * 1e6)
    return best


def test_run_of_logreg(tmp_path):
    """With one thread both outputs cost 8.5 us above the C call on an idle machine, the loss alone 6.2."""
    model = samba.from_torch_model_(LogReg())
    inputs = (samba.randn(1, 784, name="image"), samba.randint(10, (1,), name="label"))
    optim = samba.optim.SGD(model.parameters(), lr=0.01)
    pef = samba.session.compile(model, inputs, optim, loss_indices=[0], output_folder=str(tmp_path))
    outputs = samba.utils.trace_graph(model, inputs, optim, pef=pef, loss_indices=[0])
    calls = (lambda: samba.session.run(inputs, outputs), c_call(samba.session, inputs, outputs))
    above = []
    for _ in range(6):  # others may use the machine
        python, c = best_of(calls)
        above.append(python - c)
        if above[-1] < 15:
            return
    raise AssertionError(f"session.run costs {min(above):.1f} us above samba_run, wanted less than 15")


def test_import_is_quick_and_needs_no_torch():
    program = "import time; t = time.perf_counter(); import sambaflow; s = time.perf_counter() - t; import sys; assert 'torch' not in sys.modules; print(s)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for _ in range(10):
        done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment)
        if float(done.stdout) < 0.05:  # 20 ms on an idle machine
            return
    raise AssertionError(f"importing sambaflow took {float(done.stdout) * 1e3:.0f} ms, wanted less than 50")
