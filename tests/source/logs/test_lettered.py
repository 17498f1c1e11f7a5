"""Lines of TensorFlow's and XLA's own logger, by the letter of their level."""

from __future__ import annotations

import re

import pytest

from preflight.source.logs.lettered import lettered

_LOW = re.compile(lettered("IW"))


@pytest.mark.parametrize(
    "line",
    [
        "I tensorflow/core/platform/cpu_feature_guard.cc:182] This binary is optimized",
        "2026-11-28 18:18:14.200: W external/local_xla/xla/stream_executor/cuda/cuda_driver.cc:326] failed call to cuInit",
        "W0000 00:00:1717141650.890307    9276 cuda_executor.cc:1015] successful NUMA node read had negative value",
    ],
)
def test_the_letter_tells_information_and_warnings(line: str) -> None:
    assert _LOW.search(line)


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-28 18:18:14.200: E external/local_xla/xla/stream_executor/cuda/cuda_driver.cc:326] failed call to cuInit",
        "F external/local_xla/xla/debug_options_flags.cc:97] Check failed: ",
        "I tensorflow is not installed",
        "W519 19:51:11.382409199 CUDACachingAllocator.cpp:495] expandable_segments: memory mapping failed",
    ],
)
def test_errors_words_and_other_loggers_are_none(line: str) -> None:
    assert not _LOW.search(line)
