"""How far the memory formulas are from published measurements.

Usage: python benchmarks/memory_accuracy.py [FOLDER] [-v] [SOURCE] [--page]
--page writes the tables of docs/concepts/accuracy-of-memory.md.
FOLDER holds memory.csv and fits_oom.csv of one's own (default: the shipped ones); -v prints every row, or those of
the source that is named.

Every row is expressed in the words of the vocabulary where its source says enough, estimated, and compared within its
own kind of reading: allocated and active against the allocated peak, reserved against reserved, nvidia-smi against
the device. Errors are signed relative errors (estimate / measured - 1), per source; the last line weighs sources alike.
"""

from __future__ import annotations

import sys
from pathlib import Path

from preflight.plan.validation.memory import validate_memory
from preflight.plan.validation.table import memory_table
from preflight.vocabulary.quantity import GIB
from preflight.vocabulary.validation import MemoryValidation, Residual

PAGE = Path(__file__).resolve().parents[1] / "docs" / "concepts" / "accuracy-of-memory.md"
MARK = "<!-- what follows is written by benchmarks/memory_accuracy.py --page -->"


def write_page(found: MemoryValidation) -> None:
    """Put the tables behind the mark of the page."""
    head = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    PAGE.write_text(f"{head}{MARK}\n\n{memory_table(found)}\n", encoding="utf-8")


def line_of(row: Residual) -> str:
    """Return a row with the parts of its estimate."""
    detail = " ".join(f"{name[:6]}={value / GIB:.2f}" for name, value in row.parts.items() if value)
    return (
        f"{row.id:28} {row.model[:30]:30} meas {row.measured / GIB:8.3f} est {row.estimate.mid / GIB:8.3f}"
        f" {row.error:+7.1%} {' ' if row.inside else '*'} {detail}"
    )


def show(found: MemoryValidation) -> None:
    """Print errors by source and quantity, why rows were left out, and verdicts."""
    print(f"{'source':26} {'reading':10} {'rows':>4} {'median':>8} {'MAE':>7} {'bias':>8} {'in interval':>11}")
    for entry in (*found.errors, *([found.macro] if found.macro else [])):
        quantity = entry.quantity if entry is not found.macro else ""
        print(
            f"{entry.source:26} {quantity:10} {entry.rows:4} {entry.median:+8.1%} {entry.mae:7.1%} "
            f"{entry.bias:+8.1%} {entry.coverage:11.0%}"
        )
    print(f"\n{len(found.residuals)} of {found.total_rows} rows expressed; the others:")
    for left in found.refused:
        print(f"  {left.rows:3} {left.source}: {left.reason}")
    print("\nobserved against verdict (rows)      yes   unknown        no")
    for counts in found.fits:
        print(f"  {counts.observed:30} {counts.yes:7} {counts.unknown:9} {counts.no:9}")
    if found.fits_right is not None:
        print(f"  {found.fits_right:.1%} of the verdicts that were given are right")
    for left in found.fits_refused:
        print(f"  {left.rows:3} rows of fits_oom.csv left out ({left.source}): {left.reason}")


def main(words: list[str]) -> None:
    """Print the comparison."""
    verbose, rest = "-v" in words, [word for word in words if not word.startswith("-")]
    folder = next((word for word in rest if Path(word).is_dir()), None)
    found = validate_memory(folder)
    named = [word for word in rest if word != folder]
    if verbose:
        for row in found.residuals:
            if not named or row.source in named:
                print(line_of(row))
    show(found)
    if "--page" in words:
        write_page(found)


if __name__ == "__main__":
    main(sys.argv[1:])
