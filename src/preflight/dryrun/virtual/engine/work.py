"""What the operators of a step do: kernels, floating-point operations, bytes moved. How long that takes is said elsewhere."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from preflight.dryrun.virtual import private
from preflight.dryrun.virtual.engine.convolutions import last

if TYPE_CHECKING:
    from preflight.dryrun.virtual.progress import Progress

Fake = private.fake_class()
_NO_KERNEL = frozenset(
    "empty empty_like empty_strided new_empty new_empty_strided _unsafe_view _reshape_alias resize_ set_ detach alias "
    "lift_fresh record_stream is_pinned _local_scalar_dense".split()
)
_PRODUCTS = {"mm": 0, "addmm": 1, "bmm": 0, "baddbmm": 1}
"""Matrix products, and which argument is the first matrix."""
_CONVOLUTIONS = frozenset(("convolution", "_convolution", "cudnn_convolution"))
_LOOKUPS = frozenset("embedding index index_select gather take".split())
# ATen/native/cuda/MultiTensorApply.cuh: tensors and blocks of one launch by the number of lists; 65536 elements a block.
_LISTS = {1: 110, 2: 64, 3: 48, 4: 36}
_BLOCKS, _CHUNK = 320, 65536


class Work:
    """The operators of one step, in order.

    Attributes:
        kinds: What an operator does, once for all that do the same.
        order: Number of the kind of every operator of the step that runs.
        done: The same of the last step that is complete.
    """

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.kinds: list[dict[str, Any]] = []
        self.order: list[int] = []
        self.done: list[int] = []
        self.rounds = 0
        self.waits = False  # the host waits for the operator that is recorded next
        self._known: dict[Any, int] = {}
        self._step, self._backwards, self._skipped = 0, 0, 0
        self._formulas = private.flop_formulas()

    def see(self, name: str, func: Any, args: Any, kwargs: Any, result: Any, fused: bool = False) -> None:
        """Record an operator that has given its result; ``fused`` where a compiler makes it a part of a larger kernel."""
        self._turn()
        phase = self.progress.phase
        if phase == "backward" and self.progress.modules:
            phase = "recompute"
        read = [t for t in private.leaves(args, kwargs) if isinstance(t, Fake)]
        # The same operands may give another result, by a stride or a type; attention that is causal does half the work.
        made = result if isinstance(result, (list, tuple)) else (result,)
        causal = name.startswith("_scaled_dot_product") and _causal(func, args, kwargs)
        key = (name, phase, _forms(read), len(read), _forms(made), causal, fused, self.waits)
        at = self._known.get(key)
        if at is None:
            at = self._known[key] = len(self.kinds)
            self.kinds.append(
                {"operator": name, "phase": phase, **self._describe(name, func, args, kwargs, read, result)}
            )
            self.kinds[at] |= {"fused": True} if fused else {}
            self.kinds[at] |= {"waits": True} if self.waits else {}
        self.waits = False
        self.order.append(at)

    def collective(self, name: str, size: int, ranks: int) -> None:
        """Record a collective of so many bytes."""
        self._turn()
        key = (name, self.progress.phase, size, ranks)
        at = self._known.get(key)
        if at is None:
            at = self._known[key] = len(self.kinds)
            self.kinds.append({"operator": name, "phase": self.progress.phase, "bytes": size, "ranks": ranks})
        self.order.append(at)

    def again(self, start: int, times: int) -> None:
        """Count what was recorded from a place on so many times more: rounds that were left out."""
        self.order += self.order[start:] * times
        self._skipped += times

    def _turn(self) -> None:
        """Begin a new list when a step has ended."""
        if self.progress.step != self._step:
            self.done, self.order = self.order, []
            self.rounds = self.progress.backwards - self._backwards + self._skipped
            self._skipped = 0
            self._step, self._backwards = self.progress.step, self.progress.backwards

    def summary(self) -> dict[str, Any]:
        """Return the last complete step as plain values."""
        self._turn()
        used = sorted(set(self.done))
        place = {at: number for number, at in enumerate(used)}
        return {
            "kinds": [self.kinds[at] for at in used],
            "order": [place[at] for at in self.done],
            "rounds": self.rounds,
        }

    def _describe(self, name: str, func: Any, args: Any, kwargs: Any, read: list[Any], result: Any) -> dict[str, Any]:
        written = [t for t in private.leaves((result,), {}) if isinstance(t, Fake)]
        if name in _NO_KERNEL or getattr(func, "is_view", False):
            return {"kernels": 0}
        first = next((t for t in read + written if t.is_floating_point()), None)
        dtype = str((first if first is not None else (read + written + [torch.empty(0)])[0]).dtype)[6:]
        found: dict[str, Any] = {"kernels": _kernels(name, args), "dtype": dtype}
        found["bytes"] = _moved(name, args, read, written)
        if written:
            found["shape"] = list(written[0].shape)
        if name == "embedding":
            found["table"] = args[0].shape[0]
        formula = self._formulas.get(getattr(func, "overloadpacket", None))
        if formula is None:
            return found
        if name in _PRODUCTS:
            one, other = args[_PRODUCTS[name]], args[_PRODUCTS[name] + 1]
            found["product"] = [one.shape[0] if one.dim() == 3 else 1, one.shape[-2], other.shape[-1], one.shape[-1]]
            found["flop"] = 2 * math.prod(found["product"])  # PyTorch's formula knows no out_dtype
        elif name == "convolution_backward" and not args[7]:
            # PyTorch's formula takes no notice of groups: two products of the size of the forward one.
            found["flop"] = 2 * args[0].numel() * args[2][0].numel() * sum(map(bool, args[10][:2]))
        else:
            found["flop"] = int(formula(*args, **kwargs, out_val=result)) * (0.5 if _causal(func, args, kwargs) else 1)
        if dtype == "float32" and private.allows_tf32(name in _PRODUCTS):
            found["dtype"] = "tf32"
        if name in _CONVOLUTIONS or name == "convolution_backward":
            _convolution(found, name, args)
        return found


def _convolution(found: dict[str, Any], name: str, args: Any) -> None:
    """Describe a convolution as the product that it is, and what the layout of its tensors costs."""
    backward = name == "convolution_backward"
    image, filters, groups = args[1 if backward else 0], args[2 if backward else 1], args[9 if backward else 8]
    if groups > 1 and filters.shape[0] // groups < 16:
        found["dtype"] = "float32"  # depthwise: too narrow for tensor cores
    elif not backward and not args[6]:
        rows = math.prod(found["shape"]) // filters.shape[0]
        found["product"] = [groups, rows, filters.shape[0] // groups, filters[0].numel()]
    half = image.dtype in (torch.float16, torch.bfloat16)
    if half and groups == 1 and image.dim() == 4 and not (last(image) or last(filters)):
        # Tensor cores want the channels last: cuDNN turns the operands and the result round, each read and written.
        found["bytes"] *= 3
        found["kernels"] += 2


def _forms(tensors: Any) -> tuple[Any, ...]:
    return tuple((tuple(t.shape), t.dtype) for t in tensors[:4] if isinstance(t, Fake))


def _kernels(name: str, args: Any) -> int:
    if not (name.startswith(("_foreach", "_fused", "_amp_foreach")) and args and isinstance(args[0], (list, tuple))):
        return 1
    tensors = [t for t in args[0] if isinstance(t, torch.Tensor)]
    lists = sum(isinstance(arg, (list, tuple)) and bool(arg) and isinstance(arg[0], torch.Tensor) for arg in args)
    blocks = sum(-(-t.numel() // _CHUNK) for t in tensors)
    return int(max(1, -(-len(tensors) // _LISTS.get(lists, 30)), -(-blocks // _BLOCKS)))


def _moved(name: str, args: Any, read: list[Any], written: list[Any]) -> int:
    """Return bytes read and written: every operand once; of a table that is looked up, only the rows that are taken."""
    out: int = sum(map(_bytes, written))
    if name in _LOOKUPS and read:
        return 2 * out + int(sum(map(_bytes, read[1:])))
    return out + int(sum(map(_bytes, read)))


def _bytes(tensor: Any) -> int:
    if not private.has_storage(tensor):
        return 0  # how many numbers a sparse tensor holds hangs on numbers
    # An expanded tensor is read once.
    return int(min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes()))


def _causal(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether attention leaves out the half above the diagonal."""
    if "is_causal" in kwargs:
        return bool(kwargs["is_causal"])
    names = [argument.name for argument in func._schema.arguments]
    at = names.index("is_causal") if "is_causal" in names else len(args)
    return bool(at < len(args) and args[at])
