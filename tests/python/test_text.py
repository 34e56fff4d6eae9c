# SPDX-License-Identifier: Apache-2.0
"""Tokenizers beside `tokenizers`, which trains them here: each model with normalizers, pre-tokenizers, post-processors, decoders
and added tokens that are drawn, on random text of code, many scripts, emoji, marks, control characters and broken UTF-8. Ids and
texts are equal; a stream's parts together are the text. SAMBA_TEST_SEED draws the same again."""

import json
import os
import random

import pytest

pytest.importorskip("tokenizers")
from text_library import Refused, Tokenizer  # noqa: E402
from tokenizers import AddedToken, Regex, models, trainers  # noqa: E402
from tokenizers import Tokenizer as Theirs  # noqa: E402
from tokenizers import decoders as D  # noqa: E402
from tokenizers import normalizers as N  # noqa: E402
from tokenizers import pre_tokenizers as P  # noqa: E402
from tokenizers import processors as R  # noqa: E402

SEED = int(os.environ.get("SAMBA_TEST_SEED", random.randrange(1 << 30)))
SCRIPTS = [(0x20, 0x7E)] * 6 + [(0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF), (0x590, 0x6FF), (0x900, 0x97F)]
SCRIPTS += [(0xE00, 0xE7F), (0x1100, 0x11FF), (0x1E00, 0x206F), (0x2100, 0x218F), (0x2460, 0x24FF), (0x3000, 0x30FF)]
SCRIPTS += [(0x4E00, 0x4FFF), (0xAC00, 0xACFF), (0xF900, 0xFAFF), (0xFB00, 0xFB4F), (0xFE00, 0xFE0F), (0xFF00, 0xFFEF)]
SCRIPTS += [
    (0x1F1E6, 0x1F1FF),
    (0x1F300, 0x1F6FF),
    (0x1D400, 0x1D4FF),
    (0x20000, 0x20100),
    (0, 0x1F),
    (0x7F, 0xA0),
    (0, 0x10FFFF),
]
WORDS = (
    "the of and don't it's I'LL Hello HELLO tokenization 12345 3.14 foo_bar() x+=1; if(a){return b;} https://a.com/?q=1 \n\n \t "
    "naïve café Straße İstanbul ﬁne ½ привет мир こんにちは 世界 한국어 สวัสดี नमस्ते مرحبا 👨‍👩‍👧 🇩🇪 👍🏽 é "
    "<s> </s> [CLS] <unk> ▁ Ġ ##a <0x41> |"
).split(" ")
LLAMA = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = [
    LLAMA,
    r"\s+",
    r"\d",
    r"\w+",
    r"[^\w\s]+",
    r"a*",
    r"[a-z&&[^aeiou]]+",
    r"[\p{L}&&[^\p{Han}]]+",
    r"\p{Han}+",
    r"\b",
    r"^.",
]
PATTERNS += [r".$", r"[\S]", r"[^\S\n]", r"[\W\d]", r"(?<=\p{L})\p{N}", r"\p{N}{2}+", r"\h+", r"\p{^L}+", r"[\u4e00-\u9fa5]+"]
PATTERNS += [
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t)?|\p{N}{1,3}|\s+",
    r"(?m:.)+",
]
BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]


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
    made = bytearray("".join(c for c in "".join(parts) if c != "\0" and not 0xD800 <= ord(c) < 0xE000).encode())
    if made and draw.random() < 0.1:
        made[draw.randrange(len(made))] = draw.randrange(1, 256)
    return bytes(made)


def normalizer(draw):
    def one():
        coin = draw.random() < 0.5
        return draw.choice(
            [
                lambda: draw.choice([N.NFC, N.NFD, N.NFKC, N.NFKD, N.Lowercase, N.StripAccents, N.Nmt, N.ByteLevel])(),
                lambda: N.Strip(coin, not coin),
                lambda: N.Replace(draw.choice(["a", " ", "é", Regex(draw.choice(PATTERNS))]), draw.choice(["", "b", "▁"])),
                lambda: N.Prepend("▁"),
                lambda: N.BertNormalizer(coin, draw.random() < 0.5, draw.choice([None, True, False]), draw.random() < 0.5),
            ]
        )()

    return None if draw.random() < 0.3 else N.Sequence([one() for _ in range(draw.randint(1, 3))])


def splitter(draw, first):
    def one():
        coin = draw.random() < 0.5
        return draw.choice(
            [
                lambda: P.ByteLevel(coin, use_regex=draw.random() < 0.7),
                lambda: draw.choice([P.Whitespace, P.WhitespaceSplit, P.BertPreTokenizer, P.UnicodeScripts])(),
                lambda: P.Split(Regex(draw.choice(PATTERNS)), draw.choice(BEHAVIORS), coin),
                lambda: P.Split(draw.choice(["a", " ", "ll"]), draw.choice(BEHAVIORS), coin),
                lambda: P.Punctuation(draw.choice(BEHAVIORS)),
                lambda: P.Digits(coin),
                lambda: P.Metaspace("▁", draw.choice(["always", "never", first]), coin),
                lambda: draw.choice([P.CharDelimiterSplit("e"), P.FixedLength(draw.randint(1, 6))]),
            ]
        )()

    return None if draw.random() < 0.2 else P.Sequence([one() for _ in range(draw.randint(1, 3))])


def decoder(draw):
    return draw.choice(
        [
            lambda: None,
            D.ByteLevel,
            D.WordPiece,
            lambda: D.Metaspace("▁", draw.choice(["always", "first", "never"])),
            D.BPEDecoder,
            lambda: D.CTC("a", "|", draw.random() < 0.5),
            lambda: D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)]),
            lambda: D.Sequence([D.Replace(Regex("[aeiou]+"), ""), D.Fuse()]),
        ]
    )()


def trained(draw):
    """The JSON of a tokenizer; None where the draw cannot be trained."""
    special, alphabet = ["<unk>", "<s>", "</s>"], P.ByteLevel.alphabet() if draw.random() < 0.5 else []
    byte_tokens = [f"<0x{i:02X}>" for i in range(256)] if draw.random() < 0.4 else []
    common = {"special_tokens": special + byte_tokens, "show_progress": False}
    kind = draw.choice(["BPE", "BPE", "Unigram", "WordPiece", "WordLevel"])
    if kind == "BPE":
        affixes = draw.choice([{}, {}, {"continuing_subword_prefix": "##"}, {"end_of_word_suffix": "</w>"}])
        made = Theirs(models.BPE(unk_token="<unk>", **affixes) if draw.random() < 0.5 else models.BPE(**affixes))
        trainer = trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, limit_alphabet=300, **affixes, **common)
    elif kind == "Unigram":
        made, trainer = Theirs(models.Unigram()), trainers.UnigramTrainer(vocab_size=700, unk_token="<unk>", **common)
    elif kind == "WordPiece":
        made = Theirs(models.WordPiece(unk_token="<unk>", max_input_chars_per_word=draw.choice([10, 100])))
        trainer = trainers.WordPieceTrainer(vocab_size=600, limit_alphabet=300, **common)
    else:
        made, trainer = Theirs(models.WordLevel(unk_token="<unk>")), trainers.WordLevelTrainer(vocab_size=500, **common)
    rules = normalizer(draw)
    pieces = splitter(draw, "never" if rules else "first")
    if rules:
        made.normalizer = rules
    if pieces:
        made.pre_tokenizer = pieces
    made.train_from_iterator([text(draw, 40).decode("utf-8", "replace") for _ in range(25)], trainer)
    for word in draw.sample(["[CLS]", "Hello", "foo", "é", " it", "don", "世界", "a", "  "], draw.randint(0, 4)):
        flags = {name: draw.random() < 0.3 for name in ("single_word", "lstrip", "rstrip", "normalized", "special")}
        made.add_tokens([AddedToken(word, **flags)])
    written = decoder(draw)
    if written:
        made.decoder = written
    around = draw.choice(
        [
            None,
            R.BertProcessing(("</s>", 2), ("<s>", 1)),
            R.TemplateProcessing(single="<s> $A </s> </s>", special_tokens=[("<s>", 1), ("</s>", 2)]),
            R.Sequence([R.ByteLevel(), R.RobertaProcessing(("</s>", 2), ("<s>", 1))]),
        ]
    )
    if around:
        made.post_processor = around
    told = json.loads(made.to_str())
    if kind == "BPE":
        told["model"].update({name: draw.random() < 0.5 for name in ("fuse_unk", "byte_fallback", "ignore_merges")})
    return json.dumps(told, ensure_ascii=False)


def attempt(call, *arguments, **named):
    """What it gives; None where `tokenizers` fails, by an exception or a panic."""
    try:
        return call(*arguments, **named)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return None


@pytest.mark.parametrize("number", range(40))
def test_drawn(number):
    draw = random.Random(SEED + number)
    told = attempt(trained, draw)
    theirs = told and attempt(Theirs.from_str, told)
    if not theirs or '"\\u0000"' in told:
        return
    where = f"SAMBA_TEST_SEED={SEED}, {number}"
    ours = Tokenizer(told)
    assert len(ours) == theirs.get_vocab_size(), where
    for _ in range(20):
        given, special, skip = text(draw), draw.random() < 0.5, draw.random() < 0.5
        found = attempt(theirs.encode, given.decode("utf-8", "replace"), add_special_tokens=special)
        if found is None:
            continue
        assert ours.encode(given, special) == found.ids, (where, given)
        if not special:
            ids, count = ours.encode_again(given)
            assert ids[:count] == found.ids, (where, given)
        ids = found.ids if draw.random() < 0.7 else [draw.randrange(len(ours) + 2) for _ in range(draw.randint(0, 20))]
        decoded = attempt(theirs.decode, ids, skip_special_tokens=skip)
        if decoded is None:
            continue
        assert ours.decode(ids, skip) == decoded, (where, ids)
        assert "".join(ours.stream(ids, skip)) == decoded, (where, ids)


def test_sentencepiece(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    draw = random.Random(SEED)
    lines = [" ".join(draw.choice(WORDS) for _ in range(20)) for _ in range(300)]
    for kind in ("unigram", "bpe", "char"):
        for rules in ("nmt_nfkc", "identity", "nmt_nfkc_cf"):
            prefix = str(tmp_path / f"{kind}_{rules}")
            spaces = {"add_dummy_prefix": rules != "identity", "remove_extra_whitespaces": rules != "identity"}
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines), model_prefix=prefix, vocab_size=450, model_type=kind, byte_fallback=True,
                normalization_rule_name=rules, hard_vocab_limit=False, user_defined_symbols=["<sep>", "foo"], minloglevel=2,
                **spaces,
            )  # fmt: skip
            theirs = sentencepiece.SentencePieceProcessor(model_file=prefix + ".model")
            with open(prefix + ".model", "rb") as file:
                ours = Tokenizer(file.read())
            for _ in range(50):
                given = text(draw).decode("utf-8", "replace")
                ids = theirs.encode(given)
                assert ours.encode(given.encode(), False) == ids, (SEED, kind, rules, given)
                assert ours.decode(ids, False) == theirs.decode(ids), (SEED, kind, rules, ids)


def test_a_megabyte_without_a_space():
    draw = random.Random(SEED)
    made = Theirs(models.BPE())
    made.pre_tokenizer = P.ByteLevel(False)
    trainer = trainers.BpeTrainer(vocab_size=500, initial_alphabet=P.ByteLevel.alphabet(), show_progress=False)
    made.train_from_iterator([text(draw, 40).decode("utf-8", "replace") for _ in range(25)], trainer)
    given = "".join(draw.choice("abcdefgh") for _ in range(1 << 20))
    assert Tokenizer(made.to_str()).encode(given.encode(), False) == made.encode(given).ids


def test_refused():
    with pytest.raises(Refused, match='normalizer: type "Upper" is not supported'):
        Tokenizer('{"model": {"type": "WordLevel", "vocab": {}}, "normalizer": {"type": "Upper"}}')
