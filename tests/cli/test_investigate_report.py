"""``preflight investigate report``: from logs or from a saved incident to a page without secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .command_line import run


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A run whose rank 1 raises, in the home of a person, with a key in the line."""
    home = tmp_path / "home" / "jane.doe"
    home.mkdir(parents=True)
    secret = "hf_" + "Ab3dEf6hIj9lMn2pQr5t"
    for rank in (0, 1):
        lines = [f"step {step} loss {2.0 - step / 10:.3f}" for step in range(5)]
        if rank == 1:
            lines += [
                "Traceback (most recent call last):",
                '  File "/home/jane.doe/train.py", line 31, in <module>',
                f"    load(token='{secret}')",
                f"RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x4 and 5x2), HF_TOKEN={secret}",
            ]
        (home / f"rank_{rank}.log").write_text("\n".join(lines) + "\n")
    return home


@pytest.mark.parametrize("name", ["incident.html", "incident.md", "incident.json"])
def test_a_page_is_written_without_secrets_and_people(logs: Path, tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    assert run("investigate", "report", logs, "-o", target, "--quiet") == 1
    text = target.read_text()
    assert "rank 1" in text or '"ranks":[1]' in text.replace(" ", "")
    assert "hf_Ab3" not in text
    assert "jane.doe" not in text
    assert "shapes cannot be multiplied" in text


def test_a_saved_incident_is_the_same_page(logs: Path, tmp_path: Path) -> None:
    saved, one, two = tmp_path / "incident.json", tmp_path / "one.md", tmp_path / "two.md"
    assert run("investigate", logs, "-o", saved, "--quiet") == 1
    assert run("investigate", "report", saved, "-o", one, "--quiet") == 1
    assert run("investigate", "report", logs, "-o", two, "--quiet") == 1
    assert one.read_text() == two.read_text()


def test_names_in_paths_stay_when_asked_and_secrets_go(logs: Path, tmp_path: Path) -> None:
    target = tmp_path / "incident.json"
    run("investigate", "report", logs, "--keep-paths", "-o", target, "--quiet")
    assert "jane.doe" in target.read_text()
    assert "hf_Ab3" not in target.read_text()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"schema": "preflight.report/9"}', "preflight.report/1 is understood"),
        ('{"schema": "preflight.report/1", "verdict": 3}', "is damaged"),
    ],
)
def test_a_report_that_is_not_one_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, said: str
) -> None:
    path = tmp_path / "incident.json"
    path.write_text(content)
    assert run("investigate", "report", path) == 2
    assert said in capsys.readouterr().err


def test_what_verify_found_has_to_be_what_verify_wrote(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"a": 1}))
    assert run("investigate", "report", logs, "--verification", other) == 2
    assert "is not what verify wrote" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tirage"], "did you mean preflight investigate triage?"),
        (["{home}/rank_1.lgo"], "rank_1.log?"),
        (["{home}/no/where"], "there is no folder"),
        (["{home}/rank_*.txt"], "no file matches"),
        ([], "nothing to investigate is given"),
    ],
)
def test_what_is_not_there_is_named_with_what_is(
    logs: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert run("investigate", *(word.format(home=logs) for word in words)) == 2
    assert said in capsys.readouterr().err


def test_files_that_are_not_read_are_named(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (logs / "weights.bin").write_bytes(bytes(range(256)) * 40)
    (logs / "nothing.log").write_text("")
    assert run("investigate", logs, "--width", "200") == 1
    printed = capsys.readouterr().out
    assert "weights.bin: neither text nor a dump that is known, not read" in printed
    assert "nothing.log: empty" in printed


def test_the_way_through_the_trees_is_in_every_form(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    title = "way through the decision trees"
    assert run("investigate", logs) == 1
    assert title not in capsys.readouterr().out.lower()
    for words in (("investigate", logs, "--verbose"), ("investigate", "why", logs)):
        assert run(*words) == 1
        shown = capsys.readouterr().out
        assert title in shown.lower()
        assert "=> " in shown
    for name in ("incident.html", "incident.md"):
        assert run("investigate", "report", logs, "-o", tmp_path / name, "--quiet") == 1
        assert title in (tmp_path / name).read_text()
    assert run("investigate", "report", logs, "-o", tmp_path / "incident.json", "--quiet") == 1
    walk = json.loads((tmp_path / "incident.json").read_text())["walk"]
    assert walk["steps"][0]["because"]
    assert "jane.doe" not in json.dumps(walk)


def test_a_probability_reads_the_same_at_the_terminal_and_on_the_page(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("investigate", logs, "-o", tmp_path / "incident.json", "--quiet") == 1
    confidence = json.loads((tmp_path / "incident.json").read_text())["incident"]["confidence"]
    said = "over 99 %" if confidence > 0.99 else f"{100 * confidence:.0f} %"
    assert run("investigate", logs) == 1
    assert said in capsys.readouterr().out
    assert run("investigate", "report", logs, "-o", tmp_path / "incident.md", "--quiet") == 1
    assert said in (tmp_path / "incident.md").read_text()


@pytest.mark.parametrize("name", ["a.json", "a.html", "a.md", "a.txt"])
def test_what_an_investigation_writes_holds_no_secret(logs: Path, tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    more = ["--format", "text", "-v", "--width", "200"] if name == "a.txt" else []
    assert run("investigate", logs, "-o", target, "--quiet", *more) == 1
    text = target.read_text()
    assert "hf_Ab3" not in text
    assert "shapes cannot be multiplied" in text
    assert "[redacted]" in text
    assert "jane.doe" in text  # where the lines stand has to be found
