"""Draw polytopes and Minkowski sums in the plane and in space."""

from typing import Any

import numpy as np

from hardmax.errors import ArgumentError
from hardmax.geometry.minkowski import MinkowskiVertices
from hardmax.geometry.polytopes import Polytope
from hardmax.plotting.dispatch import draw
from hardmax.plotting.style import cell_colours, create_axes, name_axes, theme_colour
from hardmax.typing import FloatArray


@draw.register
def plot_polytope(
    polytope: Polytope,
    ax: Any = None,
    *,
    color: Any = None,
    alpha: float | None = None,
    vertices: bool = True,
) -> Any:
    """Draw a bounded polytope in R^2 or R^3.

    Args:
        polytope: The polytope; it may be lower-dimensional.
        ax: Axes, 3-D axes in space.
        color: The fill colour.
        alpha: The opacity; opaque by default.
        vertices: Whether to mark the vertices.
    """
    dim = polytope.ambient_dim
    if dim not in (2, 3) or not polytope.is_bounded:
        kind = "a bounded" if polytope.is_bounded else "an unbounded"
        raise ArgumentError(
            "`obj` must be a bounded polytope in R^2 or R^3 to be drawn; "
            f"got {kind} polytope in R^{dim}."
        )
    is_new = ax is None
    ax = create_axes(dim) if ax is None else ax
    colour = cell_colours([0])[0] if color is None else color
    if dim == 2:
        ax.fill(
            *polytope.polygon.T,
            facecolor=colour,
            edgecolor=theme_colour("wall"),
            linewidth=1.0,
            alpha=alpha,
        )
        if vertices:
            ax.plot(*polytope.vertices.T, "o", color=theme_colour("ink"), markersize=3)
        ax.set_aspect("equal")
    else:
        draw_faces(ax, facet_polygons(polytope), colour, 1.0 if alpha is None else alpha)
        if vertices:
            ax.plot(*polytope.vertices.T, "o", color=theme_colour("ink"), markersize=2.2)
        frame_axes(ax, polytope.vertices)
    if is_new:
        name_axes(ax, "x")
    return ax


@draw.register
def plot_minkowski_sum(
    total: MinkowskiVertices,
    ax: Any = None,
    *,
    color: Any = None,
    alpha: float | None = None,
    vertices: bool = True,
) -> Any:
    """Draw a Minkowski sum in R^2 or R^3, given by its vertices.

    Args:
        total: The vertices.
        ax: Axes, 3-D axes in space.
        color: The fill colour.
        alpha: The opacity; opaque by default.
        vertices: Whether to mark the vertices.
    """
    body = Polytope.from_points(total.points)
    ax = plot_polytope(body, ax, color=color, alpha=alpha, vertices=vertices)
    n_heads = total.choices.shape[1]
    ax.set_title(f"{total.count} vertices from {n_heads} point set{'s' if n_heads > 1 else ''}")
    return ax


def facet_polygons(polytope: Polytope) -> list[FloatArray]:
    """Return the facets of a polytope in space as polygons with their vertices in order."""
    if polytope.affine_dim < 3:
        return [_sort_around_centre(polytope.vertices)]
    return [_sort_around_centre(polytope.vertices[members]) for members in polytope.facets.vertices]


def draw_faces(ax: Any, polygons: list[FloatArray], colour: Any, alpha: float) -> None:
    """Draw the faces of a convex body, brighter towards a light from the upper left.

    For an opaque body, only the faces towards the viewer are drawn, and they follow the view.
    matplotlib sorts faces by the depth of their centres, which is wrong for large faces.
    """
    from matplotlib.colors import to_rgb
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection
    from mpl_toolkits.mplot3d.proj3d import proj_transform

    class Faces(Poly3DCollection):  # type: ignore[misc]
        def do_3d_projection(self) -> Any:
            if alpha == 1.0 and len(outwards) > 1:
                seen = [_turns_left(*proj_transform(*face.T, self.axes.M)[:2]) for face in outwards]
                if any(seen):
                    self.set_verts(
                        [face for face, is_seen in zip(outwards, seen, strict=True) if is_seen]
                    )
                    self.set_facecolor(
                        [one for one, is_seen in zip(colours, seen, strict=True) if is_seen]
                    )
            return super().do_3d_projection()

    base = np.array(to_rgb(colour))
    light = np.array([0.25, -0.75, 0.61])
    centre = np.concatenate(polygons).mean(axis=0)
    colours, outwards = [], []
    n_corners = max(map(len, polygons))
    for polygon in polygons:
        normal = _unit_normal(polygon)
        if normal @ (polygon.mean(axis=0) - centre) < 0:
            normal = -normal
        brightness = 0.82 + 0.26 * float(normal @ light)
        colours.append((*np.clip(base * brightness, 0, 1), alpha))
        turn = np.cross(polygon, np.roll(polygon, -1, axis=0)).sum(axis=0) @ normal
        outwards.append(_close_polygon(polygon if turn > 0 else polygon[::-1], n_corners))
    ax.add_collection3d(
        Faces(outwards, facecolors=colours, edgecolors=theme_colour("wall"), linewidths=0.5)
    )


def _close_polygon(polygon: FloatArray, n_corners: int) -> FloatArray:
    """Return a polygon closed by points on its last edge, with `n_corners` + 1 points in all.

    matplotlib pads shorter polygons with points that it does not draw, and so loses the last edge.

    Examples:
        >>> _close_polygon(np.eye(3), 4).tolist()[3:]
        [[0.5, 0.0, 0.5], [1.0, 0.0, 0.0]]
    """
    extra = np.linspace(0.0, 1.0, n_corners + 2 - len(polygon))[1:, None]
    return np.vstack([polygon, (1.0 - extra) * polygon[-1] + extra * polygon[0]])


def _turns_left(x: FloatArray, y: FloatArray) -> bool:
    """Return whether a polygon in the plane is anticlockwise."""
    return bool((x * np.roll(y, -1) - np.roll(x, -1) * y).sum() > 0)


def frame_axes(ax: Any, points: FloatArray) -> None:
    """Fit 3-D axes around points, with equal scales and transparent panes."""
    low, high = points.min(axis=0), points.max(axis=0)
    centre, reach = (low + high) / 2, 0.52 * max(float((high - low).max()), 1e-300)
    for setter, middle in zip((ax.set_xlim, ax.set_ylim, ax.set_zlim), centre, strict=True):
        setter(middle - reach, middle + reach)
    ax.set_box_aspect((1, 1, 1), zoom=0.88)  # Leave space for the axis labels.
    for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
        axis.set_pane_color((1.0, 1.0, 1.0, 0.0))
        axis.set_major_locator(_limit_ticks())
    # The tick labels are perpendicular to this axis, and long ones would touch it.
    ax.zaxis.set_tick_params(pad=7)


def _limit_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(4)


def _sort_around_centre(corners: FloatArray) -> FloatArray:
    """Order the corners of a convex polygon in space by their angle about its centre."""
    centred = corners - corners.mean(axis=0)
    _, _, axes = np.linalg.svd(centred)
    angles = np.arctan2(centred @ axes[1], centred @ axes[0])
    return corners[np.argsort(angles)]


def _unit_normal(polygon: FloatArray) -> FloatArray:
    """Return the last principal axis: the normal of the polygon's plane."""
    return np.asarray(np.linalg.svd(polygon - polygon.mean(axis=0))[2][-1])
