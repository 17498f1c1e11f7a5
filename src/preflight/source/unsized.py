"""Why the size of a network of a script is not known, in words for people."""

from __future__ import annotations

from preflight.source.values import Known, Obj, Value, plain, settle, why_unknown


class Unsized(Exception):
    """A part of a network whose size is not known, and why."""


_BARE = (
    "Module",
    "BaseModule",
    "ModuleList",
    "PreTrainedModel",
    "PretrainedModel",
    "LightningModule",
    "MessagePassing",
    "Mixin",
)
"""What the names of those classes end in that have no layers of their own, to be extended by others."""
_LANGUAGE = ("builtins", "abc", "typing", "typing_extensions", "enum", "collections", "dataclasses", "torch")


def is_bare(base: str) -> bool:
    """Whether a class that is not in the script brings no layers of its own to those that extend it."""
    return base.partition(".")[0] in _LANGUAGE or base.endswith(_BARE)


_MOVED = (".to", ".cuda", ".cpu", ".train", ".eval", ".float", ".half", ".bfloat16", ".double", ".requires_grad_")


_WRAPPED = ("peft.get_peft_model", "peft.prepare_model_for_kbit_training", "torch.compile", "torch.nn.DataParallel")


def not_followed(obj: Obj, path: str) -> str:
    """Why a module that the library, or nobody that was read, made has no size."""
    made: Value = obj
    while isinstance(made, Obj) and (made.name in _MOVED or (made.name in _WRAPPED and made.args)):
        inner = made.args[0] if made.name in _WRAPPED else made.receiver
        if inner is None:
            break
        made = settle(inner)
    what = path or "the model"
    if not isinstance(made, Obj):
        return f"{what}: {why_unknown(made)}"
    name = made.name
    first = made.args[0] if made.args else next(iter(made.kwargs.values()), None)
    if name.endswith((".from_pretrained", ".create_model")) and first is not None:
        loads, which = name.rpartition(".")[2], settle(first)
        if not isinstance(which, Known):
            return f"{what}: which model {loads} loads is not known: {why_unknown(first)}"
        if isinstance(which.value, str):
            return f"{what} is {which.value}, which the catalog does not hold"
    if name.strip(".()[]?"):
        return f"{what} is made by {name.lstrip('.')}, whose layers are not in the script"
    return f"{what}: {why_unknown(made)}"


def first_unknown(obj: Obj) -> str:
    """The first argument of a layer that is not known, and why."""
    kind = obj.name.rpartition(".")[2]
    for position, value in enumerate(obj.args):
        if plain(value, obj) is obj:
            return f"argument {position + 1} of {kind}: {why_unknown(value)}"
    for name, value in obj.kwargs.items():
        if plain(value, obj) is obj:
            return f"{name} of {kind}: {why_unknown(value)}"
    return f"the arguments of {kind} are not all known"
