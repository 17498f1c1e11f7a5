"""What a probe with real numbers saw: the script once more on the CPU, made small where it had to be."""

from __future__ import annotations

from typing import Literal

import msgspec


class LossSeen(msgspec.Struct, frozen=True):
    """A loss over classes.

    Attributes:
        function: ``cross_entropy`` or ``nll_loss``. line: ``file:line``. step: Optimizer steps before.
        classes: Number of classes of the predictions.
        value: Its value; None where it was not finite, or not one number.
        mean: Whether it is the plain mean over the targets. weighted: Whether classes have weights.
        targets: Number of targets. counted: Those that are not ignored. different: Different ones among those.
        lowest: The lowest class among those. highest: The highest.
    """

    function: str
    line: str
    step: int
    classes: int
    value: float | None
    mean: bool
    weighted: bool
    targets: int
    counted: int
    different: int
    lowest: int | None = None
    highest: int | None = None


class BackwardSeen(msgspec.Struct, frozen=True):
    """What a backward pass began with: its value, None where it was not finite."""

    value: float | None
    step: int
    line: str


class Origin(msgspec.Struct, frozen=True):
    """Where a NaN first appeared in a step."""

    function: str
    module: str
    line: str
    step: int


class Broken(msgspec.Struct, frozen=True):
    """The first value that was not a number any more: ``the loss`` or ``gradients``, of which parameters, and since where."""

    what: str
    value: str
    step: int
    line: str
    parameters: tuple[str, ...] = ()
    origin: Origin | None = None


class ZeroGradient(msgspec.Struct, frozen=True):
    """A parameter whose gradient was zero in every element at every step.

    Attributes:
        name: Its path. kind: The class of the module that holds it. line: Where that module's forward is written.
        shaken: Whether it was zero still after every weight had been moved a little.
    """

    name: str
    kind: str
    line: str
    shaken: bool


class GradientsSeen(msgspec.Struct, frozen=True):
    """Parameters that had a gradient in two steps or more, and those of them where it was always zero."""

    parameters: int = 0
    zero: tuple[ZeroGradient, ...] = ()
    zeros: int = 0


class Drawn(msgspec.Struct, frozen=True):
    """A random function that ran in evaluation mode; share: the probability of a dropout."""

    function: str
    line: str
    share: float | None = None


class EvaluationSeen(msgspec.Struct, frozen=True):
    """Whether a model in evaluation mode gave the same twice, over how many outputs, and what was drawn."""

    same: bool
    outputs: int
    drawn: tuple[Drawn, ...] = ()


class TokensSeen(msgspec.Struct, frozen=True):
    """Targets that are the tokens of an input, and what the predictions do when later tokens are changed.

    Attributes:
        input: Which of the model's inputs. shift: By how many places the target's token stands later than its prediction.
        moved: How far the predictions of earlier positions moved, as a share of how far those of later ones did; None where no
            output is one for each position, or none moved.
        own: The same of the prediction at the first place that was changed: 0 where it sees only tokens before its own.
        positions: Earlier positions that were looked at.
    """

    input: int
    shift: int
    moved: float | None = None
    own: float | None = None
    positions: int = 0


class GuessSeen(msgspec.Struct, frozen=True):
    """What a model learned of tokens that were drawn evenly and anew in each round.

    Attributes:
        loss: The mean loss that it got to. floor: The lowest for who does not see the tokens, log(kinds).
        kinds: Kinds of tokens. rounds: Rounds of learning.
    """

    loss: float
    floor: float
    kinds: int
    rounds: int


class SmallerSeen(msgspec.Struct, frozen=True):
    """A model that was given one sample fewer: the samples that it had, what it raised, and where."""

    samples: int
    error: str = ""
    line: str = ""


class MaskSeen(msgspec.Struct, frozen=True):
    """A mask that attention was given in training.

    Attributes:
        what: ``attn_mask`` or ``key_padding_mask``. line: ``file:line``. module: Path of the module. shape: Its shape.
        dtype: Its type.
        zeros_and_ones: Whether it is added to the scores, and zeros and ones are all that it holds.
        blind: Rows that may attend to nothing, of how many rows.
        backwards: Whether every earlier position is forbidden and no later one.
    """

    what: str
    line: str
    module: str
    shape: tuple[int, ...]
    dtype: str
    zeros_and_ones: bool = False
    blind: int = 0
    rows: int = 0
    backwards: bool = False


class MixingSeen(msgspec.Struct, frozen=True):
    """What the other samples of a batch did when one was changed.

    Attributes:
        samples: Samples of the batch. outputs: Outputs that have one row for each.
        moved: How far the other rows moved, as a share of the largest move.
    """

    samples: int
    moved: float
    outputs: int


class Chain(msgspec.Struct, frozen=True):
    """Layers of one class in a row: the root mean square of what each gives, and of its gradients, in the first step."""

    parent: str
    kind: str
    outputs: tuple[float | None, ...]
    gradients: tuple[float | None, ...]


class ProbedModel(msgspec.Struct, frozen=True):
    """A model that the script calls.

    Attributes:
        name: Its class. line: Where its forward is written, or where it is called. parameters: Their number in the probe.
        reason: Why it was not experimented with.
    """

    name: str
    line: str
    parameters: int
    chains: tuple[Chain, ...] = ()
    tokens: tuple[TokensSeen, ...] = ()
    evaluation: EvaluationSeen | None = None
    mixing: MixingSeen | None = None
    smaller: SmallerSeen | None = None
    guess: GuessSeen | None = None
    reason: str | None = None


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe saw.

    Attributes:
        outcome: ``done``, or ``left out``. reason: Why it was left out.
        steps: Optimizer steps.
        changed: What was made smaller.
        assumptions: What stood in for something that was missing.
    """

    outcome: Literal["done", "left out"] = "done"
    reason: str | None = None
    seconds: float = 0.0
    steps: int = 0
    changed: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    losses: tuple[LossSeen, ...] = ()
    backwards: tuple[BackwardSeen, ...] = ()
    broken: Broken | None = None
    gradients: GradientsSeen = GradientsSeen()
    masks: tuple[MaskSeen, ...] = ()
    models: tuple[ProbedModel, ...] = ()
