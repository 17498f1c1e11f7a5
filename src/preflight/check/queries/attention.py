"""Attention: which argument is the mask, what its truth means there, and how a triangular mask was made."""

from __future__ import annotations

from preflight.check.queries.tensors import VIEWS, operand, operation, option, second
from preflight.source.trace import Event
from preflight.source.values import Known, Obj, Value, plain, settle

SDPA = "torch.nn.functional.scaled_dot_product_attention"
ATTENTION = (SDPA,)
# Where a module takes its attention mask: keyword and position.
_MASKS = {
    "torch.nn.MultiheadAttention": (("attn_mask", 5),),
    "torch.nn.TransformerEncoderLayer": (("src_mask", 1),),
    "torch.nn.TransformerEncoder": (("mask", 1),),
    "torch.nn.TransformerDecoderLayer": (("tgt_mask", 2),),
    "torch.nn.TransformerDecoder": (("tgt_mask", 2),),
    "torch.nn.Transformer": (("src_mask", 2), ("tgt_mask", 3)),
}
_SHAPE_ONLY = VIEWS | {"[]", "requires_grad_", "detach"}
_BOOLEAN = frozenset({"bool", "==", "!=", "<", ">", "<=", ">=", "eq", "ne", "logical_not", "~", "lt", "gt"})


def module_name(event: Event) -> str | None:
    """The library module that an event calls, or None."""
    module = settle(event.receiver) if event.receiver is not None else None
    return module.name if isinstance(module, Obj) and module.cls is None else None


def mask_of(event: Event) -> list[Value]:
    """The attention masks that are given to an attention call."""
    if event.name == SDPA:
        places: tuple[tuple[str, int], ...] = (("attn_mask", 3),)
    else:
        places = _MASKS.get(module_name(event) or "", ())
    return [m for m in (event.argument(position, keyword) for keyword, position in places) if m is not None]


class Triangle:
    """A triangular mask of ones.

    Attributes:
        factory: The call that made the ones.
        lower: Whether the ones are below the diagonal.
        diagonal: Number of the diagonal up to or from which the ones go.
        boolean: Whether it was turned into truth values.
        inverted: Whether truth and falsehood were exchanged on the way.
    """

    def __init__(self, factory: Obj, lower: bool, diagonal: int, boolean: bool, inverted: bool) -> None:
        """Keep what was found."""
        self.factory = factory
        self.lower = lower
        self.diagonal = diagonal
        self.boolean = boolean
        self.inverted = inverted

    @property
    def true_on_diagonal(self) -> bool:
        """Whether the diagonal itself is true."""
        inside = self.diagonal >= 0 if self.lower else self.diagonal <= 0
        return inside is not self.inverted

    @property
    def true_above(self) -> bool:
        """Whether positions above the diagonal, the future, are true."""
        return self.lower is self.inverted


def mask_shape(value: Value | None) -> Triangle | None:
    """The triangle of ones behind a mask; None when anything else was done with it."""
    boolean = inverted = False
    for _ in range(24):
        value = settle(value) if value is not None else None
        if not isinstance(value, Obj):
            return None
        name = operation(value) or ""
        if name in _BOOLEAN:
            change = _inverts(value, name)
            if change is None:
                return None
            inverted, boolean = inverted is not change, True
        elif name == "to" and value.args and getattr(settle(value.args[0]), "name", "") == "torch.bool":
            boolean = True
        elif name in ("tril", "triu"):
            diagonal = plain(option(value, 0, "diagonal"), 0) if option(value, 0, "diagonal") is not None else 0
            ones = settle(operand(value)) if operand(value) is not None else None  # type: ignore[arg-type]
            boolean = boolean or _boolean_type(ones)
            while isinstance(ones, Obj) and operation(ones) in _SHAPE_ONLY:
                ones = settle(operand(ones)) if operand(ones) is not None else None  # type: ignore[arg-type]
            if not isinstance(ones, Obj) or operation(ones) != "ones" or not isinstance(diagonal, int):
                return None
            return Triangle(ones, name == "tril", diagonal, boolean or _boolean_type(ones), inverted)
        elif name not in _SHAPE_ONLY:
            return None
        value = operand(value)
    return None


def _boolean_type(value: Value | None) -> bool:
    return (
        isinstance(value, Obj) and getattr(settle(value.kwargs.get("dtype") or Known(None)), "name", "") == "torch.bool"
    )


def _inverts(value: Obj, name: str) -> bool | None:
    """Whether a step exchanges true and false; None when it cannot be told."""
    if name == "bool":
        return False
    if name in ("~", "logical_not"):
        return True
    other = second(value)
    number = plain(other)
    if name in ("==", "eq"):
        return True if number == 0 else (False if number == 1 else None)
    if name in ("!=", "ne"):
        return False if number == 0 else (True if number == 1 else None)
    return False if name in (">", "gt") and number == 0 else None
