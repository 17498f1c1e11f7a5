"""Pretrained models and tokenizers without network and without weights.

A configuration is taken from the local cache, from ``config.json`` beside the script, or from what the job brings (the
catalog's, and those that the person named). The model is built from it: the shapes are right, the numbers are not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from preflight.dryrun.virtual.absent import after, vocabularies
from preflight.dryrun.virtual.engine import quantised

_OF_LOADING = (
    "cache_dir force_download local_files_only token revision use_safetensors weights_only subfolder proxies device_map "
    "low_cpu_mem_usage max_memory offload_folder offload_state_dict variant ignore_mismatched_sizes resume_download "
    "load_in_8bit load_in_4bit quantization_config use_auth_token trust_remote_code adapter_kwargs from_tf from_flax "
    "output_loading_info key_mapping tp_plan tp_size commit_hash _commit_hash _from_auto mirror use_kernels".split()
)


_FEW = 300
"""Words of a tokenizer that has found no vocabulary: its special ones and, at most, the bytes."""
_OF_TWO = frozenset(
    "bert albert electra mobilebert deberta deberta-v2 convbert roformer big_bird funnel layoutlm ernie xlnet".split()
)
"""Types of models that take the number of the sentence with each token."""
_OF_FETCHING = (
    "cache_dir force_download resume_download proxies token use_auth_token local_files_only revision trust_remote_code "
    "subfolder _from_pipeline _from_auto _commit_hash gguf_file".split()
)


def install(job: dict[str, Any], assume: Callable[[str], None]) -> None:
    """Meet ``from_pretrained`` of transformers, and the vocabularies of tiktoken, once they are imported."""
    known: dict[str, dict[str, Any]] = job.get("models") or {}
    told = frozenset(job.get("assumed") or ())
    folder = os.path.dirname(os.path.abspath(job["script"]))

    def named(name: str) -> dict[str, Any] | None:
        """Return what the person said of a model; ``model`` is every one that they did not name."""
        key = name if name in told else "model"
        if key not in told:
            return None
        assume(f"{name}: its configuration is the one that --assume gives")
        return dict(known[key])

    def content_of(name: str) -> dict[str, Any] | None:
        if name in known:
            assume(f"{name} was not in the local cache: its configuration is the catalog's")
            return dict(known[name])
        beside = os.path.join(folder, "config.json")
        if os.path.isfile(beside):
            with open(beside, encoding="utf-8") as file:
                content = json.load(file)
            if isinstance(content, dict) and "model_type" in content:
                assume(f"{name} was not in the local cache: its configuration is {beside}")
                return content
        return None

    def vocabulary(name: str) -> dict[str, Any] | None:
        return named(name) or content_of(name)

    after.imported("transformers.configuration_utils", lambda module: _configurations(module, named, content_of))
    after.imported("transformers.modeling_utils", lambda module: _models(module, assume))
    after.imported("transformers.models.auto.tokenization_auto", lambda module: _tokenizers(module, vocabulary, assume))
    after.imported(
        "transformers.tokenization_utils_base",
        lambda module: _tokenizer_of(module.PreTrainedTokenizerBase, vocabulary, assume),
    )
    after.imported("transformers.models.auto.processing_auto", lambda module: _processors(module, assume))
    after.imported("transformers.models.auto.image_processing_auto", lambda module: _image_processors(module, assume))
    after.imported("timm.models._builder", lambda module: _timm(module, assume))
    after.imported("tiktoken", lambda module: vocabularies.install(module, assume))


def _configurations(
    module: Any, named: Callable[[str], dict[str, Any] | None], content_of: Callable[[str], dict[str, Any] | None]
) -> None:
    owner = getattr(module, "PreTrainedConfig", None) or module.PretrainedConfig
    read = owner.get_config_dict.__func__

    def get_config_dict(cls: Any, /, name: Any, **kwargs: Any) -> Any:
        content = named(str(name))
        if content is None:
            try:
                return read(cls, name, **dict(kwargs))
            except (OSError, ValueError):
                content = content_of(str(name))
                if content is None:
                    raise
        _name_architecture(content)
        return content, {key: value for key, value in kwargs.items() if key not in _OF_FETCHING}

    owner.get_config_dict = classmethod(get_config_dict)


def _name_architecture(content: dict[str, Any]) -> None:
    """Name the class of a language model where a configuration does not: some libraries take it from there."""
    if content.get("architectures"):
        return
    from transformers.models.auto import modeling_auto

    for table in ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "MODEL_FOR_MASKED_LM_MAPPING_NAMES"):
        found = getattr(modeling_auto, table, {}).get(content.get("model_type"))
        if found:
            content["architectures"] = [found]
            return


def _timm(module: Any, assume: Callable[[str], None]) -> None:
    """Leave the weights of timm's networks as they are made."""

    def load_pretrained(model: Any, *args: Any, **kwargs: Any) -> None:
        assume(f"pretrained weights of {type(model).__name__} (timm) were not read")

    module.load_pretrained = load_pretrained


def _models(module: Any, assume: Callable[[str], None]) -> None:
    owner = module.PreTrainedModel

    def from_pretrained(cls: Any, /, name: Any, *args: Any, config: Any = None, **kwargs: Any) -> Any:
        placed, fewer = kwargs.get("device_map"), quantised.asked(kwargs)
        if fewer is None and kwargs.get("quantization_config") is not None:
            assume(f"{name}: quantised weights stayed in the type that was asked for; memory is an upper bound")
        dtype = kwargs.pop("torch_dtype", None) or kwargs.pop("dtype", None)
        for key in _OF_LOADING:
            kwargs.pop(key, None)
        if config is None or isinstance(config, (str, os.PathLike)):
            config = cls.config_class.from_pretrained(config or name)
        own = {key: kwargs.pop(key) for key in list(kwargs) if hasattr(config, key) and key != "attn_implementation"}
        for key, value in own.items():
            setattr(config, key, value)
        made = {key: kwargs[key] for key in ("attn_implementation",) if key in kwargs}
        if dtype is not None and not (isinstance(dtype, str) and dtype == "auto"):
            # Its name until 4.55.
            made["dtype" if _version() >= (4, 56) else "torch_dtype"] = dtype
        assume(f"{name}: the model was built from its configuration; weights were not read")
        model = cls._from_config(config, **made)
        model.name_or_path = model.config._name_or_path = str(name)
        if fewer is not None:
            quantised.quantise(model, **fewer)
        if fewer is not None or (placed is not None and placed != "cpu"):
            model.to("cuda")
        return model.eval()

    owner.from_pretrained = classmethod(from_pretrained)


def _version() -> tuple[int, ...]:
    import transformers

    return tuple(int(part) for part in transformers.__version__.split(".")[:2])


def _tokenizers(module: Any, content_of: Callable[[str], dict[str, Any] | None], assume: Callable[[str], None]) -> None:
    _tokenizer_of(module.AutoTokenizer, content_of, assume)


def _tokenizer_of(
    owner: Any, content_of: Callable[[str], dict[str, Any] | None], assume: Callable[[str], None]
) -> None:
    read = owner.from_pretrained.__func__

    def from_pretrained(cls: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
        error: Exception | None = None
        try:
            made = read(cls, name, *args, **kwargs)
        except Exception as missing:
            error = missing
        if error is None and (len(made) > _FEW or os.path.isdir(name)):
            return made
        content = content_of(str(name)) or {}
        size = content.get("vocab_size") or (content.get("text_config") or {}).get("vocab_size")
        if not size:
            if error is None:
                return made
            raise error
        assume(f"{name}: a tokenizer with {size} words, one token for each word of the text, took the place of its own")
        longest = kwargs.get("model_max_length") or content.get("max_position_embeddings") or 512
        made = _tokenizer(int(size), int(longest), kwargs.get("padding_side", "right"))
        if content.get("model_type") not in _OF_TWO:
            made.model_input_names = ["input_ids", "attention_mask"]
        return made

    owner.from_pretrained = classmethod(from_pretrained)


def _processors(module: Any, assume: Callable[[str], None]) -> None:
    """Meet a processor that is missing with the tokenizer, or with the network's own way of preparing pictures."""
    owner = module.AutoProcessor
    read = owner.from_pretrained.__func__

    def from_pretrained(cls: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return read(cls, name, *args, **kwargs)
        except (OSError, ValueError):
            from transformers import AutoTokenizer

            return AutoTokenizer.from_pretrained(name, *args, **kwargs)

    owner.from_pretrained = classmethod(from_pretrained)


def _image_processors(module: Any, assume: Callable[[str], None]) -> None:
    owner = module.AutoImageProcessor
    read = owner.from_pretrained.__func__

    def from_pretrained(cls: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return read(cls, name, *args, **kwargs)
        except (OSError, ValueError):
            from transformers import AutoConfig, ViTImageProcessor

            config = AutoConfig.from_pretrained(name)
            size = getattr(config, "image_size", None) or getattr(
                getattr(config, "vision_config", None), "image_size", 224
            )
            assume(f"{name}: pictures are scaled to {size} x {size}")
            return ViTImageProcessor(size={"height": size, "width": size})

    owner.from_pretrained = classmethod(from_pretrained)


def _tokenizer(size: int, longest: int, side: str) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ("[UNK]", "[PAD]", "[BOS]", "[EOS]", "[CLS]", "[SEP]", "[MASK]")
    words = {word: number for number, word in enumerate(special)}
    words |= {f"word{number}": number for number in range(len(special), size)}
    made = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    names = ("unk_token", "pad_token", "bos_token", "eos_token", "cls_token", "sep_token", "mask_token")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, model_max_length=longest, padding_side=side, **dict(zip(names, special, strict=True))
    )
    tokenizer.chat_template = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {{ eos_token }} {% endfor %}"
    return tokenizer
