"""Names without the numbers in them, by which the layers of a model are taken together, however many there are."""

from __future__ import annotations

import re
from functools import lru_cache

_NUMBER = re.compile(r"\d+")


@lru_cache(maxsize=65536)
def pattern_of(name: str) -> str:
    """A name with each number in it replaced by a star: ``model.layers.*.weight``."""
    return _NUMBER.sub("*", name)
