"""What a dry run saw, held against runs that are as it said and against others."""

from __future__ import annotations

from typing import Any

import pytest

from preflight.check.expected import expectations
from preflight.monitor.engine import Engine
from preflight.monitor.library_of import shipped
from preflight.monitor.mini import Mini
from preflight.monitor.relation import relations
from preflight.monitor.window import Window
from preflight.vocabulary.invariant import Invariant
from preflight.vocabulary.prediction import plain_name
from preflight.vocabulary.profile import Profile
from preflight.vocabulary.seen import Observation, ParameterSeen


def _parameter(name: str, shape: tuple[int, ...] = (2, 4), network: int | None = 0, **more: Any) -> ParameterSeen:
    known = {"dtype": "float32", "trainable": True, "bytes": 32, "optimizers": (0,)} | more
    return ParameterSeen(network=network, name=name, shape=shape, **known)


def _step(order: int, rates: list[float], optimizer: int = 0) -> Observation:
    data = {"optimizer": optimizer, "rates": rates}
    return Observation("optimizer step", order, "train.py:1", "", "optimizer", order, data=data)


PROFILE = Profile(
    outcome="stopped", steps=2, torch="2.13.0",
    parameters=(
        _parameter("weight"), _parameter("bias", (4,), optimizers=(), trainable=False),
        _parameter("weight", (8, 8), network=1), _parameter("lost", network=None),
    ),
    observations=(_step(0, [0.1]), _step(1, [0.05]), _step(2, [0.3], optimizer=-1)),
)  # fmt: skip
EXPECTED = {one.id: one for one in expectations(PROFILE, "train.py")}


def _told(windows: list[Window]) -> list[str]:
    engine = Engine(EXPECTED.values())
    for window in windows:
        engine.see(window)
    engine.finish()
    return [one.invariant for one in engine.violations()]


def test_what_is_written_down() -> None:
    assert set(EXPECTED) == {"predicted-weight", "predicted-bias", "predicted-rate-0-0", "predicted-rate-0-1"}
    assert EXPECTED["predicted-weight"].subject["values"] == ["float32 2 x 4, trained", "float32 8 x 8, trained"]
    assert EXPECTED["predicted-bias"].subject["value"] == "float32 4, not trained"
    assert {one.source.origin for one in EXPECTED.values()} == {"prediction"}


def _run(
    rates: tuple[float, ...] = (0.1, 0.05), first: tuple[Any, ...] = (), **changed: dict[str, Any]
) -> list[Window]:
    given = {
        "weight": {"shape": [2, 4]}, "bias": {"shape": [4], "trainable": False, "optimizer": -1},
    } | changed  # fmt: skip
    mini = Mini({f"model.{name}": {"root": "model", **more} for name, more in given.items()})
    rows = [(("scalar", "lr", "optimizer0:SGD.0", rate), "step optimizer0:SGD") for rate in rates]
    return [mini.window(*(first if place == 0 else ()), "backward", *row) for place, row in enumerate(rows)]


def test_a_run_as_predicted_is_silent() -> None:
    assert _told(_run()) == []
    assert _told(_run(weight={"shape": [8, 8]})) == []
    assert _told(_run(rates=(0.1, 0.05, 0.7))) == []  # what was not predicted is not judged


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"weight": {"shape": [2, 5]}}, ["predicted-weight"]),
        ({"weight": {"shape": [2, 4], "dtype": "bfloat16"}}, ["predicted-weight"]),
        ({"weight": {"shape": [2, 4], "trainable": False, "optimizer": -1}}, ["predicted-weight"]),
        ({"bias": {"shape": [4]}}, ["predicted-bias"]),
        ({"weight": {"shape": [1, 4], "spread": {"kind": "sharded", "ranks": [0, 1]}}}, []),
    ],
)
def test_another_model_is_told(changed: dict[str, dict[str, Any]], told: list[str]) -> None:
    assert _told(_run(**changed)) == told


def test_other_rates_are_told() -> None:
    assert _told(_run(rates=(0.1, 0.1))) == ["predicted-rate-0-1"]


@pytest.mark.parametrize("first", ["scaler.step", "load_state_dict optimizer0:SGD"])
def test_rates_of_runs_that_begin_elsewhere_are_left_alone(first: str) -> None:
    assert _told(_run(rates=(0.7, 0.7), first=(first,))) == []


def test_wrappers_do_not_change_a_name() -> None:
    assert plain_name("module.block._orig_mod.0.weight") == "block.0.weight"
    assert plain_name("modules.0.weight") == "modules.0.weight"


@pytest.mark.parametrize("kind", [kind for kind in relations().values() if kind.predicted], ids=lambda kind: kind.name)
def test_they_are_in_force_only_where_something_is_predicted(kind: Any) -> None:
    assert kind.name not in {one.relation for one in shipped()}
    traces = [*kind.holding(), *kind.broken()]
    assert len(traces) == 2
    engine = Engine([Invariant(id="x", relation=kind.name)])
    for window in (window for windows in traces for window in windows):
        engine.see(window)
    assert engine.violations() == []
