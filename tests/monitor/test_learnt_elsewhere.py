"""What was learnt of another program is not asked, and that is said."""

from __future__ import annotations

from preflight.monitor.learnt_elsewhere import of_another_program
from preflight.monitor.mini import Mini
from preflight.monitor.scope import MODEL, models_of
from preflight.monitor.window import Run
from preflight.vocabulary.invariant import Invariant


def _run(*names: str) -> Run:
    mini = Mini({name: {} for name in names})
    mini.window("forward net", "backward", "step optimizer0:SGD")
    return mini.run


def _learnt(run: Run, options: str = "") -> Invariant:
    return Invariant("one", "calls-per-step", subject={"what": "step", MODEL: models_of(run) + options})


def test_it_is_said_which_models_it_was_learnt_of() -> None:
    run, other = _run("net.fc.weight", "net.scale"), _run("net.fc.weight")
    learnt = _learnt(run)
    (told,) = of_another_program([other], [learnt], [learnt.id])
    assert models_of(run) in told
    assert models_of(other) in told
    assert "(1 statement)" in told


def test_nothing_is_said_where_it_was_asked_or_could_not_be() -> None:
    run, other = _run("net.fc.weight", "net.scale"), _run("net.fc.weight")
    learnt = _learnt(run)
    assert not of_another_program([other], [learnt], [])
    assert not of_another_program([run], [learnt], [learnt.id])
    assert not of_another_program([run], [_learnt(run, ", with loss l1")], [learnt.id])
    assert not of_another_program([], [learnt], [learnt.id])
    general = Invariant("two", "loss-finite")
    assert not of_another_program([other], [general], [general.id])
