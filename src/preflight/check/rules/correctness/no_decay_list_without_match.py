"""An entry of the no-decay list matches no parameter.

## What it does
Reads a test such as `any(nd in name for nd in no_decay)` over `named_parameters()` of a model whose layers are all known, and finds entries that are part of no parameter's name while norm weights of the model slip through.

## Why
Lists such as `["bias", "LayerNorm.weight"]` are copied from BERT, where the layer is called that.
In a model that calls it `norm1` or `ln_1` the entry matches nothing, and the gains of all norms are decayed towards 0 without a word.

## Fix
Name the layers as the model does, or choose by shape: parameters with fewer than two dimensions are biases and gains.

## When to ignore
When decay of norm weights is wanted; then leave the entry out.

## References
- Transformers documentation, `Trainer`: parameters of layer norms and biases are not decayed
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.evaluate.library.torch import module_items, wrapped
from preflight.source.trace import Event
from preflight.source.values import Known, Obj, Seq, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="no-decay-list-without-match",
    code="OPT009",
    severity="warning",
    confidence="likely",
    needs=("optimizer",),
    layer="D",
    tags=("optimizer",),
)

BAD = (
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 16)
        self.ln_1 = nn.LayerNorm(16)
        self.out = nn.Linear(16, 100)
net = Net()
no_decay = ["bias", "LayerNorm.weight"]
groups = [
    {"params": [p for n, p in net.named_parameters() if not any(nd in n for nd in no_decay)], "weight_decay": 0.1},
    {"params": [p for n, p in net.named_parameters() if any(nd in n for nd in no_decay)], "weight_decay": 0.0},
]
optimizer = torch.optim.AdamW(groups)
""",
    """
from torch.optim import AdamW as Opt
import torch.nn as nn
SKIP = ("bias", "layer_norm.weight")
def build(model):
    plain, rest = [], []
    for name, weight in model.named_parameters():
        (rest if any(s in name for s in SKIP) else plain).append(weight)
    return Opt([{"params": plain, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}])
build(nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2)))
""",
    """
import argparse, torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--skip", nargs="+", default=["bias", "bn.weight"])
args = parser.parse_args()
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.norm1 = nn.Linear(4, 4), nn.BatchNorm1d(4)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
m = Model()
decay = [p for n, p in m.named_parameters() if not any(s in n for s in args.skip)]
optimizer = torch.optim.SGD(decay, lr=0.1, weight_decay=1e-4)
""",
)

GOOD = (
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.LayerNorm = nn.LayerNorm(16)
        self.out = nn.Linear(16, 100)
net = Net()
no_decay = ["bias", "LayerNorm.weight"]
decay = [p for n, p in net.named_parameters() if not any(nd in n for nd in no_decay)]
optimizer = torch.optim.AdamW(decay)
""",
    """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
no_decay = ["bias", "LayerNorm.weight"]
decay = [p for n, p in net.named_parameters() if not any(nd in n for nd in no_decay)]
optimizer = torch.optim.AdamW(decay)
""",
    """
import torch
from transformers import AutoModel
net = AutoModel.from_pretrained("bert-base-uncased")
no_decay = ["bias", "LayerNorm.weight"]
decay = [p for n, p in net.named_parameters() if not any(nd in n for nd in no_decay)]
optimizer = torch.optim.AdamW(decay)
""",
)

_NORMS = frozenset(
    f"torch.nn.{n}"
    for n in ("LayerNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "RMSNorm", "SyncBatchNorm")
)
_BOTH = frozenset(
    f"torch.nn.{n}"
    for n in (
        "Linear",
        "Conv1d",
        "Conv2d",
        "Conv3d",
        "ConvTranspose1d",
        "ConvTranspose2d",
        "ConvTranspose3d",
        "Bilinear",
    )
)
_NONE = frozenset(
    f"torch.nn.{n}"
    for n in (
        "ReLU",
        "GELU",
        "SiLU",
        "Sigmoid",
        "Tanh",
        "Softmax",
        "Dropout",
        "Dropout2d",
        "Identity",
        "Flatten",
        "MaxPool2d",
        "AvgPool2d",
        "AdaptiveAvgPool2d",
        "LeakyReLU",
        "ELU",
        "Hardswish",
        "Mish",
        "Upsample",
        "LogSoftmax",
    )
)


def check(context: Context) -> Iterator[Finding]:
    """Look at each any() over tests of a parameter's name."""
    seen: set[tuple[int, tuple[str, ...]]] = set()
    for event in context.trace.calls("builtins.any"):
        read = _test(event)
        if read is None:
            continue
        entries, model = read
        names, norms = _names(model, "")
        key = (id(model), tuple(entries))
        if names is None or key in seen:
            continue
        seen.add(key)
        useless = [e for e in entries if not any(e in name for name in names)]
        slipping = [n for n in norms if not any(e in n for e in entries)]
        if not useless or not slipping:
            continue
        yield context.finding(
            RULE,
            event,
            f"{', '.join(map(repr, useless))} is part of no parameter's name, so norm weights such as {slipping[0]} are decayed with the rest",
            evidence=[
                Evidence("entries without a match", ", ".join(useless)),
                Evidence("parameters of the model", len(names)),
                Evidence("norm weights that no entry matches", len(slipping)),
            ],
            fix=Fix(
                title="choose by the names (or shapes) that the model has",
                safe=False,
                instruction="name the norm layers as the model does, or leave out decay where p.ndim < 2",
                expected="norm weights are not decayed",
            ),
            related=[(model, "the model is made here")],
        )


def _test(event: Event) -> tuple[list[str], Obj] | None:
    """The texts that are looked for in a name, and the model whose parameters have the names."""
    given = settle(event.args[0]) if event.args else None
    if not isinstance(given, Seq) or given.open or not given.items:
        return None
    entries: list[str] = []
    model: Obj | None = None
    for item in given.items:
        part = settle(item)
        if not isinstance(part, Obj) or part.kind != "op" or part.name != "in" or len(part.args) != 2:
            return None
        text, found = settle(part.args[0]), _owner(part.args[1])
        if not isinstance(text, Known) or not isinstance(text.value, str) or found is None:
            return None
        entries.append(text.value)
        model = found
    return (entries, model) if model is not None else None


def _owner(name: Value) -> Obj | None:
    """The model that the first of a pair of ``named_parameters()`` belongs to."""
    base: Value | None = settle(name)
    for _ in range(3):
        if isinstance(base, Obj) and base.kind == "item" and base.receiver is not None:
            base = settle(base.receiver)
    if isinstance(base, Obj) and base.name == ".named_parameters":
        model = wrapped(base.receiver)
        return model if isinstance(model, Obj) else None
    return None


def _names(module: Obj, prefix: str, depth: int = 0) -> tuple[list[str] | None, list[str]]:
    """Names of all parameters (None when a part is not known), and those of norm weights."""
    if depth > 12:
        return None, []
    if module.cls is None:
        leaf = _leaf(module, prefix)
        if leaf is not None:
            return leaf
    if module.name in ("torch.nn.Sequential", "torch.nn.ModuleList") and module.cls is None:
        items = module_items(None, module)
        parts = [(str(i), settle(v)) for i, v in enumerate(items)] if items is not None else None
    elif module.cls is not None and module.kind != "copy" and module.cls.external_bases()[:1] == ["torch.nn.Module"]:
        parts = [(n, settle(v)) for n, v in module.attrs.items() if not n.startswith("<")]
    elif module.kind == "copy" and isinstance(module.receiver, Obj):
        return _names(module.receiver, prefix, depth + 1)
    else:
        parts = None
    if parts is None:
        return None, []
    names: list[str] = []
    norms: list[str] = []
    for name, part in parts:
        if isinstance(part, Known) or (isinstance(part, Seq) and not any(isinstance(i, Obj) for i in part.items)):
            continue
        if not isinstance(part, Obj):
            return None, []
        if part.kind == "op":
            continue
        inner, found = _names(part, f"{prefix}{name}.", depth + 1)
        if inner is None:
            return None, []
        names += inner
        norms += found
    return names, norms


def _leaf(module: Obj, prefix: str) -> tuple[list[str], list[str]] | None:
    """The parameters of a layer of PyTorch."""
    weight, bias = f"{prefix}weight", f"{prefix}bias"
    if module.name in _NORMS:
        return [weight, bias], [weight]
    if module.name in _BOTH:
        return [weight, bias], []
    if module.name == "torch.nn.Embedding":
        return [weight], []
    if module.name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter"):
        return [prefix.rstrip(".")], []
    return ([], []) if module.name in _NONE else None
