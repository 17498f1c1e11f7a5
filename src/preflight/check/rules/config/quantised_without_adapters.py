"""A quantised model is trained without adapters.

## What it does
Looks for a model that is loaded in 4 or 8 bits and given to a trainer of transformers as it is.

## Why
Quantised weights cannot be trained: the trainer raises ValueError when it is made, after the model was loaded.

## Fix
Wrap the model with `peft.get_peft_model`, or load it unquantised.

## When to ignore
When adapters are added where they were not seen.

## References
- Hugging Face transformers, Trainer: "You cannot perform fine-tuning on purely quantized models"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.trainer_settings import loaded_model
from preflight.check.rule import Rule
from preflight.source.values import Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="quantised-without-adapters",
    code="TRN009",
    severity="error",
    confidence="likely",
    needs=("complete",),
    layer="C",
    tags=("transformers", "quantisation"),
)

BAD = (
    """
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("gpt2", load_in_8bit=True)
Trainer(model, TrainingArguments("out"), train_dataset=data).train()
""",
    """
import torch, transformers as hf
from peft import prepare_model_for_kbit_training
quant = hf.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)
def load():
    return hf.AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=quant, device_map="auto")
model = prepare_model_for_kbit_training(load())
trainer = hf.Trainer(model=model, args=hf.TrainingArguments("out"), train_dataset=data)
""",
    """
import argparse
from transformers import AutoModelForSequenceClassification as Model, BitsAndBytesConfig as Bits, Trainer, TrainingArguments
p = argparse.ArgumentParser()
p.add_argument("--eight", type=int, default=1)
o = p.parse_args()
model = Model.from_pretrained("bert-base-cased", quantization_config=Bits(load_in_8bit=bool(o.eight)))
Trainer(model, TrainingArguments("out"), train_dataset=data)
""",
    """
import trl
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
model = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=BitsAndBytesConfig(load_in_4bit=True))
trl.SFTTrainer(model=model, args=trl.SFTConfig(output_dir="out"), train_dataset=data).train()
""",
)

GOOD = (
    """
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments
from trl import SFTTrainer
model = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=BitsAndBytesConfig(load_in_4bit=True))
SFTTrainer(model, TrainingArguments("out"), train_dataset=data, peft_config=LoraConfig(r=8))
adapted = get_peft_model(model, LoraConfig(r=8))
Trainer(adapted, TrainingArguments("out"), train_dataset=data)
""",
    """
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=BitsAndBytesConfig(load_in_4bit=True))
model.add_adapter(config)
Trainer(model, TrainingArguments("out"), train_dataset=data)
plain = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=None)
Trainer(plain, TrainingArguments("out"), train_dataset=data)
""",
)

_ADAPTERS = (".add_adapter", ".load_adapter", ".set_adapter", "peft.get_peft_model", "peft.inject_adapter_in_model")


def check(context: Context) -> Iterator[Finding]:
    """Look at how the model of each trainer was loaded."""
    for trainer in context.reading.made("trainer"):
        given = trainer.argument(0, "model")
        if not trainer.name.startswith(("transformers.", "trl.")) or trainer.cls is not None or given is None:
            continue
        if "peft_config" in trainer.kwargs or trainer.open_args:
            continue  # a trainer of trl adds the adapters itself
        loaded = loaded_model(given, adapted=False)
        bits = _bits(context, loaded) if loaded is not None else None
        if loaded is None or bits is None or _adapted(context, loaded):
            continue
        yield context.finding(
            RULE,
            trainer,
            f"the model is loaded in {bits} bits and has no adapters: the trainer raises ValueError",
            evidence=[Evidence("bits of the weights", bits), Evidence("adapters", 0)],
            related=[(loaded, "it is loaded here")],
            fix=Fix(
                title="add adapters",
                instruction="wrap the model with peft.get_peft_model(model, LoraConfig(...)), or load it unquantised",
                expected="the adapters are trained, and the quantised weights stay",
            ),
        )


def _bits(context: Context, loaded: Obj) -> int | None:
    given = loaded.kwargs.get("quantization_config")
    config = settle(given) if given is not None else None
    for holder in (loaded, config):
        if isinstance(holder, Obj) and (holder is loaded or holder.name.endswith(".BitsAndBytesConfig")):
            for bits in (4, 8):
                if context.value(holder.kwargs.get(f"load_in_{bits}bit")) in (True, 1):
                    return bits
    return None


def _adapted(context: Context, loaded: Obj) -> bool:
    """Whether something adds adapters to the model in place."""
    for event in context.trace.calls(*_ADAPTERS):
        values: list[Value | None] = [event.receiver, *event.args, *event.kwargs.values()]
        if any(loaded_model(v) is loaded for v in values if v is not None):
            return True
    return False
