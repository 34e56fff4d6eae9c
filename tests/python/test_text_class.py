# SPDX-License-Identifier: Apache-2.0
"""sambaflow.text beside `tokenizers`: encoding, decoding, streams, special tokens, chat templates, threads, refusals."""

import json
import os
import pickle
import random
import threading

import numpy
import pytest
from tokenizers import Tokenizer as Theirs
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from sambaflow import errors
from sambaflow.text import ChatTemplate, DecodeStream, Tokenizer

SEED = int(os.environ.get("SAMBAFLOW_SEED") or 20261129)
WORDS = "the of and don't naïve 世界 привет 👨‍👩‍👧 x+=1; \n\n <|end|>".split(" ")


@pytest.fixture(scope="module")
def made():
    """`tokenizers`' own, trained here."""
    draw = random.Random(1)
    theirs = Theirs(models.BPE())
    theirs.pre_tokenizer, theirs.decoder = pre_tokenizers.ByteLevel(False), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<|end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    theirs.train_from_iterator([" ".join(draw.choices(WORDS, k=20)) for _ in range(50)], trainer)
    theirs.post_processor = processors.TemplateProcessing(single="$A <|end|>", special_tokens=[("<|end|>", 0)])
    return theirs


@pytest.fixture
def folder(made, tmp_path):
    (tmp_path / "tokenizer.json").write_text(made.to_str())
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"eos_token": "<|end|>", "chat_template": "{{ messages | length }}"})
    )
    return tmp_path


def test_like_tokenizers(made, folder):
    draw = random.Random(2)
    for ours in (Tokenizer(folder), Tokenizer(str(folder / "tokenizer.json")), Tokenizer(data=made.to_str())):
        assert len(ours) == ours.vocab_size == made.get_vocab_size() and "tokens" in repr(ours)
        texts = [" ".join(draw.choices(WORDS, k=draw.choice([0, 1, 30]))) for _ in range(20)]
        assert ours.encode_batch(texts) == [found.ids for found in made.encode_batch(texts)]
        ids = [made.encode(text, add_special_tokens=False).ids for text in texts]
        assert ours.encode_batch(texts, special=False) == ids
        assert ours.decode_batch(ids, skip_special=False) == made.decode_batch(ids, skip_special_tokens=False)
        assert ours.decode_batch(ids) == made.decode_batch(ids)
        for row in ids:
            stream = ours.stream(skip_special=False)
            assert "".join([stream.next(i) for i in row] + [stream.end()]) == made.decode(row, skip_special_tokens=False)
        assert ours.encode(b"\xff\xfe a\0b") == made.encode("\ufffd\ufffd a\0b").ids
        assert all(ours.token_to_id(ours.id_to_token(i)) == i == made.token_to_id(made.id_to_token(i)) for i in range(len(ours)))
        assert ours.token_to_id("nowhere") is ours.id_to_token(len(ours)) is ours.id_to_token(-1) is None


def test_special(made, folder):
    ours = Tokenizer(folder)
    assert ours.eos_id == 0
    assert [ours.bos_id, ours.pad_id, ours.unk_id, ours.sep_id, ours.cls_id, ours.mask_id] == [None] * 6


def test_numbers_of_others(made):
    ours = Tokenizer(data=made.to_str())
    ids = ours.encode("the of")
    assert ours.decode(numpy.array(ids, numpy.int64)) == ours.decode(iter(ids)) == "the of"
    assert ours.decode([]) == "" and ours.encode("", special=False) == []


def test_threads(made, folder):
    ours, found = Tokenizer(folder), []
    text = " ".join(WORDS * 20)

    def work():
        found.append([ours.encode(text) for _ in range(30)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[made.encode(text).ids] * 30] * 4


def test_life(made, folder):
    stream = Tokenizer(folder).stream()
    assert stream.next(Tokenizer(folder).token_to_id("t")) == "t"  # the stream keeps its tokenizer
    again = pickle.loads(pickle.dumps(Tokenizer(folder)))
    assert again.encode("the of") == made.encode("the of").ids
    for refused in (Tokenizer(data=made.to_str()), stream, ChatTemplate(template="a")):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            pickle.dumps(refused)


def test_refused(made, tmp_path):
    with pytest.raises(errors.FileError, match="nowhere.json"):
        Tokenizer(tmp_path / "nowhere.json")
    with pytest.raises(errors.FileError, match="this folder has no tokenizer"):
        Tokenizer(tmp_path)
    with pytest.raises(errors.FormatError, match="this is no tokenizer"):
        Tokenizer(data=b"xx")
    with pytest.raises(errors.UnsupportedError, match='type "Upper" is not supported'):
        Tokenizer(data='{"model": {"type": "WordLevel", "vocab": {}}, "normalizer": {"type": "Upper"}}')
    for arguments in ({}, {"path": "a", "data": "b"}):
        with pytest.raises(TypeError, match="a path or data, one of them"):
            Tokenizer(**arguments)
    ours = Tokenizer(data=made.to_str())
    with pytest.raises(TypeError, match="text is a str or bytes: given 3 of int"):
        ours.encode(3)
    with pytest.raises(ValueError, match="text is no Unicode text"):
        ours.encode("\ud800")
    with pytest.raises(TypeError, match="special is a bool: given 1"):
        ours.encode("a", 1)
    with pytest.raises(TypeError, match="texts is a list of texts"):
        ours.encode_batch("the")
    with pytest.raises(TypeError, match="an id is a whole number: given 1.5 of float"):
        ours.decode([1.5])
    with pytest.raises(errors.ArgumentError, match="an id is 4294967296, which is no number of 32 bits"):
        ours.decode([1 << 32])
    with pytest.raises(ValueError, match="token has a NUL in it"):
        ours.token_to_id("a\0")
    with pytest.raises(TypeError, match="tokenizer is a sambaflow.text.Tokenizer: given str"):
        DecodeStream("a")
    words = Tokenizer(data='{"model": {"type": "WordLevel", "vocab": {"a": 0}}}')
    with pytest.raises(errors.FormatError, match='no unk_token "<unk>" for it'):
        words.encode("b")


def test_chat(folder):
    assert ChatTemplate(folder).render([{"role": "user", "content": "a"}]) == "1"
    told = "{% for m in messages %}{{ m.role }}:{% generation %}{{ m.content }}{% endgeneration %};{% endfor %}"
    told += "{{ tools | length if tools else 0 }}{{ mood }}{% if add_generation_prompt %}>{% endif %}{{ strftime_now('%Y') }}"
    template, messages = ChatTemplate(template=told), [{"role": "user", "content": "é"}, {"role": "assistant", "content": "b"}]
    assert template.marks and not ChatTemplate(folder).marks
    given = {"tools": [{"name": "f"}], "variables": {"mood": "well"}, "add_generation_prompt": True, "now": 86400}
    assert template.render(messages, **given) == "user:é;assistant:b;1well>1970"
    text, spans = template.render_spans(messages, now=86400)
    assert [text[begin:end] for begin, end in spans] == ["é".encode(), b"b"]
    with pytest.raises(errors.ArgumentError, match="no roles"):
        ChatTemplate(template="{{ raise_exception('no roles') }}").render(messages)
    with pytest.raises(errors.FormatError, match="line 1"):
        ChatTemplate(template="{% if %}")
    with pytest.raises(errors.UnsupportedError, match="words are not marked"):
        ChatTemplate(folder).render_spans(messages)
    with pytest.raises(TypeError, match="messages cannot be written as JSON"):
        template.render([{1, 2}])
    with pytest.raises(TypeError, match="a folder, a template, or both"):
        ChatTemplate()


def draw_beside(r):
    """tokenizer_config.json and special_tokens_map.json of a folder with vocab.json and merges.txt."""
    config = {"tokenizer_class": "GPT2Tokenizer"}
    for name, likely in (("add_bos_token", 0.5), ("add_eos_token", 0.3), ("add_prefix_space", 0.3)):
        if r.random() < likely:
            config[name] = r.random() < 0.7
    purposes = {}
    for name in ("bos_token", "eos_token", "unk_token", "pad_token"):
        text = r.choice(["<s>", "</s>", "<pad>"])
        known = {"content": text, "lstrip": False, "rstrip": False, "normalized": True, "__type": "AddedToken"}
        purposes[name] = text if r.random() < 0.5 else known
    if r.random() < 0.5:
        return config | purposes, None
    return config, purposes


@pytest.mark.parametrize("number", range(12))
def test_vocabulary_and_merges(number, tmp_path):
    """A folder as OPT's: ids are those of transformers' tokenizer, with what its configuration puts around a text."""
    transformers = pytest.importorskip("transformers")
    r = random.Random(f"{SEED} files {number}")
    print(f"SAMBAFLOW_SEED={SEED}, {number}")
    specials = ["<s>", "<pad>", "</s>"] + ["<|endoftext|>"] * r.randint(0, 1)
    trainer = trainers.BpeTrainer(
        vocab_size=290, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=specials, show_progress=False
    )
    trained = Theirs(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.train_from_iterator(["the sea is deep and the sky is wide"] * 3, trainer)
    trained.model.save(str(tmp_path))
    config, purposes = draw_beside(r)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "config.json").write_text('{"model_type": "opt"}')
    if purposes:
        (tmp_path / "special_tokens_map.json").write_text(json.dumps(purposes))
    theirs, ours = transformers.AutoTokenizer.from_pretrained(tmp_path), Tokenizer(tmp_path)
    for text in ("", "the sea", " the", "</s>the<pad>x  <s>", "is <|endoftext|> wide"):
        assert list(ours.encode(text)) == theirs(text).input_ids, (text, config, purposes)
        assert list(ours.encode(text, special=False)) == theirs(text, add_special_tokens=False).input_ids, (text, config)
