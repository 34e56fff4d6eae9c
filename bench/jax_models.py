# SPDX-License-Identifier: Apache-2.0
"""The models of models.py in plain jax.numpy: functions of a dict of parameters, in PyTorch's layout and under its names."""

import jax
import jax.numpy as jnp


def linear(p, name, x):
    y = x @ p[name + ".weight"].T
    return y + p[name + ".bias"] if name + ".bias" in p else y


def layer_norm(p, name, x):
    centered = x - x.mean(-1, keepdims=True)
    return (
        centered * jax.lax.rsqrt((centered * centered).mean(-1, keepdims=True) + 1e-5) * p[name + ".weight"] + p[name + ".bias"]
    )


def cross_entropy(logits, label):
    logits = logits.reshape(-1, logits.shape[-1])
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), label.reshape(-1, 1), axis=1)
    return -picked.mean()


def logreg(p, settings, image, label):
    return cross_entropy(linear(p, "lin_layer", image), label)


def resffn(p, settings, image, label):
    residual = jnp.tanh(layer_norm(p, "norm1", linear(p, "gemm1", image)))
    out = jax.nn.sigmoid(layer_norm(p, "norm2", linear(p, "gemm2", residual)) + residual)
    return cross_entropy(linear(p, "gemm3", out), label)


def lenet(p, settings, image, label):
    def conv(name, x, padding):
        y = jax.lax.conv_general_dilated(x, p[name + ".weight"], (1, 1), [(padding, padding)] * 2)
        return y + p[name + ".bias"][:, None, None]

    def pool(x):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    x = pool(jax.nn.relu(conv("conv1", image, 2)))
    x = pool(jax.nn.relu(conv("conv2", x, 0))).reshape(image.shape[0], -1)
    x = jax.nn.relu(linear(p, "fc1", x))
    return cross_entropy(linear(p, "fc3", jax.nn.relu(linear(p, "fc2", x))), label)


def gpt2(p, settings, input, label):
    batch, length = input.shape
    heads, width = settings["n_head"], settings["n_embd"]
    causal = jnp.tril(jnp.ones((length, length), bool))

    def attention(name, x):
        q, k, v = (
            part.reshape(batch, length, heads, -1).transpose(0, 2, 1, 3)
            for part in jnp.split(linear(p, name + ".c_attn", x), 3, axis=-1)
        )
        scores = jnp.where(causal, q @ k.transpose(0, 1, 3, 2) * (width // heads) ** -0.5, -jnp.inf)
        return linear(p, name + ".c_proj", (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(batch, length, width))

    x = p["wte.weight"][input] + p["wpe.weight"][:length]
    for i in range(settings["n_layer"]):
        name = f"h.{i}."
        x = x + attention(name + "attn", layer_norm(p, name + "ln_1", x))
        hidden = jax.nn.gelu(linear(p, name + "mlp.c_fc", layer_norm(p, name + "ln_2", x)), approximate=True)
        x = x + linear(p, name + "mlp.c_proj", hidden)
    return cross_entropy(layer_norm(p, "ln_f", x) @ p["wte.weight"].T, label)


MODELS = {"logreg": logreg, "resffn": resffn, "lenet": lenet, "gpt2": gpt2}
