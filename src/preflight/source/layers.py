"""Parameters of networks that are built plainly in a script: counted exactly, shared ones once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from preflight.source.evaluate.drawings import drawing_of
from preflight.source.evaluate.library.torch import module_items, wrapped_alike
from preflight.source.layer_sizes import SIZES, WITHOUT_PARAMETERS
from preflight.source.tensor_shapes import numel_of
from preflight.source.unsized import Unsized, first_unknown, is_bare, not_followed
from preflight.source.values import Choice, Dict, Known, Obj, Phi, Unknown, Value, settle, why_unknown

if TYPE_CHECKING:
    from preflight.source.reading import Reading


class Leaf:
    """A layer of the library inside a network: its object, its exact parameters, how often it occurs."""

    __slots__ = ("count", "obj", "path", "repeat")

    def __init__(self, obj: Obj, count: int, path: str, repeat: int) -> None:
        self.obj = obj
        self.count = count
        self.path = path
        self.repeat = repeat


_METRICS_WITH_NETWORKS = (
    "FrechetInceptionDistance",
    "KernelInceptionDistance",
    "InceptionScore",
    "MemorizationInformedFrechetInceptionDistance",
    "LearnedPerceptualImagePatchSimilarity",
    "PerceptualPathLength",
    "CLIPScore",
    "CLIPImageQualityAssessment",
    "BERTScore",
    "InfoLM",
)
"""Metrics of torchmetrics that bring a pretrained network along."""


class Network:
    """The layers of a network, and its parameters.

    Attributes:
        model: The module.
        leaves: Layers in order of registration; shared ones once.
        total: Exact number of parameters, or None.
        reason: Why the number is not known.
    """

    def __init__(self, reading: Reading, model: Obj, in_part: bool = False) -> None:
        """Count a network.

        Args:
            reading: The script.
            model: The module.
            in_part: Count what is known, and leave out the rest; ``total`` is then no more than the true number.
        """
        self._in_part = in_part
        self.reading = reading
        self.model = model
        self.leaves: list[Leaf] = []
        self.total: int | None = None
        self.reason: str | None = None
        self._seen: set[tuple[int, str]] = set()
        self._added = _added_modules(reading)
        try:
            self.total = self._module(model, "", 1, set())
            # What is trained has parameters: where none is found they were made out of sight.
            if not self.total or (len(self._seen) < 2 and not self.leaves):
                raise Unsized("the layers of the model were not seen")
        except Unsized as error:
            self.total, self.reason = None, str(error).lstrip(".")
        except RecursionError:
            self.reason = "the network contains itself"

    @property
    def least(self) -> int | None:
        """Parameters of the parts whose size is known; None where that is none of them."""
        if self.total is not None:
            return self.total
        return Network(self.reading, self.model, in_part=True).total or None

    def holds(self, obj: Obj) -> bool:
        """Whether a module is the network or was met in it."""
        return (id(obj), "") in self._seen

    def _module(self, value: Value, path: str, repeat: int, inside: set[int]) -> int:
        if not self._in_part:
            return self._sized(value, path, repeat, inside)
        if _may_be_left_out(settle(value)):
            return 0
        try:
            return self._sized(value, path, repeat, inside)
        except Unsized:
            return 0

    def _sized(self, value: Value, path: str, repeat: int, inside: set[int]) -> int:
        obj = settle(value)
        if isinstance(obj, Known) and obj.value is None:
            return 0
        if not isinstance(obj, Obj):
            raise Unsized(f"{path or 'the model'}: {why_unknown(obj)}")
        if obj.kind == "copy" and isinstance(obj.receiver, Obj):
            # A copy has parameters of its own: it is counted apart from what was seen.
            return self._apart(obj, obj.receiver, path, repeat, inside)
        if id(obj) in inside:
            return 0
        if (id(obj), "") in self._seen:
            return 0
        self._seen.add((id(obj), ""))
        if obj.cls is not None:
            return self._instance(obj, path, repeat, inside | {id(obj)})
        return self._library(obj, path, repeat, inside)

    def _apart(self, copy: Obj, original: Obj, path: str, repeat: int, inside: set[int]) -> int:
        if (id(copy), "") in self._seen:
            return 0
        seen, self._seen = self._seen, {(id(copy), "")}
        try:
            changed = any(value is not original.attrs.get(name) for name, value in copy.attrs.items())
            if changed and copy.cls is not None and not _extends_layer(copy):
                return self._instance(copy, path, repeat, inside | {id(copy)})
            return self._module(original, path, repeat, inside)
        finally:
            self._seen = seen | {(id(copy), "")}

    def _instance(self, obj: Obj, path: str, repeat: int, inside: set[int]) -> int:
        total = 0
        bases = obj.cls.external_bases() if obj.cls is not None else []
        base = next(
            (b for b in bases if b.startswith("torch.nn.") and b not in ("torch.nn.Module", "torch.nn.ModuleList")),
            None,
        )
        if base == "torch.nn.Sequential" or base in SIZES:
            total += self._derived(obj, base, path, repeat, inside)
        elif (foreign := next((b for b in bases if not is_bare(b)), None)) is not None:
            raise Unsized(f"{path or 'the model'} extends {foreign}, whose layers are not in the script")
        for name, held in list(obj.attrs.items()) + self._added.get(id(obj), []):
            try:
                total += self._held(name, held, f"{path}.{name}" if path else name, repeat, inside)
            except Unsized:
                if not self._in_part:
                    raise
        return total

    def _derived(self, obj: Obj, base: str, path: str, repeat: int, inside: set[int]) -> int:
        """A class that extends a layer: what it passes to ``super().__init__``."""
        parts = module_items(None, obj) if base == "torch.nn.Sequential" and "<items>" in obj.attrs else None
        if parts is not None:
            return sum(self._module(part, f"{path}.{i}", repeat, inside) for i, part in enumerate(parts))
        for args, kwargs in _made_with(self.reading, obj, base):
            if base == "torch.nn.Sequential":
                return sum(self._module(a, f"{path}.{i}", repeat, inside) for i, a in enumerate(args))
            made = Obj("call", base, obj.site, obj.context, args, kwargs)
            return self._library(made, path, repeat, inside)
        if obj.cls is not None and obj.cls.lookup("__init__") is None and not obj.open_args:
            if base == "torch.nn.Sequential":
                return sum(self._module(a, f"{path}.{i}", repeat, inside) for i, a in enumerate(obj.args))
            made = Obj("call", base, obj.site, obj.context, obj.args, obj.kwargs)
            return self._library(made, path, repeat, inside)
        raise Unsized(f"{path or 'the model'} extends {base} with arguments that are not known")

    def _held(self, name: str, held: Value, path: str, repeat: int, inside: set[int]) -> int:
        value = settle(held)
        if name.startswith("<") and name != "<items>":
            return 0
        if isinstance(value, Choice):
            value = wrapped_alike(value) or value
        if isinstance(value, Choice):
            alike = self._alike(value, path, repeat, inside)
            if alike is not None:
                return alike
            value = next((o for o in value.options if isinstance(o, Obj) and _is_module(self.reading, o)), value)
            if isinstance(value, Obj):
                raise Unsized(f"{path} depends on a branch that cannot be decided without running the script")
        if isinstance(value, Phi):
            value = settle(value.initial)
        if isinstance(value, Obj):
            if value.name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter"):
                return 0 if self._in_part and _may_be_left_out(value) else self._parameter(value, path, repeat)
            if value.kind == "attr" and value.name in ("weight", "bias"):
                return 0  # a parameter of a layer under a second name
            if _is_module(self.reading, value):
                return self._module(value, path, repeat, inside)
            if (
                value.cls is not None
                and value.cls.external_bases()
                and any(_is_module(self.reading, v) for v in _held_by(value))
            ):
                raise Unsized(f"{path} extends {value.cls.external_bases()[0]}, which may be a module")
            if value.name.startswith("torchmetrics.") and not value.name.endswith(_METRICS_WITH_NETWORKS):
                return 0  # counts and sums alone
            if value.name in WITHOUT_PARAMETERS:
                return self._module(value, path, repeat, inside)
            if value.kind == "call" and value.name == "?" or (value.kind == "call" and _maybe_module(value)):
                raise Unsized(f"{path} is made by {value.name}, which cannot be followed")
        if isinstance(value, Unknown) and self._called(value):
            raise Unsized(f"{path}: {value.reason}")
        return 0

    def _alike(self, choice: Choice, path: str, repeat: int, inside: set[int]) -> int | None:
        """The size that all options have: which of them it is, is no matter then."""
        options = [option for option in choice.options if isinstance(option, Obj) and _is_module(self.reading, option)]
        if len(options) < len(choice.options):
            return None
        sizes: set[int] = set()
        seen, leaves = set(self._seen), list(self.leaves)
        for option in options:
            self._seen, self.leaves = set(seen), list(leaves)
            sizes.add(self._sized(option, path, repeat, inside))
        return sizes.pop() if len(sizes) == 1 else None

    def _called(self, value: Unknown) -> bool:
        return any(e.func is value for e in self.reading.trace.calls("?"))

    def _parameter(self, obj: Obj, path: str, repeat: int) -> int:
        if (id(obj), "") in self._seen:
            return 0
        self._seen.add((id(obj), ""))
        size = numel_of(obj.argument(0, "data"))
        if size is None:
            raise Unsized(f"{path} is a parameter whose shape is not known")
        self.leaves.append(Leaf(obj, size, path, repeat))
        return size

    def _library(self, obj: Obj, path: str, repeat: int, inside: set[int]) -> int:
        drawn = drawing_of(self.reading.machine, obj)
        if drawn is not None:
            return self._module(drawn, path, repeat, inside)
        name = obj.name
        if name in ("torch.nn.ModuleList", "torch.nn.Sequential", "torch.nn.ParameterList"):
            parts = module_items(None, obj)
            if parts is None:
                first = settle(obj.args[0]) if obj.args else None
                if isinstance(first, Dict) and not first.open:
                    parts = list(first.entries.values())
            if parts is None:
                raise Unsized(f"{path or name} holds parts that are not all known")
            total = sum(self._part(str(i), p, f"{path}.{i}", repeat, inside) for i, p in enumerate(parts))
            return total + sum(self._held(n, v, f"{path}.{n}", repeat, inside) for n, v in self._added.get(id(obj), []))
        if name in ("torch.nn.ModuleDict", "torch.nn.ParameterDict"):
            return self._table(obj, path, repeat, inside)
        if name.startswith("torch.nn.utils.") and obj.args:
            return self._module(obj.args[0], path, repeat, inside) + self._reparametrised(obj, path)
        if name.startswith("torchvision.models.") and name.endswith(".IntermediateLayerGetter"):
            return self._up_to(obj, path, repeat, inside)
        if name in ("torch.nn.TransformerEncoder", "torch.nn.TransformerDecoder"):
            return self._stack(obj, path, repeat, inside)
        sizes = SIZES.get(name)
        if sizes is not None:
            size = sizes(obj)
            if size is None:
                raise Unsized(f"{path or name}: {first_unknown(obj)}")
            size -= self._tied(obj)
            self.leaves.append(Leaf(obj, size, path, repeat))
            return size
        if name in WITHOUT_PARAMETERS or name.endswith("Loss"):
            self.leaves.append(Leaf(obj, 0, path, repeat))
            return 0
        known = self.from_catalog(obj)
        if known is not None:
            self.leaves.append(Leaf(obj, known, path, repeat))
            return known
        raise Unsized(not_followed(obj, path))

    def _table(self, obj: Obj, path: str, repeat: int, inside: set[int]) -> int:
        table = settle(obj.args[0]) if obj.args else Dict({})
        if not isinstance(table, Dict) or table.open:
            raise Unsized(f"{path or obj.name} holds parts that are not all known")
        if any(store.name == "[]" and settle(store.target) is obj for store in self.reading.trace.stores):
            raise Unsized(f"{path or obj.name} holds parts under names that are not known")
        held = {str(k): v for k, v in table.entries.items()} | {n.strip("['\"]"): v for n, v in obj.attrs.items()}
        return sum(self._part(name, part, f"{path}.{name}", repeat, inside) for name, part in held.items())

    def _part(self, name: str, part: Value, path: str, repeat: int, inside: set[int]) -> int:
        """A part of a container of layers: unlike any attribute, it is a layer even where nothing else tells."""
        value = settle(part)
        seen = isinstance(value, Obj) and (value.kind not in ("attr", "item") or _is_module(self.reading, value))
        if isinstance(value, Unknown) or (isinstance(value, Obj) and not seen):
            raise Unsized(f"{path.lstrip('.')}: {why_unknown(value)}")
        return self._held(name, part, path, repeat, inside)

    def _tied(self, obj: Obj) -> int:
        """Elements of weights that were replaced by a parameter of another layer."""
        saved = 0
        for name in ("weight", "bias"):
            held = obj.attrs.get(name)
            value = settle(held) if held is not None else None
            if (
                isinstance(value, Obj)
                and value.kind == "attr"
                and value.receiver is not None
                and settle(value.receiver) is not obj
            ):
                saved += _part(obj, name)
            elif isinstance(value, Obj) and value.name == "torch.nn.Parameter":
                size = numel_of(value.argument(0, "data"))
                saved += (
                    _part(obj, name) - size if size is not None else 0
                )  # else it fits, as the layer computes with it
        return saved

    def _reparametrised(self, obj: Obj, path: str) -> int:
        """``weight_norm`` splits a weight into direction and length: one more number per output."""
        if not obj.name.endswith("weight_norm"):
            return 0
        inner = settle(obj.args[0])
        if isinstance(inner, Obj):
            out = inner.argument(1, "out_features") or inner.argument(1, "out_channels")
            width = settle(out) if out is not None else None
            if isinstance(width, Known) and isinstance(width.value, int):
                return width.value
        raise Unsized(f"{path} is normalised by weight, and its width is not known")

    def _stack(self, obj: Obj, path: str, repeat: int, inside: set[int]) -> int:
        layer, number = (
            obj.argument(0, "encoder_layer") or obj.argument(0, "decoder_layer"),
            obj.argument(1, "num_layers"),
        )
        count = settle(number) if number is not None else None
        if layer is None or not isinstance(count, Known) or not isinstance(count.value, int):
            raise Unsized(f"{path or obj.name}: the number of layers is not known")
        inner = self._module(layer, path + ".layers", repeat * count.value, inside)
        norm = obj.argument(2, "norm")
        return inner * count.value + (self._module(norm, path + ".norm", repeat, inside) if norm is not None else 0)

    def _up_to(self, getter: Obj, path: str, repeat: int, inside: set[int]) -> int:
        """The parts of a network up to the last one whose result is asked for: the others are left out."""
        given, asked = getter.argument(0, "model"), getter.argument(1, "return_layers")
        network, table = settle(given) if given is not None else None, settle(asked) if asked is not None else None
        drawn = drawing_of(self.reading.machine, network) if isinstance(network, Obj) else None
        if drawn is None or not isinstance(table, Dict) or table.open or not table.entries:
            raise Unsized(not_followed(getter, path))
        left, total = {str(key) for key in table.entries}, 0
        for name, held in drawn.attrs.items():
            if not left:
                return total
            part = settle(held)
            if isinstance(part, Obj) and _is_module(self.reading, part):
                total += self._held(name, held, f"{path}.{name}", repeat, inside)
                left.discard(name)
        if left:
            raise Unsized(f"{path}: the network has no part {min(left)}")
        return total

    def from_catalog(self, obj: Obj) -> int | None:
        """The parameters of a model that is known by name."""
        from preflight.source.known_models import spec_of

        spec = spec_of(self.reading, obj)
        return spec.parameters if spec is not None else None


def _made_with(reading: Reading, obj: Obj, base: str) -> Iterator[tuple[list[Value], dict[str, Value]]]:
    """What a class hands to the layer that it extends: ``super().__init__(...)``, or ``nn.Linear.__init__(self, ...)``."""
    for event in reading.trace.on(obj, "super.__init__"):
        yield event.args, event.kwargs
    for event in reading.trace.calls(base + ".__init__"):
        if event.args and settle(event.args[0]) is obj:
            yield event.args[1:], event.kwargs


def _may_be_left_out(value: Value) -> bool:
    """Whether a module or a weight is made in a branch of which nobody knows whether it is taken."""
    if not isinstance(value, Obj) or value.context is None:
        return False
    return any(frame.kind == "if" and frame.taken is None for frame in value.context.frames())


def _held_by(obj: Obj) -> list[Obj]:
    return [v for v in map(settle, obj.attrs.values()) if isinstance(v, Obj)]


def _extends_layer(obj: Obj) -> bool:
    """Whether the class of a thing extends a layer that has a size of its own."""
    return obj.cls is not None and any(b in SIZES or b == "torch.nn.Sequential" for b in obj.cls.external_bases())


def _part(obj: Obj, name: str) -> int:
    """Elements of a layer's weight or bias."""
    without = SIZES[obj.name](obj) if obj.name in SIZES else None
    if without is None:
        return 0
    out = settle(obj.argument(1, "out_features") or obj.argument(1, "out_channels") or Known(None))
    width = out.value if isinstance(out, Known) and isinstance(out.value, int) else 0
    bias = settle(obj.argument(2, "bias") or Known(True))
    has_bias = obj.name == "torch.nn.Linear" and not (isinstance(bias, Known) and bias.value is False)
    if name == "bias":
        return width if has_bias else 0
    return without - (width if has_bias else 0)


def _is_module(reading: Reading, value: Obj) -> bool:
    from preflight.source.evaluate.library.methods import is_module

    if value.kind == "copy" and isinstance(value.receiver, Obj):
        return _is_module(reading, value.receiver)
    return is_module(value) or (
        value.kind == "call"
        and value.name.startswith("torch.nn.utils.")
        and bool(value.args)
        and value.name.endswith("_norm")
    )


def _maybe_module(value: Obj) -> bool:
    """Whether an unknown library call may have made a module: a class of a package that is not of plain values."""
    first, _, rest = value.name.partition(".")
    last = rest.rpartition(".")[2]
    plain = (
        "torch",
        "math",
        "numpy",
        "builtins",
        "os",
        "collections",
        "functools",
        "itertools",
        "copy",
        "random",
        "logging",
        "argparse",
        "dataclasses",
        "",
    )
    return first not in plain and last[:1].isupper() and not last.startswith("DataCollator")


def _added_modules(reading: Reading) -> dict[int, list[tuple[str, Value]]]:
    found: dict[int, list[tuple[str, Value]]] = {}
    for event in reading.trace.calls(".add_module", ".register_module", ".register_parameter"):
        owner = settle(event.receiver) if event.receiver is not None else None
        name, module = event.argument(0, "name"), event.argument(1, "module") or event.argument(1, "param")
        if isinstance(owner, Obj) and module is not None:
            label = settle(name) if name is not None else None
            key = str(label.value) if isinstance(label, Known) else f"{len(found)}"
            rows = found.setdefault(id(owner), [])
            if not any(known is module for _, known in rows):
                rows.append((key, module))
    return found
