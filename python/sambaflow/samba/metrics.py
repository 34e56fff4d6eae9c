# SPDX-License-Identifier: Apache-2.0
"""Metrics over all samples of a test, summed up batch by batch by the C library, so that batches may be of any sizes.

>>> import torch
>>> right = Metric("accuracy")
>>> right.update(torch.tensor([[2.0, 1.0], [0.0, 3.0], [5.0, 4.0]]), torch.tensor([0, 1, 1]))
>>> right.update(torch.tensor([[0.0, 1.0]]), torch.tensor([1]))
>>> right.value
0.75
>>> Metric("f1", average="binary", name="f1 of spam").name, Metric("rmse").greater_is_better
('f1 of spam', False)
"""

from typing import Literal

import torch

from sambaflow._core import ffi, lib
from sambaflow.runtime import Context
from sambaflow.samba.arguments import one_of
from sambaflow.samba.ports import host_tensor
from sambaflow.words import encoded

KINDS: tuple[str, ...] = ("mean", "accuracy", "top_k", "precision", "recall", "f1", "perplexity", "rmse", "mae")
_AVERAGES = ("macro", "micro", "binary")


class Metric:
    """A metric of one `kind`: 'accuracy', 'top_k' (of `k`, 5), 'precision', 'recall' and 'f1' (by `average` 'macro', 'micro'
    or 'binary'), 'perplexity', 'rmse', 'mae', or 'mean' of numbers. Values are those of scikit-learn's functions, from
    scores: logits of classes in the last dim, or one score for each target, which says 1 above `threshold`. Targets of
    `ignore_index` do not count (None: all do). In samba.fit `output` says which output of the model it looks at (0: the first
    behind the loss), and `target` which tensor of a batch it compares with, by name or index."""

    kind: str
    name: str
    output: int
    target: int | str

    def __init__(
        self,
        kind: str,
        *,
        name: str | None = None,
        output: int = 0,
        target: int | str = -1,
        k: int | None = None,
        average: Literal["macro", "micro", "binary"] = "macro",
        threshold: float = 0.0,
        ignore_index: int | None = -100,
    ) -> None:
        one_of("kind of Metric", kind, KINDS)
        one_of("average", average, _AVERAGES)
        self.kind, self.name, self.output, self.target = kind, kind if name is None else name, output, target
        self._context = Context()
        options = ffi.new("samba_metric_options *", lib.samba_metric_defaults(KINDS.index(kind)))
        kept = ffi.new("char[]", encoded(self.name, "Metric: name"))
        options.name, options.average, options.threshold = kept, _AVERAGES.index(average), threshold
        options.k, options.ignores = k or 0, ignore_index is not None
        options.ignore_index = -100 if ignore_index is None else ignore_index
        made = ffi.new("samba_metric **")
        self._context.check(lib.samba_metric_new(self._context.c, options, made))
        self._c = self._context.owned(made[0], lib.samba_metric_free)

    def __repr__(self):
        return f"Metric({self.name!r}, value={self.value:.6g})"

    @property
    def greater_is_better(self) -> bool:
        """Whether a greater value is a better one."""
        return bool(lib.samba_metric_is_greater_better(KINDS.index(self.kind)))

    def update(self, output: torch.Tensor, target: torch.Tensor, count: int | None = None) -> None:
        """Takes a batch, or its first `count` samples.

        Args:
            output: the model's, a tensor of (samples, ..., classes), or of the targets' shape.
            target: a tensor of (samples, ...).
            count: how many samples count, from the first; None: all.

        Raises:
            ShapeError: they do not fit each other.
        """
        rows = len(output) if count is None else count
        output, target = host_tensor(output, "output"), host_tensor(target, "target")
        self._context.check(lib.samba_metric_update(self._c, output.c, target.c, rows))

    def add(self, value: float, weight: float = 1.0) -> None:
        """Of 'mean' and 'perplexity': one number `value`, such as a batch's loss, that counts as `weight`."""
        self._context.check(lib.samba_metric_add(self._c, float(value), float(weight)))

    @property
    def value(self) -> float:
        """The value of all that was taken; NaN where nothing was."""
        return lib.samba_metric_value(self._c)

    def reset(self) -> None:
        """Forgets what was taken."""
        lib.samba_metric_reset(self._c)
