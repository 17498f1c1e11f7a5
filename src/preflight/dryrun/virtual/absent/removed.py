"""What a script names that newer releases of Python and of libraries no longer have: when it went, and what took its place."""

from __future__ import annotations

import os
import re

MODULES = {
    # Python 2
    "Queue": "Python 3 calls it queue",
    "cPickle": "Python 3 has pickle alone",
    "urllib2": "Python 3 has urllib.request in its place",
    "urlparse": "Python 3 has urllib.parse in its place",
    "ConfigParser": "Python 3 calls it configparser",
    "StringIO": "Python 3 has it in io",
    "cStringIO": "Python 3 has io.StringIO in its place",
    "__builtin__": "Python 3 calls it builtins",
    "commands": "Python 3 has subprocess in its place",
    "httplib": "Python 3 calls it http.client",
    # Python 3
    "imp": "Python 3.12 removed it; importlib took its place",
    "distutils": "Python 3.12 removed it; setuptools has it",
    "asyncore": "Python 3.12 removed it; asyncio took its place",
    "pipes": "Python 3.13 removed it; shlex.quote and subprocess took its place",
    "imghdr": "Python 3.13 removed it; Pillow tells the kinds of pictures",
}
"""Modules of Python's own library that are gone."""

_MODULE = "No module named '%s"
_HINTS = (
    (_MODULE % r"torch\._six'", "PyTorch 2.0 removed torch._six; str and collections.abc took its place"),
    (
        _MODULE % r"transformers\.(?:modeling|configuration|tokenization)_(?!utils)(\w+)'",
        "transformers 4.0 moved it to transformers.models.<model>, and its classes can be imported from transformers",
    ),
    (
        _MODULE % r"pytorch_lightning\.utilities\.distributed'",
        "PyTorch Lightning 1.8 removed it; pytorch_lightning.utilities.rank_zero has rank_zero_only",
    ),
    (_MODULE % r"pytorch_lightning\.metrics", "PyTorch Lightning 1.5 removed it; torchmetrics took its place"),
    (_MODULE % r"torchtext\.legacy", "torchtext 0.12 removed torchtext.legacy"),
    (_MODULE % r"sklearn\.externals", "scikit-learn 0.23 removed sklearn.externals; import joblib itself"),
    (_MODULE % r"scipy\.misc'", "SciPy 2.0 removes scipy.misc"),
    (_MODULE % r"timm\.models\.layers", "timm moved timm.models.layers to timm.layers"),
    (r"cannot import name '(?:imread|imresize|imsave)' from 'scipy\.misc'|scipy\.misc' has no attribute 'im",
     "SciPy 1.2 and 1.3 removed imread, imsave and imresize; imageio and PIL.Image.resize took their place"),
    (r"cannot import name 'cached_property' from 'transformers\.file_utils'",
     "newer releases of transformers no longer have it; functools.cached_property is Python's own"),
    (r"cannot import name '(?:apply_chunking_to_forward|find_pruneable_heads_and_indices|prune_linear_layer)' from",
     "transformers moved it to transformers.pytorch_utils, and newer releases have it there alone or no longer"),
    (r"cannot import name '(\w+)FeatureExtractor' from 'transformers'",
     "transformers 5 removed the feature extractors of pictures; the image processors took their place"),
    (r"(?:LR|Plateau|Restarts)\.__init__\(\) got an unexpected keyword argument 'verbose'",
     "newer releases of PyTorch removed verbose from schedulers; get_last_lr() tells the rate"),
    (r"cannot import name 'deepspeed' from 'transformers'",
     "newer releases of transformers have it in transformers.integrations alone"),
    (r"EOF when reading a line", "the script asks on the terminal, and a dry run has nobody to answer"),
    (r"cannot import name 'AdamW' from 'transformers",
     "transformers 5 removed its AdamW; torch.optim.AdamW took its place"),
    (r"cannot import name 'HfFolder' from 'huggingface_hub'",
     "huggingface_hub 1.0 removed HfFolder; get_token() took the place of HfFolder.get_token()"),
    (r"cannot import name 'cached_download' from 'huggingface_hub'",
     "huggingface_hub 0.26 removed cached_download; hf_hub_download took its place"),
    (r"cannot import name '_pil_interp' from 'timm", "newer releases of timm call it str_to_pil_interp"),
    (r"cannot import name 'Nadam' from 'timm", "newer releases of timm call it NAdam, in timm.optim.nadamw and PyTorch"),
    (r"cannot import name '\w+' from 'collections'|'collections' has no attribute '[A-Z]",
     "Python 3.10 removed it from collections; collections.abc has it"),
    (r"'inspect' has no attribute 'getargspec'|'getargspec' from 'inspect'",
     "Python 3.11 removed inspect.getargspec; inspect.getfullargspec took its place"),
    (r"'time' has no attribute 'clock'", "Python 3.8 removed time.clock; time.perf_counter took its place"),
    (r"'fractions' has no attribute 'gcd'", "Python 3.9 removed fractions.gcd; math.gcd took its place"),
    (r"'PIL\.Image' has no attribute 'ANTIALIAS'", "Pillow 10 removed ANTIALIAS; Image.LANCZOS is the same filter"),
    (r"'\w*FreeTypeFont' object has no attribute 'getsize'|'ImageDraw' object has no attribute 'textsize'",
     "Pillow 10 removed it; getbbox and textbbox took its place"),
    (r"load\(\) missing 1 required positional argument: 'Loader'",
     "PyYAML 6 wants a loader; yaml.safe_load(file) has one"),
    (r"'DataFrame' object has no attribute 'append'|'Series' object has no attribute 'append'",
     "pandas 2 removed append; pandas.concat took its place"),
    (r"assignment destination is read-only",
     "the array cannot be written, as those that pandas 3 gives; write by way of loc, or copy it"),
    (r"'DataFrame' object has no attribute 'ix'", "pandas 1 removed ix; loc and iloc took its place"),
    (r"mutable default .* is not allowed: use default_factory",
     "Python 3.11 refuses defaults without a hash in a dataclass; field(default_factory=...) takes them"),
    (r"Tokenizer\w*' object has no attribute 'max_len'",
     "transformers 4 removed max_len of tokenizers; model_max_length took its place"),
    (r"unexpected keyword argument 'pretrained_cfg_overlay'",
     "newer releases of timm hand pretrained_cfg_overlay to what register_model registers; the function needs **kwargs, or an older timm"),
    (r"unexpected keyword argument 'evaluation_strategy'",
     "transformers 4.46 removed evaluation_strategy; eval_strategy took its place"),
)  # fmt: skip
"""Parts of messages, and what is known of them, from the release notes of the libraries."""

PIP = {
    "cv2": "opencv-python",
    "PIL": "Pillow",
    "yaml": "PyYAML",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "hydra": "hydra-core",
    "absl": "absl-py",
    "attr": "attrs",
    "git": "GitPython",
    "Levenshtein": "python-Levenshtein",
    "dotenv": "python-dotenv",
    "ruamel": "ruamel.yaml",
    "ruamel_yaml": "ruamel.yaml",
    "tap": "typed-argument-parser",
    "gin": "gin-config",
    "pl_bolts": "lightning-bolts",
    "umap": "umap-learn",
    "torch_sparse": "torch-sparse",
    "torch_scatter": "torch-scatter",
    "google": "protobuf",
    "Bio": "biopython",
}
"""Names to install, where a package is imported under another one."""


def hint(error: str, message: str, folder: str = "") -> str | None:
    """Return what to do about an error of an import or of a name that is gone; None where nothing is known.

    Args:
        error: Class of the exception.
        message: Its text.
        folder: Where the file lies that raised it.
    """
    for pattern, said in _HINTS:
        if re.search(pattern, message):
            return said
    missing = re.search(r"No module named '([\w.]+)'", message) if error == "ModuleNotFoundError" else None
    if missing is None:
        return None
    name = missing.group(1)
    if name in MODULES:
        return MODULES[name]
    if folder and "." not in name and _beside(name, folder):
        return f"Python 3 imports what lies beside a file with a dot: from .{name} import ..."
    # A part of a package that is there is a matter of releases, or was never compiled: installing it anew is no advice.
    return f"pip install {PIP.get(name, name)}" if "." not in name else None


def _beside(name: str, folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, f"{name}.py")) or os.path.isfile(
        os.path.join(folder, name, "__init__.py")
    )


def gone(name: str, folder: str) -> bool:
    """Whether a name belongs to Python 2 or to an older Python 3, or to a file beside the one that imports it."""
    return name in MODULES or _beside(name, folder)
