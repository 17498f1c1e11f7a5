"""Follow the calls of a network along the values that they hand on."""

from __future__ import annotations

import math
from importlib import import_module
from typing import TYPE_CHECKING

from preflight.check.forward.casting import WIDE
from preflight.check.forward.entry import joined_batches
from preflight.check.forward.network_calls import inside
from preflight.check.forward.operation import RULES, Operation
from preflight.check.forward.sizes import numbers_of, size_of, truth_of
from preflight.check.forward.tensors import Misfit, Result, Shape, Storage, Tensor
from preflight.check.forward.widths import joined_for
from preflight.check.queries.tensors import module_of, operand, operation
from preflight.listing import modules_beside
from preflight.source.evaluate.drawings import drawing_of, forward_of
from preflight.source.layer_sizes import SIZES
from preflight.source.tensor_shapes import shape_of
from preflight.source.trace import Context, Event
from preflight.source.values import Choice, Dict, Obj, Phi, Seq, Value, plain, settle

if TYPE_CHECKING:
    from preflight.source.reading import Reading

# What is called on tensors and makes none.
_NO_TENSOR = frozenset(
    "size dim numel item tolist stride is_contiguous data_ptr register_hook retain_grad ndimension get_device element_size "
    "is_floating_point print len isinstance append extend update format shape".split()
)
# Names that PyTorch keeps for scripts written before it named them otherwise, and what ``x += y`` is on a tensor.
_NAMED = {
    "torch.autograd.Variable": "identity",
    "einops.repeat": "einops.repeat",
    "einops.reduce": "einops.reduce",
    **{
        f".__i{word}__": f"{name}_"
        for word, name in (("add", "add"), ("sub", "sub"), ("mul", "mul"), ("truediv", "div"))
    },
} | {f"torch.cuda.{kind}": kind for kind in ("FloatTensor", "HalfTensor", "DoubleTensor", "LongTensor", "Tensor")}
_DEEPEST = 60  # operators between two calls; some six frames of Python each

for _name in modules_beside(__file__, but=("follow.py", "kept.py")):  # each file of rules enters its own
    import_module(f"preflight.check.forward.{_name}")


class Forward:
    """Shapes along the calls of a network, and what autograd keeps of them.

    Only what is certain is followed. Where the chain breaks, ``reason`` says where.

    Attributes:
        kept: Elements kept for the backward pass, of the whole batch; None where the chain broke. Where autograd does not
            record everywhere, no less than what is alive while the tensors of one layer are handed to the next.
        rows: The first size of the tensor that the last call returns, where it is one.
        passing: Whether there are layers of which autograd keeps nothing.
        reason: Where it broke.
        misfit: The first layer that was given another width than it was made for.
    """

    def __init__(
        self,
        reading: Reading,
        calls: list[Event],
        entry: Shape,
        batch: int,
        frozen: frozenset[int] = frozenset(),
        earlier: Forward | None = None,
        casts: bool = False,
    ) -> None:
        """Follow calls of a network, each given a batch of the same shape.

        Args:
            reading: The script.
            calls: The calls of the network that is trained, in one step: ``calls_of`` finds them.
            entry: The shape of one sample of its first input.
            batch: Samples in a batch.
            frozen: Identities of layers whose weights get no gradient.
            earlier: What another network makes, which this one may be given; what is kept then counts for both.
            casts: Whether the pass runs under autocast: then elements are counted in half precision.
        """
        self.reading = reading
        self.batch = batch
        self.frozen = frozen
        self.casts = casts
        self.passing: bool = earlier is not None and earlier.passing
        self.rows: int | None = None
        self.kept: float | None = None
        self.reason: str | None = None
        self.misfit: Misfit | None = None
        self.entropies: float = earlier.entropies if earlier is not None else 0.0
        self.compared: float = earlier.compared if earlier is not None else 0.0
        self._linked = earlier is not None
        before = earlier._results if earlier is not None else {}
        self._results: dict[int, Result] = {key: found for key, found in before.items() if found is not None}
        # Identities stay valid as long as the values live.
        self._alive: list[Value] = list(earlier._alive) if earlier is not None else []
        self._storages: list[Storage] = list(earlier._storages) if earlier is not None else []
        self._extra: float = earlier._extra if earlier is not None else 0.0
        self._carried: list[Phi] = []
        self._outer: Context | None = None
        self._depth = 0
        if not calls:
            self.reason = "no call of the model in a training loop"
            return
        for call in calls:
            if not self._call(call, entry):
                return
        for phi in self._carried:
            if phi.final is not None:
                self._keep_all(self.result(phi.final))
        for loop in reading.loops[:1]:
            for value in loop.losses()[:1]:
                self.result(value)  # what the loss is given is alive beside what the layers keep
        own = [storage for storage in self._storages if storage.own]
        self.kept = self._extra + sum(storage.size * storage.times for storage in own if storage.kept)
        if self.passing:
            self.kept = max(self.kept, _highest(own))

    def _call(self, call: Event, entry: Shape) -> bool:
        """Follow one call; returns whether the chain holds."""
        given = call.input
        if given is None:
            self.reason = "the model is called without an input"
            return False
        self._outer = call.context
        joined = joined_batches(given)
        if joined is None:
            self.reason = "how many batches are joined to the model's input is not known"
            return False
        if not self._linked or self.tensor(given) is None:
            self.put(given, self.new((joined * self.batch, *entry), graded=False, times=1))
        events = inside(self.reading, call)
        made = settle(call.result) if call.result is not None else None
        known = not events and isinstance(made, Obj) and (self._is_drawn(made) or self._is_layer(made))
        if not events and not known:
            self.reason = "the model's forward is not in the script"
            return False
        if not self._holds(events):
            return False
        self._reach(call.result)
        if known and made is not None and self.result(made) is None:
            self.reason = self.reason or "what the layer that is the whole model makes is not known"
        whole = self.tensor(call.result)
        self.rows = whole.shape[0] // joined if whole is not None and whole.shape else None
        return self.reason is None

    def _is_drawn(self, made: Obj) -> bool:
        """Whether a call is one of a network of a library of which a drawing tells."""
        network = module_of(made)
        return network is not None and drawing_of(self.reading.machine, network) is not None

    @staticmethod
    def _is_layer(made: Obj) -> bool:
        """Whether a call is one of a layer of PyTorch: the network is that layer alone."""
        layer = module_of(made)
        return layer is not None and layer.cls is None and layer.name.startswith("torch.nn.")

    def _holds(self, events: list[Event]) -> bool:
        """Follow events in order; returns whether the chain holds."""
        for event in events:
            if event.inlined or event.context.shadow or event.result is None or self._passed_by(event.context):
                continue
            self.reason = self.reason or self._broken_by(event)
            if self.reason is not None:
                return False
        return True

    def _passed_by(self, context: Context) -> bool:
        """Whether a branch is not taken: the shapes decide a test that the script alone does not."""
        for frame in context.frames():
            if frame is self._outer:
                return False
            if frame.kind == "if" and frame.taken is None and frame.polarity is not None:
                decided = truth_of(self, frame.value)
                if decided is not None and decided is not frame.polarity:
                    return True
        return False

    def _broken_by(self, event: Event) -> str | None:
        """Follow one call; returns why it breaks the chain: a layer's input is not known, or what a call makes is not."""
        layer = settle(event.receiver) if event.name == "()" and event.receiver is not None else None
        made = settle(event.result) if event.result is not None else None
        if isinstance(layer, Obj) and isinstance(made, Obj) and module_of(made) is not layer:
            return None  # layers in a sequence: what they make comes in their own calls, which follow
        if made is None or self.result(made) is not None:
            return None
        if isinstance(layer, Obj) and isinstance(made, Obj) and joined_for(self, layer, operand(made)):
            self._forget(made)
            if self.result(made) is not None:
                return None
        if isinstance(layer, Obj) and (layer.name in SIZES or layer.cls is not None):
            return f"what {layer.name.rpartition('.')[2]} is given is not known"
        elif event.name.rpartition(".")[2] not in _NO_TENSOR and any(self._is_graded(v) for v in _inputs(event)):
            made_by = layer.name if isinstance(layer, Obj) else event.name
            return f"the shape that {made_by.removeprefix('torch.nn.').lstrip('.')} makes is not known"
        return None

    def _forget(self, value: Value) -> None:
        for one in (value, settle(value)):
            self._results.pop(id(one), None)

    def _is_graded(self, value: Value) -> bool:
        found = self._results.get(id(value)) or self._results.get(id(settle(value)))
        return isinstance(found, Tensor) and found.graded

    def _reach(self, value: Value | None) -> None:
        """Follow what the network returns, containers opened: operators are values without a call of their own."""
        left, seen = [value], set[int]()
        while left:
            one = left.pop()
            found = settle(one) if one is not None else None
            if found is None or id(found) in seen:
                continue
            seen.add(id(found))
            if isinstance(found, Seq):
                left += found.items
            elif isinstance(found, Dict):
                left += found.entries.values()
            else:
                self.result(found)

    # What rules are written with.

    def new(self, shape: Shape, graded: bool, times: int = 1, own: bool = True) -> Tensor:
        """Return a tensor in a storage of its own."""
        storage = Storage(float(math.prod(shape)), times, own)
        storage.width = WIDE if self.casts else 1.0
        self._storages.append(storage)
        return Tensor(shape, graded, storage)

    def put(self, value: Value, result: Result) -> None:
        """Say what a value is."""
        for one in (value, settle(value)):
            self._results[id(one)] = result
            self._alive.append(one)

    def tensor(self, value: Value | None) -> Tensor | None:
        """Return the tensor that a value is, or None."""
        found = self.result(value) if value is not None else None
        return found if isinstance(found, Tensor) else None

    def keep(self, value: Value | Tensor | None) -> None:
        """Note that autograd keeps a tensor; of one that a loop carries, that of every pass."""
        if isinstance(value, Phi) and self.passes(self._loop_of(value)) > 1:
            self._carried.append(value)
            return
        found = value if isinstance(value, Tensor) else self.tensor(value)
        if found is not None:
            found.storage.kept = True

    def keep_more(self, elements: float, context: Context | None) -> None:
        """Note memory that is kept beside tensors of the script: masks, indices, reserves. In elements of four bytes."""
        self._extra += elements * self.passes(context)

    def give_loss(self, source: Tensor, entropy: bool, context: Context | None) -> None:
        """Note what a loss is given, of whose size its gradient will be."""
        elements = float(math.prod(source.shape)) * self.passes(context)
        if entropy:
            self.entropies += elements
        else:
            self.compared += elements

    def _keep_all(self, result: Result) -> None:
        if isinstance(result, Tensor):
            result.storage.kept = True
        for part in result if isinstance(result, tuple) else ():
            self._keep_all(part)

    def _loop_of(self, phi: Phi) -> Context | None:
        final = settle(phi.final) if phi.final is not None else None
        return final.context if isinstance(final, Obj) else None

    def passes(self, context: Context | None) -> int:
        """How often a place inside the network's call is passed."""
        count = 1
        for frame in context.frames() if context is not None else ():
            if frame is self._outer:
                break
            count *= frame.passes
        return count

    def result(self, value: Value) -> Result:
        """Return what a value is: followed where it was not yet."""
        if id(value) in self._results:
            return self._results[id(value)]
        found = settle(value)
        if id(found) in self._results:
            return self._results[id(found)]
        if self._depth > _DEEPEST:
            return None
        self._depth += 1
        try:
            result = self._made(found)
        finally:
            self._depth -= 1
        self.put(found, result)
        return result

    def _made(self, value: Value) -> Result:
        if isinstance(value, Choice):
            decided = truth_of(self, value.test) if len(value.options) == 2 else None
            if decided is not None:
                return self.result(value.options[0 if decided else 1])
            options = [self.result(option) for option in value.options]
            shapes = {option.shape if isinstance(option, Tensor) else None for option in options}
            return options[-1] if len(shapes) == 1 else None
        if isinstance(value, Seq) and value.items:
            parts = tuple(self.result(item) for item in value.items)
            return parts if any(part is not None for part in parts) else None
        if not isinstance(value, Obj):
            return None
        if value.name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter") or _is_weight(value):
            return self._parameter(value)
        if value.kind == "attr" and value.receiver is not None:
            registered = self._buffer(value)
            if registered is not None:
                return registered
        return self._operation(value)

    def _buffer(self, value: Obj) -> Result:
        """What a name of a module holds that ``register_buffer`` gave it: no gradient flows to it."""
        owner = settle(value.receiver) if value.receiver is not None else None
        for event in reversed(self.reading.trace.on(owner, "register_buffer") if isinstance(owner, Obj) else []):
            name, tensor = event.argument(0, "name"), event.argument(1, "tensor")
            if plain(name) == value.name.lstrip(".") and tensor is not None:
                held = self.tensor(tensor)
                return self.new(held.shape, graded=False, own=False) if held is not None else None
        return None

    def _parameter(self, value: Obj) -> Result:
        shape = shape_of(value.argument(0, "data")) if value.kind == "call" else None
        return self.new(shape, graded=True, own=False) if shape is not None else None

    def _operation(self, value: Obj) -> Result:
        name = _NAMED.get(value.name) or operation(value)
        if name is None:
            return None
        layer = module_of(value)
        while layer is not None and layer.cls is None and layer.name.startswith("torch.nn.utils.") and layer.args:
            inner = settle(layer.args[0])  # a layer whose weight is normalised is called like the layer
            layer = inner if isinstance(inner, Obj) else None
        if layer is not None and name.startswith("nn.utils."):
            name = "nn." + layer.name.removeprefix("torch.nn.")
        if layer is not None and layer.cls is None and layer.name.endswith("Loss"):
            name = "loss"
        if layer is not None and name.startswith("model:") and name not in RULES:
            return self._drawn(layer, value)
        rule = RULES.get(name)
        if rule is None:
            return None
        one = Operation(self, value, name, layer, operand(value))
        return rule(one)

    def _drawn(self, network: Obj, call: Obj) -> Result:
        """Follow what a network of a library does, where a drawing tells."""
        machine = self.reading.machine
        drawn = drawing_of(machine, network)
        followed = forward_of(machine, drawn, call) if drawn is not None else None
        if followed is None:
            return None
        result, events = followed
        return self.result(result) if self._holds(events) else None

    def size(self, value: Value | None) -> int | None:
        """Return a whole number: written, or a dimension of a tensor that is known."""
        return size_of(self, value)

    def numbers(self, values: list[Value]) -> list[int] | None:
        """Return whole numbers that are given one by one or as one sequence."""
        return numbers_of(self, values)


def _highest(storages: list[Storage]) -> float:
    """Elements alive at the worst moment: the input, what is kept until then, and the last tensors that are not.

    Four of those: what an operation is given, what it makes, and what a shortcut around it is given and makes.
    """
    kept, passing, most = 0.0, [0.0, 0.0, 0.0, 0.0], 0.0
    for place, storage in enumerate(storages):
        if storage.kept or place == 0:
            kept += storage.size * storage.times
        else:
            passing = [*passing[1:], storage.size]
        most = max(most, kept + sum(passing))
    return most


def _is_weight(value: Obj) -> bool:
    return value.kind == "attr" and value.name in ("weight", "bias")


def _inputs(event: Event) -> list[Value]:
    first = [event.receiver] if event.receiver is not None and event.name != "()" else []
    return [*first, *event.args, *event.kwargs.values()]
