"""Training loops: where gradients are computed, and what happens around it, in order."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from preflight.source.trace import Context, Event, name_of, provenance
from preflight.source.values import Func, Obj, Value, options_of, settle

if TYPE_CHECKING:
    from preflight.source.roles import Roles
    from preflight.source.trace import Trace

_CLIPS = (
    "torch.nn.utils.clip_grad_norm_",
    "torch.nn.utils.clip_grad_norm",
    "torch.nn.utils.clip_grad_value_",
    "timm.utils.dispatch_clip_grad",
    ".clip_grad_norm_",
    ".clip_grad_value_",
    ".clip_gradients",
)


class TrainingLoop:
    """One loop that trains.

    Attributes:
        frame: The innermost loop in which both the gradients are computed and the optimizer steps
            (the innermost with a backward, where no step was seen).
        backwards: Events that compute gradients (``loss.backward()``, ``accelerator.backward(loss)`` ...), in order.
        steps: Events that update parameters: of an optimizer, or of a scaler or engine on its behalf.
        zeros: Events that clear gradients.
        clips: Events that clip gradients.
        updates: ``scaler.update()`` events.
        scheduler_steps: Steps of schedulers inside the frame.
        micro: The inner loop over micro-batches, when gradients accumulate in one.
    """

    def __init__(self, frame: Context, trace: Trace, roles: Roles, backwards: list[Event]) -> None:
        """Collect the events inside the frame."""
        self.frame = frame
        self.node: ast.AST | None = frame.node
        self.backwards = backwards
        inside = [e for e in trace.events if e.context.within(frame)]
        self.events = inside
        self.steps = [e for e in inside if (e.name == ".step" and is_parameter_step(e, roles)) or _own_step(e, roles)]
        self.zeros = [e for e in inside if e.name == ".zero_grad"]
        self.clips = [e for e in inside if e.name in _CLIPS and not _within_optimizer(e)]
        self.updates = [e for e in inside if e.name == ".update" and roles.of(e.receiver) == "scaler"]
        self.unscales = [e for e in inside if e.name == ".unscale_"]
        self.scheduler_steps = [
            e for e in inside if e.name in (".step", ".step_update") and roles.of(e.receiver) == "scheduler"
        ]
        inner = backwards[0].context.loops()
        self.micro = inner[0] if inner and inner[0] is not frame else None

    @property
    def outer(self) -> list[Context]:
        """The loops around the frame, innermost first: usually the epochs."""
        return self.frame.loops()[1:]

    def losses(self) -> list[Value]:
        """The values that gradients are computed of."""
        return [loss for loss in map(loss_of, self.backwards) if loss is not None]

    @cached_property
    def behind_losses(self) -> frozenset[int]:
        """Identities of the losses and of everything that they were made from."""
        return frozenset(id(part) for loss in self.losses() for part in provenance(loss))


def loss_of(event: Event) -> Value | None:
    """The loss of a backward event: what is given to an engine's ``backward``, else the receiver without its scaling.

    The schedule of a pipeline computes its losses out of sight.
    """
    receiver = event.receiver
    if event.name == ".step":
        return None
    if event.name == "torch.autograd.backward":
        return event.argument(0, "tensors")
    base = settle(receiver) if receiver is not None else None
    if event.args and not (isinstance(base, Obj) and (base.name in ("+", "-", "*", "/") or base.name == ".scale")):
        kind = name_of(base) or ""
        tensor_like = isinstance(base, Obj) and (base.kind == "op" or base.name in ("()", ".mean", ".sum"))
        if not tensor_like and not kind.startswith("torch.nn.functional"):
            return event.args[0]
    if isinstance(base, Obj) and base.name == ".scale" and base.args:
        return base.args[0]
    return receiver


def is_parameter_step(event: Event, roles: Roles) -> bool:
    """Whether a ``.step`` event updates parameters."""
    role = roles.of(event.receiver)
    if role in ("optimizer", "scaler", "engine"):
        return True
    if role is not None:
        return False
    return any(roles.of(a) == "optimizer" for a in event.args)


def _own_step(event: Event, roles: Roles) -> bool:
    """Whether it is the ``step`` that an optimizer of the script has itself."""
    if not event.inlined or not event.name.endswith(".step") or not event.args:
        return False
    return roles.of(event.args[0]) == "optimizer" and not any(
        f.kind == "call" and getattr(f.value, "qualname", "").endswith(".step") for f in event.context.frames()
    )


def _within_optimizer(event: Event) -> bool:
    """Whether it happens inside of an optimizer of the script: a step that clips what it uses itself."""
    functions = (f.value for f in event.context.frames() if f.kind == "call" and isinstance(f.value, Func))
    return any(
        function.owner is not None and any(base.startswith("torch.optim.") for base in function.owner.external_bases())
        for function in functions
    )


def find_loops(trace: Trace, roles: Roles) -> list[TrainingLoop]:
    """All loops that train, each once, in the order of the trace; those on the defaults' path before others."""
    backwards = [
        e for e in trace.calls(".backward", ".manual_backward", "torch.autograd.backward") if _is_training(e, trace)
    ]
    # A pass of a pipeline's schedule is forward and backward of all micro-batches.
    backwards += [e for e in trace.calls(".step") if roles.of(e.receiver) == "pipeline"]
    steps = [e for e in trace.calls(".step") if is_parameter_step(e, roles)]
    steps += [e for e in trace.events if _own_step(e, roles)]
    groups: dict[int, tuple[Context, list[Event]]] = {}
    for event in backwards:
        frame = _frame_of(event, steps)
        if frame is not None:
            groups.setdefault(id(frame), (frame, []))[1].append(event)
    found: list[TrainingLoop] = []
    seen: set[int] = set()
    for frame, events in sorted(groups.values(), key=lambda g: (g[0].shadow, g[1][0].number)):
        if id(frame.node) in seen:
            continue
        seen.add(id(frame.node))
        found.append(TrainingLoop(frame, trace, roles, events))
    return found


def _is_training(event: Event, trace: Trace) -> bool:
    """Not ``Function.backward`` of a custom autograd function, called by name on a class."""
    return not (isinstance(event.receiver, Obj) and event.receiver.name.startswith("torch.autograd.Function"))


def _frame_of(event: Event, steps: list[Event]) -> Context | None:
    loops = event.context.loops()
    if not loops:
        return None
    for frame in loops:
        if any(step.context.within(frame) for step in steps):
            return frame
    return loops[0]


def same_guards(first: Event, second: Event) -> bool:
    """Whether nothing in the branches around two events rules out that both happen in one pass."""
    mine = {id(f.value): f.polarity for f in first.context.frames() if f.kind == "if" and f.value is not None}
    for frame in second.context.frames():
        if (
            frame.kind == "if"
            and frame.value is not None
            and mine.get(id(frame.value), frame.polarity) is not frame.polarity
        ):
            return False
        if frame.kind == "if" and frame.node is not None:
            for other in first.context.frames():
                if other.kind == "if" and other.polarity is not frame.polarity and _one_test(other, frame):
                    return False
        if frame.kind == "call" and any(_instead(other, frame) for other in first.context.frames()):
            return False
    return True


def _instead(first: Context, second: Context) -> bool:
    """Whether two calls are one call as written, of one of several functions: only one of them is made."""
    same = first.kind == "call" and first.node is second.node and first.parent is second.parent
    return same and first.value is not second.value


def _one_test(first: Context, second: Context) -> bool:
    """Whether two branches ask the same: of one statement, or of two with the same words in one run of a function."""
    if first.node is second.node:
        return True
    if not isinstance(first.node, (ast.If, ast.IfExp)) or not isinstance(second.node, (ast.If, ast.IfExp)):
        return False
    runs = [next((f for f in frame.frames() if f.kind in ("call", "root")), None) for frame in (first, second)]
    return runs[0] is runs[1] and ast.dump(first.node.test) == ast.dump(second.node.test)


def guarded_more(event: Event, frame: Context) -> list[Context]:
    """The branches around an event, up to a frame: the conditions under which it happens in a pass of that frame."""
    found = []
    for inner in event.context.frames():
        if inner is frame:
            break
        if inner.kind in ("if", "except"):
            found.append(inner)
    return found


def same(first: Value | None, second: Value | None) -> bool:
    """Whether two values can be the same thing."""
    mine = {id(o) for o in options_of(first)}
    return any(id(o) in mine for o in options_of(second))
