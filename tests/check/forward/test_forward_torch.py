"""What a forward pass keeps, as it is read from the script and as autograd does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from preflight.check.forward.follow import Forward  # noqa: E402
from preflight.check.forward.network_calls import calls_of  # noqa: E402
from preflight.source.layers import Network  # noqa: E402
from preflight.source.reading import read  # noqa: E402
from preflight.source.script import read_script  # noqa: E402

LOOP = """
import torch, math
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

{body}

def main():
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for (x,) in DataLoader(TensorDataset(torch.zeros(64, 1)), batch_size={batch}):
        out = net(x)
        optimizer.zero_grad()
        out.sum().backward()
        optimizer.step()

if __name__ == "__main__":
    main()
"""

NETWORKS: dict[str, tuple[tuple[int, ...], str]] = {
    "variational": ((1, 12, 12), """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.into = nn.Linear(144, 40)
        self.mean, self.spread = nn.Linear(40, 6), nn.Linear(40, 6)
        self.back = nn.Sequential(nn.Linear(6, 40), nn.ReLU(), nn.Linear(40, 144))

    def encode(self, x):
        h = F.relu(self.into(x))
        return self.mean(h), self.spread(h)

    def forward(self, x):
        mean, spread = self.encode(x.view(-1, 144))
        std = torch.exp(0.5 * spread)
        z = mean + torch.randn_like(std) * std
        return torch.sigmoid(self.back(z))
"""),
    "in place": ((1, 12, 12), """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.into = nn.Sequential(nn.Linear(144, 40), nn.ReLU(), nn.Linear(40, 12))
        self.back = nn.Sequential(nn.Linear(6, 40), nn.ReLU(), nn.Linear(40, 144), nn.Sigmoid())

    def forward(self, x):
        both = self.into(x.view(-1, 144)).view(-1, 2, 6)
        mean, spread = both[:, 0, :], both[:, 1, :]
        std = spread.mul(0.5).exp_()
        eps = std.new_empty(std.size()).normal_()
        return self.back(eps.mul_(std).add_(mean))
"""),
    "residual": ((3, 16, 16), """
class Block(nn.Module):
    def __init__(self, into, out, stride):
        super().__init__()
        self.one = nn.Conv2d(into, out, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(out)
        self.two = nn.Conv2d(out, out, 3, padding=1)
        self.short = nn.Conv2d(into, out, 1, stride) if stride != 1 else nn.Sequential()

    def forward(self, x):
        h = F.relu(self.norm(self.one(x)), inplace=True)
        return F.relu(self.two(h) + self.short(x))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.MaxPool2d(2))
        self.blocks = nn.Sequential(Block(8, 8, 1), Block(8, 16, 2))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x = self.pool(self.blocks(self.stem(x)))
        return self.head(torch.flatten(x, 1))
"""),
    "attends": ((12, 16), """
class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.qkv(x).split(c, dim=2)
        q = q.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        k = k.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        v = v.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(16))
        scores = scores.masked_fill(torch.ones(t, t).tril() == 0, float("-inf"))
        y = F.softmax(scores, dim=-1) @ v
        return self.out(y.transpose(1, 2).contiguous().view(b, t, c))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.place = nn.Parameter(torch.zeros(1, 12, 16))
        self.norms = nn.ModuleList([nn.LayerNorm(16) for _ in range(3)])
        self.layers = nn.ModuleList([Attention(16, 4) for _ in range(3)])
        self.feed = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))

    def forward(self, x):
        x = x + self.place[:, : x.shape[1]]
        for layer, norm in zip(self.layers, self.norms):
            x = x + layer(norm(x))
        return self.feed(x)
"""),
    "sequence": ((6, 40), """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Conv1d(6, 12, 5, stride=2, padding=2)
        self.two = nn.Conv1d(12, 12, 3, dilation=2, padding="same")
        self.norm = nn.GroupNorm(3, 12)
        self.up = nn.ConvTranspose1d(24, 6, 4, stride=2, padding=1)

    def forward(self, x):
        h = F.silu(self.norm(self.one(x)))
        h = torch.cat([h, torch.tanh(self.two(h))], dim=1)
        h = F.avg_pool1d(h, 2)
        h = F.interpolate(h, scale_factor=2)
        return {"out": self.up(h), "mean": h.mean(dim=(1, 2), keepdim=True)}["out"]
"""),
    "graph": ((10, 8), """
class Layer(nn.Module):
    def __init__(self, into, out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(into, out))
        self.bias = nn.Parameter(torch.zeros(out))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, near):
        return F.leaky_relu(torch.matmul(near, torch.matmul(x, self.weight)) + self.bias, 0.2)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = Layer(8, 16), Layer(16, 4)

    def forward(self, x):
        near = torch.softmax(x @ x.transpose(1, 2), dim=-1)
        h = self.one(x, near)
        h = h / h.norm(dim=-1, keepdim=True)
        h = torch.stack([h, h * 2], dim=1).mean(dim=1)
        return self.two(h, near).max(dim=1)[0]
"""),
    "weighed": ((9, 16), """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.attend = nn.MultiheadAttention(16, 4, batch_first=True)
        self.again = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x):
        h = self.norm(x)
        out, _ = self.attend(h, h, h)
        return out + self.again(h, h, h, need_weights=False)[0]
"""),
    "repeated": ((7, 12), """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(12)
        self.mix = nn.Sequential(nn.Linear(12, 24), nn.GLU(), nn.Linear(12, 12), nn.Hardswish(inplace=True))

    def forward(self, x):
        return x + self.mix(self.norm(x))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(5)])
        self.head = nn.Linear(12, 3)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(dim=1))
"""),
    "dense": ((3, 8, 8), """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(3 + 4 * i, 4, 3, padding=1) for i in range(4)])
        self.act = nn.ReLU6(inplace=True)

    def forward(self, x):
        found = [x]
        for layer in self.layers:
            found.append(self.act(layer(torch.cat(found, 1))))
        return torch.cat(found, 1).mean((2, 3))
"""),
    "picked": ((10, 16), """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.score = nn.Linear(16, 8), nn.Linear(16, 1)
        self.codes = nn.Parameter(torch.rand(6, 8))

    def forward(self, x):
        h = F.silu(self.into(x), inplace=True)
        order = torch.argsort(self.score(x).detach().squeeze(-1), dim=1)[:, :4]
        h = torch.gather(h, 1, order.unsqueeze(-1).repeat(1, 1, 8))
        far = torch.cdist(h, self.codes.unsqueeze(0).expand(h.shape[0], -1, -1))
        return far.unfold(1, 2, 2).mean(dim=-1)
"""),
    "patches": ((2, 8, 8), """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(2 * 16, 2 * 16)
        self.cut, self.join = nn.Unfold(4, stride=4), nn.Fold((8, 8), 4, stride=4)
        self.out = nn.Conv2d(2, 3, 1)

    def forward(self, x):
        rows = self.mix(self.cut(x).transpose(1, 2))
        return self.out(self.join(rows.transpose(1, 2)))
"""),
    "layers": ((9, 16), """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 4, dim_feedforward=48, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, num_layers=3)
        self.behind = nn.TransformerDecoderLayer(16, 4, dim_feedforward=48, dropout=0.0, activation="gelu", batch_first=True)
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        h = self.body(x)
        return self.head(self.behind(h, h))
"""),
}  # fmt: skip


def _kept(net: Any, x: Any) -> float:
    """Elements of four bytes that autograd keeps, each storage once, without the parameters."""
    own = {p.untyped_storage().data_ptr() for p in net.parameters()}
    found: dict[int, tuple[Any, float]] = {}

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            found[storage.data_ptr()] = (storage, storage.nbytes() / 4)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = net(x)
    assert out.requires_grad
    return sum(elements for _, elements in found.values())


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("batch", [1, 5])
def test_what_is_kept_is_what_autograd_keeps(name: str, batch: int, tmp_path: Path) -> None:
    shape, body = NETWORKS[name]
    script = tmp_path / "train.py"
    script.write_text(LOOP.format(body=body, batch=batch))
    reading = read(read_script(script))
    flow = Forward(reading, calls_of(reading, reading.models[0]), shape, batch)
    space: dict[str, Any] = {"__name__": "net"}
    exec(compile(script.read_text(), "net", "exec"), space)
    truth = _kept(space["Net"](), torch.rand(batch, *shape))
    assert flow.reason is None
    assert flow.kept == pytest.approx(truth, rel=0.03)


def test_an_unknown_function_breaks_the_chain_and_is_named(tmp_path: Path) -> None:
    body = "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.one = nn.Linear(4, 4)\n\n    def forward(self, x):\n        import other\n        return other.mix(self.one(x))\n"
    script = tmp_path / "train.py"
    script.write_text(LOOP.format(body=body, batch=2))
    reading = read(read_script(script))
    flow = Forward(reading, calls_of(reading, reading.models[0]), (4,), 2)
    assert flow.kept is None
    assert flow.reason == "the shape that other.mix makes is not known"


def test_an_input_of_another_size_breaks_the_chain(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(LOOP.format(body=NETWORKS["residual"][1], batch=2))
    reading = read(read_script(script))
    flow = Forward(reading, calls_of(reading, reading.models[0]), (4, 16, 16), 2)
    assert flow.kept is None
    assert flow.reason == "what Conv2d is given is not known"


def test_a_network_that_returns_what_holds_itself_is_followed(tmp_path: Path) -> None:
    body = (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.one = nn.Linear(4, 4)\n\n"
        "    def forward(self, x):\n        out = [torch.tanh(self.one(x))]\n        out.append(out)\n        return {'out': out}\n"
    )
    script = tmp_path / "train.py"
    script.write_text(LOOP.format(body=body, batch=2))
    reading = read(read_script(script))
    flow = Forward(reading, calls_of(reading, reading.models[0]), (4,), 2)
    assert flow.kept == 2 * (4 + 4)


def test_batches_that_are_joined_count_each(tmp_path: Path) -> None:
    body = "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.one = nn.Linear(4, 4)\n\n    def forward(self, x):\n        return torch.tanh(self.one(x))\n"
    script = tmp_path / "train.py"
    for given, factor in (("x", 1), ("torch.cat([x, x + 1, x.flip(0)], dim=0).cuda()", 3), ("torch.cat(views)", None)):
        script.write_text(LOOP.format(body=body, batch=2).replace("net(x)", f"net({given})"))
        reading = read(read_script(script))
        flow = Forward(reading, calls_of(reading, reading.models[0]), (4,), 2)
        assert flow.kept == (factor * 2 * (4 + 4) if factor else None)
    assert flow.reason == "how many batches are joined to the model's input is not known"


def test_a_network_in_a_wrapper_or_not_is_called_once(tmp_path: Path) -> None:
    body = (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.one = nn.Linear(4, 4)\n"
        "        if torch.cuda.device_count() > 1:\n            self.one = nn.DataParallel(self.one)\n\n"
        "    def forward(self, x):\n        return torch.tanh(self.one(x))\n"
    )
    script = tmp_path / "train.py"
    script.write_text(LOOP.format(body=body, batch=2))
    reading = read(read_script(script))
    assert Network(reading, reading.models[0]).total == 20
    flow = Forward(reading, calls_of(reading, reading.models[0]), (4,), 2)
    assert flow.kept == 2 * (4 + 4)
