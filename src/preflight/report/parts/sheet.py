"""A written page in the look of the reports: what a name means, a list, a table. From Markdown of our own making."""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.report.parts.page_words import headed

_LIST = re.compile(r"(?:(-)|(\d+)\.) (.*)")
_RULE = re.compile(r"\|(?:\s*:?-+:?\s*\|)+")
_NUMBER = re.compile(r"[-+~]?[\d.,]+(?: ?(?:%|[A-Za-z/]{1,8}))?|-|")
_SENTENCE = 24
"""Letters that the cells of a column have on average where it is one of sentences."""
_BRANCHES = "│├└─> "
DRAWN = "tree"
"""What a fence of a drawn tree is called."""
_CELLS = re.compile(r"(?<!\\)\|")


def sheet(markdown: str) -> str:
    """Return the page; its title is the first heading. All text is escaped, and no script runs.

    Known are headings, paragraphs, lists, tables, fences, `code` and **strong** words: what our pages use.
    """
    from html import escape

    from preflight.report.html import style

    blocks = list(_blocks(markdown.split("\n")))
    title = next(
        (line.lstrip("# ").replace("`", "") for line in markdown.split("\n") if line.startswith("#")), "preflight"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{escape(title)}</title>\n<style>{style()}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(blocks)
        + "\n</main>\n</body>\n</html>\n"
    )


def _blocks(lines: list[str]) -> Iterator[str]:
    """Cut lines into blocks: what stands before the second heading is the header of the page."""
    from html import escape

    at, opened = 0, ""
    while at < len(lines):
        line = lines[at]
        if line.startswith("#"):
            level = min(len(line) - len(line.lstrip("#")), 4)
            if level <= 2:
                yield opened + ('<header class="top">' if not opened and level == 1 else "<section>")
                opened = "</header>" if not opened and level == 1 else "</section>"
            yield f"<h{level}>{_inline(line.lstrip('# '))}</h{level}>"
            at += 1
        elif line.startswith("```"):
            end = next((n for n in range(at + 1, len(lines)) if lines[n].startswith("```")), len(lines))
            drawn = line.removeprefix("```").strip() == DRAWN
            yield (
                _drawing(lines[at + 1 : end])
                if drawn
                else f'<pre tabindex="0">{escape(chr(10).join(lines[at + 1 : end]))}</pre>'
            )
            at = end + 1
        elif line.startswith("|"):
            end = next((n for n in range(at, len(lines)) if not lines[n].startswith("|")), len(lines))
            yield _table(lines[at:end])
            at = end
        elif _LIST.match(line):
            end = next(
                (n for n in range(at + 1, len(lines)) if not (_LIST.match(lines[n]) or lines[n].startswith("  "))),
                len(lines),
            )
            yield _list(lines[at:end])
            at = end
        elif line.strip():
            end = next(
                (n for n in range(at, len(lines)) if not lines[n].strip() or lines[n][0] in "#|`" and n > at),
                len(lines),
            )
            yield f"<p>{_inline(' '.join(lines[at:end]))}</p>"
            at = end
        else:
            at += 1
    yield opened


def _drawing(lines: list[str]) -> str:
    """Lines of a drawn tree, which break on a telephone below their own words."""
    from html import escape

    told = "\n".join(
        f'<span style="--in:{len(line) - len(line.lstrip(_BRANCHES))}ch">{escape(line)}</span>' for line in lines
    )
    return f'<pre class="drawn" tabindex="0">{told}</pre>'


def _list(lines: list[str]) -> str:
    kind = "ul" if lines[0].startswith("-") else "ol"
    items: list[str] = []
    for line in lines:
        found = _LIST.match(line)
        if found is not None:
            items.append(_inline(found[3]))
        else:
            items[-1] += f"<br>{_inline(line.strip())}"
    return f"<{kind}>{''.join(f'<li>{item}</li>' for item in items)}</{kind}>"


def _table(lines: list[str]) -> str:
    """Return a table; a column of numbers is set to the right, and on a telephone each cell says what it is."""
    from html import escape

    rows = [
        [cell.strip().replace("\\|", "|") for cell in _CELLS.split(line.strip()[1:-1])]
        for line in lines
        if not _RULE.fullmatch(line.strip())
    ]
    titles, body = rows[0], rows[1:]
    columns = [[row[at] for row in body if at < len(row)] for at in range(len(titles))]
    kinds = [_kind(column) for column in columns]
    head = "".join(
        f'<th scope="col"{_side(of)}>{_inline(headed(title))}</th>' for title, of in zip(titles, kinds, strict=True)
    )
    told = []
    for row in body:
        first = f'<th scope="row">{_inline(row[0])}</th>'
        cells = [
            f'<td{_side(of)} data-title="{escape(title) if cell else ""}">{_inline(cell)}</td>'
            for cell, title, of in list(zip(row, titles, kinds, strict=False))[1:]
        ]
        told.append(f"<tr>{first}{''.join(cells)}</tr>")
    named = f"<thead><tr>{head}</tr></thead>" if any(titles) else ""
    return f'<div class="scroll"><table class="stack figures list">{named}<tbody>{chr(10).join(told)}</tbody></table></div>'


def _kind(column: list[str]) -> str:
    """Return what a column holds, as its class: ``n`` for numbers, ``sentence`` where it needs room, else nothing."""
    if all(_NUMBER.fullmatch(cell) for cell in column):
        return "n"
    return "sentence" if sum(map(len, column)) > _SENTENCE * len(column) else ""


def _side(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _inline(text: str) -> str:
    """Text with `code` and **strong** words; a mark without its other half is left as it is."""
    from html import escape

    parts = escape(text).split("`")
    if len(parts) % 2 == 0:
        return _strong(escape(text))
    return "".join(f"<code>{part}</code>" if index % 2 else _strong(part) for index, part in enumerate(parts))


def _strong(text: str) -> str:
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
