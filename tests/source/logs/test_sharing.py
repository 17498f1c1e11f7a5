"""Steps that share what they have in common say what they said."""

from __future__ import annotations

import math

import msgspec

from preflight.source.logs.sharing import share
from preflight.vocabulary.log import StepLine, Who


def _decoded() -> list[StepLine]:
    rows = [
        StepLine(file=0, line=1, step=1, values={"lr": 1e-4, "loss": 0.0}, who=Who(rank=3)),
        StepLine(file=0, line=2, step=2, values={"lr": 1e-4, "loss": -0.0}, who=Who(rank=3)),
        StepLine(file=0, line=3, step=3, values={"lr": 2e-4, "mfu": 1e-4}, who=Who(rank=4)),
    ]
    return msgspec.msgpack.decode(msgspec.msgpack.encode(rows), type=list[StepLine])


def test_what_is_the_same_is_there_once_and_nothing_is_changed() -> None:
    plain, shared = _decoded(), _decoded()
    share(shared)
    assert shared == plain
    assert shared[1].who is shared[0].who
    assert shared[1].values["lr"] is shared[0].values["lr"]
    assert plain[1].who is not plain[0].who
    assert math.copysign(1, shared[1].values["loss"]) == -1
    assert shared[2].who == Who(rank=4)
