"""Take out of an incident what must not leave the house: keys and tokens, and whose home a path lies in.

An incident is passed around: it goes into tickets, chats and public threads. Its quotes are lines of logs, and programs
print their environment, their command lines and their addresses there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
HIDDEN, PERSON, ADDRESS = "[redacted]", "[user]", "[address]"
PLACES = (HIDDEN, PERSON, ADDRESS)
"""What stands in the place of what was taken out."""

# No name is longer: of a line that is one long word each place would be looked at from each other one.
_PART = r"[\w.-]{0,64}"
_NAMES = rf"{_PART}(?:api[_-]?key|access[_-]?key|secret|passw(?:or)?d|pwd|token|credential|private[_-]?key|auth){_PART}"
_TOKENS = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?",  # JSON web tokens
    r"\bgh[opsur]_[A-Za-z0-9]{20,}\b",  # GitHub
    r"\bgithub_pat_\w{20,}\b",
    r"\bglpat-[\w-]{16,}",  # GitLab
    r"\bhf_[A-Za-z0-9]{16,}\b",  # Hugging Face
    r"\bsk-[A-Za-z0-9_-]{16,}",  # OpenAI, Anthropic and others
    r"\bxox[abeoprs]-[\w-]{10,}",  # Slack
    r"\bhooks\.slack\.com/services/[\w/]+",
    r"\b(?:AKIA|ASIA|AGPA|AROA|ANPA|AIDA)[A-Z0-9]{16}\b",  # AWS
    r"\bAIza[\w-]{30,}",  # Google
    r"\bya29\.[\w-]{20,}",
    r"\bwandb_v1_\w{20,}\b",
    r"\bnvapi-[\w-]{20,}",
    r"\bSG\.[\w-]{16,}\.[\w-]{16,}",  # SendGrid
    r"\bnpm_[A-Za-z0-9]{30,}\b",
    r"\bpypi-[\w-]{40,}",
    r"\bdckr_pat_[\w-]{20,}",
    r"\bkey-[0-9a-f]{32}\b",
)
_WHOLE = re.compile("|".join(f"(?:{pattern})" for pattern in _TOKENS))
_VALUE = r"(?P<value>\"[^\"]*\"|'[^']*'|<[^<>\n]{1,40}>(?=[\s,;\]]|$)|(?:bearer|basic|token)\s+\S+|[^\s,;}\]\"']+)"
_CLASS = r"(?![\w.]{0,128}(?-i:Error|Exception|Warning)\b)"
"""The name of an exception is no name of a secret, and what stands behind it is its message."""
# name=value, "name": "value"; a value in quotes ends with its quote
_NAMED = re.compile(rf"(?i)(?P<name>\b{_CLASS}{_NAMES})(?P<sign>\\*[\"']?\s*(?:=|:|=>)\s*\\*){_VALUE}")
# --name value: of a word and a word behind it only an option takes its value so
_OPTION = re.compile(rf"(?i)(?P<name>(?<=--){_NAMES})(?P<sign>[\"',]*\s+(?!-))(?=\S){_VALUE}")
# Authorization: Scheme value
_HEADER = re.compile(
    r"(?i)(?P<name>\bauthorization)(?P<sign>\\*[\"']?\s*[:=]\s*\\*)(?P<value>[\"']?[a-z][\w-]*\s+[^\s\"',;]{6,})"
)
_BEARER = re.compile(r"(?i)\b(?P<how>bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}")
_IN_ADDRESS = re.compile(r"(?P<scheme>\b[a-zA-Z][\w+.-]{0,32}://)(?P<user>[^\s/:@]*):(?P<word>[^\s/@]+)@")
_USER_ALONE = re.compile(r"(?P<scheme>\b[a-zA-Z][\w+.-]{0,32}://)[^\s/:@]{16,}@")
_IN_QUERY = re.compile(r"(?i)(?P<name>[?&](?:sig|signature|token|key|x-amz-[\w-]+|access_token|sv|se)=)[^&\s\"']+")
_HOME = re.compile(
    r"(?P<root>(?:[A-Za-z]:)?(?:[\\/](?:home|Users|fsx/(?:home|users)|lustre/(?:home|users)|scratch|data/home|mnt/(?:home|users)|nfs/home|gpfs/(?:home|users)|export/home|u|user|users|usr/people))[\\/])(?P<user>[A-Za-z0-9._-]+)(?=[\\/\s\"':,)\]]|$)"
)
_MAIL = re.compile(r"\b[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+\b")
_WORDS = (
    r"an?|and|any|are|argument|as|at|be|by|can(?:not)?|could|do(?:es)?|empty|error|expected|expired|failed|flag|for|from|had|has|have|header"
    r"|ids?|if|in|invalid|is|may|might|missing|must|needs?|no|not|of|on|option|or|parameter|per|required|requires|set|shall|should|that"
    r"|the|this|to|unable|value|was|were|when|which|will|with(?:out)?|would|you|your"
)
"""What goes on behind the name of a secret where a sentence speaks of it: ``--token must be set``."""
_NOT_SECRET = re.compile(
    rf"(?i)^[\"']?(?:none|null|true|false|not set|unset|\*+|<[^>]*>|\$\{{?\w+\}}?|\d{{1,6}}|.{{1,2}}|(?-i:\[[A-Z]{{2,5}})|\(?default:?|torch\.(?:Size\(.*|b?float\d*|u?int\d+|long|bool)"
    rf"|b?float\d+|u?int\d+|{_WORDS})[\"'`).:]*$"
)
# Names that have such a word in them and hold no secret: counts of tokens, special tokens, authors of a commit.
_COUNTS = re.compile(
    r"(?i)[\w-]*tokens(?:[_-][\w-]*)?|[\w-]*tokenizer[\w-]*|token[_-]type[\w-]*|[\w-]*token[_-](?:ids?|counts?|level|embed)[\w-]*|[\w-]*(?:pad|eos|bos|unk|mask|sep|cls|image|special|next)[_-]token[\w-]*|authors?|author_\w+|authority"
)


def redact_text(text: str, *, paths: bool = True) -> str:
    """Return a text without keys, tokens and passwords, and, unless told otherwise, without names of people in paths."""
    shown = _WHOLE.sub(HIDDEN, text)
    shown = _IN_ADDRESS.sub(lambda found: f"{found['scheme']}{HIDDEN}@", shown)
    shown = _USER_ALONE.sub(lambda found: f"{found['scheme']}{HIDDEN}@", shown)
    shown = _IN_QUERY.sub(lambda found: f"{found['name']}{HIDDEN}", shown)
    for pattern in (_HEADER, _NAMED, _OPTION):
        shown = pattern.sub(_named, shown)
    shown = _BEARER.sub(lambda found: f"{found['how']} {HIDDEN}", shown)
    if paths:
        shown = _HOME.sub(lambda found: f"{found['root']}{PERSON}", shown)
        shown = _MAIL.sub(ADDRESS, shown)
    return shown


def redact_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command line without the values of options that name a secret, and without what looks like one."""
    kept: list[str] = []
    secret = False
    for word in words:
        name, sign, value = word.partition("=")
        if secret and not word.startswith("-"):
            kept.append(HIDDEN)
        elif sign and value and _names_a_secret(name):
            kept.append(f"{name}={HIDDEN}")
        else:
            kept.append(redact_text(word, paths=False))
        secret = not sign and _names_a_secret(word)
    return tuple(kept)


def _names_a_secret(option: str) -> bool:
    """Whether an option takes a secret: a key, a password, the address of a hook."""
    name = option.lstrip("-")
    if not option.startswith("-") or _COUNTS.fullmatch(name):
        return False
    return bool(re.fullmatch(rf"(?i){_NAMES}|[\w-]*webhook[\w-]*", name))


def _named(found: re.Match[str]) -> str:
    value = found["value"]
    if _NOT_SECRET.match(value) or HIDDEN[:-1] in value or _COUNTS.fullmatch(found["name"].rpartition(".")[2]):
        return found[0]
    if value == found["name"].upper().replace("-", "_"):
        return found[0]  # what a usage calls the value
    if (found["name"] in ("PWD", "OLDPWD") and value.startswith("/")) or found["name"].endswith((".weight", ".bias")):
        return found[0]  # the folder that a shell is in; a parameter of a model
    quote = value[0] if value[0] in "\"'" else ""
    return f"{found['name']}{found['sign']}{quote}{HIDDEN}{quote}"


def redact(value: T, *, paths: bool = True) -> T:
    """Return a frozen value (an incident, a report) in which every text is redacted."""
    plain = msgspec.to_builtins(value)
    changed: T = msgspec.convert(_walk(plain, lambda text: redact_text(text, paths=paths)), type(value))
    return changed


def _walk(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _walk(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_walk(item, change) for item in value]
    return value
