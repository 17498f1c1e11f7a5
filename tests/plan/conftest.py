"""What tests of plan share: requests by the words of the command line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from preflight.plan.inputs.command_line import request_of
from preflight.plan.request import Request
from preflight.plan.spread import settled

_OPTIONS = {
    "gpus": "cluster__num_gpus",
    "strategy": "distribution__strategy",
    "sequence_length": "model__sequence_length",
    "attention": "run__attention",
    "micro_batch": "run__micro_batch",
}


def _asked(*words: str, **options: object) -> Request:
    return settled(request_of(words, {_OPTIONS[name]: value for name, value in options.items()}))


@pytest.fixture(scope="session")
def asked() -> Callable[..., Request]:
    """A settled request: ``asked("7", "32", gpus=8, strategy="fsdp")``."""
    return _asked
