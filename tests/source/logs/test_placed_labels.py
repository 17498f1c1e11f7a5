"""Ranks that stand at the ends of lines, as places in a grid, as a field of a table, or as a word with no mark behind it."""

from __future__ import annotations

import pytest

from preflight.source.logs.prefixes import head_of
from preflight.source.logs.styles import style_of

SAID = ("start, world size 4", "process group is ready", *(f"step {step} loss 1.{step}" for step in range(6)))
ORDER = ((0, 2, 1, 3), (3, 0, 1, 2), (1, 3, 2, 0))


def lines_of(form: str, ranks: int = 4) -> list[str]:
    return [
        form.format(rank=rank, said=what, second=10 + at, half=rank // 2, odd=rank % 2)
        for at, what in enumerate(SAID)
        for rank in ORDER[at % 3]
        if rank < ranks
    ]


def style(lines: list[str]) -> str:
    return style_of("\n".join(lines).encode())


@pytest.mark.parametrize(
    "form",
    [
        "2026-02-03 04:05:{second} INFO {said} [rank {rank}]",
        "2026-02-03 04:05:{second} INFO {said} (rank={rank})",
        "04:05:{second} {said}  #r={rank}",
        "INFO {said} rank={rank}/4",
        "[2026-02-03 04:05:{second} DP{half} TP{odd}] {said}",
        "2026-02-03 04:05:{second} [DP{rank} TP0] {said}",
        "2026-02-03T04:05:{second},{rank},INFO,{said}",
    ],
)
def test_the_rank_is_found_where_labels_seldom_stand(form: str) -> None:
    lines = lines_of(form)
    found = style(lines)
    assert found
    for rank in range(4):
        told = form.format(rank=rank, said="it broke", second=30, half=rank // 2, odd=rank % 2)
        assert head_of(told, found).who.rank == rank


def test_one_writer_says_its_rank_with_no_mark_behind_it() -> None:
    lines = [f"2026-02-03 04:05:{10 + at} box-b rank 1 {what}" for at, what in enumerate(SAID)]
    head = head_of("2026-02-03 04:06:00 box-b rank 1 it broke", style(lines))
    assert (head.who.rank, head.stamp is not None) == (1, True)
    assert head_of("2026-02-03 04:06:00 lost rank 3 in a barrier", style(lines)).who.rank is None


def test_ranks_that_lines_tell_of_now_and_then_are_none_of_writers() -> None:
    some = [f"2026-02-03 04:05:{10 + at} {what}" for at, what in enumerate(SAID)]
    told = [
        *some,
        "2026-02-03 04:06:00 lost the connection (rank 3)",
        "2026-02-03 04:06:01 lost the connection (rank 2)",
    ]
    assert head_of(told[-1], style(told)).who.rank is None
    told = [*some, "2026-02-03 04:06:00 rank 3 failed to come", "2026-02-03 04:06:01 rank 2 failed to come"]
    assert head_of(told[-1], style(told)).who.rank is None


def test_a_place_of_a_later_replica_is_no_rank_of_the_job() -> None:
    assert head_of("[2026-02-03 04:05:10 DP3 TP0] it broke").who.rank is None
    assert head_of("[2026-02-03 04:05:10 DP1 TP5] it broke").who.rank == 5


def test_a_field_between_commas_is_no_part_of_the_second() -> None:
    stamps = [head_of(f"2026-02-03T04:05:10{part},INFO,x").stamp for part in (",3", ",250", "")]
    assert [stamp.seconds % 60 for stamp in stamps if stamp is not None] == pytest.approx([10.0, 10.25, 10.0])


def test_a_process_that_is_told_does_not_hide_the_label_behind_it() -> None:
    lines = lines_of("I0203 04:05:{second}.000123 71{rank} fit.py:40] <{rank}> {said}")
    assert head_of("<2> RuntimeError: it broke", style(lines)).who.rank == 2


@pytest.mark.parametrize("form", ["[PP{stage} DP{half} TP{odd}] {said}", "[DP{half} TP{odd} CP{stage}] {said}"])
def test_two_places_of_three_are_no_rank(form: str) -> None:
    lines = [
        form.format(stage=rank // 4, half=rank % 4 // 2, odd=rank % 2, said=what) for what in SAID for rank in range(8)
    ]
    assert not style(lines).startswith("placed")
