"""One rank's bytes, gathered from every formula, and the moments of a step."""

from __future__ import annotations

import msgspec

from preflight.cost.logits import LossBytes, loss_bytes
from preflight.cost.numeric import floor, larger, smaller, where
from preflight.cost.optimizers import OptimizerState, optimizer_state
from preflight.cost.parameters import ParameterCount, count_parameters
from preflight.cost.recipe import Recipe, recipe_of
from preflight.cost.saved import Activations, activations_of
from preflight.cost.shares import Share, share_of
from preflight.cost.states import States, states_of
from preflight.cost.workspace import workspaces
from preflight.vocabulary.hardware import Gpu
from preflight.vocabulary.memory import MemoryBreakdown, Phase
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """What is allocated at the worst moment of a phase (without fragmentation and context)."""

    step: int
    phase: Phase
    parts: MemoryBreakdown


class Forward(msgspec.Struct, frozen=True, kw_only=True):
    """What a forward pass makes: what its layers save, its logits and loss, the casts of its matrices."""

    activations: Activations
    loss: LossBytes
    casts: float


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's bytes from every formula; ``evaluated`` is the forward pass of an evaluation where it is another."""

    share: Share
    recipe: Recipe
    states: States
    activations: Activations
    loss: LossBytes
    casts: float
    workspace: float
    evaluated: Forward | None = None
    accumulated: bool
    micro_batches: float
    captured: bool = False


def ledger_of(
    model: ModelSpec,
    run: RunSpec,
    parallel: ParallelDims,
    gpu: Gpu | None,
    count: ParameterCount,
    optimizer: OptimizerState,
    stage: float,
) -> Ledger:
    """Gather the bytes of the rank of a pipeline stage."""
    recipe = recipe_of(run, parallel)
    share = share_of(model, run, count, parallel, stage)
    micro_batches = micro_batches_of(run, parallel)
    forward, evaluated = _forward(model, run, parallel, share, micro_batches), None
    whole = run.evaluation_without_no_grad and not run.evaluation_recomputes and run.recompute != "none"
    if whole or run.evaluation_precision not in (None, run.precision):
        other = msgspec.structs.replace(run, precision=run.evaluation_precision or run.precision)
        other = msgspec.structs.replace(other, recompute="none") if whole else other
        evaluated = _forward(model, other, parallel, share, micro_batches)
    return Ledger(
        share=share,
        recipe=recipe,
        states=states_of(model, run, parallel, share, recipe, optimizer),
        activations=forward.activations,
        loss=forward.loss,
        casts=forward.casts,
        evaluated=evaluated,
        workspace=workspaces(gpu, run, model.experts),
        # In a pipeline as many micro-batches are in flight again once the first ones have left their gradients.
        accumulated=micro_batches > parallel.pp,
        micro_batches=micro_batches,
        captured=run.cuda_graphs,
    )


def _forward(model: ModelSpec, run: RunSpec, parallel: ParallelDims, share: Share, micro_batches: float) -> Forward:
    """Return what a forward pass in the run's precision makes."""
    recipe = recipe_of(run, parallel)
    activations = activations_of(model, run, parallel, share, recipe, micro_batches)
    if run.activation_factor != 1.0:
        activations = activations.scaled(run.activation_factor)
    if run.finetune == "frozen":
        activations = msgspec.structs.replace(activations, saved=0.0, rebuilt=0.0, working=activations.inference)
    loss = LossBytes()
    if share.last is not False:
        loss = loss_bytes(model, run, parallel, recipe, activations.tokens)
        loss = loss if share.last is True else loss.scaled(where(share.last, 1.0, 0.0))
    # Quantised matrices are unpacked in the type of the product, each time anew: autocast has the adapters to cast.
    # Autocast keeps copies only of what gets a gradient: the matrices of a frozen part are cast anew each time.
    cast = share.matrices
    if run.frozen_blocks is not None:
        cast = smaller(cast, share.trainable)
    casts = recipe.cast * (share.trainable if run.finetune == "qlora" else cast)
    return Forward(activations=activations, loss=loss, casts=casts)


def ledger_if_known(
    model: ModelSpec, run: RunSpec, parallel: ParallelDims, gpu: Gpu | None, stage: float
) -> Ledger | None:
    """Gather the bytes of the rank of a pipeline stage; None where the parameters or the optimizer's states are not known."""
    count, optimizer = count_parameters(model), optimizer_state(run.optimizer or "", run.optimizer_momentum)
    if count is None or optimizer is None:
        return None
    return ledger_of(model, run, parallel, gpu, count, optimizer, stage)


def micro_batches_of(run: RunSpec, parallel: ParallelDims) -> float:
    """Return the micro-batches of an optimizer step on one rank."""
    if run.global_batch is not None and run.micro_batch is not None:
        ranks = parallel.dp_replicate * parallel.dp_shard
        return larger(run.gradient_accumulation, floor(run.global_batch / larger(run.micro_batch * ranks, 1)), 1)
    return larger(run.gradient_accumulation, 1)


def _moment(ledger: Ledger, step: int, phase: Phase, **parts: float) -> Moment:
    """Return a moment with what is always there, and ``parts`` beside it."""
    states = ledger.states
    always = {
        "model_parameters": states.parameters,
        "optimizer_states": states.optimizer if step > 0 else states.optimizer_at_start,
        "gradients": states.gradients if states.gradients_persist else 0.0,
        "communication_buffers": states.buffers + (ledger.activations.passed if phase != "init" else 0.0),
        "workspace": ledger.workspace if phase != "init" else 0.0,
    }
    for name, value in parts.items():
        if name in ("gradients", "optimizer_states"):
            always[name] = larger(always[name], value)
        else:
            always[name] = always.get(name, 0.0) + value
    return Moment(step=step, phase=phase, parts=MemoryBreakdown(**always))


def step_moments(ledger: Ledger, step: int) -> list[Moment]:
    """Return the moments of one step at one of which its peak lies: forward, three of backward, optimizer.

    Memory is piecewise linear over the backward pass (activations go as gradients come), so its maximum is at one
    of three ends: the loss's gradient, the last block's, the first block's.
    """
    states, acts, loss = ledger.states, ledger.activations, ledger.loss
    before = where(ledger.accumulated, states.gradients_summed, 0.0)
    kept = acts.saved + ledger.casts
    head = ledger.recipe.gradient * ledger.share.head
    ends = [
        _moment(
            ledger,
            step,
            "backward",
            activations=kept,
            logits_and_loss=loss.backward,
            gradients=before,
            communication_buffers=states.gathered_forward,
        ),
        _moment(
            ledger,
            step,
            "backward",
            activations=kept + acts.rebuilt + acts.working,
            logits_and_loss=loss.held,
            gradients=larger(before, smaller(head, states.gradients_summed)),
            communication_buffers=states.gathered_backward,
        ),
        _moment(
            ledger,
            step,
            "backward",
            activations=acts.rebuilt + acts.working,
            logits_and_loss=loss.held,
            gradients=states.gradients_summed,
            communication_buffers=states.gathered_backward,
        ),
    ]
    if acts.points:
        ends = [_played(ledger, step, alive, share, before) for alive, share in acts.points]
    forward = _moment(
        ledger,
        step,
        "forward",
        # A block's own tensors are gone by the time the logits are there.
        activations=larger(kept, acts.inference - loss.forward) + (acts.lingering if step > 0 else 0.0),
        logits_and_loss=loss.forward,
        gradients=before,
        communication_buffers=states.gathered_forward,
    )
    optimizer = _moment(
        ledger,
        step,
        "optimizer",
        # The pool of a CUDA graph is its own from its capture on: what ran in it leaves room for nothing else.
        activations=kept + acts.rebuilt + acts.working if ledger.captured else acts.lingering,
        logits_and_loss=loss.backward if ledger.captured else loss.held,
        gradients=states.gradients,
        optimizer_states=states.optimizer,
        workspace=states.temporaries,
    )
    return [forward, *ends, optimizer]


def _played(ledger: Ledger, step: int, alive: float, share: float, before: float) -> Moment:
    """Return a moment of a backward pass that was played through: what lives, the gradients there, the casts still kept."""
    states = ledger.states
    return _moment(
        ledger,
        step,
        "backward",
        activations=alive + ledger.casts * (1 - share),
        logits_and_loss=ledger.loss.held,
        gradients=larger(before, share * states.gradients_summed),
        communication_buffers=states.gathered_backward,
    )


def training_moments(ledger: Ledger, step: int) -> list[Moment]:
    """Return the worst moments of forward, backward and optimizer of one step."""
    forward, *ends, optimizer = step_moments(ledger, step)
    return [forward, max(ends, key=lambda moment: moment.parts.total), optimizer]


def evaluation_moment(ledger: Ledger, run: RunSpec, step: int) -> Moment | None:
    """Return the moment of an evaluation, whose batch and precision may differ; with a graph when gradients are not switched off."""
    if not run.evaluation_micro_batch or not run.micro_batch:
        return None
    ratio = run.evaluation_micro_batch / run.micro_batch
    same = Forward(activations=ledger.activations, loss=ledger.loss, casts=ledger.casts)
    forward = ledger.evaluated or same
    acts, loss = forward.activations, forward.loss
    kept = acts.inference - acts.unpacked
    if run.evaluation_without_no_grad:
        kept = 2 * acts.saved if run.evaluation_keeps_last else acts.saved
    trained = same.activations
    pool = trained.saved + trained.rebuilt + trained.working if ledger.captured else 0.0
    return _moment(
        ledger,
        step,
        "eval",
        activations=kept * ratio + forward.casts + acts.unpacked + pool,
        logits_and_loss=(loss.forward - loss.unpacked) * ratio + loss.unpacked,
        gradients=ledger.states.gradients,
        communication_buffers=ledger.states.gathered_forward,
    )


def moments_of(ledger: Ledger, run: RunSpec) -> list[Moment]:
    """Return the moments of a run in order: start, first step, a later step, evaluation, the end of a growth."""
    moments = [_moment(ledger, 0, "init")]
    moments += training_moments(ledger, 0) + training_moments(ledger, 1)
    evaluation = evaluation_moment(ledger, run, 1)
    if evaluation is not None:
        moments.append(evaluation)
    if run.kept_bytes_per_step > 0 and run.steps and run.steps > 2:
        worst = max(moments, key=lambda moment: moment.parts.total).parts
        grown = run.kept_bytes_per_step * (run.steps - 1)
        parts = msgspec.structs.replace(worst, activations=worst.activations + grown)
        moments.append(Moment(step=run.steps - 1, phase="growth", parts=parts))
    return moments
