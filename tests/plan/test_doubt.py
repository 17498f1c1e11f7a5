"""How sure an order is: chances add up, the safest has the least regret, the experiment names what is in doubt."""

from __future__ import annotations

import msgspec
import numpy
import pytest

from preflight.catalog.hardware import load_link, resolve_gpu
from preflight.cost.machine import Coefficients
from preflight.plan.calibration.prior import PRIORS
from preflight.plan.candidate import candidate
from preflight.plan.columns.doubt import DRAWS, _draws, doubt_of
from preflight.plan.experiment import experiment_of, in_short
from preflight.plan.make import plan_report
from preflight.plan.request import Request
from preflight.report.parts.plan_rows import short_layout
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.plan import Candidate
from preflight.vocabulary.run import ParallelDims, RunSpec


def _request() -> Request:
    model = ModelSpec(
        family="transformer_decoder", layers=12, hidden=1536, heads=12, ffn=4096, gated=True, activation="silu",
        norm="rmsnorm", bias=False, vocab=32000, tied_embeddings=False,
    )  # fmt: skip
    run = RunSpec(global_batch=24, sequence_length=2048, precision="bf16", optimizer="adamw", foreach=False)
    cluster = Cluster(
        gpu=resolve_gpu("a100-40gb"),
        num_gpus=8,
        gpus_per_node=4,
        intra=load_link("nvlink_3"),
        inter=load_link("ib_hdr"),
    )
    return Request(model=model, run=run, cluster=cluster, search=True)


def _candidates(request: Request) -> tuple[Candidate, ...]:
    run = msgspec.structs.replace(request.run, micro_batch=1, stack="megatron")
    layouts = (
        ParallelDims(dp_shard=8, zero_stage=1, framework="megatron"),
        ParallelDims(dp_shard=2, tp=4, zero_stage=1, framework="megatron", sequence_parallel=True),
        ParallelDims(dp_shard=2, pp=4, zero_stage=1, framework="megatron"),
    )
    return tuple(candidate(request, layout, run) for layout in layouts)


def test_chances_add_up_and_the_safest_has_the_least_regret() -> None:
    request = _request()
    doubt = doubt_of(request, _candidates(request))
    assert doubt is not None
    assert sum(doubt.chances) == pytest.approx(1)
    assert doubt.regrets[doubt.safest] <= min(doubt.regrets) + 1e-4
    assert all(regret >= 0 for regret in doubt.regrets)
    assert doubt.safest not in doubt.rivals


def test_times_under_a_draw_are_those_of_a_plan_with_these_coefficients() -> None:
    request = _request()
    one = _candidates(request)[1]
    drawn = {name: float(values[7]) for name, values in _draws(Coefficients()).items()}
    again = candidate(request, one.parallel, one.run, Coefficients(**drawn))
    from preflight.plan.columns.doubt import _seconds

    assert again.step is not None
    assert _seconds(request, one, Coefficients(**_draws(Coefficients())))[7] * 24 == pytest.approx(
        again.step.seconds.mid
    )


def test_draws_stay_within_what_physics_admits() -> None:
    draws = _draws(Coefficients())
    assert set(draws) == set(PRIORS)
    for name, values in draws.items():
        assert values.shape == (DRAWS,)
        assert numpy.all(values > 0)
        most = PRIORS[name].most
        assert most is None or values.max() <= most


def test_one_layout_leaves_nothing_to_compare() -> None:
    request = _request()
    assert doubt_of(request, _candidates(request)[:1]) is None


def test_the_cheapest_measurement_that_explains_the_doubt_is_named() -> None:
    request = _request()
    first, second, _ = _candidates(request)
    said = experiment_of(request.cluster, first, second, 0.4, {"network": 0.8, "matmul": 0.1})
    assert "all_reduce_perf" in said
    assert "8 GPUs of two nodes" in said
    assert "16 GPU-minutes" in said
    said = experiment_of(request.cluster, first, second, 0.4, {"matmul": 0.5, "kernel": 0.3})
    assert "one GPU" in said
    said = experiment_of(request.cluster, first, second, 0.4, {"hidden": 0.9})
    assert "20 steps of each on 8 GPUs" in said


@pytest.mark.parametrize(
    "parallel",
    [
        ParallelDims(),
        ParallelDims(dp_replicate=2, dp_shard=32, zero_stage=3, framework="fsdp2"),
        ParallelDims(tp=2, pp=8, vp=2, dp_shard=4, zero_stage=1, framework="megatron"),
        ParallelDims(pp=16, cp=2, vp=5, dp_shard=2, zero_stage=1, framework="megatron"),
        ParallelDims(dp_replicate=8, framework="ddp"),
    ],
)
def test_a_layout_is_called_as_in_the_table_of_candidates(parallel: ParallelDims) -> None:
    one = msgspec.structs.replace(_candidates(_request())[0], parallel=parallel)
    named = short_layout(parallel) + (f" ({parallel.framework})" if parallel.framework else "")
    assert in_short(one).startswith(f"{named} micro-batch ")


def test_a_search_shows_three_to_five_layouts_and_its_regret() -> None:
    report = plan_report(_request())
    plan = report.plan
    assert plan is not None
    assert 3 <= len(plan.candidates) <= 5
    assert plan.chosen is not None
    assert plan.chosen.parallel in [one.parallel for one in plan.candidates]
    assert plan.regret is not None
    assert 0 <= plan.regret < 0.5
    times = [one.step.seconds.mid for one in plan.candidates if one.step]
    assert times == sorted(times)
