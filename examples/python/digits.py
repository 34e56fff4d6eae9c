# SPDX-License-Identifier: Apache-2.0
"""The handwritten digits of examples/data as torch data sets: 4,000 for training, 1,000 for testing."""
import gzip
import pathlib
import struct

import torch
from torch.utils.data import TensorDataset

from sambaflow.samba.utils.dataset.mnist import dataset_transform

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "data"


def read_idx(name):
    """The bytes of an IDX file: two zeros, a type, the rank, big-endian sizes, then the values."""
    data = gzip.decompress((FOLDER / name).read_bytes())
    sizes = struct.unpack_from(f">{data[3]}I", data, 4)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8, offset=4 + 4 * len(sizes)).reshape(sizes)


def digits(args, train):
    """A data set of (image, label): 784 normalised floats and the digit."""
    part = slice(0, 4000) if train else slice(4000, 5000)
    transform = dataset_transform(args)
    images = read_idx("digits-images-idx3-ubyte.gz")[part]
    labels = read_idx("digits-labels-idx1-ubyte.gz")[part]
    return TensorDataset(torch.stack([transform(image) for image in images]), labels.long())
