"""Python tracebacks in logs: plain, chained, cut off, boxed, of groups, among the lines of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.source.logs import read_logs
from preflight.source.logs.tracebacks import parse

FRAME = '  File "/app/train.py", line {}, in {}\n    run()'


def _lines(*parts: str) -> list[str]:
    return "\n".join(parts).split("\n")


def test_a_plain_one() -> None:
    found = parse(
        _lines(
            FRAME.format(3, "<module>"), FRAME.format(9, "f"), "    ^^^^^", "ValueError: bad: worse", "", "next line"
        )
    )
    assert (found.exception, found.message, found.chained, found.last) == ("ValueError", "bad: worse", False, 5)
    assert [(frame.path, frame.line, frame.function) for frame in found.frames] == [
        ("/app/train.py", 3, "<module>"),
        ("/app/train.py", 9, "f"),
    ]
    assert {frame.code for frame in found.frames} == {"run()"}


@pytest.mark.parametrize(
    ("below", "code"),
    [
        (('    info["file"]',), 'info["file"]'),
        (("    ~~~~^^^^^^^^",), ""),
        (("│ ❱ 204 │   │   key = cfg[name]          │",), "key = cfg[name]"),
        (("      1 import os", "----> 2 run(sample)"), "run(sample)"),
        (("    first(", "    second)"), "first("),
    ],
)
def test_a_frame_bears_the_line_that_is_printed_with_it(below: tuple[str, ...], code: str) -> None:
    found = parse(['  File "/app/train.py", line 3, in f', *below, "KeyError: 'file'"])
    assert [frame.code for frame in found.frames] == [code]


def test_a_message_of_several_lines_ends_where_the_log_goes_on() -> None:
    message = "CUDA error: device-side assert triggered\nCUDA kernel errors might be reported later\nCompile with TORCH_USE_CUDA_DSA"
    for after in (
        "",
        "2024-01-01 12:00:00 INFO x",
        "[rank0]:[W101 12:00:00.1 x.cpp:1] y",
        "terminate called",
        "Traceback (most recent call last):",
    ):
        found = parse(_lines(FRAME.format(3, "f"), "RuntimeError: " + message, after, "later"))
        assert found.message.startswith(message)
    assert parse(_lines(FRAME.format(3, "f"), "RuntimeError: " + message, "", "later")).message == message


@pytest.mark.parametrize(
    "line",
    [
        "During handling of the above exception, another exception occurred:",
        "The above exception was the direct cause of the following exception:",
    ],
)
def test_a_chained_one(line: str) -> None:
    found = parse(
        _lines(
            FRAME.format(3, "f"),
            "KeyError: 'x'",
            "",
            line,
            "",
            "Traceback (most recent call last):",
            FRAME.format(4, "g"),
        )
    )
    assert (found.exception, found.message, found.chained, len(found.frames)) == ("KeyError", "'x'", True, 1)


def test_one_that_is_cut_off() -> None:
    found = parse(_lines(FRAME.format(3, "f"), FRAME.format(4, "g")))
    assert (found.exception, len(found.frames)) == ("", 2)


@pytest.mark.parametrize(
    ("line", "exception", "message"),
    [
        ("KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("SystemExit: 3", "SystemExit", "3"),
        (
            "torch.distributed.DistBackendError: NCCL error in: x.cpp:1",
            "torch.distributed.DistBackendError",
            "NCCL error in: x.cpp:1",
        ),
        ("torch._dynamo.exc.Unsupported: call", "torch._dynamo.exc.Unsupported", "call"),
        ("ray.exceptions.RayTaskError(ValueError): ray::f()", "ray.exceptions.RayTaskError", "ray::f()"),
        ("StopIteration", "StopIteration", ""),
        ("yaml.scanner.ScannerError: while scanning", "yaml.scanner.ScannerError", "while scanning"),
    ],
)
def test_classes_of_many_kinds(line: str, exception: str, message: str) -> None:
    found = parse(_lines(FRAME.format(3, "f"), line))
    assert (found.exception, found.message) == (exception, message)


def test_a_group_of_exceptions() -> None:
    text = """\
  |   File "/app/a.py", line 3, in <module>
  |     raise ExceptionGroup("many", [ValueError(1)])
  | ExceptionGroup: many (1 sub-exception)
  +-+---------------- 1 ----------------
    | ValueError: 1
    +------------------------------------"""
    found = parse(text.split("\n"))
    assert (found.exception, found.message, len(found.frames)) == ("ExceptionGroup", "many (1 sub-exception)", 1)


def test_one_in_the_box_of_rich() -> None:
    text = """\
│ /app/train.py:12 in main                                              │
│                                                                       │
│    9                                                                  │
│ ❱ 12     raise ValueError("bad")                                      │
╰───────────────────────────────────────────────────────────────────────╯
ValueError: bad"""
    found = parse(text.split("\n"))
    assert (found.exception, found.message) == ("ValueError", "bad")
    assert [(frame.path, frame.line, frame.function) for frame in found.frames] == [("/app/train.py", 12, "main")]


def test_those_of_many_ranks_among_each_other_are_told_apart(tmp_path: Path) -> None:
    traces = {
        rank: _lines("Traceback (most recent call last):", FRAME.format(rank + 1, "f"), f"ValueError: bad {rank}")
        for rank in range(32)
    }
    rows = [f"[rank{rank}]: {traces[rank][turn]}\n" for turn in range(4) for rank in traces]
    (tmp_path / "train.log").write_text("".join(rows))
    raised = {one.hit.who.rank: one for one in read_logs([tmp_path]).raised}
    assert sorted(rank for rank in raised if rank is not None) == list(range(32))
    for rank, one in raised.items():
        assert (one.message, [frame.line for frame in one.frames]) == (f"bad {rank}", [(rank or 0) + 1])


def test_times_before_each_line_do_not_hide_it(tmp_path: Path) -> None:
    lines = _lines("Traceback (most recent call last):", FRAME.format(3, "f"), "ValueError: bad")
    (tmp_path / "pod.log").write_text(
        "".join(f"2024-01-01T12:00:0{n}.123456789Z {line}\n" for n, line in enumerate(lines))
    )
    (one,) = read_logs([tmp_path]).raised
    assert (one.exception, one.message, len(one.frames)) == ("ValueError", "bad", 1)
    assert one.hit.time is not None
    assert one.hit.time % 60 == pytest.approx(3.123456789)


def test_two_in_one_chain_are_two_and_the_first_says_so(tmp_path: Path) -> None:
    text = "\n".join(
        [
            "Traceback (most recent call last):",
            FRAME.format(3, "f"),
            "KeyError: 'x'",
            "",
            "During handling of the above exception, another exception occurred:",
            "",
            "Traceback (most recent call last):",
            FRAME.format(4, "g"),
            "RuntimeError: y",
            "",
        ]
    )
    (tmp_path / "a.log").write_text(text)
    first, second = read_logs([tmp_path]).raised
    assert (first.exception, first.chained) == ("KeyError", True)
    assert (second.exception, second.chained) == ("RuntimeError", False)


def test_marks_whose_line_does_not_end_hide_no_exception() -> None:
    lines = ['  File "a.py", line 3, in <module>', "    f()", "    ^^^", "      ^^^^^^KeyboardInterrupt: "]
    assert parse(lines).exception == "KeyboardInterrupt"


def test_what_a_tracer_tells_again_below_is_what_was_raised(tmp_path: Path) -> None:
    told = """\
Traceback (most recent call last):
  File "train.py", line 20, in <module>
    model.fit(x, y)
  File "/env/tensorflow/python/framework/func_graph.py", line 994, in wrapper
    raise e.ag_error_metadata.to_exception(e)
ValueError: in user code:

    /env/keras/engine/training.py:853 train_function  *
        return step_function(self, iterator)
    File "train.py", line 9, in call  *
        return a - b

    ValueError: Exception encountered when calling layer 'sub' (type Sub).

    in user code:

        /env/tensorflow/python/framework/ops.py:1883 _create_c_op
            raise ValueError(str(e))

        ValueError: Dimensions must be equal, but are 14 and 16

Epoch 2/10
"""
    (tmp_path / "a.log").write_text(told)
    (raised,) = read_logs([tmp_path]).raised
    assert (raised.exception, raised.message, raised.hit.line) == (
        "ValueError", "Dimensions must be equal, but are 14 and 16", 20,
    )  # fmt: skip
    assert [frame.function for frame in raised.frames[-3:]] == ["train_function", "call", "_create_c_op"]
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert incident.unknown == ()
    assert [one.text for one in incident.timeline if one.role == "root"] == [
        "ValueError: Dimensions must be equal, but are 14 and 16"
    ]


def test_an_exception_without_a_message_takes_none_from_what_stands_below() -> None:
    lines = ['  File "/job/train.py", line 9, in main', "    assert given", "AssertionError"]
    assert parse([*lines, "/var/spool/job_script: line 32: run7: command not found"]).message == ""
    assert parse([*lines[:2], "AssertionError: not given", "  at all"]).message == "not given\n  at all"


@pytest.mark.parametrize("label", ["", "[rank1]: ", "2026-03-02 10:11:58 "])
def test_a_notebook_says_its_exception_in_the_header_and_in_the_last_line(tmp_path: Path, label: str) -> None:
    text = """\
ValueError                                Traceback (most recent call last)
File /env/lib/python3.10/site-packages/kit/items.py:9, in Items.read(self)
----> 9 raise ValueError("short")

ValueError: the row is short

During handling of the above exception, another exception occurred:

KeyboardInterrupt                         Traceback (most recent call last)
File /env/lib/python3.10/site-packages/kit/items.py:12, in Items.wait(self)
---> 12 time.sleep(1)

KeyboardInterrupt:
"""
    (tmp_path / "run.log").write_text("".join(f"{label}{line}\n" for line in text.splitlines()))
    first, second = read_logs([tmp_path], ()).raised
    assert (first.exception, first.message, first.chained, first.hit.line) == (
        "ValueError",
        "the row is short",
        True,
        5,
    )
    assert (second.exception, second.message, second.hit.line) == ("KeyboardInterrupt", "", 13)
    assert diagnose(tmp_path).incident.category == "preemption"


@pytest.mark.parametrize(
    ("line", "frame"),
    [
        ("<ipython-input-13-0ecc74> in <module>", ("<ipython-input-13-0ecc74>", 0, "<module>")),
        ("<ipython-input-13-0ecc74> in <module>()", ("<ipython-input-13-0ecc74>", 0, "<module>")),
        ("<ipython-input-1-56e2> in wrapper(*args, **kwargs)", ("<ipython-input-1-56e2>", 0, "wrapper")),
        ("/tmp/ipykernel_9024/2253.py in <cell line: 0>()", ("/tmp/ipykernel_9024/2253.py", 0, "<module>")),
        ("Cell In[29], line 62", ("Cell In[29]", 62, "<module>")),
        ("Cell In [59], line 22, in Net.forward(self, x)", ("Cell In [59]", 22, "forward")),
        ("Input In [2], in <cell line: 15>()", ("Input In [2]", 0, "<module>")),
        ("File ~/env/kit/__init__.py:9", ("~/env/kit/__init__.py", 9, "<module>")),
        ("~/over/train.py in <module>", ("~/over/train.py", 0, "<module>")),
        ("/data/my train.ipynb Cell 17 in <cell line: 3>()", ("/data/my train.ipynb", 0, "<module>")),
        ("/data/train.ipynb Cell 17 in loss_of(logits, batch)", ("/data/train.ipynb", 0, "loss_of")),
        (r"c:\Users\me\train.ipynb Cell 4 line 12", (r"c:\Users\me\train.ipynb", 12, "<module>")),
        ("saved train.ipynb Cell 4 and others", None),
        ("train.py:30", None),
        ("<ipython-input-29-2268>:12: SettingWithCopyWarning:", None),
    ],
)
def test_a_cell_of_a_notebook_is_a_frame(line: str, frame: tuple[str, int, str] | None) -> None:
    frames = parse([line, "----> 9 run()", "", "ValueError: short"]).frames
    assert [(one.path, one.line, one.function) for one in frames] == ([] if frame is None else [frame])
    assert [one.code for one in frames] == ([] if frame is None else ["run()"])


def test_an_editor_links_the_lines_of_a_cell() -> None:
    link = "<a href='vscode-notebook-cell://ssh/work/train.ipynb#X21sZQ%3D%3D?line={0}'>{1}</a>"
    frames = parse(
        [
            "/data/train.ipynb Cell 17 in <cell line: 3>()",
            f"      {link.format(5, 6)} logits = net(batch)",
            f"----> {link.format(7, 8)} loss = loss_of(logits, batch)",
            "",
            "ValueError: short",
        ]
    ).frames
    assert [one.code for one in frames] == ["loss = loss_of(logits, batch)"]


def test_one_without_an_exception_ends_where_the_program_goes_on() -> None:
    frames = ['  File "/home/me/fit.py", line 3, in <module>', "    y = a * b"]
    assert parse([*frames, *(f"step {number} loss 0.1" for number in range(60))]).last == 1
    assert parse([*frames, "step 1 loss 0.1"]).last == 2
