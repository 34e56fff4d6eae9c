# SPDX-License-Identifier: Apache-2.0
"""What a program's arguments say of its session. A program tells it once: `parse_app_args` hands over the command line,
`session.setup` any other object, and compile may be given `config_dict`; what a call is told itself wins over all of them, then
config_dict, then setup, then the command line.

The arguments of a command line are read when they are needed, since programs change them after parsing. An option of the
application's own that took the name of a built-in one counts where its value is of the built-in one's kind; else it means
something else.

>>> from types import SimpleNamespace
>>> found = Settings()
>>> found.take(SimpleNamespace(command="compile", pef_name="digits", mapping="section", width=3))
>>> found.set_up({"mapping": "spatial"})
>>> found.chosen("compile", {"pef_name": "words"}, mapping=None, pef_name=None, precision=None, data_parallel=None)
{'mapping': 'spatial', 'pef_name': 'words', 'precision': 'fp32', 'data_parallel': False}
"""

import os
import tempfile

from sambaflow import errors, launch
from sambaflow.runtime import Session
from sambaflow.runtime import replicas as joined
from sambaflow.samba import nominal, trees
from sambaflow.samba.arguments import DATA_PARALLEL_MODES, MAPPINGS, REDUCE_DTYPES, check_data_parallel, one_of
from sambaflow.samba.keywords import UNSAID_NORMAL, is_said, said

PRECISIONS = ("fp32", "bf16")
OF_COMPILE = {
    "inference": False,
    "output_folder": "out",
    "pef_name": None,
    "precision": "fp32",
    "grad_accumulation_steps": 1,
    "memory_budget": 0,
    "mapping": "section",
    "fast_memory": 0,
    "data_parallel": False,
}
KINDS = {
    "pef": str,
    "seed": int,
    "threads": int,
    "data_parallel": bool,
    "reduce_on_rdu": bool,
    "data_parallel_mode": str,
    "shard_optimizer": bool,
    "reduce_dtype": str,
    "world_size": int,
    "reuse_inputs": list,
    "command": str,
    "batch_size": int,
    "microbatch_size": int,
    "pef_name": str,
    **{name: type(value) for name, value in OF_COMPILE.items() if value is not None},
}
_OF_SETUP = ("pef", "seed", "threads", "reduce_on_rdu", "data_parallel_mode", "shard_optimizer", "reduce_dtype")
_OF_SETUP += ("reuse_inputs", *OF_COMPILE)
_WORDS = {"mapping": MAPPINGS, "precision": PRECISIONS, "data_parallel_mode": DATA_PARALLEL_MODES, "reduce_dtype": REDUCE_DTYPES}


def read(args, what, names, own=()):
    """{name: value} of those names that `args` has: attributes of anything (argparse's namespace, a pydantic model), keys of a
    dict, also one level down, where a part such as `args.run` has them. None counts as not there;
    a wrong kind is refused but in `own`."""
    whole = args if isinstance(args, dict) else getattr(args, "__dict__", None)
    if whole is None:
        raise errors.ArgumentTypeError(f"{what}: expected an object with attributes or a dict, given {type(args).__name__}")
    parts = [part if isinstance(part, dict) else getattr(part, "__dict__", {}) for part in whole.values()]
    found = {}
    for source in (*parts, whole):  # the outer one counts
        for name in names:
            value, kind = source.get(name), KINDS[name]
            if value is None:
                continue
            if kind is str and isinstance(value, os.PathLike):
                value = os.fspath(value)
            fits = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
            if name in own and (not fits or (name in _WORDS and value not in _WORDS[name])):
                continue
            if not fits:
                raise errors.ArgumentTypeError(f"{what}: {name} is {value!r:.100}: expected {kind.__name__}")
            if name in _WORDS:
                one_of(f"{what}: {name}", value, _WORDS[name])
            found[name] = value
    return found


class Settings:
    """Of one session."""

    def __init__(self):
        self.of_setup = {}
        self.of_replicas = {}  # what a run asks for, where there is something
        self._mode, self._distributed = UNSAID_NORMAL, False  # what trace_graph was told
        self._args, self._own, self._given = None, frozenset(), frozenset()

    def set_up(self, args):
        """session.setup."""
        self.of_setup = read(args, "setup", _OF_SETUP)
        self._note_replicas()

    def take(self, args, own=(), given=()):
        """A command line: its namespace, the names of options that are the application's own, and those that were given."""
        self._args, self._own, self._given = args, frozenset(own), frozenset(given)
        self._note_replicas()

    def is_taken(self, args):
        """Whether it is the command line that counts."""
        return self._args is args

    def _note_replicas(self):
        found = {**self._line("data_parallel", "reduce_on_rdu", "data_parallel_mode"), **self.of_setup}
        usual = {"data_parallel": False, "reduce_on_rdu": False, "data_parallel_mode": "normal"}
        self.of_replicas = {name: found[name] for name, value in usual.items() if found.get(name, value) != value}
        if self._distributed:
            self.of_replicas["data_parallel"] = True

    def _line(self, *names):
        return {} if self._args is None else read(self._args, "the application's arguments", names, self._own)

    @property
    def seed(self):
        """What the command line or setup says; None: neither does."""
        return self.of_setup.get("seed", self._line("seed").get("seed") if "seed" in self._given else None)

    # ---- replicas ----

    def traced(self, mode, distributed):
        """What trace_graph was told of replicas."""
        self._mode, self._distributed = mode, distributed
        self._note_replicas()

    def session(self, pef, seed, distributed=False):
        """A session of the PEF, of one of several replicas where that was said."""
        threads, replicas = self.of_setup.get("threads", 0), distributed or self.of_replicas.get("data_parallel", False)
        self._check_size(replicas)
        how = {**self._line("shard_optimizer", "reduce_dtype"), **self.of_setup}
        shards, dtype = how.get("shard_optimizer", False), how.get("reduce_dtype")
        return Session(
            pef,
            seed=seed,
            threads=threads,
            data_parallel=replicas,
            shard_optimizer=shards,
            reduce_dtype=dtype,
            reuse_inputs=self.of_setup.get("reuse_inputs", ()),
        )

    def _check_size(self, data_parallel):
        """--world-size says how many the program expects; MPI, how many there are."""
        expected = self._line("world_size").get("world_size", 1) if "world_size" in self._given else None
        if expected is None:
            return
        if not data_parallel and expected != 1:
            raise errors.ArgumentError(
                f"--world-size {expected} says how many replicas train together: it means nothing without --data-parallel"
            )
        if data_parallel and joined().size != expected:
            raise errors.ArgumentError(
                f"--world-size is {expected}, and {joined().size} replicas were started: start it by `mpirun -n {expected}`, or "
                "leave --world-size out"
            )

    def replicas(self, data_parallel, reduce_on_rdu, mode):
        """(data_parallel, reduce_on_rdu, data_parallel_mode) of a run that was told these; None: there is one replica."""
        alone = is_said(data_parallel) and data_parallel is False
        of, told = {} if alone else self.of_replicas, mode
        data_parallel = said(data_parallel, of.get("data_parallel", False))
        reduce_on_rdu = said(reduce_on_rdu, of.get("reduce_on_rdu", False))
        if not is_said(mode):
            mode = self._mode if data_parallel is True and is_said(self._mode) else of.get("data_parallel_mode", "normal")
        check_data_parallel("run", data_parallel, reduce_on_rdu, mode)
        if data_parallel and is_said(told) and is_said(self._mode) and told != self._mode:
            raise errors.ArgumentError(
                f"run: data_parallel_mode is {told!r}, and trace_graph was told {self._mode!r}: give both the same"
            )
        return (True, reduce_on_rdu, mode) if data_parallel else None

    # ---- running ----

    def pef_to_run(self, loaded):
        """What trace_graph loads where it is not told;
        of the command line only where nothing is loaded, and not the file that compile writes."""
        line = {} if loaded else self._line("pef", "command")
        return self.of_setup.get("pef") or ("" if line.get("command") == "compile" else line.get("pef", ""))

    def mapping(self, asked):
        """That of a call which was told `asked`."""
        if asked and is_said(asked):
            return asked
        return self.of_setup.get("mapping") or self._line("mapping").get("mapping") or "section"

    # ---- compiling ----

    def chosen(self, call, config_dict, **told):
        """{name: value} of `told`, where None leaves it to config_dict and the arguments."""
        config = {} if config_dict is None else read(config_dict, f"{call}: config_dict", told, self._own)
        found = {**self._line(*told), **self.of_setup, **config}
        chosen = {name: found.get(name, OF_COMPILE[name]) if value is None else value for name, value in told.items()}
        names = "reduce_on_rdu", "data_parallel_mode"
        how = {"reduce_on_rdu": False, "data_parallel_mode": "normal", **self.of_replicas}
        if config_dict is not None:
            how.update(read(config_dict, f"{call}: config_dict", names, self._own))
        check_data_parallel(call, chosen["data_parallel"], *(how[name] for name in names))
        return chosen

    def file_to_write(self, call, config_dict, **told):
        """The file that `compile -p FILE` names; '' where the call itself says another place, with a warning."""
        source = (
            self._args
            if config_dict is None or not read(config_dict, f"{call}: config_dict", ("pef", "command"), self._own)
            else config_dict
        )
        found = (
            {}
            if source is None
            else read(source, "the application's arguments", ("pef", "command", "output_folder", "pef_name"), self._own)
        )
        path = found.get("pef", "") if found.get("command") == "compile" else ""
        others = [
            name
            for name, value in told.items()
            if path and value is not None and os.fspath(value) != found.get(name, OF_COMPILE[name])
        ]
        if others:
            launch.warn(
                f"{call}: --pef {path} has no effect: the program gives {' and '.join(others)}",
                errors.NoEffectWarning,
                stacklevel=4,
            )
        return "" if others else path

    def check_batch(self, call, inputs):
        """Warns, once, of a batch size that the command line has and the inputs have not: it is they who make the PEF's."""
        line, given = self._line("batch_size", "microbatch_size"), trees.tensors(inputs)
        dims = [(x, x.batch_dim) for x in given if getattr(x, "batch_dim", None) is not None]
        sizes = {x.shape[d] for x, d in dims if -x.dim() <= d < x.dim()} or {n for x in given for n in x.shape}
        batch, micro = line.get("batch_size"), line.get("microbatch_size")
        if "batch_size" in self._given and not {batch, micro} & sizes:
            text = (
                f"{call}: --batch-size {batch} has no effect: no input has a dim of {batch}; the program makes its "
                "inputs of another size"
            )
        elif "microbatch_size" in self._given and micro is not None and micro not in sizes:
            text = (
                f"{call}: --microbatch-size {micro} has no effect: the device takes all samples of its inputs at a time, and no "
                f"input has a dim of {micro}"
            )
        else:
            return
        nominal.once(text.partition(": ")[2], text, stacklevel=4)


def written_to(path, compile_into):
    """Has `compile_into(folder, name)` write a PEF in a new folder beside `path`, and moves it there with what is beside it."""
    folder = os.path.dirname(path) or "."
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as made:
        written = compile_into(made, os.path.splitext(os.path.basename(path))[0])
        for end in ("", ".log", ".json"):
            if os.path.exists(written + end):
                os.replace(written + end, path + end)
    return path
