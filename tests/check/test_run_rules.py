"""Rules that ask what a dry run saw: every example is run on the virtual GPU."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from preflight.check.asked import Options
from preflight.check.registry import load_rules, load_run_rules
from preflight.check.rule import Example, RunRule
from preflight.check.session import check_text
from preflight.dryrun.server import Server
from preflight.vocabulary.finding import Finding

pytest.importorskip("torch")

RULES = load_run_rules()
READ = {loaded.rule.code for loaded in load_rules()}


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


@pytest.fixture
def _quick(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("preflight.dryrun.launch.dry_run", server.run)


def _example(given: str | Example) -> Example:
    return given if isinstance(given, Example) else Example(given)


def _cases(kind: str) -> list[object]:
    return [
        pytest.param(loaded, _example(example), id=f"{loaded.rule.code}-{number}")
        for loaded in RULES
        for number, example in enumerate(getattr(import_module(loaded.module), kind))
    ]


def _seen(loaded: RunRule, example: Example, folder: Path) -> list[Finding]:
    """The findings of the rule to which the run said something."""
    for name, text in example.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "train.py").write_text(example.code)
    options = Options(
        gpu=example.gpu or "h100", gpus=example.gpus, launch=example.launch, arguments=example.arguments or None,
        dry_run=True, probe=hasattr(import_module(loaded.module), "probe_of"), time_limit=100,
    )  # fmt: skip
    report = check_text(folder / "train.py", options)
    assert report.profile is not None
    mine = [f for f in report.findings if f.code == loaded.rule.code]
    return [f for f in mine if any(e.source == "measured" for e in f.evidence)]


@pytest.mark.torch
@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize(("loaded", "example"), _cases("BAD"))
def test_bad_runs_are_found(loaded: RunRule, example: Example, tmp_path: Path) -> None:
    found = _seen(loaded, example, tmp_path)
    assert len(found) == example.count, [f.message for f in found]
    for finding in found:
        assert finding.location.line is not None
        assert finding.fix is not None, "a finding says what to change"
        assert not finding.message.endswith("."), "no full stop after one sentence"


@pytest.mark.torch
@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize(("loaded", "example"), _cases("GOOD"))
def test_good_runs_are_not(loaded: RunRule, example: Example, tmp_path: Path) -> None:
    assert [f.message for f in _seen(loaded, example, tmp_path)] == []


def test_run_rules_are_declared_well() -> None:
    codes = [loaded.rule.code for loaded in RULES]
    assert len(set(codes)) == len(codes)
    for loaded in RULES:
        module = import_module(loaded.module)
        assert loaded.module.rpartition(".")[2] == loaded.rule.name.replace("-", "_")
        assert len(module.BAD) >= 3, f"{loaded.rule.code}: at least three spellings"
        assert len(module.GOOD) >= 1, f"{loaded.rule.code}: a near miss"
        if loaded.rule.code not in READ:
            assert loaded.rule.layer == "V"
            for section in ("## What it does", "## Why", "## Fix", "## When to ignore"):
                assert section in loaded.page
