"""Parameters of networks that are built plainly in a script: counted exactly, shared ones once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.drawings import drawing_of
from preflight.source.evaluate.library.torch import module_items, wrapped_alike
from preflight.source.layer_sizes import SIZES, has_no_parameters
from preflight.source.module_values import (
    added_modules,
    counts_alone,
    extends_layer,
    handed_to_base,
    held_by,
    is_part,
    may_be_left_out,
    maybe_module,
)
from preflight.source.tensor_shapes import numel_of
from preflight.source.unsized import Unsized, first_unknown, is_bare, not_followed
from preflight.source.values import Choice, Dict, Known, Obj, Phi, Unknown, Value, settle, why_unknown
from preflight.source.weight_sizes import lengths_beside, tied_elements

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
        self._added = added_modules(reading)
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
        if may_be_left_out(settle(value)):
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
            if changed and copy.cls is not None and not extends_layer(copy):
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
        for args, kwargs in handed_to_base(self.reading, obj, base):
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
            value = next((o for o in value.options if isinstance(o, Obj) and is_part(o)), value)
            if isinstance(value, Obj):
                raise Unsized(f"{path} depends on a branch that cannot be decided without running the script")
        if isinstance(value, Phi):
            value = settle(value.initial)
        if isinstance(value, Obj):
            if value.name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter"):
                return 0 if self._in_part and may_be_left_out(value) else self._parameter(value, path, repeat)
            if value.kind == "attr" and value.name in ("weight", "bias"):
                return 0  # a parameter of a layer under a second name
            if is_part(value):
                return self._module(value, path, repeat, inside)
            if value.cls is not None and value.cls.external_bases() and any(is_part(v) for v in held_by(value)):
                raise Unsized(f"{path} extends {value.cls.external_bases()[0]}, which may be a module")
            if counts_alone(value):
                return 0
            if has_no_parameters(value.name):
                return self._module(value, path, repeat, inside)
            if value.kind == "call" and value.name == "?" or (value.kind == "call" and maybe_module(value)):
                raise Unsized(f"{path} is made by {value.name}, which cannot be followed")
        if isinstance(value, Unknown) and self._called(value):
            raise Unsized(f"{path}: {value.reason}")
        return 0

    def _alike(self, choice: Choice, path: str, repeat: int, inside: set[int]) -> int | None:
        """The size that all options have: which of them it is, is no matter then."""
        options = [option for option in choice.options if isinstance(option, Obj) and is_part(option)]
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
            return self._module(obj.args[0], path, repeat, inside) + lengths_beside(obj, path)
        if name.startswith("torchvision.models.") and name.endswith(".IntermediateLayerGetter"):
            return self._up_to(obj, path, repeat, inside)
        if name in ("torch.nn.TransformerEncoder", "torch.nn.TransformerDecoder"):
            return self._stack(obj, path, repeat, inside)
        sizes = SIZES.get(name)
        if sizes is not None:
            size = sizes(obj)
            if size is None:
                raise Unsized(f"{path or name}: {first_unknown(obj)}")
            size -= tied_elements(obj)
            self.leaves.append(Leaf(obj, size, path, repeat))
            return size
        if has_no_parameters(name) or name.endswith("Loss"):
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
        seen = isinstance(value, Obj) and (value.kind not in ("attr", "item") or is_part(value))
        if isinstance(value, Unknown) or (isinstance(value, Obj) and not seen):
            raise Unsized(f"{path.lstrip('.')}: {why_unknown(value)}")
        return self._held(name, part, path, repeat, inside)

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
            if isinstance(part, Obj) and is_part(part):
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
