"""What the kernel and the driver say, or that they say nothing where a log of theirs was read."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.case.node_events import category_of, role_of
from preflight.investigate.culprit.vote import Scene
from preflight.investigate.observations.observation import Observation
from preflight.vocabulary.log import NodeEvent

_DEVICE = ("device-fault", "device-lost", "device-memory-fault", "firmware-fault")
_HOST = ("host-out-of-memory", "cgroup-limit")
_LINK = ("broken-link", "port-down", "link-flap")


def observe(scene: Scene) -> Iterator[Observation]:
    """Weigh the events of the nodes, and the silence of kernel logs that were read."""
    events = scene.case.reading.events
    for event in _firsts(events):
        odds = _odds(event)
        if odds:
            where = f" on {event.node}" if event.node else ""
            yield Observation(
                text=f"{event.meaning or event.kind}{where}", odds=odds, quotes=(scene.case.quote(event.hit),)
            )
    if not any(file.kind == "kernel" for file in scene.case.reading.files):
        return
    kinds = {event.kind for event in events}
    if "oom-kill" not in kinds:
        text = "the kernel log that was read tells of no process that was killed for memory"
        yield Observation(text=text, odds=dict.fromkeys(_HOST, -1.5))
    if not kinds & {"xid", "sxid", "fallen-off-the-bus", "ecc"}:
        text = "the kernel log that was read tells of no error of a card"
        yield Observation(text=text, odds=dict.fromkeys(_DEVICE, -1.5))
    if not kinds & {"link-down", "link-up"}:
        yield Observation(
            text="the kernel log that was read tells of no link that went down", odds=dict.fromkeys(_LINK, -0.7)
        )


def _firsts(events: tuple[NodeEvent, ...]) -> Iterator[NodeEvent]:
    """Yield the first event of each kind, number, node and device."""
    seen = set()
    for event in events:
        key = (event.kind, event.code, event.node, event.device)
        if key not in seen:
            seen.add(key)
            yield event


def _odds(event: NodeEvent) -> dict[str, float]:
    if event.kind == "oom-kill":
        cgroup = any("MEMCG" in str(value).upper() or "cgroup" in str(value).lower() for value in event.values.values())
        return {
            "host-out-of-memory": 3.0,
            "cgroup-limit": 4.0 if cgroup else 2.0,
            **dict.fromkeys(("signal-from-outside", "preempted", "time-limit"), -3.0),
        }
    if event.kind in ("fallen-off-the-bus", "sxid", "ecc"):
        return {**dict.fromkeys(_DEVICE, 4.0), "illegal-access": -3.0, "peer-dead": 1.0}
    if event.kind == "xid" and event.code is not None:
        category = category_of(event) if role_of(event) != "cascade" else "none"
        if category == "usercode":
            return {"illegal-access": 2.0, "index-out-of-range": 1.5, "device-fault": -0.5}
        return {**dict.fromkeys(_DEVICE, 3.5), "illegal-access": -2.0} if category == "hardware" else {}
    if event.kind == "gpu-init-failed":
        return {"driver-mismatch": 1.0, "device-fault": 2.0, "no-device-visible": 2.0}
    if event.kind == "pcie":
        return {"pcie-errors": 3.0, "device-lost": 1.0, "device-fault": 0.5}
    if event.kind in ("panic", "restart"):
        return {"node-lost": 3.0, "peer-dead": 1.0}
    if event.kind == "link-down":
        return {**dict.fromkeys(_LINK, 3.0), "peer-dead": -0.5}
    if event.kind == "throttle":
        return {"thermal-throttling": 3.0, "power-capping": 2.0, "slow-rank": 1.0}
    if event.kind in ("disk", "storage-lost"):
        lost = event.kind == "storage-lost"
        return {
            "disk-fault": 0.5 if lost else 3.0,
            "storage-lost": 3.5 if lost else 1.0,
            "stale-mount": 2.0 if lost else 0.0,
        }
    return {}
