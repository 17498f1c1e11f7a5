"""Kernels that the virtual GPU cannot run, such as those in Triton: what they read and write is accounted for.

A launch leaves every tensor where it is, and no number behind: what it writes is not known any more. Its time is that of
moving the bytes of its tensors once; what it computes cannot be told from outside, and the report says so.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from preflight.dryrun.virtual import private
from preflight.dryrun.virtual.engine import values

if TYPE_CHECKING:
    from preflight.dryrun.virtual.engine.gpu import VirtualGpu

Fake = private.fake_class()
SHOWN = 8
"""So many kernels are listed by name."""
_MOVES = ("load", "store", "atomic_")
_gpu: list[VirtualGpu] = []
_launches: Counter[str] = Counter()


def install(gpu: VirtualGpu) -> None:
    """Account for launches on this GPU."""
    _gpu[:] = [gpu]
    if hasattr(torch.library, "wrap_triton"):
        # What would be written into a graph for the compiler is launched like any other kernel.
        torch.library.wrap_triton = lambda kernel: kernel


def lines() -> list[str]:
    """Say for the report which kernels were launched."""
    if not _launches:
        return []
    named = [f"{name} ({count}x)" for name, count in _launches.most_common(SHOWN)]
    rest = len(_launches) - len(named)
    listed = ", ".join(named) + (f" and {rest} others" if rest > 0 else "")
    return [
        f"Triton kernels were launched and not run: {listed}; their time counts the bytes of their tensors, not their arithmetic"
    ]


def launch(kernel: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Launch a kernel in Triton.

    Args:
        kernel: The function.
        given: Its arguments by name.

    Raises:
        ValueError: A tensor lies on the host, as Triton says it.
        NotImplementedError: There is no GPU, not even a virtual one.
    """
    name = getattr(kernel, "__name__", "kernel")
    if not _gpu:
        raise NotImplementedError(f"the Triton kernel {name} needs a GPU")
    tensors = {key: value for key, value in given.items() if isinstance(value, torch.Tensor)}
    for at, value in enumerate(given.values()):
        if isinstance(value, torch.Tensor) and not _on_gpu(value) and not value.is_pinned():
            raise ValueError(f"Pointer argument (at {at}) cannot be accessed from Triton (cpu tensor?)")
    _launches[name] += 1
    loaded, stored = _touched(kernel)
    touch(
        f"triton {name}",
        [value for key, value in tensors.items() if loaded is None or key in loaded],
        [value for key, value in tensors.items() if stored is None or key in stored],
    )


def touch(name: str, read: Iterable[Any], written: Iterable[Any]) -> None:
    """Account for a kernel that reads tensors on the GPU and writes others, none of which it makes."""
    gpu, sources, targets = _gpu[0], [*map(_local, read)], [*map(_local, written)]
    if gpu.progress.stopping:
        gpu.progress.stop()
    gpu.operators += 1
    for tensor in targets:
        values.remember(tensor, None)
        gpu.known.forget(tensor)
    gpu.work.see(name, None, sources, {}, targets)
    if gpu.progress.pending:
        for tensor in targets:
            gpu.changed(tensor)


def _local(tensor: Any) -> Any:
    return getattr(tensor, "_local_tensor", tensor)


def _on_gpu(tensor: Any) -> bool:
    tensor = _local(tensor)
    return isinstance(tensor, Fake) and tensor.fake_device.type == private.BACKEND


@functools.cache
def _touched(kernel: Callable[..., Any]) -> tuple[frozenset[str] | None, frozenset[str] | None]:
    """Return the parameters that a kernel loads from and stores to; None where its text cannot be read."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kernel)))
        return Pointers([*inspect.signature(kernel).parameters]).follow(tree)
    except (OSError, TypeError, ValueError, SyntaxError):
        return None, None


class Pointers:
    """Follows a kernel's parameters through its arithmetic of pointers.

    Args:
        parameters: Their names.
    """

    def __init__(self, parameters: list[str]) -> None:
        self.origins: dict[str, set[str]] = {name: {name} for name in parameters}
        self.loaded: set[str] = set()
        self.stored: set[str] = set()

    def follow(self, tree: ast.AST) -> tuple[frozenset[str], frozenset[str]]:
        """Return the parameters that are loaded from and those that are stored to."""
        nodes = list(ast.walk(tree))
        for _ in range(2):  # a pointer that a loop moves is used before it is moved
            for node in nodes:
                if isinstance(node, ast.Assign):
                    for target in node.targets:
                        self._assign(target, node.value)
                elif isinstance(node, (ast.AugAssign, ast.AnnAssign)) and node.value is not None:
                    self._assign(node.target, node.value)
        for node in nodes:
            if isinstance(node, ast.Call):
                self._call(node)
        return frozenset(self.loaded), frozenset(self.stored)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        found = self._of(value)
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                self.origins.setdefault(node.id, set()).update(found)

    def _of(self, value: ast.AST) -> set[str]:
        """Return the parameters that an address is made from; what has been loaded is a number and no address."""
        if isinstance(value, ast.Name):
            return self.origins.get(value.id, set())
        if isinstance(value, ast.Call) and _name_of(value).startswith(_MOVES):
            return set()
        return set().union(*(self._of(part) for part in ast.iter_child_nodes(value)))

    def _call(self, node: ast.Call) -> None:
        name, owner = _name_of(node), node.func.value if isinstance(node.func, ast.Attribute) else None
        described = self._of(owner) if owner is not None else set()
        first = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "pointer"), None)
        places = described or (self._of(first) if first is not None else set())
        if name.startswith("load"):
            self.loaded |= places
        elif name.startswith(("store", "atomic_")):
            self.stored |= places
            self.loaded |= places if name.startswith("atomic_") else set()
        elif owner is None:
            # Another kernel's function may do either.
            handed = set().union(*(self._of(part) for part in [*node.args, *(k.value for k in node.keywords)]))
            self.loaded |= handed
            self.stored |= handed


def _name_of(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
