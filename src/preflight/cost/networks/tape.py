"""A forward pass of one sample as a list of operations, without any tensor: what they keep, compute and move.

Each operation follows what PyTorch's autograd does: what it saves for its backward pass, which gradients it allocates,
in which width autocast lets it work. Architectures are written once on top of it (``unet``, ``transformers``), and memory,
arithmetic and traffic are read off the same tape.
"""

from __future__ import annotations

import msgspec

from preflight.cost.networks.operation import Attention, Op, Product, Tensor


class Tape:
    """A forward pass as it is written down.

    Attributes:
        narrow: Bytes of an element that products read and write.
        wide: Bytes of an element of what norms and softmax work on: 4 under autocast.
        written_out: Whether the attention matrix is materialised.
        images_as_rows: Whether images lie with their channels innermost, as tensor cores read them.
    """

    def __init__(self, narrow: float, wide: float, written_out: bool = False, images_as_rows: bool = False) -> None:
        """Begin an empty tape."""
        self.narrow, self.wide = narrow, wide
        self.written_out, self.images_as_rows = written_out, images_as_rows
        self.ops: list[Op] = []
        self.sizes: list[float] = []
        self.parameters: list[float] = [0.0]  # outside blocks, then of each block
        self.frozen = 0.0
        self._keys = 0
        self._block = -1

    @property
    def autocast(self) -> bool:
        """Whether norms work in another width than products."""
        return self.narrow != self.wide

    def begin_block(self) -> None:
        """Begin a unit that is recomputed, and sharded, as a whole."""
        self.parameters.append(0.0)
        self._block = len(self.parameters) - 2

    def end_block(self) -> None:
        """End it."""
        self._block = -1

    def tensor(self, rows: float, columns: float, width: float, graded: bool = True) -> Tensor:
        """Return a tensor in a storage of its own."""
        self._keys += 1
        self.sizes.append(rows * columns * width)
        return Tensor(rows, columns, width, self._keys, len(self.sizes) - 1, graded)

    def view(self, of: Tensor, rows: float, columns: float) -> Tensor:
        """Return a part or another shape of a tensor; its gradient is taken for that of the whole."""
        return msgspec.structs.replace(of, rows=rows, columns=columns)

    def data(self, rows: float, columns: float) -> Tensor:
        """Return an input, to which no gradient flows."""
        return self.tensor(rows, columns, self.wide, graded=False)

    def own(self, elements: float, trained: bool = True) -> Tensor:
        """Return parameters."""
        if trained:
            self.parameters[self._block + 1] += elements
        else:
            self.frozen += elements
        self._keys += 1
        return Tensor(1.0, elements, self.wide, self._keys, -1, trained)

    def op(self, inputs: tuple[Tensor, ...], output: Tensor, saved: tuple[Tensor, ...] = (), **more: object) -> Tensor:
        """Write down an operation; memory traffic is that of reading inputs and writing the output, unless given."""
        kept = tuple(part.storage for part in saved if part.storage >= 0)
        if not output.graded:
            kept = ()
        moved = sum(part.size for part in inputs) + output.size
        more.setdefault("ahead", moved)
        more.setdefault("behind", moved)
        self.ops.append(
            Op(
                inputs=tuple(part for part in inputs if part.graded),
                output=output,
                saved=kept,
                used=tuple(part.storage for part in inputs if part.storage >= 0),
                block=self._block,
                **more,  # type: ignore[arg-type]
            )
        )
        return output

    def cast(self, x: Tensor, width: float) -> Tensor:
        """Return a tensor in another width; the same one where it has it already."""
        if x.width == width:
            return x
        return self.op((x,), self.tensor(x.rows, x.columns, width, x.graded))

    def _own_matrix(self, inputs: float, columns: float, bias: bool) -> float:
        weights = inputs * columns + (columns if bias else 0.0)
        self.own(weights)
        return weights

    def linear(self, x: Tensor, columns: float, bias: bool = True) -> Tensor:
        """Multiply with a matrix: the input is kept for the gradient of the weights."""
        x = self.cast(x, self.narrow)
        weights = self._own_matrix(x.columns, columns, bias)
        product = Product(x.rows, columns, x.columns, x.elements, x.graded)
        out = self.tensor(x.rows, columns, self.narrow)
        return self.op(
            (x,), out, (x,), weights=weights, product=product, ahead=0.0, behind=0.0, kernels=0.0, kernels_behind=0.0
        )

    def convolution(self, x: Tensor, columns: float, side: int = 3, stride: int = 1, bias: bool = True) -> Tensor:
        """Convolve: a product of (pixels) x (inputs x side^2). Images in planes are turned for tensor cores, and back."""
        x = self.cast(x, self.narrow)
        weights = self._own_matrix(x.columns * side * side, columns, bias)
        rows = x.rows / stride**2
        product = Product(rows, columns, x.columns * side * side, x.elements, x.graded)
        out = self.tensor(rows, columns, self.narrow)
        turned = 0.0 if self.images_as_rows or self.narrow == 4.0 else 2.0 * (x.size + out.size)
        kernels = 2.0 if turned else 0.0
        return self.op(
            (x,), out, (x,), weights=weights, product=product, ahead=turned, behind=2 * turned, kernels=kernels,
            kernels_behind=2 * kernels,
        )  # fmt: skip

    def norm(self, x: Tensor, affine: bool = True, passes: float = 1.0, statistics: float = 0.0) -> Tensor:
        """Normalise: the input is kept. Groups of a large image are read twice, for their statistics first."""
        x = self.cast(x, self.wide)
        weights = 2 * x.columns if affine else 0.0
        if affine:
            self.own(weights)
        out = self.tensor(x.rows, x.columns, x.width)
        kept = (x, self.tensor(1.0, statistics, 4.0)) if statistics else (x,)
        return self.op(
            (x,), out, kept, weights=weights, ahead=(1 + passes) * x.size, behind=5 * x.size, kernels=passes,
            kernels_behind=2.0,
        )  # fmt: skip

    def group_norm(self, x: Tensor) -> Tensor:
        """Normalise groups of channels over an image."""
        return self.norm(x, passes=2.0)

    def layer_norm(self, x: Tensor, affine: bool = True) -> Tensor:
        """Normalise every row; mean and deviation of each are kept in fp32."""
        return self.norm(x, affine=affine, statistics=2 * x.rows)

    def rms_norm(self, x: Tensor, head: float, written_out: bool) -> Tensor:
        """Normalise heads by their root mean square, with a scale of a head's width.

        Written out (diffusers' own class) it is four kernels on an fp32 copy, and keeps what it multiplies.
        """
        scale = self.own(head)
        deviation = self.tensor(x.elements / head, 1.0, 4.0)
        if not written_out:
            x = self.cast(x, self.wide)
            out = self.tensor(x.rows, x.columns, x.width)
            return self.op((x,), out, (x, deviation), weights=head, behind=5 * x.size, kernels_behind=2.0)
        wide = self.cast(x, 4.0)
        self.op((wide,), deviation, (wide, deviation), ahead=3 * wide.size, behind=4 * wide.size, kernels=3.0)
        out = self.op((x, deviation), self.tensor(x.rows, x.columns, 4.0), (x, deviation))
        out = self.cast(out, self.narrow)
        out = self.op((out, scale), self.tensor(x.rows, x.columns, self.wide), (out,), weights=head, temporary=out.size)
        return out

    def lookup(self, count: float, columns: float) -> Tensor:
        """Take a row of a table."""
        self.own(count * columns)
        return self.op((), self.tensor(1.0, columns, self.wide), weights=count * columns)

    def activation(self, x: Tensor) -> Tensor:
        """Take SiLU or GELU: the input is kept."""
        return self.op((x,), self.tensor(x.rows, x.columns, x.width, x.graded), (x,))

    def gated(self, x: Tensor) -> Tensor:
        """Multiply one half of the columns with the GELU of the other; the gradients of both halves are put together."""
        half = x.columns / 2
        gate = self.tensor(x.rows, half, x.width)
        out = self.tensor(x.rows, half, x.width)
        return self.op(
            (x,), out, (x, gate), temporary=2 * x.size, ahead=5 * out.size, behind=11 * out.size, kernels=2.0,
            kernels_behind=4.0,
        )  # fmt: skip

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """Add; both inputs take the same gradient. What is smaller is spread over the rows."""
        width = max(x.width, y.width)
        big = x if x.elements >= y.elements else y
        out = self.tensor(big.rows, big.columns, width, x.graded or y.graded)
        weights = sum(part.elements for part in (x, y) if part.storage < 0 and part.graded)
        return self.op((x, y), out, passes=True, behind=0.0, kernels_behind=0.0, weights=weights)

    def scaled(self, x: Tensor) -> Tensor:
        """Multiply with a number."""
        return self.op((x,), self.tensor(x.rows, x.columns, x.width, x.graded))

    def multiply(self, x: Tensor, by: Tensor) -> Tensor:
        """Multiply with a row of every sample, which takes a gradient: both are kept, and their product before it is summed."""
        out = self.tensor(x.rows, x.columns, max(x.width, by.width))
        return self.op((x, by), out, (x, by), temporary=out.size, behind=3 * out.size + 2 * x.size, kernels_behind=3.0)

    def modulated(self, x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
        """Return x (1 + scale) + shift, of which the product's two factors are kept."""
        return self.add(self.multiply(x, self.scaled(scale)), shift)

    def join(self, x: Tensor, y: Tensor, rows: bool = False) -> Tensor:
        """Put two tensors side by side, or one below the other; gradients are views."""
        size = (x.rows + y.rows, x.columns) if rows else (x.rows, x.columns + y.columns)
        out = self.tensor(*size, max(x.width, y.width))
        return self.op((x, y), out, passes=True, behind=0.0, kernels_behind=0.0)

    def copy(self, x: Tensor) -> Tensor:
        """Write a tensor again; its gradient is a view of the copy's."""
        return self.op((x,), self.tensor(x.rows, x.columns, x.width), passes=True, behind=0.0, kernels_behind=0.0)

    def part(self, x: Tensor, rows: float) -> Tensor:
        """Copy some rows; their gradient is put into zeros of the whole."""
        out = self.tensor(rows, x.columns, x.width)
        return self.op((x,), out, ahead=2 * out.size, behind=2 * x.size)

    def rotated(self, x: Tensor) -> Tensor:
        """Rotate pairs of channels by an angle that depends on the place: in fp32, written out, nothing of a sample is kept."""
        moved = 12 * x.size + 22 * x.elements
        return self.op(
            (x,), self.tensor(x.rows, x.columns, x.width), ahead=moved, behind=moved, kernels=9.0, kernels_behind=9.0
        )

    def grown(self, x: Tensor, factor: float) -> Tensor:
        """Repeat every pixel."""
        return self.op((x,), self.tensor(x.rows * factor, x.columns, x.width))

    def attention(self, q: Tensor, k: Tensor, v: Tensor, heads: float, whole: Tensor | None = None) -> Tensor:
        """Attend: q, k, v, the result and a sum of every row are kept; written out also the matrix, as softmax gives it.

        ``whole`` is the one product that all three are views of.
        """
        q, k, v = (self.cast(part, self.narrow) for part in (q, k, v))
        out = self.tensor(q.rows, q.columns, self.narrow)
        kept = [q, k, v]
        matrix = q.rows * k.rows * heads
        more = {"ahead": 0.0, "behind": 0.0, "kernels": 0.0, "kernels_behind": 0.0, "temporary": 0.0}
        if self.written_out:
            kept.append(self.tensor(1.0, matrix, self.wide))
            if self.autocast:
                kept.append(self.tensor(1.0, matrix, self.narrow))
            # Scores are written, scaled, normalised and read again, each on its own; autocast takes softmax in fp32 and
            # casts before and behind it.
            ahead, behind = (28.0, 36.0) if self.autocast else (8 * self.narrow, 12 * self.narrow)
            more |= {"ahead": ahead * matrix, "behind": behind * matrix, "kernels": 6.0, "kernels_behind": 9.0}
            more["temporary"] = 2 * matrix * self.wide
        else:
            kept += [out, self.tensor(q.rows, heads, 4.0)]
        inputs: tuple[Tensor, ...] = (q, k, v)
        if whole is not None:
            inputs = (whole,)
            more["temporary"] += whole.size  # the gradients of the three, before they are put together
        done = Attention(heads, q.columns / heads, q.rows, k.rows)
        return self.op(inputs, out, tuple(kept), attention=done, **more)
