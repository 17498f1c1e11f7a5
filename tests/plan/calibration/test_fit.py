"""Coefficients are found again in steps that were made with them, and stay where nothing speaks of them."""

from __future__ import annotations

import msgspec
import pytest

from preflight.catalog.architectures import resolve_model
from preflight.catalog.hardware import load_link, resolve_gpu
from preflight.cost.machine import Coefficients
from preflight.plan.calibration.fit import fit
from preflight.plan.calibration.prior import PRIORS
from preflight.plan.calibration.sample import Sample, blocks_of, predicted
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.run import ParallelDims, RunSpec


def _samples(truth: Coefficients, degrees: list[tuple[int, int, int, int]]) -> tuple[Sample, ...]:
    """Return made steps of an 8B model: (tp, pp, data-parallel ranks, micro-batch)."""
    cluster = Cluster(gpu=resolve_gpu("H100"), num_gpus=64, intra=load_link("nvlink_4"), inter=load_link("ib_ndr"))
    run = RunSpec(
        global_batch=256, sequence_length=4096, precision="bf16", optimizer="adamw", stack="megatron", micro_batch=1
    )
    samples = [
        Sample(
            model=resolve_model("llama-3-8b"), run=msgspec.structs.replace(run, micro_batch=micro),
            parallel=ParallelDims(tp=tp, pp=pp, dp_replicate=dp, framework="megatron"), cluster=cluster, seconds=1.0,
        )
        for tp, pp, dp, micro in degrees
    ]  # fmt: skip
    seconds = predicted(blocks_of(tuple(samples)), truth, len(samples))
    return tuple(msgspec.structs.replace(s, seconds=float(t)) for s, t in zip(samples, seconds, strict=True))


LAYOUTS = [
    (1, 1, 8, 1),
    (2, 1, 4, 1),
    (4, 1, 2, 2),
    (8, 1, 1, 4),
    (1, 2, 4, 1),
    (2, 2, 16, 2),
    (4, 4, 4, 1),
    (8, 2, 4, 2),
]


def test_every_coefficient_has_a_prior() -> None:
    assert set(PRIORS) == set(Coefficients.__struct_fields__)


def test_made_steps_are_predicted_again() -> None:
    truth = Coefficients(matmul=0.8, fabric=0.6, network=0.5, bandwidth=0.7)
    samples = _samples(truth, LAYOUTS)
    found = predicted(blocks_of(samples), fit(samples), len(samples))
    for sample, seconds in zip(samples, found, strict=True):
        assert seconds == pytest.approx(sample.seconds, rel=0.05)


def test_what_rows_do_not_speak_of_stays() -> None:
    found = fit(_samples(Coefficients(matmul=0.8), [(1, 1, 1, 1), (1, 1, 1, 2)]))
    start = Coefficients()
    assert found.network == start.network
    assert found.hop == start.hop
    assert found.matmul < start.matmul


def test_one_wild_row_does_not_carry_the_others_away() -> None:
    samples = _samples(Coefficients(), LAYOUTS)
    wild = (msgspec.structs.replace(samples[0], seconds=samples[0].seconds * 5), *samples[1:])
    found = predicted(blocks_of(wild), fit(wild), len(wild))
    for sample, seconds in list(zip(samples, found, strict=True))[1:]:
        assert seconds == pytest.approx(sample.seconds, rel=0.10)


def test_without_rows_the_catalog_stands() -> None:
    assert fit(()) == Coefficients()


def test_shares_stay_within_physics() -> None:
    samples = _samples(Coefficients(), LAYOUTS)
    quick = tuple(msgspec.structs.replace(sample, seconds=sample.seconds / 3) for sample in samples)
    found = fit(quick)
    for name, prior in PRIORS.items():
        if prior.most is not None:
            assert getattr(found, name) <= prior.most * 1.0001
