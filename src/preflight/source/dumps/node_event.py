"""How a node event is made: bus ids in one form, numbers of the driver with their meaning."""

from __future__ import annotations

import re

from preflight.vocabulary.finding import Scalar
from preflight.vocabulary.log import Hit, LogFile, NodeEvent, Who

_BUS = re.compile(r"^(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{2})(?:\.([0-9a-fA-F]))?$")
_LONGEST = 2000


def bus_id(text: str | None) -> str | None:
    """Return a PCI address as ``0000:3b:00.0``, whatever wrote it: ``00000000:3B:00.0``, ``3b:00.0``, ``PCI:0000:3b:00``.

    NCCL writes ``3b000`` for ``0000:3b:00.0``: bus, device and function without colons. Anything else stays as it is, in lower case.
    """
    if text is None:
        return None
    plain = text.strip().removeprefix("PCI:")
    found = _BUS.match(plain)
    if found:
        domain = int(found.group(1) or "0", 16)
        return f"{domain:04x}:{int(found.group(2), 16):02x}:{found.group(3).lower()}.{found.group(4) or '0'}"
    return plain.lower() or None


def nccl_bus_id(text: str) -> str | None:
    """Return the address that NCCL writes as one number: ``4e000`` is ``0000:4e:00.0``, ``101c1000`` is ``0101:c1:00.0``."""
    try:
        number = int(text, 16)
    except ValueError:
        return None
    # NCCL packs domain, bus, device and function by 20, 12, 4 and 0 bits.
    return f"{number >> 20:04x}:{number >> 12 & 0xFF:02x}:{number >> 4 & 0xFF:02x}.{number & 0xF:x}"


def make_event(
    kind: str,
    told: dict[str, str],
    *,
    file: LogFile,
    line: int,
    offset: int,
    text: str,
    node: str | None,
    time: float | None,
    device: str | None,
    fatal: bool,
    meaning: str,
    values: dict[str, Scalar],
) -> NodeEvent:
    """Make an event; of a driver's error number the catalog says what it means and whether it is fatal."""
    code = int(told["code"]) if told.get("code", "").isdigit() else None
    pid = int(told["pid"]) if told.get("pid", "").isdigit() and told["pid"] != "0" else None
    if kind in ("xid", "sxid") and code is not None:
        from preflight.catalog.xid_codes import driver_error

        known = driver_error(code, "xid" if kind == "xid" else "sxid")
        if known is not None:
            meaning, fatal = known.meaning, known.fatal
            values = {**values, "name_of_code": known.name, "advice": known.advice, "follows": known.follows}
            values["category"] = known.category
        else:
            meaning = f"{meaning}; the number {code} is not in the catalog"
        fatal = fatal or values.get("severity") == "Fatal"
    who = Who(node=node or file.who.node, pid=pid)
    hit = Hit(
        signature=f"node.{kind}", file=file.index, line=line, offset=offset, text=text[:_LONGEST], who=who, time=time
    )
    return NodeEvent(
        kind=kind,
        hit=hit,
        node=node or file.who.node,
        code=code,
        device=device,
        pid=pid,
        fatal=fatal,
        meaning=meaning,
        values=values,
    )
