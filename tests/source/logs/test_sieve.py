"""What a sieve passes over holds none of its literals: what is found with it is what is found without it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.catalog.signature_files import load_signatures
from preflight.source.logs import literals as literals_module
from preflight.source.logs.literals import Finder
from preflight.source.logs.rules import Rules
from preflight.source.logs.sieve import Sieve

LETTERS = "ab:\n"
"""Few, so that words of literals come together by chance again and again."""


def _plain(literals: list[bytes], text: bytes) -> list[tuple[int, int, int]]:
    found = []
    for number, literal in enumerate(literals):
        place = text.find(literal)
        while place >= 0:
            found.append((number, place, place + len(literal)))
            place = text.find(literal, place + 1)
    return sorted(found)


def _sifted(sieve: Sieve, finder: Finder, text: bytes) -> list[tuple[int, int, int]]:
    kept = sieve.keep(text)
    return sorted(kept.placed(finder.find(kept.data)))


@settings(max_examples=25, deadline=None)
@given(
    # A literal may begin with the break before its line; within a line there is none.
    st.lists(
        st.tuples(st.sampled_from(("", "\n")), st.text("ab:", min_size=3, max_size=30)).map("".join).map(str.encode),
        min_size=1,
        max_size=12,
        unique=True,
    ),
    st.text(LETTERS + "cdefgh", min_size=8, max_size=40).map(str.encode),
    st.randoms(use_true_random=False),
    st.integers(0, 3),
)
def test_literals_at_all_places_are_kept(literals: list[bytes], filler: bytes, rng: random.Random, shift: int) -> None:
    """Also at the beginning and at the end, beside each other, and one within another."""
    finder = Finder(literals)
    sieve = Sieve(literals, finder.find)
    parts = [filler[:shift]]
    for _ in range(40):
        parts.append(rng.choice(literals) if rng.random() < 0.3 else filler * rng.randrange(1, 9))
        parts.append(filler[: rng.randrange(8)])
    text = b"".join(parts)
    sieve.fit(filler * 50)
    assert _sifted(sieve, finder, text) == _plain(literals, text)


@pytest.fixture(scope="module")
def rules() -> Rules:
    """The shipped signatures and everything else that lines are searched for."""
    return Rules(load_signatures())


def _text(rng: random.Random, rules: Rules, size: int, every: int) -> bytes:
    words = [b"tensor", b"rank", b"12", b"batch", b"worker", b"loaded", b"read", b"model", b"step"]
    lines = []
    for number in range(size // 60):
        line = b"2024-03-01 00:00:%02d " % (number % 60) + b" ".join(rng.choices(words, k=rng.randrange(3, 12)))
        if not number % every:
            line = line[: rng.randrange(len(line))] + rng.choice(rules.words) + line[rng.randrange(len(line)) :]
        lines.append(line)
    return b"\n".join(lines)


def test_every_shipped_literal_is_found_in_text_of_its_words(rules: Rules) -> None:
    """Each literal stands at each remainder of its place by four."""
    rng = random.Random(3)
    sieve = Sieve(rules.words, rules.finder.find)
    sieve.fit(_text(rng, rules, 1 << 18, 10**9))
    for shift in range(4):
        gaps = (b"." * (70 + (shift - at - len(word)) % 4) for at, word in enumerate(rules.words))
        text = b"".join(part for pair in zip(gaps, rules.words, strict=True) for part in pair)
        kept = sieve.keep(text)
        found = {number for number, _, _ in kept.placed(rules.finder.find(kept.data))}
        assert found == set(range(len(rules.words)))


def test_what_is_found_does_not_depend_on_the_sieve(rules: Rules, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of several kinds, one after the other, some of which it does not help with."""
    monkeypatch.setattr(literals_module, "_WORTH", 0)
    monkeypatch.setattr(literals_module, "_LARGE", 1 << 12)
    monkeypatch.setattr(literals_module, "_RESTS", 2)
    finder, plain = Finder(rules.words), Finder(rules.words)
    monkeypatch.setattr(plain, "_may_sieve", False)
    rng = random.Random(5)
    for every in (500, 500, 2, 2, 2, 2, 400, 400):
        text = _text(rng, rules, 1 << 16, every)
        assert sorted(finder.find(text)) == sorted(plain.find(text))
    kept = finder._sieve.keep(text) if finder._sieve is not None else None
    assert kept is not None
    assert len(kept.data) < 0.6 * len(text)  # 0.49 to 0.53, by the literals that are drawn


def test_short_literals_are_left_to_the_automaton(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's signature may have a literal of two bytes."""
    monkeypatch.setattr(literals_module, "_WORTH", 0)
    text = b"so it goes\n" * 40_000 + b"OK\n"
    assert list(Finder([b"OK", b"Traceback"]).find(text)) == [(0, len(text) - 3, len(text) - 1)]
