"""What is looked at for a snapshot: each module has a ``collect(wanted)`` that returns values by dotted name.

A value that cannot be had is left out, and ``<name>.problem`` says why. Nothing here may wait: programs are asked with a
deadline, files are those of the kernel.
"""
