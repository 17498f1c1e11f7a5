from __future__ import annotations

import json
from pathlib import Path

import pytest

from .command_line import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "hang"
HANG = ("investigate", "hang")


def test_stacks_of_all_ranks_name_the_one_that_is_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*HANG, EXAMPLES / "stacks", "--format", "json") == 1
    report = json.loads(capsys.readouterr().out)
    assert report["verdict"] == "NO-GO"
    incident = report["incident"]
    assert (incident["state"], incident["culprit"]["ranks"]) == ("hung", [2])
    assert incident["symptom_category"] == "network"
    assert "load_next_batch" in incident["next"][0]["text"]  # the place at which it stands comes first


def test_dumps_name_the_rank_that_called_something_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*HANG, EXAMPLES / "recorder", "--format", "json") == 1
    incident = json.loads(capsys.readouterr().out)["incident"]
    assert (incident["culprit"]["ranks"], incident["category"]) == ([1], "usercode")
    assert incident["next"][0]["command"] == "preflight investigate fix same-collectives-on-all-ranks"


def test_stacks_and_dumps_may_be_given_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*HANG, EXAMPLES / "recorder", EXAMPLES / "stacks" / "rank_0.txt") == 1
    assert "rank 1" in capsys.readouterr().out


def test_a_folder_without_stacks_is_misuse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rank_0.log").write_text("step 1 loss 2.0\n")
    assert run(*HANG, tmp_path) == 2
    assert "py-spy dump" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["4711", str(EXAMPLES)], "processes and files together"),
        (["--signal", "NOSUCH"], "there is no such signal"),
        (["4194300"], "no rank was found"),
    ],
)
def test_misuse_is_named(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*HANG, *arguments) == 2
    assert said in capsys.readouterr().err


def test_a_malicious_dump_is_named_and_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import pickle

    target = tmp_path / "made"

    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.mkdir, (target,)

    folder = tmp_path / "dumps"
    folder.mkdir()
    (folder / "nccl_trace_rank_0").write_bytes(pickle.dumps({"entries": [Evil()]}, 2))
    for rank in (1, 2, 3):
        (folder / f"nccl_trace_rank_{rank}").write_bytes((EXAMPLES / "recorder" / f"rank_{rank}").read_bytes())
    assert run(*HANG, folder, "--format", "json") == 1
    assert not target.exists()
    assert any("nothing of it was run" in note for note in json.loads(capsys.readouterr().out)["notes"])
