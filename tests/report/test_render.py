from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from preflight.errors import UsageError
from preflight.report.render import format_for, formats, render
from preflight.vocabulary.report import Report

from . import samples


def test_every_module_beside_the_dispatcher_is_a_format() -> None:
    assert formats() == ("csv", "github", "gitlab", "html", "json", "junit", "markdown", "sarif", "text")


@pytest.mark.parametrize("format", formats())
@pytest.mark.parametrize("report", samples.ALL.values(), ids=samples.ALL.keys())
def test_every_format_shows_every_report_the_same_way_twice(report: Report, format: str) -> None:
    first = render(report, format, sources=samples.SOURCES, rules=samples.RULES)
    assert first == render(report, format, sources=samples.SOURCES, rules=samples.RULES)
    assert first.endswith("\n")
    first.encode("utf-8")


@pytest.mark.parametrize(
    ("path", "format"),
    [
        ("out/report.json", "json"),
        ("report.sarif", "sarif"),
        ("report.sarif.json", "sarif"),
        ("REPORT.HTML", "html"),
        ("a.md", "markdown"),
        ("a.xml", "junit"),
        ("a.csv", "csv"),
        ("a.txt", "text"),
        ("a.parquet", None),
        ("json", None),
    ],
)
def test_the_ending_of_a_file_names_its_format(path: str, format: str | None) -> None:
    assert format_for(path) == format


def test_an_unknown_format_names_the_nearest_one() -> None:
    with pytest.raises(UsageError, match="unknown format 'jsn'") as caught:
        render(samples.GO, "jsn")
    assert caught.value.hint == "did you mean json?"
    with pytest.raises(UsageError):
        render(samples.GO, "render")


def test_text_imports_no_other_format_and_nothing_heavy(repository: Path) -> None:
    code = (
        "import sys; from preflight.report.render import render; from preflight.vocabulary.report import Report, Tool\n"
        "render(Report(schema='s', command='check', tool=Tool('t', '0'), verdict='GO'), 'text')\n"
        "print(*sorted(sys.modules))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(repository / "src")}
    )
    loaded = set(done.stdout.split())
    assert "preflight.report.text" in loaded
    others = {f"preflight.report.{format}" for format in formats()} - {"preflight.report.text"}
    heavy = {"rich", "jinja2", "json", "xml", "csv", "html", "plotly", "click", "hashlib"}
    assert not loaded & (others | heavy)
