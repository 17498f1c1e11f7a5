"""Advice: every effect is a computed one, and what is said to fit does fit."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from preflight.plan.advise import advise
from preflight.plan.advise.sensitivities import tried
from preflight.plan.candidate import candidate
from preflight.plan.changes import changes
from preflight.plan.goodput import best_interval, goodput_of
from preflight.plan.largest_batch import largest_batch
from preflight.plan.request import Request
from preflight.vocabulary.plan import Candidate

Asked = Callable[..., Request]


def chosen(request: Request) -> Candidate:
    assert request.parallel is not None
    return candidate(request, request.parallel, request.run)


@pytest.fixture(scope="module")
def pipeline(asked: Asked) -> Request:
    return asked("30", "64", gpus=4, strategy="pipeline_parallel")


def test_every_change_keeps_the_gpus_and_the_batch(pipeline: Request, asked: Asked) -> None:
    for request in (
        pipeline,
        asked("7", "32", gpus=8, strategy="fsdp"),
        asked("13", "16", gpus=8, strategy="tensor_parallel"),
    ):
        found = changes(request)
        assert len(found) >= 5
        for change in found:
            assert change.parallel.world_size == request.cluster.num_gpus
            assert change.run.global_batch == request.run.global_batch
            ranks = change.parallel.dp_replicate * change.parallel.dp_shard
            assert (change.run.global_batch or 0) % (ranks * (change.run.micro_batch or 1)) == 0


def test_an_effect_is_that_of_the_changed_layout(pipeline: Request, asked: Asked) -> None:
    before = chosen(pipeline)
    found = {effect.change: effect for effect in advise(pipeline, before).sensitivities}
    for trial in tried(pipeline):
        effect = found.get(trial.change.title)
        if effect is None:
            continue
        again = candidate(pipeline, trial.change.parallel, trial.change.run)
        assert again.memory.device_bytes is not None
        assert before.memory.device_bytes is not None
        assert effect.device_bytes_change == pytest.approx(
            again.memory.device_bytes.mid - before.memory.device_bytes.mid
        )


def test_the_drivers_of_a_step_add_up_to_at_most_the_step(pipeline: Request, asked: Asked) -> None:
    for request in (pipeline, asked("7", "32", gpus=8, strategy="fsdp"), asked("0.1", "4")):
        found = advise(request, chosen(request)).drivers
        assert found
        assert 0.8 < sum(driver.share for driver in found) < 1.05


def test_what_is_said_to_make_it_fit_does(asked: Asked) -> None:
    request = asked("7", "32", gpus=8, strategy="fsdp", sequence_length=8192)
    before = chosen(request)
    assert before.memory.fits == "no"
    critical = [said for said in advise(request, before).recommendations if said.priority == "critical"]
    assert critical
    titles = {trial.change.title: trial.after.memory.fits for trial in tried(request)}
    for said in critical:
        assert titles.get(said.change, "yes") == "yes"
        assert "(fits)" in said.effect


def test_one_gpu_that_is_too_small_is_told_how_many_are_needed(asked: Asked) -> None:
    request = asked("13", "32", sequence_length=4096)
    first = advise(request, chosen(request)).recommendations[0]
    assert first.priority == "critical"
    assert "GPUs, fully sharded" in first.change


def test_the_largest_batch_fits_and_one_more_does_not(asked: Asked) -> None:
    request = asked("7", "8", gpus=8, strategy="fsdp")
    limit = largest_batch(request)
    capacity = request.cluster.gpu.memory_bytes
    run = msgspec.structs.replace(request.run, global_batch=limit.global_batch, micro_batch=limit.micro_batch)
    more = msgspec.structs.replace(run, global_batch=limit.global_batch + 8, micro_batch=limit.micro_batch + 1)
    assert request.parallel is not None
    here, there = (candidate(request, request.parallel, one).memory.device_bytes for one in (run, more))
    assert here is not None
    assert there is not None
    assert here.mid <= capacity < there.mid


def test_the_checkpoint_interval_loses_least(asked: Asked) -> None:
    write, between = 60.0, 86_400.0

    def lost(interval: float) -> float:
        return write / interval + interval / 2 / between

    best = best_interval(write, between)
    assert lost(best) <= 1.001 * min(lost(interval) for interval in range(300, 20_000, 10))


def test_more_gpus_fail_more_often(asked: Asked) -> None:
    shares = []
    for gpus in (8, 64, 512):
        request = asked("7", "512", gpus=gpus, strategy="fsdp")
        found = goodput_of(request, chosen(request))
        assert found is not None
        shares.append(found.share)
    assert shares == sorted(shares, reverse=True)


def test_what_saves_much_memory_at_the_same_time_is_recommended(asked: Asked) -> None:
    request = asked("1", "64", gpus=8, strategy="data_parallel", sequence_length=1024)
    before = chosen(request)
    assert before.memory.fits == "yes"
    said = [
        item for item in advise(request, before).recommendations if "ZeRO 1" in item.change or "FSDP" in item.change
    ]
    assert said
    assert "(fits)" in said[0].effect


def test_checkpoints_as_given_cost_what_storage_takes(asked: Asked) -> None:
    request = asked("7", "512", gpus=64, strategy="fsdp")
    found = chosen(request)
    assert found.step is not None
    often = msgspec.structs.replace(request, checkpoint_steps=50, storage_gb_per_s=5.0)
    rarely = msgspec.structs.replace(often, checkpoint_steps=1000)
    slower = msgspec.structs.replace(often, storage_gb_per_s=1.0)
    good, better, worse = (goodput_of(one, found) for one in (often, rarely, slower))
    assert good is not None
    assert better is not None
    assert worse is not None
    assert good.checkpoint_interval_seconds == pytest.approx(50 * found.step.seconds.mid)
    assert worse.checkpoint_seconds == pytest.approx(5 * good.checkpoint_seconds)
    assert worse.share < good.share < better.share
    assert "as given" in good.basis
