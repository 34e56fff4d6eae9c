# SPDX-License-Identifier: Apache-2.0
"""GPT-2 124M of random weights, a token at a time: `gpt2 generate` beside transformers' generate, in one run, from one file of weights.

Usage: generate.py BUILD_FOLDER [--precision fp32|bf16] [--prompt N] [--count N] [--threads N] [--rounds N] [--layers N]

Both generate greedily from one random prompt. In fp32 the tokens are compared, and the program fails where they differ. Rounds take turns, ours, theirs;
the best of each is printed, the bandwidth of memory and the peak of multiply-adds are the best that any round measured."""
import argparse
import json
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
    for name, default in (("prompt", 512), ("count", 64), ("threads", 2), ("rounds", 3), ("layers", 12)):
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


def ours(a, folder, prompt):
    words = [f"{a.build}/examples/gpt2", "generate", "--json", "--weights", f"{folder}/model.safetensors", "--count", str(a.count), "--precision",
             a.precision, "--threads", str(a.threads), "--n-layer", str(a.layers), "--output-folder", f"{folder}/out", "--prompt",
             ",".join(map(str, prompt[0].tolist()))]  # fmt: skip
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def theirs(model, prompt, count):
    """(tokens, tokens a second behind the prompt)"""
    options = {"do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    times = []
    for n in (1, count):
        start = time.perf_counter()
        out = model.generate(prompt, max_new_tokens=n, min_new_tokens=n, **options)
        times.append(time.perf_counter() - start)
    return out[0, prompt.shape[1] :].tolist(), (count - 1) / (times[1] - times[0])


def main():
    a = arguments()
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=a.layers, initializer_range=0.08)).eval()  # at 0.02 all tokens are one
    prompt = torch.randint(model.config.vocab_size, (1, a.prompt))
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        model.save_pretrained(folder, safe_serialization=True)
        if a.precision == "bf16":
            model = model.bfloat16()
        rounds = [(ours(a, folder, prompt), *theirs(model, prompt, a.count)) for _ in range(a.rounds)]
    best = {key: max(mine[key] for mine, *_ in rounds) for key in ("tokens_per_second", "prefill_mfu", "weights_bytes_per_second", "bandwidth")}
    pytorch = max(rate for _, _, rate in rounds)
    print(f"{a.precision}, prompt {a.prompt}, {a.count} tokens, {a.threads} threads")
    print(f"tokens/s    {best['tokens_per_second']:8.2f}   PyTorch {pytorch:.2f}, {best['tokens_per_second'] / pytorch:.2f} times as many")
    print(f"weights     {best['weights_bytes_per_second'] / 1e9:8.2f} GB/s, memory {best['bandwidth'] / 1e9:.2f}: "
          f"{best['weights_bytes_per_second'] / best['bandwidth']:.1%}; of single rounds {', '.join(format(mine['of_bandwidth'], '.1%') for mine, *_ in rounds)}")
    print(f"prompt      {min(mine['prefill_ms'] for mine, *_ in rounds):8.1f} ms, {best['prefill_mfu']:.1%} of the multiply-add peak")
    same = all(mine["tokens"] == tokens for mine, tokens, _ in rounds)
    print(f"tokens      {'those of PyTorch' if same else 'differ from those of PyTorch'}")
    return 0 if same or a.precision == "bf16" else 1


if __name__ == "__main__":
    sys.exit(main())
