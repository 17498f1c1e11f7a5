"""Every rule's examples are executed: the bad ones are found, the good ones are not, and fixed ones check clean."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.check.asked import Options
from preflight.check.registry import load_rules
from preflight.check.rule import Example, LoadedRule
from preflight.check.session import check_text
from preflight.vocabulary.finding import Finding

RULES = load_rules()


def _example(given: str | Example) -> Example:
    return given if isinstance(given, Example) else Example(given)


def _findings(loaded: LoadedRule, example: Example, folder: Path) -> list[Finding]:
    for name, text in example.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "train.py").write_text(example.code)
    options = Options(gpu=example.gpu, gpus=example.gpus, launch=example.launch, arguments=example.arguments or None)
    report = check_text(folder / "train.py", options)
    return [f for f in report.findings if f.code == loaded.rule.code]


def _cases(kind: str) -> list[object]:
    from importlib import import_module

    return [
        pytest.param(loaded, _example(example), id=f"{loaded.rule.code}-{number}")
        for loaded in RULES
        for number, example in enumerate(getattr(import_module(loaded.module), kind))
    ]


@pytest.mark.parametrize(("loaded", "example"), _cases("BAD"))
def test_bad_examples_are_found(loaded: LoadedRule, example: Example, tmp_path: Path) -> None:
    found = _findings(loaded, example, tmp_path)
    assert len(found) == example.count, [f.message for f in found]
    for finding in found:
        assert finding.location.line is not None
        assert finding.evidence, "a finding shows its evidence"
        assert finding.fix is not None, "a finding says what to change"
        assert not finding.message.endswith("."), "no full stop after one sentence"


@pytest.mark.parametrize(("loaded", "example"), _cases("GOOD"))
def test_good_examples_are_not(loaded: LoadedRule, example: Example, tmp_path: Path) -> None:
    assert [f.message for f in _findings(loaded, example, tmp_path)] == []


@pytest.mark.parametrize(("loaded", "example"), _cases("BAD"))
def test_fixed_examples_check_clean(loaded: LoadedRule, example: Example, tmp_path: Path) -> None:
    from preflight.check.fix import Fixing

    found = _findings(loaded, example, tmp_path)
    if not any(f.fix is not None and f.fix.edits for f in found):
        pytest.skip("this fix is for a person")
    fixing = Fixing(found, unsafe=True, root=str(tmp_path))
    assert fixing.skipped == []
    fixing.write()
    again = _findings(
        loaded,
        Example((tmp_path / "train.py").read_text(), example.arguments, {}, example.gpu, example.gpus, example.launch),
        tmp_path,
    )
    assert [f.message for f in again] == []


def test_rules_are_declared_well() -> None:
    from importlib import import_module

    codes = [r.rule.code for r in RULES]
    names = [r.rule.name for r in RULES]
    assert len(set(codes)) == len(codes)
    assert len(set(names)) == len(names)
    for loaded in RULES:
        module = import_module(loaded.module)
        assert loaded.module.rpartition(".")[2] == loaded.rule.name.replace("-", "_")
        assert len(module.BAD) >= 3, f"{loaded.rule.code}: at least three spellings"
        assert len(module.GOOD) >= 1, f"{loaded.rule.code}: a near miss"
        assert "## What it does" in loaded.page
        assert "## Why" in loaded.page
        assert "## Fix" in loaded.page
