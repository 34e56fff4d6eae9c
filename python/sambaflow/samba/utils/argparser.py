# SPDX-License-Identifier: Apache-2.0
"""The command line of an application: commands and options that all share, and the application's own.

A function `add(parser)` adds options for all commands (common_parser_fn), for compile, run and test alone. An own option that has the name of
a built-in one replaces it.

>>> args = parse_app_args(["compile", "-b", "64", "--hidden=32"], common_parser_fn=lambda p: p.add_argument("--hidden", type=int))
>>> (args.command, args.batch_size, args.hidden)
('compile', 64, 32)
>>> import tempfile
>>> with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
...     _ = file.write("command: run\\nnum_iterations: 7\\n")
...     file.flush()
...     parse_yaml_to_args(file.name).num_iterations
7
"""
import argparse
import re
import sys

from sambaflow.samba.arguments import DATA_PARALLEL_MODES, MAPPINGS
from sambaflow.samba.keywords import refuse_unknown

COMMANDS = ("compile", "run", "test", "measure-performance", "measure-sections")


def _words(argv):
    """-mb=4, -b=64 and -b64 as argparse takes them."""
    for word in argv:
        found = re.fullmatch(r"-(mb|b|p)=(.*)", word)
        yield from (("-" + found[1], found[2]) if found else (word,))


class _Parser(argparse.ArgumentParser):
    """Where two options have one name the later one counts."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, conflict_handler="resolve", allow_abbrev=False, **kwargs)


def _built_in(parser, command):
    parser.add_argument("-b", "--batch-size", type=int, default=1, help="samples in a step")
    parser.add_argument("-mb", "--microbatch-size", type=int, default=None,
                        help="samples that the device takes at a time; must divide the batch size, changes no result")  # fmt: skip
    parser.add_argument("--grad-accumulation-steps", type=int, default=1, help="runs in a step, whose gradients add up")
    parser.add_argument("--inference", action="store_true", help="forward only")
    parser.add_argument("-p", "--pef", default="", help="the PEF to run; for compile: the file to write")
    parser.add_argument("--pef-name", default=None, help="name of the PEF that compile writes")
    parser.add_argument("--output-folder", default="out", help="where compile makes the folder of the PEF")
    parser.add_argument("--mapping", default="section", choices=MAPPINGS, help="how the graph is placed: in sections, or forward and backward as one")
    parser.add_argument("--fast-memory", type=int, default=0, help="bytes that a section may use; 0 is as much as there is")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"), help="of contractions")
    parser.add_argument("--memory-budget", type=int, default=0, help="bytes the model may take; the backward computes again what does not fit")
    parser.add_argument("--data-parallel", action="store_true", help="train several replicas")
    parser.add_argument("--reduce-on-rdu", action="store_true", help="average gradients of replicas on the device")
    parser.add_argument("--data-parallel-mode", default="normal", choices=DATA_PARALLEL_MODES)
    parser.add_argument("--num-iterations", type=int, default=100, help="runs to measure, or steps to run")
    parser.add_argument("--run-graph-only", action="store_true", help="measure without moving tensors between host and device")
    parser.add_argument("--num-sections", type=int, default=None, help="how many sections to list")
    parser.add_argument("--seed", type=int, default=0, help="of weights, dropout and samples")


def parse_app_args(argv=None, dev_mode=False, common_parser_fn=None, compile_parser_fn=None, test_parser_fn=None, run_parser_fn=None,
                   measure_performance_parser_fn=None, measure_sections_parser_fn=None, **unknown):  # fmt: skip
    """Parses `argv` (without the program's name; None: the process's). The result has `command` and an attribute for each option."""
    refuse_unknown(unknown, parse_app_args)
    measured = run_parser_fn if dev_mode else None
    own = {"compile": compile_parser_fn, "test": test_parser_fn, "run": run_parser_fn,
           "measure-performance": measure_performance_parser_fn or measured, "measure-sections": measure_sections_parser_fn or measured}  # fmt: skip
    parser = _Parser()
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)
    for command in COMMANDS:
        its = commands.add_parser(command)
        _built_in(its, command)
        for add in (common_parser_fn, own[command]):
            if add:
                add(its)
    args = parser.parse_args(list(_words(sys.argv[1:] if argv is None else argv)))
    if getattr(args, "microbatch_size", None) and args.batch_size % args.microbatch_size:
        parser.error(f"the microbatch size {args.microbatch_size} does not divide the batch size {args.batch_size}")
    return args


def parse_yaml_to_args(path, argv=None, **parser_fns):
    """The same with a YAML file of `name: value` lines, `command` among them: true is an option alone, false and null are no option, a list is
    several values. What `argv` has wins, a command at its beginning too."""
    import yaml

    with open(path, encoding="utf-8") as file:
        options = yaml.safe_load(file)
    argv = list(argv or ())
    if not isinstance(options, dict):
        raise ValueError(f"{path}: expected lines of `name: value`")
    command = options.pop("command", None)
    if argv and argv[0] in COMMANDS:
        command = argv.pop(0)
    if command is None:
        raise ValueError(f"{path}: expected a `command`, one of {', '.join(COMMANDS)}")
    words = [str(command)]
    for name, value in options.items():
        if isinstance(value, dict):
            raise ValueError(f"{path}: {name} is a mapping; an option has a value or a list of values")
        if value is not None and value is not False:
            words.append("--" + str(name).replace("_", "-"))
            words += [] if value is True else [str(x) for x in (value if isinstance(value, list) else [value])]
    return parse_app_args(words + argv, **parser_fns)
