# SPDX-License-Identifier: Apache-2.0
"""Tokenizers of GGUF files beside `tokenizers` and `sentencepiece`, which trained them: ids and decoded texts are the same, from
the file itself and from the folder that a model of the file is saved as."""

import io
import json
import random
import subprocess

import gguf_models
import pytest
import sentencepiece
import tokenizers
import transformers
from test_lm import BUILD, SEED, make, sambaflow
from text_library import Refused, Tokenizer
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

import gguf

SEA, WORLD = "the sea is what it is, they'll say: 1234 ships", "naïve café über 你好世界 привет мир"
CORPUS = [SEA, WORLD, "x = f(a[1]);\n\n\treturn x\n"] * 9
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
    pieces = ["the sea", " ", "  ", "\n", "they'll", "THEY'RE", "12345", "é", "e\u0301", "你好", "👍", "<|end|>", "f(x)"]
    pieces += ["\t", "...", "<s>"]
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
    print(f"SAMBAFLOW_SEED={SEED}")
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
    print(f"SAMBAFLOW_SEED={SEED}")
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


# ---- what is written ----


def folder_of(path, tokenizer, **config):
    a_model(tokenizer.get_vocab_size() + 3).save_pretrained(path)
    tokenizer.save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    return path


@pytest.mark.parametrize("pre", PRE)
def test_write_byte_level(pre, tmp_path):
    r = random.Random(f"{SEED} {pre}")
    tokenizer = trained(pre)
    begin, end = tokenizer.token_to_id("<|begin|>"), tokenizer.token_to_id("<|end|>")
    if pre in ("gpt-2", "llama-bpe"):
        around = {"gpt-2": "$A <|end|>", "llama-bpe": "<|begin|> $A"}[pre]
        template = processors.TemplateProcessing(around, special_tokens=[("<|begin|>", begin), ("<|end|>", end)])
        tokenizer.post_processor = processors.Sequence([processors.ByteLevel(), template])
    folder = folder_of(tmp_path / "folder", tokenizer, bos_token="<|begin|>", eos_token={"content": "<|end|>"})
    (folder / "chat_template.jinja").write_text("{{ bos_token }}{{ messages[0].content }}")
    sambaflow("lm", "export", "--model", folder, "--to", tmp_path / "m.gguf")
    same(Tokenizer((tmp_path / "m.gguf").read_bytes()), tokenizer, r)
    fields = gguf.GGUFReader(tmp_path / "m.gguf").fields
    words = [token for token, _ in sorted(tokenizer.get_vocab().items(), key=lambda pair: pair[1])]
    assert fields["tokenizer.ggml.tokens"].contents() == words + [f"[PAD{len(words) + i}]" for i in range(3)]
    assert fields["tokenizer.ggml.merges"].contents() == [" ".join(pair) for pair in merges_of(tokenizer)]
    assert fields["tokenizer.ggml.token_type"].contents() == [1] * (len(words) - 3) + [3, 3, 4] + [5] * 3
    assert (fields["tokenizer.ggml.bos_token_id"].contents(), fields["tokenizer.ggml.eos_token_id"].contents()) == (begin, end)
    assert fields["tokenizer.chat_template"].contents() == "{{ bos_token }}{{ messages[0].content }}"
    said = sambaflow("lm", "chat", "--model", tmp_path / "m.gguf", "--message", "Hi", "--max-new-tokens", 3, "--ignore-eos")
    assert said.strip()


@pytest.mark.parametrize("prefix", [True, False])
def test_write_sentencepiece(prefix, tmp_path):
    """Back from a folder: the scores put the same merges in the same order."""
    r = random.Random(f"{SEED} back {prefix}")
    test_sentencepiece(prefix, tmp_path)
    sambaflow("lm", "export", "--model", tmp_path / "saved", "--to", tmp_path / "again.gguf")
    expected = tokenizers.Tokenizer.from_file(str(tmp_path / "saved" / "tokenizer.json"))
    same(Tokenizer((tmp_path / "again.gguf").read_bytes()), expected, r)
    first, again = (gguf.GGUFReader(tmp_path / name).fields for name in ("m.gguf", "again.gguf"))
    for key in ("tokens", "token_type", "bos_token_id", "eos_token_id", "unknown_token_id", "add_space_prefix"):
        assert first[f"tokenizer.ggml.{key}"].contents() == again[f"tokenizer.ggml.{key}"].contents(), key


def test_prepare(tmp_path):
    """Data prepared by the file is that prepared by the folder that it came from; the weights are not copied."""
    tokenizer = trained("gpt-2")
    folder = folder_of(tmp_path / "folder", tokenizer, eos_token="<|end|>")
    (folder / "config.json").unlink()  # which says another size of the vocabulary
    config = json.loads((folder / "tokenizer_config.json").read_text())
    gguf_models.write(
        tmp_path / "m.gguf",
        a_model(tokenizer.get_vocab_size()),
        extra=lambda writer: (
            gguf_models.add_byte_level(writer, tokenizer, "gpt-2", merges_of(tokenizer)),
            writer.add_eos_token_id(tokenizer.token_to_id(config["eos_token"])),
        ),
    )
    (tmp_path / "data.jsonl").write_text("".join(json.dumps({"prompt": "say", "completion": text}) + "\n" for text in CORPUS))
    made = []
    for name in ("folder", "m.gguf"):
        words = ["--input_file_path", tmp_path / "data.jsonl", "--output_path", tmp_path / f"by-{name}"]
        sambaflow("prepare", *words, "--pretrained_tokenizer", tmp_path / name, "--max_seq_length", 64)
        files = sorted((tmp_path / f"by-{name}").glob("*.hdf5"))
        made.append([(path.name, path.read_bytes()) for path in files])
        assert (tmp_path / f"by-{name}" / "tokenizer" / "tokenizer.json").exists()
    assert made[0] and made[0] == made[1]
    assert not (tmp_path / "by-m.gguf" / "tokenizer" / "m.gguf").exists()


def changed(tokenizer, change):
    whole = json.loads(tokenizer.to_str())
    change(whole)
    return tokenizers.Tokenizer.from_str(json.dumps(whole))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.update(pre_tokenizer={"type": "Whitespace"}), "pre_tokenizer and ignore_merges: supported is"),
        (lambda t: t.update(normalizer={"type": "Lowercase"}), "its normalizer, pre_tokenizer and ignore_merges"),
        (lambda t: t["added_tokens"][0].update(lstrip=True), "its added tokens: supported is those that take no spaces"),
        (lambda t: t["model"].update(end_of_word_suffix="</w>"), "its end_of_word_suffix: supported is none"),
        (lambda t: t["model"].update(byte_fallback=True), "its normalizer and pre_tokenizer: supported is U+2581 for spaces"),
    ],
)
def test_write_refused(change, words, tmp_path):
    folder = folder_of(tmp_path / "folder", changed(trained("gpt-2"), change))
    command = [BUILD / "sambaflow", "lm", "export", "--model", folder, "--to", tmp_path / "m.gguf"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and words in done.stderr, done.stderr
    assert not (tmp_path / "m.gguf").exists()
    sambaflow(*command[1:], "--no-tokenizer")
    assert not any(key.startswith("tokenizer") for key in gguf.GGUFReader(tmp_path / "m.gguf").fields)


# ---- what is refused ----


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
    values = {"model": "gpt2", "pre": "gpt-2", "tokens": ["a", "b", "ab"], "merges": ["a b"], "token_type": [1, 1, 1]}
    values[key] = value

    def add(writer):
        for name, one in values.items():
            (writer.add_array if isinstance(one, list) else writer.add_string)(f"tokenizer.ggml.{name}", one)

    gguf_models.write(tmp_path / "m.gguf", a_model(3), extra=add)
    with pytest.raises(Refused, match=words.replace("[", r"\[")):
        Tokenizer((tmp_path / "m.gguf").read_bytes())


# ---- a walk: a file is trained, adapted, merged, written, and talks ----


def test_walk(tmp_path):
    tokenizer = trained("gpt-2")

    def add(writer):
        gguf_models.add_byte_level(writer, tokenizer, "gpt-2", merges_of(tokenizer))
        writer.add_eos_token_id(tokenizer.token_to_id("<|end|>"))
        writer.add_chat_template("{% for m in messages %}{{ m.content }}{% endfor %}")

    gguf_models.write(tmp_path / "m.gguf", a_model(tokenizer.get_vocab_size()), extra=add)
    (tmp_path / "data.txt").write_text("the sea is what it is\n" * 40)
    learn = ["--data", tmp_path / "data.txt", "--length", 16, "-b", 4, "--num-epochs", 30, "--lr", 0.02]
    learn += ["--output-folder", tmp_path / "out"]
    sambaflow("lm", "train", "--model", tmp_path / "m.gguf", *learn, "--to", tmp_path / "trained")
    sambaflow("lm", "export", "--model", tmp_path / "trained", "--to", tmp_path / "trained.gguf", "--type", "bf16")
    words = ["--prompt", "the sea", "--max-new-tokens", 12]
    said = [sambaflow("lm", "generate", "--model", tmp_path / name, *words) for name in ("trained", "trained.gguf")]
    assert said[0] == said[1] and "what it is" in said[0]
    chat = sambaflow("lm", "chat", "--model", tmp_path / "trained.gguf", "--message", "the sea", "--max-new-tokens", 8)
    assert "what" in chat
    adapt = ["--lora-rank", 2, "--num-epochs", 1, "--lr", 0.01]
    sambaflow("lm", "train", "--model", tmp_path / "m.gguf", *learn, *adapt, "--to", tmp_path / "adapter")
    sambaflow("lm", "merge", "--model", tmp_path / "m.gguf", "--adapter", tmp_path / "adapter", "--to", tmp_path / "merged")
    assert transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "merged").config.model_type == "llama"


def test_saved_without(tmp_path):
    """A tokenizer that nothing here knows is said after all else is written."""
    config = a_model(3)

    def add(writer):
        writer.add_tokenizer_model("bert")
        writer.add_token_list(["a", "b", "ab"])

    gguf_models.write(tmp_path / "m.gguf", config, extra=add)
    command = [BUILD / "sambaflow", "lm", "compile", "--model", tmp_path / "m.gguf", "--pef", tmp_path / "m.pef"]
    subprocess.run(command, capture_output=True, check=True)
    command = [BUILD / "sambaflow", "lm", "save", "--model", tmp_path / "m.gguf", "--load", tmp_path / "m.safetensors"]
    done = subprocess.run([*command, "--to", tmp_path / "saved"], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "was saved, but without a tokenizer" in done.stderr, done.stderr
    transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "saved")
