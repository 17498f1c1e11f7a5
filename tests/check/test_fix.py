"""Fixes: edits keep everything else, apply as a whole or not at all, and never break a file."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.check.files.fix import Fixing
from preflight.check.files.text_file import TextFile, read_text_file, write_whole
from preflight.cli.main import main
from preflight.errors import InputError, PreflightError
from preflight.vocabulary.finding import Edit, Finding, Fix, Location

LOOP = """\
import torch

model = torch.nn.Linear(16, 4)  # größe: ≈ 68
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    loss = model(torch.randn(8, 16)).sum()
    loss.backward()  # no zero_grad
    optimizer.step()
"""
FIXED = LOOP.replace("    loss.backward()", "    optimizer.zero_grad()\n    loss.backward()")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _finding(*edits: Edit, safe: bool = True, code: str = "TST001") -> Finding:
    return Finding(
        "test",
        code,
        "warning",
        "certain",
        "a test",
        Location(edits[0].path, edits[0].line),
        fix=Fix("do it", safe, edits),
    )


def _applied(text: str, *edits: Edit) -> str:
    """The text of a file after fixes of one edit each, which are all safe."""
    fixing = Fixing(map(_finding, edits), unsafe=False, root=None, texts={"x": TextFile("x", text)})
    return fixing.changes["x"].after if fixing.changes else text


# ---- edits


def test_edits_count_characters_and_lines_as_the_parser_does() -> None:
    text = 'a = "ä\u2028b"; c = 1\r\nd = 2\re = 3\n'
    assert _applied(text, Edit("x", 1, 16, 1, 17, "5")) == text.replace("c = 1", "c = 5")
    assert _applied(text, Edit("x", 3, 5, 3, 6, "4")) == text.replace("e = 3", "e = 4")


def test_what_is_inserted_has_the_line_ends_of_the_file() -> None:
    assert _applied("a\r\nb\r\n", Edit("x", 2, 1, 2, 1, "n\n")) == "a\r\nn\r\nb\r\n"
    assert _applied("a\r\nb\r\n", Edit("x", 1, 2, 1, 2, "\nn")) == "a\r\nn\r\nb\r\n"
    assert _applied("a\nb", Edit("x", 3, 1, 3, 1, "c")) == "a\nbc"


def test_of_two_that_overlap_the_first_is_applied() -> None:
    edits = [Edit("x", 1, 1, 1, 4, "one"), Edit("x", 1, 2, 1, 3, "two"), Edit("x", 1, 4, 1, 4, "_")]
    assert _applied("abc", *edits) == "one_"


def test_equal_edits_are_applied_once() -> None:
    edit = Edit("x", 1, 1, 1, 1, "import os\n")
    assert _applied("pass\n", edit, edit) == "import os\npass\n"


@given(
    st.lists(st.text(alphabet="ab \u2028ä", max_size=6), max_size=6), st.sampled_from(["\n", "\r\n", "\r"]),
    st.integers(1, 9), st.integers(1, 9),
)  # fmt: skip
def test_an_insertion_only_inserts(comments: list[str], newline: str, line: int, column: int) -> None:
    text = newline.join(f"#{one}" for one in comments)
    after = _applied(text, Edit("x", line, column, line, column, "##"))
    assert len(after) == len(text) + 2
    assert after.replace("#", "") == text.replace("#", "")


# ---- plans


def test_a_fix_is_applied_as_a_whole_or_not_at_all(project: Path) -> None:
    (project / "a.py").write_text("x = 1\ny = 2\n")
    first = _finding(Edit("a.py", 1, 5, 1, 6, "10"))
    second = _finding(Edit("a.py", 1, 5, 1, 6, "20"), Edit("a.py", 2, 5, 2, 6, "30"))
    fixing = Fixing([first, second], unsafe=False, root=".")
    assert fixing.changes["a.py"].after == "x = 10\ny = 2\n"
    assert fixing.applied == [first]
    assert fixing.skipped == [(second, "it overlaps another fix; run again to apply it")]


def test_a_fix_that_would_break_the_file_is_dropped_and_the_others_are_not(project: Path) -> None:
    (project / "a.py").write_text("f(x=1)\ny = 2\n")
    broken = _finding(Edit("a.py", 1, 1, 1, 1, "("))
    repeated = _finding(Edit("a.py", 1, 6, 1, 6, ", x=2"))
    good = _finding(Edit("a.py", 2, 5, 2, 6, "3"))
    fixing = Fixing([broken, repeated, good], unsafe=False, root=".")
    assert fixing.changes["a.py"].after == "f(x=1)\ny = 3\n"
    assert [reason for _, reason in fixing.skipped] == ["the file would not parse any more"] * 2


def test_two_arguments_added_at_one_place_keep_their_order(project: Path) -> None:
    (project / "a.py").write_text("f(1)\n")
    both = [_finding(Edit("a.py", 1, 4, 1, 4, ", a=1")), _finding(Edit("a.py", 1, 4, 1, 4, ", b=2"))]
    assert Fixing(both, unsafe=False, root=".").changes["a.py"].after == "f(1, a=1, b=2)\n"


def test_unsafe_fixes_only_on_request(project: Path) -> None:
    (project / "a.py").write_text("x = 1\n")
    finding = _finding(Edit("a.py", 1, 5, 1, 6, "2"), safe=False)
    assert Fixing([finding], unsafe=False, root=".").changes == {}
    assert set(Fixing([finding], unsafe=True, root=".").changes) == {"a.py"}


def test_files_outside_the_repository_are_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "repository"
    inside.mkdir()
    (tmp_path / "shared.py").write_text("x = 1\n")
    (inside / "link.py").symlink_to(tmp_path / "shared.py")
    monkeypatch.chdir(inside)
    for path in ("../shared.py", "link.py", str(tmp_path / "shared.py")):
        fixing = Fixing([_finding(Edit(path, 1, 5, 1, 6, "2"))], unsafe=True, root=str(inside))
        assert fixing.changes == {}
        assert "outside the repository" in fixing.skipped[0][1]


# ---- files


def test_a_file_is_written_as_a_whole_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    path.chmod(0o751)
    (tmp_path / "link.py").symlink_to(path)
    write_whole(str(tmp_path / "link.py"), b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o751
    assert (tmp_path / "link.py").is_symlink()
    with pytest.raises(PreflightError, match="cannot be written"):
        write_whole(str(tmp_path / "nowhere" / "a.py"), b"new")
    assert sorted(os.listdir(tmp_path)) == ["a.py", "link.py"]


@pytest.mark.parametrize(
    "data", ["x = 'ä'\r\n".encode(), b"\xef\xbb\xbfx = 1\n", b"# coding: latin-1\nx = '\xe4'\n", b"x\ry\r", b""]
)
def test_a_file_that_is_read_and_written_is_the_same(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(data)
    file = read_text_file(str(path))
    assert file.encoded(file.text) == data


def test_a_character_that_the_encoding_lacks() -> None:
    with pytest.raises(InputError, match="cannot be written in latin-1"):
        TextFile("a.py", "", "latin-1").encoded("≈")


# ---- the command


def test_the_patch_applies(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (project / "train.py").write_text(LOOP.rstrip("\n"), encoding="utf-8")
    assert main(["check", "train.py", "--diff", "--unsafe-fixes"]) == 1
    patch = capfd.readouterr().out
    assert patch.startswith("--- a/train.py\n+++ b/train.py\n@@ ")
    assert (project / "train.py").read_text("utf-8") == LOOP.rstrip("\n")
    (project / ".git").rmdir()
    subprocess.run(["git", "init", "-q", "."], check=True)
    subprocess.run(["git", "apply", "-"], input=patch.encode(), check=True)
    assert "optimizer.zero_grad()" in (project / "train.py").read_text("utf-8")


def test_safe_fixes_alone_change_nothing_here(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "train.py").write_text(LOOP, encoding="utf-8")
    assert main(["check", "train.py", "--fix", "--select", "OPT001"]) == 1
    assert (project / "train.py").read_text("utf-8") == LOOP
    said = capsys.readouterr().err
    assert "nothing was fixed" in said
    assert "1 fix changes what is computed" in said


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_fixing_keeps_line_ends_marks_and_comments(
    newline: str, bom: bytes, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "train.py").write_bytes(bom + LOOP.replace("\n", newline).encode())
    assert main(["check", "train.py", "--unsafe-fixes", "--select", "OPT001", "--format", "json"]) == 0
    assert (project / "train.py").read_bytes() == bom + FIXED.replace("\n", newline).encode()
    said = capsys.readouterr()
    report = json.loads(said.out)
    assert report["findings"] == []
    assert [item["code"] for item in report["inputs"]["fixed"]] == ["OPT001"]
    assert "preflight: fixed train.py:7: OPT001 gradients-never-zeroed" in said.err


def test_a_declared_encoding_is_kept(project: Path) -> None:
    text = "# -*- coding: latin-1 -*-\n" + LOOP.replace("≈", "=")
    (project / "train.py").write_bytes(text.encode("latin-1"))
    assert main(["check", "train.py", "--unsafe-fixes", "--select", "OPT001"]) == 0
    assert (project / "train.py").read_bytes() == text.replace(
        "    loss.backward()", "    optimizer.zero_grad()\n    loss.backward()"
    ).encode("latin-1")


def test_a_notebook_is_left_alone(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = json.dumps({"cells": [{"cell_type": "code", "source": LOOP}]})
    (project / "train.ipynb").write_text(content)
    assert main(["check", "train.ipynb", "--unsafe-fixes"]) == 1
    assert (project / "train.ipynb").read_text() == content
    assert "nothing was fixed" in capsys.readouterr().err
    assert main(["check", "train.ipynb", "--diff", "--unsafe-fixes"]) == 1
    assert capsys.readouterr().out == ""


def test_a_fix_that_does_not_help_is_told_and_not_repeated(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from preflight.check.rules.correctness import gradients_never_zeroed

    monkeypatch.setattr(gradients_never_zeroed, "_cleared", lambda *_: False)
    (project / "train.py").write_text(LOOP, encoding="utf-8")
    assert main(["check", "train.py", "--unsafe-fixes", "--select", "OPT001"]) == 1
    assert "the fix of OPT001 was applied, and the finding persists" in capsys.readouterr().err
    assert (project / "train.py").read_text("utf-8") == FIXED


def test_standard_input_is_not_fixed_in_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "-", "--fix"]) == 2
    assert "hint: --diff prints the change as a patch" in capsys.readouterr().err


def test_an_unused_suppression_is_removed(project: Path) -> None:
    (project / "train.py").write_text(
        FIXED + "x = 1  # preflight: ignore[OPT001]\n# preflight: ignore[OPT001]\ny = 2\n", encoding="utf-8"
    )
    assert main(["check", "train.py", "--fix", "--persona", "pedantic", "--select", "SUP001"]) == 0
    assert (project / "train.py").read_text("utf-8") == FIXED + "x = 1\ny = 2\n"
