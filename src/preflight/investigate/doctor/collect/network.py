"""Network interfaces and InfiniBand ports, from the kernel's files."""

from __future__ import annotations

import os

from preflight.investigate.doctor.wanted import Wanted
from preflight.vocabulary.finding import Scalar

NET, IB = "/sys/class/net", "/sys/class/infiniband"


def collect(wanted: Wanted) -> dict[str, Scalar]:
    """Return state, size of frames and speed of what is connected."""
    found: dict[str, Scalar] = {}
    for name in _listed(NET):
        state = _read(f"{NET}/{name}/operstate")
        if name.startswith(("veth", "cali", "docker", "br-")):
            continue  # those of containers come and go
        found[f"interface.{name}.state"] = state
        found[f"interface.{name}.mtu"] = _number(_read(f"{NET}/{name}/mtu"))
        speed = _number(_read(f"{NET}/{name}/speed"))
        if speed is not None and speed > 0:
            found[f"interface.{name}.megabit_per_s"] = speed
    for device in _listed(IB):
        found[f"infiniband.{device}.firmware"] = _read(f"{IB}/{device}/fw_ver")
        for port in _listed(f"{IB}/{device}/ports"):
            at, key = f"{IB}/{device}/ports/{port}", f"infiniband.{device}.{port}"
            found[f"{key}.state"] = _read(f"{at}/state")
            found[f"{key}.rate"] = _read(f"{at}/rate")
            found[f"{key}.link_downed"] = _number(_read(f"{at}/counters/link_downed"))
            found[f"{key}.symbol_errors"] = _number(_read(f"{at}/counters/symbol_error"))
    return {key: value for key, value in found.items() if value is not None}


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.lstrip("-").isdigit() else None
