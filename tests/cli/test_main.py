"""The command itself: commands found by their files, exit codes, and errors without a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from preflight import __version__
from preflight.cli import main as program

from .command_line import HEALTHY, NEVER_ZEROED, NO_TRAINING, run

PREFLIGHT = [sys.executable, "-m", "preflight"]


@pytest.mark.parametrize(
    ("text", "status", "verdict"), [(HEALTHY, 0, "GO"), (NEVER_ZEROED, 1, "NO-GO"), (NO_TRAINING, 3, "UNKNOWN")]
)
@pytest.mark.parametrize("command", ["check", "quick"])
def test_the_exit_code_is_the_verdict(
    command: str, text: str, status: int, verdict: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(text)
    assert run(command, script) == status
    said = capsys.readouterr()
    assert said.out.startswith(f"{verdict}  ")
    assert said.err == ""


def test_the_verdict_is_the_same_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text(NEVER_ZEROED)
    assert run("check", tmp_path / "train.py", "--format", "json") == 1
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == "preflight.report/1"
    assert report["verdict"] == "NO-GO"
    assert "OPT001" in {finding["code"] for finding in report["findings"]}


def test_output_is_deterministic(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(NEVER_ZEROED)
    outputs = {
        subprocess.run(
            [*PREFLIGHT, "check", "train.py", "--format", "json"],
            cwd=tmp_path,
            capture_output=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_every_file_beside_the_program_is_a_command() -> None:
    context = click.Context(program.preflight)
    names = program.preflight.list_commands(context)
    assert {"check", "quick", "explain", "list"} <= set(names)
    for name in names:
        command = program.preflight.get_command(context, name)
        assert command is not None
        assert command.name == name


def _commands(command: click.Command, above: click.Context | None, name: str) -> Iterator[tuple[str, click.Context]]:
    context = click.Context(command, info_name=name, parent=above, **command.context_settings)
    yield context.command_path, context
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            inner = command.get_command(context, word)
            assert inner is not None
            yield from _commands(inner, context, word)


def test_no_help_shows_what_is_meant_for_click() -> None:
    helps = {name: context.get_help() for name, context in _commands(program.preflight, None, "preflight")}
    assert len(helps) > 30
    shown = ("\\b", "\\f", "INTEGER", "FLOAT")
    assert [(name, word) for name, text in helps.items() for word in shown if word in text] == []


def test_a_command_that_is_not_called_is_not_imported(tmp_path: Path) -> None:
    code = "import sys; from preflight.cli.main import main; main(['list', 'gpus']); "
    code += "print([name for name in sys.modules if name.startswith('preflight.c')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1]
    assert "'preflight.cli.list_'" in loaded
    assert "'preflight.cli.check'" not in loaded
    assert "'preflight.check.session'" not in loaded


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"preflight {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["chek", "x.py"], "did you mean check?"),
        (["train.py"], "did you mean preflight check train.py?"),
        (["check"], "name a script or a folder: preflight check train.py"),
        (["check", "x.py", "--gpu-typ", "h100"], "did you mean --gpu-type?"),
        (["check", "x.py", "--persona", "everyone"], "preflight check --help shows what there is"),
        (["check", "x.py", "--gpus", "0"], "preflight check --help shows what there is"),
        (["check", "-", "x.py"], None),
        (["check", "x.py", "--diff", "--fix"], None),
        (["check", "x.py", "--format", "jsn"], "did you mean json?"),
        (["monitor", "run", "--on-violation", "checkpont", "--", "python", "x.py"], "did you mean checkpoint?"),
        (["monitor", "show", "--sort", "suport"], "did you mean support?"),
        (
            ["monitor", "infer", "t", "-o", "i.jsonl", "--engine", "quark"],
            "preflight monitor infer --help shows what there is",
        ),
        (["check", "x.py", "--update-baseline"], "name the file: --baseline FILE"),
        (["check", "--launch", "torchrun --nproc_per_node 8"], "name it: preflight check train.py --launch ..."),
        (["explain", "OPT0001"], "did you mean OPT001? preflight list rules shows all"),
        (["explain", "gradients-cleard"], "did you mean gradients-cleared? preflight list relations shows all"),
        (["explain", "gradient-never-zeroed"], "did you mean gradients-never-zeroed? preflight list rules shows all"),
        (["explain", "OPT001", "--format", "sarif"], "one of text, markdown, json, html"),
        (["monitor", "infer", "t", "-o", "."], "name a file in it, as invariants.jsonl"),
        (["list", "rule"], "did you mean rules?"),
        (["list", "gpus", "hoper"], "did you mean hopper?"),
        (["check", "x.py", "--select", "gradient-never-zeroed"], "did you mean gradients-never-zeroed?"),
    ],
)
def test_misuse_is_one_message_and_a_hint(
    arguments: list[str],
    hint: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "x.py").write_text(HEALTHY)
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    lines = said.err.splitlines()
    assert lines[0].startswith("preflight: error: ")
    assert lines[1:] == ([f"hint: {hint}"] if hint else [])


@pytest.mark.parametrize("words", [(), ("monitor",)])
def test_without_arguments_it_shows_the_help(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 2
    said = capsys.readouterr()
    assert said.out.startswith("Usage: ")
    assert "\nCommands:\n" in said.out
    assert said.err == ""


def test_a_submission_of_nothing_is_one_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("sbatch") == 2
    said = capsys.readouterr()
    assert said.err.startswith("preflight: error: no job script is named\nhint: ")
    assert said.out == ""


@pytest.mark.parametrize("words", [(), ("monitor",), ("investigate",), ("plan",)])
def test_no_command_is_listed_with_half_a_sentence(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words, "--help") == 0
    assert "..." not in capsys.readouterr().out.partition("\nCommands:\n")[2]


def test_an_error_of_ours_asks_to_be_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(HEALTHY)
    from preflight.check import examine

    monkeypatch.setattr(examine, "check_script", lambda *_: {}["nothing"])
    assert run("check", tmp_path / "train.py") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "preflight: error: internal error: KeyError: 'nothing'",
        "hint: please report it; PREFLIGHT_TRACEBACK=1 shows where it comes from",
    ]
    monkeypatch.setenv("PREFLIGHT_TRACEBACK", "1")
    assert run("check", tmp_path / "train.py") == 2
    assert "Traceback" in capsys.readouterr().err


def test_an_interruption_ends_with_130(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(HEALTHY)
    from preflight.check import examine

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(examine, "check_script", interrupted)
    assert run("check", tmp_path / "train.py") == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_reader_that_goes_away_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(NEVER_ZEROED)
    process = subprocess.Popen(
        [*PREFLIGHT, "check", "train.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 1
    assert said == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_an_answer_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HEALTHY)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PREFLIGHT, "check", "train.py"], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2
    assert done.stderr.startswith("preflight: error: the answer cannot be written")
    assert len(done.stderr.splitlines()) == 1


def test_colours_only_where_they_are_wanted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text(NEVER_ZEROED)
    run("check", tmp_path / "train.py")
    assert "\x1b" not in capsys.readouterr().out
