"""The loss ignores another number than the padding.

## What it does
Compares the `ignore_index` of cross entropy with the number that fills the targets up: the `padding_value` of `pad_sequence`, or the `padding_idx` of the embedding of the same vocabulary.
It also reports a causal model of transformers whose `labels` are the `input_ids` of a padding tokenizer, or set to 0 where they are to be left out: only labels of -100 are ignored.

## Why
Padding then counts as targets: in a batch that is half padding, half of the loss is about predicting nothing, and reported perplexities are far too good.
The token whose number is ignored instead is never learned.

## Fix
Set `ignore_index` to the padding id, fill targets up with -100, or set `labels[labels == pad] = -100`.

## When to ignore
When the end of a sequence is taught by its first padding token.

## References
- PyTorch documentation of CrossEntropyLoss: ignore_index is -100 by default
- transformers documentation of GPT2LMHeadModel: labels set to -100 are ignored
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.losses import LossCall, loss_calls
from preflight.check.queries.shapes import width
from preflight.check.queries.tensors import VIEWS, module_of, origin
from preflight.check.queries.token_positions import collated, language_model, pads, tokenized, tokens_of, written
from preflight.check.rule import Rule
from preflight.source.trace import Event, provenance
from preflight.source.values import Obj, Value, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="ignore-index-is-not-padding",
    code="LOS008",
    severity="warning",
    confidence="likely",
    layer="C",
    tags=("loss",),
)

BAD = (
    """
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
def collate(samples):
    xs, ys = zip(*samples)
    return pad_sequence(xs, batch_first=True), pad_sequence(ys, batch_first=True, padding_value=0)
net = nn.Sequential(nn.Embedding(100, 32, padding_idx=0), nn.Linear(32, 9))
criterion = nn.CrossEntropyLoss()
for x, y in DataLoader(tags, batch_size=8, shuffle=True, collate_fn=collate):
    criterion(net(x).transpose(1, 2), y).backward()
""",
    """
import argparse, torch
import torch.nn.functional as F
p = argparse.ArgumentParser()
p.add_argument("--pad", type=int, default=1)
args = p.parse_args()
class Model(torch.nn.Module):
    def __init__(self, words=5000):
        super().__init__()
        self.embed = torch.nn.Embedding(words, 64, padding_idx=args.pad)
        self.rnn, self.out = torch.nn.GRU(64, 64), torch.nn.Linear(64, words)
    def forward(self, ids):
        return self.out(self.rnn(self.embed(ids))[0])
model = Model()
for ids in loader:
    logits = model(ids[:-1])
    F.cross_entropy(logits.view(-1, 5000), ids[1:].view(-1), ignore_index=0).backward()
""",
    """
from transformers import AutoTokenizer as Tok, AutoModelForCausalLM
tokenizer = Tok.from_pretrained("gpt2")
tokenizer.pad_token = tokenizer.eos_token
lm = AutoModelForCausalLM.from_pretrained("gpt2")
def loss_of(texts):
    batch = tokenizer(texts, padding=True, truncation=True, return_tensors="pt").to("cuda")
    return lm(**batch, labels=batch["input_ids"]).loss
for texts in loader:
    loss_of(texts).backward()
""",
    """
import copy, torch
from torch.utils.data import Dataset, DataLoader
from transformers import LlamaForCausalLM, LlamaTokenizer, default_data_collator
class Instructions(Dataset):
    def __init__(self, texts, tokenizer):
        self.texts, self.tokenizer = texts, tokenizer
    def __len__(self):
        return len(self.texts)
    def __getitem__(self, index):
        example = torch.tensor(self.tokenizer.encode(self.texts[index]), dtype=torch.int64)
        labels = copy.deepcopy(example)
        labels[:10] = -1
        label_mask = labels.ge(0)
        labels[~label_mask] = 0
        return {"input_ids": example, "labels": labels}
tokenizer = LlamaTokenizer.from_pretrained("meta-llama/Llama-2-7b-hf")
model = LlamaForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf")
loader = DataLoader(Instructions(texts, tokenizer), batch_size=4, shuffle=True, collate_fn=default_data_collator)
for batch in loader:
    model(**batch).loss.backward()
""",
)

GOOD = (
    """
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
def collate(samples):
    xs, ys = zip(*samples)
    return pad_sequence(xs, batch_first=True), pad_sequence(ys, batch_first=True, padding_value=-100)
net = nn.Sequential(nn.Embedding(100, 32, padding_idx=0), nn.Linear(32, 9))
for x, y in DataLoader(tags, batch_size=8, shuffle=True, collate_fn=collate):
    loss = nn.functional.cross_entropy(net(x).transpose(1, 2), y)
    each = nn.functional.cross_entropy(net(x).transpose(1, 2), x, reduction="none")
    (loss + (each * (x != 0)).mean()).backward()
""",
    """
import torch.nn as nn
source, target = nn.Embedding(8000, 64, padding_idx=1), nn.Embedding(5000, 64, padding_idx=0)
body, out, tagger = nn.Transformer(64, 4), nn.Linear(64, 5000), nn.Linear(64, 12)
criterion = nn.CrossEntropyLoss(ignore_index=0)
for src, tgt, tags in loader:
    h = body(source(src), target(tgt[:, :-1]), src_key_padding_mask=src == 1)
    loss = criterion(out(h).flatten(0, 1), tgt[:, 1:].flatten())
    (loss + nn.functional.cross_entropy(tagger(source(src)).flatten(0, 1), tags.flatten(), ignore_index=11)).backward()
""",
    """
from transformers import AutoTokenizer, AutoModelForCausalLM
tokenizer = AutoTokenizer.from_pretrained("gpt2")
lm = AutoModelForCausalLM.from_pretrained("gpt2")
for texts in loader:
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    labels = batch["input_ids"].clone()
    labels[labels == tokenizer.pad_token_id] = -100
    plain = tokenizer(texts, return_tensors="pt")
    loss = lm(**batch, labels=labels).loss + lm(**plain, labels=plain["input_ids"]).loss
    loss = loss + lm(**batch, labels=batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)).loss
    loss.backward()
""",
    """
import copy, torch
from torch.utils.data import Dataset, DataLoader
from transformers import LlamaForCausalLM, LlamaTokenizer, default_data_collator
class Instructions(Dataset):
    def __init__(self, texts, tokenizer):
        self.texts, self.tokenizer = texts, tokenizer
    def __len__(self):
        return len(self.texts)
    def __getitem__(self, index):
        example = torch.tensor(self.tokenizer.encode(self.texts[index]), dtype=torch.int64)
        labels = copy.deepcopy(example)
        labels[:10] = -1
        label_mask = labels.ge(0)
        labels[~label_mask] = -100
        labels[labels == 1] = 0
        return {"input_ids": example, "labels": labels}
tokenizer = LlamaTokenizer.from_pretrained("meta-llama/Llama-2-7b-hf")
model = LlamaForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf")
loader = DataLoader(Instructions(texts, tokenizer), batch_size=4, shuffle=True, collate_fn=default_data_collator)
for batch in loader:
    model(**batch).loss.backward()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare what is ignored with what fills up."""
    told: set[int] = set()
    for call in loss_calls(context, "cross_entropy", "nll_loss"):
        ignored = plain(call.option("ignore_index"), -100 if call.option("ignore_index") is None else None)
        if not isinstance(ignored, int) or call.event.context.shadow or id(call.event.node) in told:
            continue
        if call.reduction == "none" or (call.criterion is not None and call.criterion.open_args):
            continue  # masked afterwards
        found = _filled(context, call, ignored) or _looked_up(call, ignored)
        if found is not None:
            told.add(id(call.event.node))
            yield _report(context, call, ignored, found)
    for event in context.trace.calls("()"):
        if id(event.node) not in told and _unmasked(context, event):
            told.add(id(event.node))
            yield _labels(context, event)
    yield from _masked_with_zero(context)


def _filled(context: Context, call: LossCall, ignored: int) -> tuple[int, Obj, str] | None:
    """The number that ``pad_sequence`` fills the targets up with, when it is another one."""
    target = origin(call.target, VIEWS | {"long"})
    made = origin(collated(context, target), VIEWS | {"long"}) or target
    if made is None or not made.name.endswith("rnn.pad_sequence"):
        return None
    value = plain(made.argument(2, "padding_value"), 0 if made.argument(2, "padding_value") is None else None)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or value == ignored:
        return None
    return int(value), made, "padding_value of the targets"


def _looked_up(call: LossCall, ignored: int) -> tuple[int, Obj, str] | None:
    """The padding id of the embedding of the vocabulary that is predicted, when no embedding has the ignored one."""
    classes = width(call.input)
    if call.option("ignore_index") is None or ignored < 0 or classes is None:
        return None
    found: list[tuple[int, Obj]] = []
    for part in provenance(call.input, 3000):
        module = module_of(part) if isinstance(part, Obj) else None
        if module is None or module.name != "torch.nn.Embedding" or module.cls is not None:
            continue
        given = module.argument(2, "padding_idx")
        padding = plain(given) if given is not None else None
        if padding == ignored or (given is not None and padding is None):
            return None
        if isinstance(padding, int) and plain(module.argument(0, "num_embeddings")) == classes:
            found.append((padding, module))
    return (*found[0], "padding_idx of the embedding") if found else None


def _report(context: Context, call: LossCall, ignored: int, found: tuple[int, Obj, str]) -> Finding:
    padding, source, what = found
    return context.finding(
        RULE,
        call.event,
        f"{call.name} ignores targets of {ignored}, but padding is {padding}: it counts in the loss",
        evidence=[Evidence("ignore_index", ignored), Evidence(what, padding)],
        related=[(source, "the padding is decided here")],
        fix=Fix(
            title=f"ignore {padding}",
            instruction=f"set ignore_index={padding}, or fill the targets up with {ignored}",
            expected="the loss is the mean over real targets",
        ),
    )


def _unmasked(context: Context, event: Event) -> Obj | None:
    """The padding call of a tokenizer whose ids are the labels of a model as they are."""
    given = event.kwargs.get("labels")
    if event.context.shadow or language_model(event.receiver) is None or given is None:
        return None
    call, labels = tokenized(given), tokens_of(given)
    if call is None or labels is None or not pads(call) or _touched(context, labels.path, given):
        return None
    return call if labels.key[0] == "entry" and labels.key[-1] == "input_ids" else None


def _touched(context: Context, path: tuple[int, ...], given: Value) -> bool:
    """Whether anything is written into the labels: usually -100 where there is padding."""
    written_to = any(s.name.startswith("[") and id(s.target) in path for s in context.trace.stores)
    found = tokens_of(given)
    return written_to or (found is not None and written(context, found))


def _labels(context: Context, event: Event) -> Finding:
    source = _unmasked(context, event)
    assert source is not None
    return context.finding(
        RULE,
        event,
        "the labels are the padded input_ids as they are: only labels of -100 are ignored, so padding counts in the loss",
        evidence=[
            Evidence("ignored label", -100, source="published"),
            Evidence("padding of the tokenizer", plain(source.kwargs.get("padding"))),
        ],
        related=[(source, "the texts are filled up here")],
        fix=Fix(
            title="set the labels of padding to -100",
            instruction='labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)',
            expected="the loss is the mean over real tokens",
        ),
    )


def _masked_with_zero(context: Context) -> Iterator[Finding]:
    """A data set for a causal model that writes 0 where its labels are to be ignored."""
    if not any(language_model(e.receiver) is not None for e in context.trace.calls("()")):
        return
    for name, events in context.trace.by_name.items():
        made = events[0].result if name.endswith(".__getitem__") and events[0].inlined else None
        entries = getattr(settle(made), "entries", {}) if made is not None else {}
        if not {"input_ids", "labels"} <= set(entries):
            continue
        labels, tokens = settle(entries["labels"]), settle(entries["input_ids"])
        stores = [s for s in context.trace.stores if s.name.startswith("[") and settle(s.target) is labels]
        zeros = [s for s in stores if _is_masked(s.node) and plain(s.value) == 0 and plain(s.value) is not False]
        if not zeros or any(plain(s.value) == -100 for s in stores) or tokens not in list(provenance(labels, 20)):
            continue
        yield context.finding(
            RULE,
            zeros[-1],
            "labels that are to be left out are set to 0, but only -100 is ignored: token 0 is trained there",
            evidence=[Evidence("label written", 0), Evidence("ignored label", -100, source="published")],
            fix=Fix(
                title="write -100",
                instruction="set the labels of prompt and padding to -100",
                expected="the loss is the mean over the tokens to learn",
            ),
        )


def _is_masked(node: ast.AST) -> bool:
    """Whether an assignment writes where a condition holds: ``labels[~mask] = ...``."""
    targets = node.targets if isinstance(node, ast.Assign) else [node]
    target = targets[0]
    inner = target.slice if isinstance(target, ast.Subscript) else None
    return isinstance(inner, ast.Compare) or (isinstance(inner, ast.UnaryOp) and isinstance(inner.op, ast.Invert))
