"""A method is named and not called.

## What it does
Looks for statements that are only the name of a method of training (`loss.backward`, `optimizer.step`, `model.eval`), and for `model.parameters` and `model.state_dict` without parentheses where an optimizer, `torch.save` or `load_state_dict` takes what they return.

## Why
Without parentheses Python looks the method up and does nothing with it: no error, and no effect.
An optimizer is given a method where it wants parameters and raises an error; `torch.save` saves the method, with all of the model behind it.

## Fix
Write the parentheses.

## When to ignore
Never for these names.

## References
- Python language reference, "Expression statements"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.rule import Rule
from preflight.source.script import Script
from preflight.source.values import options_of
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="method-not-called", code="CAL001", severity="error", confidence="certain", layer="D", tags=("correctness",)
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward
    optimizer.step()
""",
    """
import torch
class Trainer:
    def __init__(self, net):
        self.net = net
        self.opt = torch.optim.AdamW(self.net.parameters, lr=1e-3)
    def evaluate(self, batch):
        self.net.eval
        return self.net(batch)
Trainer(torch.nn.Linear(4, 4)).evaluate(batch)
""",
    """
import torch
net = torch.nn.Linear(4, 4)
torch.save({"model": net.state_dict, "step": 10}, "end.pt")
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
hook = model.eval
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
torch.save(model.state_dict(), "end.pt")
""",
    """
import torch
class Settings:
    parameters = {"lr": 0.1}
class Run:
    step = 0
run, settings = Run(), Settings()
print(settings.parameters, run.step)
torch.save(settings.parameters, "settings.pt")
""",
)

_ALONE = frozenset(
    {"backward", "step", "zero_grad", "eval", "train", "update", "barrier", "synchronize", "empty_cache", "cuda"}
)
_LISTS = frozenset({"parameters", "state_dict", "named_parameters"})
_TAKERS = frozenset({"load_state_dict", "clip_grad_norm_", "clip_grad_value_"})


def check(context: Context) -> Iterator[Finding]:
    """Look at statements that are a name alone, and at what optimizers and savers are given."""
    takers = _TAKERS | {optimizer.name.rpartition(".")[2] for optimizer in context.reading.made("optimizer")}
    for script in context.reading.scripts:
        own = {function.name for function in script.nodes(ast.FunctionDef) if _is_property(function)}
        for statement in script.nodes(ast.Expr):
            named = statement.value
            if isinstance(named, ast.Attribute) and named.attr in _ALONE - own:
                yield _finding(context, script, named, "this names the method and does not call it: nothing happens")
        for call in script.nodes(ast.Call):
            for given in _given(call):
                if given.attr in _LISTS - own and _takes(call, takers) and _is_model(context, script, given):
                    yield _finding(context, script, given, f"{given.attr} is handed over without being called")


def _is_property(function: ast.FunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


def _takes(call: ast.Call, takers: frozenset[str]) -> bool:
    """Whether what is called wants parameters or states."""
    name = ast.unparse(call.func)
    return name.rpartition(".")[2] in takers or name == "torch.save"


def _given(call: ast.Call) -> Iterator[ast.Attribute]:
    """Arguments that are attributes, also as values of a dictionary that is written there."""
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        if isinstance(argument, ast.Attribute):
            yield argument
        elif isinstance(argument, ast.Dict):
            yield from (value for value in argument.values if isinstance(value, ast.Attribute))


def _is_model(context: Context, script: Script, given: ast.Attribute) -> bool:
    """Whether the owner of the attribute is a module, or an optimizer whose state is taken."""
    owner = ast.unparse(given.value)
    named = context.reading.machine.module.namespace.get(owner)
    if named is not None and any(context.roles.of(one) in ("model", "optimizer") for one in options_of(named, limit=4)):
        return True
    for event in context.trace.events:
        for part in (event.receiver, event.func, *event.args):
            site = part.site if part is not None else None
            if site is not None and site.script is script and ast.unparse(site.node) == owner:
                return context.roles.of(part) in ("model", "optimizer")
    return False


def _finding(context: Context, script: Script, node: ast.Attribute, text: str) -> Finding:
    written = script.segment(node)
    return context.finding(
        RULE,
        (script, node),
        f"{written}: {text}",
        evidence=[Evidence("parentheses", "missing")],
        fix=Fix(
            title="call it",
            safe=False,
            edits=edits(context.replace((script, node), f"{written}()")),
            instruction=f"write {written}()",
            expected="the method runs",
        ),
    )
