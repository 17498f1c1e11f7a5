"""Adapters are wanted for layers that the model does not have.

## What it does
Compares `target_modules` of a LoRA configuration with the names of the layers of the pretrained model that it is applied to, for the families whose names are known.

## Why
Each family calls its matrices by names of its own: `q_proj` in Llama, `query_key_value` in Falcon, `c_attn` in GPT-2.
Where none of the names that are wanted exists, PEFT raises ValueError after the model was loaded.

## Fix
Use the names of this family, or `target_modules="all-linear"`.

## When to ignore
When the script renames the layers before.

## References
- Hugging Face PEFT, LoraConfig, "target_modules"; the modelling files of transformers
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.trainer_settings import loaded_model
from preflight.check.rule import Rule
from preflight.source.known_models import named_config
from preflight.source.values import Obj, Value, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="adapter-targets-nothing",
    code="PFT002",
    severity="error",
    confidence="likely",
    layer="C",
    tags=("adapters",),
)

BAD = (
    """
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("mistralai/Mistral-7B-v0.1")
model = get_peft_model(model, LoraConfig(r=8, target_modules=["query_key_value"]))
""",
    """
import argparse
from peft import LoraConfig as Low
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer
p = argparse.ArgumentParser()
p.add_argument("--model", default="gpt2")
args = p.parse_args()
targets = ["q_proj", "v_proj"]
model = AutoModelForCausalLM.from_pretrained(args.model)
trainer = SFTTrainer(model=model, args=SFTConfig("out"), train_dataset=data, peft_config=Low(target_modules=targets))
""",
    """
import peft
from transformers import AutoModelForSequenceClassification
def adapted():
    model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=3)
    return peft.get_peft_model(model, peft.LoraConfig(task_type="SEQ_CLS", target_modules=["attention.q_lin", "attention.v_lin"]))
model = adapted()
""",
)

GOOD = (
    """
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification
a = get_peft_model(AutoModelForCausalLM.from_pretrained("mistralai/Mistral-7B-v0.1"), LoraConfig(target_modules=["q_proj", "down_proj"]))
b = get_peft_model(AutoModelForCausalLM.from_pretrained("gpt2"), LoraConfig(target_modules="all-linear"))
c = get_peft_model(AutoModelForCausalLM.from_pretrained("gpt2"), LoraConfig(target_modules=["c_attn", "q_proj"]))
d = get_peft_model(AutoModelForSequenceClassification.from_pretrained("bert-base-uncased"), LoraConfig(target_modules=["attention.self.query"]))
""",
    """
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
a = get_peft_model(AutoModelForCausalLM.from_pretrained("gpt2"), LoraConfig(target_modules=r".*(q|v)_proj"))
b = get_peft_model(AutoModelForCausalLM.from_pretrained("gpt2"), LoraConfig(r=4))
c = get_peft_model(AutoModelForCausalLM.from_pretrained("nobody/knows-this"), LoraConfig(target_modules=["query"]))
d = get_peft_model(AutoModelForCausalLM.from_pretrained("microsoft/phi-2", trust_remote_code=True), LoraConfig(target_modules=["Wqkv"]))
e = get_peft_model(AutoModelForCausalLM.from_pretrained("microsoft/phi-2", trust_remote_code=known()), LoraConfig(target_modules=["Wqkv"]))
""",
)

_LLAMA = "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj"
_BLOOM = "query_key_value dense dense_h_to_4h dense_4h_to_h"
_BERT = "query key value dense"
# The matrices of each family, as the modelling files of transformers call them.
_NAMES = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "olmo2", "smollm3"), _LLAMA),
    "phi3": "qkv_proj o_proj gate_up_proj down_proj",
    "phi": "q_proj k_proj v_proj dense fc1 fc2",
    "gpt2": "c_attn q_attn c_proj c_fc wte wpe",
    "gptj": "q_proj k_proj v_proj out_proj fc_in fc_out wte",
    "gpt_neo": "q_proj k_proj v_proj out_proj c_fc c_proj wte wpe",
    "gpt_neox": _BLOOM + " embed_in embed_out",
    "bloom": _BLOOM + " word_embeddings",
    "falcon": _BLOOM + " word_embeddings",
    "opt": "q_proj k_proj v_proj out_proj fc1 fc2 project_in project_out embed_positions",
    **dict.fromkeys(("t5", "mt5"), "q k v o wi wi_0 wi_1 wo shared relative_attention_bias"),
    **dict.fromkeys(
        ("bert", "roberta", "xlm-roberta", "electra"),
        _BERT + " word_embeddings position_embeddings token_type_embeddings out_proj decoder pooler",
    ),
    "distilbert": "q_lin k_lin v_lin out_lin lin1 lin2 word_embeddings position_embeddings pre_classifier vocab_transform "
    "vocab_projector",
}
_HEADS = "lm_head score classifier qa_outputs embed_tokens"


def check(context: Context) -> Iterator[Finding]:
    """Compare the names that are wanted with those that there are."""
    for model, config in _applied(context):
        loaded = loaded_model(model)
        wanted = plain(config.argument(-1, "target_modules")) if config.name == "peft.LoraConfig" else None
        if loaded is None or not isinstance(wanted, (list, tuple)) or not wanted:
            continue
        own = loaded.kwargs.get("trust_remote_code")
        if own is not None and plain(own) is not False:
            continue  # the code that comes with the weights names its layers as it likes
        name = plain(loaded.argument(0, "pretrained_model_name_or_path"))
        found = named_config(context.reading, name) if isinstance(name, str) else None
        family = str((found or {}).get("model_type", ""))
        known = _NAMES.get(family)
        if known is None or any(str(one).rpartition(".")[2] in f"{known} {_HEADS}".split() for one in wanted):
            continue
        listed = ", ".join(map(str, wanted))
        yield context.finding(
            RULE,
            context.reading.event_of(config) or config,
            f"adapters are wanted for {listed}, and {name} ({family}) has no layer of that name: PEFT raises ValueError",
            evidence=[Evidence("wanted", listed), Evidence(f"matrices of {family}", known)],
            related=[(loaded, "the model is loaded here")],
            fix=Fix(
                title=f"use the names of {family}",
                instruction=f'choose among {known.replace(" ", ", ")}, or set target_modules="all-linear"',
                expected="adapters are added to the layers that are named",
            ),
        )


def _applied(context: Context) -> Iterator[tuple[Value, Obj]]:
    """Models and the configurations of adapters that are applied to them."""
    for event in context.trace.calls("peft.get_peft_model"):
        model, given = event.argument(0, "model"), event.argument(1, "peft_config")
        config = settle(given) if given is not None else None
        if model is not None and isinstance(config, Obj) and not event.context.shadow:
            yield model, config
    for trainer in context.reading.made("trainer"):
        model, given = trainer.argument(0, "model"), trainer.kwargs.get("peft_config")
        config = settle(given) if given is not None else None
        if model is not None and isinstance(config, Obj):
            yield model, config
