"""Who began it where what failed belongs to one rank alone, and what it prints says little of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

Investigated = Callable[..., Incident]


@pytest.fixture
def incident_of(tmp_path: Path) -> Investigated:
    def investigated(**texts: str) -> Incident:
        for name, text in texts.items():
            path = tmp_path.joinpath(*name.split("__")).with_suffix(".log")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return diagnose([str(tmp_path)]).incident

    return investigated


def labelled(rank: int, *lines: str) -> str:
    return "".join(f"[rank{rank}]: {line}\n" for line in lines)


def lost_worker(rank: int, pid: int = 4400) -> str:
    return labelled(
        rank,
        "Traceback (most recent call last):",
        '  File "/job/train.py", line 61, in main',
        "    for batch in loader:",
        f"RuntimeError: DataLoader worker (pid(s) {pid}) exited unexpectedly",
    )


CLOSED = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.5]:4411"


def closed(rank: int) -> str:
    return labelled(
        rank,
        "Traceback (most recent call last):",
        '  File "/job/train.py", line 70, in main',
        "    loss.backward()",
        CLOSED,
    )


class TestWhoseLoaderWorkerEnded:
    def test_a_loader_worker_is_its_own_and_tells_of_no_other_rank(self, incident_of: Investigated) -> None:
        found = incident_of(job=closed(0) + lost_worker(2) + closed(1) + closed(3))
        assert found.culprit.ranks == (2,)

    def test_where_all_lost_theirs_it_is_none_in_particular(self, incident_of: Investigated) -> None:
        found = incident_of(job="".join(lost_worker(rank, 4400 + rank) for rank in range(4)))
        assert found.culprit.ranks == ()

    def test_a_rank_that_names_a_cause_is_not_behind_one_whose_worker_ended(self, incident_of: Investigated) -> None:
        full = labelled(1, "OSError: [Errno 28] No space left on device: '/scratch/cache'")
        found = incident_of(job=closed(0) + full + lost_worker(2) + closed(3))
        assert 1 in found.culprit.ranks


class TestWhoAnswersInAWatchedBarrier:
    GAVE_UP = "RuntimeError: Rank {} failed to pass monitoredBarrier in 5000 ms"
    LOST = (
        "RuntimeError: Rank {} successfully reached monitoredBarrier, but received errors while waiting for send/recv "
        "from rank 0. Please check rank 0 logs for faulty rank."
    )

    def test_it_gave_up_for_the_one_it_names(self, incident_of: Investigated) -> None:
        lost = {f"rank_{rank}": labelled(rank, self.LOST.format(rank)) for rank in (1, 2, 3, 4)}
        late = labelled(5, CLOSED)
        found = incident_of(rank_0=labelled(0, self.GAVE_UP.format(5)), rank_5=late, **lost)
        assert found.culprit.ranks == (5,)

    def test_where_it_names_none_it_is_the_one_that_is_gone(self, incident_of: Investigated) -> None:
        lost = {f"rank_{rank}": labelled(rank, self.LOST.format(rank)) for rank in (1, 2, 3)}
        found = incident_of(rank_0="step 5 loss 2.1\n", **lost)
        assert found.culprit.ranks == (0,)


class TestWhatIsNumberedLikeItsRank:
    """A label before each line, and of most of them it is known which rank it is."""

    @staticmethod
    def lines(label: str, rank: int, *lines: str) -> str:
        return "".join(f"{label}: {line}\n" for line in ("step 4 loss 2.1", "step 5 loss 2.0", *lines)) + "".join(
            f"{label}: [rank{rank}]: {line}\n" for line in (CLOSED,) if not lines
        )

    ABORTED = ("terminate called after throwing an instance of 'gloo::EnforceNotMet'", "  what():  bad tensor")

    def test_what_is_left_bears_its_number(self, incident_of: Investigated) -> None:
        told = [self.lines(f"gpu{rank}", rank) for rank in (0, 1, 3)]
        found = incident_of(job=self.lines("gpu2", 2, *self.ABORTED) + "".join(told))
        assert found.ranks_seen == (0, 1, 2, 3)

    def test_not_where_others_bear_other_numbers(self, incident_of: Investigated) -> None:
        told = [self.lines(f"gpu{3 - rank}", rank) for rank in (0, 1, 3)]
        found = incident_of(job=self.lines("gpu1", 2, *self.ABORTED) + "".join(told))
        assert 2 not in found.ranks_seen


class TestWhereTheStoreIsAndTheNodes:
    @staticmethod
    def refused(second: int) -> str:
        says = "[c10d] The client socket has timed out after 15000ms while trying to connect to (10.0.0.1, 29500)."
        return f"[E1128 00:19:{second:02d}.124210833 socket.cpp:1028] {says}\n"

    def test_a_store_that_the_first_rank_does_not_reach_either_is_that_of_none(self, incident_of: Investigated) -> None:
        ranks = {f"rank_{rank}": self.refused(second) for rank, second in enumerate((14, 33, 20, 5))}
        found = incident_of(**ranks)
        assert (found.culprit.ranks, found.culprit.nodes) == ((), ())

    def test_a_rank_that_others_miss_may_be_on_the_node_that_names_a_cause(self, incident_of: Investigated) -> None:
        waits = "torch.distributed.DistStoreError: wait timeout after 10000ms, keys: /default_pg/0//cpu//0/2"
        address = "RuntimeError: Unable to find address for: ib0"
        here = ["h1: starting", "h1: reading settings", f"h1: {waits}"] * 2
        there = ["h2: starting", "h2: reading settings", f"h2: {address}"] * 2
        found = incident_of(job="\n".join([*here, *there, ""]))
        assert found.culprit.nodes == ("h2",)


class TestWhoComesLate:
    """Horovod names those that came for a tensor, and tells of them again and again; how many there are nothing tells."""

    SAYS = (
        "WARNING: One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting "
        "for remainder of ranks for more than 60 seconds.\n"
    )

    def of(self, *lists: str) -> str:
        return "".join(f"{self.SAYS}Stalled ops: HorovodAllreduce_a_0 [ready ranks: {one}]\n" for one in lists)

    def test_who_came_since_is_not_missed(self, incident_of: Investigated) -> None:
        assert incident_of(job=self.of("0, 1, 3", "0, 1, 2, 3")).culprit.ranks == ()

    def test_who_has_not_come_at_last_is(self, incident_of: Investigated) -> None:
        assert incident_of(job=self.of("0, 3", "0, 1, 3")).culprit.ranks == (2,)
