# SPDX-License-Identifier: Apache-2.0
"""Inference of exported models beside ONNX Runtime: those of tests/python/test_onnx_models.py, as PyTorch's exporters write them,
and MobileNetV2 of 224 pixels. Both have as many threads and run in turns; a line each has the medians and their ratio, the last
one the median of the ratios. Runs in the environment that make check-torch makes:

    build/python-env/bin/python bench/onnx_models.py [--threads N] [NAME:older|newer ...]"""

import argparse
import pathlib
import statistics
import sys
import tempfile
import time
import warnings

import onnxruntime
import torch
import transformers

import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "python"))
import test_onnx_models as models  # noqa: E402

from sambaflow.onnx import Model  # noqa: E402
from sambaflow.onnx_backend import _element_type, _tensor  # noqa: E402

TURNS, SECONDS, LEAST = 7, 0.12, 3  # of each: turns, how long one takes, runs in it


class Logits(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(pixel_values=x).logits


def make(name):
    torch.manual_seed(0)
    if name == "mobilenetv2_224":
        config = transformers.MobileNetV2Config(num_labels=1000, image_size=224)
        return Logits(transformers.MobileNetV2ForImageClassification(config).eval()), (torch.randn(1, 3, 224, 224),)
    net, inputs, *_ = models.MODELS[name]()
    return models.Whole(net).eval(), tuple(inputs)


def in_turns(ours, theirs):
    times = {ours: [], theirs: []}
    for run in (ours, theirs, ours, theirs):
        run()
    for turn in range(TURNS):
        for run in (ours, theirs) if turn % 2 else (theirs, ours):
            run()  # the caches are the other's
            end, count = time.perf_counter() + SECONDS, 0
            while time.perf_counter() < end or count < LEAST:
                begin = time.perf_counter()
                run()
                times[run].append(time.perf_counter() - begin)
                count += 1
    return times[ours], times[theirs]


def measure(name, exporter, threads):
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/model.onnx"
        net, inputs = make(name)
        models.export(net, inputs, path, exporter)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 4
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        feed = {x.name: inputs[int(x.name[2:])].numpy() for x in session.get_inputs()}
        types = {x.name: _element_type(x) for x in onnx.load(path).graph.input}
        tensors = [_tensor(key, value, types[key]) for key, value in feed.items()]
        function = Model(path).function(tensors, threads=threads)
        return in_turns(lambda: function.run(tensors), lambda: session.run(None, feed))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("models", nargs="*", metavar="NAME:EXPORTER", help="those alone")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    jobs = [tuple(x.split(":")) for x in arguments.models] or [
        *((x, "older") for x in (*models.OLDER, "mobilenetv2_224")),
        *((x, "newer") for x in models.NEWER),
    ]
    ratios = []
    print(f"{'model':28} {'exporter':8} {'ours':>10} {'theirs':>10}  ratio   best")
    for name, exporter in jobs:
        ours, theirs = measure(name, exporter, arguments.threads)
        a, b = statistics.median(ours), statistics.median(theirs)
        ratios.append(b / a)
        print(
            f"{name:28} {exporter:8} {a * 1e3:7.3f} ms {b * 1e3:7.3f} ms {b / a:6.2f} {min(theirs) / min(ours):6.2f}", flush=True
        )
    print(f"median {statistics.median(ratios):.2f} of {len(ratios)} models, {sum(x < 1 for x in ratios)} below 1")


if __name__ == "__main__":
    main()
