"""Environments of gym and gymnasium, where these are not installed: spaces of the published sizes, rewards of zero.

Whether ``step`` gives four values or five, and ``reset`` one or two, is read off the statement that takes them.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import lru_cache
from types import FrameType, ModuleType
from typing import Any

from preflight.dryrun.virtual.absent import missing, uses

EPISODE = 32
"""Steps after which an episode is over."""
SIZES: dict[str, tuple[tuple[int, ...] | int, int, float]] = {
    "CartPole": ((4,), -2, 0),
    "MountainCarContinuous": ((2,), 1, 1.0),
    "MountainCar": ((2,), -3, 0),
    "Acrobot": ((6,), -3, 0),
    "Pendulum": ((3,), 1, 2.0),
    "LunarLanderContinuous": ((8,), 2, 1.0),
    "LunarLander": ((8,), -4, 0),
    "BipedalWalker": ((24,), 4, 1.0),
    "FrozenLake": (16, -4, 0),
    "Taxi": (500, -6, 0),
    "HalfCheetah": ((17,), 6, 1.0),
    "Hopper": ((11,), 3, 1.0),
    "Walker2d": ((17,), 6, 1.0),
    "Swimmer": ((8,), 2, 1.0),
    "InvertedPendulum": ((4,), 1, 3.0),
    "InvertedDoublePendulum": ((11,), 1, 1.0),
    "Reacher": ((11,), 2, 1.0),
    "Ant": ((111,), 8, 1.0),
    "Humanoid": ((376,), 17, 0.4),
    "Pong": ((210, 160, 3), -6, 0),
    "Breakout": ((210, 160, 3), -4, 0),
    "SpaceInvaders": ((210, 160, 3), -6, 0),
    "Qbert": ((210, 160, 3), -6, 0),
    "BeamRider": ((210, 160, 3), -9, 0),
}
"""The shape of an observation (or how many there are), the numbers of an action (negative: choices), its largest value."""


class Box:
    """A space of numbers."""

    def __init__(
        self, low: Any, high: Any, shape: tuple[int, ...] | None = None, dtype: Any = "float32", seed: Any = None
    ) -> None:
        import numpy as np

        self.shape = tuple(shape if shape is not None else np.shape(low))
        self.low, self.high = np.full(self.shape, low, dtype), np.full(self.shape, high, dtype)
        self.dtype = np.dtype(dtype)
        self._draw = np.random.RandomState(0)

    def seed(self, seed: Any = None) -> None:
        """Nothing hangs on the seed."""

    def contains(self, _: Any) -> bool:
        """Whatever is asked for lies in it."""
        return True

    def sample(self) -> Any:
        """Return numbers between the bounds."""
        import numpy as np

        low, high = np.maximum(self.low, -1e3), np.minimum(self.high, 1e3)
        return (low + (high - low) * self._draw.rand(*self.shape)).astype(self.dtype)


class Discrete:
    """A space of choices."""

    shape: tuple[int, ...] = ()

    def __init__(self, n: int, seed: Any = None, start: int = 0) -> None:
        import numpy as np

        self.n, self._draw, self.dtype = n, np.random.RandomState(0), np.dtype("int64")

    seed, contains = Box.seed, Box.contains

    def sample(self) -> Any:
        """Return a choice."""
        return int(self._draw.randint(self.n))


class Env:
    """An environment; with a name, one of the published ones.

    Args:
        sizes: What it observes and takes.
        values: How many values ``step`` gives where the code does not say.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012
    reward_range = (-float("inf"), float("inf"))
    render_mode = spec = None
    _at: int | None = None

    def __init__(self, sizes: Any = None, values: int = 5) -> None:
        if sizes is None:
            return
        seen, taken, largest = sizes
        kind, top = ("uint8", 255) if isinstance(seen, tuple) and len(seen) == 3 else ("float32", 10.0)
        self.observation_space: Any = (
            Discrete(seen) if isinstance(seen, int) else Box(0 if kind == "uint8" else -top, top, seen, kind)
        )
        self.action_space: Any = Discrete(-taken) if taken < 0 else Box(-largest, largest, (taken,))
        self._values, self._at, self._max_episode_steps = values, 0, EPISODE

    @property
    def unwrapped(self) -> Any:
        """Return itself."""
        return self

    @property
    def np_random(self) -> Any:
        """Numbers at random, for an environment of the person's own."""
        import numpy as np

        self._draw = self.__dict__.get("_draw") or np.random.default_rng(0)
        return self._draw

    def reset(self, **_: Any) -> Any:
        """Return a first observation; nothing to an environment of the person's own, which makes its observations itself."""
        if self._at is None:
            return None
        self._at = 0
        several = taken(sys._getframe(1), "reset") or (2 if self._values == 5 else 1)
        seen = self.observation_space.sample()
        return (seen, {}) if several == 2 else seen

    def step(self, action: Any) -> Any:
        """Return another one, no reward, and whether the episode is over."""
        self._at = (self._at or 0) + 1
        over = self._at >= EPISODE
        seen = self.observation_space.sample()
        values = taken(sys._getframe(1), "step") or self._values
        return (seen, 0.0, over, False, {}) if values == 5 else (seen, 0.0, over, {})

    def seed(self, seed: Any = None) -> list[Any]:
        """Nothing hangs on the seed."""
        return [seed]

    def render(self, *_: Any, **__: Any) -> None:
        """There is nothing to see."""

    def close(self) -> None:
        """There is nothing to close."""


class Wrapper(Env):
    """What passes on."""

    def __init__(self, env: Any, *_: Any, **__: Any) -> None:
        self.env = env

    def __getattr__(self, name: str) -> Any:
        if name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

    def reset(self, **kwargs: Any) -> Any:
        """Pass on."""
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> Any:
        """Pass on."""
        return self.env.step(action)


class ObservationWrapper(Wrapper):
    """Passes observations through ``observation``."""

    def reset(self, **kwargs: Any) -> Any:
        """Change what is seen first."""
        found = self.env.reset(**kwargs)
        return (self.observation(found[0]), *found[1:]) if isinstance(found, tuple) else self.observation(found)

    def step(self, action: Any) -> Any:
        """Change what is seen."""
        seen, *more = self.env.step(action)
        return (self.observation(seen), *more)


class RewardWrapper(Wrapper):
    """Passes rewards through ``reward``."""

    def step(self, action: Any) -> Any:
        """Change the reward."""
        seen, reward, *more = self.env.step(action)
        return (seen, self.reward(reward), *more)


class ActionWrapper(Wrapper):
    """Passes actions through ``action``."""

    def step(self, action: Any) -> Any:
        """Change what is done."""
        return self.env.step(self.action(action))


@lru_cache(maxsize=256)
def _taken(filename: str, line: int, method: str) -> int | None:
    for node in ast.walk(uses.tree(filename)):
        if isinstance(node, ast.Assign) and node.lineno <= line <= (node.end_lineno or line):
            value, target = node.value, node.targets[0]
            if isinstance(value, ast.Call) and uses.called(value)[0] == method:
                return len(target.elts) if isinstance(target, ast.Tuple) else 1 if method == "reset" else None
            if isinstance(value, ast.Tuple) and method == "reset":
                return 1
            if isinstance(value, ast.Subscript) and method == "reset":
                return 2
    return None


def taken(frame: FrameType, method: str) -> int | None:
    """Return how many values a statement takes of what a method gives, or None where it does not say."""
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back  # a wrapper passes on what its caller asks for
    return _taken(frame.f_code.co_filename, frame.f_lineno, method)


def make(name: Any, values: int) -> Env:
    """Return an environment by its published name.

    Raises:
        ValueError: Its sizes are not known.
    """
    stem = re.sub(r"(NoFrameskip|Deterministic)?-v\d+$", "", str(name).rpartition("/")[2])
    if stem not in SIZES:
        raise ValueError(f"environment {name} is not known without its package; known are {', '.join(sorted(SIZES))}")
    missing.assume(f"environment {name}: observations at random, no rewards, episodes of {EPISODE} steps")
    return Env(SIZES[stem], values)


def fill(package: str, space: dict[str, Any], values: int) -> None:
    """Give a package its names and its modules.

    Args:
        package: Its name.
        space: Its names.
        values: How many values ``step`` gives in it.
    """
    from preflight.dryrun.virtual.absent import vectors

    together = vectors.module(lambda name: make(name, values))
    parts: dict[str, dict[str, Any]] = {
        "spaces": {"Box": Box, "Discrete": Discrete, "MultiDiscrete": vectors.MultiDiscrete, "Space": Box},
        "vector": together,
        "wrappers": {
            name: type(name, (Wrapper,), {})
            for name in "RecordEpisodeStatistics RecordVideo ClipAction NormalizeObservation NormalizeReward TimeLimit "
            "TransformObservation TransformReward FlattenObservation Monitor RescaleAction".split()
        },
    }
    for name, wrapper in list(parts["wrappers"].items()):
        parts["wrappers." + re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()] = {name: wrapper}
    for name in ("box", "discrete", "space"):
        parts[f"spaces.{name}"] = {name.capitalize(): parts["spaces"][name.capitalize()]}
    parts |= {"vector.sync_vector_env": together, "vector.async_vector_env": together, "vector.vector_env": together}
    for name, content in parts.items():
        module = ModuleType(f"{package}.{name}")
        module.__dict__.update(content, __path__=[])
        sys.modules[module.__name__] = module
        above, _, last = name.rpartition(".")
        (space[above].__dict__ if above else space)[last] = module
    space.update(
        Env=Env, Wrapper=Wrapper, ObservationWrapper=ObservationWrapper, RewardWrapper=RewardWrapper, ActionWrapper=ActionWrapper,
        Space=Box, make=lambda name, *_, **__: make(name, values), make_vec=together["make"], __version__="0.21.0" if values == 4 else "1.0.0",
    )  # fmt: skip
