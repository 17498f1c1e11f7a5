"""The method that brings an average of weights on is never called.

## What it does
Looks for a class that is made use of and has a method which moves weights a share of the way to others, as an exponential average or a target network is moved, where nothing in the script calls that method, and nothing else brings the average on.

## Why
The average keeps the weights of the start.
What is evaluated, saved or taken for the targets is then an untrained network, while the loss of the trained one falls as it should.

## Fix
Call the method after each `optimizer.step()`.

## When to ignore
When the method is called by a library that is handed the object.

## References
- Polyak and Juditsky, "Acceleration of stochastic approximation by averaging", 1992
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.names_in_text import words_in
from preflight.check.rule import Rule
from preflight.source.script import Script
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="average-never-brought-on",
    code="EMA004",
    severity="error",
    confidence="likely",
    needs=("training_loop", "complete"),
    layer="S",
    tags=("average",),
)

_TRAIN = """
import copy, torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(x, y):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
BAD = (
    f"""{_TRAIN}
class Average:
    def __init__(self, model, decay=0.99):
        self.decay, self.module = decay, copy.deepcopy(model)
    @torch.no_grad()
    def update(self, model):
        for a, p in zip(self.module.parameters(), model.parameters()):
            a.mul_(self.decay).add_(p, alpha=1 - self.decay)
average = Average(model)
for x, y in loader:
    train(x, y)
print(average.module(rows))
""",
    f"""{_TRAIN}
class Shadow(object):
    def __init__(self, network):
        self.network = network
        self.values = {{n: p.detach().clone() for n, p in network.named_parameters()}}
    def follow(self, decay: float):
        for n, p in self.network.named_parameters():
            self.values[n] = decay * self.values[n] + (1.0 - decay) * p.data
    def apply(self):
        for n, p in self.network.named_parameters():
            p.data.copy_(self.values[n])
shadow = Shadow(model)
for x, y in loader:
    train(x, y)
shadow.apply()
""",
    f"""{_TRAIN}
class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.online, self.target = nn.Linear(10, 2), nn.Linear(10, 2)
        self.target.load_state_dict(self.online.state_dict())
    def move(self, tau=0.01):
        with torch.no_grad():
            for t, o in zip(self.target.parameters(), self.online.parameters()):
                t.lerp_(o, tau)
    def forward(self, x):
        return self.online(x), self.target(x).detach()
both = Both()
second = torch.optim.Adam(both.online.parameters())
for x, y in loader:
    p, t = both(x)
    second.zero_grad()
    nn.functional.mse_loss(p, t).backward()
    second.step()
""",
)
GOOD = (
    f"""{_TRAIN}
class Agent:
    def __init__(self, model):
        self.model, self.target = model, copy.deepcopy(model)
    def soft_update(self, tau=0.01):
        for t, o in zip(self.target.parameters(), self.model.parameters()):
            t.data.copy_(tau * o.data + (1 - tau) * t.data)
    def hard_update(self):
        for t, o in zip(self.target.parameters(), self.model.parameters()):
            t.data.copy_(o.data)
agent = Agent(model)
for step, (x, y) in enumerate(loader):
    train(x, y)
    if step % 100 == 0:
        agent.hard_update()
""",
    f"""{_TRAIN}
class Agent:
    def __init__(self, model):
        self.model, self.target = model, copy.deepcopy(model)
    def soft_update(self, tau=0.01):
        for t, o in zip(self.target.parameters(), self.model.parameters()):
            t.data.lerp_(o.data, tau)
    def sync(self):
        weights = self.model.state_dict()
        self.target.load_state_dict(weights)
agent = Agent(model)
for step, (x, y) in enumerate(loader):
    train(x, y)
    agent.sync()
""",
    f"""{_TRAIN}
class Average:
    def __init__(self, model, decay=0.99):
        self.decay, self.module = decay, copy.deepcopy(model)
    def update(self, model):
        for a, p in zip(self.module.parameters(), model.parameters()):
            a.data.mul_(self.decay).add_(p.data, alpha=1 - self.decay)
average = Average(model)
for x, y in loader:
    train(x, y)
    average.update(model)
""",
    f"""{_TRAIN}
class Agent:
    def __init__(self, model):
        self.model, self.target = model, copy.deepcopy(model)
    def soft_update(self, tau=0.01):
        for t, o in zip(self.target.parameters(), self.model.parameters()):
            t.data.lerp_(o.data, tau)
    def hard_update(self):
        self.target.load_state_dict(self.model.state_dict())
agent = Agent(model)
for step, (x, y) in enumerate(loader):
    train(x, y)
    if step % 100 == 0:
        agent.hard_update()
""",
    f"""{_TRAIN}
class Average:
    def __init__(self, model):
        self.module = copy.deepcopy(model)
    def update(self, model, decay=0.99):
        for a, p in zip(self.module.parameters(), model.parameters()):
            a.data.lerp_(p.data, 1 - decay)
for x, y in loader:
    train(x, y)
""",
    f"""{_TRAIN}
class Average(Callback):
    def __init__(self, model):
        self.module = copy.deepcopy(model)
    def on_step(self, model, decay=0.99):
        for a, p in zip(self.module.parameters(), model.parameters()):
            a.data.lerp_(p.data, 1 - decay)
average = Average(model)
for x, y in loader:
    train(x, y)
    call_all([average])
""",
    f"""{_TRAIN}
class Agent:
    def __init__(self, model):
        self.model, self.target = model, copy.deepcopy(model)
    def soft_update(self, tau=0.01):
        for t, o in zip(self.target.parameters(), self.model.parameters()):
            t.data.lerp_(o.data, tau)
    def hard_update(self):
        for t, o in zip(self.target.parameters(), self.model.parameters()):
            t.data.copy_(o.data)
agent = Agent(model)
for x, y in loader:
    train(x, y)
    agent.hard_update()
""",
    f"""{_TRAIN}
class Agent:
    def __init__(self, model):
        self.model, self.target = model, copy.deepcopy(model)
    def soft_update(self, tau=0.01):
        for t, o in zip(self.target.parameters(), self.model.parameters()):
            t.data.lerp_(o.data, tau)
agent = Agent(model)
for x, y in loader:
    train(x, y)
    with torch.no_grad():
        for t, o in zip(agent.target.parameters(), model.parameters()):
            t.mul_(0.99).add_(o, alpha=0.01)
""",
    f"""{_TRAIN}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(10, 2)
    def forward(self, x):
        return self.layer(x)
    def blend(self, other, alpha):
        for p, q in zip(self.parameters(), other.parameters()):
            p.data = (1 - alpha) * p.data + alpha * q.data
net = Net()
for x, y in loader:
    train(x, y)
""",
)
_OWN = frozenset({"object", "Module"})
_WRITES = frozenset({"lerp_", "lerp", "mul_", "add_", "sub_", "copy_", "data"})
_WEIGHTS = frozenset({"parameters", "named_parameters", "state_dict", "buffers", "_foreach_lerp_"})
_MOVES = frozenset({"lerp_", "copy_", "mul_", "add_", "_foreach_lerp_", "_foreach_copy_", "vector_to_parameters"})
_COPIES = frozenset({"deepcopy", "clone", "load_state_dict", "copy_", "detach", "state_dict"})
_BACK = re.compile(r"apply|restore|store|swap|assign|copy_to|load|save|reset|init")
"""What a method is called that gives the average to a network, or sets it up."""
_PLAIN = frozenset({"no_grad", "inference_mode", "staticmethod"})
Function = ast.FunctionDef | ast.AsyncFunctionDef


def check(context: Context) -> Iterator[Finding]:
    """Find classes whose averages nothing moves."""
    scripts = context.reading.scripts
    spoken = _spoken(scripts)
    called = (call.func for script in scripts for call in script.nodes(ast.Call))
    made = {getattr(function, "attr", getattr(function, "id", "")) for function in called}
    for script in scripts:
        if any(_copies_whole(call) for call in _outside_of_making(script)) or any(
            _copies_each(one) for one in script.nodes(ast.FunctionDef)
        ):
            return  # something else brings copies on
        for kind in script.nodes(ast.ClassDef):
            methods = [one for one in kind.body if isinstance(one, Function) and not one.name.startswith("__")]
            moving = [one for one in methods if _averages(one)]
            if (
                not moving
                or kind.name not in made
                or not _keeps_a_copy(kind)
                or any(_moves_too(other, kind, moving) for other in scripts)
                or not _is_plain(kind, moving)
                or any(m.name in spoken for m in moving)
            ):
                continue
            yield _finding(context, script, kind, moving[0])


def _finding(context: Context, script: Script, kind: ast.ClassDef, method: Function) -> Finding:
    return context.finding(
        RULE,
        (script, method),
        f"nothing calls {kind.name}.{method.name}(): the average that it brings on keeps the weights of the start",
        evidence=[Evidence(f"calls of {method.name}", 0)],
        related=[((script, kind), "the class")],
        fix=Fix(
            title="bring the average on",
            instruction=f"call {method.name}() after each step of the optimizer",
            expected="the average follows the trained weights",
        ),
    )


def _spoken(scripts: list[Script]) -> set[str]:
    """All names that a script says, but for those of what it defines: attributes that are read, names, words in quotes."""
    found: set[str] = set()
    for script in scripts:
        found |= {one.attr for one in script.nodes(ast.Attribute)} | {one.id for one in script.nodes(ast.Name)}
        found |= {one.value for one in script.nodes(ast.Constant) if isinstance(one.value, str)}
    return found


def _copies_each(function: Function) -> bool:
    """Whether a function gives one network the weights of another: one by one, or as a state that it holds for a moment."""
    words = words_in(function)
    if function.name == "__init__" or words & {"load", "save"} or _averages(function):
        return False
    paired = "zip" in words and bool(words & _WEIGHTS) and bool(words & {"copy_", "data"})
    return paired or {"load_state_dict", "state_dict"} <= words


def _averages(method: Function) -> bool:
    """Whether a method moves weights a share of the way: it goes through them, writes them, and takes shares."""
    words = words_in(method)
    if not words & _WEIGHTS or not words & _WRITES:
        return False
    return bool(words & {"lerp", "lerp_"}) or any(
        isinstance(one, ast.BinOp)
        and isinstance(one.op, ast.Sub)
        and isinstance(one.left, ast.Constant)
        and one.left.value == 1
        for one in ast.walk(method)
    )


def _keeps_a_copy(kind: ast.ClassDef) -> bool:
    """Whether an object of a class holds weights beside those that are trained from where it is made."""
    making = [one for one in kind.body if isinstance(one, Function) and one.name == "__init__"]
    return any(words_in(one) & _COPIES for one in making)


def _moves_too(script: Script, kind: ast.ClassDef, moving: list[Function]) -> bool:
    """Whether weights are gone through and written elsewhere, so that the copies may be brought on there."""
    own = {id(one) for one in kind.body if isinstance(one, Function) and (one in moving or _BACK.search(one.name))}
    functions = list(script.nodes(ast.FunctionDef))
    inside = {id(part) for one in functions for part in ast.walk(one) if part is not one}
    apart = [one for one in functions if id(one) not in own]
    loops = [one for one in script.nodes(ast.For) if id(one) not in inside]
    return any(words_in(one) & _WEIGHTS and words_in(one) & _MOVES for one in (*apart, *loops))


def _is_plain(kind: ast.ClassDef, methods: list[Function]) -> bool:
    """Whether a class is called by this script alone."""
    bases = [getattr(base, "attr", getattr(base, "id", "")) for base in kind.bases]
    marks = [mark.func if isinstance(mark, ast.Call) else mark for one in methods for mark in one.decorator_list]
    plain = all(getattr(mark, "attr", getattr(mark, "id", "")) in _PLAIN for mark in marks)
    return plain and not kind.keywords and not kind.decorator_list and all(base in _OWN for base in bases)


def _outside_of_making(script: Script) -> Iterator[ast.Call]:
    """The calls of a script that do not stand where an object is made."""
    making = {id(part) for one in script.nodes(ast.FunctionDef) if one.name == "__init__" for part in ast.walk(one)}
    yield from (call for call in script.nodes(ast.Call) if id(call) not in making)


def _copies_whole(call: ast.Call) -> bool:
    """Whether a call gives one network all weights of another: ``a.load_state_dict(b.state_dict())``."""
    given = call.args[0] if call.args else None
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "load_state_dict"
        and isinstance(given, ast.Call)
        and isinstance(given.func, ast.Attribute)
        and given.func.attr == "state_dict"
    )
