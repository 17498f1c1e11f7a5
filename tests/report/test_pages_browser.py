"""The pages of several commands in one browser: nothing is wider than the screen, no label lies on another, nothing fails."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from typing import Any

import msgspec
import pytest

from preflight.cli.parts.tables import render_table, rows
from preflight.cli.parts.writing import Writing
from preflight.plan.compare import compared_report
from preflight.plan.inputs.command_line import request_of
from preflight.plan.make import plan_report
from preflight.report.render import render
from preflight.vocabulary.report import SCHEMA, Report
from preflight.vocabulary.watched import Mark, Series, Watched

from . import incidents, samples
from .pictures import seen
from .pictures.test_roofline import ROOF

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="browser: no Chromium is installed"),
]
WIDTHS = (400, 1280)
_FLAGS = (
    "headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking", "disable-sync",
    "disable-component-update", "enable-logging=stderr", "window-size=1400,1000", "virtual-time-budget=5000", "dump-dom",
)  # fmt: skip

_PROBE = """<!doctype html><meta charset=utf-8><body style="margin:0"><pre id=out></pre><script>
var cases = %s, told = {}, left = cases.length;
function boxes(page) {
  return Array.from(page.querySelectorAll("svg text")).map(function (text) {
    var box = text.getBoundingClientRect();
    return {words: text.textContent, box: box};
  }).filter(function (one) { return one.box.width > 0; });
}
function overlaps(found) {
  var bad = [];
  found.forEach(function (one, at) {
    found.slice(0, at).forEach(function (other) {
      var across = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
      var down = Math.min(one.box.bottom, other.box.bottom) - Math.max(one.box.top, other.box.top);
      if (across > 2 && down > 3) bad.push(one.words + " | " + other.words);
    });
  });
  return bad;
}
function broken(page) {
  // Cells that have more lines than words: a column so narrow that words fall into letters.
  return Array.from(page.querySelectorAll("th, td")).filter(function (cell) {
    var words = cell.textContent.trim().split(/[\\s\\/_.,:-]+/).length, range = page.createRange(), lines = [];
    var texts = page.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      range.selectNodeContents(texts.currentNode);
      Array.from(range.getClientRects()).forEach(function (box) { if (box.width) lines.push((box.top + box.bottom) / 2); });
    }
    lines.sort(function (one, other) { return one - other; });
    var count = lines.filter(function (at, index) { return !index || at - lines[index - 1] > 8; }).length;
    return cell.checkVisibility() && !cell.querySelector("svg") && count > words;
  }).map(function (cell) { return cell.textContent; });
}
function beside(page) {
  // Tables that must be pushed to the side to be read.
  return Array.from(page.querySelectorAll(".scroll")).filter(function (one) { return one.scrollWidth > one.clientWidth + 1; }).length;
}
cases.forEach(function (one) {
  var frame = document.createElement("iframe");
  frame.style.cssText = "border:0;height:900px;width:" + one.width + "px";
  frame.srcdoc = one.page;
  frame.onload = function () {
    var page = frame.contentDocument, found = boxes(page);
    told[one.name] = {
      wide: page.documentElement.scrollWidth,
      beyond: found.filter(function (text) { return text.box.right > one.width + 1 || text.box.left < -1; })
        .map(function (text) { return text.words; }),
      overlaps: overlaps(found),
      broken: broken(page),
      beside: beside(page),
      labels: found.length,
      titles: page.querySelectorAll("svg title").length,
      named: Array.from(page.querySelectorAll("svg[role=img]")).every(function (svg) { return svg.getAttribute("aria-label"); }),
      ground: getComputedStyle(page.body).backgroundColor
    };
    left -= 1;
    if (!left) document.getElementById("out").textContent = "<<" + JSON.stringify(told) + ">>";
  };
  document.body.appendChild(frame);
});
</script>"""


def _watched() -> Report:
    marks = tuple(Mark(rank, step, 1 + step % 9) for rank in range(12) for step in range(rank, 200, 17))
    loss = Series(name="loss", steps=tuple(range(200)), values=tuple(2.0 - step / 200 for step in range(200)))
    watched = Watched(iterations=2400, steps=200, ranks=tuple(range(12)), marks=marks, series=(loss,))
    return Report(schema=SCHEMA, command="monitor", tool=samples.TOOL, verdict="NO-GO", watched=watched)


def _seen() -> Report:
    return Report(
        schema=SCHEMA, command="check", tool=samples.TOOL, verdict="NO-GO", memory=seen.SEEN, profile=seen.PROFILE,
        roofline=ROOF,
    )  # fmt: skip


def _searched() -> Report:
    words = ("7", "64")
    return plan_report(request_of(words, {"cluster__num_gpus": 4, "distribution__strategy": "auto"}))


def _piped() -> Report:
    options = {"cluster__num_gpus": 8, "distribution__strategy": "pipeline_parallel"}
    from preflight.plan.spread import settled

    return plan_report(settled(request_of(("13", "32"), options)))


def _far_away() -> Report:
    """An incident whose logs lie at the end of a long path without a space."""
    report = incidents.report()
    assert report.incident is not None
    quote = msgspec.structs.replace(incidents.SILENT, path="/".join(["/shared/experiments"] * 6) + "/console.log")
    unknown = tuple(msgspec.structs.replace(one, quote=quote) for one in report.incident.unknown)
    return msgspec.structs.replace(report, incident=msgspec.structs.replace(report.incident, unknown=unknown))


def _plain() -> dict[str, str]:
    """Pages without a picture: clusters side by side, the widest list."""
    requests = [request_of(("7", "64"), {"hardware__gpu_type": name}) for name in ("h100", "b200", "a100-40gb")]
    compared = render(compared_report(requests), "html")
    return {"compared": compared, "signatures": render_table("signatures", rows("signatures"), Writing(format="html"))}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """What a script beside each page sees at each width, and what the browser logged."""
    folder = tmp_path_factory.mktemp("pages")
    reports = {
        "check": samples.NO_GO, "dry run": _seen(), "search": _searched(), "pipeline": _piped(),
        "incident": incidents.report(), "watched": _watched(), "far away": _far_away(),
    }  # fmt: skip
    pages = {name: render(report, "html", sources=samples.SOURCES) for name, report in reports.items()} | _plain()
    cases = [
        {"name": f"{name} {width}", "width": width, "page": page} for name, page in pages.items() for width in WIDTHS
    ]
    probe = folder / "probe.html"
    probe.write_text(_PROBE % json.dumps(cases).replace("</", "<\\/"), "utf-8")
    assert CHROMIUM is not None
    command = [CHROMIUM, *(f"--{flag}" for flag in _FLAGS), f"--user-data-dir={folder / 'profile'}", probe.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=180)
    found = re.search(r"&lt;&lt;(.*?)&gt;&gt;</pre>", done.stdout, re.DOTALL)
    assert found is not None, done.stderr[-2000:]
    return json.loads(unescape(found[1])), done.stderr


PAGES = ("check", "dry run", "search", "pipeline", "incident", "watched", "far away")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_its_screen_and_its_labels_can_be_read(
    told: tuple[dict[str, Any], str], page: str, width: int
) -> None:
    found = told[0][f"{page} {width}"]
    assert found["wide"] <= width
    assert found["beyond"] == []
    assert found["overlaps"] == []
    assert found["broken"] == []
    assert found["labels"] > 3
    assert found["titles"] > 3
    assert found["named"] is True


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", ["compared", "signatures"])
def test_a_table_shows_whole_words_and_is_not_pushed_to_the_side(
    told: tuple[dict[str, Any], str], page: str, width: int
) -> None:
    found = told[0][f"{page} {width}"]
    assert found["wide"] <= width
    assert found["broken"] == []
    assert found["beside"] == 0


def test_nothing_is_logged_as_an_error(told: tuple[dict[str, Any], str]) -> None:
    assert "CONSOLE" not in told[1]
