"""States of models and optimizers: what is saved, what is remembered, what is loaded, and from where."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from preflight.check.queries.updates import modulo
from preflight.source.trace import Context as Frame
from preflight.source.trace import Event, provenance
from preflight.source.values import Choice, Dict, Known, Obj, Phi, Seq, Unknown, Value, options_of, settle

if TYPE_CHECKING:
    from preflight.check.context import Context

_SHALLOW = frozenset({".copy", "builtins.dict", "collections.OrderedDict"})
SAVES = (
    "torch.save",
    "safetensors.torch.save_file",
    "accelerate.Accelerator.save",
    "torch.distributed.checkpoint.save",
)
LOADS = ("torch.load", "safetensors.torch.load_file")


def remembered_states(context: Context) -> Iterator[tuple[Obj, Event, bool]]:
    """States of a trained model that a branch of a training loop remembers and that are used after the loop.

    Yields:
        The state, where it is used, and whether a shallow copy was made of it.
    """
    told: set[int] = set()
    for event in context.trace.calls(".state_dict"):
        state = event.result
        if not isinstance(state, Obj) or context.roles.of(event.receiver) not in ("model", "lightning_module"):
            continue
        loop = _training_loop_around(context, event)
        if loop is None or id(event.node) in told:
            continue
        for use in context.trace.calls(".load_state_dict", "torch.save"):
            if use.number < event.number or use.context.within(loop) or not use.args:
                continue
            found = _holds(context, use.args[0], state)
            if found is not None:
                told.add(id(event.node))
                yield state, use, found
                break


def _training_loop_around(context: Context, event: Event) -> Frame | None:
    """The loop that trains and in which a branch holds the event."""
    branches = False
    for frame in event.context.frames():
        if frame.kind == "if" and frame.taken is None and not _by_count(frame.value):
            branches = True
        if frame.kind == "loop" and not frame.unrolled and branches:
            for loop in context.reading.loops:
                if loop.steps and (loop.frame.within(frame)):
                    return frame
    return None


def _by_count(test: Value | None) -> bool:
    """Whether a test asks after every how many passes it is time, and nothing of how good the model is."""
    leaves: list[Value | None] = [test]
    counted = False
    for leaf in leaves:  # grows while it is gone through
        base = settle(leaf) if leaf is not None else None
        pair = modulo(base)
        counted = counted or pair is not None
        if pair is not None:
            leaves += pair
        elif isinstance(base, Obj) and base.kind == "op":
            leaves += base.args
        elif isinstance(base, Choice):
            leaves += base.options
        elif not isinstance(base, Known) and not _is_index(base):
            return False
    return counted


def _is_index(value: Value | None) -> bool:
    """Whether a value counts the passes of a loop."""
    return isinstance(value, Unknown) and value.name in ("index", None) and isinstance(value.initial, Known)


def _holds(context: Context, value: Value, state: Obj) -> bool | None:
    """Whether a value is or contains a state (True: through a shallow copy); None when it does not."""
    stack: list[tuple[Value, bool]] = [(value, False)]
    seen: set[int] = set()
    while stack and len(seen) < 300:
        current, shallow = stack.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if current is state:
            return shallow
        if isinstance(current, Choice):
            stack.extend((o, shallow) for o in current.options)
        elif isinstance(current, Phi):
            stack.extend((o, shallow) for o in options_of(current))
        elif isinstance(current, Dict):
            stack.extend((o, shallow) for o in current.entries.values())
        elif isinstance(current, Seq):
            stack.extend((o, shallow) for o in current.items[:50])
        elif isinstance(current, Obj):
            made = context.reading.event_of(current)
            if current.kind == "copy" and made is not None and made.name == "copy.copy" and made.args:
                stack.append((made.args[0], True))
            elif current.kind == "item" and current.receiver is not None:
                stack.append((current.receiver, shallow))
            elif current.name in _SHALLOW and current.kind == "call":
                inner = current.receiver or (current.args[0] if current.args else None)
                if inner is not None:
                    stack.append((inner, True))
    return None


class Resume:
    """How a script goes on from a checkpoint.

    Attributes:
        loads: Calls that read a checkpoint.
        start: The loop whose range begins with a number from a checkpoint, or None.
        first: That number.
        saves: Dictionaries that are saved with the state of a model in them, with the call.
    """

    def __init__(self, context: Context) -> None:
        """Find the parts."""
        self.loads = [e for e in context.trace.calls(*LOADS) if isinstance(e.result, Obj)]
        loaded = {id(e.result) for e in self.loads}
        self.start: Frame | None = None
        self.first: Value | None = None
        for loop in context.reading.loops:
            for frame in [loop.frame, *loop.outer]:
                first = _begin(frame.value)
                if first is not None and any(id(p) in loaded for p in provenance(first, 60)):
                    self.start, self.first = frame, first
                    break
        self.saves: list[tuple[Event, Dict]] = []
        for event in context.trace.calls(*SAVES):
            table = _dictionary(event.args[0]) if event.args else None
            if table is not None and any(state_of(context, v) == "model" for v in table.entries.values()):
                self.saves.append((event, table))


def _dictionary(value: Value) -> Dict | None:
    return next((o for o in options_of(value) if isinstance(o, Dict)), None)


def _begin(value: Value | None) -> Value | None:
    """The first number of a range that is iterated."""
    for part in provenance(value, 12):
        if isinstance(part, Obj) and part.name == "builtins.range" and len(part.args) > 1:
            return part.args[0]
    return None


def state_of(context: Context, value: Value) -> str | None:
    """The role of the thing whose ``state_dict()`` a value is."""
    for option in options_of(value, limit=4):
        if isinstance(option, Obj) and option.name == ".state_dict" and option.receiver is not None:
            return context.roles.of(option.receiver) or "?"
    return None


def restored(context: Context, role: str) -> bool | None:
    """Whether a thing of a role gets its state back; None where something that is not known gets one."""
    unsure = False
    for event in context.trace.calls(".load_state_dict"):
        for option in options_of(event.receiver, limit=6):
            found = context.roles.of(option)
            if found is None and isinstance(option, Obj) and option.kind == "item":
                found = context.roles.of(option.receiver)  # scheduler, epochs = create_scheduler(...)
            if found == role:
                return True
            unsure = unsure or found is None
    if context.trace.calls(".load_state", ".load_checkpoint", "torch.distributed.checkpoint.load"):
        return None
    return None if unsure else False


def resume(context: Context) -> Resume:
    """How the script resumes, found once."""
    cached: Resume | None = context.__dict__.get("_resume")
    if cached is None:
        cached = context.__dict__["_resume"] = Resume(context)
    return cached


def key_of(table: Dict, role: str, context: Context) -> str | None:
    """The entry of a saved dictionary that holds the state of a role."""
    return next((str(k) for k, v in table.entries.items() if state_of(context, v) == role), None)


def text_of(value: Value | None) -> str | None:
    """The text of a value, where it is known."""
    base = settle(value) if value is not None else None
    return base.value if isinstance(base, Known) and isinstance(base.value, str) else None
