"""The remedies: every file is whole, leads somewhere, and can be taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.catalog.remedy_files import load_remedies, load_remedy, remedy_names
from preflight.errors import CatalogError, UsageError
from preflight.vocabulary.remedy import CallChange, EnvironmentChange, Remedy, SettingChange, StatementChange

REMEDIES = load_remedies()


def test_there_are_remedies_for_every_category_of_failure() -> None:
    assert len(REMEDIES) >= 60
    assert {one.category for one in REMEDIES} >= {
        "oom", "network", "numerical", "hardware", "usercode", "data", "environment", "checkpoint", "preemption",
        "compile", "other",
    }  # fmt: skip
    assert {one.kind for one in REMEDIES} == {"immediate", "structural"}


@pytest.mark.parametrize("remedy", REMEDIES, ids=lambda one: one.id)
def test_a_remedy_says_what_it_needs_does_costs_and_how_it_is_proved_and_taken_back(remedy: Remedy) -> None:
    for word in (remedy.precondition, remedy.effect, remedy.cost, remedy.verification, remedy.reversal):
        assert word[0] != " "
        assert len(word) > 3
    assert remedy.causes, "a remedy is for a cause"
    assert remedy.changes or remedy.instruction, "either a change or what a person does"
    assert remedy.danger in ("none", "low") or remedy.dangers or remedy.instruction
    assert len(set(remedy.causes)) == len(remedy.causes)


@pytest.mark.parametrize("remedy", REMEDIES, ids=lambda one: one.id)
def test_a_change_says_what_to_write(remedy: Remedy) -> None:
    import ast

    for change in remedy.changes:
        if isinstance(change, SettingChange):
            assert change.names
            assert (change.value is None) != (change.factor is None), "a value or a factor"
            assert change.add is None or change.value is not None, "what is added needs a value"
        elif isinstance(change, CallChange):
            ast.parse(change.value, mode="eval")
            assert change.keyword.isidentifier()
            ast.parse("\n".join(change.imports))
        elif isinstance(change, StatementChange):
            ast.parse(change.line.replace("{", "").replace("}", ""))
            ast.parse("\n".join(change.imports))
        else:
            assert isinstance(change, EnvironmentChange)
            assert change.variable.isidentifier()


def test_rules_that_are_named_exist() -> None:
    from preflight.check.registry import shipped_rules
    from preflight.monitor.relation import relations

    known = {one.rule.name for one in shipped_rules()} | set(relations())
    named = {name for one in REMEDIES for name in one.caught_by if not name.startswith("checklist:")}
    assert named
    assert not named - known


def test_a_users_remedy_is_added_and_wins(tmp_path: Path) -> None:
    folder = tmp_path / "remedies"
    folder.mkdir()
    text = Path(str(Path(load_remedy.__code__.co_filename).parent / "remedies" / "reduce-batch.toml")).read_text()
    (folder / "reduce-batch.toml").write_text(text.replace("Halve", "Quarter", 1))
    (folder / "our-own.toml").write_text(text)
    assert load_remedy("reduce-batch", [str(tmp_path)]).title.startswith("Quarter")
    assert load_remedy("our-own", [str(tmp_path)]).id == "our-own"
    assert len(remedy_names([str(tmp_path)])) == len(REMEDIES) + 1


def test_what_is_not_there_gets_the_nearest_name_and_what_is_wrong_its_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_remedy("reduce-batsch")
    assert "reduce-batch" in (caught.value.hint or "")
    (tmp_path / "remedies").mkdir()
    (tmp_path / "remedies" / "half.toml").write_text('title = "x"\nsources = ["y"]\n')
    with pytest.raises(CatalogError, match=r"half\.toml"):
        load_remedy("half", [str(tmp_path)])


def test_every_remedy_is_for_something_that_is_recognised() -> None:
    """A signature names it or has its cause; what slows a run down has no line of its own, and is a leaf of a tree."""
    from preflight.catalog.signature_files import load_signatures
    from preflight.catalog.tree_files import load_tree, tree_names

    signatures = load_signatures()
    causes = {cause.id for one in signatures for cause in one.causes}
    named = {name for one in signatures for name in one.remedies}
    leaves = {name for tree in tree_names() for leaf in load_tree(tree).leaves for name in leaf.remedies}
    ids = {one.id for one in signatures}
    # How a process ended and what it raised are told by the judgement, not by a file of the catalogue.
    told = ("exit.", "exception.")
    assert not {name for one in REMEDIES for name in one.signatures if not name.startswith(told)} - ids
    lost = [
        one.id
        for one in REMEDIES
        if not causes & set(one.causes) and not one.signatures and one.id not in named | leaves
    ]
    assert not lost


def test_every_cause_of_a_signature_has_a_remedy() -> None:
    from preflight.catalog.signature_files import load_signatures

    against = {cause for one in REMEDIES for cause in one.causes}
    named = {one.id: set(one.remedies) for one in load_signatures()}
    open_ = {
        f"{one.id}: {cause.id}"
        for one in load_signatures()
        for cause in one.causes
        if cause.id not in against and not named[one.id]
    }
    assert not open_
