"""What a check of the script says beside an incident."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from preflight import analyze, diagnose
from preflight.investigate.beside.foreseen import capacity_of, sold_as, with_check
from preflight.vocabulary.incident import Incident, Pointer
from preflight.vocabulary.report import Report

EXAMPLES = Path(__file__).parents[3] / "examples"
LOG = EXAMPLES / "incidents" / "out-of-memory.log"


@pytest.fixture(scope="module")
def failed() -> Report:
    return diagnose(str(LOG))


@pytest.mark.parametrize(("gib", "sold"), [(79.15, 80), (39.39, 40), (23.65, 24), (10.76, 11), (47.44, 48), (80.0, 80)])
def test_a_card_is_sold_as_the_next_whole_number(gib: float, sold: int) -> None:
    assert sold_as(gib * (1 << 30)) == sold


def test_the_size_of_the_card_is_read_from_the_message(failed: Report) -> None:
    assert failed.incident is not None
    assert capacity_of(failed.incident) == pytest.approx(39.39 * (1 << 30))


def test_the_rules_that_tell_the_failure_are_named_with_their_lines_and_the_peak_by_formula(failed: Report) -> None:
    checked = analyze(str(EXAMPLES / "memory_overflow.py"), gpu_memory=40)
    report = with_check(failed, checked, "memory_overflow.py")
    assert report.incident is not None
    told = {one.id: one.text for one in report.incident.caught_by}
    assert "it runs out in the forward of step 1001" in told["step-exceeds-device"]
    assert told["step-exceeds-device"].startswith("memory_overflow.py:37: ")
    assert "the card has 39.4 GiB: the step cannot fit" in told["peak"]
    assert "activations 21.1 GiB" in told["peak"]
    assert "growth-exceeds-device" not in told  # this script does not grow
    assert [why.known for why in report.incident.five_whys if why.question == "What does the script need?"] == [
        "inferred"
    ]
    assert report.incident.five_whys[-1].answer is None


def test_the_levels_name_the_causes_as_probable_as_they_are_afterwards(failed: Report) -> None:
    assert failed.incident is not None
    assert "The step needs more memory than the card has (6" in (failed.incident.five_whys[-1].reason or "")
    sure = with_check(failed, analyze(str(EXAMPLES / "memory_overflow.py"), gpu_memory=40), "x.py").incident
    assert sure is not None
    cause, rest = sure.five_whys[-2:]
    # What was expected has a level of its own before it, and is not said twice.
    assert cause.answer is not None
    assert cause.answer.startswith("The step needs more memory than the card has")
    assert "expects a peak" not in cause.answer
    assert (cause.known, rest.answer) == ("inferred", None)
    less = with_check(failed, analyze(str(EXAMPLES / "good_model.py"), gpu_memory=40), "good_model.py").incident
    assert less is not None
    open_ = less.five_whys[-1].reason or ""
    assert f"The step needs more memory than the card has ({100 * _probability(less):.0f} %)" in open_


def _probability(incident: Incident) -> float:
    return next(one.probability for one in incident.hypotheses if one.cause == "peak-exceeds-device")


def test_a_script_that_should_fit_says_to_look_elsewhere(failed: Report) -> None:
    report = with_check(failed, analyze(str(EXAMPLES / "good_model.py"), gpu_memory=40), "good_model.py")
    assert report.incident is not None
    assert any("the step should fit" in one.text for one in report.incident.caught_by if one.kind == "plan")
    assert any("finds none of" in note for note in report.notes)
    # A rule that was asked and found nothing would not have told it; one that only a dry run is asked of might have.
    assert [one.id for one in report.incident.caught_by if one.kind == "rule"] == ["memory-grows-each-step"]


def test_a_rule_that_only_a_run_is_asked_of_may_still_have_told_it(failed: Report) -> None:
    assert failed.incident is not None
    pointers = tuple(
        Pointer(kind="rule", id=name, text="")
        for name in ("step-exceeds-device", "copies-inside-forward", "no-such-rule")
    )
    known = msgspec.structs.replace(failed, incident=msgspec.structs.replace(failed.incident, caught_by=pointers))
    report = with_check(known, analyze(str(EXAMPLES / "good_model.py"), gpu_memory=40), "good_model.py")
    assert report.incident is not None
    assert [one.id for one in report.incident.caught_by if one.kind == "rule"] == ["copies-inside-forward"]


def test_a_script_that_is_not_judged_is_told_as_such(failed: Report) -> None:
    report = with_check(failed, analyze(str(EXAMPLES / "jax_training.py")), "jax_training.py")
    assert report.incident == failed.incident
    assert any("says nothing of jax_training.py" in note for note in report.notes)


def test_a_healthy_run_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("".join(f"step {step} loss {3 - step / 50:.3f}\n" for step in range(50)))
    healthy = diagnose(str(log))
    assert with_check(healthy, analyze(str(EXAMPLES / "memory_overflow.py")), "x.py") == healthy
