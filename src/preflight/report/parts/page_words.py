"""Words as a page writes them: headings of columns, names that may break, code in a sentence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup

_BREAKS = re.compile(r"(?<=[/_])(?=[^/_\s])")


def headed(title: str) -> str:
    """Return the heading of a column with a capital, but for units and symbols, which stay what they are: kWh, bf16, q."""
    first = title.partition(" ")[0]
    if len(first) < 2 or any(letter.isdigit() or letter.isupper() for letter in first):
        return title
    return title[0].upper() + title[1:]


def breakable(name: str) -> Markup:
    """Return a name, escaped, that breaks behind its slashes and underscores where a line is too short for it."""
    from markupsafe import Markup, escape

    return Markup("<wbr>").join(escape(part) for part in _BREAKS.split(name))


def coded(sentence: str) -> Markup:
    """Return a sentence, escaped, with `code` set as code; a mark without its other half is left as it is."""
    from markupsafe import Markup, escape

    parts = sentence.split("`")
    if len(parts) % 2 == 0:
        return escape(sentence)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part) for index, part in enumerate(parts)
    )
