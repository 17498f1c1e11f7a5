"""Scaling curves: what they hold is what the layout itself gives on so many GPUs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from preflight.plan.make import plan_report
from preflight.plan.request import Request
from preflight.plan.scaling import scaling_of

Asked = Callable[..., Request]


@pytest.mark.parametrize("strategy", ["data_parallel", "fsdp", "tensor_parallel"])
def test_the_present_number_of_gpus_is_the_plan(strategy: str, asked: Asked) -> None:
    request = asked("7", "64", gpus=8, strategy=strategy)
    scaling = scaling_of(request)
    assert scaling is not None
    report = plan_report(request)
    assert report.step is not None
    for curve in (scaling.strong, scaling.weak):
        here = next((point for point in curve if point.gpus == 8), None)
        if here is None:
            assert report.verdict != "GO"
            continue
        assert here.step_seconds == pytest.approx(report.step["seconds"]["mid"])
        assert [point.gpus for point in curve] == sorted(point.gpus for point in curve)


def test_more_gpus_with_the_same_batch_are_less_efficient(asked: Asked) -> None:
    scaling = scaling_of(asked("7", "512", gpus=64, strategy="fsdp"))
    assert scaling is not None
    efficiencies = [point.efficiency for point in scaling.strong]
    assert len(efficiencies) >= 3
    assert efficiencies[0] == 1.0
    assert efficiencies[-1] < efficiencies[0]
    assert {point.global_batch for point in scaling.strong} == {512}


def test_the_weak_curve_keeps_the_share_of_a_rank(asked: Asked) -> None:
    scaling = scaling_of(asked("7", "512", gpus=64, strategy="fsdp"))
    assert scaling is not None
    assert {point.global_batch / point.gpus for point in scaling.weak} == {8.0}
