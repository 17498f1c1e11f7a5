"""Where a run's numbers are kept: one file per tracker, found by looking into this folder.

A file has a class of its tracker and ``in_use()``, which returns one where the program uses that tracker, else None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from preflight.listing import modules_beside
from preflight.monitor.live.remarks import reason_of, say

if TYPE_CHECKING:
    from preflight.monitor.live.tracking import Tracker


def in_use() -> list[Tracker]:
    """Return the trackers that this program uses at this moment."""
    return made((name, partial(_in_use, name)) for name in modules_beside(__file__))


def made(ways: Iterable[tuple[str, Callable[[], Tracker | None]]]) -> list[Tracker]:
    """Return the trackers that are made in these ways; one that fails is left out and named on stderr."""
    found = []
    for name, make in ways:
        try:
            found.append(make())
        except Exception as error:
            say(f"{name} takes no figures: {reason_of(error)}")
    return [one for one in found if one is not None]


def _in_use(name: str) -> Tracker | None:
    tracker: Tracker | None = import_module(f"{__name__}.{name}").in_use()
    return tracker
