# SPDX-License-Identifier: Apache-2.0
"""GGUF files as models beside transformers: small random models of each architecture are written by the package `gguf`
(gguf_models.py), opened by `sambaflow lm`, and run for one step of SGD. Logits, loss and gradients are those of transformers with
the same weights. What is written here is read by `gguf` and by transformers. Tokenizers are those of the package `tokenizers`.
SAMBA_LM_SEED and SAMBA_LM_CASES as in test_lm.py."""

import random

import gguf_models
import pytest
import transformers
from test_lm import CASES, SEED, check_saved, divisor, flag, labels_of, learn, make, one_thread, run, tokens_of, weights_of  # noqa: F401

import gguf

TYPES = gguf.GGMLQuantizationType


# ---- configurations that files can say ----


def sizes(r, **others):
    heads = r.choice([1, 2, 3, 4, 6])
    return {
        "vocab_size": r.randint(23, 97),
        "hidden_size": heads * 2 * r.randint(2, 6),
        "intermediate_size": r.randint(5, 61),
        "num_hidden_layers": r.choice([1, 2, 3]),
        "num_attention_heads": heads,
        "num_key_value_heads": divisor(r, heads),
        "max_position_embeddings": r.choice([8, 16]),
        "tie_word_embeddings": r.random() < 0.5,
        "pad_token_id": None,
        **others,
    }


def rope(r, kinds=("default", "linear", "yarn", "llama3"), **others):
    kind = r.choice(kinds)
    result = {"rope_type": kind, "rope_theta": r.choice([100.0, 10000.0, 500000.0])} | others
    if kind != "default":
        result["factor"] = r.choice([1.5, 4.0, 8.0])
    if kind == "llama3":
        result |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    if kind in ("llama3", "yarn"):
        result["original_max_position_embeddings"] = r.choice([4, 8])
    return result


def wide(r, config):
    return {"head_dim": r.choice([4, 6, 10]), "hidden_size": config["num_attention_heads"] * r.randint(3, 9)}


def llama(r):
    config = sizes(r, attention_bias=flag(r), mlp_bias=flag(r), rope_parameters=rope(r))
    return transformers.LlamaConfig(**config | (wide(r, config) if flag(r) else {}))


def mistral(r):
    config = sizes(r, sliding_window=r.choice([1, 3, 5]), rope_parameters=rope(r, ("default", "linear")))
    return transformers.MistralConfig(**config | (wide(r, config) if flag(r) else {}))


def qwen2(r):
    return transformers.Qwen2Config(**sizes(r), rope_parameters=rope(r, ("default", "linear", "yarn")))


def qwen3(r):
    config = sizes(r, attention_bias=False, rope_parameters=rope(r, ("default", "yarn")))
    return transformers.Qwen3Config(**config | wide(r, config))


def phi3(r):
    config = sizes(r, sliding_window=r.choice([None, 2]), resid_pdrop=0.0)
    each = config["hidden_size"] // config["num_attention_heads"]
    parameters = {"rope_type": "default", "rope_theta": 1000.0}
    if flag(r):
        parameters |= {
            "rope_type": "longrope",
            **{k: [r.uniform(1, 4) for _ in range(each // 2)] for k in ("short_factor", "long_factor")},
        }
    elif each % 4 == 0:
        parameters["partial_rotary_factor"] = 0.5
    return transformers.Phi3Config(**config, rope_parameters=parameters, original_max_position_embeddings=r.choice([4, 12]))


def stablelm(r):
    config = sizes(r, use_qkv_bias=flag(r), qk_layernorm=flag(r), use_parallel_residual=flag(r))
    config["hidden_size"] = config["num_attention_heads"] * 16
    partial = r.choice([0.25, 0.5, 1.0])
    return transformers.StableLmConfig(**config, rope_parameters=rope(r, ("default",), partial_rotary_factor=partial))


def gemma(r):
    config = sizes(r, hidden_act="gelu_pytorch_tanh", tie_word_embeddings=True, rope_parameters=rope(r, ("default",)))
    return transformers.GemmaConfig(**config | wide(r, config))


def gemma2(r):
    config = sizes(r, sliding_window=r.choice([1, 4]), tie_word_embeddings=True)
    config |= {"attn_logit_softcapping": r.choice([None, 1.5, 50.0]), "final_logit_softcapping": r.choice([None, 2.0])}
    config |= wide(r, config)
    return transformers.Gemma2Config(**config, query_pre_attn_scalar=config["head_dim"], rope_parameters=rope(r, ("default",)))


def gemma3(r):
    config = sizes(r, sliding_window=r.choice([1, 4]), num_hidden_layers=r.choice([2, 7]))
    config |= wide(r, config)
    both = {"full_attention": rope(r, ("default", "linear")), "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
    return transformers.Gemma3TextConfig(**config, query_pre_attn_scalar=config["head_dim"], rope_parameters=both)


def gpt2(r):
    heads = r.choice([1, 2, 3])
    return transformers.GPT2Config(
        vocab_size=r.randint(23, 97),
        n_positions=16,
        n_embd=heads * r.randint(3, 9),
        n_layer=r.choice([1, 2]),
        n_head=heads,
        n_inner=r.choice([None, 19]),
        tie_word_embeddings=flag(r),
    )


def gpt_neox(r):
    heads = r.choice([1, 2, 3])
    return transformers.GPTNeoXConfig(
        vocab_size=r.randint(23, 97),
        hidden_size=heads * 16,
        num_hidden_layers=2,
        num_attention_heads=heads,
        intermediate_size=r.randint(5, 31),
        use_parallel_residual=flag(r),
        max_position_embeddings=16,
        tie_word_embeddings=flag(r),
        rope_parameters=rope(r, ("default",), partial_rotary_factor=r.choice([0.25, 0.5, 1.0])),
    )


def falcon(r):
    heads = r.choice([1, 2, 4, 6])
    newer = flag(r)
    return transformers.FalconConfig(
        vocab_size=r.randint(23, 97),
        hidden_size=heads * 2 * r.randint(1, 4),
        num_hidden_layers=2,
        num_attention_heads=heads,
        num_kv_heads=divisor(r, heads) if newer else None,
        new_decoder_architecture=newer,
        multi_query=flag(r),
        parallel_attn=True,
        bias=flag(r),
        ffn_hidden_size=r.choice([None, 21]),
        tie_word_embeddings=flag(r),
        num_ln_in_parallel_attn=r.choice([1, 2]) if newer else None,
        rope_parameters={"rope_theta": 500.0, "rope_type": "default"},
    )


ARCHITECTURES = [llama, mistral, qwen2, qwen3, phi3, stablelm, gemma, gemma2, gemma3, gpt2, gpt_neox, falcon]


def prepared(folder, draw, number):
    """A model, its weights by their names in a folder, and the file `model`."""
    r = random.Random(f"gguf {SEED} {draw.__name__} {number}")
    config = draw(r)
    print(f"SAMBA_LM_SEED={SEED}, {draw.__name__} {number}: {config.to_diff_dict()}")
    model = make(config, r.randint(0, 1 << 30))
    model.save_pretrained(folder / "folder")
    return r, model, weights_of(folder / "folder")


@pytest.mark.parametrize("number", range(CASES))
@pytest.mark.parametrize("draw", ARCHITECTURES)
def test_read(draw, number, tmp_path):
    r, model, before = prepared(tmp_path, draw, number)
    gguf_models.write(tmp_path / "model", model)
    batch, length = r.choice([1, 3]), r.choice([2, 7, 11])
    tokens = tokens_of(r, batch, length, model.config.vocab_size)
    inputs = {"input_ids": tokens, "labels": labels_of(r, tokens)}
    learn(model, before, run(tmp_path, batch, length, inputs), **inputs)
    if number == 0:
        check_saved(tmp_path, tokens)
