"""Invariants files: read, changed and merged, whole or not at all; and the commands that do so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from preflight.cli.main import main
from preflight.errors import InputError, UsageError
from preflight.monitor.invariants_file import change, find, merge, read_invariants, write_invariants
from preflight.monitor.library_of import in_force, shipped
from preflight.vocabulary.invariant import Invariant, Origin, Provenance, encoded


def made(ident: str, relation: str = "step-updates", **more: object) -> Invariant:
    return Invariant(id=ident, relation=relation, text=f"{ident} holds", **more)  # type: ignore[arg-type]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_invariants(
        "good.jsonl",
        [
            made("b2", "gradients-cleared", support=7),
            made("a1", support=90, subject={"name": "model.fc"}),
            made("a2", support=3, confidence=0.75),
        ],
    )
    return tmp_path / "good.jsonl"


def test_a_file_is_in_an_order_that_follows_from_its_content(file: Path) -> None:
    found = read_invariants(file)
    assert [one.id for one in found] == ["b2", "a1", "a2"] or [one.id for one in found] == ["b2", "a2", "a1"]
    assert encoded(reversed(found)) == file.read_bytes()
    assert file.read_bytes().count(b"\n") == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("hello\n", "is not an invariants file: line 1"),
        ('{"id": "a", "relation": "step-updates"}\n\n{"id": 3}\n', "is damaged: line 3"),
        ('{"id": "a", "relation": "x"}\n{"id": "a", "relation": "x"}\n', "the id 'a' of line 2 is that of line 1"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "f.jsonl").write_text(content)
    with pytest.raises(InputError, match=message):
        read_invariants(tmp_path / "f.jsonl")


def test_an_invariant_of_an_unknown_relation_names_the_nearest(tmp_path: Path) -> None:
    write_invariants(tmp_path / "f.jsonl", [made("a", "step-update")])
    with pytest.raises(InputError, match="'step-update' that is not known") as raised:
        in_force([tmp_path / "f.jsonl"])
    assert raised.value.hint == "did you mean step-updates?"


def test_the_beginning_of_an_id_is_enough(file: Path) -> None:
    found = read_invariants(file)
    assert find(found, "b").id == "b2"
    with pytest.raises(UsageError, match="'a' is the beginning of 2 ids"):
        find(found, "a")
    with pytest.raises(UsageError, match="no invariant has the id 'a3'"):
        find(found, "a3")


def test_nothing_is_written_when_one_of_several_is_not_there(file: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(UsageError):
        change(file, ["a1", "zz"], lambda one: one)
    assert file.read_bytes() == before


def test_merging_keeps_what_all_have_and_what_is_pinned() -> None:
    one = [made("x", support=10, confidence=1.0, source=Provenance(runs=("r1",))), made("y", pinned=True), made("z")]
    two = [made("x", support=30, confidence=0.5, source=Provenance(runs=("r2",)), suppressed="known")]
    found = {invariant.id: invariant for invariant in merge([one, two])}
    assert sorted(found) == ["x", "y"]
    assert found["x"].support == 40
    assert found["x"].confidence == pytest.approx(25 / 40)
    assert found["x"].source.runs == ("r1", "r2")
    assert found["x"].suppressed == "known"
    assert len(merge([one, two], everything=True)) == 3
    assert merge([one, two]) == merge([two, one])


def test_show_says_sentences_and_can_be_narrowed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["monitor", "show", "good.jsonl"]) == 0
    shown = capsys.readouterr().out
    assert "- a1 holds" in shown
    assert "held 3 times (75.0 %)" in shown
    assert shown.endswith("3 invariants\n")
    assert main(["monitor", "show", "good.jsonl", "--match", "FC", "--format", "json"]) == 0
    assert [one["id"] for one in json.loads(capsys.readouterr().out)["invariants"]] == ["a1"]
    assert main(["monitor", "show", "good.jsonl", "--sort", "support", "--format", "csv"]) == 0
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == ["id", "a1", "b2", "a2"]
    assert main(["monitor", "show", "good.jsonl", "--relation", "step-update"]) == 2
    assert "did you mean step-updates?" in capsys.readouterr().err


def test_show_says_once_what_holds_in_several_trainings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    learnt = [
        Invariant(id=ident, relation="calls-per-step", subject={"model": of}, text=f"{text} (in the training of {of})")
        for ident, text, of in (
            ("c-1", "backward occurs once", "Net by one"),
            ("c-2", "backward occurs once", "Net by two"),
            ("c-3", "zero_grad occurs once", "Net by two"),
        )
    ]
    write_invariants("several.jsonl", learnt)
    assert main(["monitor", "show", "several.jsonl"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("backward occurs once") == 1
    assert shown.index("backward") < shown.index("c-1") < shown.index("c-2") < shown.index("zero_grad")
    numbers = dict(line.strip().split("  ") for line in shown.splitlines() if "  Net by" in line)
    for one in learnt:
        [line] = [line for line in shown.splitlines() if line.strip().startswith(one.id)]
        assert numbers[line.rsplit("training ", 1)[1]] == one.subject["model"]
    write_invariants("single.jsonl", learnt[1:])
    assert main(["monitor", "show", "single.jsonl"]) == 0
    shown = capsys.readouterr().out
    assert "; training" not in shown
    assert "speak of one program alone: in the training of Net by two" in " ".join(shown.split())


@pytest.mark.parametrize("origin", get_args(Origin))
def test_show_says_of_every_invariant_where_it_comes_from(
    file: Path, capsys: pytest.CaptureFixture[str], origin: Origin
) -> None:
    told = [
        msgspec.structs.replace(one, source=Provenance(origin=origin, runs=("x",))) for one in read_invariants(file)
    ]
    write_invariants("told.jsonl", told)
    for format in ("text", "markdown", "html", "csv", "json"):
        assert main(["monitor", "show", "told.jsonl", "--format", format]) == 0
        assert not capsys.readouterr().err


def test_show_gives_shipped_statements_by_name_where_a_file_has_its_own(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    general = Invariant("step-updates", "step-updates", text="A step changes what it owns.")
    write_invariants(file, [*read_invariants(file), general])
    assert main(["monitor", "show", "good.jsonl"]) == 0
    shown = capsys.readouterr().out
    assert "in general\n  step-updates\n" in shown
    assert "A step changes" not in shown
    assert "4 invariants, 1 of them about correct training in general" in " ".join(shown.split())
    for words in (["--all"], ["--relation", "step-updates"]):
        assert main(["monitor", "show", "good.jsonl", *words]) == 0
        assert "- A step changes what it owns" in capsys.readouterr().out


def test_show_names_a_few_runs_and_is_not_sure_of_what_was_never_seen(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few, many = (Provenance(origin="library", runs=tuple(f"run{one}" for one in range(number))) for number in (4, 40))
    write_invariants("told.jsonl", [made("c1", source=few), made("c2", support=2, source=many)])
    assert main(["monitor", "show", "told.jsonl", "--sort", "id"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "c1; error; shipped from run0, run1, run2, run3 -" in shown
    assert "c2; error; held 2 times; shipped from run0, run1, run2 and 37 others" in shown
    assert main(["monitor", "show", "told.jsonl", "--sort", "id", "--format", "csv"]) == 0
    rows = [line.split(",")[:5] for line in capsys.readouterr().out.splitlines()[1:]]
    assert rows == [["c1", "step-updates", "error", "0", ""], ["c2", "step-updates", "error", "2", "1.0"]]


def test_suppress_needs_a_reason_and_can_be_undone(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["monitor", "suppress", "a1", "--invariants", "good.jsonl"]) == 2
    assert "needs a reason" in capsys.readouterr().err
    before = file.read_bytes()
    assert main(["monitor", "suppress", "a1", "it is meant", "--invariants", "good.jsonl"]) == 0
    assert find(read_invariants(file), "a1").suppressed == "it is meant"
    assert main(["monitor", "suppress", "a1", "--undo", "--invariants", "good.jsonl"]) == 0
    assert file.read_bytes() == before


def test_what_is_said_of_shipped_invariants_is_in_a_file_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ident = shipped()[0].id
    assert main(["monitor", "suppress", ident, "we know"]) == 0
    assert main(["monitor", "pin", shipped()[1].id]) == 0
    held = {one.id: one for one in in_force()}
    assert held[ident].suppressed == "we know"
    assert held[shipped()[1].id].pinned
    assert len(held) == len(shipped())
    assert "in .preflight/invariants.jsonl" in capsys.readouterr().err
    assert main(["monitor", "pin", "no-such-thing-at-all"]) == 2


def test_merge_writes_a_file_and_refuses_one_that_is_there(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_invariants("more.jsonl", [made("a1", support=10, subject={"name": "model.fc"})])
    assert main(["monitor", "merge", "good.jsonl", "more.jsonl", "-o", "both.jsonl"]) == 0
    assert [(one.id, one.support) for one in read_invariants("both.jsonl")] == [("a1", 100)]
    assert main(["monitor", "merge", "good.jsonl", "-o", "both.jsonl"]) == 2
    assert "--force writes over it" in capsys.readouterr().err


def test_every_relation_has_a_page_and_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "relations", "--format", "json"]) == 0
    names = [one["name"] for one in json.loads(capsys.readouterr().out)["relations"]]
    assert "gradients-cleared" in names
    for name in names:
        assert main(["explain", name, "--format", "json"]) == 0
        page = json.loads(capsys.readouterr().out)
        assert page["name"] == name
        assert page["cause"]
        assert page["page"]
    assert main(["explain", "gradients_cleared"]) == 0
    assert "DOES NOT HOLD IN" in capsys.readouterr().out
