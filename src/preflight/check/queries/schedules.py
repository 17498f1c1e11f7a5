"""Learning-rate schedules: how long they are, how often they step, and of which optimizer they are."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from preflight.check.queries.counts import Product, over_data, passes, product_of
from preflight.check.queries.updates import modulo
from preflight.source.trace import Context as Frame
from preflight.source.trace import Event, provenance
from preflight.source.training import TrainingLoop, guarded_more
from preflight.source.values import Known, Obj, Unknown, Value, options_of, plain, settle

if TYPE_CHECKING:
    from preflight.check.context import Context

TORCH = "torch.optim.lr_scheduler."
_HF = ("transformers.get_", "diffusers.optimization.get_", "pytorch_transformers.", "transformers.optimization.get_")
# Of each schedule: the position and name of its length.
_LENGTHS = {
    "CosineAnnealingLR": (1, "T_max"),
    "OneCycleLR": (2, "total_steps"),
    "LinearLR": (3, "total_iters"),
    "PolynomialLR": (1, "total_iters"),
    "get_linear_schedule_with_warmup": (2, "num_training_steps"),
    "get_cosine_schedule_with_warmup": (2, "num_training_steps"),
    "get_cosine_with_hard_restarts_schedule_with_warmup": (2, "num_training_steps"),
    "get_polynomial_decay_schedule_with_warmup": (2, "num_training_steps"),
    "get_scheduler": (3, "num_training_steps"),
    "StepLR": (1, "step_size"),
}


def kind_of(scheduler: Obj) -> str | None:
    """The class or function that made a scheduler: ``OneCycleLR``; None for those whose step is not PyTorch's."""
    if scheduler.cls is None and (scheduler.name.startswith(TORCH) or scheduler.name.startswith(_HF)):
        return scheduler.name.rpartition(".")[2]
    if scheduler.cls is not None and any(n.startswith(TORCH) for n in scheduler.cls.external_bases()):
        return scheduler.cls.qualname if scheduler.cls.lookup("step") is None else None
    return None


def schedulers(context: Context) -> list[Obj]:
    """Schedulers with PyTorch's meaning of ``step``, those of the defaults' path first."""
    found = [o for o in context.reading.made("scheduler") if kind_of(o) is not None]
    return sorted(found, key=lambda o: o.context is not None and o.context.shadow)


def optimizer_of(context: Context, scheduler: Obj) -> Obj | None:
    """The optimizer whose learning rate a scheduler sets."""
    given = scheduler.argument(1 if kind_of(scheduler) == "get_scheduler" else 0, "optimizer")
    for option in options_of(given, limit=4):
        if isinstance(option, Obj) and context.roles.of(option) == "optimizer":
            return option
    return None


def length(context: Context, scheduler: Obj) -> tuple[str, Value, Product] | None:
    """Name, value and product of the number of steps that a schedule is made for."""
    kind = kind_of(scheduler) or ""
    if kind not in _LENGTHS:
        return None
    position, name = _LENGTHS[kind]
    given = scheduler.argument(position, name)
    base = settle(given) if given is not None else None
    if kind == "OneCycleLR" and (base is None or (isinstance(base, Known) and base.value is None)):
        epochs, each = scheduler.argument(3, "epochs"), scheduler.argument(4, "steps_per_epoch")
        first, second = product_of(context, epochs), product_of(context, each)
        if epochs is None or each is None or first is None or second is None:
            return None
        return "epochs x steps_per_epoch", each, first.times(second)
    product = product_of(context, given)
    return (name, given, product) if given is not None and product is not None else None


def steps_of(context: Context, scheduler: Obj) -> list[Event]:
    """Steps of a scheduler on the defaults' path."""
    return [e for e in context.trace.on(scheduler, "step") if not e.context.shadow]


def prepared(context: Context, scheduler: Obj) -> bool:
    """Whether a framework wraps the scheduler, so that one call is not one step of it."""
    for event in context.trace.calls(".prepare", ".prepare_scheduler", ".setup", "deepspeed.initialize"):
        for value in (*event.args, *event.kwargs.values()):
            if any(o is scheduler for part in provenance(value, 12) for o in options_of(part)):
                return True
    return False


class Pace:
    """How often a step of a scheduler happens.

    Attributes:
        event: The step.
        loops: The loops around it, innermost first.
        calls: How often it is called in the whole run, where every loop runs to its end; None where not known.
        per_batch: Whether the innermost loop goes through data, with a loop of epochs around it.
        per_epoch: Whether it is called once in each pass of a loop whose inner loop trains.
        epochs: The number of epochs, where known.
        every: Tests ``i % k == 0`` around it, as the values k.
        sure: Whether no other test decides that it happens, and no loop can end early.
    """

    def __init__(self, context: Context, event: Event, training: TrainingLoop | None) -> None:
        """Read the structure around the step."""
        self.event = event
        self.loops = event.context.loops()
        self.every: list[Value] = []
        self.sure = True
        self.undecided = False
        inner, outer = (self.loops[0], self.loops[1:]) if self.loops else (None, [])
        self.per_batch = (
            inner is not None and over_data(context, inner) and bool(outer) and not over_data(context, outer[0])
        )
        self.per_epoch = (
            training is not None and inner is not None and training.frame is not inner and inner in training.outer
            and over_data(context, training.frame) and not over_data(context, inner)
        )  # fmt: skip
        self.epochs = self._epochs(context, inner, outer)
        self._guards()
        self.calls = self._calls(context)

    def _epochs(self, context: Context, inner: Frame | None, outer: list[Frame]) -> Product | None:
        frame = outer[0] if self.per_batch else inner if self.per_epoch else None
        return passes(context, frame) if frame is not None else None

    def _guards(self) -> None:
        last = self.loops[-1] if self.loops else self.event.context
        for guard in guarded_more(self.event, last):
            pair = _every(guard)
            if pair is not None:
                self.every.append(pair)
            elif guard.taken is not True and not ends_otherwise(guard):
                self.sure = False
                self.undecided = self.undecided or not counts_passes(guard.value)
        self.sure = self.sure and not any(_may_end(frame) for frame in self.loops)

    def _calls(self, context: Context) -> Product | None:
        total = Product()
        for frame in self.loops:
            found = passes(context, frame)
            if found is None:
                return None
            total = total.times(found)
        for value in self.every:
            divisor = product_of(context, value)
            if divisor is None:
                return None
            total = total.times(divisor, -1)
            total.exact = False
        return total if self.loops else None


def _every(guard: Frame) -> Value | None:
    for part in provenance(guard.value, 40):
        pair = modulo(part)
        if pair is not None and guard.polarity is True:
            return pair[1]
    return None


def ends_otherwise(guard: Frame) -> bool:
    """Whether the other side of a test leaves the loop or the function: ``if step >= last: break``."""
    other: list[ast.stmt] = getattr(guard.node, "body" if guard.polarity is False else "orelse", None) or []
    return bool(other) and isinstance(other[-1], (ast.Break, ast.Return, ast.Raise))


def counts_passes(test: Value | None) -> bool:
    """Whether a test depends only on plain numbers and on what a loop counts: ``epoch >= 5``."""
    for part in provenance(test, 60):
        if isinstance(part, Obj) and part.kind != "op" and part.name != "builtins.range":
            return False
        if isinstance(part, Unknown) and not part.reason.startswith("changes "):
            return False
    return test is not None


_COMPARISONS = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def first_pass(test: Value | None) -> bool | None:
    """The worth of a test in the first pass of the loops around it; None where that is not known."""
    base = settle(test) if test is not None else None
    if isinstance(base, Known):
        return bool(base.value)
    if not isinstance(base, Obj) or base.kind != "op":
        return None
    if base.name in ("and", "or") and len(base.args) >= 2:
        sides = [first_pass(a) for a in base.args]
        decisive = base.name == "or"
        return decisive if decisive in sides else (not decisive if None not in sides else None)
    if base.name == "not" and base.args:
        inner = first_pass(base.args[0])
        return None if inner is None else not inner
    if base.name in _COMPARISONS and len(base.args) == 2:
        a, b = _at_first(base.args[0]), _at_first(base.args[1])
        if a is not None and b is not None:
            return bool(_COMPARISONS[base.name](a, b))
    return None


def _at_first(value: Value, depth: int = 0) -> float | None:
    """A number in the first pass: what a loop counts has its first value there."""
    from preflight.check.queries.counts import operands

    base = settle(value)
    if isinstance(base, Unknown) and base.initial is not None:
        base = settle(base.initial)
    if isinstance(base, Known):
        plain_value = base.value
        return plain_value if isinstance(plain_value, (int, float)) else None
    parts = operands(base) if depth < 6 else None
    if parts is None:
        return None
    a, b = _at_first(parts[1], depth + 1), _at_first(parts[2], depth + 1)
    if a is None or b is None:
        return None
    if parts[0] == "+":
        return a + b
    if parts[0] == "-":
        return a - b
    if parts[0] == "%" and b:
        return a % b
    return a * b if parts[0] == "*" else None


def _may_end(frame: Frame) -> bool:
    """Whether a loop has a ``break`` of its own, or returns."""
    stack: list[ast.AST] = list(getattr(frame.node, "body", []))
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.Break, ast.Return)):
            return True
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, (ast.For, ast.While, ast.AsyncFor)):
            stack.extend(n for part in node.body for n in ast.walk(part) if isinstance(n, ast.Return))
            continue
        stack.extend(ast.iter_child_nodes(node))
    return False


def paces(context: Context, scheduler: Obj) -> list[Pace]:
    """The pace of each step of a scheduler."""
    found = []
    for event in steps_of(context, scheduler):
        training = next(
            (t for t in context.reading.loops if event.context.loops() and t.frame.within(event.context.loops()[0])),
            None,
        )
        found.append(Pace(context, event, training or context.reading.loop_of(event)))
    return found


def divided_by(value: Value | None, divisor: Value, depth: int = 0) -> bool:
    """Whether a length is divided by a value somewhere on the way, even where that value is 1."""
    from preflight.check.queries.counts import operands

    base = settle(value) if value is not None else None
    parts = operands(base) if base is not None and depth < 12 else None
    if parts is None:
        return isinstance(base, Unknown) and any(
            divided_by(p, divisor, depth + 1) for p in base.parents[:2] if depth < 12
        )
    if parts[0] in ("/", "//") and settle(parts[2]) is settle(divisor):
        return True
    return any(divided_by(p, divisor, depth + 1) for p in parts[1:])


def steps_plainly(event: Event) -> bool:
    """Whether a step is called without an epoch: ``step()``."""
    return (not event.args and not event.kwargs) or plain(event.args[0] if event.args else None, 0) is None
