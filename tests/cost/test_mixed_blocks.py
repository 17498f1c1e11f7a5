"""Models of which some blocks are dense and others hold experts: the figures of a block are those of the mean one."""

from __future__ import annotations

import msgspec
import pytest

from preflight.catalog.hardware import load_link, resolve_gpu
from preflight.cost.layer_time import LayerTime, products_of
from preflight.cost.ledger import Ledger, ledger_of
from preflight.cost.machine import machine_of
from preflight.cost.optimizers import optimizer_state
from preflight.cost.parameters import count_parameters
from preflight.cost.stage_time import block_time, body_time
from preflight.cost.step import groups_of
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec

SPARSE = ModelSpec(
    family="moe", layers=8, hidden=1024, heads=16, ffn=8192, gated=True, vocab=32000, tied_embeddings=False,
    norm="rmsnorm", experts=16, experts_per_token=2, shared_experts=2, expert_ffn=1024,
)  # fmt: skip
DENSE = msgspec.structs.replace(SPARSE, experts=0, experts_per_token=0, shared_experts=0)
MIXED = msgspec.structs.replace(SPARSE, dense_layers=2)
RUN = RunSpec(micro_batch=2, global_batch=16, sequence_length=1024, precision="bf16", optimizer="adamw")


def _ledger(model: ModelSpec, run: RunSpec = RUN, parallel: ParallelDims | None = None) -> Ledger:
    count, optimizer = count_parameters(model), optimizer_state("adamw")
    assert count is not None
    assert optimizer is not None
    return ledger_of(model, run, parallel or ParallelDims(), resolve_gpu("H100"), count, optimizer, 0)


def _block(model: ModelSpec) -> LayerTime:
    machine = machine_of(Cluster(gpu=resolve_gpu("H100"), num_gpus=8, intra=load_link("nvlink_4")), RUN)
    assert machine is not None
    return block_time(model, RUN, ParallelDims(), machine, _ledger(model))


def test_a_block_takes_the_mean_time() -> None:
    sparse, dense, mixed = _block(SPARSE), _block(DENSE), _block(MIXED)
    for field in ("products", "attention", "operators", "operators_behind", "forward", "backward"):
        expected = 0.75 * getattr(sparse, field) + 0.25 * getattr(dense, field)
        assert getattr(mixed, field) == pytest.approx(expected), field


def test_products_are_those_of_the_parameters() -> None:
    # Every product passes 2 x tokens x weights; a token passes two experts of sixteen and both shared ones.
    attention, expert, tokens = 4 * 1024**2, 3 * 1024 * 1024, 4096.0
    work = sum(2 * times * rows * columns * inner for _, times, rows, columns, inner in products_of(MIXED, tokens, 1.0))
    weights = attention + 0.25 * 3 * 1024 * 8192 + 0.75 * (2 + 2) * expert
    assert work == pytest.approx(2 * tokens * weights)


def test_shared_experts_read_and_write_memory() -> None:
    # Two shared experts move as much as two more that are chosen: what both do beside products and routing is equal.
    four = msgspec.structs.replace(SPARSE, experts_per_token=4, shared_experts=0)
    beside = [one.forward - one.products - one.attention for one in (_block(SPARSE), _block(four))]
    assert beside[0] == pytest.approx(beside[1])
    without = _block(msgspec.structs.replace(SPARSE, shared_experts=0))
    assert beside[0] > without.forward - without.products - without.attention


@pytest.mark.parametrize(("recompute", "covered"), [("none", None), ("selective", None), ("full", 4)])
def test_activations_are_those_of_both_kinds_of_block(recompute: str, covered: int | None) -> None:
    run = msgspec.structs.replace(RUN, recompute=recompute, recompute_layers=covered)
    sparse, dense, mixed = (_ledger(model, run).activations.saved for model in (SPARSE, DENSE, MIXED))
    assert sparse != dense
    assert mixed == pytest.approx(0.75 * sparse + 0.25 * dense)


def test_a_sharded_block_is_gathered_in_its_mean_size() -> None:
    # Over a link this slow nothing is hidden, so that what is exposed grows evenly with the bytes.
    parallel = ParallelDims(dp_shard=8, zero_stage=3, framework="fsdp2")
    slow = load_link("ethernet_10")
    machine = machine_of(Cluster(gpu=resolve_gpu("H100"), num_gpus=8, gpus_per_node=1, intra=slow, inter=slow), RUN)
    assert machine is not None
    groups, exposed = groups_of(parallel), []
    for model in (SPARSE, DENSE, MIXED):
        ledger = _ledger(model, RUN, parallel)
        block = block_time(model, RUN, parallel, machine, ledger)
        exposed.append(body_time(model, RUN, parallel, machine, ledger, block, groups).exposed)
    assert exposed[0] > exposed[1]
    assert exposed[2] == pytest.approx(0.75 * exposed[0] + 0.25 * exposed[1], rel=1e-3)
