"""An incident over time: a lane for each rank, node, or the job, with what was said in it; long silences are cut short."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from preflight.report.parts.clean import clean, one_line
from preflight.report.parts.incident_words import ROLE_WORDS, clock_time, moment_time
from preflight.report.pictures.axis import NARROW
from preflight.vocabulary.incident import Moment

MOST_MOMENTS = 400
MOST_ROWS = 64
ROW = 24
_CUT = 9.0
"""Percent of the drawing that a silence has which is cut short."""
_CUTS = 3
_LETTERS = 16


class Clock:
    """Where a moment lies: silences that are much longer than all the rest are cut short.

    The longest silence is cut while it is more than three quarters of what is left, three of them at most.
    """

    def __init__(self, times: list[float]) -> None:
        """Find the silences between the times of all moments."""
        times = sorted(set(times))
        silences = sorted(((after - before, before) for before, after in pairwise(times)), reverse=True)
        left, cut = times[-1] - times[0], []
        for length, start in silences[:_CUTS]:
            if length <= 0.75 * left or len(times) < 3:
                break
            cut.append((start, start + length))
            left -= length
        edges = [times[0], *(edge for pair in sorted(cut) for edge in pair), times[-1]]
        self.pieces = list(zip(edges[::2], edges[1::2], strict=True))
        """What is drawn to scale: first and last second of each piece."""
        shown = 100 - _CUT * len(cut)
        total = sum(last - first for first, last in self.pieces)
        least = 0.5 * shown / len(self.pieces)
        # A piece of no length still has room for its marks.
        shares = [max(least, shown * (last - first) / total) if total else least for first, last in self.pieces]
        self.shares = [shown * share / sum(shares) for share in shares]

    def start_of(self, number: int) -> float:
        """Return where a piece begins, percent."""
        return sum(self.shares[:number]) + _CUT * number

    def at(self, time: float) -> float:
        """Return the place of a time, percent."""
        for number, (first, last) in enumerate(self.pieces):
            if time <= last or number == len(self.pieces) - 1:
                share = self.shares[number]
                within = (max(time, first) - first) / (last - first) if last > first else 0.5
                return round(self.start_of(number) + share * min(within, 1.0), 3)
        raise AssertionError("a clock has a piece")

    @property
    def silences(self) -> list[dict[str, Any]]:
        """What was cut short: where, and how long it was."""
        return [
            {"x": round(self.start_of(number + 1) - _CUT, 3), "width": _CUT, "name": since(after - before)}
            for number, ((_, before), (after, _)) in enumerate(pairwise(self.pieces))
        ]

    @property
    def ticks(self) -> list[dict[str, Any]]:
        """Where pieces begin, from the first moment on, and how long they are; of neighbours without room, the first."""
        found: list[dict[str, Any]] = []
        began = self.pieces[0][0]
        for number, (first, last) in enumerate(self.pieces):
            start = self.start_of(number)
            ends = [
                (start, since(first - began)),
                (start + self.shares[number], "+" * bool(number) + since(last - first)),
            ]
            for at, name in ends if last > first else ends[:1]:
                if not found or at - found[-1]["at"] >= (len(name) * 6.7 + 14) / NARROW * 100:
                    found.append({"at": round(at, 2), "name": name})
        return found


def incident_picture(moments: tuple[Moment, ...], accused: tuple[int, ...] = ()) -> dict[str, Any] | None:
    """Return the moments that have a time as marks in lanes; None where all have the same time, or none.

    Of many lanes those of the accused ranks are drawn, then those in which a cause is told, then the first ones.
    """
    timed = [moment for moment in moments[:MOST_MOMENTS] if moment.time is not None]
    times = [moment.time for moment in timed if moment.time is not None]
    if len(set(times)) < 2:
        return None
    clock = Clock(times)
    told = [(lane, moment) for moment in timed for lane in _lanes_of(moment)]
    telling = {lane for lane, moment in told if moment.role in ("root", "confirmation")}
    every = {lane for lane, _ in told}
    named = {f"rank {rank}" for rank in accused}
    order = sorted(every, key=lambda lane: (lane[1] not in named, lane not in telling, lane))
    chosen = sorted(order[:MOST_ROWS])
    rows = {name: at for at, (_, name) in enumerate(chosen)}
    marks = [_mark(moment, rows[name], clock) for (_, name), moment in told if name in rows]
    _side_by_side(marks)
    weight = {"root": 2, "confirmation": 1}
    return {
        "rows": [
            {"name": _short(lane), "title": lane, "y": at * ROW, "culprit": lane in named} for lane, at in rows.items()
        ],
        "row": ROW - 2,
        "height": ROW * len(rows),
        "long": any(len(lane) > 9 for lane in rows),
        "left_out": len(every) - len(chosen),
        "marks": sorted(marks, key=lambda mark: weight.get(mark["role"], 0)),
        "silences": clock.silences,
        "ticks": clock.ticks,
        "began": clock_time(min(times)),
        "roles": [(role, word) for role, word in ROLE_WORDS.items() if any(one.role == role for one in timed)],
    }


def _mark(moment: Moment, lane: int, clock: Clock) -> dict[str, Any]:
    time, error = moment.time or 0.0, moment.time_error
    first, last = clock.at(time - error), clock.at(time + error)
    return {
        "x": clock.at(time),
        "from": first,
        "width": round(last - first, 3),
        "lane": lane * ROW,
        "y": lane * ROW + ROW // 2 - 1,
        "role": moment.role,
        "title": f"{moment_time(moment)}: {one_line(moment.text)}",
    }


def _side_by_side(marks: list[dict[str, Any]]) -> None:
    """Move marks of a lane that would hide each other apart: up and down by turns."""
    last: dict[int, tuple[float, int]] = {}
    for mark in sorted(marks, key=lambda one: one["x"]):
        before, turn = last.get(mark["lane"], (-100.0, 0))
        turn = turn + 1 if (mark["x"] - before) * NARROW / 100 < 9 else 0
        mark["y"] += (0, -5, 5)[turn % 3]
        last[mark["lane"]] = (mark["x"], turn)


def _lanes_of(moment: Moment) -> list[tuple[tuple[int, int, str], str]]:
    """Return the lanes of a moment, each with what it is sorted by: ranks first, then nodes, then the job."""
    ranks = moment.ranks or ((moment.rank,) if moment.rank is not None else ())
    if ranks:
        return [((0, rank, ""), f"rank {rank}") for rank in ranks]
    node = clean(moment.node or "")
    return [((1, 0, node), node)] if node else [((2, 0, ""), "the job")]


def _short(name: str) -> str:
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"


def since(seconds: float) -> str:
    """Return a time since the first moment, in a unit that people would use."""
    for size, unit in ((86_400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.3g} {unit}" if seconds < 1000 * size else f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.3g} s"
