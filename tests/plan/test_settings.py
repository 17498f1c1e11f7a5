"""Settings: what is written for a framework, read back, is the layout that was planned."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.catalog.hardware import load_link, resolve_gpu
from preflight.plan.inputs.sizes import decoder_of
from preflight.plan.request import Request
from preflight.plan.settings import Emitter, emitters, settings_of
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.memory import MemoryEstimate
from preflight.vocabulary.plan import Candidate
from preflight.vocabulary.run import ParallelDims, RunSpec

POWERS = st.sampled_from([1, 2, 4])


@st.composite
def planned(draw: st.DrawFn) -> tuple[Request, Candidate]:
    """A layout of any framework with a batch that divides."""
    tp, pp, cp, replicate, shard = (draw(POWERS) for _ in range(5))
    stage = draw(st.sampled_from([0, 1, 2, 3])) if shard > 1 else 0
    shard = shard if stage else 1
    micro, pieces = draw(POWERS), draw(POWERS)
    parallel = ParallelDims(
        tp=tp, pp=pp, cp=cp, dp_replicate=replicate, dp_shard=shard, zero_stage=stage,
        vp=draw(st.sampled_from([1, 2])) if pp > 1 else 1, sequence_parallel=tp > 1 and draw(st.booleans()),
        framework=draw(st.sampled_from([None, "ddp", "fsdp2", "deepspeed", "megatron"])),
    )  # fmt: skip
    run = RunSpec(
        micro_batch=micro, global_batch=micro * pieces * replicate * shard, sequence_length=draw(st.sampled_from([512, 4096])),
        precision=draw(st.sampled_from(["fp32", "bf16", "fp8", "fp16", "autocast-bf16"])), optimizer=draw(st.sampled_from(["adamw", "sgd"])),
        **draw(st.sampled_from([{"recompute": kind} for kind in ("none", "full", "selective", "op")] + [{"recompute": "full", "recompute_layers": 8}])), clipping=draw(st.booleans()),
        offload=draw(st.sampled_from(["none", "optimizer", "parameters"])),
    )  # fmt: skip
    gpus = parallel.world_size
    cluster = Cluster(
        gpu=resolve_gpu("H100"), num_gpus=gpus, gpus_per_node=min(gpus, 8), intra=load_link("nvlink_4"),
        inter=load_link("ib_ndr") if gpus > 8 else None,
    )  # fmt: skip
    request = Request(model=decoder_of(7.0), run=run, cluster=cluster, parallel=parallel)
    return request, Candidate(parallel=parallel, run=run, memory=MemoryEstimate())


@pytest.mark.parametrize("emitter", emitters(), ids=lambda emitter: emitter.name)
@given(case=planned())
def test_settings_read_back_are_the_plan(emitter: Emitter, case: tuple[Request, Candidate]) -> None:
    request, candidate = case
    text = emitter.settings(request, candidate)
    if text is None:
        return
    again = emitter.read(text)
    parallel = msgspec.structs.replace(candidate.parallel, **again["parallel"])
    run = msgspec.structs.replace(candidate.run, **again["run"])
    assert parallel == candidate.parallel
    assert run == candidate.run
    # What the text does not say at all is not what makes the two equal.
    assert {"dp_shard", "dp_replicate"} <= set(again["parallel"])


@pytest.mark.parametrize("emitter", emitters(), ids=lambda emitter: emitter.name)
def test_every_framework_runs_some_layout(emitter: Emitter) -> None:
    frameworks = {"megatron": "megatron", "deepspeed": "deepspeed"}
    cluster = Cluster(gpu=resolve_gpu("H100"), num_gpus=8, intra=load_link("nvlink_4"))
    parallel = ParallelDims(dp_replicate=8, framework=frameworks.get(emitter.name, "ddp"))
    run = RunSpec(micro_batch=1, global_batch=8, sequence_length=2048, precision="bf16", optimizer="adamw")
    request = Request(model=decoder_of(7.0), run=run, cluster=cluster, parallel=parallel)
    assert emitter.settings(request, Candidate(parallel=parallel, run=run, memory=MemoryEstimate()))


def test_what_a_framework_cannot_run_has_no_settings() -> None:
    by_name = {emitter.name: emitter for emitter in emitters()}
    cluster = Cluster(gpu=resolve_gpu("H100"), num_gpus=8, intra=load_link("nvlink_4"))
    parallel = ParallelDims(tp=8, framework="megatron")
    run = RunSpec(micro_batch=1, global_batch=8, sequence_length=2048, precision="bf16", optimizer="adamw")
    request = Request(model=decoder_of(7.0), run=run, cluster=cluster, parallel=parallel)
    candidate = Candidate(parallel=parallel, run=run, memory=MemoryEstimate())
    assert by_name["deepspeed"].settings(request, candidate) is None
    assert by_name["accelerate"].settings(request, candidate) is None
    assert by_name["megatron"].settings(request, candidate) is not None


def test_a_schedule_that_other_forms_do_not_say_is_left_to_our_own() -> None:
    cluster = Cluster(gpu=resolve_gpu("H100"), num_gpus=8, intra=load_link("nvlink_4"))
    parallel = ParallelDims(pp=8, schedule="gpipe", framework="megatron")
    run = RunSpec(micro_batch=1, global_batch=8, sequence_length=2048, precision="bf16", optimizer="adamw")
    request = Request(model=decoder_of(7.0), run=run, cluster=cluster, parallel=parallel)
    candidate = Candidate(parallel=parallel, run=run, memory=MemoryEstimate())
    assert list(settings_of(request, candidate)) == ["preflight"]
    plain = msgspec.structs.replace(candidate, parallel=msgspec.structs.replace(parallel, schedule="1f1b"))
    assert "megatron" in settings_of(request, plain)
