"""Every InfiniBand port that is plugged in is active."""

from __future__ import annotations

import glob
import os

from preflight.investigate.checklist.checks import Seen

ROOT = "/sys/class/infiniband"


def check(least: int = 1, root: str = ROOT) -> Seen:
    """Read the states that the kernel tells (what ibstat shows)."""
    states = {}
    for path in sorted(glob.glob(os.path.join(root, "*", "ports", "*", "state"))):
        parts = path.split(os.sep)
        try:
            with open(path, encoding="ascii") as file:
                states[f"{parts[-4]}/{parts[-2]}"] = file.read().partition(":")[2].strip()
        except OSError:
            continue
    if not states:
        return Seen("unknown", "the kernel shows no InfiniBand device")
    down = [f"{port} is {state}" for port, state in states.items() if state != "ACTIVE"]
    active = len(states) - len(down)
    if active < least:
        return Seen("fail", f"{active} ports are active, {least} are needed: {', '.join(down)}")
    return Seen("warn" if down else "pass", f"{active} ports are active" + (f"; {', '.join(down)}" if down else ""))
