"""An auxiliary loss is computed and goes into no loss.

## What it does
Looks for a value named as a loss (`balance`, `aux_loss`, `commitment`, `penalty` ...) that a network or a function of the script returns beside its output, and that the training loop only prints; and for one that a module keeps as an attribute which nothing reads.

## Why
A load-balancing loss, a commitment loss or a penalty costs its computation and teaches nothing unless it is added to the loss that `backward()` is called on.
The main loss falls as it should, while the experts that are never chosen, or the codes that are never used, stay as they were.

## Fix
Add it to the loss, with its weight.

## When to ignore
When the value is only watched.

## References
- Fedus et al., "Switch Transformers", 2021, section 2.2: the auxiliary loss is added to the total
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.names_in_text import names_in
from preflight.check.queries.returned_values import is_cut, returned_alone
from preflight.check.queries.tensors import grad_off, inside_forward
from preflight.check.rule import Rule
from preflight.source.script import Script
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="auxiliary-loss-dropped",
    code="LOS018",
    severity="warning",
    confidence="likely",
    needs=("training_loop", "complete"),
    layer="S",
    tags=("loss",),
    beside=True,
)

_HEAD = """
import torch
from torch import nn
import torch.nn.functional as F
class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.out = nn.Linear(8, 4), nn.Linear(8, 3)
    def forward(self, x):
        p = self.gate(x).softmax(-1)
        balance = 4 * (p.mean(0) ** 2).sum()
        return self.out(x), balance
model = Experts()
optimizer = torch.optim.Adam(model.parameters())
"""
BAD = (
    f"""{_HEAD}
for step, (x, y) in enumerate(loader):
    logits, balance = model(x)
    loss = F.cross_entropy(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(loss.item(), balance.item())
""",
    f"""{_HEAD}
def update(x, y):
    optimizer.zero_grad()
    logits, aux_loss = model(x)
    F.cross_entropy(logits, y).backward()
    optimizer.step()
for x, y in loader:
    update(x, y)
""",
    """
import torch
from torch import nn
import torch.nn.functional as F
class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.aux_loss = nn.Linear(8, 4), None
    def forward(self, x):
        p = F.softmax(self.linear(x), dim=-1)
        self.aux_loss = (p.mean(0) * p.mean(0)).sum()
        return p
model = nn.Sequential(Router(), nn.Linear(4, 2))
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
""",
)
GOOD = (
    """
import torch
from torch import nn
import torch.nn.functional as F
class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.out = nn.Linear(8, 4), nn.Linear(8, 3)
    def forward(self, x, y):
        p = self.gate(x).softmax(-1)
        balance_loss = 4 * (p.mean(0) ** 2).sum()
        terms = [F.cross_entropy(self.out(x), y)]
        terms.append(0.01 * balance_loss)
        return sum(terms), balance_loss
class Kept(Parts):
    def forward(self, x, y):
        self.aux_loss = self.gate(x).softmax(-1).mean(0).square().sum()
        loss = F.cross_entropy(self.out(x), y) + 0.01 * self.aux_loss
        return loss, self.aux_loss
parts, kept = Parts(), Kept()
optimizer = torch.optim.Adam([*parts.parameters(), *kept.parameters()])
def losses(x, y, weight=0.1):
    penalty = parts.gate(x).pow(2).mean()
    total: torch.Tensor = F.cross_entropy(parts.out(x), y) + weight * penalty
    return total, penalty
def scaled(x, y, weight=0.1):
    size = parts.gate(x).pow(2).mean()
    return F.cross_entropy(parts.out(x), y) + weight * size, weight * size
for x, y in loader:
    for find in (parts, kept, losses, scaled):
        loss, aux_loss = find(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item(), aux_loss.item())
    total, penalty = losses(x, y)
    total.backward()
    total, latent_loss = scaled(x, y)
    total.backward()
    print(penalty.item(), latent_loss.item())
""",
    f"""{_HEAD}
for x, y in loader:
    logits, balance = model(x)
    loss = F.cross_entropy(logits, y) + torch.log(balance)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    f"""{_HEAD}
for x, y in loader:
    logits, balance = model(x)
    loss = F.cross_entropy(logits, y) + 0.01 * balance
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    f"""{_HEAD}
def losses(x, y):
    logits, balance = model(x)
    fit_loss = F.cross_entropy(logits, y)
    total = fit_loss + 0.1 * balance
    return total, balance
for x, y in loader:
    total, balance_loss = losses(x, y)
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
    print(balance_loss.item())
""",
    f"""{_HEAD}
terms = []
for x, y in loader:
    logits, balance = model(x)
    terms.append(balance)
    optimizer.zero_grad()
    (F.cross_entropy(logits, y) + sum(terms)).backward()
    optimizer.step()
    terms.clear()
with torch.no_grad():
    logits, balance = model(rows)
    print(balance)
""",
    """
import torch
from torch import nn
import torch.nn.functional as F
class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.aux_loss = nn.Linear(8, 4), None
    def forward(self, x):
        p = F.softmax(self.linear(x), dim=-1)
        self.aux_loss = (p.mean(0) * p.mean(0)).sum()
        return p
model = nn.Sequential(Router(), nn.Linear(4, 2))
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    for m in model.modules():
        if isinstance(m, Router):
            loss = loss + m.aux_loss
    loss.backward()
    optimizer.step()
""",
    f"""{_HEAD}
def critic_step(x, y):
    logits, fit = model(x)
    gradient_penalty = fit.square()
    loss = F.cross_entropy(logits, y)
    (loss + 10 * gradient_penalty).backward()
    return loss, gradient_penalty
for x, y in loader:
    loss, gradient_penalty = critic_step(x, y)
    other(x).mean().backward()
    optimizer.step()
    print(loss.item(), gradient_penalty.item())
""",
    f"""{_HEAD}
def losses_of(x, y):
    logits, extra = model(x)
    balance = extra.mean()
    terms = []
    terms.append(F.cross_entropy(logits, y))
    terms.append(0.01 * balance)
    return sum(terms), balance
for x, y in loader:
    loss, balance = losses_of(x, y)
    loss.backward()
    optimizer.step()
    print(f"{{balance.item():.3f}}")
""",
    f"""{_HEAD}
for x, y in loader:
    logits, penalty = model(x)
    loss = F.cross_entropy(logits, y) + 0.01 * torch.log(penalty)
    loss.backward()
    optimizer.step()
    print(penalty.item())
""",
    f"""{_HEAD}
for x, y in loader:
    logits, penalty = model(x)
    total = 1.0 - penalty.item()
    (F.cross_entropy(logits, y) * total).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
import torch.nn.functional as F
class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.out, self.aux_loss = nn.Linear(8, 4), nn.Linear(8, 2), None
    def forward(self, x):
        p = F.softmax(self.linear(x), dim=-1)
        with torch.no_grad():
            balance = (p.mean(0) * p.mean(0)).sum()
        self.aux_loss = own = (p.mean(0) * p.mean(0)).sum()
        return self.out(x) * p.max(-1, keepdim=True).values, own, balance
model = Router()
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    optimizer.zero_grad()
    out, own, balance = model(x)
    (F.cross_entropy(out, y) + own).backward()
    optimizer.step()
    print(balance.item())
""",
    """
import torch
from torch import nn
import torch.nn.functional as F
class Routed(nn.Module):  # one of several networks of a library: the script that trains it reads what it keeps
    def __init__(self):
        super().__init__()
        self.linear, self.out = nn.Linear(8, 4), nn.Linear(4, 2)
    def forward(self, x):
        p = F.softmax(self.linear(x), dim=-1)
        self.balance_loss = (p.mean(0) * p.mean(0)).sum()
        return self.out(p)
teacher = Routed().eval()
model = nn.Linear(8, 2)
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    with torch.no_grad():
        aim = teacher(x).softmax(-1)
    optimizer.zero_grad()
    F.cross_entropy(model(x), aim).backward()
    optimizer.step()
""",
)
_NAMED = re.compile(
    r"(^|_)(aux|auxiliary|balance|balancing|commit|commitment|latent|codebook|regularization|router|z|vq|load|lb)_(.*_)?loss$"
    r"|(^|_)penalty$|^balance$|^commitment$"
)
_WATCHED = frozenset({"print", "info", "debug", "log", "add_scalar", "set_postfix", "format"})
_MATHS = frozenset({"torch", "math", "np", "numpy"})
_NUMBERS = frozenset({"float", "item", "detach", "cpu", "mean", "round", "numpy", "tolist"})


def check(context: Context) -> Iterator[Finding]:
    """Find losses that are returned and only printed, and such that are kept and never read."""
    scripts = context.reading.scripts
    for script in scripts:
        parents = {child: one for one in ast.walk(script.tree) for child in ast.iter_child_nodes(one)}
        for statement in script.nodes(ast.Assign):
            found = _dropped(statement, parents, scripts)
            if found is not None:
                yield _finding(context, script, statement, found, "returned beside the output and goes into no loss")
        for name, store in _kept(script, parents):
            if _is_run(context, _scope(store, parents)) and not _is_read(name, scripts):
                yield _finding(context, script, store, name, "kept by the module and never read")


def _finding(context: Context, script: Script, place: ast.AST, name: str, told: str) -> Finding:
    return context.finding(
        RULE,
        (script, place),
        f"{name} is {told}: it is computed and teaches nothing",
        evidence=[Evidence("losses that it goes into", 0)],
        fix=Fix(
            title="add it to the loss",
            instruction=f"add {name}, with its weight, to the loss that backward() is called on",
            expected="what it is meant to keep in bounds is trained, too",
        ),
    )


def _dropped(statement: ast.Assign, parents: dict[ast.AST, ast.AST], scripts: list[Script]) -> str | None:
    """The name of a loss that a call in a training loop returns beside something else, and that is only watched."""
    target = statement.targets[0]
    if not isinstance(target, ast.Tuple) or not isinstance(statement.value, ast.Call):
        return None
    names = [one.id if isinstance(one, ast.Name) else "" for one in target.elts]
    scope = _scope(statement, parents)
    if not _trains(statement, scope, parents):
        return None
    for place, name in enumerate(names):
        if not _NAMED.search(name) or not returned_alone(statement.value, place, len(names), scripts):
            continue
        named = (one for one in ast.walk(scope) if isinstance(one, ast.Name) and one.id == name)
        uses = [one for one in named if _scope(one, parents) is scope]
        reads = [one for one in uses if isinstance(one.ctx, ast.Load)]
        if len(uses) - len(reads) == 1 and all(_is_watched(one, parents, scope) for one in reads):
            return name
    return None


def _scope(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> ast.AST:
    while not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)) and node in parents:
        node = parents[node]
    return node


def _trains(statement: ast.AST, scope: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether a backward pass follows in the same block, and gradients are recorded."""
    block = parents[statement]
    passes = [one for one in ast.walk(block) if isinstance(one, ast.Attribute) and one.attr == "backward"]
    above: ast.AST = statement
    while above is not scope and above in parents:
        above = parents[above]
        words = (
            {getattr(one, "attr", getattr(one, "id", "")) for one in ast.walk(above)}
            if isinstance(above, ast.With)
            else ()
        )
        if {"no_grad", "inference_mode"} & set(words):
            return False
    return bool(passes)


def _is_watched(node: ast.AST, parents: dict[ast.AST, ast.AST], scope: ast.AST) -> bool:
    """Whether a read only shows a value: it is printed or logged, or its number is summed up or kept, but computes nothing else."""
    number = False
    while node in parents and node is not scope:
        above = parents[node]
        if isinstance(above, ast.FormattedValue) or (isinstance(above, ast.Attribute) and above.attr == "shape"):
            return True
        if isinstance(above, ast.Attribute) and above.attr in _NUMBERS:
            number = number or above.attr in ("item", "tolist", "detach")
        elif isinstance(above, ast.Call) and node is not above.func:
            word = getattr(above.func, "attr", getattr(above.func, "id", ""))
            if word in _WATCHED or (number and word == "append"):
                return not names_in(above.func) & _MATHS
            if word not in _NUMBERS:
                return False
            number = True
        elif number and isinstance(above, ast.AugAssign):
            return isinstance(above.op, ast.Add)
        elif not isinstance(above, (ast.Dict, ast.Tuple, ast.keyword)) and not isinstance(above, ast.Call):
            return False
        node = above
    return False


def _kept(script: Script, parents: dict[ast.AST, ast.AST]) -> Iterator[tuple[str, ast.Assign]]:
    """Attributes that are named as losses and written in a forward pass."""
    told = set[str]()
    for statement in script.nodes(ast.Assign):
        scope = _scope(statement, parents)
        if not isinstance(scope, ast.FunctionDef) or scope.name != "forward" or len(statement.targets) > 1:
            continue
        if is_cut(statement.value) or not _is_only_kept(statement, scope):
            continue
        for target in statement.targets:
            if isinstance(target, ast.Attribute) and _NAMED.search(target.attr) and target.attr not in told:
                told.add(target.attr)
                yield target.attr, statement


def _is_only_kept(statement: ast.Assign, scope: ast.FunctionDef) -> bool:
    """Whether the value is not one that the forward pass hands on by another name, too."""
    if not isinstance(statement.value, ast.Name):
        return True
    read = (one for one in ast.walk(scope) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load))
    return sum(one.id == statement.value.id for one in read) == 1


def _is_run(context: Context, forward: ast.AST) -> bool:
    """Whether the script gets to this forward pass with gradients: a module that another script trains is read there."""
    return any(
        not event.context.shadow and not grad_off(event.context) and getattr(run, "node", None) is forward
        for event in context.trace.events
        for run in (inside_forward(event.context),)
    )


def _is_read(name: str, scripts: list[Script]) -> bool:
    """Whether an attribute is read anywhere, or asked for by its name in quotes."""
    read = any(
        one.attr == name and isinstance(one.ctx, ast.Load) for script in scripts for one in script.nodes(ast.Attribute)
    )
    return read or any(one.value == name for script in scripts for one in script.nodes(ast.Constant))
