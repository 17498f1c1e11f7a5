"""DeepSpeed's batch sizes do not multiply.

## What it does
Checks `train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x world size` in a DeepSpeed configuration, fp16 together with bf16, and disagreement with `TrainingArguments`.

## Why
DeepSpeed asserts the product when the engine is made, and `Trainer` refuses values that differ from its own; the job ends after its time in the queue.

## Fix
Leave one of the three out, or write "auto" under the Hugging Face trainer.

## When to ignore
When the world size is one that only the launcher knows; without it only the divisibility is checked.

## References
- DeepSpeed documentation, "DeepSpeed Configuration JSON", batch size parameters
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.check.context import Context, Evidence, Fix, Place
from preflight.check.rule import Example, Rule
from preflight.source.facts.settings import deepspeed_config, trainer_setting, training_arguments
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="deepspeed-batch-mismatch",
    code="CFG017",
    severity="error",
    confidence="certain",
    layer="C",
    tags=("distributed", "configuration"),
)

BAD = (
    Example(
        """
import deepspeed
from torch import nn
config = {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 6, "gradient_accumulation_steps": 2}
engine, optimizer, _, _ = deepspeed.initialize(model=nn.Linear(4, 2), config=config)
"""
    ),
    Example(
        """
import argparse
import deepspeed as ds
import torch
def start(args, net):
    return ds.initialize(args=args, model=net, model_parameters=net.parameters())
p = argparse.ArgumentParser()
p.add_argument("--deepspeed_config", default="ds.json")
engine, *_ = start(p.parse_args(), torch.nn.Linear(4, 2))
""",
        files={
            "ds.json": '{"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1}'
        },
        launch="torchrun --nproc_per_node 4 train.py",
    ),
    Example(
        """
from transformers import Trainer, TrainingArguments as Arguments
args = Arguments("out", per_device_train_batch_size=8, gradient_accumulation_steps=4, deepspeed="ds.json")
trainer = Trainer(model, args)
""",
        files={"ds.json": '{"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": "auto"}'},
    ),
    Example(
        """
import deepspeed
config = dict(train_batch_size=8, fp16={"enabled": True}, bf16={"enabled": True})
engine = deepspeed.initialize(model=model, config_params=config)[0]
"""
    ),
)

GOOD = (
    Example(
        BAD[1].code,
        files={
            "ds.json": '{"train_batch_size": 16, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1}'
        },
        launch="torchrun --nproc_per_node 4 train.py",
    ),
    Example(
        BAD[2].code,
        files={
            "ds.json": '{"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": 4, "train_batch_size": "auto"}'
        },
    ),
    Example(BAD[0].code.replace('per_gpu": 6', 'per_gpu": 8')),
    Example(BAD[3].code.replace('bf16={"enabled": True}', 'bf16={"enabled": False}')),
)

_SAME = {
    "train_micro_batch_size_per_gpu": "per_device_train_batch_size",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "gradient_clipping": "max_grad_norm",
}


def check(context: Context) -> Iterator[Finding]:
    """Find values that DeepSpeed or the trainer will refuse."""
    config = deepspeed_config(context.reading)
    place = _place(context)
    if config is None or place is None:
        return
    yield from _product(context, config, place)
    if all(isinstance(config.get(k), dict) and config[k].get("enabled") is True for k in ("fp16", "bf16")):
        yield _finding(
            context,
            place,
            "the DeepSpeed configuration enables fp16 and bf16 together, which it refuses",
            Evidence("fp16.enabled and bf16.enabled", True),
            "enable one of fp16 and bf16",
        )
    for key, name in _SAME.items() if training_arguments(context.reading) is not None else ():
        theirs, ours = config.get(key), context.value(trainer_setting(context.reading, name))
        if isinstance(theirs, (int, float)) and isinstance(ours, (int, float)) and theirs != ours:
            yield _finding(
                context,
                place,
                f"the DeepSpeed configuration has {key}={theirs} and TrainingArguments {name}={ours}: the trainer refuses to start",
                Evidence(key, theirs, arithmetic=f"{theirs} is not {ours}"),
                f'write "auto" for {key} in the DeepSpeed configuration',
            )


def _product(context: Context, config: dict[str, Any], place: Place) -> Iterator[Finding]:
    total, micro = config.get("train_batch_size"), config.get("train_micro_batch_size_per_gpu")
    accumulation = config.get("gradient_accumulation_steps", 1)
    world = context.fact("world_size")
    if (
        not isinstance(total, int)
        or not isinstance(micro, int)
        or not isinstance(accumulation, int)
        or micro * accumulation <= 0
    ):
        return
    if isinstance(world, int):
        product = micro * accumulation * world
        wrong, shown = product != total, f"{micro} x {accumulation} x {world} = {product}"
    else:
        wrong, shown = (
            total % (micro * accumulation) != 0,
            f"{total} / ({micro} x {accumulation}) is not a whole number of ranks",
        )
    if wrong:
        yield _finding(
            context,
            place,
            f"train_batch_size={total} is not micro batch x accumulation x ranks ({shown}): DeepSpeed refuses to start",
            Evidence("train_batch_size", total, arithmetic=shown),
            "leave train_batch_size out, or make it the product",
        )


def _finding(context: Context, place: Place, message: str, evidence: Evidence, title: str) -> Finding:
    return context.finding(
        RULE,
        place,
        message,
        evidence=[evidence],
        fix=Fix(title=title, instruction="change the DeepSpeed configuration", expected="the engine starts"),
    )


def _place(context: Context) -> Place | None:
    events = context.trace.calls("deepspeed.initialize")
    return events[0] if events else training_arguments(context.reading)
