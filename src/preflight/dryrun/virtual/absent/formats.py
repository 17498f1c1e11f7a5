"""Files of the usual formats, as small as they may be: black pictures, silence, zeros, words."""

from __future__ import annotations

import io
import os
import random
import string
import struct
import zlib

PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".gif")
SOUNDS = (".wav",)
TEXTS = (".txt", ".md", ".text", ".tokens", ".raw", ".small", ".src", ".trg", ".en", ".de", ".fr")
TABLES = (".csv", ".tsv", ".json", ".jsonl")
ARRAYS = (".npy",)
WIDTH, HEIGHT = 500, 375
"""Of a picture: a common size of photographs."""
ROWS = 2_000
"""Records of a stand-in."""
_WORDS = (
    "the of and to in is that it was for on are as with his they at be this from have or by one had not but".split()
)
_MASKS = ("mask", "label", "annot", "segm", "_gt", "gt_")


def words(count: int, seed: int = 0) -> str:
    """Return a text of so many words, in lines of twelve; those of other seeds are as long."""
    drawn = [_WORDS[number % len(_WORDS)] for number in range(count)]
    random.Random(seed).shuffle(drawn)
    lines = [" ".join(drawn[at : at + 12]) for at in range(0, count, 12)]
    return "\n".join(lines) + "\n"


def text() -> str:
    """Return a corpus; every printable character is in it once, so that a vocabulary of characters has them."""
    return words(ROWS * 100) + string.printable


def is_mask(path: str) -> bool:
    """Whether a picture's path says that it holds classes, not colours."""
    return any(part in path.lower() for part in _MASKS)


def kin(path: str) -> str:
    """Return how files of one folder and one ending are named together."""
    return os.path.join(os.path.dirname(path), "*" + os.path.splitext(path)[1])


def picture(path: str, transparent: bool = False) -> bytes:
    """Return a black picture; of classes where its path says so.

    Args:
        path: Its path.
        transparent: Whether it has a fourth channel, where its format knows one.
    """
    ending = "." + path.lower().rpartition(".")[2]
    mode = "L" if is_mask(path) else "RGBA" if transparent and ending == ".png" else "RGB"
    try:
        from PIL import Image
    except ImportError:
        return _png(len(mode))
    names = {".jpg": "JPEG", ".jpeg": "JPEG", ".tif": "TIFF", ".tiff": "TIFF"}
    out = io.BytesIO()
    Image.new(mode, (WIDTH, HEIGHT)).save(out, names.get(ending, ending[1:].upper()))
    return out.getvalue()


def _png(channels: int) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes(WIDTH * channels)) * HEIGHT)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def sound(rate: int, seconds: float = 3.0) -> bytes:
    """Return silence."""
    import wave

    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(bytes(2 * int(rate * seconds)))
    return out.getvalue()


def array(shape: tuple[int, ...], kind: str) -> bytes:
    """Return an array of zeros in numpy's own format.

    Args:
        shape: Its shape.
        kind: Its type, as numpy writes it: ``<u2``, ``<f4``.
    """
    size = int(kind[2:])
    for length in shape:
        size *= length
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape!r}, }}"
    head += " " * (63 - (len(head) + 10) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + bytes(size)
