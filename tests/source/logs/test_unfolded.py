"""Tracebacks that stand in one line: without their breaks, and with breaks that are written out."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.source.logs import read_logs
from preflight.source.logs.tracebacks import HEADER
from preflight.source.logs.unfolded import unfolded

_PASTED = (
    f'0it [00:00, ?it/s]{HEADER}: File "/env/runpy.py", line 193, in _run "__main__", spec) '
    'File "train.py", line 4, in <module> main() File "train.py", line 2, in main raise ValueError("a: b") ValueError: a: b'
)
_WRITTEN = (
    f'KeyError: \'{HEADER}:\\n  File "/env/torch/utils/data/dataloader.py", line 106, in _worker_loop\\n    samples = [dataset[i]]'
    "\\n  File \"loader.py\", line 41, in get\\n    index = info[\\'id\\']\\nKeyError: \\'id\\'\\n'"
)


@pytest.mark.parametrize(
    ("text", "exception", "message", "code"),
    [
        (_PASTED, "ValueError", "a: b", 'raise ValueError("a: b")'),
        (_WRITTEN, "KeyError", "'id'", "index = info['id']"),
    ],
)
def test_frames_and_exception_are_found(tmp_path: Path, text: str, exception: str, message: str, code: str) -> None:
    (tmp_path / "run.log").write_text(f"begin\n{text}\nsomething else\n")
    (raised,) = read_logs([tmp_path]).raised
    assert (raised.exception, raised.message, raised.hit.line) == (exception, message, 2)
    assert raised.frames[-1].code == code


def test_a_chain_in_one_line_is_two(tmp_path: Path) -> None:
    one = f'{HEADER}: File "a.py", line 1, in f run() KeyError: 3'
    two = f'{HEADER}: File "a.py", line 2, in g run() ValueError: no'
    (tmp_path / "run.log").write_text(
        f"{one} During handling of the above exception, another exception occurred: {two}\n"
    )
    assert [(each.exception, each.chained) for each in read_logs([tmp_path]).raised] == [
        ("KeyError", True),
        ("ValueError", False),
    ]


@pytest.mark.parametrize("text", [f"{HEADER}:", f"{HEADER}: File gone", f'see "File x" and {HEADER}'])
def test_a_header_alone_is_not_unfolded(text: str) -> None:
    assert unfolded(text) == []


def test_a_worker_s_traceback_is_read_behind_a_label(tmp_path: Path) -> None:
    lines = (
        f"Original {HEADER}:",
        '  File "/env/torch/utils/data/_utils/fetch.py", line 44, in fetch',
        "    data = [self.dataset[idx] for idx in index]",
        "KeyError: 0",
    )
    (tmp_path / "run.log").write_text("".join(f"[rank3]: {line}\n" for line in lines))
    (raised,) = read_logs([tmp_path]).raised
    assert (raised.exception, len(raised.frames)) == ("KeyError", 1)
