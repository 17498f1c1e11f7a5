"""Graphs of PyTorch Geometric that are not there: random ones of the sizes that the library's own documentation states."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_GRAPHS = 64
"""Graphs of a data set that has more of them."""
_PER_CLASS, _CHECKED, _TESTED = 20, 500, 1000
"""Nodes whose classes are given, as in the usual split of citation networks."""


def install(module: Any, assume: Callable[[str], None]) -> None:
    """Meet data sets whose download fails.

    Args:
        module: ``torch_geometric.data``.
        assume: Is given a line for each of them.
    """
    whole, memory = module.Dataset, module.InMemoryDataset
    plain_download, plain_process, plain_load = whole._download, whole._process, memory.load

    def download(data_set: Any) -> None:
        try:
            plain_download(data_set)
        except Exception as error:
            sizes = stated(type(data_set).__doc__ or "", str(getattr(data_set, "name", "")))
            if sizes is None or not isinstance(data_set, memory):
                raise
            data_set.__dict__["_stated"] = sizes
            name = getattr(data_set, "name", None) or type(data_set).__name__
            told = ", ".join(f"{count} {what}" for what, count in sizes.items())
            assume(f"data set {name} is not here ({type(error).__name__}): random graphs with {told}")

    def process(data_set: Any) -> None:
        if "_stated" not in data_set.__dict__:
            plain_process(data_set)

    def load(data_set: Any, path: Any, *args: Any, **kwargs: Any) -> None:
        sizes = data_set.__dict__.get("_stated")
        if sizes is None:
            plain_load(data_set, path, *args, **kwargs)
            return
        count = min(int(sizes.get("graphs", 1)), _GRAPHS)
        data_set.data, data_set.slices = memory.collate([_graph(module, sizes) for _ in range(count)])

    whole._download, whole._process, memory.load = download, process, load


def stated(documentation: str, name: str) -> dict[str, int] | None:
    """Return the sizes in a table of a data set's documentation, or None where it has none.

    Args:
        documentation: The text of its class, with a table of lists whose first row names ``#nodes`` and others.
        name: The row, where there are several.
    """
    rows = [
        [cell.strip() for cell in re.split(r"^\s*\*?\s*-\s", row, flags=re.MULTILINE)[1:]]
        for row in re.split(r"\n(?=\s*\*\s-\s)", documentation)
        if re.match(r"\s*\*\s-\s", row)
    ]
    head = next((row for row in rows if "#nodes" in row), None)
    if head is None:
        return None
    for row in rows[rows.index(head) + 1 :]:
        if len(row) == len(head) and (head[0] != "Name" or row[0].strip("`:.").lower() == name.lower()):
            sizes = {what[1:]: _number(cell) for what, cell in zip(head, row, strict=True) if what.startswith("#")}
            known = {what: size for what, size in sizes.items() if size is not None}
            return known if "nodes" in known else None
    return None


def _number(cell: str) -> int | None:
    found = re.match(r"~?([\d,]+)(?:\.\d+)?", cell.strip())
    return int(found[1].replace(",", "")) if found else None


def _graph(module: Any, sizes: dict[str, int]) -> Any:
    import torch

    nodes, classes = max(sizes.get("nodes", 1), 1), max(sizes.get("classes", 1), 1)
    several = sizes.get("graphs", 1) > 1
    graph = module.Data(
        x=torch.rand(nodes, max(sizes.get("features", 1), 1)),
        edge_index=torch.randint(0, nodes, (2, max(sizes.get("edges", 1), 1))),
        y=torch.randint(0, classes, (1 if several else nodes,)),
    )
    if not several:
        first = min(_PER_CLASS * classes, nodes // 3)
        bounds = (0, first, first + min(_CHECKED, nodes // 3), first + min(_CHECKED, nodes // 3) + _TESTED)
        for place, name in enumerate(("train_mask", "val_mask", "test_mask")):
            mask = torch.zeros(nodes, dtype=torch.bool)
            mask[bounds[place] : bounds[place + 1]] = True
            graph[name] = mask
    return graph
