"""What a relation costs grows with what there is in an iteration, and not with its square: a rollout has thousands of passes."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Relation, relations
from preflight.monitor.window import Window

_FEW, _MANY = 40, 320
_MOST = 2.0  # times as much for each of many as for each of few, where a square would be eight times as much
_WINDOWS = 3


def _rollouts(passes: int) -> list[Window]:
    """Iterations in which a network chooses, a copy of it judges, and the network is trained on all of that at once."""
    weights: dict[str, dict[str, Any]] = {f"{root}.{at}.weight": {} for root in ("net", "copy") for at in (0, 2)}
    for name in weights:
        if name.startswith("copy"):
            weights[name]["optimizer"] = -1
    mini = Mini(weights)
    windows = []
    for _ in range(_WINDOWS):
        rows = [
            _pass(root, context) for _ in range(passes) for root, context in (("net", "nograd"), ("copy", "nograd"))
        ]
        rows += [_pass("net", "grad") for _ in range(passes)]
        window = mini.window(*rows, "zero_grad optimizer0:Adam", "backward", "step optimizer0:Adam")
        for call in [one for one in window.calls if one.name in ("forward", "module")]:
            for position in ("in0", "out0"):
                row = {"object": call.object, "position": position, "call": call.q, "shape": [4, 8]}
                window.tensors += [one._replace(i=window.iteration) for one in mini.window(("tensor", row)).tensors]
                mini._iteration -= 1
        windows.append(window)
    return windows


def _pass(root: str, context: str) -> Any:
    kinds = {"0": "Linear", "1": "ReLU", "2": "Linear"}
    inside = [
        (f"module {root}.{at}", {"args": {"type": kind, "training": True}, "context": context})
        for at, kind in kinds.items()
    ]
    return (f"forward {root}", {"args": {"training": True, "type": "Net"}, "context": context, "inside": inside})


def _instructions(kind: type[Relation], windows: list[Window]) -> int:
    """How many instructions of Python's the relation takes for the windows; views that windows share are made before."""
    relation = kind()
    count = 0

    def tracer(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += event == "opcode"
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        for window in windows:
            for _ in relation.see(window):
                pass
    finally:
        sys.settrace(before)
    return count


@pytest.fixture(scope="module")
def rollouts() -> tuple[list[Window], list[Window]]:
    few, many = _rollouts(_FEW), _rollouts(_MANY)
    for windows in (few, many):
        for kind in relations().values():
            relation = kind()
            for window in windows:
                list(relation.see(window))
    return few, many


@pytest.mark.parametrize("name", sorted(relations()))
def test_cost_grows_with_the_passes_of_an_iteration(name: str, rollouts: tuple[list[Window], list[Window]]) -> None:
    few, many = (_instructions(relations()[name], windows) for windows in rollouts)
    assert many <= _MOST * few * _MANY / _FEW + 20_000
