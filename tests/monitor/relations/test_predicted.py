"""What a dry run saw, held against runs that are as it said and against others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from preflight.check.dry_run.expected import expectations
from preflight.monitor.judging.engine import Engine
from preflight.monitor.library_of import shipped
from preflight.monitor.mini import Mini
from preflight.monitor.relation import relations
from preflight.monitor.window import Window
from preflight.vocabulary.held import Growth, Moment
from preflight.vocabulary.invariant import Invariant
from preflight.vocabulary.prediction import TRAINED, plain_name
from preflight.vocabulary.profile import Profile, RankSeen
from preflight.vocabulary.quantity import MIB
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
    timeline=(
        Moment(0, "init", 100 * MIB, 0), Moment(0, "backward", 500 * MIB, 0), Moment(0, "optimizer", 700 * MIB, 0),
        Moment(1, "backward", 1000 * MIB, 0), Moment(2, "eval", 1600 * MIB, 0),
    ),
)  # fmt: skip
EXPECTED = {one.id: one for one in expectations(PROFILE, "train.py")}


def _told(windows: list[Window], trained: bool = False) -> list[str]:
    """The invariants that are told of, of all that an optimizer trains or of everything else."""
    engine = Engine(one for one in EXPECTED.values() if (one.relation == TRAINED) is trained)
    for window in windows:
        engine.see(window)
    engine.finish()
    return [one.invariant for one in engine.violations()]


def test_what_is_written_down() -> None:
    assert set(EXPECTED) - {"predicted-memory"} == {
        "predicted-weight",
        "predicted-bias",
        "predicted-rate-0-0",
        "predicted-rate-0-1",
        "predicted-trained-0",
    }
    assert EXPECTED["predicted-weight"].subject["values"] == ["float32 2 x 4, trained", "float32 8 x 8, trained"]
    assert EXPECTED["predicted-bias"].subject["value"] == "float32 4, not trained"
    assert EXPECTED["predicted-trained-0"].subject["value"] == "3 parameters with 80 elements"
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


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"more": {"shape": [8, 8]}, "lost": {"shape": [8]}}, []),
        ({"more": {"shape": [8, 8]}}, ["predicted-trained-0"]),
        ({"more": {"shape": [8, 8]}, "lost": {"shape": [8]}, "new": {"shape": [8]}}, ["predicted-trained-0"]),
        ({"more": {"shape": [8, 8]}, "lost": {"shape": [8], "trainable": False}}, ["predicted-trained-0"]),
        ({"more": {"shape": [4, 8], "spread": {"kind": "sharded", "ranks": [0, 1]}}}, []),
    ],
)
def test_a_parameter_that_only_one_of_them_has_is_told(changed: dict[str, dict[str, Any]], told: list[str]) -> None:
    assert _told(_run(**changed), trained=True) == told


def test_other_rates_are_told() -> None:
    assert _told(_run(rates=(0.1, 0.1))) == ["predicted-rate-0-1"]


@pytest.mark.parametrize("first", ["scaler.step", "load_state_dict optimizer0:SGD"])
def test_rates_of_runs_that_begin_elsewhere_are_left_alone(first: str) -> None:
    assert _told(_run(rates=(0.7, 0.7), first=(first,))) == []


def _held(*rows: Any, rank: int = 0, profile: Profile = PROFILE) -> list[tuple[Any, Any]]:
    """What is told of a run whose iterations end with such peaks in MiB, or with a pair of peak and device."""
    mini = Mini({"model.weight": {"shape": [2, 4]}}, rank=rank)
    told = [
        ("memory", None if peak is None else peak * MIB, device)
        for peak, device in (row if isinstance(row, tuple) else (row, "cuda:0") for row in rows)
    ]
    engine = Engine([one for one in expectations(profile, "train.py") if one.id == "predicted-memory"])
    for row in told:
        engine.see(mini.window("backward", "step optimizer0:SGD", row))
    engine.finish()
    return [(one.expected, one.seen) for one in engine.violations()]


def test_memory_follows_the_timeline() -> None:
    subject = EXPECTED["predicted-memory"].subject
    assert subject["highest"] == [700 * MIB, 1000 * MIB, 1600 * MIB]
    assert subject["lowest"] == [0, 700 * MIB, 1000 * MIB]
    assert EXPECTED["predicted-memory"].text == (
        "The highest number of allocated bytes is 700 MiB before the first step is done, 1000 MiB after one step, "
        "1.6 GiB after 2 steps, within 5% and 64.0 MiB"
    )
    assert _held(700, 1000, 1000, 1600, 1600) == []
    assert _held(700 * 0.95 - 63, 1000 * 1.05 + 63) == []
    # The third reading is the first above what the whole run held; it is told once, however often it is read.
    assert _held(700, 1000, 1700, 1800, 1900) == [("at most 1.6 GiB, within 5% and 64.0 MiB", "1.8 GiB")]
    assert _held(700, 1000, 800) == []  # the peak was set back; that of the run is still the highest
    assert _held(650, 700, 700, 700) == [("at least 1000 MiB, within 5% and 64.0 MiB", "700 MiB")]


def test_the_fullest_device_counts_and_the_host_does_not() -> None:
    assert _held((700, "cuda:3"), (10, "cuda:0"), (1000, "cuda:3"), (1000, "cuda:3")) == []
    assert _held((None, "host"), (None, "host"), (None, "host")) == []


def test_where_ranks_differ_the_lower_bound_is_of_the_fullest() -> None:
    ranks = tuple(
        RankSeen(rank=at, outcome="ended", steps=2, peak_bytes=(at + 1) * 800 * MIB, reserved_bytes=0) for at in (0, 1)
    )
    staged = msgspec.structs.replace(PROFILE, ranks=ranks, loaded=1)
    assert _held(100, 100, 100, profile=staged) == []
    assert len(_held(100, 100, 100, rank=1, profile=staged)) == 1
    assert len(_held(700, 1000, 2000, profile=staged)) == 1


@pytest.mark.parametrize(
    "changed", [{"outcome": "failed"}, {"growth": (Growth(phase="training", bytes=MIB, steady=True, seen=2),)}]
)
def test_later_steps_are_not_predicted_where_the_run_was_not_whole_or_grows(changed: dict[str, Any]) -> None:
    profile = msgspec.structs.replace(PROFILE, **changed)
    assert _held(700, 1000, 5000, profile=profile) == []
    assert len(_held(2700, 2700, profile=profile)) == 1
    assert not any(one.id == "predicted-memory" for one in expectations(Profile(outcome="failed"), "train.py"))


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
