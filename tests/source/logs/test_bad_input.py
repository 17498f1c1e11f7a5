"""Input that is broken, hostile or strange: it is read as far as it goes, named, and nothing is lost."""

from __future__ import annotations

import gzip
import io
import os
import random
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preflight.errors import CatalogError
from preflight.source.logs import read_logs
from preflight.source.logs.blocks import Opened
from preflight.source.logs.endings import ends
from preflight.source.logs.predicates import named, not_of_an_average, not_told_by_the_compiler
from preflight.source.logs.prefixes import head_of, plain
from preflight.source.logs.steps import step_of
from preflight.source.logs.tracebacks import named_in, parse

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


LOG = "2024-01-01 12:00:00,000 INFO step: 1 loss: 2.5\n" * 200 + OOM


SIGNATURE = "oom.cuda-allocation"


def _signatures(path: Path) -> list[str]:
    return [hit.signature for hit in read_logs([path]).hits]


def test_nothing_there_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    reading = read_logs([tmp_path / "empty", tmp_path / "missing.log", str(tmp_path / "*.none")])
    assert not reading.hits
    assert any("no file in this folder" in note for note in reading.notes)
    assert any("no file matches" in note for note in reading.notes)
    (missing,) = reading.files
    assert missing.kind == "unreadable"
    assert missing.problem == "No such file or directory"


@pytest.mark.parametrize("name", ["named", "lettered", "CatalogError", "_LOSS", "nothing_such"])
def test_what_is_no_predicate_cannot_be_named_as_one(name: str) -> None:
    with pytest.raises(CatalogError, match=f"no predicate '{name}'"):
        named(name)


def test_an_empty_file_is_empty(tmp_path: Path) -> None:
    (tmp_path / "rank_0.log").write_bytes(b"")
    (file,) = read_logs([tmp_path]).files
    assert (file.kind, file.who.rank, file.problem) == ("empty", 0, None)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_one_may_not_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(LOG)
    path.chmod(0)
    (file,) = read_logs([path]).files
    assert (file.kind, file.problem) == ("unreadable", "Permission denied")


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "logs" / "deep").mkdir(parents=True)
    (tmp_path / "logs" / "deep" / "a.log").write_text(LOG)
    (tmp_path / "logs" / "deep" / "up").symlink_to(tmp_path / "logs")
    (tmp_path / "logs" / "gone.log").symlink_to(tmp_path / "nowhere")
    reading = read_logs([tmp_path / "logs"])
    assert [hit.signature for hit in reading.hits] == [SIGNATURE]
    assert any("link back" in note for note in reading.notes)
    assert [file.kind for file in reading.files if file.path.endswith("gone.log")] == ["unreadable"]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (file,) = read_logs([tmp_path]).files
    assert file.kind == "unreadable"
    assert "pipe" in (file.problem or "")


def test_headers_of_tracebacks_that_never_go_on_cost_nothing_and_hide_nothing(tmp_path: Path) -> None:
    header = "Traceback (most recent call last):\n"
    whole = header + '  File "a.py", line 3, in f\nValueError: bad\n'
    (tmp_path / "a.log").write_text(header * 300_000 + whole + header * 3 + whole)
    labelled = "".join(f"[rank{n % 4}]: {header}" for n in range(4000))
    (tmp_path / "b.log").write_text(labelled + "".join(f"[rank2]: {line}\n" for line in whole.splitlines()))
    found = [(one.hit.file, one.hit.line, one.message, one.hit.who.rank) for one in read_logs([tmp_path]).raised]
    assert found == [(0, 300_003, "bad", None), (0, 300_009, "bad", None), (1, 4003, "bad", 2)]


CODE = 'if loss != loss:\n    raise ValueError("Loss is nan, stopping training")\n' + "".join(
    f"# {line}\n" for line in OOM.splitlines()
)


@pytest.mark.parametrize("name", ["train.py", "job.sh", "conf/config.yaml", "kernel.cu", "fix.patch"])
def test_what_a_program_says_beside_the_logs_did_not_happen(name: str, tmp_path: Path) -> None:
    (tmp_path / "rank_0.log").write_text("INFO step 1 loss 2.5\nINFO step 2 loss 2.4\n")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("#!/bin/bash\n" + CODE)
    reading = read_logs([tmp_path])
    assert not reading.hits
    assert not reading.raised
    assert {file.kind for file in reading.files} == {"text", "program"}


def test_what_only_bears_the_name_of_a_script_or_of_settings_is_read(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(OOM)  # what a scheduler wrote under the name of the job
    (tmp_path / "events.yaml").write_text("apiVersion: v1\nkind: List\nitems:\n" + OOM)
    reading = read_logs([tmp_path])
    assert {file.kind for file in reading.files} == {"text"}
    assert [hit.signature for hit in reading.hits] == [SIGNATURE] * 2


def test_standard_input_is_read(tmp_path: Path) -> None:
    reading = read_logs(["-"], stdin=LOG.encode())
    assert [hit.signature for hit in reading.hits] == [SIGNATURE]
    assert reading.files[0].path == "-"
    assert [hit.signature for hit in read_logs(["-"], stdin=gzip.compress(LOG.encode())).hits] == [SIGNATURE]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_wide_text_is_read(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(("Größe ✓\n" + LOG).encode(encoding))
    reading = read_logs([tmp_path])
    assert [(hit.signature, hit.line) for hit in reading.hits] == [(SIGNATURE, 202)]
    assert reading.files[0].encoding.startswith(encoding[:6])


def test_chinese_text_of_windows_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(("模型训练开始 起始时间 2024\n当前损失值 1.5 ──\n" + LOG).encode("gbk"))
    (tmp_path / "b.log").write_bytes(("Größe über Maß, façade, señor, café, naïve\n" + LOG).encode("latin-1"))
    (tmp_path / "c.log").write_bytes(("\xdb" * 40 + "| 4/10\n" + LOG).encode("latin-1"))
    reading = read_logs([tmp_path])
    assert [file.encoding for file in reading.files] == ["gb18030", "utf-8", "utf-8"]
    assert [(hit.signature, hit.line) for hit in reading.hits if hit.file == 0] == [(SIGNATURE, 203)]
    assert len(reading.hits) == 3


def test_latin_1_and_utf_8_in_one_file(tmp_path: Path) -> None:
    text = b"Gr\xf6\xdfe: " + OOM.encode() + "Größe: ".encode() + OOM.encode()
    (tmp_path / "a.log").write_bytes(text)
    hits = read_logs([tmp_path]).hits
    assert [hit.text[:5] for hit in hits] == ["Größe", "Größe"]


def test_colours_and_bars_that_are_drawn_again(tmp_path: Path) -> None:
    bar = "".join(f"\r {n}%|███{' ' * 7}| {n}/100 [00:10<01:20, 10.0it/s, loss=2.{n}]" for n in range(1, 100))
    text = f"{bar}\n\x1b[31m[rank3]\x1b[0m: \x1b[1m{OOM.strip()}\x1b[0m\r\n"
    (tmp_path / "a.log").write_bytes(text.encode())
    reading = read_logs([tmp_path])
    (hit,) = reading.hits
    assert (hit.who.rank, hit.line, hit.text) == (3, 2, f"[rank3]: {OOM.strip()}")
    assert [step.step for step in reading.steps] == list(range(1, 100))
    assert {step.line for step in reading.steps} == {1}


def test_binary_junk_is_named_and_text_behind_it_is_read(tmp_path: Path) -> None:
    junk = random.Random(3).randbytes(300_000)
    (tmp_path / "a.bin").write_bytes(junk)
    (tmp_path / "b.log").write_bytes(junk + b"\n" + LOG.encode() * 100)
    (tmp_path / "c.log").write_bytes(LOG.encode() + bytes(5000) + LOG.encode())
    reading = read_logs([tmp_path])
    assert [file.kind for file in reading.files] == ["binary", "text", "text"]
    assert sum(hit.times_seen == 100 for hit in reading.hits) == 100
    assert [hit.times_seen for hit in reading.hits if hit.file == 2] == [2, 2]


def test_a_checkpoint_is_not_looked_into(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02cos\nsystem\n(S'touch executed'\ntR.")
    (file,) = read_logs([tmp_path]).files
    assert file.kind == "binary"
    assert not (Path.cwd() / "executed").exists()


@pytest.mark.slow
def test_a_line_without_end_is_read_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with path.open("wb") as out:
        out.write(b"first " + OOM.encode())
        for _ in range(40):
            out.write(b"x" * (1 << 20))
        out.write(OOM.strip().encode())
        out.write(b"y" * (1 << 20) + b"\n" + OOM.encode())
    reading = read_logs([path])
    assert [hit.line for hit in reading.hits if hit.signature == SIGNATURE] == [1, 2, 3]
    assert "longer than" in (reading.files[0].problem or "")
    assert reading.lines_read == 3


def test_a_storm_keeps_the_first_and_the_last_and_counts_all(tmp_path: Path) -> None:
    lines = "".join(f"[rank{n % 2}]: {OOM.replace('2.00', str(n))}" for n in range(20_000))
    (tmp_path / "a.log").write_text(lines)
    hits = [hit for hit in read_logs([tmp_path]).hits if hit.who.rank == 1]
    assert len(hits) == 100
    assert {hit.times_seen for hit in hits} == {10_000}
    assert [hit.line for hit in hits] == [*range(2, 102, 2), *range(19_902, 20_002, 2)]


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=3000))
def test_no_content_breaks_the_reading(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(content)
    reading = read_logs([tmp_path])
    assert len(reading.files) >= 1


@settings(deadline=None)
@given(st.text(max_size=300))
def test_no_line_breaks_the_parsers(text: str) -> None:
    head = head_of(plain(text))
    assert 0 <= head.end <= max(len(plain(text)), 0)
    step_of(text)
    parse(text.splitlines())


@settings(deadline=None)
@given(st.lists(st.binary(min_size=0, max_size=40), max_size=60), st.integers(1 << 8, 1 << 10))
def test_blocks_give_every_byte_once(lines: list[bytes], size: int) -> None:
    data = b"\n".join(line.replace(b"\x00", b"0") for line in lines)
    own = b""
    number = 1
    for block in Opened(io.BytesIO(b"#" * 64 + data)).blocks(size):
        assert block.offset == len(own)
        assert block.line == number
        own += block.data[: block.own]
        number += block.data.count(b"\n", 0, block.own)
    assert own == b"#" * 64 + data


MANY = 20_000


HOSTILE = {
    "a notebook's header": ("x" * MANY + "-Traceback (most recent call last):", lambda text: named_in(text) == ""),
    "a name before a header": (
        "KeyError  Traceback (most recent call last)",
        lambda text: named_in(text) == "KeyError",
    ),
    "norms": ("loss: nan loss: 1 " + "gradnorm" * MANY, lambda text: not_of_an_average({}, text)),
    "the compiler": ("torch._dynamo." * MANY, lambda text: not_told_by_the_compiler({}, text)),
    "events of an agent": ('"source": "WORKER" "global_rank": 1 ' * 2000, lambda text: ends(text) is None),
    "commands": ("'--local_rank=1' " * MANY + "exits with return code", lambda text: ends(text) is None),
    "blanks": (":" + " " * MANY + "Killed", lambda text: ends(text) is None),
    "an engine": ("(a" + "_DP1" * MANY, lambda text: head_of(text).who.rank is None),
    "a node": ("[a" + "1" * MANY, lambda text: head_of(text).who.node is None),
}


"""Lines at which an expression that tries every way to cut them would take minutes or hours."""


@pytest.mark.parametrize("name", HOSTILE)
def test_no_line_is_tried_in_every_way(name: str) -> None:
    text, holds = HOSTILE[name]
    assert holds(text)


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("wrapped.log", '{"log":"step 1: loss 2.0","k":%s}\n'),
        ("error.json", '{"message":{"message":"x","extraInfo":%s}}'),
        ("metrics.jsonl", '{"step":1,"loss":2.0,"x":%s}\n'),
        ("trainer_state.json", '{"log_history":[{"loss":1.0,"step":1,"z":%s}],"global_step":1}'),
        ("events.json", '{"apiVersion":"v1","kind":"List","items":%s}'),
        ("journal.json", '{"__REALTIME_TIMESTAMP":"1700000000000000","MESSAGE":"NVRM: Xid 79","x":%s}\n'),
        ("nccl_trace_rank_0.json", '{"version":"2.4","pg_config":{},"entries":%s}'),
        ("diagnostic.log", 'DCGM\n{"DCGM Diagnostic":%s}'),
    ],
)
def test_json_that_is_nested_too_deep_ends_nothing(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text % DEEP)
    (tmp_path / "train.log").write_text("step 1: loss 2.0\n")
    reading = read_logs([tmp_path])
    assert len(reading.files) == 2
    assert any(step.step == 1 for step in reading.steps)


def test_a_trace_of_the_monitor_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "trace").mkdir()
    for name in ("rank-0.4711.trace", "worker-0.4711.12.trace", "run.json", "alerts.jsonl", "train.log"):
        (tmp_path / "trace" / name).write_text("CUDA out of memory\n")
    (tmp_path / "run.json").write_text("{}")
    read = sorted(Path(file.path).relative_to(tmp_path).as_posix() for file in read_logs([tmp_path]).files)
    assert read == ["run.json", "trace/train.log"]


def test_of_a_signature_of_steps_few_hits_are_kept_and_all_are_counted_and_kept_as_steps(tmp_path: Path) -> None:
    line = (
        " iteration {0:8d}/     500 | consumed samples: {0:8d} | lm loss: 8.1E+00 "
        "| number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )
    for rank in (0, 1):
        (tmp_path / f"rank_{rank}.log").write_text("".join(line.format(step) for step in range(1, 301)))
    reading = read_logs([tmp_path])
    for file in (0, 1):
        hits = [hit for hit in reading.hits if hit.file == file]
        assert [hit.line for hit in hits] == [1, 2, 299, 300]
        assert {hit.times_seen for hit in hits} == {300}
        assert [step.step for step in reading.steps if step.file == file] == [*range(1, 301)]
