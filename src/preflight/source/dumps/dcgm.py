"""The JSON of ``dcgmi diag``: tests that failed or warned, by card."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.source.dumps.part import Part
from preflight.vocabulary.log import Hit, LogFile, NodeEvent, Who

KIND = "device"
_DEEPEST = 8


def looks_like(name: str, head: bytes) -> bool:
    """Tell by the first key, which has had two names; words of the tool may stand before it."""
    return b'"DCGM GPU Diagnostic"' in head[:2048] or b'"DCGM Diagnostic"' in head[:2048]


def read(content: bytes, file: LogFile) -> Part:
    """Read the results of a diagnosis."""
    import json

    text = content.decode("utf-8", "replace")
    start, problem = text.find("{"), None
    try:
        loaded = json.JSONDecoder().raw_decode(text[start:])[0]
    except ValueError as error:
        from preflight.source.dumps.cut_json import salvage

        loaded, problem = salvage(text[start:]), f"not whole JSON: {error}"
    events = []
    tests = 0
    for test, result in _results(loaded, "", 0):
        tests += 1
        status = str(result.get("status", "")).lower()
        if status not in ("fail", "warn"):
            continue
        said = _words(result.get("warnings")) or _words(result.get("info")) or f"the test {test} says {status}"
        card = str(result.get("entity_id", result.get("gpu_id", result.get("gpu_ids", ""))))
        hit = Hit(
            signature="node.diagnostic",
            file=file.index,
            line=1,
            offset=0,
            text=f"{test}: {said}"[:500],
            who=Who(node=file.who.node),
        )
        events.append(
            NodeEvent(
                kind="diagnostic",
                hit=hit,
                node=file.who.node,
                device=f"gpu {card}" if card else None,
                fatal=status == "fail",
                meaning=f"The test {test} of the card {'failed' if status == 'fail' else 'warns'}",
                values={"test": test, "status": status, "said": said[:300]},
            )
        )
    return Part(
        lines=content.count(b"\n") + 1, events=tuple(events), problem=problem or (None if tests else "no test in it")
    )


def _results(value: Any, test: str, depth: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every result with the name of its test, at whatever depth the version keeps them."""
    if depth > _DEEPEST:
        return
    if isinstance(value, dict):
        if "status" in value and isinstance(value["status"], str):
            yield test, value
        name = str(value.get("name") or test)
        for inner in value.values():
            yield from _results(inner, name, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _results(inner, test, depth + 1)


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "; ".join(str(one.get("warning", one) if isinstance(one, dict) else one) for one in value)
    return ""
