"""Steps that are read column by column are those that are read line by line."""

from __future__ import annotations

import io
import random
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.catalog.signature_files import load_signatures
from preflight.source.logs import blocks, rows
from preflight.source.logs.blocks import Opened
from preflight.source.logs.reducing import Reducer
from preflight.source.logs.rules import Rules
from preflight.source.logs.styles import style_of
from preflight.vocabulary.log import LogFile, Who

_RULES = Rules(load_signatures())
_BLOCK = 1 << 14
_WORDS = ("model", "tokens", "shard", "worker", "ready", "waiting")


def _clock(rng: random.Random, number: int) -> str:
    if rng.random() < 0.01:
        return f"2024-{rng.choice((2, 13)):02d}-31 {rng.choice((12, 25)):02d}:{number // 60 % 60:02d}:{rng.choice((3, 61))},500"
    return f"2024-03-01 {number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d},{number * 7 % 1000:03d}"


def _amount(rng: random.Random) -> str:
    return rng.choice((
        f"{rng.random():.4f}", f"{rng.random() * 100:.5E}", f"{rng.random():.17f}", f"{rng.randrange(10**7):,}", f"{rng.random() * 1e-9:.2e}",
        "nan", f"-{rng.random():.3f}", "1e400", "9e-320", f"{rng.randrange(10**9)}.", str(rng.randrange(10**17)),
    ))  # fmt: skip


_DIALECTS: dict[str, Callable[[random.Random, int], str]] = {
    "plain": lambda rng, n: f"{_clock(rng, n)} [INFO] trainer.py:88: step: {n} loss: {rng.random():.4f} lr: 1e-4 tps: 12,345",
    "ranks": lambda rng, n: f"[rank{n % 12}]: {_clock(rng, n)} INFO step {n} loss {rng.random():.4f} grad_norm: {rng.random():.2f}",
    "megatron": lambda rng, n: (
        f" iteration {n:8d}/  500000 | consumed samples: {n * 256:12d} | elapsed time per iteration (ms): {rng.random() * 999:.1f} | "
        f"learning rate: 1.5E-{n % 12:02d} | lm loss: {rng.random():.5E} | number of nan iterations:   0 |"
    ),
    "odd": lambda rng, n: f"step: {n:,} loss: {_amount(rng)} grad_norm: {_amount(rng)} memory: {rng.random():.2f}GiB",
    "glog": lambda rng, n: f"I03{n % 40:02d} 12:{n // 60 % 60:02d}:{n % 60:02d}.123456 42 loop.cpp:7] step: {n} loss: {rng.random():.3f}",
    "no step": lambda rng, n: f"{{'loss': {rng.random():.4f}, 'grad_norm': {rng.random():.3f}, 'learning_rate': 1e-0{n % 9}}}",
    "no numbers": lambda rng, n: f"learning rate warm-up of the schedule goes on as it did before {n % 100:02d}",
}  # fmt: skip
_BETWEEN: tuple[Callable[[random.Random, int], str], ...] = (
    lambda rng, n: f"{_clock(rng, n)} [INFO] engine.py:1: {' '.join(rng.choices(_WORDS, k=7))} {n}",
    lambda rng, n: "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0)",
    lambda rng, n: f"E0301 12:{n // 60 % 60:02d}:{n % 60:02d}.5 7 net.cpp:3] something failed to open {n}",
    lambda rng, n: (
        f'Traceback (most recent call last):\n  File "train.py", line {n}, in main\n    step: {n} loss: 1.0\nValueError: bad {n}'
    ),
    lambda rng, n: f"12:{n // 60 % 60:02d}:{n % 60:02d} error: the file {n} could not be opened",
    lambda rng, n: f"  3%|3         | {n}/500 [00:10<01:10, 2.{n % 10}0it/s]",
)


def _log(seed: int, dialects: list[str], often: float) -> bytes:
    rng = random.Random(seed)
    lines = []
    for number in range(1, 900):
        if rng.random() < often:
            lines.append(_DIALECTS[rng.choice(dialects)](rng, number))
        else:
            lines.append(rng.choice(_BETWEEN)(rng, number))
    return "\n".join(lines).encode()


def _reduced(data: bytes, most: int) -> bytes:
    _RULES.shapes.clear()
    _RULES.repeated.clear()
    style = style_of(data[: 1 << 14])
    found = []
    for _ in range(2):  # what is known of shapes is used for the next file
        reducer = Reducer(_RULES, LogFile(index=0, path="x.log", kind="text", who=Who(node="a")), style, most)
        opened = Opened(io.BytesIO(data))
        for block in opened.blocks(_BLOCK):
            opened.next_line = reducer.read(block)
        found.append(reducer.done())
    return msgspec.json.encode(found)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "OVERLAP", 1 << 10)


@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 1 << 30),
    st.lists(st.sampled_from(sorted(_DIALECTS)), min_size=1, max_size=3, unique=True),
    st.sampled_from((0.3, 0.9, 1.0)),
    st.sampled_from((40, 1_000_000)),
)
def test_columns_tell_what_the_lines_tell(seed: int, dialects: list[str], often: float, most: int) -> None:
    data = _log(seed, dialects, often)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "_FEWEST", 0)
        quick = _reduced(data, most)
        patch.setattr(rows.Repeated, "rows", lambda self, page: None)
        plain = _reduced(data, most)
    assert quick == plain


def test_most_lines_of_a_log_of_steps_are_read_by_columns() -> None:
    data = _log(1, ["plain", "megatron"], 1.0)
    taken: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "_FEWEST", 0)
        steps = rows.Rows.steps

        def counted(self: rows.Rows, first: int, last: int, shapes: object) -> object:
            taken.append(last - first)
            return steps(self, first, last, shapes)  # type: ignore[arg-type]

        patch.setattr(rows.Rows, "steps", counted)
        _reduced(data, 1_000_000)
    assert sum(taken) > 1000
