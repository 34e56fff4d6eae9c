# SPDX-License-Identifier: Apache-2.0
"""`sambaflow lm serve` asked by OpenAI's own package: texts are those of transformers, whole and streamed; what is refused is the
package's exception for it; many ask at once, and some hang up. A small model of drawn weights has a byte-level tokenizer of its
own, so that characters come in several tokens. Bodies that were changed at random are answered with a sentence."""

import asyncio
import json
import os
import pathlib
import random
import signal
import subprocess
import time
import urllib.error
import urllib.request

import openai
import pytest
import tokenizers
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SAMBAFLOW_BUILD", ROOT / "build"))
SEED = int(os.environ.get("SAMBAFLOW_SEED", "20261128"))
TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
TEXT = "The sea is grün, and 海 is deep. How many fish swim in it? Nobody knows: 1, 2, 3 ... €"


class Server:
    """`lm serve` of a folder, which says where it listens."""

    def __init__(self, folder, *words, log):
        self.log = log
        program = [BUILD / "sambaflow", "lm", "serve", "--model", folder, "--port", "0", "--threads", "1", *words]
        with open(log, "w") as file:
            self.process = subprocess.Popen([str(w) for w in program], stdout=subprocess.PIPE, stderr=file, text=True)
        line = self.process.stdout.readline()
        assert " at http://127.0.0.1:" in line, pathlib.Path(log).read_text()
        self.url = line.split(" at ")[1].strip()

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, pathlib.Path(self.log).read_text()

    def client(self, **options):
        return openai.OpenAI(base_url=self.url, api_key="none", max_retries=0, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|end|>", "<|user|>", "<|assistant|>", "<|system|>"],
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    tokenizer.save(str(path / "tokenizer.json"))
    (path / "chat_template.jinja").write_text(TEMPLATE)
    config = transformers.LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=None,
        eos_token_id=0,
        tie_word_embeddings=False,
    )
    torch.manual_seed(SEED)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():  # greedy texts of initial weights are one token again and again
        parameter.data += 0.4 * torch.randn_like(parameter)
    model.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def server(folder, tmp_path_factory):
    made = Server(folder, log=tmp_path_factory.mktemp("log") / "log.txt")
    yield made
    made.close()


@pytest.fixture(scope="module")
def reference(folder):
    """The text with which transformers goes on, and the reason of its end; and how many tokens it has."""
    torch.set_num_threads(1)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))

    def text(prompt, count):
        ids = tokenizer.encode(prompt, add_special_tokens=False).ids
        mask = torch.ones(1, len(ids))
        done = model.generate(torch.tensor([ids]), attention_mask=mask, max_new_tokens=count, do_sample=False)
        new = done[0, len(ids) :].tolist()
        return tokenizer.decode(new), "stop" if new[-1] == 0 else "length", len(new), len(ids)

    return text


def chat_prompt(messages):
    return "".join(f"<|{m['role']}|>{m['content']}<|end|>" for m in messages) + "<|assistant|>"


def draw_prompts(count):
    r = random.Random(f"{SEED} prompts")
    return ["".join(r.sample(TEXT, r.randint(1, 30))) for _ in range(count)]


def name_of(server):
    return server.client().models.list().data[0].id


@pytest.mark.parametrize("prompt", draw_prompts(6))
def test_completion(prompt, server, reference):
    text, reason, new, count = reference(prompt, 40)
    client, options = server.client(), {"model": name_of(server), "prompt": prompt, "max_tokens": 40, "temperature": 0}
    done = client.completions.create(**options)
    assert (done.choices[0].text, done.choices[0].finish_reason) == (text, reason)
    assert (done.usage.completion_tokens, done.usage.prompt_tokens) == (new, count)
    pieces = list(client.completions.create(**options, stream=True))
    assert "".join(p.choices[0].text for p in pieces) == text
    assert [p.choices[0].finish_reason for p in pieces if p.choices[0].finish_reason] == [reason]
    assert all("\ufffd" not in p.choices[0].text for p in pieces) or "\ufffd" in text


def test_models(server, folder):
    client = server.client()
    assert name_of(server) == folder.name
    assert client.models.retrieve(folder.name).owned_by == "sambaflow"
    with pytest.raises(openai.NotFoundError, match="there is no model 'gpt-4' here"):
        client.chat.completions.create(model="gpt-4", messages=[{"role": "user", "content": "a"}])


def test_conversation(server, reference):
    """Turn by turn, whole and streamed; later turns keep what was computed."""
    client, model = server.client(), name_of(server)
    messages = [{"role": "system", "content": "Many fish swim in the deep, green sea."}]
    for turn, words in enumerate(["How many swim?", "海", "in it?"]):
        messages.append({"role": "user", "content": words})
        text, reason, new, count = reference(chat_prompt(messages), 12)
        done = client.chat.completions.create(model=model, messages=messages, max_completion_tokens=12, temperature=0)
        choice = done.choices[0]
        assert (choice.message.content, choice.finish_reason, choice.message.role) == (text, reason, "assistant")
        assert (done.usage.completion_tokens, done.usage.prompt_tokens) == (new, count)
        assert turn == 0 or done.usage.prompt_tokens_details.cached_tokens > 10
        options = {"stream": True, "stream_options": {"include_usage": True}}
        pieces = list(client.chat.completions.create(model=model, messages=messages, max_tokens=12, temperature=0, **options))
        assert "".join(p.choices[0].delta.content or "" for p in pieces if p.choices) == text
        assert pieces[-1].usage.completion_tokens == new
        assert pieces[-1].choices == []
        messages.append({"role": "assistant", "content": text})


def test_sampling(server):
    """A seed says the text; n texts differ; without a seed they do."""
    client, model = server.client(), name_of(server)

    def draw(**options):
        done = client.completions.create(model=model, prompt="The sea", max_tokens=12, temperature=2.0, **options)
        return [c.text for c in sorted(done.choices, key=lambda c: c.index)]

    assert draw(seed=3, n=4) == draw(seed=3, n=4)
    assert len(set(draw(seed=3, n=4))) > 1
    assert draw(seed=3, n=1) == draw(seed=3, n=4)[:1]
    assert draw() != draw() or draw() != draw()
    only = draw(seed=1, extra_body={"top_k": 1})
    greedy = client.completions.create(model=model, prompt="The sea", max_tokens=12, temperature=0)
    assert only == [greedy.choices[0].text]


def test_stop(server, reference):
    client, model = server.client(), name_of(server)
    prompts = ["The sea", "A ship", "the", "sail", "of", "a", "in the sea", "wind"]
    prompt, text = max(((p, reference(p, 40)[0]) for p in prompts), key=lambda one: len(one[1]))  # some may end at once
    stop = text[len(text) // 2 : len(text) // 2 + 3]
    done = client.completions.create(model=model, prompt=prompt, max_tokens=40, temperature=0, stop=[stop, "€€"])
    assert done.choices[0].text == text[: text.index(stop)]
    assert done.choices[0].finish_reason == "stop"
    pieces = client.completions.create(model=model, prompt=prompt, max_tokens=40, temperature=0, stop=stop, stream=True)
    assert "".join(p.choices[0].text for p in pieces) == text[: text.index(stop)]


@pytest.mark.parametrize(
    ("options", "param", "words"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools", "tools is not supported here"),
        ({"response_format": {"type": "json_object"}}, "response_format", "response_format is not supported here"),
        ({"frequency_penalty": 0.5}, "frequency_penalty", "leave it out, or give one of"),
        ({"logprobs": True}, "logprobs", "logprobs is not supported here"),
        ({"temperature": -1}, "temperature", "expected a number from 0"),
        ({"extra_body": {"top_kk": 3}}, "top_kk", "did you mean 'top_k'"),
        ({"messages": [{"role": "user", "content": "sea " * 300}]}, "messages", "there is room for 256"),
        ({"messages": []}, "messages", "at least one message"),
    ],
)
def test_refused(options, param, words, server):
    given = {"messages": [{"role": "user", "content": "a"}]} | options
    with pytest.raises(openai.BadRequestError) as refusal:
        server.client().chat.completions.create(model=name_of(server), **given)
    assert refusal.value.param == param
    assert words in refusal.value.message
    assert refusal.value.type == "invalid_request_error"


def test_keys(folder, tmp_path):
    (tmp_path / "keys").write_text("one\ntwo\n")
    server = Server(folder, "--api-key-file", tmp_path / "keys", "--max-request-size", "2K", log=tmp_path / "log")
    try:
        with pytest.raises(openai.AuthenticationError):
            server.client().models.list()
        client = openai.OpenAI(base_url=server.url, api_key="two", max_retries=0)
        assert client.models.list().data[0].id == folder.name
        with pytest.raises(openai.APIStatusError) as refusal:
            client.completions.create(model=folder.name, prompt="a" * 3000)
        assert refusal.value.status_code == 413
    finally:
        server.close()


def test_many(server, reference):
    """Forty at once, some of whom hang up."""
    prompts = draw_prompts(40)
    expected = [reference(prompt, 30)[0] for prompt in prompts]
    model = name_of(server)

    async def ask(client, i):
        options = {"model": model, "prompt": prompts[i], "max_tokens": 30, "temperature": 0}
        if i % 3 == 0:
            return (await client.completions.create(**options)).choices[0].text
        text = ""
        stream = await client.completions.create(**options, stream=True)
        async for piece in stream:
            text += piece.choices[0].text
            if i % 3 == 2 and len(text) > 2:
                await stream.close()
                return None
        return text

    async def ask_all():
        async with openai.AsyncOpenAI(base_url=server.url, api_key="none", max_retries=5) as client:
            return await asyncio.gather(*(ask(client, i) for i in range(40)))

    for i, text in enumerate(asyncio.run(ask_all())):
        assert text is None or text == expected[i], prompts[i]


def test_end(folder, tmp_path):
    """SIGTERM while an answer is on its way: it comes whole, and nobody is let in behind it."""
    server = Server(folder, log=tmp_path / "log")
    stream = server.client().completions.create(
        model=folder.name, prompt="a", max_tokens=200, temperature=1.5, seed=5, stream=True, extra_body={"min_p": 0.01}
    )
    first = next(iter(stream))
    server.process.send_signal(signal.SIGTERM)
    reasons = [p.choices[0].finish_reason for p in [first, *stream] if p.choices[0].finish_reason]
    assert reasons in (["length"], ["stop"])
    assert server.process.wait(60) == 0
    with pytest.raises(openai.APIConnectionError):
        server.client().models.list()


def post(url, body):
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read()


def test_changed_bodies(server):
    """Bytes and values of requests changed at random: an answer, or an error object that says why not."""
    print(f"SAMBAFLOW_SEED={SEED}")
    r = random.Random(f"{SEED} bodies")
    bodies = [
        {"prompt": "The sea", "max_tokens": 3, "temperature": 0.5, "n": 2, "stop": ["a", "b"], "seed": 1, "stream": True},
        {
            "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}],
            "max_tokens": 2,
            "top_p": 0.5,
            "tools": None,
        },
    ]
    values = [None, True, -1, 0, 1, 1e300, "", "a", "\u0000", [], [[]], {}, {"type": "text"}, [1, "a"], 2**62, 2**70, "x" * 5000]
    until = time.monotonic() + 10
    seen = set()
    while time.monotonic() < until:
        which = r.randrange(2)
        body = dict(bodies[which])
        if r.random() < 0.5:
            body[r.choice([*body, "x", "logprobs", "echo", "model"])] = r.choice(values)
        data = bytearray(json.dumps(body, ensure_ascii=r.random() < 0.5).encode())
        for _ in range(r.choice([0, 0, 1, 3])):
            data[r.randrange(len(data))] = r.randrange(256)
        status, answer = post(server.url + ["/completions", "/chat/completions"][which], bytes(data))
        seen.add(status)
        if status != 200:
            assert status in (400, 404), (status, answer, data)
            error = json.loads(answer)["error"]
            assert error["message"] and set(error) == {"message", "type", "param", "code"}, data
    assert {200, 400} <= seen
    assert server.process.poll() is None
