"""Step times in the words of trainers."""

from __future__ import annotations

import pytest

from preflight.errors import UsageError
from preflight.plan.calibration.logs import read_log

LINES = [
    (" iteration 20/100 | elapsed time per iteration (ms): 812.5 | learning rate: 1e-4", "seconds", 0.8125),
    ("[rank0] step: 10  loss: 7.1  memory: 40.1GiB(42%)  tps: 7,022  tflops: 350.1  mfu: 35.4%", "tokens_per_gpu", 7022.0),
    ("iter 100: loss 3.2, time 135.04ms, mfu 40.1%", "seconds", 0.13504),
    ("{'loss': 2.1, 'step_time': 1.25}", "seconds", 1.25),
    ('{"step": 3, "step_time_ms": 1250}', "seconds", 1.25),
    ("step_time=850 ms", "seconds", 0.85),
    ("tokens_per_second_per_gpu: 3155.2", "tokens_per_gpu", 3155.2),
    ("tokens/sec/gpu: 3155", "tokens_per_gpu", 3155.0),
    ("throughput tokens_per_sec=81920", "tokens", 81920.0),
    ("'train_samples_per_second': 12.5", "samples", 12.5),
    ("train_steps_per_second = 0.5", "steps", 0.5),
    (" 10%|#         | 10/100 [00:12<01:50,  1.23s/it]", "seconds", 1.23),
    (" 10%|#         | 10/100 [00:12<01:50,  3.20it/s]", "steps", 3.2),
]  # fmt: skip


@pytest.mark.parametrize(("line", "what", "value"), LINES, ids=[line[:30] for line, _, _ in LINES])
def test_what_a_line_says(line: str, what: str, value: float) -> None:
    found = read_log(line, "train.log")
    assert (found.what, found.value) == (what, pytest.approx(value))


def test_the_first_half_is_warm_up() -> None:
    text = "\n".join(f"step_time: {seconds}" for seconds in (9.0, 8.0, 5.0, 1.0, 1.1, 0.9))
    assert read_log(text, "train.log").value == 1.0


def test_seconds_follow_from_every_kind() -> None:
    # 64 samples of 2,048 tokens on 8 GPUs in 2 s are 8,192 tokens a second and GPU.
    for line in (
        "step_time: 2.0",
        "tps: 8192",
        "tokens_per_sec: 65536",
        "samples_per_second: 32",
        "steps_per_second: 0.5",
    ):
        assert read_log(line, "train.log").seconds(64, 2048, 8) == pytest.approx(2.0), line


def test_a_log_without_a_time_is_an_error() -> None:
    with pytest.raises(UsageError, match="no line says"):
        read_log("loss: 3.1\nlr: 1e-4\n", "train.log")
