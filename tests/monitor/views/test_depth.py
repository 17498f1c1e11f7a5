"""What of a graph depends on how many blocks a model has."""

from __future__ import annotations

from math import inf

import pytest

from preflight.monitor.mini import Mini
from preflight.monitor.views.depth import blocks_for, layers_of
from preflight.monitor.views.flows import Flows

STEP = "step optimizer0:SGD"


@pytest.mark.parametrize(
    ("at", "edge", "blocks"),
    [
        ("net.stem.weight", "Add<Relu at net.blocks.*.norm.weight", inf),
        ("net.down.*.norm.weight", "Add<Relu at net.blocks.*.norm.weight", inf),
        (
            "net.blocks.*.norm.weight",
            "Add<Add at net.stem.weight",
            False,
        ),  # the nearest ones are its own from the first on
        ("net.stem.weight", "Add<Addmm{net.blocks.*.proj.weight}", 3),
        ("net.blocks.*.value.weight", "Bmm[0]<Softmax at net.blocks.*.query.weight", 0),
        ("net.blocks.*.mlp.*.weight", "Add<Relu at net.blocks.*.norm.weight", 0),
        ("net.head.weight", "Addmm{net.head.weight}[1]<Mean at net.blocks.*.norm.weight", 0),
        ("net.one.weight", "Add<Relu at net.two.weight", 0),
    ],
)
def test_a_sum_that_stands_before_blocks_moves_into_them_in_a_deeper_model(at: str, edge: str, blocks: float) -> None:
    assert blocks_for(at, edge) == blocks


@pytest.mark.parametrize(
    ("edge", "blocks", "layers"),
    [
        ("Add<Relu at net.blocks.*.norm.weight", 3, "7 parameters"),
        ("Add<Mul", 3, "several"),
        ("Add<Mul", 2, "several"),
        ("Add<Addmm{net.blocks.*.conv.weight}", 3, "several"),
        ("Add<Addmm{net.blocks.*.conv.weight}", 2, "5 parameters"),  # the second sum takes one from outside of blocks
    ],
)
def test_a_graph_that_depends_on_the_number_of_blocks_is_compared_with_as_many(
    edge: str, blocks: int, layers: str
) -> None:
    parts = [f"net.blocks.{number}.{part}.weight" for number in range(blocks) for part in ("conv", "norm")]
    mini = Mini({"net.stem.weight": {}, **{name: {} for name in parts}})
    window = mini.window(("backward", {"args": {"flow": {"net.stem.weight": [edge]}}}), STEP)
    flows = Flows()
    assert not list(flows.due(window, lambda place, told, first: None))
    (call,) = window.named("backward")
    assert layers_of(window.run) == "several"
    assert flows.context(call, window)["layers"] == layers
