"""Reads one file: one pass for the lines that may matter, and on those alone what they mean, who wrote them, and when."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec

from preflight.source.logs import endings as ends_of
from preflight.source.logs.beheaded import beheaded, beheaded_table
from preflight.source.logs.blocks import Block
from preflight.source.logs.cut_off import cut_off
from preflight.source.logs.known_heads import KnownHeads
from preflight.source.logs.pages import Line, Page
from preflight.source.logs.prefixes import LineStyle
from preflight.source.logs.reduced import Reduced
from preflight.source.logs.repeats import Repeats
from preflight.source.logs.residue import Residue
from preflight.source.logs.rows import Repeated
from preflight.source.logs.rules import ENDING, STEP, TRACEBACK, TROUBLE, WORLD, Rules
from preflight.source.logs.shapes import Shape, Shapes, key_of
from preflight.source.logs.signing import TRUSTED, Signing
from preflight.source.logs.speakers import Speakers
from preflight.source.logs.stepping import Stepping
from preflight.source.logs.times import Stamp
from preflight.source.logs.tracebacks import HEADER, MOST_LINES, named_in, parse
from preflight.source.logs.unfolded import OF_A_MESSAGE, unfolded
from preflight.source.logs.witness import Witness
from preflight.vocabulary.log import Ending, Hit, LogFile, Raised, Who

_MOST_TRACEBACKS = 2000
_MOST_WALKED = 4_000_000
"""Lines gone through for all tracebacks of a file: a thousand ranks that print theirs at once make a million."""
_TABLE_LINES = 400
_ORIGINAL = "Original "

_WORLD = re.compile(
    r"(?:(?:world[_ -]?size|\bWORLD_SIZE|num_processes|[Tt]otal GPUs|n_gpus)['\"]?(?:\s+is)?\s*[:=]?\s*['\"]?"
    r"|\bMEMBER: \d{1,7}/|\b\d{1,7}/(?=\d{1,7} clients joined)|(?i:\brank)[ :=]{1,2}0(?:/| of ))(\d{1,7})\b"
)
_NCCL = re.compile(r"\brank (\d{1,7}) n[rR]anks (\d{1,7})\b")
_IGNORED = (b"Exception ignored ", b"--- Logging error ---", b"Error in atexit._run_exitfuncs")
"""What Python prints above a traceback that nobody can catch, as of what is deleted or called as the program has ended, and behind
which it goes on: ``in: ...`` and, since 3.14, ``while calling deallocator ...``."""
_NEAR = 1000


class Reducer:
    """Reads the blocks of one file."""

    def __init__(
        self, rules: Rules, file: LogFile, style: LineStyle, most_steps: int, *, labelled: bool = True
    ) -> None:
        """Begin with a file.

        Args:
            rules: What to look for.
            file: What is known of it by its name.
            style: What labels its lines bear.
            most_steps: So many steps are kept.
            labelled: Its first lines say who wrote them.
        """
        self._rules = rules
        self._file = file
        self._style = style
        self._labelled = labelled
        self._known = KnownHeads(style)
        self._witness = Witness(file)
        self.clock = self._witness.clock
        self.result = Reduced(file=file)
        self._signing = Signing(rules.matcher, self._witness)
        self._shapes = Shapes(rules.words, style, self._witness, rules.shapes.setdefault(style, {}))
        self._repeats = Repeats()
        self._walked = self._untold = 0
        self._steps = Stepping(self._shapes, rules.repeated.setdefault(style, Repeated()), self._signing, most_steps)
        self.keep_steps = self._steps.keep
        self._residue = Residue()
        self._lines = 0
        self._stamp: Stamp | None = None
        self._speakers = Speakers(file, style)

    @property
    def thinned(self) -> bool:
        """Whether steps were left out, as there were more than are kept."""
        return self._steps.thinned

    def read(self, block: Block) -> int:
        """Take what matters out of the next block; return the number of the line that comes after it."""
        page = Page(block, self._style, self._stamp, self._labelled, self._known)
        self._speakers.see(block)
        self._steps.begin(page)
        if not page.offset and (cut := beheaded(page)) is not None:
            self._take_raised(page, *cut, first=True)
        if not page.offset and (entry := beheaded_table(page)) is not None:
            self._ended(page, entry, ends_of.table([entry.text, *ends_of.before_root(page.below(entry, _TABLE_LINES))]))
        kinds, asked, known = self._rules.kinds, self._rules.asked, self._shapes.known
        everywhere = self._shapes.everywhere
        header = self._rules.header if self._tries() else -1
        start = end = -1
        kind = 0
        key: bytes | None = None
        numbers: set[int] = set()
        first = [] if page.offset else [
            (number, 0, len(word)) for number, word in self._rules.first if block.data[: len(word)] == word
        ]  # fmt: skip
        for literal, _, stop in chain(first, self._steps.literals(self._rules.finder.find)):
            if stop > end:
                if start >= 0:
                    self._line(page, start, end, kind, numbers, key)
                start, end = page.bounds(stop - 1)
                if literal == header:
                    start, end = page.last_of_run(start, end)
                if start >= block.own:
                    start = -1
                    break
                if self._steps.has(start):
                    start = -1
                    continue
                key = key_of(block.data, start, end)
                shape = (known.get(key) or everywhere.get(key)) if key else None
                if shape is not None and key is not None:
                    self._again(page, start, end, shape, key)
                    start = -1
                    continue
                kind = 0
                if numbers:
                    numbers = set()
            elif start < 0:
                continue
            kind |= kinds[literal]
            signed = asked[literal]
            if signed:
                numbers.update(signed)
        if start >= 0:
            self._line(page, start, end, kind, numbers, key)
        self._steps.end()
        self._signing.settle(page)
        self._stamp = page.stamp_before(block.own) or self._stamp
        if block.last:
            self._steps.keep_last()
            if self._residue.passed and self._stamp is not None:
                self.clock.at(self._stamp)
            if (line := cut_off(page)) is not None:
                hit = self._witness.hit(page, line)
                self.result.raised.append(Raised(exception="", message="", frames=(), hit=hit))
        following = page.number(block.own)
        self._lines = following - (1 if block.data.endswith(b"\n", 0, block.own) else 0)
        return following

    def _again(self, page: Page, start: int, end: int, shape: Shape, key: bytes) -> None:
        """Take a line of a shape that was taken apart before."""
        self._steps.before(start)
        if shape.taken:
            who = self._shapes.who(page, start, shape)
            self._signing.again(page, shape.taken, who, start, end)
        if shape.trouble is not None:
            shape.trouble.add(self._shapes.who(page, start, shape).rank, page.number(start))
        if shape.kind & STEP:
            self._steps.again(start, end, shape, key)

    def _line(self, page: Page, start: int, end: int, kind: int, numbers: set[int], key: bytes | None) -> None:
        self._steps.before(start)
        if kind == STEP and not numbers:
            if self._steps.wants(start, end):
                line = page.line(start, end)
                self._steps.add(line)
                self._shapes.learn(page, key, line, kind)
            return
        if kind == TRACEBACK and not numbers:
            if not self._tries():
                self._untold += 1
                return
            if page.repeated(start, end):
                return  # another one begins at once, and nothing of this one is told
            if self._repeats.often(page, start, end, self._file.who):
                return
        if kind == TROUBLE and not numbers and self._residue.counted(page, start, end, self._file.who):
            return
        asked = [number for number in numbers if not self._signing.counted_only(page, number, start, end)]
        if numbers and not asked and kind in (0, TROUBLE):
            return
        form = self._signing.form(page, start, end) if asked else None
        counted = numbers.difference(asked)
        if form is not None and form.count >= TRUSTED:
            asked = [number for number in asked if number not in form.refused]
            if not asked and kind in (0, TROUBLE) and (len(numbers) > len(form.refused) or kind == 0):
                return
        line = page.line(start, end)
        taken = (*counted, *self._signing.take(page, line, asked, form))
        alone = len(asked) == len(numbers) == len(taken)  # of one that refused it, too, its file keeps that it did
        if kind & STEP and self._steps.wants(start, end):
            self._steps.add(line)
        if kind & TRACEBACK:
            self._traceback(page, line)
        took = bool(taken)
        if kind & ENDING:
            took = self._ending(page, line) or took
        if kind & WORLD:
            self._world(line)
        trouble = None
        if kind & TROUBLE and not took and not kind & TRACEBACK:
            trouble = self._residue.take(page, line, lambda: self._witness.hit(page, line))
        if not kind & ~(STEP | TROUBLE) and not self._rules.weighing.intersection(numbers):
            self._shapes.learn(page, key, line, kind, taken, trouble, alone=alone)

    # The other things that a line can be

    def _tries(self) -> bool:
        return len(self.result.raised) < _MOST_TRACEBACKS and self._walked <= _MOST_WALKED

    def _traceback(self, page: Page, line: Line) -> None:
        if not self._tries():
            self._untold += 1
            return
        column = line.text.find("Traceback (most recent call last)")
        if column > line.head.end + 60 or column < 0:
            column = line.head.end
        elif line.text[:column].endswith(
            _ORIGINAL
        ):  # of a worker, as torch hands it on: what stands before is the label
            column -= len(_ORIGINAL)
        elif name := named_in(
            line.text
        ):  # a notebook's begins with its exception, which its last line begins with as well
            named = line.text.rfind(name, line.head.end, column)
            column = named if named >= 0 else column
        folded = unfolded(line.text)
        if folded and OF_A_MESSAGE.search(line.text, 0, line.text.find(HEADER)):
            return
        for lines in folded:
            self._take_raised(page, line, column, folded=lines)
        if not folded:
            self._take_raised(page, line, column)

    def _take_raised(
        self, page: Page, line: Line, column: int, *, first: bool = False, folded: Sequence[str] = ()
    ) -> None:
        """Take the exception of a traceback.

        Args:
            page: Where it stands.
            line: Its header.
            column: Where the header's text begins.
            first: The line is its first frame, and no header stands before it.
            folded: Its lines, where they all stand in this one.
        """
        lines: Iterable[tuple[tuple[int, int], str]] = (
            [((line.start, line.end), text) for text in folded]
            if folded
            else page.below_numbered(line, MOST_LINES, column)
        )
        if first:
            lines = chain([((line.start, line.end), line.text[column:])], lines)
        seen: list[tuple[int, int]] = []
        parsed = parse(seen.append(where) or text for where, text in lines)  # type: ignore[func-returns-value]
        self._walked += page.walked
        page.walked = 0
        if not parsed.exception and (name := named_in(line.text)):  # a notebook's, cut off before it says it again
            parsed = parsed._replace(exception=name)
        if not parsed.exception and not parsed.frames:  # another one begins at once, of another process
            return
        start, end = seen[parsed.last] if 0 <= parsed.last < len(seen) else (line.start, line.end)
        last = page.line(start, end)
        hit = self._witness.hit(page, last)
        if hit.who == self._file.who:
            hit = msgspec.structs.replace(hit, who=self._witness.who(line))
        self.result.raised.append(
            Raised(
                exception=parsed.exception,
                message=parsed.message,
                frames=parsed.frames,
                hit=hit,
                chained=parsed.chained,
                begins=page.number(line.start),
                ignored=self._is_ignored(page, line, hit),
            )
        )

    def _is_ignored(self, page: Page, line: Line, hit: Hit) -> bool:
        """Return whether the same writer says above a traceback, or above the one that it is chained to, that it is ignored.

        Python's logging goes on where a line cannot be written, and prints why.
        """
        before = self.result.raised[-1] if self.result.raised else None
        if before is not None and before.chained and before.ignored and before.hit.who == hit.who:
            return True
        first = max(0, line.start - _NEAR)
        above = page.data[first : line.start].rstrip()
        start = above.rfind(b"\n") + 1
        if not any(said in above[start:] for said in _IGNORED):
            return False
        return page.line(first + start, first + len(above)).head.who == line.head.who

    def _ending(self, page: Page, line: Line) -> bool:
        text = line.text[line.head.end :]
        if "(first observed failure)" in text:
            found = [
                # Its times are whole seconds: what was seen first stands before the others of its second.
                end._replace(time=end.time - 0.5) if end.time is not None else end
                for end in ends_of.table([text, *page.below(line, _TABLE_LINES)])
            ]
        elif text.strip() in ("Failures:", "Other Failures:"):
            found = ends_of.table([text, *ends_of.before_root(page.below(line, _TABLE_LINES))])
        else:
            one = ends_of.ends(text)
            if one is None and ("Process name:" in text or "Exit code:" in text):
                one = ends_of.of_two_lines(text, page.below(line, 1))
            if one is None and " RUNNING AT " in text:
                one = ends_of.of_hydra(text, page.below(line, 1))
            if one is None and "died unexpectedly" in text:
                one = ends_of.of_actor(text, page.below(line, ends_of.ACTOR_LINES))
            found = [one] if one else []
        self._ended(page, line, found)
        return bool(found)

    def _ended(self, page: Page, line: Line, found: Iterable[ends_of.End]) -> None:
        for end in found:
            time, error = (end.time, 1.0) if end.time is not None else self._witness.time(page, line)
            for about in end.about:
                self._end(line, end, about, time, error)

    def _end(self, line: Line, end: ends_of.End, about: Who, time: float | None, error: float) -> None:
        teller = self._witness.who(line)
        node = about.node or (teller.node if end.teller != "slurm" else None)
        attempt = about.attempt if about.attempt is not None else self._file.who.attempt
        if end.teller == "shell" and about == Who():
            about = teller
        elif end.teller == "lightning" and line.head.who.rank is not None:
            # What it puts before the line is the place of the child on its node, and not its own.
            about = msgspec.structs.replace(about, local_rank=line.head.who.rank)
        self.result.endings.append(
            Ending(
                about=msgspec.structs.replace(about, node=node, attempt=attempt),
                code=end.code,
                teller=end.teller,
                time=time,
                time_error=max(error, 1.0 if end.teller == "torchrun" else 0.0),
                message=end.message,
                file=self._file.index,
                line=line.number,
            )
        )

    def _world(self, line: Line) -> None:
        nccl = _NCCL.search(line.text)
        if nccl:
            size = int(nccl[2])
            if line.head.who.pid is not None:
                self._witness.process(msgspec.structs.replace(self._witness.who(line), rank=int(nccl[1])), size)
        else:
            match = _WORLD.search(line.text)
            if not match:
                return
            size = int(match[1])
        if size:
            self.result.world_sizes[size] = self.result.world_sizes.get(size, 0) + 1

    def done(self) -> Reduced:
        """Return what the file gave up to now; more may be read after that."""
        self._signing.settle(None)
        result = msgspec.structs.replace(self.result, notes=[])
        result.hits = self._signing.hits()
        result.processes = list(self._witness.processes.values())
        result.steps = self._steps.kept()
        result.unknown = self._residue.templates(self._lines)
        result.spoke = self._speakers.done(self.clock)
        result.undated = self.clock.undated
        if self._repeats.count:
            result.notes.append(f"{self._file.path}: {self._repeats.count} tracebacks more that repeat others of it")
        if self._untold:
            result.notes.append(f"{self._file.path}: {self._untold} tracebacks more than are read of one file")
        result.year_guessed = self.clock.year_guessed
        _name_raised(result)
        return result


def _name_raised(result: Reduced) -> None:
    """Give each traceback the signature that took its last line."""
    by_line: dict[int, str] = {}
    for hit in result.hits:
        by_line.setdefault(hit.line, hit.signature)
    result.raised = [
        msgspec.structs.replace(one, hit=msgspec.structs.replace(one.hit, signature=by_line[one.hit.line]))
        if one.hit.line in by_line
        else one
        for one in result.raised
    ]
