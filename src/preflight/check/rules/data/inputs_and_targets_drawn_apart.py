"""Inputs and targets are brought into different orders.

## What it does
Looks for a `TensorDataset` whose tensors come from two calls of `train_test_split`, from arrays that two calls of `shuffle` arranged, or were indexed by two permutations, without one seed in both.

## Why
Each call draws an order of its own.
Row 7 of the inputs then stands beside the target of another row: there is nothing left to learn, and the loss stays where guessing puts it.

## Fix
Split both in one call, `train_test_split(x, y)`, or draw one permutation and index both with it.

## When to ignore
When a seed is set right before each of the calls by means that cannot be seen.
Two permutations are told as a warning: samples of two kinds may be paired at random on purpose, as where images are brought from one style to another.

## References
- scikit-learn documentation, `sklearn.model_selection.train_test_split`
- NumPy documentation, `numpy.random.shuffle`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.tensors import VIEWS, operand, operation
from preflight.check.rule import Rule
from preflight.source.trace import Event, provenance
from preflight.source.values import Known, Obj, Value, options_of, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="inputs-and-targets-drawn-apart",
    code="DAT025",
    severity="error",
    confidence="likely",
    layer="D",
    tags=("data",),
)

BAD = (
    """
import numpy as np, torch
from sklearn.model_selection import train_test_split
from torch.utils.data import TensorDataset
x, y = np.load("x.npy"), np.load("y.npy")
x_train, x_test = train_test_split(x, test_size=0.2)
y_train, y_test = train_test_split(y, test_size=0.2)
data = TensorDataset(torch.tensor(x_train), torch.tensor(y_train))
""",
    """
import numpy
import torch
import torch.utils.data as tud
x, y = numpy.load("x.npy"), numpy.load("y.npy")
def mix(array):
    numpy.random.shuffle(array)
mix(x)
mix(y)
data = tud.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
""",
    """
import argparse, torch
import sklearn.model_selection as ms
from torch.utils.data import TensorDataset
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()
x, y = torch.load("rows.pt")
a = ms.train_test_split(x, random_state=args.seed)
b = ms.train_test_split(y, random_state=args.seed + 1)
data = TensorDataset(a[0], b[0])
""",
    """
import torch
from torch.utils.data import TensorDataset
x, y = torch.load("rows.pt")
order = torch.randperm(len(x))
x = x[order]
y = y[torch.randperm(len(y))]
data = TensorDataset(x[:800], y[:800])
""",
)
GOOD = (
    """
import torch
from torch.utils.data import TensorDataset
x, y = torch.load("rows.pt")
order = torch.randperm(len(x))
x, y = x[order], y[order]
again = torch.randperm(len(x))[:800]
data = TensorDataset(x[again], y[again])
other = TensorDataset(x[torch.randperm(len(x))], torch.randint(2, (len(x),)))
noisy = TensorDataset(x[order], y[order], torch.randn(len(x), 4)[torch.randperm(len(x))])
pairs = TensorDataset(x[torch.randperm(len(x))], x[torch.randperm(len(x))])
""",
    """
import numpy as np, torch
from sklearn.model_selection import train_test_split
from torch.utils.data import TensorDataset
x, y, z = np.load("x.npy"), np.load("y.npy"), np.load("z.npy")
x_all, x_test, y_all, y_test = train_test_split(x, y, test_size=0.2)
x_train, x_val, y_train, y_val = train_test_split(x_all, y_all, test_size=0.2)
z_train, z_test = train_test_split(z, random_state=0)
w_train, w_test = train_test_split(y, random_state=0)
a = TensorDataset(torch.tensor(x_train), torch.tensor(y_train))
b = TensorDataset(torch.tensor(z_train), torch.tensor(w_train))
""",
    """
import numpy as np, torch
from torch.utils.data import TensorDataset
x, y = np.load("x.npy"), np.load("y.npy")
np.random.seed(0)
np.random.shuffle(x)
np.random.seed(0)
np.random.shuffle(y)
rows = np.load("rows.npy")
np.random.shuffle(rows)
a = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
b = TensorDataset(torch.from_numpy(rows[:, :-1]), torch.from_numpy(rows[:, -1]))
""",
)
_SPLIT = "sklearn.model_selection.train_test_split"
_SHUFFLES = ("numpy.random.shuffle", "random.shuffle")
_SEEDS = ("torch.manual_seed", "numpy.random.seed", "numpy.random.set_state", "random.seed", "random.setstate")
_PERMUTATIONS = ("torch.randperm", "numpy.random.permutation")
_DRAWN = ("torch.rand", "torch.normal", "numpy.random.")
_CASTS = frozenset({"tensor", "from_numpy", "as_tensor", "FloatTensor", "LongTensor"})
_REACH, _NEAR, _DEEP = 150, 12, 12


def check(context: Context) -> Iterator[Finding]:
    """Find inputs and targets whose orders were drawn by two calls."""
    seen: set[int] = set()
    for event in context.trace.calls("torch.utils.data.TensorDataset"):
        if len(event.args) < 2 or event.context.shadow:
            continue
        for find in (_split, _shuffled, _permuted):
            orders = [find(context, value) for value in event.args]
            first = orders[0]
            other = next((o for o in orders[1:] if o is not None and o is not first), None)
            if (
                first is None
                or other is None
                or first is other
                or _one_seed(context, first, other)
                or (find is _permuted and _same_tensor(event.args[0], event.args[orders.index(other)]))
                or id(other) in seen
            ):
                continue
            seen.add(id(other))
            name = first.name.rpartition(".")[2]
            yield context.finding(
                RULE,
                other,
                f"the tensors of one data set come from two calls of {name}, which draw different orders: inputs stand beside the targets "
                "of other samples",
                evidence=[Evidence(f"calls of {name}", 2), Evidence("one seed in both", False)],
                related=[(first, "the call that orders the inputs"), (event, "the data set")],
                fix=Fix(
                    title="draw one order for inputs and targets",
                    instruction="split both in one call, train_test_split(x, y), or index both with one permutation",
                    expected="each input stands beside its own target",
                ),
                severity="warning" if find is _permuted else None,
            )
            break


def _split(context: Context, value: Value) -> Event | None:
    """The call of ``train_test_split`` that a tensor comes from most directly."""
    for part in provenance(value, _REACH):
        if isinstance(part, Obj) and part.name == _SPLIT:
            return next((e for e in context.trace.calls(_SPLIT) if _is(e.result, part)), None)
    return None


def _shuffled(context: Context, value: Value) -> Event | None:
    """The only call that arranged anew what a tensor was made of."""
    made = {id(part) for part in provenance(value, _REACH) if isinstance(part, Obj)}
    found = [e for e in context.trace.calls(*_SHUFFLES) if e.args and any(id(o) in made for o in options_of(e.args[0]))]
    return found[0] if len(found) == 1 else None


def _permuted(context: Context, value: Value) -> Event | None:
    """The call that drew the only permutation by which a tensor was indexed, seen through slices and casts."""
    base, found = _below(value)
    if base is not None and base.name.startswith(_DRAWN):
        return None  # noise stands beside no sample of its own
    if len(found) != 1:
        return None
    calls = (e for e in context.trace.calls(*_PERMUTATIONS) if "generator" not in e.kwargs)  # which may be seeded alike
    return next((e for e in calls if _is(e.result, found[0])), None)


def _below(value: Value) -> tuple[Obj | None, list[Obj]]:
    """What was indexed, below slices and casts, and the permutations that it was indexed by."""
    found: list[Obj] = []
    base: Obj | None = None
    for _ in range(_DEEP):
        current = settle(value)
        if not isinstance(current, Obj):
            return None, found
        base, name = current, operation(current)
        if name == "[]" and any(isinstance(plain(index), int) for index in current.args):
            break  # one of several tensors
        below = base.receiver if name == "[]" else operand(base) if name in VIEWS or name in _CASTS else None
        if name == "[]":
            drawn = (part for index in base.args for part in provenance(index, _NEAR))
            found += [part for part in drawn if isinstance(part, Obj) and part.name in _PERMUTATIONS]
        if below is None:
            break
        value = below
    return base, found


def _same_tensor(first: Value, other: Value) -> bool:
    """Whether two tensors are one in two orders: pairs of samples, which are drawn apart on purpose."""
    base = _below(first)[0]
    return base is not None and base is _below(other)[0]


def _is(value: Value | None, thing: Obj) -> bool:
    return value is not None and any(option is thing for option in options_of(value))


def _one_seed(context: Context, first: Event, other: Event) -> bool:
    """Whether two calls may draw the same order: seeded alike, seeded anew between, in stored order, or one of the other's."""
    early, late = sorted((first, other), key=lambda e: e.number)
    if any(early.number < seed.number < late.number for seed in context.trace.calls(*_SEEDS)):
        return True
    if first.name != _SPLIT:
        return False
    if any(isinstance(p, Obj) and _is(early.result, p) for value in late.args for p in provenance(value, _REACH)):
        return True
    if all(plain(e.kwargs.get("shuffle"), True) is False for e in (first, other)):
        return True
    given = [e.kwargs.get("random_state") for e in (first, other)]
    states = [settle(value) if value is not None else Known(None) for value in given]
    if not all(isinstance(state, Known) for state in states):
        return True
    numbers = [state.value for state in states if isinstance(state, Known)]
    return numbers[0] == numbers[1] and numbers[0] is not None
