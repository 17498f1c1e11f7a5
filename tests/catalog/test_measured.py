"""Published measurements that are shipped: every row says where it was read."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.catalog.measured import measured_rows, tables
from preflight.errors import CatalogError

README = Path(__file__).parents[2] / "src/preflight/catalog/measurements/README.md"


def test_every_row_of_a_collected_table_names_its_place_and_every_source_has_a_licence_line() -> None:
    licences = README.read_text(encoding="utf-8")
    for table in tables():
        rows = measured_rows(table)
        assert rows
        for row in rows:
            assert f"`{row['source']}`" in licences, row["source"]
            if "source_location" in row:
                assert row["source_location"]


@pytest.mark.parametrize("table", tables())
def test_a_row_is_named_once(table: str) -> None:
    names = [row["id"] for row in measured_rows(table)]
    assert len(set(names)) == len(names)


def test_a_table_of_one_source_bears_its_name() -> None:
    row = measured_rows("vtrain_a100_multinode")[0]
    assert row["source"] == "vtrain-a100-multinode"
    assert float(row["iteration time (ms)"]) > 0


def test_an_unknown_table_is_an_error() -> None:
    with pytest.raises(CatalogError, match="nothing_of_the_kind"):
        measured_rows("nothing_of_the_kind")
