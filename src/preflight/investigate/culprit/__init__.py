"""Who began it: each file of this folder is one kind of evidence, and gives votes.

A file offers ``votes(scene: Scene) -> Iterable[Vote]``.
What a kind of vote weighs stands in ``weights.toml`` beside these files, with how it was fitted.
"""
