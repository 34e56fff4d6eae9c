#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models that `fuzz --write FOLDER` wrote of random graphs: each passes onnx.checker with shape inference, and ONNX Runtime,
which computes in the dtypes of the model, gives the values of the reference.

    onnx_graphs.py FOLDER

The reference computes in float64 and rounds to each node's dtype; a result may differ by CLOSE of its greatest element and by
what the fuzzer found that rounding does to it. A product of integers that overflows is the greatest one there, and wraps here;
ONNX leaves it open. ONNX Runtime lacks kernels of some operators for some dtypes, and its Python has no bfloat16, as NumPy; these
models are checked, and counted."""

import collections
import pathlib
import re
import sys

import numpy
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

import onnx

CLOSE = 1e-5
LEAST = 120  # models that have to be compared: of 400 graphs 185 to 240 are, as the seed draws


def array(path, info):
    dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    return numpy.fromfile(path, dtype).reshape([d.dim_value for d in info.type.tensor_type.shape.dim])


def runtime(path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def wrong(path):
    """What is wrong with a model, as a sentence, or None."""
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    if any(x.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16 for x in [*model.graph.input, *model.graph.output]):
        raise NoKernel
    allowed = dict(re.findall(r'# allowed "(.*)" (\S+)', path.with_suffix(".txt").read_text(encoding="utf-8")))
    feed = {x.name: array(path.with_suffix(f".{x.name}"), x) for x in model.graph.input}
    outputs = runtime(path).run(None, feed)
    for info, found in zip(model.graph.output, outputs, strict=True):
        expected = array(path.with_suffix(f".{info.name}"), info)
        if (found.dtype, found.shape) != (expected.dtype, expected.shape):
            return f"output {info.name!r} is {found.dtype}{list(found.shape)}, not {expected.dtype}{list(expected.shape)}"
        limits = numpy.iinfo(found.dtype) if found.dtype.kind == "i" else None
        same = numpy.isin(found, [limits.min, limits.max]) if limits else False
        found, expected = found.astype("float64"), expected.astype("float64")
        room = float(allowed[info.name]) + CLOSE * numpy.abs(expected[numpy.isfinite(expected)]).max(initial=0)
        same = same | (found == expected) | (numpy.isnan(found) & numpy.isnan(expected)) | (numpy.abs(found - expected) <= room)
        if numpy.isfinite(room) and not same.all():
            at = tuple(numpy.argwhere(~same)[0])
            return f"output {info.name!r} at {list(map(int, at))} is {found[at]!r}, not {expected[at]!r}; {room:.3g} is allowed"
    return None


def main(folder):
    counts = collections.Counter()
    for path in sorted(pathlib.Path(folder).glob("*.onnx"), key=lambda path: int(path.stem)):
        try:
            why = wrong(path)
        except NoKernel:
            counts["which ONNX Runtime cannot run"] += 1
            continue
        except Exception as error:  # of the checker, or of the session: the model is wrong
            why = f"{type(error).__name__}: {error}"
        counts["wrong" if why else "right"] += 1
        if why:
            print(f"{path}: {why}", file=sys.stderr)
    print("ONNX models of random graphs:", ", ".join(f"{count} {what}" for what, count in counts.items()))
    return 1 if counts["wrong"] or counts["right"] < LEAST else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
