"""What a file that is not there was wanted for: by the line of the program that asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose

_TRACEBACK = """\
Traceback (most recent call last):
  File "/home/me/work/{file}", line 12, in {function}
    {code}
FileNotFoundError: [Errno 2] No such file or directory: '{path}'
"""


def category_told(folder: Path) -> str:
    incident = diagnose(folder).incident
    assert incident is not None
    return incident.category


@pytest.mark.parametrize(
    ("code", "path", "category"),
    [
        ('with open(os.path.join("log", name + ".txt"), "a") as f:', "log/run.txt", "usercode"),
        ('with open(os.path.join("log", args.checkpoint_dir + ".txt"), "a") as f:', "/data/me/log/run.txt", "usercode"),
        ('frame.to_csv(f"results/{run}/scores.csv")', "results/7/scores.csv", "usercode"),
        ('os.mkdir(f"./results/{name}/")', "./results/first/", "usercode"),
        ('torch.save(model.state_dict(), "runs/last.pt")', "runs/last.pt", "checkpoint"),
        ("torch.save(self.state_dict(), filename)", "weights/seq_30.h5", "checkpoint"),
        ('with open("features/part", "rb") as fh:', "features/part", "data"),
        ('table = pd.read_csv("labels.csv")', "labels.csv", "data"),
        ('settings = yaml.safe_load(open("train.yaml"))', "train.yaml", "environment"),
    ],
)
def test_what_the_asking_line_does_with_it(tmp_path: Path, code: str, path: str, category: str) -> None:
    text = _TRACEBACK.format(file="train.py", function="main", code=code, path=path)
    (tmp_path / "run.log").write_text(text)
    assert category_told(tmp_path) == category


def test_a_name_that_tells_nothing_is_of_what_reads_it(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("""\
Traceback (most recent call last):
  File "eval.py", line 150, in test
    model.load_state_dict(torch.load(folder, map_location=device))
  File "/env/lib/python3.10/site-packages/torch/serialization.py", line 986, in load
    with _open_file_like(f, 'rb') as opened_file:
FileNotFoundError: [Errno 2] No such file or directory: 'runs/hopper_4_256'
""")
    assert category_told(tmp_path) == "checkpoint"
