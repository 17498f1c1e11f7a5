"""What is said of the memory of transformers that make tokens of their input themselves."""

from __future__ import annotations

from pathlib import Path

from preflight.source.architecture import architecture_of
from preflight.source.reading import read
from preflight.source.script import read_script

SCRIPT = """
import torch
import torch.nn.functional as F
from torch import nn
class Block(nn.Module):
    def __init__(self, width=64, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (f(x).view(b, t, self.heads, c // self.heads).transpose(1, 2) for f in (self.q, self.k, self.v))
        x = x + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, c)
        return x + self.down(F.gelu(self.up(x)))
class Net(nn.Module):
    def __init__(self, patch=4, channels=8, width=64):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(GIVEN, width)
        EXTRA
        self.blocks = nn.ModuleList([Block(width) for _ in range(6)])
        self.out = nn.Linear(width, channels)
    def forward(self, x):
        FOLD
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.out(x)
net = Net()
optimizer = torch.optim.AdamW(net.parameters())
for x in loader:
    net(x).mean().backward()
    optimizer.step()
"""
FOLDED = "b, t, c = x.shape\n        x = x.reshape(b, t // self.patch, c * self.patch)"


def _family(tmp_path: Path, fold: str, given: str = "channels", extra: str = "") -> str:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT.replace("FOLD", fold).replace("GIVEN", given).replace("EXTRA", extra))
    reading = read(read_script(path))
    spec, _ = architecture_of(reading, reading.models[0])
    assert spec is not None
    return spec.family


def test_rows_that_are_folded_into_patches_are_not_the_tokens_of_a_block(tmp_path: Path) -> None:
    assert _family(tmp_path, "pass") == "transformer_encoder"
    assert _family(tmp_path, FOLDED, "channels * patch") == "other"


def test_nor_are_those_that_a_layer_with_strides_shortens(tmp_path: Path) -> None:
    strided = "self.front = nn.Conv1d(channels, channels, 3, STRIDE)"
    fold = "x = self.front(x.transpose(1, 2)).transpose(1, 2)"
    assert _family(tmp_path, fold, extra=strided.replace("STRIDE", "2")) == "other"
    assert _family(tmp_path, fold, extra=strided.replace("STRIDE", "1")) == "transformer_encoder"
