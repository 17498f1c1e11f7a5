from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from preflight.cli.main import main
from preflight.cli.parts.scripted import told_by

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FSDP = str(EXAMPLES / "fsdp_language_model.py")
SCRIPT = """\
import argparse
import torch
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=4)
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("gpt2").cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
data = torch.utils.data.TensorDataset(torch.zeros(64, 512, dtype=torch.long))
loader = torch.utils.data.DataLoader(data, batch_size=args.batch_size, shuffle=True)
for (tokens,) in loader:
    optimizer.zero_grad()
    model(tokens.cuda(), labels=tokens.cuda()).loss.backward()
    optimizer.step()
"""


def report(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    status = main(["plan", "--format", "json", *words])
    seen = capsys.readouterr()
    assert status in (0, 1, 3), seen.err
    found: dict[str, Any] = json.loads(seen.out)
    return found


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return str(path)


def test_a_script_says_model_batch_precision_and_how_it_is_spread(capsys: pytest.CaptureFixture[str]) -> None:
    found = report(capsys, "--script", FSDP, "--gpus", "8", "--gpu", "h100")
    run, dims = found["plan"]["chosen"]["run"], found["plan"]["chosen"]["parallel"]
    assert (run["micro_batch"], run["global_batch"], run["sequence_length"]) == (4, 32, 2048)
    assert (run["precision"], run["recompute"], run["optimizer"]) == ("bf16", "full", "adamw")
    assert (dims["dp_shard"], dims["zero_stage"]) == (8, 3)
    assert not found["plan"]["assumptions"]


def test_a_loss_that_is_compiled_with_the_model_is_planned_as_it_was_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT.replace("optimizer = ", "model = torch.compile(model)\noptimizer = "))
    run = report(capsys, "--script", str(path), "--gpus", "1", "--gpu", "h100")["plan"]["chosen"]["run"]
    assert (run["stack"], run["loss_compiled"]) == ("compile", True)


def test_small_models_are_counted_in_millions(script: str) -> None:
    chosen = told_by(script, None, None, ()).model
    assert chosen is not None
    assert chosen.title.endswith("124M)")


def test_what_a_script_says_has_its_line(script: str) -> None:
    told = told_by(script, None, None, ())
    assert told.settings.get("run.optimizer") == "sgd"
    assert told.settings.where("run.optimizer") == f"{script}:9"
    assert told.settings.get("run.optimizer_momentum") == 0.9
    assert (told.settings.get("run.precision"), told.model.model.parameters) == ("fp32", 124_439_808)


def test_the_line_wins_over_the_script_and_its_arguments_are_its_own(
    capsys: pytest.CaptureFixture[str], script: str
) -> None:
    plain = report(capsys, "--script", script)["plan"]["chosen"]["run"]
    assert (plain["micro_batch"], plain["precision"]) == (4, "fp32")
    told = report(capsys, "--script", script, "--precision", "bf16", "--", "--batch-size", "16")["plan"]["chosen"][
        "run"
    ]
    assert (told["micro_batch"], told["precision"], told["optimizer"]) == (16, "bf16", "sgd")


def test_a_script_that_is_not_distributed_is_assumed_data_parallel(
    capsys: pytest.CaptureFixture[str], script: str
) -> None:
    found = report(capsys, "--script", script, "--gpus", "4")["plan"]
    assert found["chosen"]["parallel"]["dp_replicate"] == 4
    assert any("does not spread itself over GPUs" in said for said in found["assumptions"])


def test_a_model_may_be_named_beside_the_script(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT.replace('"gpt2"', "open('name.txt').read()"))
    assert main(["plan", "--script", str(path)]) == 2
    assert "name the model with --model" in capsys.readouterr().err
    found = report(capsys, "--script", str(path), "--model", "llama-3-8b", "--gpus", "8", "--strategy", "fsdp")
    assert found["inputs"]["model"] == "llama-3-8b"
    assert found["plan"]["chosen"]["run"]["optimizer"] == "sgd"


def test_layers_that_reading_does_not_know_are_for_a_dry_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "recurrent.py"
    path.write_text(RECURRENT)
    assert main(["plan", "--script", str(path)]) == 3
    assert "--dry-run runs the script on a virtual GPU" in " ".join(capsys.readouterr().out.split())
    path.write_text(
        "import jax\nimport optax\n\n@jax.jit\ndef step(p, x):\n    return jax.grad(lambda q: (q * x).sum())(p)\n"
    )
    assert main(["plan", "--script", str(path)]) == 2


def test_scripts_that_cannot_be_planned_say_why(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    nothing = tmp_path / "none.py"
    nothing.write_text("print(1)\n")
    assert main(["plan", "--script", str(nothing)]) == 2
    assert "no training was recognised" in capsys.readouterr().err
    assert main(["plan", "--script", str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err


RECURRENT = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.LSTM(64, 256, 2, batch_first=True)
        self.b = nn.Linear(256, 10)

    def forward(self, x):
        return self.b(self.a(x.cummax(1).values)[0][:, -1])


model = Net().cuda()
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = torch.utils.data.TensorDataset(torch.randn(512, 64, 64), torch.randint(0, 10, (512,)))
loader = torch.utils.data.DataLoader(data, batch_size=32, shuffle=True)
for x, y in loader:
    opt.zero_grad()
    nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
    opt.step()
"""


@pytest.mark.torch
def test_a_dry_run_tells_what_no_formula_knows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "recurrent.py"
    path.write_text(RECURRENT)
    assert main(["plan", "--script", str(path), "--format", "json"]) == 3  # reading alone knows no layer that keeps
    assert json.loads(capsys.readouterr().out)["memory"]["reason"]
    one = report(capsys, "--script", str(path), "--dry-run")
    assert (
        main(["check", str(path), "--dry-run", "--gpu", "h100", "--no-probe", "--no-what-fits", "--format", "json"]) < 2
    )
    seen = json.loads(capsys.readouterr().out)["memory"]["peak_bytes"]["mid"]
    assert one["memory"]["peak_bytes"]["low"] <= seen <= one["memory"]["peak_bytes"]["high"]
    four = report(capsys, "--script", str(path), "--dry-run", "--gpus", "4")
    assert four["step"]["breakdown"]["exposed_communication"] > 0
    assert four["step"]["breakdown"]["compute"] == one["step"]["breakdown"]["compute"]
    assert four["step"]["samples_per_second"] > one["step"]["samples_per_second"]


def test_a_dry_run_belongs_to_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "7", "8", "--dry-run"]) == 2
    assert "--dry-run belongs to --script" in capsys.readouterr().err


def test_a_network_of_images_is_not_asked_for_a_length(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    loss = "torch.nn.functional.cross_entropy(model(tokens.cuda()), torch.zeros(8).long().cuda())"
    made = SCRIPT.replace("from transformers import AutoModelForCausalLM", "from torchvision import models")
    made = made.replace('AutoModelForCausalLM.from_pretrained("gpt2")', "models.resnet50()")
    made = made.replace("model(tokens.cuda(), labels=tokens.cuda()).loss", loss)
    (tmp_path / "pictures.py").write_text(made.replace("64, 512, dtype=torch.long", "64, 3, 224, 224"))
    (tmp_path / "text.py").write_text(
        SCRIPT.replace("TensorDataset(torch.zeros(64, 512, dtype=torch.long))", "Texts()")
    )
    told = [
        "does not tell its sequence length" in " ".join(report(capsys, str(tmp_path / name))["plan"]["assumptions"])
        for name in ("pictures.py", "text.py")
    ]
    assert told == [False, True]


def test_a_search_over_a_network_whose_memory_is_not_known_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        "import torch\n"
        "from torch import nn\n"
        "from absent_package import mixed\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.first, self.last = nn.Conv2d(4, 64, 3, padding=1), nn.Conv2d(64, 4, 3, padding=1)\n"
        "    def forward(self, x):\n"
        "        return self.last(mixed(self.first(x)))\n"
        "net = Net().cuda()\n"
        "optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)\n"
        "for x, y in torch.utils.data.DataLoader(samples, batch_size=8, shuffle=True):\n"
        "    optimizer.zero_grad()\n"
        "    nn.functional.mse_loss(net(x.cuda()), y.cuda()).backward()\n"
        "    optimizer.step()\n"
    )
    found = report(capsys, "--script", str(path), "--gpus", "16", "--gpu", "h100", "--search")
    assert (found["verdict"], found["memory"]["fits"]) == ("UNKNOWN", "unknown")
