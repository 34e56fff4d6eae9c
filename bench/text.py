# SPDX-License-Identifier: Apache-2.0
"""The speed of tokenizers beside `tokenizers`, on one thread, by time of the processor: a text at once, line by line, decoding.
The text is the source of this repository with words of many languages between. Usage: SAMBAFLOW_BUILD=build bench/text.py"""

import os
import pathlib
import random
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"], os.environ["RAYON_NUM_THREADS"] = "false", "1"
ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "python"))
from text_library import Tokenizer  # noqa: E402
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers  # noqa: E402
from tokenizers import Tokenizer as Theirs  # noqa: E402

LLAMA = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
WORDS = "the of привет мир こんにちは 世界今日は 한국어 문장 สวัสดี नमस्ते مرحبا naïve café Straße 👍🏽 🎉 été mañana".split()


def train(made, trainer, text):
    made.train_from_iterator([text[i : i + 2000] for i in range(0, len(text), 2000)], trainer)
    return made


def families(text):
    alphabet = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet(), "vocab_size": 20000, "show_progress": False}
    made = Theirs(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(False), decoders.ByteLevel()
    yield "GPT-2", train(made, trainers.BpeTrainer(**alphabet), text)
    made = Theirs(models.BPE(ignore_merges=True))
    split = pre_tokenizers.Split(Regex(LLAMA), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    made.decoder = decoders.ByteLevel()
    yield "Llama 3", train(made, trainers.BpeTrainer(**alphabet), text)
    made = Theirs(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>"] + [f"<0x{i:02X}>" for i in range(256)]
    train(made, trainers.BpeTrainer(vocab_size=20000, show_progress=False, special_tokens=special), text)
    made.pre_tokenizer = None
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    yield "Llama 2", made
    made = Theirs(models.WordPiece(unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    yield "BERT", train(made, trainers.WordPieceTrainer(vocab_size=20000, show_progress=False, special_tokens=["[UNK]"]), text)


def seconds(call):
    best = float("inf")
    for _ in range(3):
        begin = time.process_time()
        found = call()
        best = min(best, time.process_time() - begin)
    return best, found


def main():
    draw = random.Random(1)
    text = "".join(path.read_text() for path in sorted((ROOT / "src").rglob("*.c")))[:700000]
    text += "".join(draw.choice(WORDS) + draw.choice([" ", " ", ", ", "\n"]) for _ in range(50000))
    size, lines = len(text.encode()) / 1e6, text.split("\n")
    for name, theirs in families(text):
        ours = Tokenizer(theirs.to_str())
        theirs_once, found = seconds(lambda: theirs.encode_batch_fast([text], add_special_tokens=False)[0].ids)
        ours_once, (ids, count) = seconds(lambda: ours.encode_again(text.encode()))
        assert ids[:count] == found
        theirs_lines, _ = seconds(lambda: theirs.encode_batch_fast(lines, add_special_tokens=False))
        ours_lines, _ = seconds(lambda: [ours.encode_again(line.encode()) for line in lines])
        theirs_text, decoded = seconds(lambda: theirs.decode(found))
        ours_text, same = seconds(lambda: ours.decode(found, True))
        assert decoded == same
        pairs = [(theirs_once, ours_once), (theirs_lines, ours_lines), (theirs_text, ours_text)]
        told = [f"{size / a:.1f} | {size / b:.1f} | {a / b:.1f}" for a, b in pairs]
        print(f"| {name} | {' | '.join(told)} |", flush=True)


main()
