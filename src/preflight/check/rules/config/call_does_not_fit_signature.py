"""Call does not fit the function's signature.

## What it does
Compares calls of functions, methods and constructors of the project with their definitions: missing arguments, unknown keywords, too many positions, an argument given twice.

## Why
Python raises TypeError when the call is reached; in an evaluation or a checkpoint function that is after hours of training.

## Fix
Give the arguments that the definition asks for.

## When to ignore
When a decorator or a subclass that cannot be seen changes the signature.

## References
- Python language reference, "Calls"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.trace import Event, provenance
from preflight.source.values import Func, Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="call-does-not-fit-signature",
    code="CFG013",
    severity="error",
    confidence="certain",
    layer="S",
    tags=("configuration",),
)

BAD = (
    """
def train(model, loader, epochs):
    for epoch in range(epochs):
        pass
train(model, loader)
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, 2)
    def forward(self, x, mask):
        return self.fc(x) * mask
net = Net(8)
print(net(torch.zeros(1, 8)))
""",
    """
import argparse
from dataclasses import dataclass
class Trainer:
    def __init__(self, lr, epochs=3):
        self.lr = lr
    def fit(self, data, *, verbose=False):
        return data
p = argparse.ArgumentParser()
p.add_argument("--lr", type=float, default=0.1)
args = p.parse_args()
trainer = Trainer(args.lr)
trainer.fit(data, verbos=True)
""",
    """
def save(path, state):
    print(path, state)
def main():
    save("a", {}, 3)
main()
""",
    """
from dataclasses import dataclass
class Callback:
    def __init__(self):
        pass
@dataclass(init=False)
class Stopping(Callback):
    metric: str = "loss"
Stopping(metric="accuracy")
""",
)

GOOD = (
    """
import torch
class Plain:
    def __init__(self, *args):
        self.args = args
    def prepare(self):
        return self
    @classmethod
    def make(cls, path):
        rows = torch.load(path, weights_only=True)
        cls.verify(rows, strict=True)
        return cls(rows).prepare(1)
    @classmethod
    def verify(cls, rows):
        pass
class Sized(Plain):
    def prepare(self, size):
        return self
    @classmethod
    def verify(cls, rows, strict):
        assert len(rows) or not strict
KINDS = {"sized": Sized}
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, width, device="cpu"):
        super().__init__()
        self.fc = nn.Linear(width, 2, device=device)
    def forward(self, x, cache=None):
        return self.fc(x)
    @classmethod
    def load(cls, path, device="cpu"):
        saved = torch.load(path, map_location=device, weights_only=True)
        net = cls(width=saved["width"], device=device)
        net.load_state_dict(saved["net"])
        return net
""",
    """
import torch
class Trainer:
    def __init__(self, model, optimizer, batches):
        self.model, self.optimizer, self.batches = model, optimizer, batches
    def loss_of(self):
        raise NotImplementedError
    def train(self):
        for batch in self.batches:
            self.optimizer.zero_grad()
            self.loss_of(batch).backward()
            self.optimizer.step()
class Classifier(Trainer):
    def loss_of(self, batch):
        return torch.nn.functional.cross_entropy(self.model(batch[0]), batch[1])
""",
    """
import functools
def train(model, loader, epochs=3, *rest, **more):
    return model
train(model, loader, 1, 2, 3, extra=4)
options = read()
def fit(a, b):
    return a
fit(*options)
fit(**options)
step = functools.partial(fit, 1)
step(2)
class A:
    @staticmethod
    def make(x):
        return x
    @classmethod
    def build(cls, x):
        return cls.make(x)
    @property
    def size(self):
        return 1
A.build(1)
A().make(2)
A().size
""",
    """
import hydra, click
@hydra.main(config_path=".")
def main(cfg):
    return cfg
main()
@click.command()
@click.option("--lr")
def run(lr):
    return lr
run()
def wrap(f):
    def inner(x):
        return f(x, 1)
    return inner
@wrap
def two(x, y):
    return x
two(1)
list(map(lambda a: a, [1]))
""",
    """
from dataclasses import dataclass
class Callback:
    def __init__(self):
        pass
@dataclass
class Stopping(Callback):
    metric: str
    patience: int = 5
    def __post_init__(self):
        super().__init__()
@dataclass(init=False)
class History(Callback):
    trainer: object = None
Stopping("loss")
Stopping(metric="loss", patience=3)
History()
""",
)

# Decorators that leave the signature as it is.
_SAME = (
    "torch.no_grad",
    "torch.inference_mode",
    "torch.enable_grad",
    "torch.compile",
    "torch.jit.ignore",
    "torch.jit.export",
    "torch.jit.script",
    "functools.lru_cache",
    "functools.cache",
    "torch.compiler.disable",
    "builtins.staticmethod",
    "builtins.classmethod",
    "contextlib.contextmanager",
    "abc.abstractmethod",
    "typing.no_type_check",
    "torch._dynamo.disable",
)


def check(context: Context) -> Iterator[Finding]:
    """Find calls that raise TypeError."""
    callees: dict[int, set[int]] = {}
    objects: dict[int, set[int]] = {}
    for event in context.trace.events:
        if event.name == "()":
            objects.setdefault(id(event.node), set()).add(id(event.receiver))
        else:
            callees.setdefault(id(event.node), set()).add(id(getattr(event.func, "node", event.func)))
    for event in context.trace.events:
        func = event.func
        if not event.inlined or not isinstance(func, Func) or isinstance(func.node, ast.Lambda):
            continue
        if not _written(event, func, func.node.name) or _depends(event) or _stands_for_another(event, func):
            continue
        if (
            len(callees[id(event.node)]) > (2 if func.node.name == "__init__" else 1)
            or len(objects.get(id(event.node), ())) > 1
        ):
            continue  # one of several things is called, and which one may go with the arguments
        if any(getattr(d, "name", None) not in _SAME for d in func.decorators):
            continue
        problem = _problem(event, func)
        if problem is None or _extended(context, event, func):
            continue
        yield context.finding(
            RULE,
            event,
            f"{func.qualname}() {problem}: this raises TypeError",
            evidence=[
                Evidence("signature", f"{func.qualname.rpartition('.')[2]}({ast.unparse(func.node.args)[:120]})")
            ],
            fix=Fix(
                title=f"call {func.qualname}() as it is defined",
                instruction="give the arguments of the signature, by their names",
                expected="the call succeeds",
            ),
            related=[((func.module.script, func.node), "the definition")],
            severity="warning" if _unreached(event) else None,
        )


def _unreached(event: Event) -> bool:
    """Whether the call stands in a function that nothing of the script calls: a run does not come by."""
    first = list(event.context.frames())[-1:]
    return any(f.kind == "root" and isinstance(f.value, Func) and f.value.owner is None for f in first)


def _extended(context: Context, event: Event, func: Func) -> bool:
    """Whether a method that nothing calls goes on to one that another class has in its own way: who runs it is not known."""
    root = next((f for f in list(event.context.frames())[-1:] if f.kind == "root"), None)
    if func.owner is None or root is None or not isinstance(root.value, Func) or root.value.owner is None:
        return False
    return any(
        any(ast.unparse(base).rpartition(".")[2] == func.owner.node.name for base in one.bases)
        and any(
            isinstance(part, ast.FunctionDef) and part.name == getattr(func.node, "name", None) for part in one.body
        )
        for script in context.reading.scripts
        for one in script.nodes(ast.ClassDef)
    )


def _stands_for_another(event: Event, func: Func) -> bool:
    """Whether a method without a body is called on its own class: what runs is the method of a class that extends it."""
    given = settle(event.args[0]) if event.args else None
    if func.owner is None or not isinstance(given, Obj) or given.cls is not func.owner:
        return False
    if isinstance(func.node, ast.Lambda):
        return False
    body = [s for s in func.node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    abstract = any("abstract" in ast.unparse(d) for d in func.node.decorator_list)
    return abstract or (bool(body) and all(isinstance(s, (ast.Raise, ast.Pass)) for s in body))


def _depends(event: Event) -> bool:
    """Whether the call may only be reached where it fits: on a path that the defaults do not take, or after a test of the callee."""
    if event.context.shadow:
        return True
    for frame in event.context.frames():
        if frame.kind in ("try", "except"):
            return True
        if frame.kind == "if" and any(
            isinstance(p, Obj)
            and p.name in ("builtins.hasattr", "builtins.isinstance", "inspect.signature", "builtins.callable")
            for p in provenance(frame.value, 40)
        ):
            return True
    return False


def _written(event: Event, func: Func, defined: str) -> bool:
    """Whether the call that is written is a call of this function, not one that a library makes on its behalf."""
    node = event.node
    if not isinstance(node, ast.Call) or any(isinstance(a, ast.Starred) for a in node.args):
        return False
    if any(k.arg is None for k in node.keywords):
        return False
    name = (
        node.func.id
        if isinstance(node.func, ast.Name)
        else node.func.attr
        if isinstance(node.func, ast.Attribute)
        else ""
    )
    bound = len(event.args) - len(node.args)
    if len(event.kwargs) != len(node.keywords) or bound not in (0, 1):
        return False
    if defined == "__init__":
        # Of an instance whose class is named in the call; super().__init__ names the method itself.
        maker = func.owner.node.name if func.owner is not None else ""
        return name in (maker, "__init__") or _subclass(event, name)
    called = isinstance(node.func, (ast.Name, ast.Attribute))
    return name == defined or (defined in ("forward", "__call__") and bound == 1 and called)


def _subclass(event: Event, name: str) -> bool:
    made = event.args[0] if event.args else None
    return isinstance(made, Obj) and made.cls is not None and made.cls.node.name == name


def _problem(event: Event, func: Func) -> str | None:
    spec = func.node.args
    positional = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    only = {a.arg for a in spec.posonlyargs}
    names = {*positional, *(a.arg for a in spec.kwonlyargs)} - only
    given, keywords = len(event.args), set(event.kwargs)
    if given > len(positional) and spec.vararg is None:
        return f"takes {len(positional)} positional arguments and gets {given}"
    unknown = sorted(keywords - names)
    if unknown and spec.kwarg is None:
        return f"has no argument {unknown[0]!r}"
    twice = [n for n in positional[:given] if n in keywords and n not in only]
    if twice:
        return f"gets {twice[0]!r} twice"
    required = positional[given : len(positional) - len(spec.defaults)]
    required += [a.arg for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is None]
    missing = [n for n in required if n not in keywords]
    return f"misses {', '.join(repr(n) for n in missing)}" if missing else None
