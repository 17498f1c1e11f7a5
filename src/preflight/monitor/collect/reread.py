"""Tensors that lie as they were made and are read in another shape: whether that tears apart what belongs together.

``view`` and ``reshape`` leave the numbers where they are. Axes that stand in another order afterwards were not exchanged:
a row of the new shape holds numbers of several samples, or of several channels at several places. A tensor knows what it
is a view of, so that both shapes can be compared without a look at the numbers. Looked at are the inputs of the parts of
a model that is trained, in detailed iterations, and what ``cross_entropy`` is given.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

from .bounded import BoundedLooks
from .functionals import watch
from .graph import Graph, name_of
from .heads import heads
from .patching import Patches
from .recorder import Recorder

NAME = "views.torn"
SAMPLES, ROWS, CHANNELS, CLASSES, HEADS, STEPS = "samples", "rows", "channels", "classes", "heads", "steps"
_MOST_LOOKS = 3  # of one reading at one place
_MOST_KNOWN = 512
_MOST_NODES = 6
_CHANNELLED = ("Convolution", "MkldnnConvolution", "SlowConv", "ThnnConv")
"""Operations whose results have their channels second."""
_EACH = (
    *("Relu", "LeakyRelu", "Elu", "Gelu", "Silu", "Hardtanh", "Hardswish", "Mish", "Sigmoid", "Tanh", "NativeDropout"),
    *("NativeBatchNorm", "CudnnBatchNorm", "NativeGroupNorm", "MaxPool", "AvgPool", "AdaptiveAvgPool", "Add", "Mul"),
)
"""Operations that leave the channels second."""
_LINEAR = ("Addmm", "Mm", "UnsafeView", "Add")
"""Operations by which a linear layer gives its features last."""


class Views:
    """Looks at what parts of a model and losses are given."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.samples = 0  # how many the model that is trained was given
        self._input: weakref.ref[Any] | None = None  # and in which tensor
        self._looks = BoundedLooks(_MOST_LOOKS, _MOST_KNOWN)

    def install(self, patches: Patches) -> None:
        """Put the watching function in place."""
        if self.recorder.wants(NAME):
            watch(self.recorder, patches, "cross_entropy", self._scored)

    def given(self, module: Any, args: Any) -> None:
        """A model that is trained is called."""
        tensor = self.recorder.torch.Tensor
        one: Any = args[0] if args else None
        shaped = isinstance(one, tensor) and not one.is_nested and one.dim() > 1
        told = shaped and module.training and self.recorder.torch.is_grad_enabled()
        self.samples = one.shape[0] if told else 0
        self._input = weakref.ref(one) if told else None

    def heads(self, graph: Graph) -> None:
        """Look at the attentions of a loss."""
        if self.recorder.wants(NAME):
            for before, after, torn in heads(graph):
                self._tell("attention", HEADS, before, after, torn)

    def look(self, name: str, args: Any, module: Any = None) -> None:
        """A part of it is."""
        one: Any = args[0] if args else None
        if not self.samples or type(one) is not self.recorder.torch.Tensor or not one._is_view():
            return
        if isinstance(getattr(module, "batch_first", None), bool):
            self._sequence(name, one)
        made = _made(one)
        if made is None:
            self._turned(name, one)
            return
        before, after = made.shape, one.shape
        if _over_samples(before, self.samples):
            self._tell(name, SAMPLES, before, after, after[0] == self.samples)
        elif _over_places(before, after) and _second(made.grad_fn):
            self._tell(name, CHANNELS, before, after, after[-1] == before[1])

    def _turned(self, name: str, one: Any) -> None:
        """A part is given a matrix that was turned round: whether samples that came first were cut into columns before."""
        made = one._base
        if one.dim() != 2 or not one.requires_grad or made is None or made.grad_fn is None or made.dim() < 2:
            return
        whole = made.numel() == one.numel() and made.is_contiguous() and one.t().is_contiguous()
        if whole and made.shape[0] == one.shape[0] == self.samples > 1 and made.shape[-1] not in (1, self.samples):
            self._tell(name, ROWS, made.shape, one.shape, True)

    def _sequence(self, name: str, one: Any) -> None:
        """A layer that reads sequences is given a view: whether samples and steps have only changed their sizes."""
        given = self._input() if self._input is not None else None
        made = one._base
        if given is not None and made is (given._base if given._is_view() else given):
            made = given if given.numel() == one.numel() and given.data_ptr() == one.data_ptr() else None
        elif made is None or made.grad_fn is None:
            return
        if made is None or one.dim() != 3 or made.dim() != 3 or not (one.is_contiguous() and made.is_contiguous()):
            return
        first, second, width = made.shape
        apart = first != second and min(first, second) > 1 and self.samples in (first, second)
        if apart and tuple(one.shape) == (second, first, width):
            self._tell(name, STEPS, made.shape, one.shape, True)

    def _scored(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        one: Any = kwargs.get("input", args[0] if args else None)
        if type(one) is not self.recorder.torch.Tensor or one.dim() < 2 or not one._is_view():
            return
        if one.dim() == 2:
            self._rows(one)
            return
        made = _made(one, least=2)
        if made is None or made.dim() > 3 or not name_of(made.grad_fn).startswith(_LINEAR):
            return
        classes, places = one.shape[1], math.prod(one.shape[2:])
        if made.shape[-1] in (classes, places) and classes != places and min(classes, places) > 1:
            self._tell("cross_entropy", CLASSES, made.shape, one.shape, made.shape[-1] == classes)

    def _rows(self, one: Any) -> None:
        """A loss is given rows: whether each holds the classes of one place, where a convolution gave these channels first."""
        made = _made(one)
        if made is None or made.shape[1] != one.shape[1] or made.shape[-1] == one.shape[1]:
            return
        if math.prod(made.shape[2:]) > 1 and _second(made.grad_fn):
            self._tell("cross_entropy", CHANNELS, made.shape, one.shape, True)

    def _tell(self, name: str, kind: str, before: Sequence[int], after: Sequence[int], torn: bool) -> None:
        subject = f"{name}#{kind}#{_word(before)}#{_word(after)}"
        if not self._looks.take(subject):
            return
        self.recorder.put("scalar", (*self.recorder.head(), NAME, subject, float(torn)))


def _made(one: Any, least: int = 3) -> Any:
    """What a tensor is another reading of, where both are the whole of it as it lies; None where it is not so."""
    if not one.requires_grad or not one.is_contiguous():
        return None
    made = one._base
    if made is None or made.grad_fn is None or made.dim() < least or made.numel() != one.numel():
        return None
    return made if made.is_contiguous() and made.shape != one.shape else None


def _over_samples(before: Sequence[int], samples: int) -> bool:
    """Whether the samples are the second axis and the first one is something else, which cannot be cut into them."""
    return before[0] > 1 and before[1] == samples != before[0] and before[0] % samples != 0


def _over_places(before: Sequence[int], after: Sequence[int]) -> bool:
    """Whether places are an axis of their own afterwards, before or behind as many others as there were channels."""
    places = math.prod(before[2:])
    if len(after) != 3 or after[0] != before[0] or places == before[1] or min(places, before[1]) < 2:
        return False
    return set(after[1:]) == {places, before[1]}


def _second(node: Any) -> bool:
    """Whether an operation's result has channels second: of a convolution, or of what leaves these where they are."""
    for _ in range(_MOST_NODES):
        name = name_of(node)
        if name.startswith(_CHANNELLED):
            return True
        if not name.startswith(_EACH):
            return False
        node = next((below for below, _ in node.next_functions if below is not None), None)
        if node is None:
            return False
    return False


def _word(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))
