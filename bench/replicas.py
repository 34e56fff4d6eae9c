# SPDX-License-Identifier: Apache-2.0
"""make bench-replicas: two replicas beside DistributedDataParallel (gloo), on the same work, each process with one thread.

A case is trained from the same weights on the same samples: by replicas in each mode, by two processes that exchange nothing, and
by PyTorch in both ways. First the losses of replicas and of DistributedDataParallel must agree. Then all take turns, each time in
another order. Rates of both processes are added, and compared with those of the same round. At last steps of the same two
processes take turns, with an exchange and without (`sambaflow scale --measure`), which tells them apart where a machine is not
the same from one second to the next. It should have nothing else to do.

Usage: replicas.py BUILD_FOLDER [--mpi openmpi] [--steps N] [--timed N] [--rounds N] [CASE ...]
  CASE ...     lenet, gpt; all
  --steps N    losses that must agree (100)
  --timed N    last steps of a turn that are timed (10)
  --rounds N   turns of each (7)
  --mpi MPI    which starts the replicas: openmpi (the usual one) or mpich"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SIZE = 2
TOLERANCE = 1e-4  # of losses, relative to the greater of loss and 1
CASES = {
    "lenet": {
        "example": "lenet",
        "settings": {},
        "batch": 256,
        "words": ["--optimizer", "sgd", "--lr", "0.001", "--momentum", "0.9"],
        "optimizer": {"lr": 0.001, "momentum": 0.9},
    },
    "gpt": {
        "example": "gpt2",
        "settings": {"n_layer": 6, "n_head": 6, "n_embd": 384, "block_size": 64, "vocab_size": 256},
        "batch": 8,
        "words": ["--optimizer", "adamw", "--lr", "3e-4", "--beta1", "0.9", "--beta2", "0.95", "--weight-decay", "0.01"]
        + ["--max-grad-norm", "1"],
        "max_grad_norm": 1.0,
        "optimizer": {"lr": 3e-4, "betas": (0.9, 0.95), "weight_decay": 0.01},
    },
}
WARM_UP = 3  # steps of a turn
SAME_BITS = 20  # losses that all modes have alike
MODES = ["normal", "inorder", "optimal"]
WAYS = [*MODES, "side by side", "DDP", "torch side by side"]


# ---- one process ----


def samples(case, rank):
    """One replica's batch, by its rank."""
    import numpy as np

    random, batch, settings = np.random.default_rng(rank), case["batch"], case["settings"]
    if "vocab_size" in settings:
        words = random.integers(settings["vocab_size"], size=(batch, settings["block_size"] + 1))
        return {"input": words[:, :-1].copy(), "label": words[:, 1:].copy()}
    return {"image": random.normal(size=(batch, 1, 28, 28)).astype("float32"), "label": random.integers(10, size=batch)}


def ours(job):
    from sambaflow.runtime import Session, Tensor, replicas

    together = job["way"] != "side by side"
    rank = replicas().rank if together else job["rank"]
    session = Session(job["pef"], threads=1, data_parallel=together)
    if job["weights"]:
        session.load(job["weights"])
    shapes = session.tensors
    inputs = [Tensor.wrap(name, x.reshape(shapes[name][2])) for name, x in samples(job["case"], rank).items()]
    loss = Tensor.zeros("loss", "float32", ())
    said = {"data_parallel": True, "data_parallel_mode": job["way"]} if together else {}

    def step():
        session.run(inputs, [loss], **said)
        return loss.tolist()

    return rank, step


def torchs(job):
    import torch
    from models import make
    from protocol import read_safetensors
    from torch.nn.parallel import DistributedDataParallel

    rank, case = job["rank"], job["case"]
    torch.set_num_threads(1)
    model, weights = make(case["example"], case["settings"]), read_safetensors(job["weights"])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(weights[name]))
    kind = torch.optim.AdamW if "betas" in case["optimizer"] else torch.optim.SGD
    optim = kind(model.parameters(), fused=True, **case["optimizer"])
    inputs = {name: torch.from_numpy(x) for name, x in samples(case, rank).items()}
    if job["way"] == "DDP":
        torch.distributed.init_process_group("gloo", init_method=f"file://{job['folder']}/gloo", rank=rank, world_size=SIZE)
        model = DistributedDataParallel(model)

    def step():
        optim.zero_grad(set_to_none=True)
        loss = model(**inputs)
        loss.backward()
        if "max_grad_norm" in case:
            torch.nn.utils.clip_grad_norm_(model.parameters(), case["max_grad_norm"])
        optim.step()
        return loss.item()

    return rank, step


def work(job):
    """Steps, the last of which are timed; writes losses and milliseconds to a file of this rank."""
    rank, step = (torchs if job["way"] in ("DDP", "torch side by side") else ours)(job)
    folder, losses, times = pathlib.Path(job["folder"]), [step()], []
    (folder / f"ready.{rank}").touch()
    while not all((folder / f"ready.{other}").exists() for other in range(SIZE)):
        time.sleep(0.001)
    for _ in range(job["steps"] - 1):
        begin = time.perf_counter()
        losses.append(step())
        times.append(1e3 * (time.perf_counter() - begin))
    (folder / f"{rank}.json").write_text(json.dumps({"losses": losses, "ms": times[-job["timed"] :]}))
    if job["way"] == "DDP":
        os._exit(0)  # threads of gloo may outlive the interpreter


# ---- all ----


def measured(way, job, launch):
    """[{losses, ms} of each rank]"""
    with tempfile.TemporaryDirectory() as folder:
        job = {**job, "way": way, "folder": folder}
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--work"]
        if way in MODES:
            done = [subprocess.Popen([*launch, *command, json.dumps(job)], env=environment)]
        else:
            environment["SAMBAFLOW_MPI"] = "off"
            done = [subprocess.Popen([*command, json.dumps({**job, "rank": rank})], env=environment) for rank in range(SIZE)]
        if any([process.wait() for process in done]):
            raise SystemExit(f"{way}: a process has failed")
        return [json.loads((pathlib.Path(folder) / f"{rank}.json").read_text()) for rank in range(SIZE)]


def apart(found, others):
    """The greatest difference of losses, relative to the greater of loss and 1."""
    pairs = [pair for x, y in zip(found, others) for pair in zip(x["losses"], y["losses"])]
    return max(abs(x - y) / max(abs(y), 1) for x, y in pairs)


def in_turns(pef, launch, build):
    """The rate of each mode over that without exchanges, of steps that take turns in the same processes."""
    words = f"--measure --threads 1 --replicas {SIZE} --mode {','.join(MODES)} --num-iterations 20 --json".split()
    done = subprocess.run([*launch, f"{build}/sambaflow", "scale", pef, *words], check=True, capture_output=True, text=True)
    said = json.loads(done.stdout)
    return {row["mode"]: said["alone_ms"] / row["measured_ms"] for row in said["rows"]}


def compared(name, options, launch):
    case, build = CASES[name], options.build
    with tempfile.TemporaryDirectory() as folder:
        words = [f"--{key.replace('_', '-')}={value}" for key, value in case["settings"].items()]
        words += ["--dropout", "0"] if case["example"] == "gpt2" else []
        program = [f"{build}/examples/{case['example']}", "compile", "-b", str(case["batch"]), *words, *case["words"]]
        for pef, more in (("together", ["--data-parallel"]), ("alone", [])):
            subprocess.run([*program, *more, "-p", f"{folder}/{pef}.pef"], check=True, stdout=subprocess.DEVNULL)
        from sambaflow.runtime import Session

        weights = f"{folder}/weights.safetensors"
        Session(f"{folder}/together.pef", threads=1).save(weights, with_state=False)

        def turn(way, steps):
            pef = f"{folder}/{'alone' if way == 'side by side' else 'together'}.pef"
            return measured(way, {"case": case, "pef": pef, "weights": weights, "steps": steps, "timed": options.timed}, launch)

        steps = {"normal": options.steps, "inorder": SAME_BITS, "optimal": SAME_BITS, "DDP": options.steps}
        found = {way: turn(way, count) for way, count in steps.items()}
        rates = {way: [] for way in WAYS}
        for number in range(options.rounds):
            for i in range(len(WAYS)):
                way = WAYS[(i + number) % len(WAYS)]
                rates[way].append(
                    sum(1e3 * case["batch"] / statistics.median(x["ms"]) for x in turn(way, options.timed + WARM_UP))
                )
        turns = in_turns(f"{folder}/together.pef", launch, build)
    print(f"\n{name}: batch {case['batch']} of each of {SIZE} processes, one thread each; samples/s of both, medians of turns\n")

    def of(way, other):
        return statistics.median(x / y for x, y in zip(rates[way], rates[other]))

    for way in WAYS:
        alone = "torch side by side" if way in ("DDP", "torch side by side") else "side by side"
        print(
            f"  {way:20s} {statistics.median(rates[way]):9.1f}, best {max(rates[way]):9.1f}  {of(way, alone):6.1%} of no exchange"
            f"  {of(way, 'DDP'):5.2f} x DDP"
        )
    print("  steps in turns in the same processes: " + ", ".join(f"{mode} {share:.1%}" for mode, share in turns.items()))
    for way in ("inorder", "optimal"):
        if apart(found[way], found["normal"]) != 0:
            raise SystemExit(f"{name}: losses of mode {way} are not the bits of mode normal")
    far = apart(found["normal"], found["DDP"])
    print(
        f"  losses of {len(found['DDP'][0]['losses'])} steps: at most {far:.1e} from DDP's, relative to the greater of loss and 1"
    )
    if not far <= TOLERANCE:
        raise SystemExit(f"{name}: losses are further from DDP's than {TOLERANCE}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="CASE")
    parser.add_argument("--mpi", default="openmpi", choices=("openmpi", "mpich"))
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--timed", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"there is no case {unknown[0]}: expected {', '.join(CASES)}")
    build = os.path.abspath(options.build)
    if not shutil.which(f"mpirun.{options.mpi}") or not os.path.exists(f"{build}/libsambaflow-mpi-{options.mpi}.so"):
        parser.error(f"there is no {options.mpi}, or no plugin for it in {build}: install it and build again")
    launch = [str(HERE.parent / "tests" / "parallel" / "launch.sh"), options.mpi, str(SIZE), build]
    for name in options.cases:
        compared(name, options, launch)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(json.loads(sys.argv[2]))
    else:
        main()
