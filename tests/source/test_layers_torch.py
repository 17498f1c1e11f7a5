"""Parameters counted from the text of a network equal those of the network that torch makes of it."""

from __future__ import annotations

import textwrap
import warnings
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preflight.source.layers import Network
from preflight.source.reading import read
from preflight.source.script import parse
from preflight.source.values import Obj, settle

pytestmark = pytest.mark.torch
HEAD = "import copy\nfrom collections import OrderedDict\nimport torch\nimport torch.nn as nn\nfrom torch import nn as tnn\n"


def counted(text: str, name: str = "model") -> tuple[int | None, str | None]:
    reading = read(parse((HEAD + text).encode(), "t.py"))
    assert reading.trace.exhausted is None
    held = settle(reading.machine.module.namespace[name])
    assert isinstance(held, Obj)
    network = Network(reading, held)
    return network.total, network.reason


def made(text: str, name: str = "model") -> int:
    torch = pytest.importorskip("torch")
    scope: dict[str, Any] = {"__name__": "__main__"}
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's advice on what is slow
        exec(HEAD + text, scope)
    return sum(p.numel() for p in scope[name].parameters())


NETWORKS = {
    "adaptive softmax": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.emb = nn.Embedding(10000, 64)
                self.rare = nn.AdaptiveLogSoftmaxWithLoss(64, 10000, [1000, 5000], head_bias=True)
                self.other = nn.AdaptiveLogSoftmaxWithLoss(100, 2000, cutoffs=[200, 500, 900], div_value=3.0)
                self.loss = nn.CrossEntropyLoss()
        model = Net()
    """,
    "tied": """
        class Net(nn.Module):
            def __init__(self, vocab=100, width=16):
                super().__init__()
                self.emb = nn.Embedding(vocab, width)
                self.body = nn.ModuleList([nn.Linear(width, width) for _ in range(3)])
                self.head = nn.Linear(width, vocab, bias=False)
                self.head.weight = self.emb.weight
        model = Net()
    """,
    "tied the other way": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.ModuleDict(dict(wte=nn.Embedding(50, 8), ln=nn.LayerNorm(8, bias=False)))
                self.head = nn.Linear(8, 50, bias=False)
                self.body.wte.weight = self.head.weight
        model = Net()
    """,
    "shared": """
        layer = nn.Linear(3, 3)
        model = nn.Sequential(layer, nn.ReLU(), layer, nn.Sequential(layer, nn.Linear(3, 1)))
    """,
    "shared in a comprehension": """
        layer = nn.Linear(3, 3)
        model = nn.ModuleList([layer for _ in range(4)])
    """,
    "copied": """
        layer = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
        model = nn.Sequential(layer, copy.deepcopy(layer), *[copy.deepcopy(layer) for _ in range(2)])
    """,
    "a copy that was changed": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(4, 4)
                self.fc = nn.Linear(4, 10)
        first = Net()
        model = copy.deepcopy(first)
        model.fc = nn.Linear(4, 2)
    """,
    "a head that was replaced": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 10)
                self.norm = None
        model = Net()
        model.fc = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    """,
    "inheritance": """
        class Base(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.first = nn.Linear(width, width)
        class Net(Base):
            def __init__(self):
                super(Net, self).__init__(6)
                self.second = nn.Linear(6, 1, bias=False)
        model = Net()
    """,
    "a layer that is extended": """
        class Wide(nn.Linear):
            def __init__(self, n): super().__init__(n, 2 * n, bias=True)
        class Block(nn.Sequential):
            def __init__(self, n): super().__init__(nn.Conv2d(n, n, 3, bias=False), nn.BatchNorm2d(n), nn.ReLU())
        model = nn.Sequential(Wide(3), Block(4), Block(5))
    """,
    "parameters of its own": """
        class Net(nn.Module):
            def __init__(self, n=5):
                super().__init__()
                self.scale = nn.Parameter(torch.ones(n))
                self.table = nn.Parameter(torch.zeros(1, n, 3))
                self.slanted = nn.Parameter(torch.eye(3, 5))
                self.register_buffer("mask", torch.ones(n, n))
                self.register_parameter("extra", nn.Parameter(torch.randn(2, 2)))
                self.add_module("named", nn.Linear(n, 1))
                self.plain = [nn.Linear(100, 100)]
        model = Net()
    """,
    "built in a loop": """
        def stack(sizes):
            layers = []
            for a, b in zip(sizes[:-1], sizes[1:]):
                layers += [nn.Linear(a, b), nn.ReLU(inplace=True)]
            return nn.Sequential(*layers[:-1])
        model = stack([7, 5, 3, 2])
    """,
    "a configuration string": """
        plan = [4, "M", 8, 8, "M"]
        def make(plan):
            layers, into = [], 3
            for x in plan:
                if x == "M":
                    layers.append(nn.MaxPool2d(2))
                else:
                    layers += [nn.Conv2d(into, x, 3, padding=1), nn.BatchNorm2d(x), nn.ReLU()]
                    into = x
            return nn.Sequential(*layers)
        model = make(plan)
    """,
    "residual stages": """
        class Block(nn.Module):
            expansion = 2
            def __init__(self, into, out, stride=1):
                super().__init__()
                self.conv = nn.Conv2d(into, out, 3, stride, 1, bias=False)
                self.out = nn.Conv2d(out, self.expansion * out, 1)
                self.shortcut = nn.Sequential()
                if stride != 1 or into != self.expansion * out:
                    self.shortcut = nn.Sequential(nn.Conv2d(into, self.expansion * out, 1, stride, bias=False), nn.BatchNorm2d(self.expansion * out))
        class Net(nn.Module):
            def __init__(self, block, counts):
                super().__init__()
                self.into = 4
                self.stages = nn.ModuleList(self.stage(block, w, n, s) for w, n, s in zip((4, 8), counts, (1, 2)))
                self.head = nn.Linear(8 * block.expansion, 10)
            def stage(self, block, width, count, stride):
                layers = []
                for s in [stride] + [1] * (count - 1):
                    layers.append(block(self.into, width, s))
                    self.into = width * block.expansion
                return nn.Sequential(*layers)
        model = Net(Block, [2, 3])
    """,
    "named parts": """
        model = nn.Sequential(OrderedDict([("a", nn.Linear(2, 3)), ("b", nn.PReLU(3))]))
        model.add_module("c", nn.GroupNorm(1, 3))
        model.append(nn.Bilinear(2, 3, 4))
    """,
    "grown": """
        model = nn.ModuleList()
        for i in range(3): model.append(nn.LSTM(4, 2 * i + 1, batch_first=True))
        model.extend([nn.Linear(1, 1), nn.Identity()])
    """,
    "transformers": """
        layer = nn.TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16, batch_first=True)
        model = nn.ModuleDict({"e": nn.TransformerEncoder(layer, num_layers=3, norm=nn.LayerNorm(8)), "d": nn.Transformer(8, 2, 1, 2, 16)})
    """,
    "sizes from a configuration": """
        from dataclasses import dataclass
        @dataclass
        class Config:
            width: int = 12
            heads: int = 3
            depth: int = 2
            vocab: int = 64
            bias: bool = False
        class Block(nn.Module):
            def __init__(self, c):
                super().__init__()
                self.attn = nn.Linear(c.width, 3 * c.width, bias=c.bias)
                self.mlp = nn.Sequential(nn.Linear(c.width, 4 * c.width, bias=c.bias), nn.GELU(), nn.Linear(4 * c.width, c.width, bias=c.bias))
        class Net(nn.Module):
            def __init__(self, c):
                super().__init__()
                self.transformer = nn.ModuleDict(dict(wte=nn.Embedding(c.vocab, c.width), h=nn.ModuleList([Block(c) for _ in range(c.depth)])))
                self.head = nn.Linear(c.width, c.vocab, bias=False)
                self.transformer.wte.weight = self.head.weight
        model = Net(Config(depth=3))
    """,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_counted_as_torch_counts_them(name: str) -> None:
    text = textwrap.dedent(NETWORKS[name])
    total, reason = counted(text)
    assert (total, reason) == (made(text), None)


SMALL = st.integers(1, 12)
FLAG = st.booleans()
LAYERS = st.one_of(
    st.builds("nn.Linear({}, {}, {})".format, SMALL, SMALL, FLAG),
    st.builds("nn.Linear(in_features={}, out_features={}, bias={})".format, SMALL, SMALL, FLAG),
    st.builds(
        "nn.Conv{}d({}, {}, {}, stride=2, bias={})".format, st.integers(1, 3), SMALL, SMALL, st.integers(1, 5), FLAG
    ),
    st.builds(
        "nn.Conv2d({0} * {1}, {0} * {2}, ({3}, {4}), groups={0})".format, st.integers(1, 4), SMALL, SMALL, SMALL, SMALL
    ),
    st.builds(
        "nn.ConvTranspose2d({0} * {1}, {0} * {2}, {3}, 2, groups={0}, bias={4})".format,
        st.integers(1, 4),
        SMALL,
        SMALL,
        SMALL,
        FLAG,
    ),
    st.builds("nn.BatchNorm{}d({}, affine={})".format, st.integers(1, 3), SMALL, FLAG),
    st.builds("nn.InstanceNorm2d({}, affine={})".format, SMALL, FLAG),
    st.builds(
        "nn.LayerNorm({}, elementwise_affine={}, bias={})".format,
        st.sampled_from(["5", "(3, 4)", "[2, 2]"]),
        FLAG,
        FLAG,
    ),
    st.builds("nn.RMSNorm({}, elementwise_affine={})".format, SMALL, FLAG),
    st.builds("nn.GroupNorm(1, {}, affine={})".format, SMALL, FLAG),
    st.builds(
        "nn.{}({}, {}, num_layers={}, bias={}, bidirectional={})".format,
        st.sampled_from(["LSTM", "GRU", "RNN"]),
        SMALL,
        SMALL,
        st.integers(1, 3),
        FLAG,
        FLAG,
    ),
    st.builds(
        "nn.LSTM({}, 7, {}, proj_size={}, bidirectional={})".format, SMALL, st.integers(1, 3), st.integers(1, 6), FLAG
    ),
    st.builds("nn.{}Cell({}, {}, {})".format, st.sampled_from(["LSTM", "GRU", "RNN"]), SMALL, SMALL, FLAG),
    st.builds("nn.Embedding({}, {}, padding_idx=0)".format, SMALL, SMALL),
    st.builds("nn.EmbeddingBag({}, {})".format, SMALL, SMALL),
    st.builds("nn.PReLU({})".format, SMALL),
    st.builds("nn.Bilinear({}, {}, {}, bias={})".format, SMALL, SMALL, SMALL, FLAG),
    st.builds("nn.MultiheadAttention({0} * 2, 2, bias={1}, add_bias_kv={2})".format, SMALL, FLAG, FLAG),
    st.builds("nn.MultiheadAttention({0} * 2, 2, kdim={1}, vdim={2})".format, SMALL, SMALL, SMALL),
    st.builds(
        "nn.Transformer{}Layer({} * 2, 2, {}, bias={})".format,
        st.sampled_from(["Encoder", "Decoder"]),
        SMALL,
        SMALL,
        FLAG,
    ),
    st.sampled_from(
        [
            "nn.ReLU()",
            "nn.Dropout(0.1)",
            "nn.MaxPool2d(2)",
            "nn.Flatten()",
            "nn.Identity()",
            "tnn.GELU()",
            "nn.Softmax(dim=-1)",
        ]
    ),
)


def _nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        several.map(lambda parts: f"nn.Sequential({', '.join(parts)})"),
        several.map(lambda parts: f"nn.ModuleList([{', '.join(parts)}])"),
        several.map(lambda parts: "nn.ModuleDict({" + ", ".join(f"'k{i}': {p}" for i, p in enumerate(parts)) + "})"),
        st.builds("nn.ModuleList([{} for _ in range({})])".format, inner, st.integers(0, 4)),
        st.builds("nn.Sequential(*[copy.deepcopy({}) for _ in range({})])".format, inner, st.integers(1, 3)),
    )


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.recursive(LAYERS, _nested, max_leaves=5), min_size=1, max_size=3))
def test_random_networks_are_counted_as_torch_counts_them(layers: list[str]) -> None:
    body = "".join(f"        self.layer{i} = {layer}\n" for i, layer in enumerate(layers))
    text = f"class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n{body}model = Net()\n"
    true = made(text)
    assert counted(text) == ((true, None) if true else (None, "the layers of the model were not seen"))
