"""Two scripts, plans or runs side by side, as the command line shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .command_line import HEALTHY, NEVER_ZEROED, run

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    bad, good = tmp_path / "bad.py", tmp_path / "good.py"
    bad.write_text(NEVER_ZEROED)
    good.write_text(HEALTHY)
    return bad, good


def diff(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any]]:
    status = run("diff", *words, "--format", "json")
    seen = capsys.readouterr()
    assert seen.out, seen.err
    return status, json.loads(seen.out)["comparison"]


def test_a_finding_that_went_and_one_that_came(capsys: pytest.CaptureFixture[str], two: tuple[Path, Path]) -> None:
    bad, good = two
    status, found = diff(capsys, bad, good)
    assert status == 0
    assert [one["rule"] for one in found["gone"]] == ["gradients-never-zeroed"]
    status, found = diff(capsys, good, bad)
    assert status == 1
    assert [one["rule"] for one in found["new"]] == ["gradients-never-zeroed"]


def test_two_scripts_on_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("diff", EXAMPLES / "memory_overflow.py", EXAMPLES / "good_model.py", "--gpu", "a100-40gb") == 0
    text = capsys.readouterr().out
    assert "fits                                       no → yes" in text
    assert "step 1001, forward → none" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("form", ["html", "markdown", "csv", "sarif", "junit", "github"])
def test_every_format_has_the_new_findings(
    capsys: pytest.CaptureFixture[str], two: tuple[Path, Path], form: str
) -> None:
    run("diff", two[1], two[0], "--format", form)
    out = capsys.readouterr().out
    assert "gradients-never-zeroed" in out or "never zeroed" in out


def test_two_settings_of_plans(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    first = EXAMPLES / "plan" / "13b_long_sequence.yaml"
    second = tmp_path / "other.yaml"
    second.write_text(
        first.read_text().replace("data_parallel", "fsdp", 1).replace("data_parallel:", "# data_parallel:")
    )
    _, found = diff(capsys, first, second)
    assert {"memory", "layout", "time"} <= set(found["shared"])
    assert any(one["name"] == "zero stage" and one["after"] == 3 for one in found["changes"])
    second.write_text(first.read_text().replace("13.0", "7.0", 1))
    _, found = diff(capsys, first, second)
    changed = {one["name"]: (one["before"], one["after"]) for one in found["changes"]}
    assert changed["model, layers"][0] > changed["model, layers"][1]


def test_a_script_and_a_plan_share_their_memory(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    run("plan", "--script", EXAMPLES / "fsdp_language_model.py", "--gpus", "8", "--gpu", "h100", "-o", plan)
    capsys.readouterr()
    _, found = diff(capsys, plan, EXAMPLES / "fsdp_language_model.py", "--gpus", "8", "--gpu", "h100")
    assert found["shared"] == ["memory"]
    assert not [one for one in found["changes"] if one["name"] == "peak (allocated)"]  # the same arithmetic


def test_two_logs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    healthy = tmp_path / "healthy.log"
    healthy.write_text(
        "".join(f"step {n} | loss {2 - n / 100:.3f} | 51.{n % 7} ms\n" for n in range(60)) + "training done\n"
    )
    status, found = diff(capsys, healthy, EXAMPLES / "incidents" / "host-oom")
    assert status == 1
    assert {one["name"]: one["after"] for one in found["changes"]}["category"] == "oom"


def test_nothing_in_common_is_not_known(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a long path is broken where the line ends
    Path("run.log").write_text("nothing to see\n")
    status = run("diff", "run.log", two[1].name)
    assert status == 3
    said = " ".join(capsys.readouterr().out.split())
    assert "preflight investigate tells of run.log" in said
    assert "preflight check tells of good.py" in said


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.bin", bytes(range(256)), "neither text nor a dump that is known"),
        ("empty.log", b"", "empty"),
        ("list.json", b"[1, 2]", "JSON that is no report, no model's configuration and no dump"),
    ],
)
def test_what_nothing_can_be_read_of_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, two: tuple[Path, Path], name: str, content: bytes, message: str
) -> None:
    other = tmp_path / name
    other.write_bytes(content)
    assert run("diff", two[1], other) == 2
    said = capsys.readouterr().err
    assert f"{other}: {message}" in said
    assert "what can be compared: scripts" in said


def test_what_is_not_there_is_named(capsys: pytest.CaptureFixture[str], two: tuple[Path, Path]) -> None:
    assert run("diff", two[0], two[0].with_name("absent.py")) == 2
    assert "absent.py: no such file" in capsys.readouterr().err
    assert run("diff", two[0], two[1].with_suffix(".pi")) == 2
    assert f"did you mean {two[1]}?" in capsys.readouterr().err
    assert run("diff", two[0]) == 2


@pytest.mark.torch
def test_two_traces(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    import subprocess
    import sys

    for name in ("train", "missing_zero_grad"):
        words = [sys.executable, "-m", "preflight", "monitor", "collect", "-o", str(tmp_path / name), "--"]
        program = [sys.executable, str(EXAMPLES / "monitor" / f"{name}.py")]
        subprocess.run([*words, *program], check=True, capture_output=True, timeout=300)
    status, found = diff(capsys, tmp_path / "train", tmp_path / "missing_zero_grad")
    assert status == 1
    assert found["new_violations"]
    assert not found["gone_violations"]
    assert "time" in found["shared"]
