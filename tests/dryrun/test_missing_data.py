"""Data, programs and weights that are not there: what stands in, and what stays missing."""

from __future__ import annotations

import io
import sys
import textwrap
import wave
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from preflight.catalog.hardware import resolve_gpu
from preflight.dryrun.launch import Job, dry_run
from preflight.dryrun.virtual.absent import data, formats, lines, records, uses
from preflight.dryrun.virtual.absent.clues import data_arguments
from preflight.vocabulary.profile import Profile


def _file(folder: Path, text: str) -> str:
    path = folder / "reads.py"
    path.write_text(textwrap.dedent(text))
    return str(path)


def test_the_command_line_tells_data_from_results() -> None:
    words = [
        "/data/imagenet",
        "--data-dir",
        "data/train",
        "--output_dir",
        "out/run",
        "--dataset_name",
        "trl-lib/Capybara",
    ]
    assert data_arguments([*words, "--epochs", "3", "resnet50"]) == ["/data/imagenet"]
    assert data_arguments(["--data-dir=./data/train", "--save-path", "./runs"]) == ["./data/train"]


def test_records_have_the_keys_that_the_code_asks_for(tmp_path: Path) -> None:
    name = _file(
        tmp_path,
        """
        TEMPLATE = "Do this: {instruction}"
        def read(rows):
            for row in rows:
                endings = row["endings"]
                yield TEMPLATE.format_map(row), row["label"], [end for end in endings], row.get("answer")
        """,
    )
    made = records.record(1, name)
    assert set(made) == {"instruction", "endings", "label", "answer"}
    assert made["label"] == 1
    assert len(made["endings"]) == 4
    # Records are as long as each other, so that two of them cost the same.
    assert len(made["answer"]) == len(records.record(2, name)["answer"])


def test_a_table_has_as_many_columns_as_are_taken_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np = pytest.importorskip("numpy")
    from preflight.dryrun.virtual.absent import arrays

    for reader in ("loadtxt", "genfromtxt", "memmap", "fromfile"):
        monkeypatch.setattr(np, reader, getattr(np, reader))
    said: list[str] = []
    arrays.install(np, lambda name: name.startswith(str(tmp_path)), said.append)
    path = tmp_path / "tables.py"
    path.write_text(
        textwrap.dedent(
            """
            import numpy as np

            def pairs():
                table = np.loadtxt("none.txt", dtype=np.int32)
                return table[:, 0], table[:, 1]

            def nodes():
                table = np.genfromtxt("none.content", dtype=str)
                return table[:, 1:-1], table[:, -1]

            def edges():
                table = np.genfromtxt("none.cites", dtype=np.int32)
                return [(a, b) for a, b in table]

            def whole():
                return np.loadtxt("none.txt")
            """
        )
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import tables  # type: ignore[import-not-found]

    users, items = tables.pairs()
    assert users.dtype == np.int32
    assert users.min() == 1
    # Every user has several rows, and more items exist than one user has.
    assert np.bincount(users)[1:].min() > 1
    assert len(set(items)) > np.bincount(users).max()
    marks, classes = tables.nodes()
    assert marks.shape == (formats.ROWS, uses.MANY - 2)
    assert len(set(classes)) == 7
    assert len(tables.edges()[0]) == 2
    # Nothing is taken of it that would tell how wide it is: it stays missing.
    with pytest.raises(FileNotFoundError):
        tables.whole()
    assert len(said) == 3


def test_lines_have_the_fields_that_the_code_splits_them_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "fields.py"
    path.write_text(
        textwrap.dedent(
            """
            def pairs(read):
                users = {}
                f = read("none.txt")
                for line in f:
                    user, item = line.rstrip().split(" ")
                    user = int(user)
                    users.setdefault(max(user, 1), []).append(int(item))
                return users

            def labelled(read):
                with read("none.txt") as file:
                    rows = [line.strip() for line in file]
                for row in rows:
                    parts = row.split(",")
                    yield parts[0], int(parts[1])

            def corpus(read):
                return read("none.txt").read()
            """
        )
    )
    made: list[str | None] = []

    def read(_: str) -> io.StringIO:
        frame = sys._getframe(1)
        made.append(lines.text(frame))
        return io.StringIO(made[-1] or "some words\n")

    monkeypatch.syspath_prepend(str(tmp_path))
    import fields  # type: ignore[import-not-found]

    users = fields.pairs(read)
    assert min(map(len, users.values())) > 1
    file, label = next(fields.labelled(read))
    assert len(file.split()) == 8
    assert label > 0
    fields.corpus(read)
    assert made[2] is None


def test_tables_of_pandas_have_the_columns_that_the_call_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    from preflight.dryrun.virtual.absent import frames

    for reader in ("read_csv", "read_table", "read_json", "read_parquet", "read_excel", "read_feather"):
        monkeypatch.setattr(pandas, reader, getattr(pandas, reader))
    frames.install(pandas, lambda name: name == __file__, lambda line: None)
    table = pandas.read_csv(tmp_path / "none.dat", sep="::", names=["user", "item", "rating"], usecols=[0, 1])
    assert list(table.columns) == ["user", "item"]
    assert table["user"].value_counts().min() > 1


def test_small_files_of_the_usual_formats_can_be_read() -> None:
    np = pytest.importorskip("numpy")
    assert np.load(io.BytesIO(formats.array((3, 4), "<f4"))).shape == (3, 4)
    with wave.open(io.BytesIO(formats.sound(8_000))) as file:
        assert (file.getframerate(), file.getnframes()) == (8_000, 24_000)
    image = pytest.importorskip("PIL.Image")
    assert image.open(io.BytesIO(formats.picture("a/train.jpg"))).mode == "RGB"
    assert image.open(io.BytesIO(formats.picture("a/masks/train.png"))).mode == "L"
    assert image.open(io.BytesIO(formats._png(3))).size == (formats.WIDTH, formats.HEIGHT)


def _run(folder: Path, text: str, *arguments: str) -> Profile:
    script = folder / "train.py"
    script.write_text(textwrap.dedent(text), encoding="utf-8")
    gpu = resolve_gpu("a100-80gb")
    return dry_run(
        Job(script=str(script), root=str(folder), arguments=arguments, gpu=gpu, capacity_bytes=80 << 30, seconds=120)
    )


@pytest.mark.torch
@pytest.mark.slow
def test_a_script_runs_without_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("PIL")
    (tmp_path / "notes.txt").write_text("kept")
    monkeypatch.chdir(tmp_path)
    seen = _run(
        tmp_path,
        """
        import multiprocessing, os, shutil, socket, subprocess, sys, tarfile, urllib.request
        from pathlib import Path
        import numpy as np
        import torch
        from PIL import Image

        assert len(subprocess.check_output(["git", "rev-parse", "HEAD"]).decode().strip()) == 40
        rows, columns = os.popen("stty size", "r").read().split()
        assert subprocess.check_output(["unknown-tool"]) == b""
        os.makedirs("out/code", exist_ok=True)
        shutil.copy("notes.txt", "out/code")
        shutil.move("out/code/notes.txt", "out/kept.txt")
        os.symlink("notes.txt", "latest")
        os.chmod("notes.txt", 0o600)
        assert os.listdir("out/code") == [] and Path("latest").read_text() == "kept"
        shutil.rmtree("out")
        assert not os.path.exists("out")

        urllib.request.urlretrieve("https://example.com/pictures.tgz", "pictures.tgz")
        with tarfile.open("pictures.tgz") as archive:
            archive.extractall("data")
        names = [name for name in os.listdir("data/pictures") if name.endswith(".png")]
        assert any("train" in name for name in names)
        assert list(Path("data/masks").glob(names[0][:-4] + "_mask.*"))
        with multiprocessing.Pool(4) as pool:
            sizes = pool.map(lambda name: Image.open(f"data/pictures/{name}").size, names[:4])
        assert not os.path.exists("checkpoints/last.pt")

        model = torch.nn.Conv2d(3, 4, 3).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        state = torch.load("pretrained.pt")
        model.load_state_dict({key[7:]: value for key, value in state["model"].items()})
        for epoch in range(state["epoch"], 3):
            picture = torch.tensor(np.array(Image.open(f"data/pictures/{names[0]}"))).permute(2, 0, 1)[None].float()
            model(picture.cuda()).sum().backward()
            optimizer.step()
        """,
    )
    assert seen.outcome == "ended", (seen.error, seen.message, seen.frames)
    assert seen.steps == 3
    told = "\n".join(seen.assumptions)
    for part in (
        "git rev-parse",
        "pictures.tgz was not downloaded",
        "data/pictures",
        "data/masks/*.png",
        "pretrained.pt",
    ):
        assert part in told, told
    # Nothing of it was really done.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "train.py"]
    assert (tmp_path / "notes.txt").read_text() == "kept"


@pytest.mark.torch
@pytest.mark.slow
def test_what_has_no_form_stays_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    seen = _run(
        tmp_path,
        """
        import glob, json, os, pickle
        assert glob.glob("runs/*.pt") == [] and not os.path.exists("data")
        try:
            os.listdir("runs")
        except FileNotFoundError:
            pass
        else:
            raise AssertionError("nothing says what it would hold")
        try:
            open("site/tool-1.0.dist-info/top_level.txt")
        except FileNotFoundError:
            pass
        else:
            raise AssertionError("installed packages say for themselves what they hold")
        with open("frames.json") as file:
            frames = json.load(file)["frames"]
        """,
    )
    assert (seen.outcome, seen.error) == ("failed", "FileNotFoundError")
    assert "frames.json" in (seen.message or "")


@pytest.mark.torch
@pytest.mark.slow
def test_an_engine_of_deepspeed_steps_although_a_parameter_has_no_gradient(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    seen = _run(
        tmp_path,
        """
        import deepspeed, torch
        model = torch.nn.ModuleList([torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)])
        engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={"train_batch_size": 4})
        for _ in range(3):
            engine.backward(engine.module[0](torch.randn(4, 8, device=engine.device)).pow(2).mean())
            engine.step()
        """,
    )
    assert (seen.outcome, seen.steps) == ("ended", 3), (seen.error, seen.message, seen.frames)


def test_an_engine_of_deepspeed_holds_master_weights(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    seen = _run(
        tmp_path,
        """
        import deepspeed, torch
        model = torch.nn.Linear(512, 1024, bias=False)
        settings = {
            "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2, "bf16": {"enabled": True},
            "zero_optimization": {"stage": 1}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        }
        engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)
        for _ in range(6):
            x = torch.randn(4, 512, device=engine.device, dtype=torch.bfloat16)
            engine.backward(engine(x).float().pow(2).mean())
            engine.step()
        """,
    )
    assert (seen.outcome, seen.steps) == ("ended", 3), (seen.error, seen.message, seen.frames)
    count = 512 * 1024
    # Weights in bf16 and their masters, the gradient of the masters, two states of Adam.
    assert seen.categories["parameter"] == (2 + 4) * count
    assert seen.categories["gradient"] == 4 * count
    assert seen.categories["optimizer state"] == 8 * count


def test_a_data_set_of_the_hub_comes_in_as_many_parts_as_are_asked_for() -> None:
    class Rows(list[Any]):
        @classmethod
        def from_list(cls, rows: list[Any]) -> Rows:
            return cls(rows)

    def offline(path: str, *args: Any, **kwargs: Any) -> Any:
        raise ConnectionError

    hasher = SimpleNamespace(hash=lambda value: "0")
    hub = SimpleNamespace(
        load_dataset=offline, Dataset=Rows, DatasetDict=dict, fingerprint=SimpleNamespace(Hasher=hasher)
    )
    data._hub(hub, lambda name: False, lambda line: None, None)
    train, test = hub.load_dataset("someone/some", split=["train[:80%]", "train[80%:]"])
    assert len(train) == len(test) == len(hub.load_dataset("someone/some", split="train")) == data.ROWS
    assert set(hub.load_dataset("someone/some")) == {"train", "validation", "test"}
