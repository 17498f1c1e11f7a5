"""The page in a browser: it runs, filters, and fits a telephone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from preflight.report.render import render
from preflight.vocabulary.report import Report

from . import samples

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="browser: no Chromium is installed"),
]

_FLAGS = (
    "headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
    "disable-component-update", "disable-sync", "window-size=1400,1000", "virtual-time-budget=3000", "dump-dom",
)  # fmt: skip

_PROBE = """<!doctype html><meta charset=utf-8><body style="margin:0"><iframe id=f style="border:0;width:{width}px;height:900px"></iframe>
<pre id=out></pre><script>
var frame = document.getElementById("f");
frame.srcdoc = {page};
frame.onload = function () {{
  var page = frame.contentDocument, seen = {{}};
  function shown() {{
    return Array.from(page.querySelectorAll("[data-severity]")).filter(function (e) {{ return e.offsetParent; }}).length;
  }}
  seen.wide = page.documentElement.scrollWidth;
  seen.title = page.title;
  seen.shown = shown();
  seen.filters = !page.getElementById("filters").hidden;
  var box = page.querySelector("input[data-shows=error]");
  if (box) {{ box.click(); seen.left = shown(); seen.said = page.getElementById("shown").textContent; }}
  seen.images = page.images.length;
  seen.alerted = Boolean(frame.contentWindow.alerted);
  document.getElementById("out").textContent = "<<" + JSON.stringify(seen) + ">>";
}};
</script>"""


def _look(report: Report, width: int, folder: Path) -> Any:
    """Open the page in a frame of a width and return what a script beside it sees.

    The frame inherits no policy from the probe; its own meta element holds for what is inside it.
    """
    page = render(report, "html", sources=samples.SOURCES | samples.HOSTILE_SOURCES, rules=samples.RULES)
    quoted = json.dumps(page.replace("alert(1)", "(window.alerted=1)")).replace("</", "<\\/")
    probe = folder / "probe.html"
    probe.write_text(_PROBE.format(width=width, page=quoted), "utf-8")
    assert CHROMIUM is not None
    flags = [f"--{flag}" for flag in _FLAGS]
    command = [CHROMIUM, *flags, f"--user-data-dir={folder / 'profile'}", probe.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found = re.search(r"&lt;&lt;(.*?)&gt;&gt;</pre>", done.stdout, re.DOTALL)
    assert found is not None, done.stderr[-2000:]
    return json.loads(unescape(found[1]))


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_fits_its_width_and_filters(width: int, tmp_path: Path) -> None:
    seen = _look(samples.NO_GO, width, tmp_path)
    assert seen["wide"] <= width
    assert seen["title"] == "NO-GO: train.py"
    assert seen["filters"] is True
    assert (seen["shown"], seen["left"], seen["said"]) == (4, 2, "2 findings shown")


def test_hostile_text_runs_nothing(tmp_path: Path) -> None:
    seen = _look(samples.HOSTILE, 400, tmp_path)
    assert seen["alerted"] is False
    assert seen["images"] == 0
    assert seen["wide"] <= 400
