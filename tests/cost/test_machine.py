"""Rates of boards: what the largest products reach, and what short sums and memory cost on them."""

from __future__ import annotations

import pytest

from preflight.catalog.hardware import load_gpu, resolve_gpu
from preflight.cost.attention_time import attention_time
from preflight.cost.kernels import matmul_seconds
from preflight.cost.machine import Machine, machine_of, reached
from preflight.cost.recipe import recipe_of
from preflight.plan.inputs.cluster import cluster_of
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec


def machine(gpu: str, precision: str = "autocast-fp16") -> Machine:
    found = machine_of(cluster_of(resolve_gpu(gpu), 1), RunSpec(precision=precision))  # type: ignore[arg-type]
    assert found is not None
    return found


def test_half_rate_boards_reach_their_peak_and_full_rate_boards_do_not() -> None:
    # 81 of 80 TFLOP/s on an RTX 3090 Ti, 172 of 165 on an RTX 4090, 95 of 155 on an RTX A6000 of the same chip.
    assert reached(load_gpu("rtx_3090")) == reached(load_gpu("rtx_4090")) == 1.0
    assert reached(load_gpu("rtx_a6000")) == pytest.approx(95 / 154.8)
    assert reached(load_gpu("a100_80gb_sxm")) == pytest.approx(271.2 / 312)
    assert reached(load_gpu("l40s")) < 1.0


@pytest.mark.parametrize(("gpu", "slower"), [("rtx_3090", "a100_80gb_sxm"), ("v100_sxm2_16gb", "a100_80gb_sxm")])
def test_short_sums_cost_a_slow_multiprocessor_less(gpu: str, slower: str) -> None:
    shares = []
    for name in (gpu, slower):
        found = machine(name)
        rate = [
            2 * 16384.0 * 16384 * inner / matmul_seconds(found, 16384.0, 16384.0, inner) for inner in (128.0, 8192.0)
        ]
        shares.append(rate[0] / rate[1])
    assert shares[0] > shares[1]
    assert machine("h100").fill == machine("a100").fill


def test_a_published_copy_stands_in_the_place_of_the_usual_share() -> None:
    board = load_gpu("rtx_3090")
    assert board.achievable_bandwidth is not None
    assert 0.8 * board.bandwidth < machine("rtx_3090").bandwidth < board.achievable_bandwidth * 1.02


@pytest.mark.parametrize("precision", ["autocast-fp16", "autocast-bf16", "pure-bf16"])
def test_images_have_no_mask(precision: str) -> None:
    seconds = {}
    run = RunSpec(precision=precision, attention="eager", micro_batch=64)  # type: ignore[arg-type]
    for family in ("vision_transformer", "transformer_encoder"):
        model = ModelSpec(family=family, layers=12, hidden=768, heads=12, ffn=3072)  # type: ignore[arg-type]
        recipe = recipe_of(run, ParallelDims())
        seconds[family] = attention_time(
            model, run, recipe, machine("rtx_3090", precision), 64 * 197.0, 197.0, 1
        ).forward
    # From bf16 torch casts before the softmax, as it casts a masked matrix.
    if precision == "autocast-bf16":
        assert seconds["vision_transformer"] <= seconds["transformer_encoder"]
    else:
        assert seconds["vision_transformer"] < seconds["transformer_encoder"]
