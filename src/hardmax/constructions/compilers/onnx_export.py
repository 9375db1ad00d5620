"""Export a token transformer as an ONNX graph of `MatMul`, `Softmax` and `Relu`, without torch."""

import os
from typing import Any

import numpy as np

from hardmax._ground.arguments import choice
from hardmax._ground.extras import load_extra
from hardmax._ground.files import atomic_write
from hardmax.errors import ArgumentError
from hardmax.models.tokens.passes import HeadStack, stack_heads
from hardmax.models.tokens.transformers import TokenTransformer
from hardmax.typing import AnyArray, FloatArray

DTYPES = ("float64", "float32")
_OPSET, _IR_VERSION = 17, 8
"""Old enough for every recent runtime; no newer operation is needed."""


def write_onnx(model: TokenTransformer, path: str | os.PathLike[str], dtype: str) -> None:
    """Write the soft model with input `x` of shape `(n, dim_in)` and output `y` `(n, dim_out)`.

    Args:
        model: The transformer.
        path: The file to write.
        dtype: The type of all weights: `float64` or `float32`.

    Raises:
        MissingExtraError: If onnx is not installed.
        ArgumentError: If a weight is outside the range of `dtype`.
    """
    choice("dtype", dtype, DTYPES)
    onnx = load_extra("onnx", extra="onnx", purpose="ONNX files")
    content = _Graph(onnx, dtype).build(model).SerializeToString()
    with atomic_write(path) as stream:
        stream.write(content)


class _Graph:
    """The nodes and constants of a graph, in the order of their use."""

    def __init__(self, onnx: Any, dtype: str) -> None:
        self.onnx, self.dtype = onnx, np.dtype(dtype)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def build(self, model: TokenTransformer) -> Any:
        helper, proto = self.onnx.helper, self.onnx.TensorProto
        kind = proto.DOUBLE if self.dtype == np.float64 else proto.FLOAT
        flat = model.embedding_weight.reshape(model.dim_in, -1)
        rows = self.add_node("MatMul", "x", self.add_floats(flat))
        shape = self.add_integers([-1, model.n_tokens, model.width])
        state = self.add_node("Reshape", rows, shape)
        state = self.add_node("Add", state, self.add_floats(model.embedding_bias))
        for block in model.blocks:
            if block.heads:
                parts = [self.add_heads(model, stack, state) for stack in stack_heads(block)]
                total = parts[0]
                for part in parts[1:]:
                    total = self.add_node("Add", total, part)
                state = self.add_node("Add", state, total) if block.attention_residual else total
            if block.ffn is not None:
                ffn = block.ffn
                units = self.add_node(
                    "Relu", self.add_affine(state, ffn.w_in, np.asarray(ffn.b_in))
                )
                result = self.add_affine(units, ffn.w_out, np.asarray(ffn.b_out))
                state = self.add_node("Add", state, result) if block.ffn_residual else result
        token = self.add_constant(np.array(model.readout_token, dtype=np.int64))
        row = self.add_node("Gather", state, token, axis=1)
        output = self.add_affine(row, model.readout.weight, model.readout.bias)
        self.nodes.append(helper.make_node("Identity", [output], ["y"]))
        graph = helper.make_graph(
            self.nodes,
            "hardmax",
            [helper.make_tensor_value_info("x", kind, ["n", model.dim_in])],
            [helper.make_tensor_value_info("y", kind, ["n", model.dim_out])],
            initializer=self.constants,
        )
        opset = [helper.make_opsetid("", _OPSET)]
        result = helper.make_model(
            graph, opset_imports=opset, ir_version=_IR_VERSION, producer_name="hardmax"
        )
        self.onnx.checker.check_model(result)
        return result

    def add_heads(self, model: TokenTransformer, stack: HeadStack, state: str) -> str:
        """Add heads of equal sizes, which map `(n, n_tokens, width)` to the same shape."""
        query = self.add_affine(state, stack.query_weight, stack.query_bias)
        query = self.split_heads(query, model.n_tokens, stack.n_heads, stack.d_k, (0, 2, 1, 3))
        key = self.add_node("MatMul", state, self.add_floats(stack.key_weight))
        key = self.split_heads(key, model.n_tokens, stack.n_heads, stack.d_k, (0, 2, 3, 1))
        value = self.add_node("MatMul", state, self.add_floats(stack.value_weight))
        value = self.split_heads(value, model.n_tokens, stack.n_heads, stack.d_v, (0, 2, 1, 3))
        scores = self.add_node("MatMul", query, key)
        scores = self.add_node("Mul", scores, self.add_floats(np.array(1.0 / np.sqrt(stack.d_k))))
        if model.mask is not None:
            closed = np.where(model.mask, 0.0, -np.inf).astype(self.dtype)
            scores = self.add_node("Add", scores, self.add_constant(closed))
        mixed = self.add_node("MatMul", self.add_node("Softmax", scores, axis=-1), value)
        mixed = self.add_node("Transpose", mixed, perm=(0, 2, 1, 3))
        shape = self.add_integers([0, model.n_tokens, stack.n_heads * stack.d_v])
        mixed = self.add_node("Reshape", mixed, shape)
        return self.add_node("MatMul", mixed, self.add_floats(stack.output_weight))

    def split_heads(
        self, rows: str, n_tokens: int, n_heads: int, size: int, order: tuple[int, ...]
    ) -> str:
        """Split the columns into one axis per head, and permute the axes."""
        shape = self.add_integers([0, n_tokens, n_heads, size])
        return self.add_node("Transpose", self.add_node("Reshape", rows, shape), perm=order)

    def add_affine(self, rows: str, weight: FloatArray, bias: FloatArray) -> str:
        product = self.add_node("MatMul", rows, self.add_floats(weight))
        return self.add_node("Add", product, self.add_floats(bias))

    def add_node(self, operation: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operation, inputs, [name], **attributes))
        return name

    def add_floats(self, array: FloatArray) -> str:
        with np.errstate(over="ignore", under="ignore"):
            narrow = array.astype(self.dtype)
        if not np.isfinite(narrow).all():
            raise ArgumentError(
                f"`dtype` must represent every weight, but {np.abs(array).max()} is outside the "
                f"range of {self.dtype}. Use float64."
            )
        return self.add_constant(narrow)

    def add_integers(self, numbers: list[int]) -> str:
        return self.add_constant(np.array(numbers, dtype=np.int64))

    def add_constant(self, array: AnyArray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.array(array, order="C"), name))
        return name
