# SPDX-License-Identifier: Apache-2.0
"""The command line of an application: commands and options that all share, and the application's own.

A function `add(parser)` adds options for all commands (common_parser_fn), for compile, run and test alone. An own option that has
the name of a built-in one replaces it. What is parsed the session obeys (`session.take_arguments`): compile writes where
--output-folder and --pef-name say.

>>> args = parse_app_args(["compile", "-b", "64", "--hidden=32"], common_parser_fn=lambda p: p.add_argument("--hidden", type=int))
>>> (args.command, args.batch_size, args.hidden)
('compile', 64, 32)
>>> import tempfile
>>> with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
...     _ = file.write("command: run\\nnum_iterations: 7\\n")
...     file.flush()
...     parse_yaml_to_args(file.name).num_iterations
7
>>> _state.session.reset()
"""

import argparse
import difflib
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sambaflow import errors, launch
from sambaflow.errors import NoEffectWarning
from sambaflow.samba import _state
from sambaflow.samba.arguments import DATA_PARALLEL_MODES, MAPPINGS, REDUCE_DTYPES
from sambaflow.samba.keywords import exact

if TYPE_CHECKING:
    from sambaflow.samba.samba_session import SambaSession

_Add = Callable[[argparse.ArgumentParser], Any] | None

COMMANDS: tuple[str, ...] = ("compile", "run", "test", "measure-performance", "measure-sections")


def _words(argv):
    """-mb=4, -b=64 and -b64 as argparse takes them."""
    for word in argv:
        found = re.fullmatch(r"-(mb|b|p)=(.*)", word)
        yield from (("-" + found[1], found[2]) if found else (word,))


class _Parser(argparse.ArgumentParser):
    """Where two options have one name the later one counts."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, conflict_handler="resolve", allow_abbrev=False, **kwargs)


# options of the documents' system that say what its chip or its compiler should do
_ELSEWHERE = {
    "--o0": "one operator a section",
    "--o1": "operators fused by rules",
    "--o3": "the whole graph as one",
    "--debug": "keep what the compiler makes",
    "--mac-v2": "the second estimator of resources",
    "--tiling-accum": "add up gradients of tiles",
    "--num-tiles": "tiles of the chip",
    "--log-level": "what the compiler tells",
    "--resources-scaling-factors": "factors of the estimates of resources",
    "--arch": "the chip",
    "--compiler-mode": "the kind of model",
    "--optimization-rules": "rules of fusion",
    "--compiler-configs-file": "settings of the compiler",
}
_WITH_VALUES = {
    "--num-tiles": {"type": int},
    "--log-level": {},
    "--resources-scaling-factors": {"type": float, "nargs": "+"},
    "--arch": {},
    "--compiler-mode": {},
    "--optimization-rules": {"nargs": "+"},
    "--compiler-configs-file": {},
}


def _built_in(parser, command):
    parser.add_argument("-b", "--batch-size", type=int, default=1, help="samples in a step")
    parser.add_argument(
        "-mb",
        "--microbatch-size",
        type=int,
        default=None,
        help="samples that the program's inputs have where it runs several times a step; must divide the batch size",
    )
    parser.add_argument("--grad-accumulation-steps", type=int, default=1, help="runs in a step, whose gradients add up")
    parser.add_argument("--inference", action="store_true", help="forward only")
    parser.add_argument("-p", "--pef", default="", help="the PEF to run; for compile: the file to write")
    parser.add_argument("--pef-name", default=None, help="name of the PEF that compile writes")
    parser.add_argument("--output-folder", default="out", help="where compile makes the folder of the PEF")
    parser.add_argument(
        "--mapping",
        default="section",
        choices=MAPPINGS,
        help="how the graph is placed: in sections, or forward and backward as one",
    )
    parser.add_argument("--fast-memory", type=int, default=0, help="bytes that a section may use; 0 is as much as there is")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"), help="of contractions")
    parser.add_argument(
        "--memory-budget", type=int, default=0, help="bytes the model may take; the backward computes again what does not fit"
    )
    parser.add_argument("--data-parallel", action="store_true", help="train several replicas, which mpirun or srun starts")
    parser.add_argument("--reduce-on-rdu", action="store_true", help="average gradients of replicas on the device")
    parser.add_argument("--data-parallel-mode", default="normal", choices=DATA_PARALLEL_MODES)
    parser.add_argument("--shard-optimizer", action="store_true", help="each replica keeps a part of the optimizer's state")
    parser.add_argument("--reduce-dtype", default=None, choices=REDUCE_DTYPES, help="what gradients travel as between replicas")
    parser.add_argument(
        "--world-size", type=int, default=1, help="how many replicas there have to be: a run by another number is refused"
    )
    parser.add_argument("--distlearn-config", default=None, help="a file for trace_graph: its presence says there are replicas")
    parser.add_argument("--num-iterations", type=int, default=100, help="runs to measure, or steps to run")
    parser.add_argument("--run-graph-only", action="store_true", help="measure without moving tensors between host and device")
    parser.add_argument("--num-sections", type=int, default=None, help="how many sections to list")
    parser.add_argument("--seed", type=int, default=0, help="of weights, dropout and samples")
    elsewhere = parser.add_argument_group("taken without effect, since they are about another device")
    for name, what in _ELSEWHERE.items():
        elsewhere.add_argument(name, help=what, **_WITH_VALUES.get(name, {"action": "store_true"}))


def _given(parser, words):
    """The names of the options that are among the words."""
    words, found = [word.split("=")[0] for word in words], set()
    for action in parser._actions:
        for name in action.option_strings:
            short = len(name) == 2  # which may have its value at it
            if any(
                word == name or (short and word.startswith(name) and word not in parser._option_string_actions) for word in words
            ):
                found.add(action.dest)
    return found


def _refuse(parser, rest):
    """Ends the program, as argparse does, with the nearest option."""
    name = next((word.split("=")[0] for word in rest if word.startswith("-")), rest[0])
    near = difflib.get_close_matches(name, parser._option_string_actions, 1)
    parser.error(f"there is no option {name}{f': did you mean {near[0]}?' if near else ''}")


def _check_command(parser, words):
    """Refuses a word that is no command, with the nearest."""
    word = next((word for word in words if not word.startswith("-")), None)
    if word is not None and word not in COMMANDS:
        near = difflib.get_close_matches(word, COMMANDS, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        parser.error(f"{word!r} is no command{hint}: give {', '.join(COMMANDS[:-1])} or {COMMANDS[-1]}")


@exact
def parse_app_args(
    argv: Iterable[str] | None = None,
    dev_mode: bool = False,
    common_parser_fn: _Add = None,
    compile_parser_fn: _Add = None,
    test_parser_fn: _Add = None,
    run_parser_fn: _Add = None,
    measure_performance_parser_fn: _Add = None,
    measure_sections_parser_fn: _Add = None,
    *,
    session: "SambaSession | None" = None,
) -> argparse.Namespace:
    """Parses `argv` (without the program's name; None: the process's). The result has `command` and an attribute for each option;
    the session, by default samba.session, obeys it until it is reset, see session.compile. With `dev_mode` the measuring commands
    have the options of `run_parser_fn` too.
    What means nothing on this device is named in one NoEffectWarning."""
    return _parse(
        argv,
        dev_mode,
        common_parser_fn,
        compile_parser_fn,
        test_parser_fn,
        run_parser_fn,
        measure_performance_parser_fn,
        measure_sections_parser_fn,
        _state.session if session is None else session,
    )


def _parse(argv, dev_mode, common, compiling, testing, running, performance, sections, session):
    measured = running if dev_mode else None
    own = {
        "compile": compiling,
        "test": testing,
        "run": running,
        "measure-performance": performance or measured,
        "measure-sections": sections or measured,
    }
    parser = _Parser()
    commands, built_in = parser.add_subparsers(dest="command", required=True, parser_class=_Parser), {}
    for command in COMMANDS:
        its = commands.add_parser(command)
        _built_in(its, command)
        built_in[command] = dict(its._option_string_actions)
        for add in (common, own[command]):
            if add:
                add(its)
    words = list(_words(sys.argv[1:] if argv is None else argv))
    _check_command(parser, words)
    args, rest = parser.parse_known_args(words)
    its = commands.choices[args.command]
    if rest:
        _refuse(its, rest)
    given, now = _given(its, words), its._option_string_actions
    replaced = {action.dest for name, action in built_in[args.command].items() if now.get(name) is not action}
    _check(its, args, given, replaced)
    elsewhere = [name for name in _ELSEWHERE if now[name] is built_in[args.command][name] and now[name].dest in given]
    if args.command != "run" and "world_size" in given - replaced:
        elsewhere.append("--world-size")  # how many replicas there are is known when they run
    if elsewhere:
        launch.warn(f"{', '.join(elsewhere)}: without effect on this device, a CPU", NoEffectWarning, stacklevel=3)
    session.take_arguments(args, replaced, given)
    return args


def _check(parser, args, given, replaced):
    """What contradicts itself."""
    batch, micro = getattr(args, "batch_size", None), getattr(args, "microbatch_size", None)
    if isinstance(batch, int) and isinstance(micro, int) and micro and batch % micro:
        parser.error(f"the microbatch size {micro} does not divide the batch size {batch}")
    if args.command == "compile" and "pef" in given - replaced and given & {"pef_name", "output_folder"}:
        parser.error("--pef says which file to write: leave out --pef-name and --output-folder, or --pef")


def parse_yaml_to_args(path: str | os.PathLike[str], argv: Sequence[str] | None = None, **parser_fns: Any) -> argparse.Namespace:
    """The same with a YAML file of `name: value` lines, `command` among them: true is an option alone, false and null are no
    option, a list is several values. What `argv` has wins, a command at its beginning too."""
    import yaml

    with open(path, encoding="utf-8") as file:
        options = yaml.safe_load(file)
    argv = list(argv or ())
    if not isinstance(options, dict):
        raise errors.ArgumentError(f"{path}: expected lines of `name: value`")
    command = options.pop("command", None)
    if argv and argv[0] in COMMANDS:
        command = argv.pop(0)
    if command is None:
        raise errors.ArgumentError(f"{path}: expected a `command`, one of {', '.join(COMMANDS)}")
    words = [str(command)]
    for name, value in options.items():
        if isinstance(value, dict):
            raise errors.ArgumentError(f"{path}: {name} is a mapping; an option has a value or a list of values")
        if value is not None and value is not False:
            words.append("--" + str(name).replace("_", "-"))
            words += [] if value is True else [str(x) for x in (value if isinstance(value, list) else [value])]
    return parse_app_args(words + argv, **parser_fns)
