"""What the documentation shows is what the program says: the console blocks are run, page by page."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from preflight.cli.main import main

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"(?ms)^```console\n(.*?)^```$")
OMITTED = "..."
PROGRAMS = {"preflight", "sed", "echo"}
SHELL = re.compile(r"[|<>;&*$`]")
"""What only a shell understands."""
TRAINS = re.compile(r"(?m)^\$ preflight (?:monitor (?:run|collect) .*-- |check .*--dry-run)")
"""A command that runs a training program, which needs torch."""


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


def _of_streams(shown: list[str], streams: list[list[str]]) -> list[list[str]]:
    """The shown lines as those of each stream: a line belongs to the first stream that has it, else to the last."""
    lines: list[list[str]] = [[] for _ in streams]
    for line in shown:
        owner = next((n for n, printed in enumerate(streams) if any(text.startswith(line) for text in printed)), -1)
        for place in range(len(streams)) if line == OMITTED else (owner,):
            lines[place].append(line)
    return lines


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
    assert _of_streams(["x", "a", "...", "b"], [["a", "b"], ["x"]]) == [["a", "...", "b"], ["x", "..."]]
    assert _of_streams(["a", "y"], [["a"], ["x"]]) == [["a"], ["y"]]


def _with_blocks() -> Iterator[Any]:
    """The pages that show commands; those that train are marked."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if BLOCK.search(text):
            marks = [pytest.mark.torch, pytest.mark.slow] if TRAINS.search(text) else []
            yield pytest.param(page, marks=marks, id=page.relative_to(ROOT).as_posix())


@pytest.mark.skipif(os.name == "nt", reason="the pages show a POSIX shell")
@pytest.mark.parametrize("page", list(_with_blocks()))
def test_a_page_shows_what_is_printed(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if TRAINS.search(page.read_text(encoding="utf-8")):
        pytest.importorskip("torch")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "pyproject.toml").write_text("")
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, options in (("preflight", " -m preflight"), ("python", ""), ("torchrun", " -m torch.distributed.run")):
        (commands / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{options} "$@"\n')
        (commands / name).chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    environment |= {"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "80", "LC_ALL": "C.UTF-8"}
    environment["PYTHONPATH"] = os.pathsep.join((str(ROOT / "src"), environment.get("PYTHONPATH", "")))
    for name in os.environ.keys() - environment.keys():
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    code = 0
    for command, shown in _steps(page.read_text(encoding="utf-8")):
        if command == "echo $?":
            assert shown == [str(code)], f"{page.name}: exit code {code}"
            continue
        assert command.split()[0] in PROGRAMS
        code, *said = _run(command)
        assert code in (0, 1, 3), f"{command}: {said[1]}"
        assert "internal error" not in said[1]
        printed = [[line.rstrip() for line in stream.splitlines()] for stream in said]
        streams = printed if command.startswith("preflight monitor") else printed[:1]
        parts = zip(_of_streams(shown, streams), streams, strict=True)
        why = next((why for lines, stream in parts if (why := _explain(lines, stream)) is not None), None)
        assert why is None, f"{page.name}: $ {command}\n{why}\n\n{''.join(said)}"


def _run(command: str) -> tuple[int, str, str]:
    """Run a command as a shell would; the exit code and what it printed.

    Ours run in this process: most of a second is saved each time, and there are more than a hundred.
    """
    plain = command.startswith("preflight ") and not SHELL.search(command) and not TRAINS.match(f"$ {command}")
    if not plain:
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, encoding="utf-8")
        return done.returncode, done.stdout, done.stderr
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        code = main(shlex.split(command)[1:])
    for stream in streams:
        stream.flush()
    said = [stream.buffer.getvalue().decode() for stream in streams]  # type: ignore[attr-defined]
    return code, said[0], said[1]


LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def test_links_lead_somewhere() -> None:
    dead = []
    for page in [*PAGES, ROOT / "examples" / "README.md", ROOT / "CHANGELOG.md"]:
        targets = [target for target in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in target]
        dead += [f"{page.relative_to(ROOT)}: {target}" for target in targets if not (page.parent / target).exists()]
    assert not dead


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
