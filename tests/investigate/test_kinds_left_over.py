"""What small parts of a log decide: whose kill is the end of a step, which start is told, what a health event names."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

Told = Callable[..., Incident]
SRUN = "srun: error: "
REQUEUE = "slurmstepd: error: *** JOB 41 ON g1 CANCELLED AT 2026-11-20T10:00:25 DUE TO JOB REQUEUE ***\n"
CUDNN = "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED\n"
CUBLAS = "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle, opa, opb)`\n"
FATAL = {"checkName": "GpuMemWatch", "message": "GPU had an error (XID 95)", "errorCode": ["DCGM_FR_UNCONTAINED_ERROR"]}


@pytest.fixture
def told(tmp_path: Path) -> Told:
    def investigated(text: str, name: str = "run.log") -> Incident:
        (tmp_path / name).write_text(text)
        incident = diagnose(tmp_path).incident
        assert incident is not None
        return incident

    return investigated


def step(number: int, at: str) -> str:
    return f"2026-11-20 {at},101 - INFO - step {number} loss 2.{99 - number % 90}\n"


def raised(says: str, code: str = "loss.backward()") -> str:
    frame = f'  File "/job/train.py", line 8, in main\n    {code}\n'
    return "Traceback (most recent call last):\n" + frame + says


def test_a_task_that_is_killed_with_its_step_is_no_root(told: Told) -> None:
    log = f"{SRUN}n2: task 5: Exited with exit code 14\n{SRUN}n1: tasks 0-3: Killed\n{SRUN}n2: tasks 4,6-7: Killed\n"
    incident = told(log)
    assert (incident.category, incident.signature, incident.culprit.ranks) == ("other", "exit.error", (5,))
    assert incident.symptom_category == "other"
    assert incident.first_failure is not None
    assert incident.first_failure.rank == 5


def test_a_task_that_is_killed_before_the_others_fail_is_the_root(told: Told) -> None:
    log = f"{SRUN}n2: task 5: Killed\n{SRUN}n1: tasks 0-3: Exited with exit code 1\n"
    incident = told(log)
    assert (incident.category, incident.signature, incident.culprit.ranks) == ("oom", "exit.killed", (5,))


def test_a_job_that_is_put_back_into_the_queue_is_ended_from_outside(told: Told) -> None:
    incident = told(step(100, "10:00:00") + step(110, "10:00:20") + REQUEUE)
    assert (incident.category, len(incident.attempts)) == ("preemption", 1)


def test_what_is_said_long_behind_a_requeue_is_of_the_next_start(told: Told) -> None:
    late = step(120, "10:00:40")  # steps go on until the job is killed
    again = step(130, "10:15:20") + raised(
        "RuntimeError: shape '[7, 3]' is invalid for input of size 20\n", "x.view(7, 3)"
    )
    incident = told(step(110, "10:00:20") + REQUEUE + late + again)
    assert [one.category for one in incident.attempts] == ["preemption", "usercode"]
    assert incident.category == "usercode"


def test_what_a_requeue_breaks_off_is_of_its_own_start(told: Told) -> None:
    lost = raised("RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.4]:37531\n")
    again = "".join(step(number, f"10:{number - 100}:20") for number in range(115, 125))
    incident = told(step(120, "10:00:20") + REQUEUE + lost + again)
    assert [one.category for one in incident.attempts] == ["preemption", "none"]


def test_an_event_that_a_logger_hands_on_in_json_is_read_with_its_node(told: Told) -> None:
    head = {"time": "2026-02-18T06:34:20.1Z", "level": "INFO"}
    lines = [
        {**head, "msg": "step 10 loss 2.1", "host": f"gpu-{rank // 2}", "rank": rank, "local_rank": rank % 2}
        for rank in range(4)
    ]
    closed = "misc/socket.cc:57 NCCL WARN socketProgress: Connection closed by remote peer gpu-1<40521>"
    lines += [
        {**head, "msg": "health event", "node": "gpu-1", "details": {"event": FATAL}},
        {**head, "msg": closed, "host": "gpu-0", "rank": 1, "local_rank": 1},
    ]
    incident = told("".join(json.dumps(line) + "\n" for line in lines))
    assert (incident.category, incident.signature) == ("hardware", "hardware.dcgm-health")
    assert (incident.culprit.ranks, incident.culprit.nodes) == ((2, 3), ("gpu-1",))
    assert incident.first_failure is not None
    assert incident.first_failure.rank in (2, 3)


def evaluated(losses: list[str]) -> str:
    rows = (
        f"{{'loss': {3 - at / 10:.2f}, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': 0.{at}}}\n"
        f"{{'eval_loss': {loss}, 'eval_runtime': 1.2, 'eval_samples_per_second': 73.5, 'epoch': 0.{at}}}\n"
        for at, loss in enumerate(losses, 1)
    )
    return (
        "".join(rows) + "{'train_runtime': 20.1, 'train_samples_per_second': 10.0, 'train_loss': 1.9, 'epoch': 1.0}\n"
    )


@pytest.mark.parametrize(
    ("losses", "category"),
    [(["nan"] * 5, "numerical"), (["nan", "2.3", "nan", "2.2", "2.1"], "none"), (["2.4", "2.3"], "none")],
)
def test_evaluations_none_of_which_has_a_number(told: Told, losses: list[str], category: str) -> None:
    assert told(evaluated(losses)).category == category


@pytest.mark.parametrize(
    ("line", "category"),
    [
        ("train.py: error: unrecognized arguments: --local-rank=0", "usercode"),
        ("train.py: error: argument --update: expected one argument", "usercode"),
        ("torchrun: error: argument --nnodes: expected one argument", "environment"),
        ("launch.py: error: argument --master-port/--master_port: invalid int value: ''", "environment"),
        ("mamba: error: unrecognized arguments: -y -c conda-forge colmap", "environment"),
    ],
)
def test_whose_parser_refuses_an_option(told: Told, line: str, category: str) -> None:
    assert told(f"usage: a [-h]\n{line}\n").category == category


@pytest.mark.parametrize(
    ("error", "early", "late"), [(CUDNN, "environment", "hardware"), (CUBLAS, "usercode", "usercode")]
)
def test_a_library_that_worked_for_many_steps_fits(told: Told, error: str, early: str, late: str) -> None:
    steps = "".join(f"step {number} | loss 2.31 | lr 1e-4\n" for number in range(1200, 1203))
    assert told(raised(error)).category == early
    incident = told(steps + raised(error))
    assert incident.category == late
    chances = {one.cause: one.probability for one in incident.hypotheses}
    assert chances["version-mismatch"] < chances["device-fault"]


def adversaries(won: bool) -> str:
    draw = random.Random(5)
    lines = []
    for at in range(300):
        gone = max(0.0, at - 120) / 180 if won else 0.0
        made, judged = (1 + 8 * gone) * draw.uniform(0.7, 1.4), math.exp(-6 * gone) * draw.uniform(0.5, 0.8)
        lines.append(f"step {at} g_loss {made:.4f} d_loss {judged:.5f}\n")
    return "".join(lines)


def test_a_discriminator_that_has_won(told: Told) -> None:
    incident = told(adversaries(won=True))
    assert (incident.category, incident.signature) == ("numerical", "series.divergence")
    assert "the discriminator has won" in incident.headline
    assert told(adversaries(won=False)).category == "none"


def test_a_generator_whose_loss_is_no_number_at_the_end(told: Told) -> None:
    bar = "Epoch 41/250: 100%|████| 9375/9375 [07:11<00:00, 21.73it/s, DR=713, DF={}, G={}, GP=2.16e+4]\n"
    assert told(bar.format("nan", "nan")).category == "numerical"
    assert told(bar.format("-21.4", "3.1")).category == "none"
