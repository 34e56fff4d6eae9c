# SPDX-License-Identifier: Apache-2.0
"""What other versions of the packages around do:
transformers before 5 makes its masks with torch.vmap, NumPy before 2.1 has no versions of DLPack."""

import numpy
import pytest
import torch

import sambaflow.samba as samba
from sambaflow.runtime import Tensor


def causal(batch, row, column):
    """As transformers 4 has it: a mask of one position, made over all positions by vmap."""
    return row.new_ones((), dtype=torch.bool) & (column <= row)


class Masked(torch.nn.Module):
    def forward(self, x):
        at = torch.arange(x.shape[-1])
        over_rows = torch.vmap(torch.vmap(causal, in_dims=(None, None, 0)), in_dims=(None, 0, None))
        return x.masked_fill(~over_rows(torch.zeros((), dtype=torch.int64), at, at), 0.0)


def test_masks_by_vmap(tmp_path):
    model, inputs = Masked(), (samba.randn(4, 4, name="x"),)
    pef = samba.session.compile(model, inputs, inference=True, output_folder=str(tmp_path))
    outputs = samba.utils.trace_graph(model, inputs, pef=pef)
    (found,) = samba.session.run(inputs, outputs)
    assert torch.equal(found.torch(), inputs[0].torch().tril())


class OldArray:
    """An array whose __dlpack__ knows no versions and so cannot say that it is read-only."""

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, stream=None):
        raise BufferError("Cannot export readonly array since signalling readonly is unsupported by DLPack.")


@pytest.mark.parametrize("take", [lambda x: Tensor.from_dlpack("x", x), samba.from_dlpack], ids=["runtime", "samba"])
def test_read_only_before_versions(take):
    with pytest.raises(ValueError, match="readonly"):
        take(OldArray())
    assert take(numpy.ones(3, "float32")).shape == (3,)
