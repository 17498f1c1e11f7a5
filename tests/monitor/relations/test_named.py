"""Alarms name what is concerned: parameters and parts of the model, not numbers of an optimizer."""

from __future__ import annotations

from preflight.monitor.judging.engine import Engine
from preflight.monitor.library_of import general
from preflight.monitor.mini import Mini
from preflight.monitor.window import Window
from preflight.vocabulary.invariant import Violation


def roots_of(names: list[str], windows: list[Window]) -> list[Violation]:
    engine = Engine(map(general, names))
    for window in windows:
        engine.see(window)
    engine.finish()
    return engine.violations()


def test_steps_that_no_longer_come_name_the_parameters_that_are_not_trained() -> None:
    mini = Mini({"model.a.weight": {}, "model.b.weight": {}, "model.frozen": {"optimizer": -1}})
    loop = ["zero_grad optimizer0:SGD", "forward model", "backward"]
    windows = [mini.window(*loop, "step optimizer0:SGD") for _ in range(6)] + [mini.window(*loop) for _ in range(4)]
    (found,) = roots_of(["steps-come"], windows)
    assert found.variables == ("model.a.weight", "model.b.weight")


def test_a_model_left_in_evaluation_names_its_parts_with_a_mode() -> None:
    mini = Mini({"model.weight": {}})
    root = ("root model", {"args": {"type": "Net", "dropout": ["model.drop"], "norm": ["model.norm"]}})
    told = {"type": "Net", "dropouts": 1, "norms": 1}
    trained = ("forward model", {"context": "grad", "args": {**told, "training": True, "dropout": 1, "norm": 1}})
    left = ("forward model", {"context": "grad", "args": {**told, "training": False}})
    tested = ("forward model", {"context": "nograd", "args": {**told, "training": False}})
    off = ("mode model", {"args": {"training": False}})
    windows = [mini.window(root, trained, "backward", "step optimizer0:SGD") for _ in range(2)]
    windows.append(mini.window(off, tested))
    windows += [mini.window(left, "backward", "step optimizer0:SGD") for _ in range(2)]
    (found,) = roots_of(["training-mode"], windows)
    assert found.variables == ("model", "model.drop", "model.norm")


def test_parameters_that_no_optimizer_holds_are_the_root_of_steps_without_gradients() -> None:
    from preflight.monitor.relation import relations

    known = relations()
    assert known["trained-are-held"].priority < known["step-has-gradients"].priority
