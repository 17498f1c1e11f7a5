"""The pictures of the gallery: those of the page that a piece's own command writes, each as a file of its own.

A piece names a picture as ``![What it shows](pictures/NAME.svg)``. It is taken from the page of the last command before
that line, the one whose description begins with what it shows.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from pathlib import Path

GALLERY = Path(__file__).resolve().parents[1] / "gallery"
ROOT = GALLERY.parents[1]
WIDTH, LEFT, RIGHT, TOP, LINE = 820, 110, 30, 14, 22
"""Pixels: of the picture, beside it for the names of its axis, above it, and of a line of its legend."""
_LETTER = 7.5
_COMMAND = re.compile(r"(?m)^\$ preflight (.+)$")
_PICTURE = re.compile(r"!\[([^\]]+)\]\(pictures/([\w-]+\.svg)\)")
_FIGURE = re.compile(r"<figure>(.*?)</figure>", re.DOTALL)
_LEGEND = re.compile(r'<span class="(?:swatch|dot|rule) ?([\w-]*)"[^>]*></span>([^<]+)</span>')


def pages() -> dict[str, str]:
    """Return the pictures by their paths from the reference."""
    found = {}
    for piece in sorted(GALLERY.glob("*.md")):
        text = piece.read_text("utf-8")
        for picture in _PICTURE.finditer(text):
            *_, command = _COMMAND.findall(text[: picture.start()])
            found[f"../gallery/pictures/{picture[2]}"] = _alone(_page(command), picture[1])
    return found


def _page(command: str) -> str:
    """Return the page that a command writes."""
    from preflight.cli.main import main

    before, run = os.getcwd(), os.environ.get("PREFLIGHT_RUN")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "page.html"
        try:
            os.chdir(ROOT)
            os.environ["PREFLIGHT_RUN"] = folder  # what other commands have told of this folder is no part of it
            main([*shlex.split(command), "-o", str(target), "--quiet"])
        finally:
            os.chdir(before)
            os.environ.pop("PREFLIGHT_RUN")
            if run is not None:
                os.environ["PREFLIGHT_RUN"] = run
        return target.read_text("utf-8")


def _alone(page: str, shows: str) -> str:
    """Return a picture of a page with its legend and the colours of the page, light and dark."""
    figures = [one for one in _FIGURE.findall(page) if f'aria-label="{shows}' in one]
    if not figures:
        raise LookupError(f"no picture of the page begins with {shows!r}")
    head, drawn, _ = re.split(r"(<svg .*</svg>)", figures[0], maxsplit=1, flags=re.DOTALL)
    opening = re.match(r'<svg class="(\w+)" height="(\d+)"[^>]*aria-label="([^"]*)"[^>]*>', drawn)
    assert opening is not None, drawn[:200]
    # Labels of narrow pages: the picture alone has one width.
    drawn = re.sub(r'<text class="[^"]*\bnarrow\b[^"]*"[^>]*>[^<]*</text>', "", drawn)
    legend, lines = _legend(head)
    top = TOP + LINE * lines
    height = top + int(opening[2]) + TOP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" aria-label="{opening[3]}">\n<style>{_style(page, drawn)}</style>\n'
        f'<rect width="100%" height="100%" style="fill:var(--sheet)"/>\n{legend}'
        f'<g class="{opening[1]}"><svg x="{LEFT}" y="{top}" width="{WIDTH - LEFT - RIGHT}" height="{opening[2]}" '
        f'style="overflow:visible">{drawn[opening.end() :]}</g>\n</svg>\n'
    )


def _legend(head: str) -> tuple[str, int]:
    """Return the legend, and how many lines it takes."""
    x, line, parts = float(TOP), 0, []
    for name, words in _LEGEND.findall(head):
        wide = 24 + _LETTER * len(words)
        if x + wide > WIDTH - TOP:
            x, line = float(TOP), line + 1
        y = TOP + LINE * line
        rule = name in ("", "limit")
        mark = (
            f'<line class="{name or "taken"}" x1="{x:.0f}" x2="{x + 12:.0f}" y1="{y + 6}" y2="{y + 6}"/>'
            if rule
            else f'<rect class="{name}" x="{x:.0f}" y="{y}" width="12" height="12"/>'
        )
        parts.append(f'{mark}<text x="{x + 17:.0f}" y="{y + 11}">{words}</text>')
        x += wide + 8
    return f'<g class="plot">{"".join(parts)}</g>\n' if parts else "", line + 1 if parts else 0


def _style(page: str, drawn: str) -> str:
    """Return the colours of the page, and the rules for what is drawn."""
    css = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert css is not None
    colours, rest = css[1].split("* { box-sizing", 1)
    names = {name for found in re.findall(r'class="([^"]+)"', drawn) for name in found.split()} | {"plot", "lanes"}
    rules = []
    for selectors, body in re.findall(r"([^{}]+)\{([^{}]*)\}", "* {" + rest.split("@media (max-width")[0]):
        # What places the picture in a page has no meaning in a picture alone.
        kept = [
            one.strip()
            for one in selectors.split(",")
            if "svg" in one or set(re.findall(r"\.([\w-]+)|class\^=\"([\w-]+)", one)) & {(name, "") for name in names}
        ]
        body = re.sub(r"(width|margin[\w-]*|display|max-width|height):[^;]+;?", "", body).strip()
        if kept and body and not all(one in ("svg", ".plot", ".lanes", "svg.plot") for one in kept):
            rules.append(f"{', '.join(kept)} {{ {body} }}")
    rules += ["text { font: 13px system-ui, sans-serif; fill: var(--ink); }", "svg svg { overflow: visible; }"]
    return f"{colours.strip()}\n" + "\n".join(rules)
