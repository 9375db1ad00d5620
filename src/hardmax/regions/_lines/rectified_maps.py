r"""The affine maps of a ReLU network on cells along a line, composed when they are asked for.

On an interval the pre-activations of a layer are forms $s_j t + c_j$. Where unit $u$ changes, those
of the next layer change by $\pm (s_u, c_u) W_u$, one row of its weights; so only the first part of
an interval costs a product with the whole matrix, all others one row each. Signatures say which
units are on; nothing is decided here.

**Errors.** Let $z$ be what goes into a layer on some part (the forms of the units that are on),
$\hat z$ its floats, $\|\hat z - z\| \le e$ in the Euclidean norm. Column $j$ of the weights has
norm at most $\omega_j$. The error of form $j$ is that of its argument, at most $e\,\omega_j$, and
rounding:

* a product with the matrix rounds by at most $\kappa \|\hat z\|\,\omega_j$, an offset by $\kappa
  |b_j|$ more (Lemma 2 of `exact.rounding` and Cauchy-Schwarz);
* adding a row rounds twice, by at most $u|s_u W_{uj}| + u|\hat s'_j|$, and the new form is
  $|\hat s'_j| \le (\|\hat z'\| + e + \rho)\,\omega_j + |b_j|(1 + \beta)$.

So radii have the shape $(e + \rho)\,\omega_j + \beta |b_j|$, with three numbers for a whole
row. With $\sigma \ge \|W\|$ and $\Omega$ the Frobenius norm, the errors of a row have norm at most
$\sigma e + \Omega \rho + \beta \|b\|$; turning units off does not raise it. That is the $e$ of the
next layer.
"""

from typing import NamedTuple

import numpy as np

from hardmax._core.library import core
from hardmax._core.memory import address, borrow_block, release_block
from hardmax._ground.arguments import prepare_array
from hardmax.exact.rounding import TINY
from hardmax.models._arithmetic.enclosures import Enclosed, mark_overflow
from hardmax.models.argmax import AffineMap, ArgmaxNetwork
from hardmax.regions._lines.line_composition import LineForms
from hardmax.regions._lines.line_signatures import SignatureWalk
from hardmax.regions._lines.packed_layers import packed_layers
from hardmax.regions._lines.rectified_lines import norm
from hardmax.typing import FloatArray


class FirstForms(NamedTuple):
    """The stream before the first layer.

    Attributes:
        forms: Slopes and offsets, shape `(2, dim)`.
        errors: Bounds on the norms of their errors, shape `(2,)`.
    """

    forms: FloatArray
    errors: FloatArray

    @classmethod
    def of(cls, stream: LineForms) -> "FirstForms":
        """Read forms of one interval."""
        parts = stream.slopes, stream.offsets
        forms = np.concatenate([part.values for part in parts])
        return cls(forms, np.array([norm(part.radii) for part in parts]))

    @classmethod
    def between(cls, chart: AffineMap) -> "FirstForms":
        """Read the chart of a segment, whose slopes are differences that were rounded once."""
        forms = np.concatenate([chart.weight, chart.bias[np.newaxis]])
        # One that overflowed was replaced.
        size = norm(chart.weight)
        error = size * 2.0**-52 + TINY if size < 2.0**1000 else np.inf
        return cls(forms, np.array([error, 0.0]))


def composed_maps(network: ArgmaxNetwork, stream: FirstForms, walk: SignatureWalk) -> Enclosed:
    """Return the output on each cell, as slopes and offsets with radii.

    Args:
        network: A ReLU network (see `is_relu_network`).
        stream: The forms before the first layer.
        walk: The signatures of the cells.

    Returns:
        Values and radii, shape `(n_cells, 2, dim_out)` each.
    """
    layers, n_cells = packed_layers(network), len(walk)
    maps = layers.with_readout
    n_layers, n_changes = len(layers.widths), len(walk.groups)
    shape = n_cells, 2, network.dim_out
    values, radii = np.empty(shape), np.empty(shape)
    signature, winners = (prepare_array(w, np.uint8) for w in (walk.first, walk.winners))
    starts, groups = (prepare_array(w, np.int64) for w in (walk.starts, walk.groups))
    arrays = map(address, (signature, starts, groups, winners, *stream))
    memory = borrow_block(core().hm_line_maps_size(maps, n_layers, n_changes))
    core().hm_line_maps_init(memory.address, maps, n_layers, n_cells, n_changes, *arrays)
    done = 0
    while done < n_cells:
        done = core().hm_line_maps_compose(memory.address, done, address(values), address(radii))
    release_block(memory)
    return mark_overflow(values, radii)
