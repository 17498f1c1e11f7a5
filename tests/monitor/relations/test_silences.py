"""What only looks like an error gives no alarm: another module of the same name, rows that are missing."""

from __future__ import annotations

from typing import Any

from preflight.monitor.engine import Engine
from preflight.monitor.library_of import general
from preflight.monitor.mini import Mini
from preflight.monitor.window import Window


def alarms(name: str, windows: list[Window]) -> int:
    engine = Engine(map(general, [name]))
    for window in windows:
        engine.see(window)
    engine.finish()
    return len(engine.violations())


LOAD: Any = ("load_state_dict model", {"args": {"matched": 2, "missing": [], "unexpected": []}})
LOADED: Any = ("loaded", {"model.a": (1.0, 7), "model.b": (1.0, 8)})
OTHERS: Any = ("before", {"model.a": (1.0, 5), "model.b": (1.0, 9)})
CALLED: Any = ("root model", {"args": {"type": "Net"}})


def after_a_load(*rows: Any, before: tuple[Any, ...] = ()) -> list[Window]:
    mini = Mini({"model.a": {}, "model.b": {}})
    return [mini.window(*before), mini.window(LOAD, LOADED, *rows, "backward", OTHERS, "step optimizer0:SGD")]


def test_a_new_model_of_the_same_name_has_not_lost_what_the_old_one_loaded() -> None:
    assert alarms("loaded-stays", after_a_load(CALLED, before=(CALLED,))) == 0
    assert alarms("loaded-stays", after_a_load(CALLED, CALLED)) == 0
    assert alarms("loaded-stays", after_a_load(CALLED)) == 1


def test_a_model_that_was_trained_before_its_best_weights_came_back_may_begin_anew() -> None:
    assert alarms("loaded-stays", after_a_load(before=("backward", "step optimizer0:SGD"))) == 0
    assert alarms("loaded-stays", after_a_load(before=("backward",))) == 1


def counted(steps: list[tuple[int, float]]) -> list[Window]:
    """Steps of a run's own count at which an optimizer has a count; the steps between them are missing."""
    mini = Mini({"model.weight": {}})
    found = []
    for number, count in steps:
        state = ("states", {"model.weight": 0.5}, {"optimizer": 0, "steps": [count]})
        window = mini.window("step optimizer0:Adam", state)
        window.calls = [call._replace(s=number) for call in window.calls]
        found.append(window)
    return found


def test_missing_rows_make_no_count_grow_too_fast() -> None:
    assert alarms("state-continues", counted([(0, 1.0), (2, 3.0), (4, 5.0), (6, 7.0)])) == 0
    assert alarms("state-continues", counted([(0, 1.0), (1, 3.0), (2, 5.0)])) == 1
