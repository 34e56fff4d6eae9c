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

from sambaflow._core import ffi, lib
from sambaflow.runtime import Context
from sambaflow.samba.arguments import one_of
from sambaflow.samba.ports import host_tensor
from sambaflow.words import encoded

KINDS = ("mean", "accuracy", "top_k", "precision", "recall", "f1", "perplexity", "rmse", "mae")
_AVERAGES = ("macro", "micro", "binary")


class Metric:
    """'accuracy', 'top_k' (of `k`, 5), 'precision', 'recall' and 'f1' (by `average` 'macro', 'micro' or 'binary'), 'perplexity',
    'rmse', 'mae', or 'mean' of numbers. Values are those of scikit-learn's functions, from scores: logits of classes in the last
    dim, or one score for each target, which says 1 above `threshold`. Targets of `ignore_index` do not count (None: all do).
    In samba.fit `output` says which output of the model it looks at (0: the first behind the loss), and `target` which tensor of
    a batch it compares with, by name or index."""

    def __init__(self, kind, *, name=None, output=0, target=-1, k=None, average="macro", threshold=0.0, ignore_index=-100):
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
    def greater_is_better(self):
        """Whether a greater value is a better one."""
        return bool(lib.samba_metric_is_greater_better(KINDS.index(self.kind)))

    def update(self, output, target, count=None):
        """Takes a batch, or its first `count` samples."""
        rows = len(output) if count is None else count
        output, target = host_tensor(output, "output"), host_tensor(target, "target")
        self._context.check(lib.samba_metric_update(self._c, output.c, target.c, rows))

    def add(self, value, weight=1.0):
        """Of 'mean' and 'perplexity': one number, such as a batch's loss, that counts as `weight`."""
        self._context.check(lib.samba_metric_add(self._c, float(value), float(weight)))

    @property
    def value(self):
        """The value of all that was taken; NaN where nothing was."""
        return lib.samba_metric_value(self._c)

    def reset(self):
        """Forgets what was taken."""
        lib.samba_metric_reset(self._c)
