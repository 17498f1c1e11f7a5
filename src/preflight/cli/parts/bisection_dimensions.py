"""What can be bisected from the command line, and how a test of each is made."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from preflight.cli.parts.bisection_plan import Plan, needs, started
from preflight.errors import InputError, UsageError
from preflight.investigate.bisect.lattice import Shape, sizes_between
from preflight.investigate.bisect.launchers import Point, names_in
from preflight.investigate.bisect.runner import Trial
from preflight.investigate.bisect.search import most_tests, most_untold, passes_needed

_PLACES_OF_SIZE = {"gpus", "nodes", "gpus_per_node"}


def of_numbers(
    dimension: str, program: Sequence[str], given: Mapping[str, Any], state: str, shape: Shape, chance: float | None
) -> Plan:
    """Sizes, batches or layers."""
    works, fails = given[dimension]
    if works == fails:
        raise UsageError(
            f"--{dimension} {works} {fails}: both ends are the same", "first what works, then what fails: two numbers"
        )
    if dimension == "scale":
        values: Sequence[int] = sizes_between(works, fails, shape)
        if given["launcher"] == "command" and given["key"] is None:
            needs(program, _PLACES_OF_SIZE, "the number of GPUs")
    else:
        step = given["step"] if works < fails else -given["step"]
        values = [*range(works, fails, step), fails]
        place = "batch" if dimension == "batch" else "layers"
        if given["key"] is None:
            needs(program, {place, "value"}, f"the number of {'samples' if place == 'batch' else place}")
    if given["key"] is not None:
        needs(program, {"config"}, "the configuration")
        if given["config"] is None:
            raise UsageError("--key needs the configuration that has it", "--config FILE")

    def make(value: int) -> Trial:
        words: dict[str, Any] = {"value": value, "batch" if dimension == "batch" else "layers": value}
        words = {"value": value} if dimension == "scale" else words
        files: dict[str, str] = {}
        if given["key"] is not None:
            from preflight.investigate.bisect.settings import with_key

            text, ending = with_key(given["config"], given["key"], value)
            path = os.path.join(state, f"{dimension}-{value}{ending}")
            files, words["config"] = {path: text}, path
        elif given["config"] is not None:
            words["config"] = given["config"]
        size = value if dimension == "scale" else given["gpus"]
        point = Point(
            gpus=size, nodes=None if size is None else shape.nodes(size), local=None if size is None else shape.local(size),
            values=words, state=state,
        )  # fmt: skip
        return _with_files(started(given, program, f"{dimension} {value}", point), files)

    largest = max(works, fails) if dimension == "scale" else given["gpus"] or 1
    return Plan(
        dimension=dimension, values=values, make=make, most=most_tests(len(values), chance), largest=largest,
        more=_more(len(values), chance),
    )  # fmt: skip


def _more(count: int, chance: float | None) -> str:
    return f"{most_untold(count)} more where values cannot be judged" if chance == 1.0 else ""


def _with_files(test: Trial, files: dict[str, str]) -> Trial:
    import msgspec

    if not files:
        return test
    launch = msgspec.structs.replace(test.launch, files={**test.launch.files, **files})
    return msgspec.structs.replace(test, launch=launch)


def of_configs(
    program: Sequence[str], given: Mapping[str, Any], state: str, shape: Shape, chance: float | None
) -> Plan:
    """Differences between two configurations."""
    from preflight.investigate.bisect.settings import (
        differences,
        flags_of,
        read_configuration,
        shown,
        with_differences,
        written,
    )

    works, fails = (read_configuration(path) for path in given["configs"])
    kind = works.kind
    if kind != ".env":
        needs(program, {"config", "flags"} if kind == ".args" else {"config"}, "the configuration")
    found = differences(works, fails)
    if kind == ".toml" or fails.kind == ".toml":
        raise UsageError("differences of TOML files cannot be tried", "give the two configurations as YAML or JSON")

    def make(chosen: tuple[Any, ...]) -> Trial:
        content = with_differences(works, fails, chosen)
        numbers = [number for number, one in enumerate(found) if one in chosen]
        name = "works" if not numbers else "fails" if len(numbers) == len(found) else "-".join(map(str, numbers))
        text = written(content, kind)
        path = os.path.join(state, f"config-{_short(name)}{kind}")
        environment: dict[str, str | None] = {}
        if kind == ".env":
            every = {**works.content, **fails.content}
            environment = {key: content.get(key) for key in every}
        values: dict[str, Any] = {"config": path}
        words: Sequence[str] = program
        if kind == ".args" and "flags" in names_in(program):
            words = [one for word in program for one in (flags_of(content) if word == "{flags}" else [word])]
        point = Point(gpus=given["gpus"], nodes=_nodes(given, shape), local=_local(given, shape), values=values,
                      environment=environment, state=state)  # fmt: skip
        told = shown(found[numbers[0]]) if len(numbers) == 1 else f"{len(numbers)} of {len(found)} differences"
        return _with_files(started(given, words, told, point, salt=text), {path: text})

    many = len(found)
    runs = passes_needed(chance or 0.3)
    # One culprit costs about 2 log2 n tests; n^2 + 3n is the worst case of delta debugging.
    most = runs * min(many * many + 3 * many, 2 + 2 * math.ceil(math.log2(max(many, 2))) + 4 * many)
    return Plan(dimension="configs", values=found, make=make, most=most, largest=given["gpus"] or 1, shown=shown)


def _short(name: str) -> str:
    import hashlib

    return name if len(name) <= 40 else hashlib.sha256(name.encode()).hexdigest()[:12]


def _nodes(given: Mapping[str, Any], shape: Shape) -> int | None:
    return None if given["gpus"] is None else shape.nodes(given["gpus"])


def _local(given: Mapping[str, Any], shape: Shape) -> int | None:
    return None if given["gpus"] is None else shape.local(given["gpus"])


def of_commits(
    program: Sequence[str], given: Mapping[str, Any], state: str, shape: Shape, chance: float | None
) -> Plan:
    """Commits along first parents."""
    from preflight.investigate.bisect.commits import check_out, commits_between, remove_tree, title

    chain = commits_between(*given["commits"])
    tree = os.path.join(state, "tree")

    def make(commit: str) -> Trial:
        os.makedirs(state, exist_ok=True)
        if not given["dry_run"]:
            check_out(commit, tree)
        point = Point(gpus=given["gpus"], nodes=_nodes(given, shape), local=_local(given, shape), folder=tree,
                      values={"commit": commit, "tree": tree}, state=state)  # fmt: skip
        return started(given, program, title(commit), point, salt=commit)

    return Plan(
        dimension="commits", values=chain, make=make, most=most_tests(len(chain), chance), largest=given["gpus"] or 1,
        shown=title, close=lambda: remove_tree(tree), more=_more(len(chain), chance),
    )  # fmt: skip


def of_nodes(program: Sequence[str], given: Mapping[str, Any], state: str, shape: Shape, chance: float | None) -> Plan:
    """Nodes of a cluster."""
    names = _names(given["nodes"])
    if given["launcher"] in ("command", "torchrun", "kubectl"):
        needs(program, {"nodelist", "hosts"}, "the list of nodes")

    def make(chosen: tuple[str, ...]) -> Trial:
        point = Point(
            gpus=len(chosen) * shape.gpus_per_node,
            nodes=len(chosen),
            local=shape.gpus_per_node,
            hosts=chosen,
            state=state,
        )
        told = chosen[0] if len(chosen) == 1 else f"{len(chosen)} nodes ({chosen[0]} ... {chosen[-1]})"
        return started(given, program, told, point)

    # All, halves down to one, what is left.
    most = passes_needed(chance or 0.3) * (3 + math.ceil(math.log2(max(len(names), 2))))
    return Plan(
        dimension="nodes", values=names, make=make, most=most, largest=len(names) * shape.gpus_per_node,
        more="more where several nodes are bad",
    )  # fmt: skip


def _names(text: str) -> list[str]:
    """Names of nodes: from a file (one a line, or a host file), else separated by commas."""
    if os.path.isfile(text):
        try:
            with open(text, encoding="utf-8") as file:
                lines = [line.partition("#")[0].split() for line in file]
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{text}: cannot be read: {error}") from None
        names = [words[0] for words in lines if words]
    else:
        names = [name.strip() for name in text.split(",") if name.strip()]
    if len(set(names)) < 2:
        raise UsageError(f"--nodes {text}: are not two nodes", "a file with a node on each line, or a,b,c")
    return list(dict.fromkeys(names))


__all__ = ["of_commits", "of_configs", "of_nodes", "of_numbers"]
