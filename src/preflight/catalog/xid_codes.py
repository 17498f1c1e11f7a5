"""What the driver's error numbers stand for: Xid of a GPU, SXid of an NVSwitch; read from ``xids.toml``."""

from __future__ import annotations

import os
from functools import cache
from typing import Literal

import msgspec

from preflight.catalog import files
from preflight.errors import CatalogError
from preflight.vocabulary.signature import Category

PATH = os.path.join(files.SHIPPED, "xids.toml")
Kind = Literal["xid", "sxid"]


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    meaning: str
    action: str
    category: Category
    fatal: bool = False
    follows: bool = False


class DriverError(msgspec.Struct, frozen=True, kw_only=True):
    """One error number of the driver.

    Attributes:
        code: The number.
        name: The name that NVIDIA gives it.
        meaning: What it stands for, in one line.
        action: The name of what to do first.
        advice: What to do first, in one sentence.
        category: ``usercode`` where the program is at fault as a rule, ``none`` where it means no harm.
        fatal: The card, or the fabric of a switch, does not go on without a reset.
        follows: As a rule it is the consequence of another error.
    """

    code: int
    name: str
    meaning: str
    action: str
    advice: str
    category: Category
    fatal: bool = False
    follows: bool = False


@cache
def driver_errors(kind: Kind = "xid") -> dict[int, DriverError]:
    """Return every error number that is known, of GPUs (``xid``) or of switches (``sxid``).

    Raises:
        CatalogError: The table is damaged.
    """
    content = files.parse(PATH)
    advice: dict[str, str] = content["actions"]
    try:
        rows = msgspec.convert(content[kind], type=dict[int, _Row], strict=False)
    except msgspec.ValidationError as error:
        raise CatalogError(f"{PATH}: {error}") from error
    return {
        code: DriverError(code=code, advice=advice[row.action], **msgspec.structs.asdict(row))
        for code, row in rows.items()
    }


def driver_error(code: int, kind: Kind = "xid") -> DriverError | None:
    """Return what one number stands for; None where it is not known."""
    return driver_errors(kind).get(code)
