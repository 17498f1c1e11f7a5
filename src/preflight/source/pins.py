"""Which versions of a library a repository asks for, where its requirements say so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from preflight.source.project import Project

_FILES = ("requirements.txt", "pyproject.toml", "setup.cfg", "setup.py", "environment.yml", "environment.yaml")
_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#.*$")


def asked_below(project: Project, library: str, major: int) -> bool:
    """Whether the requirements allow only versions of a library before a major one: ``==4.44``, ``~=4.40``, ``<5``."""
    pattern = re.compile(
        rf"(?<![\w.-]){re.escape(library)}(?:\[[^\]]*\])?\s*((?:[=<>!~]=?=?\s*[\d.*]+[\s,]*)+)", re.IGNORECASE
    )
    for name in _FILES:
        found = project.read_data(name)
        text = _COMMENT.sub("", found[0].decode("utf-8", "replace")) if found is not None else ""
        for asked in pattern.finditer(text):
            bounds = re.findall(r"([=<>!~]+)\s*(\d{1,9})([\d.*]*)", asked.group(1))
            for how, first, rest in bounds:
                below = int(first) < major
                exactly = how == "<" and int(first) == major and not rest.strip(".0")
                if exactly or (below and how in ("=", "==", "===", "~=", "<", "<=")):
                    return True
    return False
