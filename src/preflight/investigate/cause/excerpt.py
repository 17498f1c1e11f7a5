"""Short texts in which nothing was recognized: a few lines that somebody chose, of which any word may be the one that tells.

In a long log a word such as ``failed`` stands in many lines that say nothing of the run, so that lines are looked at there which
look like trouble by their form; of a few lines all are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from preflight.investigate.cause.exceptions import meaning_of
from preflight.investigate.cause.printers import printed_by
from preflight.investigate.cause.words import goes_on, said_of
from preflight.source.logs.lettered import lettered
from preflight.vocabulary.log import Frame, Hit, LogFile, Raised
from preflight.vocabulary.signature import Category, Role

_TROUBLE = re.compile(
    r"(?i)\b(?:err(?:or|no)?s?|fail(?:ed|ure|ures|s|ing)?|abort(?:ed|ing)?|kill(?:ed)?|tim(?:ed?|ing)[- ]?out|refused|denied|invalid"
    r"|corrupt\w*|can(?:no|')t|could(?:n't| not)|unable|missing|missed|not found|no such|crash\w*|lost|fatal|panic|stuck|h[au]ng"
    r"|hanging|died|dead|halt\w*|evict\w*|preempt\w*|interrupt\w*|exceed\w*|exit(?:ed)? code|signal|nan|inf|oom\w*|unreachable|not (?:valid"
    r"|supported|available|responding)|mismatch\w*|warn\w*|exception\w*|traceback|exiting|quitting|giving up)\b"
)
# Of these, what hardly a line bears by chance: the others only keep a text from being taken for one without trouble.
_TELLS = re.compile(
    r"(?i)\b(?:error|treated as errors|fail(?:ed|ure|ures|s)?|abort(?:ed|ing)?|killed|tim(?:ed|ing)[- ]?out|times out|timeout|refused|denied|corrupt(?:ed|ion)?|can ?not|can't"
    r"|could(?:n't| not)|unable|crash(?:ed|es)?|lost|fatal|panic|stuck|h[au]ng|hangs|died|dead|evicted|preempted|requeue(?:d|ing)|more memory than|unreachable|missed)\b"
)
_TOLD = re.compile(
    r"(?i)(?:^|[\s\[|])(?:INFO|DEBUG|NOTICE)\b|Warning\b|^\s*(?:warnings\.)?warn\("
    rf"|(?-i:{lettered('IW')}|(?:^|\s)\[[ID]\]\s)"
)
_LEVEL = re.compile(r"^\W*WARN(?:ING)?\b|(?<=[\s|\[-])WARN(?:ING)?(?=[\s|\]:-])")
"""The level of a logger: that it warns is no word of what it warns of."""
_BY_LETTER = re.compile(lettered("IW"))
"""A line of TensorFlow's or XLA's own logger at the level of information or of a warning."""
_WARNED = re.compile(r"^\S*:\d+: \w*Warning: |^\s*(?:warnings\.)?warn\(")
"""What Python prints of a warning: where it was given and what it says, and below that the line that gave it."""
_SETTINGS = re.compile(
    r"(?i)(?:^|[\s:])\w{0,40}(?:config|args|arguments|settings|namespace)\w{0,40}['\"]?\s{0,3}[:=]?\s{0,3}[{(]\s{0,3}['\"]?\w+['\"]?\s{0,3}[:=]"
)
"""Settings that are printed as a whole: their names hold every word of trouble, and tell of none."""
# NCCL hands an error up from call to call, and prints for information where it was: 1 is CUDA's, 2 the system's, 6 the peer's.
_RETURNED = re.compile(r"\bNCCL INFO \S+\.(?:cc|h|cu):\d+ -> [126]\b")
_FRAME = re.compile(r'^\s*File "([^"]{1,300})", line (\d{1,9})(?:,? in (\S+))?\s*$')
_NONE_OF_THEM = re.compile(
    r"(?i)(?:[,;(|]\s*0|\bno) (?:corrupt(?:ed)?|err(?:or)?s?|fail(?:ed|ures?)|lost|missed|missing|crash(?:ed|es))\b"
)
"""A count of what went wrong that is nought, among others that are not: a 0 behind another word is a rank or a card."""
_NOWHERE = Hit(signature="", file=0, line=0, offset=0, text="")
_FEWEST = 5
"""So many lines at least without a word of trouble are those of a run that goes on."""


def telling(file: LogFile) -> Iterator[tuple[int, str, Category, Role]]:
    """Yield the lines of a short text that speak of trouble: the number, the line, what it is about, what it is for the run."""
    for number, line in _lines_of(file):
        found = _of(line)
        if found is not None:
            yield number, line, *found


def _lines_of(file: LogFile) -> Iterator[tuple[int, str]]:
    """Yield what is told in each line, with its number: a bar that is drawn anew in its line is told by itself."""
    for number, line in enumerate(file.excerpt, 1):
        for piece in line.split("\r"):
            yield number, piece


def _of(line: str) -> tuple[Category, Role] | None:
    if _RETURNED.search(line):
        return "network", "cascade"
    frame = _FRAME.match(line)
    if frame is not None:  # of a stack without a header: nobody prints one of a run that is well
        stack = Raised(exception="", message="", frames=(Frame(frame[1], int(frame[2]), frame[3] or ""),), hit=_NOWHERE)
        return meaning_of(stack).category, "cascade"
    line = _NONE_OF_THEM.sub("", line)
    if not _TELLS.search(line) or goes_on(line) or _TOLD.search(line) or _SETTINGS.search(line):
        return None
    category = said_of(line)
    return printed_by(line) or ((category, "root") if category is not None else None)


def without_a_word(file: LogFile, harmless: Collection[int] = ()) -> bool:
    """Return whether a short text has lines enough, and none of them a word of trouble.

    Args:
        file: The text.
        harmless: The numbers of lines that are known to say nothing of the run.
    """
    lines = [(number, line) for number, line in _lines_of(file) if line.strip() and not _no_word(line)]
    return len(lines) >= _FEWEST and not any(
        number not in harmless and _troubles(line, len(lines) - place) for place, (number, line) in enumerate(lines, 1)
    )


def _no_word(line: str) -> bool:
    return _WARNED.search(line) is not None or _SETTINGS.search(line) is not None


def _troubles(line: str, behind: int) -> bool:
    """Return whether a line has a word of trouble: none where it tells of what a program does without, and so many lines follow."""
    if _BY_LETTER.search(line) or (goes_on(line) and behind >= _FEWEST):
        return False
    return _TROUBLE.search(_LEVEL.sub("", line, count=1)) is not None or _FRAME.match(line) is not None
