"""Reads one file: one pass for the lines that may matter, and on those alone what they mean, who wrote them, and when."""

from __future__ import annotations

import re
from collections import deque

import msgspec

from preflight.source.logs import endings as ends_of
from preflight.source.logs.blocks import Block
from preflight.source.logs.clock import Clock
from preflight.source.logs.matching import Value
from preflight.source.logs.pages import Line, Page, merged
from preflight.source.logs.prefixes import KnownHeads, LineStyle
from preflight.source.logs.reduced import Process, Reduced
from preflight.source.logs.residue import Residue
from preflight.source.logs.rules import ENDING, STEP, TRACEBACK, TROUBLE, WORLD, Rules
from preflight.source.logs.sampling import Sample
from preflight.source.logs.speakers import Speakers
from preflight.source.logs.steps import step_of
from preflight.source.logs.times import Stamp, stamp_at
from preflight.source.logs.tracebacks import MOST_LINES, parse
from preflight.vocabulary.log import Ending, Hit, LogFile, Raised, StepLine, Who

KEPT = 50
"""Of a signature that one writer prints again and again: so many of the first and of the last lines are kept."""
_TRUSTED = 200
"""A signature that took so many lines and refused none that hold its literal is no more asked of each one."""
_LONGEST_FORM = 300
_MOST_FORMS = 20_000
_MOST_TRACEBACKS = 2000
_MOST_WALKED = 4_000_000
"""Lines gone through for all tracebacks of a file: a thousand ranks that print theirs at once make a million."""
_TABLE_LINES = 400
_CUT = 2000
_GAP = 1.0

_WORLD = re.compile(
    r"(?:world[_ -]?size|\bWORLD_SIZE|num_processes|[Tt]otal GPUs|n_gpus)['\"]?(?:\s+is)?\s*[:=]?\s*['\"]?(\d{1,7})\b"
)
_NCCL = re.compile(r"\brank (\d+) n[rR]anks (\d+)")
_SAID = re.compile(r"\bCANCELLED AT (\d{4}-\d\d-\d\dT[\d:]+)")
"""A scheduler's last word bears its time within it."""
_METRICS_BELOW = re.compile(r"^(?:\[(?:step|epoch|batch)=|\(min, max\) time across ranks \(ms\))")
_BAR_BEFORE = re.compile(rb"\|\s*(\d+)/\d+ \[[^\]\r\n]*\]?")


class _Tally:
    """The lines of one signature and one writer."""

    __slots__ = ("count", "first", "last", "recent")

    def __init__(self) -> None:
        self.count = 0
        self.first: list[Hit] = []
        self.last: deque[Hit] = deque(maxlen=KEPT)
        self.recent: deque[tuple[Page, int, int]] = deque(maxlen=KEPT)


class _Form:
    """Lines that differ in their numbers alone: how many were looked at, and which signatures none of them is of."""

    __slots__ = ("count", "refused")

    def __init__(self) -> None:
        self.count = 0
        self.refused: set[int] = set()


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
        self.clock = Clock(file.modified)
        self.result = Reduced(file=file)
        self._tallies: dict[tuple[int, Who], _Tally] = {}
        self._refused: set[int] = set()
        self._walked = self._untold = 0
        self._forms: dict[bytes, _Form] = {}
        self._taken: dict[int, int] = {}
        self._steps = Sample(most_steps)
        self._residue = Residue()
        self._stamp: Stamp | None = None
        self._processes: set[Who] = set()
        self._speakers = Speakers(file, style)

    def read(self, block: Block) -> int:
        """Take what matters out of the next block; return the number of the line that comes after it."""
        page = Page(block, self._style, self._stamp, self._labelled, self._known)
        self._speakers.see(block)
        self._steps.next_page()
        kinds, asked = self._rules.kinds, self._rules.asked
        start = end = -1
        kind = 0
        numbers: set[int] = set()
        for literal, _, stop in self._rules.finder.find(block.data):
            if stop > end:
                if start >= 0:
                    self._line(page, start, end, kind, numbers)
                start, end = page.bounds(stop - 1)
                if start >= block.own:
                    start = -1
                    break
                kind = 0
                if numbers:
                    numbers = set()
            kind |= kinds[literal]
            signed = asked[literal]
            if signed:
                numbers.update(signed)
        if start >= 0:
            self._line(page, start, end, kind, numbers)
        self._settle(page)
        self._stamp = page.stamp_before(block.own) or self._stamp
        if block.last:
            self._steps_at_the_end(page)
        return page.number(block.own)

    def _line(self, page: Page, start: int, end: int, kind: int, numbers: set[int]) -> None:
        if kind == STEP and not numbers:
            if self._steps.wants(start, end):
                self._step(page, page.line(start, end))
            return
        asked = [number for number in numbers if not self._counted_only(page, number, start, end)]
        if numbers and not asked and kind in (0, TROUBLE):
            return
        if kind == TROUBLE and not numbers and self._residue.counted(page, start, end, self._file.who):
            return
        form = self._form(page, start, end) if asked else None
        if form is not None and form.count >= _TRUSTED:
            asked = [number for number in asked if number not in form.refused]
            if not asked and kind in (0, TROUBLE) and (len(numbers) > len(form.refused) or kind == 0):
                return
        line = page.line(start, end)
        took = len(asked) < len(numbers) - (len(form.refused) if form is not None else 0)
        took = self._signatures(page, line, asked, form) or took
        if kind & STEP and self._steps.wants(start, end):
            self._step(page, line)
        if kind & TRACEBACK:
            self._traceback(page, line)
        if kind & ENDING:
            took = self._ending(page, line) or took
        if kind & WORLD:
            self._world(line)
        if kind & TROUBLE and not took and not kind & TRACEBACK:
            self._residue.take(page, line, lambda: self._hit(page, line, ""))

    # Signatures

    def _counted_only(self, page: Page, number: int, start: int, end: int) -> bool:
        """Count a line of a storm without looking at it: its signature took all the lines before it."""
        if self._taken.get(number, 0) < _TRUSTED or number in self._refused:
            return False
        tally = self._tallies.get((number, _writer(page.quick_who(start, end, self._file.who))))
        if tally is None or tally.count < KEPT:
            return False
        tally.count += 1
        tally.recent.append((page, start, end))
        return True

    def _form(self, page: Page, start: int, end: int) -> _Form | None:
        """Return what is known of lines that differ from this one in their numbers alone."""
        key = page.data[start : min(end, start + _LONGEST_FORM)].translate(None, b"0123456789")
        form = self._forms.get(key)
        if form is None and len(self._forms) < _MOST_FORMS:
            form = self._forms[key] = _Form()
        return form

    def _signatures(self, page: Page, line: Line, numbers: list[int], form: _Form | None) -> bool:
        took = False
        if form is not None:
            form.count += 1
        for number in sorted(numbers):
            fields = self._rules.matcher.take(number, line.text, line.head.end)
            if fields is None:
                self._refused.add(number)
                if form is not None and not self._rules.matcher.weighs_numbers[number]:
                    form.refused.add(number)
                continue
            took = True
            self._taken[number] = self._taken.get(number, 0) + 1
            tally = self._tallies.setdefault((number, _writer(self._who(line))), _Tally())
            tally.count += 1
            if len(tally.first) < KEPT:
                tally.first.append(self._signed(page, line, number, fields))
            else:
                tally.recent.append((page, line.start, line.end))
        return took

    def _settle(self, now: Page | None) -> None:
        """Make the last lines of the storms into hits, while their block is there: where the next one has not as many.

        Lines of ``now``, the block just read, wait for the next one.
        """
        for (number, _), tally in self._tallies.items():
            waiting = []
            for entry in tally.recent:
                page, start, end = entry
                if page is now:
                    waiting.append(entry)
                    continue
                line = page.line(start, end)
                fields = self._rules.matcher.take(number, line.text, line.head.end)
                if fields is not None:
                    tally.last.append(self._signed(page, line, number, fields))
            tally.recent.clear()
            tally.recent.extend(waiting)

    def _signed(self, page: Page, line: Line, number: int, fields: dict[str, Value]) -> Hit:
        signature = self._rules.matcher.signatures[number]
        below: tuple[str, ...] = ()
        if signature.after:
            below = tuple(text[:_CUT] for text in page.below(line, signature.after))
            fields = self._rules.matcher.detail(number, below) | fields
        about = _subject(signature.subject, fields)
        return self._hit(page, line, signature.id, fields, below, about)

    def _hit(
        self,
        page: Page,
        line: Line,
        signature: str,
        fields: dict[str, Value] | None = None,
        below: tuple[str, ...] = (),
        about: Who | None = None,
    ) -> Hit:
        time, error = self._time(page, line)
        who = self._who(line)
        if who.rank is not None and who.pid is not None:
            self._process(who)
        return Hit(
            signature=signature,
            file=self._file.index,
            line=line.number,
            offset=page.offset + line.start,
            text=line.text[:_CUT],
            below=below,
            fields=fields or {},
            who=who,
            about=about,
            time=time,
            time_error=error,
        )

    # Who and when

    def _who(self, line: Line) -> Who:
        return merged(line.head.who, self._file.who)

    def _time(self, page: Page, line: Line) -> tuple[float | None, float]:
        if line.head.stamp is not None:
            return self.clock.at(line.head.stamp), line.head.stamp.exact
        said = _SAID.search(line.text)
        stamp = stamp_at(said[1]) if said else None
        if stamp is not None:
            return self.clock.at(stamp), stamp.exact
        before = page.stamp_before(line.start)
        after = page.stamp_after(line.end)
        earliest = self.clock.at(before) if before else None
        latest = self.clock.at(after) if after else None
        if earliest is None:
            return (None, 0.0) if latest is None else (latest, _GAP)
        if latest is None:
            # The date of the file is no bound: a copy, a checkout or an unpacked archive is younger than its lines.
            return earliest, _GAP
        if latest < earliest:
            earliest, latest = latest, earliest
        return (earliest + latest) / 2, (latest - earliest) / 2

    def _process(self, who: Who) -> None:
        if who not in self._processes:
            self._processes.add(who)
            self.result.processes.append(Process(who))

    # The other things that a line can be

    def _traceback(self, page: Page, line: Line) -> None:
        if len(self.result.raised) >= _MOST_TRACEBACKS or self._walked > _MOST_WALKED:
            self._untold += 1
            return
        column = line.text.find("Traceback (most recent call last)")
        if column > line.head.end + 60 or column < 0:
            column = line.head.end
        lines = page.below_numbered(line, MOST_LINES, column)
        seen: list[tuple[int, int]] = []
        parsed = parse(seen.append(where) or text for where, text in lines)  # type: ignore[func-returns-value]
        self._walked += page.walked
        page.walked = 0
        if not parsed.exception and not parsed.frames:  # another one begins at once, of another process
            return
        start, end = seen[parsed.last] if 0 <= parsed.last < len(seen) else (line.start, line.end)
        last = page.line(start, end)
        hit = self._hit(page, last, "")
        if hit.who == self._file.who:
            hit = msgspec.structs.replace(hit, who=self._who(line))
        self.result.raised.append(
            Raised(
                exception=parsed.exception,
                message=parsed.message,
                frames=parsed.frames,
                hit=hit,
                chained=parsed.chained,
            )
        )

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
            found = [one] if one else []
        for end in found:
            time, error = (end.time, 1.0) if end.time is not None else self._time(page, line)
            for about in end.about:
                self._end(line, end, about, time, error)
        return bool(found)

    def _end(self, line: Line, end: ends_of.End, about: Who, time: float | None, error: float) -> None:
        teller = self._who(line)
        node = about.node or (teller.node if end.teller != "slurm" else None)
        attempt = about.attempt if about.attempt is not None else self._file.who.attempt
        if end.teller == "shell" and about == Who():
            about = teller
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
                self._process(msgspec.structs.replace(self._who(line), rank=int(nccl[1])))
        else:
            match = _WORLD.search(line.text)
            if not match:
                return
            size = int(match[1])
        if size:
            self.result.world_sizes[size] = self.result.world_sizes.get(size, 0) + 1

    # Steps

    def _step(self, page: Page, line: Line) -> None:
        step = self._step_of(page, line)
        if step is not None:
            self._steps.add(step)

    def _step_of(self, page: Page, line: Line) -> StepLine | None:
        text = line.text[line.head.end :]
        if _METRICS_BELOW.match(text):
            parts = [text]
            for below in page.below(line, 80):
                if not below[:1].isspace() or not below.strip():
                    break
                parts.append(below.strip())
            text = " | ".join(parts)
        step = step_of(text[:8000])
        if step is None:
            return None
        number = step.step if step.step is not None else _bar_before(page.data, line.start)
        stamp = line.head.stamp
        return StepLine(
            file=self._file.index,
            line=line.number,
            step=number,
            values=step.values,
            who=self._who(line),
            time=self.clock.at(stamp) if stamp else None,
        )

    def _steps_at_the_end(self, page: Page) -> None:
        for start, end in self._steps.passed_over():
            step = self._step_of(page, page.line(start, end))
            if step is not None:
                self._steps.add_last(step)

    def done(self) -> Reduced:
        """Return what the file gave up to now; more may be read after that."""
        self._settle(None)
        result = msgspec.structs.replace(self.result, hits=[], notes=[])
        for tally in self._tallies.values():
            kept = [*tally.first, *tally.last]
            if tally.count > 1:
                kept = [msgspec.structs.replace(hit, times_seen=tally.count) for hit in kept]
            result.hits += kept
        result.hits.sort(key=lambda hit: (hit.offset, hit.signature))
        result.steps = self._steps.kept()
        result.unknown = self._residue.templates()
        result.spoke = self._speakers.done(self.clock)
        result.undated = self.clock.undated
        if self._untold:
            result.notes.append(f"{self._file.path}: {self._untold} tracebacks more than are read of one file")
        result.year_guessed = self.clock.year_guessed
        _name_raised(result)
        return result


def _writer(who: Who) -> Who:
    """Return by whom lines are counted: a process whose number is not in every line is one writer all the same."""
    return Who(who.rank, who.node, who.local_rank) if who.pid is not None or who.attempt is not None else who


def _subject(field: str | None, fields: dict[str, Value]) -> Who | None:
    value = fields.get(field) if field else None
    if field is None or value is None:
        return None
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    if isinstance(value, int) and not isinstance(value, bool):
        if "local" in field:
            return Who(local_rank=value)
        return Who(pid=value) if "pid" in field else Who(rank=value)
    return Who(node=value) if isinstance(value, str) else None


def _bar_before(data: bytes, start: int) -> int | None:
    """The step that a progress bar right before a line shows, for programs that print metrics without one."""
    found = _BAR_BEFORE.findall(data, max(start - 400, 0), start)
    return int(found[-1]) if found else None


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
