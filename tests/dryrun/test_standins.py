"""Stand-ins for packages that are not installed keep what scripts rely on."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from typing import Any, Literal, Optional

import pytest

PLACE = "preflight.dryrun.virtual.absent.standins."


def _standin(name: str) -> Any:
    return importlib.import_module(PLACE + name)


def test_dictionaries_with_attributes() -> None:
    easy = _standin("easydict").EasyDict({"a": {"b": 1}}, c=[{"d": 2}])
    easy.e = {"f": 3}
    assert (easy.a.b, easy["c"][0].d, easy.e.f, easy["e"]["f"]) == (1, 2, 3, 3)
    munch = _standin("munch")
    made = munch.munchify({"a": [{"b": 1}]})
    assert made.a[0].b == 1
    assert type(made.toDict()) is dict
    tree = _standin("addict").Dict({"a": {"b": 1}})
    tree.x.y.z = 4
    assert tree.to_dict() == {"a": {"b": 1}, "x": {"y": {"z": 4}}}
    assert not tree.missing


def test_settings_keep_their_types_and_their_keys(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    node = _standin("yacs.config").CfgNode
    settings = node()
    settings.MODEL = node({"DEPTH": 50, "SIZES": (1, 2)})
    settings.LR = 0.1
    (tmp_path / "a.yaml").write_text("MODEL:\n  DEPTH: 101\n")
    settings.merge_from_file(str(tmp_path / "a.yaml"))
    settings.merge_from_list(["LR", "1", "MODEL.SIZES", "[3, 4]"])
    assert (settings.MODEL.DEPTH, settings.LR, settings.MODEL.SIZES) == (101, 1.0, (3, 4))
    with pytest.raises(KeyError):
        settings.merge_from_list(["MODEL.WIDTH", "1"])
    settings.freeze()
    with pytest.raises(AttributeError):
        settings.LR = 2
    assert settings.clone().MODEL.DEPTH == 101


@dataclasses.dataclass
class _Model:
    width: int = 8
    dims: tuple[int, ...] = (1, 2)


@dataclasses.dataclass
class _Settings:
    name: str
    lr: float = 0.1
    cuda: bool = True
    kind: Literal["a", "b"] = "a"
    limit: Optional[int] = None  # noqa: UP045
    model: _Model = dataclasses.field(default_factory=_Model)


def test_a_command_line_is_read_from_the_types_of_a_dataclass(capsys: pytest.CaptureFixture[str]) -> None:
    tyro = _standin("tyro")
    made = tyro.cli(_Settings, args="--name x --lr=3e-4 --no-cuda --kind b --limit 5 --model.dims 3 4 5".split())
    assert made == _Settings("x", 3e-4, False, "b", 5, _Model(8, (3, 4, 5)))
    assert tyro.cli(_Settings, args=["--cuda", "--limit", "None"], default=_Settings("y", lr=1.0)) == _Settings(
        "y", 1.0
    )
    assert tyro.cli(lambda steps=3: steps, args=["--steps", "4"]) == "4", "nothing says that it is a number"
    assert tyro.cli(_Model, args=["--width", "9", "--more", "1"], return_unknown_args=True) == (
        _Model(9), ["--more", "1"],
    )  # fmt: skip
    for words in (["--lr", "1"], ["--name", "x", "--lr", "fast"], ["--name", "x", "--speed", "3"]):
        with pytest.raises(SystemExit) as left:
            tyro.cli(_Settings, args=words)
        assert left.value.code == 2
    assert "--name is required" in capsys.readouterr().err
    noted = tyro.conf.FlagConversionOff[int]
    assert tyro.cli(dataclasses.make_dataclass("Noted", [("n", noted, 1)]), args=["--n", "2"]).n == 2


def test_settings_begin_from_other_files(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    node = _standin("fvcore.common.config").CfgNode
    (tmp_path / "base.yaml").write_text("A: {B: 2, C: 3}\n")
    (tmp_path / "own.yaml").write_text("_BASE_: base.yaml\nA: {C: 4}\n")
    settings = node({"A": {"B": 0, "C": 0}})
    settings.merge_from_file(str(tmp_path / "own.yaml"))
    assert (settings.A.B, settings.A.C) == (2, 4)
    registry = _standin("fvcore.common.registry").Registry("things")

    @registry.register()
    def thing() -> int:
        return 3

    assert registry.get("thing")() == 3


def test_files_of_lines_and_of_pictures(tmp_path: Path) -> None:
    lines = _standin("jsonlines")
    with lines.open(tmp_path / "a.jsonl", "w") as out:
        out.write_all([{"a": 1}, [2]])
    with lines.open(tmp_path / "a.jsonl") as rows:
        assert list(rows) == [{"a": 1}, [2]]
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (7, 5)).save(tmp_path / "a.png")
    assert _standin("imagesize").get(tmp_path / "a.png") == (7, 5)
    store = _standin("lmdb")
    with store.open(str(tmp_path / "new")).begin(write=True) as keys:
        keys.put(b"k", b"v")
    assert store.open(str(tmp_path / "new"), readonly=True).begin().get(b"k") == b"v"
    with pytest.raises(FileNotFoundError):
        store.open(str(tmp_path / "none"), readonly=True)


@pytest.mark.torch
def test_einops_moves_reduces_and_repeats_as_its_formulas_say() -> None:
    torch = pytest.importorskip("torch")
    einops = _standin("einops")
    x = torch.arange(2 * 6 * 4.0).reshape(2, 6, 4)
    assert torch.equal(einops.rearrange(x, "b (c p) w -> b c (w p)", p=2), x.reshape(2, 3, 2, 4).mT.reshape(2, 3, 8))
    assert torch.equal(einops.reduce(x, "b ... w -> b w", "mean"), x.mean(1))
    assert torch.equal(einops.reduce(x, "b (h 2) w -> b h w", "max"), x.reshape(2, 3, 2, 4).amax(2))
    assert torch.equal(einops.repeat(x, "b c w -> (r b) c 1 w", r=3), x.repeat(3, 1, 1).unsqueeze(2))
    assert torch.equal(einops.einsum(x, x, "bat c w, bat c2 w -> bat c c2"), x @ x.mT)
    with pytest.raises(einops.EinopsError):
        einops.rearrange(x, "b c w -> b c")
    with pytest.raises(einops.EinopsError):
        einops.rearrange(x, "b (c p) w -> b c p w", p=5)


@pytest.mark.torch
def test_sounds_have_the_sizes_that_torchaudio_gives(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    audio = _standin("torchaudio")
    sound = torch.randn(1, 16000)
    made = audio.transforms.MelSpectrogram(16000, n_fft=1024, hop_length=256, n_mels=64)(sound)
    assert made.shape == (1, 64, 63)
    assert audio.transforms.MFCC(16000, n_mfcc=13)(sound).shape == (1, 13, 81)
    assert audio.transforms.TimeMasking(20)(made).shape == made.shape
    assert audio.transforms.FrequencyMasking(20)(made).shape == made.shape
    assert audio.compliance.kaldi.fbank(sound, num_mel_bins=80).shape == (98, 80)
    # A slow wave stays what it is at half the rate.
    wave = torch.sin(torch.arange(16000) / 16000 * 200 * 2 * torch.pi)[None]
    half = audio.transforms.Resample(16000, 8000)(wave)
    assert half.shape == (1, 8000)
    assert torch.allclose(half[:, 100:-100], wave[:, ::2][:, 100:-100], atol=0.02)
    audio.save(str(tmp_path / "a.wav"), wave, 16000)
    again, rate = audio.load(str(tmp_path / "a.wav"))
    assert rate == 16000
    assert torch.allclose(again, wave, atol=1e-3)
    first = audio.datasets.LIBRISPEECH("data", "train-clean-100")[0]
    assert (first[0].shape[0], first[1], type(first[2])) == (1, 16000, str)
    assert len(audio.datasets.SPEECHCOMMANDS("data", subset="testing")) == 11005


@pytest.mark.torch
def test_texts_become_numbers() -> None:
    pytest.importorskip("torch")
    text = _standin("torchtext")
    split = text.data.get_tokenizer("basic_english")
    words = text.vocab.build_vocab_from_iterator([split("The cat. The dog!")], specials=["<unk>"])
    words.set_default_index(words["<unk>"])
    assert words(split("the bird")) == [1, 0]
    assert len(words) == 6
    label, line = next(iter(text.datasets.AG_NEWS(split="train")))
    assert label in (1, 2, 3, 4)
    assert len(split(line)) > 10
    rows = text.data.to_map_style_dataset(text.datasets.Multi30k(split="valid"))
    assert len(rows[3]) == 2


@pytest.mark.torch
@pytest.mark.parametrize("name", ["CIFAR10", "MNIST"])
def test_some_samples_of_a_data_set_can_be_kept(name: str) -> None:
    pytest.importorskip("torch")
    kind = getattr(_standin("torchvision.datasets"), name)

    class Part(kind):  # type: ignore[misc, valid-type]
        def __init__(self, root: str, kept: Any) -> None:
            super().__init__(root, train=True)
            self.data = self.data[kept]
            self.targets = [list(self.targets)[i] for i in kept]

    whole, part = kind("data", train=True), Part("data", [3, 15, 27])
    assert len(whole.data) == len(whole.targets) == len(whole)
    assert len(part) == len(part.data) == 3
    assert [int(part[i][1]) for i in range(3)] == [3, 5, 7]
    with pytest.raises(IndexError):
        part[3]


@pytest.mark.torch
def test_apex_that_is_imported_and_not_switched_on() -> None:
    torch = pytest.importorskip("torch")
    apex = _standin("apex")
    net = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    assert apex.amp.initialize(net, optimizer, opt_level="O0") == (net, optimizer)
    assert apex.amp.initialize(net, enabled=False) is net
    loss = net(torch.ones(1, 2)).sum()
    with apex.amp.scale_loss(loss, optimizer) as scaled:
        assert scaled is loss
    assert list(apex.amp.master_params(optimizer)) == list(net.parameters())
    with pytest.raises(RuntimeError, match="O2"):
        apex.amp.initialize(net, optimizer, opt_level="O2")
    normed = torch.nn.Sequential(torch.nn.BatchNorm1d(2))
    assert isinstance(apex.parallel.convert_syncbn_model(normed)[0], apex.parallel.SyncBatchNorm)


@pytest.mark.torch
def test_a_download_makes_its_folder(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    datasets = _standin("torchvision.datasets")
    datasets.CIFAR10(tmp_path / "a", download=False)
    assert not (tmp_path / "a").exists()
    datasets.CIFAR10(str(tmp_path / "b"), train=False, download=True)
    assert (tmp_path / "b").is_dir()
