# SPDX-License-Identifier: Apache-2.0
"""The JAX contender of make bench (protocol.py says how it is asked): one jitted function a step, its parameters and state
donated. SGD and AdamW are PyTorch's update rules. XLA takes as many threads as the process may use."""

import jax
import jax.numpy as jnp
from jax_models import MODELS
from protocol import peak_bytes, read_job, read_tensors, serve


def clip(gradients, most):
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in gradients.values()))
    factor = jnp.minimum(1.0, most / (norm + 1e-6))
    return {name: g * factor for name, g in gradients.items()}


def sgd(settings):
    lr, momentum, decay = settings["lr"], settings["momentum"], settings["weight_decay"]

    def update(p, g, state):
        buffers = {name: momentum * state[name] + g[name] + decay * p[name] for name in p}
        return {name: p[name] - lr * buffers[name] for name in p}, buffers

    return update, lambda p: {name: jnp.zeros_like(x) for name, x in p.items()}


def adamw(settings, eps=1e-8):
    lr, decay, beta1, beta2 = (settings[name] for name in ("lr", "weight_decay", "beta1", "beta2"))

    def update(p, g, state):
        count = state["step"] + 1
        first = {name: beta1 * state["first"][name] + (1 - beta1) * g[name] for name in p}
        second = {name: beta2 * state["second"][name] + (1 - beta2) * g[name] * g[name] for name in p}
        root = jnp.sqrt(1 - beta2**count)
        size = lr / (1 - beta1**count)
        p = {name: p[name] * (1 - lr * decay) - size * first[name] / (jnp.sqrt(second[name]) / root + eps) for name in p}
        return p, {"step": count, "first": first, "second": second}

    def start(p):
        return {
            "step": jnp.float32(0),
            **{key: {name: jnp.zeros_like(x) for name, x in p.items()} for key in ("first", "second")},
        }

    return update, start


def main():
    job = read_job()
    base_bytes = peak_bytes()
    parameters, inputs = ({name: jnp.asarray(x) for name, x in tensors.items()} for tensors in read_tensors(job))
    inputs = {name: x.astype(jnp.int32) if x.dtype.kind == "i" else x for name, x in inputs.items()}
    model, settings = MODELS[job["example"]], job["optimizer"]
    update, start = (sgd if settings["optimizer"] == "sgd" else adamw)(settings)

    def whole(p, state, inputs):
        loss, g = jax.value_and_grad(lambda p: model(p, job["settings"], **inputs))(p)
        if "max_grad_norm" in settings:
            g = clip(g, settings["max_grad_norm"])
        return (loss, *update(p, g, state))

    jitted = jax.jit(whole, donate_argnums=(0, 1))
    now = [parameters, start(parameters)]
    del parameters

    def step():
        loss, now[0], now[1] = jitted(now[0], now[1], inputs)
        return float(loss)

    serve(step, base_bytes)


if __name__ == "__main__":
    main()
