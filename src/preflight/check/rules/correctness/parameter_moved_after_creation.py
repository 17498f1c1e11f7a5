"""A parameter is moved or changed after it was made, so it is none.

## What it does
Reports an attribute of a module that is assigned the result of an operation on a fresh `nn.Parameter`: `nn.Parameter(t).to(device)`, `nn.Parameter(t).cuda()`, `nn.Parameter(t) * 0.02`.

## Why
The result of an operation is a plain tensor, not a parameter.
The module does not register it: it is not in `parameters()`, no optimizer trains it, `state_dict()` does not save it.

## Fix
Do the operation inside: `nn.Parameter(t.to(device))`.

## When to ignore
When `.to()` changes neither device nor type, it returns the parameter itself; then it is superfluous.

## References
- PyTorch documentation of Parameter and of Tensor.is_leaf
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.placement import made_at
from preflight.check.queries.tensors import operation, source_text
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.nodes import encloses
from preflight.source.values import Known, Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="parameter-moved-after-creation",
    code="MOD007",
    severity="error",
    confidence="certain",
    layer="D",
    tags=("modules",),
)

BAD = (
    """
import torch, torch.nn as nn
class Net(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8)).to(device)
    def forward(self, x):
        return x * self.scale
net = Net("cuda")
""",
    """
import torch
from torch.nn.parameter import Parameter as P
class Prompt(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.reset()
    def reset(self):
        self.tokens = P(torch.randn(20, 768)) * 0.02
    def forward(self, x):
        return torch.cat([self.tokens, x])
net = Prompt()
""",
    """
import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--width", type=int, default=16)
a = p.parse_args()
class Net(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(width), requires_grad=True).cuda()
    def forward(self, x):
        return x + self.bias
net = Net(a.width)
""",
    """
import torch
class Net(torch.nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.shift = torch.nn.Parameter(torch.zeros(4).to(first)).to(second)
    def forward(self, x):
        return x + self.shift
net = Net("cpu", "cuda")
""",
)

GOOD = (
    """
import torch, torch.nn as nn
class Net(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8).to(device))
        self.frozen = nn.Parameter(torch.ones(8)).requires_grad_(False)
        self.raw = nn.Parameter(torch.zeros(8))
        self.copy = self.raw.detach()
    def forward(self, x):
        return x * self.scale * (self.raw * 0.1)
net = Net("cuda")
""",
    """
import torch, torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        weight = nn.Parameter(torch.ones(8))
        self.register_parameter("weight", weight)
        self.cached = weight * 2
net = Net()
""",
    """
import argparse, torch, torch.nn as nn
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda:0")
class Net(nn.Module):
    def __init__(self, device, nodes):
        super().__init__()
        self.source = nn.Parameter(torch.randn(nodes, 10).to(device), requires_grad=True).to(device)
        self.target = nn.Parameter(torch.randn(10, nodes, device=device)).to(device)
        self.scale = nn.Parameter(torch.ones(1).cuda()).cuda()
    def forward(self, x):
        return x @ self.source @ self.target * self.scale
device = torch.device(parser.parse_args().device)
net = Net(device, 207)
""",
)

_MAKES_NEW = frozenset({"to", "cuda", "cpu", "half", "float", "double", "bfloat16", "type", "*", "/", "+", "-", "mul", "div", "view", "t",
                        "reshape", "unsqueeze", "clone", "transpose", "expand", "repeat"})  # fmt: skip


def check(context: Context) -> Iterator[Finding]:
    """Look for attributes that are operations on a fresh parameter."""
    for store in context.trace.stores:
        value, owner = settle(store.value), settle(store.target)
        if not isinstance(value, Obj) or operation(value) not in _MAKES_NEW or not is_module(owner):
            continue
        inner = value.receiver if value.kind == "call" else (value.args[0] if value.args else None)
        parameter = settle(inner) if inner is not None else None
        if not isinstance(parameter, Obj) or parameter.name not in (
            "torch.nn.Parameter",
            "torch.nn.parameter.Parameter",
        ):
            continue
        if not _fresh(parameter, value) or _there_already(parameter, value):
            continue
        yield context.finding(
            RULE,
            store,
            f"self.{store.name} is the result of {_shown(value)} on a parameter, so it is a plain tensor: "
            "it is neither trained nor saved",
            evidence=[Evidence("assigned", source_text(context, value))],
            fix=Fix(
                title="make the parameter last",
                instruction="do the operation inside: nn.Parameter(tensor.to(device))",
                expected=f"self.{store.name} is in parameters() and in the checkpoint",
            ),
            # What is there already stays a parameter, and where a tensor that is handed in lies is not known.
            severity=None if _surely_new(parameter, value) else "warning",
            confidence=None if _surely_new(parameter, value) else "possible",
        )


def _shown(value: Obj) -> str:
    return f"{value.name}()" if value.name.startswith(".") else f"'{value.name}'"


def _surely_new(parameter: Obj, value: Obj) -> bool:
    """Whether the operation makes another tensor wherever the script runs: any but a move does, and a move from the CPU."""
    if operation(value) not in ("to", "cuda"):
        return True
    made = made_at(parameter.argument(0, "data"))
    return made is not None


def _there_already(parameter: Obj, value: Obj) -> bool:
    """Whether what the parameter holds was moved to the same place before, so that moving it gives back itself."""
    target = _target(value)
    held = parameter.argument(0, "data")
    inner = settle(held) if held is not None else None
    if target is None or not isinstance(inner, Obj):
        return False
    if operation(inner) in ("to", "cuda"):
        return target == _target(inner)
    device = inner.kwargs.get("device")
    return device is not None and target == ("to", _key(device))


def _target(moved: Obj) -> tuple[str, object] | None:
    """Where ``.to()`` or ``.cuda()`` moves a tensor, as something that can be compared."""
    name = operation(moved)
    if name not in ("to", "cuda") or len(moved.args) + len(moved.kwargs) > 1:
        return None
    given = next(iter((*moved.args, *moved.kwargs.values())), None)
    if given is None:
        return (name, None) if name == "cuda" else None
    return name, _key(given)


def _key(value: Value) -> object:
    base = settle(value)
    return base.value if isinstance(base, Known) else id(base)


def _fresh(parameter: Obj, value: Obj) -> bool:
    """Whether the parameter is made in the same expression, so that nothing else can register it."""
    outer, inner = value.site, parameter.site
    if outer is None or inner is None or outer.script is not inner.script:
        return False
    return encloses(outer.node, inner.node)
