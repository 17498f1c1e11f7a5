"""The reader of catalog files: it refuses what does not say where it comes from, and reads raw text like the parser."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.catalog import files
from preflight.errors import CatalogError

KINDS = ("gpus", "links", "clouds")
ALL = [(kind, name) for kind in KINDS for name in files.names(kind)]


class _Thing(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    size: float
    sources: tuple[str, ...]


def _write(folder: Path, text: str) -> str:
    path = folder / "thing.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_every_file_says_where_its_numbers_were_read(kind: str, name: str) -> None:
    path = files.find(kind, name)
    assert path is not None
    content = files.parse(path)
    assert all(len(source) > 10 for source in content["sources"])


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_raw_text_gives_what_the_parser_gives(kind: str, name: str) -> None:
    path = files.find(kind, name)
    assert path is not None
    content, text = files.parse(path), files.read_text(path)
    assert list(files.plain_list(text, "aliases")) == content.get("aliases", [])
    assert files.plain_number(text, "sold_as_gb") == content.get("sold_as_gb")
    assert files.plain_number(text, "memory_bytes") == content.get("memory_bytes")


@pytest.mark.parametrize(
    "sources", ["", "sources = []", 'sources = [""]', 'sources = ["a", "  "]', 'sources = "a page"', "sources = [1]"]
)
def test_a_file_without_a_source_is_refused(tmp_path: Path, sources: str) -> None:
    path = _write(tmp_path, f'title = "T"\nsize = 1.0\n{sources}\n')
    with pytest.raises(CatalogError, match=r"thing\.toml: names no source"):
        files.parse(path)


def test_broken_toml_is_one_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match=r"thing\.toml: not TOML"):
        files.parse(_write(tmp_path, "title = \n"))
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CatalogError, match=r"binary\.toml: cannot be read"):
        files.parse(str(binary))


def test_conversion_is_strict(tmp_path: Path) -> None:
    path = _write(tmp_path, 'title = "T"\nsize = 1\nsources = ["page"]\n')
    assert files.convert(files.parse(path), _Thing, path) == _Thing(title="T", size=1.0, sources=("page",))
    with pytest.raises(CatalogError, match="size"):
        files.convert({"title": "T", "size": "1", "sources": ["page"]}, _Thing, path)
    with pytest.raises(CatalogError, match="unknown key 'siez'") as caught:
        files.convert({"title": "T", "siez": 1.0, "sources": ["page"]}, _Thing, path)
    assert caught.value.hint == "did you mean 'size'?"


def test_a_user_folder_adds_and_wins(tmp_path: Path) -> None:
    folder = tmp_path / "gpus"
    folder.mkdir()
    (folder / "t4.toml").write_text('sources = ["mine"]\n', encoding="utf-8")
    (folder / "mine.toml").write_text('sources = ["mine"]\n', encoding="utf-8")
    extra = (str(tmp_path),)
    assert {"mine", "t4", "h100_sxm"} <= set(files.names("gpus", extra))
    assert files.find("gpus", "t4", extra) == str(folder / "t4.toml")
    assert "mine" not in files.names("gpus")
    with pytest.raises(CatalogError, match="is not there"):
        files.names("gpus", (str(tmp_path / "missing"),))


@pytest.mark.parametrize("name", ["../gpus/t4", "/etc/passwd", "", ".", "t4.toml"])
def test_a_name_is_never_a_path(name: str) -> None:
    assert files.find("gpus", name) is None


@given(st.text(max_size=80), st.text(max_size=12))
def test_raw_reading_never_raises(text: str, key: str) -> None:
    assert isinstance(files.plain_list(text, key), tuple)
    number = files.plain_number(text, key)
    assert number is None or isinstance(number, float)


def test_raw_reading_stops_at_the_first_table() -> None:
    assert files.plain_list('title = "a"\n[other]\naliases = ["x"]\n', "aliases") == ()
    assert files.plain_list('aliases = [\n    "x",\n    "y",\n]\n', "aliases") == ("x", "y")
    assert files.plain_number("aliases_gb = 3\n", "aliases") is None
