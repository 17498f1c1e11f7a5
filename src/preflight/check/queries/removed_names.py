"""Names of libraries that were removed or deprecated: since when, and what to use instead.

Checked against PyTorch 2.13 and Transformers 5.23: removed names are missing there or raise when they are called.
Versions are those of release notes and of the warnings that the libraries print; None where neither tells.
"""

from __future__ import annotations

from typing import NamedTuple


class Change(NamedTuple):
    """What became of a name.

    Attributes:
        library: Whose versions are meant.
        deprecated: The version that began to warn, or None.
        removed: The version without it, or None while it is there.
        instead: What to use.
        source: Where the versions are from.
    """

    library: str
    deprecated: str | None
    removed: str | None
    instead: str
    source: str


LATEST = "2.13 or before"
_LINALG = "message of the function in torch/_linalg_utils.py"
_DOC = "documentation of the function in PyTorch 2.13"
_NUMPY = "NumPy 1.24 release notes, expired deprecations"


def _init(name: str) -> Change:
    return Change("PyTorch", "0.4", None, f"torch.nn.init.{name}_", _DOC)


NAMES: dict[str, Change] = {
    "torch.symeig": Change("PyTorch", "1.9", LATEST, "torch.linalg.eigh", _LINALG),
    "torch.eig": Change("PyTorch", "1.9", LATEST, "torch.linalg.eig", _LINALG),
    "torch.lstsq": Change("PyTorch", "1.9", LATEST, "torch.linalg.lstsq", _LINALG),
    "torch.solve": Change("PyTorch", "1.9", LATEST, "torch.linalg.solve", _LINALG),
    "torch.matrix_rank": Change("PyTorch", "1.9", LATEST, "torch.linalg.matrix_rank", _LINALG),
    "torch.qr": Change("PyTorch", "1.9", None, "torch.linalg.qr", "warning of PyTorch 2.13"),
    "torch.cholesky": Change("PyTorch", "1.9", None, "torch.linalg.cholesky", "warning of PyTorch 2.13"),
    "torch.gels": Change("PyTorch", None, LATEST, "torch.linalg.lstsq", "missing in PyTorch 2.13"),
    "torch.rfft": Change("PyTorch", "1.7", "1.8", "torch.fft.rfft", "PyTorch 1.8 release notes"),
    "torch.irfft": Change("PyTorch", "1.7", "1.8", "torch.fft.irfft", "PyTorch 1.8 release notes"),
    "torch.ifft": Change("PyTorch", "1.7", "1.8", "torch.fft.ifft", "PyTorch 1.8 release notes"),
    "torch.set_deterministic": Change(
        "PyTorch", None, LATEST, "torch.use_deterministic_algorithms", "missing in PyTorch 2.13"
    ),
    "torch.svd": Change("PyTorch", None, None, "torch.linalg.svd", _DOC),
    "torch.lu": Change("PyTorch", None, None, "torch.linalg.lu_factor", _DOC),
    "torch.triangular_solve": Change("PyTorch", None, None, "torch.linalg.solve_triangular", _DOC),
    "torch.ger": Change("PyTorch", None, None, "torch.outer", _DOC),
    "torch.norm": Change("PyTorch", None, None, "torch.linalg.vector_norm", _DOC),
    "torch.range": Change("PyTorch", None, None, "torch.arange", _DOC),
    "torch.chain_matmul": Change("PyTorch", None, None, "torch.linalg.multi_dot", _DOC),
    "torch.autograd.Variable": Change("PyTorch", "0.4", None, "the tensor itself", "PyTorch 0.4 migration guide"),
    "torch.nn.functional.upsample": Change("PyTorch", None, None, "torch.nn.functional.interpolate", _DOC),
    "torch.nn.utils.clip_grad_norm": Change("PyTorch", "0.4", None, "torch.nn.utils.clip_grad_norm_", _DOC),
    "torch.nn.utils.weight_norm": Change(
        "PyTorch", None, None, "torch.nn.utils.parametrizations.weight_norm", "warning of PyTorch 2.13"
    ),
    "torch.set_default_tensor_type": Change("PyTorch", "2.1", None, "torch.set_default_dtype", _DOC),
    "torch.cuda.memory_cached": Change("PyTorch", "1.4", None, "torch.cuda.memory_reserved", _DOC),
    "torch.cuda.max_memory_cached": Change("PyTorch", "1.4", None, "torch.cuda.max_memory_reserved", _DOC),
    "torch.backends.cuda.sdp_kernel": Change("PyTorch", None, None, "torch.nn.attention.sdpa_kernel", _DOC),
    "torch.testing.assert_allclose": Change("PyTorch", "1.12", None, "torch.testing.assert_close", _DOC),
    "torch.nn.init.xavier_uniform": _init("xavier_uniform"),
    "torch.nn.init.xavier_normal": _init("xavier_normal"),
    "torch.nn.init.kaiming_uniform": _init("kaiming_uniform"),
    "torch.nn.init.kaiming_normal": _init("kaiming_normal"),
    "torch.nn.init.normal": _init("normal"),
    "torch.nn.init.uniform": _init("uniform"),
    "torch.nn.init.constant": _init("constant"),
    "torch.nn.init.orthogonal": _init("orthogonal"),
    "transformers.AdamW": Change(
        "Transformers", "4.0", "4.50", "torch.optim.AdamW", "huggingface/transformers pull 36177"
    ),
}

# Names that are used without being called: ``dtype=np.int``.
ATTRIBUTES: dict[str, Change] = {
    "numpy.int": Change("NumPy", "1.20", "1.24", "int", _NUMPY),
    "numpy.float": Change("NumPy", "1.20", "1.24", "float", _NUMPY),
    "numpy.complex": Change("NumPy", "1.20", "1.24", "complex", _NUMPY),
    "numpy.object": Change("NumPy", "1.20", "1.24", "object", _NUMPY),
    "numpy.str": Change("NumPy", "1.20", "1.24", "str", _NUMPY),
}

MODULES: dict[str, Change] = {
    "torch._six": Change("PyTorch", None, "2.0", "math.inf, str and collections.abc", "missing in PyTorch 2.0"),
    "torchtext.legacy": Change("torchtext", "0.9", "0.12", "torchtext.data", "torchtext 0.12 release notes"),
}
"""Modules that cannot be imported any more."""

VERBOSE = Change("PyTorch", "2.2", "2.7", "scheduler.get_last_lr() and print", "pytorch/pytorch pull 111302")
EPOCH = Change("PyTorch", None, None, "scheduler.step()", "warning of PyTorch 2.13")
NEXT = Change("PyTorch", None, "1.13", "next(iterator)", "pytorch/pytorch issue 87955")
