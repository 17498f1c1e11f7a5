"""Tables of what stands beside the GPUs: links, prices, error numbers of the driver."""

from __future__ import annotations

import importlib

from written import table

Row = tuple[object, ...]


def pages() -> dict[str, str]:
    """Return the pages by their paths in the reference."""
    return {"links.md": _links(), "prices.md": _prices(), "driver-errors.md": _driver_errors()}


def _links() -> str:
    """Return the table of the links, by where they lead."""
    hardware = importlib.import_module("preflight.catalog.hardware")
    links = [hardware.load_link(name) for name in hardware.link_names()]
    parts = [
        "# Links\n\nWritten by `make docs` from the catalog.\n"
        "Bandwidth is that of one direction and one GPU.\n"
        "A plan takes the link of the GPU's board inside a node, and `--inter-node` between nodes; `--interconnect` names another for the inside.\n"
    ]
    titles = {"intra_node": "Between GPUs of a node", "inter_node": "Between nodes", "host": "To the host"}
    for scope in sorted({link.scope for link in links}, key=lambda scope: list(titles).index(scope)):
        rows: list[Row] = [
            (f"`{link.name}`", link.title, link.bandwidth / 1e9, "; ".join(link.sources))
            for link in links
            if link.scope == scope
        ]
        parts.append(f"## {titles[scope]}\n\n" + table(("name", "link", "GB/s", "where it was read"), rows))
    return "\n".join(parts)


def _prices() -> str:
    """Return the table of the prices that were read, by GPU."""
    hardware = importlib.import_module("preflight.catalog.hardware")
    rows: list[Row] = []
    for name in hardware.gpu_names():
        for price in hardware.prices_for(name):
            low, high = price.usd_per_hour_low, price.usd_per_hour_high
            span = f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"
            rows.append((f"[`{name}`](gpus/{name}.md)", span, price.kind, price.date, "; ".join(price.sources)))
    return (
        "# Prices\n\nWritten by `make docs` from the catalog.\n"
        "What was asked for one GPU and hour, in USD, on the day on which it was read; these are no quotes.\n"
        "A file in `clouds/` of [a catalog folder of your own](../guides/catalog.md) adds others.\n\n"
        + table(("GPU", "USD", "kind", "read", "where"), rows)
    )


def _driver_errors() -> str:
    """Return the tables of the error numbers of NVIDIA's driver and switches."""
    codes = importlib.import_module("preflight.catalog.xid_codes")
    parts = [
        "# Error numbers of the driver\n\nWritten by `make docs` from the catalog.\n"
        "What stands behind `NVRM: Xid` and `SXid` in the kernel's log; `preflight explain xid-79` prints one of them.\n"
    ]
    for kind, title in (("xid", "Xid: of a GPU"), ("sxid", "SXid: of an NVSwitch")):
        rows: list[Row] = [
            (code, error.meaning, error.category, error.advice) for code, error in codes.driver_errors(kind).items()
        ]
        parts.append(f"## {title}\n\n" + table(("number", "what it means", "category", "what to do first"), rows))
    return "\n".join(parts)
