"""Files beside the logs: dumps, stacks, kernel and scheduler records, environments; one module per format.

A module of this folder that has ``KIND`` is a format: ``KIND`` is a ``LogKind``, ``looks_like(name, head)`` tells from the
name of a file and its first 8,192 bytes whether it is one, ``read(content, file)`` returns a ``Part``.
A format with ``TEXT = True`` is made of lines in which signatures are looked for as well.
``opening.py`` finds them and asks them in turn; nothing is registered by hand.
"""
