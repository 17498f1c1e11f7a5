"""What of a graph depends on how many blocks a model has."""

from __future__ import annotations

from typing import Any

import pytest

from preflight.monitor.mini import Mini
from preflight.monitor.views.depth import crosses_blocks, layers_of
from preflight.monitor.views.flows import Flows

STEP = "step optimizer0:SGD"
PARAMETERS: dict[str, dict[str, Any]] = {
    f"net.blocks.{number}.{part}.weight": {} for number in (0, 1) for part in ("conv", "norm")
}


@pytest.mark.parametrize(
    ("at", "edge", "crosses"),
    [
        ("net.stem.weight", "Add<Relu at net.blocks.*.norm.weight", True),
        ("net.down.*.norm.weight", "Add<Relu at net.blocks.*.norm.weight", True),
        (
            "net.blocks.*.norm.weight",
            "Add<Add at net.stem.weight",
            False,
        ),  # the nearest ones are its own from the first on
        ("net.stem.weight", "Add<Addmm{net.blocks.*.proj.weight}", False),
        ("net.blocks.*.value.weight", "Bmm[0]<Softmax at net.blocks.*.query.weight", False),
        ("net.blocks.*.mlp.*.weight", "Add<Relu at net.blocks.*.norm.weight", False),
        ("net.head.weight", "Addmm{net.head.weight}[1]<Mean at net.blocks.*.norm.weight", False),
        ("net.one.weight", "Add<Relu at net.two.weight", False),
    ],
)
def test_a_sum_that_stands_before_blocks_moves_into_them_in_a_deeper_model(at: str, edge: str, crosses: bool) -> None:
    assert crosses_blocks(at, edge) is crosses


@pytest.mark.parametrize(
    ("edge", "layers"), [("Add<Relu at net.blocks.*.norm.weight", "5 parameters"), ("Add<Mul", "several")]
)
def test_a_graph_that_depends_on_the_number_of_blocks_is_compared_with_as_many(edge: str, layers: str) -> None:
    mini = Mini({"net.stem.weight": {}, **PARAMETERS})
    flow = {"flow": {"net.stem.weight": [edge]}}
    window = mini.window(("backward", {"args": flow}), STEP)
    flows = Flows()
    assert not list(flows.due(window, lambda place, told, first: None))
    (call,) = window.named("backward")
    assert layers_of(window.run) == "several"
    assert flows.context(call, window)["layers"] == layers
