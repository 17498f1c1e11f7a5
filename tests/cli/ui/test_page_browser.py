"""The page in a browser: a value changes and an alarm appears while one looks, and nothing is wider than the screen."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra ui is not installed")
pytest.importorskip("uvicorn", reason="the extra ui is not installed")

from preflight.cli.ui_ import app, feed
from preflight.monitor.recording import HOME

from .chromium import PROGRAM, Chromium
from .growing import Growing
from .serving import served

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="browser: no Chromium is installed"),
]
TILE = "document.querySelector('[data-tile=\"{}\"] b').textContent"
BEYOND = """Array.from(document.querySelectorAll('body *')).filter(one => one.checkVisibility())
  .filter(one => !one.closest('.scroll, pre, .only-read')).map(one => [one.tagName, one.getBoundingClientRect()])
  .filter(([, box]) => box.width && (box.right > innerWidth + 1 || box.left < -1)).map(([name]) => name)"""
SPILT = """Array.from(document.querySelectorAll('figure.chart')).filter(one => Array.from(one.querySelectorAll('polyline'))
  .some(line => line.getBoundingClientRect().right > one.getBoundingClientRect().right + 2)).length"""
UNNAMED = """Array.from(document.querySelectorAll('button, select, svg[role=img], section')).filter(one => one.checkVisibility())
  .filter(one => !(one.textContent.trim() || one.labels?.length || one.getAttribute('aria-label') || one.getAttribute('aria-labelledby')))
  .length"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    one = Chromium(tmp_path_factory.mktemp("profile"))
    yield one
    one.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "LOOK_EVERY", 0.1)
    monkeypatch.setattr(app, "LIST_EVERY", 0.1)


def tile(browser: Chromium, name: str, value: str) -> None:
    browser.wait(f"{TILE.format(name)} === {value!r}")


def test_a_run_goes_on_before_ones_eyes(browser: Chromium, tmp_path: Path) -> None:
    with served(tmp_path) as server:
        browser.open(server.url)
        browser.wait("!document.getElementById('empty').hidden")
        assert "preflight monitor run -- python train.py" in browser.value("document.body.innerText")
        run = Growing(tmp_path / HOME / "train-1", world=2, program="<b id='evil'>train.py</b>")
        browser.wait("document.getElementById('state').textContent === 'waiting'")
        assert browser.value("document.getElementById('empty').hidden") is True
        run.begin()
        run.steps(6, loss=2.5, memory=3 << 30)
        tile(browser, "step", "6")
        tile(browser, "loss", "2.5")
        tile(browser, "GPU memory, rank 0", "3.0 GiB")
        assert browser.value("document.querySelectorAll('figure.chart').length") == 3
        assert browser.value("document.getElementById('program').textContent") == "<b id='evil'>train.py</b>"
        assert browser.value("document.getElementById('evil')") is None
        browser.wait("document.getElementById('no-alarms').textContent === 'No alarms so far.'")
        run.steps(3, loss=math.nan, memory=3 << 30)
        tile(browser, "step", "9")
        tile(browser, "loss", "not finite")
        browser.wait("document.querySelectorAll('#alarm-list article').length > 0")
        article = browser.value("document.querySelector('#alarm-list article').innerText")
        assert "since step 6" in article
        assert "train.py:7" in article
        browser.wait("document.getElementById('alert').textContent.startsWith('Error 1: ')")
        assert browser.value("document.title").startswith("(1) ")
        browser.wait("document.querySelectorAll('#heat-picture rect.warm').length > 4")
        assert "rank 1" in browser.value("document.querySelector('#heat-picture svg').getAttribute('aria-label')")
        for width, dark in ((400, True), (1280, False)):
            browser.open(server.url, width, dark)
            tile(browser, "step", "9")
            browser.wait("document.querySelectorAll('#heat-picture rect.warm').length > 4")
            assert browser.value("document.documentElement.scrollWidth") <= width
            assert browser.value(BEYOND) == []
            browser.wait(f"{SPILT} === 0")
            assert browser.value(UNNAMED) == 0
        run.end(code=1, error="RuntimeError: out of luck")
        browser.wait("document.getElementById('state').textContent === 'failed'")
        assert "out of luck" in browser.value("document.getElementById('said').textContent")
        browser.wait("document.getElementById('verdict').textContent.startsWith('NO-GO')")
        Growing(tmp_path / HOME / "train-2")
        browser.wait("!document.getElementById('newer').hidden")
        browser.value("document.querySelector('#newer a').click()")
        browser.wait("document.getElementById('state').textContent === 'waiting'")
        assert browser.value("document.getElementById('chosen').value") == ".preflight/monitor/train-2"
    browser.wait("document.getElementById('link').textContent.startsWith('no connection')")
    assert [said for said in browser.said if "ERR_" not in said] == []  # that the server is gone is said by the browser


def test_a_key_reads_the_values_of_a_chart(browser: Chromium, tmp_path: Path) -> None:
    run = Growing(tmp_path / "trace")
    run.begin()
    for step in range(6):
        run.steps(1, loss=float(step))
    run.end()
    with served(tmp_path) as server:
        browser.open(server.url)
        browser.wait("document.querySelector('figure[data-chart=loss] polyline')")
        assert "finished" in browser.value("document.title")
        keyed = "document.querySelector('figure[data-chart=loss] svg[role=img]').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft'}))"
        browser.value(keyed)
        browser.value(keyed)
        legend = browser.value("document.querySelector('figure[data-chart=loss] .legend').innerText")
        assert legend.split() == ["step", "4", "train.py:7", "4"]
        browser.value("document.querySelector('figure[data-chart=loss] button').click()")
        assert (
            browser.value("document.querySelector('figure[data-chart=loss] button').getAttribute('aria-pressed')")
            == "true"
        )
        assert browser.value("document.querySelectorAll('figure[data-chart=loss] polyline').length") == 1


def test_values_of_one_step_lie_beside_each_other(browser: Chromium, tmp_path: Path) -> None:
    run = Growing(tmp_path / "trace", accumulate=2)
    run.begin()
    for loss in (6.0, 5.0, 4.0, 3.0, 2.0, 1.0):
        run.steps(1, loss=loss)
    run.end()
    with served(tmp_path) as server:
        browser.open(server.url)
        browser.wait("document.querySelector('figure[data-chart=loss] polyline')")
        points = browser.value("document.querySelector('figure[data-chart=loss] polyline').getAttribute('points')")
        across = [float(point.split(",")[0]) for point in points.split()]
        gaps = [later - earlier for earlier, later in itertools.pairwise(across)]
        assert len(gaps) == 5
        assert min(gaps) > 0
        assert max(gaps) - min(gaps) < 0.3
        assert across[-1] <= browser.value(
            "document.querySelector('figure[data-chart=loss] rect.ground').getBBox().x"
            " + document.querySelector('figure[data-chart=loss] rect.ground').getBBox().width"
        )
