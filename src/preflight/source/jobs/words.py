"""Shell text as commands and words: quotes, comments, continuations, arrays and here-documents, nothing executed."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

_OPERATORS = ("&&", "||", ";;", ";", "|", "&", "\n")
_REDIRECTION = re.compile(r"\d*(?:>>|>&|>\||<&|<>|&>>|&>|>|<<<|<)")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([\w.]+)\1")
_NAME = re.compile(r"[A-Za-z_]\w*")


class Piece(msgspec.Struct, frozen=True):
    """A part of a word: its text, whether ``$`` means something in it, and whether it is split at blanks."""

    text: str
    expands: bool
    splits: bool


Word = tuple[Piece, ...]


class Command(msgspec.Struct, frozen=True):
    """A simple command: its line (from 1), its words, and the arrays that it assigns (``NAME+`` adds to one)."""

    line: int
    words: tuple[Word, ...]
    arrays: dict[str, tuple[Word, ...]] = {}


def commands(text: str) -> Iterator[Command]:
    """Yield the simple commands of a script, in the order in which they stand.

    Branches and bodies of loops and functions are yielded as if each ran once.
    """
    reader = Reader(text)
    while reader.position < len(text):
        command = reader.command()
        if command is not None:
            yield command


class Reader:
    """Reads a script from the left to the right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.line = 1
        self.heredocs: list[str] = []

    def command(self) -> Command | None:
        """Read up to the next operator; None where nothing stood before it."""
        words: list[Word] = []
        arrays: dict[str, tuple[Word, ...]] = {}
        began = self.line
        while self.position < len(self.text):
            self._blanks()
            operator = next((sign for sign in _OPERATORS if self.text.startswith(sign, self.position)), None)
            redirected = _REDIRECTION.match(self.text, self.position)
            if heredoc := _HEREDOC.match(self.text, self.position):
                self.heredocs.append(heredoc[2])
                self._skip(heredoc.end())
            elif redirected and not (redirected[0][0].isdigit() and words and self._glued()):
                self._skip(redirected.end())
                self._blanks()
                self.word()
            elif operator is not None:
                self._skip(self.position + len(operator))
                if operator == "\n":
                    self._heredoc_bodies()
                break
            elif self.text[self.position : self.position + 1] in ("(", ")"):
                self._skip(self.position + 1)
                break
            else:
                if not words:
                    began = self.line
                self._word_or_array(words, arrays)
        return Command(began, tuple(words), arrays) if words or arrays else None

    def _word_or_array(self, words: list[Word], arrays: dict[str, tuple[Word, ...]]) -> None:
        word = self.word()
        text = "".join(piece.text for piece in word)
        if self.text.startswith("(", self.position) and text.endswith("=") and _NAME.match(text):
            self._skip(self.position + 1)
            arrays[text.rstrip("=")] = tuple(self._array())
        elif word:
            words.append(word)
        else:
            self._skip(self.position + 1)

    def _array(self) -> Iterator[Word]:
        while self.position < len(self.text):
            self._blanks(newlines=True)
            if self.text.startswith(")", self.position):
                self._skip(self.position + 1)
                return
            word = self.word()
            if word:
                yield word
            else:
                self._skip(self.position + 1)

    def _glued(self) -> bool:
        return self.position > 0 and not self.text[self.position - 1].isspace()

    def _skip(self, end: int) -> None:
        self.line += self.text.count("\n", self.position, end)
        self.position = end

    def _blanks(self, *, newlines: bool = False) -> None:
        text = self.text
        while self.position < len(text):
            char = text[self.position]
            if text.startswith("\\\n", self.position) or text.startswith("\\\r\n", self.position):
                self._skip(text.index("\n", self.position) + 1)
            elif char in " \t\r" or (newlines and char == "\n"):
                self._skip(self.position + 1)
            elif char == "#" and (self.position == 0 or text[self.position - 1] in " \t\n\r;(&|"):
                end = text.find("\n", self.position)
                self._skip(len(text) if end < 0 else end)
            else:
                return

    def _heredoc_bodies(self) -> None:
        for ending in self.heredocs:
            found = re.compile(rf"^[ \t]*{re.escape(ending)}[ \t\r]*$", re.MULTILINE).search(self.text, self.position)
            self._skip(found.end() if found else len(self.text))
        self.heredocs.clear()

    def word(self) -> Word:
        """Read one word; empty where an operator or a blank stands."""
        pieces: list[Piece] = []
        text = self.text
        plain = ""

        def keep() -> None:
            nonlocal plain
            if plain:
                pieces.append(Piece(plain, True, True))
            plain = ""

        while self.position < len(text):
            char = text[self.position]
            if char in " \t\r\n;&|<>()" and not (char in "<>" and plain.endswith("$")):
                break
            if char == "\\":
                following = text[self.position + 1 : self.position + 2]
                if following not in ("\n", "\r"):
                    keep()
                    pieces.append(Piece(following, False, False))
                    self._skip(min(self.position + 2, len(text)))
                else:
                    self._skip(text.index("\n", self.position) + 1)
            elif char == "'":
                keep()
                end = text.find("'", self.position + 1)
                end = len(text) if end < 0 else end
                pieces.append(Piece(text[self.position + 1 : end], False, False))
                self._skip(min(end + 1, len(text)))
            elif char == '"':
                keep()
                pieces.extend(self._double_quoted())
            elif char in "$`":
                keep()
                pieces.append(Piece(self._dollar(), True, True))
            else:
                plain += char
                self._skip(self.position + 1)
        keep()
        return tuple(pieces)

    def _double_quoted(self) -> Iterator[Piece]:
        self._skip(self.position + 1)
        text = self.text
        plain = ""
        yield Piece("", False, False)  # "" is a word
        while self.position < len(text) and text[self.position] != '"':
            char = text[self.position]
            if char == "\\" and text[self.position + 1 : self.position + 2] in ("$", "`", '"', "\\", "\n"):
                plain += text[self.position + 1].strip("\n")
                self._skip(self.position + 2)
            elif char in "$`":
                if plain:
                    yield Piece(plain, False, False)
                plain = ""
                yield Piece(self._dollar(), True, False)
            else:
                plain += char
                self._skip(self.position + 1)
        if plain:
            yield Piece(plain, False, False)
        self._skip(min(self.position + 1, len(text)))

    def _dollar(self) -> str:
        """Take ``$NAME``, ``${...}``, ``$(...)``, ``$((...))`` or a command in backquotes."""
        text, start = self.text, self.position
        if text[start] == "`":
            end = text.find("`", start + 1)
            self._skip(len(text) if end < 0 else end + 1)
        elif text.startswith(("${", "$("), start):
            self._skip(_closing(text, start + 1))
        elif found := re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*#?$!-])").match(text, start):
            self._skip(found.end())
        else:
            self._skip(start + 1)
        return text[start : self.position]


def _closing(text: str, start: int) -> int:
    """Where the bracket that opens at ``start`` is closed, past it."""
    opening = text[start]
    closing = {"{": "}", "(": ")"}[opening]
    depth = 0
    for position in range(start, len(text)):
        if text[position] == opening:
            depth += 1
        elif text[position] == closing:
            depth -= 1
            if depth == 0:
                return position + 1
    return len(text)
