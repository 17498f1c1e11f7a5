"""What the documentation shows is what the program says: the console blocks are run, page by page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"(?ms)^```console\n(.*?)^```$")
OMITTED = "..."
PROGRAMS = {"preflight", "sed", "echo"}


def _steps(text: str) -> list[tuple[str, list[str]]]:
    """The commands of a page, each with the lines that it is shown to print."""
    steps: list[tuple[str, list[str]]] = []
    for block in BLOCK.findall(text):
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append((line[2:], []))
            else:
                steps[-1][1].append(line.rstrip())
    return steps


def _explain(shown: list[str], printed: list[str]) -> str | None:
    """Why the shown lines are not what was printed, or None; ``...`` stands for any lines."""
    at, free = 0, False
    for line in shown:
        if line == OMITTED:
            free = True
            continue
        places = range(at, len(printed)) if free else range(at, min(at + 1, len(printed)))
        # The end of a line may be left out, its beginning may not.
        found = next((n for n in places if printed[n] == line or (line and printed[n].startswith(line))), None)
        if found is None:
            return f"shown, not printed: {line!r}"
        at, free = found + 1, False
    if at < len(printed) and not free and shown:
        return f"printed, not shown: {printed[at]!r}"
    return None


def test_the_comparison_sees_differences() -> None:
    printed = ["a", "", "b", "c"]
    assert _explain(["a", "", "b", "c"], printed) is None
    assert _explain(["a", "...", "c"], printed) is None
    assert _explain(["a", "..."], printed) is None
    assert _explain([], printed) is None
    assert _explain(["a", "b", "c"], printed) is not None
    assert _explain(["a"], printed) is not None
    assert _explain(["...", "d"], printed) is not None
    assert _explain(["...", "c", "b"], printed) is not None


@pytest.mark.skipif(os.name == "nt", reason="the pages show a POSIX shell")
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_a_page_shows_what_is_printed(page: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "pyproject.toml").write_text("")
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "preflight").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m preflight "$@"\n')
    (commands / "preflight").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    environment |= {"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "80", "LC_ALL": "C.UTF-8"}
    environment["PYTHONPATH"] = os.pathsep.join((str(ROOT / "src"), environment.get("PYTHONPATH", "")))
    code = 0
    for command, shown in _steps(page.read_text(encoding="utf-8")):
        if command == "echo $?":
            assert shown == [str(code)], f"{page.name}: exit code {code}"
            continue
        assert command.split()[0] in PROGRAMS
        done = subprocess.run(
            ["sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, encoding="utf-8"
        )
        code = done.returncode
        assert code in (0, 1, 3), f"{command}: {done.stderr}"
        assert "internal error" not in done.stderr
        why = _explain(shown, [line.rstrip() for line in done.stdout.splitlines()])
        assert why is None, f"{page.name}: $ {command}\n{why}\n\n{done.stdout}{done.stderr}"


LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize(
    "page",
    [page for page in [*PAGES, ROOT / "examples" / "README.md", ROOT / "CHANGELOG.md"] if "rules" not in page.parts],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_links_lead_somewhere(page: Path) -> None:
    targets = [target for target in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in target]
    assert not [target for target in targets if not (page.parent / target).exists()]


PYTHON = re.compile(r"(?ms)^```python\n(.*?)^```$")


def test_the_python_of_the_first_page_runs(tmp_path: Path) -> None:
    (program,) = PYTHON.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    shutil.copy(ROOT / "examples" / "memory_overflow.py", tmp_path / "train.py")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("GO\n")  # an H100 is large enough
    assert "\nmodel_parameters 5.8 GiB\n" in done.stdout
