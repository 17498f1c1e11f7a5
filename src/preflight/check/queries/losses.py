"""Losses: the calls of PyTorch's loss functions and criteria, with one name for both spellings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.check.queries.tensors import grad_off
from preflight.source.trace import Event
from preflight.source.values import Obj, Value, plain, settle

if TYPE_CHECKING:
    from preflight.check.context import Context

_KINDS = {
    "cross_entropy": "CrossEntropyLoss", "nll_loss": "NLLLoss", "binary_cross_entropy": "BCELoss",
    "binary_cross_entropy_with_logits": "BCEWithLogitsLoss", "mse_loss": "MSELoss", "l1_loss": "L1Loss",
    "smooth_l1_loss": "SmoothL1Loss", "huber_loss": "HuberLoss", "kl_div": "KLDivLoss",
}  # fmt: skip
# Position of an option among the arguments of the constructor; the function takes input and target before them.
_CROSS = ("weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing")
_OPTIONS = {
    "cross_entropy": _CROSS, "nll_loss": _CROSS[:5],
    "binary_cross_entropy": ("weight", "size_average", "reduce", "reduction"),
    "binary_cross_entropy_with_logits": ("weight", "size_average", "reduce", "reduction", "pos_weight"),
    "mse_loss": ("size_average", "reduce", "reduction"), "l1_loss": ("size_average", "reduce", "reduction"),
    "smooth_l1_loss": ("size_average", "reduce", "reduction", "beta"), "huber_loss": ("reduction", "delta"),
    "kl_div": ("size_average", "reduce", "reduction", "log_target"),
}  # fmt: skip
_FUNCTIONS = {f"torch.nn.functional.{kind}": kind for kind in _KINDS}
_MODULES = {f"torch.nn.{name}": kind for kind, name in _KINDS.items()}


class LossCall:
    """One call of a loss.

    Attributes:
        kind: The function's name: ``cross_entropy``.
        event: The call.
        input: What is compared.
        target: With what.
        criterion: The criterion object, or None for the function.
    """

    def __init__(self, kind: str, event: Event, criterion: Obj | None) -> None:
        """Keep the call."""
        self.kind = kind
        self.event = event
        self.criterion = criterion
        self.input = event.argument(0, "input")
        self.target = event.argument(1, "target")

    @property
    def name(self) -> str:
        """What the person wrote: the criterion's class or the function."""
        return _KINDS[self.kind] if self.criterion is not None else self.kind

    def option(self, keyword: str) -> Value | None:
        """An option of the loss, or None where it was not given."""
        position = _OPTIONS[self.kind].index(keyword) if keyword in _OPTIONS[self.kind] else 99
        if self.criterion is not None:
            return self.criterion.argument(position, keyword)
        return self.event.argument(position + 2, keyword)

    @property
    def reduction(self) -> str | None:
        """``mean``, ``sum`` or ``none``; None where it is not known."""
        if plain(self.option("reduce"), True) is False:
            return "none"
        given = self.option("reduction")
        if given is None:
            if self.option("size_average") is not None or (self.criterion is not None and self.criterion.open_args):
                return None
            return "mean"
        found = plain(given)
        return found if isinstance(found, str) else None

    @property
    def recorded(self) -> bool:
        """Whether gradients are recorded at the call."""
        return not grad_off(self.event.context)


def loss_calls(context: Context, *kinds: str) -> list[LossCall]:
    """All calls of losses, of the given kinds, in order."""
    held = context.__dict__.get("_loss_calls")
    if not isinstance(held, list):
        held = context.__dict__["_loss_calls"] = _find(context)
    return [call for call in held if not kinds or call.kind in kinds]


def _find(context: Context) -> list[LossCall]:
    found = [LossCall(_FUNCTIONS[event.name], event, None) for event in context.trace.calls(*_FUNCTIONS)]
    for event in context.trace.calls("()"):
        criterion = settle(event.receiver) if event.receiver is not None else None
        if isinstance(criterion, Obj) and criterion.cls is None and criterion.name in _MODULES:
            found.append(LossCall(_MODULES[criterion.name], event, criterion))
    found.sort(key=lambda call: call.event.number)
    return found


def is_loss(obj: Obj) -> str | None:
    """The kind of loss that made a value, or None."""
    if obj.kind != "call":
        return None
    if obj.name == "()" and obj.receiver is not None:
        criterion = settle(obj.receiver)
        return _MODULES.get(criterion.name) if isinstance(criterion, Obj) and criterion.cls is None else None
    return _FUNCTIONS.get(obj.name)
