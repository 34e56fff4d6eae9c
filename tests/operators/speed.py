# SPDX-License-Identifier: Apache-2.0
"""Every row's operator against PyTorch eager by the clock, on one core: prove.py --speed.

Shapes are the rows' own, grown by rule (Sized): every dim so many times, all but the first, the last or the middle, until a
tensor has as many elements as a size of SIZES says. Which samples are timed is drawn from a seed, MOST a size, so nobody chooses
them.
A case is a sample forward (for inference, against torch.no_grad), or forward and backward (against autograd.grad of all results).
Ours is a compiled program in a session of one thread whose operands are on the device: samba_run, called from Python as torch is,
with all that a call costs. Torch's is the call, and a copy of what is a view of
an operand, as a program's results are memory of their own. They take turns in one process; a figure is the median of the turns'
means.
The ratio is torch's over ours."""

import itertools
import math
import platform
import random
import resource
import statistics
import tempfile
import time
import zlib

import modes
import torch
from table import Maker

from sambaflow._core import ffi, lib
from sambaflow.runtime import Tensor
from sambaflow.samba.progress import Progress
from sambaflow.samba.sambatensor import from_torch_tensor, from_value
from sambaflow.samba.trace import Tracer, at_work, dtype_name, dtype_number

# elements of the largest tensor, and whether dims grow an odd number of times. Of float32: half of a second cache of 512 KiB;
# beyond most shares of a last one; as many as the first, in rows that fill no vector.
SIZES = {"cache": (1 << 16, False), "memory": (1 << 22, False), "odd": (50_000, True)}
FIRST = 4096  # elements when the samples are counted
MOST = 3  # samples of an operator, dtype and size
MOST_RESULTS = 32
TURNS, TURN_SECONDS, CASE_SECONDS = 15, 0.5e-3, 0.08
LONG = 5  # seconds of both sides' calls, from which one of each is enough
SLOW = 0.03  # seconds of torch's call, beyond which a sample has a quarter of the elements, and again
BESIDE_SLOW = 8  # how much longer it may take with the gradient
START = 5  # quarters of a sample that is timed first
ADDRESSES = 8 << 30  # bytes of this process: a sample that needs more is made smaller
# dtypes timed beside float32, where kernels of their own stand behind them
BESIDE = {
    "reduce": (torch.bfloat16, torch.int64, torch.int32, torch.int16),
    "conv": (torch.bfloat16,),
    "norm": (torch.bfloat16,),
    "linalg": (torch.bfloat16,),
}


class Sized(Maker):
    """Makes large tensors for the calls of `sized` whose numbers are in `wanted`, small ones for others; all large without."""

    def __init__(self, dtype, seed, count, odd, wanted=None):
        super().__init__(dtype, seed)
        self.count, self.odd, self.wanted = count, odd, wanted
        self.calls, self.factor = 0, 1

    def sized(self, *shapes, work=1):
        self.calls += 1
        wanted = self.wanted is None or self.calls in self.wanted
        longest = max(shapes, key=lambda shape: (math.prod(shape), len(shape)))
        kept = self._kept(longest)
        self.factor = self._factor([n for n in longest if n > 1 and n not in kept], math.prod(longest), work, wanted)
        made = [type(shape)(n if n < 2 or n in kept else n * self.factor for n in shape) for shape in shapes]
        return made if len(made) > 1 else made[0]

    def times(self, count):
        return count * self.factor

    def tensor(self, *shape, layout="contiguous", **options):
        return super().tensor(*shape, **options)

    def _kept(self, shape):
        """Sizes that stay as they are: by turns none, the last dim's, the first's, the middle one's."""
        kind = self.calls % 4
        if kind == 0 or len(shape) < 2:
            return ()
        kept = {shape[(-1, 0, len(shape) // 2)[kind - 1]]}
        return kept if any(n > 1 and n not in kept for n in shape) else ()

    def _factor(self, grown, have, work, wanted):
        if not grown or have == 0:
            return 1
        most = FIRST if self.wanted is None else self.count * work if wanted else FIRST // 4
        factor = max(1, round((most / have) ** (1 / len(grown))))
        if self.odd:
            return factor // 2 * 2 + 1
        return factor // 8 * 8 if factor >= 16 else factor


# ---- which samples ----


def _largest(sample):
    return max((x.numel() for x in modes.tensors_of((sample.args, dict(sample.kwargs)))), default=0)


def _is_empty(sample):
    return any(x.numel() == 0 for x in modes.tensors_of((sample.args, dict(sample.kwargs))))


def _samples(row, make):
    """(number of the latest call of sized, sample), of samples that grow."""
    for sample in row.samples(make):
        if make.factor > 1 and _largest(sample) >= make.count / 64 and not _is_empty(sample):
            yield make.calls, sample


def drawn(row, dtype, size, seed, most):
    """Up to so many samples of a size."""
    seed = zlib.crc32(f"{row.name} {dtype} {size} {seed}".encode())
    odd = SIZES[size][1]
    draws = random.Random(seed)
    found = [(number, draws.random()) for number, _ in _samples(row, Sized(dtype, seed, FIRST, odd))]
    draws.shuffle(found)
    chosen = []
    for number, place in found:
        if len(chosen) == most:
            break
        sample = _grown(row, dtype, seed, size, number, place)
        if sample is not None:
            chosen.append(sample)
    return chosen


def _grown(row, dtype, seed, size, number, place):
    """The sample in as many elements as the size says, or, where torch's call would be slow, a quarter of them, and again; None
    where it has no such sample. A small one is timed first and says what larger ones would take: a slow call, whose work may grow
    by more than its elements, is never waited for."""
    count, odd = SIZES[size]
    sample, before, smaller = None, 0, START
    while smaller >= 0:
        try:
            tried = _of_count(row, dtype, seed, count >> 2 * smaller, odd, number, place)
            seconds, results = (0, 0) if tried is None else _once(row.call, tried, row.gradient)
        except RuntimeError as error:  # several dims that grow alike
            if "allocate memory" not in str(error):
                raise
            return sample
        if results > MOST_RESULTS:
            return None
        if tried is not None and (sample is None or seconds <= SLOW):
            sample = tried
        if seconds > SLOW or seconds * max(4, seconds / before if before else 0) > SLOW * 1.5:
            break
        before, smaller = seconds, smaller - 1
    return sample


def _of_count(row, dtype, seed, count, odd, number, place):
    numbered = _samples(row, Sized(dtype, seed, count, odd, {number}))
    behind = itertools.dropwhile(lambda pair: pair[0] < number, numbered)
    some = [s for _, s in itertools.takewhile(lambda pair: pair[0] == number, behind)]
    return some[int(place * len(some))] if some else None


def _once(call, sample, gradient):
    """(seconds of torch's call, number of results); with the gradient it may be BESIDE_SLOW times as slow. Tensors that torch has
    no gradient for want none then."""
    floats = [x for x in modes.tensors_of((sample.args, dict(sample.kwargs))) if modes.wants_gradient(x)]
    if not _have_gradients(call, sample, floats):
        for x in [x for x in floats if not _have_gradients(call, sample, [x])]:
            x.no_gradient = True
    seconds = math.inf
    for _ in range(2):  # the first call also prepares
        began = time.perf_counter()
        results, _ = modes.by_torch(call, sample, None, False)
        seconds = min(seconds, time.perf_counter() - began)
    if gradient and any(modes.wants_gradient(x) for x in floats):
        seeds = modes.seeds_for(results, torch.Generator().manual_seed(1))
        if any(s is not None for s in seeds):
            began = time.perf_counter()
            modes.by_torch(call, sample, seeds, True)
            seconds = max(seconds, (time.perf_counter() - began) / BESIDE_SLOW)
    return seconds, len(results)


def _have_gradients(call, sample, wanted):
    """Whether torch takes these tensors where their gradients are wanted, and of no others."""
    args, kwargs = torch.utils._pytree.tree_map(
        lambda x: x.detach().requires_grad_(any(x is w for w in wanted)) if isinstance(x, torch.Tensor) else x,
        (sample.args, dict(sample.kwargs)),
    )
    try:
        call(*args, **kwargs)
    except RuntimeError as error:
        if "not differentiable" not in str(error):
            raise
        return False
    return True


# ---- ours ----


class Ours:
    """A sample as a compiled program: `forward()` or `both()` is one run."""

    def __init__(self, call, sample, wanted, folder):
        tracer = Tracer("speed")
        self.context, self.values, self.facts = tracer.context, [], []
        with at_work(tracer):
            count = itertools.count()

            def stand_in(x):
                if not isinstance(x, torch.Tensor):
                    return x
                name = f"x{next(count)}"
                self.values.append((name, x.detach().contiguous()))
                if not (wanted and modes.wants_gradient(x)):
                    return tracer.input(from_torch_tensor(x.detach().contiguous(), name), name)
                value = lib.samba_parameter(
                    tracer.graph, name.encode(), dtype_number(x.dtype), x.dim(), list(x.shape), ffi.new("samba_initializer *")[0]
                )
                return from_value(value, x.shape, x.dtype, tracer.id)

            args, kwargs = torch.utils._pytree.tree_map(stand_in, (sample.args, dict(sample.kwargs)))
            for k, y in enumerate(modes.tensors_of(call(*args, **kwargs))):
                lib.samba_output(tracer.graph, f"y{k}".encode(), tracer.value(y))
                self.facts.append((f"y{k}", tuple(y.shape), y.dtype))
            tracer.check()
            tracer.prune()
        self._load(tracer, wanted, folder)

    def _load(self, tracer, wanted, folder):
        options = ffi.new("samba_compile_options *", lib.samba_compile_defaults())
        names = ffi.new("char[]", b"speed"), ffi.new("char[]", folder.encode())
        options.name, options.output_folder, options.graph, options.inference = *names, tracer.graph, not wanted
        if wanted:  # which never runs: without it parameters were constants
            optimizer = ffi.new("samba_optimizer *", lib.samba_sgd(0.0))
            options.optimizers, options.optimizer_count = optimizer, 1
        path, made = ffi.new("char[]", 4096), ffi.new("samba_session **")
        self.context.check(lib.samba_compile(self.context.c, options, path, len(path)))
        session = ffi.new("samba_session_options *", lib.samba_session_defaults())
        session.threads = 1
        self.context.check(lib.samba_session_new(self.context.c, path, session, made))
        self.c = self.context.owned(made[0], lib.samba_session_free)
        for name, x in self.values:
            tensor = Tensor._over(name, dtype_name(x.dtype), list(x.shape), None, x.data_ptr(), x, self.context)
            status = lib.samba_session_set(self.c, tensor.c)
            if status and "no tensor" not in ffi.string(lib.samba_error_message(self.context.c)).decode():  # nothing reads it
                self.context.check(status)
        self._types = [ffi.new("char[]", word) for word in ((b"FWD", b"BCKWD") if wanted else (b"FWD",))]
        self._list = ffi.new("char *[]", self._types)
        self.options = ffi.new("samba_run_options *", lib.samba_run_defaults())
        self.options.section_types, self.options.section_type_count = self._list, len(self._types)
        self.options.train = bool(wanted)

    def call(self):
        status = lib.samba_run(self.c, self.options)
        if status:
            self.context.check(status)

    def has_backward(self):
        info = ffi.new("samba_section_info *")
        for k in range(lib.samba_session_section_count(self.c)):
            self.context.check(lib.samba_session_section_info(self.c, k, info))
            if ffi.string(info.type) == b"BCKWD":
                return True
        return False

    def start(self, seeds):
        """Gradients that the backward starts from."""
        for (name, shape, dtype), seed in zip(self.facts, seeds):
            if seed is not None:
                kept = seed.contiguous()
                tensor = Tensor._over(f"{name}.grad", dtype_name(dtype), list(shape), None, kept.data_ptr(), kept, self.context)
                lib.samba_session_set(self.c, tensor.c)  # refused where another result is computed from it

    def result(self):
        """The first result, to be sure that both compute the same."""
        name, shape, dtype = self.facts[0]
        made = torch.empty(shape, dtype=dtype)
        tensor = Tensor._over(name, dtype_name(dtype), list(shape), None, made.data_ptr(), made, self.context)
        self.context.check(lib.samba_session_get(self.c, tensor.c))
        return made


# ---- torch's ----


def _plain(sample):
    def plain(x):
        if not isinstance(x, torch.Tensor):
            return x
        made = x.detach().contiguous()
        made.no_gradient = not modes.wants_gradient(x)
        return made

    return torch.utils._pytree.tree_map(plain, (sample.args, dict(sample.kwargs)))


def _views(results, given):
    """Numbers of the results that are memory of what was given."""
    memory = {x.untyped_storage().data_ptr() for x in given if x.numel()}
    return [k for k, x in enumerate(results) if x is not None and x.numel() and x.untyped_storage().data_ptr() in memory]


def torchs(call, sample, wanted, seeds):
    args, kwargs = _plain(sample)
    with torch.no_grad():
        copied = _views(modes.tensors_of(call(*args, **kwargs)), modes.tensors_of((args, kwargs)))

    def forward():
        with torch.no_grad():
            results = call(*args, **kwargs)
            if copied:
                results = modes.tensors_of(results)
                for k in copied:
                    results[k].clone(memory_format=torch.contiguous_format)

    if not wanted:
        return forward
    (args, kwargs), leaves = modes.leaves_with_gradient((args, kwargs))

    def gradients():
        results = modes.tensors_of(call(*args, **kwargs))
        for k in copied:
            results[k].detach().clone(memory_format=torch.contiguous_format)
        pairs = [(x, s) for x, s in zip(results, seeds) if s is not None and x.requires_grad]
        return torch.autograd.grad([x for x, _ in pairs], leaves, [s for _, s in pairs], allow_unused=True)

    moved = _views(gradients(), modes.tensors_of(seeds))

    def both():
        found = gradients()
        for k in moved:
            found[k].clone(memory_format=torch.contiguous_format)

    return both


# ---- the clock ----


def _spent(call, count):
    began = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - began) / count


def in_turns(calls):
    """[(median, best)] of seconds a call."""
    once = [_spent(call, 1) for call in calls]
    if sum(once) > LONG:  # nothing that the first call prepares counts for much there
        return [(t, t) for t in once]
    once = [min(_spent(call, 1) for _ in range(2)) for call in calls]
    counts = [max(1, int(TURN_SECONDS / max(t, 1e-7))) for t in once]
    turns = max(5, min(TURNS, int(CASE_SECONDS / sum(max(t * n, 1e-7) for t, n in zip(once, counts)))))
    times = [[] for _ in calls]
    for turn in range(turns):
        for k in range(len(calls)) if turn % 2 else reversed(range(len(calls))):
            times[k].append(_spent(calls[k], counts[k]))
    return [(statistics.median(some), min(some)) for some in times]


class Case:
    def __init__(self, family, row, dtype, size, sample, describe):
        self.family, self.row, self.dtype, self.size, self.sample = family, row, dtype, size, sample
        self.call = describe(sample)

    def run(self, way, folder):
        """The figures of one way: forward, or both."""
        wanted, call = way == "backward", self.row.call
        results, _ = modes.by_torch(call, self.sample, None, False)
        seeds = modes.seeds_for(results, torch.Generator().manual_seed(1)) if wanted else []
        ours = Ours(call, self.sample, wanted, folder)
        if wanted and not ours.has_backward():  # no gradient but zeros
            return None
        ours.start(seeds)
        theirs = torchs(call, self.sample, wanted, seeds)
        (mine, my_best), (other, others_best) = in_turns([ours.call, theirs])
        return {
            "family": self.family,
            "operator": self.row.name,
            "dtype": str(self.dtype).removeprefix("torch."),
            "size": self.size,
            "way": way,
            "call": self.call,
            "us": mine * 1e6,
            "best_us": my_best * 1e6,
            "torch_us": other * 1e6,
            "torch_best_us": others_best * 1e6,
            "ratio": other / mine,
            "off": _off(ours.result(), results[0]),
        }


def _off(found, expected):
    """The greatest difference over the greatest value, where a number says it: a case that computes something else is no case."""
    if found.numel() == 0 or not found.dtype.is_floating_point:
        return 0.0 if torch.equal(found, expected) else 1.0
    both = found.isfinite() & expected.isfinite()
    found, expected = found[both].double(), expected[both].double()
    return float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-30)) if found.numel() else 0.0


def dtypes_of(family, row, options):
    here = [d for d in row.dtypes if d not in row.without]
    if options.dtype:
        return [d for d in here if str(d) == f"torch.{options.dtype}"]
    beside = [d for d in BESIDE.get(family, ()) if d in here]
    return ([torch.float32] if torch.float32 in here else here[:1]) + beside


def _in_part(numbers, part, name):
    """Of rows by their names in turn: part "2/5" has the second, the seventh ..."""
    if not part:
        return True
    which, count = (int(number) for number in part.split("/"))
    return numbers.setdefault(name, len(numbers)) % count == which - 1


def rows(options, families, rows_of):
    numbers = {}
    for family in options.families or families():
        for row in rows_of(family):
            if not _in_part(numbers, options.part, f"{family}/{row.name}"):
                continue
            if row.call.__name__ == "viewed" or row.untraced or (options.operator and row.name != options.operator):
                continue
            for dtype in dtypes_of(family, row, options):
                yield family, row, dtype


# ---- what it comes to ----


def summed(found):
    """family/operator -> dtype -> way -> size -> the median ratio of its cases."""
    cases = {}
    for r in found:
        at = cases.setdefault(f"{r['family']}/{r['operator']}", {}).setdefault(r["dtype"], {}).setdefault(r["way"], {})
        at.setdefault(r["size"], []).append(r["ratio"])
    return {
        row: {
            dtype: {
                way: {size: round(statistics.median(ratios), 3) for size, ratios in sizes.items()} for way, sizes in ways.items()
            }
            for dtype, ways in dtypes.items()
        }
        for row, dtypes in cases.items()
    }


def figure(sizes):
    """Of an operator, dtype and way: the median of its sizes."""
    return statistics.median(sizes.values())


def print_tables(found, failed):
    print("ratio: torch's median over ours; us: a call, median and best of its turns; sorted by ratio\n")
    print(f"{'ratio':>7}{'us':>11}{'best':>11}{'torch':>11}{'best':>11}  case")
    for r in sorted(found, key=lambda r: r["ratio"]):
        off = f"  (off by {r['off']:.0e})" if r["off"] > 0.02 else ""
        print(
            f"{r['ratio']:7.2f}{r['us']:11.1f}{r['best_us']:11.1f}{r['torch_us']:11.1f}{r['torch_best_us']:11.1f}  "
            f"{r['operator']} {r['dtype']} {r['way']} {r['size']} {r['call']}{off}"
        )
    lines = [
        (figure(sizes), row, dtype, way, sizes)
        for row, dtypes in summed(found).items()
        for dtype, ways in dtypes.items()
        for way, sizes in ways.items()
    ]
    print(f"\n{'median':>7}{''.join(f'{size:>9}' for size in SIZES)}  operator")
    for median, row, dtype, way, sizes in sorted(lines, key=lambda line: line[0]):
        cells = "".join(f"{sizes[size]:9.2f}" if size in sizes else f"{'-':>9}" for size in SIZES)
        print(f"{median:7.2f}{cells}  {row} {dtype} {way}")
    for line in failed:
        print(f"FAILED {line}")
    operators = {(r["family"], r["operator"]) for r in found}
    slower = {row for median, row, *_ in lines if median < 1}
    print(f"{len(found)} cases of {len(operators)} operators; {len(slower)} with a median of sizes below 1; {len(failed)} failed")


def machine():
    """What these figures are of."""
    with open("/proc/cpuinfo") as file:
        facts = dict(line.split(":", 1) for line in file.read().split("\n\n")[0].splitlines() if ":" in line)
    facts = {name.strip(): value.strip() for name, value in facts.items()}
    family = f", family {facts['cpu family']} model {facts['model']}" if "cpu family" in facts else ""
    return f"{facts.get('model name', platform.processor())}{family}, {torch.backends.cpu.get_cpu_capability()}"


def measure(options, families, rows_of, describe):
    """(results, what failed and why); what there is where Ctrl-C ends it"""
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    found, failed = [], []
    everything = list(rows(options, families, rows_of))
    with tempfile.TemporaryDirectory() as folder, Progress("timing", len(everything), "row") as shown:
        try:
            for family, row, dtype in everything:
                for size in SIZES:
                    _measure_size(family, row, dtype, size, options, describe, folder, found, failed)
                shown.step()
        except KeyboardInterrupt:
            failed.append("ended from outside: the rows behind are not measured")
    return found, failed


def _measure_size(family, row, dtype, size, options, describe, folder, found, failed):
    try:
        samples = drawn(row, dtype, size, options.seed, options.quick or MOST)
    except Exception as error:
        failed.append(f"{row.name} {dtype} {size}: {type(error).__name__}: {str(error).splitlines()[:1]}")
        return
    for sample in samples:
        case = Case(family, row, dtype, size, sample, describe)
        backward = row.gradient and any(modes.wants_gradient(x) for x in modes.tensors_of((sample.args, dict(sample.kwargs))))
        for way in ("forward", "backward")[: 1 + backward]:
            try:
                result = case.run(way, folder)
                found += [result] if result else []
            except Exception as error:
                failed.append(f"{row.name} {dtype} {size} {way} {case.call}: {type(error).__name__}: {error}")
