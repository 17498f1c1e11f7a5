"""The architecture of a model in numbers: from the catalog, a configuration, or the layers of the script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from preflight.source.known_models import spec_of
from preflight.source.layers import Leaf, Network
from preflight.source.routed_experts import Routed, routed_experts
from preflight.source.trace import comes_from_any
from preflight.source.values import Obj, plain, settle
from preflight.vocabulary.model import ModelSpec

if TYPE_CHECKING:
    from preflight.source.reading import Reading


def architecture_of(reading: Reading, model: Obj) -> tuple[ModelSpec | None, Network | None]:
    """The architecture of a model, and the layers it was read from when it is built in the script."""
    cache = reading.__dict__.setdefault("_architectures", {})
    if id(model) not in cache:
        spec = spec_of(reading, model)
        network = None
        if spec is None:
            network = Network(reading, model)
            spec = _wrapping(reading, network) or _from_layers(reading, model, network)
        cache[id(model)] = (spec, network)
    found: tuple[ModelSpec | None, Network | None] = cache[id(model)]
    return found


def networks_of(reading: Reading) -> list[tuple[Obj, Network]]:
    """The networks of the script's own layers that are trained side by side, where the sizes of all are known; else none."""
    cache: list[tuple[Obj, Network]] | None = reading.__dict__.get("_networks_of")
    if cache is None:
        found = [(model, *architecture_of(reading, model)) for model in reading.models]
        whole = [(model, network) for model, _, network in found if network is not None and network.total is not None]
        cache = reading.__dict__["_networks_of"] = whole if len(whole) == len(found) else []
    return cache


def _wrapping(reading: Reading, network: Network) -> ModelSpec | None:
    """The architecture of a known network that makes up nearly all of one of the script: a backbone with a small head."""
    if network.total is None:
        return None
    for leaf in network.leaves:
        if leaf.count > 0.8 * network.total and not leaf.obj.name.startswith("torch.nn."):
            spec = spec_of(reading, leaf.obj)
            if spec is not None:
                return msgspec.structs.replace(spec, parameters=network.total)
    return None


_FOLDING = (
    *(".reshape", ".view", ".unfold", ".unflatten", "torch.reshape", "torch.unflatten", "einops.rearrange"),
    *("torch.nn.functional.unfold", "torch.nn.functional.interpolate", "torch.nn.functional.pad"),
)


def _folds_its_input(reading: Reading, network: Network, hidden: int) -> bool:
    """Whether what the network is given may be made into more or fewer tokens before its blocks: patches, strides, pools.

    Then the length of a sample is not the number of tokens that a block works on.
    """
    if any(leaf.obj.name in ("torch.nn.Conv2d", "torch.nn.Conv3d", "torch.nn.Unfold") for leaf in network.leaves):
        return True
    square = {
        id(leaf.obj)
        for leaf in network.leaves
        if leaf.obj.name == "torch.nn.Linear" and _width(leaf, 0, "in_features") == hidden
    }
    for event in reading.trace.events:
        if event.context.shadow or not event.context.in_forward:
            continue
        layer = settle(event.receiver) if event.name == "()" and event.receiver is not None else None
        if isinstance(layer, Obj):
            short = layer.name.rpartition(".")[2]
            if id(layer) in square or "Attention" in short or "Transformer" in short:
                return False
            if "Pool" in short or (short.startswith("Conv") and plain(layer.argument(3, "stride"), 1) != 1):
                return True
        if event.name in _FOLDING or "pool" in event.name.rpartition(".")[2]:
            return True
    return False


def _width(leaf: Leaf, position: int, name: str) -> int | None:
    found = plain(leaf.obj.argument(position, name))
    return found if isinstance(found, int) else None


def _from_layers(reading: Reading, model: Obj, network: Network) -> ModelSpec | None:
    """A transformer, or nothing: other networks need their shapes, which a dry run gives."""
    linears = [leaf for leaf in network.leaves if leaf.obj.name == "torch.nn.Linear"]
    attends = network.total is not None and _attends(reading, network)
    routed = routed_experts(reading, network) if attends else None
    experts = _experts(network, linears, routed) if routed is not None else {}
    if isinstance(experts, str):
        return ModelSpec(family="other", parameters=network.total, activation_reason=experts)
    blocks = experts.pop("blocks", None) or _blocks(network, linears)
    if not attends or blocks is None:
        return _other(reading, network)
    layers, hidden, ffn, gated = blocks
    embeddings = [leaf for leaf in network.leaves if leaf.obj.name == "torch.nn.Embedding"]
    tables = [
        (n, d)
        for n, d in ((_width(e, 0, "num_embeddings"), _width(e, 1, "embedding_dim")) for e in embeddings)
        if n and d == hidden
    ]
    vocab = max((n for n, _ in tables), default=None)
    outputs = [w for w in ((_width(leaf, 1, "out_features")) for leaf in linears[-3:]) if w]
    head = vocab is not None and bool(outputs) and outputs[-1] == vocab
    if vocab is None and _folds_its_input(reading, network, hidden):
        return _other(reading, network)
    positions = min((n for n, _ in tables if n != vocab), default=None)
    heads = _heads(reading, network, hidden)
    spec = ModelSpec(
        family="transformer_decoder" if head else "transformer_encoder",
        parameters=network.total,
        layers=layers,
        hidden=hidden,
        heads=heads,
        ffn=ffn,
        gated=gated,
        vocab=vocab,
        max_positions=positions,
        learned_positions=positions is not None,
        head="lm" if head else "none",
        norm="layernorm",
        bias=True,
        tied_embeddings=None,
        dropout=_dropout(network),
        activation_reason=None if heads else "no place tells into how many heads the attention is split",
    )
    return msgspec.structs.replace(spec, **experts)


_NO_EXPERTS = "what the parts that are given some of the tokens are made of was not recognised"


def _experts(network: Network, linears: list[Leaf], routed: Routed) -> dict[str, Any] | str:
    """What experts change of an architecture, with its blocks; in words what is not known of them."""
    own = {id(leaf) for leaf in routed.leaves}
    # What stands beside the list, in the module that holds it, is passed by every token.
    beside = tuple(f"{module}." for holder in routed.holders if (module := holder.rpartition(".")[0]))
    shared = [leaf for leaf in linears if id(leaf) not in own and beside and leaf.path.startswith(beside)]
    apart = own | {id(leaf) for leaf in shared}
    expert = _blocks(network, [leaf for leaf in linears if id(leaf) in own])
    always = _blocks(network, shared)
    dense = _blocks(network, [leaf for leaf in linears if id(leaf) not in apart])
    number, holders = routed.number, len(routed.holders)
    if expert is None or expert[0] != number * holders or (always is not None and always[0] % holders):
        return _NO_EXPERTS
    _, hidden, width, gated = expert
    sizes = {(hidden, width), (width, hidden), (hidden, 2 * width)}
    given = [leaf for leaf in linears if id(leaf) in own]
    if any((_width(leaf, 0, "in_features"), _width(leaf, 1, "out_features")) not in sizes for leaf in given):
        return _NO_EXPERTS  # whole blocks, which attend as well
    if routed.per_token is None:
        return "into how many experts a token goes is not known"
    common = always[0] // holders * always[2] if always is not None else 0
    if common % width or any(other is not None and other[1] != hidden for other in (always, dense)):
        return "the widths of the experts and of what stands beside them do not go together"
    plain_layers, ffn = (dense[0], dense[2]) if dense is not None else (0, width)
    return {
        "blocks": (holders + plain_layers, hidden, ffn, gated),
        "family": "moe",
        "experts": number,
        "experts_per_token": routed.per_token,
        "shared_experts": common // width,
        "expert_ffn": width,
        "dense_layers": plain_layers,
    }


def _other(reading: Reading, network: Network) -> ModelSpec | None:
    if network.total is None:
        return None
    if _attends(reading, network):
        return ModelSpec(family="other", parameters=network.total)  # convolutions that embed do not make it a CNN
    names = {leaf.obj.name.rpartition(".")[2] for leaf in network.leaves}
    family = (
        "cnn"
        if any(n.startswith("Conv") and n.endswith(("2d", "3d")) for n in names)
        or (any(n.startswith("Conv") for n in names) and "LayerNorm" not in names)
        else "rnn"
        if names & {"LSTM", "GRU", "RNN"}
        else "mlp"
        if "Linear" in names
        else "other"
    )
    return ModelSpec(family=family, parameters=network.total)  # type: ignore[arg-type]


def _blocks(network: Network, linears: list[Leaf]) -> tuple[int, int, int, bool] | None:
    """Number of blocks, width, inner width, gate: from pairs of layers h -> f and f -> h that repeat."""
    pairs = [(_width(leaf, 0, "in_features"), _width(leaf, 1, "out_features")) for leaf in linears]
    back: dict[tuple[int, int], int] = {}
    for into, out in pairs:
        if into and out and into > out and (out, into) in pairs:
            back[(out, into)] = back.get((out, into), 0) + 1
    back = {
        pair: min(count, pairs.count(pair)) for pair, count in back.items()
    }  # a projection of patches has no partner
    encoder = [
        leaf
        for leaf in network.leaves
        if leaf.obj.name in ("torch.nn.TransformerEncoderLayer", "torch.nn.TransformerDecoderLayer")
    ]
    if encoder:
        width, inner = _width(encoder[0], 0, "d_model"), _width(encoder[0], 2, "dim_feedforward") or 2048
        count = sum(leaf.repeat for leaf in encoder)
        return (count, width, inner, False) if width else None
    if not back:
        return None
    (hidden, ffn), layers = max(back.items(), key=lambda item: (item[1], item[0]))
    beside = sum(count * h * f for (h, f), count in back.items() if h != hidden)
    if beside > 0.1 * layers * hidden * ffn:
        return None  # two stacks of different widths, as in a masked autoencoder: no single width describes them
    forward = sum(1 for pair in pairs if pair == (hidden, ffn))
    wide = sum(1 for pair in pairs if pair == (hidden, 2 * ffn))
    return layers, hidden, ffn, forward >= 2 * layers or wide >= layers


def _heads(reading: Reading, network: Network, hidden: int) -> int | None:
    """Attention heads: of a layer of the library, or where the width is split: ``x.view(b, t, heads, width // heads)``."""
    for leaf in network.leaves:
        if leaf.obj.name == "torch.nn.MultiheadAttention":
            return _width(leaf, 1, "num_heads")
        if leaf.obj.name in ("torch.nn.TransformerEncoderLayer", "torch.nn.TransformerDecoderLayer"):
            return _width(leaf, 1, "nhead")
    for event in reading.trace.calls(".view", ".reshape", ".unflatten"):
        if len(event.args) < 3:
            continue
        heads, width = plain(event.args[-2]), plain(event.args[-1])
        left = width == -1 and len(event.args) > 3  # ``x.view(b, t, heads, -1)``, not ``x.view(b, width, -1)``
        if isinstance(heads, int) and heads > 1 and hidden % heads == 0 and (left or width in (None, hidden // heads)):
            return heads
    for event in reading.trace.calls("einops.rearrange"):
        found = plain(event.kwargs.get("h") or event.kwargs.get("heads"))
        if isinstance(found, int) and found > 0 and hidden % found == 0:
            return found
    return None


def _dropout(network: Network) -> float | None:
    for leaf in network.leaves:
        if leaf.obj.name == "torch.nn.Dropout":
            found = plain(leaf.obj.argument(0, "p"), 0.5)
            return float(found) if isinstance(found, (int, float)) else None
    return 0.0


_ATTENTION = (
    "torch.nn.functional.scaled_dot_product_attention",
    "flash_attn.flash_attn_func",
    "xformers.ops.memory_efficient_attention",
)


def _attends(reading: Reading, network: Network) -> bool:
    """Whether the network attends: a layer that does, a fused kernel, or a soft-max that is multiplied with values."""
    if any("Attention" in leaf.obj.name or "Transformer" in leaf.obj.name for leaf in network.leaves):
        return True
    if reading.trace.calls(*_ATTENTION):
        return True
    return explicit_attention(reading) is not None


def explicit_attention(reading: Reading) -> Obj | None:
    """A soft-max of a product of matrices, written out: it keeps the whole matrix of scores."""
    for event in reading.trace.calls("torch.nn.functional.softmax", "torch.softmax", ".softmax", "()"):
        layer = settle(event.receiver) if event.name == "()" and event.receiver is not None else None
        if event.name == "()" and not (isinstance(layer, Obj) and layer.name == "torch.nn.Softmax"):
            continue
        source = event.receiver if event.name.startswith(".") else (event.args[0] if event.args else None)
        found = comes_from_any(
            source, 40, ("@", "torch.matmul", "torch.bmm", "torch.einsum", ".matmul", ".bmm", "torch.baddbmm")
        )
        if found is not None:
            return found
    return None
