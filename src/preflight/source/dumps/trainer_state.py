"""``trainer_state.json`` of the Hugging Face Trainer: its history of logs."""

from __future__ import annotations

import json
import re

from preflight.source.dumps.metric_names import row
from preflight.source.dumps.part import Part
from preflight.vocabulary.log import LogFile, LogKind

KIND: LogKind = "metrics"
_KEYS = (b'"log_history"', b'"best_metric"', b'"is_world_process_zero"', b'"is_hyper_param_search"', b'"global_step"')


def looks_like(name: str, head: bytes) -> bool:
    """By its name, or by the keys at its beginning."""
    begins = head.lstrip().startswith(b"{")
    named = name.replace("\\", "/").rpartition("/")[2] == "trainer_state.json"
    return begins and (named or sum(key in head for key in _KEYS) >= 2)


def read(content: bytes, file: LogFile) -> Part:
    """Read the history; of a file that was cut off what is whole."""
    problem = None
    try:
        history = json.loads(content).get("log_history", [])
    except (ValueError, RecursionError):
        history = _pieces(content)
        problem = f"cut off: {len(history)} whole entries were read"
    steps = []
    text = content.decode("utf-8", "replace")
    places = [found.start() for found in re.finditer(r'"step"\s*:\s*\d+', text)]
    line, before = 1, 0
    for index, entry in enumerate(one for one in history if isinstance(one, dict)):
        if index < len(places):
            line += text.count("\n", before, places[index])
            before = places[index]
        # The sums at the end of a training are no step of it.
        if "train_runtime" in entry:
            continue
        found = row(file, line, {name: cell for name, cell in entry.items() if name != "epoch"})
        if found is not None:
            steps.append(found)
    return Part(lines=content.count(b"\n") + 1, steps=tuple(steps), problem=problem)


def _pieces(content: bytes) -> list[object]:
    """The whole objects in a history that ends in the middle."""
    text = content.decode("utf-8", "replace")
    start = text.find("[", max(0, text.find('"log_history"')))
    found: list[object] = []
    decoder = json.JSONDecoder()
    at = start + 1
    while start >= 0:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if at >= len(text) or text[at] != "{":
            break
        try:
            one, at = decoder.raw_decode(text, at)
        except ValueError:
            break
        found.append(one)
    return found
