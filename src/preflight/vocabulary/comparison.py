"""Words for two reports side by side: what changed between them."""

from __future__ import annotations

from typing import Literal

import msgspec

from preflight.vocabulary.finding import Finding, Scalar
from preflight.vocabulary.invariant import Violation

Aspect = Literal["memory", "time", "cost", "layout", "setting", "score", "incident"]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A value that is not the same on both sides.

    Attributes:
        aspect: What it is a part of.
        name: What it is: ``peak (allocated)``, ``batch.micro``.
        before: The value of the first side. after: That of the second; None where a side has none.
        unit: ``bytes``, ``s``, ``%``, ``USD`` ... or None.
        better: Which way is better: ``lower``, ``higher``, or None where neither is.
    """

    aspect: Aspect
    name: str
    before: Scalar = None
    after: Scalar = None
    unit: str | None = None
    better: Literal["lower", "higher"] | None = None

    @property
    def ratio(self) -> float | None:
        """The second value over the first; None where they are no numbers or the first is 0."""
        one, two = self.before, self.after
        if isinstance(one, bool) or isinstance(two, bool):
            return None
        if not isinstance(one, (int, float)) or not isinstance(two, (int, float)) or one == 0:
            return None
        return two / one

    @property
    def worse(self) -> bool:
        """Whether the second side is the worse one in this."""
        ratio = self.ratio
        if ratio is None and self.before == 0 and isinstance(self.after, (int, float)):
            return self.better == "lower" and self.after > 0
        return ratio is not None and ((self.better == "lower" and ratio > 1) or (self.better == "higher" and ratio < 1))


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two: what it is called, which command told of it, and its verdict."""

    name: str
    command: str
    verdict: str


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two reports side by side.

    Attributes:
        before: The first one.
        after: The second one.
        changes: What is not the same.
        gone: Findings that only the first one has.
        new: Findings that only the second one has.
        kept: How many findings both have.
        gone_violations: Alarms that only the first one has.
        new_violations: Alarms that only the second one has.
        shared: The aspects that both tell of: nothing can be said of others.
    """

    before: Side
    after: Side
    changes: tuple[Change, ...] = ()
    gone: tuple[Finding, ...] = ()
    new: tuple[Finding, ...] = ()
    kept: int = 0
    gone_violations: tuple[Violation, ...] = ()
    new_violations: tuple[Violation, ...] = ()
    shared: tuple[Aspect, ...] = ()
