"""Write compiled transformers to safetensors files, and read them back.

A file contains the weights of the transformer (for other programs), and the network, the box and
the plans from which it was built. Reading builds and certifies the transformer again and rejects a
file whose weights differ from the result. A certified error is therefore never taken on trust.
"""

import os
from dataclasses import replace
from typing import Any

import numpy as np

from hardmax._ground.arguments import Sizes
from hardmax.constructions.compilers._bounds.certified_errors import LayerPlan
from hardmax.constructions.compilers.compiled import CompiledTransformer, build_transformer
from hardmax.constructions.compilers.piece_layers import (
    Origins,
    PieceLayer,
    SourceNetwork,
    piece_layers,
)
from hardmax.constructions.compilers.token_layout import Slots
from hardmax.constructions.compilers.token_origins import TokenOrigins
from hardmax.constructions.compilers.unit_origins import UnitOrigins
from hardmax.errors import HardmaxError, RecordFormatError
from hardmax.geometry.domains import Box
from hardmax.models.storage import read_parts, write_parts
from hardmax.models.tensor_files import (
    TensorSource,
    read_tensor_file,
    take_field,
    write_tensor_file,
)
from hardmax.models.tokens.transformers import TokenTransformer
from hardmax.typing import AnyArray

COMPILED_FORMAT = "hardmax.compiled/2"
r"""The value of `format` in the metadata entry `hardmax`, a JSON object. The other fields:

- `content`: a hash of the other fields and the tensors, as in `MODEL_FORMAT`. The older format
  `hardmax.compiled/1` lacks this field and can still be read.
- `kind`: `ReluNetwork` or `MaxoutNetwork`, with the fields and tensors of `MODEL_FORMAT`.
- `epsilon`: the error passed to the compiler, or null for a hard transformer.
- `assumption`: a sentence about what was assumed about the network, if anything was.
- `transformer`: `n_tokens`, `width`, `n_heads` and `d_ff` for each block, and `readout_token`.
  Only programs that use the weights directly need this field.

In addition to the tensors of the network, the file has these tensors, all F64:

- `box.low`, `box.high`; `plan.rates`, `plan.gates`, and `plan.i.floors` for hidden layer `i`.
- If tokens have origins, `origins.points` `(n_tokens, dim_in)` and `origins.tokens` `(n_pieces,)`.
- If units have origins, `origins.points` `(n_origins, dim_in)` and `origins.units` `(n_units,)`.
  The entries of `origins.tokens` and `origins.units` are integers.
- `transformer.embedding_weight` `(dim_in, n_tokens, width)`, `.embedding_bias`
  `(n_tokens, width)`, `.readout.weight`, `.readout.bias`.
- For block `b`, `transformer.blocks.b.query_weight`, `.key_weight`, `.value_weight`
  `(width, n_heads)`, `.output_weight` `(n_heads, width)` (heads have size 1), `.w_in`, `.b_in`,
  `.w_out`, `.b_out`.
"""


def save_transformer(compiled: CompiledTransformer, path: str | os.PathLike[str]) -> None:
    """Write a compiled transformer (see `CompiledTransformer.save`)."""
    write_tensor_file(path, *compiled_parts(compiled))


def compiled_parts(
    compiled: CompiledTransformer,
) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Return the fields and tensors of `COMPILED_FORMAT`."""
    tensors: dict[str, AnyArray] = {}
    fields = write_parts(compiled.source, tensors)
    tensors |= {"box.low": compiled.box.low, "box.high": compiled.box.high}
    tensors["plan.rates"] = np.array([plan.rate for plan in compiled.plans])
    tensors["plan.gates"] = np.array([plan.gate for plan in compiled.plans])
    for i, plan in enumerate(compiled.plans):
        tensors[f"plan.{i}.floors"] = plan.floors
    origins = compiled.origins
    if origins is not None:
        tensors["origins.points"] = origins.points
    if isinstance(origins, TokenOrigins):
        tensors["origins.tokens"] = origins.tokens.astype(np.float64)
    elif origins is not None:
        tensors["origins.units"] = origins.units.astype(np.float64)
    tensors |= _transformer_tensors(compiled.token_transformer)
    header = {
        "format": COMPILED_FORMAT,
        "epsilon": compiled.epsilon,
        "transformer": _describe_transformer(compiled.token_transformer),
        **fields,
    }
    if compiled.assumption is not None:
        header["assumption"] = compiled.assumption
    return header, tensors


def load_compiled(path: str | os.PathLike[str]) -> CompiledTransformer:
    """Read a compiled transformer written by `CompiledTransformer.save`.

    The transformer and its certified error are computed again from the network, the box and the
    plans in the file.

    Args:
        path: The file to read.

    Raises:
        RecordFormatError: If the file is damaged, does not hold a compiled transformer, or contains
            weights or plans that do not fit its network and box.

    Examples:
        >>> import tempfile
        >>> from hardmax.constructions import compile_relu
        >>> compiled = compile_relu([[[1.0]], [[1.0]]], Box([-1.0], [1.0]), epsilon=0.01)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     compiled.save(f"{folder}/c.safetensors")
        ...     again = load_compiled(f"{folder}/c.safetensors")
        >>> again.certified_error == compiled.certified_error
        True
    """
    fields, tensors = read_tensor_file(path)
    try:
        return compiled_from_parts(fields, tensors)
    except HardmaxError as error:
        raise RecordFormatError(
            f"`path` must be a file with a compiled transformer; {path}: {error}"
        ) from None


def compiled_from_parts(
    fields: dict[str, Any], tensors: dict[str, AnyArray]
) -> CompiledTransformer:
    """Build a compiled transformer from the result of `compiled_parts`; this empties both parts.

    Raises:
        HardmaxError: If the parts do not describe a compiled transformer.
    """
    found = fields.pop("format", None)
    if found not in (COMPILED_FORMAT, "hardmax.compiled/1"):
        raise RecordFormatError(
            f"the metadata must state the format {COMPILED_FORMAT!r}; got {found!r:.60}."
        )
    epsilon = fields.pop("epsilon", None)
    if epsilon is not None and not (type(epsilon) is float and 0.0 < epsilon < np.inf):
        raise RecordFormatError(f"`epsilon` must be null or positive; got {epsilon!r:.60}.")
    assumption = take_field(fields, "assumption", str) if "assumption" in fields else None
    description = fields.pop("transformer", None)
    weights = {name: tensors.pop(name) for name in list(tensors) if name.startswith("transformer.")}
    origins = _read_origins(tensors)
    source = TensorSource(fields, tensors)
    network: SourceNetwork = read_parts(source, ("ReluNetwork", "MaxoutNetwork"))
    layers, last = piece_layers(network, origins)
    box = Box(source.take_tensor("box.low"), source.take_tensor("box.high"))
    if box.dim != network.dim_in:
        raise RecordFormatError(f"`box.low` must have {network.dim_in} entries; got {box.dim}.")
    plans = _read_plans(source, layers)
    source.finish()
    _refuse_sizes(weights, layers, Slots.of(layers, last))
    compiled = replace(
        build_transformer(network, box, epsilon, plans, origins), assumption=assumption
    )
    expected = _transformer_tensors(compiled.token_transformer)
    for name in sorted(set(weights) | set(expected)):
        mine, other = expected.get(name), weights.get(name)
        if mine is None or other is None or not _are_identical(mine, other):
            raise RecordFormatError(f"the tensor `{name}` does not fit the network.")
    if description != _describe_transformer(compiled.token_transformer):
        raise RecordFormatError("`transformer` does not describe the transformer of the network.")
    return compiled


def _read_origins(tensors: dict[str, AnyArray]) -> Origins | None:
    names = ("origins.points", "origins.tokens", "origins.units")
    points, tokens, units = (tensors.pop(name, None) for name in names)
    if points is None and tokens is None and units is None:
        return None
    if points is None or (tokens is None) == (units is None):
        raise RecordFormatError(
            f"the file must contain both `{names[0]}` and exactly one of `{names[1]}` and "
            f"`{names[2]}`, or none of them."
        )
    name, given = (names[1], tokens) if units is None else (names[2], units)
    whole = Sizes().floats(name, given, ("n",))
    if not (np.isfinite(whole) & (whole == np.floor(whole)) & (np.abs(whole) < 2.0**53)).all():
        raise RecordFormatError(f"`{name}` must contain integers.")
    numbers = whole.astype(np.int64)
    return TokenOrigins(points, numbers) if units is None else UnitOrigins(points, numbers)


def _read_plans(source: TensorSource, layers: list[PieceLayer]) -> tuple[LayerPlan, ...]:
    sizes = Sizes(n_layers=len(layers))
    shape = ("n_layers",)
    rates = sizes.floats("plan.rates", source.take_tensor("plan.rates"), shape, nonempty=())
    gates = sizes.floats("plan.gates", source.take_tensor("plan.gates"), shape, nonempty=())
    if not (rates > 0.0).all():
        raise RecordFormatError("`plan.rates` must be positive.")
    plans = []
    for i, (layer, rate, gate) in enumerate(zip(layers, rates, gates, strict=True)):
        name = f"plan.{i}.floors"
        floors = Sizes(n_units=layer.n_units).floats(name, source.take_tensor(name), ("n_units",))
        plans.append(LayerPlan(float(rate), float(gate), floors))
    return tuple(plans)


def _refuse_sizes(weights: dict[str, AnyArray], layers: list[PieceLayer], slots: Slots) -> None:
    """Check the sizes of the weights in the file before anything large is built."""
    for i, layer in enumerate(layers):
        name = f"transformer.blocks.{i + 1}.query_weight"
        if name not in weights or weights[name].shape != (slots.width, layer.n_units):
            raise RecordFormatError(f"the tensor `{name}` does not fit the network.")


def _are_identical(left: AnyArray, right: AnyArray) -> bool:
    return left.shape == right.shape and left.tobytes() == right.tobytes()


def _transformer_tensors(model: TokenTransformer) -> dict[str, AnyArray]:
    """Return the tensors of the transformer, with the heads of a block side by side."""
    tensors: dict[str, AnyArray] = {
        "embedding_weight": model.embedding_weight,
        "embedding_bias": model.embedding_bias,
        "readout.weight": model.readout.weight,
        "readout.bias": model.readout.bias,
    }
    for b, block in enumerate(model.blocks):
        if block.heads:
            for name in ("query_weight", "key_weight", "value_weight"):
                columns = [getattr(head, name) for head in block.heads]
                tensors[f"blocks.{b}.{name}"] = np.hstack(columns)
            rows = np.vstack([head.output_weight for head in block.heads])
            tensors[f"blocks.{b}.output_weight"] = rows
        if block.ffn is not None:
            for name in ("w_in", "b_in", "w_out", "b_out"):
                tensors[f"blocks.{b}.{name}"] = np.array(getattr(block.ffn, name), order="C")
    return {f"transformer.{name}": np.array(array, order="C") for name, array in tensors.items()}


def _describe_transformer(model: TokenTransformer) -> dict[str, Any]:
    return {
        "n_tokens": model.n_tokens,
        "width": model.width,
        "n_heads": [len(block.heads) for block in model.blocks],
        "d_ff": [0 if block.ffn is None else block.ffn.d_ff for block in model.blocks],
        "readout_token": model.readout_token,
    }
