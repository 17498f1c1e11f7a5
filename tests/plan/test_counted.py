"""Convolutional networks: time from counted operations and activations, held against a published benchmark."""

from __future__ import annotations

import json
import statistics

import pytest

from preflight.catalog.architectures import find_model
from preflight.catalog.hardware import resolve_gpu
from preflight.catalog.measured import measured_rows
from preflight.plan.candidate import candidate
from preflight.plan.request import Request
from preflight.plan.spread import settled
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.run import RunSpec


def errors() -> dict[str, float]:
    """Predicted over measured time of a step, less one, of timm's training benchmark with channels last."""
    found: dict[str, float] = {}
    for row in measured_rows("throughput"):
        if row["source"] != "timm-train-benchmark" or "NHWC" not in row["precision"]:
            continue
        model = find_model(row["model"])
        if model is None or model.family != "cnn" or not model.forward_flops:
            continue
        batch = int(row["micro_batch"])
        run = RunSpec(
            micro_batch=batch, global_batch=batch, image_size=json.loads(row["arch_json"])["img"], precision="autocast-fp16",
            optimizer="sgd", optimizer_momentum=0.9,
        )  # fmt: skip
        request = settled(Request(model=model, run=run, cluster=Cluster(gpu=resolve_gpu("RTX 3090"))))
        assert request.parallel is not None
        step = candidate(request, request.parallel, request.run).step
        assert step is not None
        found[row["model"]] = step.seconds.mid / (batch / float(row["samples_per_s_total"])) - 1
    return found


def test_published_training_rates_of_convolutional_networks() -> None:
    found = errors()
    assert len(found) >= 20
    sizes = [abs(error) for error in found.values()]
    assert statistics.median(sizes) < 0.10
    # regnety_160 convolves in groups of 112 channels, for which cuDNN had no quick kernel with channels last.
    assert sorted(sizes)[-2] < 0.25


def test_time_grows_with_the_area_of_the_image() -> None:
    model = find_model("resnet50")
    assert model is not None
    seconds = []
    for size in (224, 448):
        run = RunSpec(micro_batch=64, global_batch=64, image_size=size, precision="autocast-bf16", optimizer="sgd")
        request = settled(Request(model=model, run=run, cluster=Cluster(gpu=resolve_gpu("A100"))))
        assert request.parallel is not None
        step = candidate(request, request.parallel, request.run).step
        assert step is not None
        assert step.breakdown is not None
        seconds.append(step.breakdown.compute)
    assert seconds[1] / seconds[0] == pytest.approx(4.0)
