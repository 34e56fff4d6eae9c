# SPDX-License-Identifier: Apache-2.0
"""Converted models in another dtype: Module.double() and the like keep parameters who they are, names, ties and what trains.
Tensors as numbers, and beside what is none."""

import copy
import operator
import warnings

import pytest
import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.errors import HostFallbackWarning
from sambaflow.samba.graph import SambaGraph


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = torch.nn.Linear(4, 6, bias=False)
        self.normal = torch.nn.BatchNorm1d(6)
        self.decode = torch.nn.Linear(4, 6, bias=False)
        self.decode.weight = self.encode.weight
        self.normal.bias.requires_grad_(False)

    def forward(self, x):
        return torch.tanh(self.normal(self.encode(x))) @ self.decode.weight


@pytest.fixture
def model():
    torch.manual_seed(7)
    with warnings.catch_warnings():
        warnings.simplefilter("error", HostFallbackWarning)
        yield samba.from_torch_model_(Tied().eval())


def facts(model):
    return {
        path: (type(x), x.sn_name, x.requires_grad)
        for path, x in (*model.named_parameters(remove_duplicate=False), *model.named_buffers())
    }


CHANGES = {
    "double": (lambda m: m.double(), torch.float64),
    "half": (lambda m: m.half(), torch.float16),
    "bfloat16": (lambda m: m.bfloat16(), torch.bfloat16),
    "float": (lambda m: m.double().float(), torch.float32),
    "to": (lambda m: m.to(torch.float64), torch.float64),
    "to device": (lambda m: m.to("cpu", torch.bfloat16), torch.bfloat16),
    "of a copy": (lambda m: copy.deepcopy(m).double(), torch.float64),
    "copied": (lambda m: copy.deepcopy(m.double()), torch.float64),
}


@pytest.mark.parametrize("change", CHANGES)
def test_dtypes(model, change):
    before, values = facts(model), {name: samba.to_torch(x).clone() for name, x in model.state_dict().items()}
    parameter, (convert, dtype) = model.encode.weight, CHANGES[change]
    changed = convert(model)
    assert facts(changed) == before
    assert changed.decode.weight is changed.encode.weight and (
        change.startswith(("of", "copied")) or changed.encode.weight is parameter
    )
    for name, x in changed.state_dict().items():
        expected = (
            values[name].to(torch.float64 if change == "float" else dtype).to(dtype)
            if values[name].is_floating_point()
            else values[name]
        )
        assert x.dtype == expected.dtype and torch.equal(samba.to_torch(x), expected)
        assert samba.to_torch(x).dtype == x.dtype


def test_gradients_and_optimizers(model):
    """A gradient is converted too; an optimizer that was made before trains what it was given."""
    theirs = Tied().eval()
    theirs.load_state_dict({name: samba.to_torch(x).clone() for name, x in model.state_dict().items()})
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(2))
    for m, wrap in ((model, samba.SambaTensor), (theirs, lambda x: x)):
        optimizer = torch.optim.SGD([p for p in m.parameters() if p.requires_grad], lr=0.1)
        m(wrap(x)).sum().backward()
        m.double()
        assert m.encode.weight.grad.dtype == torch.float64
        m(wrap(x.double())).sum().backward()
        optimizer.step()
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(
            samba.to_torch(model.state_dict()[name]), value, rtol=1e-6, atol=1e-6
        )  # the first gradient is float32's


def test_cpu_is_where_it_is(model):
    held = model.encode.weight.torch()
    before = facts(model)
    for same in (model.cpu(), model.to("cpu"), model.float(), model.to(torch.device("cpu"))):
        assert same is model and facts(model) == before and model.encode.weight.torch().data_ptr() == held.data_ptr()


@pytest.mark.parametrize("convert", [lambda m: m.double(), lambda m: copy.deepcopy(m).double()], ids=["itself", "a copy"])
def test_compiles(model, convert, tmp_path):
    """In float64 it gives torch's numbers of float64; cpu() then brings the device's values, buffers included."""
    model = convert(model)
    x = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    theirs = Tied().double().eval()
    theirs.load_state_dict({name: samba.to_torch(value).clone() for name, value in model.state_dict().items()})
    expected = theirs(x)
    expected.sum().backward()
    inputs = (samba.from_torch_tensor(x, name="x"),)
    pef = samba.session.compile(model, inputs, output_folder=str(tmp_path), name="double")
    outputs = utils.trace_graph(model, inputs, pef=pef)
    (y,) = samba.session.run(
        inputs, outputs, grad_of_outputs=[torch.ones(3, 4, dtype=torch.float64)], section_types=["FWD", "BCKWD"]
    )
    assert y.dtype == torch.float64
    torch.testing.assert_close(y.torch(), expected.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(model.encode.weight.sn_grad, theirs.encode.weight.grad, rtol=1e-12, atol=1e-12)
    model.encode.weight.sn_data = torch.ones(6, 4, dtype=torch.float64)
    assert model.cpu() is model and model.encode.weight.torch().sum() == 24


def test_data_of_another_dtype():
    x = samba.ones(3, name="x")
    x.data = torch.zeros(3, dtype=torch.bfloat16)
    assert x.dtype == x.torch().dtype == torch.bfloat16 and x.sn_name == "x" and (x + 1).dtype == torch.bfloat16
    with pytest.raises(ValueError, match="cannot become"):
        x.data = torch.zeros(4)
    w = samba.SambaTensor(torch.ones(3)).requires_grad_()
    with pytest.raises(RuntimeError, match="floating point"):
        w.data = torch.zeros(3, dtype=torch.int64)
    assert w.dtype == w.torch().dtype == torch.float32


def test_shared_memory():
    x = samba.ones(3)
    assert not x.is_shared() and x.share_memory_() is x and x.is_shared() and x.torch().is_shared()


def test_tensors_as_numbers():
    """torch.tensor takes 0-d tensors in lists, as it takes its own; indices of floats still count as integers."""
    x = samba.from_torch_tensor(torch.arange(1.0, 10.0).reshape(3, 3))
    for numbers in (
        [x.sum(), x.mean()],
        [x.int().sum(), 2],
        [(x > 5).any(), True],
        [x.sum().requires_grad_(), 1.5],
        [[x.sum()], [x.min()]],
    ):
        expected = torch.tensor(
            torch.utils._pytree.tree_map(lambda number: number.item() if isinstance(number, torch.Tensor) else number, numbers)
        )
        assert torch.equal(torch.tensor(numbers), expected)
    assert (
        torch.FloatTensor([x.sum(), 1]).tolist() == [45, 1]
        and [1, 2, 3][x.int().min()] == 2
        and (float(x.sum()), int(x.sum())) == (45, 45)
    )
    assert (
        [row.tolist() for row in x] == x.tolist()
        and len(x) == 3
        and x[torch.Tensor([0, 2])].tolist() == x.torch()[[0, 2]].tolist()
    )
    for ask in (len, iter):
        with pytest.raises(TypeError, match="0-d tensor"):
            ask(x.sum())
    with pytest.raises(ValueError, match="one element"):
        float(x)
    with pytest.raises(TypeError, match="integer"):
        [1][x.mean()]


OPERATORS = {
    "half @": (lambda x: x.half() @ x, "matmul: inputs 0 and 1 must have one dtype, given float16 and float32"),
    "plain @ half": (
        lambda x: torch.ones(3, 3) @ x.half(),
        "matmul: inputs 0 and 1 must have one dtype, given float32 and float16",
    ),
    "1 - bool": (lambda x: 1 - (x > 0), "sub: bool values cannot be subtracted, given int64 and bool"),
    "bool - 1": (lambda x: (x > 0) - 1, "sub: bool values cannot be subtracted, given bool and int64"),
    "bool - bool": (lambda x: (x > 0) - (x > 1), "sub: bool values cannot be subtracted, given bool and bool"),
}
TRACED = {
    ">>": (lambda x: x >> 1, "right_shift: input 0 must be of integers, given float32"),
    "1 &": (lambda x: 1 & x, "bitwise_and: input 0 must be of integers"),
    "bool @": (lambda x: (x > 0) @ (x > 0), "matmul: expected floats or integers, given bool"),
    "-=": (lambda x: operator.isub(x > 0, x > 0), "sub: bool values"),
    "&=": (lambda x: operator.iand(x.clone(), x), "bitwise_and: input 0 must be of integers"),
    "int += float": (
        lambda x: operator.iadd(x.long(), 1.5),
        "a result of torch.float32 cannot be written in place into a tensor of torch.int64",
    ),
}


class Of(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.forward = function


@pytest.mark.parametrize("name", [*OPERATORS, *TRACED])
def test_operators_say_what_is_wrong(name):
    """Not which types of Python Python could not bring together. What torch computes outside tracing has torch's words."""
    function, said = {**OPERATORS, **TRACED}[name]
    x = samba.from_torch_tensor(torch.ones(3, 3), name="x")
    if name in OPERATORS:
        with pytest.raises(TypeError, match=said):
            function(x)
    with pytest.raises(TypeError, match=said):
        str(SambaGraph(Of(function), (x,)))


def test_operators_of_other_types():
    """They may answer themselves, from either side; in place keeps the tensor; torch's tensor on the left divides as it does."""

    class Other:
        def __rsub__(self, x):
            return "rsub"

        def __radd__(self, x):
            return "radd"

    x, plain = samba.from_torch_tensor(torch.tensor([3.0, 7.0])), torch.tensor([1.0, 5.0])
    assert x - Other() == "rsub" and x + Other() == "radd"
    for wrong in ("a", None, [1.0, 2.0]):
        for call in (operator.add, operator.sub, operator.iadd, lambda x, y: operator.sub(y, x)):
            with pytest.raises(TypeError, match="unsupported operand type|can only concatenate|must be str"):
                call(x, wrong)
    for call in (operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow):
        for left, right in ((x, plain), (plain, x), (2, x), (x, 2.5), (x, x)):
            assert torch.equal(call(left, right).torch(), call(samba.to_torch(left), samba.to_torch(right)))
        in_place = getattr(operator, f"i{call.__name__}")
        made = samba.from_torch_tensor(torch.tensor([3.0, 7.0]))
        assert in_place(made, plain) is made and torch.equal(made.torch(), in_place(torch.tensor([3.0, 7.0]), plain))


def test_what_saves_models_sees_their_memory(tmp_path):
    """safetensors and transformers tell by its address what is tied."""
    safetensors = pytest.importorskip("safetensors.torch")
    model = samba.from_torch_model_(Tied())
    weight = model.encode.weight
    assert weight.untyped_storage().data_ptr() == weight.storage().data_ptr() == weight.data_ptr() == weight.torch().data_ptr()
    safetensors.save_file({"weight": weight, "bias": model.normal.bias}, tmp_path / "some.safetensors")
    torch.testing.assert_close(safetensors.load_file(tmp_path / "some.safetensors")["weight"], weight.torch().detach())
    safetensors.save_model(model, tmp_path / "model.safetensors")
    fresh = Tied()
    safetensors.load_model(fresh, tmp_path / "model.safetensors")
    torch.testing.assert_close(fresh.decode.weight.detach(), weight.torch().detach())
