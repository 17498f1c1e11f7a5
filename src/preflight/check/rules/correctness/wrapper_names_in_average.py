"""An average is kept under the names of a model and brought on under those of its wrapper.

## What it does
Follows loops over the named parameters of a model in `torch.compile` or DistributedDataParallel, in which a branch asks whether the name is in a table that was filled with the names of the model inside.

## Why
A wrapper puts a prefix before each name: `_orig_mod.` or `module.`.
None of them is in the table, so the branch is never taken: the average keeps the weights of the start, and nothing complains.

## Fix
Bring the average on from the model inside the wrapper, or take the prefix away from the names.

## When to ignore
When the table is filled with the names of the wrapper, too.

## References
- PyTorch documentation of `torch.compile` and of DistributedDataParallel
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.trace import Event, provenance
from preflight.source.values import Dict, Obj, Value, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="wrapper-names-in-average",
    code="EMA006",
    severity="error",
    confidence="likely",
    layer="D",
    tags=("average", "distributed"),
)
_PREFIX = {
    "torch.nn.parallel.DistributedDataParallel": "module.",
    "torch.nn.parallel.DataParallel": "module.",
    "torch.compile": "_orig_mod.",
}
_NAMED = (".named_parameters", ".named_buffers")

_HEAD = """
import torch
from torch import nn
net = nn.Linear(10, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
class Average:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}
    @torch.no_grad()
    def update(self, model):
        for name, p in model.named_parameters():
            if name in self.shadow:
                self.shadow[name].mul_(self.decay).add_(p, alpha=1 - self.decay)
average = Average(net, 0.99)
"""
_TRAIN = """
for x, y in loader:
    loss = nn.functional.cross_entropy(fast(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

BAD = (
    f"""{_HEAD}
fast = torch.compile(net){_TRAIN}
    average.update(fast)
""",
    f"""{_HEAD}
from torch.nn.parallel import DistributedDataParallel as DDP
fast = DDP(net, device_ids=[0]){_TRAIN}
    average.update(fast)
""",
    f"""
import torch
from torch import nn
net = nn.Linear(10, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
kept = {{name: p.data.clone() for name, p in net.named_parameters()}}
fast = torch.nn.DataParallel(net){_TRAIN}
    for key, value in fast.named_parameters():
        if key not in kept:
            continue
        kept[key].lerp_(value.data, 0.01)
""",
)

GOOD = (
    f"""{_HEAD}
fast = torch.compile(net){_TRAIN}
    average.update(net)
""",
    f"""{_HEAD.replace("            if name", "            name = name.removeprefix('_orig_mod.')" + chr(10) + "            if name")}
fast = torch.compile(net){_TRAIN}
    average.update(fast)
""",
    f"""{_HEAD.replace("net = nn.Linear(10, 2)", "net = torch.compile(nn.Linear(10, 2))")}
fast = net{_TRAIN}
    average.update(fast)
""",
    f"""
import torch
from torch import nn
net = nn.Linear(10, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
kept = {{name: p.detach().clone() for name, p in net.named_parameters()}}
fast = torch.nn.DataParallel(net){_TRAIN}
    for key, value in fast.named_parameters():
        if key in kept:
            kept[key].lerp_(value.data, 0.01)
        else:
            kept[key] = value.detach().clone()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find branches that ask for the names of a wrapper in a table with those of the model inside."""
    told: set[int] = set()
    for event in context.trace.events:
        for frame in event.context.frames():
            test = frame.value if frame.kind == "if" else None
            if not isinstance(test, Obj) or test.name not in ("in", "notin") or len(test.args) != 2:
                continue
            asked, table = settle(test.args[0]), settle(test.args[1])
            wrapper = _model_of_name(asked)
            if wrapper is None or wrapper.name not in _PREFIX or id(table) in told or not isinstance(table, Dict):
                continue
            inside = settle(wrapper.args[0]) if wrapper.args else None
            filled = table.entries and all(_models_of_value(one) == [inside] for one in table.entries.values())
            if filled and not _gets_others(context, table):
                told.add(id(table))
                yield _finding(context, event, wrapper)


def _model_of_name(value: Value | None) -> Obj | None:
    """The model of whose named parameters a value is the name, as it is."""
    if not isinstance(value, Obj) or value.kind != "item" or not value.args or plain(value.args[0]) != 0:
        return None
    pair = settle(value.receiver) if value.receiver is not None else None
    call = (
        settle(pair.receiver) if isinstance(pair, Obj) and pair.kind == "item" and pair.receiver is not None else None
    )
    if not isinstance(call, Obj) or call.name not in _NAMED or call.receiver is None:
        return None
    model = settle(call.receiver)
    return model if isinstance(model, Obj) else None


def _models_of_value(value: Value) -> list[Value]:
    """The models of whose named parameters a value is made."""
    found: list[Value] = []
    for part in provenance(value, 40):
        if isinstance(part, Obj) and part.name in _NAMED and part.receiver is not None:
            model = settle(part.receiver)
            if all(model is not one for one in found):
                found.append(model)
    return found


def _gets_others(context: Context, table: Dict) -> bool:
    """Whether a table is given what is not made from what stands in it."""
    entries = {id(one) for one in table.entries.values()}
    return any(
        settle(store.target) is table and entries.isdisjoint(map(id, provenance(store.value, 40)))
        for store in context.trace.stores
    )


def _finding(context: Context, event: Event, wrapper: Obj) -> Finding:
    prefix = _PREFIX[wrapper.name]
    return context.finding(
        RULE,
        event,
        f"the names of {wrapper.name.rpartition('.')[2]} begin with {prefix}, and the table was filled with those of the "
        "model inside: none is found, and the average keeps the weights of the start",
        evidence=[Evidence("prefix of the names that are asked for", prefix), Evidence("prefix in the table", "none")],
        related=[(wrapper, "the model is wrapped here")],
        fix=Fix(
            title="use the names of the model inside",
            instruction=f"go through the parameters of the model inside, or take {prefix} away with removeprefix()",
            expected="the average follows the trained weights",
        ),
    )
