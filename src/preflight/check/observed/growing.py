"""Memory that grows over a dry run: where it is kept, where it was made, and by whom it is held, in words."""

from __future__ import annotations

from preflight.vocabulary.held import Growth
from preflight.vocabulary.quantity import format_bytes


def kept_at(growth: Growth) -> str:
    """Return the line that keeps what grows, or else that of what is kept, or else the loop."""
    made = growth.holders[0].line if growth.holders else growth.loop
    return growth.kept_at[0] if growth.kept_at else made


def because(growth: Growth, unit: str) -> str:
    """Return who keeps it, as the end of a sentence; nothing where that was not found."""
    who = f"the graph of {growth.keeper}" if growth.kind == "graph" else growth.keeper
    return f", because {who} keeps what earlier {unit}s made" if growth.keeper else ""


def made_at(growth: Growth) -> list[tuple[str, str]]:
    """Return the lines that made most of it, each with how much."""
    return [(holder.line, f"{format_bytes(holder.bytes)} are made here") for holder in growth.holders[:3]]
