"""Generated MLPs: what each layer keeps is read from the list of layers."""

from __future__ import annotations

import ast

from preflight.catalog.measured import Row
from preflight.plan.validation.expressed import CannotExpress, Expressed, architecture, number
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec


def express(row: Row) -> Expressed:
    """Return a row in words."""
    arch = architecture(row)
    try:
        layers = ast.literal_eval(arch["layers_list"])
    except (SyntaxError, ValueError):
        raise CannotExpress("list of layers cut off by the source table") from None
    inputs = float(row["model"].split("input:")[1].split("_")[0])
    kept, previous, shared = inputs, inputs, True
    for kind, width, _ in layers:
        if kind == "linear":
            kept += 0.0 if shared else previous  # its input, unless the layer before keeps the same tensor
            shared, previous = False, float(width)
        elif kind in ("ReLU", "Tanh", "Sigmoid", "Softmax"):
            kept, shared = kept + width, True  # these keep their output
        elif kind == "dropout":
            kept, shared = kept + width / 4, False  # a mask of one byte
        else:
            kept, shared = kept + width, False  # batch norm and smooth activations keep their input
    model = ModelSpec(
        family="mlp", parameters=int(row["params"]), layers=len(layers), activation_elements=kept, classes=None
    )
    run = RunSpec(micro_batch=number(row, "micro_batch"), precision="fp32", optimizer="adam")
    return Expressed(model=model, run=run, parallel=ParallelDims())
