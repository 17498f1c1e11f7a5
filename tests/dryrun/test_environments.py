"""Environments of gym and gymnasium that are not installed."""

from __future__ import annotations

from typing import Any

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


def test_an_environment_of_the_persons_own_begins_anew_through_its_base() -> None:
    class Own(environments.Env):
        def __init__(self) -> None:
            self.observation_space = environments.Box(-1, 1, (3,))

        def reset(self, *, seed: int | None = None) -> object:
            super().reset(seed=seed)
            return self.np_random.random(3), {}

    seen, told = Own().reset(seed=1)
    assert (seen.shape, told) == ((3,), {})


def test_wrappers_of_the_persons_own_change_what_passes() -> None:
    space: dict[str, Any] = {}
    environments.fill("gym_of_another_test", space, 5)

    class Flat(space["ObservationWrapper"]):  # type: ignore[misc]
        def observation(self, seen: Any) -> Any:
            return seen.reshape(2, 2)

    class Paid(space["RewardWrapper"]):  # type: ignore[misc]
        def reward(self, reward: float) -> float:
            return reward + 1

    class Told(space["ActionWrapper"]):  # type: ignore[misc]
        def action(self, action: int) -> int:
            taken.append(action)
            return 0

    taken: list[int] = []
    wrapped = Told(Paid(Flat(environments.make("CartPole-v1", 5))))
    assert wrapped.reset(seed=1)[0].shape == (2, 2)
    seen, reward, *_ = wrapped.step(7)
    assert (seen.shape, reward, taken) == ((2, 2), 1.0, [7])
    assert Flat(environments.make("CartPole-v1", 4)).reset().shape == (2, 2)
