# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts of transformers, from small random configurations, unpatched: losses and gradients of some steps are those
of PyTorch, which runs each expert over the tokens that chose it."""

import pytest
import torch
import transformers as hf
from models import Taker, beside_torch
from torch import nn
from training import train

import sambaflow.samba as samba

pytestmark = pytest.mark.skipif(
    int(hf.__version__.partition(".")[0]) < 5, reason="before version 5 each architecture had a loop of its own"
)

SIZES = dict(
    vocab_size=64,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
    intermediate_size=24,
    max_position_embeddings=32,
)
LATENT = dict(
    kv_lora_rank=8,
    q_lora_rank=8,
    qk_nope_head_dim=4,
    qk_rope_head_dim=4,
    v_head_dim=8,
    n_routed_experts=4,
    n_shared_experts=1,
    num_experts_per_tok=2,
    moe_intermediate_size=12,
    first_k_dense_replace=1,
    n_group=2,
    topk_group=1,
)
MODELS = {
    "Mixtral": dict(num_local_experts=4, num_experts_per_tok=2),
    "Qwen2Moe": dict(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=12, shared_expert_intermediate_size=12),
    "Qwen3Moe": dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=12, head_dim=8, norm_topk_prob=True),
    "Olmoe": dict(num_experts=6, num_experts_per_tok=3),
    "DeepseekV2": LATENT | dict(num_key_value_heads=2, head_dim=4, topk_method="group_limited_greedy"),
    "DeepseekV3": LATENT | dict(num_key_value_heads=2),
    "Dots1": LATENT | dict(num_key_value_heads=2),
    "GraniteMoe": dict(num_local_experts=4, num_experts_per_tok=2),
    "HunYuanMoEV1": dict(num_experts=4, moe_topk=2, head_dim=8),
    "GptOss": dict(num_local_experts=4, num_experts_per_tok=2, head_dim=8, sliding_window=4),
}


def made(name, **options):
    config = getattr(hf, f"{name}Config")(**{**SIZES, **MODELS[name], **options})
    config._experts_implementation = "eager"  # torch's other ones have no float64, in which training.py has what is right
    return getattr(hf, f"{name}ForCausalLM")(config)


class Causal(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(input_ids=tokens, labels=tokens, use_cache=False).loss


@pytest.mark.parametrize("name", MODELS)
def test_against_torch(name, tmp_path):
    torch.manual_seed(5)
    beside_torch(tmp_path, Causal(made(name)), (torch.randint(64, (2, 7)),), steps=2)


def test_it_learns(tmp_path):
    """A small Mixtral, with its loss of balance between experts, for 20 steps."""
    torch.manual_seed(6)
    model = made("Mixtral", num_hidden_layers=1, output_router_logits=True)
    losses = train(tmp_path, Causal(model), (torch.randint(64, (2, 7)),), steps=20, lr=0.05)
    assert losses[-1] < losses[0]


def experts(count, transposed=False):
    """The experts of one layer alone."""
    model = made("GptOss" if transposed else "Mixtral", num_local_experts=count)
    found = model.model.layers[0].mlp.experts
    for p in found.parameters():
        nn.init.normal_(p, std=0.2)
    return found


@pytest.mark.parametrize("tokens", [0, 1, 2, 9])
@pytest.mark.parametrize("transposed", [False, True], ids=["", "with biases"])
def test_sizes_and_unused_experts(tokens, transposed, tmp_path):
    """Few choices and many, one expert that all choose and some that nobody does; a choice of none."""
    torch.manual_seed(8)
    index = torch.randint(1, 6, (tokens, 2))
    index[:, 0] = 0
    weights = torch.rand(tokens, 2)
    of = experts(6, transposed)
    before = (torch.randn(tokens, 16), index, weights)
    expected = of(*before).detach()
    model = samba.from_torch_model_(Taker(lambda m, x, i, w: m.of(x, i, w), of=of))
    given = tuple(samba.from_torch_tensor(x, name=f"in{k}") for k, x in enumerate(before))
    pef = samba.session.compile(model, given, inference=True, output_folder=str(tmp_path))
    outputs = samba.utils.trace_graph(model, given, pef=pef)
    torch.testing.assert_close(samba.session.run(given, outputs)[0].torch(), expected, rtol=1e-5, atol=1e-6)
