"""What the recorder was asked to do: one JSON text in an environment variable, so that every child has it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

VARIABLE = "PREFLIGHT_MONITOR"
YOUNG = 500
"""Iterations up to which a run may be young."""
GRACE = 20.0
"""Seconds that recording may cost before it pauses, where nobody states a budget: of an hour half a hundredth."""


@dataclass(frozen=True)
class Settings:
    """What to record and at what cost.

    Attributes:
        folder: The trace folder; it exists.
        detail_first: How many iterations at the beginning are recorded in every detail.
        detail_young: Up to which iteration that goes on, as long as the run is young enough to bear it (see ``budget.py``).
        detail_every: After them, every how many iterations one is; 0 never again.
        norms_every: Every how many iterations the norms of parameters and gradients are taken.
        repeats: Outside of detail, how many passes of one place are told that come one after the other (``repeated.py``);
            0 means all.
        budget: The share of the run's time that recording may take, in per cent; 0 means no limit.
        grace: Seconds that recording may cost in all before the recorder pauses where it cannot keep the budget otherwise
            (see ``pauses.py``): what is asked after a pause is less, and of a long run these seconds are little.
        needs: Names of what the invariants in force look at (see ``needs.py``); empty means everything.
        api: Whether calls of torch's own functions are recorded in detailed iterations.
        control: A file by which the watching process asks for a checkpoint or a stop, or None.
        flush: Seconds after which rows are written at the latest.
    """

    folder: str
    detail_first: int = 5
    detail_young: int = 0
    detail_every: int = 16
    norms_every: int = 1
    repeats: int = 0
    budget: float = 2.0
    grace: float = GRACE
    needs: tuple[str, ...] = field(default=())
    api: bool = False
    control: str | None = None
    flush: float = 0.25

    def text(self) -> str:
        """The settings as the value of the environment variable."""
        return json.dumps(asdict(self))


class Detail(NamedTuple):
    """How much is recorded in detail, by the names that it has in the settings."""

    detail_first: int
    detail_young: int
    detail_every: int


def detail(first: int | None, every: int | None) -> Detail:
    """How much is recorded in detail, where a person said so and where not; who says how often is not given more."""
    young = YOUNG if first is None and every is None else 0
    return Detail(5 if first is None else first, young, 16 if every is None else every)


class Allowance(NamedTuple):
    """What recording may cost, by the names that it has in the settings."""

    budget: float
    grace: float


def allowance(share: float | None) -> Allowance:
    """What recording may cost, where a person said so and where not; who states a share means it from the beginning."""
    return Allowance(2.0, GRACE) if share is None else Allowance(share, 0.0)


def from_environment() -> Settings | None:
    """The settings of this process, or None when it is not to be recorded.

    Raises:
        ValueError: When the variable holds something else.
    """
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    known = json.loads(text)
    known["needs"] = tuple(known.get("needs", ()))
    return Settings(**{name: value for name, value in known.items() if name in Settings.__dataclass_fields__})
