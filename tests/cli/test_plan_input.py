"""Bad input to ``preflight plan``: one error that names the thing and the nearest valid choice, exit code 2."""

from __future__ import annotations

import pytest

from preflight.cli.main import main


@pytest.mark.parametrize(
    ("line", "said", "hint"),
    [
        ("transformer -7 32", "-7 is negative", "above 0"),
        ("7 32 --gpus -2", "-2 is negative", "above 0"),
        ("transformer 7 32 --gpu H1000", "unknown GPU 'H1000'", "h100"),
        ("7 32 --gpus 8 --tp 3", "there are 8 GPUs", "2 does"),
        ("7 32 --gpus 64 --pp 64", "has 32 layers", "at most 32"),
        ("7 33 --gpus 8", "cannot be divided over 8", "40 can"),
        ("7 32 --gpus 8 --strategy tensorparallel", "tensorparallel", "tensor_parallel"),
        ("7 32 --precision bf17", "bf17", "bf16"),
        ("--model llama-9-7b --batch 4", "llama-9-7b", "llama-2-7b"),
        ("7 32 --ep 4", "expert_parallel is 4", "leave it out"),
    ],
)
def test_one_error_with_the_nearest_choice(capsys: pytest.CaptureFixture[str], line: str, said: str, hint: str) -> None:
    assert main(["plan", *line.split()]) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    error, advice = seen.err.strip().split("\n")
    assert said in error
    assert hint in advice


def test_what_just_does_not_fit_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "405", "16", "--gpus", "2", "--strategy", "fsdp"]) == 1
    assert "does not fit" in capsys.readouterr().out
