# SPDX-License-Identifier: Apache-2.0
"""train() and eval() between runs. A graph was traced of modules that stood in one of them, and a run may turn training off, for
all that stood in train(). So `model.eval()` is a run that does not train, parts that stood in eval() never train, and a model
that is back in the modes it was traced in trains. Any other modes are looked at once: the model is traced as it stands, and what
the graph cannot follow is refused, by the module's name.

Modules are looked at before each run, those alone whose mode the forward pass asked for."""

import contextlib
import re
import weakref

from sambaflow import errors, launch
from sambaflow.samba import arguments
from sambaflow.samba.forward import forward_graph
from sambaflow.samba.resume import random_states, set_random_states

_DECIDED = re.compile(r'= argin name="[^"]*".* role=[13]\b')  # a dropout's rate, or whether a run trains

_AS_IT_STANDS = "compile and trace it as it stands, or give train=False for a run that does not train at all"


@contextlib.contextmanager
def _standing(modes):
    """(module, mode) pairs stand so inside."""
    before = [(module, module.training) for module, _ in modes]
    try:
        for module, mode in modes:
            module.training = mode
        yield
    finally:
        for module, mode in before:
            module.training = mode


def evaluating(model):
    """A context in which all of the model stands in eval(), whatever its own train() does."""
    return _standing([(module, False) for module in model.modules() if "training" in vars(module)])


class Modes:
    """Those of one traced graph's model. `trace` are the arguments of forward_graph behind the model."""

    def __init__(self, call, model, tracer, inference, *trace, **keywords):
        asked = tracer.asked.modes
        self._call, self._model, self._inference = call, weakref.ref(model), inference
        self._trace = trace, {**keywords, "legacy_names": tracer.legacy_names}
        self._names = [(path, type(mode.module).__name__) for path, mode in asked.items()]
        self._modules = [weakref.ref(mode.module) for mode in asked.values()]
        self._stood = tuple(mode.stood for mode in asked.values())
        self._own = [name for name, mode in zip(self._names, asked.values()) if mode.own]
        self._follows = dict(tracer.asked.follows)
        self._trained = {path: kind for path, kind in self._follows.items() if path not in asked or asked[path].stood}
        self._stock = not self._own and not tracer.asked.unasked  # eval() is a run that does not train, for sure
        self._decided = {}  # modes -> whether a run trains, or what refuses it
        self._told = False

    def is_of(self, model):
        """Whether it is the model that was traced."""
        return self._model() is model

    @property
    def kind(self):
        """The model's class, by its name."""
        return type(self._model()).__name__ if self._model() is not None else "model that nobody has any more"

    def of_run(self, train):
        """Whether a run trains that was told `train`: True, as the model stands."""
        if train == 1:
            now = self._now()
            return True if now == self._stood and not self._inference else self._choose(now)
        if train == 0 and not self._stock and not self._told:
            self._tell_own()
        return train

    def _now(self):
        try:
            return tuple([module().training for module in self._modules])
        except AttributeError:  # nobody has the model any more
            return self._stood

    def _choose(self, now):
        found = self._decided.get(now)
        if found is None:
            found = self._decided[now] = self._decide(now)
        if found.__class__ is str:
            raise errors.StateError(found)
        train = self._that_train(now) if self._inference and not self._told else []
        if train:
            self._told = True
            more = f" and {len(train) - 1} more stand" if len(train) > 1 else " stands"
            launch.warn(
                f"run: {self._call} was compiled for inference, and {train[0]}{more} in train(): it runs as in eval(), "
                "without dropout and by running statistics. Say so by model.eval() or train=False",
                errors.NoEffectWarning,
                stacklevel=6,
            )
        return found

    def _that_train(self, now):
        """The modules that would train if the graph, which is for inference, did."""
        if now == self._stood:
            return [self._named(item) for item in self._trained.items()]
        return [self._named(name) for name, mode, stood in zip(self._names, now, self._stood) if mode and not stood]

    def _decide(self, now):
        if now == self._stood:
            return not self._inference
        if not any(now) and self._stock:
            return False
        if self._inference:  # what the model computes where nothing trains
            standing = [(module(), False) for module, mode in zip(self._modules, now) if mode]
            difference, follows = self._difference(False, standing)
            return self._refusal(now, difference, follows) if difference else False
        first = ""
        for train in [False] if not any(now) else [True, False]:
            difference, follows = self._difference(train, ())
            if not difference:
                return train
            first = first or difference
        return self._refusal(now, first, follows)

    def _difference(self, train, others):
        """('', ...) where the model as it stands, `others` of its modules standing as they say, computes what the graph does in
        runs that train or not; else what differs first, and which of its modules follow runs now."""
        arguments, keywords = self._trace
        states, stood = random_states(), list(zip([module() for module in self._modules], self._stood))
        try:
            with _standing(stood):
                before, _ = forward_graph(self._model(), *arguments, **keywords, evaluates=not train)
            set_random_states(states)
            with _standing(others):
                after, _ = forward_graph(self._model(), *arguments, **{**keywords, "context": before.context})
            return before.difference(after), after.asked.follows
        except Exception as error:  # of the model's own code, too
            return f"{type(error).__name__}: {error}", {}
        finally:
            set_random_states(states)

    def _named(self, name):
        path, kind = name
        return f"{path!r} ({kind})" if path else f"the model ({kind})"

    def _first(self):
        """A module that drops or takes statistics in runs that train."""
        return self._named(next(iter((self._trained or self._follows).items())))

    def _refusal(self, now, difference, follows):
        several = [(name, mode, stood) for name, mode, stood in zip(self._names, now, self._stood) if mode != stood]
        moving = [each for each in several if each[0][0] in self._follows or each[0][0] in follows] or several
        if not any(now):
            decides = self._named(self._own[0]) if self._own else self._first()
            return (
                f"run: the model stands in eval(), and its forward pass is another one there than the one that was traced: "
                f"{decides} decides that by itself; compile a graph of the model in eval(), or give train=False to "
                f"run the traced one without dropout and by running statistics. {difference}"
            )
        trains = next((each for each in moving if each[1]), None)
        if trains is not None and not trains[2]:
            return (
                f"run: {self._named(trains[0])} stands in train(), and stood in eval() when {self._call} was traced, which has "
                f"no training of it: put it in eval() again, or {_AS_IT_STANDS}"
            )
        rest = [
            name for name, mode, stood in zip(self._names, now, self._stood) if mode and stood and name[0] in self._follows
        ] or [name for name, mode in zip(self._names, now) if mode]
        return (
            f"run: {self._named(moving[0][0])} stands in eval(), and stood in train() when {self._call} was traced, while "
            f"{self._named(rest[0])} stands in train(): a run trains all that stood in train() or none of it: {_AS_IT_STANDS}"
        )

    def _tell_own(self):
        """Of a run with train=False, once: code of the model's own that would have computed something else in eval()."""
        self._told = True
        model = self._model()
        if model is None:
            return
        others = [(module, False) for module in model.modules() if "training" in vars(module)]
        difference, _ = self._difference(False, others)
        if difference:
            decides = self._named(self._own[0]) if self._own else self._first()
            launch.warn(
                f"run: train=False turns dropout off and takes running statistics, and {decides} decides more than that by its "
                "mode: of this the graph has what it had when it was traced; for what the model computes in eval() compile a "
                f"graph of it in eval(). {difference}",
                errors.NoEffectWarning,
                stacklevel=6,
            )


def chosen(table, train, graph_name):
    """Whether a run of that graph trains; `table` has the Modes of graphs by their names."""
    found = table.get(graph_name)
    return found.of_run(train) if found is not None else train


def graph_of(table, call, model, graph_name):
    """The graph that a call means by a traced model, or None for whichever, and, where it says it, the graph's name; None: the
    one that there is. `table` is as in chosen; where it is empty nothing was traced."""
    if model is not None and type(model).__name__ != "ModelProto" and (graph_name is None or graph_name in table):
        model = arguments.module(call, model)
        its = {name: modes for name, modes in table.items() if modes.is_of(model)}
        if table and not its:
            traced = " and ".join(dict.fromkeys(modes.kind for modes in table.values()))
            raise errors.StateError(
                f"{call}: this {type(model).__name__} is not what was traced, {traced}: give the model that trace_graph was given"
            )
        if graph_name is None and its and None not in its:
            if len(its) > 1:
                raise errors.ArgumentError(f"{call}: graph_name has to say which graph of the model: {', '.join(its)}")
            return next(iter(its))
        if graph_name is not None and graph_name in table and graph_name not in its:
            raise errors.ArgumentError(
                f"{call}: graph {graph_name!r} is of another model, a {table[graph_name].kind}; of this one: "
                f"{', '.join(filter(None, its))}"
            )
    return graph_name


def of_graph(device, number, call, model, tracer, *trace, **keywords):
    """{name that runs have for the graph of that number: its Modes}."""
    name, names = device.graph_names[number], {None} if len(device.graph_names) == 1 or device.is_sized else set()
    names.update((name, name.split("@")[0]) if device.is_sized else (name,))
    found = Modes(call, model, tracer, device.is_inference(number), *trace, **keywords)
    return dict.fromkeys(names, found)


def hint(tracer, compiled):
    """Behind the first difference of two graphs: that one was traced in train() and the other in eval(), by the text of one."""
    follows, followed = bool(tracer.asked.follows), _DECIDED.search(compiled) is not None
    if follows == followed or not (follows or tracer.asked.modes):
        return ""
    if follows:
        return "; the model stands in train(), and stood in eval() when the PEF was compiled"
    return "; the model stands in eval(), and stood in train() when the PEF was compiled"
