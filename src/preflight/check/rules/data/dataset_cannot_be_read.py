"""A data set lacks what its loader calls.

## What it does
Looks for a loader over a `Dataset` of the project without `__getitem__`, without a `__len__` that its sampler asks for, or with a `__len__` that returns a quotient.

## Why
A loader asks a map-style data set for its length and for one sample after the other.
Without these methods, or with a misspelt one, it raises TypeError or NotImplementedError before the first batch; so does a length such as `len(files) / 2`, which is a float.

## Fix
Write `__len__` and `__getitem__(self, index)`, with `//` where a length is divided; or derive from `IterableDataset` and write `__iter__`.

## When to ignore
Never: no batch can be read.

## References
- PyTorch documentation, `torch.utils.data.Dataset`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.loaders import dataset_of, feeding, given, source_loaders, torch_loaders
from preflight.check.rule import Rule
from preflight.source.values import Class, Func, Known, Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="dataset-cannot-be-read",
    code="DAT024",
    severity="error",
    confidence="certain",
    needs=("loader",),
    layer="D",
    tags=("data",),
)

BAD = (
    """
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self):
        return 100
    def get_item(self, i):
        return i
for batch in DataLoader(Rows(), batch_size=8):
    print(batch)
""",
    """
import torch.utils.data as tud
class Base(tud.Dataset):
    def __getitem__(self, i):
        return i
class Rows(Base):
    def __length__(self):
        return 100
def build(size):
    return tud.DataLoader(Rows(), size, shuffle=True)
for batch in build(8):
    print(batch)
""",
    """
import argparse
from torch.utils.data import DataLoader, Dataset
parser = argparse.ArgumentParser()
parser.add_argument("--share", type=int, default=2)
args = parser.parse_args()
class Rows(Dataset):
    def __init__(self, files):
        self.files = files
    def __len__(self):
        return len(self.files) / args.share
    def __getitem__(self, i):
        return self.files[i]
loader = DataLoader(Rows(open("files").readlines()), batch_size=8)
for batch in loader:
    print(batch)
""",
)
GOOD = (
    """
from torch.utils.data import DataLoader, Dataset, IterableDataset
class Rows(Dataset):
    def __init__(self, files):
        self.files = files
    def __len__(self):
        return len(self.files) // 2
    def __getitem__(self, i):
        return self.files[i]
class Part(Rows):
    pass
class Stream(IterableDataset):
    def __iter__(self):
        yield 1
class Many(Dataset):
    def __len__(self):
        return int(100 / 3)
    def __getitems__(self, indices):
        return indices
for loader in (DataLoader(Part([1]), 8), DataLoader(Stream(), 8), DataLoader(Many(), 8)):
    for batch in loader:
        print(batch)
""",
    """
from torch.utils.data import DataLoader, Dataset, RandomSampler
from project_of_others import Reader, mixin
class Endless(Dataset):
    def __getitem__(self, i):
        return i
class Foreign(Reader, Dataset):
    pass
@mixin
class Decorated(Dataset):
    pass
for batch in DataLoader(Endless(), batch_size=8, sampler=range(100)):
    print(batch)
for batch in DataLoader(Foreign(), batch_size=8):
    print(batch)
for batch in DataLoader(Decorated(), batch_size=8):
    print(batch)
""",
)
_BASES = ("torch.utils.data.Dataset", "torch.utils.data.dataset.Dataset", "builtins.object", "abc.ABC")


def check(context: Context) -> Iterator[Finding]:
    """Find loaders that cannot get a sample of their data set."""
    iterated = {id(o) for frame in feeding(context).frames for o in source_loaders(context, frame.value)}
    for loader in torch_loaders(context):
        dataset = dataset_of(loader)
        if id(loader) not in iterated or loader.open_args or not isinstance(dataset, Obj) or dataset.cls is None:
            continue
        if (loader.context is not None and loader.context.shadow) or not _read_whole(dataset.cls):
            continue
        told = _missing(dataset.cls, loader) or _quotient(dataset.cls)
        if told is None:
            continue
        yield context.finding(
            RULE,
            dataset,
            f"{dataset.cls.qualname} {told}",
            evidence=[Evidence("data set", dataset.cls.qualname)],
            related=[(loader, "the loader")],
            fix=Fix(
                title="give the data set what its loader calls",
                instruction="write __len__, which returns an int, and __getitem__(self, index)",
                expected="the first batch can be read",
            ),
        )


def _read_whole(cls: Class) -> bool:
    """Whether all of a class is known: it is made of classes of the project and of PyTorch's ``Dataset`` alone."""
    bases = cls.external_bases()
    known = bases and all(base.split("[")[0] in _BASES for base in bases)
    plain = not any(part.decorators or part.keywords for part in cls.lineage)
    listed = all(
        isinstance(base, Class) or getattr(base, "name", "").split("[")[0] in _BASES
        for c in cls.lineage
        for base in c.bases
    )
    return bool(known and plain and listed and cls.lookup("__getattr__") is None)


def _missing(cls: Class, loader: Obj) -> str | None:
    """The method that the loader calls and the class does not have."""
    if cls.lookup("__getitem__") is None and cls.lookup("__getitems__") is None:
        return "has no __getitem__: the loader raises NotImplementedError on the first sample"
    sampled = any(_something(loader, name) for name in ("sampler", "batch_sampler"))
    if cls.lookup("__len__") is None and not sampled:
        return "has no __len__, which the loader asks for: it raises TypeError before the first batch"
    return None


def _something(loader: Obj, name: str) -> bool:
    value = given(loader, name)
    base = settle(value) if value is not None else None
    return base is not None and not (isinstance(base, Known) and base.value is None)


def _quotient(cls: Class) -> str | None:
    """Whether the length is a quotient, which is a float whatever is divided."""
    method = cls.lookup("__len__")
    if not isinstance(method, Func) or isinstance(method.node, ast.Lambda):
        return None
    returned = [n.value for statement in method.node.body for n in ast.walk(statement) if isinstance(n, ast.Return)]
    if not returned or not all(isinstance(v, ast.BinOp) and isinstance(v.op, ast.Div) for v in returned):
        return None
    return "returns a float as its length: the loader takes an int and raises TypeError"
