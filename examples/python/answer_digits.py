# SPDX-License-Identifier: Apache-2.0
"""Inference alone: a net that PyTorch has trained answers from a PEF, with torch and without.

    python examples/python/answer_digits.py

The first part is plain PyTorch and leaves a `state_dict`, as somebody has it already. The second compiles the net for answers,
for 100 pictures at once and for a single one. The third reads the same PEF by `sambaflow.runtime`, which needs no torch.
"""

import torch
from digits import read_idx

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.runtime import Session, Tensor
from sambaflow.samba.sambaloader import SambaLoader


def net():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 5, stride=2),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Dropout(0.2),
        torch.nn.Linear(1152, 10),
    )


torch.manual_seed(1)
images = read_idx("digits-images-idx3-ubyte.gz").float().div(255).unsqueeze(1)
labels = read_idx("digits-labels-idx1-ubyte.gz").long()

# 1. Somebody trains a net by PyTorch and saves it.
trained = net()
optim = torch.optim.AdamW(trained.parameters(), lr=0.005)
for _ in range(2):
    for rows in torch.randperm(4000).split(50):
        loss = torch.nn.functional.cross_entropy(trained(images[rows]), labels[rows])
        optim.zero_grad()
        loss.backward()
        optim.step()
torch.save(trained.state_dict(), "digits.pt")
with torch.no_grad():
    expected = trained.eval()(images[4000:])

# 2. It is compiled for answers, and answers.
model = net()
model.load_state_dict(torch.load("digits.pt"))
model.eval()
samba.from_torch_model_(model)
inputs, single = (samba.zeros(100, 1, 28, 28, name="image"),), (samba.zeros(1, 1, 28, 28, name="image"),)
pef = samba.session.compile(model, inputs, inference=True, name="answer", sizes=[single])
outputs = utils.trace_graph(model, inputs, pef=pef)
logits = torch.cat([samba.session.run(batch, outputs)[0].torch() for batch in SambaLoader(images[4000:].split(100), ["image"])])
(one,) = samba.session.run((samba.from_torch_tensor(images[4001:4002], name="image"),), outputs)
samba.session.save("digits.safetensors")
right = (logits.argmax(1) == labels[4000:]).sum().item()
away = (logits - expected).abs().max().item()
print(f"{right} of 1000 test digits are right; logits are at most {away:.1e} from PyTorch's")

# 3. Where there is no torch: names, dtypes and shapes are those of the PEF.
with Session(str(pef)) as session:
    session.load("digits.safetensors")
    image = Tensor.wrap("image", images[4000:4100].numpy())
    scores = Tensor.zeros("output_0", "float32", (100, 10), session.context)
    session.run([image], [scores])
    said = [max(range(10), key=row.__getitem__) for row in scores.tolist()]
print("without torch:", *said[:10])
assert right >= 930 and away < 1e-3
assert torch.allclose(one.torch(), expected[1:2], atol=1e-3) and said == logits[:100].argmax(1).tolist()
