"""Predictions of the next token depend on the tokens that come after it.

## What it does
Reads networks that are trained on the next of their own input tokens: attention of PyTorch's own in them has to be given a mask.
In a dry run it is tried: it runs the model on the CPU with real numbers, changes the later half of the tokens, and looks at the predictions of the earlier half.
Only models are judged whose targets in this run are their own input tokens, one or more places later; an encoder that is trained on masked tokens is not one.
It finds which way information flows, whatever was learnt of it; that a target is handed to the model through another input finds target-visible-to-model, which trains it.

## Why
A language model that sees the token it has to predict copies it.
The loss falls fast and far below what is possible, and generation, where later tokens do not exist, gives nonsense.
Causes are a mask that is missing, of the wrong sign or off by one, a recurrent layer that is bidirectional, a convolution that is padded on both sides, or a normalisation over time.

## Fix
Let position t see positions up to t: `is_causal=True`, or a boolean mask that is True above the diagonal where True means forbidden (`nn.MultiheadAttention`), and True on and below it where True means allowed (`scaled_dot_product_attention`).

## When to ignore
When later tokens are meant to be seen, as in a prefix that is not predicted.

## References
- Vaswani et al., "Attention Is All You Need" (2017), section 3.2.3
- PyTorch documentation of torch.nn.functional.scaled_dot_product_attention and torch.nn.MultiheadAttention
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.losses import LossCall, loss_calls
from preflight.check.queries.tensors import VIEWS, graph, operation, origin
from preflight.check.queries.token_positions import inside, tokens_of, written
from preflight.check.rule import Rule
from preflight.source.trace import provenance
from preflight.source.values import Obj, Value, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="predictions-see-later-tokens",
    code="ATT006",
    severity="error",
    confidence="likely",
    layer="D",
    tags=("attention", "loss"),
)

_MODEL = """
import torch
from torch import nn
import torch.nn.functional as F
class LM(nn.Module):
    def __init__(self, vocabulary=1000, width=128):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(width, 4, batch_first=True) for _ in range(2))
        self.head = nn.Linear(width, vocabulary)
    def forward(self, ids):
        h = self.embed(ids)
        mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1))
        for block in self.blocks:
            h = block(h, src_mask=mask)
        return self.head(h)
model = LM()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
"""
_LOOP = """
for ids in loader:
    loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

BAD = (
    _MODEL.replace("block(h, src_mask=mask)", "block(h)") + _LOOP,
    """
import argparse, torch
from torch import nn
import torch.nn.functional as F
p = argparse.ArgumentParser()
p.add_argument("--length", type=int, default=128)
args = p.parse_args()
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(256, 64), nn.Linear(64, 256)
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, batch_first=True), 6)
    def forward(self, x):
        return self.head(self.body(self.embed(x)))
net = Model().cuda()
optimizer = torch.optim.Adam(net.parameters())
def draw(text):
    at = torch.randint(0, len(text) - args.length - 1, (32,))
    x = torch.stack([text[i : i + args.length] for i in at])
    y = torch.stack([text[i + 1 : i + args.length + 1] for i in at])
    return x.cuda(), y.cuda()
for step in range(1000):
    x, y = draw(text)
    optimizer.zero_grad()
    F.cross_entropy(net(x).view(-1, 256), y.view(-1)).backward()
    optimizer.step()
""",
    """
import torch
import torch.nn as nn
import torch.nn.functional as F
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.qkv, self.head = nn.Embedding(64, 32), nn.Linear(32, 96), nn.Linear(32, 64)
    def forward(self, ids):
        q, k, v = self.qkv(self.embed(ids)).chunk(3, -1)
        return self.head(F.scaled_dot_product_attention(q, k, v))
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for ids in loader:
    logits = net(ids)
    opt.zero_grad()
    F.cross_entropy(logits[:, :-1].reshape(-1, 64), ids[:, 1:].reshape(-1)).backward()
    opt.step()
""",
)

GOOD = (
    _MODEL + _LOOP,
    # Masked tokens are predicted from both sides.
    _MODEL.replace("block(h, src_mask=mask)", "block(h)")
    + """
for ids in loader:
    hidden = torch.rand(ids.shape) < 0.15
    loss = F.cross_entropy(model(ids.masked_fill(hidden, 0)).flatten(0, 1), ids.flatten())
    loss.backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
import torch.nn.functional as F
class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.source, self.target, self.head = nn.Embedding(64, 32), nn.Embedding(64, 32), nn.Linear(32, 64)
        self.reader = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, batch_first=True), 2)
        self.writer = nn.TransformerDecoderLayer(32, 4, batch_first=True)
    def forward(self, source, target):
        mask = torch.triu(torch.ones(target.size(1), target.size(1), dtype=torch.bool), 1)
        return self.head(self.writer(self.target(target), self.reader(self.source(source)), tgt_mask=mask))
net = Translator()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for source, target in loader:
    opt.zero_grad()
    F.cross_entropy(net(source, target[:, :-1]).flatten(0, 1), target[:, 1:].flatten()).backward()
    opt.step()
""",
)

_LAYERS = {"TransformerEncoderLayer": 1, "TransformerEncoder": 1, "MultiheadAttention": 3}
"""Layers with attention within one sequence, and how many tensors they are given where no mask is among them."""
_MASKS = ("mask", "src_mask", "attn_mask", "is_causal", "src_key_padding_mask", "key_padding_mask")


def check(context: Context) -> Iterator[Finding]:
    """Look for attention without a mask between tokens and the loss of the next ones."""
    for call in loss_calls(context, "cross_entropy"):
        seeing = _seeing(context, call)
        if seeing is None:
            continue
        yield context.finding(
            RULE,
            seeing,
            "the network is trained on the next of its own tokens, and its attention is given no mask: it sees what it has to predict",
            evidence=[Evidence("places that the targets are ahead", 1, source="derived"), Evidence("masks", 0)],
            fix=Fix(
                title="hide later tokens from each position",
                safe=False,
                instruction="give the layer mask=nn.Transformer.generate_square_subsequent_mask(length) and is_causal=True",
                expected="the network learns to predict instead of to copy",
            ),
            related=[(call.event, "the loss of the next tokens")],
        )
        return


def _seeing(context: Context, call: LossCall) -> Obj | None:
    """Attention that sees later tokens, where the loss is that of the next token of what the network is given."""
    result = call.event.result
    if not call.recorded or call.event.context.shadow or result is None or not graph(context).trains(result):
        return None
    target, output = tokens_of(call.target), tokens_of(call.input)
    if target is None or output is None or written(context, target):
        return None
    whole = origin(call.input, VIEWS, items=True)
    between = inside(whole)
    found = [tokens for given in between.tokens if (tokens := tokens_of(given)) is not None]
    same = [tokens for tokens in found if tokens.key == target.key]
    if between.causal or between.moving or not same or any(written(context, tokens) for tokens in same):
        return None
    if target.moved - min(tokens.moved for tokens in same) - output.moved != 1:
        return None
    return _unmasked(whole)


def _unmasked(output: Value | None) -> Obj | None:
    """A layer with attention that is given no mask, where all that are on the way to an output are given none."""
    first: Obj | None = None
    for part in provenance(output, 2000):
        if not isinstance(part, Obj) or part.kind != "call":
            continue
        layer = settle(part.receiver) if part.name == "()" and part.receiver is not None else None
        kind = layer.name.removeprefix("torch.nn.") if isinstance(layer, Obj) and layer.cls is None else ""
        if kind in _LAYERS:
            if len(part.args) > _LAYERS[kind] or any(name in part.kwargs for name in _MASKS) or part.open_args:
                return None
            first = first or part
        elif operation(part) == "scaled_dot_product_attention":
            if part.argument(3, "attn_mask") is not None or plain(part.argument(5, "is_causal"), False) is not False:
                return None
            first = first or part
        elif operation(part) in ("softmax", "masked_fill", "masked_fill_", "where") or kind.startswith("Transformer"):
            return None  # attention or masks of the script's own
    return first
