"""Seconds of one micro-batch of a network that is spread over data alone: written down, or counted once."""

from __future__ import annotations

from preflight.cost.attention_time import FLASH_BACKWARD
from preflight.cost.kernels import flash_seconds, matmul_seconds, traffic_seconds
from preflight.cost.machine import Machine
from preflight.cost.networks.operation import Product
from preflight.cost.networks.trace import Work, trace_of
from preflight.cost.numeric import ceiling, floor, larger, smaller
from preflight.cost.recipe import Recipe
from preflight.cost.saved import partly_recomputed
from preflight.cost.stage_time import StageTime
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import RunSpec

# An operator of the host has about one view beside it, and most have two gradients, but no Python around them.
_VIEWS, _BEHIND = 2.0, 1.3
# Sums shorter than this are not split.
_SHORTEST = 512.0
# How often a tensor that autograd keeps passes through memory in a step of a convolutional network. A convolution, its
# batch norm and its relu keep two (the outputs of convolution and relu) and move nineteen of their size: forward, the
# convolution reads and writes one each, the norm reads twice (statistics, then the normalisation) and writes, the relu
# reads and writes; backward, the relu reads its output and the gradient and writes, the norm reads input and gradient
# twice and writes, and the convolution reads gradient and writes for its input, and reads gradient and input for its
# weights.
_PASSES = 19 / 2
# Of them seven of the forward pass, and of three times its arithmetic one.
_FORWARD_PASSES = 7 / 19


def network_time(model: ModelSpec, run: RunSpec, recipe: Recipe, machine: Machine) -> StageTime | None:
    """Return the seconds of one micro-batch, or None where neither a form nor a count of the network is known."""
    if run.micro_batch is None:
        return None
    wide = 4.0 if recipe.cast else recipe.matmul
    found = trace_of(model, run, recipe.matmul, wide)
    if found is None:
        return _counted(model, run, recipe, machine) if run.recompute == "none" else None
    if partly_recomputed(model, run):
        return None
    batch, width = run.samples, recipe.matmul
    ahead, behind = (
        _seconds(machine, found.whole, batch, width, back, run.finetune == "full") for back in (False, True)
    )
    operators = _VIEWS * found.whole.calls * (1 + _BEHIND)
    if run.recompute != "none":
        behind = behind + _seconds(machine, found.blocks, batch, width, False, True)
        operators = operators + _VIEWS * found.blocks.calls
    return StageTime(forward=ahead, backward=behind, exposed=0.0, operators=operators)


def _seconds(machine: Machine, work: Work, batch: float, width: float, back: bool, trained: bool) -> float:
    """Return the kernels of a forward or a backward pass."""
    total = traffic_seconds(
        machine, (work.behind if back else work.ahead) * batch, work.kernels_behind if back else work.kernels
    )
    for product, times in work.products:
        total = total + times * _product(machine, product, batch, width, back, trained)
    for one, times in work.attentions:
        flop = 4.0 * one.heads * one.dim * one.queries * one.keys * batch
        seconds = flash_seconds(machine, flop, one.heads * one.queries * batch, one.keys)
        total = total + times * seconds * (FLASH_BACKWARD if back else 1.0)
    return total


def _product(machine: Machine, one: Product, batch: float, width: float, back: bool, trained: bool) -> float:
    """Return a product, or those of its gradients: of the input, where one flows there, and of the weights.

    A convolution gathers its rows from an input that is read once, not from one written out side^2 times.
    """
    rows = one.rows * batch
    moved = one.gathered * batch + one.inner * one.columns + rows * one.columns
    if not back:
        return matmul_seconds(machine, rows, one.columns, one.inner, width, moved)
    seconds = _weights(machine, one, rows, width, moved) if trained else 0.0
    if one.graded:
        seconds = seconds + matmul_seconds(machine, rows, one.inner, one.columns, width, moved)
    return seconds


def _weights(machine: Machine, one: Product, rows: float, width: float, moved: float) -> float:
    """Return the gradient of weights: few tiles of long sums, which are split over the multiprocessors that are left."""
    tiles = ceiling(one.inner / 128) * ceiling(one.columns / 128)
    split = larger(smaller(floor(machine.sms / tiles), floor(rows / _SHORTEST)), 1.0)
    partial = 2 * (split - 1) * one.inner * one.columns * 4 / width  # fp32 sums, written and read
    return matmul_seconds(machine, one.inner * split, one.columns, rows / split, width, moved + partial)


def _counted(model: ModelSpec, run: RunSpec, recipe: Recipe, machine: Machine) -> StageTime | None:
    """Return the time of counted operations: at the rate of matrix products, and the traffic of what lies between them.

    One after the other, since they are kernels of their own. Both grow with the area of the image. The host's launches
    were not counted.
    """
    if not model.forward_flops or not model.activation_elements:
        return None
    scale = (run.image_size / model.image_size) ** 2 if run.image_size and model.image_size else 1.0
    samples = scale * run.samples
    arithmetic = model.forward_flops * samples / machine.matmul
    traffic = _PASSES * model.activation_elements * recipe.matmul * samples / machine.bandwidth
    ahead, behind = _FORWARD_PASSES * traffic, (1 - _FORWARD_PASSES) * traffic
    return StageTime(forward=arithmetic + ahead, backward=2 * arithmetic + behind, exposed=0.0, operators=0.0)
