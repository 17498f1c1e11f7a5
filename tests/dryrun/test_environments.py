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


def test_several_are_stepped_together_and_begin_anew() -> None:
    space: dict[str, object] = {}
    environments.fill("gym_of_a_test", space, 5)
    vector = space["vector"]
    envs = vector.SyncVectorEnv([lambda: environments.make("CartPole-v1", 5)] * 3)  # type: ignore[attr-defined]
    assert (envs.num_envs, envs.single_observation_space.shape, envs.single_action_space.n) == (3, (4,), 2)
    assert envs.observation_space.shape == (3, 4)
    seen, _ = envs.reset(seed=1)
    assert seen.shape == (3, 4)
    ended = 0
    for _ in range(environments.EPISODE + 1):
        seen, rewards, over, cut, told = envs.step(envs.action_space.sample())
        assert (seen.shape, rewards.shape, over.shape, cut.any(), told) == ((3, 4), (3,), (3,), False, {})
        ended += int(over.sum())
    assert ended == 3
    assert space["make_vec"]("Pendulum-v1", num_envs=2).action_space.sample().shape == (2, 1)  # type: ignore[operator]
