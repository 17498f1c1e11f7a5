"""One layout with everything that can be said of it: memory by stage, the step, what it is spent on."""

from __future__ import annotations

import msgspec

from preflight.cost.flops import flops_per_sample
from preflight.cost.fragmentation import reserved_share
from preflight.cost.ledger import ledger_if_known, training_moments
from preflight.cost.machine import Coefficients, machine_of
from preflight.cost.memory import estimate_memory
from preflight.cost.networks.spread import known_step
from preflight.cost.parameters import is_transformer, reads_text
from preflight.cost.saved import in_flight
from preflight.cost.step import tokens_of
from preflight.cost.workspace import context_bytes
from preflight.plan.calibration.conformal import around, regime_of
from preflight.plan.measured import measured_step
from preflight.plan.pipeline.exact import with_exact_bubble
from preflight.plan.request import Request
from preflight.vocabulary.plan import Candidate, StageMemory, StepEstimate
from preflight.vocabulary.run import ParallelDims, RunSpec
from preflight.vocabulary.step import StepBreakdown

_WORDS = {
    "compute": "arithmetic of the kernels", "exposed_communication": "communication that nothing hides",
    "bubble": "pipeline stages that wait", "optimizer": "the optimizer's step", "data": "the loader",
    "host": "launching kernels from the host",
}  # fmt: skip


def candidate(
    request: Request, parallel: ParallelDims, run: RunSpec, coefficients: Coefficients | None = None
) -> Candidate:
    """Return one layout with its memory, stages and step."""
    gpu = request.cluster.gpu
    memory = estimate_memory(request.model, run, parallel, gpu)
    memory = msgspec.structs.replace(memory, method="formula")
    stages = _stages(request, parallel, run) if memory.peak_bytes is not None else ()
    return Candidate(
        parallel=parallel, run=run, memory=memory, stages=stages, step=_step(request, parallel, run, coefficients)
    )


def _stages(request: Request, parallel: ParallelDims, run: RunSpec) -> tuple[StageMemory, ...]:
    """Return the memory of every pipeline stage."""
    gpu, model = request.cluster.gpu, request.model
    context, extra = context_bytes(gpu, parallel).mid, reserved_share(run, model.experts).mid
    stages = []
    for index in range(parallel.pp):
        ledger = ledger_if_known(model, run, parallel, gpu, index)
        if ledger is None:
            return ()
        worst = max(training_moments(ledger, 1), key=lambda moment: moment.parts.total).parts
        stages.append(
            StageMemory(
                stage=index,
                layers=(model.layers or 0) * float(ledger.share.layers),
                in_flight=in_flight(parallel, index, ledger.micro_batches),
                allocated_bytes=worst.total,
                device_bytes=worst.total * (1 + extra) + context,
                breakdown=worst,
            )
        )
    return tuple(stages)


def _step(
    request: Request, parallel: ParallelDims, run: RunSpec, coefficients: Coefficients | None
) -> StepEstimate | None:
    """Return the time of a step, or None where the architecture's arithmetic is not known."""
    model, cluster, known = request.model, request.cluster, request.calibration
    machine = machine_of(cluster, run, coefficients or request.coefficients)
    first, last = (ledger_if_known(model, run, parallel, cluster.gpu, stage) for stage in (0, parallel.pp - 1))
    if machine is None or first is None or last is None:
        return None
    spent: StepBreakdown | None
    if request.measured is not None and not is_transformer(model):
        spent = measured_step(request.measured, run, parallel, machine, first)
    else:
        spent = known_step(model, run, parallel, machine, first, last)
        if spent is not None and is_transformer(model):
            spent = with_exact_bubble(model, run, parallel, machine, first, spent)
    if spent is None:
        return None
    seconds, samples = spent.total, run.global_batch or 0
    flops = flops_per_sample(model, run.sequence_length, run.image_size, target_length=run.target_length)
    # What is frozen has no gradient of weights: one product behind for one ahead, where training has two.
    work = (flops.model if run.finetune == "full" else 2 * flops.forward) if flops else 0.0
    rate = work * samples / seconds / parallel.world_size if flops else None
    tokens = tokens_of(model, run) if model.vocab else None
    nodes = -(-parallel.world_size // cluster.gpus_per_node)
    standing = known.standing(model, run, parallel, cluster) if known else None
    regime = regime_of(nodes, spent.host / seconds, standing, reads_text(model))
    return StepEstimate(
        seconds=around(seconds, regime, known.own if known and standing == "inside" else None),
        tokens_per_second_per_gpu=samples * tokens / seconds / parallel.world_size if tokens else None,
        samples_per_second=samples / seconds,
        model_tflops_per_gpu=rate / 1e12 if rate else None,
        mfu=rate / machine.peak if rate else None,
        breakdown=spent,
        bottleneck=bottleneck(spent),
        regime=regime,
    )


def bottleneck(spent: StepBreakdown) -> str:
    """Return the largest part of a step in words."""
    name = max(spent.__struct_fields__, key=lambda field: getattr(spent, field))
    return f"{_WORDS[name]} ({getattr(spent, name) / spent.total * 100:.0f} % of the step)"
