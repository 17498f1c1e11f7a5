"""A trainer evaluates on the data that it trains on.

## What it does
Looks for a trainer of transformers or trl whose `train_dataset` and `eval_dataset` are one data set, or the same split of one.

## Why
A network can learn its training data by heart.
The metrics, the best checkpoint and early stopping then rest on data that were trained on, and say nothing of new data.

## Fix
Give `eval_dataset` the held-out split.

## When to ignore
When it is to be seen whether a network can learn a few samples at all.

## References
- Hugging Face documentation, transformers.Trainer: train_dataset, eval_dataset
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.values import Obj, Value, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="trainer-evaluates-on-training-data",
    code="TRN010",
    severity="warning",
    confidence="likely",
    layer="C",
    tags=("transformers", "data"),
)

_SCRIPT = """
from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments
data = load_dataset("glue", "mnli").map(encode, batched=True)
model = AutoModelForSequenceClassification.from_pretrained("roberta-base", num_labels=3)
"""

BAD = (
    _SCRIPT
    + """
trainer = Trainer(model=model, args=TrainingArguments("out"), train_dataset=data["validation_matched"],
                  eval_dataset=data["validation_matched"], compute_metrics=scores)
trainer.train()
""",
    _SCRIPT
    + """
def main(split="train"):
    rows = data[split].select(range(1000))
    Trainer(model, TrainingArguments("out"), collate, rows, rows).train()
main()
""",
    """
import argparse
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer as Tuner
p = argparse.ArgumentParser()
p.add_argument("--split", default="train")
rows = load_dataset("stanfordnlp/imdb", split=p.parse_args().split)
Tuner("gpt2", args=SFTConfig("out"), train_dataset=rows, eval_dataset=rows).train()
""",
)

GOOD = (
    _SCRIPT
    + """
Trainer(model, TrainingArguments("out"), collate, data["train"], data["validation_matched"]).train()
Trainer(model=model, args=TrainingArguments("out"), train_dataset=data["train"], eval_dataset=None).train()
""",
    _SCRIPT
    + """
parts = data["train"].train_test_split(test_size=0.1)
Trainer(model=model, args=TrainingArguments("out"), train_dataset=parts["train"], eval_dataset=parts["test"]).train()
first, second = pair()
Trainer(model=model, args=TrainingArguments("out"), train_dataset=first, eval_dataset=second).train()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare what trainers are given for training and for evaluation."""
    for trainer in context.reading.made("trainer"):
        train, held_out = trainer.argument(3, "train_dataset"), trainer.argument(4, "eval_dataset")
        if train is None or held_out is None or not _same(settle(train), settle(held_out)):
            continue
        yield context.finding(
            RULE,
            trainer,
            "the trainer evaluates on the data that it trains on: its metrics say nothing of new data",
            evidence=[Evidence("train_dataset and eval_dataset", "the same")],
            fix=Fix(
                title="evaluate on data that were not trained on",
                instruction="give eval_dataset the held-out split",
                expected="the metrics tell how the network does on new data",
            ),
        )


def _same(one: Value, other: Value) -> bool:
    """Whether two values are one data set, or one split of it."""
    if not isinstance(one, Obj) or not isinstance(other, Obj):
        return False
    if one is other:
        return True
    if one.kind != "item" or other.kind != "item" or one.receiver is None or other.receiver is None:
        return False
    key = plain(one.args[0]) if one.args else None
    named = isinstance(key, str) and bool(other.args) and plain(other.args[0]) == key
    return named and settle(one.receiver) is settle(other.receiver)
