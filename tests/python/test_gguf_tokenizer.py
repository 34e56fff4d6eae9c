# SPDX-License-Identifier: Apache-2.0
"""Tokenizers of GGUF files beside `tokenizers` and `sentencepiece`, which trained them: ids and decoded texts are the same, from
the file itself and from the folder that a model of the file is saved as."""

import io
import random

import gguf
import gguf_models
import pytest
import sentencepiece
import tokenizers
import transformers
from test_lm import SEED, make, sambaflow
from text_library import Refused, Tokenizer
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

CORPUS = ["the sea is what it is, they'll say: 1234 ships", "naïve café über 你好世界 привет мир", "x = f(a[1]);\n\n\treturn x\n"] * 9
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def split(pattern):
    isolated = pre_tokenizers.Split(Regex(pattern), "isolated")
    return pre_tokenizers.Sequence([isolated, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def byte_level():
    return pre_tokenizers.ByteLevel(add_prefix_space=False)


# name: pre-tokenizer, normalizer, whether whole words count before merges, whether texts begin with a token
PRE = {
    "gpt-2": (byte_level(), None, False, False),
    "olmo": (byte_level(), normalizers.NFC(), False, False),
    "llama-bpe": (split(CONTRACTIONS + r"\p{N}{1,3}" + REST), None, True, True),
    "qwen2": (split(CONTRACTIONS + r"\p{N}" + REST), normalizers.NFC(), False, False),
    "tekken": (split(TEKKEN), None, True, True),
    "smollm": (pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level()]), None, False, False),
    "falcon": (
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Punctuation("contiguous"),
                byte_level(),
                pre_tokenizers.Digits(individual_digits=False),
                pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
            ]
        ),
        None,
        False,
        False,
    ),
}


def texts(r):
    pieces = ["the sea", " ", "  ", "\n", "they'll", "THEY'RE", "12345", "é", "e\u0301", "你好", "👍", "<|end|>", "f(x)", "\t", "...", "<s>"]
    yield ""
    yield from CORPUS[:3]
    for _ in range(60):
        yield "".join(r.choice(pieces) for _ in range(r.randint(1, 12)))


def trained(pre):
    splitter, normalizer, ignore_merges, _ = PRE[pre]
    tokenizer = tokenizers.Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer, tokenizer.decoder = splitter, decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_special_tokens(["<|begin|>", "<|end|>"])
    tokenizer.add_tokens([tokenizers.AddedToken("f(x)", normalized=False)])
    return tokenizer


def merges_of(tokenizer):
    import json

    return json.loads(tokenizer.to_str())["model"]["merges"]


def same(given, expected, r):
    for text in texts(r):
        for special in (False, True):
            ids = expected.encode(text, add_special_tokens=special).ids
            assert given.encode(text.encode(), special) == ids, repr(text)
        assert given.decode(ids, False) == expected.decode(ids, skip_special_tokens=False), repr(text)
        assert given.decode(ids, True) == expected.decode(ids, skip_special_tokens=True), repr(text)


def a_model(vocab_size):
    config = transformers.LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=8,
        intermediate_size=6,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        pad_token_id=None,
    )
    return make(config, 1)


def check_folder(folder, expected, r):
    """The folder that the file is saved as has the tokenizer too."""
    sambaflow("lm", "compile", "--model", folder / "m.gguf", "--length", 4, "--inference", "--pef", folder / "m.pef")
    sambaflow("lm", "save", "--model", folder / "m.gguf", "--load", folder / "m.safetensors", "--to", folder / "saved")
    same(Tokenizer((folder / "saved" / "tokenizer.json").read_bytes()), expected, r)
    loaded = transformers.AutoTokenizer.from_pretrained(folder / "saved")
    for text in texts(r):
        assert loaded(text, add_special_tokens=False).input_ids == expected.encode(text, add_special_tokens=False).ids
    return loaded


@pytest.mark.parametrize("pre", PRE)
def test_byte_level(pre, tmp_path):
    r = random.Random(f"{SEED} {pre}")
    print(f"SAMBA_LM_SEED={SEED}")
    tokenizer = trained(pre)
    merges = merges_of(tokenizer)
    begin, end = tokenizer.token_to_id("<|begin|>"), tokenizer.token_to_id("<|end|>")

    def add(writer):
        gguf_models.add_byte_level(writer, tokenizer, pre, merges)
        writer.add_bos_token_id(begin)
        writer.add_eos_token_id(end)
        writer.add_chat_template("{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}")

    if PRE[pre][3]:
        tokenizer.post_processor = processors.TemplateProcessing("<|begin|> $A", special_tokens=[("<|begin|>", begin)])
    gguf_models.write(tmp_path / "m.gguf", a_model(tokenizer.get_vocab_size()), extra=add)
    same(Tokenizer((tmp_path / "m.gguf").read_bytes()), tokenizer, r)
    loaded = check_folder(tmp_path, tokenizer, r)
    assert (loaded.bos_token_id, loaded.eos_token_id) == (begin, end)
    assert loaded.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False) == "Hi<|end|>"


@pytest.mark.parametrize("prefix", [True, False])
def test_sentencepiece(prefix, tmp_path):
    r = random.Random(f"{SEED} {prefix}")
    print(f"SAMBA_LM_SEED={SEED}")
    trained_model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 3),
        model_writer=trained_model,
        model_type="bpe",
        vocab_size=400,
        byte_fallback=True,
        character_coverage=0.99,
        add_dummy_prefix=prefix,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    model = sentencepiece.SentencePieceProcessor(model_proto=trained_model.getvalue())

    def add(writer):
        gguf_models.add_sentencepiece(writer, model)
        writer.add_add_space_prefix(prefix)

    gguf_models.write(tmp_path / "m.gguf", a_model(model.get_piece_size()), extra=add)
    given = Tokenizer((tmp_path / "m.gguf").read_bytes())
    for text in texts(r):
        if "<s>" in text:  # which sentencepiece takes as text
            continue
        ids = model.encode(text)
        assert given.encode(text.encode(), False) == ids, repr(text)
        assert given.encode(text.encode(), True) == [model.bos_id(), *ids]
        if text.strip():
            assert given.decode(ids, True) == model.decode(ids), repr(text)
    expected = tokenizers.Tokenizer.from_str(_saved(tmp_path))
    same(given, expected, r)


def _saved(folder):
    sambaflow("lm", "compile", "--model", folder / "m.gguf", "--length", 4, "--inference", "--pef", folder / "m.pef")
    sambaflow("lm", "save", "--model", folder / "m.gguf", "--load", folder / "m.safetensors", "--to", folder / "saved")
    return (folder / "saved" / "tokenizer.json").read_text()


def test_whole_file(tmp_path):
    """A tokenizer.json in the metadata counts, whatever stands beside it."""
    tokenizer = trained("gpt-2")

    def add(writer):
        writer.add_tokenizer_model("gpt2")
        writer.add_string(gguf.Keys.Tokenizer.HF_JSON, tokenizer.to_str())

    gguf_models.write(tmp_path / "m.gguf", a_model(tokenizer.get_vocab_size()), extra=add)
    same(Tokenizer((tmp_path / "m.gguf").read_bytes()), tokenizer, random.Random(SEED))


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("model", "bert", '"tokenizer.ggml.model" is "bert": supported are "gpt2" and "llama"'),
        ("pre", "mystery", '"tokenizer.ggml.pre" is "mystery": supported are gpt-2, llama-bpe'),
        ("merges", ["ab"], "expected is a list of texts, two tokens and a space between them each"),
        ("token_type", [1], "expected is a list of numbers from 0 to 6, one for each token"),
    ],
)
def test_refused(key, value, words, tmp_path):
    values = {"model": "gpt2", "pre": "gpt-2", "tokens": ["a", "b", "ab"], "merges": ["a b"], "token_type": [1, 1, 1]} | {key: value}

    def add(writer):
        for name, one in values.items():
            (writer.add_array if isinstance(one, list) else writer.add_string)(f"tokenizer.ggml.{name}", one)

    gguf_models.write(tmp_path / "m.gguf", a_model(3), extra=add)
    with pytest.raises(Refused, match=words.replace("[", r"\[")):
        Tokenizer((tmp_path / "m.gguf").read_bytes())
