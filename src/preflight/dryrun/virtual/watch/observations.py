"""What was seen, as plain values that rules can ask for later."""

from __future__ import annotations

from typing import Any

from preflight.dryrun.virtual.progress import Progress

MOST = 20_000
"""So many different observations are kept; a run that makes more has long shown what it has to show."""


class Observations:
    """Takes notes. Like ones are counted, unless each of them matters for its place in the order.

    Args:
        progress: Where the run is.

    Attributes:
        serial: Number of the last observation.
    """

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self._found: dict[Any, dict[str, Any]] = {}
        self.serial = 0

    def note(self, what: str, *, each: bool = False, line: str | None = None, **data: Any) -> None:
        """Note something that happens now.

        Args:
            what: What happens, in words: ``backward``, ``optimizer step``.
            each: Keep every single one, in order.
            line: ``file:line`` of the script; by default the place that runs.
            **data: Plain values: numbers, text, flat lists of them.
        """
        phase, step, module, here = self.progress.where()
        line = here if line is None else line
        self.serial += 1
        told: Any = None
        if not each:
            told = tuple((key, tuple(value) if isinstance(value, list) else value) for key, value in data.items())
        key = (what, line, module, step, phase, told, self.serial if each else None)
        known = self._found.get(key)
        if known is not None:
            known["count"] += 1
        elif len(self._found) < MOST:
            self._found[key] = {
                "what": what, "order": self.serial, "line": line, "module": module, "phase": phase, "step": step,
                "count": 1, "data": data,
            }  # fmt: skip

    def summary(self) -> list[dict[str, Any]]:
        """Return all that was noted, in the order of its first appearance."""
        return list(self._found.values())
