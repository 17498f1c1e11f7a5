"""Gathers the lines that look like trouble and that nothing explains, as templates in which numbers and names are open."""

from __future__ import annotations

import re
from collections.abc import Callable

from preflight.source.logs.lettered import lettered
from preflight.source.logs.pages import Line, Page
from preflight.vocabulary.log import Hit, Unknown, Who

MOST = 500
"""Templates kept of one file; those seen less often than others that come later go."""
_LEVELS = ("ERROR", "CRITICAL", "FATAL", "SEVERE")
_WARNING = ("WARNING", "WARN")
_TOLD = re.compile(
    r"\bNCCL (?:INFO|TRACE|VERSION)\b|^\s*(?:warnings\.warn|warn|log(?:ger|ging)?\.warn(?:ing)?(?:_once)?)\("
)
"""What NCCL tells for information is no trouble, whatever words are in it, nor is the line of a program that gives a warning."""
_TROUBLE = re.compile(
    r"^(?:[\w.]+(?:Error|Exception|BadZipFile)\b|KeyboardInterrupt\b|(?i:error|fatal(?: error)?|failed|panic|exception)\b[ :])|"
    r"\b(?:ERROR|FATAL|CRITICAL|Fatal error|FAILED)\b[: \]]|: (?:error|fatal): |\bError:(?!\s*[-+]?\d+\.\d)|\b[Ff]ailed to \w+"
    r"|^F (?:external|tensorflow|xla)/\S+:\d+\]|^(?:tar|unzip|gzip): .*(?:[Ee]rror|Cannot|cannot|not in|[Uu]nexpected)|\bEDAC MC\d+: \d+ UE\b|\bamdgpu\b(?!.*(?:page fault|(?<!un)correct(?:able|ed))).*(?i:\bfail|\berror|timed ?out|timeout|reset)"
    r"|\[E[ \d][^\]]*\bProcessGroup\w*\.[ch]pp:\d+\]|\bNVRM: .*(?i:\bfail|\berror|timed ?out|timeout|reset)|HDF5-DIAG: Error|\bninja: build stopped"
    r"|\b(?:[Pp]ipeline|[Tt]raining|[Ee]xperiment|[Jj]ob|[Rr]un) failed: (?!\d)"
    r"|\bLLVM ERROR\b|\bnvcc error\b|\bFailed building wheel\b|Exception raised from \w+ at \S+\.[ch]pp:\d+|^\s*what\(\):"
    r"|(?<![\w.])(?:[A-Za-z_]\w*\.)*[A-Z]\w*Error: |\bCheck failed: "
    r"|\bNCCL WARN\b.*?(?i:error|fail|timed? ?out|closed|refused|reset|abort|unreachable|no route|lost\b|broken|disconnect|corrupt|mismatch)"
)
_WARNED = re.compile(r"\bNCCL WARN\b")
"""It warns of settings in the same way as of failures: what it says decides."""
_LOW = re.compile(rf"^\[[IW]\] |{lettered('IW')}|^(?:\S+:\d+: )?(?:(?:\w+\.)*[A-Z]\w*)?Warning: ")
"""The levels of information and of warnings by their letter, of TensorFlow's and XLA's own loggers, and a warning as Python prints it."""
_BY_A_LIBRARY = re.compile(r"(?:site|dist)-packages[/\\]\S+\.py:\d+: (?:\w+\.)*[A-Z]\w*: ")
"""A warning of a library as Python prints it, with its file: its class may be called an error."""
_OPEN = re.compile(
    r"0x[0-9a-fA-F]+|\b[0-9a-f]{12,}\b|\b(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{8,}\b|\b(?=[A-F]*[0-9])(?=[0-9]*[A-F])[0-9A-F]{8,}\b|(?:/[\w.@+=-]+){2,}/?|\b\d+(?:[.:,]\d+)*(?:e[-+]?\d+)?[a-zA-Z]{0,3}\b|(?<=')[^']{1,200}(?=')"
)
_BLANK = re.compile(r"\s+")
_LONGEST = 300


_DIGITS = b"0123456789"
_HEXADECIMAL = b"0123456789abcdefABCDEFx"
_MOST_FORMS = 20_000
_ENOUGH = 100
"""So many lines in a row that differ in hexadecimal digits alone were of one template: those that follow are, too."""


class Found:
    """One template: how often, by whom, where first, and in which line last."""

    __slots__ = ("count", "first", "last", "ranks", "warning")

    def __init__(self, first: Hit, warning: bool = False) -> None:
        self.first = first
        self.warning = warning
        self.count = 0
        self.ranks: set[int] = set()
        self.last = first.line

    def add(self, rank: int | None, line: int) -> None:
        """Count a line of a rank, by its number."""
        self.count += 1
        self.last = line
        rank = rank if rank is not None else self.first.who.rank
        if rank is not None:
            self.ranks.add(rank)


class Residue:
    """The lines of one file that look like trouble.

    Attributes:
        passed: Lines that were counted by their form alone.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self.passed = 0
        self._found: dict[str, Found] = {}
        self._forms: dict[bytes, Found | None] = {}
        self._rough: dict[bytes, tuple[Found | None, int]] = {}

    def counted(self, page: Page, start: int, end: int, file: Who) -> bool:
        """Count a line that differs in its numbers alone from one that was seen before; False where it is a new one."""
        raw = page.data[start : min(end, start + _LONGEST)]
        form = raw.translate(None, _DIGITS)
        if form in self._forms:
            found = self._forms[form]
        else:
            found, seen = self._rough.get(raw.translate(None, _HEXADECIMAL), (None, 0))
            if seen < _ENOUGH:
                return False
        self.passed += 1
        if found is not None:
            found.add(page.quick_who(start, end, file).rank, page.number(start))
        return True

    def take(self, page: Page, line: Line, hit: Callable[[], Hit]) -> Found | None:
        """Count a line where it looks like trouble, and return what it is counted with; ``hit`` makes it one where that is new."""
        found = self._of(line, hit)
        raw = page.data[line.start : min(line.end, line.start + _LONGEST)]
        if len(self._forms) < _MOST_FORMS:
            self._forms[raw.translate(None, _DIGITS)] = found
        rough = raw.translate(None, _HEXADECIMAL)
        before, seen = self._rough.get(rough, (found, 0))
        if seen or len(self._rough) < _MOST_FORMS:
            self._rough[rough] = (found, seen + 1 if before is found else 1)
        if found is not None:
            found.add(line.head.who.rank, line.number)
        return found

    def _of(self, line: Line, hit: Callable[[], Hit]) -> Found | None:
        text = line.text[line.head.end :]
        trouble = line.head.level in _LEVELS or _TROUBLE.search(text[:_LONGEST]) is not None
        low = (
            trouble
            and line.head.level not in _LEVELS
            and (
                line.head.level in _WARNING
                or _LOW.search(text) is not None
                or _BY_A_LIBRARY.search(line.text[:_LONGEST]) is not None
            )
        )
        trouble = trouble and not low
        warned = low or (not trouble and (line.head.level in _WARNING or _WARNED.search(text[:_LONGEST]) is not None))
        if not (trouble or warned) or _TOLD.search(text[:_LONGEST]):
            return None
        template = template_of(text)
        found = self._found.get(template)
        if found is None and template and len(self._found) < MOST:
            found = self._found[template] = Found(hit(), warned)
        return found

    def templates(self, read: int) -> list[Unknown]:
        """Return the templates, the earliest first; ``read``: so many lines were read of the file."""
        return [
            Unknown(
                template=template,
                count=one.count,
                ranks=tuple(sorted(one.ranks)),
                first=one.first,
                warning=one.warning,
                last=(one.first.file, one.last),
                behind=read - one.last,
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
    latest = min(these, key=lambda one: one.behind)
    return Unknown(
        template=template,
        count=sum(one.count for one in these),
        ranks=tuple(sorted({rank for one in these for rank in one.ranks})),
        first=min((one.first for one in these), key=lambda hit: (hit.time is None, hit.time or 0.0)),
        warning=all(one.warning for one in these),
        last=latest.last,
        behind=latest.behind,
    )


def template_of(text: str) -> str:
    """Return a text with its numbers, addresses, paths and quoted names open."""
    return _BLANK.sub(" ", _OPEN.sub("<*>", text[:_LONGEST])).strip()
