"""Runs that somebody interrupts: their processes break off what they were at, and say so before and after."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

STEPS = "".join(f"step {number}: loss 2.{number}\n" for number in range(20))
TRACE = 'Traceback (most recent call last):\n  File "{path}", line 9, in {name}\n    wait()\n{error}\n'
INTERRUPT = TRACE.format(path="train.py", name="main", error="KeyboardInterrupt")


def told(folder: Path, text: str) -> Incident:
    (folder / "run.log").write_text(text, encoding="utf-8")
    return diagnose([str(folder / "run.log")]).incident


@pytest.mark.parametrize(
    "error",
    [
        "EOFError",
        "_pickle.UnpicklingError: pickle data was truncated",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "RuntimeError: release unlocked lock",
        "RuntimeError: DataLoader worker (pid 41) is killed by signal: Hangup. ",
    ],
)
def test_what_an_interrupt_breaks_off_is_no_cause(tmp_path: Path, error: str) -> None:
    broken = TRACE.format(path="/lib/python3.10/multiprocessing/connection.py", name="recv", error=error)
    assert told(tmp_path, STEPS + broken + INTERRUPT + broken).category == "preemption"


def test_what_is_raised_while_an_interrupt_is_handled_follows_from_it(tmp_path: Path) -> None:
    handled = "\nDuring handling of the above exception, another exception occurred:\n\n"
    late = TRACE.format(path="/env/torch/_inductor/compile_worker.py", name="shutdown", error="TimeoutError: timed out")
    assert told(tmp_path, STEPS + INTERRUPT + handled + late).category == "preemption"
    assert told(tmp_path, STEPS + late).category != "preemption"


def test_an_interrupt_that_a_module_of_cpp_hands_on_is_one(tmp_path: Path) -> None:
    handed_on = TRACE.format(path="train.py", name="<module>", error="RuntimeError: {}")
    assert told(tmp_path, STEPS + handed_on.format("KeyboardInterrupt: ")).category == "preemption"
    assert told(tmp_path, STEPS + handed_on.format("KeyboardInterrupt is not caught")).category == "usercode"


def test_ranks_that_wait_for_interrupted_ones_are_their_consequence(tmp_path: Path) -> None:
    wait = "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, Timeout(ms)=600000)"
    label = "[rank0]:[E ProcessGroupNCCL.cpp:523] "
    assert told(tmp_path, f"{STEPS}{INTERRUPT}{label}{wait}\n").category == "preemption"
    assert told(tmp_path, f"{STEPS}{label}{wait}\n{INTERRUPT}").category == "network"


def test_a_cause_of_its_own_stands_beside_an_interrupt(tmp_path: Path) -> None:
    cause = TRACE.format(path="train.py", name="<module>", error="KeyError: 'labels'")
    assert told(tmp_path, STEPS + cause + INTERRUPT).category == "usercode"


def test_a_worker_that_is_killed_is_short_of_memory_and_one_that_hangs_up_is_not(tmp_path: Path) -> None:
    line = "RuntimeError: DataLoader worker (pid 41) is killed by signal: {}.\n"
    assert told(tmp_path, line.format("Killed")).category == "oom"
    assert told(tmp_path, line.format("Hangup")).category == "preemption"


def test_a_task_of_ray_raises_what_stands_in_brackets(tmp_path: Path) -> None:
    text = TRACE.format(
        path="main_ppo.py",
        name="main",
        error="ray.exceptions.RayTaskError(NotImplementedError): ray::main_task() (pid=19443, ip=172.17.0.4)",
    )
    assert told(tmp_path, text).category == "usercode"


def test_steps_behind_the_death_of_one_script_are_those_of_another(tmp_path: Path) -> None:
    died = TRACE.format(path="train.py", name="<module>", error="KeyboardInterrupt")
    epochs = "".join(f"[Epoch:{number}/50]: loss1:0.5609 loss2:1.7687 pseloss:0.05\n" for number in range(1, 6))
    assert told(tmp_path, epochs + died + epochs).category == "none"


def test_scores_that_follow_the_last_step_show_that_nothing_hangs(tmp_path: Path) -> None:
    lines = [f"2024-08-17 00:00:{second:02d},000 INFO step {second}: loss 0.5" for second in range(50)]
    lines += ["2024-08-17 01:00:00,000 INFO ****************Evaluation done.*****************"]
    assert told(tmp_path, "\n".join(lines)).category == "none"


def test_the_rank_in_a_message_of_the_rank_itself_is_known(tmp_path: Path) -> None:
    text = "AssertionError: Rank 11: found NaN in local grad norm in backward pass. Device: 3\n"
    incident = told(tmp_path, text)
    assert incident.category == "numerical"
    assert incident.first_failure is not None
    assert incident.first_failure.rank == 11


def test_a_launcher_says_no_more_than_the_interrupt(tmp_path: Path) -> None:
    failed = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \ntrain.py FAILED\n"
    line = "RuntimeError: DataLoader worker (pid 41) is killed by signal: Hangup. \n"
    assert told(tmp_path, STEPS + line + failed).category == "preemption"


def test_what_a_program_was_warned_of_did_not_end_what_a_person_stopped(tmp_path: Path) -> None:
    said = "CUDA initialization: The NVIDIA driver on your system is too old (found version 11040)."
    warning = f"/env/torch/cuda/__init__.py:141: UserWarning: {said}\n  return torch._C._cuda_getDeviceCount() > 0\n"
    assert told(tmp_path, warning + STEPS + INTERRUPT).category == "preemption"
    raised = TRACE.format(path="train.py", name="main", error=f"RuntimeError: {said.partition(': ')[2]}")
    assert told(tmp_path, STEPS + raised + INTERRUPT).category == "environment"
