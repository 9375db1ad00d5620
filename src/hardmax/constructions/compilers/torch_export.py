r"""Export a token transformer as standard `torch.nn` modules.

`torch.nn.MultiheadAttention` requires heads of one size $s$ whose sizes add up to the width. Tokens
are therefore padded with zeros and blocks with heads that do nothing, and each head uses the first
of its $s$ coordinates. Because torch divides the scores by $\sqrt{s}$, $W_Q$ contains the factor
$\sqrt{s/d_k}$.

A saved torch module refers to its class by name, so the class must be an attribute of a Python
module. But the class needs torch for its base class. The classes are therefore created on first
access.
"""

from functools import cache
from typing import Any

import numpy as np

from hardmax._ground.arguments import choice
from hardmax.constructions.compilers.onnx_export import DTYPES
from hardmax.errors import ArgumentError
from hardmax.models.formats.torch.modules import load_torch
from hardmax.models.formats.torch.transformers import build_linear
from hardmax.models.tokens.transformers import TokenBlock, TokenTransformer
from hardmax.models.transformers import FeedForward
from hardmax.typing import FloatArray


def __getattr__(name: str) -> Any:
    if name in ("ExportedBlock", "ExportedTransformer"):
        return _create_classes(load_torch())[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _create_classes(torch: Any) -> dict[str, Any]:
    # TorchScript treats a parameter without annotation as a tensor and does not support `Any`.
    class ExportedBlock(torch.nn.Module):  # type: ignore[misc]
        """Attention and a feed-forward part, each with or without a residual connection."""

        def __init__(
            self, attention: Any, ffn: Any, attention_residual: bool, ffn_residual: bool, mask: Any
        ) -> None:
            super().__init__()
            self.attention, self.ffn = attention, ffn
            self.attention_residual, self.ffn_residual = attention_residual, ffn_residual
            self.register_buffer("mask", mask, persistent=False)

        def forward(self, z):  # type: ignore[no-untyped-def]
            """Apply the block to tokens `(n, n_tokens, width)`."""
            if self.attention is not None:
                out, _ = self.attention(z, z, z, attn_mask=self.mask, need_weights=False)
                z = z + out if self.attention_residual else out
            if self.ffn is not None:
                z = z + self.ffn(z) if self.ffn_residual else self.ffn(z)
            return z

    class ExportedTransformer(torch.nn.Module):  # type: ignore[misc]
        """An embedding with positions, blocks, and the readout of one token."""

        def __init__(
            self, embedding: Any, positions: Any, blocks: list[Any], readout: Any, token: int
        ) -> None:
            super().__init__()
            self.embedding, self.readout = embedding, readout
            self.positions = torch.nn.Parameter(positions)
            self.blocks = torch.nn.ModuleList(blocks)
            self.readout_token = token

        def forward(self, x):  # type: ignore[no-untyped-def]
            """Evaluate a batch `(..., dim_in)`."""
            z = self.embedding(x.reshape(-1, x.shape[-1])).unsqueeze(1) + self.positions
            for block in self.blocks:
                z = block(z)
            y = self.readout(z[:, self.readout_token])
            # An explicit shape is necessary: -1 is ambiguous for an empty batch.
            return y.reshape(x.shape[:-1] + y.shape[-1:])

    classes = {"ExportedBlock": ExportedBlock, "ExportedTransformer": ExportedTransformer}
    for name, made in classes.items():
        made.__qualname__ = name
    return classes


def token_module(model: TokenTransformer, dtype: Any = "float64") -> Any:
    """Build the module that computes `model.soft(x)` for `x` of shape `(..., dim_in)`.

    Args:
        model: The transformer.
        dtype: The type of all weights, `float64` or `float32`: its name or the `torch.dtype`.

    Raises:
        MissingExtraError: If torch is not installed.
        ArgumentError: If the embedding matrix differs between tokens (in a compiled network it does
            not), or if a weight is outside the range of `dtype`.
    """
    name = choice("dtype", str(dtype).removeprefix("torch."), DTYPES)
    if (model.embedding_weight != model.embedding_weight[:, :1]).any():
        raise ArgumentError("`model` must have the same embedding matrix for every token.")
    module = _build_module(load_torch(), model)
    if name == "float32":
        largest = max(float(np.abs(array).max(initial=0.0)) for array in model.arrays)
        if not largest <= float(np.finfo(np.float32).max):
            raise ArgumentError(
                f"`dtype` must represent every weight, but {largest} is outside the range of "
                "float32. Use float64."
            )
        module = module.float()
    return module


def _build_module(torch: Any, model: TokenTransformer) -> Any:
    from hardmax.constructions.compilers.torch_export import ExportedBlock, ExportedTransformer

    n_heads = max([1, *(len(block.heads) for block in model.blocks)])
    sizes = [max(head.d_k, head.d_v) for block in model.blocks for head in block.heads]
    size = max([-(-model.width // n_heads), *sizes])
    width = n_heads * size
    mask = None if model.mask is None else torch.from_numpy(~model.mask)
    blocks = []
    for block in model.blocks:
        attention = _make_attention(torch, block, n_heads, size) if block.heads else None
        ffn = None if block.ffn is None else _make_feed_forward(torch, block.ffn, width)
        blocks.append(
            ExportedBlock(attention, ffn, block.attention_residual, block.ffn_residual, mask)
        )
    shared = _pad(model.embedding_weight[:, 0], (model.dim_in, width))
    embedding = build_linear(torch, shared, np.zeros(width))
    positions = torch.from_numpy(_pad(model.embedding_bias, (model.n_tokens, width)))
    weight = _pad(model.readout.weight, (width, model.dim_out))
    readout = build_linear(torch, weight, model.readout.bias)
    return ExportedTransformer(embedding, positions, blocks, readout, model.readout_token).eval()


def _make_feed_forward(torch: Any, ffn: FeedForward, width: int) -> Any:
    """Return a feed-forward part on padded tokens: Linear, ReLU, Linear."""
    w_in, w_out = _pad(ffn.w_in, (width, ffn.d_ff)), _pad(ffn.w_out, (ffn.d_ff, width))
    before = build_linear(torch, w_in, np.asarray(ffn.b_in))
    after = build_linear(torch, w_out, _pad(np.asarray(ffn.b_out), (width,)))
    return torch.nn.Sequential(before, torch.nn.ReLU(), after)


def _make_attention(torch: Any, block: TokenBlock, n_heads: int, size: int) -> Any:
    """Return the heads of a block as one `MultiheadAttention`."""
    width = n_heads * size
    projections, biases = np.zeros((3, width, width)), np.zeros(3 * width)
    output = np.zeros((width, width))
    for h, head in enumerate(block.heads):
        scale = np.sqrt(size / head.d_k)
        start = h * size
        weights = (scale * head.query_weight, head.key_weight, head.value_weight)
        for projection, weight in zip(projections, weights, strict=True):
            projection[start : start + weight.shape[1], : head.width] = weight.T
        biases[start : start + head.d_k] = scale * head.bias
        output[: head.width, start : start + head.d_v] = head.output_weight.T
    attention = torch.nn.MultiheadAttention(
        width, n_heads, bias=True, batch_first=True, dtype=torch.float64
    )
    with torch.no_grad():
        attention.in_proj_weight.copy_(torch.from_numpy(projections.reshape(3 * width, width)))
        attention.in_proj_bias.copy_(torch.from_numpy(biases))
        attention.out_proj.weight.copy_(torch.from_numpy(output))
        attention.out_proj.bias.zero_()
    return attention


def _pad(array: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    result = np.zeros(shape)
    result[tuple(slice(n) for n in array.shape)] = array
    return result
