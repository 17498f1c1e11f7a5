"""Intervals hold what they promise, and regimes are told apart."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from preflight.catalog.hardware import resolve_gpu
from preflight.cost.machine import Coefficients
from preflight.plan.calibration import conformal
from preflight.plan.calibration.conformal import around, middle, regime_of, regimes
from preflight.plan.calibration.record import ENOUGH_ROWS, Calibration, reach_of
from preflight.plan.calibration.sample import Sample
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=300))
def test_nine_of_ten_lie_within(residuals: list[float]) -> None:
    low, high = middle(residuals)
    inside = sum(low <= value <= high for value in residuals)
    assert inside >= 0.9 * len(residuals) - 1e-9


def test_a_long_table_does_not_outvote_a_short_one() -> None:
    values = [0.0] * 90 + [1.0] * 10
    assert middle(values) == (0.0, 1.0)
    assert middle(values, [1 / 90] * 90 + [1 / 10] * 10) == (0.0, 1.0)
    assert middle([0.0] * 98 + [1.0] * 2, [1 / 98] * 98 + [1 / 2] * 2) == (0.0, 1.0)


def test_every_regime_has_an_interval_that_holds_its_middle() -> None:
    names = [value for name, value in vars(conformal).items() if name.isupper() and isinstance(value, str)]
    named = [name for name in names if name in regimes()]
    assert set(named) == set(regimes())
    for name in regimes():
        found = around(2.0, name)
        assert found.low <= 2.0 <= found.high


def test_regimes() -> None:
    assert regime_of(1, 0.0) == "catalog, one node"
    assert regime_of(4, 0.0) == "catalog, many nodes"
    assert regime_of(1, 0.5) == "catalog, waiting for the host"
    assert regime_of(1, 0.0, text=False) == "catalog, network of images"
    assert regime_of(1, 0.0, "few", text=False) == regime_of(1, 0.0, "few")
    assert regime_of(4, 0.0, "inside") == "calibrated, many nodes"
    assert regime_of(4, 0.0, "beyond").startswith("extrapolated")


def test_a_calibration_of_its_own_counts_instead_of_the_shipped_one() -> None:
    found = around(1.0, "calibrated, one node", (-0.01, 0.02))
    assert math.isclose(found.low, math.exp(-0.01))
    assert math.isclose(found.high, math.exp(0.02))


def test_another_model_within_the_reach_has_a_regime_of_its_own() -> None:
    cluster = Cluster(gpu=resolve_gpu("A100"), num_gpus=8)
    run = RunSpec(micro_batch=4, global_batch=64, sequence_length=2048, optimizer="adamw", precision="bf16")
    models = [
        ModelSpec(family="transformer_decoder", layers=layers, hidden=hidden, heads=16, vocab=50000)
        for layers, hidden in ((24, 2048), (16, 2560), (96, 12288))
    ]
    seen = tuple(
        Sample(model=models[0], run=run, parallel=ParallelDims(dp_replicate=8), cluster=cluster, seconds=1.0)
        for _ in range(ENOUGH_ROWS)
    )
    known = Calibration(
        coefficients=Coefficients(), gpus=("a100_80gb_sxm",), rows=len(seen), fitted_on=(), reach=reach_of(seen)
    )
    found = [known.standing(model, run, ParallelDims(dp_replicate=8), cluster) for model in models]
    assert found == ["inside", "other", "beyond"]
    assert regime_of(1, 0.0, "other") == "calibrated on other models"
