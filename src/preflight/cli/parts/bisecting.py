"""A bisection from the command line: the tests of each dimension, what they cost at most, what was found."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from preflight.cli.parts.bisection_plan import Plan
from preflight.cli.parts.writing import Writing, put, remark
from preflight.errors import UsageError
from preflight.investigate.bisect.lattice import Shape
from preflight.investigate.bisect.launchers import launcher
from preflight.investigate.bisect.outcome import Outcome
from preflight.investigate.bisect.runner import Runner, Trial

DIMENSIONS = ("scale", "batch", "layers", "configs", "commits", "nodes")
SCHEMA = "preflight.bisection/1"


def bisect(program: Sequence[str], given: Mapping[str, Any], look: Writing) -> int:
    """Run a bisection and say what was found."""
    from preflight.cli.parts.documents import FORMATS

    if look.format not in FORMATS:
        raise UsageError(f"a bisection cannot be shown as {look.format}", f"one of {', '.join(FORMATS)}")
    chosen = [name for name in DIMENSIONS if given[name]]
    if len(chosen) != 1:
        raise UsageError(
            "say one thing that is to be bisected"
            if not chosen
            else f"{' and '.join(chosen)} at once cannot be bisected",
            "--scale, --batch, --layers, --configs, --commits or --nodes",
        )
    if not program:
        raise UsageError(
            "no program is given", "preflight investigate bisect --batch 8 64 -- python train.py --batch {batch}"
        )
    chance = _chance(given["flaky"])
    state = os.path.abspath(given["state"] or _state(chosen[0], program, given))
    plan = _plan(chosen[0], program, given, state, chance)
    _tell_budget(plan, given, look, certain=chance == 1.0)
    if given["dry_run"]:
        return _dry(plan, look)
    runner = Runner(
        plan.make, state, timeout=given["timeout"], wanted=given["signature"], retries=given["retries"],
        budget=given["budget"], fresh=given["fresh"], told=lambda test, outcome: _tell(test, outcome, look),
    )  # fmt: skip
    _end_like_interrupted()
    try:
        found = _search(plan, runner, given, chance)
    except KeyboardInterrupt:
        remark(f"results are kept in {state}: the same command goes on from there", look)
        raise
    finally:
        plan.close()
    answer = {"schema": SCHEMA, "dimension": plan.dimension, **found, "tests_run": runner.ran,
              "gpu_hours": round(runner.spent, 4), "signature": runner.wanted, "state": state}  # fmt: skip
    from preflight.cli.parts.bisection_pages import rendered

    put(rendered(answer, look), look)
    return 1 if answer["reason"] is None else 3


def _end_like_interrupted() -> None:
    """Let a request to end be an interruption, so that the test that runs is ended as well."""
    import signal
    import threading

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, stop)


def _chance(text: str | None) -> float | None:
    if text is None:
        return 1.0
    if text == "learn":
        return None
    try:
        chance = float(text)
    except ValueError:
        chance = 0.0
    if not 0.0 < chance <= 1.0:
        raise UsageError(f"--flaky {text}: is not a probability above 0", "for example 0.3, or learn")
    return chance


def _state(dimension: str, program: Sequence[str], given: Mapping[str, Any]) -> str:
    """A folder of its own for every question, so that a second call finds the results of the first."""
    told = json.dumps([dimension, list(program), given["launcher"], os.getcwd()])
    return os.path.join(".preflight", "bisect", f"{dimension}-{hashlib.sha256(told.encode()).hexdigest()[:10]}")


def _plan(dimension: str, program: Sequence[str], given: Mapping[str, Any], state: str, chance: float | None) -> Plan:
    from preflight.cli.parts import bisection_dimensions as dimensions

    launcher(given["launcher"])
    shape = Shape(
        gpus_per_node=given["gpus_per_node"], tensor=given["tensor"], pipeline=given["pipeline"], context=given["context"],
        global_batch=given["global_batch"], micro_batch=given["micro_batch"],
    )  # fmt: skip
    if dimension in ("scale", "batch", "layers"):
        return dimensions.of_numbers(dimension, program, given, state, shape, chance)
    make = {"configs": dimensions.of_configs, "commits": dimensions.of_commits, "nodes": dimensions.of_nodes}[dimension]
    return make(program, given, state, shape, chance)


def _tell_budget(plan: Plan, given: Mapping[str, Any], look: Writing, *, certain: bool) -> None:
    hours = plan.most * plan.largest * given["timeout"] / 3600.0
    number = "at most" if certain else "as a rule"
    tests = (
        f"{number} {plan.most} tests of {plan.largest} GPU{'s' if plan.largest > 1 else ''} and {given['timeout']:g} s"
    )
    cost = f"{hours:.3g} GPU-hours at most" if certain else f"{hours:.3g} GPU-hours"
    more = f"; {plan.more}" if plan.more else ""
    remark(f"{plan.dimension}: {len(plan.values)} values; {tests}: {cost}{more}", look)


def _dry(plan: Plan, look: Writing) -> int:
    """Show the first tests, and run nothing."""
    import shlex

    ends = [plan.values[-1], plan.values[0]]
    middle = plan.values[(len(plan.values) - 1) // 2]
    if plan.dimension in ("configs", "nodes"):
        ends, middle = [tuple(plan.values), ()], tuple(plan.values[: len(plan.values) // 2])
        ends = ends[: 1 if plan.dimension == "nodes" else 2]
    lines = []
    for value in [*ends, *([middle] if middle not in ends else [])]:
        test = plan.make(value)
        set_ = "".join(f"{name}={shlex.quote(v)} " for name, v in test.launch.environment.items() if v is not None)
        lines += [f"# {test.name}", f"{set_}{shlex.join(test.launch.argv)}"]
    plan.close()
    put("\n".join(lines) + "\n", look)
    return 0


def _tell(test: Trial, outcome: Outcome, look: Writing) -> None:
    from preflight.cli.parts.bisection_pages import OUTCOMES

    kept = " (kept)" if outcome.cached else f" in {outcome.seconds:.1f} s"
    about = (
        f": {outcome.signature}"
        if outcome.signature and outcome.kind != "infra"
        else f": {outcome.text}"
        if outcome.text
        else ""
    )
    remark(f"{test.name}: {OUTCOMES[outcome.kind]}{kept}{about}", look)


def _search(plan: Plan, runner: Runner, given: Mapping[str, Any], chance: float | None) -> dict[str, Any]:
    if plan.dimension in ("configs", "nodes"):
        from preflight.investigate.bisect.repeated import Repeated

        if chance is None:
            raise UsageError(f"--flaky learn is not for {plan.dimension}", "say the probability: --flaky 0.3")
        repeated = Repeated(runner.ask, chance, questions=plan.most)
        if plan.dimension == "configs":
            from preflight.investigate.bisect.differences import minimise

            minimal = minimise(plan.values, repeated)
            return {
                "differences": [plan.shown(one) for one in minimal.differences], "confirmed": minimal.confirmed,
                "untold": [plan.shown(one) for one in minimal.untold], "reason": minimal.reason, "tests": minimal.tests,
                "trail": _trail(plan, minimal.trail),
            }  # fmt: skip
        from preflight.investigate.bisect.groups import find_bad_nodes

        bad = find_bad_nodes(plan.values, repeated, given["least_nodes"])
        return {
            "nodes": bad.nodes,
            "together": bad.together,
            "cleared": bad.cleared,
            "reason": bad.reason,
            "tests": bad.tests,
            "trail": _trail(plan, bad.trail),
        }
    from preflight.investigate.bisect.search import find_breaking_point

    point = find_breaking_point(plan.values, runner.ask, chance=chance)
    return {
        "works": None if point.works is None else plan.shown(point.works),
        "fails": None if point.fails is None else plan.shown(point.fails),
        "probability": round(point.probability, 4), "untold": [plan.shown(one) for one in point.untold],
        "reason": point.reason, "tests": point.tests, "chance": None if point.chance is None else round(point.chance, 3),
        "trail": _trail(plan, point.trail),
    }  # fmt: skip


def _trail(plan: Plan, trail: Sequence[tuple[Any, Outcome]]) -> list[dict[str, str]]:
    """Return what was run, in order: a value, or those of several that were in it."""
    return [
        {
            "value": ", ".join(map(plan.shown, value)) or "none" if isinstance(value, tuple) else plan.shown(value),
            "outcome": outcome.kind,
        }
        for value, outcome in trail
    ]
