"""The trainer is to run in fp16 and is given weights in float16.

## What it does
Looks for `TrainingArguments(fp16=True)`, and the same in the configurations of trl, with a model that is loaded or cast as float16.

## Why
With `fp16=True` the trainer keeps a gradient scaler, which wants the weights in float32 and casts for the forward pass alone.
It refuses gradients in float16: `ValueError: Attempting to unscale FP16 gradients` at the first step.

## Fix
Load the model in float32; or set `bf16=True` and load it in bfloat16, on GPUs that have it.

## When to ignore
When something that is not seen here casts the trained weights to float32; adapters of peft, DeepSpeed and FSDP are left out.
Nothing is said of scripts that freeze parameters or write them one by one, or that hand the model to code that is not followed.

## References
- Hugging Face documentation, transformers.TrainingArguments
- PyTorch documentation, "Automatic Mixed Precision package"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.trainer_settings import argument_objects, explicit, is_none, known, trainers_of
from preflight.check.queries.weight_types import format_of
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="fp16-weights-with-trainer",
    code="AMP014",
    severity="error",
    confidence="likely",
    layer="C",
    tags=("transformers", "precision"),
)

BAD = (
    """
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16)
args = TrainingArguments("out", fp16=True)
Trainer(model, args, train_dataset=data).train()
""",
    """
import argparse
import transformers as hf
from trl import SFTConfig, SFTTrainer
p = argparse.ArgumentParser()
p.add_argument("--fp16", action="store_true", default=True)
options = p.parse_args()
def load(name):
    net = hf.AutoModelForCausalLM.from_pretrained(name, device_map="auto")
    return net.half()
tuner = SFTTrainer(model=load("gpt2"), args=SFTConfig("out", fp16=options.fp16), train_dataset=texts)
tuner.train()
""",
    """
import torch
from transformers import AutoModelForSeq2SeqLM as Auto, Seq2SeqTrainer, Seq2SeqTrainingArguments
class Job:
    def __init__(self, half=True):
        self.model = Auto.from_pretrained("t5-small", dtype="float16")
        self.model.to("cuda")
        self.args = Seq2SeqTrainingArguments("out", fp16=half)
    def run(self):
        Seq2SeqTrainer(args=self.args, model=self.model, train_dataset=data).train()
Job().run()
""",
)

GOOD = (
    """
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16)
model = model.float()
Trainer(model, TrainingArguments("out", fp16=True), train_dataset=data).train()
""",
    """
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16)
print(Trainer(model, TrainingArguments("out", fp16=True), eval_dataset=data).evaluate())
""",
    """
import torch
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", torch_dtype=torch.float16)
for parameter in model.parameters():
    parameter.requires_grad = False
model.classifier = torch.nn.Linear(768, 2)
Trainer(model, TrainingArguments("out", fp16=True), train_dataset=data).train()
""",
    """
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from mine import cast_training_params
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16)
other = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16)
last = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16)
cast_training_params(model, dtype=torch.float32)
args = TrainingArguments("out", fp16=True)
first, second, third = Trainer(model, args), Trainer(other, args), Trainer(last, args)
other.float()
third.model.float()
first.train(), second.train(), third.train()
""",
    """
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
class Plain(Trainer):
    def training_step(self, model, inputs, items=None):
        loss = self.compute_loss(model, inputs)
        loss.backward()
        return loss.detach()
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16)
Plain(model, TrainingArguments("out", fp16=True), train_dataset=data).train()
""",
    """
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16)
model = get_peft_model(model, LoraConfig(r=8))
Trainer(model, TrainingArguments("out", fp16=True), train_dataset=data).train()
""",
    """
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16)
args = TrainingArguments("out", fp16=True, deepspeed="zero2.json")
Trainer(model, args, train_dataset=data).train()
""",
    """
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
judge = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float16)
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=torch.float32)
Trainer(model, TrainingArguments("out", fp16=True), train_dataset=data).train()
print(judge.half())
""",
)

_MASTERS = ("deepspeed", "fsdp")
_APART = frozenset({"peft", "adapters", "unsloth", "deepspeed"})

_OWN = ("training_step", "train", "_inner_training_loop", "create_accelerator_and_postprocess")


def check(context: Context) -> Iterator[Finding]:
    """Look at the model of each trainer whose arguments ask for fp16."""
    if context.reading.imports & _APART:
        return
    for arguments in argument_objects(context):
        if known(context, arguments, False, "fp16") not in (True, 1) or known(context, arguments, None, "bf16"):
            continue
        if any((value := explicit(arguments, name)) is not None and not is_none(value) for name in _MASTERS):
            continue
        for trainer in trainers_of(context, arguments):
            model, begins = trainer.argument(0, "model"), _begins(context, trainer)
            if model is None or begins is None or trainer.kwargs.get("peft_config") is not None:
                continue
            found = format_of(context, model, begins)
            if found is None or found[0] != "float16":
                continue
            yield context.finding(
                RULE,
                trainer,
                "the trainer runs in fp16 and is given weights in float16: the first step raises an error",
                evidence=[Evidence("fp16", True), Evidence("dtype of the weights", "float16")],
                fix=Fix(
                    title="give the trainer weights in float32",
                    safe=False,
                    instruction="load the model in float32 (dtype=torch.float32), or use bf16=True and bfloat16 weights",
                    expected="the scaler is given gradients in float32",
                ),
                related=[(found[1], "the weights become float16 here"), (arguments, "fp16 is asked for here")],
            )
            return


def _begins(context: Context, trainer: Obj) -> Event | None:
    """Where a trainer begins to train; None where it only evaluates, or takes its steps or its model in a way of its own."""
    if trainer.cls is not None and any(trainer.cls.lookup(name) is not None for name in _OWN):
        return None
    if any(settle(store.target) is trainer and store.name.startswith("model") for store in context.trace.stores):
        return None
    for cast in context.trace.calls(".float", ".to"):
        taken = settle(cast.receiver) if cast.receiver is not None else None
        if isinstance(taken, Obj) and taken.receiver is not None and settle(taken.receiver) is trainer:
            return None
    return next((event for event in context.trace.on(trainer, "train") if not event.context.shadow), None)
