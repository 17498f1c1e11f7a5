"""What a library refuses by itself: a setting, a version, a machine that lacks something, or an argument of a call.

Frameworks that are set up by configurations, arguments and flags refuse what does not add up in these; libraries of operations
on arrays, networks and tables refuse what a program hands to them.
"""

from __future__ import annotations

import re

from preflight.vocabulary.log import Frame, Raised
from preflight.vocabulary.signature import Category

_PACKAGES = re.compile(r"(?:site|dist)-packages(?=/)")
_REPOSITORIES = re.compile(
    r"(?=/(?:megatron|torchtitan|torchtune|fairseq2?|olmo|olmo_core|axolotl|llamafactory|verl|deepspeed|mmengine|mmdet|mmcv|mmseg|detectron2|espnet2?|colossalai"
    r"|llmfoundry|open_clip|lm_eval|nanotron|xtuner|openrlhf|nemo/(?:collections|core|lightning|utils))/.*\.py$)"
)
"""Programs for training that are run out of their repositories, and set up as libraries are."""
_RAISES = re.compile(r"assert |raise (?:\w+\.)*_?[A-Z]\w*(?:\(|$)")
_SETS_ONLY = re.compile(
    r"^/?(?:submitit|hydra|omegaconf|accelerate/commands|horovod/runner|nvidia_resiliency_ext/fault_tolerance|torch/distributed/(?:elastic|launcher)"
    r"|deepspeed/launcher|ray/(?:_private|_common|runtime_env|autoscaler)|mlflow/(?:tracking|store|utils)|torchx|skypilot|sky|clearml|jsonargparse)/"
)
"""Libraries, and parts of them, that only set things up and start them: all that they refuse themselves is of that kind."""
_GROUPS = re.compile(r"torch(?:_npu)?/distributed/(?:distributed_c10d|rendezvous)\.py$")
_AGAIN = re.compile(r"\btwice\b|\balready\b")
_MAKES_GROUPS = re.compile(
    r"^_?(?:init_process_group|_?(?:patched_)?new_process_group_helper|parse_backend_string|\w*rendezvous\w*|__new__|__init__)$"
)
"""Where the groups of processes are made, of what a program or its launcher says of them."""
_TALKS = re.compile(
    r"(?i)timed? ?out|timeout|reset|closed|refused|socket|peer|connect|unreachable|broken pipe|heartbeat|nccl error|store->"
)
_OPERATIONS = re.compile(
    r"^/?(?:numpy|scipy|pandas|polars|sklearn|torchvision|torchaudio|torchmetrics|torch_geometric|torch_scatter|functorch|jax|jaxlib|optax|haiku|equinox|chex"
    r"|einops|keras|tensorflow|tf_keras|xformers|flash_attn|bitsandbytes|apex|triton|cupy|numba|matplotlib|networkx|kornia|timm/(?:models|layers|optim)"
    r"|sentence_transformers|fairscale/(?:optim|nn)|transformer_engine|causal_conv1d|mamba_ssm|gymnasium|gym|optuna|lightgbm|xgboost|dgl|pytorch3d"
    r"|transformers/generation|diffusers/(?:models|schedulers|pipelines)|seaborn|nltk|evaluate|statsmodels|captum|shap|mapie|umap|hdbscan|imblearn|catboost"
    r"|gpytorch|botorch|pyro|numpyro|torchdiffeq|torchsde|faiss)/"
    r"|^/?(?:torch/(?!distributed/(?:elastic|launch|run)|utils/cpp_extension)|flax/(?!training)|transformers/models/\w+/(?:modeling|image_processing|processing|feature))"
)
"""Libraries, and parts of them, whose functions a program calls with values of its own."""
_VALUES = re.compile(
    r"(?i)\btensors?\b(?![ /-](?:\w+[ /])?(?:model )?parallel|[ -]?(?:board|rt)\b)|\bshapes?\b|\bdtypes?\b|\bdim(?:s|ensions?|ensional)?\b|\bndim\b|\bcontiguous\b|\blogits\b|\bgradients?\b(?![ _-](?:accum|check))|<class '"
    r"|requires_grad|torch\.Size|\b\dD\b|\binput_ids\b|\binputs?_embeds\b|\bcallable\b|\binstance of\b|\bbackward\b|\bindex\b|\bindices\b|\b__\w+__\b|\bDataFrame\b|\bcalled before\b|\bbefore (?:applying|building|calling|using)\b"
)
"""What a program computes with or hands over, and sets nothing by."""
_STEPS = re.compile(
    r"^(?:forward\w*|backward\w*|step|__call__|_call_impl|training_step|compute_loss|apply|update|predict\w*|inference\w*|generate\w*|loss\w*|encode|decode|sample|recv|send|__getattr__|__getitem__|__setattr__|wrapper)$"
)
"""Where something is computed, at each step anew."""
_SETS_UP = re.compile(
    r"^_*(?:init__|post_init__|main|main_\w+|from_(?:args|config|dict|env|kwargs|string|yaml_file|pretrained)|select|initiali[sz]e\w*|init_\w+|setup\w*|launch\w*|configure\w*)$"
    r"|^_*(?:validate|verify|check|select|parse|process|get|build|create|make|prepare|resolve|load|determine|infer|register|set|update|add|calculate|convert|apply|wrap|patch)_"
    r"(?:\w*_)?(?:args?|arguments?|config\w*|settings?|options?|env\w*|backend|device\w*|optim\w*|scheduler|policy|strategy|precision|plugin\w*|parallel\w*|trainer"
    r"|model\w*|compat\w*|version\w*|param_groups?|process_groups?|class|component|activation|attention\w*|endpoint|interval\w*|quant\w*|hparams|kernels?|params)\w*$"
    r"|^_*(?:validate|verify|check)(?:_\w+)?$|_check$|_from_(?:config|args|precision|string)$"
)
"""Where something is set up, or what it is set to is looked at."""
_SETTINGS = re.compile(
    r"(?:^|[/_])(?:args?|arguments?|config(?:s|uration|urations|_utils)?|cfg|options?|hparams|hyperparams|parsers?|schemas?|cli|commands?|launch(?:er|ers)?|recipes?|settings?|dataclasses"
    r"|plugins?|strateg(?:y|ies)|builders?|registry|factory|auto|env(?:ironment)?s?|runtime_env\w*|trainers?|connectors?|tuners?|callbacks?|parallelism\w*|parallel_(?:dims|state)|validation"
    r"|quantizers?|exporter|program|benchmarks?)(?:[/_]|\.py$)"
)
"""Files that hold settings, or what is set up by them."""
_DECLARED = re.compile(
    r"(?:^|[/_])(?:config(?:s|uration|_utils)?|args|arguments|schemas?|dataclasses|parallelism_config)(?:[/_]|\.py$)"
)
"""Files that declare settings and little else."""
_COMBINED = re.compile(
    r"(?i)mutually exclusive|(?:can ?not|can't|could not|may not|should not) (?:both )?be (?:both )?(?:used|set|enabled|specified|combined|passed|provided|True|given)\b"
    r"|\b(?:is|are)(?:n't| not) (?:yet )?compatible|\bincompatible with\b|(?:at most|exactly|only|at least) one of\b|\bboth\b.{1,60}\b(?:and|or)\b.{1,80}\b(?:set|enabled|specified|given|True|provided)\b"
    r"|\bcan(?:not|'t) be both\b|\bchoose one\b|\bonly be (?:true|set|used|enabled)\b|\bonly (?:be )?compatible\b|\bconfig(?:uration)? file\b|conflicts? with|\bconflicting\b|\b(?:please|must|should|has to|have to|needs? to) (?:be )?(?:set|specif\w+|enable|disable|pass|provide|choose|use)[ed]*\b"
    r"|(?:^|[\s`'\"(])--[a-z]\w+(?:-\w+)*\b|`\w+(?:\.\w+)*\s?=\s?\S+`|\b(?:requires?|without|together with|combine) ['`]\w+\s?=\s?\w+|\b(?:your|the) (?:yaml |json )?config\b|\bconfig\.\w+"
)
"""How settings are refused that do not go together."""
_UNSUPPORTED = re.compile(
    r"(?i)\bdo(?:es)?(?:n't| not) (?:yet )?support\b|\b(?:is|are) not (?:currently |yet |officially )?supported\b|\bonly supports?\b|\bis no longer supported\b"
    r"|\bonly (?:supported|works|available|compatible|valid) (?:with|for|when|if|in|on)\b|\bcurrently requires?\b|\bnot (?:yet )?implemented for\b|\bunsupported\b"
)
"""What is not there for a setting, or for what a step meets."""
_CHOICES = re.compile(
    r"(?i)\b(?:unknown|unrecognized|invalid|unsupported|unexpected|bad|no such|wrong|illegal|missing|undefined)\b|\bmust be\b|\bshould be\b|\bhas to be\b|\bneeds? to be\b|\bshould have\b|\bmust have\b|\bexpected\b|\bnot (?:a )?(?:valid|recogni[sz]ed|known|one of|found|set|specified|provided|allowed|registered|divisible)\b"
    r"|\bnot in\b|\brequires?\b|\brequired\b|\bis not (?:set|defined|specified|enabled)\b|\bgreater than\b|\bless than\b|\bnot sure how\b|\bdivisible\b|\bmultiple of\b|\blarger than\b|\bsmaller than\b|\bat least\b|\bpositive\b|\balready\b|\bcannot\b|\bnot find\b|\bcould not parse\b|\bcan only\b"
)
"""How one value is refused."""
_FLAGS = re.compile(
    r"(?:^|[\s`'\"(])--[a-z]\w+(?:-\w+)*\b|`\w+(?:\.\w+)*\s?=\s?\S+`|\b\w*_?(?:config|cfg|args)\b(?:\.\w+|`)|\bin `?\w*config\b|\b\w+=(?:True|False)\b|\b[a-z]+_[a-z_]+: (?:true|false)\b"
)
"""Settings as they are written: a flag, a value in backticks, a part of a configuration."""
_NOUNS = re.compile(
    r"(?i)\b(?:data|tensor|pipeline|context|expert|sequence|model)[_ -]parallel|\b(?:zero|deepspeed|q?lora|dora|gptq|awq|vllm|sglang|megatron|liger|galore|accelerate|slurm|mpi|nccl|gloo)\b"
    r"|\bload_in_[48]-?bit|\b[48]-?bit\b|mixed[_ -]precision|\b(?:fp16|bf16|fp8|fp4|tf32)\b|\bnproc_per_node|\bworld[_ -]size|\bmicro[_ -]?batch|\b(?:global|eval|train)[_ -](?:\w+[_ -])?batch[_ -]size"
    r"|gradient[_ -](?:accumulation|checkpointing)|activation[_ -](?:checkpointing|offloading)|\boffload|\bbackend\b|\bstrategy\b|\bplugins?\b|\bquantiz|\bcuda[_ -]graphs?\b|\bnumber of nodes\b|\brendezvous\b|\bpacking\b"
    r"|\bfinetuning\b|\bconfig(?:uration)?s?\b|\bendpoint\b|\bproject_dir|\boutput[_ ]dir(?:ectory)?\b|\bmax[_ -]duration\b|\bvirtual_pp|\bpp_size|\btp_size"
)
"""What a training is set up with, by name."""
_RESUMED = re.compile(
    r"(?i)\b(?:cannot|can't|failed to|unable to|could not) (?:resume|restore)\b|\bon restore\b|\b(?:saved|loaded) (?:dp|tp|pp|world)[_ ]size\b"
)


def refused_in_words(message: str) -> Category | None:
    """Return what a message without a traceback refuses: a setting by its name, or a state; None where the words do not tell."""
    if _RESUMED.search(message):
        return "checkpoint"
    if _VALUES.search(message):
        return None
    refuses = _COMBINED.search(message) or _UNSUPPORTED.search(message) or _CHOICES.search(message)
    return "environment" if refuses and (_FLAGS.search(message) or _NOUNS.search(message)) else None


def refused(raised: Raised) -> Category | None:
    """Return that a library refused what it was set to; None where it refused a value, or where it was no library."""
    inner = raised.frames[-1] if raised.frames else None
    if inner is None or not _by_itself(inner):
        return None
    within = _within(inner.path.replace("\\", "/"))
    if within is None:
        return None
    if _SETS_ONLY.search(within):
        return "environment"
    if _GROUPS.search(within) and _MAKES_GROUPS.search(inner.function):
        return None if _TALKS.search(raised.message) or _AGAIN.search(raised.message) else "environment"
    if _OPERATIONS.search(within):
        return None
    declared = inner.function == "__post_init__" or _DECLARED.search(within) is not None
    combined = _COMBINED.search(raised.message) is not None
    if _VALUES.search(raised.message) and not (declared and combined):
        return None
    if combined:
        return "environment"
    if _STEPS.search(inner.function) is not None:
        return None
    set_up = _SETS_UP.search(inner.function) is not None or _SETTINGS.search(within) is not None
    lacks = _UNSUPPORTED.search(raised.message) or (set_up and _CHOICES.search(raised.message))
    return "environment" if lacks else None


def _within(path: str) -> str | None:
    """Return the path of a file within its library; None where it is in none."""
    for known in (_PACKAGES, _REPOSITORIES):
        ends = [found.end() for found in known.finditer(path)]
        if ends:
            return path[ends[-1] :]
    return None


def _by_itself(frame: Frame) -> bool:
    """Return whether a line asserts, or raises what it makes itself: what is only handed on, others found."""
    return _RAISES.match(frame.code.lstrip()) is not None
