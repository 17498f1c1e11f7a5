"""Lines that differ in their digits alone: an expression is asked about one of them, and its answer holds for all."""

from __future__ import annotations

import random
import re

import msgspec

from preflight.catalog.signature_files import load_signatures
from preflight.source.logs.matching import Matcher

DIGIT = re.compile(r"\d")


def test_what_is_known_of_one_line_is_what_each_of_its_like_gives() -> None:
    """Of every example of every signature, with other digits and behind a prefix of another length."""
    signatures = load_signatures()
    knowing, asking = Matcher(signatures), Matcher(signatures)
    asking._steady = [False] * len(signatures)
    assert sum(knowing._steady) > len(signatures) / 2
    chance = random.Random(3)
    taken = 0
    for number, signature in enumerate(signatures):
        for example in (*signature.match, *signature.no_match):
            for line in example.splitlines()[:3]:
                for prefix in ("", "[rank3]: ", "[rank12]: "):
                    for _ in range(3):
                        text = DIGIT.sub(lambda _: str(chance.randrange(10)), prefix + line)
                        found = asking.take(number, text, len(prefix))
                        assert knowing.take(number, text, len(prefix)) == found
                        taken += found is not None
    assert taken > 3 * len(signatures)


def test_an_expression_with_a_digit_of_its_own_is_asked_about_every_line() -> None:
    signature = msgspec.structs.replace(
        load_signatures()[0], literals=("code",), regex=r"code (?P<code>13[79])", fields={"code": "int"}, predicate=None
    )
    matcher = Matcher([signature])
    assert [matcher.take(0, f"code {code}", 0) for code in (137, 138, 139)] == [{"code": 137}, None, {"code": 139}]


def test_signatures_of_steps_are_those_whose_examples_all_tell_of_a_numbered_one() -> None:
    line = " iteration      100/  500000 | lm loss: 8.123456E+00 | number of nan iterations:   0 |"
    steps = msgspec.structs.replace(
        load_signatures()[0], role="progress", marks=None, literals=("nan iterations",), regex=None, match=(line,)
    )
    others = [
        msgspec.structs.replace(steps, match=(line, "number of nan iterations were counted")),
        msgspec.structs.replace(steps, marks="checkpoint"),
        msgspec.structs.replace(steps, role="root"),
    ]
    assert Matcher([steps, *others]).of_steps == {0}
