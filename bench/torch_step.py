# SPDX-License-Identifier: Apache-2.0
"""The PyTorch contenders of make bench (protocol.py says how they are asked): eager, torch.compile, and for bf16 eager under
autocast and a model wholly in bfloat16.
A training step is zero_grad, forward, backward, clipping with AdamW, optimizer, and the loss as a number."""

import torch
from models import make
from protocol import peak_bytes, read_job, read_tensors, serve
from torch import nn


class Logits(nn.Module):
    """In the place of the loss: gives what the loss would be computed from."""

    def forward(self, logits, label):
        return logits


def load(job):
    parameters, inputs = read_tensors(job)
    model = make(job["example"], job["settings"])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(parameters[name]))
    inputs = {name: torch.from_numpy(array) for name, array in inputs.items()}
    if job["peer"] == "pure bf16":
        model = model.bfloat16()
        inputs = {name: t.bfloat16() if t.is_floating_point() else t for name, t in inputs.items()}
    return model, inputs


def training(job):
    model, inputs = load(job)
    settings, compiled = job["optimizer"], job["peer"] == "compile"
    same = {"lr": settings["lr"], "weight_decay": settings["weight_decay"], "fused": True}
    if settings["optimizer"] == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), momentum=settings["momentum"], **same)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), betas=(settings["beta1"], settings["beta2"]), **same)
    forward = torch.compile(model) if compiled else model
    clip, autocast = settings.get("max_grad_norm", 0), job["peer"] == "autocast"

    def step():
        optimizer.zero_grad(set_to_none=True)
        if autocast:
            with torch.autocast("cpu", torch.bfloat16):
                loss = forward(**inputs)
        else:
            loss = forward(**inputs)
        loss.backward()
        if clip > 0:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        return loss.item()

    return step


def inference(job):
    model, inputs = load(job)
    model.criterion = Logits()
    model.eval()
    mode, autocast = torch.inference_mode, job["peer"] == "autocast"
    if job["peer"] == "compile":
        from torch._inductor import config

        config.freezing = True  # weights become constants, packed once; wants no_grad
        model, mode = torch.compile(model), torch.no_grad

    def step():
        if autocast:
            with mode(), torch.autocast("cpu", torch.bfloat16):
                return model(**inputs)
        with mode():
            return model(**inputs)

    return step


def main():
    job = read_job()
    torch.set_num_threads(job["threads"])
    base_bytes = peak_bytes()
    serve(training(job) if job["kind"] == "train" else inference(job), base_bytes)


if __name__ == "__main__":
    main()
