"""Every rule's examples are executed: the bad ones are found, the good ones are not, and fixed ones check clean."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.check.asked import Options
from preflight.check.files.fix import Fixing
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
def test_bad_examples_are_found_and_check_clean_once_fixed(
    loaded: LoadedRule, example: Example, tmp_path: Path
) -> None:
    found = _findings(loaded, example, tmp_path)
    assert len(found) == example.count, [f.message for f in found]
    for finding in found:
        assert finding.location.line is not None
        assert finding.evidence, "a finding shows its evidence"
        assert finding.fix is not None, "a finding says what to change"
        assert not finding.message.endswith("."), "no full stop after one sentence"
    if any(finding.fix is not None and finding.fix.edits for finding in found):  # other fixes are for a person
        assert [f.message for f in _findings(loaded, _fixed(found, example, tmp_path), tmp_path)] == []


@pytest.mark.parametrize(("loaded", "example"), _cases("GOOD"))
def test_good_examples_are_not(loaded: LoadedRule, example: Example, tmp_path: Path) -> None:
    assert [f.message for f in _findings(loaded, example, tmp_path)] == []


def _fixed(found: list[Finding], example: Example, folder: Path) -> Example:
    """Apply the fixes, and return the example that they leave."""
    fixing = Fixing(found, unsafe=True, root=str(folder))
    assert fixing.skipped == []
    fixing.write()
    code = (folder / "train.py").read_text()
    return Example(code, example.arguments, {}, example.gpu, example.gpus, example.launch)


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
