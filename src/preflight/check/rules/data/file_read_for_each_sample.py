"""The same file is read again for each sample.

## What it does
Looks for a call in `Dataset.__getitem__` that reads or opens a file whose path does not depend on the index.

## Why
Parsing a table takes time in proportion to its size, and here it is done once per sample: with n rows an epoch parses n x n rows.
Even opening an HDF5 or LMDB file reads its metadata again, over the network where the file is there.

## Fix
Read the table in `__init__`; open handles that cannot be shared between processes lazily, once per worker.

## When to ignore
When the dataset has only a few samples.

## References
- h5py documentation, "Multiprocessing and parallel access"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.names_in_text import names_in
from preflight.check.rule import Rule
from preflight.source.trace import Context as Frame
from preflight.source.trace import Event, provenance
from preflight.source.values import Func, Obj, Value
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="file-read-for-each-sample",
    code="DAT011",
    severity="warning",
    confidence="likely",
    layer="D",
    tags=("data",),
)

BAD = (
    """
import pandas as pd
from torch.utils.data import Dataset
class Rows(Dataset):
    def __init__(self, path):
        self.path = path
    def __getitem__(self, i):
        return pd.read_csv(self.path).iloc[i].values
    def __len__(self):
        return 100
Rows("x.csv")[0]
""",
    """
import json
from torch.utils import data
def notes(folder):
    with open(folder + "/notes.json") as file:
        return json.load(file)
class Pictures(data.Dataset):
    def __getitem__(self, index):
        return notes(self.folder)[index]
    def __len__(self):
        return 100
""",
    """
import argparse, h5py, torch
class Signals(torch.utils.data.Dataset):
    def __init__(self, args):
        self.args = args
    def __getitem__(self, i):
        with h5py.File(self.args.file, "r") as f:
            return torch.from_numpy(f["x"][i])
    def __len__(self):
        return 100
parser = argparse.ArgumentParser()
parser.add_argument("--file", default="x.h5")
signals = Signals(parser.parse_args())
""",
)
GOOD = (
    """
import json, numpy, h5py
from torch.utils.data import Dataset
class Pictures(Dataset):
    def __init__(self):
        self.handle = None
    def __getitem__(self, index):
        if self.handle is None:
            self.handle = h5py.File("x.h5", "r")
        with open(f"{self.folder}/{index}.json") as file:
            note = json.load(file)
        name = self.names[index]
        return numpy.load(name), note, self.handle["x"][index]
    def __len__(self):
        return 100
""",
    """
import numpy as np
from torch.utils.data import Dataset
class Tokens(Dataset):
    def __getitem__(self, i):
        data = np.load("tokens.npy", mmap_mode="r")
        return data[i:i + 10]
    def __len__(self):
        return 100
class Files:
    def __getitem__(self, key):
        import pandas
        return pandas.read_csv("x.csv")[key]
""",
    """
import random
import numpy as np
from torch.utils.data import Dataset
class Crops(Dataset):
    def __init__(self, paths):
        self.paths = paths
    def __len__(self):
        return 10_000
    def __getitem__(self, i):
        return np.load(random.choice(self.paths))
Crops(["a.npy"])[0]
""",
    """
import glob, os
import numpy as np
from torch.utils.data import Dataset
class Pictures(Dataset):
    def __init__(self, root):
        self.root = root
        self.files = sorted(f for f in glob.glob(root + "/**/*.npy") if os.path.isfile(f))
        self.notes = [os.path.join(d, f) for d, _, files in os.walk(root) for f in files]
    def __len__(self):
        return len(self.files)
    def __getitem__(self, index):
        name = os.path.basename(self.files[index])
        path, note = os.path.join(self.root, name), self.notes[index]
        return np.load(path), np.load(self.files[index]), np.load(note)
Pictures("x")[0]
""",
)

_PARSERS = (
    "pandas.read_csv", "pandas.read_parquet", "pandas.read_json", "pandas.read_excel", "pandas.read_pickle", "pandas.read_feather",
    "json.load", "pickle.load", "numpy.load", "numpy.loadtxt", "numpy.genfromtxt", "torch.load", "yaml.safe_load", "yaml.load",
    "scipy.io.loadmat", "joblib.load", "polars.read_csv", "polars.read_parquet",
)  # fmt: skip
_HANDLES = (
    "h5py.File",
    "lmdb.open",
    "zipfile.ZipFile",
    "tarfile.open",
    "sqlite3.connect",
    "netCDF4.Dataset",
    "zarr.open",
    "xarray.open_dataset",
)


_DRAWS = frozenset(("choice", "choices", "sample", "integers", "randint"))


def check(context: Context) -> Iterator[Finding]:
    """Find reads in ``__getitem__`` that do not depend on the index."""
    for event in context.trace.calls(*_PARSERS, *_HANDLES):
        getter = _getter(event)
        if getter is None or not event.args or "mmap_mode" in event.kwargs:
            continue
        func, frame, call = getter
        index = _index(context, func, frame)
        if (
            index is None
            or _names_index(func, call)
            or any(part is index or _drawn(part) for value in event.args for part in provenance(value, 200))
        ):
            continue
        handle = event.name in _HANDLES
        told = "is opened again for each sample" if handle else "is read and parsed as a whole for each sample"
        yield context.finding(
            RULE,
            event,
            f"the file given to {event.name} does not depend on the index, and {told}",
            evidence=[Evidence("call", event.name), Evidence("called in", func.qualname)],
            fix=Fix(
                title="read the file once",
                instruction="open the file when it is first needed and keep the handle (one per worker)"
                if handle
                else "read the file in __init__ and index the result here",
                expected="a sample costs a look-up instead of a read of the file",
            ),
            severity="info" if handle else None,
        )


def _drawn(value: Value) -> bool:
    """Whether a value is drawn by chance: another file for each sample, though not by its index."""
    return isinstance(value, Obj) and (
        value.name.startswith(("random.", "numpy.random.", "torch.rand")) or value.name.rpartition(".")[2] in _DRAWS
    )


def _getter(event: Event) -> tuple[Func, Frame, ast.AST] | None:
    """The ``__getitem__`` of a dataset that an event is always reached in, and the call in it that leads there."""
    inner: ast.AST = event.node
    for frame in event.context.frames():
        if frame.kind in ("if", "try", "except", "loop"):
            return None
        func = frame.value
        call = inner
        if isinstance(func, Func):
            if _conditional(func.node, inner):
                return None
            inner = frame.node or inner
        if frame.kind in ("call", "root") and isinstance(func, Func) and func.qualname.endswith(".__getitem__"):
            owner = func.owner
            if owner is not None and any(n.startswith("torch.utils.data.") for n in owner.external_bases()):
                return func, frame, call
    return None


def _conditional(function: ast.AST, call: ast.AST) -> bool:
    """Whether a call stands in a branch of a function: a file that is opened only when it is not open yet."""
    branches = (n for n in ast.walk(function) if isinstance(n, (ast.If, ast.IfExp, ast.Try)))
    return any(part is call for branch in branches for part in ast.walk(branch))


def _names_index(func: Func, call: ast.AST) -> bool:
    """Whether a call in ``__getitem__`` is given something that was made from the index.

    An item of a list whose length is not known is one value for all indexes, and does not tell where it comes from.
    """
    assert isinstance(func.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    names = {argument.arg for argument in func.node.args.args[1:2]}
    bindings = [pair for node in ast.walk(func.node) for pair in _bindings(node)]
    for _ in bindings:
        more = {n for value, target in bindings if _reads(value, names) for n in names_in(target)} - names
        if not more:
            break
        names |= more
    given = (*call.args, *(k.value for k in call.keywords)) if isinstance(call, ast.Call) else ()
    return any(_reads(argument, names) for argument in given)


def _bindings(node: ast.AST) -> list[tuple[ast.AST, ast.AST]]:
    """What a node binds to which target: an assignment, a loop, a ``with``."""
    if isinstance(node, ast.Assign):
        return [(node.value, target) for target in node.targets]
    if isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        return [(node.value, node.target)]
    if isinstance(node, (ast.For, ast.comprehension)):
        return [(node.iter, node.target)]
    if isinstance(node, ast.withitem) and node.optional_vars is not None:
        return [(node.context_expr, node.optional_vars)]
    return []


def _reads(value: ast.AST, names: set[str]) -> bool:
    return not names.isdisjoint(names_in(value))


def _index(context: Context, func: Func, frame: Frame) -> Value | None:
    """What the index was when the method was followed."""
    for event in reversed(context.trace.calls(func.qualname)):
        if len(event.args) > 1 and (event.context is frame or event.context is frame.parent):
            return event.args[1]
    return None
