"""``preflight check``: what is named, bad input, formats, files, configuration and its precedence."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from .command_line import HEALTHY, LIBRARY, NEVER_ZEROED, NO_TRAINING, run


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the current one and ends the search for a configuration."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _json(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    status = run("check", *arguments, "--format", "json")
    return status, json.loads(capsys.readouterr().out)


def _feed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


# ---- bad input: one message, exit code 2, nothing else


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.py", None, "missing.py: no such file"),
        ("empty", {}, "empty: there is no Python file or notebook in it"),
        ("*.pyx", None, "*.pyx: no such file, and as a pattern it matches nothing"),
        ("broken.py", b"import torch\ndef f(:\n    pass\n", "broken.py:2:7: syntax error: invalid syntax"),
        ("two.py", b"import torch\nprint 'epoch', 3\n", "two.py:2:1: syntax error: Missing parentheses"),
        ("binary.py", b"\x7fELF\0\0\1\2", "binary.py: is a binary file, not a Python script"),
        ("latin.py", b"x = '\xe9'\n", "latin.py: is not text in the encoding it declares"),
        ("large.py", b"x = 1\n" * 8_500_000, "large.py: 51 MB is too large for a script"),
        ("deep.py", b"x = " + b"(" * 5000 + b")" * 5000, "deep.py"),
        ("book.ipynb", b"{}", "book.ipynb: is not a Jupyter notebook"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 12 else "",
)
def test_bad_input(
    name: str, content: bytes | dict[str, str] | None, message: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if isinstance(content, dict):
        (project / name).mkdir()
    elif content is not None:
        (project / name).write_bytes(content)
    assert run("check", name) == 2
    said = capsys.readouterr()
    assert said.out == ""
    lines = said.err.splitlines()
    assert lines[0].startswith(f"preflight: error: {message}")
    assert len(lines) <= 2
    assert all(line.startswith("hint: ") for line in lines[1:])
    assert run("quick", name) == 2


def test_an_unknown_gpu_and_an_impossible_memory(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "train.py").write_text(HEALTHY)
    assert run("check", "train.py", "--gpu", "H10000") == 2
    assert "did you mean" in capsys.readouterr().err
    assert run("check", "train.py", "--gpu-memory", "-3") == 2
    assert "hint: for example --gpu-memory 80" in capsys.readouterr().err


def test_what_follows_two_dashes_belongs_to_the_script(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = "import argparse, torch\np = argparse.ArgumentParser()\n"
    script += "p.add_argument('--lr', type=float, default=0.1)\na = p.parse_args()\n"
    (project / "train.py").write_text(script + HEALTHY.replace("lr=0.1", "lr=a.lr"))
    _, report = _json(capsys, "train.py")
    assert report["facts"]["optimizer.lr"]["value"] == 0.1
    status = run("check", "train.py", "--format", "json", "--", "--lr", "3.5")
    assert status == 0
    assert json.loads(capsys.readouterr().out)["facts"]["optimizer.lr"]["value"] == 3.5
    assert run("check", "train.py", "--", "--learning", "3") == 2
    assert capsys.readouterr().err.startswith("preflight: error: ")
    assert run("check", "train.py", "train.py", "--", "--lr", "3") == 0, "the same file twice is one script"
    (project / "other.py").write_text(HEALTHY)
    assert run("check", "train.py", "other.py", "--", "--lr", "3") == 2


def test_a_launch_line_names_the_script_and_its_arguments(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "train.py").write_text(HEALTHY)
    status, report = _json(capsys, "--launch", "torchrun --nproc_per_node 8 train.py")
    assert status == 0
    assert report["inputs"]["path"] == "train.py"
    assert report["facts"]["world_size"]["value"] == 8


# ---- several


def test_a_folder_is_searched_and_the_worst_verdict_is_on_top(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in {
        "train.py": NEVER_ZEROED, "fine.py": HEALTHY, "net.py": LIBRARY, "plain.py": "x = 1\n",
        "sub/broken.py": "def f(:\n", "notes.txt": "(", ".venv/lib/t.py": NEVER_ZEROED,
        "node_modules/t.py": NEVER_ZEROED, "__pycache__/t.py": NEVER_ZEROED,
    }.items():  # fmt: skip
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    status, report = _json(capsys, ".")
    assert status == 1
    assert report["verdict"] == "NO-GO"
    assert {script["inputs"]["path"]: script["verdict"] for script in report["scripts"]} == {
        "fine.py": "GO", "sub/broken.py": "NO-GO", "train.py": "NO-GO",
    }  # fmt: skip
    assert {"OPT001", "SYN001"} <= {finding["code"] for finding in report["findings"]}
    assert report["inputs"]["files"] == 5
    (broken,) = [finding for finding in report["findings"] if finding["code"] == "SYN001"]
    assert (broken["location"]["path"], broken["location"]["line"]) == ("sub/broken.py", 1)
    assert broken["severity"] == "error"
    assert broken["confidence"] == "certain"


def test_a_folder_without_training_is_undecidable(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "net.py").write_text(LIBRARY)
    status, report = _json(capsys, ".")
    assert status == 3
    assert report["notes"][0].startswith("no training was recognised")


def test_files_globs_and_order(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("b.py", "a.py", "deep/c.py"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(HEALTHY)
    _, report = _json(capsys, "b.py", "**/*.py", "a.py")
    assert [script["inputs"]["path"] for script in report["scripts"]] == ["b.py", "a.py", "deep/c.py"]


def test_one_bad_file_of_several_that_were_named_is_bad_input(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "train.py").write_text(HEALTHY)
    assert run("check", "train.py", "missing.py") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "missing.py: no such file" in said.err


def test_quick_says_one_line_per_script(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "a.py").write_text(HEALTHY)
    (project / "b.py").write_text(NEVER_ZEROED)
    assert run("quick", ".") == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["GO", "a.py"], ["NO-GO", "b.py"]]


def test_standard_input_imports_from_the_current_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "settings.py").write_text("LR = 0.25\n")
    _feed(monkeypatch, ("from settings import LR\n" + HEALTHY.replace("lr=0.1", "lr=LR")).encode())
    status, report = _json(capsys, "-")
    assert status == 0
    assert report["facts"]["optimizer.lr"]["value"] == 0.25
    _feed(monkeypatch, b"  \n")
    assert run("check", "-") == 2


def test_a_notebook(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = [
        {"cell_type": "code", "source": ["%matplotlib inline\n", "import torch\n"]},
        {"cell_type": "code", "source": NEVER_ZEROED},
    ]
    (project / "train.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4}))
    status, report = _json(capsys, "train.ipynb")
    assert status == 1
    (finding,) = [finding for finding in report["findings"] if finding["code"] == "OPT001"]
    assert (finding["location"]["cell"], finding["location"]["line"]) == (2, 7)


# ---- where the answer goes


def test_the_format_follows_the_ending(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "train.py").write_text(NEVER_ZEROED)
    for name, begin in {
        "r.json": "{",
        "r.sarif": "{",
        "r.xml": "<",
        "r.csv": "path,",
        "r.md": "#",
        "r.html": "<",
        "r": "NO-GO",
    }.items():
        assert run("check", "train.py", "-o", name) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("preflight: NO-GO  train.py")
        assert (project / name).read_text("utf-8").lstrip().startswith(begin)
    assert run("check", "train.py", "-o", "r.json", "--format", "markdown", "--quiet") == 1
    assert capsys.readouterr().err == ""
    assert (project / "r.json").read_text().startswith("#")
    assert sorted(path.name for path in project.iterdir() if path.name.startswith(".")) == [".git"], (
        "nothing temporary is left"
    )


def test_the_answer_never_overwrites_a_script(project: Path) -> None:
    (project / "train.py").write_text(HEALTHY)
    assert run("check", "train.py", "-o", "train.py") == 2
    assert run("check", "train.py", "-o", "./train.py", "--format", "json") == 2
    assert (project / "train.py").read_text() == HEALTHY
    assert run("check", "train.py", "-o", "report.pdf") == 2
    assert run("check", "train.py", "-o", "nowhere/report.json") == 2
    assert run("check", "nowhere.py", "-o", "report.json") == 2
    assert not (project / "report.json").exists()


@pytest.mark.parametrize("format_", ["text", "json", "csv", "sarif", "junit", "markdown", "github", "html"])
def test_every_format_of_several_scripts(format_: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "a.py").write_text(HEALTHY)
    (project / "b.py").write_text(NEVER_ZEROED)
    assert run("check", ".", "--format", format_) == 1
    assert "OPT001" in capsys.readouterr().out


# ---- pyproject.toml


def _configure(project: Path, text: str) -> None:
    (project / "pyproject.toml").write_text(f"[tool.preflight]\n{text}\n")


def test_the_command_line_comes_before_the_configuration(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "sub").mkdir()
    (project / "sub" / "train.py").write_text(HEALTHY)
    _configure(project, 'gpu = "T4"\ngpus = 4\npersona = "audit"')
    _, report = _json(capsys, "sub/train.py")
    assert report["inputs"]["gpu"] == "t4"
    assert report["inputs"]["gpus"] == 4
    _, report = _json(capsys, "sub/train.py", "--gpu-type", "NVIDIA H100", "--gpus", "2")
    assert report["inputs"]["gpu"] == "h100_sxm"
    assert report["inputs"]["gpus"] == 2
    _configure(project, "gpu-memory = 16")
    _, report = _json(capsys, "sub/train.py", "--gpu", "h100")
    assert report["inputs"]["capacity_bytes"] > 60 * 2**30, (
        "a size from the file does not shrink the card that was named"
    )


def test_rules_are_ignored_and_selected(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "train.py").write_text(NEVER_ZEROED)
    assert _json(capsys, "train.py", "--ignore", "OPT001")[0] == 0
    assert _json(capsys, "train.py", "--select", "SYN,unused-suppression")[1]["findings"] == []
    _configure(project, 'ignore = ["gradients-never-zeroed"]')
    assert _json(capsys, "train.py")[0] == 0
    assert _json(capsys, "train.py", "--select", "opt")[0] == 1, "what is selected on the command line is shown"
    _configure(project, '[tool.preflight.per-file-ignores]\n"legacy/*" = ["OPT"]')
    (project / "legacy").mkdir()
    (project / "legacy" / "old.py").write_text(NEVER_ZEROED)
    assert _json(capsys, "legacy/old.py")[0] == 0
    assert _json(capsys, "train.py")[0] == 1
    _configure(project, 'exclude = ["legacy"]\nignore = ["OPT001"]')
    assert _json(capsys, ".")[1]["inputs"]["path"] == "train.py"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("gpu_memory = 3", "unknown key 'gpu_memory'", "did you mean gpu-memory?"),
        ('personna = "audit"', "unknown key 'personna'", "did you mean persona?"),
        ('persona = "everyone"', "persona", None),
        ('gpus = "many"', "gpus: expected a whole number, got text", None),
        ("gpus = 0", "gpus: expected a whole number >= 1", None),
        ('fail-on = "info"', "fail-on is 'info'", "error or warning"),
        ('ignore = ["nothing-of-that-kind-at-all"]', "no rule is called", "a rule's name or code"),
        ('gpu = "H10000"', "unknown GPU", "did you mean"),
        ("gpu = ", "not TOML", None),
    ],
)
def test_a_wrong_configuration(
    text: str, message: str, hint: str | None, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "train.py").write_text(HEALTHY)
    _configure(project, text)
    assert run("check", "train.py") == 2
    said = capsys.readouterr()
    assert said.err.startswith("preflight: error: pyproject.toml: ")
    assert message in said.err
    assert hint is None or f"hint: {hint}" in said.err
    assert said.out == ""


def test_a_configuration_of_others_is_not_read_as_ours(project: Path) -> None:
    (project / "train.py").write_text(HEALTHY)
    (project / "pyproject.toml").write_text('[project]\nname = "preflight-user"\n')
    assert run("check", "train.py") == 0


def test_warnings_decide_only_on_request(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "train.py").write_text(HEALTHY + "# preflight: ignore[nothing-like-a-rule]\n")
    status, report = _json(capsys, "train.py")
    assert status == 0
    assert [finding["code"] for finding in report["findings"]] == ["SUP002"]
    status, report = _json(capsys, "train.py", "--fail-on", "warning")
    assert (status, report["verdict"]) == (1, "NO-GO")
    _configure(project, 'fail-on = "warning"')
    assert _json(capsys, "train.py")[0] == 1
    assert _json(capsys, "train.py", "--fail-on", "error")[0] == 0


def test_personas(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "train.py").write_text(HEALTHY + "x = 1  # preflight: ignore[OPT001]\n")
    assert [f["code"] for f in _json(capsys, "train.py")[1]["findings"] if f["code"] == "SUP001"] == []
    assert "SUP001" in [f["code"] for f in _json(capsys, "train.py", "--persona", "pedantic")[1]["findings"]]


def test_other_frameworks_are_never_go(project: Path) -> None:
    (project / "t.py").write_text(
        "import tensorflow as tf\nm = tf.keras.Sequential()\nm.compile('adam')\nm.fit(x, y)\n"
    )
    assert run("check", "t.py") == 3
    (project / "n.py").write_text(NO_TRAINING)
    assert run("check", "n.py") == 3
    (project / "p.py").write_text(
        "import paddle\nnet = paddle.nn.Linear(4, 2)\nopt = paddle.optimizer.AdamW(parameters=net.parameters())\n"
        "for x in data:\n    loss = net(x).mean()\n    loss.backward()\n    opt.step()\n    opt.clear_grad()\n"
    )
    assert run("check", "p.py") == 3


def test_a_patch_goes_to_any_file_and_has_no_other_format(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "train.py").write_text(NEVER_ZEROED)
    run("check", "train.py", "--diff", "--unsafe-fixes", "-o", "train.patch")
    assert (project / "train.patch").read_text().startswith("--- a/train.py\n+++ b/train.py\n")
    assert capsys.readouterr().out == ""
    assert run("check", "train.py", "--diff", "--format", "json") == 2
    assert "--diff prints a patch" in capsys.readouterr().err


def test_what_is_no_regular_file_is_refused_and_not_waited_for(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("no named pipes here")
    os.mkfifo(project / "pipe.py")
    assert run("check", "pipe.py") == 2
    assert "pipe.py: is not a regular file" in capsys.readouterr().err
