"""Scopes and consequences: a program's habits are its own, and a person reads each thing once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from preflight.monitor.judging.engine import Engine
from preflight.monitor.judging.examples import Examples
from preflight.monitor.learn.crossrun import LEAST_PROGRAMS, learn
from preflight.monitor.learn.evidence import Observed
from preflight.monitor.mini import Mini
from preflight.monitor.relation import relations
from preflight.monitor.scope import program_of, scope_of
from preflight.monitor.window import Window
from preflight.vocabulary.invariant import Invariant

KINDS = {name: kind for name, kind in relations().items() if kind.learns}
LOOP = ("fetch loader0", "forward", "zero_grad optimizer0:SGD", "backward", "clip_grad_norm", "step optimizer0:SGD")


def training(kind: str, *left_out: str, layers: int = 1, times: int = 6) -> Iterator[Window]:
    mini = Mini({f"model.{number}.weight": {"module": "Linear"} for number in range(layers)})
    forward = ("forward model", {"context": "grad", "args": {"type": kind, "training": True}})
    for _ in range(times):
        yield mini.window(*(forward if call == "forward" else call for call in LOOP if call not in left_out))


def observed(*runs: Iterator[Window]) -> list[Observed]:
    found = []
    for windows in runs:
        examples, evidence = Examples(KINDS.values()), Observed()
        names = list(KINDS)
        for window in windows:
            for number, judged, where in examples.see(window):
                for example in judged:
                    evidence.see(names[number], example, where.iteration, scope_of(where))
        found.append(evidence)
    return found


def alarms(invariants: list[Invariant], windows: Iterator[Window]) -> set[str]:
    engine = Engine(invariants)
    for window in windows:
        engine.see(window)
    engine.finish()
    return {one.relation for one in engine.violations()}


def test_the_scope_is_the_models_that_are_trained_whatever_their_size() -> None:
    one, wider = (list(training("Net", layers=layers)) for layers in (1, 2))
    assert scope_of(one[0]) == scope_of(wider[0]) == "Net of Linear"
    assert scope_of(next(training("Sequential", layers=2))) == "Sequential of 2 Linear for SGD"


def test_a_layer_that_no_optimizer_has_is_in_the_scope_of_a_model_of_its_own_class() -> None:
    mini = Mini({"model.body": {"module": "Linear"}, "model.head": {"module": "Adapter", "optimizer": -1}})
    for kind, scope in (("Net", "Net of Adapter, Linear"), ("Sequential", "Sequential of 1 Linear")):
        assert scope_of(mini.window(("forward model", {"args": {"type": kind}}), "backward")) == scope


def test_a_program_that_makes_its_steps_by_hand_has_the_scope_of_the_models_that_it_calls() -> None:
    mini = Mini()
    assert scope_of(mini.window("backward")) == "nothing"
    assert scope_of(mini.window(("forward model", {"args": {"type": "Net"}}), "backward")) == "Net"


def test_a_habit_of_one_program_is_not_asked_of_another() -> None:
    learnt = learn(observed(training("Net")), KINDS).invariants
    assert alarms(learnt, training("Net", "clip_grad_norm", times=3)) == {"calls-per-step"}
    assert not alarms(learnt, training("Net", layers=3, times=9))
    assert not alarms(learnt, training("Other", "clip_grad_norm", times=3))


def test_what_several_programs_share_is_asked_of_all() -> None:
    names = [f"Net{number}" for number in range(LEAST_PROGRAMS)]
    shared = learn(observed(*map(training, names)), KINDS).invariants
    assert shared
    assert not any("model" in one.subject for one in shared if KINDS[one.relation].shared)
    assert all("model" in one.subject for one in shared if not KINDS[one.relation].shared)
    assert alarms(shared, training("Other", "clip_grad_norm", times=3)) == {"calls-per-step"}
    runs = observed(*map(training, names[1:]), training("Other", "clip_grad_norm"))
    apart = learn(runs, KINDS).invariants
    assert not alarms(apart, training("Another", "clip_grad_norm", times=3))


def test_each_thing_is_said_once() -> None:
    learnt = learn(observed(training("Net")), KINDS).invariants
    said = sorted(one.text.partition(" (in")[0] for one in learnt)
    assert said == [
        "all of model is trained by an optimizer, when what is trained is the same kind of parameters (2ddbe8a5)",
        "backward comes before each clip_grad_norm_ of SGD",
        "backward occurs once between two steps of SGD",
        "clip_grad_norm_ occurs once between two steps of SGD",
        "fetch comes before each forward of SGD",
        "forward comes before each backward of SGD",
        "model is run with gradients in the first iterations, when what is trained is the same kind of parameters (2ddbe8a5)",
        "model is trained in training mode",
        "zero_grad comes before the first backward of SGD",
        "zero_grad occurs once between two steps of SGD",
    ]


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["python", "train.py"], ""),
        (["python", "-u", "cases/case_03_bug.py", "--epochs", "3"], "case_3"),
        (["python", "case_03_fixed.py"], "case_3"),
        (["python", "skip-gram_v2.py"], "skip_gram"),
        (["python", "run_1.py"], ""),
        (["python", "moco_good_seed1.py"], "moco"),
        (["python", "-m", "package.wgan"], "wgan"),
        ([], ""),
    ],
)
def test_a_program_is_called_the_same_in_each_of_its_versions(argv: list[str], name: str) -> None:
    assert program_of(argv) == name


def test_plain_models_are_told_apart_by_what_their_script_is_called() -> None:
    def told(script: str, kind: str) -> str:
        window = next(training(kind))
        window.run.begin["argv"] = ["python", script]
        return scope_of(window)

    assert told("moco_bug.py", "Sequential") == told("moco_fixed.py", "Sequential")
    assert told("moco.py", "Sequential") != told("vae.py", "Sequential")
    assert told("moco.py", "Net") == told("vae.py", "Net")
