"""Many files: the same answer on one core and on several, in the order of the files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from preflight.check import examine, many
from preflight.check.asked import Options
from preflight.check.files.discover import Found, discover
from preflight.check.many import CHUNK, check_many, combine
from preflight.check.selection import Selection
from preflight.errors import UsageError

TRAINS = """\
import torch
import net
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    net.backward(model(torch.randn(8, 16)).sum())
    optimizer.step()
"""
NET = "import torch\n\n\ndef backward(loss):\n    loss.backward()\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Found]:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    for number in range(3 * CHUNK):
        (tmp_path / f"plain_{number:02}.py").write_text("x = 1\n")
    (tmp_path / "net.py").write_text(NET)
    for number in range(0, 3 * CHUNK, 7):
        (tmp_path / f"train_{number:02}.py").write_text(TRAINS)
    return discover(["."])


def test_processes_give_the_same_answer(tree: list[Found]) -> None:
    alone = check_many(tree, Options(), Selection(), jobs=1)
    seen: list[tuple[int, int]] = []
    spread = check_many(tree, Options(), Selection(), jobs=3, progress=lambda done, of: seen.append((done, of)))
    assert spread == alone
    assert alone.scripts == 6
    assert alone.read == 7
    assert alone.files == len(tree) == seen[-1][0]
    assert [report.inputs["path"] for report in alone.reports] == [
        found.path for found in tree if found.path.startswith("train")
    ]


def test_a_module_is_told_once(tree: list[Found]) -> None:
    result = check_many(tree, Options(), Selection(), jobs=1)
    report = combine(result.reports, ["."], {})
    assert report.verdict == "NO-GO"
    places = [(finding.location.path, finding.location.line) for finding in report.findings if finding.code == "OPT001"]
    assert len(places) == len(set(places))


def test_an_error_of_ours_in_one_file_does_not_end_the_others(
    tree: list[Found], monkeypatch: pytest.MonkeyPatch
) -> None:
    check = examine.check_script

    def fails(script: object, *arguments: object) -> object:
        if getattr(script, "path", "") == "train_07.py":
            raise ZeroDivisionError("somewhere")
        return check(script, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(examine, "check_script", fails)
    result = check_many(tree, Options(), Selection(), jobs=1)
    (failed,) = [report for report in result.reports if report.inputs["path"] == "train_07.py"]
    assert failed.verdict == "UNKNOWN"
    assert "internal error ZeroDivisionError: somewhere" in failed.notes[0]
    assert result.scripts == 5


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_wrong_option_ends_all(jobs: int, tree: list[Found]) -> None:
    with pytest.raises(UsageError, match="unknown GPU") as raised:
        check_many(tree, Options(gpu="H10000"), Selection(), jobs=jobs)
    assert raised.value.hint is not None


def test_what_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "binary.py").write_bytes(b"import torch\n\0\0")
    (tmp_path / "book.ipynb").write_text('{"x": "import torch"}')
    (tmp_path / "py2.py").write_text("print 'x'\n")
    result = check_many(discover(["."]), Options(), Selection())
    assert [report.findings[0].code for report in result.reports] == ["SYN001"]
    assert result.notes == (
        "not read: binary.py: is a binary file, not a Python script",
        "not read: book.ipynb: is not a Jupyter notebook (no list of cells)",
    )


def test_a_notebook_that_does_not_parse_names_the_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = [{"cell_type": "code", "source": "import torch\n"}, {"cell_type": "code", "source": "x = 1\ndef f(:\n"}]
    (tmp_path / "book.ipynb").write_text(json.dumps({"cells": cells}))
    (report,) = check_many(discover(["."]), Options(), Selection()).reports
    place = report.findings[0].location
    assert (place.cell, place.line) == (2, 2)


def test_the_cores_are_counted() -> None:
    assert many._cores() >= 1
