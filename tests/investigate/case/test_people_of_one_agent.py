"""The local ranks of the only agent are ranks."""

from __future__ import annotations

from pathlib import Path

from preflight.investigate.case.people import People
from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.log import Ending, LogFile, Reading, Who


def ending(local: int, pid: int, file: int = 0) -> Ending:
    return Ending(about=Who(local_rank=local, pid=pid), code=-9, teller="torchrun", file=file)


def test_one_agent_numbers_its_ranks() -> None:
    people = People(Reading(endings=(ending(1, 1168),)))
    assert people.rank_of(Who(pid=1168)) == 1
    assert people.rank_of(Who(local_rank=1)) == 1


def test_two_agents_do_not() -> None:
    people = People(Reading(endings=(ending(1, 1168, 0), ending(1, 4, 1))))
    assert people.rank_of(Who(pid=1168)) is None


def test_more_ranks_than_a_node_has_do_not() -> None:
    people = People(Reading(endings=(ending(1, 1168),), world_size=64))
    assert people.rank_of(Who(pid=1168)) is None


def test_the_root_cause_of_the_table_is_first_though_the_others_stand_before_it(tmp_path: Path) -> None:
    entry = "  time      : 2023-05-19_16:39:58\n  host      : n1\n  rank      : {0} (local_rank: {0})\n  exitcode  : 1 (pid: 7{0})\n"
    (tmp_path / "log.txt").write_text(
        "============================================================\ntrain.py FAILED\n"
        "------------------------------------------------------------\nFailures:\n[0]:\n"
        + entry.format(0)
        + "------------------------------------------------------------\nRoot Cause (first observed failure):\n[1]:\n"
        + entry.format(1)
        + "============================================================\n"
    )
    incident = diagnose([tmp_path]).incident
    assert incident.culprit is not None
    assert incident.culprit.ranks == (1,)  # the lowest rank would be named as well where both had ended at once


def test_who_wrote_lines_of_a_file_is_found_once_and_by_the_file_that_they_stand_in() -> None:
    files = tuple(
        LogFile(index=index, path=f"{node}.log", kind="text", who=Who(node=node)) for index, node in enumerate("ab")
    )
    told = tuple(Ending(about=Who(rank, node, 0), code=1, teller="torchrun", file=index)
                 for index, (node, rank) in enumerate((("a", 0), ("b", 8))))  # fmt: skip
    people = People(Reading(files=files, endings=told))
    for _ in range(2):
        assert people.placed(Who(local_rank=0), 0) == (0, "a")
        assert people.placed(Who(local_rank=0), 1) == (8, "b")
    assert people.placed(Who(rank=3), 0) == (people.rank_of(Who(rank=3), 0), people.node_of_who(Who(rank=3), 0))
