# SPDX-License-Identifier: Apache-2.0
"""Losses: every reduction, all arguments, targets that broadcast, promote, or are ignored."""

import torch
import torch.nn.functional as F
from table import HALVES, Maker, Operator, Sample

REDUCTIONS = ("mean", "sum", "none")
SHAPES = [(), (1,), (7,), (3, 5), (2, 1, 3), (33, 17), (2, 3, 2, 3, 2), (0,), (4, 0, 2)]


def _count(x):
    return max(2, x.numel())


def _pairs(make, other=None, low=None, high=None):
    """(input, target, reduction) of each shape and layout; other(shape) makes the target."""
    other = other or (lambda *shape: make.tensor(*shape))
    for i, shape in enumerate(SHAPES):
        shape = make.sized(shape)
        for reduction in REDUCTIONS if len(shape) < 3 else REDUCTIONS[i % 3 :][:1]:
            yield make.tensor(*shape, low=low, high=high), other(*shape), reduction
    for layout in Maker.LAYOUTS[1:]:
        yield make.tensor(5, 9, low=low, high=high, layout=layout), other(5, 9), "mean"


def _plain(**options):
    def samples(make):
        for x, y, reduction in _pairs(make):
            yield Sample((x, y), {"reduction": reduction, **options}, terms=_count(x))

    return samples


def _weighted(**options):
    def samples(make):
        yield from _plain(**options)(make)
        for reduction in REDUCTIONS:
            yield Sample(
                (make.tensor(4, 3), make.tensor(4, 3)),
                {"reduction": reduction, "weight": make.tensor(4, 3, low=0.5, high=2), **options},
                terms=12,
            )

    return samples


def _thresholds(word, *values):
    def samples(make):
        yield from _plain()(make)
        for value in values:
            for x, y, reduction in list(_pairs(make))[::3]:
                yield Sample((x, y), {"reduction": reduction, word: value}, terms=_count(x))

    return samples


def _kl_div(make):
    for reduction in (*REDUCTIONS, "batchmean"):
        for shape in [(7,), (3, 5), (2, 3, 4), (33, 17), (0, 3)]:
            shape = make.sized(shape)
            x, y = make.tensor(*shape, low=-4, high=0), make.tensor(*shape, low=0, high=1)
            yield Sample((x, y), {"reduction": reduction}, terms=_count(x))
            yield Sample((x, make.tensor(*shape, low=-4, high=0)), {"reduction": reduction, "log_target": True}, terms=_count(x))
    zeros = torch.where(make.tensor(3, 5, low=0, high=1) > 0.5, 0.0, make.tensor(3, 5, low=0.1, high=1)).to(make.dtype)
    yield Sample((make.tensor(3, 5, low=-4, high=0), zeros), {"reduction": "sum"}, terms=15, gradient=False)


def _likely(make, low=0.05, high=0.95):
    return lambda *shape: make.tensor(*shape, low=low, high=high)


def _binary_cross_entropy(make):
    for x, y, reduction in _pairs(make, _likely(make), 0.05, 0.95):
        yield Sample((x, y), {"reduction": reduction}, terms=_count(x))
    for reduction in REDUCTIONS:
        yield Sample(
            (_likely(make)(4, 3), _likely(make)(4, 3)),
            {"reduction": reduction, "weight": make.tensor(3, low=0.5, high=2, requires_grad=False)},
            terms=12,
        )
    edges, bits = torch.tensor([0.0, 1.0, 0.0, 1.0]), torch.tensor([0.0, 1.0, 1.0, 0.0])
    yield Sample((edges.to(make.dtype), bits.to(make.dtype)), {"reduction": "none"}, terms=1, gradient=False)


def _with_logits(make):
    for x, y, reduction in _pairs(make, _likely(make, 0, 1)):
        yield Sample((x, y), {"reduction": reduction}, terms=_count(x))
    for reduction in REDUCTIONS:
        x, y, w = make.tensor(4, 3), _likely(make)(4, 3), make.tensor(3, low=0.5, high=2, requires_grad=False)
        yield Sample((x, y), {"reduction": reduction, "weight": w}, terms=12)
        yield Sample((x, y), {"reduction": reduction, "pos_weight": w}, terms=12)
        yield Sample(
            (x, y), {"reduction": reduction, "pos_weight": w, "weight": make.tensor(4, 3, requires_grad=False)}, terms=12
        )
    far = torch.tensor([-200.0, 200.0, -90.0, 90.0]).to(make.dtype)
    yield Sample((far, torch.tensor([0.0, 1.0, 1.0, 0.0]).to(make.dtype)), {"reduction": "none"}, terms=2)


def _poisson(make):
    for full in (False, True):
        for reduction in REDUCTIONS:
            for shape in [(7,), (3, 5), (2, 3, 4)]:
                shape = make.sized(shape)
                y = make.tensor(*shape, low=0, high=6, requires_grad=False)
                yield Sample((make.tensor(*shape), y), {"full": full, "reduction": reduction}, terms=_count(y))
                yield Sample(
                    (make.tensor(*shape, low=0.1, high=3), y),
                    {"log_input": False, "full": full, "eps": 0.01, "reduction": reduction},
                    terms=_count(y),
                )


def _gaussian(make):
    for full in (False, True):
        for reduction in REDUCTIONS:
            for shape in [(7,), (3, 5), (2, 3, 4)]:
                shape = make.sized(shape)
                x, y = make.tensor(*shape), make.tensor(*shape)
                for var in (shape, (*shape[:-1], 1), shape[:-1]):
                    yield Sample(
                        (x, y, make.tensor(*var, low=0.3, high=2)), {"full": full, "reduction": reduction}, terms=_count(x)
                    )
    yield Sample(
        (make.tensor(3, 5), make.tensor(3, 5), make.tensor(3, 5, low=0.01, high=0.2)), {"eps": 0.1}, terms=15, gradient=False
    )  # torch's passes through the least variance


def _signs(make):
    return lambda *shape: make.tensor(*shape, low=0, high=1, requires_grad=False).gt(0.5).to(make.dtype) * 2 - 1


def _signed(make, *shape):
    signs = _signs(make)(*shape)
    signs.no_gradient = True
    return signs


def _soft_margin(make):
    for x, y, reduction in _pairs(make, lambda *shape: _signed(make, *shape)):
        yield Sample((x, y), {"reduction": reduction}, terms=_count(x))


def _hinge(make):
    for x, y, reduction in _pairs(make, lambda *shape: _signed(make, *shape)):
        yield Sample((x, y), {"reduction": reduction, "margin": 1.25 if x.dim() % 2 else 1.0}, terms=_count(x))


def _ranking(make):
    for x, y, reduction in _pairs(make, lambda *shape: _signed(make, *shape)):
        yield Sample((x, make.tensor(*x.shape), y), {"reduction": reduction, "margin": 0.5 * (x.dim() % 2)}, terms=_count(x))


def _cosine_embedding(make):
    for reduction in REDUCTIONS:
        for margin in (0.0, 0.3, -0.2):
            for rows, width in [(5, 4), (1, 7), (33, 17)]:
                yield Sample(
                    (make.tensor(rows, width), make.tensor(rows, width), _signed(make, rows)),
                    {"margin": margin, "reduction": reduction},
                    terms=rows * width,
                )
        yield Sample((make.tensor(6), make.tensor(6), _signed(make)), {"reduction": reduction}, terms=6)


def _triplet(make):
    for reduction in REDUCTIONS:
        for shape in [(6,), (5, 4), (2, 3, 4)]:
            shape = make.sized(shape)
            for options in ({}, {"swap": True}, {"p": 3.0, "margin": 0.5, "eps": 1e-2}, {"p": 1.0}):
                yield Sample(
                    tuple(make.tensor(*shape) for _ in range(3)),
                    {"reduction": reduction, **options},
                    terms=3 * _count(make.tensor(*shape)),
                )


# ---- classes ----


def _labelled(make):
    """Logits and labels of every rank."""
    for shape in [(5, 4), (1, 7), (33, 17), (4,), (2, 3, 5), (2, 3, 4, 5), (2, 4, 1, 3, 2), (3, 1)]:
        shape = make.sized(shape)
        x = make.tensor(*shape)
        dim = 1 if x.dim() > 1 else 0
        yield x, make.index(shape[dim], *shape[:dim], *shape[dim + 1 :]), shape[dim]
    for layout in Maker.LAYOUTS[1:]:
        yield make.tensor(6, 5, layout=layout), make.index(5, 6), 5


def _classes(smooth, log):
    def samples(make):
        for i, (x, label, classes) in enumerate(_labelled(make)):
            x = F.log_softmax(x.double(), 1 if x.dim() > 1 else 0).to(make.dtype) if log else x
            weight = make.tensor(classes, low=0.5, high=2, requires_grad=False)
            for reduction in REDUCTIONS:
                options = {"reduction": reduction, **({"label_smoothing": 0.1} if smooth and i % 2 else {})}
                yield Sample((x, label), options, terms=_count(x))
                yield Sample((x, label, weight), options, terms=_count(x))
            if classes > 1 and label.numel() > 1:
                label = torch.where(torch.arange(label.numel()).reshape(label.shape) % 3 == 0, 1, label)
                label.view(-1)[-1] = 0
                yield Sample((x, label), {"ignore_index": 1}, terms=_count(x))
                yield Sample(
                    (x, label, weight), {"ignore_index": 1, **({"label_smoothing": 0.2} if smooth else {})}, terms=_count(x)
                )

    return samples


def _cross_entropy(make):
    yield from _classes(True, False)(make)
    for shape in [(5, 4), (4,), (2, 3, 5), (2, 4, 2, 3)]:
        shape = make.sized(shape)
        dim = 1 if len(shape) > 1 else 0
        shares = torch.softmax(make.tensor(*shape).double(), dim).to(make.dtype)
        weight = make.tensor(shape[dim], low=0.5, high=2, requires_grad=False)
        for reduction in REDUCTIONS:
            yield Sample((make.tensor(*shape), shares), {"reduction": reduction}, terms=_count(shares))
            yield Sample(
                (make.tensor(*shape), shares, weight), {"reduction": reduction, "label_smoothing": 0.1}, terms=_count(shares)
            )


def _multi_margin(make):
    for i, (x, label, classes) in enumerate(_labelled(make)):
        if x.dim() > 2:
            continue
        for reduction in REDUCTIONS:
            options = {"reduction": reduction, "p": 1 + i % 2, "margin": (1.0, 0.5, 0.0)[i % 3]}
            yield Sample((x, label), options, terms=_count(x))
            yield Sample(
                (x, label), {"weight": make.tensor(classes, low=0.5, high=2, requires_grad=False), **options}, terms=_count(x)
            )


def _multilabel_margin(make):
    for rows, classes in [(5, 4), (1, 7), (8, 17), (3, 1)]:
        rows, classes = make.sized((rows, classes))
        labels = torch.stack([torch.randperm(classes, generator=make.generator) for _ in range(rows)])
        labels[torch.arange(classes) > make.index(classes, rows, 1)] = -1
        for reduction in REDUCTIONS:
            yield Sample((make.tensor(rows, classes), labels), {"reduction": reduction}, terms=rows * classes)
            yield Sample((make.tensor(classes), labels[0]), {"reduction": reduction}, terms=classes)


def _multilabel_soft_margin(make):
    for reduction in REDUCTIONS:
        for shape in [(5, 4), (1, 7), (33, 17), (6,), (2, 3, 4)]:
            shape = make.sized(shape)
            y = make.tensor(*shape, low=0, high=1, requires_grad=False)
            yield Sample((make.tensor(*shape), y), {"reduction": reduction}, terms=_count(y))
            yield Sample(
                (make.tensor(*shape), y),
                {"reduction": reduction, "weight": make.tensor(shape[-1], low=0.5, high=2, requires_grad=False)},
                terms=_count(y),
            )


NO_HALVES = dict.fromkeys(HALVES, "torch's kernel has float32 and float64 alone")


def _of_logits(logits, *args, **kwargs):
    return F.ctc_loss(logits.log_softmax(-1), *args, **kwargs)


def _ctc(make):
    """Rows that repeat labels, that have none, that have as many as steps; lengths as tensors and as tuples; targets in one
    line."""

    def lengths(most, *counts):
        return torch.tensor([min(most, n) for n in counts])

    for i, (steps, classes, most) in enumerate([(7, 5, 3), (1, 3, 1), (12, 4, 5), (5, 2, 2), (9, 30, 4)]):
        for reduction in REDUCTIONS:
            targets = make.index(classes - 1, 4, most) + 1
            spoken = lengths(steps, steps, steps, max(steps - 2, 1), steps)
            labels = lengths(most, most // 2, 0, 1, (most + 1) // 2)
            yield Sample(
                (make.tensor(steps, 4, classes), targets, spoken, labels), {"reduction": reduction, "zero_infinity": i % 2 == 1},
                terms=steps * most,
            )  # fmt: skip
    blank_last = make.index(4, 2, 3)
    yield Sample((make.tensor(8, 2, 5), blank_last, (8, 7), (3, 2)), {"blank": 4, "reduction": "sum"}, terms=30)
    line = make.index(4, 5) + 1
    yield Sample((make.tensor(9, 3, 5), line, torch.tensor([9, 8, 9]), torch.tensor([2, 0, 3])), {"reduction": "none"}, terms=30)
    yield Sample((make.tensor(6, 4), make.index(3, 2) + 1, torch.tensor(6), torch.tensor(2)), {"reduction": "none"}, terms=20)
    repeated = torch.tensor([[2, 2, 2], [1, 1, 2]])  # three of a kind need five steps
    yield Sample((make.tensor(4, 2, 4), repeated, (4, 4), (3, 3)), {"zero_infinity": True, "reduction": "none"}, terms=20)
    yield Sample((make.tensor(6, 2, 4, layout="transposed"), repeated, (6, 5), (3, 2)), terms=20)


OPERATORS = [
    Operator("mse_loss", F.mse_loss, _weighted()),
    Operator(
        "l1_loss", F.l1_loss, _plain(), note="torch keeps a weight to itself: F.l1_loss does not hand it to a tensor subclass"
    ),
    Operator("smooth_l1_loss", F.smooth_l1_loss, _thresholds("beta", 0.5, 0.0)),
    Operator("huber_loss", F.huber_loss, _thresholds("delta", 0.5)),
    Operator("kl_div", F.kl_div, _kl_div),
    Operator("binary_cross_entropy", F.binary_cross_entropy, _binary_cross_entropy),
    Operator("binary_cross_entropy_with_logits", F.binary_cross_entropy_with_logits, _with_logits),
    Operator("poisson_nll_loss", F.poisson_nll_loss, _poisson),
    Operator("gaussian_nll_loss", F.gaussian_nll_loss, _gaussian),
    Operator("soft_margin_loss", F.soft_margin_loss, _soft_margin),
    Operator("hinge_embedding_loss", F.hinge_embedding_loss, _hinge),
    Operator("margin_ranking_loss", F.margin_ranking_loss, _ranking),
    Operator("cosine_embedding_loss", F.cosine_embedding_loss, _cosine_embedding),
    Operator("triplet_margin_loss", F.triplet_margin_loss, _triplet),
    Operator("cross_entropy", F.cross_entropy, _cross_entropy),
    Operator("ctc_loss", _of_logits, _ctc, dtypes=(torch.float32, torch.float64)),
    Operator("nll_loss", F.nll_loss, _classes(False, True)),
    Operator("multi_margin_loss", F.multi_margin_loss, _multi_margin, without=NO_HALVES),
    Operator("multilabel_margin_loss", F.multilabel_margin_loss, _multilabel_margin, without=NO_HALVES),
    Operator("multilabel_soft_margin_loss", F.multilabel_soft_margin_loss, _multilabel_soft_margin),
]
