from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

from preflight.cli.main import main
from preflight.investigate.topology import match as matching
from preflight.investigate.topology.effects import polish, slow_links, slow_ranks
from preflight.investigate.topology.expected import kinds, unequal
from preflight.investigate.topology.judging import absent_ranks, findings_of, measurements
from preflight.investigate.topology.match import Match, Meeting, Played, play
from preflight.investigate.topology.schedule import sampled, tournament
from preflight.investigate.workers.worker import Worker


@pytest.mark.parametrize("count", range(2, 18))
def test_everybody_meets_everybody_once_and_nobody_is_at_two_places(count: int) -> None:
    rounds = tournament(range(count))
    assert len(rounds) == (count - 1 if count % 2 == 0 else count)
    assert sorted(pair for pairs in rounds for pair in pairs) == list(combinations(range(count), 2))
    for pairs in rounds:
        players = [player for pair in pairs for player in pair]
        assert len(players) == len(set(players))


def test_a_large_job_is_thinned_out_evenly() -> None:
    rounds = sampled(dict.fromkeys(range(256), ""), 15)
    assert len(rounds) == 15
    assert all(len(pairs) == 128 for pairs in rounds)


def times(count: int, noise: float = 0.05, **slow: float) -> dict[tuple[int, int], float]:
    """Times of all pairs; ``r3`` and ``l1_4`` are factors of a rank and of a link."""
    found = {}
    for a, b in combinations(range(count), 2):
        factor = slow.get(f"r{a}", 1.0) * slow.get(f"r{b}", 1.0) * slow.get(f"l{a}_{b}", 1.0)
        found[a, b] = 1e-4 * factor * random.lognormvariate(0.0, noise)
    return found


def test_a_rank_and_a_link_are_told_apart() -> None:
    random.seed(3)
    effects = polish(times(8, r3=2.0, l1_4=3.0))
    assert effects.common == pytest.approx(1e-4, rel=0.1)
    assert set(slow_ranks(effects)) == {3}
    assert slow_ranks(effects)[3] == pytest.approx(2.0, rel=0.15)
    assert set(slow_links(effects)) == {(1, 4)}


def test_healthy_networks_are_accused_in_less_than_one_run_of_a_hundred_and_slow_ones_are_found() -> None:
    random.seed(5)
    alarms = 0
    for _ in range(400):
        effects = polish(times(8, noise=0.10))
        alarms += bool(slow_ranks(effects) or slow_links(effects))
    assert alarms <= 4
    found = 0
    for _ in range(100):
        effects = polish(times(8, noise=0.10, l2_5=3.0))
        found += set(slow_links(effects)) == {(2, 5)} and not slow_ranks(effects)
    assert found >= 95


def test_of_ranks_with_one_link_each_the_link_is_told_and_neither_of_them() -> None:
    """Nodes of two ranks: within a node there is one link, and either end may be the slow one."""
    times = {(0, 1): 5e-4, **{(rank, rank + 1): 8e-5 * (1 + rank / 400) for rank in range(2, 16, 2)}}
    effects = polish(times)
    assert slow_ranks(effects) == {}
    assert set(slow_links(effects)) == {(0, 1)}


def test_of_two_ranks_nobody_is_the_slow_one() -> None:
    effects = polish({(0, 1): 5.0})
    assert slow_ranks(effects) == {}
    assert slow_links(effects) == {}


def played(values: dict[tuple[int, int], float], per_node: int, **more: object) -> Played:
    world = max(rank for pair in values for rank in pair) + 1
    meetings = tuple(
        Meeting(rank=rank, peer=peer, outcome="done", times={"8": [value] * 10})
        for (a, b), value in values.items() for rank, peer in ((a, b), (b, a))
    )  # fmt: skip
    given = {"world": world, "hosts": {rank: f"node{rank // per_node}" for rank in range(world)},
             "meetings": meetings, "told": tuple(range(world)), **more}  # fmt: skip
    return Played(**given)  # type: ignore[arg-type]


def test_a_node_whose_ranks_are_all_slow_to_others_is_the_node() -> None:
    random.seed(9)
    values = times(8)
    for pair in values:
        if (pair[0] // 2 == 1) != (pair[1] // 2 == 1):
            values[pair] *= 4.0
    (finding,) = findings_of(played(values, 2))
    assert finding.rule == "topology.node"
    assert finding.location.node == "node1"


def test_links_within_a_node_are_not_compared_with_those_between_nodes() -> None:
    random.seed(13)
    values = {pair: value * (1.0 if pair[0] // 8 == pair[1] // 8 else 30.0) for pair, value in times(16).items()}
    assert findings_of(played(values, 8)) == []
    values[0, 2] *= 5.0
    (finding,) = findings_of(played(values, 8))
    assert "between ranks 0 and 2" in finding.message
    assert "within a node" in finding.message


def test_links_of_another_kind_are_not_compared_either() -> None:
    random.seed(17)
    over = {pair: "NV18" if pair[0] // 2 == pair[1] // 2 else "SYS" for pair in combinations(range(8), 2)}
    values = {pair: value * (8.0 if over[pair] == "SYS" else 1.0) for pair, value in times(8).items()}
    assert findings_of(played(values, 8), over) == []


def test_who_is_gone_is_not_a_link_that_fails() -> None:
    good = played(times(4), 4)
    met = [one for one in good.meetings if 3 not in (one.rank, one.peer)]
    gone = (*met, *(Meeting(rank=rank, peer=3, outcome="absent") for rank in range(3)))
    (finding,) = findings_of(played(times(4), 4, meetings=gone, told=(0, 1, 2)))
    assert finding.rule == "topology.absent"
    assert finding.location.rank == 3
    broken = (
        *met,
        *(Meeting(rank=a, peer=b, outcome="failed", reason="Connection refused") for a, b in ((0, 3), (3, 0))),
    )
    (finding,) = findings_of(played(times(4), 4, meetings=broken))
    assert finding.rule == "topology.failed"
    assert "ranks 0 and 3 both live" in finding.message


MATRIX = """\
\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV12\tNV12\tSYS\tPXB\t0-31\t0\t\tN/A
GPU1\tNV12\t X \tNV12\tSYS\tPXB\t0-31\t0\t\tN/A
GPU2\tNV12\tNV12\t X \tSYS\tSYS\t32-63\t1\t\tN/A
GPU3\tSYS\tSYS\tSYS\t X \tSYS\t32-63\t1\t\tN/A
NIC0\tPXB\tPXB\tSYS\tSYS\t X \t\t\t\t
"""


def test_how_cards_are_connected_is_read_and_a_card_without_nvlink_is_told() -> None:
    found = kinds(MATRIX)
    assert found == {(0, 1): "NV12", (0, 2): "NV12", (0, 3): "SYS", (1, 2): "NV12", (1, 3): "SYS", (2, 3): "SYS"}
    (said,) = unequal(found)
    assert said.startswith("card 3")
    assert kinds("No devices were found") == {}


@pytest.mark.torch
@pytest.mark.slow
def test_of_eight_ranks_the_slow_pair_is_found() -> None:
    pytest.importorskip("torch")
    result = play(Match(python=sys.executable, ranks=8, sizes=(8,), repeats=6, per_node=8, slow_links=((2, 5),)))
    assert len(measurements(result)) == 28
    # This machine may be busy with something else, which slows other links down, too: but none as steadily.
    assert max(measurements(result), key=lambda row: row.low or 0.0).name == "link 2-5 8 B"
    assert [one for one in findings_of(result) if "between ranks 2 and 5" in one.message]


@pytest.mark.torch
@pytest.mark.slow
def test_of_eight_ranks_the_slow_node_is_found_though_a_rank_dies_midway() -> None:
    pytest.importorskip("torch")
    match = Match(
        python=sys.executable,
        ranks=8,
        sizes=(8,),
        repeats=6,
        per_node=2,
        slow_nodes=("node1",),
        dead_ranks=(7,),
        deadline=6.0,
    )
    # On a machine that is busy with other things the noise of a match can hide the node: one of three has to show it.
    for _ in range(3):
        began = time.monotonic()
        result = play(match)
        assert time.monotonic() - began < 240
        assert absent_ranks(result) == (7,)
        assert result.told == (0, 1, 2, 3, 4, 5, 6)
        told = findings_of(result)
        slow = {one.location.node for one in told if one.rule == "topology.node"}
        assert slow <= {"node1"}
        if slow:
            break
    assert slow == {"node1"}
    assert {one.location.rank for one in told if one.rule == "topology.absent"} == {7}
    assert not [one for one in told if one.rule == "topology.failed"]


@pytest.mark.torch
@pytest.mark.slow
def test_of_a_launched_job_the_living_answer_when_one_is_killed() -> None:
    pytest.importorskip("torch")
    keeper = Worker(sys.executable)
    try:
        port = keeper.ask("preflight.investigate.workers.group:keep", 120)
        line = [sys.executable, "-m", "preflight", "investigate", "topology", "--sizes", "8", "--deadline", "5",
                "--repeats", "6", "--starting", "30", "--format", "json"]  # fmt: skip
        given = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "3"}
        runs = []
        for rank in range(3):
            if rank == 2:
                given = {**given, "PYTHONPATH": given.get("PYTHONPATH", "")}
            runs.append(
                subprocess.Popen(
                    line, env={**given, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True, start_new_session=True
                )
            )
        time.sleep(0.5)
        os.killpg(runs[2].pid, signal.SIGKILL)  # before it came, or in the middle of it
        out = [run.communicate(timeout=300)[0] for run in runs]
        assert runs[0].returncode == runs[1].returncode == 1
        report = json.loads(out[0])
        assert [one["location"]["rank"] for one in report["findings"]] == [2]
        assert [row["name"] for row in report["measurements"]] == ["link 0-1 8 B"]
        assert out[1] == "", "one answer is enough"
    finally:
        keeper.kill()


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--ranks", "4", "--inject", "slow-lnk=1-2"],
        ["--ranks", "2", "--sizes", "big"],
        ["--ranks", "4", "--inject", "dead-rank=4"],
        ["--ranks", "4", "--inject", "slow-node=node1"],
        ["--ranks", "4", "--per-node", "2", "--inject", "slow-node=node2"],
    ],
)
def test_what_is_misused_is_said(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    assert main(["investigate", "topology", *words]) == 2


def test_a_slow_link_and_a_slow_rank_are_told_among_six_ranks() -> None:
    random.seed(11)
    alarms, links, ranks = 0, 0, 0
    for _ in range(200):
        healthy = polish(times(6, noise=0.10))
        alarms += bool(slow_ranks(healthy) or slow_links(healthy))
        links += set(slow_links(polish(times(6, noise=0.10, l2_5=5.0)))) == {(2, 5)}
        ranks += set(slow_ranks(polish(times(6, noise=0.10, r1=3.0)))) == {1}
    assert alarms <= 4
    assert links >= 190
    assert ranks >= 190


@pytest.mark.skipif(not hasattr(os, "getloadavg"), reason="this system tells no load")
@pytest.mark.parametrize(("load", "said"), [(1.0, False), (9.5, True)])
def test_processors_that_others_want_are_told(monkeypatch: pytest.MonkeyPatch, load: float, said: bool) -> None:
    from preflight.cli.investigate_.topology import _busy

    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert [("load 9.5" in one) for one in _busy()] == [True] * said


def test_a_system_that_tells_no_load_is_not_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    from preflight.cli.investigate_.topology import _busy

    def refuse() -> tuple[float, float, float]:
        raise OSError("Load averages are unobtainable")

    monkeypatch.setattr(os, "getloadavg", refuse, raising=False)
    assert _busy() == []


def test_a_rank_that_is_to_die_is_killed_in_its_meeting_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is gone while it waits for its turn is replaced, and the meeting would be held."""
    happened: list[str] = []

    class Clock:
        def __init__(self, after: float, act: Callable[..., None], given: tuple[object, ...]) -> None:
            happened.append(f"kill {given[0]}")

        def start(self) -> None:
            """Kill nobody."""

    class Asked:
        pid = 4711

        def ask(self, what: str, limit: float, /, **given: Any) -> Any:
            happened.append(what.rpartition(":")[2])
            return {"outcome": "done"}

    monkeypatch.setattr(matching.threading, "Timer", Clock)
    player = matching._Player(
        Match(python=sys.executable, ranks=4, dead_ranks=(1,)), 1, 4, ("127.0.0.1", 1), "run", None
    )
    player.worker = Asked()  # type: ignore[assignment]
    player._meetings(dict.fromkeys(range(4), "here"), None)
    assert happened == ["arrive", "meet", "arrive", "kill 4711", "meet"]
