"""A loaded checkpoint stays on the device.

## What it does
Looks for `torch.load` with a `map_location` on a GPU whose result is still referenced by a variable while the training loop runs.

## Why
`load_state_dict` copies the weights into the model; the loaded tensors are a second copy.
As long as the variable lives, this copy occupies the device for the whole run: 4 bytes per parameter for fp32 weights, 0.5 GB for 124 million.

## Fix
Delete the variable after loading, or load with `map_location="cpu"`.

## When to ignore
When the device has memory to spare.

## References
- PyTorch documentation, `torch.load`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Edit, Evidence, Fix, edits
from preflight.check.queries.steps import on_gpu
from preflight.check.rule import Rule
from preflight.source.trace import Context as Frame
from preflight.source.trace import Event, provenance
from preflight.source.values import Func, Obj, Value, options_of, settle
from preflight.vocabulary.finding import Finding, Severity

RULE = Rule(
    name="checkpoint-kept-on-device",
    code="MEM018",
    severity="info",
    confidence="likely",
    needs=("training_loop",),
    layer="D",
    tags=("memory", "checkpoint"),
)

_LOOP = """
    for x, y in data:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""
BAD = (
    """
import torch
from torch import nn
def main():
    model = nn.Linear(10, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    checkpoint = torch.load("last.pt", map_location="cuda:0")
    model.load_state_dict(checkpoint["model"])
    step = checkpoint["step"]
"""
    + _LOOP
    + """
main()
""",
    """
import argparse, torch
from torch import nn, load as read
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
args = parser.parse_args()
device = torch.device(args.device)
model = nn.Linear(10, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if True:
    state = read("last.pt", device)
    model.load_state_dict(state)
"""
    + _LOOP.replace("\n    ", "\n"),
    """
import torch
import torch.nn as nn
class Config:
    device = "cuda"
def restore(path, device):
    return torch.load(path, map_location=lambda storage, loc: storage.cuda(0))
cfg = Config()
def run():
    model = nn.Linear(10, 2).to(cfg.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    saved = restore("last.pt", cfg.device)
    model.load_state_dict(saved["weights"])
"""
    + _LOOP
    + """
run()
""",
)
GOOD = (
    """
import torch
from torch import nn
def resume(model):
    checkpoint = torch.load("last.pt", map_location="cuda:0")
    model.load_state_dict(checkpoint["model"])
    return checkpoint["step"]
def main():
    model = nn.Linear(10, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = resume(model)
"""
    + _LOOP
    + """
main()
""",
    """
import torch
from torch import nn
def main():
    model = nn.Linear(10, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    checkpoint = torch.load("last.pt", map_location="cuda:0")
    model.load_state_dict(checkpoint["model"])
    del checkpoint
    other = torch.load("other.pt", map_location="cpu")
    third = torch.load("third.pt", map_location="cuda")
    third = None
"""
    + _LOOP
    + """
main()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find checkpoints on the device that a variable holds during training."""
    for event in context.trace.calls("torch.load"):
        loop = _loop_below(context, event)
        if loop is None or not _to_gpu(event.argument(1, "map_location")) or not _is_state(context, event):
            continue
        held = _holder(context, event, loop)
        if held is None:
            continue
        statement, name = held
        parameters = context.model.parameters if context.model is not None else None
        size = 4 * parameters if parameters else None
        severity: Severity = "warning" if size is not None and size >= 2**28 else "info"
        after = _last_use(event, statement, name, loop)
        edit = context.insert_after((event.script, after), f"del {name}") if after is not None else None
        yield context.finding(
            RULE,
            (event.script, statement),
            f"{name} is loaded to the GPU and stays referenced during training: a second copy of the weights occupies the device for the whole run",
            evidence=[Evidence("copy of the weights", size, "bytes", "derived", f"4 bytes x {parameters:,} parameters")]
            if size is not None
            else [Evidence("variable", name)],
            related=[(event, "loaded here")],
            fix=Fix(
                title=f"delete {name} once it is loaded",
                edits=_edits(edit),
                instruction=f'`del {name}` after load_state_dict, or torch.load(..., map_location="cpu")',
                expected="the copy is freed before training begins",
            ),
            severity=severity,
        )


def _edits(edit: Edit | None) -> tuple[Edit, ...]:
    return edits(edit) if edit is not None else ()


def _loop_below(context: Context, event: Event) -> Frame | None:
    """The training loop that runs after a load, when the load is not in it."""
    for loop in context.reading.loops:
        first = loop.events[0].number if loop.events else 0
        if first > event.number and not event.context.within(loop.frame):
            return loop.frame
    return None


def _to_gpu(value: Value | None) -> bool:
    if value is None:
        return False
    if on_gpu(value) is True:
        return True
    base = settle(value)
    if isinstance(base, Func) and isinstance(base.node, ast.Lambda):
        body = base.node.body
        return isinstance(body, ast.Call) and isinstance(body.func, ast.Attribute) and body.func.attr == "cuda"
    return False


def _is_state(context: Context, event: Event) -> bool:
    """Whether a network takes its weights from what was loaded: then there are two copies."""
    wanted = {id(o) for o in options_of(event.result)}
    return any(
        id(p) in wanted
        for e in context.trace.calls(".load_state_dict")
        for a in e.args
        for p in provenance(a, 100)
        if isinstance(p, Obj)
    )


def _holder(context: Context, event: Event, loop: Frame) -> tuple[ast.Assign, str] | None:
    """The assignment that holds the loaded thing in a scope that is alive during the loop."""
    node: ast.AST = event.node
    script = event.script
    for frame in event.context.frames():
        if frame.kind not in ("call", "root"):
            continue
        statement = context.statement(script, node)
        alive = loop.within(frame) or frame.kind == "root"
        if isinstance(statement, ast.Assign) and statement.value is node and isinstance(statement.targets[0], ast.Name):
            if not alive:
                return None
            name = statement.targets[0].id
            body = getattr(getattr(frame.value, "node", None), "body", None) or script.tree.body
            return None if _dropped(body, statement, name, loop) else (statement, name)
        if (
            not isinstance(statement, ast.Return)
            or statement.value is not node
            or frame.node is None
            or frame.parent is None
        ):
            return None
        node = frame.node
        script = frame.script or script
    return None


def _dropped(body: list[ast.stmt], assigned: ast.Assign, name: str, loop: Frame) -> bool:
    """Whether a name is deleted, or bound to something else, between an assignment and the training loop."""
    inside = {id(n) for n in ast.walk(loop.node)} if loop.node is not None else set()
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Delete) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
                return True
            bound = isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
            if bound and id(node) not in inside and getattr(node, "lineno", 0) > assigned.lineno:
                return True
    return False


def _last_use(event: Event, assigned: ast.Assign, name: str, loop: Frame) -> ast.stmt | None:
    """The statement of the same block that uses the name last, where all uses are in that block and before the loop."""
    tree = event.script.tree
    end = getattr(loop.node, "lineno", 0)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and assigned in body:
            uses = [
                n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)
            ]
            following = body[body.index(assigned) :]
            using = [s for s in following if any(u in list(ast.walk(s)) for u in uses)]
            covered = sum(1 for s in using for n in ast.walk(s) if n in uses)
            if (
                using
                and covered == len(uses)
                and (using[-1].end_lineno or 0) < end
                and isinstance(using[-1], (ast.Expr, ast.Assign))
            ):
                return using[-1]
    return None
