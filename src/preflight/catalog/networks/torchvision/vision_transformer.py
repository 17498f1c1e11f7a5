"""Vision transformers. Source: Dosovitskiy et al. 2020; names of the layers: torchvision."""

from collections import OrderedDict

import torch
from torch import nn


class EncoderBlock(nn.Module):
    def __init__(self, heads, width, inner, dropout, attention_dropout):
        super().__init__()
        self.num_heads = heads
        self.ln_1 = nn.LayerNorm(width, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(width, heads, dropout=attention_dropout, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(width, inner), nn.GELU(), nn.Dropout(dropout), nn.Linear(inner, width), nn.Dropout(dropout)
        )

    def forward(self, x):
        y = self.ln_1(x)
        y, _ = self.self_attention(y, y, y, need_weights=False)
        y = self.dropout(y)
        y = y + x
        return y + self.mlp(self.ln_2(y))


class Encoder(nn.Module):
    def __init__(self, length, layers, heads, width, inner, dropout, attention_dropout):
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.empty(1, length, width))
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential(
            *[EncoderBlock(heads, width, inner, dropout, attention_dropout) for _ in range(layers)]
        )
        self.ln = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x):
        return self.ln(self.layers(self.dropout(x + self.pos_embedding)))


class VisionTransformer(nn.Module):
    def __init__(
        self, patch, layers, heads, width, inner, image_size=224, dropout=0.0, attention_dropout=0.0, num_classes=1000
    ):
        super().__init__()
        self.image_size = image_size
        self.patch_size = patch
        self.hidden_dim = width
        self.conv_proj = nn.Conv2d(3, width, patch, stride=patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.seq_length = (image_size // patch) ** 2 + 1
        self.encoder = Encoder(self.seq_length, layers, heads, width, inner, dropout, attention_dropout)
        self.heads = nn.Sequential(OrderedDict([("head", nn.Linear(width, num_classes))]))

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        token = self.class_token.expand(x.shape[0], -1, -1)
        x = self.encoder(torch.cat([token, x], dim=1))
        return self.heads(x[:, 0])


def vit_b_16(weights=None, progress=True, **kwargs):
    return VisionTransformer(16, 12, 12, 768, 3072, **kwargs)


def vit_b_32(weights=None, progress=True, **kwargs):
    return VisionTransformer(32, 12, 12, 768, 3072, **kwargs)


def vit_l_16(weights=None, progress=True, **kwargs):
    return VisionTransformer(16, 24, 16, 1024, 4096, **kwargs)


def vit_l_32(weights=None, progress=True, **kwargs):
    return VisionTransformer(32, 24, 16, 1024, 4096, **kwargs)


def vit_h_14(weights=None, progress=True, **kwargs):
    return VisionTransformer(14, 32, 16, 1280, 5120, **kwargs)
