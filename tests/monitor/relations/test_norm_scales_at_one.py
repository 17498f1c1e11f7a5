"""Scales of normalization layers that begin close to zero are told only where that cannot be meant."""

from typing import Any

import pytest

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example
from preflight.monitor.relations.norm_scales_at_one import NormScalesAtOne

SMALL, ONE = 0.16, 8.0


def judged(norms: list[float], *before: str, **given: Any) -> list[Example]:
    """What is said of a model whose scales, of 64 numbers each, have these norms when it is stepped thrice."""
    held = {"module": "LayerNorm", "numel": 64, "shape": [64], **given}
    names = [f"model.{number}.weight" for number in range(len(norms))]
    mini = Mini({"model.fc.weight": {}, **dict.fromkeys(names, held)})
    told = {name: (norm, 7) for name, norm in zip(names, norms, strict=True)}
    rows = ("backward", ("before", told, {"optimizer": 0}), "step optimizer0:SGD")
    relation = NormScalesAtOne()
    windows = [mini.window(*before, *rows), mini.window(*rows), mini.window(*rows)]
    return [example for window in windows for example in relation.see(window)]


def test_a_model_is_judged_once_and_its_scales_are_named() -> None:
    (example,) = judged([SMALL, SMALL, 0.0])
    assert not example.holds
    assert example.variables == ("model.0.weight", "model.1.weight")
    (example,) = judged([SMALL, ONE])
    assert example.holds


@pytest.mark.parametrize(
    ("norms", "given"),
    [
        ([0.0, 0.0], {}),
        ([SMALL], {}),
        ([SMALL, SMALL], {"module": "RMSNorm"}),  # some of these add one to their scale
        ([SMALL, SMALL], {"module": "LayerScale"}),
        ([SMALL, SMALL], {"trainable": False}),
        ([SMALL, SMALL], {"optimizer": -1}),
        ([SMALL, SMALL], {"spread": {"placements": ["Shard(dim=0)"]}}),
    ],
)
def test_what_may_be_meant_is_not_judged(norms: list[float], given: dict[str, Any]) -> None:
    assert judged(norms, **given) == []


def test_a_model_whose_weights_were_loaded_is_not_judged() -> None:
    assert judged([SMALL, SMALL], "load_state_dict model") == []
    assert len(judged([SMALL, SMALL], "load_state_dict other")) == 1
