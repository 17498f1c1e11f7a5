"""Activation checkpointing of the repeated blocks: what they saved is computed again in the backward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from preflight.dryrun.virtual.changes import Change, Run

_SWITCHES = ("gradient_checkpointing_enable", "enable_gradient_checkpointing", "set_grad_checkpointing")
"""Methods by which models of the common libraries (transformers, diffusers, timm) do it themselves."""


def install(change: Change, run: Run) -> None:
    """Switch it on when a model is called for the first time."""
    done: set[int] = set()

    def prepare(module: Any, args: Any, kwargs: Any) -> None:
        if id(module) in done:
            return
        done.add(id(module))
        if not _by_itself(change, module):
            _by_hand(change, module)

    run.inputs.before.append(prepare)


def _by_itself(change: Change, top: Any) -> bool:
    """Use the model's own switch, if it has one."""
    for module in top.modules():
        for name in _SWITCHES:
            switch = getattr(module, name, None)
            if not callable(switch):
                continue
            try:
                switch()
            except (ValueError, NotImplementedError, AssertionError, TypeError, AttributeError):
                continue  # this architecture does not know it
            change.did(f"{type(module).__name__}.{name}()")
            return True
    return False


def _by_hand(change: Change, top: Any) -> None:
    blocks = repeated(top)
    for path, block in blocks:
        _wrap(block)
        change.did(f"blocks of class {type(block).__name__} in {path or type(top).__name__}")
    if not blocks:
        change.cannot(f"{type(top).__name__} has no list of blocks of the same class")


_STAGES = 4
"""So few alike may be stages, which hold the blocks."""


def repeated(module: Any, path: str = "") -> list[tuple[str, Any]]:
    """Return the outermost blocks that a list or a sequence holds several times, with the path of the list.

    A block has parameters and modules of its own: a row of plain layers is no row of blocks, and neither is a row of
    stages that are themselves rows of blocks.
    """
    found: list[tuple[str, Any]] = []
    listed = isinstance(module, (nn.ModuleList, nn.Sequential, nn.ModuleDict))
    alike: dict[type, int] = {}
    for child in module.children():
        alike[type(child)] = alike.get(type(child), 0) + 1
    for name, child in module.named_children():
        inner = repeated(child, f"{path}.{name}" if path else name)
        block = listed and alike[type(child)] > 1 and next(child.children(), None) is not None
        if block and any(p.requires_grad for p in child.parameters()) and not _stage(child, inner, alike[type(child)]):
            found.append((path, child))
        else:
            found += inner
    return found


def _stage(module: Any, inner: list[tuple[str, Any]], alike: int) -> bool:
    """Whether a module is a row of blocks and not much more."""
    if isinstance(module, (nn.ModuleList, nn.ModuleDict)):
        return True
    if not inner:
        return False
    of_blocks = sum(p.numel() for _, block in inner for p in block.parameters())
    most = 2 * of_blocks > sum(p.numel() for p in module.parameters())
    return most and (isinstance(module, nn.Sequential) or alike <= _STAGES)


def _wrap(block: Any) -> None:
    plain = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(plain, *args, use_reentrant=False, **kwargs)

    block.forward = forward
