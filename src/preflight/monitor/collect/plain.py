"""Which tensors can be read, and how to read them past whatever the program has switched on."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

DEVICES = ("cpu", "cuda", "xpu", "mps")
"""Where tensors have a memory of their own that integer arithmetic can be done on; on others nothing is read."""

_PAST = (
    *("Python", "PythonTLSSnapshot", "AutocastCPU", "AutocastCUDA", "AutocastXPU", "AutocastMPS", "ADInplaceOrView"),
    *("AutogradFunctionality", "AutogradOther", "AutogradNestedTensor"),
)
"""Keys of the dispatcher that are passed by: modes of the program, autocast, views' bookkeeping, autograd."""

_keys: dict[str, Any] = {}
_exact: set[Any] = set()
_usual: set[Any] = set()
_strided: Any = None
_Asked = tuple[Callable[[], bool], Callable[[], Any], dict[str, Any]]
_asked: list[_Asked] = []  # whether torch traces, in which transformation it is, and the names in torch.cuda


def loaded() -> Any:
    """Return the torch that the program has loaded, or None."""
    return sys.modules.get("torch")


def impossible(torch: Any) -> bool:
    """Say whether nothing may be computed now: while compiling, inside `torch.func`, while a graph is captured.

    Args:
        torch: The torch that is loaded.
    """
    return torch.compiler.is_compiling() or apart(torch)


def apart(torch: Any) -> bool:
    """Say the same where it is known that nothing is compiled, as in a hook on modules, which asks that first.

    Args:
        torch: The torch that is loaded.
    """
    tracing, transformation, _ = (_asked or _ask(torch))[0]  # as ``transformed`` does, for every tensor that passes by
    return tracing() or transformation() is not None or capturing(torch)


def transformed(torch: Any) -> bool:
    """Say whether this thread traces, or is inside `torch.func`.

    Args:
        torch: The torch that is loaded.
    """
    tracing, transformation, _ = (_asked or _ask(torch))[0]
    return tracing() or transformation() is not None


def capturing(torch: Any) -> bool:
    """Say whether the current CUDA stream of this thread is being captured into a graph.

    Args:
        torch: The torch that is loaded.
    """
    flags = (_asked or _ask(torch))[0][2]
    if not flags.get("_initialized", True):
        return False
    # A torch without CUDA raises when it is asked; one whose CUDA was never started cannot be capturing.
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


def _ask(torch: Any) -> list[_Asked]:
    """Remember what is asked for every tensor that passes by: torch's own functions for it call others each time."""
    tracing = getattr(torch._C, "_is_tracing", torch.jit.is_tracing)
    _asked.append((tracing, torch._C._functorch.peek_interpreter_stack, vars(torch.cuda)))
    return _asked


class _Guards(threading.local):
    """Guards that this thread has made and does not use now: making them costs more than entering them."""

    def __init__(self) -> None:
        self.free: list[tuple[Any, Any]] = []


_made = _Guards()


class Outside:
    """A context in which the program's modes, autocast and autograd do not see what is computed."""

    __slots__ = ("_guards", "_recording", "_torch")

    def __init__(self, torch: Any) -> None:
        """Remember the torch to work in."""
        self._torch = torch

    def __enter__(self) -> None:
        torch = self._torch
        free = _made.free
        self._guards = functions, keys = free.pop() if free else _guards(torch)
        # Functions' modes first: they would see that the grad mode changes.
        functions.__enter__()
        self._recording = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)
        keys.__enter__()

    def __exit__(self, *error: object) -> None:
        functions, keys = self._guards
        keys.__exit__(None, None, None)
        self._torch._C._set_grad_enabled(self._recording)
        functions.__exit__(None, None, None)
        _made.free.append(self._guards)


def _guards(torch: Any) -> tuple[Any, Any]:
    """Return new guards: past functions' modes, and past keys of the dispatcher."""
    keys = _keys.get("past")
    if keys is None:
        keys = _keys["past"] = _past(torch)
    return torch._C.DisableTorchFunction(), torch._C._ExcludeDispatchKeyGuard(keys)


def _past(torch: Any) -> Any:
    """Return the set of dispatch keys to pass by, of those that this torch has."""
    key, make = torch._C.DispatchKey, torch._C.DispatchKeySet
    keys = make(key.Python)
    for name in _PAST:
        if hasattr(key, name):
            keys = keys | make(getattr(key, name))
    return keys


def parts(torch: Any, tensor: Any) -> Sequence[Any] | None:
    """Return the plain strided tensors that hold a tensor's bits, or None where they cannot be read.

    A DTensor is its local shard, a sparse tensor its indices and values as they are stored.
    Fake and meta tensors hold nothing; nested and quantized ones and other wrappers are left alone.

    Args:
        torch: The torch that is loaded.
        tensor: Anything; what is no tensor has no parts.
    """
    if type(tensor) not in plain_types(torch):
        tensor = _unwrapped(torch, tensor)
        if tensor is None:
            return None
    if tensor.device.type not in DEVICES or tensor.is_quantized or tensor.is_nested:
        return None
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return None
    if tensor.layout is not torch.strided:
        return _sparse(torch, tensor)
    if tensor.is_neg() or (tensor.is_complex() and tensor.is_conj()):
        # The bits in memory are those of another tensor: what counts is what the program would read.
        return (tensor.resolve_conj().resolve_neg(),)
    return (tensor,)


def simple(tensor: Any) -> bool:
    """Say, for the tensors that nearly all are, whether one is its own only part, without looking at everything.

    Args:
        tensor: Anything; what its device is, is not looked at.
    """
    usual = type(tensor) in _exact and tensor.dtype in _usual and tensor.layout is _strided
    return usual and not tensor.is_neg() and not tensor.is_nested


def empty(tensor: Any) -> bool:
    """Say whether a tensor has a shape and no memory: on the meta device, or a fake one.

    What is computed with such tensors is a rehearsal, for shapes, operations or memory, and trains nothing.

    Args:
        tensor: Anything.
    """
    if getattr(tensor, "is_meta", False):
        return True
    fake = sys.modules.get("torch._subclasses.fake_tensor")
    return fake is not None and isinstance(tensor, getattr(fake, "FakeTensor", ()))


def plain_types(torch: Any) -> set[Any]:
    """Return the classes whose tensors are nothing but tensors.

    Args:
        torch: The torch that is loaded.
    """
    if not _exact:
        _learn(torch)
    return _exact


def _learn(torch: Any) -> None:
    """Remember what the quick look compares with."""
    global _strided
    _strided = torch.strided
    _usual.update((torch.float32, torch.bfloat16, torch.float16, torch.int64))
    _exact.update((torch.Tensor, torch.nn.Parameter))


def _unwrapped(torch: Any, tensor: Any) -> Any:
    """Return the plain tensor behind a subclass, or None where it has none or refuses."""
    if not isinstance(tensor, torch.Tensor):
        return None
    distributed = sys.modules.get("torch.distributed.tensor") or sys.modules.get("torch.distributed._tensor")
    if distributed is not None and isinstance(tensor, getattr(distributed, "DTensor", ())):
        local = getattr(tensor, "_local_tensor", None)
        return local if type(local) in (torch.Tensor, torch.nn.Parameter) else None
    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        return None
    ours = type(tensor).__torch_dispatch__
    if ours is not torch.Tensor.__torch_dispatch__ and ours is not torch._C._disabled_torch_dispatch_impl:
        # What answers operators itself need not have a memory: reading it as if it had could read anything.
        return None
    return tensor.as_subclass(torch.Tensor)


def _sparse(torch: Any, tensor: Any) -> Sequence[Any] | None:
    """Return the members of a sparse tensor as they are stored, not coalesced."""
    if tensor.layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return None
