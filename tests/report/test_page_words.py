from __future__ import annotations

import pytest

from preflight.report.parts.page_words import breakable, coded, headed


@pytest.mark.parametrize(
    ("title", "told"),
    [
        ("memory", "Memory"),
        ("what it said", "What it said"),
        ("kWh", "kWh"),
        ("bf16 (TFLOP/s)", "bf16 (TFLOP/s)"),
        ("q", "q"),
        ("95 %", "95 %"),
        ("MFU", "MFU"),
        ("", ""),
    ],
)
def test_headings_begin_with_a_capital_but_for_units_and_symbols(title: str, told: str) -> None:
    assert headed(title) == told


def test_names_break_behind_slashes_and_underscores_and_are_escaped() -> None:
    assert breakable("a/b_c <x>.py") == "a/<wbr>b_<wbr>c &lt;x&gt;.py"
    assert breakable("//host/__init__.py") == "//<wbr>host/__<wbr>init__<wbr>.py"
    assert breakable("13B decoder") == "13B decoder"


def test_code_in_a_sentence_is_set_as_code_and_a_lone_mark_is_kept() -> None:
    assert coded("Run `preflight <x>` now") == "Run <code>preflight &lt;x&gt;</code> now"
    assert coded("it`s <b>") == "it`s &lt;b&gt;"
