"""Labels of a causal language model are not shifted, or shifted twice.

## What it does
Follows the targets of cross entropy and the tokens that went into a causal network back to where both were cut out, and compares the places.
It also compares `labels` with `input_ids` where a causal model of transformers is given both.

## Why
The logits at place t have to be compared with the token at place t + 1.
Without the shift the network is asked for the token that it is looking at: the loss falls to almost 0 within a few hundred steps, and generation repeats the last token.
Causal models of transformers shift inside: labels that were already shifted make them predict the token after the next one.

## Fix
Compare `logits[:, :-1]` with `ids[:, 1:]`; give models of transformers `labels=input_ids` unshifted.

## When to ignore
When a token further ahead is predicted on purpose.

## References
- transformers documentation of GPT2LMHeadModel: "the labels are shifted inside the model"
- Radford et al., "Improving Language Understanding by Generative Pre-Training" (2018), equation 1
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.losses import LossCall, loss_calls
from preflight.check.queries.tensors import VIEWS, graph, origin, source_text
from preflight.check.queries.token_positions import Tokens, inside, language_model, tokens_of, written
from preflight.check.rule import Rule
from preflight.source.trace import Event, provenance
from preflight.source.values import Obj, Value
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="labels-not-shifted",
    code="ATT002",
    severity="error",
    confidence="likely",
    layer="D",
    tags=("attention", "loss"),
)

_BLOCK = """
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True))
class GPT(nn.Module):
    def __init__(self, vocabulary=1000, width=64):
        super().__init__()
        self.embed, self.block = nn.Embedding(vocabulary, width), Block(width)
        self.places, self.head = nn.Embedding(512, width), nn.Linear(width, vocabulary)
    def forward(self, ids, targets=None):
        at = torch.arange(ids.size(1), device=ids.device)
        logits = self.head(self.block(self.embed(ids) + self.places(at)))
        if targets is None:
            return logits
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1))
"""

BAD = (
    f"""
import torch
from torch import nn
import torch.nn.functional as F
{_BLOCK}
model = GPT()
for ids in loader:
    model(ids, ids).backward()
""",
    f"""
import torch
from torch import nn
import torch.nn.functional as F
{_BLOCK}
def get_batch(data, size, length):
    at = torch.randint(len(data) - length, (size,))
    x = torch.stack([data[i : i + length] for i in at])
    y = torch.stack([data[i : i + length] for i in at])
    return x.cuda(), y.cuda()
model = GPT().cuda()
for step in range(1000):
    x, y = get_batch(tokens, 8, 64)
    logits = model(x)
    loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), y[:, :-1].flatten())
    loss.backward()
""",
    """
import argparse, torch
from transformers import AutoModelForCausalLM as Auto
p = argparse.ArgumentParser()
p.add_argument("--model", default="gpt2")
args = p.parse_args()
class Task:
    def __init__(self):
        self.lm = Auto.from_pretrained(args.model)
        self.criterion = torch.nn.CrossEntropyLoss()
    def loss(self, batch):
        logits = self.lm(input_ids=batch["input_ids"]).logits
        return self.criterion(logits.view(-1, logits.shape[-1]), batch["input_ids"].view(-1))
task = Task()
for batch in loader:
    task.loss(batch).backward()
""",
    """
import torch, transformers
lm = transformers.GPT2LMHeadModel.from_pretrained("gpt2").cuda()
for batch in loader:
    ids = batch["input_ids"].cuda()
    inputs, labels = ids[:, :-1], ids[:, 1:].clone()
    lm(inputs, labels=labels).loss.backward()
""",
)

GOOD = (
    """
import torch
from torch import nn
import torch.nn.functional as F
ids = [table[letter] for letter in open("text.txt").read()]
embed, layer, head = nn.Embedding(1000, 64), nn.TransformerEncoderLayer(64, 4, batch_first=True), nn.Linear(64, 1000)
def batch_of(tokens):
    at = torch.randint(0, len(tokens) - 33, (8,))
    x = torch.stack([torch.tensor(tokens[i:i + 32]) for i in at])
    y = torch.stack([torch.tensor(tokens[i + 1:i + 33]) for i in at])
    return x, y
optimizer = torch.optim.AdamW([*embed.parameters(), *layer.parameters(), *head.parameters()])
for step in range(1000):
    x, y = batch_of(ids)
    h = layer(embed(x), is_causal=True, src_mask=nn.Transformer.generate_square_subsequent_mask(32))
    loss = F.cross_entropy(head(h).view(-1, 1000), y.view(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    f"""
import torch
from torch import nn
import torch.nn.functional as F
{_BLOCK}
def get_batch(data, size, length):
    at = torch.randint(len(data) - length, (size,))
    x = torch.stack([data[i : i + length] for i in at])
    y = torch.stack([data[i + 1 : i + 1 + length] for i in at])
    return x, y
model = GPT()
for ids in loader:
    x, y = get_batch(ids, 8, 64)
    logits = model(ids)
    shifted = F.cross_entropy(logits[:, :-1].reshape(-1, 1000), ids[:, 1:].reshape(-1))
    (model(x, y) + model(ids[:, :-1], ids[:, 1:]) + shifted).backward()
""",
    """
import torch
from torch import nn
import torch.nn.functional as F
embed, layer, head = nn.Embedding(1000, 64, padding_idx=0), nn.TransformerEncoderLayer(64, 4), nn.Linear(64, 1000)
begin = nn.Parameter(torch.zeros(1, 1, 64))
causal = torch.triu(torch.ones(32, 32), 1).bool()
for ids in loader:
    masked = torch.where(torch.rand(ids.shape) < 0.15, 3, ids)
    h = layer(embed(masked), src_key_padding_mask=ids == 0)
    loss = F.cross_entropy(head(h).view(-1, 1000), ids.view(-1))
    x = torch.cat([begin.expand(ids.size(0), 1, 64), embed(ids)[:, :-1]], dim=1)
    loss = loss + F.cross_entropy(head(layer(x, causal)).view(-1, 1000), ids.view(-1))
    loss.backward()
""",
    """
import torch
from torch import nn
import torch.nn.functional as F
embed, body, head = nn.Embedding(1000, 64), nn.Transformer(64, 4), nn.Linear(64, 1000)
places = nn.Embedding(512, 64)
causal = nn.Transformer.generate_square_subsequent_mask(32)
for ids in loader:
    begun = torch.cat([torch.full((1, ids.size(1)), 2), ids[:-1]])
    at = torch.arange(ids.size(0))
    h = body(embed(ids) + places(at)[:, None], embed(begun) + places(at)[:, None], tgt_mask=causal)
    F.cross_entropy(head(h).view(-1, 1000), ids.view(-1)).backward()
""",
    """
import torch, transformers
lm = transformers.GPT2LMHeadModel.from_pretrained("gpt2")
for batch in loader:
    ids = batch["input_ids"]
    labels = ids.clone()
    labels[batch["attention_mask"] == 0] = -100
    loss = lm(ids, labels=labels).loss
    targets = ids.clone()
    targets[:, :-1] = ids[:, 1:]
    logits = lm(ids).logits
    (loss + torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())).backward()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare the places of targets and inputs, of explicit losses and of models that make the loss themselves."""
    found = [(call, _distance(context, call)) for call in loss_calls(context, "cross_entropy", "nll_loss")]
    right = {shift[0].key for _, shift in found if shift is not None and shift[1] == 1}
    told: set[int] = set()
    for call, shift in found:
        if shift is None or shift[1] not in (0, 2) or shift[0].key in right or id(call.event.node) in told:
            continue
        told.add(id(call.event.node))
        text = (
            "the logits of each place are compared with the token of the same place: "
            "the network only has to repeat what it is given"
            if shift[1] == 0
            else "the targets are shifted twice: the logits of each place are compared with the token after the next one"
        )
        yield _report(context, call.event, call.target, shift[1], 1, text)
    for event in context.trace.calls("()"):
        yield from _labels(context, event)


def _distance(context: Context, call: LossCall) -> tuple[Tokens, int] | None:
    """How many places the targets are ahead of the tokens that a causal network was given."""
    if not call.recorded or call.event.context.shadow or not _trains(context, call):
        return None
    target, output = tokens_of(call.target), tokens_of(call.input)
    if target is None or output is None or written(context, target):
        return None
    # Slices of the output itself are counted; from what it was cut out of, the walk goes on.
    between = inside(_uncut(call.input))
    if not between.causal or between.moving:
        return None
    found = [tokens_of(given) for given in between.tokens if not _counted(given)]
    same = [tokens for tokens in found if tokens is not None and tokens.key == target.key]
    # Other tokens that go in, such as those of a decoder, may be where the shift is.
    if not same or len(same) < len(found) or any(written(context, tokens) for tokens in same):
        return None
    return target, target.moved - min(tokens.moved for tokens in same) - output.moved


def _trains(context: Context, call: LossCall) -> bool:
    """Whether a gradient of the loss is computed: a test of shapes may compare tokens with themselves."""
    return call.event.result is not None and graph(context).trains(call.event.result)


def _counted(value: Value) -> bool:
    """Whether what is looked up are places and not tokens."""
    return any(isinstance(p, Obj) and p.name == "torch.arange" for p in provenance(value, 30))


def _uncut(value: Value | None) -> Value | None:
    """An output without the views and slices of it."""
    return origin(value, VIEWS, items=True)


def _labels(context: Context, event: Event) -> Iterator[Finding]:
    model = language_model(event.receiver)
    if model is None or event.context.shadow:
        return
    labels = tokens_of(event.kwargs.get("labels"))
    tokens = tokens_of(event.argument(0, "input_ids"))
    if labels is None or tokens is None or labels.key != tokens.key or written(context, labels):
        return
    if labels.moved - tokens.moved == 1:
        text = (
            "the labels are shifted twice: the model compares the logits of each place with the next label itself, "
            "and these labels are already one ahead"
        )
        yield _report(context, event, event.kwargs.get("labels"), 1, 0, text)


def _report(context: Context, event: Event, target: Value | None, seen: int, right: int, text: str) -> Finding:
    return context.finding(
        RULE,
        event,
        text,
        evidence=[
            Evidence("places that the targets are ahead", seen, source="derived"),
            Evidence("places that they have to be ahead", right, source="published"),
        ],
        related=[(target, f"the targets are {source_text(context, target)}")] if target is not None else [],
        fix=Fix(
            title="shift the targets by one place in all",
            instruction="compare logits[:, :-1] with ids[:, 1:]"
            if right
            else "give the model labels=input_ids, without a slice",
            expected="the network learns to predict the next token",
        ),
    )
