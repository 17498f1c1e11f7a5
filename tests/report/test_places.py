"""A path in a terminal report stays in one piece, also where it is wider than the page."""

from __future__ import annotations

from preflight.report.parts.options import Options
from preflight.report.parts.paint import Canvas

LONG = "examples/applications/chat/training/step1_supervised_finetuning/some_long_name/main.py:285:25"


def test_a_path_that_is_wider_than_the_page_stays_whole() -> None:
    canvas = Canvas(Options(width=80))
    canvas.place(LONG, "  DST001 sampler-without-set-epoch", indent=5)
    assert canvas.lines == [f"     {LONG}", "     DST001 sampler-without-set-epoch"]


def test_a_remark_on_a_long_path_begins_below_it() -> None:
    canvas = Canvas(Options(width=80))
    canvas.place(LONG, ": the loop", indent=5, first="see:  ")
    assert canvas.lines == [f"     see:  {LONG}:", "           the loop"]


def test_what_fits_stands_in_one_line() -> None:
    canvas = Canvas(Options(width=80))
    canvas.place("train.py:3:1", "  EFF001 host-synchronised-each-step", indent=5)
    assert canvas.lines == ["     train.py:3:1  EFF001 host-synchronised-each-step"]
