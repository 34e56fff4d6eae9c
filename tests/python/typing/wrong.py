# SPDX-License-Identifier: Apache-2.0
"""A user's program with a mistake on each line that says `# error: ` and how mypy calls it;
test_typing.py demands these and no others."""

import torch

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.runtime import Session, Tensor
from sambaflow.samba.sambaloader import SambaLoader
from sambaflow.sambacollections import OrderedSet

model = torch.nn.Linear(2, 2)
samba.from_torch_model_(model.weight)  # error: type-var
samba.randn(2, 2, name=3)  # error: arg-type
x = samba.from_torch_tensor(torch.ones(2), nam="x")  # error: call-overload
samba.session.compile(model, (x,), output_foldr="out")  # error: call-arg
samba.session.compile(model, (x,), grad_accumulation_steps="2")  # error: arg-type
samba.session.run((x,), hyperparam_dict={"lr": "0.1"})  # error: dict-item
samba.session.to_cpu("model")  # error: arg-type
samba.session.trainn(model)  # error: attr-defined
utils.trace_graph(model, (x,), pef=3)  # error: arg-type
path: int = samba.session.compile(model, (x,))  # error: assignment
samba.optim.SGD(model.parameters(), max_grad_norm="1")  # error: arg-type
samba.cross_entropy("logits", torch.ones(2))  # error: arg-type
Tensor.zeros("x", torch.float32, (2, 2))  # error: arg-type
Session("x.pef").run([torch.ones(2)])  # error: list-item
Session("x.pef", thread=2)  # error: call-arg
SambaLoader([torch.ones(2)])  # error: call-arg
numbers: OrderedSet[int] = OrderedSet(["a"])  # error: list-item
