"""Lets programs fail on a GPU in real ways, and asks ``preflight investigate`` what it was.

Usage: python fail.py [PATTERN] [-o failures.toml] [--logs FOLDER] [--together N]
The kinds stand in ``failing.py``, with the categories that are right for each. The logs are kept where --logs says.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from measure import as_toml, machine

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "failing.py"


def failed(kind: str, right: list[str], logs: Path) -> dict[str, Any]:
    """Run one kind; return what was made of its log."""
    folder = logs / kind
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(PROGRAM), kind]
    if kind == "two_ranks_on_one_card":
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29655"]
        command = [*launcher, "--log-dir", str(folder), "--redirects", "3", str(PROGRAM), kind]
    log = folder / "train.log"
    environment = {**os.environ, "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}
    with log.open("w", encoding="utf-8") as into:
        try:
            code = subprocess.run(
                command, stdout=into, stderr=subprocess.STDOUT, env=environment, timeout=120, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            code = 124
    asked = [sys.executable, "-m", "preflight", "investigate", str(folder), "--format", "json"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    found: dict[str, Any] = {"name": kind, "code": code, "right": right}
    try:
        answer = json.loads(told.stdout)
    except json.JSONDecodeError:
        return {**found, "problem": (told.stderr.strip().splitlines() or ["no answer"])[-1][:200]}
    incident = answer["incident"]
    category = incident["root_category"] or "none"
    told_as = {"category": category, "signature": incident["signature"] or "", "headline": incident["headline"]}
    return {**found, "verdict": answer["verdict"], **told_as, "agrees": category in right}


def main() -> int:
    """Run the chosen kinds and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("-o", "--output", default=str(HERE / "failures.toml"))
    parser.add_argument("--logs", default=tempfile.mkdtemp(prefix="failures-"))
    parser.add_argument("--together", type=int, default=4)
    given = parser.parse_args()
    listed = re.findall(r"^# kind: (\w+); category: (.+)$", PROGRAM.read_text(encoding="utf-8"), re.MULTILINE)
    work = [(kind, right.split(", ")) for kind, right in listed if given.pattern in kind]
    # What fills the card goes alone, after the others.
    work.sort(key=lambda pair: pair[0] == "slow_growth")

    def one(pair: tuple[str, list[str]]) -> dict[str, Any]:
        return failed(*pair, Path(given.logs))

    with ThreadPoolExecutor(given.together) as pool:
        rows = list(pool.map(one, [pair for pair in work if pair[0] != "slow_growth"]))
    rows += [one(pair) for pair in work if pair[0] == "slow_growth"]
    for found in rows:
        print(json.dumps(found), file=sys.stderr, flush=True)
    text = as_toml(machine(), rows, "failure", "fail.py")
    Path(given.output).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
