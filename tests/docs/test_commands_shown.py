"""Commands that the documentation shows without what they print: each is understood, and how many there are is a decision.

A ``console`` block is run and held against what it prints (``test_console.py``). What stands in other blocks needs a GPU,
a cluster, a network, or files that only its reader has; what can be run with stand-ins for these is
(``test_blocks_run.py``). Of all of them, and of commands in a sentence, the words are held against the command line itself.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from preflight.cli.main import preflight

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "examples" / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if "reference" not in page.relative_to(ROOT).parts),
]
BLOCK = re.compile(r"(?ms)^ *```(\w*)\n(.*?)^ *```$")
IN_A_SENTENCE = re.compile(r"`(preflight [^`\n]+)`")
END = re.compile(r" +#.*| *[|>&;].*")
NOT_RUN = 50
"""Commands of ours in blocks without an output. One more is a decision: can it be shown in a ``console`` block?"""


def _in_blocks(text: str) -> Iterator[str]:
    """Yield the commands of ours in blocks that no test runs, continued lines joined."""
    for kind, block in BLOCK.findall(text):
        if kind in ("", "sh", "bash"):
            for line in block.replace("\\\n", " ").splitlines():
                at = re.search(r"(?:^|[|&] *|--no-python )preflight ", line)
                if at and not line.lstrip().startswith("#"):
                    yield END.sub("", line[at.end() - len("preflight ") :])


def _misunderstood(line: str) -> str | None:
    """Return what the command line does not understand in a command, None where it understands all."""
    try:
        words = shlex.split(line)[1:]
    except ValueError as error:
        return str(error)
    command: click.Command = preflight
    context = click.Context(command, info_name="preflight")
    while isinstance(command, click.Group) and words:
        inner = command.get_command(context, words[0])
        if inner is not None:
            del words[0]
        elif (default := getattr(command, "default", None)) is not None:
            inner = default
        else:
            return f"no command is called {words[0]!r}"
        command, context = inner, click.Context(inner, info_name=inner.name, parent=context)
    if isinstance(command, click.Group):
        command = getattr(command, "default", command)
    if command.context_settings.get("ignore_unknown_options"):
        return None  # it hands on what it does not know
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)} | {"-h", "--help"}
    own = words[: words.index("--")] if "--" in words else words
    unknown = [word for word in own if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known]
    return f"{command.name} has no option {', '.join(unknown)}" if unknown else None


def test_what_is_not_understood_is_seen() -> None:
    assert _misunderstood("preflight check train.py --gpu h100 --dry-run -- --lr 3") is None
    assert _misunderstood("preflight investigate logs/ -o report.json") is None
    assert _misunderstood("preflight monitor run -- python train.py --no-such") is None
    assert _misunderstood("preflight plan 7 64 --recompute=full") is None
    assert _misunderstood("preflight check train.py --no-such") == "check has no option --no-such"
    assert _misunderstood("preflight monitor look") == "no command is called 'look'"
    assert list(_in_blocks("```sh\na | preflight list gpus  # all\npreflight quick \\\n  x.py > y\n```\n")) == [
        "preflight list gpus",
        "preflight quick    x.py",
    ]


def test_every_command_in_a_block_that_is_not_run_is_understood() -> None:
    shown = [(page, line) for page in PAGES for line in _in_blocks(page.read_text("utf-8"))]
    wrong = [f"{page.relative_to(ROOT)}: {line}: {why}" for page, line in shown if (why := _misunderstood(line))]
    assert not wrong
    assert len(shown) == NOT_RUN, "show it in a `console` block, where a test runs it, or count it here"


def test_a_front_page_names_what_is_in_its_folder() -> None:
    missing = []
    for page in ROOT.glob("docs/*/README.md"):
        text = page.read_text("utf-8")
        beside = (path for path in page.parent.glob("*.md") if path != page)
        missing += [str(path.relative_to(ROOT)) for path in beside if f"]({path.name})" not in text]
    assert not missing, "the navigation is read from the front page of the folder"


def test_every_extra_is_told_of() -> None:
    project = (ROOT / "pyproject.toml").read_text("utf-8").partition("[project.optional-dependencies]\n")[2]
    extras = set(re.findall(r"(?m)^([\w-]+) = \[", project.partition("\n[")[0]))
    named = set(
        re.findall(
            r"`([\w-]+)`",
            "".join(re.findall(r"(?m)^\| (`.*?) \|", (ROOT / "docs/guides/install.md").read_text("utf-8"))),
        )
    )
    # The others are for those who change Preflight.
    assert extras - named == {"dev", "docs", "peers", "test"}


def test_every_command_in_a_sentence_is_understood() -> None:
    wrong = []
    for page in PAGES:
        for line in IN_A_SENTENCE.findall(page.read_text("utf-8")):
            # PATH... and [OPTIONS] stand for what a reader puts there.
            why = _misunderstood(END.sub("", line.replace("...", "").replace("[", "").replace("]", "")))
            if why:
                wrong.append(f"{page.relative_to(ROOT)}: {line}: {why}")
    assert not wrong
