"""Verifications and associations in every format that people read."""

from __future__ import annotations

import json

import msgspec
import pytest

from preflight.report.json import from_json
from preflight.report.parts.sentences import quick_line
from preflight.report.render import render
from preflight.vocabulary.association import Association, Associations, Timing
from preflight.vocabulary.report import SCHEMA, Life, Report, Stage, Tool
from preflight.vocabulary.verification import Compared, Problem, Side, Verification

VERIFIED = Verification(
    status="INCONCLUSIVE",
    text="no failure in 8 runs after the change is too little",
    problem=Problem(
        verdict="undecided",
        text="too little",
        what="oom.cuda-allocation",
        unit="runs",
        method="binomial, at the stated rate",
        before=Side(runs=8, failed=6, exposure=8.0),
        after=Side(runs=8, failed=0, exposure=8.0, left_out=1),
        p=0.66,
        rate_after=0.31,
        needed=51,
    ),
    metrics=(
        Compared(
            metric="mfu<b>", direction="higher", told_by="known", verdict="worse", text="mfu: worse", margin=0.03, before=0.4,
            after=0.35, ratio=0.875, low=0.86, high=0.89, p=0.001, values=(8, 8), method="Mann-Whitney",
        ),
    ),
    needed=("51 more runs",),
    assumptions=("runs are alike",),
)  # fmt: skip
FOUND = Associations(
    failures=11,
    jobs=16,
    tests=1,
    associations=(
        Association(of="node", name="node07", failures=(11, 0), exposure=(11.0, 5.0), text="11 of 11 jobs with node07 failed",
                    q=0.0027, associated=True, lemon=0.9),
    ),
    timing=(Timing(kind="period", text="failures come once in a day", value=86400.0, p=0.01, found=True, failures=11),),
    power="24 failures are needed",
)  # fmt: skip


def report(**sections: object) -> Report:
    return Report(schema=SCHEMA, command="investigate", tool=Tool("preflight", "0"), verdict="UNKNOWN", **sections)  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_a_verification_is_shown_with_its_numbers(form: str) -> None:
    shown = render(report(verification=VERIFIED), form)
    for words in ("INCONCLUSIVE", "oom.cuda-allocation", "51 more runs", "runs are alike"):
        assert words in shown.replace("\\", "")
    assert "mfu<b>" not in shown or form == "text"


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_associations_are_shown_with_what_was_looked_at(form: str) -> None:
    shown = " ".join(render(report(associations=FOUND), form).replace("\\", "").split())
    for words in ("node07", "associated", "11 failures in 16 jobs", "once in a day", "24 failures are needed"):
        assert words in shown
    assert "cause" not in shown.lower()


def test_both_come_back_from_json() -> None:
    whole = report(verification=VERIFIED, associations=FOUND)
    text = render(whole, "json")
    assert from_json(text) == whole
    assert json.loads(text)["verification"]["problem"]["needed"] == 51


def test_times_at_which_failures_come_decide_where_nothing_goes_together_with_them() -> None:
    alone = msgspec.structs.replace(
        FOUND, associations=(msgspec.structs.replace(FOUND.associations[0], associated=False),)
    )
    lines = render(report(associations=alone), "text").splitlines()
    assert lines[-1] == "UNKNOWN  failures come once in a day"
    by_chance = msgspec.structs.replace(alone, timing=(msgspec.structs.replace(FOUND.timing[0], found=False),))
    assert (
        render(report(associations=by_chance), "text").splitlines()[-1]
        == "UNKNOWN  nothing is associated with failures"
    )


def test_of_a_long_life_the_newest_of_each_kind_and_the_last_are_shown() -> None:
    told = [
        Stage(number=at + 1, time=60.0 * at, words=(), latest=at == 3, report=report(inputs={"path": f"run{at:02}"}))
        for at in range(40)
    ]
    life = report(life=Life(folder=".preflight", stages=tuple(told)))
    text = render(life, "text")
    assert [at for at in range(40) if f"run{at:02}" in text] == [3, *range(16, 40)]
    assert "not shown: 15" in text
    assert "not shown: 15." in render(life, "html")
    assert "40 reports" in quick_line(life)
