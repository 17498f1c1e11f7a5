"""What ranks write into the store, under which names; every read is one that does not wait for a key."""

from __future__ import annotations

import json
import os
from typing import Any

from preflight.errors import UsageError
from preflight.investigate.liveness.bounded import Bounded, StoreSilent

PREFIX = "preflight/liveness"


def endpoint_of(text: str | None) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``, or, without a text, of torchrun's variables.

    Raises:
        UsageError: Neither tells them.
    """
    if text is None:
        host, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
        if not host or not port:
            raise UsageError(
                "there is no store: MASTER_ADDR and MASTER_PORT are not set", "name one: --store HOST:PORT"
            )
    else:
        host, _, port = text.rpartition(":")
        host = host.strip("[]")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageError(f"{text!r} is no store", "a store is HOST:PORT: --store node0:29500")
    return host, int(port)


class Board:
    """The keys of one attempt of a run in a TCPStore; the connection is this board's own.

    Args:
        endpoint: Host and port of the store.
        run: Name of the run and attempt, so that an earlier attempt is not taken for this one.
        seconds: How long one call may take.
    """

    def __init__(self, endpoint: tuple[str, int], run: str = "", seconds: float = 5.0, store: Any = None) -> None:
        self.endpoint, self.run, self.seconds = endpoint, run, seconds
        self._bounded = Bounded()
        self._store = store

    @property
    def _name(self) -> str:
        return f"the store at {self.endpoint[0]}:{self.endpoint[1]}"

    def connect(self, seconds: float | None = None) -> None:
        """Connect to the store.

        Raises:
            StoreSilent: Nobody answers there in time.
        """
        limit = self.seconds if seconds is None else seconds
        if self._store is None:
            load()
            self._store = self._bounded.call(lambda: _connect(self.endpoint, limit), limit + 0.5, self._name)

    def _do(self, function: Any) -> Any:
        self.connect()
        return self._bounded.call(lambda: function(self._store), self.seconds, self._name)

    def close(self) -> None:
        """Give up the connection."""
        self._bounded.close()
        self._store = None

    def _key(self, what: str, rank: int | None = None) -> str:
        return f"{PREFIX}/{self.run}/{what}" + ("" if rank is None else f"/{rank}")

    def announce(self, world_size: int) -> None:
        """Say which run is on, and how many ranks it has."""
        said = json.dumps({"run": self.run, "world_size": world_size})
        self._do(lambda store: (store.set(f"{PREFIX}/on", said), store.add(f"{PREFIX}/announced", 1)))

    def announced(self) -> tuple[str, int] | None:
        """Return the run that is on and its number of ranks, or None when nobody said."""

        def read(store: Any) -> Any:
            return store.get(f"{PREFIX}/on") if store.add(f"{PREFIX}/announced", 0) else None

        said = self._do(read)
        if said is None:
            return None
        told = json.loads(said)
        return str(told["run"]), int(told["world_size"])

    def introduce(self, rank: int, who: dict[str, Any]) -> None:
        """Say who a rank is; its heart beats for the first time."""
        key, said = self._key("who", rank), json.dumps(who)
        self._do(lambda store: (store.set(key, said), store.add(self._key("beat", rank), 1)))

    def beat(self, rank: int) -> None:
        """Beat once."""
        self._do(lambda store: store.add(self._key("beat", rank), 1))

    def beats(self, ranks: list[int]) -> dict[int, int]:
        """Return how often each heart has beaten; 0: never heard of. Takes one round trip a rank, and never waits."""
        return dict(self._do(lambda store: [(rank, store.add(self._key("beat", rank), 0)) for rank in ranks]))

    def who(self, rank: int) -> dict[str, Any]:
        """Return what a rank, whose heart has beaten, said of itself."""
        told = json.loads(self._do(lambda store: store.get(self._key("who", rank))))
        return dict(told)

    def tell(self, what: str, rank: int, value: str) -> None:
        """Note something of a rank: ``step``, ``look`` (what a neighbour saw), ``left``."""
        key = self._key(what, rank)
        self._do(lambda store: (store.set(key, value), store.add(f"{key}/told", 1)))

    def told(self, what: str, rank: int) -> str | None:
        """Return what was noted of a rank, or None."""
        key = self._key(what, rank)
        value = self._do(lambda store: store.get(key) if store.add(f"{key}/told", 0) else None)
        return None if value is None else bytes(value).decode("utf-8", "replace")


def load() -> None:
    """Import torch, which takes seconds and is no part of any deadline.

    Raises:
        StoreSilent: It is not there.
    """
    try:
        import torch.distributed  # noqa: F401
    except ImportError as error:
        raise StoreSilent("a store is spoken to with torch, which is not installed here") from error


def _connect(endpoint: tuple[str, int], seconds: float) -> Any:
    from datetime import timedelta

    from torch.distributed import TCPStore

    host, port = endpoint
    return TCPStore(host, port, is_master=False, timeout=timedelta(seconds=max(seconds, 1.0)), wait_for_workers=False)
