"""Keep what a run left behind without what belongs to the machine it was made on."""

from __future__ import annotations

import getpass
import re
import socket
import sys
import sysconfig
from datetime import datetime, timedelta
from pathlib import Path

KEPT = (".log", ".json", ".txt")
ADDRESS = re.compile(r"\b(?:192\.0\.2|10|172\.(?:1[6-9]|2\d|3[01])|192\.168)(?:\.\d{1,3}){1,3}\b")


class Tidy:
    """What stands for what: folders, hosts, users, addresses and the random part of torchrun's folder of logs."""

    def __init__(self, work: Path, program: Path, ahead: dict[str, int] | None = None) -> None:
        self.work, self.ahead = work, ahead or {}
        site = sysconfig.get_paths()["purelib"]
        self.words = [
            (str(work), f"/runs/{work.name}"), (str(program), "/workspace"), (site, "/opt/venv/lib/python3/site-packages"),
            (sysconfig.get_paths()["stdlib"], "/usr/lib/python3"), (str(Path(sys.prefix)), "/opt/venv"),
            (str(Path(sys.base_prefix)), "/usr"), (str(Path.home()), "/home/user"),
        ]  # fmt: skip
        self.words = [pair for pair in self.words if len(pair[0]) > 4]
        self.hosts = sorted({socket.gethostname(), socket.getfqdn()}, key=len, reverse=True)
        self.random = re.compile(r"\b(job|none)_[a-z0-9_]{8}\b(?=/)")

    def text(self, text: str, node: str) -> str:
        for old, new in self.words:
            text = text.replace(old, new)
        for host in self.hosts:
            if host not in ("localhost", ""):
                text = re.sub(rf"(?<![\w-]){re.escape(host)}(?![\w-])", node, text)
        text = re.sub(r"(host\s+: )localhost", rf"\g<1>{node}", text)
        user = getpass.getuser()
        if user != "root":
            text = re.sub(rf"\b{re.escape(user)}\b", "user", text)
        text = self.random.sub(r"\1_0", ADDRESS.sub("10.0.0.1", text))
        return self.by_clock(text, self.ahead[node]) if node in self.ahead else text

    def by_clock(self, text: str, seconds: int) -> str:
        """Every time as a node writes it whose clock is that many seconds ahead."""

        def written(found: re.Match[str]) -> str:
            told = datetime.strptime(found.group(0).replace("_", " "), "%Y-%m-%d %H:%M:%S") + timedelta(seconds=seconds)
            return told.strftime("%Y-%m-%d %H:%M:%S").replace(" ", found.group(1))

        def glogged(found: re.Match[str]) -> str:
            told = datetime.strptime(f"2000{found.group(2)} {found.group(3)}", "%Y%m%d %H:%M:%S")
            return found.group(1) + (told + timedelta(seconds=seconds)).strftime("%m%d %H:%M:%S")

        text = re.sub(r"\b\d{4}-\d\d-\d\d([ _])\d\d:\d\d:\d\d", written, text)
        text = re.sub(r"\b([EWI])(\d{4}) (\d\d:\d\d:\d\d)", glogged, text)
        return re.sub(r'(?<="timestamp": ")\d{10}', lambda found: str(int(found.group(0)) + seconds), text)

    def keep(self, target: Path) -> None:
        """Copy what there is, changed, into a folder; files that say nothing are left out."""
        for path in sorted(self.work.rglob("*")):
            if not path.is_file() or "checkpoints" in path.parts or path.stat().st_size == 0:
                continue
            node = next((part for part in path.parts if re.fullmatch(r"node\d", part)), "node0")
            place = target / self.random.sub(r"\1_0", path.relative_to(self.work).as_posix())
            place.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix in KEPT:
                place.write_text(self.text(path.read_text(errors="replace"), node))
            elif "flight" in path.parts:
                place.write_bytes(self.flight(path.read_bytes(), node))

    def flight(self, content: bytes, node: str) -> bytes:
        """A dump of the Flight Recorder with the names of folders changed; it was written by this very program."""
        import pickle

        return pickle.dumps(self.within(pickle.loads(content), node), protocol=2)

    def within(self, value: object, node: str) -> object:
        if isinstance(value, str):
            return self.text(value, node)
        if isinstance(value, dict):
            return {self.within(key, node): self.within(part, node) for key, part in value.items()}
        if isinstance(value, list):
            return [self.within(part, node) for part in value]
        return value
