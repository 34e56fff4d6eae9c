# SPDX-License-Identifier: Apache-2.0
"""GGUF files as models beside transformers: small random models of each architecture are written by the package `gguf`
(gguf_models.py), opened by `sambaflow lm`, and run for one step of SGD. Logits, loss and gradients are those of transformers with
the same weights. What is written here is read by `gguf` and by transformers. Their tokenizers are test_gguf_tokenizer.py's.
SAMBAFLOW_SEED and SAMBA_LM_CASES as in test_lm.py."""

import random
import shutil
import subprocess

import gguf_models
import numpy
import pytest
import torch
import transformers
from test_lm import (  # noqa: F401
    BUILD,
    CASES,
    SEED,
    check_saved,
    divisor,
    flag,
    labels_of,
    learn,
    make,
    near,
    one_thread,
    run,
    sambaflow,
    tokens_of,
    weights_of,
)

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
    config |= {"attn_logit_softcapping": r.choice([1.5, 50.0]), "final_logit_softcapping": r.choice([2.0, 30.0])}
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


def bloom(r):
    heads = r.choice([1, 2, 3, 4])
    return transformers.BloomConfig(vocab_size=r.randint(23, 97), hidden_size=heads * r.randint(2, 7), n_layer=2, n_head=heads)


ARCHITECTURES = [llama, mistral, qwen2, qwen3, phi3, stablelm, gemma, gemma2, gemma3, gpt2, gpt_neox, falcon, bloom]


def prepared(folder, draw, number):
    """A model, its weights by their names in a folder, and the file `model`."""
    r = random.Random(f"gguf {SEED} {draw.__name__} {number}")
    config = draw(r)
    print(f"SAMBAFLOW_SEED={SEED}, {draw.__name__} {number}: {config.to_diff_dict()}")
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


# ---- what is written ----


def contents(path):
    """Metadata and tensors, by the package."""
    reader = gguf.GGUFReader(path)
    fields = {k: f.contents() for k, f in reader.fields.items() if not k.startswith("GGUF.")}
    return fields, {t.name: t for t in reader.tensors}


def values_of(tensor):
    return gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape([int(d) for d in reversed(tensor.shape)])


@pytest.mark.parametrize("number", range(CASES))
@pytest.mark.parametrize("draw", ARCHITECTURES)
def test_write(draw, number, tmp_path):
    """Names, values, metadata are those that the package's writer gives; transformers reads the file as the same model."""
    r, model, before = prepared(tmp_path, draw, number)
    gguf_models.write(tmp_path / "theirs", model)
    sambaflow("lm", "export", "--model", tmp_path / "folder", "--to", tmp_path / "model")
    (fields, tensors), (their_fields, theirs) = contents(tmp_path / "model"), contents(tmp_path / "theirs")
    assert set(tensors) == set(theirs)
    for name, tensor in theirs.items():
        close = 1e-6 if name == "rope_freqs.weight" else 0
        near(values_of(tensors[name]), values_of(tensor), name, close=close)
    for key, value in their_fields.items():
        if key not in ("general.name", "general.file_type"):
            near(numpy.float64(fields[key]), value, key, close=1e-6) if isinstance(value, float) else None
            assert isinstance(value, float) or fields[key] == value, key
    tokens = tokens_of(r, 2, 7, model.config.vocab_size)
    inputs = {"input_ids": tokens, "labels": tokens}
    learn(model, before, run(tmp_path, 2, 7, inputs), **inputs)


# transformers leaves out scalings of rotary positions, windows and heads of another width, or takes a part of a head's features
# for all of it
BY_TRANSFORMERS = [qwen2, stablelm, gemma2, falcon, llama, bloom]


@pytest.mark.parametrize("draw", BY_TRANSFORMERS)
def test_transformers_reads(draw, tmp_path):
    r = random.Random(f"transformers {SEED} {draw.__name__}")
    config = draw(r)
    if draw is not bloom:
        config.rope_parameters = {"rope_type": "default", "rope_theta": 10000.0}
    if draw is llama:  # rotary positions take pairs of a head's features
        config.hidden_size = config.num_attention_heads * 2 * r.randint(2, 6)
        config.attention_bias = config.mlp_bias = False
        config.head_dim = config.hidden_size // config.num_attention_heads
    if draw is stablelm:
        config.qk_layernorm = config.use_parallel_residual = config.use_qkv_bias = False
        config.rope_parameters["partial_rotary_factor"] = 0.25
    if draw is falcon:
        config.new_decoder_architecture, config.multi_query, config.bias = False, True, False
        config.num_ln_in_parallel_attn = None
        config.ffn_hidden_size = 4 * config.hidden_size
        config.rope_parameters["rope_theta"] = 10000.0
    if draw is gemma2:
        config.final_logit_softcapping, config.attn_logit_softcapping, config.sliding_window = 30.0, 50.0, 4096
        config.head_dim = config.query_pre_attn_scalar = 256
    print(f"SAMBAFLOW_SEED={SEED}, {draw.__name__}: {config.to_diff_dict()}")
    model = make(type(config).from_dict(config.to_dict()), r.randint(0, 1 << 30))
    model.save_pretrained(tmp_path / "folder")
    sambaflow("lm", "export", "--model", tmp_path / "folder", "--to", tmp_path / "m.gguf")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="m.gguf", attn_implementation="eager").eval()
    tokens = tokens_of(r, 2, 5, config.vocab_size)
    near(loaded(tokens).logits.detach().numpy(), model(tokens).logits.detach().numpy(), "logits")


# ---- types ----


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_0"])
@pytest.mark.parametrize("draw", [llama, gpt2])
def test_types(draw, kind, tmp_path):
    """Blocks are those that the package makes of the same values; a model of them computes with what is left of its weights."""
    r = random.Random(f"{SEED} {kind}")
    if draw is gpt2:
        config = transformers.GPT2Config(vocab_size=33, n_positions=16, n_embd=64, n_layer=2, n_head=2, n_inner=96)
    else:
        config = llama(r)
        sizes = {"hidden_size": 64, "intermediate_size": 96, "head_dim": 32}
        sizes |= {"num_attention_heads": 2, "num_key_value_heads": 2}
        config = type(config).from_dict(config.to_dict() | sizes)
    print(f"SAMBAFLOW_SEED={SEED}, {kind}: {config.to_diff_dict()}")
    model = make(config, 1)
    model.save_pretrained(tmp_path / "folder")
    sambaflow("lm", "export", "--model", tmp_path / "folder", "--to", tmp_path / "model", "--type", kind.lower())
    gguf_models.write(tmp_path / "theirs", model, TYPES[kind])
    (_, tensors), (_, theirs) = contents(tmp_path / "model"), contents(tmp_path / "theirs")
    for name, tensor in tensors.items():
        plain = tensor.data.ndim == 1 or name.startswith("position_embd")
        assert tensor.tensor_type == (TYPES.F32 if plain else TYPES[kind]), name
        assert plain or (tensor.data == theirs[name].data).all(), name
    left = gguf_models.quantized(model, TYPES[kind])
    left.save_pretrained(tmp_path / "left")
    tokens = tokens_of(r, 2, 7, config.vocab_size)
    inputs = {"input_ids": tokens, "labels": tokens}
    learn(left, weights_of(tmp_path / "left"), run(tmp_path, 2, 7, inputs), **inputs)


@pytest.mark.parametrize("kind", ["Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"])
def test_blocks(kind, tmp_path):
    """Random blocks as a table of embeddings: the values that the package finds in them, bit for bit."""
    config = transformers.LlamaConfig(
        vocab_size=40,
        hidden_size=256,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        tie_word_embeddings=True,
        pad_token_id=None,
    )
    model = make(config, 1)
    size, count = gguf.GGML_QUANT_SIZES[TYPES[kind]]
    generator = numpy.random.default_rng(SEED)
    blocks = generator.integers(0, 256, (40, 256 // size, count), dtype=numpy.uint8)
    places = {"Q2_K": [80, 82], "Q3_K": [108], "Q6_K": [208], "Q4_0": [0], "Q5_0": [0], "Q8_0": [0]}.get(kind, [0, 2])
    for at in places:  # finite scales, denormal ones among them
        scales = generator.normal(0, 10.0 ** generator.integers(-7, 2, blocks.shape[:2])).astype("float16")
        blocks[:, :, at : at + 2] = scales[..., None].view(numpy.uint8)
    writer = gguf_models.begin(tmp_path / "model", config)
    gguf_models.metadata(writer, config)
    for name, value in gguf_models.tensors(model):
        if name == "token_embd.weight":
            writer.add_tensor(name, blocks.reshape(40, -1), raw_dtype=TYPES[kind])
        else:
            writer.add_tensor(name, numpy.ascontiguousarray(value))
    gguf_models.finish(writer)
    sambaflow("lm", "compile", "--model", tmp_path / "model", "--length", 2, "--inference", "--pef", tmp_path / "m.pef")
    given = weights_of(tmp_path)["model.embed_tokens.weight"].numpy()
    expected = gguf.quants.dequantize(blocks.reshape(40, -1), TYPES[kind])
    assert given.shape == expected.shape and (given.view("int32") == expected.view("int32")).all()


def test_four_bits_stay(tmp_path):
    """--base int4 of a Q4_0 file has the file's integers and scales: nothing is rounded twice."""
    config = transformers.LlamaConfig(
        vocab_size=23, hidden_size=64, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, pad_token_id=None
    )
    gguf_models.write(tmp_path / "model", make(config, 3), TYPES.Q4_0)
    words = ["--length", 2, "--inference", "--base", "int4", "--pef", tmp_path / "m.pef"]
    sambaflow("lm", "compile", "--model", tmp_path / "model", *words)
    given, (_, tensors) = weights_of(tmp_path), contents(tmp_path / "model")
    for ours, name in (("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down"), ("self_attn.o_proj", "attn_output")):
        blocks = tensors[f"blk.0.{name}.weight"].data.reshape(-1, 18)
        packed = given[f"model.layers.0.{ours}.weight_packed"].numpy().reshape(-1, 16)
        scales = given[f"model.layers.0.{ours}.weight_scale"].numpy().reshape(-1, 1)
        # a scale of 0 may have either sign
        assert (packed == blocks[:, 2:]).all() and (scales == blocks[:, :2].copy().view("float16")).all()


# ---- generating, and words ----


def test_generate(tmp_path):
    r, model, _ = prepared(tmp_path, llama, 0)
    gguf_models.write(tmp_path / "model", model)
    prompt = tokens_of(r, 1, 5, model.config.vocab_size)
    expected, count = prompt, min(6, model.config.max_position_embeddings - 5)  # no position is left behind those
    for _ in range(count):
        expected = torch.cat([expected, model(expected).logits[:, -1:].argmax(-1)], 1)
    words = ["--prompt-ids", ",".join(map(str, prompt[0].tolist())), "--max-new-tokens", 6, "--ignore-eos"]
    done = sambaflow("lm", "generate", "--model", tmp_path / "model", *words)
    assert [int(x) for x in done.replace(",", " ").split()][-count:] == expected[0, 5:].tolist()


@pytest.mark.parametrize("window", [None, 7])
def test_window_left_out(window, tmp_path):
    """Gemma 2's first files leave its window to the architecture: 4096, as its bounds of logits."""
    config = gemma2(random.Random(f"{SEED} window"))
    config.sliding_window = window
    model = make(config, 1)
    gguf_models.write(tmp_path / "model", model)
    model.save_pretrained(tmp_path / "folder")
    weights = tmp_path / "folder" / "model.safetensors"
    sambaflow("lm", "save", "--model", tmp_path / "model", "--load", weights, "--to", tmp_path / "saved")
    assert transformers.AutoConfig.from_pretrained(tmp_path / "saved").sliding_window == (window or 4096)


@pytest.mark.parametrize("kind", ["none", "linear"])
def test_factor_of_angles(kind, tmp_path):
    """A factor of cosine and sine is yarn's here, and Phi's; elsewhere it is refused, not ignored."""
    config = llama(random.Random(f"{SEED} factor"))
    config.rope_parameters = {"rope_type": "default", "rope_theta": 1e4}

    def extra(writer):
        writer.add_rope_scaling_type(gguf.RopeScalingType(kind))
        writer.add_rope_scaling_attn_factors(1.5)
        if kind == "linear":
            writer.add_rope_scaling_factor(2.0)

    gguf_models.write(tmp_path / "model", make(config, 1), extra=extra)
    said = refused("lm", "compile", "--model", tmp_path / "model", "--length", 4, "--inference", "--pef", tmp_path / "m.pef")
    assert '"llama.rope.scaling.attn_factor" is 1.5: supported is 1 without' in said


def refused(*words):
    done = subprocess.run([BUILD / "sambaflow", *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    return done.stdout + done.stderr


def test_refused(tmp_path):
    """What a file cannot say is refused by its name, and no file is there."""
    dynamic = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    cases = [
        (transformers.OPTConfig(), {"hidden_size": 8, "word_embed_proj_dim": 8, "ffn_dim": 4, "num_attention_heads": 2}, '"opt"'),
        (transformers.GPT2Config(), {"n_embd": 8, "n_head": 2, "n_layer": 1, "activation_function": "relu"}, "this activation"),
        (transformers.LlamaConfig(), {"rope_parameters": dynamic}, '"dynamic"'),
        (transformers.Qwen3Config(), {"attention_bias": True}, '"attention_bias": true'),
        (transformers.Gemma2Config(), {"query_pre_attn_scalar": 9, "pad_token_id": None}, "this scale of attention's scores"),
        (transformers.FalconConfig(), {"parallel_attn": False, "multi_query": True}, '"parallel_attn": false'),
        (transformers.Gemma2Config(), {"query_pre_attn_scalar": 4, "final_logit_softcapping": None}, "logits without bounds"),
        (transformers.FalconConfig(), {"alibi": True}, '"alibi": true'),
        (transformers.GPTNeoXConfig(), {"attention_bias": False}, '"attention_bias": false'),
        (transformers.Gemma2Config(), {"query_pre_attn_scalar": 4, "layer_types": ["full_attention"]}, "layers without a window"),
    ]
    small = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2}
    small |= {"intermediate_size": 4, "head_dim": 4, "pad_token_id": None}
    for number, (config, others, words) in enumerate(cases):
        known = {"vocab_size": 9} if config.model_type in ("gpt2", "opt") else small
        if config.model_type == "falcon":
            known = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
        if config.model_type == "gpt_neox":
            known = {key: small[key] for key in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")}
            known["rope_parameters"] = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
        config = type(config)(**(known | others))
        folder = tmp_path / str(number)
        make(config, 1).save_pretrained(folder)
        assert words in refused("lm", "export", "--model", folder, "--to", tmp_path / "m.gguf")
        assert not (tmp_path / "m.gguf").exists()
    said = refused("lm", "export", "--model", folder, "--to", tmp_path / "m.gguf", "--type", "q5_k")
    assert "--type: expected f32, f16, bf16, q8_0 or q4_0, given 'q5_k'" in said
    make(transformers.LlamaConfig(**small), 1).save_pretrained(tmp_path / "narrow")
    said = refused("lm", "export", "--model", tmp_path / "narrow", "--to", tmp_path / "m.gguf", "--type", "q8_0")
    assert "has rows of 8, and Q8_0 has blocks of 32" in said
    shutil.rmtree(tmp_path / "narrow")
    assert "narrow" in refused("lm", "export", "--model", tmp_path / "narrow", "--to", tmp_path / "m.gguf")
