"""Write the trees named by the corpus manifests from local clones, with plain git.

Usage: python materialise.py CLONES TARGET [scripts|heldout|heldout2|...|bugs ...]

CLONES holds one clone per repository, bare or not, called owner+name, owner/name or name.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
#: The manifests that name scripts, in the order in which they were drawn.
LISTS = ("scripts", *sorted(path.stem for path in HERE.glob("heldout*.toml")), "bugs")
#: What a reader of a training script can follow: code, and the configuration it reads.
SUFFIXES = {".py", ".yaml", ".yml", ".json", ".toml", ".ipynb"}
#: A bigger file is data, not configuration.
LARGEST = 1_000_000


def git_dir(clones: Path, repository: str) -> Path:
    """Find the git directory of ``owner/name`` under ``clones``."""
    owner, name = repository.split("/")
    for folder in (clones / f"{owner}+{name}", clones / owner / name, clones / f"{name}.git", clones / name):
        for candidate in (folder / "repo" / ".git", folder / "repo", folder / ".git", folder):
            if (candidate / "HEAD").is_file() and (candidate / "objects").is_dir():
                return candidate
    raise SystemExit(f"no clone of {repository} under {clones}")


def wanted(repository: Path, commit: str) -> Iterator[tuple[str, str]]:
    """Yield (blob, path) of the files of a commit that a script's reader needs."""
    listing = subprocess.run(
        ["git", "-C", str(repository), "ls-tree", "-r", "-l", "-z", commit], check=True, capture_output=True
    ).stdout
    for row in listing.split(b"\0"):
        if not row:
            continue
        head, _, name = row.partition(b"\t")
        mode, kind, blob, size = head.decode().split()
        path = name.decode("utf-8", "replace")
        # git gives no number where a partial clone lacks the object; main() sees to it that no named file is lacking.
        regular = kind == "blob" and mode.startswith("100") and size.isdecimal()
        if regular and PurePosixPath(path).suffix in SUFFIXES and int(size) <= LARGEST:
            yield blob, path


def write_tree(repository: Path, commit: str, target: Path) -> int:
    """Write the wanted files of ``commit`` under ``target`` and return how many there are."""
    files = list(wanted(repository, commit))
    (target / ".git").mkdir(parents=True, exist_ok=True)  # marks the root, as in any clone
    batch = subprocess.run(
        ["git", "-C", str(repository), "cat-file", "--batch"],
        input="".join(f"{blob}\n" for blob, _ in files).encode(),
        check=True,
        capture_output=True,
    ).stdout
    at = 0
    for blob, path in files:
        line_end = batch.index(b"\n", at)
        answer = batch[at:line_end].decode().split()
        if answer[1:2] != ["blob"]:
            raise SystemExit(f"{repository}: {path} of {commit} is not in this clone ({blob})")
        start, size = line_end + 1, int(answer[2])
        out = target / path
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(batch[start : start + size])
        at = start + size + 1  # git ends each object with a newline of its own
    return len(files)


def read(name: str) -> list[dict[str, Any]]:
    """Return the entries of one manifest."""
    with (HERE / f"{name}.toml").open("rb") as stream:
        return list(tomllib.load(stream)[name])


def trees(name: str) -> dict[str, tuple[str, str, list[str]]]:
    """Map the folder of each tree of a manifest to (repository, commit, paths that must be in it)."""
    found: dict[str, tuple[str, str, list[str]]] = {}
    for entry in read(name):
        repository = entry["repository"]
        if name == "bugs":
            for side, commit in (("before", entry["parent"]), ("after", entry["fix"])):
                found[f"bugs/{entry['name']}/{side}"] = (repository, commit, [entry["script"], *entry["changed"]])
        else:
            folder = f"{'repos' if name == 'scripts' else name}/{repository.replace('/', '+')}"
            _, commit, paths = found.setdefault(folder, (repository, entry["commit"], []))
            if commit != entry["commit"]:
                raise SystemExit(f"{name}.toml names two commits of {repository}")
            paths.append(entry["path"])
    return found


def main(arguments: list[str]) -> None:
    """Write every tree and fail where a named file is missing from it."""
    if not arguments[1:]:
        raise SystemExit(__doc__)
    clones, target = Path(arguments[0]), Path(arguments[1])
    for name in arguments[2:] or LISTS:
        for folder, (repository, commit, paths) in trees(name).items():
            count = write_tree(git_dir(clones, repository), commit, target / folder)
            missing = [path for path in paths if not (target / folder / path).is_file()]
            if missing:
                raise SystemExit(f"{repository} at {commit} has no {', '.join(missing)}")
            print(f"{folder}: {count} files of {repository} at {commit[:12]}")


if __name__ == "__main__":
    main(sys.argv[1:])
