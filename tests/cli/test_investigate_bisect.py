"""``preflight investigate bisect``: every dimension once, as a person calls it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from preflight.cli.investigate_.bisect import command
from preflight.errors import UsageError

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
PROGRAM = """\
import sys
value = int(sys.argv[1])
if value >= 11:
    raise MemoryError(f"{value} is too much")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def bisect(*arguments: str) -> Any:
    return command.main(list(arguments), prog_name="bisect", standalone_mode=False, help_option_names=["-h", "--help"])


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 1) -> Any:
    capsys.readouterr()
    assert bisect("--format", "json", *arguments) == code
    return json.loads(capsys.readouterr().out)


def test_a_batch_is_bisected_and_the_second_call_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--batch", "1", "32", "--timeout", "60", "--", sys.executable, "program.py", "{batch}")
    first = answer(capsys, *words)
    assert (first["works"], first["fails"], first["reason"]) == ("10", "11", None)
    assert first["tests"] <= 5 + 2
    assert first["signature"] == "MemoryError: N is too much"
    assert answer(capsys, *words)["tests_run"] == 0
    assert answer(capsys, "--fresh", *words)["tests_run"] == first["tests"]
    assert bisect(*words) == 1
    assert capsys.readouterr().out.startswith("works  10\nfails  11\n")
    assert bisect("--format", "html", *words) == 1
    assert "<li>works  10</li>" in capsys.readouterr().out
    assert bisect("--format", "markdown", *words) == 1
    assert "- fails  11" in capsys.readouterr().out


def test_sizes_go_to_the_launcher_and_layers_into_a_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "--scale", "8", "64", "--", "sh", "-c", "[ {nodes} -lt 4 ] && [ {gpus} -lt 32 ]")
    assert (found["works"], found["fails"]) == ("24", "32")
    Path("c.yaml").write_text("model: {num_layers: 2, hidden: 8}\n")
    program = "import sys, yaml; sys.exit(yaml.safe_load(open(sys.argv[1]))['model']['num_layers'] > 5)"
    found = answer(
        capsys, "--layers", "1", "12", "--config", "c.yaml", "--key", "model.num_layers", "--", sys.executable, "-c",
        program, "{config}",
    )  # fmt: skip
    assert (found["works"], found["fails"]) == ("5", "6")


def test_differences_of_configurations_of_variables_and_of_flags(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.json").write_text('{"lr": 1, "x": {"y": 2, "z": 3}}')
    Path("b.json").write_text('{"lr": 2, "x": {"y": 4, "z": 5}}')
    program = "import json, sys; c = json.load(open(sys.argv[1])); sys.exit(c['x']['z'] == 5)"
    found = answer(capsys, "--configs", "a.json", "b.json", "--", sys.executable, "-c", program, "{config}")
    assert found["differences"] == ["x.z: 3 -> 5"]
    assert found["confirmed"]
    Path("a.env").write_text("ONE=1\nTWO=2\n")
    Path("b.env").write_text("ONE=1\nTWO=3\nTHREE=3\n")
    found = answer(capsys, "--configs", "a.env", "b.env", "--", "sh", "-c", '[ -z "$THREE" ]')
    assert found["differences"] == ['THREE: (absent) -> "3"']
    Path("a.args").write_text("--size 4 --fast")
    Path("b.args").write_text("--size 8 --slow --fast")
    found = answer(
        capsys, "--configs", "a.args", "b.args", "--", "sh", "-c", 'case "$*" in *slow*) exit 1;; esac', "sh", "{flags}"
    )
    assert found["differences"] == ["--slow: (absent) -> true"]


def test_nodes_are_found_by_groups(capsys: pytest.CaptureFixture[str]) -> None:
    Path("hosts").write_text("".join(f"node{n} slots=8\n" for n in range(16)))
    found = answer(capsys, "--nodes", "hosts", "--", "sh", "-c", "case ,{nodelist}, in *,node11,*) exit 9;; esac")
    assert found["nodes"] == ["node11"]
    assert found["tests"] <= 7
    fails = "case ,{nodelist}, in *,node2,*node11,*) exit 9;; esac"
    words = ("--nodes", "hosts", "--", "sh", "-c", fails)
    assert answer(capsys, *words)["together"] == ["node2", "node11"]
    assert bisect(*words) == 1
    assert "These fail together, none alone: node2, node11" in capsys.readouterr().out


def test_what_cannot_be_told_is_3_and_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "--batch", "1", "8", "--", "sh", "-c", "true {batch}", code=3)
    assert "is said to fail, and passed" in found["reason"]
    assert bisect("--batch", "1", "8", "--", "sh", "-c", "true {batch}") == 3
    assert "cannot tell:" in capsys.readouterr().out


def test_the_budget_is_told_first_and_nothing_is_run_when_asked(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    assert (
        bisect("--scale", "8", "64", "--launcher", "srun", "--timeout", "600", "--dry-run", "--", "python", "t.py") == 0
    )
    shown = capsys.readouterr()
    # 8 sizes: ceil(log2 7) + 2 = 5 tests of 64 GPUs and a sixth of an hour.
    assert "at most 5 tests of 64 GPUs and 600 s: 53.3 GPU-hours at most" in shown.err
    assert "srun --kill-on-bad-exit=1 --label --nodes=8 --ntasks=64 --ntasks-per-node=8 python t.py" in shown.out
    assert not (folder / ".preflight").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--batch", "1", "8"), "no program is given"),
        (("--", "true"), "say one thing"),
        (("--batch", "1", "8", "--layers", "1", "2", "--", "true"), "at once"),
        (("--batch", "1", "8", "--", "true"), "does not say where"),
        (("--scale", "8", "60", "--launcher", "srun", "--", "true"), "whole nodes"),
        (("--batch", "1", "8", "--flaky", "2", "--", "echo", "{batch}"), "is not a probability"),
        (("--batch", "1", "8", "--launcher", "srum", "--", "echo", "{batch}"), "no launcher is called"),
        (("--batch", "1", "8", "--key", "a.b", "--", "echo", "{config}"), "--key needs the configuration"),
        (("--hypotheses", "nonsense"), "is not CAUSE=PROBABILITY"),
        (("--hypotheses", "broken-lnk=0.5"), "no cause is called 'broken-lnk'"),
        (("--commits", "HEAD~1", "HEAD", "--", "true"), "is in no git repository"),
    ],
)
def test_misuse_is_said(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        bisect(*words)


def test_sizes_are_compared_and_experiments_advised(capsys: pytest.CaptureFixture[str]) -> None:
    assert bisect("--explain-scale", "8", "64", "--global-batch", "512", "--parameters", "7e9") == 0
    said = capsys.readouterr().out
    assert "steps of the ring" in said
    assert max(map(len, said.splitlines())) <= 80
    assert bisect("--explain-scale", "8", "64", "--format", "html") == 0
    assert "<h1>From 8 to 64 GPUs</h1>" in capsys.readouterr().out
    found = answer(capsys, "--explain-scale", "8", "16", code=0)
    assert found["quantities"][0] == {"name": "gpus", "before": 8.0, "after": 16.0, "unit": "", "arithmetic": ""}
    causes = ("--hypotheses", "slow-loader=0.5,broken-link=0.4")
    advice = answer(capsys, *causes, code=0)
    assert advice["next"][0]["bits"] > 0
    name = advice["next"][0]["experiment"]
    after = answer(capsys, *causes, "--result", "data-only=slow", code=0)
    assert after["causes"]["slow-loader"] > 0.8
    assert "data-only" not in [one["experiment"] for one in after["next"]]
    assert name


@pytest.mark.parametrize("name", ["70b_hybrid_training.yaml", "hybrid_example.yaml"])
def test_the_memory_of_a_size_is_that_of_plan(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    from preflight.cli.main import main

    config = Path(__file__).resolve().parents[2] / "examples" / "plan" / name
    assert main(["plan", "--config", str(config), "--format", "json"]) in (0, 1)
    plan = json.loads(capsys.readouterr().out)
    size = plan["inputs"]["gpus"]
    found = answer(capsys, "--explain-scale", str(2 * size), str(size), "--config", str(config), code=0)
    peak = next(one for one in found["quantities"] if one["name"] == "peak memory per GPU")
    assert peak["after"] == pytest.approx(plan["memory"]["peak_bytes"]["mid"], rel=1e-6)
