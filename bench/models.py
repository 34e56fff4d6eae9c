# SPDX-License-Identifier: Apache-2.0
"""The benchmark's and the comparison's models in plain PyTorch, named as the examples in C name their parameters."""

import protocol
import torch
import vision
from torch import nn
from torch.nn import functional as F


class LogReg(nn.Module):
    def __init__(self, features=784, classes=10):
        super().__init__()
        self.lin_layer = nn.Linear(features, classes)
        self.criterion = nn.CrossEntropyLoss()

    def forward(self, image, label):
        return self.criterion(self.lin_layer(image), label)


class ResFFNLogReg(nn.Module):
    def __init__(self, hidden, features=784, classes=10):
        super().__init__()
        self.gemm1 = nn.Linear(features, hidden)
        self.gemm2 = nn.Linear(hidden, hidden)
        self.gemm3 = nn.Linear(hidden, classes)
        self.norm1 = nn.LayerNorm(hidden)
        self.norm2 = nn.LayerNorm(hidden)
        self.criterion = nn.CrossEntropyLoss()

    def forward(self, image, label):
        residual = torch.tanh(self.norm1(self.gemm1(image)))
        out = torch.sigmoid(self.norm2(self.gemm2(residual)) + residual)
        return self.criterion(self.gemm3(out), label)


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)
        self.criterion = nn.CrossEntropyLoss()

    def forward(self, image, label):
        x = torch.max_pool2d(torch.relu(self.conv1(image)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2).flatten(1)
        x = torch.relu(self.fc1(x))
        return self.criterion(self.fc3(torch.relu(self.fc2(x))), label)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = (
            part.view(batch, time, self.heads, width // self.heads).transpose(1, 2) for part in self.c_attn(x).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(batch, time, width))


class MLP(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = MLP(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """GPT-2 as nanoGPT writes it; the projection onto the vocabulary is the token table itself."""

    def __init__(self, n_layer=4, n_head=4, n_embd=128, block_size=128, vocab_size=256):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.wpe = nn.Embedding(block_size, n_embd)
        self.h = nn.ModuleList(Block(n_embd, n_head) for _ in range(n_layer))
        self.ln_f = nn.LayerNorm(n_embd)
        self.criterion = nn.CrossEntropyLoss()
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif "ln_" not in name:
                nn.init.normal_(parameter, std=0.02 / (2 * n_layer) ** 0.5 if name.endswith("c_proj.weight") else 0.02)

    def forward(self, input, label):
        x = self.wte(input) + self.wpe(torch.arange(input.shape[1], device=input.device))
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return self.criterion(logits.view(-1, logits.shape[-1]), label.view(-1))


class LSTMModel(nn.Module):
    """A language model as examples/word_language_model of PyTorch has it."""

    def __init__(self, num_layers=2, hidden_size=128, block_size=64, vocab_size=256):
        super().__init__()
        self.encoder = nn.Embedding(vocab_size, hidden_size)
        self.rnn = nn.LSTM(hidden_size, hidden_size, num_layers)
        self.decoder = nn.Linear(hidden_size, vocab_size)
        self.criterion = nn.CrossEntropyLoss()

    def forward(self, input, label):
        x, _ = self.rnn(self.encoder(input.t()))
        logits = self.decoder(x)
        return self.criterion(logits.view(-1, logits.shape[-1]), label.t().reshape(-1))


MODELS = {
    "logreg": LogReg,
    "resffn": ResFFNLogReg,
    "lenet": LeNet,
    "gpt2": GPT,
    "lstm": LSTMModel,
    "resnet": vision.ResNet,
    "unet": vision.UNet,
    "vit": vision.ViT,
}


def make(name, settings):
    """`settings` are the class's own arguments: hidden for resffn; n_layer, n_head, n_embd, block_size, vocab_size for gpt2;
    num_layers, hidden_size, block_size, vocab_size for lstm; those of vision.py's."""
    return MODELS[name](**settings)


def read_safetensors(path):
    """Name -> tensor."""
    return {name: torch.from_numpy(array) for name, array in protocol.read_safetensors(path).items()}


class Trainer:
    """A whole training step: zero_grad, forward, backward, clipping with AdamW, optimizer."""

    def __init__(
        self,
        name,
        tensors,
        settings,
        optimizer="sgd",
        lr=0.01,
        momentum=0.9,
        weight_decay=1e-4,
        max_grad_norm=0.0,
        dtype=torch.float32,
    ):
        self.model = make(name, settings).to(dtype)
        with torch.no_grad():
            for key, parameter in self.model.named_parameters():
                parameter.copy_(tensors[key])
        self.max_grad_norm = max_grad_norm
        if optimizer == "sgd":
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=momentum, weight_decay=weight_decay)
        else:
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, weight_decay=weight_decay)

    def step(self, data, label):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.model(data, label)
        loss.backward()
        if self.max_grad_norm > 0:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_grad_norm)
        self.optimizer.step()
        return loss
