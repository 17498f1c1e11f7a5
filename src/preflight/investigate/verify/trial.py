"""What is known of one run before or after a change."""

from __future__ import annotations

import msgspec

from preflight.vocabulary.verification import Outcome


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One run.

    Attributes:
        name: Its file or number.
        outcome: How it ended.
        what: The signature and the categories of its failure, as far as they are known.
        steps: How many steps it made.
        hours: How long it ran.
        order: Its place among all trials, where they were made one after the other.
        series: What it measured, by metric; one number where only one is known.
        places: For the metrics that are curves, where each value belongs: tokens, samples or steps.
    """

    name: str
    outcome: Outcome
    what: tuple[str, ...] = ()
    steps: float | None = None
    hours: float | None = None
    order: float | None = None
    series: dict[str, list[float]] = {}
    places: dict[str, list[float]] = {}
