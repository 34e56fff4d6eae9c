# SPDX-License-Identifier: Apache-2.0
"""The rules of data preparation (docs/prepare.md) once more, all in memory: what `sambaflow prepare` must give for a file,
written from the rules and sharing no code with it. Texts become ids by the Python package tokenizers."""

import dataclasses
import json

MASK = (1 << 64) - 1


@dataclasses.dataclass
class Settings:
    max_seq_length: int = 2048
    input_packing_config: str = "full"
    packing_boundary: str = "jsonl"
    attention_boundary: str = "jsonl"
    prompt_keyword: str = "prompt"
    completion_keyword: str = "completion"
    prompt_prefix: str = ""
    prompt_postfix: str = ""
    disable_space_separator: bool = False
    keep_prompt_only_sequences: bool = False
    categories: object = None
    num_training_splits: int = 1
    num_dev_splits: int = 0
    num_test_splits: int = 0
    dev_ratio: object = None
    test_ratio: object = None
    no_shuffle: bool = False
    seed: int = 0


def key(seed, article):
    """splitmix64's output function at the article's place."""
    z = (seed + (article + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


class Preparation:
    """What is expected: parts["train"] and parts["dev"] as lists of files, a file as a list of (ids, types, categories); tests as
    a list of files' bytes; bad, how many lines were broken."""

    def __init__(self, data, is_text, encode, bos, eos, pad, settings, chat=None):
        """`encode(text, special)` gives ids; `chat(messages)` the text of a conversation and the assistant's places in it."""
        self.chat = chat
        self.encode, self.bos, self.eos, self.pad, self.s, self.is_text = encode, bos, eos, pad, settings, is_text
        self.bad = 0
        articles = []
        for line in data.split(b"\n"):
            articles.append(line + b"\n")
        articles[-1] = articles[-1][:-1]
        if not articles[-1]:
            articles.pop()
        articles = [(line, pairs) for line, pairs in ((line, self.pairs_of(line)) for line in articles) if pairs is not None]
        if not settings.no_shuffle:
            order = sorted(range(len(articles)), key=lambda i: (key(settings.seed, i), i))
            articles = [articles[i] for i in order]
        files = {"train": settings.num_training_splits, "dev": settings.num_dev_splits, "test": settings.num_test_splits}
        given = {"dev": settings.dev_ratio, "test": settings.test_ratio}
        left, sharing = 1.0, files["train"]
        for part, ratio in given.items():
            left -= ratio or 0.0
            sharing += files[part] if ratio is None else 0
        ratios = {part: left * files[part] / sharing if ratio is None else ratio for part, ratio in given.items()}
        for part in ("dev", "test"):
            if ratios[part] > 0:
                files[part] = max(files[part], 1)
        dev, test = int(ratios["dev"] * len(articles)), int(ratios["test"] * len(articles))
        train = len(articles) - dev - test
        self.parts = {
            "train": self.share(self.pack(articles[:train]), files["train"]),
            "dev": self.share(self.pack(articles[train : train + dev]), files["dev"]),
        }
        lines = [line if line.endswith(b"\n") else line + b"\n" for line, _ in articles[train + dev :]]
        self.tests = [b"".join(part) for part in self.share(lines, files["test"])]
        self.articles = len(articles)

    @staticmethod
    def share(things, files):
        """As even as can be, the larger ones first."""
        result, at = [], 0
        for i in range(files):
            count = len(things) // files + (i < len(things) % files)
            result.append(things[at : at + count])
            at += count
        return result

    # ---- lines ----
    def pairs_of(self, line):
        """[(prompt, completion, category)], or None for what is no article."""
        text = line.decode("utf-8", "replace")
        if self.is_text:
            return [("", text, -1)]
        if not text.strip(" \t\r\n"):
            return None
        try:
            value = json.loads(text)
            objects = value if isinstance(value, list) else [value]
            return [pair for pair in map(self.pair_of, objects) if pair is not None]
        except (ValueError, KeyError, TypeError, AttributeError):
            self.bad += 1
            return None

    def pair_of(self, o):
        s = self.s
        if not isinstance(o, dict):
            raise ValueError("no object")
        if s.prompt_keyword not in o and s.completion_keyword not in o and "messages" in o:
            category = self.category_of(o)
            if not isinstance(o["messages"], list) or not o["messages"]:
                raise ValueError("no list of messages")
            text, spans = self.chat(o["messages"])
            return (text, spans, category) if spans or s.keep_prompt_only_sequences else None
        prompt, completion = o.get(s.prompt_keyword, ""), o.get(s.completion_keyword)
        if s.prompt_keyword not in o and s.completion_keyword not in o:
            completion = o["text"]
        if not isinstance(prompt, str) or not isinstance(completion, str):
            raise ValueError("no string")
        category = self.category_of(o)
        if not s.disable_space_separator:
            prompt = prompt.rstrip(" ")
        if not completion and (not prompt or not s.keep_prompt_only_sequences):
            return None
        if prompt:
            prompt = s.prompt_prefix + prompt + s.prompt_postfix
        if completion and not s.disable_space_separator:
            completion = " " + completion.lstrip(" ")
        return prompt, completion, category

    def category_of(self, o):
        names = self.s.categories
        if names is None or "category" not in o:
            return -1
        return names.index(o["category"]) if isinstance(names, list) else names[o["category"]]

    # ---- tokens: (id, type, category) ----
    def unit_of_chat(self, text, spans, category):
        unit, at = [], 0
        for begin, end in [*spans, (len(text), len(text))]:
            for kind, part in ((0, text[at:begin]), (1, text[begin:end])):
                unit += [(i, kind, category) for i in self.encode(part, False)] if part else []
            at = end
        if unit and unit[-1][0] == self.eos:
            unit.pop()
        return unit + [(self.eos, 1, category)]

    def unit_of(self, prompt, completion, category):
        if isinstance(completion, list):
            unit = self.unit_of_chat(prompt, completion, category)
            return self.marked(unit) if self.s.attention_boundary == "prompt_completion_pair" else unit
        before = self.encode(prompt, True) if prompt else []
        after = self.encode(completion, True) if completion else []
        if before and before[-1] == self.eos:
            before = before[:-1]
        if after and after[-1] == self.eos:
            after = after[:-1]
        if before and after and after[0] == self.bos:
            after = after[1:]
        unit = [(i, 0, category) for i in before] + [(i, 1, category) for i in after] + [(self.eos, 1, category)]
        return self.marked(unit) if self.s.attention_boundary == "prompt_completion_pair" else unit

    @staticmethod
    def marked(unit):
        return unit[:-1] + [(unit[-1][0], 3, unit[-1][2])]

    def units_of(self, pairs):
        units = [self.unit_of(*pair) for pair in pairs]
        if not units:
            return []
        units[-1] = self.marked(units[-1])
        if self.s.packing_boundary == "jsonl":
            return [[token for unit in units for token in unit]]
        return units

    # ---- sequences ----
    def pack(self, articles):
        s, n = self.s, self.s.max_seq_length
        how, _, long = s.input_packing_config.partition("::")
        units = [unit for _, pairs in articles for unit in self.units_of(pairs)]
        if how == "full":
            tokens = [token for unit in units for token in unit]
            sequences = [tokens[i : i + n] for i in range(0, len(tokens), n)]
        else:
            sequences, last = [], []
            for unit in units:
                if len(unit) > n:
                    if long == "drop":
                        continue
                    unit = unit[-n:] if long == "truncate_left" else unit[:n]
                if last and (how == "single" or len(last) + len(unit) > n):
                    sequences.append(last)
                    last = []
                last = last + unit
            sequences += [last] if last else []
        kept = []
        for sequence in sequences:
            if s.keep_prompt_only_sequences or any(kind == 1 for _, kind, _ in sequence):
                padded = sequence + [(self.pad, 2, -1)] * (n - len(sequence))
                kept.append(tuple(list(column) for column in zip(*padded)))
        return kept
