"""How each optimizer is driven in a training loop: its backwards, clearings, clippings and steps, and what decides that they happen."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context
from preflight.check.queries.backward_graph import explained, reached
from preflight.check.queries.parameters import Holding, holding_of, listed, parts_of, stepped
from preflight.source.evaluate.library.torch import wrapped
from preflight.source.trace import Context as Frame
from preflight.source.trace import Event, provenance
from preflight.source.training import TrainingLoop, guarded_more, loss_of, same_guards
from preflight.source.values import Known, Obj, Unknown, Value, options_of, settle


class Update:
    """One optimizer in one loop.

    Attributes:
        loop: The loop.
        optimizer: The optimizer.
        holding: What it holds.
        steps: Its steps in the loop.
        zeros: What surely clears its gradients.
        unsure: What may clear them.
        alone: Whether no other optimizer steps in the loop.
    """

    def __init__(self, context: Context, loop: TrainingLoop, optimizer: Obj, steps: list[Event], alone: bool) -> None:
        """Sort the events of the loop."""
        self.loop = loop
        self.optimizer = optimizer
        self.steps = steps
        self.alone = alone
        self.holding: Holding = holding_of(context.reading, optimizer)
        self.zeros: list[Event] = []
        self.unsure: list[Event] = []
        self._context = context
        self._reached: dict[int, bool | None] = {}
        for event in loop.zeros:
            clears = self._clears(event)
            if clears is True:
                self.zeros.append(event)
            elif clears is None:
                self.unsure.append(event)

    def _clears(self, event: Event) -> bool | None:
        verdict: bool | None = False
        for option in options_of(event.receiver, limit=6):
            if option is self.optimizer:
                return True
            role = self._context.roles.of(option)
            if role == "optimizer" and isinstance(option, Obj) and option.kind in ("call", "instance"):
                continue
            inner = wrapped(option)
            if (
                isinstance(inner, Obj)
                and role in ("model", "lightning_module", None)
                and inner.kind in ("call", "instance", "copy")
            ):
                mine = self.holding.members
                if id(inner) in mine or mine & parts_of(inner).keys():
                    return True
                verdict = verdict if self.holding.complete else None
            else:
                verdict = None
        return verdict

    def reaches(self, backward: Event) -> bool | None:
        """Whether a backward gives gradients to this optimizer's parameters; None where that is not known."""
        key = id(backward)
        if key not in self._reached:
            loss = loss_of(backward)
            losses = [loss] if loss is not None else []
            found = reached(losses)
            if self.holding.members & found.keys():
                self._reached[key] = True
            elif not self.holding.complete or not explained(losses):
                self._reached[key] = None
            else:
                self._reached[key] = False
        return self._reached[key]

    def backwards(self, sure: bool = False) -> list[Event]:
        """The backwards that give (or, unless ``sure``, may give) gradients to it."""
        if self.alone:
            return [b for b in self.loop.backwards if self.reaches(b) is not False]
        return [b for b in self.loop.backwards if self.reaches(b) or (not sure and self.reaches(b) is None)]

    def clips(self) -> list[Event]:
        """Clippings of its gradients."""
        found = []
        for event in self.loop.clips:
            mine = listed(clipped(event))
            if any(self.holding.covers(p.owner) for p in mine.parts) or (not mine.parts and self.alone):
                found.append(event)
        return found

    def name(self) -> str:
        """The expression by which the script names the optimizer."""
        step = self.steps[0]
        node = step.node
        if isinstance(node, ast.Call):
            if self.optimizer in list(options_of(step.receiver)) and isinstance(node.func, ast.Attribute):
                return step.script.segment(node.func.value)
            if node.args:
                return step.script.segment(node.args[0])
        return "optimizer"


def clipped(event: Event) -> Value | None:
    """The parameters that a clipping event clips."""
    return event.argument(0, "parameters")


def updates(context: Context) -> Iterator[Update]:
    """Each optimizer in each training loop where it steps."""
    cached: list[Update] | None = context.__dict__.get("_updates")
    if cached is None:
        cached = context.__dict__["_updates"] = list(_updates(context))
    yield from cached


def _updates(context: Context) -> Iterator[Update]:
    for loop in context.reading.loops:
        steps: dict[int, tuple[Obj, list[Event]]] = {}
        for event in loop.steps:
            optimizer = stepped(context.reading, event)
            if optimizer is not None:
                steps.setdefault(id(optimizer), (optimizer, []))[1].append(event)
        unknown = [e for e in loop.steps if stepped(context.reading, e) is None]
        for optimizer, events in steps.values():
            yield Update(context, loop, optimizer, events, len(steps) == 1 and not unknown)


def managed(context: Context, optimizer: Obj | None = None) -> bool:
    """Whether a framework decides when steps and clearings take effect (Accelerate, Fabric, DeepSpeed)."""
    made = context.reading.made
    if not (made("accelerator") or made("fabric") or made("engine")):
        return False
    if optimizer is None:
        return True
    for event in context.trace.calls(
        ".prepare", ".prepare_optimizer", ".setup", ".setup_optimizers", "deepspeed.initialize"
    ):
        values = (*event.args, *event.kwargs.values())
        if any(o is optimizer or isinstance(o, Unknown) for v in values for o in options_of(v)) or not values:
            return True
    return bool(made("engine"))


def guards(event: Event, frame: Frame) -> list[tuple[int, bool | None]]:
    """The branches around an event up to a frame, as (statement, side)."""
    return [(id(f.node), f.polarity) for f in guarded_more(event, frame)]


def happens_with(first: Event, second: Event, frame: Frame) -> bool:
    """Whether, in a pass of a frame, the first event happens whenever the second does."""
    if not same_guards(first, second):
        return False
    mine = guards(first, frame)
    return all(g in guards(second, frame) for g in mine) and _inner_loops(first, frame) <= _inner_loops(second, frame)


def _inner_loops(event: Event, frame: Frame) -> set[int]:
    found = set()
    for inner in event.context.frames():
        if inner is frame:
            break
        if inner.kind == "loop" and not inner.unrolled:
            found.add(id(inner))
    return found


class Accumulation:
    """That an optimizer steps only every k-th time.

    Attributes:
        frame: The branch or the loop.
        test: The value of the test, for a branch.
        steps: The number of backwards per step, k.
        index: What is counted.
        divisible: Whether the step comes where the index is a multiple of k (False: everywhere else); None for other tests.
    """

    def __init__(self, frame: Frame, test: Value | None, steps: Value | None, index: Value | None, kind: str) -> None:
        """Keep the parts."""
        self.frame = frame
        self.test = test
        self.steps = steps
        self.index = index
        self.kind = kind
        self.divisible: bool | None = None

    @property
    def count(self) -> int | None:
        """Return k by the defaults, or None where it is not known."""
        base = settle(self.steps) if self.steps is not None else None
        if isinstance(base, Unknown) and isinstance(base.initial, Known):
            base = None
        value = base.value if isinstance(base, Known) else None
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def from_zero(self) -> bool:
        """Whether what is counted is the index of a loop, which is 0 in the first pass."""
        base = settle(self.index) if self.index is not None else None
        return (
            isinstance(base, Unknown)
            and isinstance(base.initial, Known)
            and base.initial.value == 0
            and base.name in ("index", None)
        )


def accumulation(update: Update) -> Accumulation | None:
    """How an optimizer's step is held back while its gradients add up; None where each backward has its step."""
    step = update.steps[0]
    frame = update.loop.frame
    backwards = [b for b in update.backwards() if not b.context.shadow or step.context.shadow]
    if not backwards:
        return None
    for guard in guarded_more(step, frame):
        if guard.kind != "if" or guard.value is None:
            continue
        inside = [b for b in backwards if (id(guard.node), guard.polarity) in guards(b, frame)]
        if len(inside) == len(backwards) or (inside and not update.alone):
            continue
        found = _modulo(guard)
        if found is not None:
            return found
    micro = update.loop.micro
    if micro is not None and not step.context.within(micro) and not _tries_again(micro.node):
        return Accumulation(micro, None, _range(micro.value), None, "loop")
    return None


def _tries_again(loop: ast.AST | None) -> bool:
    """Whether a loop repeats one batch until it succeeds: ``while size: try: ... except RuntimeError: size //= 2``."""
    return isinstance(loop, ast.While) and any(isinstance(part, ast.Try) and part.handlers for part in loop.body)


def _modulo(guard: Frame) -> Accumulation | None:
    """The test with a remainder that a guard is, or that it holds beside others; and what it says."""
    if guard.value is None:
        return None
    found = _remainder(guard.value, guard.polarity is not False, True, 0)
    if found is None:
        return None
    index, steps, divisible = found
    held = Accumulation(guard, guard.value, steps, index, "test")
    held.divisible = divisible
    return held


def _remainder(value: Value, holds: bool, clear: bool, depth: int) -> tuple[Value, Value, bool | None] | None:
    """Index, k, and whether the guarded side is where the index is a multiple of k (None: it cannot be told)."""
    base = settle(value)
    pair = modulo(base)
    if pair is not None:
        return pair[0], pair[1], (not holds) if clear else None
    if not isinstance(base, Obj) or base.kind != "op" or depth > 6:
        return None
    if base.name == "not":
        return _remainder(base.args[0], not holds, clear, depth + 1)
    if base.name in ("and", "or"):
        # "a and b" failing says nothing of a; in the other cases a holds (fails), or is one way to get there.
        for part in base.args:
            found = _remainder(part, holds, clear and (holds or base.name == "or"), depth + 1)
            if found is not None:
                return found
        return None
    if base.name in ("==", "!=") and len(base.args) == 2:
        pair, other = modulo(settle(base.args[0])), settle(base.args[1])
        if pair is not None:
            zero = isinstance(other, Known) and other.value == 0
            return pair[0], pair[1], (holds is (base.name == "==")) if zero and clear else None
    return None


def modulo(value: Value | None) -> tuple[Value, Value] | None:
    """The operands of ``a % b``."""
    if isinstance(value, Obj) and value.kind == "op" and value.name == "%" and len(value.args) == 2:
        return value.args[0], value.args[1]
    node = value.site.node if isinstance(value, Unknown) and value.site is not None else None
    if (
        isinstance(value, Unknown)
        and isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mod)
        and len(value.parents) == 2
    ):
        return value.parents[0], value.parents[1]
    return None


def _range(value: Value | None) -> Value | None:
    for part in provenance(value, 12):
        if isinstance(part, Obj) and part.name == "builtins.range":
            return part.args[-1 if len(part.args) < 2 else 1] if part.args else None
    return None
