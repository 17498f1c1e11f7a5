"""Whole folders of small jobs as torchrun leaves them: what is said first, what is done next, and what is no consequence."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

STEP = "2026-11-20 10:00:{0:02},000 INFO step {0} loss {1:.4f} step_time 0.0100\n"
CLOSED = (
    "[rank{0}]: Traceback (most recent call last):\n"
    '[rank{0}]:   File "/app/train.py", line 37, in <module>\n'
    "[rank{0}]:     loss.backward()\n"
    "[rank{0}]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] "
    "Connection closed by peer [127.0.0.1]:3992\n"
)
WAITED = CLOSED.replace(
    "pair.cc:553] Connection closed by peer [127.0.0.1]:3992",
    "unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation to complete",
)
API = "torch/distributed/elastic/multiprocessing/api.py"


def steps(last: int) -> str:
    return "".join(STEP.format(step, 3 - step / 10) for step in range(last))


def job(folder: Path, culprit: str, others: str, code: int, failed: int = 1) -> Incident:
    """Write a job of three ranks, of which rank 1 prints something else than the others; its agent sees one of them fail first."""
    logs = folder / "logs" / "none_ab12" / "attempt_0"
    for rank in range(3):
        (logs / str(rank)).mkdir(parents=True)
        (logs / str(rank) / "stdout.log").write_text(steps(12))
        (logs / str(rank) / "stderr.log").write_text(culprit if rank == 1 else others.format(rank))
    agent = "".join(
        f"W1120 10:00:21.500000 99 {API}:1028] Sending process 10{rank} closing signal SIGTERM\n"
        for rank in range(3)
        if rank != failed
    )
    agent += (
        f"E1120 10:00:21.700000 99 {API}:1002] failed (exitcode: {code}) local_rank: {failed} (pid: 10{failed}) of binary: python\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        "=======================================================\ntrain.py FAILED\n"
        "-------------------------------------------------------\nFailures:\n  <NO_OTHER_FAILURES>\n"
        "-------------------------------------------------------\nRoot Cause (first observed failure):\n[0]:\n"
        f"  time      : 2026-11-20_10:00:21\n  host      : node0\n  rank      : {failed} (local_rank: {failed})\n"
        f"  exitcode  : {code} (pid: 10{failed})\n  error_file: <N/A>\n"
        "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n"
        "=======================================================\n"
    )
    (folder / "agent.log").write_text(agent)
    incident = diagnose(folder).incident
    assert incident is not None
    return incident


def said(incident: Incident) -> list[str]:
    return [one.text for one in incident.next] + [one.remedy for one in incident.remedies]


def test_an_exit_code_without_a_word_is_named_and_no_message_is_followed(tmp_path: Path) -> None:
    incident = job(tmp_path, "", CLOSED, 3)
    assert incident.culprit.ranks == (1,)
    assert "exit code 3" in incident.headline
    assert "handle-the-message" not in said(incident)
    assert any("sys.exit" in text for text in said(incident))
    quotes = [quote.text for reason in incident.culprit.reasons for quote in reason.quotes]
    assert not any("To enable traceback" in text for text in quotes)
    assert any("step 11 loss" in text for text in quotes)  # the last line of a rank that says nothing


@pytest.mark.parametrize(
    ("code", "advice"), [(-11, "PYTHONFAULTHANDLER"), (-15, "Ask the scheduler"), (-8, "empty batch")]
)
def test_a_signal_alone_is_answered_as_its_words_are(code: int, advice: str, tmp_path: Path) -> None:
    incident = job(tmp_path, "", CLOSED, code)
    assert incident.culprit.ranks == (1,)
    assert any(advice in one.text for one in incident.next)
    assert any(one.discriminated_by for one in incident.hypotheses)


def test_one_that_was_interrupted_is_the_cause_and_no_consequence(tmp_path: Path) -> None:
    interrupted = '[rank1]: Traceback (most recent call last):\n[rank1]:   File "/app/train.py", line 4, in f\n[rank1]: KeyboardInterrupt\n'
    incident = job(tmp_path, interrupted, CLOSED, -2)
    assert (incident.category, incident.culprit.ranks) == ("preemption", (1,))
    assert incident.signature == "exception.KeyboardInterrupt"
    assert not any("KeyboardInterrupt" in one.text for one in incident.consequences)
    assert "handle-the-message" not in said(incident)
    assert any("Ask who stopped it" in text for text in said(incident))


def test_why_a_run_hung_is_that_ranks_waited_and_not_that_they_ended(tmp_path: Path) -> None:
    incident = job(tmp_path, "", WAITED, 1, failed=2)
    first, second, *rest = incident.five_whys
    assert (first.question, first.known) == ("Why did the run hang?", "observed")
    assert first.answer is not None
    assert first.answer.startswith("A rank did not send or receive in time")
    assert first.answer.endswith("ranks 0, 2")
    assert second.answer is not None
    assert second.answer.startswith("rank 1")
    # What others say of it is no answer to what happened to it.
    assert rest[0].question.startswith("What happened to rank 1")
    assert all(why.known != "observed" for why in rest)


def test_a_rank_that_was_alive_when_it_was_stopped_did_not_die(tmp_path: Path) -> None:
    incident = job(tmp_path, "", WAITED, 1, failed=0)
    assert incident.culprit.ranks == (1,)
    dead = next(one for one in incident.hypotheses if one.cause == "peer-dead")
    assert [reason.weight for reason in dead.reasons if reason.text.startswith("rank 1 had not ended")] == [-2.0]
    assert not any("exit codes of all ranks" in one.text for one in incident.next)


def test_a_loss_that_is_no_number_to_the_end_was_not_recovered_from(tmp_path: Path) -> None:
    (tmp_path / "rank_0.log").write_text(
        steps(12) + "".join(f"2026-11-20 10:00:{step},000 INFO step {step} loss nan step_time 0.0100\n" for step in range(12, 30))
        + "2026-11-20 10:00:31,000 INFO training done\n"
    )  # fmt: skip
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert (incident.category, incident.state) == ("numerical", "ended")
    assert not incident.recovered
    assert not any("log of every rank" in one.text for one in incident.next)


def stack(pid: int, *frames: str) -> str:
    lines = "".join(f"    {frame}\n" for frame in frames)
    return f'Process {pid}: python train.py\nPython v3.11.7 (/usr/bin/python3.11)\n\nThread {pid} (active): "MainThread"\n{lines}'


WAITS = ("all_reduce (torch/distributed/distributed_c10d.py:2810)", "step (train.py:42)", "<module> (train.py:99)")


def test_stacks_that_were_taken_tell_causes_apart_and_are_not_asked_for_again(tmp_path: Path) -> None:
    for rank in (0, 2):
        (tmp_path / f"rank_{rank}.txt").write_text(stack(40 + rank, *WAITS))
    (tmp_path / "rank_1.txt").write_text(
        stack(41, "read (ssl.py:1167)", "get_batch (data.py:12)", "<module> (train.py:99)")
    )
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert (incident.state, incident.culprit.ranks) == ("hung", (1,))
    assert incident.hypotheses[0].cause == "slow-rank"
    causes = {one.cause: one.probability for one in incident.hypotheses}
    assert causes["peer-dead"] < 0.05  # who has a stack is alive
    assert not any("stacks of all ranks" in one.text for one in incident.next)


def test_stacks_in_different_collectives_speak_for_different_calls(tmp_path: Path) -> None:
    for rank in (0, 2):
        (tmp_path / f"rank_{rank}.txt").write_text(stack(40 + rank, *WAITS))
    barrier = ("barrier (torch/distributed/distributed_c10d.py:4711)", "save (train.py:61)", "<module> (train.py:99)")
    (tmp_path / "rank_1.txt").write_text(stack(41, *barrier))
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert incident.hypotheses[0].cause == "collective-mismatch"


def test_what_is_quoted_first_is_by_the_rank_that_is_named_with_it(tmp_path: Path) -> None:
    incident = job(tmp_path, "", WAITED, 1, failed=2)
    first = incident.first_failure
    assert first is not None
    assert first.rank == 2
    assert first.text is not None
    assert first.text.startswith("[rank2]")
    assert "/2/stderr.log" in (first.path or "")


def test_who_only_waited_is_among_the_consequences(tmp_path: Path) -> None:
    incident = job(tmp_path, "", WAITED, 1, failed=2)
    waited = next(one for one in incident.consequences if one.text.startswith("A rank did not send"))
    assert waited.ranks == (0, 2)


def test_the_trees_know_that_a_job_that_hung_is_over(tmp_path: Path) -> None:
    job(tmp_path, "", WAITED, 1, failed=2)
    report = diagnose(tmp_path)
    assert report.incident is not None
    assert report.incident.state == "hung"
    assert report.walk is not None
    assert [step.answer for step in report.walk.steps][:2] == ["no", "no"]
    assert report.walk.leaf is not None
    assert report.walk.leaf.id == "network-rank"
