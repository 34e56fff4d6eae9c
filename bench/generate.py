# SPDX-License-Identifier: Apache-2.0
"""GPT-2 124M of random weights, a token at a time: `gpt2 generate` beside transformers' generate, in one run, from one file of
weights.

Usage: generate.py BUILD_FOLDER [--precision fp32|bf16] [--short N] [--long N] [--count N] [--threads N] [--rounds N] [--layers N]
[--json]

Both generate greedily, after a short prompt and after a long one, in turns. A token reads every weight once, so its limit is
memory: the figure is the weights' bytes times tokens a second over what memory gave, measured by a pass over as many bytes before
each token, in the same threads and large pages; medians of both, since memory that others share gives more or less from second to
second. After the short prompt the weights are nearly all that is read; after the long one the cache of keys and values is read as
well, which is told apart. The long prompt itself is held against multiply-adds.

In fp32 the tokens must be those of PyTorch, and the program fails where they are not. In bf16 PyTorch's `.to(bfloat16)` rounds
what this library leaves in float32 (the residual stream, norms), so two tokens that are nearly as likely may change places and
everything behind them is another text: how many tokens come before the first difference is printed."""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import transformers


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    for name, default in (("short", 16), ("long", 512), ("count", 48), ("threads", 2), ("rounds", 3), ("layers", 12)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    return parser.parse_args()


def ours(a, folder, prompt):
    words = [
        f"{a.build}/examples/gpt2",
        "generate",
        "--json",
        "--measure",
        "--weights",
        f"{folder}/model.safetensors",
        "--count",
        str(a.count),
        "--precision",
        a.precision,
        "--threads",
        str(a.threads),
        "--n-layer",
        str(a.layers),
        "--output-folder",
        f"{folder}/out",
        "--prompt",
        ",".join(map(str, prompt[0].tolist())),
    ]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


failed = []  # what PyTorch says where it fails: the rest goes on without it


def theirs(model, prompt, count):
    """(tokens, tokens a second behind the prompt); Nones where PyTorch fails, and what it says in `failed`."""
    if failed:
        return None, None
    options = {"do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    times = []
    for n in (1, count):
        start = time.perf_counter()
        try:
            out = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=n, min_new_tokens=n, **options)
        except RuntimeError as failure:  # it may lack an implementation for this processor
            failed.append(f"{str(failure).splitlines()[0]:.150}")
            return None, None
        times.append(time.perf_counter() - start)
    return out[0, prompt.shape[1] :].tolist(), (count - 1) / (times[1] - times[0])


def figures(a, model, rounds):
    """`rounds`: (ours, PyTorch's tokens, PyTorch's tokens a second) after the short prompt and after the long one,
    of each round."""
    short, long = zip(*rounds)

    def median(of, key):
        return statistics.median(mine[key] for mine, *_ in of)

    def agree(of):
        return min(next((i for i, (x, y) in enumerate(zip(mine["tokens"], its)) if x != y), a.count) for mine, its, _ in of)

    config = model.config
    cache = 2 * config.n_layer * config.n_embd * (4 if a.precision == "fp32" else 2) * (a.long + a.count / 2)
    pytorch = [None if failed else statistics.median(rate for *_, rate in of) for of in (short, long)]
    rates = [median(of, "tokens_per_second") for of in (short, long)]
    times = [None if failed else rate / its for rate, its in zip(rates, pytorch)]
    return {
        "tokens_per_second": rates[0],
        "of_bandwidth": median(short, "of_bandwidth"),
        "best_of_bandwidth": max(mine["best_of_bandwidth"] for mine, *_ in short),
        "bandwidth": median(short, "bandwidth"),
        "pytorch_tokens_per_second": pytorch[0],
        "times_pytorch": times[0],
        "after_long": rates[1],
        "after_long_of_bandwidth": median(long, "of_bandwidth"),
        "after_long_with_cache": median(long, "of_bandwidth") * (1 + cache / long[0][0]["weight_bytes"]),
        "after_long_times_pytorch": times[1],
        "prefill_ms": median(long, "prefill_ms"),
        "prefill_mfu": median(long, "prefill_mfu"),
        "agreeing_tokens": None if failed else min(agree(short), agree(long)),
        **({"absent": {"eager": failed[0]}} if failed else {}),
    }


def main():
    a = arguments()
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_layer=a.layers, initializer_range=0.08)
    ).eval()  # at 0.02 all tokens are one
    prompts = [torch.randint(model.config.vocab_size, (1, n)) for n in (a.short, a.long)]
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        model.save_pretrained(folder, safe_serialization=True)
        model = model.bfloat16() if a.precision == "bf16" else model
        rounds = [[(ours(a, folder, prompt), *theirs(model, prompt, a.count)) for prompt in prompts] for _ in range(a.rounds)]
    f = figures(a, model, rounds)
    if a.json:
        print(json.dumps(f))
    else:
        print(f"{a.precision}, {a.count} tokens, {a.threads} threads, medians of {a.rounds} rounds")
        its = "fails: " + failed[0] if failed else f"{f['pytorch_tokens_per_second']:.1f}, {f['times_pytorch']:.2f} times as many"
        print(
            f"after {a.short:4}  {f['tokens_per_second']:.1f} tokens/s: {f['of_bandwidth']:.1%} of the "
            f"{f['bandwidth'] / 1e9:.1f} GB/s that memory gives (best "
            f"{f['best_of_bandwidth']:.1%}); PyTorch {its}"
        )
        print(
            f"after {a.long:4}  {f['after_long']:.1f} tokens/s: {f['after_long_of_bandwidth']:.1%}, with the cache "
            f"{f['after_long_with_cache']:.1%}" + ("" if failed else f"; {f['after_long_times_pytorch']:.2f} times PyTorch's")
        )
        print(
            f"prompt      {a.long} tokens in {f['prefill_ms']:.1f} ms, {f['prefill_mfu']:.1%} of the multiply-adds that there are"
        )
        if not failed:
            print(f"tokens      {f['agreeing_tokens']} of {a.count} are those of PyTorch before one is not")
    if a.precision == "fp32" and not failed and f["agreeing_tokens"] < a.count:
        sys.exit(f"generate.py: token {f['agreeing_tokens']} is not PyTorch's")


if __name__ == "__main__":
    main()
