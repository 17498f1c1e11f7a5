"""Padding is attended to.

## What it does
Reports an attention layer of PyTorch that is given embedded tokens without a padding mask, although the embedding has a `padding_idx` or `pad_sequence` filled the batch up.
It also reports an encoder of transformers that is given the `input_ids` of a padding tokenizer without the `attention_mask`.

## Why
Without a mask, attention takes padding for tokens like any others.
The same sentence then has another result in another batch: with 10 tokens padded to 40, three quarters of the keys are padding.

## Fix
Pass `src_key_padding_mask=(ids == pad)` (`key_padding_mask` for MultiheadAttention), or the tokenizer's `attention_mask`.

## When to ignore
When all sequences have the same length.

## References
- PyTorch documentation of TransformerEncoderLayer and MultiheadAttention
- transformers documentation, "Padding and truncation"
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.attention import module_name
from preflight.check.queries.tensors import module_of, operation
from preflight.check.queries.token_positions import collated, pads, tokenized
from preflight.check.rule import Rule
from preflight.source.trace import Event, parents_of
from preflight.source.values import Known, Obj, Value, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="padding-attended-to", code="ATT004", severity="warning", confidence="likely", layer="D", tags=("attention",)
)

BAD = (
    """
import torch
from torch import nn
embed = nn.Embedding(1000, 64, padding_idx=0)
encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, batch_first=True), 2)
head = nn.Linear(64, 2)
for ids, y in loader:
    h = encoder(embed(ids)).mean(1)
    nn.functional.cross_entropy(head(h), y).backward()
""",
    """
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence as pad
from torch.utils.data import DataLoader
def collate(samples):
    xs, ys = zip(*samples)
    return pad(xs, batch_first=True), ys
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(1000, 64), nn.Linear(64, 1)
        self.attention = nn.MultiheadAttention(64, 4, batch_first=True)
    def forward(self, ids, mask=None):
        x = self.embed(ids)
        x, _ = self.attention(x, x, x, key_padding_mask=mask)
        return self.out(x[:, 0])
net = Net()
for ids, y in DataLoader(texts, batch_size=8, shuffle=True, collate_fn=collate):
    net(ids).mean().backward()
""",
    """
import argparse, torch
from transformers import AutoModel, AutoTokenizer
p = argparse.ArgumentParser()
p.add_argument("--padding", default="longest")
args = p.parse_args()
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
bert = AutoModel.from_pretrained("bert-base-uncased")
def encode(texts):
    batch = tokenizer(texts, padding=args.padding, truncation=True, return_tensors="pt")
    return bert(batch["input_ids"].cuda()).last_hidden_state[:, 0]
for texts, y in loader:
    torch.nn.functional.mse_loss(encode(texts), y).backward()
""",
)

GOOD = (
    """
import torch
from torch import nn
embed = nn.Embedding(1000, 64, padding_idx=0)
plain = nn.Embedding(1000, 64)
encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4), 2)
causal = nn.Transformer.generate_square_subsequent_mask(32)
for ids, chars in loader:
    h = encoder(embed(ids), src_key_padding_mask=(ids == 0))
    h = h + encoder(embed(ids), causal) + encoder(plain(chars))
    h.sum().backward()
""",
    """
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
bert, lm = AutoModel.from_pretrained("bert-base-uncased"), AutoModelForCausalLM.from_pretrained("gpt2")
for texts in loader:
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    one = tokenizer("a single text", padding=True, return_tensors="pt")
    same = tokenizer(texts, return_tensors="pt")
    full = tokenizer(texts, padding="max_length", max_length=77, return_tensors="pt")
    with torch.no_grad():
        condition = bert(full.input_ids)[0]
    loss = bert(**batch)[0].mean() + bert(batch["input_ids"], batch["attention_mask"])[0].mean()
    loss = loss + bert(one["input_ids"])[0].mean() + bert(same.input_ids)[0].mean()
    (loss + lm(batch["input_ids"], labels=batch["input_ids"]).loss).backward()
""",
)

# Where the tokens that are attended to come in, and the masks that can hide some of them: keyword and position.
_LAYERS = {
    "torch.nn.MultiheadAttention": (1, "key", (("key_padding_mask", 3), ("attn_mask", 5))),
    "torch.nn.TransformerEncoderLayer": (0, "src", (("src_key_padding_mask", 2), ("src_mask", 1))),
    "torch.nn.TransformerEncoder": (0, "src", (("src_key_padding_mask", 2), ("mask", 1))),
    "torch.nn.Transformer": (0, "src", (("src_key_padding_mask", 5), ("src_mask", 2))),
}
# Encoders and sequence-to-sequence models: without a causal mask each token sees the padding at the end.
_ENCODERS = (
    r"^transformers\.(AutoModel(For(Sequence|Token)Classification|ForMaskedLM|ForSeq2SeqLM|ForQuestionAnswering)?"
    r"|(Bert|Roberta|XLMRoberta|DistilBert|Albert|Electra|Deberta|DebertaV2|Camembert|MPNet)(Model|For[A-Z]\w+)"
    r"|M?T5(ForConditionalGeneration|Model))\.from_pretrained$"
)
_DECODERS = r"(?i)gpt|llama|qwen|mistral|opt-|gemma|phi|bloom|pythia|falcon|deepseek"


def check(context: Context) -> Iterator[Finding]:
    """Look at what each attention layer and each pretrained encoder is given."""
    told: set[int] = set()
    for event in context.trace.calls("()"):
        network = settle(event.receiver) if event.receiver is not None else None
        if event.context.shadow or not isinstance(network, Obj) or id(event.node) in told or _open(event):
            continue
        found = _layer(context, event) or _pretrained(event, network)
        if found is None:
            continue
        told.add(id(event.node))
        mask, source, evidence = found
        yield context.finding(
            RULE,
            event,
            f"no {mask} is given although sequences are filled up to one length: padding is attended to like any token",
            evidence=[evidence, Evidence(mask, "not given")],
            related=[(source, "this says that there is padding")],
            fix=Fix(
                title=f"give {mask}",
                instruction="pass the tokenizer's attention_mask"
                if mask == "attention_mask"
                else f"pass {mask}=(ids == padding id), True where a token is padding",
                expected="a sequence has the same result in every batch",
            ),
        )
        if mask != "attention_mask":
            return  # the layers of one network stand and fall together


def _open(event: Event) -> bool:
    """Whether arguments may be given that are not known: ``model(**batch)``."""
    node = event.node
    return isinstance(node, ast.Call) and (
        any(k.arg is None for k in node.keywords) or any(isinstance(a, ast.Starred) for a in node.args)
    )


def _layer(context: Context, event: Event) -> tuple[str, Obj, Evidence] | None:
    """The padding mask that an attention layer lacks, and what says that there is padding."""
    layer = _LAYERS.get(module_name(event) or "")
    if layer is None or not all(_absent(event.argument(position, keyword)) for keyword, position in layer[2]):
        return None
    for part in _attended(event.argument(layer[0], layer[1])):
        embedding = module_of(part)
        if embedding is None or embedding.name != "torch.nn.Embedding" or embedding.cls is not None or not part.args:
            continue
        made = collated(context, part.args[0])
        filled = settle(made) if made is not None else None
        if isinstance(filled, Obj) and operation(filled) is None and filled.name.endswith(".rnn.pad_sequence"):
            return layer[2][0][0], filled, Evidence("batch filled up by", "pad_sequence")
        padding = plain(embedding.argument(2, "padding_idx"))
        if isinstance(padding, int) and not isinstance(padding, bool):
            return layer[2][0][0], embedding, Evidence("padding_idx of the embedding", padding)
    return None


def _absent(value: Value | None) -> bool:
    """Whether a mask is not given, or given as None."""
    base = settle(value) if value is not None else None
    return base is None or (isinstance(base, Known) and base.value is None and not base.soft)


_ON_THE_WAY = frozenset({
    "+", "*", "dropout", "transpose", "permute", "nn.LayerNorm", "contiguous", "to", "cuda", "nn.Linear", "float",
    "layer_norm", "nn.Dropout", "add", "mul",
})  # fmt: skip


def _attended(value: Value | None) -> Iterator[Obj]:
    """The values that an attended sequence is made of, token by token."""
    stack: list[Value] = [value] if value is not None else []
    seen: set[int] = set()
    while stack and len(seen) < 100:
        part = settle(stack.pop())
        if id(part) in seen or not isinstance(part, Obj):
            continue
        seen.add(id(part))
        yield part
        if operation(part) in _ON_THE_WAY:
            stack.extend(parents_of(part))


def _pretrained(event: Event, network: Obj) -> tuple[str, Obj, Evidence] | None:
    """The mask that a pretrained encoder lacks, and the call of the tokenizer that padded."""
    if network.cls is not None or not re.match(_ENCODERS, network.name):
        return None
    name = plain(network.argument(0, "pretrained_model_name_or_path"))
    if network.name.startswith("transformers.AutoModel.") and (not isinstance(name, str) or re.search(_DECODERS, name)):
        return None
    if event.argument(1, "attention_mask") is not None:
        return None
    call = tokenized(event.argument(0, "input_ids"))
    # A text that is always filled up to one length has the same result in every batch: text-to-image models are
    # conditioned so on purpose.
    if call is None or not pads(call) or plain(call.kwargs.get("padding")) == "max_length":
        return None
    return "attention_mask", call, Evidence("padding of the tokenizer", plain(call.kwargs.get("padding")))
