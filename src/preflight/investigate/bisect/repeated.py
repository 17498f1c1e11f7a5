"""A question that is asked as often as it takes to believe the answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from preflight.investigate.bisect.outcome import Ask, Outcome
from preflight.investigate.bisect.search import WRONG, passes_needed

T = TypeVar("T", bound=Hashable)
Told = Callable[[Any, Outcome], None]


class Repeated:
    """Says of a value whether it fails; a pass counts once it is improbable that the failure only stayed away."""

    def __init__(
        self, ask: Ask, chance: float = 1.0, questions: int = 1, wrong: float = WRONG, told: Told | None = None
    ) -> None:
        """Share the probability of a wrong answer among so many questions."""
        self.ask = ask
        self.told = told
        self.runs = passes_needed(chance, wrong / max(questions, 1))
        self.trail: list[tuple[Any, Outcome]] = []
        self._known: dict[Any, bool | None] = {}

    def take_for_granted(self, value: Any, failed: bool) -> None:
        """Answer a question that cannot be run, or need not be."""
        self._known[value] = failed

    def fails(self, value: Any) -> bool | None:
        """Return whether a value fails; None where it cannot be judged."""
        if value not in self._known:
            self._known[value] = self._asked(value)
        return self._known[value]

    def _asked(self, value: Any) -> bool | None:
        for _ in range(self.runs):
            outcome = self.ask(value)
            self.trail.append((value, outcome))
            if self.told is not None:
                self.told(value, outcome)
            if outcome.kind == "fail":
                return True
            if outcome.kind != "pass":
                return None
        return False


__all__ = ["Repeated"]
