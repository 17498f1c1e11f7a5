"""Going through a list: what is critical and was not checked never passes; a person's word has evidence and an end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from preflight.catalog.checklist_files import checklist_names, load_checklist
from preflight.catalog.remedy_files import load_remedies, remedy_names
from preflight.errors import CatalogError, InputError, UsageError
from preflight.investigate.checklist.checks import check_names
from preflight.investigate.checklist.proposed import as_toml, proposed_items
from preflight.investigate.checklist.run import go_through, verdict_of
from preflight.investigate.checklist.words import attest, read_words, text_of
from preflight.vocabulary.checklist import (
    Attestation,
    Checklist,
    CommandCheck,
    FactCheck,
    FunctionCheck,
    Item,
    PersonCheck,
    Result,
    RulesCheck,
)
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.finding import Finding, Location
from preflight.vocabulary.incident import Culprit, Hypothesis, Incident
from preflight.vocabulary.report import SCHEMA, NotEvaluated, Report, Tool

DAY = 86400.0


def item(check: Any, **more: Any) -> Item:
    return Item(**{"id": "one", "title": "t", "why": "w", "area": "a", "critical": True, "check": check, **more})


def standing(one: Item, **more: Any) -> Result:
    given: dict[str, Any] = {"settings": {}, "attested": {}, "read_script": lambda: None, **more}
    (result,) = go_through(Checklist(id="l", title="l", items=(one,), sources=("s",)), **given)
    return result


def report(**more: Any) -> Report:
    return Report(**{"schema": SCHEMA, "command": "check", "tool": Tool("preflight", "0"), "verdict": "GO", **more})


def test_the_textbooks_example_does_not_pass_when_its_critical_items_were_not_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    results = go_through(load_checklist("llama-70b"), settings={}, attested={}, read_script=lambda: None)
    assert {one.item for one in results if one.critical} == {"gpu-memory", "infiniband", "checkpoint-storage"}
    assert verdict_of(results) != "GO"
    left_out = go_through(
        load_checklist("llama-70b"), settings={}, attested={}, read_script=lambda: None, only=["gradient-clipping"]
    )
    assert verdict_of(left_out) == "UNKNOWN"


@pytest.mark.parametrize(
    ("standings", "verdict"),
    [
        ([("pass", True)], "GO"),
        ([("pass", True), ("fail", False), ("not-run", False)], "GO"),
        ([("warn", True)], "GO"),
        ([("pass", True), ("not-run", True)], "UNKNOWN"),
        ([("unknown", True)], "UNKNOWN"),
        ([("unknown", True), ("fail", True)], "NO-GO"),
    ],
)
def test_verdicts(standings: list[tuple[Any, bool]], verdict: str) -> None:
    assert (
        verdict_of([Result(item=str(n), standing=s, text="", critical=c) for n, (s, c) in enumerate(standings)])
        == verdict
    )


def test_settings_fill_options_and_one_that_is_missing_is_unknown(tmp_path: Path) -> None:
    one = item(FunctionCheck(name="disk-space", options={"path": "{folder}", "least_gb": "{gb}"}))
    assert standing(one, settings={"folder": str(tmp_path), "gb": 0}).standing == "pass"
    missing = standing(one, settings={"folder": str(tmp_path)})
    assert (missing.standing, missing.text) == ("unknown", "gb was not said: --set gb=VALUE")


def test_a_check_that_breaks_has_not_passed() -> None:
    broken = standing(item(FunctionCheck(name="disk-space", options={"nonsense": 1})))
    assert broken.standing == "unknown"
    with pytest.raises(CatalogError, match="no check is called"):
        standing(item(FunctionCheck(name="no-such-check")))


def test_commands_are_judged_by_code_and_output_and_end() -> None:
    def run(script: str, **more: Any) -> Result:
        return standing(item(CommandCheck(run=("sh", "-c", script), **more)))

    assert run("echo State: Active", expects="State: Active").standing == "pass"
    assert run("echo State: Down", expects="State: Active").standing == "fail"
    assert run("echo 3 errors", refuses=r"[1-9]\d* errors").standing == "fail"
    assert run("exit 4").standing == "fail"
    assert run("exit 4", code=None).standing == "pass"
    assert run("sleep 60", seconds=0.5).standing == "fail"
    assert standing(item(CommandCheck(run=("no-such-program-here",)))).standing == "unknown"


def test_rules_pass_only_when_they_were_evaluated() -> None:
    one = item(RulesCheck(rules=("gradients-never-zeroed",)))
    assert standing(one).standing == "not-run"
    passed = standing(one, read_script=lambda: report())
    assert (passed.standing, passed.text) == ("pass", "1 rule finds nothing: gradients-never-zeroed")
    finding = Finding(
        "gradients-never-zeroed", "OPT001", "error", "certain", "never zeroed", Location(path="t.py", line=3)
    )
    assert standing(one, read_script=lambda: report(findings=(finding,))).text == "t.py:3: never zeroed"
    skipped = NotEvaluated("gradients-never-zeroed", "OPT001", "no optimizer")
    assert standing(one, read_script=lambda: report(not_evaluated=(skipped,))).standing == "unknown"
    assert standing(one, read_script=lambda: report(verdict="UNKNOWN")).standing == "unknown"


def test_facts_of_the_script() -> None:
    def facts(**values: Any) -> Any:
        return {"read_script": lambda: report(facts={name: Fact(value=value) for name, value in values.items()})}

    clip = item(FactCheck(name="gradient_clipping", equals=1.0))
    assert standing(clip, **facts(gradient_clipping=1.0)).standing == "pass"
    assert standing(clip, **facts(gradient_clipping=5.0)).standing == "fail"
    assert standing(clip, **facts(gradient_clipping=None)).standing == "unknown"
    scaled = item(FactCheck(name="x", at_least=2, only_if={"precision": ("fp16",)}))
    assert "does not apply" in standing(scaled, **facts(precision="bf16")).text
    assert standing(scaled, **facts(precision="fp16", x=1)).standing == "fail"
    assert standing(scaled, **facts(x=1)).standing == "unknown"


def test_a_word_counts_until_it_expires_and_never_against_a_failed_check() -> None:
    person = item(PersonCheck(evidence="a log"))
    checklist = Checklist(id="l", title="l", items=(person,), sources=("s",))
    assert standing(person).standing == "not-run"
    word = attest(checklist, "one", "Ada", "run 17 resumed", now=0.0)
    assert standing(person, attested={"one": word}, now=29 * DAY).standing == "pass"
    expired = standing(person, attested={"one": word}, now=31 * DAY)
    assert (expired.standing, "has expired" in expired.text) == ("not-run", True)
    failing = item(FunctionCheck(name="variable", options={"name": "SURELY_NOT_SET"}), person_may=True)
    assert standing(failing, attested={"one": word}, now=1.0).standing == "fail"


def test_a_word_needs_a_name_evidence_and_an_item_that_takes_one(tmp_path: Path) -> None:
    checklist = load_checklist("long-runs")
    with pytest.raises(UsageError, match="needs a name"):
        attest(checklist, "alerts", "", "x")
    with pytest.raises(UsageError, match="nobody can vouch"):
        attest(checklist, "checkpoint-capacity", "Ada", "x")
    with pytest.raises(UsageError) as caught:
        attest(checklist, "alert", "Ada", "x")
    assert "alerts" in (caught.value.hint or "")
    (tmp_path / "log").write_bytes(b"abc")
    word = attest(checklist, "alerts", "Ada", str(tmp_path / "log"), now=5.0)
    assert word.digest == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    path = tmp_path / "words.json"
    path.write_bytes(text_of("long-runs", {"alerts": word}))
    assert read_words(str(path)) == {"alerts": word}
    assert read_words(str(tmp_path / "none.json")) == {}
    path.write_text("{")
    with pytest.raises(InputError):
        read_words(str(path))


@pytest.mark.parametrize("name", checklist_names())
def test_a_shipped_list_names_checks_rules_and_remedies_that_exist(name: str) -> None:
    from preflight.check.registry import shipped_rules

    rules = {one.rule.name for one in shipped_rules()}
    checklist = load_checklist(name)
    for one in checklist.items:
        assert one.why
        assert not set(one.remedies) - set(remedy_names())
        if isinstance(one.check, FunctionCheck):
            assert one.check.name in check_names()
        elif isinstance(one.check, RulesCheck):
            assert not set(one.check.rules) - rules
    assert any(one.critical for one in checklist.items)


def test_the_items_that_remedies_name_exist() -> None:
    items = {f"checklist:{name}.{one.id}" for name in checklist_names() for one in load_checklist(name).items}
    named = {name for one in load_remedies() for name in one.caught_by if name.startswith("checklist:")}
    assert named
    assert not named - items


def incident(**more: Any) -> Incident:
    given: dict[str, Any] = {
        "state": "crashed", "onset": "running", "scope": "all", "category": "checkpoint", "root_category": "checkpoint",
        "symptom_category": None, "signature": None, "confidence": 0.9, "headline": 'the disk was "full"', "culprit": Culprit(),
    }  # fmt: skip
    return Incident(**{**given, **more})


def test_a_list_is_written_from_incidents_and_can_be_gone_through(tmp_path: Path) -> None:
    full = incident(hypotheses=(Hypothesis(cause="disk-full", title="full", category="checkpoint", probability=0.9),))
    other = incident(category="other", root_category="other", headline="a tab\tand a \\ and ünïcode")
    leak = incident(
        category="oom", hypotheses=(Hypothesis(cause="graph-kept", title="kept", category="oom", probability=0.8),)
    )
    items = proposed_items([full, other, leak, full])
    ids = [one.id for one in items]
    assert len(ids) == len(set(ids))
    assert {"checkpoint-capacity", "graph-kept-in-list", "not-again-a-tab-and-a-and-n-code"} <= set(ids)
    path = tmp_path / "mine.toml"
    path.write_text(as_toml("Not again", items, ["incidents"]), encoding="utf-8")
    again = load_checklist(str(path))
    assert [one.id for one in again.items] == ids
    assert [one.check for one in again.items] == [one.check for one in items]
    assert verdict_of(go_through(again, settings={}, attested={}, read_script=lambda: None)) == "UNKNOWN"


def test_a_list_with_two_items_of_one_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.toml"
    path.write_text(as_toml("x", [item(PersonCheck(evidence="e"))] * 2, ["s"]))
    with pytest.raises(CatalogError, match="two items are called one"):
        load_checklist(str(path))
    with pytest.raises(UsageError):
        load_checklist("before-lunch")


def test_an_attestation_is_a_value() -> None:
    assert Attestation(item="a", by="b", at=0.0, until=1.0, evidence="c").digest is None
