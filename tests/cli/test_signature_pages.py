"""``preflight explain`` and ``preflight list`` on failure signatures and error numbers of the driver."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from preflight.catalog.signature_files import load_signatures

from .command_line import run

EACH = load_signatures()
OWN = """\
title = "The lab's own file server is away"
category = "data"
role = "root"
literals = ["labfs: server"]
sources = ["the file server's own manual"]
match = ["labfs: server one is away"]
no_match = ["labfs one is back"]
next = ["Ask the lab."]

[[causes]]
id = "server-down"
title = "The server is down"
prior = 1.0
"""


def _said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(*arguments) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


@pytest.mark.parametrize("form", ["text", "markdown", "json", "html"])
def test_a_signature_has_a_page_in_every_format(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = _said(capsys, "explain", "network.watchdog-timeout", "--format", form, "--width", "80")
    assert "A collective did not finish in time" in shown
    assert "peer-dead" in shown
    if form == "json":
        page = json.loads(shown)
        assert (page["schema"], page["name"], page["family"]) == (
            "preflight.signature/1", "network.watchdog-timeout", "network",
        )  # fmt: skip
        assert [cause["prior"] for cause in page["causes"]] == sorted(
            (cause["prior"] for cause in page["causes"]), reverse=True
        )
        assert page["shift"] == "timeout"
        assert page["match"]
        assert page["sources"]


@pytest.mark.parametrize("spelling", ["oom/cuda-allocation", "OOM.cuda_allocation", "oom/cuda-allocation.toml"])
def test_an_id_may_be_spelt_like_its_path(spelling: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _said(capsys, "explain", spelling).startswith("oom.cuda-allocation\n")


def test_every_page_can_be_made() -> None:
    from preflight.cli.parts.signature_pages import render_signature, signature_markdown, signature_page
    from preflight.cli.parts.writing import writing

    text, html = (writing(form, None, False, True, 80) for form in ("text", "html"))
    for signature in EACH:
        page = signature_page(signature.id)
        assert signature_markdown(signature.id).startswith(f"# `{signature.id}`\n\n{signature.title}.\n")
        assert signature.match[0].splitlines()[0] in render_signature(page, text)
        assert render_signature(page, html).startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("network.watchdog-timout", "network.watchdog-timeout"),
        ("data.watchdog-timeout", "network.watchdog-timeout"),
        ("watchdog-timeout", "network.watchdog-timeout"),
    ],
)
def test_a_wrong_id_is_answered_with_the_nearest(wrong: str, near: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", wrong) == 2
    assert f"did you mean {near}?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "says"),
    [("xid-79", "fell off the bus"), ("Xid 45", "look for the earlier one"), ("sxid_22003", "stops the whole fabric")],
)
@pytest.mark.parametrize("form", ["text", "markdown", "json", "html"])
def test_an_error_number_has_a_page(number: str, says: str, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = _said(capsys, "explain", number, "--format", form)
    if form == "json":
        assert json.loads(shown)["code"] == int("".join(filter(str.isdigit, number)))
    else:
        assert says in " ".join(shown.split())


def test_an_unknown_number_is_no_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", "xid-9999") == 2


def test_signatures_are_listed_by_family_category_and_role(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(_said(capsys, "list", "signatures", "hardware", "confirmation", "--format", "json"))["signatures"]
    assert rows
    assert {row["role"] for row in rows} == {"confirmation"}
    assert len(json.loads(_said(capsys, "list", "signatures", "--format", "json"))["signatures"]) == len(EACH)


def test_a_users_signature_is_listed_and_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".git").mkdir()
    folder = tmp_path / f"catalog-{tmp_path.name}"
    (folder / "signatures" / "lab").mkdir(parents=True)
    (folder / "signatures" / "lab" / "server-away.toml").write_text(OWN, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(f'[tool.preflight]\ncatalog = ["{folder.name}"]\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert _said(capsys, "explain", "lab.server-away").startswith(
        "lab.server-away\nThe lab's own file server is away\n"
    )
    assert "lab.server-away" in _said(capsys, "list", "signatures", "lab")


def test_a_users_signature_that_is_wrong_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".git").mkdir()
    folder = tmp_path / f"catalog-{tmp_path.name}"
    (folder / "signatures" / "lab").mkdir(parents=True)
    (folder / "signatures" / "lab" / "server-away.toml").write_text(OWN.replace("root", "rot"), encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(f'[tool.preflight]\ncatalog = ["{folder.name}"]\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert run("explain", "lab.server-away") == 2
    said = capsys.readouterr().err
    assert "server-away.toml: role: 'rot' is none of" in said
    assert "did you mean 'root'?" in said


def test_a_page_says_how_causes_are_told_apart_and_what_each_remedy_is(capsys: pytest.CaptureFixture[str]) -> None:
    shown = " ".join(_said(capsys, "explain", "oom.cuda-allocation", "--width", "100").split())
    assert "Look at the processes on the cards and on the node" in shown
    assert "$ nvidia-smi; ps aux" in shown
    assert "Let the allocator grow its segments (immediate, against fragmentation) [expandable-segments]" in shown
    assert "The training step does not fit on the GPU [step-exceeds-device, rule]" in shown


def test_every_signature_that_accuses_has_a_way_to_tell_and_a_remedy() -> None:
    from preflight.cli.parts.signature_pages import signature_page

    for signature in EACH:
        if signature.role in ("root", "confirmation"):
            page = signature_page(signature.id)
            assert page["observations"], signature.id
            assert page["remedy_titles"], signature.id
            assert all(one["title"] for one in page["told_before"]), (signature.id, page["told_before"])


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("peak-exceeds-device", "a cause; oom"),
        ("memory-arithmetic", "something that tells causes apart"),
        ("half-batch", "an experiment"),
        ("reduce-batch", "Halve the samples"),
        ("before-launch", "a checklist"),
        ("crash", "a decision tree"),
        ("compute", "a probe"),
    ],
)
@pytest.mark.parametrize("form", ["text", "markdown", "json", "html"])
def test_whatever_an_investigation_names_has_a_page(
    name: str, says: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = _said(capsys, "explain", name, "--format", form, "--width", "100")
    if form == "json":
        assert name in json.loads(shown).values()
    else:
        assert name in shown
        assert says in " ".join(shown.split())


@pytest.mark.parametrize(
    ("wrong", "near"), [("reduce-bacth", "reduce-batch"), ("peer-daed", "peer-dead"), ("Oom", "list signatures oom")]
)
def test_the_nearest_of_everything_is_named(wrong: str, near: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", wrong) == 2
    assert near in capsys.readouterr().err
