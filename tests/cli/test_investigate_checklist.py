"""``preflight investigate checklist`` as a person calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from preflight.cli.investigate_.checklist import command
from preflight.errors import UsageError

OWN = """\
title = "Ours"
sources = ["us"]
[settings]
folder = {what = "a folder"}
[[items]]
id = "there"
title = "The folder can be written"
why = "Otherwise nothing is kept."
area = "data"
critical = true
check = {by = "check", name = "folder-writable", options = {path = "{folder}"}}
[[items]]
id = "said"
title = "Somebody looked"
why = "Eyes see."
area = "operation"
critical = true
check = {by = "person", evidence = "a name"}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ours.toml").write_text(OWN)
    return tmp_path


def checklist(*arguments: str) -> Any:
    return command.main(
        list(arguments), prog_name="checklist", standalone_mode=False, help_option_names=["-h", "--help"]
    )


def test_ones_own_list_needs_all_critical_items(capsys: pytest.CaptureFixture[str]) -> None:
    assert checklist("ours.toml") == 3
    assert capsys.readouterr().out.startswith("UNKNOWN  Ours: 2 not checked; 2 of these critical\n")
    assert checklist("ours.toml", "--set", "folder=.") == 3
    assert checklist("ours.toml", "--attest", "said", "--by", "Ada", "--evidence", "I looked") == 0
    capsys.readouterr()
    assert checklist("ours.toml", "--set", "folder=.", "--format", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "GO"
    assert told["results"][1]["attested"]["by"] == "Ada"
    assert checklist("ours.toml", "--set", "folder=nowhere") == 1
    assert checklist("ours.toml", "--set", "folder=.", "--only", "said") == 3
    assert checklist("ours.toml", "--set", "folder=.", "--format", "markdown") == 0
    assert "| pass | Somebody looked | yes | Ada: I looked |" in capsys.readouterr().out


def test_lists_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert checklist("--format", "json") == 0
    assert {one["name"] for one in json.loads(capsys.readouterr().out)["checklists"]} >= {
        "before-launch", "scaling-up", "long-runs", "llama-70b",
    }  # fmt: skip
    assert checklist("before-launch", "--show") == 0
    shown = capsys.readouterr().out
    assert "memory-budget (critical): The run fits" in shown
    assert "--set checkpoint_folder=..." in shown


def test_rules_of_check_are_run_on_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    Path("train.py").write_text(
        "import torch\nmodel = torch.nn.Linear(16, 4)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(10):\n    loss = model(torch.randn(8, 16)).sum()\n    loss.backward()\n    optimizer.step()\n"
    )
    checklist("before-launch", "--only", "script-sound", "--script", "train.py", "--format", "json")
    told = {one["item"]: one for one in json.loads(capsys.readouterr().out)["results"]}
    assert told["script-sound"]["standing"] == "fail"
    assert told["script-sound"]["text"].startswith("train.py:")
    assert told["checkpoint-space"]["standing"] == "not-run"


def test_a_list_is_proposed_from_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    incident = {
        "state": "crashed", "onset": "start", "scope": "all", "category": "environment", "root_category": "environment",
        "symptom_category": None, "signature": None, "confidence": 0.9, "headline": "port in use", "culprit": {},
    }  # fmt: skip
    Path("report.json").write_text(json.dumps({"incident": incident}))
    assert checklist("--from", "report.json", "-o", "not-again.toml") == 0
    assert "1 item;" in capsys.readouterr().err
    assert checklist("not-again.toml") == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("before-lunch",), "no checklist"),
        (("ours.toml", "--set", "folder"), "is not NAME=VALUE"),
        (("ours.toml", "--set", "foldr=1"), "there is no setting"),
        (("ours.toml", "--only", "their"), "there is no item"),
        (("before-launch", "--set", "shm_gb=plenty"), "is not a number"),
        (("ours.toml", "--attest", "said", "--by", "Ada"), "needs a name and evidence"),
    ],
)
def test_misuse_is_said(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        checklist(*words)


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ("html", "CHK101 checklist.there"),
        ("junit", "<failure"),
        ("sarif", '"ruleId": "CHK101"'),
        ("csv", "CHK104,checklist.said"),
        ("github", "::error"),
    ],
)
def test_a_list_has_every_format_of_a_report(form: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert checklist("ours.toml", "--set", "folder=nowhere", "--format", form) == 1
    shown = capsys.readouterr().out
    assert says in shown
    assert "The folder can be written (critical)" in shown
