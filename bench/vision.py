# SPDX-License-Identifier: Apache-2.0
"""The image models of the benchmark and the comparison in plain PyTorch, as examples/resnet, unet and vit: names are
torchvision's where it has the model."""

import torch
from torch import nn
from torch.nn import functional as F


class BasicBlock(nn.Module):
    def __init__(self, inputs, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = None
        if stride != 1 or inputs != channels:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        y += x if self.downsample is None else self.downsample(x)
        return F.relu(y, inplace=True)


class ResNet(nn.Module):
    """torchvision's resnet18."""

    def __init__(self, channels=1, image_size=28, num_classes=10, width=64):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        for i in range(4):
            blocks = BasicBlock(width << max(i - 1, 0), width << i, 2 if i else 1), BasicBlock(width << i, width << i, 1)
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(width << 3, num_classes)
        self.criterion = nn.CrossEntropyLoss()

    def forward(self, image, label):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(image)), inplace=True), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.criterion(self.fc(x.mean((2, 3))), label)


class Level(nn.Module):
    """Of a U-Net: twice a 3 x 3 convolution, group norm, relu."""

    def __init__(self, inputs, channels, groups, up=None):
        super().__init__()
        if up:
            self.up = nn.ConvTranspose2d(up, up // 2, 2, 2)
        self.conv1 = nn.Conv2d(inputs, channels, 3, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(groups, channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(groups, channels)

    def forward(self, x, kept=None):
        if kept is not None:
            x = torch.cat((kept, self.up(x)), 1)
        x = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(self.norm2(self.conv2(x)), inplace=True)


class UNet(nn.Module):
    def __init__(self, channels=1, image_size=28, depth=2, width=16, groups=4, num_classes=11):
        super().__init__()
        self.encoder = nn.ModuleList(Level(width << i >> 1 if i else channels, width << i, groups) for i in range(depth + 1))
        self.decoder = nn.ModuleList(Level(2 * width << i, width << i, groups, up=2 * width << i) for i in range(depth))
        self.head = nn.Conv2d(width, num_classes, 1)
        self.criterion = nn.CrossEntropyLoss()

    def forward(self, image, label):
        kept, x = [], image
        for i, level in enumerate(self.encoder):
            x = level(F.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for i in reversed(range(len(self.decoder))):
            x = self.decoder[i](x, kept[i])
        return self.criterion(self.head(x), label)


class EncoderLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln_2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Identity(), nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.ln_1(x)
        x = x + self.self_attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    def __init__(self, tokens, layers, heads, width):
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.empty(1, tokens, width).normal_(std=0.02))
        self.layers = nn.Sequential()
        for i in range(layers):
            self.layers.add_module(f"encoder_layer_{i}", EncoderLayer(width, heads))
        self.ln = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x):
        return self.ln(self.layers(x + self.pos_embedding))


class ViT(nn.Module):
    """torchvision's VisionTransformer."""

    def __init__(self, channels=1, image_size=28, patch_size=7, num_layers=4, num_heads=4, hidden_dim=64, num_classes=10):
        super().__init__()
        self.class_token = nn.Parameter(torch.zeros(1, 1, hidden_dim))
        self.conv_proj = nn.Conv2d(channels, hidden_dim, patch_size, patch_size)
        self.encoder = Encoder((image_size // patch_size) ** 2 + 1, num_layers, num_heads, hidden_dim)
        self.heads = nn.Sequential()
        self.heads.add_module("head", nn.Linear(hidden_dim, num_classes))
        self.criterion = nn.CrossEntropyLoss()

    def forward(self, image, label):
        x = self.conv_proj(image).flatten(2).transpose(1, 2)
        x = self.encoder(torch.cat((self.class_token.expand(x.shape[0], -1, -1), x), 1))
        return self.criterion(self.heads(x[:, 0]), label)
