"""What is made of shell text: commands, words, and what is known of variables without running anything."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from preflight.source.jobs.shell import UNKNOWN, Shell
from preflight.source.jobs.words import commands


def _run(text: str, **variables: str) -> list[tuple[str, ...]]:
    shell = Shell(variables)
    return [words for command in commands(text) if (words := shell.assign(command))]


SAME_AS_BASH = (
    "printf '%s|' a 'b c' \"d e\" f\\ g",
    "A=1; B=${A}2; printf '%s|' $B \"${B}x\" '$B'",
    "A='-n 4 --gpus 8'; printf '%s|' $A \"$A\"",
    "X=(--lr 1e-4 --name 'a b'); printf '%s|' \"${X[@]}\" end",
    "X=(a 'b c'); printf '%s|' \"x ${X[*]} y\" \"${X[0]}\" ${X[1]}",
    "X=(\n  --one 1  # first\n  --two 2\n)\nprintf '%s|' ${X[@]}",
    "printf '%s|' ${NOT_SET_ANYWHERE:-8} \"${NOT_SET_ANYWHERE:-a b}\"",
    "N=4; G=8; printf '%s|' $((N * G)) $(($N*$G/3)) $(( (N+1) % 3 ))",
    "printf '%s|' one \\\n  two \\\n  three",
    "A=x; A+=y; printf '%s|' $A",
    "cat > /dev/null <<EOF\nprintf '%s|' hidden\nEOF\nprintf '%s|' seen",
    "printf '%s|' a > /dev/stdout 2>&1",
    "for seed in 3; do printf '%s|' $seed; done",
    "if true; then printf '%s|' a#b; fi # a comment",
    'export A=5 B="6 7"; printf \'%s|\' $A "$B"',
    "E=; printf '%s|' ${E:-4} \"${E-5}\" end",
    "A=x; printf '%s|' pre$A-post${A}",
)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("text", SAME_AS_BASH)
def test_words_are_those_of_bash(text: str) -> None:
    printed = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True).stdout
    shell = Shell({})
    seen: list[str] = []
    for command in commands(text):
        words = shell.assign(command)
        while words and words[0] in ("if", "then", "do", "else"):
            words = words[1:]
        if words[:1] == ("printf",):
            seen += words[2:]
    assert "".join(f"{word}|" for word in seen) == printed


def test_what_only_a_running_shell_knows_is_marked() -> None:
    assert _run("srun -w $(hostname) `date` $UNSET ${UNSET:0:2} ${#A[@]}") == [
        ("srun", "-w", UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
    ]


def test_the_folder_of_the_script_is_known() -> None:
    shell = Shell({}, path="jobs/run.sh")
    (command,) = commands('python "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/train.py" $(dirname $0)/x.py')
    assert shell.assign(command) == ("python", "jobs/train.py", "jobs/x.py")


def test_arguments_of_the_script() -> None:
    shell = Shell({}, ("gpt", "4", "a b"))
    made = [shell.assign(command) for command in commands('echo $1 "$#"; shift; echo "$@" ${2:-none} $9')]
    assert made[0] == ("echo", "gpt", "3")
    assert made[-1] == ("echo", "4", "a b", "a", "b", UNKNOWN)


def test_lines_are_counted_through_continuations_and_documents() -> None:
    text = "a \\\n b\n# c\n\ncat <<X\n1\n2\nX\nd; e\n"
    assert [(command.line, command.words[0][0].text) for command in commands(text)] == [
        (1, "a"), (5, "cat"), (9, "d"), (9, "e"),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["'", '"$', "${", "$((", "a=(", "<<", "`", "\\", "((", "$(", "a=(b", "x <<E\nno end"])
def test_text_that_breaks_off_ends(text: str) -> None:
    shell = Shell({})
    for command in commands(text):
        shell.assign(command)


def test_defaults_within_defaults_are_followed_only_so_deep() -> None:
    assert _run("X=${A:-${B:-${C:-8}}}; echo $X") == [("echo", "8")]
    assert _run("X=" + "${A:-" * 3000 + "8" + "}" * 3000 + "; echo $X") == [("echo", UNKNOWN)]
