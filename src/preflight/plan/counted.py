"""A micro-batch of a network whose operations and activations were counted: convolutional networks of the catalog."""

from __future__ import annotations

from preflight.cost.machine import Machine
from preflight.cost.recipe import Recipe
from preflight.plan.request import Measured
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import RunSpec

# How often a tensor that autograd keeps passes through memory in a step. A convolution, its batch norm and its relu keep
# two (the outputs of convolution and relu) and move nineteen of their size: forward, the convolution reads and writes one
# each, the norm reads twice (statistics, then the normalisation) and writes, the relu reads and writes; backward, the relu
# reads its output and the gradient and writes, the norm reads input and gradient twice and writes, and the convolution
# reads gradient and writes for its input, and reads gradient and input for its weights.
PASSES = 19 / 2


def counted(model: ModelSpec, run: RunSpec, recipe: Recipe, machine: Machine, gpu: str) -> Measured | None:
    """Return the seconds of a micro-batch, or None where nothing was counted.

    Convolutions at the rate of matrix products, three times the forward pass, and the traffic of what lies between them:
    one after the other, since they are kernels of their own. Both grow with the area of the image.
    """
    if not model.forward_flops or not model.activation_elements or not run.micro_batch:
        return None
    scale = (run.image_size / model.image_size) ** 2 if run.image_size and model.image_size else 1.0
    samples = float(run.micro_batch) * scale
    arithmetic = 3.0 * model.forward_flops * samples / machine.matmul
    traffic = PASSES * model.activation_elements * recipe.matmul * samples / machine.bandwidth
    return Measured(micro_batch=run.micro_batch, compute=arithmetic + traffic, host=0.0, gpu=gpu)
