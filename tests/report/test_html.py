from __future__ import annotations

import re
from html.parser import HTMLParser

import msgspec
import pytest

from preflight.report.render import render
from preflight.vocabulary.report import Report

from . import samples


class _Page(HTMLParser):
    """Collects what a browser would act on."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.headings: list[int] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("h1", "h2", "h3", "h4", "h5"):
            self.headings.append(int(tag[1]))
        if tag not in ("meta", "br", "wbr", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def _page(report: Report) -> tuple[str, _Page]:
    text = render(report, "html", sources=samples.SOURCES | samples.HOSTILE_SOURCES, rules=samples.RULES)
    return text, _Page(text)


@pytest.mark.parametrize("report", samples.ALL.values(), ids=samples.ALL.keys())
def test_the_page_stands_alone_and_is_small(report: Report) -> None:
    text, page = _page(report)
    assert len(text.encode()) < 200_000
    assert page.open == []
    assert not [attrs for _, attrs in page.tags if "src" in attrs or (attrs.get("href") or "#")[0] != "#"]
    assert "@import" not in text
    assert "url(" not in text
    assert "default-src 'none'" in text


@pytest.mark.parametrize("report", samples.ALL.values(), ids=samples.ALL.keys())
def test_headings_descend_one_level_at_a_time(report: Report) -> None:
    _, page = _page(report)
    assert page.headings[0] == 1
    assert page.headings.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(page.headings, page.headings[1:], strict=False))


def test_nothing_of_a_script_becomes_markup() -> None:
    _, page = _page(samples.HOSTILE)
    names = [tag for tag, _ in page.tags]
    assert names.count("script") == 1
    assert "img" not in names
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]
    assert "</script><script>alert(1)</script>" in page.text


def test_the_policy_admits_the_script_of_the_page_alone() -> None:
    import base64
    import hashlib

    text, _ = _page(samples.NO_GO)
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)
    assert script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text


def test_parts_fill_the_bar_up_to_the_peak_and_the_line_stands_at_the_capacity() -> None:
    _, page = _page(samples.NO_GO)
    stacked = [attrs for tag, attrs in page.tags if tag == "rect" and "stroke" in (attrs.get("style") or "")]
    filled = sum(float((attrs["width"] or "").rstrip("%")) for attrs in stacked)
    line = next(attrs for tag, attrs in page.tags if tag == "line" and attrs.get("y1") == "18")
    assert filled == pytest.approx(100 / 1.02, abs=0.1)
    assert float((line["x1"] or "").rstrip("%")) / filled == pytest.approx(39.4 / 61.2, abs=0.002)


def test_everything_that_is_known_is_on_the_page() -> None:
    _, page = _page(samples.NO_GO)
    said = " ".join(page.text.split())
    for expected in (
        "NO-GO train.py",
        "Will run out of memory at step 0, in the forward pass",
        "Efficiency: 42 %",
        "Error 1: Memory overflow: the peak of 61.2 GiB exceeds the 39.4 GiB of the GPU",
        "train.py:11:2 · MEM002 memory-exceeds-capacity · certain",
        "Hint: Append loss.item()",
        "Enable gradient checkpointing",
        "not known: the dataset is not built in this file",
        "2 rules were not evaluated",
        "Batches are made while the GPU waits.",
    ):
        assert expected in said


def test_a_report_of_many_findings_stays_below_the_limit() -> None:
    many = msgspec.structs.replace(samples.NO_GO, findings=samples.NO_GO.findings * 20)
    assert len(render(many, "html", sources=samples.SOURCES).encode()) < 200_000


@pytest.mark.parametrize(
    ("format", "memory"),
    [("text", "\nMEMORY  of one GPU"), ("markdown", "\n## Memory of one GPU"), ("html", "Memory of one GPU <")],
)
def test_what_speaks_against_a_run_comes_before_its_memory_in_every_form(format: str, memory: str) -> None:
    text = render(samples.NO_GO, format, sources=samples.SOURCES, rules=samples.RULES)
    errors, warnings = (
        text.lower().index(title)
        for title in ("critical errors (2)", ">warnings (1)" if format == "html" else "warnings (1)")
    )
    assert errors < warnings < text.index(memory)
