"""Network words: architectures of diffusion models, which are no stacks of equal blocks, in numbers."""

from __future__ import annotations

from typing import Literal

import msgspec


class UNet(msgspec.Struct, frozen=True, kw_only=True, tag="unet"):
    """A U-Net of residual convolutions, with attention at some resolutions (Ho et al. 2020, Rombach et al. 2022).

    Attributes:
        channels: Width of every level, from the full resolution down; each level has half the side of the one before.
        resnets: Residual blocks of a level on the way down; on the way up it has one more.
        transformers: Transformer blocks behind every residual block of a level on the way down; 0 for none.
        transformers_up: The same on the way up, by level (not in the order in which they run).
        middle: Transformer blocks in the middle; None where the middle has no attention, or there is no middle.
        heads: Attention heads of every level.
        cross_attention: Whether attention is a transformer block that looks at a text, or a single plain layer.
        text_width: Width of a token of the text. text_tokens: Tokens of the text.
        in_channels: Channels of the input. out_channels: Of the output.
        linear_projection: Whether a transformer is entered through a matrix and not through a convolution.
        added_width: Width of a second condition beside the time step (SDXL), 0 for none.
        classes: Rows of a table of class embeddings, 0 for none.
        scale: Pixels of the image for one of the input, along a side: 8 behind the usual autoencoder.
        has_middle: Whether there is a middle at all.
    """

    channels: tuple[int, ...]
    resnets: tuple[int, ...]
    transformers: tuple[int, ...]
    transformers_up: tuple[int, ...]
    heads: tuple[int, ...]
    middle: int | None = None
    has_middle: bool = True
    cross_attention: bool = True
    text_width: int = 0
    text_tokens: int = 77
    in_channels: int = 4
    out_channels: int = 4
    linear_projection: bool = False
    added_width: int = 0
    classes: int = 0
    scale: int = 8


class DiffusionTransformer(msgspec.Struct, frozen=True, kw_only=True, tag="dit"):
    """A transformer over the patches of a latent image, modulated by a time step.

    Attributes:
        style: ``dit``: every block has its own modulation (Peebles and Xie 2022). ``pixart``: one modulation for all blocks,
            and cross attention to a text (Chen et al. 2023). ``sd3``: text and image have weights of their own and attend
            together (Esser et al. 2024). ``flux``: the same, and behind them blocks that treat both as one sequence.
        blocks: Blocks; of ``flux`` those with weights for each. single_blocks: Blocks of ``flux`` behind them.
        hidden: Width of the stream. heads: Attention heads. ffn: Width inside the feed-forward layer.
        patch: Side of a patch in pixels of the latent image.
        in_channels: Channels of the latent image. out_channels: Of the output.
        classes: Classes that a sample may be labelled with, 0 for none.
        own_embeddings: Whether every block embeds time step and label itself (as diffusers writes DiT).
        text_width: Width of a token of the text. text_tokens: Tokens of the text. pooled_width: Width of a whole text.
        sizes: Whether side and proportions of the image are conditions as well (``pixart``).
        qk_norm: Whether queries and keys are normalised (``sd3``).
        dual_blocks: Blocks with a second attention of the image alone (Stable Diffusion 3.5 medium).
        guidance: Whether the strength of guidance is a condition (``flux``).
        learned_positions: Positions in a table of parameters that are not trained, 0 where they are no parameters.
        scale: Pixels of the image for one of the latent image, along a side.
    """

    style: Literal["dit", "pixart", "sd3", "flux"]
    blocks: int
    hidden: int
    heads: int
    ffn: int
    patch: int
    in_channels: int
    out_channels: int
    single_blocks: int = 0
    classes: int = 0
    own_embeddings: bool = False
    text_width: int = 0
    text_tokens: int = 0
    pooled_width: int = 0
    sizes: bool = False
    qk_norm: bool = False
    dual_blocks: int = 0
    guidance: bool = False
    learned_positions: int = 0
    scale: int = 8


Network = UNet | DiffusionTransformer
