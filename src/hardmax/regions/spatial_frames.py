"""A network on a domain as the kernels for space read it."""

import numpy as np

from hardmax._kernels.layouts import Tables
from hardmax._kernels.spatial_buffers import Frames, new_frames
from hardmax.models.argmax_layers import ArgmaxNetwork
from hardmax.regions.charted_domains import ChartedDomain, embedded
from hardmax.regions.planar_tables import adapted, network_tables
from hardmax.regions.rounded_forms import finest_grid, rounded_forms


def spatial_frames(
    network: ArgmaxNetwork, domain: ChartedDomain, size: float
) -> tuple[Tables, Frames]:
    """Return the network, flattened, and frames that hold the stream before the first layer.

    Args:
        network: The network.
        domain: The domain.
        size: About how large coordinates get; radii of slopes and of offsets are weighed by it.
    """
    # A power of two, so that dividing by it is exact.
    scale = float(2.0 ** min(np.frexp(size)[1], 1000))
    stream = embedded(network, domain)
    block = rounded_forms(stream, stream.rows, scale)
    tables: Tables = adapted(network_tables(network), scale, not block[-2:].any())
    frames: Frames = new_frames(tables, network.n_groups, domain.dim)
    frames.blocks[0, :, : block.shape[1]] = block
    frames.flags[0, :2] = int(not block[-1].any()), finest_grid(block)
    return tables, frames
