"""How many cells and regions there can be: exact integers, each with its statement and source.

Every function returns a Python integer, computed exactly; `transformer_table` and `relu_table`
collect them as `Bound` records. Averages are `Estimate` records, a different type. What [SL26]
itself states lives in `hardmax.bounds.paper`.
"""

from hardmax.bounds import paper
from hardmax.bounds.arrangements import (
    central_arrangement,
    elementary_symmetric,
    parallel_arrangement,
    zaslavsky,
)
from hardmax.bounds.attention import (
    attention_cells,
    cells_bias_free,
    cells_with_bias,
    lifted_cells,
    visible_keys,
)
from hardmax.bounds.averages import (
    gaussian_hull_vertices,
    gaussian_hull_vertices_asymptotic,
    maxout_regions_at_initialization,
    random_block_cells,
    relu_regions_at_initialization,
)
from hardmax.bounds.bound import Bound, Estimate
from hardmax.bounds.maxout import maxout_lower, maxout_upper
from hardmax.bounds.order_k import (
    planar_k_sets,
    rankings_bias_free,
    rankings_with_bias,
    top_k_cells,
    top_k_layer,
)
from hardmax.bounds.relu import hinz_van_de_geer, montufar_2014, montufar_2017, serra
from hardmax.bounds.table import relu_table, transformer_table
from hardmax.bounds.transformers import (
    block_lower,
    block_upper,
    exponent_of_keys,
    transformer_lower,
    transformer_upper,
)
from hardmax.bounds.two_layers import is_largest, two_relu_layers

__all__ = [
    "Bound",
    "Estimate",
    "attention_cells",
    "block_lower",
    "block_upper",
    "cells_bias_free",
    "cells_with_bias",
    "central_arrangement",
    "elementary_symmetric",
    "exponent_of_keys",
    "gaussian_hull_vertices",
    "gaussian_hull_vertices_asymptotic",
    "hinz_van_de_geer",
    "is_largest",
    "lifted_cells",
    "maxout_lower",
    "maxout_regions_at_initialization",
    "maxout_upper",
    "montufar_2014",
    "montufar_2017",
    "paper",
    "parallel_arrangement",
    "planar_k_sets",
    "random_block_cells",
    "rankings_bias_free",
    "rankings_with_bias",
    "relu_regions_at_initialization",
    "relu_table",
    "serra",
    "top_k_cells",
    "top_k_layer",
    "transformer_lower",
    "transformer_table",
    "transformer_upper",
    "two_relu_layers",
    "visible_keys",
    "zaslavsky",
]
