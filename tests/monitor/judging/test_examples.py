"""What is compared over ranks, and how long iterations of one number belong together."""

from __future__ import annotations

from preflight.monitor.judging.examples import Examples
from preflight.monitor.mini import Mini
from preflight.monitor.relations.replicas_equal import ReplicasEqual

SPREAD = {"model.weight": {"spread": {"kind": "replicated", "ranks": [0, 1]}}}


def told(left: tuple[int, int]) -> list[bool]:
    """Of three iterations in which replicas differ in the last two, whether they were alike, as far as they were compared.

    ``left`` is the iteration in which each rank leaves a join.
    """
    ranks = [Mini(SPREAD, rank, 2) for rank in (0, 1)]
    examples = Examples([ReplicasEqual])
    found = []
    for iteration in range(3):
        for rank, mini in enumerate(ranks):
            value = (1.0, 7 + rank * (iteration > 0))
            leaving = ("join.left",) if left[rank] == iteration else ()
            window = mini.window(*leaving, "step optimizer0:SGD", ("after", {"model.weight": value}))
            found += [one.holds for _, those, _ in examples.see(window) for one in those]
    return found


def test_iterations_belong_together_until_a_join_lets_one_rank_have_more() -> None:
    assert told((9, 9)) == [True, False, False]
    assert told((1, 9)) == [True]
    assert told((1, 2)) == [True]
    assert told((2, 2)) == [True, False, False]
