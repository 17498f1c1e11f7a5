"""Several environments of gym and gymnasium that are stepped together, where these are not installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from preflight.dryrun.virtual.absent.environments import Box, Discrete, Env, taken


class MultiDiscrete(Box):
    """A space of several choices."""

    def __init__(self, nvec: Any, dtype: Any = "int64", seed: Any = None) -> None:
        import numpy as np

        self.nvec = np.asarray(nvec)
        super().__init__(0, 1, self.nvec.shape, dtype)

    def sample(self) -> Any:
        """Return a choice for each."""
        return (self._draw.rand(*self.shape) * self.nvec).astype(self.dtype)


class VectorEnv:
    """Environments that begin anew by themselves when they are over.

    Args:
        env_fns: What makes each of them.
    """

    metadata: dict[str, Any] = {}  # noqa: RUF012
    spec = render_mode = None

    def __init__(self, env_fns: Sequence[Callable[[], Any]], *_: Any, **__: Any) -> None:
        self.envs = [make() for make in env_fns]
        self.num_envs = len(self.envs)
        first = self.envs[0]
        self.single_observation_space, self.single_action_space = first.observation_space, first.action_space
        self.observation_space = _together(self.single_observation_space, self.num_envs)
        self.action_space = _together(self.single_action_space, self.num_envs)

    @property
    def unwrapped(self) -> Any:
        """Return itself."""
        return self

    def reset(self, **_: Any) -> Any:
        """Return the first observations."""
        import numpy as np

        several = taken(sys._getframe(1), "reset") or (2 if self._values == 5 else 1)
        seen = np.stack([_first(env.reset()) for env in self.envs])
        return (seen, {}) if several == 2 else seen

    @property
    def _values(self) -> int:
        inner: Any = self.envs[0].unwrapped
        return int(getattr(inner, "_values", 5))

    def step(self, actions: Any) -> Any:
        """Return the next observations, no rewards, and which episodes are over."""
        import numpy as np

        values = taken(sys._getframe(1), "step") or self._values
        seen, rewards, over = [], [], []
        for env, action in zip(self.envs, actions):  # noqa: B905
            found = env.step(action)
            ended = any(bool(one) for one in found[2:-1])
            seen.append(_first(env.reset()) if ended else found[0])
            rewards.append(found[1])
            over.append(ended)
        told: tuple[Any, ...] = (np.stack(seen), np.asarray(rewards, "float64"), np.asarray(over))
        return (*told, np.zeros(self.num_envs, bool), {}) if values == 5 else (*told, {})

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return what each gives."""
        found = [getattr(env, name) for env in self.envs]
        return tuple(one(*args, **kwargs) if callable(one) else one for one in found)

    seed, render, close = Env.seed, Env.render, Env.close


class VectorWrapper:
    """What passes on."""

    def __init__(self, env: Any, *_: Any, **__: Any) -> None:
        self.env = env

    def __getattr__(self, name: str) -> Any:
        if name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)


def _first(seen: Any) -> Any:
    return seen[0] if isinstance(seen, tuple) else seen


def _together(space: Any, count: int) -> Any:
    """Return the space of several values of one."""
    import numpy as np

    if isinstance(space, Discrete):
        return MultiDiscrete(np.full(count, space.n))
    return Box(np.stack([space.low] * count), np.stack([space.high] * count), dtype=space.dtype)


def module(make: Callable[[Any], Any]) -> dict[str, Any]:
    """Return what ``gymnasium.vector`` holds.

    Args:
        make: Makes one environment by its name.
    """

    def several(name: Any, num_envs: int = 1, **_: Any) -> VectorEnv:
        return VectorEnv([lambda: make(name)] * num_envs)

    return {
        "VectorEnv": VectorEnv, "SyncVectorEnv": VectorEnv, "AsyncVectorEnv": VectorEnv, "VectorWrapper": VectorWrapper,
        "VectorEnvWrapper": VectorWrapper, "make": several,
    }  # fmt: skip
