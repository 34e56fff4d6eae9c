# SPDX-License-Identifier: Apache-2.0
"""Adapters beside PEFT: small random models of each architecture get LoRA or DoRA, are trained for 20 steps of AdamW by both, and
adapters go both ways: PEFT's folder is compiled and loaded, ours is loaded by PEFT, merged weights are transformers'. The frozen
base is float32, or in fewer bits, which the other side is then given as they are. SAMBAFLOW_SEED draws others."""

import ctypes
import random
import subprocess

import numpy
import peft
import pytest
import safetensors.torch
import test_lm
import torch
import transformers
from test_lm import ARCHITECTURES, BUILD, SEED, near, sambaflow, tokens_of

STEPS, RATE = 20, 1e-3
EPS = 1e-4  # with the usual 1e-8, AdamW makes whole steps of the rounding where a gradient is 0, as that of a window of one key
one_thread = test_lm.one_thread


def even(kind):
    """A model whose rows are whole groups of 32."""
    if kind == "gpt2":
        config = transformers.GPT2Config(vocab_size=97, n_positions=16, n_embd=64, n_layer=2, n_head=4)
    else:
        config = transformers.LlamaConfig(
            vocab_size=97,
            hidden_size=64,
            intermediate_size=96,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            tie_word_embeddings=True,
        )
    for key in ("resid_pdrop", "embd_pdrop", "attn_pdrop"):
        if hasattr(config, key):
            setattr(config, key, 0.0)
    return config


def widened(tensors, name):
    """A float32 weight (out, in) of what was compiled for a base of integers; None where it is none."""
    if name + "_packed" in tensors:
        halves = tensors[name + "_packed"].int()
        integers = torch.cat([halves & 15, halves >> 4], -1) - 8
        return (integers * tensors[name + "_scale"].float()).reshape(integers.shape[0], -1)
    if tensors.get(name, torch.empty(0)).dtype == torch.int8:
        return tensors[name].float() * tensors[name + "_scale"]
    return None


def give_base(model, path):
    """The model has the values that a session reads of its frozen weights."""
    tensors = safetensors.torch.load_file(path)
    for name, parameter in model.named_parameters():
        name = name.replace(".base_layer", "")
        value = widened(tensors, name)
        if value is not None:
            parameter.data.copy_(value.T if ".h." in name else value)
        elif name in tensors:
            parameter.data.copy_(tensors[name].float())


class Library:
    """What the commands do not do by themselves."""

    def __init__(self, folder):
        self.c = ctypes.CDLL(BUILD / "libsambaflow.so")
        self.c.samba_error_message.restype = ctypes.c_char_p
        self.context, self.lm, self.adapter, self.lora = (ctypes.c_void_p() for _ in range(4))
        self.folder = folder
        self.need(self.c.samba_context_new(None, ctypes.byref(self.context)))
        self.need(self.c.samba_lm_open(self.context, self.path("model"), ctypes.byref(self.lm)))
        self.need(self.c.samba_lm_adapter_open(self.lm, self.path("peft"), ctypes.byref(self.adapter), ctypes.byref(self.lora)))

    def need(self, status):
        assert status == 0, self.c.samba_error_message(self.context)

    def path(self, name):
        return str(self.folder / name).encode()

    def session(self):
        session = ctypes.c_void_p()
        self.need(self.c.samba_session_new(self.context, self.path("m.pef"), None, ctypes.byref(session)))
        return session

    def start(self):
        """Weights and PEFT's adapters in one file."""

        class Options(ctypes.Structure):
            _fields_ = [
                ("struct_size", ctypes.c_size_t),
                ("partial", ctypes.c_bool),
                ("drop_prefix", ctypes.c_char_p),
                ("loaded", ctypes.c_void_p),
            ]

        options = Options(ctypes.sizeof(Options), True, None, None)
        session = self.session()
        self.need(self.c.samba_session_load_with(session, self.path("m.safetensors"), ctypes.byref(options)))
        self.need(self.c.samba_lm_adapter_load(self.adapter, session))
        self.need(self.c.samba_session_save(session, self.path("start.safetensors"), False))
        self.c.samba_session_free(session)

    def save(self):
        session = self.session()
        self.need(self.c.samba_session_load(session, self.path("after.safetensors")))
        self.need(self.c.samba_lm_save_adapter(self.lm, session, self.lora, self.path("ours")))
        self.c.samba_session_free(session)

    def close(self):
        self.c.samba_lm_adapter_free(self.adapter)
        self.c.samba_lm_free(self.lm)
        self.c.samba_context_free(self.context)


def compile_and_train(folder, tokens, base):
    """The logits behind STEPS steps."""
    batch, length = tokens.shape
    words = ["-b", batch, "--length", length, "--logits", "--optimizer", "adamw"]
    words += ["--lr", RATE, "--weight-decay", "0.01", "--eps", EPS]
    words += ["--adapter", folder / "peft", "--base", base, "--no-dropout", "--pef", folder / "m.pef"]
    sambaflow("lm", "compile", "--model", folder / "model", *words)
    library = Library(folder)
    library.start()
    numpy.save(folder / "ids.npy", tokens.numpy())
    inputs = ["--input", f"input_ids={folder}/ids.npy", "--input", f"labels={folder}/ids.npy"]
    trained = ["--num-iterations", STEPS, "--save", folder / "after.safetensors"]
    sambaflow("run", folder / "m.pef", "--load", folder / "start.safetensors", *inputs, *trained)
    outputs = ["--output", f"logits={folder}/logits.npy", "--eval", "--section-types", "FWD"]
    sambaflow("run", folder / "m.pef", "--load", folder / "after.safetensors", *inputs, *outputs)
    library.save()
    library.close()
    return numpy.load(folder / "logits.npy")


def learn(model, tokens):
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=RATE, weight_decay=0.01, eps=EPS)
    for _ in range(STEPS):
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def adapted(config, seed, folder, **options):
    """A model with adapters that are not 0, its base and they as folders."""
    model = test_lm.make(config, seed)
    model.save_pretrained(folder / "model")
    lora = peft.LoraConfig(fan_in_fan_out=config.model_type == "gpt2", **options)
    model = peft.get_peft_model(model, lora).eval()
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, 0, 0.1)
    model.save_pretrained(folder / "peft")
    return model


def compare(model, folder, base, tokens):
    logits = compile_and_train(folder, tokens, base)
    if base != "float32":
        give_base(model.base_model.model, folder / "m.safetensors")
        for name, module in model.named_modules():  # PEFT's magnitudes were of other weights
            if name.endswith("lora_magnitude_vector.default"):
                ours = safetensors.torch.load_file(folder / "start.safetensors")
                key = name.removeprefix("base_model.model.").removesuffix(".default")
                module.weight.data.copy_(ours[key])
    learn(model, tokens)
    near(logits, model(input_ids=tokens).logits.detach().numpy(), "logits behind the steps", close=2e-4)
    return logits


OPTIONS = [{"r": 3, "lora_alpha": 6}, {"r": 1, "lora_alpha": 5, "use_rslora": True}, {"r": 2, "lora_alpha": 4, "use_dora": True}]


@pytest.mark.parametrize("number", range(len(OPTIONS)))
@pytest.mark.parametrize("draw", ARCHITECTURES)
def test_adapters(draw, number, tmp_path):
    r = random.Random(f"{SEED} adapter {draw.__name__} {number}")
    config = draw(r)
    for key in ("attention_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop", "hidden_dropout", "dropout"):
        if hasattr(config, key):
            setattr(config, key, 0.0)
    print(f"SAMBAFLOW_SEED={SEED}, {draw.__name__} {number}: {config.to_diff_dict()}")
    model = adapted(config, r.randint(0, 1 << 30), tmp_path, target_modules="all-linear", **OPTIONS[number])
    tokens = tokens_of(r, r.choice([1, 2]), r.choice([3, 8]), config.vocab_size)
    logits = compare(model, tmp_path, "float32", tokens)

    how = {"attn_implementation": test_lm.attention_of(config)}
    fresh = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model", **how)
    theirs = peft.PeftModel.from_pretrained(fresh, tmp_path / "ours").eval()
    near(logits, theirs(input_ids=tokens).logits.detach().numpy(), "logits of our adapters in PEFT")
    sambaflow("lm", "merge", "--model", tmp_path / "model", "--adapter", tmp_path / "ours", "--to", tmp_path / "merged")
    merged = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "merged", **how).eval()
    near(logits, merged(input_ids=tokens).logits.detach().numpy(), "logits of the merged model")


@pytest.mark.parametrize("options", [OPTIONS[0], OPTIONS[2]], ids=["lora", "dora"])
@pytest.mark.parametrize("base", ["bfloat16", "int8", "int4"])
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_base(kind, base, options, tmp_path):
    r = random.Random(f"{SEED} base {kind} {base} {options}")
    model = adapted(even(kind), r.randint(0, 1 << 30), tmp_path, target_modules="all-linear", **options)
    compare(model, tmp_path, base, tokens_of(r, 2, 7, 97))


def test_some_targets(tmp_path):
    """Names, and what is left out of them; the rest has no adapters."""
    r = random.Random(f"{SEED} targets")
    names = {
        "target_modules": ["q_proj", "model.layers.1.mlp.up_proj", "down_proj"],
        "exclude_modules": ["layers.0.mlp.down_proj"],
    }
    model = adapted(even("llama"), 5, tmp_path, r=4, lora_alpha=4, **names)
    compare(model, tmp_path, "float32", tokens_of(r, 2, 5, 97))


@pytest.mark.parametrize("start", [False, "gaussian", "eva", "mica", "pissa", "pissa_niter_4", "olora"])
def test_start(start, tmp_path):
    """Of some starts PEFT takes a part out of the model's weights when it opens the folder: equal, or refused by the key."""
    r = random.Random(f"{SEED} start {start}")
    adapted(even("llama"), 5, tmp_path, r=2, lora_alpha=3, target_modules=["q_proj", "down_proj"], init_lora_weights=start)
    words = ["lm", "merge", "--model", tmp_path / "model", "--adapter", tmp_path / "peft", "--to", tmp_path / "merged"]
    if start and start.startswith(("pissa", "olora")):
        done = subprocess.run([BUILD / "sambaflow", *words], capture_output=True, text=True, check=False)
        assert done.returncode != 0 and f'"init_lora_weights" is "{start}": supported is true, false' in done.stderr
        return
    sambaflow(*words)
    theirs = peft.PeftModel.from_pretrained(
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model"), tmp_path / "peft"
    )
    merged = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    tokens = tokens_of(r, 1, 5, 97)
    near(merged(tokens).logits.detach().numpy(), theirs(tokens).logits.detach().numpy(), "logits of the merged model")


@pytest.mark.parametrize("number", range(4))
def test_odd_options(number, tmp_path):
    """Ranks beyond a layer's size, factors of 0 and below it, some of the modules."""
    r = random.Random(f"{SEED} odd {number}")
    options = {"r": r.choice([1, 200]), "lora_alpha": [0, -3, 7, 1][number], "use_rslora": r.random() < 0.5}
    targets = r.choice([["q_proj"], ["0.mlp.up_proj", "k_proj"], ["model.layers.1.self_attn.o_proj", "down_proj"]])
    print(f"SAMBAFLOW_SEED={SEED}, {options}, {targets}")
    model = adapted(even("llama"), 5, tmp_path, target_modules=targets, use_dora=r.random() < 0.5, **options)
    sambaflow("lm", "merge", "--model", tmp_path / "model", "--adapter", tmp_path / "peft", "--to", tmp_path / "merged")
    merged = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "merged").eval()
    tokens = tokens_of(r, 1, 5, 97)
    near(merged(tokens).logits.detach().numpy(), model(tokens).logits.detach().numpy(), "logits of the merged model")
