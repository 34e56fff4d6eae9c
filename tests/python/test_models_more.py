# SPDX-License-Identifier: Apache-2.0
"""More models in plain torch, as people write them: three steps against PyTorch, as training.py says."""

import math

import pytest
import torch
import torch.nn.functional as F
from models import Loss, Taker, beside_torch
from torch import nn

MODELS = {}  # name -> function that makes (a model that gives a loss, its inputs, options of training.train)


def model(function):
    MODELS[function.__name__] = function
    return function


def squares(y):
    return y.square().mean()


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


class Do(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


# ---- images ----


@model
def unet():
    def forward(self, x, target):
        fine = self.down(x)
        return F.cross_entropy(self.out(torch.cat([fine, self.up(self.deep(fine))], 1)), target)

    down = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.SiLU())
    deep = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.SiLU())
    parts = Taker(forward, down=down, deep=deep, up=nn.ConvTranspose2d(16, 8, 2, stride=2), out=nn.Conv2d(8 + 8, 2, 1))
    return parts, (torch.randn(2, 3, 16, 16), torch.randint(2, (2, 16, 16)))


@model
def dcgan():
    """Both players' losses at once; the generator's sample is detached for one of them."""

    def forward(self, noise, real):
        fake = self.generator(noise)
        of_real, of_fake = self.judge(real), self.judge(fake.detach())
        judged = F.binary_cross_entropy_with_logits(of_real, torch.ones_like(of_real)) + F.binary_cross_entropy_with_logits(
            of_fake, torch.zeros_like(of_fake)
        )
        return judged + F.softplus(-self.judge(fake)).mean()

    generator = nn.Sequential(
        nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(True),
        nn.ConvTranspose2d(16, 3, 4, 2, 1),
        nn.Tanh(),
    )
    judge = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.LeakyReLU(0.2, inplace=True), nn.Flatten(), nn.Linear(128, 1))
    return Taker(forward, generator=generator, judge=judge), (torch.randn(4, 8, 1, 1), torch.rand(4, 3, 8, 8))


@model
def mlp_mixer():
    def block():
        return nn.Sequential(
            Residual(nn.LayerNorm(16), Do(lambda x: x.mT), nn.Linear(9, 12), nn.GELU(), nn.Linear(12, 9), Do(lambda x: x.mT)),
            Residual(nn.LayerNorm(16), nn.Linear(16, 24), nn.GELU(), nn.Linear(24, 16)),
        )

    net = nn.Sequential(
        nn.Conv2d(3, 16, 4, 4), nn.Flatten(2), Do(lambda x: x.mT), block(), block(), Do(lambda x: x.mean(1)), nn.Linear(16, 3)
    )
    return Loss(net, F.cross_entropy), (torch.randn(2, 3, 12, 12), torch.tensor([0, 2]))


@model
def super_resolution():
    net = nn.Sequential(
        nn.Conv2d(1, 8, 5, padding=2, padding_mode="reflect"), nn.PReLU(8), nn.Conv2d(8, 4, 3, padding="same"), nn.PixelShuffle(2)
    )
    return Loss(net, nn.L1Loss()), (torch.randn(2, 1, 6, 7), torch.randn(2, 1, 12, 14))


@model
def depthwise_separable():
    net = nn.Sequential(
        nn.Conv2d(4, 8, 1),
        nn.BatchNorm2d(8),
        nn.ReLU6(),
        nn.Conv2d(8, 8, 3, 2, 1, groups=8),
        nn.Hardswish(),
        nn.AdaptiveAvgPool2d((2, 3)),
        nn.Flatten(),
        nn.Linear(48, 3),
    )
    return Loss(net, F.cross_entropy), (torch.randn(4, 4, 8, 9), torch.tensor([0, 1, 2, 1]))


@model
def convolution_3d():
    net = nn.Sequential(
        nn.Conv3d(2, 4, 3, stride=(1, 2, 2), padding=1),
        nn.BatchNorm3d(4),
        nn.ReLU(),
        nn.AdaptiveAvgPool3d((2, 1, 3)),
        nn.Flatten(),
        nn.Linear(24, 2),
    )
    return Loss(net, F.cross_entropy), (torch.randn(3, 2, 5, 6, 6), torch.tensor([0, 1, 1]))


@model
def resizing_and_pooling():
    def forward(self, x):
        y = self.conv(x)
        made = [
            F.interpolate(y, scale_factor=2, mode="bilinear"),
            F.interpolate(y, size=(5, 9), mode="bicubic", align_corners=True),
            F.interpolate(y, size=(3, 4), mode="area"),
            F.interpolate(y, scale_factor=2.0),
            F.adaptive_avg_pool2d(y, (4, 2)),
            F.adaptive_max_pool2d(y, 3),
            F.avg_pool2d(y, 2),
            F.pad(y, (1, 2, 0, 1), mode="circular"),
            F.pad(y, (1, 2, 2, 1), mode="replicate"),
            F.unfold(y, 2, dilation=2, padding=1),
            F.instance_norm(y),
            F.local_response_norm(y, 3),
            F.interpolate(y, size=(4, 3), mode="bilinear", antialias=True),
            F.pixel_unshuffle(y, 2),
        ]
        return sum(squares(x) for x in made)

    return Taker(forward, conv=nn.Conv2d(2, 3, 3, padding=1)), (torch.randn(2, 2, 6, 6),), {"lr": 0.001}


# ---- sequences ----


@model
def temporal_convolutions():
    def layer(dilation):
        conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 4, 3, dilation=dilation))
        return Residual(nn.ConstantPad1d((2 * dilation, 0), 0.0), conv, nn.Tanh())

    return Loss(nn.Sequential(layer(1), layer(2), layer(4)), lambda y, t: F.smooth_l1_loss(y, t, beta=0.5)), (
        torch.randn(2, 4, 16),
        torch.randn(2, 4, 16),
    )


@model
def autoencoder_1d():
    net = nn.Sequential(
        nn.Conv1d(2, 4, 4, 2, 1),
        nn.Tanh(),
        nn.MaxPool1d(2),
        nn.ConvTranspose1d(4, 2, 4, 4),
        nn.Upsample(size=20, mode="linear"),
        nn.AvgPool1d(2),
    )
    return Loss(net, F.mse_loss), (torch.randn(2, 2, 16), torch.randn(2, 2, 10))


@model
def sequence_to_sequence():
    """nn.Transformer with a causal mask and masks of what fills the batch."""

    def forward(self, source, given, target):
        causal = nn.Transformer.generate_square_subsequent_mask(given.shape[1], dtype=self.embed.weight.dtype)
        y = self.transformer(
            self.embed(source),
            self.embed(given),
            tgt_mask=causal,
            src_key_padding_mask=source == 0,
            memory_key_padding_mask=source == 0,
        )
        return F.cross_entropy(self.out(y).transpose(1, 2), target, ignore_index=0, label_smoothing=0.1)

    source = torch.randint(1, 20, (2, 7))
    source[1, 5:] = 0
    parts = Taker(
        forward,
        embed=nn.Embedding(20, 16, padding_idx=0),
        transformer=nn.Transformer(16, 2, 1, 1, 24, dropout=0.0, batch_first=True),
        out=nn.Linear(16, 20),
    )
    return parts, (source, torch.randint(20, (2, 5)), torch.randint(20, (2, 5)))


@model
def multihead_attention():
    def forward(self, x, y, padding):
        causal = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), 1)
        out, weights = self.one(x, x, x, key_padding_mask=padding, attn_mask=causal)
        other, _ = self.other(out.transpose(0, 1), y, y, need_weights=False)
        return squares(other) + squares(weights)

    padding = torch.zeros(2, 6, dtype=torch.bool)
    padding[1, 4:] = True
    parts = Taker(
        forward,
        one=nn.MultiheadAttention(16, 4, batch_first=True, add_bias_kv=True),
        other=nn.MultiheadAttention(16, 2, kdim=8, vdim=8),
    )
    return parts, (torch.randn(2, 6, 16), torch.randn(5, 2, 8), padding)


@model
def recurrent_cells():
    def forward(self, x):
        h = c = x.new_zeros(x.shape[1], 5)
        g, k = x.new_zeros(x.shape[1], 6), None
        for step in x:
            h, c = self.lstm(step, (h, c))
            g = self.gru(h, g)
            k = self.rnn(g, k)
        return squares(k) + squares(self.projected(x)[0])

    return Taker(
        forward, lstm=nn.LSTMCell(4, 5), gru=nn.GRUCell(5, 6), rnn=nn.RNNCell(6, 3), projected=nn.LSTM(4, 5, proj_size=3)
    ), (torch.randn(4, 3, 4),)


@model
def bags_of_embeddings():
    def forward(self, words, target):
        return F.cross_entropy(self.out(self.mean(words) + self.sum(words) + self.max(words)), target)

    parts = Taker(
        forward,
        mean=nn.EmbeddingBag(10, 6),
        sum=nn.EmbeddingBag(10, 6, mode="sum", padding_idx=0),
        max=nn.EmbeddingBag(10, 6, mode="max"),
        out=nn.Linear(6, 2),
    )
    return parts, (torch.randint(10, (3, 4)), torch.tensor([0, 1, 1]))


# ---- graphs of nodes ----


@model
def dense_graph_convolution():
    def forward(self, x, adjacent, target):
        degree = adjacent.sum(-1, keepdim=True).clamp(min=1)
        y = F.elu(self.one(adjacent @ x / degree))
        return F.nll_loss(F.log_softmax(self.two(adjacent @ y / degree), -1).flatten(0, 1), target.flatten())

    return Taker(forward, one=nn.Linear(5, 8), two=nn.Linear(8, 3)), (
        torch.randn(2, 6, 5),
        (torch.rand(2, 6, 6) > 0.5).float(),
        torch.randint(3, (2, 6)),
    )


@model
def message_passing():
    """Edges as index tensors: look up the ends, add the messages."""

    def forward(self, x, edges, target):
        begin, end = edges[0], edges[1]
        messages = torch.tanh(self.message(torch.cat([x[begin], x[end]], -1)))
        y = x.new_zeros(len(x), 8).index_add(0, end, messages)
        y = y + x.new_zeros(len(x), 8).scatter_add_(0, end.unsqueeze(-1).expand(-1, 8), messages)
        return F.cross_entropy(self.out(y), target)

    return Taker(forward, message=nn.Linear(10, 8), out=nn.Linear(8, 2)), (
        torch.randn(7, 5),
        torch.randint(7, (2, 15)),
        torch.randint(2, (7,)),
    )


# ---- generative and contrastive ----


@model
def vae():
    def forward(self, x, noise):
        mean, log_variance = self.encoder(x).chunk(2, -1)
        made = torch.sigmoid(self.decoder(mean + torch.exp(0.5 * log_variance) * noise))
        divergence = -0.5 * torch.mean(torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp(), 1))
        return F.binary_cross_entropy(made, x, reduction="sum") / x.shape[0] + divergence

    return Taker(forward, encoder=nn.Linear(20, 8), decoder=nn.Linear(4, 20)), (torch.rand(4, 20), torch.randn(4, 4))


@model
def vq_vae():
    """The nearest code, and a gradient that goes straight through."""

    def forward(self, x):
        y = self.encoder(x)
        nearest = self.codes((y.unsqueeze(1) - self.codes.weight).square().sum(-1).argmin(-1))
        loss = F.mse_loss(nearest, y.detach()) + 0.25 * F.mse_loss(nearest.detach(), y)
        return F.mse_loss(self.decoder(y + (nearest - y).detach()), x) + loss

    return Taker(forward, encoder=nn.Linear(6, 4), codes=nn.Embedding(8, 4), decoder=nn.Linear(4, 6)), (torch.randn(5, 6),)


@model
def diffusion():
    def forward(self, x, time, noise):
        angle = time[:, None].to(x.dtype) * torch.exp(-torch.arange(8, dtype=x.dtype) / 8 * 4.0)
        kept = self.kept[time][:, None]
        y = self.inside(kept.sqrt() * x + (1 - kept).sqrt() * noise) + self.time(torch.cat([angle.sin(), angle.cos()], -1))
        return F.mse_loss(self.out(F.silu(y)), noise)

    parts = Taker(forward, inside=nn.Linear(8, 16), time=nn.Sequential(nn.Linear(16, 16), nn.Mish()), out=nn.Linear(16, 8))
    parts.register_buffer("kept", torch.linspace(0.99, 0.01, 10))
    return parts, (torch.randn(5, 8), torch.randint(10, (5,)), torch.randn(5, 8))


@model
def siren():
    net = nn.Sequential(nn.Linear(2, 16), Do(lambda x: torch.sin(30 * x)), nn.Linear(16, 16), Do(torch.sin), nn.Linear(16, 1))
    return Loss(net, F.mse_loss), (torch.rand(20, 2), torch.rand(20, 1)), {"lr": 0.0001}


@model
def contrastive():
    def forward(self, x, y):
        a, b = F.normalize(self.one(x), dim=-1), F.normalize(self.other(y), dim=-1)
        logits, target = self.scale.exp() * a @ b.t(), torch.arange(len(x))
        return (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target)) / 2 + (
            1 - F.cosine_similarity(a, b)
        ).mean()

    parts = Taker(forward, one=nn.Linear(6, 8), other=nn.Linear(5, 8))
    parts.scale = nn.Parameter(torch.tensor(2.6))
    return parts, (torch.randn(4, 6), torch.randn(4, 5))


# ---- parts of models ----


@model
def mixture_of_experts():
    def forward(self, x):
        share, chosen = torch.topk(torch.softmax(self.gate(x), -1), 2)
        y = torch.einsum("bi,bkio->bko", x, self.experts[chosen])
        return squares((y * (share / share.sum(-1, keepdim=True)).unsqueeze(-1)).sum(1))

    parts = Taker(forward, gate=nn.Linear(6, 4))
    parts.experts = nn.Parameter(torch.randn(4, 6, 6) * 0.3)
    return parts, (torch.randn(5, 6),)


@model
def bilinear():
    return Taker(lambda self, a, b: squares(self.pairs(a, b)), pairs=nn.Bilinear(4, 5, 3)), (torch.randn(6, 4), torch.randn(6, 5))


@model
def spectral_norm():
    return Loss(
        nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 5)), nn.Tanh(), nn.Linear(5, 1)), F.mse_loss
    ), (torch.randn(6, 4), torch.randn(6, 1))


@model
def moving_averages_and_a_queue():
    def forward(self, x):
        y = self.lin(x)
        with torch.no_grad():
            self.average.mul_(0.9).add_(y.mean(0), alpha=0.1)
            self.steps += 1
            self.queue[:4] = self.queue[2:].clone()
            self.queue[4:] = y[:2]
        return squares(y - self.average) + squares(y @ self.queue.T)

    parts = Taker(forward, lin=nn.Linear(4, 4))
    parts.register_buffer("average", torch.zeros(4))
    parts.register_buffer("steps", torch.zeros((), dtype=torch.long))
    parts.register_buffer("queue", torch.zeros(6, 4))
    return parts, (torch.randn(5, 4),)


@model
def losses():
    def forward(self, x, c, t, p, sign):
        y = self.lin(x)
        logs = F.log_softmax(y, 1)
        return sum(
            [
                F.cross_entropy(y, c, weight=self.w, ignore_index=2),
                F.cross_entropy(y, c, weight=self.w, label_smoothing=0.1),
                F.cross_entropy(y, p),
                F.cross_entropy(y, p, label_smoothing=0.2, weight=self.w),
                F.nll_loss(logs, c),
                F.kl_div(logs, p, reduction="batchmean"),
                F.kl_div(logs, p.log(), log_target=True),
                F.huber_loss(y, t, delta=0.7),
                F.smooth_l1_loss(y, t),
                F.l1_loss(y, t, reduction="sum"),
                F.mse_loss(y, t),
                F.poisson_nll_loss(y, p),
                F.gaussian_nll_loss(y, t, F.softplus(y)),
                F.binary_cross_entropy_with_logits(y, p, pos_weight=self.w),
                F.soft_margin_loss(y, sign.unsqueeze(1).expand_as(y)),
                F.hinge_embedding_loss(y, sign.unsqueeze(1)),
                F.margin_ranking_loss(y[:, 0], y[:, 1], sign, margin=0.1),
                F.cosine_embedding_loss(y, t, sign),
                F.triplet_margin_loss(y, t, p),
                F.multilabel_soft_margin_loss(y, (p > 0.2).to(y.dtype)),
                F.binary_cross_entropy(torch.sigmoid(y), p),
            ]
        )

    parts = Taker(forward, lin=nn.Linear(6, 5))
    parts.register_buffer("w", torch.rand(5) + 0.5)
    inputs = (
        torch.randn(8, 6),
        torch.randint(5, (8,)),
        torch.randn(8, 5),
        torch.softmax(torch.randn(8, 5), 1),
        torch.tensor([1.0, -1] * 4),
    )
    return parts, inputs, {"lr": 0.001}


ACTIVATIONS = [
    F.elu,
    F.selu,
    F.celu,
    F.leaky_relu,
    F.relu6,
    F.hardtanh,
    F.hardswish,
    F.hardsigmoid,
    F.mish,
    F.softplus,
    F.logsigmoid,
    F.softsign,
    F.tanhshrink,
    F.softshrink,
    F.hardshrink,
    F.silu,
    F.gelu,
    F.glu,
    lambda x: F.softplus(x, beta=2.0),
    lambda x: F.threshold(x, 0.1, -1.0),
    torch.sin,
    torch.cos,
    torch.tan,
    torch.expm1,
    lambda x: torch.log1p(x.abs()),
    torch.sinh,
    torch.cosh,
    torch.exp2,
    torch.erfc,
    lambda x: F.softmin(x, -1),
    lambda x: torch.log2(x.abs() + 1),
    lambda x: torch.logaddexp(x, -x),
    lambda x: torch.hypot(x, x + 1),
    torch.frac,
    torch.square,
]


@model
def activations():
    return (
        Taker(lambda self, x: sum(squares(f(self.lin(x))) for f in ACTIVATIONS), lin=nn.Linear(5, 6)),
        (torch.randn(7, 5),),
        {"lr": 0.001},
    )


@model
def functions():
    def forward(self, x, i):
        y = self.lin(x)
        return (
            sum(
                z.sum()
                for z in (
                    torch.logsumexp(y, -1),
                    y.std(0),
                    y.var(),
                    y.prod(-1),
                    y.cumsum(0).square(),
                    y.max(1).values,
                    y.min(0)[0],
                    torch.max(y, x),
                    y.topk(3).values,
                    y.sort(descending=True)[0][:, 1],
                    y.gather(1, i),
                    torch.take_along_dim(y, i, 1),
                    torch.einsum("bi,bj->ij", y, x).square(),
                    y.flip(0)[0],
                    y.roll(2, 1)[:, 0],
                    y.norm(),
                    torch.linalg.norm(y, dim=1),
                    y.norm(p=1, dim=0),
                    y.unfold(1, 3, 2).square(),
                    torch.tril(y),
                    torch.diagonal(y @ y.T),
                    torch.cdist(y, x),
                    torch.lerp(y, x, 0.3),
                    torch.addcmul(y, x, x, value=0.2),
                    torch.where(y > 0, y, 0),
                    y.clamp(-0.1, 0.2),
                    y % 0.7,
                    torch.floor(y * 3),
                    torch.round(y),
                    y.repeat(2, 1),
                    y.repeat_interleave(2, 0)[1],
                    torch.stack([y, x]),
                    torch.kron(y[:2], x[:2]),
                    torch.meshgrid(y[0], x[0], indexing="ij")[0],
                    torch.var_mean(y, 0)[0],
                    F.one_hot(i[:, 0], 6).to(y.dtype) * y,
                    torch.isfinite(y) * 0.1,
                    torch.nan_to_num(y),
                    y.amax((0, 1)),
                    y.movedim(0, 1)[2],
                    y.unflatten(1, (2, 3))[:, 1],
                    torch.outer(y[0], x[1]),
                    (y.detach() // 0.5),
                    torch.fmod(y, 0.3),
                    y.index_select(1, torch.tensor([0, 2])),
                    (y > 0).any(1).to(y.dtype) + (y > 0).all(0).sum(),
                    y.argsort(1).to(y.dtype),
                    y[i[:, 0], i[:, 1]],
                    y[:, None, i[0]],
                )
            )
            / 100
        )

    return Taker(forward, lin=nn.Linear(6, 6)), (torch.randn(7, 6), torch.randint(6, (7, 2))), {"lr": 0.001}


@pytest.mark.parametrize("name", MODELS)
def test_model(tmp_path, name):
    net, inputs, *options = MODELS[name]()
    beside_torch(tmp_path, net, inputs, **(options[0] if options else {}))


# ---- dropout ----


def test_dropout_by_its_own_mask(tmp_path):
    """The mask is read out of two outputs; with it torch gives the same gradients."""
    import sambaflow.samba as samba

    net = samba.from_torch_model_(
        Taker(
            lambda self, x: ((z := self.drop(y := self.lin(x))).square().mean(), y, z),
            lin=nn.Linear(50, 40),
            drop=nn.Dropout(0.25),
        )
    )
    given = (samba.randn(30, 50, name="x"),)
    optim = samba.optim.SGD(net.parameters(), lr=0.0)
    pef = samba.session.compile(net, given, optim, name="dropout", loss_indices=[0], output_folder=str(tmp_path))
    outputs = samba.utils.trace_graph(net, given, optim, pef=pef, loss_indices=[0])
    _, before, after = (z.torch() for z in samba.session.run(given, outputs))
    scale = torch.where(after == 0, 0.0, 4 / 3)
    torch.testing.assert_close(after, before * scale)
    kept, n = (after != 0).double().mean().item(), after.numel()
    assert abs(kept - 0.75) < 5 * math.sqrt(0.75 * 0.25 / n)
    weight = net.lin.weight.torch().detach().clone().requires_grad_()
    loss = (F.linear(given[0].torch(), weight, net.lin.bias.torch()) * scale).square().mean()
    loss.backward()
    torch.testing.assert_close(samba.session.device_get("lin.weight.grad"), weight.grad, rtol=1e-5, atol=1e-7)


def test_dropout_everywhere(tmp_path):
    """An encoder with dropout in every place: at rate 0 torch's, step for step;
    at 0.3 the losses of many runs have the mean of torch's."""
    import sambaflow.samba as samba

    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.3, batch_first=True)
    net = Loss(
        nn.Sequential(nn.LSTM(8, 16, 2, dropout=0.3, batch_first=True), Do(lambda pair: pair[0]), layer, nn.Linear(16, 4)),
        F.mse_loss,
    )
    inputs = (torch.randn(4, 5, 8), torch.randn(4, 5, 4))
    theirs = [net(*inputs).item() for _ in range(200)]
    given = tuple(samba.from_torch_tensor(x, name=f"in{i}") for i, x in enumerate(inputs))
    samba.from_torch_model_(net)
    optim = samba.optim.SGD(net.parameters(), lr=0.0)
    pef = samba.session.compile(net, given, optim, name="everywhere", loss_indices=[0], output_folder=str(tmp_path))
    outputs = samba.utils.trace_graph(net, given, optim, pef=pef, loss_indices=[0])
    ours = [samba.session.run(given, outputs)[0].item() for _ in range(200)]
    ours_, theirs_ = torch.tensor(ours), torch.tensor(theirs)
    error = math.sqrt((ours_.var() + theirs_.var()) / 200)
    assert len(set(ours)) > 190 and abs(ours_.mean() - theirs_.mean()) < 5 * error and 0.6 < ours_.std() / theirs_.std() < 1.6
    none = samba.session.run(given, outputs, hyperparam_dict={"p": 0.0})[0].item()
    assert none == pytest.approx(net.eval()(*inputs).item(), rel=1e-5)
