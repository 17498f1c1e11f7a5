"""Drift: the texts that signatures name torch as the source of are still in the torch that is installed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from preflight.catalog.signature_files import load_signatures

pytestmark = [pytest.mark.torch, pytest.mark.slow]

PIECE = 8 << 20
FROM_TORCH = [one for one in load_signatures() if any(re.match(r"torch \d", source) for source in one.sources)]


def _pieces(root: Path, overlap: int) -> Iterator[bytes]:
    """Yield the Python files whole, and the libraries in pieces that overlap."""
    for path in root.rglob("*.py"):
        yield path.read_bytes()
    for path in root.rglob("*.so*"):
        with path.open("rb") as library:
            before = b""
            while piece := library.read(PIECE):
                yield before + piece
                before = piece[-overlap:]


def _seen(literals: Iterable[str], root: Path) -> set[str]:
    import re2

    wanted = {literal.encode() for literal in literals}
    found: set[bytes] = set()
    # Longest first: an alternation takes the first that fits, and one literal may begin another.
    pattern = re2.compile(b"|".join(re2.escape(literal) for literal in sorted(wanted, key=len, reverse=True)))
    for piece in _pieces(root, max(map(len, wanted))):
        found.update(match.group() for match in pattern.finditer(piece))
    # One that stands inside another is seen with it.
    found |= {literal for literal in wanted if any(literal in other for other in found)}
    return {literal.decode() for literal in found}


def test_the_text_of_a_signature_is_still_in_torch() -> None:
    pytest.importorskip("torch")
    spec = find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    assert len(FROM_TORCH) >= 90
    seen = _seen({literal for one in FROM_TORCH for literal in one.literals}, Path(spec.origin).parent)
    gone = [one.id for one in FROM_TORCH if not seen & set(one.literals)]
    assert not gone
