"""Downloads of the script: none is made, and what reads their result meets a stand-in.

A text comes as words, a record by the keys that the script asks for. Anything else comes as a mark; an archive that holds
the mark is an empty one, so that the data is missed where it is read, and met there.
"""

from __future__ import annotations

import gzip
import io
import os
import socket
import tarfile
import urllib.request
import zipfile
from collections.abc import Callable
from typing import Any

from preflight.dryrun.virtual.absent import after, callers, formats, records

MARK = b"not downloaded in a dry run\n"


def install(owns: Callable[[str], bool], assume: Callable[[str], None]) -> None:
    """Answer the requests of the person's own code."""

    def told(url: Any) -> str:
        name = str(getattr(url, "full_url", url))
        assume(f"{name[:120]} was not downloaded")
        return name

    _own_machine()
    _urllib(owns, told)
    _archives(owns, assume)
    after.imported("requests", lambda module: _requests(module, owns, told))
    after.imported("gdown", lambda module: _writers(module, ("download", "download_folder", "cached_download"), told))
    after.imported("wget", lambda module: _writers(module, ("download",), told))
    after.imported("torch.hub", lambda module: _torch_hub(module, owns, told))


def content(url: str) -> bytes:
    """Return what stands for the content of an address."""
    ending = os.path.splitext(url.partition("?")[0])[1].lower()
    if ending in formats.TEXTS:
        return formats.text().encode()
    if ending in formats.PICTURES:
        return formats.picture(url)
    return MARK


class Response(io.BytesIO):
    """An answer to a request."""

    status = status_code = 200
    ok = True
    reason = "OK"
    encoding = "utf-8"

    def __init__(self, url: str) -> None:
        super().__init__(content(url))
        self.url, self.content = url, self.getvalue()
        self.headers: dict[str, str] = {
            "Content-Length": str(len(self.content)),
            "content-length": str(len(self.content)),
        }
        self.raw = self

    @property
    def text(self) -> str:
        """Return words."""
        return formats.text() if self.content == MARK else self.content.decode()

    def json(self, **_: Any) -> Any:
        """Return records with the keys that the script asks for."""
        return [records.record(number, records.script()) for number in range(formats.ROWS)]

    def raise_for_status(self) -> None:
        """All is well."""

    def iter_content(self, chunk_size: int = 1, *_: Any, **__: Any) -> Any:
        """Yield all at once."""
        yield self.content

    def iter_lines(self, *_: Any, **__: Any) -> Any:
        """Yield the lines."""
        yield from self.content.splitlines()

    def info(self) -> dict[str, str]:
        """Return the headers."""
        return self.headers

    def getcode(self) -> int:
        """Return the status."""
        return 200

    def geturl(self) -> str:
        """Return the address."""
        return self.url


def _own_machine() -> None:
    """Answer what a process asks of its own machine before it starts others: its name, a free port."""
    for function, told in (("gethostbyname", "127.0.0.1"), ("getfqdn", "localhost")):
        setattr(socket, function, lambda *_, told=told: told)
    plain = socket.socket.getsockname
    bound: dict[int, Any] = {}

    def bind(sock: Any, address: Any) -> None:
        bound[id(sock)] = (address[0] or "0.0.0.0", address[1] or 29_500) if isinstance(address, tuple) else address

    def name_of(sock: Any) -> Any:
        return bound[id(sock)] if id(sock) in bound else plain(sock)

    for name, answer in (("bind", bind), ("getsockname", name_of), ("listen", lambda *_: None)):
        setattr(socket.socket, name, answer)


def _urllib(owns: Callable[[str], bool], told: Callable[[Any], str]) -> None:
    plain, fetch = urllib.request.urlopen, urllib.request.urlretrieve

    def opened(url: Any, *args: Any, **kwargs: Any) -> Any:
        if not callers.asks(owns):
            return plain(url, *args, **kwargs)
        return Response(told(url))

    def retrieved(url: Any, filename: Any = None, reporthook: Any = None, data: Any = None) -> Any:
        if not callers.asks(owns):
            return fetch(url, filename, reporthook, data)
        return _written(told(url), filename), {}

    urllib.request.urlopen, urllib.request.urlretrieve = opened, retrieved


def _written(url: str, place: Any) -> str:
    name = os.fspath(place) if place else os.path.basename(url.partition("?")[0]) or "download"
    if os.path.isdir(name):
        name = os.path.join(name, os.path.basename(url))
    with open(name, "wb") as file:
        file.write(content(url))
    return name


def _requests(module: Any, owns: Callable[[str], bool], told: Callable[[Any], str]) -> None:
    plain = module.Session.request

    def requested(session: Any, method: str, url: Any, *args: Any, **kwargs: Any) -> Any:
        frame = callers.asker()
        # requests calls itself on the way from requests.get.
        while frame is not None and f"{os.sep}requests{os.sep}" in frame.f_code.co_filename:
            frame = frame.f_back
        if frame is None or not owns(frame.f_code.co_filename):
            return plain(session, method, url, *args, **kwargs)
        return Response(told(url))

    module.Session.request = requested


def _writers(module: Any, names: tuple[str, ...], told: Callable[[Any], str]) -> None:
    def fetched(url: Any = None, output: Any = None, *args: Any, **kwargs: Any) -> str:
        name = told(url or kwargs.get("id"))
        return _written(name, output or kwargs.get("out"))

    for name in names:
        if hasattr(module, name):
            setattr(module, name, fetched)


def _torch_hub(module: Any, owns: Callable[[str], bool], told: Callable[[Any], str]) -> None:
    plain = module.download_url_to_file

    def downloaded(url: str, dst: str, *args: Any, **kwargs: Any) -> None:
        if callers.own_frame(owns) is None:
            plain(url, dst, *args, **kwargs)
            return
        _written(told(url), dst)

    module.download_url_to_file = downloaded


def marked(file: Any) -> bool:
    """Whether a file, by its name or open, is what a download left."""
    if isinstance(file, Response):
        return file.content == MARK
    if hasattr(file, "read"):
        return False
    try:
        with open(file, "rb") as opened:
            return opened.read(len(MARK)) == MARK
    except (OSError, TypeError):
        return False


class Endless(io.BytesIO):
    """A text that is as long as is asked for."""

    def __init__(self) -> None:
        super().__init__(formats.text().encode())

    def read(self, size: int | None = -1) -> bytes:
        """Return so many bytes; a corpus where no number is given."""
        held = self.getvalue()
        return held if size is None or size < 0 else (held * (size // len(held) + 1))[:size]


def _archives(owns: Callable[[str], bool], assume: Callable[[str], None]) -> None:
    """Open an archive that was not downloaded as one without members."""
    plain_tar: Any
    plain_tar, plain_zip, plain_gzip = tarfile.open, zipfile.ZipFile.__init__, gzip.open

    def empty_tar() -> bytes:
        out = io.BytesIO()
        with tarfile.TarFile(fileobj=out, mode="w"):
            pass
        return out.getvalue()

    def opened(name: Any = None, mode: str = "r", fileobj: Any = None, *args: Any, **kwargs: Any) -> Any:
        if mode.startswith("r") and marked(fileobj if fileobj is not None else name):
            return plain_tar(fileobj=io.BytesIO(empty_tar()), mode="r")
        return plain_tar(name, mode, fileobj, *args, **kwargs)

    def zipped(archive: Any, file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> None:
        if mode == "r" and marked(file):
            out = io.BytesIO()
            with zipfile.ZipFile(out, "w"):
                pass
            file = io.BytesIO(out.getvalue())
        plain_zip(archive, file, mode, *args, **kwargs)

    def unzipped(filename: Any, mode: str = "rb", *args: Any, **kwargs: Any) -> Any:
        if "r" in mode and isinstance(filename, (str, os.PathLike)) and not os.path.lexists(filename):
            inner = os.path.splitext(os.path.splitext(filename)[0])[1].lower()
            if callers.asks(owns) and inner in ("", *formats.TEXTS) and "ubyte" not in str(filename):
                assume(f"{os.fspath(filename)} is missing: as much plausible text as is read took its place")
                return io.StringIO(formats.text()) if "t" in mode else Endless()
        if "r" in mode and marked(filename):
            return io.StringIO(formats.text()) if "t" in mode else io.BytesIO(MARK)
        return plain_gzip(filename, mode, *args, **kwargs)

    tarfile.open, gzip.open = opened, unzipped
    zipfile.ZipFile.__init__ = zipped  # type: ignore[method-assign,assignment]
