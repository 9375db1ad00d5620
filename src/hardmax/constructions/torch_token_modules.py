"""The classes of exported transformers, where `torch.save` and `torch.jit.script` look for them.

A module is saved as the name of its class, so the class must be an attribute of a Python module.
But a base class of torch needs torch: the classes are made when one is asked for first.
"""

from functools import cache
from typing import Any

from hardmax.models.torch_modules import load_torch


def __getattr__(name: str) -> Any:
    if name in ("ExportedBlock", "ExportedTransformer"):
        return _classes(load_torch())[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _classes(torch: Any) -> dict[str, Any]:
    # Scripts take a parameter without a type for a tensor; `Any` is none they know.
    class ExportedBlock(torch.nn.Module):  # type: ignore[misc]
        """Attention and a feed-forward part, each with a residual connection or without."""

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
        """Embedding with positions, blocks, and the read-out of one token."""

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
            # Of an empty batch no size can be guessed.
            return y.reshape(x.shape[:-1] + y.shape[-1:])

    classes = {"ExportedBlock": ExportedBlock, "ExportedTransformer": ExportedTransformer}
    for name, made in classes.items():
        made.__qualname__ = name
    return classes
