"""``preflight monitor``: record a training run, learn what holds in it, and say where it stops to hold."""

from __future__ import annotations

from preflight.cli.parts.grouped import FromFolder

command = FromFolder(
    "monitor",
    "preflight.cli.monitor_",
    short_help="Watch a training run for what must always hold in it, and say where it stops to hold.",
    help="""Watch a training run for what must always hold in it, and say where it stops to hold.

    \b
    preflight monitor run -- python train.py          record and watch, with the shipped invariants
    preflight monitor collect -o good -- python train.py
    preflight monitor infer good -o invariants.jsonl  learn from runs that went well
    preflight monitor check trace --invariants invariants.jsonl

    The program is not changed: it keeps its output, its exit code and its signals.
    """,
)
