# SPDX-License-Identifier: Apache-2.0
"""The examples of the document on samba.sambatensor, as they stand there, and what the document says of each name."""
import pytest
import torch
from shown import shown

import sambaflow.samba as samba


@shown
def test_constructor(torch_tensor, samba_tensor0, samba_tensor1, empty_samba_tensor0, empty_samba_tensor1, empty_samba_tensor2):
    """
    >>> import torch
    >>> import sambaflow.samba as samba
    >>> torch_tensor = torch.Tensor([1, 2])
    >>> samba_tensor0 = samba.SambaTensor(torch_tensor)
    >>> samba_tensor1 = samba.from_torch_tensor(torch_tensor, name="samba_tensor1")
    >>> empty_samba_tensor0 = samba.SambaTensor(torch.empty(2, 3), name="empty_samba_tensor0")
    >>> empty_samba_tensor1 = samba.SambaTensor(shape=(2,3), dtype=torch.bfloat16, name="empty_samba_tensor1")
    >>> empty_samba_tensor2 = samba.from_torch_tensor(torch.empty(2, 3), name="empty_samba_tensor2")
    """
    torch_tensor[0] = 7  # memory is shared, both ways
    assert samba_tensor0.data.tolist() == [7, 2] and samba_tensor1.torch().tolist() == [7, 2]
    assert samba_tensor1.sn_name == "samba_tensor1" and samba_tensor0.sn_name == ""
    samba_tensor0.torch()[1] = 8
    assert torch_tensor.tolist() == [7, 8]
    for x in (empty_samba_tensor0, empty_samba_tensor1, empty_samba_tensor2):
        assert x.shape == (2, 3)
    assert empty_samba_tensor1.dtype is torch.bfloat16 and empty_samba_tensor1.torch() is None


@shown
def test_getitem(samba_tensor):
    """The document's random values are put in by hand.

    >>> samba_tensor = samba.randn(2, 3)
    >>> _ = samba_tensor.data.copy_(torch.tensor([[0.7102, -0.8594, -0.5047], [0.8140, -0.4194, 1.5488]]))
    >>> samba_tensor.data
    tensor([[ 0.7102, -0.8594, -0.5047],
            [ 0.8140, -0.4194,  1.5488]])
    >>> samba_tensor[:, 2].data
    tensor([-0.5047,  1.5488])
    >>> index_tensor = samba.SambaTensor(torch.Tensor([0, 2]))
    >>> samba_tensor[None, :, index_tensor].data
    tensor([[[ 0.7102, -0.5047],
            [ 0.8140,  1.5488]]])
    """
    values = samba_tensor.data.clone()
    assert samba_tensor[1, 2].item() == values[1, 2].item() and isinstance(samba_tensor[1, 2], samba.SambaTensor)
    assert torch.equal(samba_tensor[1].data, values[1])
    assert torch.equal(samba_tensor[:, [2, 0]].data, values[:, [2, 0]])
    assert torch.equal(samba_tensor[..., ::2].data, values[..., ::2])


@shown
def test_setitem(samba_tensor):
    """
    >>> samba_tensor = samba.zeros(2,3)
    >>> samba_tensor.data
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    >>> samba_tensor[:, 2] = samba.ones(2)
    >>> samba_tensor.data
    tensor([[0., 0., 1.],
            [0., 0., 1.]])
    >>> index_tensor = samba.SambaTensor(torch.Tensor([0, 2]))
    >>> samba_tensor[None, :, index_tensor] = 2 * samba.ones(1, 2, 2)
    >>> samba_tensor.data
    tensor([[2., 0., 2.],
            [2., 0., 2.]])
    """
    samba_tensor[1, 1] = 5
    samba_tensor[0, ::2] = 7.5
    assert samba_tensor.tolist() == [[7.5, 0, 7.5], [2, 5, 2]]


def test_backward_accumulates():
    x = samba.SambaTensor(torch.tensor([1.0, 2.0]), name="x").requires_grad_()
    (x * x).sum().backward()
    (x * x).sum().backward()
    assert x.grad.data.tolist() == [4, 8]
    with pytest.raises(RuntimeError, match="scalar"):
        (x * x).backward()
    x.grad = None
    (x * x).backward(gradient=torch.tensor([1.0, 10.0]))
    assert x.grad.data.tolist() == [2, 40]


@shown
def test_item():
    """
    >>> x = samba.SambaTensor(torch.tensor([1.0]))
    >>> x.item()
    1.0
    """
    with pytest.raises(RuntimeError):
        samba.zeros(2).item()


@shown
def test_new_empty(sambatensor):
    """
    >>> sambatensor = samba.ones((), dtype=torch.float32)
    >>> sambatensor.new_empty((2, 3)).data
    tensor([[...
    """
    assert sambatensor.new_empty((2, 3)).shape == (2, 3) and isinstance(sambatensor.new_empty(2), samba.SambaTensor)


@shown
def test_new_full(sambatensor):
    """
    >>> sambatensor = samba.ones((), dtype=torch.float32)
    >>> sambatensor.new_full((2, 3), 5.0).data
    tensor([[5., 5., 5.],
            [5., 5., 5.]])
    >>> sambatensor = samba.ones((), dtype=torch.float32)
    >>> sambatensor.new_full((2, 3), 5.0, dtype=torch.bfloat16).data
    tensor([[5., 5., 5.],
            [5., 5., 5.]], dtype=torch.bfloat16)
    """
    assert sambatensor.new_full(size=(2,), fill_value=1, device=torch.device("cpu"), requires_grad=True).requires_grad


@shown
def test_new_ones():
    """
    >>> sambatensor = samba.randn((), dtype=torch.bfloat16)
    >>> sambatensor.new_ones((2, 3)).data
    tensor([[1., 1., 1.],
            [1., 1., 1.]], dtype=torch.bfloat16)
    """


@shown
def test_new_zeros(sambatensor):
    """
    >>> sambatensor = samba.randn((), dtype=torch.bfloat16)
    >>> sambatensor.new_zeros((2, 3)).data
    tensor([[0., 0., 0.],
            [0., 0., 0.]], dtype=torch.bfloat16)
    """
    assert sambatensor.new_zeros((2,), requires_grad=True).requires_grad and not sambatensor.new_zeros((2,)).requires_grad


@shown
def test_size(t):
    """
    >>> t = samba.empty(3, 4, 5)
    >>> t.size()
    torch.Size([3, 4, 5])
    >>> t.size(dim=1)
    4
    """
    assert t.stride() == (20, 5, 1) and t.stride(dim=0) == 20
    assert t.dim() == t.ndimension() == t.ndim == 3 and t.numel() == t.nelement() == 60 and t.element_size() == 4


@shown
def test_to(sambatensor):
    """
    >>> samba.set_seed(1)
    >>> sambatensor = samba.randn(2, 2) # Initially dtype=float32
    >>> sambatensor.to(torch.bfloat16).data
    tensor([[0.6602, 0.2676],
            [0.0618, 0.6211]], dtype=torch.bfloat16)
    >>> other_torch = torch.randn((), dtype=torch.float64)
    >>> sambatensor.to(other_torch).data
    tensor([[0.6614, 0.2669],
            [0.0617, 0.6213]], dtype=torch.float64)
    """
    assert isinstance(sambatensor.to(torch.bfloat16), samba.SambaTensor)


def test_casts():
    x = samba.SambaTensor(torch.tensor([1.5, -2.5]))
    for cast, dtype in ((x.bfloat16, torch.bfloat16), (x.int, torch.int32), (x.long, torch.int64), (x.short, torch.int16), (x.bool, torch.bool)):
        assert cast().dtype is dtype
        assert torch.equal(cast().data, x.data.to(dtype))
    assert x.float() is x and x.to(torch.float32) is x and x.type(torch.float32) is x  # no copy where nothing changes
    assert x.type() == "torch.FloatTensor" and x.type_as(samba.zeros(1, dtype=torch.int64)).dtype is torch.int64
    with pytest.raises(TypeError):
        x.type(torch.int64, non_blocking=True)


def test_promotion():
    a, b = samba.ones(2, dtype=torch.bfloat16), samba.ones(2, dtype=torch.float32)
    assert samba.add(a, b).dtype is torch.float32


def test_views():
    x = samba.SambaTensor(torch.arange(6.0).reshape(2, 3))
    assert x.permute(1, 0).shape == (3, 2) and x.T.shape == (3, 2) and x.reshape(3, 2).shape == (3, 2)
    assert x.view_as(samba.zeros(6)).shape == (6,)
    x.view(6)[0] = 9  # views share memory
    assert x.data[0, 0] == 9


def test_region_name():
    t0 = samba.SambaTensor(torch.Tensor([1, 2]), name="t0")
    t1 = samba.SambaTensor(torch.Tensor([3, 4]), name="t1", region_name="t1_other")
    t2 = samba.SambaTensor(torch.Tensor([1, 2]), name="t2", region_name="t0")
    assert (t0.sn_region_name, t1.sn_region_name, t2.sn_region_name) == ("t0", "t1_other", "t0")
    assert t0.sn_grad_name == "t0.grad"


def test_materializer():
    x = samba.SambaTensor(shape=(2, 2), name="x", materializer=lambda shape, dtype, requires_grad: torch.full(shape, 3.0, dtype=dtype))
    assert x.materializer_provided and not x.has_data and x.torch() is None and not x.reusable()
    assert x.torch_tensor().tolist() == [[3, 3], [3, 3]]
    x.materialize_()
    assert x.has_data and x.reusable()
    x.clear_data()
    assert not x.has_data
    x.materializer = lambda shape, dtype, requires_grad: torch.zeros(shape, dtype=dtype)
    assert x.torch_tensor().tolist() == [[0, 0], [0, 0]] and x.materializer is not None
    x.clear_data()
    x.materializer = lambda shape, dtype, requires_grad: torch.zeros(3)
    with pytest.raises(ValueError, match=r"made \(3,\) torch.float32, expected \(2, 2\)"):
        x.materialize_()
    with pytest.raises(RuntimeError, match="no values and no materializer"):
        samba.SambaTensor(shape=(2,), name="y").torch_tensor()


def test_fast_access():
    x = samba.SambaTensor(torch.zeros(2), name="fast x")
    assert not x.fast_access and not samba.SambaTensor.is_fast_access("fast x")
    x.fast_access = True
    assert x.fast_access and samba.SambaTensor.is_fast_access("fast x")


def test_data_ptr():
    tensor = torch.zeros(2)
    assert samba.SambaTensor(tensor).data_ptr() == tensor.data_ptr() and samba.SambaTensor(shape=(2,)).data_ptr() == 0


def test_to_torch():
    tensor = torch.zeros(2)
    assert samba.to_torch(tensor) is tensor and samba.to_torch(None) is None and samba.from_torch_tensor(None) is None
    x = samba.from_torch_tensor(tensor, name="x")
    assert samba.from_torch_tensor(x) is x and samba.to_torch(x) is x.torch()
    assert isinstance(x, torch.Tensor) and x.device == torch.device("cpu") and x.is_floating_point()


def test_functions_become_sambas():
    # tensor3 = tensor1 + tensor2
    # tensor2 = tensor1.reshape(-1, 5)
    tensor1 = samba.ones(2, 5)
    tensor2 = tensor1.reshape(-1, 5)
    tensor3 = tensor1 + tensor2
    assert isinstance(tensor3, samba.SambaTensor) and isinstance(torch.add(tensor1, 1), samba.SambaTensor)


def test_refusals():
    with pytest.raises(ValueError, match="not both"):
        samba.SambaTensor(torch.zeros(1), shape=(1,))
    with pytest.raises(ValueError, match="give torch_tensor, or shape"):
        samba.SambaTensor()
    with pytest.raises(TypeError, match="torch.Tensor"):
        samba.SambaTensor([1, 2])
    with pytest.raises(NotImplementedError, match="complex"):
        samba.SambaTensor(torch.zeros(1, dtype=torch.complex64))
