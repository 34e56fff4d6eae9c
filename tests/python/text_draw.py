# SPDX-License-Identifier: Apache-2.0
"""Tokenizers drawn by a random number generator: a model that `tokenizers` trains on drawn text, with normalizers,
pre-tokenizers, post-processors, decoders and added tokens in any order, and texts to try them with: code, many scripts, emoji,
marks, control characters, broken UTF-8."""

import json

from tokenizers import AddedToken, Regex, Tokenizer, models, trainers
from tokenizers import normalizers as N
from tokenizers import pre_tokenizers as P

SCRIPTS = [(0x20, 0x7E)] * 6 + [(0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF), (0x590, 0x6FF), (0x900, 0x97F)]
SCRIPTS += [(0xE00, 0xE7F), (0x1100, 0x11FF), (0x1E00, 0x206F), (0x2100, 0x218F), (0x2460, 0x24FF), (0x3000, 0x30FF)]
SCRIPTS += [(0x4E00, 0x4FFF), (0xAC00, 0xACFF), (0xF900, 0xFAFF), (0xFB00, 0xFB4F), (0xFE00, 0xFE0F), (0xFF00, 0xFFEF)]
SCRIPTS += [(0x1F1E6, 0x1F1FF), (0x1F300, 0x1F6FF), (0x1D400, 0x1D4FF), (0x20000, 0x20100)]
SCRIPTS += [(0, 0x1F), (0x7F, 0xA0), (0, 0x10FFFF)]
WORDS = (
    "the of and don't it's I'LL Hello HELLO tokenization 12345 3.14 foo_bar() x+=1; if(a){return b;} https://a.com/?q=1 \n\n \t "
    "naïve café Straße İstanbul ﬁne ½ привет мир こんにちは 世界 한국어 สวัสดี नमस्ते مرحبا 👨‍👩‍👧 🇩🇪 👍🏽 é "
    "<s> </s> [CLS] <unk> ▁ Ġ ##a <0x41> |"
).split(" ")
LLAMA = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = [LLAMA, r"\s+", r"\d", r"\w+", r"[^\w\s]+", r"a*", r"[a-z&&[^aeiou]]+", r"[\p{L}&&[^\p{Han}]]+", r"\p{Han}+", r"\b"]
PATTERNS += [r"^.", r".$", r"[\S]", r"[^\S\n]", r"[\W\d]", r"(?<=\p{L})\p{N}", r"\p{N}{2}+", r"\h+", r"\p{^L}+", r"(?m:.)+"]
PATTERNS += [r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t)?|\p{N}{1,3}|\s+"]
PATTERNS += [r"[\u4e00-\u9fa5]+", r" {2,}", r"(a|b)\1?", r"\A ?", r" ?\Z", r"(?s:.){3}", r"\R"]
BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
ADDED = "[CLS] Hello foo é É it don 世界 a aa ab A <mask> don't bar b 1 ﬁ ▁ </w> | . ' I'LL".split()
ADDED += [" it", "  ", " ", "\n", "foo bar", "a ", "\t", "é "]
BYTES = [f"<0x{i:02X}>" for i in range(256)]


def text(draw, size=None):
    """Bytes, now and then no UTF-8."""
    parts = []
    for _ in range(size or draw.choice([0, 1, 2, 5, 20, 60])):
        if draw.random() < 0.55:
            parts.append(draw.choice(WORDS))
        else:
            first, last = draw.choice(SCRIPTS)
            parts += [chr(draw.randint(first, last)) for _ in range(draw.randint(1, 6))]
        parts.append(draw.choice(["", " ", " ", "  "]))
    made = bytearray("".join(c for c in "".join(parts) if not 0xD800 <= ord(c) < 0xE000).encode())
    if made and draw.random() < 0.1:
        made[draw.randrange(len(made))] = draw.randrange(256)
    return bytes(made)


def sequence(draw, one, most, make):
    """One of them, or several, now and then a sequence within another."""
    parts = [one() for _ in range(draw.randint(1, most))]
    if len(parts) > 2 and draw.random() < 0.3:
        parts[1:] = [make(parts[1:])]
    return parts[0] if len(parts) == 1 and draw.random() < 0.5 else make(parts)


def normalizer(draw, charsmap):
    def coin():
        return draw.random() < 0.5

    def one():
        kinds = [
            lambda: draw.choice([N.NFC, N.NFD, N.NFKC, N.NFKD, N.Lowercase, N.StripAccents, N.Nmt, N.ByteLevel])(),
            lambda: N.Strip(coin(), coin()),
            lambda: N.Replace(draw.choice(["a", " ", "é", "ll", "  "]), draw.choice(["", "b", "▁", "aa"])),
            lambda: N.Replace(Regex(draw.choice(PATTERNS)), draw.choice(["", "b", "▁", " "])),
            lambda: N.Prepend(draw.choice(["▁", " ", "a", "«é"])),
            lambda: N.BertNormalizer(coin(), coin(), draw.choice([None, True, False]), coin()),
        ]
        return draw.choice(kinds + ([lambda: N.Precompiled(charsmap)] if charsmap else []))()

    return None if draw.random() < 0.25 else sequence(draw, one, 4, N.Sequence)


def splitter(draw, first):
    def one():
        coin = draw.random() < 0.5
        return draw.choice(
            [
                lambda: P.ByteLevel(coin, use_regex=draw.random() < 0.7),
                lambda: draw.choice([P.Whitespace, P.WhitespaceSplit, P.BertPreTokenizer, P.UnicodeScripts])(),
                lambda: P.Split(Regex(draw.choice(PATTERNS)), draw.choice(BEHAVIORS), coin),
                lambda: P.Split(draw.choice(["a", " ", "ll", "▁"]), draw.choice(BEHAVIORS), coin),
                lambda: P.Punctuation(draw.choice(BEHAVIORS)),
                lambda: P.Digits(coin),
                lambda: P.Metaspace(draw.choice("▁▁_a"), draw.choice(["always", "never", first]), coin),
                lambda: draw.choice([P.CharDelimiterSplit(draw.choice("e ▁")), P.FixedLength(draw.randint(1, 6))]),
            ]
        )()

    return None if draw.random() < 0.2 else sequence(draw, one, 4, P.Sequence)


def decoder(draw):
    """A decoder's JSON; None: none."""

    def coin():
        return draw.random() < 0.5

    def one():
        kind = draw.choice("ByteLevel ByteFallback Fuse WordPiece Metaspace BPEDecoder CTC Strip Strip Replace Replace".split())
        told = {"type": kind}
        if kind == "ByteLevel":
            told |= {"add_prefix_space": True, "trim_offsets": True, "use_regex": True}
        elif kind == "WordPiece":
            told |= {"prefix": draw.choice(["##", "a", "▁"]), "cleanup": coin()}
        elif kind == "Metaspace":
            scheme = draw.choice(["always", "first", "never"])
            told |= {"replacement": draw.choice("▁▁Ġa"), "prepend_scheme": scheme, "split": coin()}
        elif kind == "BPEDecoder":
            told["suffix"] = draw.choice(["</w>", "a", "e ", "##"])
        elif kind == "CTC":
            told |= {
                "pad_token": draw.choice(["a", "<pad>", "ll"]),
                "word_delimiter_token": draw.choice("|e▁"),
                "cleanup": coin(),
            }
        elif kind == "Strip":
            told |= {"content": draw.choice(" ▁aĠ"), "start": draw.randint(0, 2), "stop": draw.randint(0, 2)}
        elif kind == "Replace":
            pattern = (
                {"Regex": draw.choice(PATTERNS)} if coin() else {"String": draw.choice(["▁", "a", "ab", "the", "ll", "  ", "é"])}
            )
            told |= {"pattern": pattern, "content": draw.choice(["", " ", "x", "aa"])}
        return told

    usual = [
        [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}],
        [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}],
    ]
    if draw.random() < 0.15:
        return None
    parts = (
        draw.choice(usual) + ([one()] if coin() else []) if draw.random() < 0.25 else [one() for _ in range(draw.randint(1, 5))]
    )
    if len(parts) > 2 and draw.random() < 0.2:
        parts[1:] = [{"type": "Sequence", "decoders": parts[1:]}]
    return parts[0] if len(parts) == 1 else {"type": "Sequence", "decoders": parts}


def around(draw, ids):
    """A post-processor's JSON, of <s> and </s>; None: none."""

    def piece(word):
        return (
            {"Sequence": {"id": "A", "type_id": 0}}
            if word == "$"
            else {"SpecialToken": {"id": word, "type_id": draw.randint(0, 1)}}
        )

    def one():
        kind = draw.choice(["BertProcessing", "RobertaProcessing", "TemplateProcessing", "TemplateProcessing", "ByteLevel"])
        told = {"type": kind}
        if kind == "ByteLevel":
            return told | {"add_prefix_space": True, "trim_offsets": draw.random() < 0.5, "use_regex": True}
        if kind != "TemplateProcessing":
            told |= {"sep": ["</s>", ids["</s>"]], "cls": ["<s>", ids["<s>"]]}
            return told | ({"trim_offsets": True, "add_prefix_space": False} if kind == "RobertaProcessing" else {})
        single = draw.choice(["$", "<s> $", "$ </s>", "<s> $ </s> </s>", "<s> <s> $ <s>", "both $"]).split()
        names = {"<s>": ["<s>"], "</s>": ["</s>"], "both": ["<s>", "</s>"]}
        special = {name: {"id": name, "ids": [ids[word] for word in words], "tokens": words} for name, words in names.items()}
        pair = [piece(word) for word in single] + [{"Sequence": {"id": "B", "type_id": 1}}]
        return told | {"single": [piece(word) for word in single], "pair": pair, "special_tokens": special}

    if draw.random() < 0.3:
        return None
    parts = [one() for _ in range(draw.randint(1, 3))]
    return parts[0] if len(parts) == 1 else {"type": "Sequence", "processors": parts}


def model(draw):
    """(kind, an untrained model, its trainer)"""
    alphabet = P.ByteLevel.alphabet() if draw.random() < 0.5 else []
    special = ["<unk>", "<s>", "</s>"] + (BYTES if draw.random() < 0.4 else [])
    common = {"special_tokens": special, "show_progress": False}
    kind = draw.choice(["BPE", "BPE", "Unigram", "WordPiece", "WordLevel"])
    if kind == "BPE":
        ends = [{}, {}, {"continuing_subword_prefix": "##"}, {"end_of_word_suffix": "</w>"}]
        affixes = draw.choice(ends + [{"continuing_subword_prefix": "@", "end_of_word_suffix": "$"}])
        unknown = {"unk_token": "<unk>"} if draw.random() < 0.5 else {}
        trainer = trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, limit_alphabet=300, **affixes, **common)
        return kind, models.BPE(**unknown, **affixes), trainer
    if kind == "Unigram":
        return kind, models.Unigram(), trainers.UnigramTrainer(vocab_size=700, unk_token="<unk>", **common)
    if kind == "WordPiece":
        prefix = draw.choice(["##", "##", "@@", "a"])
        made = models.WordPiece(
            unk_token="<unk>", max_input_chars_per_word=draw.choice([1, 10, 100]), continuing_subword_prefix=prefix
        )
        return (
            kind,
            made,
            trainers.WordPieceTrainer(vocab_size=600, limit_alphabet=300, continuing_subword_prefix=prefix, **common),
        )
    return kind, models.WordLevel(unk_token="<unk>"), trainers.WordLevelTrainer(vocab_size=500, **common)


def trained(draw, charsmap=None):
    """The JSON of a tokenizer. Errors of `tokenizers` are those of draws that cannot be trained."""
    kind, untrained, trainer = model(draw)
    made = Tokenizer(untrained)
    rules = normalizer(draw, charsmap)
    pieces = splitter(draw, "never" if rules else "first")
    if rules:
        made.normalizer = rules
    if pieces:
        made.pre_tokenizer = pieces
    made.train_from_iterator([text(draw, 40).decode("utf-8", "replace") for _ in range(25)], trainer)
    for word in draw.sample(ADDED, draw.choice([0, 1, 2, 4, 8])):
        flags = {name: draw.random() < 0.3 for name in ("single_word", "lstrip", "rstrip", "normalized", "special")}
        made.add_tokens([AddedToken(word, **flags)])
    told = json.loads(made.to_str())
    told["decoder"] = decoder(draw)
    told["post_processor"] = around(draw, {name: made.token_to_id(name) for name in ("<s>", "</s>")})
    if kind == "BPE":
        told["model"].update({name: draw.random() < 0.5 for name in ("fuse_unk", "byte_fallback", "ignore_merges")})
    elif kind == "Unigram":
        told["model"]["byte_fallback"] = draw.random() < 0.5
        if draw.random() < 0.1:
            told["model"]["unk_id"] = None
    return json.dumps(told, ensure_ascii=False)


def charsmap():
    """The normalization rules of sentencepiece; None where it is not installed."""
    try:
        import io

        import sentencepiece
        from sentencepiece import sentencepiece_model_pb2
    except ImportError:
        return None
    to, read = io.BytesIO(), sentencepiece_model_pb2.ModelProto()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c"] * 10), model_writer=to, vocab_size=7, hard_vocab_limit=False, minloglevel=2
    )
    read.ParseFromString(to.getvalue())
    return read.normalizer_spec.precompiled_charsmap


def settings(told):
    """What a drawn tokenizer is, without its vocabulary, to be printed."""
    told = json.loads(told)
    told["model"] = {name: value for name, value in told["model"].items() if name not in ("vocab", "merges")}
    told["added_tokens"] = [token for token in told["added_tokens"] if token["content"] not in BYTES]
    return json.dumps(told, ensure_ascii=False)
