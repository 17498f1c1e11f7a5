"""What tells causes apart: each file of this folder looks for one kind of thing in what was read.

A file offers ``observe(scene: Scene) -> Iterable[Observation]``; its name is how signatures ask for it in
``discriminated_by``, with dashes.
"""
