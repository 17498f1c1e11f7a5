"""What a program printed and went on behind before: in the same file, by the same program."""

from __future__ import annotations

from preflight.investigate.case.case import Event
from preflight.investigate.course.outlived import without_outlived
from preflight.vocabulary.log import Hit


def event(name: str, file: int, line: int) -> Event:
    hit = Hit(signature=name, file=file, line=line, offset=0, text="x")
    return Event(id=name, title=name, category="usercode", role="root", hit=hit)


def test_what_a_program_printed_twice_before_did_not_end_it() -> None:
    last, other = event("caught", 0, 30), event("ended", 0, 40)
    assert without_outlived([last, other], [event("caught", 0, 10), event("caught", 0, 20)]) == [other]


def test_what_two_other_programs_went_on_behind_may_have_ended_a_third() -> None:
    last, other = event("caught", 2, 30), event("ended", 0, 40)
    assert without_outlived([last, other], [event("caught", 0, 10), event("caught", 1, 10)]) == [last, other]
