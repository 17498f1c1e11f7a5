"""Changes that are made to a run from outside: what they do to its memory, and what they say where they do nothing."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from preflight.catalog.hardware import resolve_gpu
from preflight.dryrun.launch import Job
from preflight.dryrun.server import Server
from preflight.vocabulary.profile import Profile

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

SCRIPT = """
    import torch
    from torch import nn

    width = 1024
    model = nn.Sequential(nn.Linear(width, width, bias=False), nn.Linear(1024, 4096, bias=False)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        logits = model(torch.randn(4096, 1024, device="cuda"))
        loss = nn.functional.cross_entropy(logits, torch.zeros(4096, dtype=torch.int64, device="cuda"))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
FIRST, SECOND = 1024 * 1024, 1024 * 4096  # elements of the weights


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


def _run(server: Server, folder: Path, *changes: dict[str, Any], text: str = SCRIPT) -> Profile:
    script = folder / "train.py"
    script.write_text(textwrap.dedent(text), encoding="utf-8")
    gpu = resolve_gpu("a100-80gb")
    job = Job(script=str(script), root=str(folder), gpu=gpu, capacity_bytes=80 << 30, seconds=100, changes=changes)
    seen = server.run(job)
    assert seen.outcome in ("ended", "stopped"), (seen.error, seen.message, seen.frames)
    assert len(seen.changed) == len(changes)
    return seen


def test_the_states_of_another_optimizer_have_its_size(server: Server, tmp_path: Path) -> None:
    states = {}
    for kind in ("adam8bit", "paged8bit", "adafactor", "sgd"):
        seen = _run(server, tmp_path, {"name": "optimizer", "to": kind})
        assert list(seen.changed[0].done.values()) == [1]
        states[kind] = seen.categories.get("optimizer state", 0)
    # Two bytes for every element, and two scales in fp32 for every 256 of them.
    assert states["adam8bit"] == 2 * (FIRST + SECOND) + 2 * 4 * (FIRST + SECOND) // 256
    assert states["paged8bit"] == 0
    assert states["adafactor"] == 4 * (1024 + 1024) + 4 * (1024 + 4096)
    assert states["sgd"] == 4 * (FIRST + SECOND)


def test_a_number_in_the_code_is_another_one_and_nothing_else_is(server: Server, tmp_path: Path) -> None:
    place = {"path": str(tmp_path / "train.py"), "line": 5, "column": 9, "before": 1024}
    seen = _run(server, tmp_path, {"name": "constant", **place, "value": 1024})
    assert seen.changed[0].done == {"1024 became 1024 in line 5": 1}
    plain = _run(server, tmp_path)
    assert seen.peak_bytes == plain.peak_bytes
    elsewhere = _run(server, tmp_path, {"name": "constant", **place, "column": 8, "value": 2048})
    assert elsewhere.changed[0].done == {}
    assert elsewhere.peak_bytes == plain.peak_bytes


def test_chunks_keep_the_soft_max_from_existing_whole(server: Server, tmp_path: Path) -> None:
    plain, chunked = _run(server, tmp_path), _run(server, tmp_path, {"name": "cross_entropy"})
    whole, chunk = 4096 * 4096 * 4, 1024 * 4096 * 4
    # As it is, the soft-max and two gradients lie beside the logits; in chunks one gradient, and three chunks of the others.
    assert abs(plain.peak_bytes - chunked.peak_bytes - (2 * whole - 3 * chunk)) < 64 << 10
    assert chunked.changed[0].done == {"losses over 4096 classes": 3}


def test_a_change_that_finds_nothing_says_so(server: Server, tmp_path: Path) -> None:
    mixed = SCRIPT.replace(
        "        logits = ", '        with torch.autocast("cuda", dtype=torch.bfloat16):\n            logits = '
    )
    seen = _run(server, tmp_path, {"name": "precision"}, {"name": "recompute"}, text=mixed)
    assert seen.changed[0].done == {}
    assert seen.changed[0].refused == ("the forward runs under autocast already",)
    assert seen.changed[1].done == {}
    assert seen.changed[1].refused == ("Sequential has no list of blocks of the same class",)
