"""Soft transformers over fixed memories as torch modules.

The torch package is passed as an argument.
"""

from typing import Any

import numpy as np

from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, HardTransformer
from hardmax.typing import FloatArray


def build_soft_transformer(torch: Any, model: HardTransformer, taus: list[float | None]) -> Any:
    r"""Build the module that computes `model.soft`.

    Args:
        torch: The torch package.
        model: The transformer.
        taus: A temperature above 0 for each block; None means $\sqrt{d_k}$ for each head.
    """
    network = model.network
    parts = [build_linear(torch, network.embedding.weight, network.embedding.bias)]
    parts += [
        _build_block(torch, block, tau) for block, tau in zip(model.blocks, taus, strict=True)
    ]
    parts.append(build_linear(torch, network.readout.weight, network.readout.bias))
    return torch.nn.Sequential(*parts)


def build_linear(torch: Any, weight: FloatArray, bias: FloatArray) -> Any:
    """Build a `torch.nn.Linear` in float64 from a matrix that acts on row vectors."""
    linear = torch.nn.Linear(*weight.shape, dtype=torch.float64)
    with torch.no_grad():
        linear.weight.copy_(torch.from_numpy(np.array(weight.T, order="C")))
        linear.bias.copy_(torch.from_numpy(bias.copy()))
    return linear


def _build_block(torch: Any, block: Block, tau: float | None) -> Any:
    class SoftBlock(torch.nn.Module):  # type: ignore[misc]
        """A block of soft heads and a feed-forward part."""

        def __init__(self) -> None:
            super().__init__()
            heads = [_build_head(torch, head, tau) for head in block.heads]
            self.heads = torch.nn.ModuleList(heads)
            self.ffn = None
            if block.ffn is not None:
                ffn = block.ffn
                before = build_linear(torch, ffn.w_in, np.asarray(ffn.b_in))
                after = build_linear(torch, ffn.w_out, np.asarray(ffn.b_out))
                self.ffn = torch.nn.Sequential(before, torch.nn.ReLU(), after)

        def forward(self, z: Any) -> Any:
            """Apply the block to rows."""
            if len(self.heads):
                attended = sum(head(z) for head in self.heads)
                z = z + attended if block.attention_residual else attended
            if self.ffn is None:
                return z
            return z + self.ffn(z) if block.ffn_residual else self.ffn(z)

    return SoftBlock()


def _build_head(torch: Any, head: AttentionHead, tau: float | None) -> Any:
    scores = head.score_map
    arrays = {
        "query_weight": scores.query_weight,
        "query_bias": scores.query_bias,
        "keys": scores.keys,
        "logit_bias": scores.logit_bias,
        "values": head.values[head.unmasked],
        "output_weight": head.output_weight,
    }
    temperature = head.standard_temperature if tau is None else tau

    class SoftHead(torch.nn.Module):  # type: ignore[misc]
        """A soft head over its fixed memory, without masked keys."""

        def __init__(self) -> None:
            super().__init__()
            for name, array in arrays.items():
                setattr(self, name, torch.nn.Parameter(torch.from_numpy(array.copy())))

        def forward(self, z: Any) -> Any:
            """Apply the head to rows."""
            query = z @ self.query_weight + self.query_bias
            logits = query @ self.keys.T + self.logit_bias
            weights = torch.softmax(logits / temperature, dim=-1)
            return weights @ self.values @ self.output_weight

    return SoftHead()
