"""The local ranks of the only agent are ranks."""

from __future__ import annotations

from preflight.investigate.people import People
from preflight.vocabulary.log import Ending, Reading, Who


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
