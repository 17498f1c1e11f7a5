"""The loss of a transformers model is used, but the model is given no labels.

## What it does
Looks for `.loss` of a model of transformers that is called without `labels`, on the way to `backward()`.

## Why
The model computes a loss only where it is given labels; without them `outputs.loss` is None.
The first step ends in `AttributeError: 'NoneType' object has no attribute 'backward'`.

## Fix
Give the labels: `model(input_ids=ids, labels=ids)` for a causal language model, which shifts them itself.

## When to ignore
When the class of the model is your own and computes its loss without labels.

## References
- Hugging Face documentation, transformers.modeling_outputs: `loss` is returned when `labels` is provided
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.backward_graph import graph
from preflight.check.queries.trainer_settings import loaded_model
from preflight.check.rule import Rule
from preflight.source.evaluate.library.torch import wrapped
from preflight.source.training import loss_of
from preflight.source.values import Obj, Value, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="loss-without-labels",
    code="LOS016",
    severity="error",
    confidence="certain",
    needs=("training_loop",),
    layer="D",
    tags=("loss", "transformers"),
)

BAD = (
    """
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("gpt2")
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in loader:
    optimizer.zero_grad()
    outputs = model(input_ids=batch["input_ids"].cuda())
    loss = outputs.loss
    loss.backward()
    optimizer.step()
""",
    """
import transformers as hf
from accelerate import Accelerator
from torch import nn, optim
def train(batches, steps=4):
    acc = Accelerator()
    net = hf.BertForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=3)
    net.train()
    opt = optim.AdamW(net.parameters(), lr=2e-5)
    net, opt, batches = acc.prepare(net, opt, batches)
    for x in batches:
        acc.backward(net(x["ids"], attention_mask=x["mask"]).loss / steps)
        opt.step()
        opt.zero_grad()
train(loader)
""",
    """
import torch
from transformers import GPT2Config, GPT2LMHeadModel
class Trainer:
    def __init__(self):
        self.model = torch.nn.DataParallel(GPT2LMHeadModel(GPT2Config(n_layer=2)))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def step(self, ids, mask):
        out = self.model(ids, attention_mask=mask)
        out.loss.mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
trainer = Trainer()
for ids, mask in loader:
    trainer.step(ids, mask)
""",
)

GOOD = (
    """
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("gpt2")
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in loader:
    optimizer.zero_grad()
    loss = model(batch["input_ids"], labels=batch["input_ids"]).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    model(**batch).loss.backward()
    optimizer.step()
""",
    """
import torch
from transformers import AutoModelForCausalLM, AutoModelForQuestionAnswering, ViTMAEForPreTraining
reader = AutoModelForQuestionAnswering.from_pretrained("bert-base-uncased")
masked = ViTMAEForPreTraining.from_pretrained("facebook/vit-mae-base")
own = AutoModelForCausalLM.from_pretrained("me/own", trust_remote_code=True)
reader.train(), masked.train(), own.train()
parts = [*reader.parameters(), *masked.parameters(), *own.parameters()]
optimizer = torch.optim.AdamW(parts, lr=1e-5)
for x, pixels, first, last in loader:
    optimizer.zero_grad()
    loss = reader(input_ids=x, start_positions=first, end_positions=last).loss
    loss = loss + masked(pixels).loss + own(x).loss
    loss.backward()
    optimizer.step()
""",
)

_TASKS = (
    "ForCausalLM",
    "LMHeadModel",
    "ForSeq2SeqLM",
    "ForConditionalGeneration",
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForImageClassification",
    "ForSemanticSegmentation",
    "ForMultipleChoice",
)
"""Ends of the names of classes that compute a loss from labels and from nothing else."""
_AHEAD_OF_LABELS = 2
"""Inputs that a call may give by position without reaching the labels: ids and their mask."""


def check(context: Context) -> Iterator[Finding]:
    """Look at each ``.loss`` behind a backward pass for the call that it comes from."""
    for loop in context.reading.loops:
        for backward in loop.backwards:
            if backward.context.shadow:
                continue
            for value in graph(loss_of(backward)):
                call = _without_labels(value)
                if call is None or not isinstance(value, Obj):
                    continue
                yield context.finding(
                    RULE,
                    call,
                    "the model is given no labels, so the loss that backward() needs is None: the first step raises an error",
                    evidence=[Evidence("labels in the call", False)],
                    fix=Fix(
                        title="give the model its labels",
                        safe=False,
                        instruction="add labels=... to the call: the input itself for a causal language model",
                        expected="the model computes a loss",
                    ),
                    related=[(backward, "backward() starts from the loss here")],
                )
                return


def _without_labels(value: Value) -> Obj | None:
    """The call of a transformers model that a ``.loss`` comes from, where it is surely given no labels."""
    if not isinstance(value, Obj) or value.kind != "attr" or value.name.lstrip(".") != "loss" or value.receiver is None:
        return None
    call = settle(value.receiver)
    if not isinstance(call, Obj) or call.name != "()" or call.open_args or len(call.args) > _AHEAD_OF_LABELS:
        return None
    model = wrapped(call.receiver)
    made = loaded_model(model) or model
    if not isinstance(made, Obj) or made.cls is not None or not made.name.startswith("transformers."):
        return None
    if any("label" in name or "loss" in name for name in call.kwargs):
        return None
    owner = made.name.split(".")[-2 if made.name.rpartition(".")[2].startswith("from_") else -1]
    trusted = made.kwargs.get("trust_remote_code")
    own = trusted is not None and plain(trusted) is not False
    return call if owner.endswith(_TASKS) and not own and not made.open_args else None
