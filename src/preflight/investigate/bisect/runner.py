"""Runs tests and judges them: the same failure or another, kept so that nothing is run twice."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from preflight.errors import UsageError
from preflight.investigate.bisect.failure import HANG, failure_of, infra_of, matches
from preflight.investigate.bisect.outcome import Budget, Outcome
from preflight.investigate.bisect.running import Launch, run

RESULTS = "results.jsonl"
_HASHED = 50_000_000


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One test: how it is started, what it is called, what it takes of GPUs.

    Attributes:
        name: Of what is tested. launch: How. gpus: How many it uses, for the budget. salt: What else it depends on.
    """

    name: str
    launch: Launch
    gpus: int = 1
    salt: str = ""


class Runner:
    """Runs tests; results are kept in a folder, and an interrupted search goes on where it stopped."""

    def __init__(
        self,
        make: Callable[[Any], Trial],
        folder: str,
        *,
        timeout: float,
        wanted: str | None = None,
        retries: int = 2,
        budget: float | None = None,
        fresh: bool = False,
        told: Callable[[Trial, Outcome], None] | None = None,
    ) -> None:
        """Take what makes a test of a value, and the limits.

        Args:
            make: Makes the test of a value.
            folder: Where logs and results are kept.
            timeout: Seconds of one test.
            wanted: The failure that is looked for; None: that of the first test that fails.
            retries: How often a test that was not started properly is tried again.
            budget: GPU-hours that may be spent; what was kept costs nothing.
            fresh: Do not use what was kept.
            told: Hears of every test.
        """
        self.make = make
        self.folder = folder
        self.timeout = timeout
        self.wanted = wanted
        self.retries = retries
        self.budget = budget
        self.told = told
        self.spent = 0.0
        self.ran = 0
        self._asked: dict[str, int] = {}
        self._kept = {} if fresh else _kept_in(folder)
        try:
            os.makedirs(folder, exist_ok=True)
            if fresh:
                with open(os.path.join(folder, RESULTS), "w", encoding="utf-8"):
                    pass
        except OSError as error:
            raise UsageError(
                f"{folder}: no results can be kept there: {error.strerror}", "name a folder: --state"
            ) from None

    def ask(self, value: Any) -> Outcome:
        """Run the test of a value, or return what it said before.

        Raises:
            Budget: Nothing is left to spend.
        """
        test = self.make(value)
        key = key_of(test)
        number = self._asked.get(key, 0)
        self._asked[key] = number + 1
        kept = self._kept.get(key, [])
        if number < len(kept):
            raw = kept[number]
            cached = True
        else:
            raw = self._run(test, key, number)
            cached = False
        outcome = self._judged(raw, cached)
        if self.told is not None:
            self.told(test, outcome)
        return outcome

    def _run(self, test: Trial, key: str, number: int) -> dict[str, Any]:
        """Run a test; what was not started properly is tried again."""
        for attempt in range(self.retries + 1):
            most = test.gpus * self.timeout / 3600.0
            if self.budget is not None and self.spent + most > self.budget + 1e-9:
                raise Budget(
                    f"the budget of {self.budget:g} GPU-hours does not allow another test of {most:.3g}; {self.spent:.3g} are spent"
                )
            log = os.path.join(self.folder, f"{key[:12]}-{number}{f'-{attempt}' if attempt else ''}.log")
            ended = run(test.launch, log, self.timeout)
            self.ran += 1
            self.spent += test.gpus * min(ended.seconds, self.timeout) / 3600.0  # waiting in a queue costs nothing
            raw: dict[str, Any] = {
                "key": key, "test": test.name, "code": ended.code, "seconds": round(ended.seconds, 3), "log": log,
                "failure": None, "text": None, "infra": None,
            }  # fmt: skip
            if ended.code == 0:
                break
            raw["failure"], raw["text"] = failure_of(log, ended.code)
            if ended.code is None:
                break
            raw["infra"] = infra_of(log, ended.code)
            if raw["infra"] is None or (self.wanted is not None and matches(self.wanted, raw["failure"], log)):
                break
        if raw["infra"] is None or raw["code"] == 0:
            self._keep(raw)
        return raw

    def _keep(self, raw: dict[str, Any]) -> None:
        with open(os.path.join(self.folder, RESULTS), "a", encoding="utf-8") as file:
            file.write(json.dumps(raw) + "\n")

    def _judged(self, raw: dict[str, Any], cached: bool) -> Outcome:
        """What a result means for the failure that is looked for; the first failure decides which that is."""
        about = {k: raw[k] for k in ("code", "seconds", "log", "text")} | {
            "cached": cached,
            "signature": raw["failure"],
        }
        if raw["code"] == 0:
            return Outcome(kind="pass", **{**about, "signature": None})
        if self.wanted is None and raw["infra"] is None:
            self.wanted = raw["failure"]
        if self.wanted is not None and matches(self.wanted, raw["failure"], raw["log"]):
            return Outcome(kind="fail", **about)
        if raw["infra"] is not None:
            return Outcome(kind="infra", **{**about, "text": raw["infra"]})
        return Outcome(kind="timeout" if raw["failure"] == HANG else "other-fail", **about)


def key_of(test: Trial) -> str:
    """Return a hash of all that a test is made of: command, environment, and the content of files that it names."""
    told = {
        "argv": test.launch.argv, "environment": test.launch.environment, "folder": test.launch.folder,
        "files": test.launch.files, "salt": test.salt,
        "content": [_content(word, test.launch.folder) for word in test.launch.argv],
    }  # fmt: skip
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _content(word: str, folder: str | None) -> str | None:
    path = os.path.join(folder or "", word)
    try:
        if os.path.isfile(path) and os.path.getsize(path) <= _HASHED:
            with open(path, "rb") as file:
                return hashlib.sha256(file.read()).hexdigest()
    except (OSError, ValueError):
        pass
    return None


def _kept_in(folder: str) -> dict[str, list[dict[str, Any]]]:
    """Results of earlier runs, by key, in their order; a line that was cut off is left out."""
    kept: dict[str, list[dict[str, Any]]] = {}
    try:
        with open(os.path.join(folder, RESULTS), encoding="utf-8") as file:
            lines: Sequence[str] = file.readlines()
    except OSError:
        return kept
    for line in lines:
        try:
            raw = json.loads(line)
            kept.setdefault(raw["key"], []).append(raw)
        except (ValueError, KeyError, TypeError):
            continue
    return kept


__all__ = ["RESULTS", "Runner", "Trial", "key_of"]
