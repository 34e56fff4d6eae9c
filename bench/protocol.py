# SPDX-License-Identifier: Apache-2.0
"""What a contender of make bench in Python does: reads its job, says that it is ready, then obeys the same lines as step.c.

A job is the JSON object in argv[1]: peer, example, settings, optimizer (with lr, momentum, weight_decay, max_grad_norm), kind,
dtype, threads, folder (with parameters.safetensors and inputs.safetensors)."""

import json
import struct
import sys
import time

import numpy as np


def read_job():
    return json.loads(sys.argv[1])


def read_safetensors(path):
    """Name -> array, by the format's description: 8 bytes of header length, JSON, data."""
    dtypes = {"F32": np.float32, "I64": np.int64, "F64": np.float64}
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        start = 8 + length
        header.pop("__metadata__", None)
        arrays = {}
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            file.seek(start + begin)
            arrays[name] = np.frombuffer(bytearray(file.read(end - begin)), dtypes[entry["dtype"]]).reshape(entry["shape"])
    return arrays


def read_tensors(job):
    return read_safetensors(f"{job['folder']}/parameters.safetensors"), read_safetensors(f"{job['folder']}/inputs.safetensors")


def peak_bytes():
    """The most memory this program had resident. Not getrusage:
    its figure begins with that of the process that started this one."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))


def forget_peak():
    """From now on the peak is that of steps: copies of parameters as read from a file are none of theirs. As step.c does."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        print(
            "protocol: /proc/self/clear_refs cannot be written; the peak of memory includes a copy of the parameters",
            file=sys.stderr,
        )


def timed(step):
    start = time.perf_counter()
    value = step()
    return 1e3 * (time.perf_counter() - start), value


def serve(step, base_bytes):
    """`step` does one step and returns its loss as a float, or for inference its output as an array."""
    forget_peak()
    print(json.dumps({"base_bytes": base_bytes}), flush=True)
    for line in sys.stdin:
        what, argument = line.split()
        if what == "output":
            first_ms, value = timed(step)
            np.save(
                argument, np.asarray(value.float() if hasattr(value, "float") else value, np.float32)
            )  # numpy has no bfloat16
            answer = {"first_ms": first_ms}
        elif what == "losses":
            steps = [timed(step) for _ in range(int(argument))]
            answer = {"losses": [float(value) for _, value in steps], "first_ms": steps[0][0]}
        else:
            answer = {"ms": [timed(step)[0] for _ in range(int(argument))], "peak_bytes": peak_bytes()}
        print(json.dumps(answer), flush=True)
