"""Collectives on the virtual GPU: nobody answers, so every rank is taken to hold what this one holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from preflight.dryrun.virtual import private, private_groups
from preflight.dryrun.virtual.engine import values
from preflight.dryrun.virtual.memory import ledger as words

if TYPE_CHECKING:
    from preflight.dryrun.virtual.engine.gpu import VirtualGpu

_summing = [False]
_REDUCES = frozenset("allreduce_ allreduce_coalesced_ reduce_ reduce_scatter_ _reduce_scatter_base_".split())
_OUTPUTS = frozenset(
    "allgather_ _allgather_base_ reduce_scatter_ _reduce_scatter_base_ allgather_coalesced_ alltoall_ alltoall_base_ "
    "allgather_into_tensor_coalesced_ reduce_scatter_tensor_coalesced_ gather_ scatter_".split()
)
"""Collectives whose first argument is what they write, and the second what they read."""


def install() -> None:
    """Let the functions that reduce tell how: the operators below them do not say it to Python."""
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d

    def told(function: Any, at: int) -> Any:
        def reduce(*args: Any, **kwargs: Any) -> Any:
            how = kwargs.get("op", args[at] if len(args) > at else dist.ReduceOp.SUM)
            _summing[0] = how == dist.ReduceOp.SUM
            try:
                return function(*args, **kwargs)
            finally:
                _summing[0] = False

        return reduce

    for name, at in (("all_reduce", 1), ("reduce", 2), ("reduce_scatter", 2), ("reduce_scatter_tensor", 2)):
        changed = told(getattr(c10d, name), at)
        setattr(c10d, name, changed)
        setattr(dist, name, changed)


def run(gpu: VirtualGpu, name: str, func: Any, args: Any) -> Any:
    """Do what one process sees of a collective of ``torch.distributed``.

    Args:
        gpu: The virtual GPU.
        name: The operator's name without ``c10d::``.
        func: The operator.
        args: Its arguments: tensors, a process group, and more.
    """
    size = next((n for n in map(private_groups.group_size, args) if n is not None), 1)
    group = next((g for g in map(private_groups.group_of, args) if g is not None), None)
    total = _summing[0]
    written = _tensors(args[0]) if args else []
    if name in _OUTPUTS:
        _fill(gpu, written, _tensors(args[1]), size if total else 1)
        # FSDP makes flat buffers for one collective: what is gathered into, and what is reduced from. The other side
        # of it is a share of the parameters or of their gradients.
        flat = written if "gather" in name else _tensors(args[1]) if name.startswith("_reduce") else []
        for tensor in flat:
            if isinstance(tensor, private.fake_class()):
                gpu.ledger.classify(tensor.untyped_storage(), words.COMMUNICATION)
    elif name in _REDUCES and total:
        for tensor in written:
            _times(gpu, tensor, size)
    total_bytes = max(_bytes(written), _bytes(_tensors(args[1]) if name in _OUTPUTS else []))
    if any(isinstance(t, private.fake_class()) for t in written):
        gpu.communicated(name, total_bytes, size, group)
    else:
        gpu.traffic.note(name, total_bytes, group, on_gpu=False)
    returns = len(func._schema.returns)
    if returns == 0:
        return None
    work = private_groups.finished_work()
    return work if returns == 1 else (args[0], work)


FUNCTIONAL = frozenset(("_c10d_functional", "_c10d_functional_autograd"))
"""Namespaces of collectives that give new tensors, as tensor parallelism uses them."""
_PLAIN = {
    "all_reduce": "allreduce_",
    "all_gather_into_tensor": "_allgather_base_",
    "reduce_scatter_tensor": "_reduce_scatter_base_",
    "all_to_all_single": "alltoall_base_",
    "broadcast": "broadcast_",
}
"""Functional collectives by their first words, and what they are called otherwise."""


def functional(gpu: VirtualGpu, name: str, args: Any, result: Any) -> None:
    """Note a functional collective that has given its result, which has no numbers of other ranks."""
    plain = next((known for word, known in _PLAIN.items() if name.startswith(word)), None)
    group = next((g for g in (private_groups.named_group(a) for a in args[::-1] if isinstance(a, str)) if g), None)
    if plain is not None and group is not None:
        size = max(_bytes(_tensors(args[0])), _bytes(_tensors(result)))
        gpu.communicated(plain, size, int(group.size()), group)


def _tensors(tree: Any) -> list[Any]:
    return [leaf for leaf in private.leaves((tree,), {}) if isinstance(leaf, torch.Tensor)]


def _bytes(tensors: list[Any]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _times(gpu: VirtualGpu, tensor: Any, factor: int) -> None:
    if not isinstance(tensor, private.fake_class()):
        tensor.mul_(factor)
        return
    known = gpu.known.get(tensor)
    if known is not None:
        known.mul_(factor)
    told = values.typical(tensor)
    values.remember(tensor, None if told is None else told * factor)


def _fill(gpu: VirtualGpu, written: list[Any], read: list[Any], factor: int) -> None:
    """Write what this rank holds wherever another rank's would stand."""
    if not read:
        return
    for at, tensor in enumerate(written):
        source = read[at % len(read)]
        if isinstance(tensor, private.fake_class()):
            gpu.known.gathered(tensor, source, factor)
            told = values.typical(source)
            values.remember(tensor, None if told is None else told * factor)
        elif not isinstance(source, private.fake_class()) and source.numel():
            flat, mine = tensor.view(-1), source.reshape(-1)
            repeated = mine.repeat(-(-flat.numel() // mine.numel()))[: flat.numel()]
            flat.copy_(repeated).mul_(factor)
