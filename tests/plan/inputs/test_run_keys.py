"""Keys of a run and a cluster that few need: what they do, and what they need beside them."""

from __future__ import annotations

import pytest

from preflight.errors import UsageError
from preflight.plan.inputs.document import settings_in
from preflight.plan.inputs.requests import request_from
from preflight.plan.make import plan_report
from preflight.plan.request import Request
from preflight.vocabulary.plan import Candidate, Plan
from preflight.vocabulary.report import Report

BASE = "model: {size_billions: 7, batch_size: 64}\nhardware: {gpu_type: h100}\ndistribution: {strategy: fsdp}\n"
MIXTURE = "model: {name: mixtral-8x7b, batch_size: 64}\nhardware: {gpu_type: h100}\ncluster: {num_gpus: 64}\ndistribution: {strategy: fsdp}\n"


def request(text: str) -> Request:
    return request_from(settings_in(text))


def plan(text: str) -> tuple[Report, Plan, Candidate]:
    report = plan_report(request(text))
    assert report.plan is not None
    assert report.plan.chosen is not None
    return report, report.plan, report.plan.chosen


def test_a_host_that_is_too_small_is_no_go() -> None:
    run = "run: {offload: parameters, recompute: full}\n"
    small, _, _ = plan(BASE + run + "cluster: {num_gpus: 8, host_memory: 32}\n")
    large, _, _ = plan(BASE + run + "cluster: {num_gpus: 8, host_memory: 1000}\n")
    unsaid, found, _ = plan(BASE + run + "cluster: {num_gpus: 8}\n")
    assert (small.verdict, large.verdict, unsaid.verdict) == ("NO-GO", "GO", "GO")
    # 7e9 x 16 B = 112 GB = 104 GiB on the one node, 32 GB = 29.8 GiB
    assert "parameters on the host take 104 GiB of every node, more than 29.8 GiB" in small.notes
    assert not large.notes
    assert any("--host-memory" in said for said in found.assumptions)


def test_checkpoints_as_asked_for_lose_more_than_the_best() -> None:
    _, best, _ = plan(BASE + "cluster: {num_gpus: 64}\n")
    _, often, _ = plan(BASE + "cluster: {num_gpus: 64}\nrun: {checkpoint_steps: 200}\n")
    _, quick, _ = plan(BASE + "cluster: {num_gpus: 64, storage_gb_per_s: 100}\nrun: {checkpoint_steps: 200}\n")
    assert best.goodput is not None
    assert often.goodput is not None
    assert quick.goodput is not None
    assert best.goodput.checkpoint_interval_seconds == best.goodput.best_interval_seconds
    assert often.goodput.checkpoint_interval_seconds < 0.5 * best.goodput.checkpoint_interval_seconds
    assert often.goodput.best_interval_seconds == best.goodput.best_interval_seconds
    assert often.goodput.share < best.goodput.share
    # 7e9 parameters x 14 B = 98 GB at 100 GB/s
    assert quick.goodput.checkpoint_seconds == pytest.approx(0.98)
    assert quick.goodput.share > often.goodput.share


def test_a_loader_that_is_too_slow_is_waited_for() -> None:
    run = "run: {micro_batch: 2, loader_workers: %d, sample_seconds: 2.0}\n"
    _, _, slow = plan(BASE + "cluster: {num_gpus: 8}\n" + run % 2)
    _, _, quick = plan(BASE + "cluster: {num_gpus: 8}\n" + run % 64)
    assert slow.step is not None
    assert quick.step is not None
    assert slow.step.breakdown is not None
    assert quick.step.breakdown is not None
    # 64 / 8 samples x 2 s / 2 processes
    assert slow.step.breakdown.total == pytest.approx(8.0)
    assert "loader" in (slow.step.bottleneck or "")
    assert quick.step.breakdown.data == 0
    busy = slow.step.breakdown
    assert busy.total - busy.data == pytest.approx(quick.step.breakdown.total)


def test_imbalance_and_capacity_of_experts_change_the_plan() -> None:
    _, _, even = plan(MIXTURE)
    _, _, uneven = plan(MIXTURE + "run: {expert_imbalance: 2.0}\n")
    assert even.memory.peak_bytes is not None
    assert uneven.memory.peak_bytes is not None
    assert uneven.memory.peak_bytes.mid > even.memory.peak_bytes.mid
    assert request(MIXTURE + "run: {expert_capacity: 1.25}\n").run.expert_capacity == 1.25


@pytest.mark.parametrize(
    ("run", "message", "hint"),
    [
        ("loader_workers: 4", "loader_workers says nothing without sample_seconds", "both"),
        ("expert_imbalance: 1.5", "expert_imbalance, but the model has no experts", "leave it out"),
        ("fp8_weights: true", "weights of 8 bits, but precision is bf16", "precision: fp8"),
        ("expert_imbalance: 0.9", "which is too small", "at least 1"),
        ("checkpoint_steps: 0", "which is too small", "at least 1"),
    ],
)
def test_what_needs_something_else_says_so(run: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        request(BASE + f"run: {{{run}}}\n")
    assert message in str(caught.value)
    assert hint in (caught.value.hint or "")


def test_a_size_may_have_its_letter() -> None:
    from preflight.plan.inputs.settings import said

    assert said("model.size_billions", "7B", "SIZE").value == 7
    assert said("model.size_billions", "125M", "SIZE").value == pytest.approx(0.125)
    assert said("model.size_billions", 13, "SIZE").value == 13
