"""The loss of a transformers model is used, but the model is given no labels.

## What it does
Looks for `.loss` of a model of transformers that is called without `labels`, on the way to `backward()`.

## Why
The model computes a loss only where it is given labels; without them `outputs.loss` is None.
The first step ends in `AttributeError: 'NoneType' object has no attribute 'backward'`.

## Fix
Give the labels: `model(input_ids=ids, labels=ids)` for a causal language model, which shifts them itself.

## When to ignore
When the class of the model is your own and computes its loss without labels, or something that is not seen here replaces its `forward`.
Nothing is said where the script asks whether there is a loss, takes it in one branch alone, or hooks into models.

## References
- Hugging Face documentation, transformers.modeling_outputs: `loss` is returned when `labels` is provided
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.absent_losses import asks_for_loss
from preflight.check.queries.trainer_settings import loaded_model
from preflight.check.rule import Rule
from preflight.source.evaluate.library.torch import wrapped
from preflight.source.trace import Context as Frame
from preflight.source.training import loss_of
from preflight.source.values import Obj, Value, plain
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
    """
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("gpt2")
model.train()
optimizer, best_loss = torch.optim.AdamW(model.parameters(), lr=1e-5), None
for step, ids in enumerate(loader):
    optimizer.zero_grad()
    outputs = model(ids)
    loss = outputs.loss
    loss.backward()
    optimizer.step()
    if best_loss is None or float(loss.detach()) < best_loss:
        best_loss = float(loss.detach())
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
    """
import torch
from transformers import AutoModelForImageClassification, SegformerForSemanticSegmentation
model = AutoModelForImageClassification.from_pretrained("microsoft/resnet-50")
masks = SegformerForSemanticSegmentation.from_pretrained("nvidia/mit-b0")
model.train(), masks.train()
optimizer = torch.optim.AdamW([*model.parameters(), *masks.parameters()], lr=1e-5)
for x, y, regions in loader:
    optimizer.zero_grad()
    (model(x, y).loss + masks(x, regions).loss).backward()
    optimizer.step()
""",
    """
import torch
from torch.nn import functional as F
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("gpt2")
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in loader:
    optimizer.zero_grad()
    outputs = model(input_ids=batch["ids"])
    loss = outputs.loss
    if loss is None:
        loss = F.cross_entropy(outputs.logits[:, :-1].flatten(0, 1), batch["ids"][:, 1:].flatten())
    loss.backward()
    optimizer.step()
""",
    """
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("gpt2")
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
def run(ids, labels=None):
    return model(ids) if labels is None else model(ids, labels=labels)
for ids, labels in loader:
    optimizer.zero_grad()
    run(ids, labels).loss.backward()
    optimizer.step()
""",
    """
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("gpt2")
inner = model.forward
def forward(input_ids, **kwargs):
    return inner(input_ids=input_ids, labels=input_ids, **kwargs)
model.forward = forward
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for ids in loader:
    optimizer.zero_grad()
    model(ids).loss.backward()
    optimizer.step()
""",
    """
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from mine import OwnConfig, OwnForCausalLM
AutoConfig.register("own", OwnConfig)
AutoModelForCausalLM.register(OwnConfig, OwnForCausalLM)
model = AutoModelForCausalLM.from_config(OwnConfig())
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for ids in loader:
    optimizer.zero_grad()
    model(ids).loss.backward()
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
_OF_IMAGES = ("ForImageClassification", "ForSemanticSegmentation")
"""Those of which many take their labels by position right after the image; others take ids and a mask first."""
_OF_THEIR_INPUT = frozenset({"BlipForConditionalGeneration"})
"""Classes of which some releases make the labels of the ids that they are given."""
_ARITHMETIC = frozenset({"+", "-", "*", "/", "neg"})
_MOST = 200
_REPLACING = (".register_forward_pre_hook", ".register_forward_hook")


def check(context: Context) -> Iterator[Finding]:
    """Look at each ``.loss`` that a backward pass surely begins at for the call that it comes from."""
    for loop in context.reading.loops:
        for backward in loop.backwards:
            if backward.context.shadow:
                continue
            for value in _begins_at(loss_of(backward)):
                call = _without_labels(value)
                if call is None or _tried(value, loop.frame) or _replaced(context) or asks_for_loss(context):
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


def _begins_at(loss: Value | None) -> Iterator[Obj]:
    """The attributes that a loss is computed from with operators and methods, in every case: a branch ends the search."""
    stack = [loss]
    for value in stack:  # grows as it goes
        if not isinstance(value, Obj) or len(stack) > _MOST:
            continue
        if value.kind == "attr":
            yield value
        elif value.kind == "op" and value.name in _ARITHMETIC:
            stack += value.args
        elif value.kind == "call" and value.name.startswith("."):
            stack.append(value.receiver)


def _without_labels(value: Obj) -> Obj | None:
    """The call of a transformers model that a ``.loss`` comes from, where it is surely given no labels."""
    if value.name.lstrip(".") != "loss":
        return None
    call = value.receiver
    if not isinstance(call, Obj) or call.name != "()" or call.open_args:
        return None
    model = wrapped(call.receiver)
    made = loaded_model(model) or model
    if not isinstance(made, Obj) or made.cls is not None or not made.name.startswith("transformers."):
        return None
    if any("label" in name or "loss" in name for name in call.kwargs):
        return None
    owner = made.name.split(".")[-2 if made.name.rpartition(".")[2].startswith("from_") else -1]
    if (
        not owner.endswith(_TASKS)
        or owner in _OF_THEIR_INPUT
        or len(call.args) > (1 if owner.endswith(_OF_IMAGES) else 2)
    ):
        return None
    trusted = made.kwargs.get("trust_remote_code")
    own = trusted is not None and plain(trusted) is not False
    return call if not own and not made.open_args else None


def _tried(value: Obj, loop: Frame) -> bool:
    """Whether the attribute is read in a ``try`` of the loop, which may have another loss ready."""
    if value.context is None:
        return False
    return any(frame.kind == "try" and frame.within(loop) for frame in value.context.frames())


def _replaced(context: Context) -> bool:
    """Whether the script gives models another ``forward``, hooks that may add labels or a loss, or classes of its own."""
    trace = context.trace
    own = any(event.name.endswith(".register") for event in trace.calls_under("transformers."))
    return own or bool(trace.calls(*_REPLACING)) or any(store.name == "forward" for store in trace.stores)
