"""What a model answered, read and checked: every line that it cites is looked for in what was sent."""

from __future__ import annotations

from typing import Any

import msgspec

from preflight.investigate.opinion.asking import NoAnswer, address_of, asked
from preflight.investigate.opinion.question import Question
from preflight.investigate.redaction import redact_text
from preflight.vocabulary.incident import Quote
from preflight.vocabulary.opinion import Claim, Opinion

MOST_CLAIMS = 12
MOST_WORDS = 1000
LEAST_CITED = 8
"""Characters that a citation has to have: two words stand everywhere."""


def opinion_of(question: Question, *, endpoint: str, key: str | None, seconds: float) -> Opinion:
    """Ask, and return what was answered; a server that does not answer is a reason, not an error."""
    model = str(question.body["model"])
    try:
        said = asked(address_of(endpoint), question.body, key, seconds)
    except NoAnswer as error:
        return Opinion(model=model, endpoint=endpoint, reason=str(error))
    return read(said, question, endpoint)


def read(said: str, question: Question, endpoint: str) -> Opinion:
    """Return an answer as an opinion; one that is not in the form asked for is no hypothesis."""
    model = str(question.body["model"])
    content = _object(said)
    hypothesis = _words(content.get("hypothesis")) if content is not None else None
    if content is None or not hypothesis:
        return Opinion(model=model, endpoint=endpoint, reason="its answer is not in the form that was asked for")
    reasons = content.get("reasons")
    claims = [_claim(one, question) for one in reasons[:MOST_CLAIMS]] if isinstance(reasons, list) else []
    return Opinion(model=model, endpoint=endpoint, hypothesis=hypothesis, check=_words(content.get("check")),
                   claims=tuple(one for one in claims if one is not None))  # fmt: skip


def _object(said: str) -> dict[str, Any] | None:
    """Return the JSON object in an answer, which models like to put between fences."""
    low, high = said.find("{"), said.rfind("}")
    if low < 0 or high < low:
        return None
    try:
        content = msgspec.json.decode(said[low : high + 1])
    except msgspec.DecodeError:
        return None
    return content if isinstance(content, dict) else None


def _words(value: Any) -> str | None:
    """Return text on one line; a model may repeat what it read elsewhere, so it is redacted as well."""
    return redact_text(" ".join(value.split())[:MOST_WORDS]) if isinstance(value, str) and value.strip() else None


def _claim(given: Any, question: Question) -> Claim | None:
    if not isinstance(given, dict) or not (text := _words(given.get("text"))):
        return None
    cited = _words(given.get("quote")) or ""
    return Claim(text=text, cited=cited, quote=_found(cited, given.get("evidence"), question))


def _found(cited: str, name: Any, question: Question) -> Quote | None:
    """Return the line that holds the cited words: the one that is named, and no other."""
    quote = question.lines.get(name) if isinstance(name, str) else None
    if quote is None or len(cited) < LEAST_CITED:
        return None
    return quote if cited in " ".join(quote.text.split()) else None
