"""Padding is part of the labels.

## What it does
Looks for labels that are the ids of a tokenizer which pads, put under the key `labels` for a model of transformers, in a script that masks nothing with -100.

## Why
The models of transformers leave out labels of -100 alone.
Padding that stays in the labels is learnt like text: it is most of a batch of short answers, its loss falls fast and hides that of the words.

## Fix
Set it to -100: `labels[labels == tokenizer.pad_token_id] = -100`, or let `DataCollatorForSeq2Seq` pad the labels.

## When to ignore
When the loss is computed elsewhere, with the padding left out.

## References
- Hugging Face transformers, T5: "labels set to -100 are ignored"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.script import Script
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="padding-in-labels",
    code="LOS015",
    severity="warning",
    confidence="likely",
    layer="S",
    tags=("transformers", "labels"),
)

_SCRIPT = """
import torch
from transformers import AutoTokenizer, T5ForConditionalGeneration
tokenizer = AutoTokenizer.from_pretrained("t5-base")
model = T5ForConditionalGeneration.from_pretrained("t5-base")
def collate(rows):
    source = tokenizer([r["a"] for r in rows], padding=True, truncation=True, return_tensors="pt")
    target = tokenizer([r["b"] for r in rows], padding="max_length", truncation=True, max_length=64, return_tensors="pt")
    LABELS
    return {"input_ids": source.input_ids, "attention_mask": source.attention_mask, "labels": labels}
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for batch in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, collate_fn=collate):
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""

BAD = (
    _SCRIPT.replace("LABELS", "labels = target.input_ids"),
    """
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, Trainer, TrainingArguments
tok = AutoTokenizer.from_pretrained("t5-small")
def preprocess(batch):
    inputs = tok(batch["document"], max_length=512, truncation=True, padding="max_length")
    answers = tok(text_target=batch["summary"], max_length=128, truncation=True, padding="max_length")
    inputs["labels"] = answers["input_ids"]
    return inputs
Trainer(AutoModelForSeq2SeqLM.from_pretrained("t5-small"), TrainingArguments("out"), train_dataset=data.map(preprocess)).train()
""",
    """
from torch.utils.data import Dataset
from transformers import BartForConditionalGeneration, BartTokenizer
class Pairs(Dataset):
    def __init__(self, rows, tokenizer):
        self.rows, self.tokenizer = rows, tokenizer
    def __getitem__(self, i):
        text = self.tokenizer(self.rows[i][0], padding="max_length", return_tensors="pt")
        answer = self.tokenizer(self.rows[i][1], padding="max_length", return_tensors="pt")
        return dict(input_ids=text["input_ids"][0], labels=answer["input_ids"].squeeze(0))
data = Pairs(rows, BartTokenizer.from_pretrained("facebook/bart-base"))
model = BartForConditionalGeneration.from_pretrained("facebook/bart-base")
for batch in loader(data):
    model(**batch).loss.backward()
""",
)

GOOD = (
    _SCRIPT.replace(
        "LABELS", "labels = target.input_ids.masked_fill(target.input_ids == tokenizer.pad_token_id, -100)"
    ),
    _SCRIPT.replace("LABELS", "labels = target.input_ids\n    labels[target.attention_mask == 0] = IGNORED").replace(
        "import torch\n", "import torch\nIGNORED = -100\n"
    ),
    _SCRIPT.replace(
        "LABELS", "labels = target.input_ids\n    labels[labels == tokenizer.pad_token_id] = IGNORE_INDEX"
    ).replace("import torch\n", "import torch\nfrom constants import IGNORE_INDEX\n"),
    _SCRIPT.replace(
        "LABELS", "labels = target.input_ids\n    labels[labels == tokenizer.pad_token_id] = settings.left_out"
    ).replace("import torch\n", "import torch\nimport settings\n"),
    """
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, DataCollatorForSeq2Seq, Seq2SeqTrainer, TrainingArguments
tok = AutoTokenizer.from_pretrained("t5-small")
def preprocess(batch):
    inputs = tok(batch["document"], max_length=512, truncation=True)
    inputs["labels"] = tok(text_target=batch["summary"], max_length=128, truncation=True)["input_ids"]
    inputs["classes"] = tok(batch["kind"], padding="max_length")["input_ids"]
    return inputs
def classify(batch):
    return {"input_ids": tok(batch["text"], padding="max_length")["input_ids"], "labels": batch["label"]}
""",
)

_PADS = (True, "max_length", "longest")
_KEEPS = ("squeeze", "clone", "long", "to", "flatten", "view", "contiguous", "detach", "cuda")


def check(context: Context) -> Iterator[Finding]:
    """Look for labels of a tokenizer that pads."""
    if "transformers" not in context.reading.imports:
        return
    if any(_leaves_out(script) for script in context.reading.scripts):
        return
    for script in context.reading.scripts:
        for function in (*script.nodes(ast.FunctionDef), *script.nodes(ast.AsyncFunctionDef)):
            made = _assigned(function)
            for value in _labels(function):
                call = _tokenized(value, made)
                if call is None:
                    continue
                yield context.finding(
                    RULE,
                    (script, value),
                    "the labels are ids that the tokenizer pads, and nothing sets padding to -100: the model learns to write padding",
                    evidence=[
                        Evidence("padding", next(ast.unparse(k.value) for k in call.keywords if k.arg == "padding"))
                    ],
                    related=[((script, call), "it is padded here")],
                    fix=Fix(
                        title="leave the padding out of the loss",
                        instruction="labels[labels == tokenizer.pad_token_id] = -100",
                        expected="the loss is that of the words",
                    ),
                )


def _leaves_out(script: Script) -> bool:
    """Whether a module writes -100, or has a loss or a collator of its own that may leave padding out."""
    if any(isinstance(n.op, ast.USub) and getattr(n.operand, "value", None) == 100 for n in script.nodes(ast.UnaryOp)):
        return True
    names = [n.id for n in script.nodes(ast.Name)] + [n.attr for n in script.nodes(ast.Attribute)]
    if any(
        name in ("CrossEntropyLoss", "cross_entropy", "NLLLoss", "nll_loss")
        or name.startswith("DataCollatorFor")
        or "ignore" in name.lower()
        for name in names
    ):
        return True
    return any(k.arg == "ignore_index" for k in script.nodes(ast.keyword)) or any(
        _masks(store) for store in script.nodes(ast.Assign)
    )


def _masks(store: ast.Assign) -> bool:
    """Whether places that compare in some way get a value that only has a name: it may be -100."""
    target = store.targets[0]
    return (
        isinstance(target, ast.Subscript)
        and any(isinstance(part, ast.Compare) for part in ast.walk(target.slice))
        and isinstance(store.value, (ast.Name, ast.Attribute))
    )


def _assigned(function: ast.AST) -> dict[str, ast.expr]:
    """What the names of a function are given, those that are given something once."""
    found: dict[str, ast.expr] = {}
    twice: set[str] = set()
    for node in ast.walk(function):
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        if not isinstance(node, ast.Assign) or not isinstance(target, ast.Name):
            continue
        if target.id in found:
            twice.add(target.id)
        found[target.id] = node.value
    return {name: value for name, value in found.items() if name not in twice}


def _labels(function: ast.AST) -> Iterator[ast.expr]:
    """What is put under the key ``labels``."""
    for node in ast.walk(function):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "labels":
                    yield value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
            yield from (k.value for k in node.keywords if k.arg == "labels")
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            key = node.targets[0].slice
            if isinstance(key, ast.Constant) and key.value == "labels":
                yield node.value


def _tokenized(value: ast.expr, made: dict[str, ast.expr]) -> ast.Call | None:
    """The call of a tokenizer with padding whose ids a value is."""
    ids = False
    for _ in range(10):
        if isinstance(value, ast.Name) and value.id in made:
            value = made[value.id]
        elif isinstance(value, ast.Attribute):
            ids = ids or value.attr == "input_ids"
            value = value.value
        elif isinstance(value, ast.Subscript):
            ids = ids or (isinstance(value.slice, ast.Constant) and value.slice.value == "input_ids")
            value = value.value
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _KEEPS:
            value = value.func.value
        else:
            break
    if not ids or not isinstance(value, ast.Call):
        return None
    padding = next((k.value for k in value.keywords if k.arg == "padding"), None)
    return value if isinstance(padding, ast.Constant) and padding.value in _PADS else None
