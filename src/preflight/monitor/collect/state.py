"""Parameters, gradients, buffers and optimizer state at the moments of a step: norms always, fingerprints in detail."""

from __future__ import annotations

from itertools import repeat
from operator import attrgetter, is_
from typing import Any, NamedTuple

from .digest import fingerprints, norms, norms_and_fingerprints
from .pending import Pending
from .recorder import Recorder
from .roster import Held, Lot
from .variables import Variable, Variables

_UNKNOWN = (None, None, None)
_leaf, _gradient, _kind = attrgetter("is_leaf"), attrgetter("grad"), attrgetter("dtype")


class _Last(NamedTuple):
    """What was seen of some parameters after their last step: their numbers, kinds, fingerprints and norms."""

    ids: list[int]
    kinds: list[Any]
    bits: list[int | None]
    norms: list[float | None]


class States:
    """Takes the state of variables and hands over its rows."""

    def __init__(self, recorder: Recorder, variables: Variables) -> None:
        self.recorder = recorder
        self.variables = variables
        self.missing = False  # whether a gradient was not there, of what an optimizer holds
        # Of each variable the kind, the fingerprint and the norm after its last step.
        self._known: dict[int, tuple[Any, int | None, float | None]] = {}
        self._last: _Last | None = None  # the same of the last step, which is mostly asked for

    def take(self, moment: str, what: str, held: Held, exact: bool, extra: dict[str, Any] | None = None) -> None:
        """Hand over a row with the norm of each tensor, and when asked its fingerprint; None stays None."""
        self._take(moment, what, [one.ident for one, _ in held], [tensor for _, tensor in held], exact, extra)

    def _take(
        self, moment: str, what: str, ids: list[int], tensors: list[Any], exact: bool, extra: dict[str, Any] | None
    ) -> None:
        recorder = self.recorder
        if not ids or not recorder.wants("state"):
            return
        head = (*recorder.head(), moment, what)
        began = self._mark(tensors)
        if not exact:
            pending = norms(tensors)
            recorder.later(pending, lambda norm: [("state", (*head, "norm", ids, norm, None, extra))])
        else:
            pending = self._exact(ids, tensors, moment)
            kinds = [*map(_kind, tensors)] if moment == "after_step" and what == "parameter" else None

            def rows(pair: Any) -> list[tuple[str, tuple[Any, ...]]]:
                if kinds is not None:
                    self._known.update(zip(ids, zip(kinds, pair[1], pair[0], strict=True), strict=True))
                    self._last = _Last(ids, kinds, pair[1], pair[0])
                return [("state", (*head, "exact", ids, *pair, extra))]

            recorder.later(pending, rows)
        if pending is not None:
            self._cost(began)

    def _exact(self, ids: list[int], tensors: list[Any], moment: str) -> Pending | None:
        """Start the norms and the fingerprints.

        Before a step the bits are mostly those after the last one: then the norms are known, where nothing has to be
        waited for to see it.
        """
        if moment != "before_step" or not self._known:
            return norms_and_fingerprints(tensors)
        started = fingerprints(tensors)
        if started is None:
            return None
        bits = started.values() if started.ready() else None
        if bits is None:
            sizes = norms(tensors)
            return None if sizes is None else Pending.joined([sizes, started])
        last = self._last
        same = last is not None and last.bits == bits and last.ids == ids and None not in bits
        if last is not None and same and last.kinds == [*map(_kind, tensors)]:
            return Pending.known([last.norms, bits])
        size: list[Any] = [None] * len(ids)
        new = []
        for place, (ident, tensor, number) in enumerate(zip(ids, tensors, bits, strict=True)):
            kind, before, size[place] = self._known.get(ident, _UNKNOWN)
            if tensor is not None and (number is None or number != before or kind is not tensor.dtype):
                new.append(place)
        if not new:
            return Pending.known([size, bits])
        found = norms([tensors[place] for place in new])

        def filled(values: list[Any]) -> list[Any]:
            for place, value in zip(new, values, strict=True):
                size[place] = value
            return [size, bits]

        # On a device these are still under way although the bits have come.
        return None if found is None else found.then(filled)

    def _mark(self, tensors: list[Any]) -> Any:
        """A mark in the device's stream, from which the device's time is measured; None where there is no such stream."""
        torch = self.recorder.torch
        first = next((tensor for tensor in tensors if tensor is not None), None)
        if first is None or not first.is_cuda or torch.cuda.is_current_stream_capturing():
            return None
        mark = torch.cuda.Event(enable_timing=True)
        mark.record()
        return mark

    def _cost(self, began: Any) -> None:
        if began is not None:
            ended = self.recorder.torch.cuda.Event(enable_timing=True)
            ended.record()
            self.recorder.on_device.append((began, ended))

    def parameters(
        self,
        moment: str,
        optimizer: int | None,
        exact: bool,
        lot: Lot | None = None,
    ) -> None:
        """The parameters of one optimizer, or all parameters; ``lot`` is what it holds, where that was looked up."""
        if lot is not None and lot.parameters:
            self._take(moment, "parameter", lot.idents, lot.tensors, exact, _whose(optimizer))
            return
        living = self.variables.living(optimizer) if lot is None else lot.pairs()
        held = [one for one in living if one[0].kind == "parameter"]
        self.take(moment, "parameter", held, exact, _whose(optimizer))

    def gradients(self, moment: str, optimizer: int | None, exact: bool, lot: Lot | None = None) -> None:
        """The gradients of the parameters of one optimizer, or of all.

        Args:
            moment: The moment.
            optimizer: The number of the optimizer; None for all, -1 for what none holds.
            exact: Whether fingerprints are taken, too.
            lot: What the optimizer holds, where that was looked up, and that nothing was frozen or freed since the
                rows of its variables were written.
        """
        if not self.recorder.trainers.safe():
            return
        if lot is not None and lot.parameters and lot.trained and all(map(_leaf, lot.tensors)):
            found = [*map(_gradient, lot.tensors)]
            self.missing = self.missing or any(map(is_, found, repeat(None)))
            self._take(moment, "gradient", lot.idents, found, exact, _whose(optimizer))
            return
        living = self.variables.living(optimizer) if lot is None else lot.pairs()
        held = [
            (variable, tensor.grad if tensor.is_leaf else None)  # asking a tensor that is no leaf would warn
            for variable, tensor in living
            if variable.kind == "parameter" and (tensor.requires_grad or _fed(variable, tensor))
        ]
        self.missing = self.missing or (optimizer != -1 and any(gradient is None for _, gradient in held))
        self.take(moment, "gradient", held, exact, _whose(optimizer))

    def untrained(self, moment: str, held: Held) -> None:
        """The parameters that no optimizer steps, as rows of none."""
        self.take(moment, "parameter", [one for one in held if one[0].kind == "parameter"], True, _whose(-1))

    def buffers(self, moment: str, exact: bool) -> None:
        """All buffers."""
        self.take(moment, "buffer", [one for one in self.variables.living() if one[0].kind == "buffer"], exact)

    def optimizer(self, moment: str, optimizer: Any, index: int) -> None:
        """What an optimizer keeps for each of its parameters: norms of its tensors, and the count of its steps."""
        held: Held = []
        steps: list[float | None] = []
        keys: list[str] = []
        torch = self.recorder.torch
        # By where the tensors are: to look one up by itself would run a function of torch's in Python.
        state = {id(tensor): kept for tensor, kept in list(optimizer.state.items())}
        for variable, tensor in self.variables.living(index):
            kept = state.get(id(tensor))
            if not kept:
                continue
            count = _count(kept.get("step"))
            for key, value in kept.items():
                if key != "step" and isinstance(value, torch.Tensor):
                    held.append((variable, value))
                    steps.append(count)
                    keys.append(key)
        self.take(
            moment, "optimizer", held, moment in ("saved", "loaded"), {"optimizer": index, "steps": steps, "keys": keys}
        )


def _whose(optimizer: int | None) -> dict[str, Any] | None:
    return None if optimizer is None else {"optimizer": optimizer}


def _count(step: Any) -> float | None:
    """An optimizer's step count, when it can be read without waiting for a device."""
    if isinstance(step, (int, float)):
        return step
    if step is not None and getattr(step, "device", None) is not None and step.device.type == "cpu":
        return float(step)
    return None


def _fed(variable: Variable, tensor: Any) -> bool:
    """Whether the program itself gives a tensor its gradient, as a copy of the weights that no module holds.

    Autograd gives none to what takes none; in a module, one may be left of the time before it was frozen.
    """
    return not variable.module and tensor.grad is not None
