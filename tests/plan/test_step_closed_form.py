"""The step's formula for stages and bubble, against the schedule played through with the same times and free transfers."""

from __future__ import annotations

import pytest

from preflight.catalog.architectures import resolve_model
from preflight.catalog.hardware import load_link, resolve_gpu
from preflight.cost.ledger import ledger_of
from preflight.cost.machine import Coefficients, machine_of
from preflight.cost.optimizers import optimizer_state
from preflight.cost.parameters import count_parameters
from preflight.cost.step import stage_times, step_of
from preflight.plan.pipeline.simulate import simulate
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.run import ParallelDims, RunSpec

FREE = Coefficients(transfer=1e-9, hop=1e-12, straggler=1e-12, fabric_latency=1e-12, network_latency=1e-12, network=1e6)


@pytest.mark.parametrize(("pp", "vp", "batch"), [(2, 1, 64), (4, 1, 128), (8, 1, 128), (4, 4, 64), (8, 2, 256)])
def test_the_closed_form_is_what_is_played(pp: int, vp: int, batch: int) -> None:
    model = resolve_model("llama-3-8b")
    cluster = Cluster(gpu=resolve_gpu("H100"), num_gpus=pp, intra=load_link("nvlink_4"), inter=load_link("ib_ndr"))
    run = RunSpec(
        global_batch=batch, micro_batch=1, sequence_length=4096, precision="bf16", optimizer="adamw", stack="megatron"
    )
    parallel = ParallelDims(pp=pp, vp=vp, framework="megatron")
    machine = machine_of(cluster, run, FREE)
    count, optimizer = count_parameters(model), optimizer_state("adamw")
    assert machine is not None
    assert count is not None
    assert optimizer is not None
    ends = [ledger_of(model, run, parallel, cluster.gpu, count, optimizer, stage) for stage in (0, pp - 1)]
    spent = step_of(model, run, parallel, machine, ends[0], ends[1])
    front, body, end, _ = stage_times(model, run, parallel, machine, ends[0])
    stages = [front, *[body] * (pp - 2), end]
    # What collectives and the host take lies in both passes, as far as the kernels do.
    stretch = [stage.total / (stage.forward + stage.backward) for stage in stages]
    played = simulate(
        [stage.forward * factor for stage, factor in zip(stages, stretch, strict=True)],
        [stage.backward * factor for stage, factor in zip(stages, stretch, strict=True)],
        batch, "interleaved" if vp > 1 else "1f1b", vp,
    )  # fmt: skip
    assert max(front.total, end.total) * batch + spent.bubble == pytest.approx(played.seconds, rel=0.03)
