"""How often something happens, as a product: ``3 epochs x len(loader) / 4``. Unknown lengths stay symbols."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from preflight.source.evaluate.iteration import PASS_THROUGH
from preflight.source.trace import Context as Frame
from preflight.source.values import Choice, Known, Obj, Seq, Unknown, Value, settle

if TYPE_CHECKING:
    from preflight.check.context import Context

_THROUGH = PASS_THROUGH | {"builtins.enumerate"}
_ROUND = frozenset({"int", "float", "round", "ceil", "floor", "trunc", "abs"})

# Numbers of training examples, as the data sets' own pages state them.
TRAINING_EXAMPLES = {
    "torchvision.datasets.MNIST": 60_000, "torchvision.datasets.FashionMNIST": 60_000,
    "torchvision.datasets.KMNIST": 60_000,
    "torchvision.datasets.CIFAR10": 50_000, "torchvision.datasets.CIFAR100": 50_000,
}  # fmt: skip
_TEST_EXAMPLES = 10_000  # of each of these sets


class Product:
    """A number times powers of lengths that are not known.

    Attributes:
        factor: The number.
        powers: By symbol: its power.
        names: By symbol: how to say it.
        batches: Symbols that are a number of batches or examples.
        exact: False where something was rounded or a small constant was left out.
    """

    __slots__ = ("batches", "exact", "factor", "names", "powers")

    def __init__(self, factor: float = 1.0) -> None:
        """Start with a plain number."""
        self.factor = factor
        self.powers: dict[int, int] = {}
        self.names: dict[int, str] = {}
        self.batches: set[int] = set()
        self.exact = True

    def times(self, other: Product, sign: int = 1) -> Product:
        """The product with another, or with its inverse."""
        result = Product(
            self.factor * other.factor if sign > 0 else self.factor / other.factor if other.factor else 0.0
        )
        result.powers = dict(self.powers)
        for key, power in other.powers.items():
            result.powers[key] = result.powers.get(key, 0) + sign * power
        result.powers = {k: p for k, p in result.powers.items() if p}
        result.names = {**self.names, **other.names}
        result.batches = self.batches | other.batches
        result.exact = self.exact and other.exact
        return result

    @property
    def number(self) -> float | None:
        """The plain number, where nothing is unknown."""
        return self.factor if not self.powers else None

    def __str__(self) -> str:
        up = [self.names[k] + (f"^{p}" if p > 1 else "") for k, p in self.powers.items() if p > 0]
        down = [self.names[k] + (f"^{-p}" if p < -1 else "") for k, p in self.powers.items() if p < 0]
        if self.factor != 1 or not up:
            up.insert(0, f"{self.factor:.6g}")
        return " x ".join(up) + "".join(f" / {name}" for name in down)


def symbol(value: Value, name: str, batches: bool = False) -> Product:
    """A length that is not known."""
    result = Product()
    result.powers[id(value)] = 1
    result.names[id(value)] = name
    if batches:
        result.batches.add(id(value))
    return result


def product_of(context: Context, value: Value | None, depth: int = 0) -> Product | None:
    """A value as a product; what cannot be taken apart is one symbol; None where it is not a number at all."""
    if value is None or depth > 20:
        return None
    base = settle(value)
    if isinstance(base, Known):
        plain = base.value
        return (
            Product(float(plain))
            if isinstance(plain, (int, float)) and not isinstance(plain, bool) and plain > 0
            else None
        )
    if isinstance(base, Unknown) and base.name == "len" and len(base.parents) == 1:
        return length_of(context, base.parents[0])
    parts = operands(base)
    if parts is not None:
        return _operation(context, base, *parts, depth)
    if isinstance(base, Unknown) and isinstance(_node(base), ast.Call) and base.parents:
        return _rounded(context, base, depth)
    if (
        isinstance(base, Obj)
        and base.name in ("math.ceil", "math.floor", "builtins.int", "builtins.round")
        and base.args
    ):
        return _inexact(product_of(context, base.args[0], depth + 1))
    if isinstance(base, (Unknown, Obj, Choice)):
        return symbol(base, _said(base))
    return None


def _node(value: Value) -> ast.AST | None:
    return value.site.node if value.site is not None else None


_SYMBOLS: dict[type, str] = {ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Add: "+", ast.Sub: "-", ast.Mod: "%"}


def operands(base: Value) -> tuple[str, Value, Value] | None:
    """Sign and operands of an arithmetic operation."""
    if isinstance(base, Obj) and base.kind == "op" and base.name in _SYMBOLS.values() and len(base.args) == 2:
        return base.name, base.args[0], base.args[1]
    node = _node(base)
    if isinstance(base, Unknown) and len(base.parents) == 2 and isinstance(node, (ast.BinOp, ast.AugAssign)):
        name = _SYMBOLS.get(type(node.op))
        if name is not None:
            return name, base.parents[0], base.parents[1]
    return None


def _operation(context: Context, base: Value, name: str, left: Value, right: Value, depth: int) -> Product | None:
    a, b = product_of(context, left, depth + 1), product_of(context, right, depth + 1)
    if name == "%":
        return symbol(base, _said(base))
    if name in ("+", "-"):
        # A small constant beside a length does not change its unit: len(loader) * epochs + 1.
        for whole, part in ((a, right), (b, left)):
            worth = settle(part)
            if (
                whole is not None
                and whole.powers
                and isinstance(worth, Known)
                and isinstance(worth.value, int)
                and abs(worth.value) <= 2
            ):
                return _inexact(whole)
        return symbol(base, _said(base))
    if a is None or b is None:
        return symbol(base, _said(base))
    result = a.times(b, 1 if name == "*" else -1)
    return _inexact(result) if name == "//" else result


def _rounded(context: Context, base: Unknown, depth: int) -> Product | None:
    node = _node(base)
    assert isinstance(node, ast.Call)
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in _ROUND and len(base.parents) >= 1:
        return _inexact(product_of(context, base.parents[0], depth + 1))
    if name == "max" and len(base.parents) == 2:
        for one, other in (base.parents, base.parents[::-1]):
            floor = settle(one)
            if isinstance(floor, Known) and floor.value in (0, 1):
                return _inexact(product_of(context, other, depth + 1))
    return symbol(base, _said(base))


def _inexact(product: Product | None) -> Product | None:
    if product is not None:
        product.exact = False
    return product


def _said(value: Value) -> str:
    if value.site is None:
        return "?"
    text = value.site.script.segment(value.site.node)
    return text if 0 < len(text) <= 40 else "?"


def peeled(value: Value | None, depth: int = 0) -> Value | None:
    """What is iterated, without ``enumerate``, ``tqdm`` and the like."""
    base = settle(value) if value is not None else None
    if isinstance(base, Obj) and base.name in _THROUGH and base.kind == "call" and depth < 8:
        inner = base.args[0] if base.args else next(iter(base.kwargs.values()), None)
        return peeled(inner, depth + 1)
    return base


def length_of(context: Context, value: Value) -> Product:
    """The number of items of what is iterated or measured: of a loader its batches, of a data set its examples."""
    base = peeled(value)
    if isinstance(base, Seq) and not base.open:
        return Product(float(len(base.items)))
    if not isinstance(base, Obj):
        return symbol(base or value, _called(base or value), True)
    if context.roles.of(base) == "loader":
        return _batches(context, base)
    known = examples(base)
    return Product(float(known)) if known is not None else symbol(base, _called(base), True)


def over_loader(context: Context, frame: Frame) -> bool:
    """Whether a loop goes through a loader."""
    base = peeled(frame.value)
    return over_data(context, frame) and isinstance(base, Obj) and context.roles.of(base) == "loader"


def _called(value: Value) -> str:
    name = getattr(value, "name", None)
    if isinstance(value, Obj):
        name = value.cls.qualname if value.cls is not None else value.name.rpartition(".")[2]
    return f"len({name})" if name else "number of batches"


def _batches(context: Context, loader: Obj) -> Product:
    from preflight.check.queries.loaders import TORCH, UNKNOWN, dataset_of, setting

    whole = symbol(loader, "batches per epoch", True)
    if loader.name != TORCH or loader.cls is not None or setting(loader, "batch_sampler") is not None:
        return whole
    size, data, sampler = setting(loader, "batch_size"), dataset_of(loader), setting(loader, "sampler")
    if not isinstance(size, int) or size is UNKNOWN or size < 1 or data is None or sampler is not None:
        return whole
    count = examples(data)
    if count is None:
        return whole
    return Product(float(count // size if setting(loader, "drop_last") is True else -(-count // size)))


def examples(data: Value | None) -> int | None:
    """The number of examples of a data set that can be known without reading it."""
    base = settle(data) if data is not None else None
    if not isinstance(base, Obj):
        return None
    if base.name in TRAINING_EXAMPLES and base.cls is None:
        train = settle(base.argument(1, "train") or Known(True))
        if isinstance(train, Known):
            return TRAINING_EXAMPLES[base.name] if train.value else _TEST_EXAMPLES
    if base.name == "torch.utils.data.TensorDataset" and base.args and base.cls is None:
        return _rows(base.args[0])
    return None


def _rows(value: Value) -> int | None:
    base = settle(value)
    if isinstance(base, Obj) and base.name in (
        "torch.randn",
        "torch.rand",
        "torch.zeros",
        "torch.ones",
        "torch.randint",
    ):
        sizes = base.kwargs.get("size") or (
            base.args[2] if base.name == "torch.randint" and len(base.args) > 2 else None
        )
        first = sizes if sizes is not None else base.args[0] if base.args else None
        first = settle(first) if first is not None else None
        if isinstance(first, Seq):
            first = settle(first.items[0]) if first.items else None
        if isinstance(first, Known) and isinstance(first.value, int):
            return first.value
    return None


def passes(context: Context, frame: Frame) -> Product | None:
    """How often the body of a loop runs; None where that is not known, as for ``while``."""
    base = peeled(frame.value)
    if isinstance(base, Obj) and base.name in (
        "builtins.range",
        "tqdm.trange",
        "tqdm.auto.trange",
        "tqdm.notebook.trange",
    ):
        if isinstance(base.data, range):
            return Product(float(len(base.data))) if len(base.data) else None
        end = base.args[0] if len(base.args) == 1 else base.args[1] if base.args else None
        return product_of(context, end)
    if isinstance(frame.node, ast.While) or base is None:
        return None
    if isinstance(base, (Unknown, Obj)):
        return length_of(context, base)
    return None


def over_data(context: Context, frame: Frame) -> bool:
    """Whether a loop goes through data: a loader, or something that is neither a range nor a plain list."""
    base = peeled(frame.value)
    if isinstance(frame.node, ast.While) or not isinstance(base, (Obj, Unknown)):
        return False
    if isinstance(base, Obj) and (base.name == "builtins.range" or base.name.endswith("trange")):
        # range(len(loader)) with next(iterator)
        return any(isinstance(settle(a), Unknown) and getattr(settle(a), "name", None) == "len" for a in base.args)
    return not (isinstance(base, Obj) and base.name in ("itertools.count", "builtins.zip") and not base.args)
