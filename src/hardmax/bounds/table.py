"""Tables of all bounds for one shape: proven bounds, claims of [SL26], and estimates."""

from collections.abc import Sequence

from hardmax._ground.arguments import integer
from hardmax.bounds import paper
from hardmax.bounds.arrangements import zaslavsky
from hardmax.bounds.attention import attention_cells
from hardmax.bounds.averages import (
    estimate_relu_regions,
    gaussian_hull_vertices,
    random_block_cells,
)
from hardmax.bounds.bound import Bound, BoundTable, Estimate
from hardmax.bounds.relu import hinz_van_de_geer, montufar_2014, montufar_2017, serra
from hardmax.bounds.sizes import Bias, read_integers
from hardmax.bounds.transformers import block_lower, block_upper
from hardmax.bounds.two_layers import is_largest, two_relu_layers
from hardmax.errors import SizeLimitError

_BIAS_WORDS: dict[Bias, str] = {
    "none": "no bias",
    "query": "query bias",
    "logit": "logit bias",
}


def transformer_table(
    n_keys: int,
    n_heads: int,
    dim: int,
    d_ff: int,
    depth: int,
    *,
    head_dim: int | None = None,
) -> BoundTable:
    r"""List every bound on the cells of a hard transformer of one shape.

    Args:
        n_keys: The number of keys $N \ge 1$ of every head.
        n_heads: The number of heads $H \ge 1$ per layer.
        dim: The model dimension $d \ge 1$.
        d_ff: The feed-forward width $d_{ff} \ge 0$.
        depth: The number of blocks $L \ge 1$.
        head_dim: The head size $d_k \ge 1$, or None for no restriction.

    Returns:
        Bounds for one attention layer, one feed-forward layer and the whole model, in this order.
        For each of these, claims of [SL26] follow the proven bounds. Estimates come last.

    Raises:
        HardmaxError: If a size is not an integer in its range.

    Examples:
        >>> rows = transformer_table(6, 3, 3, 12, 2)
        >>> rows[0]
        Bound('attention layer, no bias' = 92; the maximum over all weights; [MRZ22], [Wei12])
        >>> max(rows[:3], key=lambda row: row.log10).text
        '216'
    """
    n_keys = integer("n_keys", n_keys, at_least=1)
    n_heads = integer("n_heads", n_heads, at_least=1)
    dim = integer("dim", dim, at_least=1)
    d_ff = integer("d_ff", d_ff, at_least=0)
    depth = integer("depth", depth, at_least=1)
    return BoundTable(
        [
            *_list_layer_rows(n_keys, n_heads, dim, d_ff, head_dim),
            *_list_model_rows(n_keys, n_heads, dim, d_ff, depth, head_dim),
            *_list_estimates(n_keys, n_heads, dim, d_ff, depth, head_dim),
        ]
    )


def relu_table(input_dim: int, widths: Sequence[int]) -> BoundTable:
    r"""List every bound on the cells of a ReLU network of one shape.

    The upper bounds hold for linear regions and affine maps too, because a network has at least as
    many cells as regions, and at least as many regions as affine maps.

    Args:
        input_dim: The number of inputs $n_0 \ge 1$.
        widths: The widths $n_1, \dots, n_L$ of the hidden layers.

    Returns:
        The bounds from the literature, from weak to sharp, followed by an estimate. For two layers
        they are preceded by `two_relu_layers`, of kind `"exact"` if it is the maximum itself.

    Raises:
        HardmaxError: If a size is not a positive integer.

    Examples:
        >>> for row in relu_table(2, [3, 3]):
        ...     print(f"{row.text:>6}  {row.kind:<9} {row.source}")
            34  exact     [HG19], sharpened
            49  upper     [Mon17]
            40  upper     [STR18]
            40  upper     [HG19], [Hin21]
             7  lower     [MPCB14]
         18.00  estimate  [HR19]
    """
    everywhere = "every network of this shape"
    rows = BoundTable()
    rows += [
        *_list_two_layer_rows(input_dim, widths),
        Bound(
            "product of layers", montufar_2017(input_dim, widths), "upper", everywhere, "[Mon17]"
        ),
        Bound("active units", serra(input_dim, widths), "upper", everywhere, "[STR18]"),
    ]
    try:
        sharpest = hinz_van_de_geer(input_dim, widths)
    except SizeLimitError:  # The previous bound is then the sharpest that can be computed.
        pass
    else:
        rows.append(
            Bound("activation histograms", sharpest, "upper", everywhere, "[HG19], [Hin21]")
        )
    least = min((row for row in rows if isinstance(row, Bound)), key=lambda row: row.value)
    if all(width >= input_dim for width in widths[:-1]):
        folds = montufar_2014(input_dim, widths)
        rows.append(Bound("folds, cells", folds, "lower", "some network of this shape", "[MPCB14]"))
    rows.append(estimate_relu_regions(sum(widths), input_dim, least))
    return rows


def _list_two_layer_rows(input_dim: int, widths: Sequence[int]) -> list[Bound]:
    sizes = read_integers("widths", widths, at_least=1)
    if len(sizes) != 2:
        return []
    most, name, source = (
        two_relu_layers(input_dim, *sizes),
        "two layers, cells",
        "[HG19], sharpened",
    )
    if is_largest(input_dim, sizes[0]):
        return [Bound(name, most, "exact", "the maximum over all weights", source)]
    return [Bound(name, most, "upper", "every network of this shape", source)]


def _list_layer_rows(
    n_keys: int, n_heads: int, dim: int, d_ff: int, head_dim: int | None
) -> list[Bound | Estimate]:
    rows: list[Bound | Estimate] = [
        Bound(
            f"attention layer, {words}",
            attention_cells(n_keys, n_heads, dim, bias=bias, head_dim=head_dim),
            "exact",
            "the maximum over all weights",
            "[MRZ22], [Wei12]" if bias == "none" else "[MRZ22]",
        )
        for bias, words in _BIAS_WORDS.items()
    ]
    rows += [
        Bound(
            "attention layer, all pairs of keys as hyperplanes",
            paper.naive_hyperplanes(n_keys, n_heads, dim),
            "upper",
            "query or logit bias",
            "[Zas75]",
        ),
        Bound(
            "attention layer, Theorem V.2",
            paper.theorem_v2(n_keys, n_heads, dim),
            "claim",
            "no bias; hidden constant 1",
            "[SL26]",
        ),
        Bound(
            "attention layer, Appendix D",
            paper.appendix_d(n_keys, n_heads, dim),
            "claim",
            "no bias",
            "[SL26]",
        ),
        Bound(
            "attention layer, Remark V.6",
            n_heads * n_keys**2,
            "claim",
            "naive count; hidden constant 1",
            "[SL26]",
            exponent=dim,
        ),
    ]
    if d_ff:
        rows.append(
            Bound(
                "feed-forward layer",
                zaslavsky(d_ff, dim),
                "exact",
                "the maximum over all weights",
                "[Zas75]",
            )
        )
    return rows


def _list_model_rows(
    n_keys: int, n_heads: int, dim: int, d_ff: int, depth: int, head_dim: int | None
) -> list[Bound | Estimate]:
    rows: list[Bound | Estimate] = []
    for bias, words in _BIAS_WORDS.items():
        above = block_upper(n_keys, n_heads, dim, d_ff, bias=bias, head_dim=head_dim)
        below = block_lower(n_keys, n_heads, dim, d_ff, bias=bias, head_dim=head_dim)
        rows += [
            Bound(
                f"model, {words}",
                above,
                "upper",
                "fixed keys in every layer",
                "Theorem V.5 of [SL26], repaired",
                exponent=depth,
            ),
            Bound(
                f"model, {words}",
                below,
                "lower",
                "fixed keys in every layer; continuous blocks",
                "Theorem V.7 of [SL26], sharpened",
                exponent=depth,
            ),
        ]
    rows.append(
        Bound(
            "model, Theorem V.5",
            paper.theorem_v5_base(n_keys, n_heads, dim, d_ff),
            "claim",
            "no bias; hidden constant 1",
            "[SL26]",
            exponent=depth,
        )
    )
    if n_heads == dim and d_ff >= 2 * dim:
        rows.append(
            Bound(
                "model, Theorem V.7",
                paper.theorem_v7(n_keys, 1, d_ff // dim, 1),
                "claim",
                "number of heads = dimension",
                "[SL26]",
                exponent=dim * depth,
            )
        )
    return rows


def _list_estimates(
    n_keys: int, n_heads: int, dim: int, d_ff: int, depth: int, head_dim: int | None
) -> list[Bound | Estimate]:
    span = dim if head_dim is None else min(dim, head_dim)
    vertices = gaussian_hull_vertices(n_keys, span)
    rows: list[Bound | Estimate] = [
        Estimate(
            "one head with random keys, no bias",
            vertices.log10,
            vertices.assumptions.replace("points", "keys"),
            vertices.source,
        )
    ]
    if span == dim == 2 and depth == 1:
        rows.append(random_block_cells(n_keys, n_heads, d_ff))
    if d_ff:
        # With residual connections the input of every layer can be the whole space.
        layers = Bound(
            "feed-forward layers",
            zaslavsky(d_ff, dim),
            "upper",
            "any weights",
            "[Zas75]",
            exponent=depth,
        )
        rows.append(estimate_relu_regions(depth * d_ff, dim, layers))
    return rows
