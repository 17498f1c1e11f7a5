"""Batches of PyTorch's own loader: which loader a tensor comes from as it came, and what its data set is made of."""

from __future__ import annotations

from preflight.check.queries.tensors import operation, origin
from preflight.source.trace import provenance
from preflight.source.values import Obj, Value

LOADER = "torch.utils.data.DataLoader"


def loader_of(value: Value | None) -> Obj | None:
    """The loader of whose batches a value is an item, as it came; None for everything else."""
    made = origin(value, frozenset(), items=True)
    return made if operation(value) == "[]" and made is not None and made.name == LOADER else None


def library_parts(loader: Obj | None) -> list[Obj] | None:
    """What the data set of a loader is made of, where the loader puts batches together itself and all of it is of libraries.

    None where the script brings a function or a class of its own, or where some arguments are not known.
    """
    if loader is None or loader.open_args or loader.argument(6, "collate_fn") is not None:
        return None
    parts = [part for part in provenance(loader.argument(0, "dataset"), 200) if isinstance(part, Obj)]
    return None if any(part.cls is not None for part in parts) else parts
