"""Streamed data without a number of steps.

## What it does
Looks for a Hugging Face trainer over a streamed data set (`load_dataset(..., streaming=True)`) whose arguments give no `max_steps`, or group by length.

## Why
A stream has no length, so the trainer cannot turn epochs into steps and raises ValueError before the first one.
Grouping by length needs the whole data set and is refused as well.

## Fix
Give `max_steps`.

## When to ignore
Never: training cannot start with these values.

## References
- Hugging Face documentation, datasets, "Stream"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.trainer_settings import argument_objects, known, trainers_of
from preflight.check.rule import Rule
from preflight.source.trace import provenance
from preflight.source.values import Obj, Value
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="streaming-without-max-steps",
    code="TRN006",
    severity="error",
    confidence="likely",
    layer="C",
    tags=("transformers", "data"),
)

BAD = (
    """
from datasets import load_dataset
from transformers import Trainer, TrainingArguments
data = load_dataset("c4", "en", split="train", streaming=True)
trainer = Trainer(model, TrainingArguments("out", num_train_epochs=1), train_dataset=data)
""",
    """
import datasets
import transformers as hf
def stream(name):
    return datasets.load_dataset(name, split="train", streaming=True).map(encode)
args = hf.TrainingArguments("out", max_steps=100, group_by_length=True)
trainer = hf.Trainer(model=model, args=args, train_dataset=stream("c4"))
""",
    """
import argparse
from datasets import load_dataset as load
from transformers import Trainer, TrainingArguments as Arguments
p = argparse.ArgumentParser()
p.add_argument("--stream", type=int, default=True)
p.add_argument("--steps", type=int, default=-1)
o = p.parse_args()
data = load("c4", streaming=o.stream)["train"]
args = Arguments("out", max_steps=o.steps)
trainer = Trainer(model, args, train_dataset=data)
""",
)

GOOD = (
    """
from datasets import load_dataset
from transformers import Trainer, TrainingArguments
data = load_dataset("c4", "en", split="train", streaming=True)
trainer = Trainer(model, TrainingArguments("out", max_steps=1000), train_dataset=data)
other = Trainer(model, TrainingArguments("out"), train_dataset=load_dataset("c4", split="train"))
""",
    """
from datasets import load_dataset, Dataset
from transformers import Trainer, TrainingArguments
rows = list(load_dataset("c4", split="train", streaming=True).take(1000))
data = Dataset.from_list(rows)
trainer = Trainer(model, TrainingArguments("out"), train_dataset=data)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find streams that are trained on by epochs."""
    for made in argument_objects(context):
        steps = known(context, made, -1, "max_steps")
        grouped = known(context, made, False, "group_by_length") in (True, 1)
        if not isinstance(steps, int) or (steps > 0 and not grouped):
            continue
        for trainer in trainers_of(context, made):
            source = _stream(context, trainer.argument(3, "train_dataset"))
            if source is None or trainer.cls is not None:
                continue
            what = "group_by_length needs the whole data set" if steps > 0 else "max_steps is not given"
            yield context.finding(
                RULE,
                made,
                f"the training data is a stream without a length, and {what}: the trainer raises ValueError",
                evidence=[
                    Evidence("streaming", True),
                    Evidence("max_steps", steps),
                    Evidence("group_by_length", grouped),
                ],
                fix=Fix(
                    title="give max_steps",
                    instruction="set max_steps, and leave group_by_length off",
                    expected="training starts",
                ),
                related=[(source, "the stream")],
            )


def _stream(context: Context, dataset: Value | None) -> Obj | None:
    for part in provenance(dataset, 60):
        if (
            isinstance(part, Obj)
            and part.kind == "call"
            and (part.name.startswith("builtins.") or ".from_" in part.name)
        ):
            return None  # read into memory
        if (
            isinstance(part, Obj)
            and part.name == "datasets.load_dataset"
            and context.value(part.kwargs.get("streaming")) in (True, 1)
        ):
            return part
    return None
