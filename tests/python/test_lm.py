# SPDX-License-Identifier: Apache-2.0
"""Language models from a folder beside transformers: small random models of each architecture are saved, compiled by `sambaflow
lm compile`, and run for one step of SGD with rate 1. Logits and loss are those of transformers; so are the gradients, which are
what the step took from the weights. Configurations are drawn from SEED, which is told where a case fails; SAMBAFLOW_SEED and
SAMBA_LM_CASES ask for others and more."""

import copy
import ctypes
import json
import logging
import os
import pathlib
import random
import subprocess

import numpy
import pytest
import safetensors.torch
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SAMBAFLOW_BUILD", ROOT / "build"))
SEED = int(os.environ.get("SAMBAFLOW_SEED", "20261128"))
CASES = int(os.environ.get("SAMBA_LM_CASES", "3"))
CLOSE = 2e-5  # of the greatest value
logging.getLogger("transformers").setLevel(logging.ERROR)


@pytest.fixture(autouse=True)
def one_thread():
    """The models are small, and threads cost more than they give."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# ---- configurations ----


def divisor(r, number):
    return r.choice([d for d in range(1, number + 1) if number % d == 0])


def sizes(r, **others):
    """What most configurations have; heads divide the width."""
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
        "pad_token_id": r.choice([None, 0, 5]),
        **others,
    }


def head_dim(r, config):
    """Heads of another width than a share of the model's."""
    return {"head_dim": r.choice([4, 6, 10]), "hidden_size": config["num_attention_heads"] * r.randint(3, 9)}


def rope(r, partial=None):
    """A scaling of rotary positions; the models' sequences reach beyond their original length."""
    kind = r.choice(["default", "linear", "dynamic", "llama3", "yarn"])
    result = {"rope_type": kind, "rope_theta": r.choice([100.0, 10000.0, 500000.0])}
    if kind != "default":
        result["factor"] = r.choice([1.5, 4.0, 8.0])
    if kind == "llama3":
        result |= {"low_freq_factor": 1.0, "high_freq_factor": r.choice([2.0, 4.0])}
    if kind in ("llama3", "yarn"):
        result["original_max_position_embeddings"] = r.choice([4, 8])
    if kind == "yarn" and r.random() < 0.5:
        result |= r.choice(
            [{"attention_factor": 1.25}, {"beta_fast": 4.0, "beta_slow": 2.0}, {"truncate": False}, {"truncate": None}]
        )
    if partial:
        result["partial_rotary_factor"] = partial
    return result


def flag(r):
    return r.random() < 0.5


def types(r, config):
    return [r.choice(["full_attention", "sliding_attention"]) for _ in range(config["num_hidden_layers"])]


def llama(r):
    config = sizes(r, attention_bias=flag(r), mlp_bias=flag(r), rope_parameters=rope(r))
    return transformers.LlamaConfig(**config | (head_dim(r, config) if flag(r) else {}))


def mistral(r):
    config = sizes(r, sliding_window=r.choice([None, 1, 3, 5]), rope_parameters=rope(r))
    return transformers.MistralConfig(**config | (head_dim(r, config) if flag(r) else {}))


def qwen2(r):
    config = sizes(r, use_sliding_window=flag(r), sliding_window=r.choice([2, 4]), max_window_layers=r.choice([0, 1]))
    return transformers.Qwen2Config(**config, rope_parameters=rope(r))


def qwen3(r):
    config = sizes(r, use_sliding_window=True, sliding_window=3, attention_bias=flag(r), rope_parameters=rope(r))
    return transformers.Qwen3Config(**config | head_dim(r, config), layer_types=types(r, config))


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
    return transformers.StableLmConfig(**config, rope_parameters=rope(r, r.choice([0.25, 0.5, 1.0])))


def gemma(r):
    config = sizes(r, attention_bias=flag(r), hidden_act=r.choice(["gelu", "gelu_pytorch_tanh"]), rope_parameters=rope(r))
    return transformers.GemmaConfig(**config | head_dim(r, config))


def gemma2(r):
    config = sizes(r, query_pre_attn_scalar=r.randint(2, 40), sliding_window=r.choice([1, 4]))
    config |= {"attn_logit_softcapping": r.choice([None, 1.5, 50.0]), "final_logit_softcapping": r.choice([None, 2.0])}
    return transformers.Gemma2Config(**config | head_dim(r, config), rope_parameters=rope(r))


def gemma3(r):
    config = sizes(r, query_pre_attn_scalar=r.randint(2, 40), sliding_window=r.choice([1, 4]))
    both = {"full_attention": rope(r), "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}}
    both["full_attention"].pop("truncate", None)  # transformers looks for it elsewhere
    return transformers.Gemma3TextConfig(
        **config | head_dim(r, config),
        layer_types=types(r, config),
        rope_parameters=both,
        final_logit_softcapping=r.choice([None, 3.0]),
    )


def gpt2(r):
    heads = r.choice([1, 2, 3])
    return transformers.GPT2Config(
        vocab_size=r.randint(23, 97),
        n_positions=16,
        n_embd=heads * r.randint(3, 9),
        n_layer=r.choice([1, 2]),
        n_head=heads,
        n_inner=r.choice([None, 19]),
        activation_function=r.choice(["gelu_new", "gelu", "relu", "tanh"]),
        scale_attn_weights=flag(r),
        scale_attn_by_inverse_layer_idx=flag(r),
        tie_word_embeddings=flag(r),
    )


def opt(r):
    heads = r.choice([1, 2, 3])
    return transformers.OPTConfig(
        vocab_size=r.randint(23, 97),
        hidden_size=heads * 5,
        num_hidden_layers=2,
        ffn_dim=r.randint(5, 31),
        max_position_embeddings=16,
        do_layer_norm_before=flag(r),
        word_embed_proj_dim=r.choice([heads * 5, 7]),
        num_attention_heads=heads,
        enable_bias=flag(r),
        layer_norm_elementwise_affine=flag(r),
        tie_word_embeddings=flag(r),
        _remove_final_layer_norm=flag(r),
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
        attention_bias=flag(r),
        max_position_embeddings=16,
        tie_word_embeddings=flag(r),
        rope_parameters=rope(r, r.choice([0.25, 0.5, 1.0])),
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
        multi_query=r.choice([True, False, None]),  # None is false, and not what a key that is not there stands for
        parallel_attn=newer or r.choice([True, False, None]),
        bias=flag(r),
        ffn_hidden_size=r.choice([None, 21]),
        tie_word_embeddings=flag(r),
        num_ln_in_parallel_attn=r.choice([None, 1, 2]) if newer else None,
        rope_parameters={"rope_theta": 500.0, "rope_type": "default"},
    )


def falcon_alibi(r):
    config = falcon(r)
    config.alibi = True
    return config


def bloom(r):
    heads = r.choice([1, 2, 3, 4, 6, 7])
    return transformers.BloomConfig(
        vocab_size=r.randint(23, 97),
        hidden_size=heads * r.randint(2, 7),
        n_layer=2,
        n_head=heads,
        layer_norm_epsilon=1e-5,
        tie_word_embeddings=flag(r),
        pad_token_id=r.choice([None, 3]),
    )


ARCHITECTURES = [llama, mistral, qwen2, qwen3, phi3, stablelm, gemma, gemma2, gemma3, gpt2, opt, gpt_neox, falcon]
ARCHITECTURES += [falcon_alibi, bloom]


# ---- both sides ----


def attention_of(config):
    """Falcon's eager attention adds the bias of ALiBi twice in transformers 5.24, its default once."""
    return "sdpa" if getattr(config, "alibi", False) else "eager"


def make(config, seed):
    """A model whose weights are far from where they start, so that nothing is near 0 or 1 by chance."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention_of(config)).eval()
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            start = 1.0 if "norm" in name and name.endswith("weight") and "gemma" not in config.model_type else 0.0
            torch.nn.init.normal_(parameter, start, 0.2)
        else:
            torch.nn.init.normal_(parameter, 0.0, 0.3)
    return model


def sambaflow(*words):
    words = [BUILD / "sambaflow", *map(str, words)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run(folder, batch, length, inputs, *words, dropout=False):
    """Logits, loss and the weights behind a step; with dropout no step, and of what does not train."""
    pef = folder / "m.pef"
    sambaflow(
        "lm",
        "compile",
        "--model",
        folder / "model",
        "-b",
        batch,
        "--length",
        length,
        "--logits",
        "--optimizer",
        "sgd",
        "--lr",
        1,
        "--pef",
        pef,
        *words,
        *([] if dropout else ["--no-dropout"]),
    )
    arguments = []
    for name, value in inputs.items():
        numpy.save(folder / f"{name}.npy", value.numpy())
        arguments += ["--input", f"{name}={folder / name}.npy"]
    outputs = [x for name in ("logits", "loss") for x in ("--output", f"{name}={folder / name}.npy")]
    weights = folder / "m.safetensors" if (folder / "m.safetensors").exists() else folder / "model"
    sambaflow(
        "run",
        pef,
        "--load",
        weights,
        *arguments,
        *outputs,
        "--save",
        folder / "after.safetensors",
        *(["--eval", "--section-types", "FWD"] if dropout else []),
    )
    return numpy.load(folder / "logits.npy"), numpy.load(folder / "loss.npy"), folder / "after.safetensors"


def near(given, expected, what, close=CLOSE, slack=0.0):
    expected = numpy.asarray(expected, dtype="float64")
    assert given.shape == expected.shape, what
    greatest = numpy.max(numpy.abs(expected), initial=1e-30)
    distance = numpy.max(numpy.abs(given.astype("float64") - expected), initial=0)
    assert distance <= close * greatest + slack, f"{what}: {distance} where the greatest is {greatest}"


def exact_gradients(model, inputs):
    """By their parameters' names, in float64."""
    model = copy.deepcopy(model).double()
    model.zero_grad()
    model(**inputs).loss.backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def check_gradients(model, before, after, inputs):
    """`after` has the weights that one step with rate 1 has left of `before`. Where torch's own float32 is off its float64, ours
    may be twice as far."""
    exact = None
    after = safetensors.torch.load_file(after)
    seen = 0
    greatest = max(float(p.grad.abs().max()) for p in model.parameters() if p.grad is not None)
    for name, value in before.items():
        parameter_name = name.replace("embed_out", "lm_head")
        parameter = dict(model.named_parameters()).get(parameter_name)
        given = value.double() - after[name].double()
        expected = torch.zeros_like(given) if parameter.grad is None else parameter.grad.double()
        assert given.shape == expected.shape
        slack = 2e-7 * float(value.abs().max()) + 1e-6 * greatest  # of the subtraction
        if float((given - expected).abs().max()) > CLOSE * float(expected.abs().max()) + slack:
            exact = exact or exact_gradients(model, inputs)
            if exact[parameter_name] is not None:
                slack += 2 * float((expected - exact[parameter_name]).abs().max())
        near(given.numpy(), expected.numpy(), f"gradient of {name}", slack=slack)
        seen += 1
    assert seen == len({id(p) for p in model.parameters()})


def labels_of(r, tokens):
    labels = tokens.clone()
    labels[torch.rand(labels.shape, generator=torch.Generator().manual_seed(r.randint(0, 1 << 30))) < 0.2] = -100
    labels[:, 1] = tokens[:, 1]
    return labels


def tokens_of(r, batch, length, vocab):
    return torch.randint(0, vocab, (batch, length), generator=torch.Generator().manual_seed(r.randint(0, 1 << 30)))


def learn(model, before, given, **inputs):
    """Compares logits, loss and gradients; `given` is what run has returned."""
    logits, loss, after = given
    shown = inputs.get("attention_mask", torch.ones_like(inputs["input_ids"])).bool().numpy()
    result = model(**inputs)
    near(logits[shown], result.logits.detach().numpy()[shown], "logits")
    near(loss, result.loss.item(), "loss")
    result.loss.backward()
    check_gradients(model, before, after, inputs)


def weights_of(folder):
    """Those of all files."""
    return {k: v for path in sorted(folder.glob("*.safetensors")) for k, v in safetensors.torch.load_file(path).items()}


def prepared(folder, draw, number, r, **save):
    config = draw(r)
    print(f"SAMBAFLOW_SEED={SEED}, {draw.__name__} {number}: {config.to_diff_dict()}")
    model = make(config, r.randint(0, 1 << 30))
    model.save_pretrained(folder / "model", **save)
    return model, weights_of(folder / "model")


@pytest.mark.parametrize("number", range(CASES))
@pytest.mark.parametrize("draw", ARCHITECTURES)
def test_architecture(draw, number, tmp_path):
    r = random.Random(f"{SEED} {draw.__name__} {number}")
    model, before = prepared(tmp_path, draw, number, r, max_shard_size="3KB" if number == 1 else "1GB")
    batch, length = r.choice([1, 3]), r.choice([2, 7, 11])
    tokens = tokens_of(r, batch, length, model.config.vocab_size)
    inputs = {"input_ids": tokens, "labels": labels_of(r, tokens)}
    learn(model, before, run(tmp_path, batch, length, inputs), **inputs)
    if number == 0:
        check_saved(tmp_path, tokens)


# ---- a saved folder ----


def check_saved(folder, tokens):
    """The weights behind the step, saved as a folder: transformers and a session load it and give the same logits."""
    library = ctypes.CDLL(BUILD / "libsambaflow.so")
    library.samba_error_message.restype = ctypes.c_char_p
    context, lm, session = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()

    def need(status):
        assert status == 0, library.samba_error_message(context)

    def path(name):
        return str(folder / name).encode()

    need(library.samba_context_new(None, ctypes.byref(context)))
    need(library.samba_lm_open(context, path("model"), ctypes.byref(lm)))
    need(library.samba_session_new(context, path("m.pef"), None, ctypes.byref(session)))
    need(library.samba_session_load(session, path("after.safetensors")))
    need(library.samba_lm_save(lm, session, path("saved")))
    library.samba_session_free(session)
    library.samba_lm_free(lm)
    library.samba_context_free(context)

    sambaflow("lm", "save", "--model", folder / "model", "--load", folder / "after.safetensors", "--to", folder / "again")
    for name in ("config.json", "model.safetensors"):
        assert (folder / "again" / name).read_bytes() == (folder / "saved" / name).read_bytes()
    config = transformers.AutoConfig.from_pretrained(folder / "saved")
    model, told = transformers.AutoModelForCausalLM.from_pretrained(
        folder / "saved", attn_implementation=attention_of(config), output_loading_info=True
    )
    assert not told["missing_keys"] and not told["unexpected_keys"] and not told["mismatched_keys"]
    words = [f"--input={name}={folder / name}.npy" for name in ("input_ids", "labels")]
    sambaflow(
        "run",
        folder / "m.pef",
        "--load",
        folder / "saved",
        *words,
        "--output",
        f"logits={folder / 'again'}.npy",
        "--eval",
        "--section-types",
        "FWD",
    )
    near(numpy.load(folder / "again.npy"), model.eval()(tokens).logits.detach().numpy(), "logits of the saved model")


# ---- what is hidden from whom ----


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("draw", ARCHITECTURES)
def test_padding(draw, side, tmp_path):
    r = random.Random(f"{SEED} {draw.__name__} {side}")
    model, before = prepared(tmp_path, draw, side, r)
    tokens = tokens_of(r, 3, 8, model.config.vocab_size)
    mask = torch.ones_like(tokens)
    for row, count in enumerate([0, 2, 5]):
        if count:
            mask[row, :count] = 0
    labels = tokens.masked_fill(torch.cumsum(mask, 1) <= 1, -100)  # the first is told by what is hidden
    if side == "right":
        mask = mask.flip(1)
        labels = tokens.masked_fill(mask == 0, -100)
    inputs = {"input_ids": tokens, "labels": labels, "attention_mask": mask}
    learn(model, before, run(tmp_path, 3, 8, inputs, "--attention-mask"), **inputs)


@pytest.mark.parametrize("draw", ARCHITECTURES)
def test_documents(draw, tmp_path):
    """Several in one sequence are each as if it were alone."""
    r = random.Random(f"{SEED} {draw.__name__} documents")
    model, _ = prepared(tmp_path, draw, "documents", r)
    tokens = tokens_of(r, 2, 12, model.config.vocab_size)
    lengths = [[5, 4, 3], [1, 11]]
    places = torch.tensor([[p for n in row for p in range(n)] for row in lengths])
    documents = torch.tensor([[d for d, n in enumerate(row) for _ in range(n)] for row in lengths])
    inputs = {"input_ids": tokens, "labels": tokens, "position_ids": places, "document_ids": documents}
    if any(kind in str(getattr(model.config, "rope_parameters", "")) for kind in ("longrope", "dynamic")):
        pytest.skip("its angles depend on how long a sequence is")
    logits, _, _ = run(tmp_path, 2, 12, inputs, "--position-ids", "--document-ids")
    for row, counts in enumerate(lengths):
        begin = 0
        for count in counts:
            alone = model(tokens[row : row + 1, begin : begin + count]).logits.detach().numpy()
            near(logits[row : row + 1, begin : begin + count], alone, f"logits of {row}, {begin}")
            begin += count


# ---- folders ----


def rewritten(folder, change):
    """The folder with another config.json."""
    config = json.loads((folder / "model" / "config.json").read_text(encoding="utf-8"))
    change(config)
    (folder / "model" / "config.json").write_text(json.dumps(config), encoding="utf-8")


def logits_of(folder, tokens):
    return run(folder, *tokens.shape, {"input_ids": tokens, "labels": tokens})[0]


@pytest.mark.parametrize("draw", [llama, gpt_neox, gemma3, phi3])
def test_older_config(draw, tmp_path):
    """Files of older versions have rope_theta and rope_scaling beside each other."""
    r = random.Random(f"{SEED} {draw.__name__} older")
    model, _ = prepared(tmp_path, draw, "older", r)

    def change(config):
        parameters = config.pop("rope_parameters")
        if draw is gemma3:
            config["rope_local_base_freq"] = parameters["sliding_attention"]["rope_theta"]
            parameters = parameters["full_attention"]
        config["rotary_emb_base" if draw is gpt_neox else "rope_theta"] = parameters.pop("rope_theta")
        if "partial_rotary_factor" in parameters:
            config["rotary_pct" if draw is gpt_neox else "partial_rotary_factor"] = parameters.pop("partial_rotary_factor")
        kind = parameters.pop("rope_type")
        config["rope_scaling"] = None if kind == "default" else {"type": "su" if draw is phi3 else kind, **parameters}
        config["torch_dtype"] = config.pop("dtype")

    rewritten(tmp_path, change)
    tokens = tokens_of(r, 2, 11, model.config.vocab_size)
    near(logits_of(tmp_path, tokens), model(tokens).logits.detach().numpy(), "logits")


@pytest.mark.parametrize("draw", [gpt2, opt, llama, falcon])
def test_bare_model(draw, tmp_path):
    """A file of the model without its head has shorter names."""
    r = random.Random(f"{SEED} {draw.__name__} bare")
    config = draw(r)
    config.tie_word_embeddings = True
    model = make(config, 7)
    model.base_model.save_pretrained(tmp_path / "model")
    tokens = tokens_of(r, 2, 5, config.vocab_size)
    near(logits_of(tmp_path, tokens), model(tokens).logits.detach().numpy(), "logits")


@pytest.mark.parametrize("draw", [gpt2, gpt_neox, gemma])
@pytest.mark.parametrize("equal", [True, False])
def test_head_beside_embedding(draw, equal, tmp_path):
    """The config ties a head that the file has: it is tied where it is equal."""
    r = random.Random(f"{SEED} {draw.__name__} tied {equal}")
    config = draw(r)
    config.tie_word_embeddings = False
    model = make(config, 11)
    if equal:
        model.get_output_embeddings().weight.data.copy_(model.get_input_embeddings().weight.data)
    model.save_pretrained(tmp_path / "model")
    rewritten(tmp_path, lambda config: config.update(tie_word_embeddings=True))
    tokens = tokens_of(r, 2, 5, config.vocab_size)
    near(logits_of(tmp_path, tokens), model(tokens).logits.detach().numpy(), "logits")
    names = safetensors.torch.load_file(tmp_path / "after.safetensors").keys()
    assert any("lm_head" in name or "embed_out" in name for name in names) != equal


def test_half_precision(tmp_path):
    """Weights of 16 bits are converted beside the PEF."""
    r = random.Random(SEED)
    make(qwen3(r), 3).bfloat16().save_pretrained(tmp_path / "model")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "model", dtype=torch.float32, attn_implementation="eager"
    ).eval()
    tokens = tokens_of(r, 2, 5, model.config.vocab_size)
    near(logits_of(tmp_path, tokens), model(tokens).logits.detach().numpy(), "logits")


@pytest.mark.parametrize(
    "make_config",
    [
        lambda: transformers.GPT2Config(vocab_size=31, n_embd=6, n_layer=1, n_head=2, n_positions=8),
        lambda: transformers.LlamaConfig(
            vocab_size=31, hidden_size=8, intermediate_size=9, num_hidden_layers=1, num_attention_heads=2, attention_dropout=0.5
        ),
        lambda: transformers.Gemma2Config(
            vocab_size=31,
            hidden_size=8,
            intermediate_size=9,
            num_hidden_layers=1,
            head_dim=4,
            num_attention_heads=2,
            num_key_value_heads=1,
            attention_dropout=0.5,
        ),
    ],
)
def test_dropout(make_config, tmp_path):
    """Its rates are hyperparameters, and nothing is dropped in runs that do not train."""
    model = make(make_config(), 5)
    model.save_pretrained(tmp_path / "model")
    tokens = tokens_of(random.Random(SEED), 2, 8, 31)
    logits, _, _ = run(tmp_path, 2, 8, {"input_ids": tokens, "labels": tokens}, dropout=True)
    near(logits, model(tokens).logits.detach().numpy(), "logits")
    assert "attn_dropout.p" in sambaflow("inspect", tmp_path / "m.pef")
    words = [f"--input={name}={tmp_path / name}.npy" for name in ("input_ids", "labels")]
    sambaflow("run", tmp_path / "m.pef", "--load", tmp_path / "model", *words, "--output", f"logits={tmp_path / 'dropped'}.npy")
    assert numpy.abs(numpy.load(tmp_path / "dropped.npy") - logits).max() > 1e-3
