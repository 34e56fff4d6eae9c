# SPDX-License-Identifier: Apache-2.0
"""The driver of an application: what its commands do but for `run`, which is the application's own loop.

>>> import tempfile
>>> import sambaflow.samba as samba
>>> from sambaflow.samba.utils.argparser import parse_app_args
>>> model, x = samba.from_torch_model_(torch.nn.Linear(3, 2)), samba.randn(4, 3, name="x")
>>> with tempfile.TemporaryDirectory() as folder:
...     args = parse_app_args(["compile", "--inference", f"--output-folder={folder}"])
...     common_app_driver(args, model, (x,), name="line")[len(folder):]
... # doctest: +ELLIPSIS
/.../line/line.pef
'/line/line.pef'
>>> samba.session.reset()
"""

import os

import torch

from sambaflow import errors, launch
from sambaflow.samba import _state, trees
from sambaflow.samba.arguments import check_mapping
from sambaflow.samba.keywords import exact
from sambaflow.samba.modes import evaluating
from sambaflow.samba.progress import Progress
from sambaflow.samba.samba_session import SambaSession
from sambaflow.samba.sambatensor import SambaTensor, values_of
from sambaflow.samba.utils import utils

_Path = str | os.PathLike[str]


def _driver(
    args, model, inputs, optim=None, name="", init_output_grads=True, app_dir=None, loss_indices=None, *, session=None, **keywords
):
    """Does args.command: compile, test, measure-performance or measure-sections; `run` is the application's own. `args` are those
    of parse_app_args; `optim` may be a list or None; without a `name` the model's class gives it. Further keywords are those of
    session.compile, and win over `args`; other commands than compile have no use for them. `session`: which, by default
    samba.session. Returns the PEF's path, the measures, or None."""
    session = _state.session if session is None else session
    if not session.obeys(args):
        session.take_arguments(args)
    check_mapping(args.command, args.mapping)
    if args.command == "compile":
        return _compile(session, args, model, inputs, optim, name, {**keywords, "app_dir": app_dir, "loss_indices": loss_indices})
    if args.command == "run":
        raise errors.ArgumentError("common_app_driver: 'run' is the application's own: call trace_graph and session.run")
    session.trace_graph(model, inputs, optim, init_output_grads, loss_indices, pef=args.pef)
    if args.command == "measure-performance":
        return utils.measure_performance(
            model,
            inputs,
            batch_size=args.batch_size,
            inference=args.inference,
            run_graph_only=args.run_graph_only,
            n_iterations=args.num_iterations,
            session=session,
        )
    if args.command == "measure-sections":
        return utils.measure_sections(
            model,
            inputs,
            batch_size=args.batch_size,
            num_sections=args.num_sections,
            n_iterations=args.num_iterations,
            session=session,
        )
    return _test(session, model, inputs, getattr(args, "precision", "fp32"))


_driver.__name__ = _driver.__qualname__ = "common_app_driver"
common_app_driver = exact(_driver, SambaSession.compile, without=("self", "optimizers"))


def _compile(session, args, model, inputs, optim, name, keywords):
    path = session.compile(model, inputs, optim, name, **{"config_dict": vars(args), **keywords})
    launch.say(path)
    return path


def _test(session, model, inputs, precision):
    """One run against the model on the host, both in eval(). What rounding may make of an output grows with its own greatest
    value: a thousandth of it, or 16 units of a 16-bit dtype, so that small outputs are held as closely as large ones."""
    outputs = model.output_tensors
    with Progress("testing", total=2 + len(outputs), unit="part") as shown:
        with torch.no_grad(), evaluating(model):
            expected = model(**inputs) if isinstance(inputs, dict) else model(*inputs)
        shown.step()
        given = [x for x in trees.tensors(inputs) if isinstance(x, SambaTensor)]
        results = session.run(given, outputs, section_types=["FWD"], train=False)
        shown.step()
        compared = []
        for ours, host in zip(results, trees.tensors(expected)):
            ours, host = values_of(ours), values_of(host)
            coarse = torch.bfloat16 if precision == "bf16" else host.dtype
            share = 16 * torch.finfo(coarse).eps if coarse in (torch.bfloat16, torch.float16) else 1e-3
            ours, host = ours.double(), host.double()
            scale = host.abs().max().item() if host.numel() else 0.0
            compared.append(((ours - host).abs().max().item() if host.numel() else 0.0, scale, share))
            shown.step()
    for traced, (worst, scale, share) in zip(outputs, compared):
        launch.say(f"{traced.sn_name}: greatest difference {worst:.3g}, greatest value {scale:.3g}")
        if not worst <= max(share * scale, 1e-30):
            raise errors.StateError(
                f"output {traced.sn_name} differs from the model on the host by {worst:.3g}, where its greatest value is "
                f"{scale:.3g} and {share * scale:.3g} would be rounding"
            )
