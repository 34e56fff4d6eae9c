# SPDX-License-Identifier: Apache-2.0
"""The ONNX Runtime contender of make bench (protocol.py says how it is asked): the model of models.py, exported with its weights
by torch.onnx, run by a session with its default optimizations and its inputs and output bound once."""

import subprocess
import sys

import numpy as np
from protocol import peak_bytes, read_job, serve


def export(job, path):
    """In a process of its own: torch's memory is not ONNX Runtime's."""
    import torch
    from torch_step import Logits, load

    model, inputs = load(job)
    model.criterion = Logits()
    torch.onnx.export(
        model.eval(), (), path, kwargs=inputs, input_names=list(inputs), output_names=["logits"], dynamo=True, verbose=False
    )


def main():
    job = read_job()
    path = f"{job['folder']}/model.onnx"
    if "--export" in sys.argv:
        return export(job, path)
    subprocess.run([sys.executable, __file__, sys.argv[1], "--export"], check=True, stdout=subprocess.DEVNULL)
    import onnxruntime
    from protocol import read_tensors

    base_bytes = peak_bytes()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = job["threads"]
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    _, inputs = read_tensors(job)
    binding = session.io_binding()
    for wanted in session.get_inputs():
        binding.bind_ortvalue_input(wanted.name, onnxruntime.OrtValue.ortvalue_from_numpy(inputs[wanted.name]))
    shape = session.get_outputs()[0].shape
    output = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32))
    binding.bind_ortvalue_output("logits", output)

    def step():
        session.run_with_iobinding(binding)
        return output.numpy()

    serve(step, base_bytes)


if __name__ == "__main__":
    main()
