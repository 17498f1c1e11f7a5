"""Who had come to its end while the others were left waiting: it had less to do than they, or went away."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.culprit.vote import Scene, Vote
from preflight.vocabulary.incident import Quote


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote for the few ranks that tell of their end, or ended well, where the others fail only for want of somebody."""
    done = _done(scene)
    left = {event.rank for event in scene.failing if event.role == "cascade" and event.rank is not None} - set(done)
    caused = any(event.rank is not None and not event.id.startswith("exit.") for event in scene.roots())
    if not done or not left or caused or len(done) > len(left):
        return
    for rank, (text, quotes) in done.items():
        yield Vote(kind="left-early", rank=rank, strength=1.0 / len(done), text=text, quotes=quotes)


def _done(scene: Scene) -> dict[int, tuple[str, tuple[Quote, ...]]]:
    case = scene.case
    found: dict[int, tuple[str, tuple[Quote, ...]]] = {}
    for event in case.events:
        if event.signature is not None and event.signature.marks == "end" and event.rank is not None:
            text = f"had come to its end, while others were still at work: {event.title}"
            found.setdefault(event.rank, (text, (case.quote(event.hit),)))
    for ending in case.endings:
        rank = case.people.rank_of(ending.about, ending.file)
        if rank is not None and ending.code == 0:
            found.setdefault(rank, ("ended well, while others failed", ()))
    return found
