"""A file that several jobs of a scheduler wrote: the last one is judged."""

from __future__ import annotations

from pathlib import Path

from preflight.investigate.diagnose import diagnose

FIRST = """\
step 1 loss 2.0
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
ModuleNotFoundError: No module named 'labkit'
slurmstepd: error: *** JOB 41 ON node01 CANCELLED AT 2025-08-21T02:35:44 ***
"""
SECOND = """\
step 1 loss 2.0
step 2 loss 1.9
slurmstepd: error: *** JOB 42 ON node01 CANCELLED AT 2025-08-21T03:35:44 DUE TO TIME LIMIT ***
"""


def test_the_last_job_is_judged(tmp_path: Path) -> None:
    log = tmp_path / "slurm.out"
    log.write_text(FIRST + SECOND, encoding="utf-8")
    incident = diagnose([log]).incident
    assert incident is not None
    assert incident.category == "preemption"
    assert [attempt.category for attempt in incident.attempts] == ["environment", "preemption"]


_DIED = """\
step 1 loss 2.0
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
ModuleNotFoundError: No module named 'labkit'
"""
_RAN = "".join(f"step {step} loss 2.0\n" for step in range(1, 9))


def test_a_rank_that_died_and_speaks_again_was_started_anew(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"rank_{rank}.log").write_text(_DIED + _RAN, encoding="utf-8")
    incident = diagnose(tmp_path).incident
    assert incident is not None
    first, _ = incident.attempts
    assert first.category == "environment"


def test_a_rank_that_logs_what_it_dies_of_was_started_once(tmp_path: Path) -> None:
    raised = _DIED.partition("\n")[2]
    for rank in range(2):
        (tmp_path / f"rank_{rank}.log").write_text(_RAN + raised + "tracker: run finished\n" + raised, encoding="utf-8")
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert len(incident.attempts) == 1
    assert incident.attempts[0].last_step == 8


def _report(end: str) -> str:
    return f"""
------------------------------------------------------------
# LSBATCH: User input
python train.py
------------------------------------------------------------

{end}

Resource usage summary:

    CPU time :   120.00 sec.

The output (if any) is above this job summary.

"""


def test_each_report_of_a_batch_system_ends_a_job(tmp_path: Path) -> None:
    log = tmp_path / "train_%J.out"
    log.write_text(_DIED + _report("Exited with exit code 1.") + _RAN + _report("Successfully completed."))
    healed = diagnose([log]).incident
    assert healed is not None
    assert (healed.category, [attempt.category for attempt in healed.attempts]) == ("none", ["environment", "none"])
    log.write_text(_RAN + _report("Successfully completed.") + _DIED + _report("Exited with exit code 1."))
    failed = diagnose([log]).incident
    assert failed is not None
    assert failed.category == "environment"
