# SPDX-License-Identifier: Apache-2.0
"""Names, gradients and values of tensors that are one: host casts and views keep the name, torch() leads gradients back,
update_tensor changes the model's own parameter; materializers of every form; dummy inputs that mean nothing;
names that programs use."""

import random
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.nn.parameter import SambaParameter
from sambaflow.samba.utils.pef_utils import get_pefmeta_dict

CASTS = [
    ("bfloat16",),
    ("half",),
    ("double",),
    ("float",),
    ("long",),
    ("int",),
    ("short",),
    ("bool",),
    ("to", torch.float64),
    ("to", torch.float32),
    ("type", torch.half),
    ("type_as", torch.ones(1, dtype=torch.float64)),
    ("detach",),
    ("contiguous",),
]
VIEWS = [
    ("view", -1),
    ("reshape", 2, 6),
    ("reshape", -1),
    ("flatten",),
    ("unsqueeze", 0),
    ("squeeze",),
    ("view_as", torch.ones(6, 2)),
    ("reshape_as", torch.ones(12)),
]


def test_casts_and_views_keep_the_name():
    seed = random.randrange(2**32)
    print("seed", seed)
    draw = random.Random(seed)
    for _ in range(60):
        x = y = samba.randn(3, 4, name="image", batch_dim=0, region_name="r")
        plain, path = x.torch(), []
        for _ in range(draw.randrange(1, 6)):
            name, *args = step = draw.choice(CASTS + VIEWS)
            path.append(step)
            y, plain = getattr(y, name)(*args), getattr(plain, name)(*args)
        assert (y.sn_name, y.sn_region_name) == ("image", "r"), path
        assert torch.equal(y.torch(), plain) and y.shape == plain.shape and y.dtype is plain.dtype, path
        assert y.batch_dim in (0, None) and (
            y.batch_dim == 0 or y.shape[:1] != (3,) or any(name in dict.fromkeys(v[0] for v in VIEWS) for name, *_ in path)
        )
    x = samba.randn(3, 4, name="image")
    others = (
        x.clone(),
        x.t(),
        x[0],
        x[:, None],
        x.expand(2, 3, 4),
        x.view(torch.int32),
        x + 0,
        x.permute(1, 0),
        x.repeat(1, 1),
        torch.stack([x]),
    )
    assert [y.sn_name for y in others] == [""] * len(others)
    assert (
        torch.reshape(x, (4, 3)).sn_name == "image"
        and torch.flatten(x).sn_name == "image"
        and torch.Tensor.float(x.half()).sn_name == "image"
    )
    assert samba.ones(2).half().sn_name == ""


class Line(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 2)

    def forward(self, a, b=None):
        return self.lin(a) if b is None else self.lin(a) * b.float().sum()


def test_the_documents_inputs(tmp_path):
    """As programs make dummies; batches are found by the name, cast as well."""
    model = samba.from_torch_model_(Line())
    inputs = (samba.randn(4, 3, name="image", batch_dim=0).bfloat16().float(),)
    pef = samba.session.compile(model, inputs, inference=True, output_folder=tmp_path)
    outputs = utils.trace_graph(model, inputs, pef=pef)
    batch = torch.randn(4, 3)
    (out,) = samba.session.run((samba.from_torch_tensor(batch.double(), name="image").float(),), outputs)
    torch.testing.assert_close(out.torch(), F.linear(batch, model.lin.weight.torch().detach(), model.lin.bias.torch().detach()))
    kept = out.double().view(-1)
    samba.session.run((samba.zeros(4, 3, name="image"),), outputs)
    assert (
        kept.sn_name == "output_0" and kept.cpu() is kept and torch.equal(kept.torch(), out.torch().double().view(-1))
    )  # computed on the host: it is there
    weight = model.lin.weight.bfloat16()
    assert weight.cpu() is weight and weight.dtype is torch.bfloat16
    with pytest.raises(TypeError, match="is float32 in the PEF and bfloat16 was given"):
        weight.rdu()


@pytest.mark.parametrize("order", [0, 1])
def test_given_names_are_stronger(tmp_path, order):
    """Of two inputs of one name that which was given it has it, wherever it stands; the other has its place's."""
    model, x = samba.from_torch_model_(Line()), samba.randn(4, 3, name="x")
    inputs = (x, x.view(4, 3).bool()) if order == 0 else (x.view(2, 6).view(4, 3), x)
    pef = samba.session.compile(model, inputs, inference=True, output_folder=tmp_path)
    assert inputs[order].sn_name == "x" and inputs[1 - order].sn_name == f"input_{1 - order}"
    outputs = utils.trace_graph(model, inputs, pef=pef)
    (out,) = samba.session.run(inputs, outputs)
    torch.testing.assert_close(out.torch(), model(*inputs).torch().detach())
    with pytest.raises(LookupError, match='input "x" was given twice'):
        samba.session.run((x, x.detach()), outputs)
    pef = samba.session.compile(
        model, {"a": model.lin.weight.float().view(2, 3).detach(), "b": x}, inference=True, output_folder=tmp_path
    )
    assert {"a", "x", "lin.weight"} <= set(get_pefmeta_dict(pef)["tensors"])  # a parameter's name is its own


def test_torch_keeps_requires_grad():
    plain = torch.randn(3, requires_grad=True)
    x = samba.from_torch_tensor(plain)
    assert (
        x.torch().requires_grad
        and samba.to_torch(x).requires_grad
        and x.torch_tensor().is_leaf
        and x.torch().data_ptr() == plain.data_ptr()
    )
    assert not samba.ones(2).torch().requires_grad and not x.detach().torch().requires_grad
    (x.torch() ** 2).sum().backward()
    (3 * x).sum().backward()
    torch.testing.assert_close(x.grad.torch(), 2 * plain.detach() + 3)
    loss = (x * torch.tensor([1.0, 2.0, 3.0])).sum()
    x.grad = None
    loss.torch().backward()  # of what was computed on the host
    torch.testing.assert_close(x.grad.torch(), torch.tensor([1.0, 2.0, 3.0]))
    with torch.no_grad():
        assert x.torch().requires_grad
        x.torch().zero_()
    assert not plain.any()


def test_grad_is_a_samba_tensor():
    plain = torch.ones(3, requires_grad=True)
    (2 * plain).sum().backward()
    for x in (samba.from_torch_tensor(plain, name="x"), SambaParameter(plain, name="x")):
        assert isinstance(x.grad, samba.SambaTensor) and x.grad.sn_name == "x.grad" and x.grad.tolist() == [2, 2, 2]
    x = samba.ones(3, requires_grad=True)
    assert x.grad is None
    x.grad = torch.full((3,), 5.0)
    assert isinstance(x.grad, samba.SambaTensor) and x.grad is x.grad
    torch.nn.functional.mse_loss(x.torch(), torch.zeros(3)).backward()
    assert isinstance(x.grad, samba.SambaTensor) and x.grad.tolist() == pytest.approx([5 + 2 / 3] * 3)
    x.grad = None
    assert x.grad is None


def test_update_tensor_changes_the_model(tmp_path):
    model, x = Line(), samba.randn(4, 3, name="x")
    own = model.lin.weight
    samba.from_torch_model_(model)
    weight = model.lin.weight
    pef = samba.session.compile(model, (x,), inference=True, output_folder=tmp_path)
    outputs = utils.trace_graph(model, (x,), pef=pef)
    new = torch.arange(6.0).reshape(2, 3)
    samba.session.update_tensor("lin.weight", samba.from_torch_tensor(new))
    assert model.lin.weight is weight is samba.session.get_samba_tensor_by_name("lin.weight") and weight.requires_grad
    assert torch.equal(weight.torch(), new) and torch.equal(own, new) and torch.equal(weight.sn_data, new)
    (out,) = samba.session.run((x,), outputs)
    torch.testing.assert_close(out.torch(), model(x).torch().detach())
    new.zero_()
    assert weight.torch().any()  # a copy
    with pytest.raises(ValueError, match="lin.weight.* has the shape"):
        samba.session.update_tensor("lin.weight", torch.ones(3, 2))
    assert weight.torch().any()


# ---- materializers ----


def by_shape(shape, dtype, requires_grad):
    return torch.full(shape, 3.0, dtype=dtype, requires_grad=requires_grad)


def only_keywords(*, requires_grad, shape, dtype):
    return by_shape(shape, dtype, requires_grad)


class Method:
    def make(self, tensor):
        return torch.full(tensor.shape, 3.0, dtype=tensor.dtype)


FORMS = {
    "shape": by_shape,
    "other names": lambda a, b, c: by_shape(a, b, c),
    "keywords": only_keywords,
    "shape alone": lambda shape: torch.full(shape, 3.0),
    "two of them": lambda dtype, shape: torch.full(shape, 3.0, dtype=dtype),
    "rest": lambda *given: by_shape(*given),
    "any keywords": lambda **given: by_shape(**given),
    "tensor": lambda tensor: torch.full(tensor.shape, 3.0, dtype=tensor.dtype),
    "samba": lambda t: samba.full(t.shape, 3.0, dtype=t.dtype),
    "method": Method().make,
    "in place": lambda t: t.fill_(3.0),
    "in place, returns nothing": lambda t: [t.data.fill_(3.0), None][1],
    "init": lambda t: nn.init.constant_(t, 3.0),
    "rng": lambda tensor, rng: torch.full(tensor.shape, 3.0, dtype=tensor.dtype),
    "rng in place": lambda t, r: r.uniform_(t, 3.0, 3.0),
}


@pytest.mark.parametrize("form", FORMS)
def test_materializers(form, tmp_path):
    """Each is asked once, when the tensor goes to the device."""
    model, calls = samba.from_torch_model_(Line()), []
    signature = FORMS[form]
    model.lin.weight = SambaParameter(
        shape=(2, 3), dtype=torch.float32, materializer=signature, requires_grad=True, name="lin.weight"
    )
    assert not model.lin.weight.has_data and model.lin.weight.requires_grad and isinstance(model.lin.weight, nn.Parameter)
    x = samba.SambaTensor(shape=(4, 3), dtype=torch.float32, name="x", materializer=signature)
    pef = samba.session.compile(model, (x,), inference=True, output_folder=tmp_path)
    assert not x.has_data and not model.lin.weight.has_data and not calls
    outputs = utils.trace_graph(model, (x,), pef=pef)
    assert torch.equal(model.lin.weight.sn_data, torch.full((2, 3), 3.0))
    (out,) = samba.session.run((x,), outputs)
    torch.testing.assert_close(out.torch(), 27 + model.lin.bias.torch().detach().expand(4, 2))


def test_materializers_draw_by_the_library():
    def draw(name, seed):
        samba.session.enable_lazy_param(seed=seed)
        samba.session.disable_lazy_param()
        return samba.SambaTensor(
            shape=(1000,), dtype=torch.float32, materializer=lambda tensor, rng: getattr(rng, name)(tensor)
        ).torch_tensor()

    assert torch.equal(draw("normal_", 1), draw("normal_", 1)) and not torch.equal(draw("normal_", 1), draw("normal_", 2))
    assert abs(draw("normal_", 1).std() - 1) < 0.1 and 0 <= draw("uniform_", 1).min() and draw("uniform_", 1).max() < 1
    assert draw("trunc_normal_", 1).abs().max() <= 2
    twice = samba.SambaTensor(
        shape=(2, 4),
        dtype=torch.float32,
        materializer=lambda tensor, rng: torch.stack([rng.normal(size=(4,)), rng.uniform(size=4)]),
    )
    assert twice.torch_tensor().shape == (2, 4) and not torch.equal(*twice.torch())


@pytest.mark.parametrize(
    "wrong, said",
    [
        (3, "a materializer is a function"),
        (lambda: torch.ones(2), "a materializer is a function"),
        (lambda a, b, c, d: 0, r"\(tensor\), \(tensor, rng\) or \(shape, dtype, requires_grad\)"),
        (lambda tensor, *, scale: 0, "given <lambda>"),
    ],
)
def test_no_materializers(wrong, said):
    for make in (samba.SambaTensor, SambaParameter):
        with pytest.raises(TypeError, match=said):
            make(shape=(2,), dtype=torch.float32, materializer=wrong)


def test_what_materializers_must_make():
    for made, kind, said in (
        (3, TypeError, "returned 3 of int: expected a tensor"),
        (torch.ones(3), ValueError, r"made \(3,\)"),
        (torch.ones(2).half(), ValueError, "float16"),
    ):
        with pytest.raises(kind, match=said):
            samba.SambaTensor(
                shape=(2,), dtype=torch.float32, name="x", materializer=lambda tensor, made=made: made
            ).torch_tensor()
    for given in ({}, {"torch_tensor": torch.ones(2), "shape": (2,)}, {"torch_tensor": torch.ones(2), "dtype": torch.half}):
        with pytest.raises(ValueError, match="SambaParameter: give either torch_tensor or shape and dtype"):
            SambaParameter(**given)


# ---- dummies, section types ----


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.out = nn.Embedding(10, 4), nn.Linear(4, 5)

    def forward(self, ids, place, label):
        rows = self.table(ids).gather(1, place[:, None, None].expand(-1, 1, 4)).squeeze(1)
        logits = self.out(rows)
        return F.cross_entropy(logits, label), logits


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("lazy", [False, True])
def test_dummies_mean_nothing(tmp_path, dtype, lazy):
    """Until a run reads them: of inputs that it is given, and of those that it is not."""
    model = samba.from_torch_model_(Words())
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    bad = {"ids": torch.full((3, 6), 99, dtype=dtype), "place": torch.full((3,), -(2**31) + 1), "label": torch.full((3,), 5)}
    dummies = tuple(samba.from_torch_tensor(values, name=name) for name, values in bad.items())
    pef = samba.session.compile(model, dummies, optim, loss_indices=[0], output_folder=tmp_path)
    outputs = utils.trace_graph(model, dummies, optim, pef=pef, loss_indices=[0], transfer_device=not lazy)
    samba.session.to_device()
    samba.session.to_rdu(model, optim)
    for x in dummies:
        x.rdu()
    before = model.out.weight.sn_data
    good = {"ids": torch.randint(10, (3, 6)).to(dtype), "place": torch.tensor([0, 5, 2]), "label": torch.tensor([0, 4, -100])}
    for name, values in bad.items():
        batch = [samba.from_torch_tensor(values if name == key else x, name=key) for key, x in good.items()]
        with pytest.raises(ValueError, match=rf"input {name}\[0.*\] = .* is outside \["):
            samba.session.run(batch, outputs)
        others = [x for x in batch if x.sn_name != name]
        with pytest.raises(ValueError, match=rf"input {name}\[0.*it was set before, and this run was given no other"):
            samba.session.run(others, outputs)
    assert torch.equal(model.out.weight.sn_data, before)
    loss, logits = samba.session.run(
        [samba.from_torch_tensor(x, name=name) for name, x in good.items()], outputs, section_types=["fwd"]
    )
    torch.testing.assert_close(loss.torch(), model(*(samba.from_torch_tensor(x) for x in good.values()))[0].torch().detach())
    samba.session.run(output_tensors=outputs)  # by those


def test_section_types_that_are_not_needed(tmp_path):
    model, x = samba.from_torch_model_(Line()), samba.randn(4, 3, name="x")
    optim = samba.optim.SGD(model.parameters(), lr=0.1)
    pef = samba.session.compile(model, (x,), optim, output_folder=tmp_path)
    utils.trace_graph(model, (x,), optim, pef=pef)
    with pytest.warns(
        RuntimeWarning, match="has no section of type REDUCE, GRADNORM, which its model does not need: runs leave it out"
    ) as told:
        for _ in range(3):
            samba.session.run((x,), section_types=["fwd", "bckwd", "gradnorm", "Reduce", "opt"])
    assert len(told) == 1
    trained = model.lin.weight.sn_data
    samba.session.run((x,), section_types=["REDUCE"])  # nothing
    assert torch.equal(model.lin.weight.sn_data, trained)
    for word in ("GRAD_NORM", "ZEROGRADS", "reduced"):
        with pytest.raises(LookupError, match=f'no section type "{word}"; this PEF has: "FWD", "BCKWD", "OPT"'):
            samba.session.run((x,), section_types=["FWD", word])
    pef = samba.session.compile(model, (x,), inference=True, output_folder=tmp_path)
    utils.trace_graph(model, (x,), pef=pef)
    for word in ("BCKWD", "OPT"):
        with pytest.raises(LookupError, match=f'no section of type "{word}"; this PEF has: "FWD"'):
            samba.session.run((x,), section_types=["FWD", word])


# ---- names ----


def test_other_names():
    x = torch.ones(2, 3)
    assert (
        samba.from_torch_tensor_(x, "x", 0).sn_name == "x" and samba.from_torch_tensor_(x, name="x", batch_dim=0).batch_dim == 0
    )
    assert samba.from_torch_tensor(x, name="x", sized_dims=("a", None), named_dims=("a", None)).sn_name == "x"
    several = samba.from_torch({"a": x, "n": torch.tensor(3)}, batch_dim=0)
    assert several["a"].batch_dim == 0 and several["n"].batch_dim is None
    with pytest.raises(IndexError, match=r"batch_dim is 5 and the tensor has shape"):
        samba.from_torch_tensor(x, batch_dim=5)
    made = samba.from_torch(x, name="x", batch_dim=0)
    assert made.sn_name == "x" and made.batch_dim == 0 and made.data_ptr() == x.data_ptr()
    assert [y.sn_name for y in samba.from_torch((x, [x]), name="in")[1]] == ["in.1.0"] and samba.from_torch({"a": x}, name="in")[
        "a"
    ].sn_name == "in.a"
    batch = {"a": x, "b": [x, 3]}
    assert (
        samba.from_torch_(batch) is batch
        and isinstance(batch["a"], samba.SambaTensor)
        and isinstance(batch["b"][0], samba.SambaTensor)
        and batch["b"][1] == 3
    )
    model = nn.Linear(3, 2)
    assert (
        samba.from_torch_(model) is model
        and isinstance(model.weight, samba.SambaTensor)
        and samba.from_torch_(x, name="x").sn_name == "x"
    )
    with pytest.raises(TypeError, match="name='m' is a tensor's: a Linear is a module"):
        samba.from_torch(nn.Linear(2, 2), name="m")
    parameters = {"weight": [2, 3], "bias": [2]}
    assert get_pefmeta_dict({"width": 3}, model) == {"model": "Linear", "parameters": parameters, "arguments": {"width": 3}}


def test_modules_are_there():
    code = (
        "import sambaflow.samba as s; s.utils.common.common_app_driver, s.utils.argparser.parse_app_args, "
        "s.utils.pef_utils.get_pefmeta, s.utils.utils.trace_graph"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300).returncode == 0


def test_lazy_param():
    with samba.lazy_param(seed=3):
        first = nn.Linear(4, 4)
        with samba.lazy_param(seed=3, init_threads=1):
            inner = nn.Linear(4, 4)
        assert samba.session.use_lazy_param() and not nn.Linear(2, 2).weight.has_data
    assert (
        not samba.session.use_lazy_param()
        and isinstance(nn.Linear(2, 2).weight, nn.Parameter)
        and not isinstance(nn.Linear(2, 2).weight, samba.SambaTensor)
    )
    assert not first.weight.has_data and torch.equal(first.weight.torch_tensor(), inner.weight.torch_tensor())
    with pytest.raises(KeyError), samba.lazy_param():
        raise KeyError
    assert not samba.session.use_lazy_param()


@pytest.mark.parametrize("traced", [False, True])
def test_addmm(tmp_path, traced):
    c, a, b = samba.randn(2, name="c"), samba.randn(3, 4, name="a"), samba.randn(2, 4, name="b")

    class Model(nn.Module):
        def forward(self, c, a, b):
            return samba.addmm(c, a, b, beta=0.5, alpha=2, is_transposed=True), samba.addmm(c, a, b.t())

    expected = (
        torch.addmm(c.torch(), a.torch(), b.torch().t(), beta=0.5, alpha=2),
        torch.addmm(c.torch(), a.torch(), b.torch().t()),
    )
    model = Model()
    results = model(c, a, b)
    if traced:
        pef = samba.session.compile(model, (c, a, b), inference=True, output_folder=tmp_path)
        results = samba.session.run((c, a, b), utils.trace_graph(model, (c, a, b), pef=pef))
    for mine, its in zip(results, expected):
        torch.testing.assert_close(mine.torch(), its)


@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}, {"scale_grad_by_freq": True}])
@pytest.mark.parametrize("traced", [False, True])
def test_int16_indices(tmp_path, traced, options):
    table = nn.Embedding(7, 3, **options)
    reference = nn.Embedding(7, 3, **options)
    reference.load_state_dict(table.state_dict())
    samba.from_torch_model_(table)
    ids = torch.tensor([[0, 6, 2], [2, 2, 5]])
    given = samba.from_torch_tensor(ids.short(), name="ids")
    (reference(ids) ** 2).sum().backward()

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = table

        def forward(self, ids):
            return (self.table(ids) ** 2).sum()

    model = Model()
    if traced:
        pef = samba.session.compile(model, (given,), samba.optim.SGD(table.parameters(), lr=0.1), output_folder=tmp_path)
        utils.trace_graph(model, (given,), pef=pef)
        samba.session.run((given,), section_types=["fwd", "bckwd"])
        gradient = table.weight.sn_grad
        for bad in (7, -1, 32767):
            with pytest.raises(ValueError, match=rf"input ids\[0, 1\] = {bad} is outside \[0, 7\) \(embedding\)"):
                samba.session.run((samba.from_torch_tensor(torch.tensor([[0, bad, 2], [2, 2, 5]]).short(), name="ids"),))
    else:
        model(given).backward()
        gradient = table.weight.grad.torch()
    torch.testing.assert_close(gradient, reference.weight.grad)
    for dtype in (torch.int8, torch.uint8):  # as torch
        with pytest.raises(TypeError, match="expected indices of dtype int64 or int32"):
            table(samba.from_torch_tensor(ids.to(dtype)))
