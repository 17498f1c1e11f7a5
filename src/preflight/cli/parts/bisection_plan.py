"""What a bisection of any dimension is made of: its values, and how the program is started for one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from preflight.errors import UsageError
from preflight.investigate.bisect.launchers import Point, launcher, names_in
from preflight.investigate.bisect.runner import Trial


class Plan(msgspec.Struct, kw_only=True):
    """What is bisected: its values, how a test of one is made, and how many tests there are at most.

    Attributes:
        dimension: Its name. values: What is tried, from what works to what fails.
        make: Makes a test. most: Tests at most. largest: GPUs of the largest test.
        more: In which case there are more, in words.
        shown: How a value is shown. close: Called at the end.
    """

    dimension: str
    values: Sequence[Any]
    make: Callable[[Any], Trial]
    most: int
    largest: int
    more: str = ""
    shown: Callable[[Any], str] = str
    close: Callable[[], None] = lambda: None


def needs(program: Sequence[str], names: set[str], what: str) -> None:
    """Refuse a program in which nothing would change from test to test.

    Raises:
        UsageError: None of the names is in it.
    """
    if not names & names_in(program):
        wanted = " or ".join("{" + name + "}" for name in sorted(names))
        raise UsageError(f"the program does not say where {what} goes", f"write {wanted} where it belongs")


def started(given: Mapping[str, Any], program: Sequence[str], name: str, point: Point, salt: str = "") -> Trial:
    """Return the test of a point."""
    point = msgspec.structs.replace(point, seconds=given["timeout"], queue=given["queue"])
    launch = launcher(given["launcher"]).launch(program, point)
    return Trial(name=name, launch=launch, gpus=point.gpus or given["gpus"] or 1, salt=salt)
