"""The classification head has fewer labels than the data set has classes.

## What it does
Compares `num_labels` of a pretrained classifier with the classes of a well-known data set of the hub that the script loads.

## Why
A label that is no index of the outputs stops the run: on a GPU with a device-side assertion that names neither the label nor the layer.

## Fix
Give `num_labels` the number of classes, or read it from the data: `data["train"].features["label"].num_classes`.

## When to ignore
When the labels are merged before in a way that was not seen.

## References
- Hugging Face hub, the cards of the data sets
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Obj, plain
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="head-for-fewer-labels",
    code="TRN011",
    severity="error",
    confidence="likely",
    layer="C",
    tags=("transformers", "labels"),
)

_SCRIPT = """
from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments
data = load_dataset("glue", "mnli").map(encode, batched=True)
model = AutoModelForSequenceClassification.from_pretrained("roberta-base", num_labels=COUNT)
Trainer(model=model, args=TrainingArguments("out"), train_dataset=data["train"]).train()
"""

BAD = (
    _SCRIPT.replace("COUNT", "2"),
    """
import argparse
import datasets
from transformers import BertForSequenceClassification as Bert, Trainer, TrainingArguments
p = argparse.ArgumentParser()
p.add_argument("--labels", type=int, default=2)
rows = datasets.load_dataset("fancyzhx/ag_news", split="train")
model = Bert.from_pretrained("bert-base-uncased", num_labels=p.parse_args().labels)
Trainer(model, TrainingArguments("out"), train_dataset=rows).train()
""",
    """
import torch
from datasets import load_dataset
from transformers import AutoModelForSequenceClassification
def loaded(name="dair-ai/emotion"):
    return load_dataset(name)["train"]
net = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=5)
opt = torch.optim.AdamW(net.parameters(), lr=2e-5)
for batch in torch.utils.data.DataLoader(loaded(), batch_size=16, shuffle=True):
    net(**batch).loss.backward()
    opt.step()
    opt.zero_grad()
""",
)

GOOD = (
    _SCRIPT.replace("COUNT", "3") + _SCRIPT.replace("COUNT", "1"),
    _SCRIPT.replace("COUNT", "2").replace(".map(encode, batched=True)", ".filter(lambda row: row['label'] != 1)"),
    _SCRIPT.replace("COUNT", "2").replace(
        "data = load_dataset",
        "def encode(row):\n    row['label'] = min(row['label'], 1)\n    return row\ndata = load_dataset",
    ),
    _SCRIPT.replace("COUNT", "2").replace(".map(encode,", ".map(lambda row: dict(label=min(row['label'], 1)),"),
    _SCRIPT.replace("COUNT", "2").replace('"glue", "mnli"', '"mine/emotion"'),
)

# Classes of the column "label".
_CLASSES = {
    "glue/mnli": 3,
    "glue/sst2": 2,
    "glue/cola": 2,
    "glue/mrpc": 2,
    "glue/qqp": 2,
    "glue/qnli": 2,
    "glue/rte": 2,
    "snli": 3,
    "multi_nli": 3,
    "imdb": 2,
    "rotten_tomatoes": 2,
    "yelp_polarity": 2,
    "yelp_review_full": 5,
    "ag_news": 4,
    "dbpedia_14": 14,
    "emotion": 6,
    "banking77": 77,
}
# Who published them: what others call by the same name may have other classes.
_OWNERS = (
    "",
    "nyu-mll",
    "stanfordnlp",
    "cornell-movie-review-data",
    "fancyzhx",
    "Yelp",
    "dair-ai",
    "PolyAI",
)
_CHANGES = (".filter", ".cast_column", ".class_encode_column", ".rename_column", ".align_labels_with_mapping", ".cast")


def check(context: Context) -> Iterator[Finding]:
    """Compare labels with classes."""
    loads = [e for e in context.trace.calls("datasets.load_dataset") if not e.context.shadow]
    names = {_name(event) for event in loads}
    name = names.pop() if len(names) == 1 else None
    classes = _CLASSES.get(name or "")
    if classes is None or context.trace.calls(*_CHANGES) or _relabelled(context):
        return
    for model in context.reading.models:
        labels = plain(model.kwargs.get("num_labels"))
        if not isinstance(model, Obj) or not model.name.endswith("ForSequenceClassification.from_pretrained"):
            continue
        if not isinstance(labels, int) or not 1 < labels < classes:
            continue
        yield context.finding(
            RULE,
            model,
            f"{name} has {classes} classes, but the head has {labels} outputs: a label of {labels} or more stops the run",
            evidence=[
                Evidence("classes of the data set", classes, source="published"),
                Evidence("num_labels", labels),
            ],
            related=[(loads[0], "the data set is loaded here")],
            fix=Fix(
                title="one output for each class",
                instruction=f"pass num_labels={classes}",
                expected="every label is a valid class",
            ),
        )


def _name(event: Event) -> str | None:
    """The data set that is loaded, without its owner, with its configuration where it has several; None for those of others."""
    path, config = plain(event.argument(0, "path")), plain(event.argument(1, "name"))
    if not isinstance(path, str):
        return None
    owner, _, short = path.rpartition("/")
    if owner not in _OWNERS:
        return None
    return f"{short}/{config}" if short == "glue" else short


def _relabelled(context: Context) -> bool:
    """Whether the script writes labels: ``row["label"] = ...``, ``{"label": ...}``, ``dict(label=...)``."""
    for script in context.reading.scripts:
        for store in script.nodes(ast.Assign):
            for target in store.targets:
                key = target.slice if isinstance(target, ast.Subscript) else None
                if isinstance(key, ast.Constant) and key.value in ("label", "labels"):
                    return True
        for call in script.nodes(ast.Call):
            named = isinstance(call.func, ast.Name) and call.func.id == "dict"
            if named and any(k.arg in ("label", "labels") for k in call.keywords):
                return True
        for table in script.nodes(ast.Dict):
            if any(isinstance(k, ast.Constant) and k.value in ("label", "labels") for k in table.keys):
                return True
    return False
