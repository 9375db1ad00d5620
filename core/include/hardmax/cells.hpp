// Cells written down: signature, output map and polygon.
//
// The floats of a search depend on its history: forms are updated, and replaced by better ones. So
// none of them is written down. What is stored is a function of the network, the domain, the
// signature and the walls of a cell: forms composed afresh, each layer from the one before, and
// vertices computed from their lines.
#pragma once
#include "doubled.hpp"
#include "groups.hpp"

namespace hardmax {

// A vertex that is written down is off by at most this times its largest coordinate, or the scale if
// that is larger; a direction by at most this. One that lies beyond all floats has such a coordinate.
constexpr double kStoredBlur = 0x1p-30;

// Arrays of the caller. Of signatures one is used: one byte for a winner where that is enough.
struct Cells {
    std::int64_t room_cells, room_vertices;
    std::int64_t n_cells, n_vertices;
    std::int64_t n_broken;           // cells with a map that overflowed
    std::uint8_t* short_signatures;  // (room_cells, n_groups)
    std::int32_t* signatures;
    double* maps;         // (room_cells, 3, dim_out): (x, y, 1) times it is the output
    double* map_radii;    // (room_cells)
    std::int64_t* ends;   // (room_cells): where the vertices of a cell end
    double* points;       // (room_vertices, 2)
    double* directions;   // (room_vertices, 2), or null where the domain is bounded
    std::int32_t* walls;  // (room_vertices): see `wall_code`

    bool has_room(int n) const { return n_cells < room_cells && n_vertices + n <= room_vertices; }
};

// The form beside a wall, counted over all layers; of the domain, -5 less the row (from -4 on).
inline std::int32_t wall_code(const Network& network, const Wall& wall) {
    if (wall.layer < 0) return -5 - wall.group;
    const Layer& layer = network.layers[wall.layer];
    return layer.first_form + (layer.is_relu ? 2 * wall.group : layer.starts[wall.group]) +
           wall.rival;
}

// The line of a wall from the forms on the path.
inline Line wall_line(const Path<2>& path, const Wall& wall) {
    const Layer& layer = path.network->layers[wall.layer];
    const Frame<2>& frame = path.frames[wall.layer];
    if (layer.is_relu) {
        Line line = unit_line(frame, wall.group, path.scale);
        if (wall.winner == 0) line.a1 = -line.a1, line.a2 = -line.a2, line.c = -line.c;
        return line;
    }
    const int first = layer.starts[wall.group];
    return difference(frame, frame.scores, first + wall.winner, first + wall.rival, path.scale);
}

namespace detail {

// Compose the forms on the path afresh, where that has not been done for the region.
inline void refresh_pure(const Path<2>& path, Path<2>& pure) {
    bool is_known = true;
    for (int l = 0; l < path.network->n_layers; l++) {
        Frame<2>& own = pure.frames[l];
        is_known = is_known && own.version == path.frames[l].version;
        if (is_known) continue;
        if (l > 0) compose_stream(pure, l - 1);
        compose_scores(pure, l);
        own.version = path.frames[l].version;
        own.is_merged = path.frames[l].is_merged;
        own.merged = path.frames[l].merged;
        own.typical = path.frames[l].typical;
    }
}

// Whether a vertex is too uncertain to be written down.
inline bool is_blurred(const Vertex& v, double scale) {
    const double size = larger(scale, larger(magnitude(v.x), magnitude(v.y)));
    return !(v.rho <= kStoredBlur * size && v.far_rho <= kStoredBlur);
}

// The line of a wall from the forms in twice the precision, rounded.
inline Line nearest_line(const Path<2>& path, const DoubledPath<2>& doubled, const Wall& wall) {
    const Layer& layer = path.network->layers[wall.layer];
    const DoubledForms<2>& forms = doubled.scores[wall.layer];
    // A ReLU unit is compared with zero.
    const int first = layer.is_relu ? 0 : layer.starts[wall.group];
    const int plus = layer.is_relu ? (wall.winner == 1 ? wall.group : -1) : first + wall.winner;
    const int minus = layer.is_relu ? (wall.winner == 1 ? -1 : wall.group) : first + wall.rival;
    double number[3], error[3], radius = 0.0;
    for (int j : {plus, minus}) radius += j < 0 ? 0.0 : forms.high.radius[j];
    for (int k = 0; k < 3; k++) {
        const double one = plus < 0 ? 0.0 : forms.high.coefficient[k][plus];
        const double other = minus < 0 ? 0.0 : forms.high.coefficient[k][minus];
        const double low =
            (plus < 0 ? 0.0 : forms.low[k][plus]) - (minus < 0 ? 0.0 : forms.low[k][minus]);
        const Doubled sum = two_sum(one, -other);
        number[k] = sum.high + (sum.low + low);
        // One rounding of the result, and two of what is at most 3 u times the forms.
        error[k] =
            2.0 * kU * magnitude(number[k]) + 16.0 * kU * kU * (magnitude(one) + magnitude(other));
    }
    const bool is_linear = path.frames[wall.layer].is_homogeneous;
    return {number[0], number[1], number[2],
            (slope_radius(radius, path.scale) + larger(error[0], error[1])) * kUp + kTiny,
            is_linear ? 0.0 : (radius + error[2]) * kUp + kTiny};
}

inline bool set_vertices(Edge* polygon, int n, double scale) {
    bool is_sharp = true;
    for (int i = 0; i < n; i++) {
        Edge& before = polygon[i > 0 ? i - 1 : n - 1];
        // Between two sides of the domain the vertex is known.
        if (before.wall.layer >= 0 || polygon[i].wall.layer >= 0)
            polygon[i].start = meet(before, polygon[i]);
        is_sharp = is_sharp && !is_blurred(polygon[i].start, scale);
    }
    return is_sharp;
}

}  // namespace detail

// Write a cell down; False if a vertex is too uncertain. With `is_sharp` the vertices are those of
// the polygon, as the caller has set them.
inline bool store_cell(Path<2>& path, Path<2>& pure, DoubledPath<2>& doubled, Edge* polygon, int n,
                       bool is_sharp, Cells& cells) {
    const Network& network = *path.network;
    const int last = network.n_layers - 1;
    const bool is_pure = last < 0 || path.frames[last].is_pure;
    if (!is_pure) detail::refresh_pure(path, pure);
    Path<2>& fresh = is_pure ? path : pure;
    if (!is_sharp) {
        for (int i = 0; i < n; i++)
            if (polygon[i].wall.layer >= 0) polygon[i].line = wall_line(fresh, polygon[i].wall);
        if (!detail::set_vertices(polygon, n, path.scale)) {
            if (last < 0) return false;
            compose_doubled(path, doubled, last);
            for (int i = 0; i < n; i++) {
                const Wall& wall = polygon[i].wall;
                if (wall.layer >= 0) polygon[i].line = detail::nearest_line(path, doubled, wall);
            }
            if (!detail::set_vertices(polygon, n, path.scale)) return false;
        }
    }
    const Forms<2>& output = compose_output(fresh);
    const std::int64_t cell = cells.n_cells++;
    const std::size_t n_groups = network.n_groups, dim_out = network.dim_out;
    if (cells.short_signatures) {
        std::uint8_t* to = cells.short_signatures + cell * n_groups;
        for (std::size_t g = 0; g < n_groups; g++)
            to[g] = static_cast<std::uint8_t>(path.signature[g]);
    } else {
        std::int32_t* to = cells.signatures + cell * n_groups;
        for (std::size_t g = 0; g < n_groups; g++) to[g] = path.signature[g];
    }
    double radius = 0.0;
    for (std::size_t i = 0; i < dim_out; i++) {
        for (int k = 0; k < 3; k++) {
            const double number = output.coefficient[k][i];
            cells.maps[(cell * 3 + k) * dim_out + i] = number;
            if (!(magnitude(number) < kInfinity)) radius = kInfinity;
        }
        radius = bound(radius, output.radius[i]);
    }
    cells.map_radii[cell] = radius;
    if (!(radius < kInfinity)) cells.n_broken++;
    // Go round from the edge with the least code, whatever the order of the cuts was.
    int first = 0;
    std::int32_t least_code = wall_code(network, polygon[0].wall);
    for (int i = 1; i < n; i++) {
        const std::int32_t code = wall_code(network, polygon[i].wall);
        if (code < least_code) least_code = code, first = i;
    }
    for (int i = 0, at = first; i < n; i++, at = at + 1 < n ? at + 1 : 0) {
        const std::int64_t v = cells.n_vertices++;
        const Vertex& vertex = polygon[at].start;
        cells.points[2 * v] = vertex.x, cells.points[2 * v + 1] = vertex.y;
        if (cells.directions)
            cells.directions[2 * v] = vertex.dx, cells.directions[2 * v + 1] = vertex.dy;
        cells.walls[v] = wall_code(network, polygon[at].wall);
    }
    cells.ends[cell] = cells.n_vertices;
    return true;
}

}  // namespace hardmax
