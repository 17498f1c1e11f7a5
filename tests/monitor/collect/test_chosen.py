"""What a program was set to is read where its training is called from, and nothing of the program runs for it."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from preflight.monitor.collect.chosen import _written, command_line, seen

sys.path.insert(0, str(Path(__file__).parent))

LIMIT = 0.25
_HIDDEN = 3.5


@dataclasses.dataclass
class Choices:
    """Settings as many programs hold them."""

    clip: float = 1.0
    name: str = "adam"
    betas: tuple[float, float] = (0.9, 0.95)
    api_key: str = "not to be told"


class Asked:
    """An object that must not be asked anything."""

    def __init__(self) -> None:
        self.__dict__["decay"] = 0.5

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)

    def __eq__(self, other: object) -> bool:
        raise AssertionError

    __hash__ = object.__hash__


def inner() -> tuple[dict[str, Any], dict[str, Any]]:
    return seen(sys._getframe())


def test_namespaces_data_classes_and_what_is_called_a_configuration_are_read() -> None:
    given = argparse.Namespace(lr=0.1, amp=False, _private=2, nothing=None, many=list(range(40)))
    settings = Choices()
    cfg = {"optim": {"warmup": 10}, "weights": [1, 2.5], "moves": [(0, 1), (1, 0)]}
    config = Asked()
    other = {"loss": 3.25}  # a dictionary of the program, by no such name
    options, constants = inner()
    assert options == {
        **{"lr": 0.1, "amp": False, "clip": 1.0, "name": "adam", "betas.0": 0.9, "betas.1": 0.95},
        **{"optim.warmup": 10, "weights.0": 1, "weights.1": 2.5, "decay": 0.5},
    }
    assert constants["LIMIT"] == 0.25
    assert "_HIDDEN" not in constants
    assert all((given, settings, cfg, other))
    assert type(config) is Asked


def test_numbers_that_are_no_settings_are_left_out() -> None:
    args = SimpleNamespace(large=1e30, undefined=float("nan"), fine=2, word="x" * 100)
    assert inner()[0] == {"fine": 2}
    assert args.fine == 2


def test_nothing_that_may_be_secret_is_told() -> None:
    key = "a0B1" * 5
    args = argparse.Namespace(
        **{"tokens": ["one", "two"], "auth": {"name": "three", "word": "four"}, "db_pass": "five", "passphrase": "six"},
        **{
            "where": "scheme://name:seven@host",
            "plain": f"{key}{key}",
            "short": key,
            "words": "eight nine",
            "pin_key": 1234,
        },
        **{
            "tokenizer": {"dropout": 0.1},
            "key_scale": 0.5,
            "auth_on": True,
            "optim": "adamw_torch",
            "net": "vit_b_16_224",
        },
    )
    assert inner()[0] == {
        **{"tokenizer.dropout": 0.1, "key_scale": 0.5, "auth_on": True, "optim": "adamw_torch", "net": "vit_b_16_224"}
    }
    assert args.short == key
    assert dict(_written(compile("token = 1234\nweight = 2\n", "train.py", "exec"))) == {"weight": 2}


def test_a_module_that_is_loaded_when_it_is_asked_stays_unloaded(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text("raise AssertionError\n")
    found = importlib.util.spec_from_file_location("late", tmp_path / "late.py")
    assert found is not None
    assert found.loader is not None
    found.loader = importlib.util.LazyLoader(found.loader)
    config = importlib.util.module_from_spec(found)
    found.loader.exec_module(config)
    inner()
    assert type(config) is not type(sys)


def test_a_class_made_by_one_of_its_own_is_not_asked_and_slots_are_read() -> None:
    class Made(type):
        def __getattribute__(cls, name: str) -> Any:
            raise AssertionError(name)

    class Odd(metaclass=Made):
        pass

    @dataclasses.dataclass(slots=True)
    class Slotted:
        weight: float = 0.5

    config, settings = Odd(), Slotted()
    assert inner()[0] == {"weight": 0.5}
    assert settings.weight == 0.5
    assert type(config) is Odd


def test_what_an_object_was_set_to_comes_before_what_its_class_begins_with() -> None:
    class Config:
        weight = 0.5
        clip = 1.0

    @dataclasses.dataclass
    class Settings:
        rate: float = 0.1

    cfg = Config()
    cfg.clip = 0.0
    names = {"config": Config, "settings": Settings}
    config, settings = names.values()
    assert inner()[0] == {"clip": 0.0, "weight": 0.5}
    assert (config, settings, cfg.clip) == (Config, Settings, 0.0)


def test_of_a_large_table_only_the_first_entries_are_looked_at() -> None:
    params = {f"entry {number}": object() for number in range(300_000)}
    config = {"table": params}
    began = time.process_time()
    assert inner()[0] == {}
    assert time.process_time() - began < 0.1
    assert config["table"] is params


def test_constants_of_a_long_text_are_found_beyond_what_one_byte_counts() -> None:
    text = "\n".join(f"name{number} = {number + 1000}" for number in range(600))
    assert dict(_written(compile(text, "train.py", "exec"))) == {f"name{n}": n + 1000 for n in range(600)}


def test_what_the_text_of_a_file_gives_a_value_once_is_a_constant() -> None:
    text = "rate = 0.07\nstep = 0\nfor step in range(3):\n    pass\nname = 'x'\nmade = rate * 2\nwhole = 300\n"
    assert dict(_written(compile(text, "train.py", "exec"))) == {"rate": 0.07, "whole": 300}


@pytest.mark.torch
def test_it_is_written_down_when_the_first_optimizer_is_used() -> None:
    torch = pytest.importorskip("torch")
    from recording import recorded

    def trained(args: argparse.Namespace) -> None:
        config = torch.nn.Linear(2, 1)  # names by which settings go, of what are none
        opt = torch.optim.SGD(config.parameters(), lr=args.lr)
        for _ in range(2):
            config(torch.randn(3, 2)).sum().backward()
            opt.step()

    with recorded() as kept:
        trained(argparse.Namespace(lr=0.125))
        trained(argparse.Namespace(lr=0.125))
    assert not kept.rows.get("trouble")
    (row,) = kept.table("settings")
    assert row["options"] == {"lr": 0.125}
    assert row["constants"]["LIMIT"] == LIMIT
    assert kept.windows()[-1].run.notes["settings"][0]["options"]["lr"] == 0.125


def test_a_command_line_is_told_without_its_secrets() -> None:
    given = "python train.py --lr 0.1 --hf-token abc --password=x --max_token 512 --tokenizer gpt2 --auth -v sk-0123456789abcdef"
    shown = "python train.py --lr 0.1 --hf-token *** --password=*** --max_token 512 --tokenizer gpt2 --auth -v ***"
    assert command_line(given.split()) == shown.split()
    assert command_line(["train.py", "--token=hf_0123456789abcd", "hf_0123456789abcd"]) == [
        "train.py",
        "--token=***",
        "***",
    ]
