# SPDX-License-Identifier: Apache-2.0
"""How torch functions become nodes of a graph: one rule each, registered for the torch functions and ATen operators it takes.

A rule has the signature of the torch function, after the tracer; calls.py knows the arguments' other names. It says what is not
supported itself, because what falls through to ATen would be taken apart, or refused under a name the user never wrote. Shapes,
dtypes and promotion are the library's.

To add one: write it in the file of its kind. common.py has what rules share. A C function of one value or two that has the name
of torch's needs none (operators.py)."""

from sambaflow.samba.rules import (
    activation,
    complexes,
    convolution,
    counting,
    derivatives,
    elementwise,
    fourier,
    gradients,
    indexing,
    linalg,
    losses,
    nn,
    norms,
    operators,
    pooling,
    products,
    random,
    recurrent,
    reduction,
    resampling,
    shape,
    sorting,
    values,
)

operators.register()
elementwise.write_back()
