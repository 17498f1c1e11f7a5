"""What stands behind an event: found by an index, and the same as a search through everything finds."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from preflight.investigate.case.case import Case, Event
from preflight.investigate.case.events import events_of
from preflight.investigate.course.attempts import attempts_of
from preflight.investigate.course.last_lines import LastLines, is_end
from preflight.investigate.course.progress import Progress
from preflight.investigate.course.step_order import StepOrder
from preflight.source.logs import read_logs
from preflight.vocabulary.log import Ending, Hit, LogFile, Raised, Reading, StepLine, Who
from preflight.vocabulary.signature import Signature


def _searched(lines: list[int], numbers: list[int], line: int, step: int) -> tuple[int, int]:
    behind = [number for one, number in zip(lines, numbers, strict=True) if one > line]
    anew = len(set(behind)) if behind and behind[0] < step and behind == sorted(behind) else 0
    return len({number for number in behind if number > step}), anew


@pytest.mark.parametrize("seed", range(20))
def test_steps_behind_a_line_are_those_that_a_search_finds(seed: int) -> None:
    rng = Random(seed)
    numbers = [rng.randrange(12) for _ in range(rng.randrange(25))]
    numbers = sorted(numbers) if seed % 3 == 0 else numbers + list(range(seed))
    lines = sorted(rng.sample(range(100), len(numbers)))
    order = StepOrder()
    for line, number in zip(lines, numbers, strict=True):
        order.add(line, number)
    for line in range(-1, 101, 7):
        for step in range(-1, 13):
            beyond, anew = _searched(lines, numbers, line, step)
            assert order.beyond(line, step, 5) == min(beyond, 5)
            assert order.counted_anew(line, step, 5) == min(anew, 5)


ENDS = Signature(id="end.done", title="done", category="none", role="progress", literals=("done",), marks="end", next=(), match=("done",), no_match=("",))  # fmt: skip


def _made(rng: Random) -> Event:
    name, category, role = rng.choice(
        [("oom.cuda", "oom", "root"), ("preemption.term", "preemption", "teardown"), ("preemption.node", "preemption", "root"),
         ("network.peer", "network", "cascade"), ("progress.evaluation", "none", "progress"), ("end.done", "none", "progress")]
    )  # fmt: skip
    time = rng.choice([None, float(rng.randrange(50))])
    hit = Hit(signature=name, file=rng.randrange(2), line=rng.randrange(40), offset=0, text="x", time=time)
    made: dict[str, Any] = {"id": name, "title": name, "category": category, "role": role}
    return Event(**made, hit=hit, rank=rng.choice([None, 0, 1]), time=time, error=0.5,
                 signature=ENDS if name == "end.done" else None)  # fmt: skip


def _ended(events: list[Event], event: Event) -> bool:
    for end in filter(is_end, events):
        same_file = end.hit.file == event.hit.file
        if same_file and end.hit.line > event.hit.line and end.rank in (event.rank, None):
            return True
        timed = end.time is not None and event.time is not None and not same_file
        if timed and end.rank is not None and end.rank == event.rank:
            assert end.time is not None
            assert event.time is not None
            if end.time - end.error > event.time + event.error:
                return True
    return False


@pytest.mark.parametrize("seed", range(20))
def test_events_behind_a_line_are_those_that_a_search_finds(seed: int) -> None:
    rng = Random(seed)
    events = [_made(rng) for _ in range(rng.randrange(1, 14))]
    raised = tuple(Raised(exception="E", message="", frames=(), hit=one.hit) for one in events[:1] if seed % 4 == 0)
    endings = (Ending(about=Who(0), code=1, teller="slurm", file=1, line=1),) if seed % 3 == 0 else ()
    case = Case(
        Reading(
            files=(LogFile(index=0, path="a", kind="text"), LogFile(index=1, path="b", kind="text")),
            raised=raised,
            endings=endings,
        ),
        {},
    )
    case.events = tuple(events)
    told = LastLines(case)
    for event in events:
        file, line = event.hit.file, event.hit.line
        own = [one for one in events if one.hit.file == file]
        behind = [one for one in own if one.hit.line > line]
        roots = {one.category for one in behind if one.role == "root" and one.id != event.id}
        stopped = any(one.category == "preemption" for one in behind) and roots <= {"preemption"}
        assert told.ended(event) == _ended(events, event)
        assert told.stopped(event) == (stopped and not any(one.hit.file == file for one in raised))
        failing = ("root", "cascade", "confirmation", "teardown")
        assert told.failed(event) == (any(one.role in failing for one in behind) or (bool(endings) and file == 1))
        assert told.failed_otherwise(event) == any(one.id != event.id and one.role in failing[:3] for one in own)
        what = ("progress.evaluation",)
        assert told.done(file, line, what) == any(one.id in what and one.hit.line >= line for one in own)


class Counted(int):
    """A number of a step that counts how often it is compared or looked up."""

    looked = 0

    def __gt__(self, other: int) -> bool:
        type(self).looked += 1
        return int(self) > int(other)

    def __lt__(self, other: int) -> bool:
        type(self).looked += 1
        return int(self) < int(other)

    def __hash__(self) -> int:
        type(self).looked += 1
        return hash(int(self))


def _looks(events: int) -> int:
    Counted.looked = 0
    steps = tuple(
        StepLine(file=0, line=2 * number, who=Who(), values={}, step=Counted(number)) for number in range(1000)
    )
    case = Case(Reading(files=(LogFile(index=0, path="a", kind="text", lines=2000),), steps=steps), {})
    made: dict[str, Any] = {"id": "oom.cuda", "title": "oom", "category": "oom", "role": "root"}
    case.events = tuple(
        Event(**made, hit=Hit(signature="oom.cuda", file=0, line=2 * number + 1, offset=0, text="x"), step=number)
        for number in range(events)
    )
    progress = Progress(case)
    assert all(progress.recovered(event) for event in case.events)
    return Counted.looked


def test_all_steps_are_not_looked_through_for_each_event() -> None:
    few, many = _looks(10), _looks(110)
    assert many - few < 100 * 100  # a search looks at each of the 1000 steps for each of the 100 events


def test_lines_behind_the_last_word_of_a_start_are_those_of_its_start(tmp_path: Path) -> None:
    first = [f"[rank0]: step: {number} loss: 0.5" for number in range(6)]
    agent = "W0101 12:00:09.000000 7 torch/distributed/elastic/agent/server/api.py:900] [default] Worker group FAILED. 2/3 attempts left; will restart worker group"
    (tmp_path / "run.log").write_text(
        "\n".join([*first, "ERROR: the frobnicator lost its way", "[rank0]: bye", agent, *first, *first]) + "\n"
    )
    reading = read_logs([tmp_path])
    from preflight.catalog.signature_files import load_signatures

    whole = Case(reading, {one.id: one for one in load_signatures()})
    whole.events = events_of(whole)
    assert [one.behind for one in reading.unknown if "frobnicator" in one.template] == [14]
    starts = attempts_of(whole)
    assert len(starts) == 2
    assert [one.behind for one in starts[0].reading.unknown if "frobnicator" in one.template] == [1]
