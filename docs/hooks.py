"""What MkDocs does not do by itself for this site: the navigation, links out of ``docs``, links on names.

The front page of a folder (its ``README.md``) lists what is in it, for those who read the files; the navigation is read
from these lists, so that there is one list. Pages that no list names, those of rules for example, belong to the front
page above them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
OUTSIDE = "repository/"
"""Where the site keeps files that pages link to and that are not in ``docs``."""
ENTRY = re.compile(r"^- \[[^\]]+\]\(([^)#:]+\.md)\)")
LINK = re.compile(r"(\[[^\]]*\])\(([^)#\s:]+)(#[^)\s]*)?\)")
NAMED = re.compile(r"(<a\b[^>]*>.*?</a>|<h1\b.*?</h1>|<pre\b.*?</pre>)|<code>([\w.-]+)</code>", re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Read the navigation from the front pages."""
    config.nav = ["index.md", *_listed("index.md")]
    return config


def _listed(front: str) -> list[Any]:
    """Return what the lists of a front page name; below a heading, as a section of that name, but for the first page."""
    found: list[Any] = []
    here = found
    for line in (DOCS / front).read_text("utf-8").splitlines():
        if line.startswith("## ") and front != "index.md":
            here = []
            found.append({line[3:]: here})
        elif entry := ENTRY.match(line):
            name = posixpath.normpath(posixpath.join(posixpath.dirname(front), entry[1]))
            if name.startswith(".."):
                continue
            here.append({_title(name): [name, *_listed(name)]} if name.endswith("/README.md") else name)
    return [one for one in found if not isinstance(one, dict) or all(one.values())]


def _title(name: str) -> str:
    return (DOCS / name).read_text("utf-8").partition("\n")[0].removeprefix("# ")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside of ``docs`` that pages link to, and what these link to."""
    waiting = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    seen = set(waiting)
    while waiting:
        for path in _outside(waiting.pop()):
            if path not in seen:
                seen.add(path)
                files.append(File.generated(config, OUTSIDE + path, abs_src_path=str(ROOT / path)))
                if path.endswith(".md"):
                    waiting.append(path)
    return files


def _outside(page: str) -> Iterator[str]:
    """Yield the files outside of ``docs`` that a page of the repository links to."""
    for _, target, _ in LINK.findall((ROOT / page).read_text("utf-8")):
        path = _target(page, target)
        if path is not None and not path.startswith("docs/"):
            yield path


def _target(page: str, link: str) -> str | None:
    """Return the file of the repository that a link of a page leads to; a folder's front page stands for it."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    if path.startswith(".."):
        return None
    if (ROOT / path).is_dir():
        path = f"{path}/README.md"
    return path if (ROOT / path).is_file() else None


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links out of ``docs``, or out of a file outside, to where the site has what they lead to."""
    uri = page.file.src_uri
    where = uri.removeprefix(OUTSIDE) if uri.startswith(OUTSIDE) else f"docs/{uri}"
    if not uri.startswith("reference/"):
        page.meta["search"] = {"boost": 2}
    if uri == "index.md":
        page.meta["hide"] = ["navigation", "toc"]

    def led(link: re.Match[str]) -> str:
        path = _target(where, link[2])
        if path is None:
            # A folder without a front page is named, not linked.
            folder = posixpath.normpath(posixpath.join(posixpath.dirname(where), link[2]))
            return link[1][1:-1] if (ROOT / folder).is_dir() else link[0]
        if where.startswith("docs/") and path.startswith("docs/"):
            return link[0]
        kept = path.removeprefix("docs/") if path.startswith("docs/") else OUTSIDE + path
        return f"{link[1]}({posixpath.relpath(kept, posixpath.dirname(uri) or '.')}{link[3] or ''})"

    return LINK.sub(led, markdown)


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Put every page that no list names below the front page of its folder."""
    listed = {id(page) for page in nav.pages}
    for file in files.documentation_pages():
        if file.page is not None and id(file.page) not in listed:
            folder = posixpath.dirname(file.src_uri)
            while folder and (front := files.get_file_from_path(f"{folder}/README.md")) is None:
                folder = posixpath.dirname(folder)
            if folder and front is not None and front.page is not None:
                file.page.parent = front.page.parent
    _names.clear()
    _names.update(_pages_by_name(files))
    return nav


_names: dict[str, File] = {}


def _pages_by_name(files: Files) -> Iterator[tuple[str, File]]:
    """Yield the words that have a page in the reference: names, and the codes of rules."""
    for file in files.documentation_pages():
        kind, _, name = file.src_uri.removeprefix("reference/").removesuffix(".md").partition("/")
        if file.src_uri.startswith("reference/") and name and not name.endswith("README"):
            yield name.replace("/", "."), file
            if kind == "rules":
                with open(DOCS / file.src_uri, encoding="utf-8") as text:
                    yield text.readline().split()[1], file


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Link a name that stands as code in a sentence to its page."""

    def linked(found: re.Match[str]) -> str:
        file = _names.get(found[2]) if found[2] else None
        if file is None or file is page.file:
            return found[0]
        return f'<a href="{get_relative_url(file.url, page.url)}"><code>{found[2]}</code></a>'

    return NAMED.sub(linked, html)
