"""Lines of a shape that was taken apart before are read at its places: what comes out is what the grammar says of each line."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from preflight.catalog.signature_files import load_signatures
from preflight.source.logs import read_logs, reducing
from preflight.source.logs.rules import packed, rules_of
from preflight.source.logs.shapes import LONGEST, key_of
from preflight.vocabulary.log import Reading
from preflight.vocabulary.signature import Signature

Line = Callable[[random.Random, int], str]

DIALECTS: dict[str, Line] = {
    "megatron": lambda r, n: (
        f" iteration {n:8d}/  500000 | consumed samples: {n * 256:12d} | elapsed time per iteration (ms): {r.random() * 9e3:.1f} | "
        f"learning rate: {r.random():.3E} | lm loss: {r.random():.6E} | loss scale: 1.0 | grad norm: {r.random():.3f} |"
    ),
    "dated": lambda r, n: (
        f"2024-0{r.randint(1, 9)}-{r.randint(10, 28)} 12:{n % 60:02d}:00,{n % 1000:03d} [INFO] t.py:88: step: {n} loss: {r.random():.4f} tps: {r.randint(1, 9)},345"
    ),
    "zoned": lambda r, n: f"2024-05-01T12:{n % 60:02d}:00+0{n % 9}:00 step {n} loss {r.random():.3f} lr 1e-{n % 9}",
    "undated": lambda r, n: f"12:{n % 60:02d}:{n % 61:02d} INFO step={n} loss={r.random():.3f} time={n % 9}.5s",
    "glog": lambda r, n: (
        f"I0301 12:{n % 60:02d}:01.123456 {r.randint(100, 999)} train.py:9] Iter {n} loss: -{r.random():.2f}"
    ),
    "ranks": lambda r, n: f"[rank{r.randint(0, 12)}]: step: {n // 13} loss: {r.random():.3f} grad_norm: 0.{n % 10}",
    "ranks behind a time": lambda r, n: (
        f"2024-05-01 12:00:{n % 60:02d} [rank{r.randint(0, 12)}] step {n} loss: {r.random():.3f}"
    ),
    "ray": lambda r, n: (
        f"(Trainer pid={r.randint(100, 103)}, ip=10.0.0.{r.randint(1, 3)}) {{'loss': {r.random():.2f}, 'step': {n}}}"
    ),
    "nan": lambda r, n: f"step {n} loss {r.choice(['nan', '1.25', 'inf'])} grad_norm 1.{n % 7}",
    "impossible dates": lambda r, n: f"2024-{r.randint(10, 15)}-{r.randint(20, 39)} 12:00:00 step {n} loss {r.random():.3f}",
    "oom": lambda r, n: f"[rank{n % 3}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {n % 90:02d}.00 GiB",
    "exit codes": lambda r, n: f"worker {n % 10} exited with code {r.choice([137, 139, 120, 130])}",
    "xids": lambda r, n: f"kernel: NVRM: Xid (PCI:0000:3b:00): {r.choice([13, 31, 48, 63, 79, 94])}, pid={n % 10}",
    "trouble": lambda r, n: f"[rank{n % 5}]: ERROR the thing number {n} does not answer {r.choice(['at all', 'yet'])}",
    "metrics below": lambda r, n: f"[step={n}]\n\t Train loss/train/total: {r.random():.4f}\n\t Train time/x: 1.5",
}  # fmt: skip


def _log(names: list[str], count: int, seed: int) -> str:
    rng = random.Random(seed)
    return "".join(DIALECTS[rng.choice(names)](rng, number) + "\n" for number in range(count))


def _both(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Reading, Reading]:
    with monkeypatch.context() as patch:
        patch.setattr(reducing, "key_of", lambda data, start, end: None)
        plain = read_logs([path])
    return read_logs([path]), plain


@pytest.mark.parametrize("name", DIALECTS)
def test_lines_read_by_their_shape_say_what_the_grammar_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "train.log"
    path.write_text(_log([name], 700, 3))
    by_shape, plain = _both(path, monkeypatch)
    assert repr(by_shape) == repr(plain)
    assert plain.steps or plain.hits or plain.unknown


def test_all_forms_in_one_file_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.log"
    path.write_text(_log(list(DIALECTS), 6000, 4))
    by_shape, plain = _both(path, monkeypatch)
    assert repr(by_shape) == repr(plain)
    assert len(plain.steps) > 2000


def test_the_shape_of_a_line_keeps_the_place_of_each_digit() -> None:
    line = b"step 17 of 200: loss 0.25"
    assert key_of(line, 0, len(line)) == key_of(b"step 90 of 911: loss 7.01", 0, len(line))
    assert key_of(line, 0, len(line)) != key_of(b"step 171 of 20: loss 0.25", 0, len(line))
    assert key_of(b"1" * (LONGEST + 1), 0, LONGEST + 1) is None


def test_a_signature_whose_class_of_digits_is_not_all_of_them_weighs_numbers() -> None:
    def one(regex: str) -> bool:
        signature = Signature(
            id="oom.x", title="x", category="oom", role="root", literals=("boom",), regex=regex, match=(), no_match=()
        )
        return bool(rules_of(packed([signature])).weighing)

    assert one("boom [1-3]")
    assert one("boom 9")
    assert not one(r"boom \d{1,3} [0-9a-f]+ (?P<group1>\w+)")


def test_what_is_known_of_a_shape_from_another_file_changes_nothing(tmp_path: Path) -> None:
    """Each file is read first in its process, and after the others."""
    rules = rules_of(packed(load_signatures()))
    paths = [tmp_path / f"log{number}" for number in range(4)]
    for number, path in enumerate(paths):
        path.write_text(_log(list(DIALECTS), 900, number))
    apart = []
    for path in paths:
        rules.shapes.clear()
        apart.append(repr(read_logs([path])))
    assert [repr(read_logs([path])) for path in paths] == apart
    assert any(rules.shapes.values())
