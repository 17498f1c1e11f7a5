"""Asks a model over the protocol that OpenAI's servers and most local ones speak, once, with a deadline."""

from __future__ import annotations

from typing import Any

import msgspec

from preflight.errors import UsageError

MOST_ANSWER = 1_000_000
"""Bytes of an answer that are read at most."""


class NoAnswer(Exception):
    """The model did not answer, with the reason in words."""


def address_of(endpoint: str) -> str:
    """Return where a question is sent.

    Raises:
        UsageError: It is no address, or one to which a key would go in the clear.
    """
    from urllib.parse import urlsplit

    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise UsageError(f"--endpoint {endpoint}: is no address of a server", "for example http://127.0.0.1:8000/v1")
    if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise UsageError(f"--endpoint {endpoint}: evidence is sent in the clear only to this machine", "use https")
    return f"{endpoint.rstrip('/')}/chat/completions"


def asked(address: str, body: dict[str, Any], key: str | None, seconds: float) -> str:
    """Return what the model says.

    Raises:
        NoAnswer: It does not, or not in time, or something else answers.
    """
    import http.client
    import urllib.error
    import urllib.request

    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(address, msgspec.json.encode(body), headers, method="POST")
    try:
        with _opener(address).open(request, timeout=seconds) as answer:
            content = answer.read(MOST_ANSWER + 1)
    except urllib.error.HTTPError as error:
        error.close()
        raise NoAnswer(f"the server answered {error.code} {error.reason}") from None
    except (ValueError, http.client.InvalidURL):  # its words may hold the header, and the header the key
        raise NoAnswer("the server cannot be asked: its address or the key has letters that cannot be sent") from None
    except OSError as error:
        raise NoAnswer(f"the server cannot be asked: {getattr(error, 'reason', None) or error}") from None
    except http.client.HTTPException as error:
        raise NoAnswer(f"the server cannot be asked: what answers speaks no HTTP ({type(error).__name__})") from None
    if len(content) > MOST_ANSWER:
        raise NoAnswer("the answer is longer than a megabyte")
    try:
        said = msgspec.json.decode(content)["choices"][0]["message"]["content"]
    except (msgspec.DecodeError, KeyError, IndexError, TypeError):
        said = None
    if not isinstance(said, str):
        raise NoAnswer("the answer is none of a chat completion")
    return said


def _opener(address: str) -> Any:
    """Return what opens an address. This machine is reached without a proxy: nothing in the clear leaves it."""
    import urllib.request

    direct = [urllib.request.ProxyHandler({})] if address.startswith("http://") else []
    return urllib.request.build_opener(_stays(), *direct)


def _stays() -> Any:
    """Return a handler that goes nowhere else than where a person said: neither evidence nor key follows a redirection."""
    import urllib.request

    class Stays(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    return Stays()
