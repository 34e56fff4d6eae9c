# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts of transformers (version 5) while a model is traced. Its modules look at the router's choice and run each
expert over the tokens that chose it, of which only a run knows how many; here the same is computed for any choice.

Every expert runs over every token, as one product over all experts, and a token's results are weighted by what its router gave
each of them: 0 to those that it did not choose. Where fewer choices are made than there are experts, a token or two being
generated, the weights of those chosen are gathered instead. No token is dropped in either, and gradients are those of the chosen.

Modules that transformers dispatches through its ExpertsInterface come here: Mixtral, Qwen2-MoE, Qwen3-MoE, OLMoE, DeepSeek-V2 and
-V3, GPT-OSS and their like. What they do between their two products stays their own."""

import sys

import torch

from sambaflow.samba import _state
from sambaflow.samba.patches import replaced


def put(stack):
    """In force while a model is traced: what the interface chooses is `forward`."""
    moe = sys.modules.get("transformers.integrations.moe")
    interface = getattr(moe, "ExpertsInterface", None)
    if interface is None:
        return
    torchs = interface.get_interface

    def get_interface(self, implementation, default):
        chosen = torchs(self, implementation, default)
        return chosen if _state.here.tracer is None else forward

    stack.enter_context(replaced(interface, "get_interface", get_interface))


def _layer(self, name, x, chosen=None):
    """(experts, tokens, in) @ weights -> (experts, tokens, out); `chosen`: the expert of each row instead."""
    weight = getattr(self, name)
    bias = getattr(self, f"{name}_bias") if self.has_bias else None
    if chosen is not None:
        weight, bias = weight[chosen], None if bias is None else bias[chosen]
    y = torch.matmul(x, weight if self.is_transposed else weight.transpose(1, 2))
    return y if bias is None else y + bias[:, None]


def _experts(self, x, chosen=None):
    """Of rows (1 or experts, tokens, hidden) what each expert makes."""
    x = _layer(self, "gate_up_proj" if self.has_gate else "up_proj", x, chosen)
    x = self._apply_gate(x) if self.has_gate else self.act_fn(x)
    x = _layer(self, "down_proj", x, chosen)
    return self.post_expert_norm(x) if getattr(self, "has_post_expert_norm", False) else x


def forward(self, hidden_states, top_k_index, top_k_weights):
    """What the module's own forward gives, (tokens, hidden): of the choices (tokens, k) and their weights. A choice beyond the
    last expert counts for nothing."""
    tokens, k = top_k_index.shape
    count = self.num_experts
    if tokens * k <= count:
        known = top_k_index < count
        rows = hidden_states.repeat_interleave(k, dim=0)[:, None]
        y = _experts(self, rows, top_k_index.clamp(max=count - 1).reshape(-1))[:, 0]
        y = y * (top_k_weights * known).reshape(-1, 1)
        return y.unflatten(0, (tokens, k)).sum(1).to(hidden_states.dtype)
    is_chosen = top_k_index[..., None] == torch.arange(count)
    share = (top_k_weights[..., None] * is_chosen).sum(1)  # (tokens, experts)
    y = _experts(self, hidden_states[None])
    return (y * share.t()[..., None]).sum(0).to(hidden_states.dtype)
