"""A page on paper: what cannot be opened or pushed there is not shown, and nothing is empty."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.ui.chromium import PROGRAM, Chromium

from preflight.report.render import render

from . import samples

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="browser: no Chromium is installed"),
]
SHOWN = "Array.from(document.querySelectorAll({!r})).filter(one => one.checkVisibility()).length"
EMPTY = """Array.from(document.querySelectorAll('section')).filter(one => one.checkVisibility())
  .filter(one => Array.from(one.children).every(part => /^H[2-4]$/.test(part.tagName) || !part.checkVisibility())).length"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    one = Chromium(tmp_path_factory.mktemp("profile"))
    yield one
    one.close()


def test_what_is_folded_and_what_filters_are_not_on_paper(browser: Chromium, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(render(samples.NO_GO, "html", sources=samples.SOURCES), "utf-8")
    browser.open(page.as_uri())
    browser.wait("!document.getElementById('filters').hidden")
    assert browser.value(SHOWN.format("details")) > 0
    assert browser.value(SHOWN.format("section")) > 0
    browser.ask("Emulation.setEmulatedMedia", media="print")
    assert browser.value(SHOWN.format("#filters")) == 0
    assert browser.value(SHOWN.format("details:not([open])")) == 0
    assert browser.value(EMPTY) == 0
    assert browser.value(SHOWN.format("article")) == browser.value("document.querySelectorAll('article').length")
    browser.value("document.querySelector('details').open = true")
    assert browser.value(SHOWN.format("details[open]")) == 1
    browser.ask("Emulation.setEmulatedMedia", media="")
