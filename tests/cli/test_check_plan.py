"""A script checked against the plan that was made for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from preflight.check.notices.plan_differs import BAD, GOOD, RULE

from .command_line import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FSDP = EXAMPLES / "fsdp_language_model.py"


@pytest.fixture
def checked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """Make a plan from the words of a command line, check a script against it, and return the report."""

    def check(script: Path, planned: tuple[str, ...], *more: str) -> dict[str, Any]:
        plan = tmp_path / "plan.json"
        assert run("plan", *planned, "-o", plan) in (0, 1, 3)
        capsys.readouterr()
        run("check", script, "--plan", plan, "--format", "json", *more)
        seen = capsys.readouterr()
        assert seen.out, seen.err
        found: dict[str, Any] = json.loads(seen.out)
        return found

    return check


def differences(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The differences by what they are about."""
    return {
        finding["message"].partition(":")[0]: finding for finding in report["findings"] if finding["code"] == RULE.code
    }


def test_a_script_does_not_differ_from_the_plan_that_was_made_from_it(checked: Any) -> None:
    report = checked(FSDP, ("--script", FSDP, "--gpus", "8", "--gpu", "h100"))
    assert differences(report) == {}
    assert report["verdict"] == "GO"
    assert report["inputs"]["gpu"] == "h100_sxm"
    assert report["facts"]["world_size"]["value"] == 8  # of the plan, since nothing else says it


def test_each_difference_is_named_with_what_it_does_to_the_plan(checked: Any) -> None:
    planned = ("--model", "llama-3-8b", "--gpus", "8", "--gpu", "h100", "--batch", "8", "--micro-batch", "1",
               "--sequence-length", "1024", "--strategy", "zero2", "--optimizer", "sgd")  # fmt: skip
    report = checked(FSDP, planned)
    found = differences(report)
    assert set(found) == {
        "the layout over GPUs", "samples in a forward pass", "samples per optimizer step", "tokens of a sample",
        "optimizer", "recomputation of activations",
    }  # fmt: skip
    said = found["samples in a forward pass"]
    assert "the plan counts on 1, the script has 4 (default of --batch-size)" in said["message"]
    assert said["location"]["line"] == 56
    memory = next(one for one in said["evidence"] if one["what"] == "memory of a GPU")
    assert memory["value"] > 0
    assert " + " in memory["arithmetic"]
    # The script as a whole fits, so what one of its settings would do to the plan decides nothing.
    assert report["verdict"] == "GO"
    assert {finding["severity"] for finding in found.values()} == {"warning"}


def test_what_does_not_fit_the_plan_is_an_error_where_the_script_is_not_known_to_fit(
    checked: Any, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(FSDP.read_text().replace("torch.optim.AdamW", "print"))
    planned = ("--model", "llama-3-8b", "--gpus", "8", "--gpu", "h100", "--batch", "8", "--micro-batch", "1",
               "--sequence-length", "2048", "--strategy", "zero2")  # fmt: skip
    report = checked(script, planned)
    said = differences(report)["samples in a forward pass"]
    assert said["severity"] == "error"
    assert "more than the 79.1 GiB that there are" in said["message"]
    assert report["verdict"] == "NO-GO"
    untold = [one["reason"] for one in report["not_evaluated"] if one["code"] == RULE.code]
    assert any(reason.startswith("optimizer of the script:") for reason in untold)


@pytest.mark.parametrize(("text", "codes"), [(BAD[0], {"optimizer", "samples in a forward pass"}), (GOOD[0], set())])
def test_the_examples_of_the_page(checked: Any, tmp_path: Path, text: str, codes: set[str]) -> None:
    script = tmp_path / "train.py"
    script.write_text(text)
    planned = (
        "transformer_encoder",
        "0.019",
        "32",
        "--micro-batch",
        "32",
        "--precision",
        "fp32",
        "--sequence-length",
        "128",
    )
    found = differences(checked(script, planned))
    assert set(found) - {"parameters of the model", "samples per optimizer step"} == codes


def test_the_command_line_wins_over_the_plan(checked: Any) -> None:
    report = checked(FSDP, ("--script", FSDP, "--gpus", "8", "--gpu", "h100"), "--gpu", "a100-40gb", "--gpus", "4")
    assert report["inputs"]["gpu"] == "a100_40gb_sxm"
    assert set(differences(report)) >= {"GPUs"}


def test_a_file_without_a_plan_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = tmp_path / "check.json"
    run("check", FSDP, "-o", other)
    assert run("check", FSDP, "--plan", other) == 2
    assert "this is the report of preflight check, not a plan" in capsys.readouterr().err
    other.write_text("{}")
    assert run("check", FSDP, "--plan", other) == 2
    assert "not a report" in capsys.readouterr().err
    assert run("check", FSDP, "--plan", tmp_path / "absent.json") == 2
    assert "No such file" in capsys.readouterr().err
