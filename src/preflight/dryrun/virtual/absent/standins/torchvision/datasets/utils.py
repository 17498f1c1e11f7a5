"""Downloads, none of which is made."""

from __future__ import annotations

from typing import Any


def download_url(*args: Any, **kwargs: Any) -> None:
    """Download nothing."""


download_and_extract_archive = extract_archive = download_file_from_google_drive = download_url


def check_integrity(*args: Any, **kwargs: Any) -> bool:
    """Whether a file is whole: taken to be."""
    return True
