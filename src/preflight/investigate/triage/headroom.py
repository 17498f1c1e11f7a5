"""What is left of memory: of the host, of the control group, of each card, and who holds the rest."""

from __future__ import annotations

import os

import msgspec

from preflight.investigate.doctor.asking import NoAnswer, ask
from preflight.investigate.doctor.collect.machine import group_limit
from preflight.vocabulary.finding import Evidence, Finding, Location

LITTLE = 0.05
"""Less than this share left, and the next allocation may be the last."""
HOLDERS = 5


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """A card: bytes in all and in use, how busy it is (0 to 1), and who uses it (process and bytes)."""

    index: int
    name: str
    total: int
    used: int
    busy: float | None = None
    users: dict[int, int] = {}


class Headroom(msgspec.Struct, frozen=True, kw_only=True):
    """Memory.

    Attributes:
        total: Bytes of the host. available: Those that can still be had.
        limit: Of the control group, where it is limited. limit_used: What is used of it.
        holders: The processes that hold most: number, bytes, command.
        cards: The cards that the driver shows. problem: Why there is none.
    """

    total: int | None = None
    available: int | None = None
    limit: int | None = None
    limit_used: int | None = None
    holders: tuple[tuple[int, int, str], ...] = ()
    cards: tuple[Card, ...] = ()
    problem: str | None = None


def headroom(seconds: float = 10.0) -> Headroom:
    """Look at the host and, where nvidia-smi answers in time, at the cards."""
    memory: dict[str, int] = {}
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            memory = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in file)}
    except (OSError, ValueError, IndexError):
        pass
    cards, problem = _cards(seconds)
    limit = group_limit()
    return Headroom(
        total=memory.get("MemTotal"), available=memory.get("MemAvailable"), limit=limit,
        limit_used=None if limit is None else _group_used(), holders=_holders(), cards=cards, problem=problem,
    )  # fmt: skip


def _group_used() -> int | None:
    """Return what the control group holds, without what the kernel can give back at once (files in its cache)."""
    with_cache: int | None = None
    for place in ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes"):
        try:
            with open(place, encoding="ascii") as file:
                with_cache = int(file.read())
            with open(f"{os.path.dirname(place)}/memory.stat", encoding="ascii") as file:
                stat = dict(line.split()[:2] for line in file)
            return with_cache - int(stat.get("inactive_file", stat.get("total_inactive_file", 0)))
        except (OSError, ValueError):
            continue
    return with_cache


def _holders() -> tuple[tuple[int, int, str], ...]:
    found = []
    page = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if name.isdigit():
            try:
                with open(f"/proc/{name}/statm", encoding="ascii") as file:
                    resident = int(file.read().split()[1]) * page
                with open(f"/proc/{name}/cmdline", encoding="utf-8", errors="replace") as file:
                    command = file.read().replace("\0", " ").strip()
            except (OSError, ValueError, IndexError):
                continue
            if command:
                found.append((int(name), resident, command[:100]))
    return tuple(sorted(found, key=lambda one: -one[1])[:HOLDERS])


def _cards(seconds: float) -> tuple[tuple[Card, ...], str | None]:
    try:
        said = ask(["nvidia-smi", "--query-gpu=index,name,uuid,memory.total,memory.used,utilization.gpu",
                    "--format=csv,noheader,nounits"], seconds)  # fmt: skip
        users = ask(
            ["nvidia-smi", "--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits"], seconds
        )
    except NoAnswer as error:
        return (), str(error)
    return parse_cards(said, users), None


def parse_cards(said: str, users: str) -> tuple[Card, ...]:
    """Return cards from the two tables of nvidia-smi; memory in MiB there, ``[N/A]`` where it is not told."""
    by_card: dict[str, dict[int, int]] = {}
    for line in users.splitlines():
        uuid, pid, used = ([part.strip() for part in line.split(",")] + ["", "", ""])[:3]
        if pid.isdigit():
            by_card.setdefault(uuid, {})[int(pid)] = int(used) << 20 if used.isdigit() else 0
    found = []
    for line in said.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 6 and parts[0].isdigit() and parts[3].isdigit() and parts[4].isdigit():
            busy = int(parts[5]) / 100 if parts[5].isdigit() else None
            found.append(
                Card(index=int(parts[0]), name=parts[1], total=int(parts[3]) << 20, used=int(parts[4]) << 20,
                     busy=busy, users=by_card.get(parts[2], {}))
            )  # fmt: skip
    return tuple(found)


def findings_of(seen: Headroom, ours: set[int]) -> list[Finding]:
    """Return what is short, and cards that somebody else uses.

    Args:
        seen: Memory.
        ours: Processes of the job.
    """
    from preflight.vocabulary.quantity import format_bytes

    found = []

    def say(rule: str, code: str, severity: str, message: str, what: str, value: int) -> None:
        evidence = (Evidence(what=what, value=value, unit="byte", source="measured"),)
        found.append(Finding(rule, code, severity, "certain", message, Location(), evidence=evidence))  # type: ignore[arg-type]

    who = "; ".join(f"{format_bytes(size)} in process {pid} ({command})" for pid, size, command in seen.holders[:3])
    if seen.total and seen.available is not None and seen.available < LITTLE * seen.total:
        say("triage.host-memory", "TRI101", "error", f"{format_bytes(seen.available)} of {format_bytes(seen.total)} of the "
            f"host's memory are left; most is in {who}", "available", seen.available)  # fmt: skip
    if seen.limit and seen.limit_used is not None and seen.limit - seen.limit_used < LITTLE * seen.limit:
        say("triage.host-memory", "TRI101", "error", f"{format_bytes(seen.limit - seen.limit_used)} are left of the "
            f"{format_bytes(seen.limit)} that the control group may take", "used", seen.limit_used)  # fmt: skip
    for card in seen.cards:
        free = card.total - card.used
        others = {pid: size for pid, size in card.users.items() if pid not in ours} if ours else {}
        if others:
            named = ", ".join(f"{pid} ({format_bytes(size)})" for pid, size in sorted(others.items()))
            say("triage.strangers", "TRI103", "warning", f"card {card.index} is also used by processes that are not of this "
                f"job: {named}", "used", card.used)  # fmt: skip
        if free < LITTLE * card.total:
            say("triage.card-memory", "TRI102", "warning", f"card {card.index}: {format_bytes(free)} of "
                f"{format_bytes(card.total)} are left", "free", free)  # fmt: skip
    return found
