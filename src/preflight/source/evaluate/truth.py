"""Whether a value counts as true."""

from __future__ import annotations

from preflight.source.values import Choice, Dict, Ext, Func, Known, Obj, Phi, Seq, Value

_COUNTED = frozenset(
    "torch.nn." + name
    for name in "Sequential ModuleList ModuleDict ParameterList ParameterDict Parameter Buffer".split()
)
"""What of ``torch.nn`` is not true by itself: containers, which are false where they hold nothing, and tensors."""


def truth(value: Value) -> bool | None:
    """Whether a value counts as true; None when that cannot be known."""
    if isinstance(value, Known):
        return bool(value.value)
    if isinstance(value, (Seq, Dict)):
        size = len(value.items if isinstance(value, Seq) else value.entries)
        return True if size else (None if value.open else False)
    if isinstance(value, Choice):
        found = {truth(option) for option in value.options}
        return found.pop() if len(found) == 1 else None
    if isinstance(value, Phi):
        first = truth(value.initial)
        return first if value.final is None and isinstance(value.initial, Obj) else None
    if isinstance(value, Obj):
        # Objects of modules, optimizers, scalers are true; what an unknown call returns may be anything.
        if value.cls is not None and (value.cls.lookup("__bool__") or value.cls.lookup("__len__")):
            return None
        if value.kind == "call" and value.name.startswith("torch.nn.") and value.name not in _COUNTED:
            return True if value.name.rpartition(".")[2][:1].isupper() and value.name.count(".") == 2 else None
        return True if value.kind == "instance" or value.data is not None else None
    if isinstance(value, (Ext, Func)):
        return True
    return None
