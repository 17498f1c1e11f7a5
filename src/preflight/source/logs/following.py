"""Follows files that grow: reads what is new, keeps what was read, and gives the reading as it stands."""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import Iterable, Sequence, Set
from typing import IO, NamedTuple

import msgspec

from preflight.catalog.signature_files import load_signatures
from preflight.source.dumps.opening import format_of
from preflight.source.logs.blocks import BLOCK, Block, Opened
from preflight.source.logs.joining import join
from preflight.source.logs.one_file import Wanted, as_file, read_one
from preflight.source.logs.opening import Source, packing_of, sources
from preflight.source.logs.read import wanted
from preflight.source.logs.reduced import Reduced
from preflight.source.logs.reducing import Reducer
from preflight.source.logs.rotated import HEAD, moved_to, paths_beside
from preflight.source.logs.rules import Rules, packed, rules_of
from preflight.source.logs.styles import is_text, layout_of, speaks_of_itself, style_of
from preflight.vocabulary.log import Reading
from preflight.vocabulary.signature import Signature

HELD = 1.0
"""Seconds for which the last lines of a file that grows wait for more: a traceback comes in pieces."""
QUIET = 0.3
"""Seconds without growth after which nothing more is waited for."""
_STEPS = 1 << 14
"""Steps kept of all files: what is read is judged again whenever there is more of it, which takes some microseconds for each step."""
_MOST_BEFORE = 32
"""Files that stood behind a name before, of which what they gave is kept."""
_FEWEST = 64
"""Steps kept of a file, however many files there are; its last ones are kept in any case."""


class Tail(msgspec.Struct, omit_defaults=True):
    """How far a file was read.

    Attributes:
        path: The file.
        file_id: Its number on its disk; another one behind the same path is a new file.
        offset: Bytes read.
        line: Number of the next line.
        size: Bytes seen; more than ``offset`` while its last lines are waited for.
        grown: When it was seen to grow last, by the clock of ``time.monotonic``.
        since: When the first of the bytes came that were not read yet.
    """

    path: str
    file_id: int = 0
    offset: int = 0
    line: int = 1
    size: int = 0
    grown: float = 0.0
    since: float = 0.0


class _Before(NamedTuple):
    """What a file gave before its name went on with another one, and where that stands now."""

    file_id: int
    reduced: Reduced

    def at(self, path: str | None) -> _Before:
        """Return the same at another place."""
        file = self.reduced.file if path is None else msgspec.structs.replace(self.reduced.file, path=path)
        return self._replace(reduced=msgspec.structs.replace(self.reduced, file=file))


class _Followed:
    """One file: how far it was read, and what it gave."""

    def __init__(self, want: Wanted, tail: Tail, rules: Rules) -> None:
        self.want = want
        self.tail = tail
        self._rules = rules
        self._reducer: Reducer | None = None
        self._whole: Reduced | None = None
        self._notes: list[str] = []
        self._head = b""
        self._before: list[_Before] = []

    def more(self, now: float) -> bool:
        """Read what is new; return whether there was something."""
        try:
            about = os.stat(self.tail.path)
        except OSError:
            return False
        tail = self.tail
        if about.st_ino != tail.file_id or about.st_size < tail.offset:
            self._anew(about.st_ino, now)
            tail = self.tail
        if about.st_size > tail.size:
            tail.since = tail.since if tail.size > tail.offset else now
            tail.grown = now
            tail.size = about.st_size
        if tail.size <= tail.offset:
            return False
        if now - tail.grown < QUIET and now - tail.since < HELD and tail.size - tail.offset < BLOCK:
            return False
        return self._read(tail.path, now - tail.grown >= QUIET, now)

    @property
    def thinned(self) -> bool:
        """Whether steps of it were left out."""
        return self._reducer is not None and self._reducer.thinned

    @property
    def there(self) -> bool:
        """Whether all that was read of it can be read again."""
        try:
            about = os.stat(self.tail.path)
        except OSError:
            return False
        return not self._notes and about.st_ino == self.tail.file_id and about.st_size >= self.tail.offset

    def keep_steps(self, most: int) -> None:
        """Keep no more than about so many steps from now on."""
        self.want = msgspec.structs.replace(self.want, most_steps=most)
        if self._reducer is not None:
            self._reducer.keep_steps(most)

    def before(self, others: Set[int]) -> list[Reduced]:
        """Return what the file gave before it was begun anew, without what is followed by another name as well."""
        return [one.reduced for one in self._before if one.file_id not in others]

    def _anew(self, file_id: int, now: float) -> None:
        if self.tail.file_id and self.tail.offset:
            moved = moved_to(self.tail.path, self.tail.file_id, self._head, self.tail.offset)
            if moved is not None and self._reducer is not None:
                kept = [*self._before, self._kept(*moved, now)][-_MOST_BEFORE:]
                places = paths_beside(self.tail.path)  # older ones were renamed as well
                self._before = [one.at(places.get(one.file_id)) for one in kept]
                told = f"what stood there before was read to its end in {moved[0]}"
            else:
                told = "what stood there before is no longer there, and not judged"
            self._notes.append(f"{self.tail.path}: begun anew at another file, or cut; {told}")
        self.tail = Tail(self.tail.path, file_id)
        self._reducer = self._whole = None

    def _kept(self, path: str, file_id: int, now: float) -> _Before:
        """Read the rest of a file where it stands now, and return what all of it gave."""
        with contextlib.suppress(OSError):
            self.tail.size = os.stat(path).st_size
        while self.tail.size > self.tail.offset and self._read(path, True, now):
            pass
        return _Before(file_id, msgspec.structs.replace(self.reduced(), notes=[])).at(path)

    def _read(self, path: str, quiet: bool, now: float) -> bool:
        tail = self.tail
        try:
            with open(path, "rb") as stream:
                if self._reducer is None and not self._begun(stream):
                    return True
                stream.seek(tail.offset)
                data = stream.read(min(tail.size - tail.offset, BLOCK))
        except OSError:
            return False
        # A line that is not ended is read when nothing more comes for a while: it may be the last one.
        own = data.rfind(b"\n") + 1 if not quiet or len(data) == BLOCK else len(data)
        own = own or (len(data) if len(data) == BLOCK else 0)
        if not own or self._reducer is None:
            return False
        self._reducer.read(Block(data[:own], tail.offset, tail.line, own, True))
        tail.line += data.count(b"\n", 0, own)
        tail.offset += own
        tail.since = now
        return True

    def _begun(self, stream: IO[bytes]) -> bool:
        """Find out what the file is; a dump or a packed file is read as a whole, whenever it has changed."""
        head = stream.read(1 << 16)
        self._head = head[:HEAD]
        path = self.want.source.path
        other = packing_of(head, path) or format_of(path, head) is not None or _wide(head) or not is_text(head)
        if other or self.want.source.archive:
            self.tail.offset = self.tail.size
            parts = read_one(self.want, self._rules)
            self._whole = parts[0] if parts else None
            return False
        style = style_of(head, of_one=self.want.named.who.rank is not None)
        layout = layout_of(style) or self.want.named.layout or ("lines" if speaks_of_itself(head, style) else "")
        file = as_file(self.want, "text", layout=layout)
        self._reducer = Reducer(self._rules, file, style, self.want.most_steps)
        return True

    def reduced(self) -> Reduced:
        """Return what the file gave up to now."""
        if self._reducer is None:
            return self._whole or Reduced(file=as_file(self.want, "empty"), notes=self._notes)
        result = self._reducer.done()
        clock = self._reducer.clock
        result.file = msgspec.structs.replace(
            result.file,
            size=self.tail.offset,
            lines=self.tail.line - 1,
            first_time=clock.first,
            last_time=clock.last,
        )
        result.job = self.want.named.job
        result.notes = list(self._notes)
        return result


def _wide(head: bytes) -> bool:
    """Whether a text is written in UTF-16 or UTF-32."""
    opened = Opened(io.BytesIO(head))
    opened.head()
    return opened.encoding != "utf-8"


class Follower:
    """Follows files and folders, also files that come later.

    Call ``poll`` every so often (several times a second): True when there is something new, and ``reading`` then gives
    everything that was read up to now.
    """

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        signatures: Sequence[Signature] | None = None,
        tails: Iterable[Tail] = (),
    ) -> None:
        """Begin at the beginning of each file, or, where ``tails`` of an earlier follower are given, where that one ended."""
        self._paths = [os.fspath(path) for path in paths]
        self._rules = rules_of(packed(load_signatures() if signatures is None else signatures))
        self._tails = {tail.path: tail for tail in tails}
        self._files: dict[str, _Followed] = {}
        self._listed = -1.0
        self._list_every = 0.0
        self._notes: list[str] = []

    def poll(self, now: float | None = None) -> bool:
        """Read what is new since the last call; return whether there was something."""
        now = time.monotonic() if now is None else now
        new = self._list(now)
        for followed in self._files.values():
            new = followed.more(now) or new
        return new

    def _list(self, now: float) -> bool:
        """Look for new files; a large folder is looked at less often."""
        if now - self._listed < self._list_every:
            return False
        began = time.monotonic()
        found, self._notes = sources(self._paths)
        new = [source for source in found if source.place not in self._files and not source.problem]
        share = max(_STEPS // max(len(self._files) + len(new), 1), _FEWEST)
        for followed in self._files.values() if new else ():
            followed.keep_steps(share)
        for want in wanted(new):
            self._files[want.source.place] = self._followed(want.source, want, share)
        self._listed = now
        self._list_every = min(10 * (time.monotonic() - began), 1.0)
        return bool(new)

    def _followed(self, source: Source, want: Wanted, steps: int) -> _Followed:
        want = msgspec.structs.replace(want, index=len(self._files), most_steps=steps)
        return _Followed(want, self._tails.pop(source.place, Tail(source.place)), self._rules)

    @property
    def thinned(self) -> bool:
        """Whether steps were left out, which are there when the files are read again."""
        return any(followed.thinned for followed in self._files.values())

    @property
    def there(self) -> bool:
        """Whether all that was read can be read again: no file is gone, or was begun anew."""
        return all(followed.there for followed in self._files.values())

    def reading(self) -> Reading:
        """Return everything that was read up to now."""
        every = list(self._files.values())
        ids = {followed.tail.file_id for followed in every}
        return join([part for one in every for part in (*one.before(ids), one.reduced())], self._notes)

    def tails(self) -> tuple[Tail, ...]:
        """Return how far each file was read, for another follower to go on from."""
        return tuple(followed.tail for followed in self._files.values())
