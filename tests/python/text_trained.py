# SPDX-License-Identifier: Apache-2.0
"""Tokenizers trained on the spot as families have them, for which no package carries a file: so that every model, normalizer,
pre-tokenizer, post-processor and decoder is in one that has a vocabulary of a real size."""

import io
import json

from text_families import Pieces, Reference
from tokenizers import AddedToken, Regex, Tokenizer, models, trainers
from tokenizers import decoders as D
from tokenizers import normalizers as N
from tokenizers import pre_tokenizers as P
from tokenizers import processors as R

BYTES = [f"<0x{i:02X}>" for i in range(256)]
ALPHABET = P.ByteLevel.alphabet()


def build(model, trainer, texts, normalizer=None, splitter=None, around=None, decoder=None, added=()):
    made = Tokenizer(model)
    for name, part in (("normalizer", normalizer), ("pre_tokenizer", splitter), ("decoder", decoder)):
        if part:
            setattr(made, name, part)
    made.train_from_iterator(texts, trainer)
    if around:
        made.post_processor = around(made.token_to_id)
    made.add_tokens(list(added))
    return made.to_str()


def bpe(size, special=(), **rest):
    return trainers.BpeTrainer(vocab_size=size, special_tokens=list(special), show_progress=False, **rest)


def charsmap(texts, kind):
    """(a SentencePiece model of the kind, its charsmap)"""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    rows = [line.replace("\0", "") for text in texts for line in text.split("\n") if line.strip()][:20000]
    to = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(rows),
        model_writer=to,
        vocab_size=4000,
        model_type=kind,
        byte_fallback=kind != "char",
        normalization_rule_name="nmt_nfkc",
        hard_vocab_limit=False,
        minloglevel=2,
        max_sentence_length=100000,
    )
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(to.getvalue())
    return to.getvalue(), model.normalizer_spec.precompiled_charsmap


def template(single, *names):
    def make(id_of):
        return R.TemplateProcessing(single=single, special_tokens=[(name, id_of(name)) for name in names])

    return make


def unigram(texts, size=8000):
    return models.Unigram(), trainers.UnigramTrainer(
        vocab_size=size, unk_token="<unk>", special_tokens=["<pad>", "</s>", "<unk>"], show_progress=False
    )


def trained(texts):
    """(name, bytes, reference) as text_families.load gives them."""
    pieces, table = charsmap(texts, "unigram")
    yield "SentencePiece Unigram", pieces, Pieces(pieces)
    for kind in ("bpe", "char"):
        data, _ = charsmap(texts, kind)
        yield f"SentencePiece {kind}", data, Pieces(data)
    made = {}
    mark = P.Metaspace("▁", "always")
    made["T5"] = build(
        *unigram(texts),
        texts,
        N.Precompiled(table),
        P.Sequence([P.WhitespaceSplit(), mark]),
        template("$A </s>", "</s>"),
        D.Metaspace("▁", "always"),
    )
    albert = [N.Replace("``", '"'), N.Replace("''", '"'), N.NFKD(), N.StripAccents(), N.Lowercase(), N.Precompiled(table)]
    albert += [N.Replace(Regex(" {2,}"), " ")]
    made["ALBERT"] = build(*unigram(texts), texts, N.Sequence(albert), mark, None, D.Metaspace())
    told = json.loads(
        build(*unigram(texts), texts, N.Sequence([N.Nmt(), N.NFKC(), N.Strip()]), P.UnicodeScripts(), None, D.Fuse())
    )
    first = len(told["model"]["vocab"])
    told["model"]["vocab"] += [[byte, -20.0 - i / 100] for i, byte in enumerate(BYTES)]
    told["model"]["byte_fallback"], told["decoder"] = (
        True,
        {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
    )
    assert first > 100
    made["Unigram with bytes"] = json.dumps(told)
    gemma = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse()])
    made["Gemma"] = build(
        models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True),
        bpe(8000, ["<pad>", "<eos>", "<bos>", "<unk>", *BYTES]),
        texts,
        N.Replace(" ", "▁"),
        P.Split("▁", "merged_with_next"),
        template("<bos> $A", "<bos>"),
        gemma,
        [AddedToken("\n\n", normalized=False), AddedToken("▁▁", normalized=False), AddedToken("<start_of_turn>", special=True)],
    )
    level = {"initial_alphabet": ALPHABET}
    neox = [AddedToken("  ", normalized=True), AddedToken("    ", normalized=True), AddedToken("<|padding|>", special=True)]
    made["GPT-NeoX"] = build(
        models.BPE(),
        bpe(8000, ["<|endoftext|>"], **level),
        texts,
        N.NFC(),
        P.ByteLevel(False),
        lambda _: R.ByteLevel(True),
        D.ByteLevel(),
        neox,
    )
    falcon = [P.Punctuation("contiguous"), P.ByteLevel(False), P.Digits(False), P.Split(Regex("[0-9][0-9][0-9]"), "isolated")]
    made["Falcon"] = build(
        models.BPE(), bpe(8000, ["<|endoftext|>"], **level), texts, None, P.Sequence(falcon), None, D.ByteLevel()
    )
    coder = P.Sequence([P.Digits(True), P.ByteLevel(True)])
    made["StarCoder"] = build(models.BPE(), bpe(8000, ["<fim_prefix>"], **level), texts, None, coder, None, D.ByteLevel())
    made["RoBERTa"] = build(
        models.BPE(),
        bpe(8000, ["<s>", "</s>"], **level),
        texts,
        None,
        P.ByteLevel(False),
        lambda id_of: R.RobertaProcessing(("</s>", id_of("</s>")), ("<s>", id_of("<s>")), True, False),
        D.ByteLevel(),
        [AddedToken("<mask>", lstrip=True, special=True)],
    )
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = {"special_tokens": words, "show_progress": False}
    made["BERT cased"] = build(
        models.WordPiece(unk_token="[UNK]"),
        trainers.WordPieceTrainer(vocab_size=8000, **pieces),
        texts,
        N.BertNormalizer(lowercase=False),
        P.BertPreTokenizer(),
        lambda id_of: R.BertProcessing(("[SEP]", id_of("[SEP]")), ("[CLS]", id_of("[CLS]"))),
        D.WordPiece(),
    )
    made["WordLevel"] = build(
        models.WordLevel(unk_token="[UNK]"),
        trainers.WordLevelTrainer(vocab_size=8000, **pieces),
        texts,
        N.Sequence([N.NFD(), N.StripAccents(), N.Lowercase()]),
        P.Whitespace(),
        template("[CLS] $A [SEP]", "[CLS]", "[SEP]"),
    )
    made["wav2vec2"] = build(
        models.WordLevel(unk_token="<unk>"),
        trainers.WordLevelTrainer(special_tokens=["<pad>", "<unk>", "|"], show_progress=False),
        texts,
        N.Replace(" ", "|"),
        P.FixedLength(1),
        None,
        D.CTC("<pad>", "|", True),
    )
    made["delimiters"] = build(
        models.WordPiece(unk_token="[UNK]"),
        trainers.WordPieceTrainer(vocab_size=8000, **pieces),
        texts,
        N.Sequence([N.NFKC(), N.Prepend(" ")]),
        P.CharDelimiterSplit(" "),
        None,
        D.WordPiece("##", False),
    )
    made["GPT-1"] = build(
        models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
        bpe(8000, ["<unk>"], end_of_word_suffix="</w>"),
        texts,
        N.BertNormalizer(strip_accents=True, lowercase=True),
        P.BertPreTokenizer(),
        None,
        D.BPEDecoder("</w>"),
    )
    made["continued BPE"] = build(
        models.BPE(unk_token="<unk>", continuing_subword_prefix="##"),
        bpe(8000, ["<unk>"], continuing_subword_prefix="##"),
        texts,
        None,
        P.WhitespaceSplit(),
        None,
        D.Sequence([D.WordPiece(), D.Fuse(), D.Strip(" ", 1, 0)]),
    )
    made["bytes as text"] = build(models.BPE(), bpe(4000, [], **level), texts, N.ByteLevel(), None, None, D.ByteLevel())
    for name, told in made.items():
        yield name, told.encode(), Reference(told)
