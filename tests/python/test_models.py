# SPDX-License-Identifier: Apache-2.0
"""Models as people have them, traced unchanged:
20 steps of training, every loss and every gradient against PyTorch (training.py says how)."""

import pytest
import torch
import transformers
from models import Loss, Recurrent, ResFFNLogReg, lenet, resnet18
from torch import nn
from training import train

import sambaflow.samba as samba

CE = nn.functional.cross_entropy


def test_resffn(tmp_path):
    train(tmp_path, ResFFNLogReg(20, 32, 10), (torch.randn(8, 20), torch.randint(10, (8,))))


def test_lenet(tmp_path):
    train(tmp_path, Loss(lenet(), CE), (torch.randn(8, 1, 28, 28), torch.randint(10, (8,))))


class Off(nn.Module):
    """A gradient that is wrong by a thousandth in ours alone, behind a relu."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(20, 32), nn.Linear(32, 10)

    def forward(self, x, label):
        h = torch.relu(self.a(x))
        if isinstance(self.a.weight, samba.SambaParameter):
            h = 1.001 * h - 0.001 * h.detach()
        return CE(self.b(h), label)


def test_a_wrong_gradient_is_found(tmp_path):
    with pytest.raises(AssertionError, match=r"gradient of a.weight at step 0: .* at most of 25 runs"):
        train(tmp_path, Off(), (torch.randn(8, 20), torch.randint(10, (8,))), steps=3)


def test_resnet18(tmp_path):
    train(tmp_path, Loss(resnet18(width=16), CE), (torch.randn(8, 3, 64, 64), torch.randint(10, (8,))), lr=0.002)


def test_resnet18_double(tmp_path):
    train(
        tmp_path,
        Loss(resnet18(width=8), CE).double(),
        (torch.randn(4, 3, 64, 64, dtype=torch.float64), torch.randint(10, (4,))),
        lr=0.002,
    )


@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer_encoder(tmp_path, norm_first):
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=norm_first)
    model = nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(32, 5))
    train(
        tmp_path,
        Loss(model, lambda out, target: CE(out.transpose(1, 2), target)),
        (torch.randn(3, 7, 32), torch.randint(5, (3, 7))),
    )


@pytest.mark.parametrize(
    "cell, options",
    [(nn.LSTM, {}), (nn.LSTM, {"num_layers": 2, "bidirectional": True}), (nn.GRU, {}), (nn.GRU, {"num_layers": 2}), (nn.RNN, {})],
)
def test_recurrent(tmp_path, cell, options):
    train(tmp_path, Recurrent(cell, **options), (torch.randn(3, 32, 8), torch.randint(5, (3, 32))), optimizer="AdamW")


class WithLoss(nn.Module):
    """A Hugging Face model whose output becomes a tuple."""

    def __init__(self, model, *names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        out = self.model(**dict(zip(self.names, inputs)), **({"labels": inputs[0]} if "labels" not in self.names else {}))
        return out.loss, out.logits


def tokens(*shape):
    return torch.randint(100, shape)


def test_hf_gpt2(tmp_path):
    config = transformers.GPT2Config(
        n_layer=2,
        n_head=2,
        n_embd=32,
        vocab_size=100,
        n_positions=64,
        resid_pdrop=0,
        embd_pdrop=0,
        attn_pdrop=0,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    train(tmp_path, WithLoss(transformers.GPT2LMHeadModel(config), "input_ids"), (tokens(2, 16),))


def test_hf_llama(tmp_path):
    config = transformers.LlamaConfig(
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        hidden_size=32,
        intermediate_size=64,
        vocab_size=100,
        max_position_embeddings=64,
        use_cache=False,
    )
    train(tmp_path, WithLoss(transformers.LlamaForCausalLM(config), "input_ids"), (tokens(2, 16),))


def test_hf_bert(tmp_path):
    config = transformers.BertConfig(
        num_hidden_layers=2,
        num_attention_heads=2,
        hidden_size=32,
        intermediate_size=64,
        vocab_size=100,
        max_position_embeddings=64,
        hidden_dropout_prob=0,
        attention_probs_dropout_prob=0,
    )
    mask = torch.ones(2, 16, dtype=torch.long)
    mask[1, 10:] = 0
    train(
        tmp_path,
        WithLoss(transformers.BertForSequenceClassification(config), "input_ids", "attention_mask", "labels"),
        (tokens(2, 16), mask, torch.randint(2, (2,))),
    )


def test_hf_vit(tmp_path):
    config = transformers.ViTConfig(
        num_hidden_layers=2,
        num_attention_heads=2,
        hidden_size=32,
        intermediate_size=64,
        image_size=32,
        patch_size=8,
        num_labels=4,
        hidden_dropout_prob=0,
        attention_probs_dropout_prob=0,
    )
    train(
        tmp_path,
        WithLoss(transformers.ViTForImageClassification(config), "pixel_values", "labels"),
        (torch.randn(2, 3, 32, 32), torch.randint(4, (2,))),
    )
