"""GPUs as the driver shows them (nvidia-smi), their topology, and what is left over of it where there is no driver."""

from __future__ import annotations

from preflight.investigate.doctor.asking import NoAnswer, ask
from preflight.investigate.doctor.wanted import Wanted
from preflight.vocabulary.finding import Scalar

ASKED = {
    "name": "name", "bus": "pci.bus_id", "uuid": "uuid", "memory_mib": "memory.total", "used_mib": "memory.used",
    "persistence": "persistence_mode", "ecc": "ecc.mode.current", "mig": "mig.mode.current",
    "compute_mode": "compute_mode", "power_limit_w": "power.limit", "clock_sm_max_mhz": "clocks.max.sm",
    "clock_applications_mhz": "clocks.applications.graphics", "throttle": "clocks_throttle_reasons.active",
    "link_generation_max": "pcie.link.gen.max", "link_width": "pcie.link.width.current",
    "ecc_uncorrected": "ecc.errors.uncorrected.volatile.total", "temperature_c": "temperature.gpu",
}  # fmt: skip
NOTHING = {"", "[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "[GPU requires reset]"}


def collect(wanted: Wanted) -> dict[str, Scalar]:
    """Return the driver's version and each GPU's properties; ``driver.problem`` where nvidia-smi is absent or fails."""
    try:
        said = ask(["nvidia-smi", "--query-gpu=driver_version," + ",".join(ASKED.values()),
                    "--format=csv,noheader,nounits"], wanted.seconds)  # fmt: skip
    except NoAnswer as error:
        return {"driver.problem": str(error)}
    found: dict[str, Scalar] = {}
    for index, line in enumerate(line for line in said.splitlines() if line.strip()):
        version, *values = (part.strip() for part in line.split(","))
        found["driver.version"] = version
        for key, value in zip(ASKED, values, strict=False):
            if value not in NOTHING:
                found[f"gpu.{index}.{key}"] = int(value) if value.isdigit() else value
            elif value == "[GPU requires reset]":
                found[f"gpu.{index}.{key}"] = value
    found["gpu.count"] = sum(key.endswith(".name") for key in found)
    try:
        found["gpu.topology"] = _matrix(ask(["nvidia-smi", "topo", "-m"], wanted.seconds))
    except NoAnswer as error:
        found["gpu.topology.problem"] = str(error)
    return found


def _matrix(text: str) -> str:
    """Return how each two cards are connected: ``0-1 NV18, 0-2 NV18``."""
    from preflight.investigate.topology.expected import kinds

    return ", ".join(f"{a}-{b} {kind}" for (a, b), kind in sorted(kinds(text).items()))
