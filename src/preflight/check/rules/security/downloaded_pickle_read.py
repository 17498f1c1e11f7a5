"""A pickle that was fetched from elsewhere is read.

## What it does
Looks for `pickle.load`, `joblib.load`, `numpy.load(allow_pickle=True)` and `pandas.read_pickle` of fetched files.

## Why
Reading a pickle can run any code that its author put there, with your rights.
Whoever controls the server, or the way to it, controls the machine that trains.

## Fix
Use a format that is only data (safetensors, npz without pickles, parquet, JSON), or check a hash before reading.

## When to ignore
When the file is verified in a way that cannot be seen here.

## References
- Python, `pickle`: "Only unpickle data you trust"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.downloads import fetched, url_of
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import plain
from preflight.vocabulary.finding import Finding

RULE = Rule(name="downloaded-pickle-read", code="SEC003", severity="warning", confidence="likely", tags=("security",))
_READS = (
    "pickle.load", "pickle.loads", "joblib.load", "dill.load", "dill.loads", "cloudpickle.load", "cloudpickle.loads",
    "pandas.read_pickle", "numpy.load",
)  # fmt: skip

BAD = (
    """
import pickle
import urllib.request
urllib.request.urlretrieve("https://example.org/data.pkl", "data.pkl")
with open("data.pkl", "rb") as file:
    data = pickle.load(file)
""",
    """
import argparse, requests
from pickle import loads
parser = argparse.ArgumentParser()
parser.add_argument("--url", default="https://example.org/data.pkl")
args = parser.parse_args()
def vocabulary():
    return loads(requests.get(args.url).content)
vocabulary()
""",
    """
import joblib as jl
from huggingface_hub import hf_hub_download as fetch
class Data:
    repo = "someone/data"
    def read(self):
        return jl.load(fetch(self.repo, "scaler.joblib"))
Data().read()
""",
)

GOOD = (
    """
import pickle
with open("cifar/data_batch_1", "rb") as file:
    data = pickle.load(file, encoding="bytes")
""",
    """
import numpy as np
import urllib.request
urllib.request.urlretrieve("https://example.org/data.npz", "data.npz")
data = np.load("data.npz")
""",
    """
import hashlib, pickle, urllib.request
urllib.request.urlretrieve("https://example.org/data.pkl", "data.pkl")
raw = open("data.pkl", "rb").read()
if hashlib.sha256(raw).hexdigest() != "00ff":
    raise SystemExit("data.pkl is not what it should be")
data = pickle.loads(raw)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find pickles whose bytes were fetched."""
    if context.trace.calls_under("hashlib."):
        return
    for event in context.trace.calls(*_READS):
        if event.name == "numpy.load" and plain(event.kwargs.get("allow_pickle")) is not True:
            continue
        source = fetched(context, event.args[0] if event.args else None)
        if source is not None:
            yield _finding(context, event, source)


def _finding(context: Context, event: Event, source: Event) -> Finding:
    return context.finding(
        RULE,
        event,
        "a pickle that was fetched from elsewhere is read: it can run code of whoever made it, or stood in between",
        evidence=[Evidence("where the file comes from", url_of(source) or source.name)],
        fix=Fix(
            title="read a format that is only data",
            instruction="use safetensors, npz without pickles, parquet or JSON, or compare a hash before reading",
            expected="the file cannot run code",
        ),
        related=[(source, "the file is fetched here")],
    )
