# SPDX-License-Identifier: Apache-2.0
"""A variational autoencoder: eight numbers for each digit, from which it is drawn again, and from which new ones are drawn.

    python examples/python/vae_digits.py

The random numbers of the reparameterization, `torch.randn_like` in forward, are new ones in each run. The decoder alone is a
second graph of the PEF, which shares the weights: it draws digits from random numbers that the program gives it.
"""

import torch
from digits import read_idx

import sambaflow.samba as samba
import sambaflow.samba.utils as utils
from sambaflow.samba.graph import FwdGraph, SambaGraph
from sambaflow.samba.sambaloader import SambaLoader

BATCH, CODE = 50, 8


class VAE(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 2 * CODE))
        self.decoder = torch.nn.Sequential(torch.nn.Linear(CODE, 128), torch.nn.ReLU(), torch.nn.Linear(128, 784))

    def forward(self, image):
        mean, log_var = self.encoder(image).chunk(2, 1)
        code = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        drawn = torch.nn.functional.binary_cross_entropy_with_logits(self.decoder(code), image, reduction="sum") / BATCH
        divergence = 0.5 * (mean.square() + log_var.exp() - log_var - 1).sum() / BATCH
        return drawn + divergence, drawn, divergence


class Draw(torch.nn.Module):
    def __init__(self, decoder):
        super().__init__()
        self.decoder = decoder

    def forward(self, code):
        return torch.sigmoid(self.decoder(code))


utils.set_seed(1)
images = read_idx("digits-images-idx3-ubyte.gz").reshape(5000, 784).float().div(255)
model = samba.from_torch_model_(VAE())
draw = Draw(model.decoder)
optim = samba.optim.Adam(model.parameters(), lr=0.002)
image, code = (samba.zeros(BATCH, 784, name="image"),), (samba.zeros(16, CODE, name="code"),)
samba.session.add_graph(SambaGraph(model, image, optim, name="vae", loss_indices=[0]))
samba.session.add_graph(FwdGraph(draw, code, name="draw"))
pef = samba.session.compile_multigraph("vae")
outputs = utils.trace_multigraph(model, image, optim)
drawings = utils.trace_multigraph(draw, code)
samba.session.init_multigraph_runtime(pef)

loader = torch.utils.data.DataLoader(images[:4000], batch_size=BATCH, shuffle=True)
for _ in range(15):
    for batch in SambaLoader(loader, ["image"]):
        samba.session.run(batch, outputs[:1], graph_name="vae")


def test():
    """Mean loss of an image that was not trained on: what drawing it again lacks, and what its code tells."""
    losses = []
    for batch in SambaLoader(images[4000:].split(BATCH), ["image"]):
        losses.append([x.item() for x in samba.session.run(batch, outputs, section_types=["FWD"], graph_name="vae")])
    return torch.tensor(losses).mean(0).tolist()


loss, drawn, divergence = test()
print(f"test: {drawn:.1f} nats to draw an image, {divergence:.1f} for its code")

generator = torch.Generator().manual_seed(1)
given = samba.from_torch_tensor(torch.randn(16, CODE, generator=generator), name="code")
(new,) = samba.session.run((given,), drawings, graph_name="draw")
for rows in new.torch()[:4].reshape(4, 28, 28)[:, ::2].unbind(1):
    print("  ".join("".join(" .:*#"[int(4.99 * value)] for value in row.tolist()) for row in rows))
assert loss < 145 and divergence > 5
