"""The documentation as a site: it builds without a warning, loads nothing from elsewhere, finds, and fits a telephone."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LOADED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=\"?(https?:)?//")
LOADED_BY_STYLE = re.compile(r"(?:@import|url\()\s*[\"']?(?:https?:)?//")
SHOWN = (
    "index.html",
    "guides/dry-run.html",
    "tutorials/monitor-in-five-minutes.html",
    "gallery/index.html",
    "reference/gpus/index.html",
    "reference/report.html",
)
WIDTHS = (400, 1280)
PROBE = """<!doctype html><meta charset=utf-8><body><pre id=out></pre><script>
var cases = %s, told = {}, left = cases.length
cases.forEach(function (one) {
  var frame = document.createElement("iframe")
  frame.style.cssText = "border:0;height:900px;width:" + one.width + "px"
  frame.srcdoc = one.page
  frame.onload = function () {
    var page = frame.contentDocument
    var cut = [...page.querySelectorAll("pre > code")].filter(function (code) {
      return code.scrollWidth > code.clientWidth && code.textContent.split("\\n").every(line => line.length <= 100)
    })
    told[one.name] = [
      page.documentElement.scrollWidth, getComputedStyle(page.querySelector(".md-header")).position, cut.length
    ]
    if (!--left) document.getElementById("out").textContent = "<<" + JSON.stringify(told) + ">>"
  }
  document.body.appendChild(frame)
})
</script>"""


@pytest.mark.browser
@pytest.mark.slow
def test_the_site_is_built_whole_and_works_without_a_network(tmp_path: Path, rendered: Callable[[Path], str]) -> None:
    # One test, since what takes its time is the build.
    pytest.importorskip("material", reason="the site is built with the extra `docs`")
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr

    pages = {path.relative_to(DOCS).with_suffix(".html").as_posix() for path in DOCS.rglob("*.md")}
    missing = [page for page in pages if not (site / page.replace("README.html", "index.html")).is_file()]
    assert not missing
    assert not list(site.rglob("*.py"))

    for path in (*site.rglob("*.html"), *site.rglob("*.css")):
        text = path.read_text("utf-8")
        found = (LOADED if path.suffix == ".html" else LOADED_BY_STYLE).search(text)
        assert found is None, f"{path.name} loads {found}"

    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))["docs"]
    found_in = {entry["location"].partition("#")[0] for entry in index}
    assert {page.replace("README.html", "index.html") for page in pages} <= found_in

    front = (site / "guides" / "index.html").read_text("utf-8")
    assert 'href="plan.html"' in front
    # A name in a sentence leads to its page.
    tutorial = (site / "tutorials" / "first-check.html").read_text("utf-8")
    assert '<a href="../reference/rules/step-exceeds-device.html"><code>MEM002</code></a>' in tutorial

    _fits(site, rendered)


def _fits(site: Path, rendered: Callable[[Path], str]) -> None:
    """Hold that no page is wider than the screen, with its styles loaded."""
    cases = []
    for name in SHOWN:
        text = (site / name).read_text("utf-8")
        # What the styles do is looked at; the scripts of a page expect an address of its own.
        text = re.sub(r"(?s)<script\b.*?</script>", "", text).replace("<head>", f'<head><base href="{name}">', 1)
        cases += [{"name": f"{name} at {width}", "width": width, "page": text} for width in WIDTHS]
    probe = site / "probe.html"
    probe.write_text(PROBE % json.dumps(cases).replace("</", "<\\/"), "utf-8")
    said = re.search(r"(?s)&lt;&lt;(.*?)&gt;&gt;</pre>", rendered(probe))
    assert said is not None
    told = json.loads(html.unescape(said[1]))
    assert len(told) == len(SHOWN) * len(WIDTHS)
    for case in cases:
        width, position, cut = told[str(case["name"])]
        assert width <= int(str(case["width"])), case["name"]
        assert position == "sticky", f"{case['name']} has no styles"
        assert case["width"] == min(WIDTHS) or not cut, f"{case['name']}: lines of 100 columns are cut off"
