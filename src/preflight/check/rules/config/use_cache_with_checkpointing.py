"""Key-value cache is on while gradients are checkpointed.

## What it does
Looks for `use_cache=True` on a transformers model that trains with gradient checkpointing.

## Why
Checkpointing runs each block again in the backward pass; a cache of keys and values cannot be kept through that.
transformers switches the cache off with a warning in every forward pass, and older versions keep tensors that cost memory for nothing.

## Fix
Set `use_cache=False` for training.

## When to ignore
When the same configuration object is only used for generation.

## References
- Hugging Face documentation, "Methods and tools for efficient training", gradient checkpointing
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, Place, edits
from preflight.check.rule import Rule
from preflight.source.facts.settings import trainer_setting
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="use-cache-with-checkpointing",
    code="CFG006",
    severity="warning",
    confidence="certain",
    layer="C",
    tags=("memory", "transformers"),
)

BAD = (
    """
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("gpt2", use_cache=True)
model.gradient_checkpointing_enable()
""",
    """
import transformers as hf
def load(name):
    model = hf.AutoModelForCausalLM.from_pretrained(name)
    model.config.use_cache = True
    return model
args = hf.TrainingArguments("out", gradient_checkpointing=True)
trainer = hf.Trainer(load("gpt2"), args)
""",
    """
import argparse
from transformers import LlamaConfig, LlamaForCausalLM
p = argparse.ArgumentParser()
p.add_argument("--cache", type=int, default=True)
args = p.parse_args()
config = LlamaConfig(hidden_size=64, use_cache=args.cache)
model = LlamaForCausalLM(config)
model.gradient_checkpointing_enable()
""",
)

GOOD = (
    """
from transformers import AutoModelForCausalLM, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("gpt2")
model.config.use_cache = False
model.gradient_checkpointing_enable()
other = AutoModelForCausalLM.from_pretrained("gpt2", use_cache=False)
""",
    """
import argparse
from transformers import AutoModelForCausalLM
p = argparse.ArgumentParser()
p.add_argument("--checkpoint", action="store_true")
args = p.parse_args()
model = AutoModelForCausalLM.from_pretrained("gpt2", use_cache=not args.checkpoint)
if args.checkpoint:
    model.gradient_checkpointing_enable()
""",
    """
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("gpt2")
model.gradient_checkpointing_enable()
model.config.use_cache = False
train(model)
model.config.use_cache = True
model.save_pretrained("out")
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find caches that are switched on although blocks are checkpointed."""
    enabled = [e for e in context.trace.calls(".gradient_checkpointing_enable") if not e.context.shadow]
    if not enabled and context.value(trainer_setting(context.reading, "gradient_checkpointing")) is not True:
        return
    for place, number, edit in _caches(context):
        if edit is None or number is None:
            continue
        yield context.finding(
            RULE,
            place,
            "use_cache is on although the model trains with gradient checkpointing: the cache cannot be used and is switched off in every pass",
            evidence=[Evidence("use_cache", True), Evidence("gradient checkpointing", True)],
            fix=Fix(
                title="set use_cache=False for training",
                safe=True,
                edits=edits(edit) if isinstance(edit, Edit) else (),
                instruction="give use_cache=False, and switch it on again for generation",
                expected="no warning per step, no cache that is thrown away",
            ),
        )


def _caches(context: Context) -> Iterator[tuple[Place, int | None, Edit | str | None]]:
    stores = [s for s in context.trace.stores if s.name == "use_cache" and not s.context.shadow]
    off = [s for s in stores if context.value(s.value) is False]
    for event in context.trace.calls_under("transformers."):
        given = event.kwargs.get("use_cache")
        if given is None or event.context.shadow or context.value(given) not in (True, 1) or off:
            continue
        keyword = next((k for k in getattr(event.node, "keywords", []) if k.arg == "use_cache"), None)
        edit = context.replace((event.script, keyword.value), "False") if keyword is not None else None
        yield event, event.number, edit or "by hand"
    for store in stores:
        if context.value(store.value) in (True, 1) and not off:
            value = getattr(store.node, "value", None)
            edit = context.replace((store.script, value), "False") if value is not None else None
            yield store, store.number, edit or "by hand"
