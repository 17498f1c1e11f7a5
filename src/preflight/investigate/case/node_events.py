"""Ties what a node says to ranks: by the card, by the process, by what the event tells itself, and else by the node.

A card is known to a rank by NCCL's own lines (``busId``), by ``nvidia-smi`` (the processes on a card, or its number and the
local rank that ``CUDA_VISIBLE_DEVICES`` gives it to).
``place_of(event, people)`` says whom an event is about and how that was told; ``category_of`` and ``role_of`` what it means.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import msgspec

from preflight.source.dumps.node_event import bus_id, nccl_bus_id
from preflight.vocabulary.log import Environment, Hit, NodeEvent, Reading
from preflight.vocabulary.signature import Category, Role

if TYPE_CHECKING:
    from preflight.investigate.case.people import People

How = Literal["told", "process", "card", "pod", "node", "unknown"]

_CATEGORY: dict[str, Category] = {
    "oom-kill": "oom",
    "link-down": "network",
    "link-slow": "network",
    "link-errors": "network",
    "nic-health": "hardware",
    "ras-dead": "network",
    "ras-incomplete": "network",
    "ras-mismatch": "network",
    "disk": "checkpoint",
    "storage-lost": "checkpoint",
    "limit": "environment",
    "segfault": "other",
    "hung-task": "other",
}
# What a scheduler's word for an end means.
_STATES: dict[str, Category] = {
    "TIMEOUT": "preemption",
    "DEADLINE": "preemption",
    "PREEMPTED": "preemption",
    "CANCELLED": "preemption",
    "CANCELLED+": "preemption",
    "REQUEUED": "preemption",
    "OUT_OF_MEMORY": "oom",
    "OUT_OF_ME+": "oom",
    "NODE_FAIL": "hardware",
    "BOOT_FAIL": "hardware",
    "FAILED": "other",
    "OOMKilled": "oom",
    "OOMKilling": "oom",
    "Evicted": "preemption",
    "Preempted": "preemption",
    "Preempting": "preemption",
    "TaintManagerEviction": "preemption",
    "NodeNotReady": "hardware",
    "Error": "other",
    "BackOff": "other",
}

_ALIKE = {
    "TIMEOUT": "preemption.slurm-time-limit",
    "DEADLINE": "preemption.slurm-time-limit",
    "PREEMPTED": "preemption.slurm-preempted",
    "REQUEUED": "preemption.slurm-preempted",
    "CANCELLED": "preemption.slurm-cancelled",
    "CANCELLED+": "preemption.slurm-cancelled",
    "OUT_OF_MEMORY": "preemption.slurm-oom",
    "OUT_OF_ME+": "preemption.slurm-oom",
    "NODE_FAIL": "preemption.slurm-node-failure",
    "BOOT_FAIL": "preemption.slurm-node-failure",
    "OOMKilled": "oom.kubernetes-killed",
    "OOMKilling": "oom.kubernetes-killed",
    "Evicted": "preemption.kubernetes-evicted",
    "Preempted": "preemption.kubernetes-preempted",
    "Preempting": "preemption.kubernetes-preempted",
}
"""The signatures of the lines in which a scheduler tells the same: what they advise holds where a table tells it."""


class Placed(msgspec.Struct, frozen=True):
    """Whom an event is about; ``how`` says by what that was told."""

    rank: int | None
    node: str | None
    how: How


def cards_of(reading: Reading, people: People) -> dict[tuple[str | None, str], int]:
    """Return the rank of each card, by node and bus id."""
    cards: dict[tuple[str | None, str], int] = {}
    for rank, card in _told_by_nccl(reading, people):
        cards.setdefault((people.node_of.get(rank), card), rank)
    for environment in reading.environments:
        if environment.source == "nvidia-smi":
            for rank, card in _told_by_driver(environment, reading, people):
                cards.setdefault((people.node_of.get(rank, environment.who.node), card), rank)
    return cards


def _told_by_nccl(reading: Reading, people: People) -> Iterator[tuple[int, str]]:
    for hit in reading.hits:
        text = hit.fields.get("bus_id")
        if not isinstance(text, str):
            continue
        card = nccl_bus_id(text) if ":" not in text else bus_id(text)
        rank = _printer(hit, people)
        if rank is not None and card is not None:
            yield rank, card


def _printer(hit: Hit, people: People) -> int | None:
    """Return the rank that printed a line; where nothing else tells, its rank in a group as large as the job."""
    rank = people.rank_of(hit.who, hit.file)
    if rank is None:
        inside, size = hit.fields.get("group_rank"), hit.fields.get("group_size")
        if isinstance(inside, int) and isinstance(size, int) and size == people.world:
            return inside
    return rank


def _told_by_driver(environment: Environment, reading: Reading, people: People) -> Iterator[tuple[int, str]]:
    node = environment.who.node
    cards = {key.split(".")[1]: value for key, value in environment.values.items() if key.endswith(".bus")}
    found: dict[str, int] = {}
    for number, card in cards.items():
        for word in environment.values.get(f"gpu.{number}.pids", "").split(","):
            rank = people.by_pid.get((node, int(word))) if word.isdigit() else None
            if rank is not None and card not in found:
                found[card] = rank
    if not found:
        visible = _visible(reading)
        for rank, local in people.local_of.items():
            if people.node_of.get(rank) in (node, None) or node is None and len(people.nodes) < 2:
                order = visible.get(rank)
                number = (
                    order[local]
                    if order and local < len(order)
                    else order[0]
                    if order and len(order) == 1
                    else str(local)
                )
                if number in cards and cards[number] not in found:
                    found[cards[number]] = rank
    yield from ((rank, card) for card, rank in found.items())


def _visible(reading: Reading) -> dict[int, list[str]]:
    """Return the cards that each rank may see, where its environment tells."""
    seen: dict[int, list[str]] = {}
    for environment in reading.environments:
        listed = environment.values.get("env.CUDA_VISIBLE_DEVICES", "")
        if environment.who.rank is not None and listed:
            seen[environment.who.rank] = [word.strip() for word in listed.split(",")]
    return seen


def place_of(event: NodeEvent, people: People) -> Placed:
    """Return whom an event is about."""
    node = event.node if event.node is not None else people.file_node(event.hit.file)
    told = event.values.get("rank")
    if isinstance(told, int) and not isinstance(told, bool):
        return Placed(told, node or people.node_of.get(told), "told")
    if event.pid is not None:
        rank = _one(people.by_pid, node, event.pid)
        if rank is not None:
            return Placed(rank, node or people.node_of.get(rank), "process")
    if event.device is not None:
        rank = _one(people.by_card, node, event.device)
        if rank is None and node is not None and event.kind.startswith("ras-"):
            rank = _by_number(people, node, event.device.rpartition(" ")[2])
        if rank is not None:
            return Placed(rank, node or people.node_of.get(rank), "card")
    ordinal = event.values.get("ordinal")
    if isinstance(ordinal, int) and not isinstance(ordinal, bool) and event.kind == "pod-state":
        ranks = people.of_node(str(event.values.get("pod", "")))
        if len(ranks) == 1:
            return Placed(ranks[0], node, "pod")
    ranks = people.of_node(node) if node is not None else ()
    if len(ranks) == 1:
        return Placed(ranks[0], node, "node")
    return Placed(None, node, "node" if node is not None else "unknown")


def _by_number(people: People, node: str, number: str) -> int | None:
    """Return the rank of a card by its number on a node: that of its place there, or by the order of ranks where no place is told."""
    ranks = people.of_node(node)
    if any(one in people.local_of for one in ranks):
        return next((one for one in ranks if str(people.local_of.get(one)) == number), None)
    return sorted(ranks)[int(number)] if number.isdecimal() and int(number) < len(ranks) else None


def _one(
    table: dict[tuple[str | None, int], int] | dict[tuple[str | None, str], int], node: str | None, key: object
) -> int | None:
    """Look something up on a node; where the node of either side is not known, the answer must be the only one."""
    exact = [rank for (where, one), rank in table.items() if one == key and where == node and node is not None]
    if exact:
        return exact[0]
    loose = {rank for (where, one), rank in table.items() if one == key and (where is None or node is None)}
    return loose.pop() if len(loose) == 1 else None


def alike(event: NodeEvent) -> str | None:
    """Return the signature whose lines say the same as an event; None where there is none."""
    if event.kind not in ("job-state", "pod-state"):
        return "node.ras-missing" if event.kind in ("ras-incomplete", "ras-dead") else None
    return _ALIKE.get(str(event.values.get("state") or event.values.get("reason") or ""))


def category_of(event: NodeEvent) -> Category:
    """Return what kind of trouble an event stands for."""
    if event.kind in ("job-state", "pod-state", "node-state"):
        word = str(event.values.get("state") or event.values.get("reason") or "")
        return _STATES.get(word, "hardware" if event.kind == "node-state" else "other")
    told = event.values.get("category")
    if isinstance(told, str) and told in ("usercode", "hardware", "none", "other", "environment"):
        return told  # type: ignore[return-value]
    return _CATEGORY.get(event.kind, "hardware")


def role_of(event: NodeEvent) -> Role:
    """Return what an event is to a failure: what follows another error, or only says that something failed, confirms nothing."""
    if event.values.get("follows") is True:
        return "cascade"
    if event.kind in ("job-state", "pod-state") and category_of(event) == "other":
        return "teardown"
    if event.fatal or event.kind == "ras-incomplete":
        return "confirmation"
    # An error of a program that the driver saw does not break the card, but it ends the program.
    return "confirmation" if event.kind == "xid" and category_of(event) == "usercode" else "benign"
