# SPDX-License-Identifier: Apache-2.0
"""Generating, batch 1: folders with random models of GPT-2's and SmolLM's shape, `sambaflow lm generate` on them with weights of
every base, and how many of the bytes that a token must read it read a second, as a part of what memory gives (`bench/peak`,
measured just before); the greatest memory of the process beside those bytes and the cache; a prompt of 512 tokens and its share
of the FMA peak; a draft of a few layers, whose tokens are never accepted but where it drafts for itself; and peers: transformers'
generate, and llama.cpp where Python has its package.

    bench/lm_generate.py --build build [--model gpt2|smollm] [--base int8] [--tokens 64] [--prompt 16] [--threads 2]
                         [--keep FOLDER] [--no-peers] [--json FILE]

It needs NumPy and safetensors; peers need torch and transformers. A token reads every weight once, but of embeddings that are no
head."""

import argparse
import json
import pathlib
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


def write_tokenizer(folder, size):
    """Bytes, and words that no text becomes, so that there are as many tokens as the model has: llama.cpp asks for them."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    words = [chr(i) for i in shown] + [chr(256 + i) for i in range(256 - len(shown))]
    words += [f"word{i}" for i in range(len(words), size)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "vocab": {word: i for i, word in enumerate(words)}, "merges": []}
    text = {"version": "1.0", "added_tokens": [], "pre_tokenizer": level, "decoder": level, "model": model}
    (folder / "tokenizer.json").write_text(json.dumps(text))


def write_model(folder, name):
    """The folder, whose weights are drawn."""
    config = MODELS[name]
    rng = numpy.random.default_rng(0)
    shapes = dict((shapes_gpt2 if name.startswith("gpt2") else shapes_llama)(config))
    weights = {
        k: numpy.ones(s, "float32") if "norm" in k or ".ln_" in k else rng.standard_normal(s, "float32") * numpy.float32(0.02)
        for k, s in shapes.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    write_tokenizer(folder, config["vocab_size"])
    (folder / "config.json").write_text(json.dumps(config))


BASES = ("float32", "bfloat16", "int8", "int4")


def bytes_of(folder, base, head=True):
    """Bytes of weights that a token reads: linear layers inside by the base, the head as int8 with int4 too."""
    from safetensors import safe_open

    total = 0
    with safe_open(folder / "model.safetensors", "np") as file:
        for name in file.keys():  # noqa: SIM118, no mapping
            shape = file.get_slice(name).get_shape()
            count = int(numpy.prod(shape))
            if name.endswith("wpe.weight"):
                continue
            inside = len(shape) == 2 and (".layers." in name or ".h." in name)
            if not inside and not head:
                continue
            if base == "float32" or len(shape) < 2:
                total += 4 * count
            elif base == "bfloat16":
                total += 2 * count
            elif base == "int8" or not inside:
                total += count + 4 * shape[1 if ".h." in name else 0]
            else:
                total += count * 18 // 32
    return total


def cache_bytes(name, tokens):
    """Of keys and values that a token reads, on average over the new ones."""
    c = MODELS[name]
    if name == "gpt2":
        return 2 * 4 * c["n_layer"] * c["n_embd"] * tokens
    return 2 * 4 * c["num_hidden_layers"] * c["hidden_size"] // c["num_attention_heads"] * c["num_key_value_heads"] * tokens


def peak(arguments, what="read_gbytes"):
    done = subprocess.run(
        [arguments.build / "bench" / "peak", str(arguments.threads)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)[what] * 1e9


def prompt_flops(folder, name, tokens):
    """Of linear layers for every token, of attention up to each, and of the head for the last one."""
    c = MODELS[name]
    inside = bytes_of(folder, "float32", head=False) / 4
    layers, width = (c["n_layer"], c["n_embd"]) if name == "gpt2" else (c["num_hidden_layers"], c["hidden_size"])
    return 2 * inside * tokens + 2 * layers * width * tokens * (tokens + 1) + 2 * width * c["vocab_size"]


def ids(count):
    return ",".join(str(7 * i % 1000) for i in range(count))


def generate(arguments, folder, *words, prompt=None, tokens=None):
    """What the command says, with the greatest memory of its process in bytes."""
    command = [
        arguments.build / "sambaflow",
        "lm",
        "generate",
        "--model",
        folder,
        "--prompt-ids",
        ids(prompt or arguments.prompt),
    ]
    command += ["--json", "--ignore-eos", "--max-new-tokens", str(tokens or arguments.tokens)]
    command += ["--threads", str(arguments.threads), *words]
    with tempfile.NamedTemporaryFile() as told:
        done = subprocess.run(
            ["/usr/bin/env", "time", "-f", "%M", "-o", told.name, *command], capture_output=True, text=True, check=True
        )
        memory = int(pathlib.Path(told.name).read_text().split()[-1]) * 1024
    return json.loads(done.stdout) | {"memory": memory}


def ours(arguments, folder, name, base):
    best, rate, memory, share = 0, 0, 0, 0
    read = bytes_of(folder, base) + cache_bytes(name, arguments.prompt + arguments.tokens // 2)
    for _ in range(arguments.repeat):
        memory_rate = peak(arguments)
        told = generate(arguments, folder, "--base", base)
        rate = told["tokens_per_second"]
        best = max(best, rate)
        share = max(share, rate * read / memory_rate)
        memory = max(memory, told["memory"])
    many = mfu = 0
    for _ in range(arguments.repeat):
        peak_flops = peak(arguments, "fp32_gflops")
        told = generate(arguments, folder, "--base", base, "--capacity", "640", prompt=512, tokens=1)
        many = max(many, 512 / told["prompt_seconds"])
        mfu = max(mfu, prompt_flops(folder, name, 512) / told["prompt_seconds"] / peak_flops)
    print(
        f"{name} {base}: {best:.1f} tokens a second, {best * read / 1e9:.2f} GB a second, {100 * share:.0f} % of memory's; "
        f"a prompt of 512: {many:.0f} a second, {100 * mfu:.0f} % MFU; "
        f"{memory / 1e6:.0f} MB of {read / 1e6:.0f} MB that a token reads"
    )
    return {
        "tokens_per_second": best,
        "bytes": read,
        "share": share,
        "prompt_per_second": many,
        "prompt_mfu": mfu,
        "memory": memory,
    }


def small_of(folder, name):
    """The model's first layers alone, as a folder beside it."""
    small = folder.with_name(name + "-draft")
    if not (small / "config.json").exists():
        config = dict(MODELS[name])
        MODELS[name + "-draft"] = config
        config["n_layer" if name == "gpt2" else "num_hidden_layers"] = 2
        write_model(small, name + "-draft")
    return small


def drafts(arguments, folder, name, base):
    for who, draft in (("a model of 2 layers", small_of(folder, name)), ("the model itself", folder)):
        told = generate(arguments, folder, "--base", base, "--draft", draft, "--draft-base", base)
        print(
            f"{name} {base}, drafted by {who}: {told['tokens_per_second']:.1f} tokens a second, "
            f"{100 * told['draft']['acceptance']:.0f} % accepted, {told['draft']['runs']} runs"
        )


def peers(arguments, folder, name):
    try:
        import time

        import torch
        import transformers
    except ImportError:
        print("transformers: not there")
        return
    torch.set_num_threads(arguments.threads)
    for dtype in (torch.float32, torch.bfloat16):
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
        prompt = torch.tensor([[int(i) for i in ids(arguments.prompt).split(",")]])
        model.generation_config.eos_token_id = None
        best = 0
        for _ in range(arguments.repeat + 1):
            start = time.perf_counter()
            model.generate(prompt, max_new_tokens=1, do_sample=False, pad_token_id=0)
            first = time.perf_counter()
            model.generate(prompt, max_new_tokens=arguments.tokens + 1, do_sample=False, pad_token_id=0)
            best = max(best, arguments.tokens / (time.perf_counter() - first - (first - start)))
        print(f"{name} transformers {str(dtype).split('.')[1]}: {best:.1f} tokens a second")


# types of GGUF files that hold what a base holds
TYPES = {"float32": "f32", "bfloat16": "bf16", "int8": "q8_0", "int4": "q4_0"}


def llama(arguments, folder, name):
    """llama.cpp by the package xllamacpp, with GGUF files that `lm export` makes of the folder: its own timings."""
    try:
        import xllamacpp
    except ImportError:
        print("llama.cpp: the package xllamacpp is not there")
        return {}
    results = {}
    for base in arguments.base or BASES:
        path = folder.with_name(f"{name}-{TYPES[base]}.gguf")
        if not path.exists():
            words = ["lm", "export", "--model", folder, "--to", path, "--type", TYPES[base]]
            subprocess.run([arguments.build / "sambaflow", *words], check=True, capture_output=True)
        settings = xllamacpp.CommonParams()
        settings.model.path = str(path)
        settings.n_ctx, settings.n_parallel, settings.verbosity = 1024, 1, -1
        settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = arguments.threads
        server = xllamacpp.Server(settings)
        ask = {"temperature": 0, "ignore_eos": True, "cache_prompt": False}
        rate = many = 0
        for _ in range(arguments.repeat):
            prompt = [7 * i % 1000 for i in range(arguments.prompt)]
            told = server.handle_completions(ask | {"prompt": prompt, "n_predict": arguments.tokens})
            rate = max(rate, told["timings"]["predicted_per_second"])
            prompt = [7 * i % 1000 for i in range(512)]
            told = server.handle_completions(ask | {"prompt": prompt, "n_predict": 1})
            many = max(many, told["timings"]["prompt_per_second"])
        print(f"{name} llama.cpp {TYPES[base]}: {rate:.1f} tokens a second; a prompt of 512: {many:.0f} a second")
        results[base] = {"tokens_per_second": rate, "prompt_per_second": many}
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("--model", choices=tuple(MODELS), action="append")
    parser.add_argument("--base", choices=BASES, action="append")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--prompt", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--json", type=pathlib.Path, help="a file for the numbers")
    parser.add_argument("--keep", type=pathlib.Path, help="where models are kept, and found again")
    arguments = parser.parse_args()
    print(f"memory gives {peak(arguments) / 1e9:.1f} GB a second")
    results = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name in arguments.model or list(MODELS):
            folder = (arguments.keep or pathlib.Path(temporary)) / name
            if not (folder / "config.json").exists():
                write_model(folder, name)
            for base in arguments.base or BASES:
                results[f"{name} {base}"] = ours(arguments, folder, name, base)
                drafts(arguments, folder, name, base)
            if not arguments.no_peers:
                peers(arguments, folder, name)
                results[f"{name} llama.cpp"] = llama(arguments, folder, name)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
