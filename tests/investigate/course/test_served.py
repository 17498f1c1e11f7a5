"""Servers that caught what one request raised."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose

_ANSWERED = "".join(f'INFO:     10.0.0.{at % 9}:5{at:04d} - "POST /generate HTTP/1.1" 200 OK\n' for at in range(60))
_RAISED = """Traceback (most recent call last):
  File "/app/serve.py", line 41, in handler
    out = model(prompt)
  File "/app/net.py", line 77, in __call__
    return self.net(prompt)
ValueError: prompt is longer than the context
"""
_CHAINED = (
    _RAISED
    + "\nDuring handling of the above exception, another exception occurred:\n\n"
    + _RAISED.replace("ValueError: prompt is", "RuntimeError: answer is")
)
_HEADS = [
    "ERROR:    Exception in ASGI application\n",
    "[2025-03-01 10:00:00,123] ERROR in app: Exception on /predict [POST]\n",
    "ERROR:aiohttp.server:Error handling request\n",
]


def told(folder: Path, text: str) -> str | None:
    (folder / "serve.log").write_text(text)
    incident = diagnose(folder).incident
    assert incident is not None
    return incident.category


@pytest.mark.parametrize("raised", [_RAISED, _CHAINED])
@pytest.mark.parametrize("head", _HEADS)
def test_what_one_request_raised_ended_no_server_that_answers_the_next(tmp_path: Path, head: str, raised: str) -> None:
    assert told(tmp_path, _ANSWERED + head + raised + _ANSWERED) == "none"


def test_a_server_that_says_no_more_may_have_ended_of_it(tmp_path: Path) -> None:
    assert told(tmp_path, _ANSWERED + _HEADS[0] + _RAISED + "INFO:     Shutting down\n") == "usercode"


def test_what_is_raised_beside_a_request_is_not_of_it(tmp_path: Path) -> None:
    assert told(tmp_path, _ANSWERED + _RAISED + _ANSWERED) == "usercode"
    assert told(tmp_path, _HEADS[0] + _RAISED + _ANSWERED + _RAISED) == "usercode"


def test_memory_that_ran_out_in_a_request_may_be_gone_for_the_next_as_well(tmp_path: Path) -> None:
    full = _RAISED.replace(
        "ValueError: prompt is longer than the context", "torch.OutOfMemoryError: CUDA out of memory."
    )
    assert told(tmp_path, _ANSWERED + _HEADS[0] + full + _ANSWERED) == "oom"


def test_a_server_whose_process_ended_with_an_error_did_not_go_on(tmp_path: Path) -> None:
    assert told(tmp_path, _HEADS[0] + _RAISED + _ANSWERED + "exit code: 1\n") != "none"
