"""What a file or folder that is not there was wanted for: to be written, or to be read, and by whom."""

from __future__ import annotations

import re

from preflight.investigate.cause.frames import category_of_frames
from preflight.investigate.cause.keys import innermost_own
from preflight.investigate.cause.words import category_of_file
from preflight.vocabulary.log import Frame, Raised
from preflight.vocabulary.signature import Category

# A file that is opened to be written need not be there: its folder is missing.
_WRITES = re.compile(
    r"""\bopen\([^#]*,\s*(?:mode\s*=\s*)?['"](?:[wax]b?\+?|[wax]\+b?)t?['"]"""
    r"|\.(?:to_(?:csv|json|excel|parquet|pickle)|savefig|write_(?:text|bytes|html|image)|imsave|imwrite)\("
    r"|\b(?:np|numpy)\.save\w*\(|\b(?:FileHandler|SummaryWriter|VideoWriter)\("
)
# Who makes a folder in one that is not there wants to put something into it.
_MAKES = re.compile(r"\b(?:os\.mkdir|\w+\.mkdir)\(")
# What a program reads by itself, and neither its library nor a checkpoint's: samples, tables, features.
_READS = re.compile(
    r"\bopen\(|\b(?:np|numpy|pickle|pkl|json|sio|scipy|nib|cv2|joblib|h5py|pd|pandas|Image|tifffile|soundfile|sf|librosa|torchaudio)\.\w+\("
    r"|\b(?:listdir|scandir|glob|iterdir|walk|load_npz|loadtxt|read_\w+)\("
)
_SETTINGS = re.compile(
    r"(?i)\.(?:ya?ml|toml|ini|cfg|conf|env|py|sh)$|config|setting|(?:^|[/_.])args?(?:$|[/_.])|token|key$"
)
_TEXT = re.compile(r"(?i)\.(?:txt|log|csv|tsv|md|html|png|jpe?g|pdf|svg|out|err)$")
_SAVES = re.compile(
    r"(?i)\b(?:torch\.save|save_(?:file|pretrained|checkpoint|model|weights|state)\w*)\(|state_dict|ckpt|checkpoint"
)


# What writes the state of a model, whatever the file is called.
_STATE = re.compile(r"\b(?:torch|paddle|mindspore)\.save(?:_checkpoint)?\(|\.save_(?:pretrained|checkpoint|weights)\(")


def of_missing(raised: Raised | None, path: str) -> Category | None:
    """Return the category of a file that is not there; None where neither its name nor who wanted it tells.

    Args:
        raised: The exception that names it; None where only its line is known.
        path: The file or folder, as the message names it.
    """
    inner = _asking(raised)
    if inner is not None and _MAKES.search(inner.code):
        return "usercode"
    if inner is not None and _STATE.search(inner.code) and not _TEXT.search(path):
        return "checkpoint"
    if inner is not None and _WRITES.search(inner.code) and not _is_state(inner.code, path):
        return "usercode"
    named = category_of_file(path) or (category_of_frames(raised) if raised is not None else None)
    if named is not None or inner is None or _SETTINGS.search(path):
        return named
    return "data" if _READS.search(inner.code) else None


def _is_state(code: str, path: str) -> bool:
    """Return whether what is written is the state of a run; a text beside it, in a folder called so, is not."""
    return not _TEXT.search(path) and _SAVES.search(f"{code} {path}") is not None


def _asking(raised: Raised | None) -> Frame | None:
    """Return the frame whose line asks for the file: the innermost one of one's own."""
    return innermost_own(raised) if raised is not None else None
