# SPDX-License-Identifier: Apache-2.0
"""Inputs that a training loop never gives. trace_graph sends its example inputs to the device, where they stay until a run is
given others: a loop that gives batches and forgets the labels would train on the example's labels, step after step. So the first
run that trains and is given some inputs says which others it reads as trace_graph had them."""

import weakref

from sambaflow import launch
from sambaflow.samba import trees
from sambaflow.samba.sambatensor import SambaTensor


def _is_step(inputs, section_types, section_ids, train):
    """Whether a run learns from inputs that it is given."""
    kinds = [kind.upper() for kind in section_types]
    return bool(inputs) and train and not section_ids and (not kinds or "BCKWD" in kinds)


def watch(ports, examples, kept):
    """From here on the first step that `ports` runs warns of inputs that trace_graph has sent and it is not given, but for those
    in `kept`, which setup names in reuse_inputs."""
    own, run = weakref.ref(ports), type(ports).run
    named = [x for x in trees.tensors(examples) if isinstance(x, SambaTensor) and x.sn_name]
    sent = list(dict.fromkeys(ports.device_name(x) for x in named if x.has_data or x.materializer_provided))

    def first(inputs, outputs, hyperparameters, types, ids, train, calls, gradients, graph_name=None, replicas=None, reuse=()):
        its = own()
        if _is_step(inputs, types, ids, train):
            given = {its.device_name(x) for x in inputs}
            if "" not in given:  # which the run refuses
                del its.run
            if "" not in given and (missing := [name for name in sent if name not in given | set(reuse) | set(kept)]):
                launch.warn(
                    f"run: {', '.join(map(repr, missing))} is not given, so each step learns from what trace_graph was given: "
                    "give it to each run, or name it in reuse_inputs to say that it stays",
                    UserWarning,
                )
        return run(its, inputs, outputs, hyperparameters, types, ids, train, calls, gradients, graph_name, replicas, reuse)

    if len(sent) > 1:
        ports.run = first
