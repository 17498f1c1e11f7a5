from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from preflight.report.parts.clean import clean, display_width
from preflight.report.parts.paint import wrap
from preflight.report.parts.sections import input_line
from preflight.report.parts.sentences import place, quick_line
from preflight.report.render import render
from preflight.vocabulary.finding import Finding, Location
from preflight.vocabulary.memory import MemoryEstimate, TimelinePoint
from preflight.vocabulary.quantity import GIB
from preflight.vocabulary.report import Report

from . import samples


def test_the_whole_report() -> None:
    assert render(samples.NO_GO, "text", sources=samples.SOURCES) == snapshot("""\
NO-GO  train.py
  2 errors, 1 warning, 1 note; fix the errors before training
  gpu: NVIDIA A100 40GB, gpus: 1

CRITICAL ERRORS (2)
  1. Memory overflow: the peak of 61.2 GiB exceeds the 39.4 GiB of the GPU
     train.py:11:2  MEM002 memory-exceeds-capacity
        11 |     loss.backward()
           |     ^^^^^^^^^^^^^^^
     seen: peak: 61.2 GiB = 1,557,611,200 x 16 bytes + 29.0 GiB of activations +
           8.5 GiB
     seen: capacity: 39.4 GiB (published)
     see:  train.py:5:9: the model is built in fp32 here
     hint: Train in bf16 with gradient checkpointing
           model.gradient_checkpointing_enable()
           and wrap the forward pass in torch.autocast('cuda', torch.bfloat16)
           expected: activations 29.0 GiB -> 2.1 GiB

  2. The list 'losses' keeps every loss with its graph, so that memory grows at
     each step
     train.py:14:2  MEM007 loss-kept-with-graph (likely)
        14 |     losses.append(loss)
           |     ^^^^^^^^^^^^^^^^^^^
     hint: Append loss.item()
           expected: no growth per step
           there is an automatic, safe fix: --fix (shown by --diff)

WARNINGS (1)
  1. The DataLoader loads in the training process, so that the GPU waits for
     every batch
     train.py:7:10  EFF002 dataloader-without-workers
         7 | loader = DataLoader(dataset, batch_size=1)
           |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
     seen: num_workers: 0 (published)
     hint: Pass num_workers=4
           there is an automatic, unsafe fix: --unsafe-fixes (shown by --diff)

NOTES (1)
  1. No seed is set; two runs will differ
     train.py:1:1  REP001 seed-not-set (possible, does not decide)
         1 | import torch
           | ^

MEMORY  of one GPU, read from the script
  peak (allocated)           58.7 GiB   (55.0 to 63.1 GiB)
  reserved by the allocator  60.7 GiB   (57.0 to 66.0 GiB)
  shown by the driver        61.2 GiB   (57.5 to 66.5 GiB)
  capacity of the GPU        39.4 GiB   does not fit (chance that it fits: 1 %)
  Will run out of memory at step 0, in the forward pass
    5.8 GiB of parameters + 35.2 GiB of activations = 41.0 GiB > 39.4 GiB
  breakdown at the peak
    activations              29.0 GiB   47 %  ███████████████▏
    optimizer states         11.6 GiB   19 %  ██████▏
    logits and loss           6.2 GiB   10 %  ███▎
    gradients                 5.8 GiB    9 %  ███
    model parameters          5.8 GiB    9 %  ███
    fragmentation             2.0 GiB    3 %  █
    context                   512 MiB    1 %  ▎
    workspace                 307 MiB    0 %  ▏
    total                    61.2 GiB
  timeline of allocated memory
    step 0 init               5.8 GiB  ██▌
    step 0 forward           41.0 GiB  █████████████████▉       above capacity
    step 0 backward          47.1 GiB  ████████████████████▋    above capacity
    step 0 optimizer         23.2 GiB  ██████████▏
    step 1 forward           52.6 GiB  ███████████████████████  above capacity

EFFICIENCY  score 42 %: Significant inefficiencies
  precision      30 %  ███         fp32 without TF32: 19.5 of 312 TFLOP/s
                                   (weight 0.4)
  data loading   20 %  ██          0 workers (weight 0.3)
  batch size     80 %  ████████    1 x 1024 tokens (weight 0.3)

RECOMMENDATIONS
  1. [critical] Enable gradient checkpointing
     expected: peak 61.2 GiB -> 34.3 GiB
     costs: about a third more compute
  2. [high] Train under autocast in bf16
     expected: matrix products up to 16 times faster

WHAT WAS READ
  framework         pytorch   (import, line 1)
  model.parameters  1,557,611,200 (1.56 B)   (catalog gpt2-xl, line 5)
  optimizer.lr      0.1   (literal, line 6)
  batch.micro       1   (literal, line 7)
  not known         sequence_length   (--verbose says why)

NOT EVALUATED  2 rules were not evaluated, for want of a fact
    2 x sequence_length is not known

────────────────────────────────────────────────────────────────────────────────
NO-GO  2 errors, 1 warning, 1 note; fix the errors before training
""")


def test_a_healthy_script() -> None:
    assert render(samples.GO, "text") == snapshot("""\
GO  good.py
  0 errors, 0 warnings; memory was not compared: no GPU was named

MEMORY  of one GPU, read from the script
  peak (allocated)            1.8 GiB   (1.5 to 2.0 GiB)
  capacity not known: no GPU was named, so it was not compared with a capacity
  breakdown at the peak
    activations               1.2 GiB   71 %  ██████████████████████▉
    model parameters          512 MiB   29 %  █████████▏
    total                     1.8 GiB

WHAT WAS READ
  framework  pytorch   (import)

────────────────────────────────────────────────────────────────────────────────
GO  0 errors, 0 warnings; memory was not compared: no GPU was named
""")


def test_a_script_that_cannot_be_judged() -> None:
    assert render(samples.UNKNOWN, "text") == snapshot("""\
UNKNOWN  keras_fit.py
  0 errors, 0 warnings; This script trains with TensorFlow, which is recognised
  but not evaluated

MEMORY  of one GPU
  not known: TensorFlow scripts are recognised but not evaluated
  capacity not known: no GPU was named, so it was not compared with a capacity

REMARKS
  - This script trains with TensorFlow, which is recognised but not evaluated

────────────────────────────────────────────────────────────────────────────────
UNKNOWN  0 errors, 0 warnings; This script trains with TensorFlow, which is
         recognised but not evaluated
""")


def test_several_scripts_end_in_a_table() -> None:
    text = render(samples.SEVERAL, "text")
    assert text[text.index("SUMMARY") :] == snapshot("""\
SUMMARY  3 scripts
  verdict  errors  warnings  memory                     script
  NO-GO         2         1  peak 61.2 GiB of 39.4 GiB  train.py
  UNKNOWN       0         0  peak not known             keras_fit.py
  GO            0         0  peak 1.8 GiB               good.py

────────────────────────────────────────────────────────────────────────────────
NO-GO  2 errors, 1 warning, 1 note; fix the errors before training
""")
    assert "good.py" not in text[: text.index("SUMMARY")]


def test_plain_ascii_where_the_terminal_has_no_symbols() -> None:
    text = render(samples.NO_GO, "text", symbols=False, sources=samples.SOURCES)
    assert text.isascii()
    assert "#####" in text


def test_colours_only_when_asked_and_nothing_is_said_by_them_alone() -> None:
    plain = render(samples.NO_GO, "text", sources=samples.SOURCES)
    painted = render(samples.NO_GO, "text", sources=samples.SOURCES, color=True)
    assert "\x1b" not in plain
    assert "\x1b[1;31mNO-GO" in painted
    bare = painted
    for code in ("0", "1", "2", "1;31", "1;33", "1;32", "1;34", "36"):
        bare = bare.replace(f"\x1b[{code}m", "")
    assert bare == plain


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("report", samples.ALL.values(), ids=samples.ALL.keys())
def test_no_line_is_wider_than_the_terminal(report: Report, width: int) -> None:
    sources = samples.SOURCES | samples.HOSTILE_SOURCES
    lines = render(report, "text", width=width, sources=sources, verbose=True).splitlines()
    assert max(display_width(line) for line in lines) <= width


def test_the_terminal_cannot_be_moved_by_what_a_script_says() -> None:
    text = render(samples.HOSTILE, "text", sources=samples.HOSTILE_SOURCES)
    assert all(line.isprintable() for line in text.split("\n"))
    assert "\\x1b[31mred" in text
    assert "\\u202eevil" in text
    assert "\n" not in quick_line(samples.HOSTILE)


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (
            samples.NO_GO,
            "NO-GO  train.py  2 errors, 1 warning, 1 note  peak 61.2 GiB of 39.4 GiB  (MEM002 train.py:11 and 1 more)",
        ),
        (samples.GO, "GO  good.py  0 errors, 0 warnings  peak 1.8 GiB"),
        (samples.UNKNOWN, "UNKNOWN  keras_fit.py  0 errors, 0 warnings  peak not known"),
        (samples.SEVERAL, "NO-GO  3 scripts  2 errors, 1 warning, 1 note  (MEM002 train.py:11 and 1 more)"),
    ],
)
def test_the_quick_line(report: Report, line: str) -> None:
    assert quick_line(report) == line


def test_the_caret_stands_under_the_place_behind_tabs_and_wide_characters() -> None:
    finding = Finding(
        "r", "X001", "info", "certain", "m", Location(path="a.py", line=1, column=8, end_line=1, end_column=11)
    )
    report = msgspec.structs.replace(samples.GO, findings=(finding,))
    shown = render(report, "text", sources={"a.py": "\t\u6570 = a bad\n"}).splitlines()
    at = next(index for index, line in enumerate(shown) if "a bad" in line)
    column = display_width(shown[at][: shown[at].index("bad")])
    assert shown[at + 1] == shown[at + 1][:column] + "^^^"


def test_a_very_long_line_is_cut_around_the_place() -> None:
    line = "x = [" + "0, " * 200 + "bad, " + "0, " * 200 + "]"
    column = line.index("bad") + 1
    finding = Finding(
        "r",
        "X001",
        "info",
        "certain",
        "m",
        Location(path="a.py", line=1, column=column, end_line=1, end_column=column + 3),
    )
    report = msgspec.structs.replace(samples.GO, findings=(finding,))
    shown = render(report, "text", sources={"a.py": line}).splitlines()
    at = next(index for index, text in enumerate(shown) if "bad" in text)
    start = shown[at].index("bad")
    assert len(shown[at]) <= 80
    assert shown[at + 1].index("^^^") == start


def test_a_place_outside_the_source_has_no_snippet() -> None:
    finding = Finding("r", "X001", "info", "certain", "m", Location(path="a.py", line=99, column=1))
    report = msgspec.structs.replace(samples.GO, findings=(finding,))
    assert " | " not in render(report, "text", sources={"a.py": "x = 1\n"})


def test_a_long_timeline_keeps_its_peak_and_says_what_is_left_out() -> None:
    points = tuple(
        TimelinePoint(
            step=step, phase="forward", allocated_bytes=(90.0 if step == 70 else 1.0) * GIB, reserved_bytes=0.0
        )
        for step in range(100)
    )
    report = msgspec.structs.replace(
        samples.GO, memory=MemoryEstimate(timeline=points, reason="not computed", capacity_bytes=int(GIB))
    )
    text = render(report, "text")
    assert "(88 more not shown)" in text
    assert "step 70 forward" in text
    assert "step 99 forward" in render(report, "text", verbose=True)


@pytest.mark.parametrize(
    ("location", "text"),
    [
        (Location(path="a.py"), "a.py"),
        (Location(path="a.py", line=3), "a.py:3"),
        (Location(path="n.ipynb", line=5, column=1, cell=3), "n.ipynb:cell 3:5:1"),
        (Location(rank=0, node="n1", step=0, time=1.5), "rank 0, node n1, step 0, time 1.5 s"),
        (Location(), ""),
    ],
)
def test_places(location: Location, text: str) -> None:
    assert place(location) == text


@given(st.text(max_size=80), st.integers(4, 30), st.integers(4, 30))
def test_wrapping_loses_nothing_but_spaces_and_stays_in_its_room(text: str, first: int, width: int) -> None:
    line = clean(text)
    lines = wrap(line, first, width)
    assert "".join(lines).replace(" ", "") == line.replace(" ", "")
    assert all(display_width(part) <= (first if index == 0 else width) for index, part in enumerate(lines))


@given(st.text())
def test_cleaned_text_is_printable(text: str) -> None:
    assert clean(text).isprintable()


def test_inputs_are_told_as_sentences() -> None:
    fixed = [
        {"code": "OPT001", "rule": "a", "path": "train.py", "line": 9, "persists": False},
        {"code": "EFF002", "rule": "b", "path": "train.py", "line": 4, "persists": True},
    ]
    report = msgspec.structs.replace(
        samples.NO_GO, inputs={"path": "train.py", "arguments": ["--lr", "3"], "fixed": fixed}
    )
    assert input_line(report) == "arguments: --lr 3, fixed: OPT001 line 9, EFF002 line 4 (persists)"
    elsewhere = [fixed[0], {**fixed[1], "path": "loop.py", "persists": False}]
    report = msgspec.structs.replace(samples.NO_GO, inputs={"fixed": elsewhere})
    assert input_line(report) == "fixed: OPT001 train.py:9, EFF002 loop.py:4"


def test_the_time_of_a_step_is_shown_in_units_for_people() -> None:
    step = {
        "seconds": {"low": 0.00807, "mid": 0.009747, "high": 0.0174}, "tokens_per_second_per_gpu": 13130.4,
        "mfu": 0.2237, "breakdown": {"compute": 0.008575, "bubble": 0, "optimizer": 0.0003757},
        "host_bound_share": None, "top_operators": [{"operator": "mm", "phase": "backward", "seconds": 2.469}],
    }  # fmt: skip
    text = render(msgspec.structs.replace(samples.NO_GO, step=step), "text", sources=samples.SOURCES)
    assert text[text.index("STEP") :].partition("\n\n")[0] == snapshot("""\
STEP
  time              9.75 ms (8.07 ms to 17.4 ms)
  tokens/s per GPU  13,100
  MFU               22.4 %
  spent on          compute 8.57 ms, optimizer 376 µs
  top operators     mm (backward) 2.47 s\
""")
