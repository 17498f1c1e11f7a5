"""Encodings of positions that a layer of the program's own adds to what goes through it: along which axis they go."""

from __future__ import annotations

from typing import Any

from .pending import Pending, to_host
from .plain import Outside, impossible, simple
from .recorder import Recorder

NAME = "encodings.first"
_LOOKS = 4  # passes of a layer that are looked at
_LEAST = 4
_CLOSE = 1e-3


class Encodings:
    """Looks at layers without parameters that hold a table, in the first few passes that are told in detail."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._looks: dict[int, int] = {}

    def look(self, module: Any, name: str, args: Any, output: Any) -> None:
        """Tell whether the rows of its table were added along the first axis (1) or the second one (0)."""
        looks = self._looks.get(id(module), 0)
        if looks >= _LOOKS:
            return
        self._looks[id(module)] = looks + 1
        torch = self.recorder.torch
        given = args[0] if args and isinstance(args[0], torch.Tensor) else None
        table = None if given is None else _table(torch, module, given)
        if given is None or table is None or not _alike(torch, given, output) or impossible(torch):
            self._looks[id(module)] = _LOOKS if looks == 0 else looks + 1
            return
        drops = [one.p for one in module.modules() if isinstance(one, torch.nn.Dropout)] if module.training else []
        kept = 1.0
        for share in drops:
            kept *= 1.0 - share
        with Outside(torch):
            told = [self._fits(given, output, table, axis, kept) for axis in (0, 1)]
            found = to_host(torch, torch.stack(told).float())
        head = (*self.recorder.head(), NAME, f"{name}#{given.shape[0]}x{given.shape[1]}")

        def rows(values: list[float]) -> list[tuple[str, tuple[Any, ...]]]:
            return [("scalar", (*head, values[0]))] if values[0] != values[1] else []

        self.recorder.later(Pending([found], lambda read: read[0]), rows)

    def _fits(self, given: Any, output: Any, table: Any, axis: int, kept: float) -> Any:
        """Whether what came out is what went in and a row for each place along an axis, as far as nothing was dropped."""
        torch = self.recorder.torch
        size = given.shape[axis]
        if len(table) < size:
            return torch.zeros((), dtype=torch.bool, device=given.device)
        rows = table[:size, None] if axis == 0 else table[None, :size]
        off = (output * kept - given - rows).abs() > _CLOSE * (1 + given.abs())
        left = output != 0
        return ~(off & left).any() & (2 * left.sum() > kept * left.numel())


def _table(torch: Any, module: Any, given: Any) -> Any:
    """The rows of the table that a layer holds, one for each position, as wide as what goes in."""
    if next(module.parameters(), None) is not None or given.dim() != 3 or min(given.shape[:2]) < _LEAST:
        return None
    if given.shape[0] == given.shape[1]:
        return None
    for one in module._buffers.values():
        if not isinstance(one, torch.Tensor) or not one.is_floating_point() or one.device != given.device:
            continue
        rows = (
            one.reshape(-1, one.shape[-1])
            if one.dim() in (2, 3) and one.numel() == max(one.shape[:-1]) * one.shape[-1]
            else None
        )
        if rows is not None and rows.shape[1] == given.shape[2] and simple(one):
            return rows
    return None


def _alike(torch: Any, given: Any, output: Any) -> bool:
    """Whether what came out can be compared with what went in."""
    return bool(
        isinstance(output, torch.Tensor)
        and output.shape == given.shape
        and output.device == given.device
        and simple(given)
        and simple(output)
    )
