"""Gathers the lines that look like trouble and that nothing explains, as templates in which numbers and names are open."""

from __future__ import annotations

import re
from collections.abc import Callable

from preflight.source.logs.pages import Line, Page
from preflight.vocabulary.log import Hit, Unknown, Who

MOST = 500
"""Templates kept of one file; those seen less often than others that come later go."""
_LEVELS = ("ERROR", "CRITICAL", "FATAL", "SEVERE")
_WARNING = ("WARNING", "WARN")
_TOLD = re.compile(r"\bNCCL (?:INFO|TRACE|VERSION)\b")
"""What NCCL tells for information is no trouble, whatever words are in it."""
_TROUBLE = re.compile(
    r"^(?:[\w.]+(?:Error|Exception)\b|(?i:error|fatal(?: error)?|failed|panic|exception)\b[ :])|"
    r"\b(?:ERROR|FATAL|CRITICAL|Fatal error|FAILED)\b[: \]]|: error: |\bError:|\b[Ff]ailed to \w+"
)
_OPEN = re.compile(
    r"0x[0-9a-fA-F]+|\b[0-9a-f]{12,}\b|(?:/[\w.@+=-]+){2,}/?|\b\d+(?:[.:,]\d+)*(?:e[-+]?\d+)?[a-zA-Z]{0,3}\b|(?<=')[^']{1,200}(?=')"
)
_BLANK = re.compile(r"\s+")
_LONGEST = 300


_DIGITS = b"0123456789"
_MOST_FORMS = 20_000


class Found:
    """One template: how often, by whom, and where first."""

    __slots__ = ("count", "first", "ranks", "warning")

    def __init__(self, first: Hit, warning: bool = False) -> None:
        self.first = first
        self.warning = warning
        self.count = 0
        self.ranks: set[int] = set()

    def add(self, rank: int | None) -> None:
        """Count a line of a rank."""
        self.count += 1
        rank = rank if rank is not None else self.first.who.rank
        if rank is not None:
            self.ranks.add(rank)


class Residue:
    """The lines of one file that look like trouble."""

    def __init__(self) -> None:
        """Begin with none."""
        self._found: dict[str, Found] = {}
        self._forms: dict[bytes, Found | None] = {}

    def counted(self, page: Page, start: int, end: int, file: Who) -> bool:
        """Count a line that differs in its numbers alone from one that was seen before; False where it is a new one."""
        form = page.data[start : min(end, start + _LONGEST)].translate(None, _DIGITS)
        if form not in self._forms:
            return False
        found = self._forms[form]
        if found is not None:
            found.add(page.quick_who(start, end, file).rank)
        return True

    def take(self, page: Page, line: Line, hit: Callable[[], Hit]) -> Found | None:
        """Count a line where it looks like trouble, and return what it is counted with; ``hit`` makes it one where that is new."""
        found = self._of(line, hit)
        if len(self._forms) < _MOST_FORMS:
            form = page.data[line.start : min(line.end, line.start + _LONGEST)].translate(None, _DIGITS)
            self._forms[form] = found
        if found is not None:
            found.add(line.head.who.rank)
        return found

    def _of(self, line: Line, hit: Callable[[], Hit]) -> Found | None:
        text = line.text[line.head.end :]
        trouble = line.head.level in _LEVELS or _TROUBLE.search(text[:_LONGEST]) is not None
        warned = not trouble and line.head.level in _WARNING
        if not (trouble or warned) or _TOLD.search(text[:_LONGEST]):
            return None
        template = template_of(text)
        found = self._found.get(template)
        if found is None and template and len(self._found) < MOST:
            found = self._found[template] = Found(hit(), warned)
        return found

    def templates(self) -> list[Unknown]:
        """Return the templates, the earliest first."""
        return [
            Unknown(
                template=template, count=one.count, ranks=tuple(sorted(one.ranks)), first=one.first, warning=one.warning
            )
            for template, one in self._found.items()
        ]


def mined(found: list[Unknown]) -> list[Unknown]:
    """Join templates that differ in a few words, where drain3 is installed; without it they stay as they are."""
    if len(found) < _FEWEST:
        return found
    try:
        from drain3 import TemplateMiner
        from drain3.template_miner_config import TemplateMinerConfig
    except ImportError:
        return found
    settings = TemplateMinerConfig()
    settings.profiling_enabled = False
    settings.drain_sim_th = _ALIKE
    miner = TemplateMiner(config=settings)
    clusters: dict[int, list[Unknown]] = {}
    for one in found:
        clusters.setdefault(miner.add_log_message(one.template)["cluster_id"], []).append(one)
    names = {cluster.cluster_id: cluster.get_template() for cluster in miner.drain.clusters}
    return [_joined(names[number], these) for number, these in clusters.items()]


_FEWEST = 20
"""So few templates are looked at one by one."""
_ALIKE = 0.7
"""Share of the words that two lines have to have in common, to be of one template."""


def _joined(template: str, these: list[Unknown]) -> Unknown:
    if len(these) == 1:
        return these[0]
    return Unknown(
        template=template,
        count=sum(one.count for one in these),
        ranks=tuple(sorted({rank for one in these for rank in one.ranks})),
        first=min((one.first for one in these), key=lambda hit: (hit.time is None, hit.time or 0.0)),
        warning=all(one.warning for one in these),
    )


def template_of(text: str) -> str:
    """Return a text with its numbers, addresses, paths and quoted names open."""
    return _BLANK.sub(" ", _OPEN.sub("<*>", text[:_LONGEST])).strip()
