"""``preflight investigate tree``: listed, drawn, walked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from preflight.cli.investigate_.tree import command
from preflight.errors import UsageError

FAULTS = Path(__file__).resolve().parents[1] / "investigate" / "data" / "faults"


def tree(*arguments: str) -> Any:
    return command.main(list(arguments), prog_name="tree", standalone_mode=False, help_option_names=["-h", "--help"])


def test_trees_are_listed_and_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    assert tree("--format", "json") == 0
    assert {one["name"] for one in json.loads(capsys.readouterr().out)["trees"]} == {
        "crash", "first-five-minutes", "performance", "triage",
    }  # fmt: skip
    assert tree("performance") == 0
    assert capsys.readouterr().out.startswith("Why it is slow\n")
    assert tree("performance", "--mermaid") == 0
    assert capsys.readouterr().out.startswith("flowchart TD\n")
    assert tree("performance", "--format", "markdown") == 0
    assert "```mermaid\nflowchart TD\n" in capsys.readouterr().out
    assert tree("--format", "markdown") == 0
    assert "- `performance`: Why it is slow\n" in capsys.readouterr().out
    assert tree("performance", "--format", "html") == 0
    page = capsys.readouterr().out
    assert "<h1>Why it is slow</h1>" in page
    assert "├─ yes: " in page
    assert tree("--format", "html") == 0
    assert '<th scope="row">performance</th><td data-title="title">Why it is slow</td>' in capsys.readouterr().out
    with pytest.raises(UsageError, match="a tree cannot be shown as csv"):
        tree("crash", "--format", "csv")
    assert tree("crash", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["id"] == "crash"


def test_a_walk_through_logs_ends_at_a_leaf_with_its_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    assert tree("--for", str(FAULTS / "exception"), "--format", "json") == 0
    way = json.loads(capsys.readouterr().out)
    assert way["leaf"]["id"] == "usercode"
    assert any(step.get("quotes") for step in way["steps"])
    assert tree("--for", str(FAULTS / "exception"), "--mermaid") == 0
    assert capsys.readouterr().out.count("==>") == len(way["steps"])


def test_a_walk_that_nothing_answers_is_undecidable(capsys: pytest.CaptureFixture[str]) -> None:
    assert tree("--say", "running=yes") == 3
    assert "cannot tell; to go on: The time of the last step line" in capsys.readouterr().out
    with pytest.raises(UsageError, match="is not QUESTION=ANSWER"):
        tree("--say", "running")
    with pytest.raises(UsageError, match="no tree is called"):
        tree("crush")
