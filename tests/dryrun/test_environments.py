"""Environments of gym and gymnasium that are not installed."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("numpy")
from preflight.dryrun.virtual.absent import environments

pytestmark = pytest.mark.torch


def test_an_environment_gives_as_many_values_as_the_code_takes() -> None:
    older = environments.make("HalfCheetah-v2", 4)
    assert older.observation_space.shape == (17,)
    assert older.action_space.sample().shape == older.action_space.high.shape == (6,)
    first, over = older.reset(), False
    assert first.shape == (17,)
    count = 0
    while not over:
        _, reward, over, _ = older.step(older.action_space.sample())
        count += 1
    assert (reward, count) == (0.0, environments.EPISODE)
    first, told = older.reset(seed=3)
    assert told == {}
    _, _, over, cut, _ = older.step(None)
    assert over is False
    assert cut is False


def test_names_are_met_with_and_without_their_release() -> None:
    assert environments.make("PongNoFrameskip-v4", 5).observation_space.dtype == "uint8"
    assert environments.make("ALE/Pong-v5", 5).action_space.n == 6
    with pytest.raises(ValueError, match=r"known are .*CartPole"):
        environments.make("MyOwn-v0", 5)
