"""Text files as they lie on disk: encoding, byte order mark and line ends are kept, and writing is all or nothing."""

from __future__ import annotations

import os

from preflight.errors import InputError, PreflightError

_BOM = b"\xef\xbb\xbf"


class TextFile:
    """The text of a file together with what is needed to write it back unchanged.

    Attributes:
        path: The file.
        text: Its content, line ends as they are, without the byte order mark.
        encoding: The encoding that it declares, else UTF-8.
        bom: Whether it begins with a byte order mark.
        newline: The line end that most of its lines have.
    """

    __slots__ = ("bom", "encoding", "newline", "path", "text")

    def __init__(self, path: str, text: str, encoding: str = "utf-8", bom: bool = False) -> None:
        """Keep the parts; the line end is counted."""
        self.path = path
        self.text = text
        self.encoding = encoding
        self.bom = bom
        windows, all_feeds = text.count("\r\n"), text.count("\n")
        old_mac = text.count("\r") - windows
        self.newline = "\r\n" if windows * 2 > all_feeds else "\r" if old_mac > all_feeds else "\n"

    def encoded(self, text: str) -> bytes:
        """The bytes of a new text of this file.

        Raises:
            InputError: The file's encoding has no character for something in the text.
        """
        try:
            return (_BOM if self.bom else b"") + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise InputError(f"{self.path}: the change cannot be written in {self.encoding}: {error.reason}") from None


def read_text_file(path: str) -> TextFile:
    """Read a text file.

    Raises:
        InputError: It cannot be read, or is not text in the encoding that it declares.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    bom = data.startswith(_BOM)
    body = data[len(_BOM) :] if bom else data
    try:
        return TextFile(path, body.decode("utf-8"), "utf-8", bom)
    except UnicodeDecodeError:
        import io
        import tokenize

        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
            return TextFile(path, body.decode(encoding), encoding, bom)
        except (SyntaxError, UnicodeDecodeError, LookupError):
            raise InputError(f"{path}: is not text in the encoding that it declares") from None


def write_whole(path: str, data: bytes) -> None:
    """Write a file so that a reader sees the old content or the new one, never a part.

    A link stays a link, and the permissions stay.

    Raises:
        PreflightError: It cannot be written; the old content is untouched.
    """
    import tempfile

    target = os.path.realpath(path)
    temporary: str | None = None
    try:
        if os.path.exists(target) and not os.path.isfile(target):
            with open(target, "wb") as device:  # /dev/stdout, a named pipe: nothing to rename
                device.write(data)
            return
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=f".{os.path.basename(target)[:64]}.")
        with open(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, _mode(target))
        os.replace(temporary, target)
        temporary = None
    except OSError as error:
        raise PreflightError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        if temporary is not None:
            from contextlib import suppress

            with suppress(OSError):
                os.unlink(temporary)


def _mode(target: str) -> int:
    """The permissions of the file that is replaced, or those that a new file gets."""
    try:
        return os.stat(target).st_mode & 0o7777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
