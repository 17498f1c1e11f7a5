"""Parameter arithmetic of published architectures, one module for each kin, keyed by ``model_type``.

A module offers ``BUILDERS``: from a ``model_type`` of a Hugging Face ``config.json`` to the function that counts it.
Modules are imported one at a time, when a configuration asks for them.
"""
