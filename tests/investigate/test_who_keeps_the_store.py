"""Who began it where the first rank, which keeps the store, gives up for others or names a cause of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

Investigated = Callable[[Mapping[str, str]], Incident]
WAITED = "torch.distributed.DistStoreError: Timed out after 16 seconds waiting for clients. 3/4 clients joined."
GONE = (
    "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. "
    "Did the remote server shutdown or crash?"
)
REFUSED = "torch.distributed.DistNetworkError: The client socket has timed out after 22000ms while trying to connect to (10.1.0.1, 31871)."
LACKING = "ModuleNotFoundError: No module named 'tilekit'"


@pytest.fixture
def incident_of(tmp_path: Path) -> Investigated:
    def investigated(texts: Mapping[str, str]) -> Incident:
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
        return diagnose([str(tmp_path)]).incident

    return investigated


def raised(says: str, label: str = "") -> str:
    lines = ("Traceback (most recent call last):", '  File "/job/train.py", line 20, in main', says)
    return "".join(f"{label}{line}\n" for line in lines)


def test_who_gives_up_for_others_did_not_take_the_store_away(incident_of: Investigated) -> None:
    pods = {f"job-worker-{rank}.log": raised(says) for rank, says in ((0, WAITED), (2, GONE), (3, GONE))}
    assert incident_of({**pods, "job-worker-1.log": ""}).culprit.ranks == (1,)


def test_who_ends_without_a_word_took_the_store_away(incident_of: Investigated) -> None:
    pods = {f"job-worker-{rank}.log": raised(GONE) for rank in (1, 2, 3)}
    assert incident_of({**pods, "job-worker-0.log": "up\n"}).culprit.ranks == (0,)


@pytest.mark.parametrize(("says", "culprit"), [((LACKING, LACKING), (0, 1)), ((LACKING, REFUSED), (0,))])
def test_who_cannot_reach_the_store_tells_of_a_cause_that_its_keeper_names(
    incident_of: Investigated, says: tuple[str, str], culprit: tuple[int, ...]
) -> None:
    told = "".join(raised(one, f"{rank}: ") for rank, one in enumerate((*says, REFUSED, REFUSED)))
    assert incident_of({"slurm-11.out": told}).culprit.ranks == culprit
