"""The collator prepares labels for another kind of language model.

## What it does
Compares `mlm` of `DataCollatorForLanguageModeling`, which is True unless it is given, with the model of the trainer: causal or masked.

## Why
With `mlm=True` 15 % of the tokens are replaced and only they have labels; a causal model shifts these labels by one and is asked for the token after each mask, and tokenizers of causal models have no mask token, for which the collator raises.
With `mlm=False` a masked model sees in its input every token it is asked for: its loss falls to zero and it learns nothing.

## Fix
Give `mlm=False` for causal models, and leave it on for masked ones.

## When to ignore
Never with a model of the other kind.

## References
- Hugging Face documentation, transformers.DataCollatorForLanguageModeling
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.trainer_settings import loaded_model
from preflight.check.rule import Rule
from preflight.source.values import Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="masking-for-another-head",
    code="TRN008",
    severity="error",
    confidence="certain",
    layer="C",
    tags=("transformers", "language"),
)

BAD = (
    """
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling, Trainer, TrainingArguments
tokenizer = AutoTokenizer.from_pretrained("gpt2")
model = AutoModelForCausalLM.from_pretrained("gpt2")
trainer = Trainer(model, TrainingArguments("out"), DataCollatorForLanguageModeling(tokenizer), train_dataset=data)
""",
    """
import argparse
import transformers as hf
p = argparse.ArgumentParser()
p.add_argument("--mlm", type=bool, default=False)
o = p.parse_args()
tokenizer = hf.AutoTokenizer.from_pretrained("bert-base-uncased")
def collator():
    return hf.DataCollatorForLanguageModeling(tokenizer=tokenizer, mlm=o.mlm)
model = hf.BertForMaskedLM.from_pretrained("bert-base-uncased")
hf.Trainer(model=model, args=hf.TrainingArguments("out"), data_collator=collator(), train_dataset=data).train()
""",
    """
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM as Model, DataCollatorForLanguageModeling as Collator, Trainer, TrainingArguments
model = get_peft_model(Model.from_pretrained(name), LoraConfig(r=8))
trainer = Trainer(model=model, args=TrainingArguments("out"), train_dataset=data, data_collator=Collator(tokenizer, mlm=True, mlm_probability=0.15))
""",
)

GOOD = (
    """
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, DataCollatorForLanguageModeling, Trainer, TrainingArguments
causal, masked = AutoModelForCausalLM.from_pretrained("gpt2"), AutoModelForMaskedLM.from_pretrained("roberta-base")
Trainer(causal, TrainingArguments("out"), DataCollatorForLanguageModeling(tokenizer, mlm=False), train_dataset=data)
Trainer(masked, TrainingArguments("out"), DataCollatorForLanguageModeling(tokenizer), train_dataset=data)
""",
    """
from transformers import AutoModel, DataCollatorForLanguageModeling, Trainer, TrainingArguments
Trainer(AutoModel.from_pretrained(name), TrainingArguments("out"), DataCollatorForLanguageModeling(tokenizer), train_dataset=data)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare the collator of each trainer with its model."""
    for trainer in context.reading.made("trainer"):
        collator = _collator(trainer.argument(2, "data_collator"))
        loaded = loaded_model(trainer.argument(0, "model"))
        if collator is None or loaded is None or collator.open_args or trainer.cls is not None:
            continue
        causal = _causal(loaded.name)
        given = collator.argument(1, "mlm")
        mlm = True if given is None else context.value(given)
        if causal is None or not isinstance(mlm, bool) or mlm is not causal:
            continue
        yield _finding(context, collator, loaded, mlm)


def _collator(value: Value | None) -> Obj | None:
    base = settle(value) if value is not None else None
    named = isinstance(base, Obj) and base.cls is None and base.name.endswith(".DataCollatorForLanguageModeling")
    return base if named and isinstance(base, Obj) else None


def _causal(name: str) -> bool | None:
    """Whether a class of the library is a causal language model (True) or a masked one (False)."""
    parts = name.split(".")
    holder = parts[-2] if parts[-1] in ("from_pretrained", "from_config") and len(parts) > 1 else parts[-1]
    if holder.endswith(("ForCausalLM", "GPT2LMHeadModel")):
        return True
    return False if holder.endswith("ForMaskedLM") else None


def _finding(context: Context, collator: Obj, loaded: Obj, mlm: bool) -> Finding:
    kind = "causal" if mlm else "masked"
    result = (
        "labels stand only at masked tokens, and tokenizers without a mask token raise"
        if mlm
        else "the model sees every token that it is asked for"
    )
    return context.finding(
        RULE,
        collator,
        f"the collator has mlm={mlm}, and the model is a {kind} language model: {result}",
        evidence=[Evidence("mlm", mlm), Evidence("model", loaded.name)],
        related=[(loaded, "the model is made here")],
        fix=Fix(
            title=f"give mlm={not mlm}",
            instruction=f"write DataCollatorForLanguageModeling(tokenizer, mlm={not mlm})",
            expected="the labels are those that the model predicts",
        ),
    )
