# SPDX-License-Identifier: Apache-2.0
"""Generating beside transformers: small random models of each architecture (test_lm.py draws them) continue prompts of unequal
lengths, by chunks of drawn lengths, greedily and by sampling with uniform numbers that both sides are given. Tokens are those of
`model.generate`, logits those of its forward pass over the whole sequence. Sequences end where the model's angles would change
with their length (dynamic, longrope); models of which every layer has a window go on beyond the cache's capacity."""

import ctypes
import json
import os
import random
import subprocess
from ctypes import POINTER, c_bool, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p

import numpy
import peft
import pytest
import test_lm
import tokenizers
import torch
from test_lm import ARCHITECTURES, BUILD, CASES, SEED, make, near, one_thread  # noqa: F401

MODES = [
    {},
    {"repetition_penalty": 1.7},
    {"temperature": 0.8},
    {"temperature": 1.3, "top_k": 7},
    {"temperature": 1.0, "top_p": 0.7},
    {"temperature": 2.0, "min_p": 0.2},
    {"temperature": 1.5, "top_k": 20, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 0.8},
]

UNIFORM = ctypes.CFUNCTYPE(c_double, c_void_p, c_int64, c_int64)


class Sampling(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("repetition_penalty", c_double),
        ("temperature", c_double),
        ("top_k", c_int64),
        ("top_p", c_double),
        ("min_p", c_double),
        ("seed", c_uint64),
        ("uniform", UNIFORM),
        ("user", c_void_p),
    ]


class GeneratorOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("sequences", c_int64),
        ("capacity", c_int64),
        ("chunk", c_int64),
        ("threads", c_int),
        ("isa", c_char_p),
        ("seed", c_uint64),
        ("base", c_int),
        ("draft_tokens", c_int64),
        ("adapter", c_void_p),
    ]


class GenerationOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("sampling", Sampling),
        ("max_new_tokens", c_int64),
        ("stop_ids", POINTER(c_int32)),
        ("stop_count", c_int64),
        ("token", c_void_p),
        ("user", c_void_p),
        ("stop_strings", c_void_p),
        ("stop_string_count", c_int64),
        ("keep_special", c_bool),
        ("text", c_void_p),
        ("draft", c_void_p),
        ("draft_counts", c_void_p),
    ]


class Generator:
    """A samba_generator of a folder, by ctypes."""

    def __init__(self, folder, **options):
        self.library = library = ctypes.CDLL(BUILD / "libsambaflow.so")
        library.samba_error_message.restype = c_char_p
        library.samba_generator_defaults.restype = GeneratorOptions
        library.samba_generation_defaults.restype = GenerationOptions
        library.samba_generator_logits.restype = POINTER(ctypes.c_float)
        library.samba_generator_ids.restype = POINTER(c_int32)
        library.samba_generator_room.restype = c_int64
        self.context, self.lm, self.c = c_void_p(), c_void_p(), c_void_p()
        self.need(library.samba_context_new(None, ctypes.byref(self.context)))
        self.need(library.samba_lm_open(self.context, str(folder).encode(), ctypes.byref(self.lm)))
        given = library.samba_generator_defaults()
        for name, value in options.items():
            setattr(given, name, value)
        self.sequences = given.sequences
        self.need(library.samba_generator_new(self.lm, ctypes.byref(given), ctypes.byref(self.c)))

    def need(self, status):
        assert status == 0, self.library.samba_error_message(self.context)

    def add(self, sequence, ids):
        self.need(self.library.samba_generator_add(self.c, c_int64(sequence), (c_int32 * len(ids))(*ids), c_int64(len(ids))))

    def clear(self, sequence):
        self.need(self.library.samba_generator_clear(self.c, c_int64(sequence)))

    def ids(self, sequence):
        count = c_int64()
        ids = self.library.samba_generator_ids(self.c, c_int64(sequence), ctypes.byref(count))
        return ids[: count.value]

    def logits(self, sequence, vocab):
        self.need(self.library.samba_generator_run(self.c))
        return numpy.array(self.library.samba_generator_logits(self.c, c_int64(sequence))[:vocab])

    def generate(self, new, uniforms, stop=(), **mode):
        options = self.library.samba_generation_defaults()
        for name, value in mode.items():
            setattr(options.sampling, name, value)
        options.sampling.uniform = UNIFORM(lambda _, sequence, step: uniforms[sequence][step])
        options.max_new_tokens = new
        options.stop_ids, options.stop_count = (c_int32 * len(stop))(*stop), len(stop)
        ends = (c_int * self.sequences)()
        self.need(self.library.samba_generate(self.c, ctypes.byref(options), ends))
        return list(ends)

    def close(self):
        self.library.samba_generator_free(self.c)
        self.library.samba_lm_free(self.lm)
        self.library.samba_context_free(self.context)


def longest(config):
    """Tokens up to which no angle depends on the sequence's length."""
    every = getattr(config, "rope_parameters", None) or {}
    most = 16
    for parameters in [every, *[v for v in every.values() if isinstance(v, dict)]]:
        if parameters.get("rope_type") == "dynamic":
            most = min(most, config.max_position_embeddings)
        if parameters.get("rope_type") == "longrope":
            most = min(most, config.original_max_position_embeddings)
    return most


def expected(model, prompt, new, uniforms, monkeypatch, mode):
    """What transformers generates, with these numbers in the place of torch's."""
    step = iter(uniforms)

    def draw(probabilities, num_samples=1, **_):
        assert num_samples == 1
        assert probabilities.shape[0] == 1
        sums = probabilities[0].double().cumsum(0)
        return (sums > next(step) * sums[-1]).int().argmax().view(1, 1)

    monkeypatch.setattr(torch, "multinomial", draw)
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    chosen = {"top_k": 0, "top_p": 1.0} | mode if "temperature" in mode else mode
    tokens = model.generate(
        torch.tensor([prompt]),
        max_new_tokens=new,
        do_sample="temperature" in mode,
        use_cache=False,
        attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
        **chosen,
    )
    monkeypatch.undo()
    return tokens[0].tolist()


def drawn(draw, number, folder):
    r = random.Random(f"{SEED} {draw.__name__} {number}")
    config = draw(r)
    print(f"SAMBAFLOW_SEED={SEED}, {draw.__name__} {number}: {config.to_diff_dict()}")
    model = make(config, r.randint(0, 1 << 30))
    model.save_pretrained(folder / "model")
    return r, model


@pytest.mark.parametrize("number", range(CASES))
@pytest.mark.parametrize("draw", ARCHITECTURES)
def test_generate(draw, number, tmp_path, monkeypatch):
    r, model = drawn(draw, number, tmp_path)
    most, vocab = longest(model.config), model.config.vocab_size
    sequences, chunk = r.choice([1, 2, 3]), r.choice([1, 2, 3, 5, 40])
    g = Generator(tmp_path / "model", sequences=sequences, capacity=most, chunk=chunk, threads=1 + number % 2)
    for mode in [MODES[0], *r.sample(MODES[1:], 3)]:
        prompts = [[r.randrange(vocab) for _ in range(r.randint(1, most - 2))] for _ in range(sequences)]
        new = min(most - max(map(len, prompts)), 6)
        uniforms = [[r.random() for _ in range(new)] for _ in range(sequences)]
        for i, prompt in enumerate(prompts):
            g.clear(i)
            g.add(i, prompt)
        given = mode if "temperature" not in mode else {"top_k": 0, "top_p": 1.0} | mode
        assert g.generate(new, uniforms, **given) == [3] * sequences
        for i, prompt in enumerate(prompts):
            what = f"chunk {chunk}, {mode}, sequence {i} of {prompts}"
            assert g.ids(i) == expected(model, prompt, new, uniforms[i], monkeypatch, mode), what
            logits = model(input_ids=torch.tensor([g.ids(i)])).logits[0, -1].detach().numpy()
            near(g.logits(i, vocab), logits, what)
    g.close()


def test_long(tmp_path):
    """A prompt of several chunks, split in several ways: the same logits, those of transformers."""
    config = test_lm.llama(random.Random(5))
    config.max_position_embeddings, config.rope_parameters = 512, {"rope_type": "default", "rope_theta": 10000.0}
    model = make(config, 5)
    model.save_pretrained(tmp_path / "model")
    r = random.Random(6)
    prompt = [r.randrange(config.vocab_size) for _ in range(307)]
    logits = model(input_ids=torch.tensor([prompt])).logits[0].detach().numpy()
    for chunk in (1, 17, 128, 511):
        for threads in (1, 2):
            g = Generator(tmp_path / "model", capacity=400, chunk=chunk, threads=threads)
            for begin, end in ((0, 1), (1, 4), (4, 200), (200, 306), (306, 307)):
                g.add(0, prompt[begin:end])
                near(g.logits(0, config.vocab_size), logits[end - 1], f"chunk {chunk}, threads {threads}, up to {end}")
            g.close()


@pytest.mark.parametrize("chunk", [1, 4])
def test_slides(chunk, tmp_path):
    """Every layer has a window: sequences are longer than the cache, and their logits those of the whole sequence."""
    r = random.Random(7)
    config = test_lm.mistral(r)
    config.sliding_window, config.rope_parameters = 5, {"rope_type": "default", "rope_theta": 100.0}
    config.max_position_embeddings = 64
    model = make(config, 7)
    model.save_pretrained(tmp_path / "model")
    tokens = [r.randrange(config.vocab_size) for _ in range(41)]
    logits = model(input_ids=torch.tensor([tokens])).logits[0].detach().numpy()
    g = Generator(tmp_path / "model", capacity=5 + chunk - 1, chunk=chunk, threads=1)
    for begin, end in ((0, 3), (3, 4), (4, 19), (19, 20), (20, 41)):
        g.add(0, tokens[begin:end])
        near(g.logits(0, config.vocab_size), logits[end - 1], f"chunk {chunk}, up to {end}")
    g.close()


def test_ends(tmp_path):
    """A token that ends a text, the capacity, and that one sequence's end does not change the others."""
    r = random.Random(8)
    model = make(test_lm.gpt2(r), 8)
    model.save_pretrained(tmp_path / "model")
    vocab = model.config.vocab_size
    prompts = [[r.randrange(vocab) for _ in range(n)] for n in (3, 9)]
    alone = []
    for prompt in prompts:
        g = Generator(tmp_path / "model", capacity=16, threads=1)
        g.add(0, prompt)
        assert g.generate(100, None) == [4]
        alone.append(g.ids(0))
        assert len(alone[-1]) == 16
        g.close()
    stop = alone[0][5]
    g = Generator(tmp_path / "model", sequences=3, capacity=16, chunk=2, threads=1)
    for i, prompt in enumerate(prompts):
        g.add(i, prompt)
    ends = g.generate(100, None, stop=[stop])
    first = alone[0][: alone[0].index(stop, 3) + 1]
    assert ends[0] == 1
    assert g.ids(0) == first
    later = alone[1][9:]
    assert ends[1] == (1 if stop in later else 4)
    assert g.ids(1) == (alone[1][: 9 + later.index(stop) + 1] if stop in later else alone[1])
    assert ends[2] == 0
    g.close()


def test_bfloat16_folder(tmp_path):
    """Weights of a folder in bfloat16 become float32."""
    config = test_lm.qwen3(random.Random(9))
    make(config, 9).bfloat16().save_pretrained(tmp_path / "model")
    model = test_lm.transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32).eval()
    prompt = [1, 5, 3]
    g = Generator(tmp_path / "model", capacity=16, threads=1)
    g.add(0, prompt)
    near(g.logits(0, config.vocab_size), model(input_ids=torch.tensor([prompt])).logits[0, -1].detach().numpy(), "logits")
    g.close()


@pytest.mark.parametrize("draw", [test_lm.llama, test_lm.gpt2, test_lm.gemma2])
def test_bfloat16(draw, tmp_path):
    """Weights kept in bfloat16, of a folder of either dtype: logits are those of the rounded weights in float32."""
    r = random.Random(11)
    config = draw(r)
    model = make(config, 11)
    model.save_pretrained(tmp_path / "wide")
    model.to(torch.bfloat16).save_pretrained(tmp_path / "narrow")
    load = test_lm.transformers.AutoModelForCausalLM.from_pretrained
    models = {
        "wide": rounded(load(tmp_path / "wide", dtype=torch.float32), 1),  # norms and biases stay
        "narrow": load(tmp_path / "narrow", dtype=torch.float32).eval(),
    }
    prompt = [r.randrange(config.vocab_size) for _ in range(7)]
    for folder, model in models.items():
        logits = model(input_ids=torch.tensor([prompt])).logits[0, -1].detach().numpy()
        for chunk in (1, 4):
            g = Generator(tmp_path / folder, capacity=16, chunk=chunk, threads=1, base=1)
            g.add(0, prompt)
            near(g.logits(0, config.vocab_size), logits, f"logits of {folder} weights")
            g.close()


# ---- weights in fewer bits ----


def rounded_int8(w):
    """Rows of int8 by the rule of samba_quantize, as float32: the greatest magnitude of a row is 127 scales."""
    scale = numpy.abs(w).max(1, keepdims=True).astype("float32") / numpy.float32(127)
    inverse = numpy.where(scale > 0, numpy.float32(1) / numpy.where(scale > 0, scale, 1), 0).astype("float32")
    return numpy.clip(numpy.rint(w * inverse), -127, 127).astype("float32") * scale


def rounded_int4(w):
    """Groups of 32 as Q4_0: the element of greatest magnitude is -8 scales, which are float16."""
    groups = w.reshape(w.shape[0], -1, 32)
    at = numpy.abs(groups).argmax(-1, keepdims=True)
    most = numpy.take_along_axis(groups, at, -1)
    scale = (most.astype("float64") / -8).astype("float16").astype("float32")
    inverse = numpy.where(most != 0, numpy.float32(-8) / numpy.where(most != 0, most, 1), 0).astype("float32")
    integers = numpy.clip(numpy.floor(groups * inverse + numpy.float32(8.5)), 0, 15)
    return ((integers - 8) * scale).astype("float32").reshape(w.shape)


def rounded(model, base):
    """The model with the weights that generating reads: linear layers of the decoder's layers by the base, the table of
    embeddings and the head in rows of int8 with int4 too, others of rank 2 and more as bfloat16."""
    state = model.state_dict()
    turned = model.config.model_type == "gpt2"
    inside = (".layers.", ".h.")
    for name, value in state.items():
        if value.dim() < 2:
            continue
        if base >= 2 and any(part in name for part in inside) and value.dim() == 2 and "embed" not in name:
            w = value.numpy().T if turned else value.numpy()
            w = (rounded_int8 if base == 2 else rounded_int4)(numpy.ascontiguousarray(w))
            state[name] = torch.from_numpy(numpy.ascontiguousarray(w.T if turned else w))
        elif base >= 2 and any(part in name for part in ("wte.", "embed_tokens.", "lm_head.")):
            state[name] = torch.from_numpy(rounded_int8(value.numpy()))
        else:
            state[name] = value.bfloat16().float()
    model.load_state_dict(state)
    return model.eval()


def wide_llama(r):
    """Of rows that are multiples of 32."""
    return test_lm.transformers.LlamaConfig(
        vocab_size=59,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=r.random() < 0.5,
        attention_bias=r.random() < 0.5,
    )


def wide_gpt2(r):
    return test_lm.transformers.GPT2Config(vocab_size=59, n_positions=64, n_embd=64, n_layer=2, n_head=4)


@pytest.mark.parametrize("base", [1, 2, 3])
@pytest.mark.parametrize("draw", [wide_llama, wide_gpt2])
def test_bases(draw, base, tmp_path, monkeypatch):
    """Weights in fewer bits: logits and tokens are those of transformers with the weights that they stand for, for one sequence
    and several, and prompts that come by few tokens or many at once."""
    r = random.Random(f"{SEED} {draw.__name__} {base}")
    print(f"SAMBAFLOW_SEED={SEED}")
    model = make(draw(r), 12)
    model.save_pretrained(tmp_path / "model", max_shard_size="60KB" if base == 2 else "1GB")  # one file, or several
    rounded(model, base)
    vocab, new = model.config.vocab_size, 8
    for sequences, chunk, threads in ((1, 1, 1), (2, 4, 2), (3, 40, 1), (1, 40, 2)):
        g = Generator(tmp_path / "model", sequences=sequences, capacity=64, chunk=chunk, threads=threads, base=base)
        for i in range(sequences):
            prompt = [r.randrange(vocab) for _ in range(r.choice([1, 7, 37, 50]))]
            g.add(i, prompt)
            logits = model(input_ids=torch.tensor([prompt])).logits[0, -1].detach().numpy()
            near(g.logits(i, vocab), logits, f"logits of {sequences} sequences by {chunk}")
        prompts = [list(g.ids(i)) for i in range(sequences)]
        assert g.generate(new, [[0] * new] * sequences) == [3] * sequences
        for i, prompt in enumerate(prompts):
            assert g.ids(i) == expected(model, prompt, new, [], monkeypatch, {}), f"tokens of {sequences} sequences by {chunk}"
        g.close()


def test_base_refused(tmp_path):
    """Rows that are no multiple of 32 have no groups."""
    config = test_lm.transformers.LlamaConfig(
        vocab_size=11, hidden_size=24, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2
    )
    make(config, 1).save_pretrained(tmp_path / "model")
    done = command("--model", tmp_path / "model", "--prompt-ids", "1", "--base", "int4", code=1)
    assert "INT4 is of groups of 32" in done.stderr


@pytest.mark.parametrize("base", ["float32", "int8", "int4"])
def test_adapter(base, tmp_path):
    """Adapters beside weights of each base: PEFT's logits choose the same tokens."""
    r = random.Random(14)
    model = make(wide_llama(r), 14)
    model.save_pretrained(tmp_path / "model")
    if base != "float32":
        rounded(model, ["float32", "bfloat16", "int8", "int4"].index(base))
    torch.manual_seed(15)
    tuned = peft.get_peft_model(model, peft.LoraConfig(r=3, lora_alpha=7, target_modules=["q_proj", "down_proj"]))
    for name, value in tuned.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(value, std=0.5)
    tuned.save_pretrained(tmp_path / "adapter")
    words = ["--model", tmp_path / "model", "--base", base, "--prompt-ids", "3,1,4,1,5", "--max-new-tokens", 9, "--ignore-eos"]
    done = command(*words, "--adapter", tmp_path / "adapter")
    tokens = tuned.generate(
        input_ids=torch.tensor([[3, 1, 4, 1, 5]]),
        max_new_tokens=9,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        attention_mask=torch.ones(1, 5, dtype=torch.int64),
    )
    assert [int(i) for i in done.stdout.split()] == tokens[0, 5:].tolist()
    assert done.stdout != command(*words).stdout


# ---- a smaller model that drafts ----


@pytest.mark.parametrize("base", ["float32", "int8"])
def test_draft(base, tmp_path):
    """Greedy tokens with a draft are those without."""
    r = random.Random(16)
    make(wide_llama(r), 16).save_pretrained(tmp_path / "model")
    small = wide_llama(r)
    small.num_hidden_layers = 1
    make(small, 17).save_pretrained(tmp_path / "small")
    words = ["--model", tmp_path / "model", "--base", base, "--max-new-tokens", 40, "--ignore-eos"]
    for prompts in (["3,1,4"], ["3,1,4", "7", "50,2,2,2,2,9,1,1"]):
        given = [word for prompt in prompts for word in ("--prompt-ids", prompt)]
        plain = command(*words, *given)
        for count in (1, 3, 7):
            done = command(*words, *given, "--draft", tmp_path / "small", "--draft-tokens", count)
            assert done.stdout == plain.stdout
            assert "of them accepted" in done.stderr
    itself = command(*words, "--prompt-ids", "3,1,4", "--draft", tmp_path / "model", "--json")
    counts = json.loads(itself.stdout)["draft"]
    assert counts["acceptance"] == 1
    assert counts["runs"] < 12


# ---- the command ----


def command(*words, text=None, code=0):
    done = subprocess.run(
        [BUILD / "sambaflow", "lm", "generate", *map(str, words)],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture
def speaking(tmp_path):
    """A small model with a tokenizer of bytes, and one special token, which ends a text."""
    model = tmp_path / "model"
    config = test_lm.transformers.GPT2Config(
        vocab_size=257, n_positions=64, n_embd=24, n_layer=2, n_head=2, bos_token_id=256, eos_token_id=256
    )
    made = make(config, 10)
    made.save_pretrained(model)
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocab = {letter: i for i, letter in enumerate(alphabet)} | {"<end>": 256}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(["<end>"])
    tokenizer.save(str(model / "tokenizer.json"))
    return model, made, tokenizer


def test_command(speaking, tmp_path):
    model, made, tokenizer = speaking
    prompt = "héllo\n"
    ids = tokenizer.encode(prompt).ids
    made.generation_config.pad_token_id = 0
    new = made.generate(
        torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.int64), max_new_tokens=20, do_sample=False
    )
    new = new[0, len(ids) :].tolist()
    text = tokenizer.decode(new)
    words = ["--model", model, "--max-new-tokens", 20]
    assert command(*words, "--prompt", prompt).stdout == text + "\n"
    assert command(*words, text=prompt).stdout == text + "\n"
    assert command(*words, "--prompt-file", "-", text=prompt).stdout == text + "\n"
    (tmp_path / "prompt").write_text(prompt)
    told = json.loads(command(*words, "--prompt-file", tmp_path / "prompt", "--prompt", "xyz", "--json").stdout)
    assert told["sequences"][0]["text"] == text
    assert told["sequences"][0]["ids"] == new
    assert told["sequences"][0]["prompt_tokens"] == len(ids)
    assert told["sequences"][0]["end"] == ("stop" if new[-1] == 256 else "length")
    assert [s["new_tokens"] > 0 for s in told["sequences"]] == [True, True]
    # ends before a stop string, wherever tokens cut it
    stop = text[8:11]
    told = json.loads(command(*words, "--prompt", prompt, "--stop", "nowhere", "--stop", stop, "--json").stdout)
    assert told["sequences"][0]["text"] == text[: text.index(stop)]
    assert told["sequences"][0]["end"] == "stop_string"
    # the same seed, the same text
    several = [
        command(*words, "--prompt", prompt, "--temperature", 2, "--seed", seed, "--ignore-eos").stdout for seed in (1, 1, 2)
    ]
    assert several[0] == several[1] != several[2]


REFUSED = {
    "which model?": ["--prompt", "x"],
    "no option: a prompt": ["x", "--model", "MODEL"],
    "a prompt has no tokens": ["--model", "MODEL", "--prompt", ""],
    "top_k is 3, which has no effect": ["--model", "MODEL", "--prompt", "x", "--top-k", "3"],
    "repetition_penalty is 0: expected": ["--model", "MODEL", "--prompt", "x", "--repetition-penalty", "0"],
    "top_p is 0: expected": ["--model", "MODEL", "--prompt", "x", "--temperature", "1", "--top-p", "0"],
    "min_p is 1: expected": ["--model", "MODEL", "--prompt", "x", "--temperature", "1", "--min-p", "1"],
    "more than the capacity of 2 tokens": ["--model", "MODEL", "--prompt", "xyz", "--capacity", "2"],
    "learned 64 positions": ["--model", "MODEL", "--prompt", "xyz", "--capacity", "65"],
    "give all prompts as ids": ["--model", "MODEL", "--prompt", "xyz", "--prompt-ids", "1"],
    "vocabulary has 257 tokens": ["--model", "MODEL", "--prompt-ids", "1,257"],
    "numbers with commas": ["--model", "MODEL", "--prompt-ids", "1;2"],
    "are about text": ["--model", "MODEL", "--prompt-ids", "1", "--stop", "x"],
    "cannot open": ["--model", "MODEL", "--prompt-file", "MODEL/none"],
    "an empty text": ["--model", "MODEL", "--prompt", "x", "--stop", ""],
}


def test_refused(speaking):
    for sentence, words in REFUSED.items():
        done = subprocess.run(
            [BUILD / "sambaflow", "lm", "generate", *[w.replace("MODEL", str(speaking[0])) for w in words]],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode != 0, words
        assert sentence in done.stderr, (sentence, done.stderr)
        assert done.stdout == "", words
