# SPDX-License-Identifier: Apache-2.0
"""`sambaflow prepare` beside the rules written once more (prepare_rules.py): random files and settings give the same arrays. More
of them with PREPARE_DRAWS=500; SAMBAFLOW_SEED draws the same again. Also what is refused, a preparation that is killed and goes
on, and its memory."""

import json
import os
import pathlib
import random
import resource
import signal
import subprocess
import time

import h5py
import pyarrow.parquet as parquet
import pytest
from prepare_rules import Preparation, Settings
from text_library import BUILD
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers.utils.chat_template_utils import render_jinja_template

SEED = int(os.environ.get("SAMBAFLOW_SEED") or random.randrange(1 << 30))
DRAWS = int(os.environ.get("PREPARE_DRAWS", 60))
PROGRAM = os.path.join(BUILD, "sambaflow")
if not os.path.exists(os.path.join(BUILD, "libsambaflow-hdf5.so")):
    pytest.skip("built without HDF5", allow_module_level=True)
WORDS = "the of and a in to model learns words, sequences. Wörter слова 言葉 🎉 x=1 don't 123 \t\" \\ / É\u0301".split(" ")


def text_of(rng, most):
    text = " ".join(rng.choice(WORDS) for _ in range(rng.randint(0, most)))
    return " " * rng.choice([0, 0, 0, 1, 3]) + text + " " * rng.choice([0, 0, 1, 2])


def make_tokenizer(folder, kind, rng):
    """(encode, bos, eos, pad): of GPT-2's kind, of Llama's with BOS and EOS around a text, of BERT's."""
    corpus = [text_of(rng, 40) for _ in range(100)]
    specials = {"gpt2": {"eos": "<|endoftext|>"}, "llama": {"bos": "<s>", "eos": "</s>", "pad": "<pad>"}}
    specials["bert"] = {"bos": "[CLS]", "eos": "[SEP]", "pad": "[PAD]"}
    names = specials[kind]
    if kind == "bert":
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=["[UNK]", *names.values()], show_progress=False)
    else:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=320,
            special_tokens=list(names.values()),
            show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        )
    tokenizer.train_from_iterator(corpus, trainer)
    if kind != "gpt2":
        around = [names["bos"], names["eos"]]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{around[0]} $A {around[1]}", special_tokens=[(name, tokenizer.token_to_id(name)) for name in around]
        )
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {f"{purpose}_token": name for purpose, name in names.items()}
    if kind in CHATS:
        config["chat_template"] = CHATS[kind]
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    ids = {purpose: tokenizer.token_to_id(name) for purpose, name in names.items()}
    encode = lambda text, special: tokenizer.encode(text, add_special_tokens=special).ids
    return encode, ids.get("bos", -1), ids["eos"], ids.get("pad", ids["eos"]), chat_of(kind, config)


CHATS = {
    "gpt2": "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
    "llama": "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'assistant' %}A: {% generation %}{{ m['content'] }}"
    "{{ eos_token }}{% endgeneration %}{% else %}{{ m['role'] }}: {{ m['content'] }}\n{% endif %}{% endfor %}",
}


def chat_of(kind, config):
    """transformers' rendering, with its marks, or with those of the rule where the template has none."""
    tokens = {name: value for name, value in config.items() if name.endswith("_token")}

    def rendered(messages, **how):
        made = render_jinja_template(conversations=[messages], chat_template=CHATS[kind], **tokens, **how)
        return made[0][0], made[1][0] if made[1] else []

    def chat(messages):
        if "generation %" in CHATS[kind]:
            return rendered(messages, return_assistant_tokens_mask=True)
        text, spans = rendered(messages)[0], []
        for i, message in enumerate(messages):
            if message["role"] == "assistant":
                begin, end = rendered(messages[:i], add_generation_prompt=True)[0], rendered(messages[: i + 1])[0]
                assert text.startswith(begin) and text.startswith(end)
                spans.append((len(begin), len(end)))
        return text, spans

    return chat if kind in CHATS else None


def draw_chat(rng):
    roles = ["user", *(rng.choice(["user", "assistant", "system"]) for _ in range(rng.randint(0, 4)))]
    return {"messages": [{"role": role, "content": text_of(rng, 12).strip()} for role in roles]}


def draw_object(rng, s, chats):
    o = {s.completion_keyword: text_of(rng, rng.choice([0, 3, 10, 40]))}
    if chats and rng.random() < 0.3:
        o = draw_chat(rng)
    elif rng.random() < 0.1:
        o = {"text": text_of(rng, 10)}
    elif rng.random() < 0.7:
        o[s.prompt_keyword] = text_of(rng, rng.choice([0, 3, 20, 60]))
    if s.categories is not None and rng.random() < 0.8:
        o["category"] = rng.choice(list(s.categories))
    if rng.random() < 0.2:
        o["other"] = rng.choice([[1, None], 2**64 - 1, -(10**30), {"id": 2**70}])
    return o


BAD = ['{"completion": "a"', "[1]", '{"completion": 5}', "nothing", '{"prompt": "p"}', '"text"', '{"completion": "a"} b', "[[]]"]
BAD.append('{"messages": []}')


def draw_data(rng, s, is_text, skip_bad, chats):
    lines = []
    for _ in range(rng.choice([0, 1, 2, 5, 20, 100])):
        if is_text:
            line = text_of(rng, 30).replace("\n", "").encode()
        elif rng.random() < 0.05:
            line = rng.choice([b"", b"  ", b"\r"])
        elif skip_bad and rng.random() < 0.1:
            line = rng.choice(BAD).encode()
        else:
            value = draw_object(rng, s, chats)
            if rng.random() < 0.4:
                value = [draw_object(rng, s, chats) for _ in range(rng.randint(0, 4))]
            line = json.dumps(value, ensure_ascii=rng.random() < 0.5).encode()
        if rng.random() < 0.05 and len(line) > 20 and is_text:
            line = line[:10] + rng.choice([b"\xff", b"\xe2\x82", b"\xf0\x9f\x98"]) + line[10:]
        elif s.categories is None and rng.random() < 0.05 and line.endswith(b'"}'):
            line = line[:-2] + rng.choice([b"\xff", b"\xe2\x82"]) + b'"}'
        lines.append(line)
    return b"\n".join(lines) + (b"\n" if lines and rng.random() < 0.7 else b"")


def draw_settings(rng, is_text):
    s = Settings(max_seq_length=rng.choice([2, 3, 8, 17, 64, 200, 2048]))
    kind = rng.choice(["full", "greedy", "single"])
    if kind != "full":
        s.input_packing_config = kind + "::" + rng.choice(["drop", "truncate_left", "truncate_right"])
        s.packing_boundary = rng.choice(["jsonl", "prompt_completion_pair"])
    s.attention_boundary = rng.choice(["jsonl", "prompt_completion_pair"])
    s.num_training_splits, s.num_dev_splits, s.num_test_splits = (
        rng.choice([1, 1, 2, 5]),
        rng.choice([0, 1, 3]),
        rng.choice([0, 2]),
    )
    s.no_shuffle = rng.random() < 0.3
    s.seed = 0 if s.no_shuffle else rng.choice([0, 1, 12345678901])
    for part in ("dev", "test"):
        if rng.random() < 0.3:
            setattr(s, part + "_ratio", rng.choice([0.1, 0.25, 0.33]))
    if not is_text:
        s.prompt_keyword, s.completion_keyword = rng.choice(["prompt", "question"]), rng.choice(["completion", "answer"])
        s.prompt_prefix, s.prompt_postfix = rng.choice(["", "Q: "]), rng.choice(["", "\nA:"])
        s.disable_space_separator, s.keep_prompt_only_sequences = rng.random() < 0.3, rng.random() < 0.3
        s.categories = rng.choice([None, None, ["news", "code"], {"news": 7, "code": 0}])
    return s


def command_of(s, source, tokenizer, out, rng):
    command = [PROGRAM, "prepare", "--input_file_path", source, "--pretrained-tokenizer", tokenizer, "--output-path", out]
    defaults = Settings()
    for name, value in vars(s).items():
        option = "--" + (name if rng.random() < 0.5 else name.replace("_", "-"))
        if value == getattr(defaults, name):
            continue
        if name == "categories":
            path = source.with_name("categories.json")
            path.write_text(json.dumps(value))
            command += ["--categories-path", path]
        elif value is True:
            command.append(option)
        else:
            command.append(f"{option}={value}")
    return [str(word) for word in [*command, "--json", "--num-workers", rng.choice([1, 2, 3])]]


def read_part(out, part, files, s):
    result = []
    for i in range(files):
        with h5py.File(out / f"{part}_{i + 1}_of_{files}.hdf5") as file:
            names = ["input_ids", "token_type_ids"] + (["category_ids"] if s.categories is not None else [])
            assert sorted(file) == sorted(names)
            for name in names:
                data = file[name]
                assert data.dtype == "int32" and data.maxshape[0] is None and data.shape[1] == s.max_seq_length
                assert data.compression == "gzip" and data.compression_opts == 4
            result.append([file[name][:].tolist() for name in names])
    return result


def compare(out, expected, s, counts):
    for part, files in expected.parts.items():
        assert len(list(out.glob(f"{part}_*"))) == len(files)
        got = read_part(out, part, len(files), s)
        for i, sequences in enumerate(files):
            for column, values in enumerate(got[i]):
                assert values == [sequence[column] for sequence in sequences], (part, i, column)
        assert counts[f"{part}_sequences"] == sum(map(len, files))
    for i, data in enumerate(expected.tests):
        (path,) = out.glob(f"test_{i + 1}_of_{len(expected.tests)}.*")
        assert path.read_bytes() == data
    assert counts["bad_lines"] == expected.bad and counts["articles"] == expected.articles
    assert not (out / ".prepare").exists()


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizers")
    rng = random.Random(5)
    return {kind: (folder / kind, make_tokenizer(folder / kind, kind, rng)) for kind in ("gpt2", "llama", "bert")}


@pytest.mark.parametrize("draw", range(DRAWS))
def test_rules(draw, tokenizers, tmp_path):
    print(f"SAMBAFLOW_SEED={SEED} draw {draw}")
    rng = random.Random(SEED * 1000003 + draw)
    kind = rng.choice(list(tokenizers))
    folder, (encode, bos, eos, pad, chat) = tokenizers[kind]
    is_text, skip_bad = rng.random() < 0.3, rng.random() < 0.3
    s = draw_settings(rng, is_text)
    source = tmp_path / ("in.txt" if is_text else "in.jsonl")
    source.write_bytes(draw_data(rng, s, is_text, skip_bad, chat))
    expected = Preparation(source.read_bytes(), is_text, encode, bos, eos, pad, s, chat)
    command = command_of(s, source, folder, tmp_path / "out", rng) + ["--skip-bad"] * skip_bad
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stderr)
    compare(tmp_path / "out", expected, s, json.loads(done.stdout))


# ---- Parquet ----
def write_parquet(path, rows, rng):
    """The same rows as columns, of types and in groups that a random number generator takes."""
    import pyarrow

    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {}
    for name in names:
        column = pyarrow.array([row.get(name) for row in rows])
        if pyarrow.types.is_string(column.type):
            kind = rng.choice([column.type, pyarrow.large_string(), pyarrow.dictionary(pyarrow.int32(), pyarrow.string())])
            column = column.cast(kind)
        columns[name] = column
    how = {"compression": rng.choice(["none", "snappy", "zstd"]), "row_group_size": rng.choice([1, 3, 50, 1000])}
    parquet.write_table(pyarrow.table(columns), path, **how)
    return names


@pytest.mark.parametrize("number", range(8))
def test_parquet(number, tokenizers, tmp_path):
    """The files are those of the rows as jsonl, of the tests' lines, too; a second call finds them done."""
    from sambaflow.prepare import prepare as prepare_python

    rng = random.Random(SEED + number)
    print(f"SAMBAFLOW_SEED={SEED + number}")
    prompt, completion = rng.choice([("prompt", "completion"), ("question", "the.answer")])
    kinds = [["completion"], ["prompt", "completion"], ["text"], ["messages"], ["prompt", "completion", "text", "messages"]]
    members, rows = rng.choice(kinds), []
    for _ in range(rng.choice([0, 1, 2, 300])):
        row = {}
        if "messages" in members and (len(members) == 1 or rng.random() < 0.3):
            row = draw_chat(rng)
        elif "text" in members and (len(members) == 1 or rng.random() < 0.3):
            row["text"] = text_of(rng, 20)
        else:
            row = {completion: text_of(rng, 20)}
            if "prompt" in members and rng.random() < 0.8:
                row[prompt] = text_of(rng, 10)
        rows.append(row | {"other": rng.random()})
    if not rows:
        rows = [{completion: None, "other": 1.0}]
    names = [name for name in write_parquet(tmp_path / "in.parquet", rows, rng) if name != "other"]
    lines = [json.dumps({name: row[name] for name in names if row.get(name) is not None}, ensure_ascii=False) for row in rows]
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    options = {"max_seq_length": 64, "dev_ratio": 0.2, "test_ratio": 0.2, "skip_bad": True}
    options |= {"prompt_keyword": prompt, "completion_keyword": completion, "seed": rng.randrange(100)}
    made = []
    for kind in ("jsonl", "parquet"):
        out = tmp_path / kind
        made.append(prepare_python(tmp_path / f"in.{kind}", tokenizers["llama"][0], out, **options))
        assert prepare_python(str(tmp_path / f"in.{kind}"), tokenizers["llama"][0], out, **options)["resumed"]
    assert made[0] == made[1]
    assert contents(tmp_path / "jsonl") == contents(tmp_path / "parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "in.parquet", "jsonl", "parquet"]


def test_parquet_refused(tokenizers, tmp_path):
    import pyarrow

    from sambaflow import errors
    from sambaflow.prepare import prepare as prepare_python

    path, tokenizer = tmp_path / "in.parquet", tokenizers["gpt2"][0]

    def refused(kind, said, columns=None, data=None):
        if columns is not None:
            parquet.write_table(pyarrow.table(columns), path)
        elif data is not None:
            path.write_bytes(data)
        with pytest.raises(kind) as error:
            prepare_python(path, tokenizer, tmp_path / "out")
        assert said in str(error.value) and "rows-" not in str(error.value), error.value
        assert [name.name for name in tmp_path.iterdir() if name.name != "out"] in ([], ["in.parquet"])

    refused(errors.FileError, "cannot read")
    refused(errors.FormatError, 'there is no column "completion", "text" or "messages"; its columns are "a"', {"a": ["x"]})
    refused(errors.FormatError, 'column "text" is of type int64: expected string', {"text": [1, 2]})
    refused(errors.FormatError, 'column "messages" is of type string: expected list of struct', {"messages": ["x"]})
    refused(errors.FormatError, "in.parquet, row 2: there is no member", {"completion": ["x", None]})
    refused(errors.FormatError, "pyarrow cannot read it", data=b"PAR1 nothing of the kind PAR1")
    refused(errors.FormatError, "pyarrow cannot read it", data=b"")
    told = prepare(path, tokenizer, tmp_path / "out", check=False)
    assert "Parquet is read from Python alone, by sambaflow.prepare.prepare with pyarrow" in told


# ---- what is refused ----
def prepare(source, tokenizer, out, *words, check=True, **how):
    command = [PROGRAM, "prepare", "-i", source, "-t", tokenizer, "-o", out, "--json", *words]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **how)
    assert done.returncode == 0 or not check, done.stderr
    return json.loads(done.stdout) if check else done.stderr


GOOD = b'{"completion": "the model learns"}\n'
REFUSED = [
    (GOOD * 3 + b'{"completion": "x"\n' + GOOD, [], "in.jsonl, line 4: "),
    (GOOD + b'{"prompt": "x"}\n', [], 'line 2: there is no member "completion"'),
    (GOOD + b'{"prompt": 3, "completion": "x"}\n', [], 'line 2: no string is the member "prompt"'),
    (GOOD + b'{"messages": 3}\n', [], 'line 2: "messages" is no list'),
    (GOOD, ["--vocab-size", "3"], "vocabulary's size, 3"),
    (GOOD, ["--packing-boundary", "prompt_completion_pair"], "has no effect with the packing full"),
    (GOOD, ["--no-shuffle", "--seed", "3"], "seed has no effect without a shuffle"),
    (GOOD, ["--dev-ratio", "0.6", "--test-ratio", "0.5"], "is less than 1"),
    (GOOD, ["--eos-token", "<nothing>"], 'the tokenizer has no token "<nothing>"'),
    (b'"' + b"x" * 3000000 + b'"', ["--memory", "67108864"], "in.jsonl, line 1: longer than 2097152 bytes"),
]


@pytest.mark.parametrize("data,words,message", REFUSED)
def test_refused(data, words, message, tokenizers, tmp_path):
    (tmp_path / "in.jsonl").write_bytes(data)
    told = prepare(tmp_path / "in.jsonl", tokenizers["llama"][0], tmp_path / "out", *words, check=False)
    assert message in told and told.count("\n") <= 3
    assert not list((tmp_path / "out").glob("*.hdf5"))


def test_folders(tokenizers, tmp_path):
    """The same call finds its work done; another one is told of it, and may overwrite it. Foreign files stay."""
    source, tokenizer, out = tmp_path / "in.jsonl", tokenizers["gpt2"][0], tmp_path / "out"
    source.write_bytes(GOOD * 5)
    first = prepare(source, tokenizer, out, "--max-seq-length", "16")
    again = prepare(source, tokenizer, out, "--max-seq-length", "16")
    assert not first["resumed"] and again["resumed"] and first["train_sequences"] == again["train_sequences"] > 0
    assert "is not empty" in prepare(source, tokenizer, out, check=False)
    (out / "notes").write_text("mine")
    prepare(source, tokenizer, out, "--overwrite-output-path")
    assert (out / "notes").read_text() == "mine"
    sums = dict(reversed(line.split("  ")) for line in (out / "checksums.txt").read_text().splitlines())
    assert {"train_1_of_1.hdf5", "metadata.yaml", "tokenizer/tokenizer.json", "tokenizer/tokenizer_config.json"} == set(sums)
    assert all(word.startswith("XXH3_") and len(word) == 21 for word in sums.values())
    assert "Parquet" in prepare(tmp_path / "a.parquet", tokenizer, out, check=False)
    assert "must end in .jsonl" in prepare(tmp_path / "a.csv", tokenizer, out, check=False)


# ---- larger files ----
@pytest.fixture(scope="module")
def large(tmp_path_factory):
    rng = random.Random(9)
    path = tmp_path_factory.mktemp("large") / "in.jsonl"
    lines = [json.dumps({"prompt": text_of(rng, 20), "completion": text_of(rng, 60)}) + "\n" for _ in range(2000)]
    with path.open("w") as file:
        for _ in range(80000):
            file.write(rng.choice(lines))
    return path


def contents(out):
    return {path.relative_to(out): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


HOW = ["--max-seq-length", "512", "--num-dev-splits", "1", "--num-training-splits", "3", "--num-test-splits", "1"]


def test_killed(large, tokenizers, tmp_path):
    """Killed at random moments until it gets through: the files of one that nobody killed, and no others before."""
    rng = random.Random(SEED)
    print(f"SAMBAFLOW_SEED={SEED}")
    tokenizer, kills = tokenizers["gpt2"][0], int(os.environ.get("PREPARE_KILLS", 5))
    start = time.time()
    prepare(large, tokenizer, tmp_path / "whole", *HOW)
    whole, seconds = contents(tmp_path / "whole"), time.time() - start
    killed = resumed = attempts = 0
    while killed < kills:
        out = tmp_path / f"out{attempts}"  # of its own: what got through unkilled would be found done, and nothing be killed
        attempts += 1
        while True:
            words = [PROGRAM, "prepare", "-i", large, "-t", tokenizer, "-o", out, "--json", *HOW, "--memory", "100000000"]
            child = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE)
            try:
                told, _ = child.communicate(timeout=rng.uniform(0.05, seconds))
                assert child.returncode == 0
                resumed += json.loads(told)["resumed"]
                break
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGKILL)
                child.communicate()
                killed += 1
            for name, data in contents(out).items() if out.exists() else ():
                assert name.parts[0] == ".prepare" or whole.get(name) == data or name.name.endswith(".tmp"), name
        assert {name: data for name, data in contents(out).items() if not name.name.endswith(".tmp")} == whole
    assert resumed > 0


def test_memory_and_threads(large, tokenizers, tmp_path):
    """Memory is bounded for a file that is larger than the bound; threads, memory and buckets change no byte."""
    source = tmp_path / "in.jsonl"
    source.write_bytes(large.read_bytes() * 3)
    size = source.stat().st_size
    assert size > 67108864
    words = [PROGRAM, "prepare", "-i", source, "-t", tokenizers["gpt2"][0], *HOW]
    for name, more in (("one", ["--num-workers", "1", "--memory", "67108864"]), ("two", ["--num-workers", "2"])):
        child = subprocess.Popen([str(word) for word in [*words, "-o", tmp_path / name, *more]], stdout=subprocess.DEVNULL)
        most = 0
        while child.poll() is None:  # the greatest resident set of wait4 would be that of this process
            status = pathlib.Path(f"/proc/{child.pid}/status").read_text()
            most = max([most] + [int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")])
            time.sleep(0.002)
        assert child.returncode == 0
        print(f"{name}: {size} bytes of input, {most} of memory")
        assert name != "one" or most < 67108864
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_full_disk(large, tokenizers, tmp_path):
    """A file that may not grow, as on a full disk: a message, no file under a final name, and the same call goes on."""
    tokenizer, out = tokenizers["gpt2"][0], tmp_path / "out"

    def limit(most):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    prepare(large, tokenizer, tmp_path / "whole", *HOW)
    largest = max(path.stat().st_size for path in (tmp_path / "whole").glob("*.hdf5"))
    for most in (100000, largest // 4, largest - 1):  # what lies on the disk meanwhile is larger
        told = prepare(large, tokenizer, out, *HOW, check=False, preexec_fn=lambda most=most: limit(most))
        assert "cannot write" in told, most
        assert not list(out.glob("*.hdf5")) or most == largest - 1
    assert prepare(large, tokenizer, out, *HOW)["resumed"]
    assert contents(out) == contents(tmp_path / "whole")


def test_hdf5_read(tmp_path):
    """run --input takes a dataset: of the input's name, or named behind a colon; what is no such file is told of."""
    import numpy

    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["x"] = numpy.arange(6, dtype="float32").reshape(2, 3)
        file.create_dataset("g/y", data=numpy.ones((2, 3), ">f4"), compression="gzip", shuffle=True)
        file["bad"] = "text"
        file["soft"] = h5py.SoftLink("/x")
        file["ext"] = h5py.ExternalLink("/etc/passwd", "x")
        file.create_dataset("huge", shape=(1 << 40,), dtype="int32", chunks=(1024,))
        file["flag"] = numpy.array([True, False])
        file["half"] = numpy.array([1.5, -2], "float16")
    library = _library()
    assert library(tmp_path / "a.hdf5", "x") == (0, "")
    for name, said in (
        ("g/y", ""),
        ("flag", ""),
        ("half", ""),
        ("nothing", "no dataset 'nothing'"),
        ("g", "it is no dataset"),
        ("bad", "supported are int8"),
        ("soft", "a link to elsewhere"),
        ("ext", "a link to elsewhere"),
        ("huge", "larger than"),
    ):
        status, message = library(tmp_path / "a.hdf5", name)
        assert (status == 0) == (not said) and said in message, (name, message)
    (tmp_path / "b.hdf5").write_bytes(b"nothing of the kind")
    assert "no HDF5 file" in library(tmp_path / "b.hdf5", "x")[1]
    whole, rng = (tmp_path / "a.hdf5").read_bytes(), random.Random(SEED)
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        (tmp_path / "c.hdf5").write_bytes(data[: rng.choice([len(data), rng.randrange(len(data))])])
        library(tmp_path / "c.hdf5", rng.choice(["x", "g/y", "half", "flag"]))


def test_run_input(tmp_path):
    """sambaflow run takes a dataset of the input's name, or another one behind a colon, as it takes an .npy file."""
    import numpy

    logreg, pef = os.path.join(BUILD, "examples", "logreg"), tmp_path / "m" / "m.pef"
    if not os.path.exists(logreg):
        pytest.skip("built without examples")
    subprocess.run(
        [logreg, "compile", "-b", "4", "--inference", "--output-folder", tmp_path, "--pef-name", "m"], check=True, stdout=-3
    )
    image, label = numpy.random.default_rng(SEED).random((4, 784), "float32"), numpy.arange(4)
    numpy.save(tmp_path / "image.npy", image)
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file.create_dataset("image", data=image, compression="gzip", chunks=(3, 100))
        file["more/pictures"] = image
        file["label"] = label
    results = []
    for given in ("image.npy", "a.hdf5", "a.hdf5:more/pictures"):
        words = [PROGRAM, "run", pef, "--input", f"image={tmp_path / given}", "--input", f"label={tmp_path / 'a.hdf5'}"]
        subprocess.run([*words, "--output", f"logits={tmp_path / 'logits.npy'}"], check=True, stdout=-3)
        results.append((tmp_path / "logits.npy").read_bytes())
    assert results[0] == results[1] == results[2]


def _library():
    import ctypes

    c = ctypes.CDLL(os.path.join(BUILD, "libsambaflow.so"))
    c.samba_error_message.restype = ctypes.c_char_p
    c.samba_error_message.argtypes = c.samba_tensor_free.argtypes = [ctypes.c_void_p]
    c.samba_hdf5_read.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p]
    context = ctypes.c_void_p()
    c.samba_context_new(None, ctypes.byref(context))

    def read(path, name):
        tensor = ctypes.c_void_p()
        status = c.samba_hdf5_read(context, os.fsencode(path), name.encode(), ctypes.byref(tensor))
        message = c.samba_error_message(context).decode() if status else ""
        c.samba_tensor_free(tensor)
        return status, message

    return read


def test_no_template(tokenizers, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"messages": [{"role": "user", "content": "a"}]}\n')
    assert "needs a chat template" in prepare(tmp_path / "in.jsonl", tokenizers["bert"][0], tmp_path / "out", check=False)


def test_python(tokenizers, tmp_path):
    """The package's function gives what the program gives."""
    import sambaflow.prepare as python

    source, tokenizer = tmp_path / "in.jsonl", tokenizers["llama"][0]
    source.write_bytes(GOOD * 50)
    words = {"max_seq_length": 16, "seed": 3, "input_packing_config": "greedy::drop", "num_dev_splits": 1}
    counts = python.prepare(source, tokenizer, tmp_path / "a", attention_boundary="prompt_completion_pair", **words)
    options = [f"--{name}={value}" for name, value in words.items()]
    told = prepare(source, tokenizer, tmp_path / "b", "--attention_boundary=prompt_completion_pair", *options)
    assert contents(tmp_path / "a") == contents(tmp_path / "b") and counts.items() <= told.items()
    with pytest.raises(TypeError, match="unexpected keyword argument 'length'"):
        python.prepare(source, tokenizer, tmp_path / "c", length=3)
    with pytest.raises(ValueError, match="expected one of full"):
        python.prepare(source, tokenizer, tmp_path / "c", input_packing_config="greedy")
    with pytest.raises(ValueError, match="seed has no effect without a shuffle"):
        python.prepare(source, tokenizer, tmp_path / "c", shuffle=False, seed=2)
