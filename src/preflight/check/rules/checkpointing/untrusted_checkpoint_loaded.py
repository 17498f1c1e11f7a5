"""A checkpoint is unpickled without weights_only.

## What it does
Looks for `torch.load` without `weights_only=True`.
It warns where the file is fetched from elsewhere; for files of one's own it only notes it.

## Why
A checkpoint is a pickle, and reading a pickle can run any code that its author put there.
Before PyTorch 2.6 that is what `torch.load` does by default; `weights_only=False` asks for it in every version.

## Fix
Pass `weights_only=True`: tensors, numbers, text and containers are read, nothing is run.

## When to ignore
When the file is your own and holds more than weights.

## References
- PyTorch 2.6 release notes: the default of weights_only is True
- CVE-2025-32434: before PyTorch 2.6 even weights_only=True could be tricked
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.downloads import fetched, url_of
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Known, settle
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="untrusted-checkpoint-loaded",
    code="CKP008",
    severity="warning",
    confidence="likely",
    layer="D",
    tags=("checkpoint", "security"),
)

BAD = (
    """
import torch
from torch.hub import download_url_to_file
download_url_to_file("https://example.org/model.pt", "model.pt")
state = torch.load("model.pt")
""",
    """
import argparse
import torch as t
from huggingface_hub import hf_hub_download as fetch
parser = argparse.ArgumentParser()
parser.add_argument("--repo", default="someone/model")
args = parser.parse_args()
def weights():
    path = fetch(args.repo, "model.bin")
    return t.load(path, map_location="cpu", weights_only=False)
weights()
""",
    """
import io
import requests
from torch import load
class Zoo:
    address = "https://example.org/model.pt"
    def get(self):
        data = requests.get(self.address).content
        return load(io.BytesIO(data))
Zoo().get()
""",
    """
import torch
state = torch.load("mine.pt", map_location="cpu")
""",
)

GOOD = (
    """
import torch
from torch.hub import download_url_to_file
download_url_to_file("https://example.org/model.pt", "model.pt")
state = torch.load("model.pt", weights_only=True)
""",
    """
import torch
from functools import partial
OPTIONS = dict(map_location="cpu", weights_only=True)
read = partial(torch.load, **OPTIONS)
state = read("model.pt")
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look at each call of torch.load."""
    for event in context.trace.calls("torch.load"):
        given = event.argument(-1, "weights_only")
        settled = settle(given) if given is not None else None
        if settled is not None and not (isinstance(settled, Known) and not settled.value):
            continue
        if getattr(event.result, "open_args", False):
            continue
        source = fetched(context, event.argument(0, "f"))
        yield _finding(context, event, source, settled is not None)


def _finding(context: Context, event: Event, source: Event | None, said: bool) -> Finding:
    how = "with weights_only=False" if said else "without weights_only"
    risk = "reading it can run code of whoever made it" + ("" if said else " (the default before PyTorch 2.6)")
    origin = (url_of(source) or source.name) if source is not None else "a file of this machine, as far as was seen"
    return context.finding(
        RULE,
        event,
        f"a checkpoint {'that was fetched from elsewhere ' if source is not None else ''}is read {how}: {risk}",
        severity="warning" if source is not None else "info",
        evidence=[
            Evidence("where the file comes from", origin),
            Evidence("weights_only", False if said else "not given"),
        ],
        fix=Fix(
            title="pass weights_only=True",
            edits=edits(_edit(context, event, said)) if not said else (),
            instruction="pass weights_only=True, or use safetensors",
            expected="the file is read as data",
        ),
        related=[(source, "the file is fetched here")] if source is not None else [],
    )


def _edit(context: Context, event: Event, said: bool) -> Edit | None:
    return None if said else context.add_argument(event, "weights_only=True")
