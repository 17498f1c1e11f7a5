"""Tokens are added, the embeddings are not.

## What it does
Looks for `tokenizer.add_tokens` or `add_special_tokens` with new tokens for a pretrained model whose embeddings are never resized; and for an embedding with fewer rows than the vocabulary of a well-known tokenizer.

## Why
The new ids are beyond the last row of the embedding: the first batch that holds one ends with an index error, on a GPU with a device-side assertion that names nothing.

## Fix
Call `model.resize_token_embeddings(len(tokenizer))` after the tokens were added.

## When to ignore
When the model's embedding has spare rows for them (some models pad their vocabulary).

## References
- Hugging Face documentation, tokenizers, add_special_tokens
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.trace import Event, parents_of
from preflight.source.training import same_guards
from preflight.source.values import Dict, Known, Obj, Seq, Unknown, Value, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="tokens-without-embeddings",
    code="CFG007",
    severity="error",
    confidence="likely",
    needs=("complete",),
    layer="C",
    tags=("transformers", "configuration"),
)

BAD = (
    """
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("gpt2")
model = AutoModelForCausalLM.from_pretrained("gpt2")
tokenizer.add_special_tokens({"pad_token": "[PAD]"})
""",
    """
import transformers as hf
def load(name):
    tok = hf.AutoTokenizer.from_pretrained(name)
    tok.add_tokens(["<image>", "<video>"])
    return tok, hf.AutoModelForCausalLM.from_pretrained(name)
tok, model = load("facebook/bart-base")
""",
    """
import argparse
from transformers import GPT2Tokenizer as Tok, GPT2LMHeadModel as Model
p = argparse.ArgumentParser()
p.add_argument("--pad", default="<pad>")
args = p.parse_args()
class Data:
    def __init__(self):
        self.tokenizer = Tok.from_pretrained("gpt2")
        self.tokenizer.add_special_tokens({"pad_token": args.pad})
data = Data()
model = Model.from_pretrained("gpt2")
""",
    """
import tiktoken
from torch import nn
encoding = tiktoken.get_encoding("gpt2")
embedding = nn.Embedding(50000, 768)
ids = encoding.encode(text)
x = embedding(ids)
""",
)

GOOD = (
    """
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("gpt2")
model = AutoModelForCausalLM.from_pretrained("gpt2")
tokenizer.add_special_tokens({"pad_token": "[PAD]"})
model.resize_token_embeddings(len(tokenizer))
other = AutoTokenizer.from_pretrained("gpt2")
other.add_special_tokens({"pad_token": other.eos_token})
""",
    """
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel
tokenizer = AutoTokenizer.from_pretrained("gpt2")
tokenizer.add_tokens(["<a>"])
model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer)))
""",
    """
import tiktoken
from torch import nn
encoding = tiktoken.get_encoding("gpt2")
embedding = nn.Embedding(50304, 768)
positions = nn.Embedding(1024, 768)
""",
    """
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("gpt2")
tokenizer.add_special_tokens({"pad_token": "<|endoftext|>"})
model = AutoModelForCausalLM.from_pretrained("gpt2")
""",
    """
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("EleutherAI/pythia-160m")
tokenizer.add_special_tokens({"pad_token": "[PAD]"})
model = AutoModelForCausalLM.from_pretrained("EleutherAI/pythia-160m")
""",
    """
from transformers import AutoModel, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("allenai/scibert_scivocab_uncased")
tokenizer.add_special_tokens({"eos_token": "[SEP]"})
model = AutoModel.from_pretrained("allenai/scibert_scivocab_uncased")
""",
)

# Number of ids of encodings whose name says it all (largest id + 1), as published with tiktoken.
_ENCODINGS = {"gpt2": 50257, "r50k_base": 50257, "p50k_base": 50281, "cl100k_base": 100277, "o200k_base": 200019}


def check(context: Context) -> Iterator[Finding]:
    """Find ids beyond the embedding."""
    yield from _added(context)
    yield from _encoded(context)


def _added(context: Context) -> Iterator[Finding]:
    if context.trace.calls(".resize_token_embeddings", ".resize_embeddings", "trl.setup_chat_format"):
        return
    models = [
        e
        for e in context.trace.calls_under("transformers.")
        if e.name.endswith(".from_pretrained") and _is_model(context, e)
    ]
    for event in context.trace.calls(".add_tokens", ".add_special_tokens"):
        tokenizer = next((o for o in options_of(event.receiver, limit=3) if isinstance(o, Obj)), None)
        if event.context.shadow or tokenizer is None or "okenizer" not in tokenizer.name:
            continue
        checkpoint = _checkpoint(context, tokenizer)
        held = _held(checkpoint)
        tokens = [token for token in _new_tokens(event) if token not in held]
        if len(tokens) <= _spare(checkpoint):
            continue
        mine = [
            m
            for m in models
            if not m.context.shadow and same_guards(m, event) and _checkpoint(context, m) == checkpoint
        ]
        if not mine or checkpoint is None:
            continue
        yield context.finding(
            RULE,
            event,
            f"{_counted(tokens)}, but the model's embeddings are not resized: the new ids are out of range",
            severity="warning",
            evidence=[Evidence("tokens added", len(tokens)), Evidence("calls of resize_token_embeddings", 0)],
            fix=Fix(
                title="resize the embeddings",
                instruction="call model.resize_token_embeddings(len(tokenizer)) after the tokens were added",
                expected="every id has a row",
            ),
            related=[(mine[0], "the model that gets the ids")],
        )


def _counted(tokens: list[str]) -> str:
    return f"{len(tokens)} tokens are added ({tokens[0]!r} ...)" if tokens[1:] else f"{tokens[0]!r} is added"


# Special tokens that the vocabularies of well-known checkpoints have: to add them again adds nothing.
_SPECIAL = (
    (r"gpt-?(2|j|neo)|dialogpt|pythia|phi-[12]", ("<|endoftext|>",)),
    (r"llama(?!-?3)|mistral|mixtral|roberta|bart|opt-|bloom", ("<s>", "</s>", "<unk>")),
    (r"t5", ("</s>", "<unk>", "<pad>")),
    (r"roberta|bart|opt-|bloom", ("<pad>",)),
    (r"roberta|bart", ("<mask>",)),
    (r"(?<!ro)(?<!came)(?<!flau)(?<!pho)(?<!code)bert|electra|mpnet", ("[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]")),
)


# Rows of well-known embeddings that no id of their tokenizer uses, since the table was padded: at least so many are free
# (vocab_size of the published configuration, less the length of the published tokenizer).
_SPARE = (
    (r"pythia|gpt-neox|stablelm|(^|[/-])mpt-", 27),  # 50,304 or more rows for 50,277 ids
    (r"olmo-1b|olmo-7b", 24),  # 50,304 for 50,280
    (r"(^|/)opt-", 7),  # 50,272 for 50,265
    (r"(^|[/-])t5-|flan-t5|t5-v1", 28),  # 32,128 for 32,100
    (r"phi-(1|1_5|2)$", 905),  # 51,200 for 50,295
    (r"qwen(2|2\.5|3)-", 250),  # 151,936 or more for at most 151,669
    (r"bloom(z|-)", 200),  # 250,880 for 250,680
    (r"deberta-v3", 99),  # 128,100 for 128,001
)


def _spare(checkpoint: object) -> int:
    """How many new ids a checkpoint's embedding surely has rows for."""
    name = checkpoint.lower() if isinstance(checkpoint, str) else ""
    return next((rows for pattern, rows in _SPARE if re.search(pattern, name)), 0)


def _held(checkpoint: object) -> set[str]:
    """The special tokens that a checkpoint is known to have."""
    name = checkpoint.lower() if isinstance(checkpoint, str) else ""
    return {token for pattern, tokens in _SPECIAL if re.search(pattern, name) for token in tokens}


def _new_tokens(event: Event) -> list[str]:
    given = settle(event.args[0]) if event.args else settle(event.kwargs.get("special_tokens_dict") or Known(None))
    values: list[Value] = []
    if isinstance(given, Dict):
        values = list(given.entries.values())
    elif isinstance(given, Seq):
        values = list(given.items)
    elif isinstance(given, Known):
        values = [given]
    found: list[str] = []
    for value in values:
        inner = settle(value)
        for item in inner.items if isinstance(inner, Seq) else [inner]:
            worth = settle(item)
            if isinstance(worth, Known) and isinstance(worth.value, str):
                found.append(worth.value)
    return found


def _is_model(context: Context, event: Event) -> bool:
    return any(context.roles.of(o) == "model" for o in options_of(event.result, limit=2))


def _checkpoint(context: Context, made: Event | Obj) -> object:
    return context.value(made.argument(0, "pretrained_model_name_or_path"))


def _encoded(context: Context) -> Iterator[Finding]:
    for encoding in context.trace.calls("tiktoken.get_encoding"):
        size = _ENCODINGS.get(str(context.value(encoding.argument(0, "encoding_name"))))
        if size is None:
            continue
        for event in context.trace.calls("()"):
            table = settle(event.receiver) if event.receiver is not None else None
            if not isinstance(table, Obj) or table.name != "torch.nn.Embedding" or not event.args:
                continue
            rows = context.value(table.argument(0, "num_embeddings"))
            if not isinstance(rows, int) or rows >= size or not _from(event.args[0], encoding):
                continue
            yield context.finding(
                RULE,
                table,
                f"this embedding has {rows} rows and the encoding {size} ids: ids from {rows} on are out of range",
                evidence=[Evidence("rows", rows), Evidence("ids of the encoding", size, source="published")],
                fix=Fix(
                    title=f"give the embedding at least {size} rows",
                    instruction=f"use {(size + 63) // 64 * 64}, the next multiple of 64",
                    expected="every id has a row",
                ),
                related=[(encoding, "the encoding")],
            )
            return


def _from(value: Value, encoding: Event) -> bool:
    """Whether a tensor holds ids of the encoding: positions counted from its length do not."""
    queue: list[Value] = [value]
    seen: set[int] = set()
    while queue and len(seen) < 100:
        part = queue.pop(0)
        if id(part) in seen:
            continue
        seen.add(id(part))
        if part is encoding.result:
            return True
        if isinstance(part, Obj) and part.name in (
            ".size",
            ".shape",
            "shape",
            "torch.arange",
            "builtins.len",
            ".numel",
        ):
            continue
        if isinstance(part, Unknown) and part.name in ("len", "size"):
            continue
        queue.extend(parents_of(part))
    return False
