"""Suppression comments: where they may stand, what they name, and what is said of those that do nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from preflight.check.asked import Options
from preflight.check.examine import examine_script
from preflight.check.selection import Selection
from preflight.source.script import parse
from preflight.vocabulary.report import Report

SCRIPT = """\
import torch

model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    loss = model(torch.randn(8, 16)).sum()
    loss.backward(){line}
    optimizer.step()
"""


def _check(text: str, path: str = "train.py", persona: str = "regular") -> Report:
    selection = Selection(persona=persona)  # type: ignore[arg-type]
    return examine_script(parse(text.encode(), path, Path(path)), Options(), selection)


def _codes(text: str, persona: str = "regular") -> list[str]:
    return [finding.code for finding in _check(text, persona=persona).findings if finding.code[:3] in ("OPT", "SUP")]


@pytest.mark.parametrize(
    "line",
    [
        "  # preflight: ignore[gradients-never-zeroed]",
        "  # preflight: ignore[OPT001] the extension clears them",
        "  # preflight:ignore[opt001]",
        "  # preflight: ignore[MEM, OPT001]",
        "  # preflight: ignore[OPT]",
        "  # preflight: ignore[correctness]",
        "  # preflight: ignore",
        "  # noqa: E501  # preflight: ignore[OPT001]",
        "  # preflight: ignore[OPT001]  # noqa",
    ],
)
def test_a_comment_on_the_line_hides(line: str) -> None:
    report = _check(SCRIPT.format(line=line))
    assert [f.code for f in report.findings if f.code == "OPT001"] == []
    assert report.verdict == "GO"
    assert report.inputs["suppressed"] >= 1


@pytest.mark.parametrize(
    "line",
    [
        "",
        "  # ignore[OPT001]",
        "  # preflight: ignore[OPT002x]",
        "  # preflight: ignore[syntax-error]",
        "  # preflight: off[OPT001]x".replace("off", "on"),
    ],
)
def test_other_comments_do_not(line: str) -> None:
    assert "OPT001" in _codes(SCRIPT.format(line=line))


def test_a_string_is_not_a_comment() -> None:
    text = SCRIPT.format(line="; note = '# preflight: ignore[OPT001]'")
    assert _codes(text) == ["OPT001"]


def test_a_comment_alone_speaks_about_the_line_below() -> None:
    above = SCRIPT.replace(
        "    loss.backward()", "    # preflight: ignore[OPT001] why\n    # more words\n    loss.backward()"
    )
    assert _codes(above.format(line="")) == []
    below = SCRIPT.replace("    optimizer.step()", "    # preflight: ignore[OPT001]\n    optimizer.step()")
    assert _codes(below.format(line="")) == ["OPT001"]


@pytest.mark.parametrize("where", [0, 1, 2])
def test_a_statement_of_several_lines(where: int) -> None:
    lines = ["    loss.backward(", "        retain_graph=False,", "    )"]
    lines[where] += "  # preflight: ignore[OPT001]"
    text = SCRIPT.replace("    loss.backward(){line}", "\n".join(lines))
    assert _codes(text) == ([] if where != 1 else ["OPT001"])


def test_the_body_of_a_loop_is_not_its_head() -> None:
    text = SCRIPT.format(line="").replace("in range(10):", "in range(10):  # preflight: ignore[OPT001]")
    assert _codes(text) == ["OPT001"]


def test_a_range() -> None:
    assert _codes("# preflight: off[OPT001]\n" + SCRIPT.format(line="")) == []
    assert _codes("# preflight: off\n" + SCRIPT.format(line="")) == []
    between = SCRIPT.format(line="").replace("for _", "# preflight: off[OPT001]\nfor _") + "# preflight: on[OPT001]\n"
    assert _codes(between) == []
    ended = SCRIPT.format(line="").replace("for _", "# preflight: off[OPT001]\n# preflight: on[OPT001]\nfor _")
    assert _codes(ended) == ["OPT001"]
    other = SCRIPT.format(line="").replace("for _", "# preflight: off[OPT001]\n# preflight: on[SYN001]\nfor _")
    assert _codes(other) == []


def test_the_whole_file() -> None:
    assert _codes(SCRIPT.format(line="") + "# preflight: ignore-file[gradients-never-zeroed]\n") == []
    assert _codes(SCRIPT.format(line="") + "# preflight: ignore-file[SYN001]\n") == ["OPT001"]


def test_a_module_of_the_project_has_its_own_comments(tmp_path: Path) -> None:
    body = SCRIPT.format(line="").replace("import torch\n", "").replace("\n", "\n    ")
    (tmp_path / "loop.py").write_text("import torch\ndef train():\n" + "    " + body)
    script = tmp_path / "train.py"
    script.write_text("import loop\nloop.train()\n")

    def codes() -> list[str]:
        report = examine_script(parse(script.read_bytes(), str(script), script), Options(), Selection())
        return [finding.code for finding in report.findings if finding.code == "OPT001"]

    assert codes() == ["OPT001"]
    (tmp_path / "loop.py").write_text(
        (tmp_path / "loop.py").read_text().replace("loss.backward()", "loss.backward()  # preflight: ignore[OPT001]")
    )
    assert codes() == []


def test_a_comment_in_a_notebook() -> None:
    cells = [
        {"cell_type": "code", "source": "import torch\n"},
        {"cell_type": "code", "source": SCRIPT.format(line="  # preflight: ignore[OPT001]")},
    ]
    report = _check(json.dumps({"cells": cells}), "train.ipynb")
    assert [finding.code for finding in report.findings if finding.code == "OPT001"] == []


def test_an_unused_comment_is_told_to_those_who_want_to_know() -> None:
    text = SCRIPT.format(line="  # preflight: ignore[OPT001, syntax-error]") + "x = 1  # preflight: ignore[OPT001]\n"
    assert _codes(text) == []
    (finding,) = [f for f in _check(text, persona="pedantic").findings if f.code == "SUP001"]
    assert finding.location.line == 9
    assert finding.severity == "info"
    assert finding.fix is not None
    (edit,) = finding.fix.edits
    assert (edit.line, edit.column, edit.text) == (9, 6, "")


def test_a_comment_for_a_rule_that_was_not_evaluated_may_be_needed() -> None:
    text = "import torch\nx = 1  # preflight: ignore[gradients-never-zeroed]\n"
    assert "SUP001" not in _codes(text, "audit")


def test_a_rule_that_does_not_exist() -> None:
    text = SCRIPT.format(line="  # preflight: ignore[gradients-never-zerod]")
    (finding,) = [f for f in _check(text).findings if f.code == "SUP002"]
    assert "'gradients-never-zerod' is not a rule" in finding.message
    assert finding.severity == "warning"
    assert finding.fix is not None
    assert finding.fix.title == "write gradients-never-zeroed"
    assert finding.fix.edits[0].text == "gradients-never-zeroed"


def test_a_word_that_does_not_exist() -> None:
    assert "SUP002" in _codes(SCRIPT.format(line="  # preflight: ingore[OPT001]"))
    assert _codes(SCRIPT.format(line="  # preflight: all systems go")) == ["OPT001"]
