"""Run the public scripts of scripts.toml, or of another list, unmodified, on a virtual H100.

Usage: python benchmarks/dryrun/scripts.py TARGET [NAME...] [--list FILE] [--clones FOLDER] [--seconds S] [--python EXE]

TARGET holds one tree per repository, called owner+name; with --clones, trees that are missing are written there from
local clones. NAME is a part of "owner/name/path". What was seen goes to LIST_results.toml beside the list; scripts that
are not named keep the result they have.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
LARGEST = 20_000_000
"""A bigger file of a repository is data that a clone of it may lack; it is left out."""
_PACKAGE = ("ModuleNotFoundError", "ImportError", "PackageNotFoundError")
_DATA = (
    "FileNotFoundError",
    "NotADirectoryError",
    "ConnectionRefusedError",
    "ConnectionError",
    "LocalEntryNotFoundError",
)


def read(path: Path) -> list[dict[str, Any]]:
    """Return the scripts of a manifest, or the results; an absent file has none."""
    return tomllib.loads(path.read_text(encoding="utf-8"))["scripts"] if path.exists() else []  # type: ignore[no-any-return]


def name_of(entry: dict[str, Any]) -> str:
    """Return how a script is called on the command line."""
    return f"{entry['repository']}/{entry['path']}"


def write_tree(clones: Path, entry: dict[str, Any], target: Path) -> None:
    """Write the files of a commit that its clone has."""
    folder = clones / entry["repository"].replace("/", "+")
    candidates = (folder / "repo" / ".git", folder / "repo", folder / ".git", folder)
    places = [place for place in candidates if (place / "objects").is_dir()]
    if not places:
        raise SystemExit(f"no clone of {entry['repository']} under {clones}")
    git = ["git", "-C", str(places[0])]
    listing = subprocess.run([*git, "ls-tree", "-r", "-z", entry["commit"]], check=True, capture_output=True).stdout
    for row in filter(None, listing.split(b"\0")):
        head, _, name = row.partition(b"\t")
        mode, _, blob = head.decode().split()
        if not mode.startswith("100"):
            continue
        found = subprocess.run([*git, "cat-file", "blob", blob], capture_output=True)
        if found.returncode == 0 and len(found.stdout) <= LARGEST:
            out = target / name.decode("utf-8", "replace")
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_bytes(found.stdout)


def run(entry: dict[str, Any], tree: Path, seconds: float, python: str | None) -> dict[str, Any]:
    """Run one script and return what is said of it."""
    from preflight.catalog.hardware import resolve_gpu
    from preflight.dryrun.launch import Job, dry_run
    from preflight.errors import PreflightError

    gpu = resolve_gpu("h100")
    script = tree / entry["path"]
    began, before = time.monotonic(), os.getcwd()
    os.chdir(tree / entry["folder"] if "folder" in entry else script.parent)
    try:
        seen = dry_run(
            Job(
                script=str(script),
                root=str(tree),
                arguments=tuple(shlex.split(entry.get("arguments", ""))),
                gpu=gpu,
                capacity_bytes=int(gpu.memory_bytes),
                seconds=seconds,
                python=python,
                **_launched(entry),
            )
        )
    except PreflightError as error:
        return {"outcome": "fails", "reason": f"{error} ({error.hint})", "seconds": round(time.monotonic() - began)}
    finally:
        os.chdir(before)
    told: dict[str, Any] = {"outcome": "runs", "steps": seen.steps, "backwards": seen.backwards}
    told |= {"ended": seen.outcome, "peak_bytes": seen.peak_bytes, "seconds": round(time.monotonic() - began)}
    if seen.steps < 2 or seen.outcome == "failed":
        told["outcome"] = "fails"
        if seen.error in _PACKAGE:
            told["outcome"] = "needs package"
        elif seen.error in _DATA:
            told["outcome"] = "needs data"
    if seen.error is not None:
        last = seen.frames[-1] if seen.frames else None
        where = f" at {Path(last.file).name}:{last.line}" if last else ""
        told["reason"] = f"{seen.error}{where}: {(seen.message or '').strip()[:300]}"
    elif seen.steps < 2:
        told["reason"] = f"{seen.outcome} after {seen.steps} optimizer steps"
    if seen.assumptions:
        told["assumptions"] = list(seen.assumptions)
    return told


def _launched(entry: dict[str, Any]) -> dict[str, Any]:
    """Return what the launcher sets for the first process, where the script is not started by itself."""
    if "launch" not in entry:
        return {}
    from preflight.check.dry_run.added import first_of
    from preflight.source.launcher import parse_launch

    launch = parse_launch(entry["launch"])
    return {"environment": first_of(launch, None), "devices": launch.gpus_per_node or 1}


def _quoted(value: Any) -> str:
    import json

    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_quoted(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=True)


def _without(value: Any, folder: str) -> Any:
    """Return a value without the folders that trees and packages lie in, and without folders of a script's author."""
    if isinstance(value, list):
        return [_without(item, folder) for item in value]
    if isinstance(value, str):
        value = re.sub(r"/[^\s'\"()]*/site-packages/", "", value)
        for place in filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)):
            value = value.replace(f"{place}/", "")
    return (
        re.sub(r"/(?:home|root|Users)/[^\s'\",]*", "(a folder)", value.replace(f"{folder}/", ""))
        if isinstance(value, str)
        else value
    )


def write(results: list[dict[str, Any]], path: Path) -> None:
    """Write the results."""
    good = sum(result["outcome"] == "runs" for result in results)
    lines = [f"# Written by scripts.py: {good} of {len(results)} scripts run. Times are of two shared CPU cores.", ""]
    for result in results:
        lines += ["[[scripts]]", *(f"{key} = {_quoted(value)}" for key, value in result.items()), ""]
    path.write_text("\n".join(lines), encoding="utf-8")


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("target", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", type=Path, default=HERE / "scripts.toml")
    parser.add_argument("--clones", type=Path)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--python")
    given = parser.parse_args()
    path = given.list.with_name(f"{given.list.stem}_results.toml")
    entries = read(given.list)
    for entry in entries:
        if given.names and not any(part in name_of(entry) for part in given.names):
            continue
        tree = given.target.resolve() / entry["repository"].replace("/", "+")
        if not tree.is_dir():
            if given.clones is None:
                raise SystemExit(f"{tree} is missing; --clones names a folder of clones to write it from")
            write_tree(given.clones, entry, tree)
        seen = run(entry, tree, given.seconds, given.python)
        seen = {key: _without(value, str(given.target.resolve())) for key, value in seen.items()}
        result = {"repository": entry["repository"], "path": entry["path"], "commit": entry["commit"], **seen}
        print(f"{seen['outcome']:14} {name_of(entry)}  {seen.get('reason', '')[:160]}", flush=True)
        # Read again: another run may have written in the meantime.
        known = {name_of(old): old for old in read(path)} | {name_of(entry): result}
        write([known[name_of(one)] for one in entries if name_of(one) in known], path)


if __name__ == "__main__":
    main()
