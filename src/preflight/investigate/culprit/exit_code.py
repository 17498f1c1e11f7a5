"""How the processes ended: a signal from the kernel tells of a cause, one from the launcher of a victim."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.culprit.vote import Scene, Vote
from preflight.vocabulary.incident import Quote
from preflight.vocabulary.log import Ending

_FATAL = {-9: "killed", -11: "segmentation fault", -7: "bus error", -4: "illegal instruction", -8: "arithmetic fault"}
_ASKED = (-15, -2, -1, 143, 130)


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote by exit code: against those that were asked to stop, for those that the kernel or their own error ended."""
    people = scene.case.people
    codes: dict[int, Ending] = {}
    for ending in scene.case.endings:
        rank = people.rank_of(ending.about, ending.file)
        if rank is not None and ending.code is not None and (rank not in codes or codes[rank].code == 0):
            codes[rank] = ending
    for rank, ending in codes.items():
        code = ending.code or 0
        quotes = _quote(scene, ending)
        if code in _FATAL or code - 256 in _FATAL or 128 - code in _FATAL:
            signal = next(one for one in (code, code - 256, 128 - code) if one in _FATAL)
            text = f"ended by signal {-signal} ({_FATAL[signal]}), which no launcher sends first" if signal != -9 else (
                "killed by signal 9: out of host memory, or by hand or scheduler"
            )  # fmt: skip
            yield Vote(kind="exit-signal", rank=rank, text=text, quotes=quotes)
        elif code in _ASKED:
            yield Vote(kind="exit-asked", rank=rank, text="was asked to stop by its launcher", quotes=quotes)
        elif code > 0:
            yield Vote(kind="exit-error", rank=rank, text=f"ended with exit code {code}", quotes=quotes)
    yield from _closed(scene)


def _closed(scene: Scene) -> Iterator[Vote]:
    """Vote against ranks that a launcher says it is closing."""
    for event in scene.failing:
        if event.role == "teardown" and "clos" in event.id and event.rank is not None:
            quotes = (scene.case.quote(event.hit),)
            yield Vote(kind="exit-asked", rank=event.rank, text="was still alive when its launcher stopped it",
                       quotes=quotes)  # fmt: skip


def _quote(scene: Scene, ending: Ending) -> tuple[Quote, ...]:
    if ending.file is None or ending.line is None:
        return ()
    text = ending.message or f"exit code {ending.code} ({ending.teller})"
    return (Quote(scene.case.path(ending.file), ending.line, text),)
