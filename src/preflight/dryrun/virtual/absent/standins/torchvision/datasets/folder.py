"""Pictures in folders."""

from __future__ import annotations

from . import IMG_EXTENSIONS, DatasetFolder, ImageFolder, default_loader, pil_loader

__all__ = ["IMG_EXTENSIONS", "DatasetFolder", "ImageFolder", "default_loader", "pil_loader"]
