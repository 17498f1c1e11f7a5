"""How sure a culprit is where what is there is a part of a log, or where all ranks ended alike without a word."""

from __future__ import annotations

from pathlib import Path

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Culprit

TIMED_OUT = (
    "[rank{rank}]:[E424 01:11:21.16{rank}832730 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=112, NumelOut=112, Timeout(ms)=1800000) ran for 1800010 milliseconds before timing out.\n"
)
TABLE = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n======\ntrain.py FAILED\n------\nFailures:\n{others}------\nRoot Cause (first observed failure):\n{first}======\n"  # fmt: skip
ENTRY = "[{at}]:\n  time      : 2026-06-14_22:36:{second:02d}\n  host      : gn-04\n  rank      : {rank} (local_rank: {rank})\n  exitcode  : -6 (pid: 23859{rank})\n  error_file: <N/A>\n  traceback : Signal 6 (SIGABRT) received by PID 23859{rank}\n"  # fmt: skip


def told(folder: Path, text: str) -> Culprit:
    path = folder / "log.txt"
    path.write_text(text, encoding="utf-8")
    return diagnose([str(path)]).incident.culprit


def aborted(seconds: tuple[int, int, int]) -> str:
    entries = [ENTRY.format(at=at, second=second, rank=at) for at, second in enumerate(seconds)]
    return TABLE.format(first=entries[0], others="".join(entries[1:]))


def test_a_rank_of_whose_watchdog_an_excerpt_holds_no_line_is_named_with_less_certainty(tmp_path: Path) -> None:
    lines = "".join(TIMED_OUT.format(rank=rank) for rank in (0, 1, 2, 3, 5))
    excerpt = told(tmp_path, lines)
    started = "".join(f"[rank{rank}]: step {step} of 900, loss 2.{step}\n" for step in range(9) for rank in range(6))
    whole = told(tmp_path, started + lines)
    assert excerpt.ranks == whole.ranks == (4,)
    assert excerpt.confidence < 0.8 < whole.confidence


def test_ranks_that_all_aborted_in_the_same_second_without_a_word_have_no_culprit(tmp_path: Path) -> None:
    culprit = told(tmp_path, aborted((10, 10, 10)))
    assert culprit.ranks == ()
    assert "all 3 ranks ended by the same signal" in culprit.reasons[0].text
    assert culprit.confidence < 0.8


def test_the_one_that_aborted_long_before_the_others_began_it(tmp_path: Path) -> None:
    assert 0 in told(tmp_path, aborted((10, 41, 41))).ranks
