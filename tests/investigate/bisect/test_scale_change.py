"""What changes between two sizes, against examples worked by hand."""

from __future__ import annotations

import pytest

from preflight.cost.memory import estimate_memory
from preflight.errors import UsageError
from preflight.investigate.bisect.lattice import Shape
from preflight.investigate.bisect.scale_change import Setup, scale_change
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec


def test_eight_to_sixty_four_gpus_with_a_global_batch_that_stays() -> None:
    """A 7e9-parameter model in fp32 gradients, tensor parallel 2, 512 samples in micro-batches of 2, 4 nodes a switch."""
    shape = Shape(tensor=2, global_batch=512, micro_batch=2)
    change = scale_change(8, 64, Setup(shape=shape, nodes_per_switch=4, parameters=7e9))
    expected = {
        "nodes": (1, 8),
        "switch groups": (1, 2),
        "model copies": (4, 32),  # 8 / 2, 64 / 2
        "micro-steps per update": (64, 8),  # 512 / (4 x 2), 512 / (32 x 2)
        "global batch": (512, 512),
        "data-parallel ranks that share a node": (4, 4),  # 8 GPUs / 2
        "nodes in a data-parallel group": (1, 8),
        "gradient bytes per rank": (14e9, 14e9),  # 7e9 / 2 x 4
        "bytes sent per rank and update": (21e9, 27.125e9),  # 2 x 3/4 x 14e9, 2 x 31/32 x 14e9
        "bytes of one ring message": (3.5e9, 437.5e6),  # 14e9 / 4, 14e9 / 32
        "steps of the ring": (6, 62),  # 2 x 3, 2 x 31
        "steps of the tree between nodes": (0, 6),  # 2 x log2 8
        "failures per hour, relative": (1, 8),
    }
    for name, (before, after) in expected.items():
        assert (change[name].before, change[name].after) == pytest.approx((before, after)), name
    said = " ".join(change.thresholds)
    assert "More than one node" in said
    assert "leave the node" in said
    assert "leaf switch" in said
    assert "global batch changes" not in said


def test_without_a_global_batch_it_grows_and_the_rate_with_it() -> None:
    change = scale_change(8, 32, Setup(shape=Shape(micro_batch=4)))
    assert (change["global batch"].before, change["global batch"].after) == (32, 128)
    assert "32 -> 128" in " ".join(change.thresholds)
    assert "x 4 by the linear rule, x 2 by the root" in " ".join(change.thresholds)
    with pytest.raises(StopIteration):
        change["gradient bytes per rank"]


def test_sharded_parameters_are_gathered_once_more() -> None:
    setup = Setup(shape=Shape(), parameters=1e9, parallel=ParallelDims(zero_stage=3, framework="fsdp2"))
    change = scale_change(2, 4, setup)
    assert change["bytes sent per rank and update"].before == pytest.approx(3 * 0.5 * 4e9)
    assert change["steps of the ring"].after == 9


MODEL = ModelSpec(
    family="transformer_decoder",
    layers=4,
    hidden=512,
    heads=8,
    ffn=2048,
    vocab=32000,
    tied_embeddings=True,
    max_positions=1024,
)
RUN = RunSpec(sequence_length=1024, optimizer="adamw", precision="fp32", micro_batch=2)


@pytest.mark.parametrize("zero", [0, 3])
def test_memory_is_that_of_the_formulas_of_plan(zero: int) -> None:
    setup = Setup(
        shape=Shape(micro_batch=2),
        model=MODEL,
        run=RUN,
        parallel=ParallelDims(zero_stage=zero, framework="fsdp2" if zero else "ddp"),
    )
    change = scale_change(2, 16, setup)
    for size, told in ((2, change["peak memory per GPU"].before), (16, change["peak memory per GPU"].after)):
        spread = {"dp_shard": size} if zero else {"dp_replicate": size}
        parallel = ParallelDims(zero_stage=zero, framework="fsdp2" if zero else "ddp", **spread)
        peak = estimate_memory(MODEL, RUN, parallel).peak_bytes
        assert peak is not None
        assert told == pytest.approx(peak.mid, rel=1e-6)
    assert change["peak memory per GPU"].changed == bool(zero)


def test_a_size_that_is_not_possible_is_refused() -> None:
    with pytest.raises(UsageError, match="whole nodes"):
        scale_change(8, 60, Setup(shape=Shape()))
