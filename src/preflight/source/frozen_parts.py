"""Which parts of a library's network are frozen, by their names: its encoder, or the convolutions that read sound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.adapters import adapter_config
from preflight.source.evaluate.library.torch import wrapped
from preflight.source.frozen import BY_CALL, HANDED_ON, LISTINGS, Change, changes
from preflight.source.values import Obj, Value, settle

if TYPE_CHECKING:
    from preflight.source.reading import Reading
    from preflight.vocabulary.model import ModelSpec

_OTHERS = (
    "peft.get_peft_model",
    "peft.prepare_model_for_kbit_training",
    ".enable_input_require_grads",  # what is frozen keeps its graph all the same
    ".freeze",
    ".unfreeze",
    ".freeze_base_model",
)
_ENCODERS = (("encoder",), ("model", "encoder"))
_STEPS = 12


class FrozenParts:
    """What of a known network is frozen.

    Attributes:
        parameters: How many parameters.
        blocks: How many blocks at its front keep nothing for the backward pass, as nothing before them is trained.
    """

    def __init__(self, parameters: int, blocks: int) -> None:
        """Keep the parts."""
        self.parameters = parameters
        self.blocks = blocks


def frozen_parts(reading: Reading, model: Obj, spec: ModelSpec) -> FrozenParts | None:
    """Follow what a script freezes and thaws of a library's network; None where something else may be frozen."""
    adapted = any(adapter_config(trainer) is not None for trainer in reading.made("trainer"))
    if adapted or reading.trace.calls(*_OTHERS) or any(not name.startswith(("<", "[")) for name in _replaced(model)):
        return None
    steps: list[tuple[int, str, bool]] = []
    for change in changes(reading):
        if change.context.shadow:
            continue
        part = _part(change, model)
        if part is None or change.wanted is None or _may_not_happen(change):
            return None
        steps.append((change.number, part, not change.wanted))
    for event in reading.trace.calls(*BY_CALL):
        if event.context.shadow:
            continue
        if any(frame.kind == "if" and frame.taken is None for frame in event.context.frames()):
            return None
        if event.receiver is None or wrapped(event.receiver) is not model:
            return None
        steps.append((event.number, BY_CALL[event.name], True))
    frozen = {part: off for _, part, off in sorted(steps)}
    counts = {"encoder": (spec.encoder_parameters, spec.layers or 0), "sound": (spec.sound_parameters, 0)}
    found = [counts[part] for part, off in frozen.items() if off]
    if any(count is None for count, _ in found):
        return None
    return FrozenParts(sum(count or 0 for count, _ in found), max(blocks for _, blocks in found)) if found else None


def _replaced(model: Obj) -> list[str]:
    """The parts that a script puts in the place of the library's."""
    held = ((name, settle(value)) for name, value in model.attrs.items())
    return [name for name, value in held if not (isinstance(value, Obj) and value.kind == "attr")]


def _may_not_happen(change: Change) -> bool:
    """Whether a test that nobody can decide stands before a change."""
    return any(frame.kind == "if" and frame.taken is None for frame in change.context.frames())


def _part(change: Change, model: Obj) -> str | None:
    """The part whose parameters are all meant; None where it is another one, or another network's."""
    value, names = settle(change.target), list[str]()
    for _ in range(_STEPS):
        if not isinstance(value, Obj):
            return None
        if wrapped(value) is model:
            return "encoder" if tuple(reversed(names)) in _ENCODERS else None
        inner: Value | None = None
        if value.kind == "attr":
            names.append(value.name)
            inner = value.receiver
        elif value.name == ".get_encoder":
            names.append("encoder")
            inner = value.receiver
        elif (value.kind == "item" and not names) or value.name in LISTINGS:
            inner = value.receiver
        elif value.name in HANDED_ON and len(value.args) == 1:
            inner = value.args[0]
        if inner is None:
            return None
        value = settle(inner)
    return None
