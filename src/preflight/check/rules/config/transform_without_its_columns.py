"""Columns that a transform reads are removed by the trainer.

## What it does
Looks for a data set with `set_transform` or `with_transform` that is given to a Hugging Face trainer without `remove_unused_columns=False`.

## Why
The trainer drops every column that the model's `forward` does not name, before the transform runs.
The transform then fails with KeyError on `image` or `text`, or gets nothing to work on.

## Fix
Set `remove_unused_columns=False`.

## When to ignore
When the transform reads only columns that `forward` names.

## References
- Hugging Face documentation, transformers.TrainingArguments, remove_unused_columns
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.trainer_settings import argument_objects, known, trainers_of
from preflight.check.rule import Rule
from preflight.source.trace import provenance
from preflight.source.values import Obj, Value, options_of
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="transform-without-its-columns",
    code="TRN005",
    severity="warning",
    confidence="likely",
    layer="D",
    tags=("transformers", "data"),
)

BAD = (
    """
from datasets import load_dataset
from transformers import Trainer, TrainingArguments
data = load_dataset("cifar10")["train"]
data.set_transform(transform)
trainer = Trainer(model, TrainingArguments("out"), train_dataset=data)
""",
    """
import datasets
import transformers as hf
def prepare():
    return datasets.load_dataset("food101", split="train").with_transform(lambda batch: batch)
args = hf.TrainingArguments("out", remove_unused_columns=True)
trainer = hf.Trainer(model=model, args=args, train_dataset=prepare())
""",
    """
import argparse
from datasets import load_from_disk as load
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments
class Run:
    def __init__(self, path):
        self.data = load(path)
        self.data.set_transform(self.encode)
        self.args = Seq2SeqTrainingArguments("out", per_device_train_batch_size=4)
        self.trainer = Seq2SeqTrainer(model, self.args, train_dataset=self.data)
    def encode(self, batch):
        return batch
p = argparse.ArgumentParser()
p.add_argument("--data", default="data")
Run(p.parse_args().data)
""",
)

GOOD = (
    """
from datasets import load_dataset
from transformers import Trainer, TrainingArguments
data = load_dataset("cifar10")["train"]
data.set_transform(transform)
trainer = Trainer(model, TrainingArguments("out", remove_unused_columns=False), train_dataset=data)
""",
    """
from datasets import load_dataset
from transformers import Trainer, TrainingArguments
data = load_dataset("cifar10")["train"].map(transform)
other = load_dataset("cifar10")["test"]
other.set_transform(transform)
trainer = Trainer(model, TrainingArguments("out"), train_dataset=data)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find transformed data sets whose columns are dropped."""
    if not context.trace.calls(".set_transform", ".with_transform"):
        return
    for made in argument_objects(context):
        if known(context, made, True, "remove_unused_columns") is not True:
            continue
        for trainer in trainers_of(context, made):
            for position, name in ((3, "train_dataset"), (4, "eval_dataset")):
                transform = _transformed(context, trainer.argument(position, name))
                if transform is None or trainer.cls is not None:
                    continue
                node = made.site.node if made.site is not None else None
                written = any(k.arg == "remove_unused_columns" for k in getattr(node, "keywords", []))
                edit = None if written else context.add_argument(made, "remove_unused_columns=False")
                yield context.finding(
                    RULE,
                    made,
                    f"{name} has a transform, but the trainer removes the columns that forward() does not name before it runs",
                    evidence=[Evidence("remove_unused_columns", True), Evidence("data set with a transform", name)],
                    fix=Fix(
                        title="keep the columns",
                        edits=edits(edit) if edit is not None else (),
                        instruction="set remove_unused_columns=False",
                        expected="the transform finds its columns",
                    ),
                    related=[(transform, "the transform")],
                )
                break


def _transformed(context: Context, dataset: Value | None) -> Value | None:
    for part in provenance(dataset, 30):
        if isinstance(part, Obj) and part.name == ".with_transform":
            return part
    mine = {id(o) for o in options_of(dataset)}
    for event in context.trace.calls(".set_transform"):
        if any(id(o) in mine for o in options_of(event.receiver)):
            return event.result
    return None
