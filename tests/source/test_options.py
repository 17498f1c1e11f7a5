"""Command lines and configurations: the namespace is what the library itself would give."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from preflight.errors import UsageError
from preflight.source.reading import read
from preflight.source.script import parse
from preflight.source.values import plain, settle


def namespace(text: str, arguments: tuple[str, ...] | None = None, name: str = "args") -> dict[str, Any]:
    reading = read(parse(textwrap.dedent(text).encode(), "t.py"), arguments)
    held = settle(reading.machine.module.namespace[name])
    return {key: plain(value, ...) for key, value in held.attrs.items()}  # type: ignore[attr-defined]


ARGPARSE = {
    "plain": """
        p.add_argument("--lr", type=float, default=1e-3)
        p.add_argument("--name", default="gpt")
        p.add_argument("-b", "--batch-size", type=int, default="32")
        p.add_argument("--amp", action="store_true")
        p.add_argument("--no-shuffle", dest="shuffle", action="store_false")
        p.add_argument("--betas", nargs=2, type=float, default=(0.9, 0.95))
        p.add_argument("--seed", type=int)
        p.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
        p.add_argument("-v", action="count", default=0)
        p.add_argument("--opt", choices=["sgd", "adam"], default="adam")
        p.add_argument("--const", action="store_const", const=5, default=1)
        p.add_argument("--many", action="append")
        p.add_argument("--maybe", nargs="?", const="c", default="d")
    """,
    "groups": """
        g = p.add_argument_group("model")
        g.add_argument("--depth", type=int, default=12)
        x = p.add_mutually_exclusive_group()
        x.add_argument("--cpu", action="store_true")
        x.add_argument("--gpu", dest="cpu", action="store_false")
        p.set_defaults(depth=24, extra="yes")
    """,
    "functions as types": """
        def boolean(s): return s.lower() in ("yes", "true", "1")
        def pair(s): return tuple(int(x) for x in s.split(","))
        p.add_argument("--flag", type=boolean, default="no")
        p.add_argument("--size", type=pair, default="3,4")
        p.add_argument("--same", type=lambda s: int(s) * 2, default=7)
    """,
    "parents": """
        common = argparse.ArgumentParser(add_help=False)
        common.add_argument("--epochs", type=int, default=3)
        p = argparse.ArgumentParser(parents=[common])
        p.add_argument("--lr", type=float, default=0.1)
    """,
    "loop": """
        for name, default in [("a", 1), ("b", 2.5), ("c", "x")]:
            p.add_argument("--" + name, type=type(default), default=default)
        for name, default in dict(d=3, e="y").items():
            p.add_argument(f"--{name}", default=default)
    """,
    "positional": """
        p.add_argument("data", nargs="?", default="data/")
        p.add_argument("rest", nargs="*")
    """,
}
LINES = {
    "plain": [
        ["--lr", "0.5", "-b4", "--amp", "--betas", "0.1", "0.2", "--no-compile", "-vv", "--opt=sgd"],
        ["--many", "a", "--many", "b", "--maybe"],
    ],
    "groups": [["--depth", "3"], ["--cpu"]],
    "functions as types": [["--flag", "yes", "--size", "1,2", "--same", "4"]],
    "parents": [["--epochs", "9"]],
    "loop": [["--a", "5", "--b", "1", "--d", "z"]],
    "positional": [["x", "y", "z"]],
}


def script(body: str) -> str:
    return "import argparse\np = argparse.ArgumentParser()\n" + textwrap.dedent(body) + "\nargs = p.parse_args()\n"


@pytest.mark.parametrize(("name", "line"), [(name, line) for name in ARGPARSE for line in (None, *LINES[name])])
def test_the_namespace_is_what_argparse_gives(name: str, line: list[str] | None) -> None:
    scope: dict[str, Any] = {"argparse": argparse}
    exec("p = argparse.ArgumentParser()\n" + textwrap.dedent(ARGPARSE[name]), scope)
    real = vars(scope["p"].parse_args(line or []))
    assert namespace(script(ARGPARSE[name]), tuple(line) if line is not None else None) == real


OPTION = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["lr", "batch_size", "n-layer", "x1", "opt"]),
        "short": st.sampled_from([None, "-q"]),
        "kind": st.sampled_from(["int", "float", "str", None]),
        "action": st.sampled_from([None, None, "store_true", "store_false", "count"]),
        "default": st.one_of(st.none(), st.integers(-5, 99), st.floats(0, 1), st.sampled_from(["7", "12"])),
        "dest": st.sampled_from([None, None, "elsewhere"]),
    }
)


_AS_TEXT = {"short": None, "action": None, "default": "7", "dest": "elsewhere"}


@example([{"name": "lr", "kind": "str", **_AS_TEXT}, {"name": "batch_size", "kind": "int", **_AS_TEXT}], False)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(OPTION, min_size=1, max_size=4, unique_by=(lambda o: o["name"], lambda o: o["short"] or o["name"])),
    st.booleans(),
)
def test_random_parsers_give_what_argparse_gives(options: list[dict[str, Any]], given_line: bool) -> None:
    lines = []
    for option in options:
        words = [repr("--" + option["name"])]
        if option["short"]:
            words.insert(0, repr(option["short"]))
        if option["action"]:
            words.append(f"action={option['action']!r}")
        elif option["kind"]:
            words.append(f"type={option['kind']}")
        if option["default"] is not None:
            words.append(f"default={option['default']!r}")
        if option["dest"]:
            words.append(f"dest={option['dest']!r}")
        lines.append(f"p.add_argument({', '.join(words)})")
    line: list[str] = []
    if given_line:
        first = options[0]
        line = ["--" + first["name"]] + ([] if first["action"] else ["3"])
    scope: dict[str, Any] = {"p": argparse.ArgumentParser()}
    exec("\n".join(lines), scope)
    try:
        real = vars(scope["p"].parse_args(line))
    except TypeError:
        return  # a text counted up
    assert namespace(script("\n".join(lines)), tuple(line) if given_line else None) == real


def test_a_command_line_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(UsageError, match="unrecognized"):
        namespace(script("p.add_argument('--lr')"), ("--typo", "3"))
    with pytest.raises(UsageError, match="invalid choice"):
        namespace(script("p.add_argument('--o', choices=['a'])"), ("--o", "b"))


def test_required_options_are_unknown_and_say_so(follow: Any) -> None:
    followed = follow(
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--x', required=True)\nx = p.parse_args().x"
    )
    assert followed["x"] is ...
    assert "required" in followed.value("x").reason


def test_defaults_are_soft_and_literals_are_not(follow: Any) -> None:
    followed = follow(
        """
        import argparse
        p = argparse.ArgumentParser()
        p.add_argument("--n", type=int, default=4)
        args = p.parse_args()
        n = args.n; double = n * 2; text = f"{n}"; old = "%d" % n; new = "{}".format(n); whole = int(n); fixed = 3
        branch = "big" if n > 2 else "small"
        if n > 2: side = "yes"
        else: side = "no"
        """
    )
    for name in ("n", "double", "text", "old", "new", "whole"):
        assert settle(followed.value(name)).soft, name
    assert not followed.value("fixed").soft
    assert followed["branch"] == "big"
    assert followed["side"] == "yes"
    assert {o.value for o in followed.value("side").options} == {"yes", "no"}


def test_namespaces_are_updated_and_seen_as_dictionaries(follow: Any) -> None:
    followed = follow(
        """
        import argparse
        p = argparse.ArgumentParser()
        p.add_argument("--lr", type=float, default=0.1)
        sub = p.add_subparsers(dest="command")
        one = sub.add_parser("train"); one.add_argument("--epochs", type=int, default=5)
        args, rest = p.parse_known_args()
        a = vars(args)["lr"]
        args.lr = 0.5
        b = args.lr; c = vars(args)["lr"]; args.__dict__.update(new=3); d = args.new; e = args.epochs
        f = {**vars(args)}["lr"]; g = getattr(args, "lr"); h = getattr(args, "absent", 7)
        args.lr *= 2; i = args.lr
        """
    )
    assert {n: followed[n] for n in "abcdefghi"} == {
        "a": 0.1,
        "b": 0.5,
        "c": 0.5,
        "d": 3,
        "e": 5,
        "f": 0.5,
        "g": 0.5,
        "h": 7,
        "i": 1.0,
    }


CONFIGURED = {
    "click": """
        import click
        got = {}
        @click.command()
        @click.option("--lr", default=0.1, type=float)
        @click.option("--batch-size", "-b", default=8)
        @click.option("--amp/--no-amp", default=True)
        def main(lr, batch_size, amp):
            got.update(lr=lr, batch=batch_size, amp=amp)
        main()
    """,
    "typer": """
        import typer
        got = {}
        def main(lr: float = 0.1, batch: int = typer.Option(8, help="x"), amp: bool = True):
            got.update(lr=lr, batch=batch, amp=amp)
        typer.run(main)
    """,
    "fire": """
        import fire
        got = {}
        def main(lr=0.1, batch=8, amp=True):
            got.update(lr=lr, batch=batch, amp=amp)
        fire.Fire(main)
    """,
    "tyro": """
        import tyro, dataclasses
        got = {}
        @dataclasses.dataclass
        class Args:
            lr: float = 0.1
            batch: int = 8
            amp: bool = True
        a = tyro.cli(Args)
        got.update(lr=a.lr, batch=a.batch, amp=a.amp)
    """,
    "HfArgumentParser": """
        from dataclasses import dataclass, field
        from transformers import HfArgumentParser
        got = {}
        @dataclass
        class A:
            lr: float = field(default=0.1, metadata={"help": "x"})
        @dataclass
        class B:
            batch: int = 8
            amp: bool = field(default=True)
        a, b = HfArgumentParser((A, B)).parse_args_into_dataclasses()
        got.update(lr=a.lr, batch=b.batch, amp=b.amp)
    """,
    "simple-parsing": """
        from dataclasses import dataclass
        from simple_parsing import ArgumentParser
        got = {}
        @dataclass
        class Args:
            lr: float = 0.1
            batch: int = 8
            amp: bool = True
        p = ArgumentParser()
        p.add_arguments(Args, dest="opts")
        a = p.parse_args().opts
        got.update(lr=a.lr, batch=a.batch, amp=a.amp)
    """,
    "hydra": """
        import hydra
        from omegaconf import DictConfig
        got = {}
        @hydra.main(version_base=None, config_path="conf", config_name="config")
        def main(cfg: DictConfig):
            got.update(lr=cfg.optim.lr, batch=cfg["batch"], amp=cfg.amp)
        if __name__ == "__main__":
            main()
    """,
    "OmegaConf": """
        from omegaconf import OmegaConf
        got = {}
        base = OmegaConf.load("base.yaml")
        cfg = OmegaConf.merge(base, OmegaConf.create({"amp": True}))
        got.update(lr=cfg.lr, batch=cfg.double, amp=cfg.amp)
    """,
    "YAML": """
        import yaml
        with open("base.yaml") as f:
            cfg = yaml.safe_load(f)
        got = {"lr": cfg["lr"], "batch": cfg["batch"] * 2, "amp": True}
    """,
    "ruamel": """
        from ruamel.yaml import YAML
        with open("small.yaml") as f:
            cfg = YAML(typ="safe").load(f)
        got = {"lr": cfg["lr"], "batch": 8, "amp": True}
    """,
    "JSON": """
        import json
        got = json.load(open("c.json"))
    """,
    "TOML": """
        import tomllib
        with open("c.toml", "rb") as f:
            got = tomllib.load(f)["train"]
    """,
    "environment": """
        import os
        got = {"lr": float(os.environ.get("LR", "0.1")), "batch": int(os.getenv("BATCH", 8)), "amp": bool(int(os.environ.get("AMP", 1)))}
    """,
    "configurator": """
        lr = 1.0
        batch = 8
        amp = False
        exec(open("configurator.py").read())
        got = dict(lr=lr, batch=batch, amp=amp)
    """,
}
FILES = {
    "conf/config.yaml": "defaults:\n  - optim: adam\n  - _self_\nbatch: ${size}\nsize: 8\namp: true\n",
    "conf/optim/adam.yaml": "lr: 0.1\n",
    "base.yaml": "lr: 0.1\nbatch: 4\ndouble: 8\n",
    "small.yaml": "lr: 1e-1\n",
    "c.json": '{"lr": 0.1, "batch": 8, "amp": true}',
    "c.toml": "[train]\nlr = 0.1\nbatch = 8\namp = true\n",
    "configurator.py": "lr = 0.1\namp = True\n",
}


@pytest.mark.parametrize("name", CONFIGURED)
def test_configurations_are_read(name: str, follow: Any) -> None:
    assert follow(CONFIGURED[name], FILES)["got"] == {"lr": 0.1, "batch": 8, "amp": True}


def test_a_merged_configuration_leaves_the_record_that_it_was_made_of(follow: Any) -> None:
    followed = follow(
        """
        from dataclasses import dataclass
        from omegaconf import OmegaConf
        @dataclass
        class Config:
            lr: float = 0.1
        base = OmegaConf.structured(Config())
        cfg = OmegaConf.merge(base, {"lr": 0.2})
        before, after = base.lr, cfg.lr
        """
    )
    assert (followed["before"], followed["after"]) == (0.1, 0.2)


COMPOSED = {
    "conf/config.yaml": "defaults:\n  - model: small\n  - server/web\n  - _self_\n  - experiment: null\nlr: 0.1\n",
    "conf/server/web.yaml": "port: 80\n",
    "conf/model/small.yaml": "width: 8\n",
    "conf/model/large.yaml": "width: 64\n",
    "conf/model/huge.yaml": "width: 512\n",
    "conf/experiment/first.yaml": "# @package _global_\ndefaults:\n  - override /model: large\n  - part: one\nlr: 0.5\n",
    "conf/experiment/part/one.yaml": "# @package part\nkind: 1\n",
    "conf/experiment/part/two.yaml": "# @package part\nkind: 2\n",
}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (("experiment=first",), {"lr": 0.5, "width": 64, "kind": 1, "port": 80}),
        (("experiment=first", "model=huge", "experiment/part=two"), {"lr": 0.5, "width": 512, "kind": 2, "port": 80}),
    ],
)
def test_a_file_of_hydra_says_where_it_belongs_and_the_command_line_goes_before_it(
    line: tuple[str, ...], expected: dict[str, float], follow: Any
) -> None:
    script = """
        import hydra
        got = {}
        @hydra.main(version_base=None, config_path="conf", config_name="config")
        def main(cfg):
            got.update(lr=cfg.lr, width=cfg.model.width, kind=cfg.part.kind, port=cfg.server.port)
        main()
    """
    assert follow(script, COMPOSED, line)["got"] == expected


def test_hydra_fills_in_what_the_items_of_a_list_refer_to(follow: Any) -> None:
    script = CONFIGURED["hydra"].replace("amp=cfg.amp)", "sizes=cfg.sizes)")
    followed = follow(script, FILES | {"conf/config.yaml": FILES["conf/config.yaml"] + "sizes: ['${size}', 2]\n"})
    assert followed["got"]["sizes"] == [8, 2]


@pytest.mark.parametrize("test", ["(args.major, 0) >= (8, 0)", "[args.major, 0] == [8, 0]", "8 in (args.major, 7)"])
def test_both_sides_of_a_comparison_of_sequences_are_followed_where_an_option_decides(test: str) -> None:
    text = f"""
        import argparse, torch
        p = argparse.ArgumentParser()
        p.add_argument("--major", type=int, default=7)
        args = p.parse_args()
        if {test}:
            torch.optim.SGD(torch.nn.Linear(2, 2).parameters())
    """
    reading = read(parse(textwrap.dedent(text).encode(), "t.py"), ())
    (event,) = reading.trace.calls("torch.optim.SGD")
    assert event.context.shadow
