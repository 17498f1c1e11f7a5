"""What ``nvidia-smi`` says: ``-q`` in full, its table, and ``topo -m``; cards with errors become node events.

Cards, their bus ids and the processes on them go into an ``Environment``: they tie bus ids and pids of kernel lines to ranks.
"""

from __future__ import annotations

import re
from typing import Any

from preflight.source.dumps.node_event import bus_id
from preflight.source.dumps.part import Part
from preflight.vocabulary.finding import Scalar
from preflight.vocabulary.log import Environment, Hit, LogFile, NodeEvent, Who

KIND = "device"
TEXT = True

_PAIR = re.compile(r"^(\s*)(.*?)\s*(?: : ?(.*))?$")
_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])")
_ROW = re.compile(
    r"^\|\s+(\d+)\s+(\S.*?)\s+(?:On|Off|N/A|ERR!)\s*\|\s*([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s+\w+\s*\|\s*(\S+)\s*\|"
)
_PROCESS = re.compile(
    r"^\|\s+(\d+)\s+(?:(?:N/A|\d+)\s+(?:N/A|\d+)\s+)?(\d+)\s+([CGM+]+)\s+(\S.*?)\s+(\d+|N/A)(?:MiB)?\s*\|"
)
_VERSION = re.compile(r"Driver Version: (\S+)(?:.*CUDA Version: (\S+))?")
_LOST = re.compile(
    r"Unable to determine the device handle for (?:GPU ?(?:\d+: )?)?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.\d)?)"
)
# The lines of a table alone: a heading, a time and a process or two stand beside it at most.
_TABLE = 0.75
_REASONS = ("HW Slowdown", "HW Thermal Slowdown", "HW Power Brake Slowdown", "SW Thermal Slowdown")


def looks_like(name: str, head: bytes) -> bool:
    """Tell its three forms by their heads; a job that prints the table before it begins is a log."""
    start = head.lstrip()
    if b"NVSMI LOG" in start[:400] or start.startswith(b"Unable to determine the device handle for"):
        return True
    if b"| NVIDIA-SMI " in head and head.count(b"\n|") > 3:
        lines = [line for line in head.splitlines() if line.strip()]
        return sum(line.lstrip()[:1] in b"|+" for line in lines) >= _TABLE * len(lines)
    first = head[:2000].lstrip().split(b"\n", 1)[0]
    return first.lstrip(b"\x1b[4m").startswith((b"GPU0", b"\tGPU0")) and b"CPU Affinity" in first


def read(content: bytes, file: LogFile) -> Part:
    """Read what a node's driver tells of its cards."""
    text = content.decode("utf-8", "replace")
    lines = text.splitlines()
    if "NVSMI LOG" in text:
        events, values, time = _of_query(lines, file)
    elif "CPU Affinity" in text[:2000] and "| NVIDIA-SMI" not in text:
        return Part(lines=len(lines), environments=(_environment(_topology(lines), "topology", file),))
    else:
        events, values, time = _of_table(lines, file)
    for number, line in enumerate(lines, 1):
        found = _LOST.search(line)
        if found:
            events.append(
                _event(
                    "fallen-off-the-bus",
                    file,
                    number,
                    line,
                    bus_id(found.group(1)),
                    True,
                    "The driver cannot reach a card",
                    {},
                    time,
                )
            )
    return Part(
        lines=len(lines),
        first_time=time,
        last_time=time,
        events=tuple(events),
        environments=(_environment(values, "nvidia-smi", file),) if values else (),
        problem=None if values or events else "no card in it",
    )


def _environment(values: dict[str, str], source: str, file: LogFile) -> Environment:
    return Environment(who=Who(node=file.who.node), file=file.index, source=source, values=values)


def _event(
    kind: str,
    file: LogFile,
    line: int,
    text: str,
    device: str | None,
    fatal: bool,
    meaning: str,
    values: dict[str, Scalar],
    time: float | None,
) -> NodeEvent:
    who = Who(node=file.who.node)
    hit = Hit(
        signature=f"node.{kind}", file=file.index, line=line, offset=0, text=text.strip()[:500], who=who, time=time
    )
    return NodeEvent(kind=kind, hit=hit, node=file.who.node, device=device, fatal=fatal, meaning=meaning, values=values)


def _of_query(lines: list[str], file: LogFile) -> tuple[list[NodeEvent], dict[str, str], float | None]:
    """Go through the indented pairs: the names above a pair are its path."""
    events: list[NodeEvent] = []
    values: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    card: str | None = None
    index = -1
    time: float | None = None
    pcie: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        gpu = _GPU.match(line)
        if gpu:
            index, card, path, pcie = index + 1, bus_id(gpu.group(1)), [], {}
            values[f"gpu.{index}.bus"] = card or ""
            continue
        found = _PAIR.match(line)
        if not found or not found.group(2) or line.startswith("="):
            continue
        depth, name, value = len(found.group(1)), found.group(2), found.group(3)
        while path and path[-1][0] >= depth:
            path.pop()
        if value is None:
            path.append((depth, name))
            continue
        where = ".".join([part for _, part in path] + [name])
        if card is None:
            time = _global(name, value, values, file) or time
        else:
            _card_value(where, value.strip(), index, values, pcie)
            told = _trouble(where, value.strip(), pcie)
            if told:
                kind, fatal, meaning = told
                text = f"{where}: {value.strip()}"
                events.append(
                    _event(
                        kind, file, number, text, card, fatal, meaning, {"field": where, "value": value.strip()}, time
                    )
                )
    return events, values, time


def _global(name: str, value: str, values: dict[str, str], file: LogFile) -> float | None:
    if name == "Driver Version":
        values["driver"] = value.strip()
    elif name == "CUDA Version":
        values["cuda"] = value.strip()
    elif name == "Timestamp":
        from preflight.source.logs.clock import Clock
        from preflight.source.logs.times import stamp_at

        stamp = stamp_at(value.strip())
        return Clock(file.modified).at(stamp) if stamp is not None and not stamp.missing else None
    return None


def _card_value(where: str, value: str, index: int, values: dict[str, str], pcie: dict[str, str]) -> None:
    wanted = {"Product Name": "name", "GPU UUID": "uuid", "Serial Number": "serial", "FB Memory Usage.Total": "memory_total",
              "FB Memory Usage.Used": "memory_used", "Temperature.GPU Current Temp": "temperature", "VBIOS Version": "vbios"}  # fmt: skip
    if where in wanted:
        values[f"gpu.{index}.{wanted[where]}"] = value
    elif where.endswith("Processes.Process ID"):
        known = values.get(f"gpu.{index}.pids")
        values[f"gpu.{index}.pids"] = f"{known},{value}" if known else value
    elif "GPU Link Info" in where:
        pcie[where.partition("GPU Link Info.")[2]] = value


def _trouble(where: str, value: str, pcie: dict[str, str]) -> tuple[str, bool, str] | None:
    """Return kind, whether it is fatal and what it means, for a value that is not as it should be."""
    count = int(value) if value.isdigit() else 0
    # Cards before Ampere, and drivers of their time, call errors that could not be corrected those of two bits.
    uncorrected = "Uncorrectable" in where or (where.startswith("ECC Errors.") and where.endswith(".Double Bit.Total"))
    if uncorrected and count > 0 and "Remapped" not in where:
        recent = "Volatile" in where
        return (
            "ecc",
            recent,
            f"{count} errors of the card's memory that could not be corrected{'' if recent else ', over its life'}",
        )
    if where.startswith("Remapped Rows") and value == "Yes":
        failed = "Failure" in where
        return (
            "remap",
            failed,
            "A bad row of the memory could not be replaced"
            if failed
            else "A bad row of the memory is replaced at the next reset",
        )
    if where == "GPU Reset Status.Reset Required" and value == "Yes":
        return "gpu-error", True, "The card works again only after a reset"
    if where == "GPU Reset Status.Drain and Reset Recommended" and value == "Yes":
        return "gpu-error", False, "The driver advises to reset the card as soon as its work is done"
    if where.endswith("SRAM Threshold Exceeded") and value == "Yes":
        return "ecc", True, "The card has had more errors of its own memory than it may have: it is to be replaced"
    if where.startswith("Retired Pages") and "Pending" in where and value == "Yes":
        return "remap", False, "A bad page of the memory is retired at the next reset"
    if value == "Active" and where.rpartition(".")[2] in _REASONS:
        return "throttle", False, f"The card is slowed down: {where.rpartition('.')[2]}"
    if where.endswith("Link Width.Current") and pcie.get("Link Width.Max") not in (None, value) and value != "N/A":
        return "pcie-degraded", False, f"The card's link is {value} wide, it could be {pcie['Link Width.Max']}"
    if value in ("ERR!", "Unknown Error", "GPU requires reset", "[GPU requires reset]", "[Unknown Error]"):
        return "gpu-error", True, f"The driver cannot read the card: {value}"
    return None


def _of_table(lines: list[str], file: LogFile) -> tuple[list[NodeEvent], dict[str, str], float | None]:
    events: list[NodeEvent] = []
    values: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        version, row, process = _VERSION.search(line), _ROW.match(line), _PROCESS.match(line)
        if version and "driver" not in values:
            values["driver"] = version.group(1)
            if version.group(2):
                values["cuda"] = version.group(2)
        elif row:
            index, device = row.group(1), bus_id(row.group(3))
            values[f"gpu.{index}.bus"], values[f"gpu.{index}.name"] = device or "", row.group(2)
            ecc = row.group(4)
            if ecc.isdigit() and int(ecc) > 0:
                meaning = f"{ecc} errors of the card's memory that could not be corrected"
                events.append(_event("ecc", file, number, line, device, True, meaning, {"count": int(ecc)}, None))
            if "ERR!" in line:
                events.append(
                    _event("gpu-error", file, number, line, device, True, "The driver cannot read the card", {}, None)
                )
        elif "ERR!" in line and values:
            last = next((value for key, value in reversed(values.items()) if key.endswith(".bus")), None)
            events.append(
                _event("gpu-error", file, number, line, last, True, "The driver cannot read the card", {}, None)
            )
        elif process and f"gpu.{process.group(1)}.bus" in values:
            key = f"gpu.{process.group(1)}.pids"
            values[key] = f"{values[key]},{process.group(2)}" if key in values else process.group(2)
    return events, values, None


def _topology(lines: list[str]) -> dict[str, str]:
    """Return what connects each pair: ``GPU0.GPU1`` -> ``NV18``."""
    plain = [re.sub(r"\x1b\[\d*m", "", line) for line in lines]
    head = plain[0].split() if plain else []
    names = [word for word in head if re.fullmatch(r"(?:GPU|NIC|mlx5_)\d+", word)]
    values: dict[str, str] = {}
    for line in plain[1:]:
        words: list[Any] = line.split()
        if not words or words[0] not in names:
            match = re.match(r"^\s+(NIC\d+): (\S+)", line)
            if match:
                values[match.group(1)] = match.group(2)
            continue
        for name, link in zip(names, words[1:], strict=False):
            if link != "X":
                values[f"{words[0]}.{name}"] = link
    return values
