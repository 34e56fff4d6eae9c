# SPDX-License-Identifier: Apache-2.0
"""The speed of generating, batch 1: a folder with a random model of GPT-2's or SmolLM's shape, `sambaflow lm generate` on it, and
how many bytes of weights it read a second beside what the machine's memory gives (`sambaflow machine`).

    bench/lm_generate.py --build build [--model gpt2|smollm] [--tokens 64] [--prompt 16] [--threads 2] [--keep FOLDER]

It needs NumPy and safetensors. Every weight is read once a token, but of embeddings that are no head."""

import argparse
import json
import pathlib
import re
import subprocess
import tempfile

import numpy
from safetensors.numpy import save_file

MODELS = {
    "gpt2": {
        "model_type": "gpt2",
        "vocab_size": 50257,
        "n_positions": 1024,
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "activation_function": "gelu_new",
    },
    "smollm": {
        "model_type": "llama",
        "vocab_size": 49152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "max_position_embeddings": 2048,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
    },
}


def shapes_gpt2(c):
    d, n = c["n_embd"], c["n_layer"]
    yield "transformer.wte.weight", (c["vocab_size"], d)
    yield "transformer.wpe.weight", (c["n_positions"], d)
    for i in range(n):
        layer = f"transformer.h.{i}."
        for norm in ("ln_1", "ln_2"):
            yield f"{layer}{norm}.weight", (d,)
            yield f"{layer}{norm}.bias", (d,)
        for name, rows, columns in (
            ("attn.c_attn", d, 3 * d),
            ("attn.c_proj", d, d),
            ("mlp.c_fc", d, 4 * d),
            ("mlp.c_proj", 4 * d, d),
        ):
            yield f"{layer}{name}.weight", (rows, columns)
            yield f"{layer}{name}.bias", (columns,)
    yield "transformer.ln_f.weight", (d,)
    yield "transformer.ln_f.bias", (d,)


def shapes_llama(c):
    d, m, n = c["hidden_size"], c["intermediate_size"], c["num_hidden_layers"]
    narrow = d // c["num_attention_heads"] * c["num_key_value_heads"]
    yield "model.embed_tokens.weight", (c["vocab_size"], d)
    for i in range(n):
        layer = f"model.layers.{i}."
        yield f"{layer}input_layernorm.weight", (d,)
        yield f"{layer}post_attention_layernorm.weight", (d,)
        for name, rows, columns in (("q", d, d), ("k", narrow, d), ("v", narrow, d), ("o", d, d)):
            yield f"{layer}self_attn.{name}_proj.weight", (rows, columns)
        for name, rows, columns in (("gate", m, d), ("up", m, d), ("down", d, m)):
            yield f"{layer}mlp.{name}_proj.weight", (rows, columns)
    yield "model.norm.weight", (d,)


def write_model(folder, name):
    """The folder, whose weights are drawn; returns the bytes that a token reads."""
    config = MODELS[name]
    rng = numpy.random.default_rng(0)
    shapes = dict((shapes_gpt2 if name == "gpt2" else shapes_llama)(config))
    weights = {
        k: numpy.ones(s, "float32") if "norm" in k or ".ln_" in k else rng.standard_normal(s, "float32") * numpy.float32(0.02)
        for k, s in shapes.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    return sum(w.nbytes for k, w in weights.items() if not k.endswith("wpe.weight"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("--model", choices=MODELS, action="append")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--prompt", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--keep", type=pathlib.Path, help="where models are kept, and found again")
    arguments = parser.parse_args()
    program = arguments.build / "sambaflow"
    told = subprocess.run([program, "machine"], capture_output=True, text=True, check=True).stdout
    print("\n".join(line for line in told.splitlines() if re.search("memory|bandwidth", line)))
    with tempfile.TemporaryDirectory() as temporary:
        for name in arguments.model or MODELS:
            folder = (arguments.keep or pathlib.Path(temporary)) / name
            size = write_model(folder, name)
            words = ["--prompt-ids", ",".join(str(7 * i % 1000) for i in range(arguments.prompt)), "--json", "--ignore-eos"]
            words += ["--max-new-tokens", str(arguments.tokens), "--threads", str(arguments.threads)]
            best = 0
            for _ in range(arguments.repeat):
                done = subprocess.run(
                    [program, "lm", "generate", "--model", folder, *words], capture_output=True, text=True, check=True
                )
                best = max(best, json.loads(done.stdout)["tokens_per_second"])
            print(f"{name}: {best:.1f} tokens a second, {best * size / 1e9:.2f} GB of weights a second")


if __name__ == "__main__":
    main()
