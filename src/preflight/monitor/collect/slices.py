"""Windows of a series that a loader gives with a target for each: whether the target stands in the window already.

Only batches of two tensors are looked at, of sequences and of one value (or one line) for each, in the first few detailed
iterations of a loader, and read where they lie. Equal values at the same place of every row may be meant, where rows are
made one by one, as in a task of memory. So rows must be windows of one series: some of them are others moved on.
"""

from __future__ import annotations

from typing import Any

from .bounded import BoundedLooks
from .plain import Outside, impossible, simple
from .recorder import Recorder

NAME = "windows.known"
_MOST_LOOKS = 3
_MOST_LOADERS = 64
_LEAST = 8  # rows of a batch
_ROWS = 64  # rows that are compared with each other
_LONGEST = 512
_OVERLAP = 6  # values that two windows must share
_KINDS = 16  # different values, so that they do not share them by chance
_TRIES = 512


class Slices:
    """Looks at the batches of loaders."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._looks = BoundedLooks(_MOST_LOOKS, _MOST_LOADERS)

    def look(self, loader: str, found: list[Any]) -> None:
        """Tell of a batch whether its targets stand in its windows (1) or not (0); nothing where it has none."""
        if not self._looks.left(loader) or not self._fits(found):
            return
        self._looks.take(loader)
        with Outside(self.recorder.torch):
            rows, targets = found[0].detach(), found[1].detach().reshape(len(found[1]), -1)
            rows = rows.reshape(*rows.shape[:2], -1)
            at = _standing(rows, targets)
            if at is None:
                self._tell(f"{loader}#", 0.0)
            elif 2 * at[0] + 1 == rows.shape[1]:
                return  # the middle is to be filled in from both sides, and is hidden later
            elif _moved(rows[:_ROWS, :, at[1]]):
                self._tell(f"{loader}#{at[0] + 1} of {rows.shape[1]}", 1.0)

    def _fits(self, found: list[Any]) -> bool:
        if len(found) != 2 or impossible(self.recorder.torch):
            return False
        rows, targets = found
        if any(one.device.type != "cpu" or not simple(one) or not one.numel() for one in found):
            return False
        if rows.dim() not in (2, 3) or rows.dtype != targets.dtype or not 1 <= targets.dim() <= 2:
            return False
        if len(rows) != len(targets) or len(rows) < _LEAST or not _OVERLAP < rows.shape[1] <= _LONGEST:
            return False
        return targets.numel() // len(targets) in (1, rows.numel() // (len(rows) * rows.shape[1]))

    def _tell(self, subject: str, value: float) -> None:
        self.recorder.put("scalar", (*self.recorder.head(), NAME, subject, value))


def _standing(rows: Any, targets: Any) -> tuple[int, int] | None:
    """At which place of each row, and in which column, its target stands; None where it does in none, or all are one."""
    if bool((targets == targets[:1]).all()):
        return None
    if targets.shape[1] == 1:
        same = (rows == targets[:, :, None]).all(0)
    else:
        same = (rows == targets[:, None, :]).all(2, keepdim=True).all(0)
    places = same.nonzero().tolist()
    return (places[-1][0], places[-1][1]) if places else None


def _moved(rows: Any) -> bool:
    """Whether one row is another one moved on: windows of one series."""
    length = rows.shape[1]
    if len(rows.unique()) < _KINDS:
        return False
    # By row, other row and place: where the first value of the one stands in the other.
    for one, other, place in (rows[None] == rows[:, :1, None]).nonzero()[:_TRIES].tolist():
        if one != other and 0 < place <= length - _OVERLAP:
            shared = rows[one, : length - place]
            if bool((shared == rows[other, place:]).all()) and bool((shared != shared[0]).any()):
                return True
    return False
