"""Convert models and domains to plain data for the page, and back."""

from typing import Any

import numpy as np

from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.regions.charted_domains import ChartedDomain, charted

_LAYER_ARRAYS = "slopes", "offsets", "starts", "slots", "gains", "values", "reads"


def model_to_data(model: Any) -> dict[str, Any]:
    """Return a model as lists of numbers and the name of its kind.

    Args:
        model: A `ReluNetwork`, `MaxoutNetwork`, `HardTransformer` or `AttentionHead`, an
            `ArgmaxNetwork`, or any model with an `ArgmaxNetwork` as `network`. Masked keys are
            omitted.

    Raises:
        ArgumentError: If the model has another type.

    Examples:
        >>> model_to_data(ReluNetwork([[[1.0], [2.0]], [[1.0]]]))
        {'kind': 'ReluNetwork', 'weights': [[[1.0], [2.0]], [[1.0]]], 'biases': [[0.0], [0.0]]}
    """
    if isinstance(model, ReluNetwork):
        weights = [weight.tolist() for weight in model.weights]
        biases = [bias.tolist() for bias in model.biases or ()]
        return {"kind": "ReluNetwork", "weights": weights, "biases": biases}
    if isinstance(model, MaxoutNetwork):
        return {
            "kind": "MaxoutNetwork",
            "weights": [_to_lists(layer) for layer in model.weights],
            "biases": [_to_lists(layer) for layer in model.biases or ()],
        }
    if isinstance(model, AttentionHead):
        return {"kind": "AttentionHead", **_head_to_data(model)}
    if isinstance(model, HardTransformer):
        maps = {"embedding": model.network.embedding, "readout": model.network.readout}
        return {
            "kind": "HardTransformer",
            "blocks": [_block_to_data(block) for block in model.blocks],
            **{name: _map_to_data(one) for name, one in maps.items() if not one.is_identity},
        }
    network = model if isinstance(model, ArgmaxNetwork) else getattr(model, "network", None)
    if not isinstance(network, ArgmaxNetwork):
        raise ArgumentError(f"`model` must be a model; got {type(model).__name__}.")
    return _network_to_data(network)


def model_from_data(data: Any) -> ArgmaxNetwork:
    """Return the network of a model from plain data, which is not trusted.

    Raises:
        HardmaxError: If the data is not a valid model; the message gives the reason.

    Examples:
        >>> net = ReluNetwork([[[1.0], [2.0]], [[1.0]]])
        >>> model_from_data(model_to_data(net)).dim_in
        2
    """
    try:
        return _read_model(dict(data))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise ArgumentError(f"`model` is not valid model data: {error!r:.200}.") from None


def _read_model(data: dict[str, Any]) -> ArgmaxNetwork:
    kind = data.pop("kind", None)
    if kind == "ReluNetwork":
        return ReluNetwork(data["weights"], data["biases"]).network
    if kind == "MaxoutNetwork":
        return MaxoutNetwork(data["weights"], data["biases"]).network
    if kind == "AttentionHead":
        return HardTransformer([Block([AttentionHead(**data)], attention_residual=False)]).network
    if kind == "HardTransformer":
        maps = {name: _read_map(data[name]) for name in ("embedding", "readout") if data.get(name)}
        return HardTransformer([_read_block(**block) for block in data["blocks"]], **maps).network
    if kind == "ArgmaxNetwork":
        layers = [
            ArgmaxLayer(
                **{
                    **layer,
                    "query": _read_map(layer["query"]),
                    "output": _read_map(layer["output"]),
                }
            )
            for layer in data["layers"]
        ]
        return ArgmaxNetwork(
            tuple(layers), _read_map(data["embedding"]), _read_map(data["readout"])
        )
    raise ArgumentError(f"`kind` must be a kind of model that the page knows; got {kind!r:.60}.")


def _read_map(data: dict[str, Any]) -> AffineMap:
    if data["weight"] is None:
        return AffineMap.identity(len(data["bias"]))
    return AffineMap(data["weight"], data["bias"])


def _read_block(
    heads: list[Any], ffn: Any = None, attention_residual: bool = True, ffn_residual: bool = True
) -> Block:
    units = None if ffn is None else FeedForward(**ffn)
    return Block([AttentionHead(**head) for head in heads], units, attention_residual, ffn_residual)


def domain_from_data(data: Any) -> Any:
    """Return a domain from plain data, which is not trusted.

    Raises:
        HardmaxError: If the data is not a valid domain; the message gives the reason.

    Examples:
        >>> domain_from_data({"box": [0.0, 0.0, 1.0, 2.0]})
        Box(low=[0.0, 0.0], high=[1.0, 2.0])
    """
    try:
        given = dict(data)
        chart = given.pop("chart", None)
        inner: Any = WholeSpace(2)
        if "box" in given:
            x0, y0, x1, y1 = given["box"]
            inner = Box(np.array([x0, y0]), np.array([x1, y1]))
        elif "rows" in given:
            rows = [(int(a), int(b), int(c)) for a, b, c in given["rows"]]
            if not rows:
                raise ArgumentError("`domain` must have one or more rows, or be the plane.")
            inner = Polytope.from_rows(rows, 2)
        return inner if chart is None else Slice(chart["bias"], chart["weight"], inner)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise ArgumentError(f"`domain` is not valid domain data: {error!r:.200}.") from None


def domain_to_data(domain: Any, dim_in: int) -> dict[str, Any]:
    """Return a two-dimensional domain in the input space of a model as plain data.

    Raises:
        ArgumentError: If the dimension of the domain is not 2.

    Examples:
        >>> from hardmax.geometry.domains import Box, WholeSpace
        >>> domain_to_data(Box([0, 0], [1, 2]), 2), domain_to_data(WholeSpace(2), 2)
        ({'box': [0.0, 0.0, 1.0, 2.0]}, {'plane': True})
    """
    read: ChartedDomain = charted(domain, dim_in)
    if read.dim != 2:
        raise ArgumentError(
            f"`domain` must have dimension 2 to be drawn; got {read.dim}. For a plane in a "
            "higher-dimensional space, use a `Slice`."
        )
    if len(read.stages) > 1:
        raise ArgumentError(
            "`domain` must have a chart in float64 to be drawn on the page. Round the differences "
            "of its vertices: pass a `Slice` with these directions."
        )
    data: dict[str, Any] = {
        "rows": [[str(int(x)) for x in row] for row in read.exact_rows.tolist()]
    }
    if read.corners:
        data = {"box": [float(x) for corner in read.corners for x in corner]}
    elif not data["rows"]:
        data = {"plane": True}
    return data if read.is_identity else {**data, "chart": _map_to_data(read.chart)}


def _to_lists(values: Any) -> Any:
    return values.tolist() if hasattr(values, "tolist") else [_to_lists(value) for value in values]


def _map_to_data(affine: AffineMap) -> dict[str, Any]:
    weight = None if affine.is_identity else affine.weight.tolist()
    return {"weight": weight, "bias": affine.bias.tolist()}


def _head_to_data(head: AttentionHead) -> dict[str, Any]:
    kept = head.unmasked
    data = {
        "query_weight": head.query_weight.tolist(),
        "keys": head.keys[kept].tolist(),
        "values": head.values[kept].tolist(),
        "output_weight": head.output_weight.tolist(),
    }
    if head.query_bias is not None:
        data["query_bias"] = head.query_bias.tolist()
    if head.logit_bias is not None:
        data["logit_bias"] = head.logit_bias[kept].tolist()
    return data


def _block_to_data(block: Block) -> dict[str, Any]:
    return {
        "heads": [_head_to_data(head) for head in block.heads],
        "ffn": block.ffn and _feed_forward_to_data(block.ffn),
        "attention_residual": block.attention_residual,
        "ffn_residual": block.ffn_residual,
    }


def _feed_forward_to_data(ffn: FeedForward) -> dict[str, Any]:
    return {name: _to_lists(getattr(ffn, name)) for name in ("w_in", "b_in", "w_out", "b_out")}


def _network_to_data(network: ArgmaxNetwork) -> dict[str, Any]:
    layers = []
    for layer in network.layers:
        arrays = {name: getattr(layer, name) for name in _LAYER_ARRAYS}
        layers.append(
            {
                "residual": layer.residual,
                "query": _map_to_data(layer.query),
                "output": _map_to_data(layer.output),
                **{name: array.tolist() for name, array in arrays.items() if array is not None},
            }
        )
    maps = {"embedding": _map_to_data(network.embedding), "readout": _map_to_data(network.readout)}
    words = [list(words) for words in network.words]
    return {"kind": "ArgmaxNetwork", "layers": layers, **maps, "words": words}
