r"""A transformer on tokens as plain `torch.nn` modules.

`torch.nn.MultiheadAttention` wants heads of one size $s$ whose sizes add up to the width. Tokens
are therefore padded with zeros, blocks with heads that do nothing, and each head uses the first of
its $s$ coordinates. It divides scores by $\sqrt{s}$, so $W_Q$ carries $\sqrt{s/d_k}$.
"""

from typing import Any

import numpy as np

from hardmax.errors import ArgumentError
from hardmax.models.token_transformers import TokenBlock, TokenTransformer
from hardmax.models.torch_modules import load_torch
from hardmax.models.torch_transformers import linear_module
from hardmax.typing import FloatArray


def token_module(model: TokenTransformer) -> Any:
    """Build the module that computes `model.soft(x)` for `x` of shape `(..., dim_in)`.

    Raises:
        MissingExtraError: If torch is not installed.
        ArgumentError: If tokens are not embedded by one matrix, as those of a compiled network are.
    """
    if (model.embedding_weight != model.embedding_weight[:, :1]).any():
        raise ArgumentError("`model` must embed the input by the same matrix in every token.")
    return _module(load_torch(), model)


def _module(torch: Any, model: TokenTransformer) -> Any:
    n_heads = max([1, *(len(block.heads) for block in model.blocks)])
    sizes = [max(head.d_k, head.d_v) for block in model.blocks for head in block.heads]
    size = max([-(-model.width // n_heads), *sizes])
    width = n_heads * size
    masked = None if model.mask is None else torch.from_numpy(~model.mask)

    class Block(torch.nn.Module):  # type: ignore[misc]
        """Attention and a feed-forward part, each with a residual connection or without."""

        def __init__(self, block: TokenBlock) -> None:
            super().__init__()
            self.attention_residual = block.attention_residual
            self.ffn_residual = block.ffn_residual
            self.attention = _attention(torch, block, n_heads, size) if block.heads else None
            self.ffn = None
            if block.ffn is not None:
                ffn = block.ffn
                w_in = _padded(ffn.w_in, (width, ffn.d_ff))
                w_out = _padded(ffn.w_out, (ffn.d_ff, width))
                b_in, b_out = np.asarray(ffn.b_in), _padded(np.asarray(ffn.b_out), (width,))
                before, after = (
                    linear_module(torch, w, b) for w, b in ((w_in, b_in), (w_out, b_out))
                )
                self.ffn = torch.nn.Sequential(before, torch.nn.ReLU(), after)

        def forward(self, z: Any) -> Any:
            """Apply the block to tokens `(n, n_tokens, width)`."""
            if self.attention is not None:
                mask = None if masked is None else masked.to(z.device)
                out, _ = self.attention(z, z, z, attn_mask=mask, need_weights=False)
                z = z + out if self.attention_residual else out
            if self.ffn is None:
                return z
            return z + self.ffn(z) if self.ffn_residual else self.ffn(z)

    class Transformer(torch.nn.Module):  # type: ignore[misc]
        """Embedding with positions, blocks, and the read-out of one token."""

        def __init__(self) -> None:
            super().__init__()
            shared = _padded(model.embedding_weight[:, 0], (model.dim_in, width))
            self.embedding = linear_module(torch, shared, np.zeros(width))
            positions = _padded(model.embedding_bias, (model.n_tokens, width))
            self.positions = torch.nn.Parameter(torch.from_numpy(positions))
            self.blocks = torch.nn.ModuleList(Block(block) for block in model.blocks)
            weight = _padded(model.readout.weight, (width, model.dim_out))
            self.readout = linear_module(torch, weight, model.readout.bias)

        def forward(self, x: Any) -> Any:
            """Evaluate a batch `(..., dim_in)`."""
            rows = x.reshape(-1, x.shape[-1])
            z = self.embedding(rows).unsqueeze(1) + self.positions
            for block in self.blocks:
                z = block(z)
            return self.readout(z[:, model.readout_token]).reshape(*x.shape[:-1], -1)

    return Transformer().eval()


def _attention(torch: Any, block: TokenBlock, n_heads: int, size: int) -> Any:
    """The heads of a block as one `MultiheadAttention`."""
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


def _padded(array: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    result = np.zeros(shape)
    result[tuple(slice(n) for n in array.shape)] = array
    return result
