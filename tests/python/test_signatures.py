# SPDX-License-Identifier: Apache-2.0
"""Every function takes what the documents say: the same names in the same order with the same defaults. More may follow. Where
the documents have an empty list or dict as a default, None or an empty tuple does as well.
Functions that are written in C, and so have no signature, are called."""

import inspect

import pytest
import torch
from fragments import DOCUMENTS as FOLDER
from signatures import DOCUMENTED, headings, listed

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.keywords import exact
from sambaflow.samba.sambaloader import ReplicaBatches, SambaLoader

OWNERS = {
    "samba-tensor.txt": (samba.SambaTensor, samba),
    "samba-session.txt": (samba.SambaSession, samba),
    "samba-utils.txt": (utils,),
}
NOTHING = ("[]", "{}", "()", "None")
BY_CALL = (
    "__getitem__ __setitem__ backward bfloat16 bool dim element_size float int is_floating_point long ndimension nelement "
    "new_empty new_ones new_zeros numel permute "
    "requires_grad_ reshape short size stride to view_as"
)


@pytest.mark.skipif(not FOLDER.is_dir(), reason=f"the documents are not at {FOLDER}")
@pytest.mark.parametrize("document", DOCUMENTED)
def test_the_list_is_that_of_the_documents(document):
    assert listed(DOCUMENTED[document]) == headings((FOLDER / document).read_text(encoding="utf-8"))


def ours(function):
    """[(name, default as text)] of a function that is there."""
    rows = []
    for name, its in inspect.signature(function).parameters.items():
        stars = {its.VAR_POSITIONAL: "*", its.VAR_KEYWORD: "**"}.get(its.kind, "")
        if name not in ("self", "cls"):
            rows.append((stars + name, None if its.default is its.empty else repr(its.default)))
    return rows


@pytest.mark.parametrize("document", DOCUMENTED)
def test_parameters(document):
    for name, expected in listed(DOCUMENTED[document]).items():
        function = next(getattr(owner, name) for owner in OWNERS[document] if hasattr(owner, name))
        if name in BY_CALL.split():
            continue
        given = ours(function.__new__ if name == "SambaTensor" else function.__init__ if name == "SambaSession" else function)
        fixed = [row for row in expected if not row[0].startswith("*")]
        for (mine, default), (its, documented) in zip(given, fixed):
            assert mine == its, f"{name} has {mine} where the document has {its}"
            assert default == documented or (default in NOTHING and documented in NOTHING), (
                f"{name}({mine}={default}), the document has {documented}"
            )
        assert len(given) >= len(fixed), f"{name} lacks {fixed[len(given) :]}"
        assert all(default is not None or mine.startswith("*") for mine, default in given[len(fixed) :]), (
            f"{name} wants more than the document"
        )
        for star in {row[0][: row[0].rfind("*") + 1] for row in expected if row[0].startswith("*")}:
            named = star == "**" and len(given) > len(fixed)  # by their names, in the place of whatever keywords
            assert named or any(row[0].startswith(star) for row in given), f"{name} takes no {star}"


def test_signatures_are_true():
    """What help and editors show is what is taken: no *args and **kwargs that stand for names."""
    tensor = "new_empty new_ones new_zeros new_full".split()
    shown = {f"SambaTensor.{name}": getattr(samba.SambaTensor, name) for name in tensor}
    for owner in (samba.SambaSession, utils, utils.argparser, utils.common, samba.optim, SambaLoader, ReplicaBatches):
        for name, x in vars(owner).items():
            x = getattr(owner, name)
            ours_too = getattr(x, "__module__", "").startswith("sambaflow.samba") and x is not exact
            if callable(x) and not name.startswith("_") and ours_too:
                shown[f"{owner.__name__}.{name}"] = x
    stars = {
        name
        for name, x in shown.items()
        for its in inspect.signature(x).parameters.values()
        if its.kind in (its.VAR_POSITIONAL, its.VAR_KEYWORD)
    }
    assert {name.rpartition(".")[2] for name in stars} == {"use_abexit", "atexit_register", "parse_yaml_to_args"}
    for name in ("SGD", "AdamW", "Lion"):
        given = [x for x, _ in ours(getattr(samba.optim, name))]
        assert given[:2] == ["params", "lr"] and {"weight_decay", "max_grad_norm"} < set(given), given
    for of_session, of_utils in (
        (samba.SambaSession.trace_graph, utils.trace_graph),
        (samba.SambaSession.trace_multigraph, utils.trace_multigraph),
    ):
        mine, its = (dict(ours(x)) for x in (of_session, of_utils))
        assert its.pop("session") == "None"
        mine["trace_prefix"] = its["trace_prefix"] = None  # '' and None are the same
        assert mine == its
    assert "input_tensors=None" in str(inspect.signature(samba.session.run)) and samba.session.run.__name__ == "run"
    compiling, driver = (dict(ours(x)) for x in (samba.SambaSession.compile, utils.common.common_app_driver))
    assert set(compiling) - set(driver) == {"optimizers"} and set(driver) - set(compiling) == {"args", "optim", "session"}


def test_by_call():
    x = samba.from_torch_tensor(torch.arange(6.0).reshape(2, 3), name="x")
    for new in (x.new_empty, x.new_ones, x.new_zeros):
        for made in (new((2, 3), torch.bfloat16, True), new(size=[2, 3], dtype=torch.bfloat16, requires_grad=True)):
            assert (
                isinstance(made, samba.SambaTensor)
                and made.shape == (2, 3)
                and made.dtype is torch.bfloat16
                and made.requires_grad
            )
        assert (
            new(4).shape == (4,)
            and new(2, 3, 4, dtype=torch.int64).shape == (2, 3, 4)
            and new(torch.Size([5])).dtype is torch.float32
        )
        assert new((2,), None, False).dtype is torch.float32 and new((2,), device="cpu").shape == (2,)
        with pytest.raises(TypeError, match="by position"):
            new((2,), torch.int64, False, 3)
        with pytest.raises(TypeError, match="dtype"):
            new((2,), torch.int64, dtype=torch.int64)
    assert x.new_full((2,), 3, torch.int64, torch.device("cpu"), False).tolist() == [3, 3]
    assert x.size() == (2, 3) and x.size(None) == (2, 3) and x.size(1) == x.size(dim=1) == 3
    assert x.stride() == x.stride(None) == (3, 1) and x.stride(0) == x.stride(dim=0) == 3
    assert (
        x.to(torch.float64).dtype
        is x.to(samba.ones(1, dtype=torch.float64)).dtype
        is x.to(dtype=torch.float64).dtype
        is torch.float64
    )
    assert x.view_as(other=samba.zeros(6)).shape == x.reshape(-1).shape == x.reshape((6,)).shape == (6,)
    assert x.permute(1, 0).shape == x.permute((1, 0)).shape == (3, 2)
    assert x.type_as(tensor=samba.zeros(1, dtype=torch.int64)).dtype is torch.int64
    y = samba.ones(2)
    assert y.requires_grad_() is y and y.requires_grad and not y.requires_grad_(requires_grad=False).requires_grad
    y.requires_grad_(True)
    y.sum().backward(None, True)
    (y * 2).backward(gradient=samba.ones(2), retain_graph=None)
    assert y.grad.tolist() == [3, 3]
    for cast in ("bfloat16", "bool", "float", "int", "long", "short"):
        assert getattr(x, cast)().dtype is getattr(torch, cast)
    assert (x.dim(), x.ndimension(), x.numel(), x.nelement(), x.element_size(), x.is_floating_point()) == (2, 2, 6, 6, 4, True)


def test_what_is_returned():
    x = samba.from_torch_tensor(torch.ones(2, 3), name="x")
    for expected, values in (
        (int, (x.dim(), x.ndim, x.ndimension(), x.numel(), x.nelement(), x.element_size(), x.data_ptr(), x.size(0), x.stride(0))),
        (torch.Size, (x.size(), x.shape)),
        (tuple, (x.stride(),)),
        (float, (x.sum().item(),)),
        (
            bool,
            (
                x.is_floating_point(),
                x.requires_grad,
                x.fast_access,
                x.materializer_provided,
                x.reusable(),
                samba.SambaTensor.is_fast_access("x"),
            ),
        ),
        (str, (x.type(), x.sn_name, x.sn_grad_name, x.sn_region_name)),
        (torch.dtype, (x.dtype,)),
        (torch.device, (x.device,)),
        (torch.Tensor, (x.data, x.torch(), x.torch_tensor(), samba.to_torch(x))),
        (type(None), (x.grad, x.materialize_(), x.clear_data(), x.torch())),
    ):
        assert [type(value) for value in values] == [expected] * len(values)
    x = samba.from_torch_tensor(torch.ones(2, 3), name="x")
    for value in (
        x.T,
        x[0],
        x.bool(),
        x.to(torch.int8),
        x.new_ones(2),
        x.reshape(6),
        x.permute(1, 0),
        x.view_as(x),
        x.type_as(x),
        x.requires_grad_(),
    ):
        assert isinstance(value, samba.SambaTensor)
