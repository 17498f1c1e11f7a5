"""What only the shapes tell of a forward pass: its branches, sizes in one sequence, widths of what is joined."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from preflight.check.forward.follow import Forward  # noqa: E402
from preflight.check.forward.network_calls import calls_of  # noqa: E402
from preflight.source.reading import read  # noqa: E402
from preflight.source.script import read_script  # noqa: E402

LOOP = """
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Variable
from torch.utils.data import DataLoader, TensorDataset

{body}

if __name__ == "__main__":
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, label in DataLoader(load(), batch_size={batch}):
        out = net({given})
        optimizer.zero_grad()
        out.sum().backward()
        optimizer.step()
"""

NETWORKS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...] | None, str]] = {
    "a branch over channels, padded with zeros of an older name": ("x", (4, 8, 8), None, """
class Block(nn.Module):
    def __init__(self, into, out):
        super().__init__()
        self.one = nn.Conv2d(into, out, 3, padding=1)

    def forward(self, x):
        h = torch.tanh(self.one(x))
        if h.size(1) != x.size(1):
            zeros = Variable(torch.FloatTensor(x.size(0), h.size(1) - x.size(1), x.size(2), x.size(3)).fill_(0))
            h = h + torch.cat((x, zeros), 1)
        else:
            h = h * x
        return h

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(4, 6), Block(6, 6))

    def forward(self, x):
        return self.blocks(x)
"""),
    "sizes that are put together": ("x", (5, 12), None, """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 12)

    def heads(self, x):
        sizes = x.size()[:-1] + (3, 4)
        return x.view(*sizes).permute(0, 2, 1, 3)

    def forward(self, x):
        q, k, v = self.heads(self.query(x)), self.heads(self.key(x)), self.heads(self.value(x))
        out = F.softmax(q @ k.transpose(-1, -2), dim=-1) @ v
        out = out.permute(0, 2, 1, 3).contiguous()
        return out.view(*(out.size()[:-2] + (12,)))
"""),
    "parts of a sequence": ("x", (3, 8, 8), None, """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3), nn.Tanh())
        self.up = nn.Conv2d(4, 8, 3)

    def forward(self, x):
        near = self.layers[:3](x)
        far = self.layers[3:](near)
        return far + self.up(near)
"""),
    "noise by an older way": ("x", (10,), None, """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.spread, self.back = nn.Linear(10, 4), nn.Linear(10, 4), nn.Linear(4, 10)

    def forward(self, x):
        mean, spread = self.mean(x), self.spread(x)
        std = spread.div(2).exp()
        noise = Variable(std.data.new(std.size()).normal_())
        return torch.sigmoid(self.back(mean + std * noise))
"""),
    "a label beside the picture": ("x, label", (3, 8, 8), (5,), """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(8, 6, 3, padding=1), nn.Conv2d(6, 3, 3, padding=1)

    def forward(self, x, label):
        label = label.view(label.size(0), label.size(1), 1, 1).repeat(1, 1, x.size(2), x.size(3))
        return self.two(torch.tanh(self.one(torch.cat([x, label], dim=1))))
"""),
    "a function that counts down": ("x", (4, 16, 16), None, """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.sides = nn.ModuleList([nn.Conv2d(4, 4, 3, padding=1) for _ in range(4)])

    def pyramid(self, depth, x):
        side = torch.tanh(self.sides[depth - 1](x))
        low = F.max_pool2d(x, 2)
        if depth > 1:
            low = self.pyramid(depth - 1, low)
        return side + F.interpolate(low, scale_factor=2)

    def forward(self, x):
        return self.pyramid(4, x)
"""),
}  # fmt: skip


def _flow(script: Path, entry: tuple[int, ...], batch: int) -> Forward:
    reading = read(read_script(script))
    return Forward(reading, calls_of(reading, reading.models[0]), entry, batch)


@pytest.mark.torch
@pytest.mark.parametrize("name", NETWORKS)
def test_what_is_kept_is_what_autograd_keeps(tmp_path: Path, name: str) -> None:
    given, shape, beside, body = NETWORKS[name]
    script = tmp_path / "train.py"
    script.write_text(LOOP.format(body=body, batch=3, given=given))
    flow = _flow(script, shape, 3)
    assert flow.reason is None
    space: dict[str, Any] = {"__name__": "net"}
    exec(compile(script.read_text(), "net", "exec"), space)
    net = space["Net"]()
    own = {weight.data_ptr() for weight in net.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        inputs = [torch.rand(3, *shape), *([torch.rand(3, *beside)] if beside else [])]
        out = net(*inputs)
    assert out is not None
    truth = sum(kept.values()) / 4
    assert flow.kept == pytest.approx(truth, rel=0.03)


def test_what_is_joined_is_no_wider_than_the_layer_takes(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(LOOP.format(body=NETWORKS["a label beside the picture"][3], batch=3, given="x, label"))
    assert _flow(script, (9, 8, 8), 3).kept is None  # nine channels beside anything are no eight
