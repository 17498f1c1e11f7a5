"""Reads one source to the end: a file, or all members of an archive; a pure function of its path, so that it can run anywhere."""

from __future__ import annotations

import io
from typing import IO, Any

import msgspec

from preflight.source.dumps.opening import format_of, read_dump
from preflight.source.dumps.part import Part
from preflight.source.logs import archives
from preflight.source.logs.begun_again import BegunAgain
from preflight.source.logs.blocks import Opened
from preflight.source.logs.naming import Named
from preflight.source.logs.opening import Source, packing_of
from preflight.source.logs.owners import owner_of, ranks_told
from preflight.source.logs.reduced import Reduced
from preflight.source.logs.reducing import Reducer
from preflight.source.logs.rules import Rules
from preflight.source.logs.speakers import last_said
from preflight.source.logs.styles import is_text, layout_of, speaks_of_itself, style_of
from preflight.vocabulary.log import LogFile, Who

LARGEST_DUMP = 1 << 30
_SAMPLE = 1 << 16
_LONGEST_LINE = 64 << 20
_LARGE_TABLE = 64 << 20
"""A table of so many bytes is read piece by piece."""
_SHORT = 40
_PEEK = 1 << 20
"""So many packed bytes hold the first block of every packing; bzip2's are the largest."""
_SHORTEST_SAMPLE = 1 << 14


class Wanted(msgspec.Struct, frozen=True):
    """A source, or a part of one, and how it is to be read.

    Attributes:
        source: The source.
        named: Whose it is by its name.
        index: Its number in the reading.
        most_steps: So many steps of it are kept.
        begin: The first byte of the part; a line that is cut there is that of the part before.
        end: The byte behind the part; None: to the end.
    """

    source: Source
    named: Named
    index: int
    most_steps: int
    begin: int = 0
    end: int | None = None


def read_one(wanted: Wanted, rules: Rules) -> list[Reduced]:
    """Read a source; more than one file where it is an archive. What cannot be read is there with its problem."""
    source = wanted.source
    if source.problem:
        return [Reduced(file=as_file(wanted, "unreadable", problem=source.problem))]
    try:
        with _stream(source) as stream:
            return _of_stream(wanted, stream, rules)
    except OSError as error:
        return [Reduced(file=as_file(wanted, "unreadable", problem=error.strerror or str(error)))]


def _stream(source: Source) -> IO[bytes]:
    return io.BytesIO(source.content) if source.content is not None else open(source.place, "rb")


def _of_stream(wanted: Wanted, stream: IO[bytes], rules: Rules) -> list[Reduced]:
    source = wanted.source
    packing, _, archive = _packing(stream, source.path)
    stream.seek(0)
    if archive or source.archive:
        return archives.read(wanted, stream, packing, lambda member, inner: _of_member(member, inner, rules))
    return [read_text(wanted, Opened(stream, packing), rules)]


def _of_member(wanted: Wanted, stream: IO[bytes], rules: Rules) -> list[Reduced]:
    packing, head, archive = _packing(stream, wanted.source.path)
    whole: Any = archives.Rest(head, stream)
    if archive:
        return archives.read(wanted, whole, packing, lambda member, inner: _of_member(member, inner, rules))
    return [read_text(wanted, Opened(whole, packing), rules)]


def _packing(stream: IO[bytes], path: str) -> tuple[str, bytes, bool]:
    """Return how a stream is packed, what was read of it to tell that, and whether it holds an archive, packed or not."""
    head = stream.read(512)
    packing = packing_of(head, path)
    if packing in ("", "zip", "tar"):
        return packing, head, packing != ""
    head += stream.read(_PEEK)
    inner = Opened(io.BytesIO(head), packing)
    inner.plain = True
    return packing, head, packing_of(inner.head(512), "") == "tar"


def read_text(wanted: Wanted, opened: Opened, rules: Rules) -> Reduced:
    """Read a stream: a dump of a known format, or a log."""
    head = opened.head(_SAMPLE)
    if wanted.begin or wanted.end is not None:
        return _part(wanted, opened, rules, head)
    if not head:
        return Reduced(file=as_file(wanted, "unreadable" if opened.problem else "empty", problem=opened.problem))
    module = format_of(wanted.source.path, head)
    if module is not None:
        return _dump(wanted, opened, module, rules)
    if not is_text(head) and opened.encoding == "utf-8":
        return _binary(wanted, opened, rules)
    return _log(wanted, opened, rules, head)


def _part(wanted: Wanted, opened: Opened, rules: Rules, head: bytes) -> Reduced:
    """Read a part of a large file, by what its first lines tell of the style of all."""
    with open(wanted.source.place, "rb") as stream:
        begin = wanted.begin
        if begin:
            stream.seek(begin - 1)
            begin += len(stream.readline(_LONGEST_LINE)) - 1
            stream.seek(begin)
        return _log(wanted, Opened(stream), rules, head, begin)


def _log(wanted: Wanted, opened: Opened, rules: Rules, head: bytes, begin: int = 0) -> Reduced:
    head = opened.text_of(head)
    style = style_of(head, of_one=wanted.named.who.rank is not None)
    own = speaks_of_itself(head, style)
    layout = layout_of(style) or ("lines" if own and not wanted.named.layout else wanted.named.layout)
    file = as_file(wanted, "text", layout=layout)
    if own and wanted.named.layout == "srun-files":  # what counts up are not ranks: each of them speaks for several
        file = msgspec.structs.replace(
            file, who=msgspec.structs.replace(file.who, rank=None), layout=layout_of(style) or "lines"
        )
    reducer = Reducer(rules, file, style, wanted.most_steps, labelled=own)
    reducer.clock.near(head)
    size = lines = 0
    last_text = ""
    again = BegunAgain(head) if not begin else None
    for block in opened.blocks(offset=begin, until=wanted.end):
        opened.next_line = reducer.read(block)
        if again is not None and reducer.result.raised:  # only behind what went wrong it matters
            again.look(block.data, block.own, block.line)
        if block.last:
            size = block.offset + block.own - begin
            lines = opened.next_line - (1 if block.data.endswith(b"\n", 0, block.own) else 0)
            last_text = last_said(block, style)
    result = reducer.done()
    result.job = wanted.named.job
    if not begin and wanted.named.who.rank is None:
        result.processes += ranks_told(head, style)
    result.owner = owner_of(head, style) if not begin and file.who == Who() else None
    result.file = msgspec.structs.replace(
        file,
        size=size,
        lines=lines,
        first_time=reducer.clock.first,
        last_time=reducer.clock.last,
        problem=opened.problem,
        encoding=opened.encoding,
        last_text=last_text,
        excerpt=_excerpt(head, size, lines) if not begin else (),
        begun_again=again.line if again is not None else None,
    )
    return result


def _excerpt(head: bytes, size: int, lines: int) -> tuple[str, ...]:
    """Return the lines of a text that is so short that all of it was seen at once."""
    if lines > _SHORT or size > min(len(head), _SHORTEST_SAMPLE):
        return ()
    return tuple(line.removesuffix("\r") for line in head.decode("utf-8", "replace").split("\n")[:lines])


def _binary(wanted: Wanted, opened: Opened, rules: Rules) -> Reduced:
    """Skip what is no text; a log that begins with junk is read all the same."""
    size = 0
    for block in opened.blocks(1 << 20):
        middle = len(block.data) // 2
        if block.offset + len(block.data) > _SAMPLE and is_text(block.data[middle : middle + _SAMPLE]):
            return _rest(wanted, opened, rules)
        size = block.offset + len(block.data)
    return Reduced(file=msgspec.structs.replace(as_file(wanted, "binary", problem=opened.problem), size=size))


def _rest(wanted: Wanted, opened: Opened, rules: Rules) -> Reduced:
    source = wanted.source
    if source.content is None and not source.place:
        return Reduced(file=as_file(wanted, "binary", problem="begins with binary data"))
    with _stream(source) as stream:
        again = Opened(stream, opened.packing)
        head = again.head(_SAMPLE)
        found = _log(wanted, again, rules, head)
    found.file = msgspec.structs.replace(found.file, problem="begins with binary data; the text in it is read")
    return found


def _dump(wanted: Wanted, opened: Opened, module: object, rules: Rules) -> Reduced:
    file = as_file(wanted, module.KIND)  # type: ignore[attr-defined]
    content = _content(opened, LARGEST_DUMP if not hasattr(module, "Rows") else _LARGE_TABLE)
    if hasattr(module, "Rows") and len(content) >= _LARGE_TABLE:
        rows = module.Rows(file, wanted.most_steps)
        rows.take(content)
        if not rows.of_a_console:
            return _table(rows, file, opened, len(content))
        content += _content(opened, LARGEST_DUMP - len(content))
    file = msgspec.structs.replace(file, size=len(content))
    part = read_dump(module, content, file)  # type: ignore[arg-type]
    if part.kind == "text":
        again = Opened(io.BytesIO(content))
        return _log(wanted, again, rules, again.head(_SAMPLE))
    reduced = _of_part(part, file, opened.problem)
    if getattr(module, "TEXT", False):
        _add_lines(reduced, wanted, content, rules)
    return reduced


def _content(opened: Opened, most: int) -> bytes:
    """Return what comes next of a stream, ``most`` bytes or a little more."""
    parts = []
    size = 0
    while size < most and (more := opened.read(1 << 20)):
        parts.append(more)
        size += len(more)
    return b"".join(parts)


def _table(rows: Any, file: LogFile, opened: Opened, size: int) -> Reduced:
    """Read the rest of a large table piece by piece, so that it is never in memory as a whole."""
    while more := opened.read(1 << 20):
        rows.take(more)
        size += len(more)
    return _of_part(rows.part(), msgspec.structs.replace(file, size=size), opened.problem)


def _add_lines(reduced: Reduced, wanted: Wanted, content: bytes, rules: Rules) -> None:
    """Look for signatures in a dump that is made of lines, too: a kernel's or a scheduler's."""
    again = Opened(io.BytesIO(content))
    log = _log(wanted, again, rules, again.head(_SAMPLE))
    reduced.hits += log.hits
    reduced.raised += log.raised
    reduced.endings += log.endings


def _of_part(part: Part, file: LogFile, problem: str | None) -> Reduced:
    file = msgspec.structs.replace(
        file,
        kind=part.kind or file.kind,
        who=part.who or file.who,
        lines=part.lines,
        first_time=part.first_time,
        last_time=part.last_time,
        problem=part.problem or problem,
    )
    return Reduced(
        file=file,
        hits=list(part.hits),
        raised=list(part.raised),
        steps=list(part.steps),
        endings=list(part.endings),
        flights=list(part.flights),
        stacks=list(part.stacks),
        events=list(part.events),
        environments=list(part.environments),
        world_sizes={part.world_size: 1} if part.world_size else {},
        notes=list(part.notes),
    )


def as_file(wanted: Wanted, kind: str, problem: str | None = None, layout: str | None = None) -> LogFile:
    """Return what is known of a file before it is read."""
    return LogFile(
        index=wanted.index,
        path=wanted.source.path,
        kind=kind,  # type: ignore[arg-type]
        who=wanted.named.who,
        layout=wanted.named.layout if layout is None else layout,
        size=0,
        modified=wanted.source.modified,
        problem=problem,
    )
