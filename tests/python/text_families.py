# SPDX-License-Identifier: Apache-2.0
"""Tokenizers of real families, whatever file they come as, as (name, the file for SambaFlow, the reference's encode and decode).

A folder holds tokenizer.json files, SentencePiece models (*.model, *.model.v3), ranks as tiktoken keeps them (*.tiktoken, base64
and number a line), Mistral's tekken*.json, CLIP's merges (*.txt.gz) and GPT-2's (*.bpe beside encoder.json). Ranks have no
`tokenizers` file: one is made of them, whose merges are the two parts that a token's bytes fall into by the ranks before it.
No file is in this repository: docs/text.md names the packages that carry them."""

import base64
import gzip
import json
import pathlib

from tokenizers import Tokenizer as Theirs

CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = "|".join(rf"[^\r\n\p{{L}}\p{{N}}]?{a}{CONTRACTION}?" for a in (f"{UPPER}*{LOWER}+", f"{UPPER}+{LOWER}*"))
O200K += r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES
PATTERNS = {  # by a word of the file's name; the first that is in it
    "qwen3": rf"{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{SPACES}",
    "qwen": rf"{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{SPACES}",
    "llama3": rf"{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{SPACES}",
    "llama4": O200K,
    "o200k": O200K,
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    "": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
}


def byte_characters():
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {byte: chr(byte) for byte in shown} | {byte: chr(256 + i) for i, byte in enumerate(hidden)}


CHARACTERS = byte_characters()


def spelled(token):
    return "".join(CHARACTERS[byte] for byte in token)


def parts_of(token, ranks, below):
    """The two parts that merging by the ranks below one leaves of a token; None where it leaves more, or one."""
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        pairs = [(ranks.get(a + b, below), i) for i, (a, b) in enumerate(zip(parts, parts[1:]))]
        rank, i = min(pairs)
        if rank >= below:
            return None
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return parts if len(parts) == 2 else None


def added(words, first):
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return [{"id": first + i, "content": word, **flags} for i, word in enumerate(words)]


def from_ranks(ranks, pattern, special, first_special=None):
    """tokenizer.json of {bytes: rank}."""
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    merges = [parts_of(token, ranks, rank) for token, rank in sorted(ranks.items(), key=lambda row: row[1])]
    model = {"type": "BPE", "vocab": {spelled(token): rank for token, rank in ranks.items()}, "ignore_merges": True}
    model["merges"] = [[spelled(a), spelled(b)] for a, b in filter(None, merges)]
    told = {"version": "1.0", "model": model, "decoder": level, "normalizer": None, "post_processor": level}
    told["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, level]}
    told["added_tokens"] = added(special, max(ranks.values()) + 1 if first_special is None else first_special)
    return json.dumps(told)


def from_tiktoken(path):
    rows = [line.split() for line in path.read_text().splitlines() if line]
    ranks = {base64.b64decode(token): int(rank) for token, rank in rows}
    ranks.pop(b"", None)  # an empty one, as Whisper's
    pattern = next(pattern for word, pattern in PATTERNS.items() if word in path.name)
    return from_ranks(ranks, pattern, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])


def from_tekken(path):
    told = json.loads(path.read_text())
    config = told["config"]
    count = config["default_vocab_size"] - config["default_num_special_tokens"]
    ranks = {base64.b64decode(row["token_bytes"]): row["rank"] for row in told["vocab"] if row["rank"] < count}
    return from_ranks(ranks, config["pattern"], ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"])


def from_clip(path):
    merges = [line.split() for line in gzip.open(path, "rt").read().split("\n")[1 : 49152 - 256 - 2 + 1]]
    letters = [CHARACTERS[byte] for byte in [*range(33, 127), *range(161, 173), *range(174, 256)]]
    letters += [chr(256 + i) for i in range(256 - len(letters))]
    words = letters + [letter + "</w>" for letter in letters] + ["".join(pair) for pair in merges]
    ends = ["<|startoftext|>", "<|endoftext|>"]
    around = {"type": "RobertaProcessing", "sep": [ends[1], len(words) + 1], "cls": [ends[0], len(words)]}
    around |= {"trim_offsets": False, "add_prefix_space": False}
    pattern = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed", "invert": True}
    spaces = {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}
    vocab = {word: i for i, word in enumerate(words + ends)}
    model = {"type": "BPE", "unk_token": ends[1], "continuing_subword_prefix": "", "end_of_word_suffix": "</w>"}
    told = {"version": "1.0", "added_tokens": added(ends, len(words)), "post_processor": around}
    told["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "NFC"}, spaces, {"type": "Lowercase"}]}
    told["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, level]}
    last = {"type": "Replace", "pattern": {"String": "</w>"}, "content": " "}
    told["decoder"] = {"type": "Sequence", "decoders": [{"type": "ByteLevel", **level}, last]}
    return json.dumps(told | {"model": model | {"vocab": vocab, "merges": merges}})


def from_gpt2(path):
    merges = [line.split(" ") for line in path.read_text().split("\n")[1:] if line]
    vocab = json.loads((path.parent / "encoder.json").read_text())
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    told = {"version": "1.0", "added_tokens": added(["<|endoftext|>"], vocab["<|endoftext|>"]), "normalizer": None}
    told |= {"pre_tokenizer": level, "post_processor": level, "decoder": level}
    return json.dumps(told | {"model": {"type": "BPE", "vocab": vocab, "merges": merges}})


def llama_of(data):
    """A SentencePiece model of BPE as the tokenizer.json that Llama 2 and Mistral have: merges are all pairs of pieces that are a
    piece together, by its score."""
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(data)
    vocab = {piece.piece: i for i, piece in enumerate(model.pieces)}
    rows = []
    for piece in model.pieces:
        cuts = [(piece.piece[:i], piece.piece[i:]) for i in range(1, len(piece.piece))]
        known = [pair for pair in cuts if pair[0] in vocab and pair[1] in vocab]
        rows += [(-piece.score, vocab[a], vocab[b], [a, b]) for a, b in known]
    begin = {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    end = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}
    end += ({"type": "Strip", "content": " ", "start": 1, "stop": 0},)
    told = {"version": "1.0", "added_tokens": added([piece.piece for piece in model.pieces[:3]], 0), "pre_tokenizer": None}
    told |= {"normalizer": {"type": "Sequence", "normalizers": begin}, "decoder": {"type": "Sequence", "decoders": end}}
    sequence = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    told["post_processor"] = {"type": "TemplateProcessing", "single": sequence, "pair": sequence}
    told["post_processor"]["special_tokens"] = {"<s>": {"id": "<s>", "ids": [vocab["<s>"]], "tokens": ["<s>"]}}
    model = {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "vocab": vocab}
    told["model"] = model | {"merges": [row[3] for row in sorted(rows)]}
    return json.dumps(told)


class Pieces:
    """sentencepiece's processor with the calls of `tokenizers`."""

    def __init__(self, data):
        import sentencepiece

        self.c = sentencepiece.SentencePieceProcessor(model_proto=data)

    def encode(self, text):
        return self.c.encode(text)

    def decode(self, ids, skip):
        return self.c.decode(ids)


class Reference:
    """A tokenizer.json by `tokenizers`, without what is said of truncation and padding."""

    def __init__(self, told):
        self.c = Theirs.from_str(told)
        self.c.no_truncation()
        self.c.no_padding()

    def encode(self, text):
        return self.c.encode_batch_fast([text], add_special_tokens=False)[0].ids

    def decode(self, ids, skip):
        return self.c.decode(ids, skip_special_tokens=skip)


def load(folder):
    """(name, the bytes for SambaFlow, the reference) of each file."""
    makers = (("*.tiktoken", from_tiktoken), ("tekken*.json", from_tekken), ("*.txt.gz", from_clip), ("*.bpe", from_gpt2))
    for path in sorted(pathlib.Path(folder).rglob("*")):
        maker = next((maker for pattern, maker in makers if path.match(pattern)), None)
        if ".model" in path.suffixes:
            data = path.read_bytes()
            yield path.name, data, Pieces(data)
            told = llama_of(data)
            yield f"{path.name} as tokenizer.json", told.encode(), Reference(told)
        elif maker or (path.suffix == ".json" and path.name != "encoder.json"):
            told = maker(path) if maker else path.read_text()
            yield path.name, told.encode(), Reference(told)
