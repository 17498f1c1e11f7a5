"""Ports of network adapters: ``ibstat``, ``ibstatus`` and the counters of ``perfquery``."""

from __future__ import annotations

import re

from preflight.source.dumps.part import Part
from preflight.vocabulary.finding import Scalar
from preflight.vocabulary.log import Hit, LogFile, NodeEvent, Who

KIND = "device"

_CA = re.compile(r"^(?:CA '(\S+)'|Infiniband device '(\S+)' port (\d+) status:)")
_PORT = re.compile(r"^\s+Port (\d+):\s*$")
_PAIR = re.compile(r"^\s*([\w ]+?):[\s.]*(.*?)\s*$")
_COUNTERS = re.compile(r"^# Port (?:extended )?counters: (?:Lid (\d+) )?(?:\(.*?\) )?port (\d+)", re.IGNORECASE)
_COUNTER = re.compile(r"^(\w+):\.*(\d+)\s*$")
# Counters that a healthy port keeps at zero, and what they stand for.
_BAD = {
    "SymbolErrorCounter": "errors on the wire",
    "LinkErrorRecoveryCounter": "times the link was mended",
    "LinkDownedCounter": "times the link went down",
    "PortRcvErrors": "damaged packets",
    "PortRcvRemotePhysicalErrors": "packets damaged before",
    "PortXmitDiscards": "packets thrown away",
    "LocalLinkIntegrityErrors": "errors of the link's integrity",
    "ExcessiveBufferOverrunErrors": "overrun buffers",
    "VL15Dropped": "management packets dropped",
}


def looks_like(name: str, head: bytes) -> bool:
    """Tell by the first lines of the tools."""
    start = head.lstrip()
    return (
        (start.startswith(b"CA '") and b"Physical state" in head)
        or (start.startswith(b"Infiniband device '") and b"phys state" in head)
        or (start.startswith(b"# Port ") and b"ounters:" in head[:200] and b"SymbolErrorCounter" in head)
    )


def read(content: bytes, file: LogFile) -> Part:
    """Read the ports: those that are down, slower than the others, or that count errors."""
    lines = content.decode("utf-8", "replace").splitlines()
    ports: dict[str, dict[str, tuple[str, int]]] = {}
    adapter = port = ""
    for number, line in enumerate(lines, 1):
        head, below, counters = _CA.match(line), _PORT.match(line), _COUNTERS.match(line)
        if head:
            adapter, port = head.group(1) or head.group(2), head.group(3) or ""
        elif below:
            port = below.group(1)
        elif counters:
            adapter, port = f"lid {counters.group(1)}" if counters.group(1) else "", counters.group(2)
        else:
            pair = _COUNTER.match(line) or _PAIR.match(line)
            if pair and port:
                name = f"{adapter} port {port}".strip()
                ports.setdefault(name, {})[pair.group(1).lower()] = (pair.group(2), number)
    rates = sorted(rate for rate in (_rate(told) for told in ports.values()) if rate)
    usual = rates[len(rates) // 2] if rates else 0.0
    events = [event for name, told in ports.items() for event in _of_port(name, told, usual, file)]
    return Part(lines=len(lines), events=tuple(events), problem=None if ports else "no port in it")


def _rate(told: dict[str, tuple[str, int]]) -> float | None:
    found = re.match(r"[\d.]+", told.get("rate", ("", 0))[0])
    return float(found.group(0)) if found else None


def _of_port(name: str, told: dict[str, tuple[str, int]], usual: float, file: LogFile) -> list[NodeEvent]:
    events = []
    state, number = told.get("state", ("", 0))
    physical = told.get("physical state", told.get("phys state", ("", 0)))[0]
    if state and "active" not in state.lower():
        text = f"State: {state}" + (f", {physical}" if physical else "")
        events.append(
            _event("link-down", file, number, name, text, True, "A port of a network adapter is not active", {})
        )
    rate = _rate(told)
    if rate and usual and rate < usual and "active" in state.lower():
        values: dict[str, Scalar] = {"rate": rate, "usual": usual}
        meaning = f"A port runs at {rate:g} Gb/s, the others at {usual:g}"
        events.append(_event("link-slow", file, told["rate"][1], name, f"Rate: {rate:g}", False, meaning, values))
    for counter, meaning in _BAD.items():
        count, line = told.get(counter.lower(), ("0", 0))
        if count.isdigit() and int(count) > 0:
            told_count: dict[str, Scalar] = {"counter": counter, "count": int(count)}
            text = f"{counter}: {count}"
            events.append(
                _event("link-errors", file, line, name, text, False, f"A port counts {count} {meaning}", told_count)
            )
    return events


def _event(
    kind: str, file: LogFile, line: int, device: str, text: str, fatal: bool, meaning: str, values: dict[str, Scalar]
) -> NodeEvent:
    hit = Hit(signature=f"node.{kind}", file=file.index, line=line, offset=0, text=text, who=Who(node=file.who.node))
    return NodeEvent(kind=kind, hit=hit, node=file.who.node, device=device, fatal=fatal, meaning=meaning, values=values)
