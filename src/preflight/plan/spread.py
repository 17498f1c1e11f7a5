"""From the name of a strategy and a number of GPUs to a layout, or the reason why there is none."""

from __future__ import annotations

import msgspec

from preflight.errors import UsageError, nearest
from preflight.plan.constraint import Layout, nearest_divisor, violated
from preflight.plan.contradictions import check_wish
from preflight.plan.request import Request, Wish
from preflight.vocabulary.run import ParallelDims, RunSpec

STRATEGIES = (
    "data_parallel", "tensor_parallel", "pipeline_parallel", "hybrid", "fsdp", "zero1", "zero2", "zero3", "hsdp", "auto",
)  # fmt: skip
_SHARDED = {"fsdp": 3, "zero1": 1, "zero2": 2, "zero3": 3, "hsdp": 3}


def strategy_named(name: str) -> str:
    """Return the key of a strategy: ``tensor-parallel`` and ``TP`` are ``tensor_parallel``.

    Raises:
        UsageError: There is none of this name.
    """
    key = name.strip().lower().replace("-", "_").replace(" ", "_")
    short = {"dp": "data_parallel", "ddp": "data_parallel", "tp": "tensor_parallel", "pp": "pipeline_parallel"}
    key = short.get(key, {"zero_1": "zero1", "zero_2": "zero2", "zero_3": "zero3", "fsdp2": "fsdp"}.get(key, key))
    if key in STRATEGIES:
        return key
    near = nearest(key, STRATEGIES)
    raise UsageError(
        f"no strategy is called {name!r}", f"did you mean {near}?" if near else f"one of {', '.join(STRATEGIES)}"
    )


def layout(request: Request) -> ParallelDims:
    """Return the layout that was asked for.

    Raises:
        UsageError: The degrees do not multiply to the number of GPUs, or the model cannot be divided like that.
    """
    wish, gpus = request.wish, request.cluster.num_gpus
    check_wish(wish, gpus)
    dims = _degrees(wish, gpus)
    check_divides(request, dims)
    return dims


def _degrees(wish: Wish, gpus: int) -> ParallelDims:
    """Return the degrees; what a strategy leaves open takes all GPUs that are left."""
    strategy = wish.strategy or ("data_parallel" if gpus > 1 else None)
    tp, pp = wish.tensor_parallel or 1, wish.pipeline_parallel or 1
    cp, ep = wish.context_parallel or 1, wish.expert_parallel or 1
    if strategy == "tensor_parallel" and wish.tensor_parallel is None:
        tp = gpus // (pp * cp * (wish.data_parallel or 1)) or 1
    if strategy == "pipeline_parallel" and wish.pipeline_parallel is None:
        pp = gpus // (tp * cp * (wish.data_parallel or 1)) or 1
    dp = wish.data_parallel if wish.data_parallel is not None else max(gpus // (tp * pp * cp), 1)
    if tp * pp * cp * dp != gpus:
        raise _wrong_product(wish, gpus, tp, pp, cp, dp)
    stage = wish.zero_stage if wish.zero_stage is not None else _SHARDED.get(strategy or "", 0)
    shard, replicate = (dp, 1) if stage else (1, dp)
    if strategy == "hsdp" or wish.shard_size:
        shard = wish.shard_size or min(dp, 8)
        if dp % shard:
            raise UsageError(
                f"shard_size {shard} does not divide the {dp} data-parallel ranks",
                f"{nearest_divisor(dp, shard)} does",
            )
        replicate, stage = dp // shard, stage or 3
    framework = _framework(strategy, tp, pp, stage, gpus)
    sequence = wish.sequence_parallel if wish.sequence_parallel is not None else tp > 1
    return ParallelDims(
        dp_replicate=replicate, dp_shard=shard, zero_stage=stage if shard > 1 else 0, tp=tp, pp=pp, cp=cp, ep=ep,
        vp=wish.virtual_pipeline or 1, sequence_parallel=sequence and tp > 1, framework=wish.framework or framework,
        etp=wish.expert_tensor_parallel, schedule=wish.schedule or "1f1b", reshard=wish.reshard is not False,
        first_layers=wish.first_layers, last_layers=wish.last_layers,
    )  # fmt: skip


def _framework(strategy: str | None, tp: int, pp: int, stage: int, gpus: int) -> str | None:
    """Return who spreads it: Megatron-like for tensor and pipeline parallel, FSDP2 for stage 3, DeepSpeed for 1 and 2."""
    if gpus == 1:
        return None
    if strategy in ("zero1", "zero2", "zero3") and tp == pp == 1:
        return "deepspeed"
    if stage >= 2:
        return "fsdp2"
    return "megatron" if tp * pp > 1 or stage else "ddp"


def _wrong_product(wish: Wish, gpus: int, tp: int, pp: int, cp: int, dp: int) -> UsageError:
    product = tp * pp * cp * dp
    said = f"tensor {tp} x pipeline {pp} x context {cp} x data {dp} = {product}, but there are {gpus} GPUs"
    rest = tp * pp * cp
    if gpus % rest == 0:
        return UsageError(said, f"data_parallel: {gpus // rest} makes it {gpus}")
    return UsageError(said, f"{rest} does not divide {gpus}; {nearest_divisor(gpus, rest)} does")


def check_divides(request: Request, dims: ParallelDims, run: RunSpec | None = None) -> None:
    """Raise when heads, layers, experts, the sequence or the batch cannot be divided.

    Without a ``run`` that is settled, its micro-batch is not looked at.
    """
    run = run or msgspec.structs.replace(request.run, micro_batch=None)
    layout = Layout(model=request.model, run=run, parallel=dims, cluster=request.cluster)
    broken = violated(layout)
    if broken is not None:
        raise UsageError(broken.reason(layout), broken.hint(layout))


def with_micro_batch(run_batch: int, dims: ParallelDims, given: int | None) -> int:
    """Return the samples per forward pass: as given, else the whole share of a rank, or one for pipelines.

    Raises:
        UsageError: The given one does not divide the share of a rank.
    """
    share = run_batch // (dims.dp_replicate * dims.dp_shard)
    if given is not None:
        if share % given:
            raise UsageError(
                f"micro_batch {given} does not divide the {share} samples of a rank",
                f"{nearest_divisor(share, given)} does",
            )
        return given
    return 1 if dims.pp > 1 else share


def _accumulated(run: RunSpec, batch: int, ranks: int) -> int | None:
    """Return the micro-batch that was said, or that follows from the number of forward passes of a step.

    Raises:
        UsageError: The passes do not make the batch.
    """
    passes = run.gradient_accumulation
    if passes <= 1 or batch % ranks:
        return run.micro_batch
    if run.micro_batch is None and batch % (ranks * passes) == 0:
        return batch // (ranks * passes)
    if run.micro_batch is None:
        share = batch // ranks
        near = nearest_divisor(share, passes)
        raise UsageError(
            f"the {share} samples of a rank cannot be taken in {passes} forward passes",
            f"in {near} they can; or say the micro-batch",
        )
    micro = run.micro_batch
    if batch != micro * passes * ranks:
        right = micro * passes * ranks
        raise UsageError(
            f"{passes} forward passes of {micro} samples on {ranks} data-parallel ranks are {right} samples, not {batch}",
            f"a batch of {right}, or leave one of the three out",
        )
    return micro


def _why_micro(micro: int, dims: ParallelDims) -> str:
    samples = f"{micro} sample{'s' if micro > 1 else ''} in a forward pass of a GPU"
    return f"{samples}, as usual in pipelines" if dims.pp > 1 else f"{samples}: its whole share of the batch"


def settled(request: Request) -> Request:
    """Return the request with its layout and micro-batch decided as asked for."""
    dims = layout(request)
    for axis, degree in (("tensor_parallel", dims.tp), ("pipeline_parallel", dims.pp)):
        if request.wish.strategy == axis and degree == 1:
            raise UsageError(
                f"strategy {axis}, but the other degrees leave no GPU for it", "say strategy: hybrid, or more GPUs"
            )
    run = request.run
    ranks = dims.dp_replicate * dims.dp_shard
    batch = run.global_batch or (run.micro_batch or 1) * run.gradient_accumulation * ranks
    micro = with_micro_batch(batch, dims, _accumulated(run, batch, ranks))
    told = () if run.micro_batch or run.gradient_accumulation > 1 else (_why_micro(micro, dims),)
    request = msgspec.structs.replace(request, assumptions=(*request.assumptions, *told))
    run = msgspec.structs.replace(run, micro_batch=micro, global_batch=batch)
    check_divides(request, dims, run)
    # What Megatron-like layouts are run with; a stack that was named stays.
    return msgspec.structs.replace(request, parallel=dims, run=run)
