// The output of a search: signature, output map and numbers of each cell.
//
// The floats of a search depend on its history: forms are updated and replaced by more precise
// ones. Therefore none of these floats is stored. The stored data are a function of the network,
// the domain, the signature and the walls of a cell: forms composed afresh, each layer from the one
// before, and vertices computed from the forms that meet there.
#pragma once
#include "doubled.hpp"
#include "signs.hpp"

namespace hardmax {

// The error of a stored vertex is at most this times its largest coordinate, or times the scale if
// that is larger; the error of a direction is at most this. A vertex beyond the range of floats has
// an infinite or NaN coordinate.
constexpr double kStoredRadius = 0x1p-30;

// Arrays of the caller. Exactly one kind of signature is used: one byte per winner, or one bit if
// that is enough.
struct Cells {
    std::int64_t room_cells, room_vertices, room_facets, room_ties;
    std::int64_t n_cells, n_vertices, n_facets, n_ties;
    std::int64_t n_broken;           // number of cells whose map overflowed
    std::uint8_t* short_signatures;  // (room_cells, n_groups)
    std::int32_t* signatures;
    double* maps;        // (room_cells, D + 1, dim_out): the output is (x, 1) times the map
    float* map_radii;    // (room_cells)
    std::int64_t* ends;  // (room_cells): the end of each cell's vertices
    double* points;      // (room_vertices, D)
    double* directions;  // (room_vertices, D), or null if the domain is bounded
    // For polygons (room_vertices), see `wall_code`. Otherwise (room_facets, 2): the group, counted
    // over all layers, and the form beyond the wall.
    std::int32_t* walls;
    // Not for polygons: the ends of each cell's facets and ties; for each tie, the index of its
    // facet in its cell, or -1 for all facets, and the group; bounds on the radii of the vertices.
    std::int64_t* facet_ends;      // (room_cells)
    std::int64_t* tie_ends;        // (room_cells)
    std::int32_t* ties;            // (room_ties, 2)
    double* blurs;                 // (room_cells, 2)
    std::uint8_t* bit_signatures;  // (room_cells, (n_groups + 7) / 8): the first winner is the
                                   // highest bit
};

// The form beyond a wall, counted over all layers; for the domain, -5 minus the row (from -4 on).
inline std::int32_t wall_code(const Network& network, const Wall& wall) {
    if (wall.layer < 0) return -5 - wall.group;
    const Layer& layer = network.layers[wall.layer];
    return layer.first_form + (layer.is_relu ? 2 * wall.group : layer.starts[wall.group]) +
           wall.rival;
}

namespace detail {

// Compose the forms on the path afresh, unless this has already been done for the region.
template <int D>
void refresh_pure(const Path<D>& path, Path<D>& pure) {
    bool is_known = true;
    for (int l = 0; l < path.network->n_layers; l++) {
        Frame<D>& own = pure.frames[l];
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

// The form of a wall, rounded from the forms in twice the precision.
template <int D>
Form<D> nearest_form(const Path<D>& path, const DoubledPath<D>& doubled, const Wall& wall) {
    const Layer& layer = path.network->layers[wall.layer];
    const DoubledForms<D>& forms = doubled.scores[wall.layer];
    // A ReLU unit is compared with zero.
    const int first = layer.is_relu ? 0 : layer.starts[wall.group];
    const int plus = layer.is_relu ? (wall.winner == 1 ? wall.group : -1) : first + wall.winner;
    const int minus = layer.is_relu ? (wall.winner == 1 ? -1 : wall.group) : first + wall.rival;
    double number[D + 1], error[D + 1], radius = 0.0;
    for (int j : {plus, minus}) radius += j < 0 ? 0.0 : forms.high.radius[j];
    for (int k = 0; k <= D; k++) {
        const double one = plus < 0 ? 0.0 : forms.high.coefficient[k][plus];
        const double other = minus < 0 ? 0.0 : forms.high.coefficient[k][minus];
        const double low =
            (plus < 0 ? 0.0 : forms.low[k][plus]) - (minus < 0 ? 0.0 : forms.low[k][minus]);
        const Doubled sum = two_sum(one, -other);
        number[k] = sum.high + (sum.low + low);
        // One rounding of the result, and two roundings of numbers that are at most 3 u times the
        // forms.
        error[k] =
            2.0 * kU * magnitude(number[k]) + 16.0 * kU * kU * (magnitude(one) + magnitude(other));
    }
    Form<D> form;
    double slope_error = error[0];
    for (int k = 0; k < D; k++) {
        form.a[k] = number[k];
        slope_error = larger(slope_error, error[k]);
    }
    form.c = number[D];
    form.slope_radius = (slope_radius(radius, path.scale) + slope_error) * kUp + kTiny;
    const bool is_linear = path.frames[wall.layer].is_homogeneous;
    form.offset_radius = is_linear ? 0.0 : (radius + error[D]) * kUp + kTiny;
    return form;
}

// The path whose forms are composed afresh: the path of the search itself, if none of its forms was
// replaced.
template <int D>
Path<D>& fresh_path(Path<D>& path, Path<D>& pure) {
    const int last = path.network->n_layers - 1;
    if (last < 0 || path.frames[last].is_pure) return path;
    refresh_pure(path, pure);
    return pure;
}

// Write the signature of one more cell. Return the cell's index.
template <int D>
std::int64_t store_signature(const Path<D>& path, Cells& cells) {
    const std::int64_t cell = cells.n_cells++;
    const std::size_t n_groups = path.network->n_groups;
    if (cells.bit_signatures) {
        // The entries after the winners are zero or are discarded.
        const std::size_t n_bytes = (n_groups + 7) / 8;
        std::uint8_t* to = cells.bit_signatures + cell * n_bytes;
        for (std::size_t b = 0; b < n_bytes; b++) {
            const int* own = path.signature + 8 * b;
            // Two winners at a time, one in each half of a word.
            std::uint64_t both = 0;
            for (int g = 0; g < 8; g += 2)
                both = both << 2 | std::uint64_t(own[g]) | std::uint64_t(own[g + 1]) << 32;
            to[b] = static_cast<std::uint8_t>(both << 1 | both >> 32);
        }
    } else if (cells.short_signatures) {
        std::uint8_t* to = cells.short_signatures + cell * n_groups;
        for (std::size_t g = 0; g < n_groups; g++)
            to[g] = static_cast<std::uint8_t>(path.signature[g]);
    } else {
        std::int32_t* to = cells.signatures + cell * n_groups;
        for (std::size_t g = 0; g < n_groups; g++) to[g] = path.signature[g];
    }
    return cell;
}

// Write the signature and the map of one more cell, from forms composed afresh. Return the cell's
// index.
template <int D>
std::int64_t store_map(Path<D>& fresh, Cells& cells) {
    const Forms<D>& output = compose_output(fresh);
    const std::int64_t cell = store_signature(fresh, cells);
    const std::size_t dim_out = fresh.network->dim_out;
    double radius = 0.0;
    for (std::size_t i = 0; i < dim_out; i++) {
        for (int k = 0; k <= D; k++) {
            const double number = output.coefficient[k][i];
            cells.maps[(cell * (D + 1) + k) * dim_out + i] = number;
            if (!(magnitude(number) < kInfinity)) radius = kInfinity;
        }
        radius = bound(radius, output.radius[i]);
    }
    cells.map_radii[cell] = rounded_up(radius);
    // The stored radius identifies these cells, even if only the radius is too large for its type.
    if (!(cells.map_radii[cell] < kInfinity)) cells.n_broken++;
    return cell;
}

}  // namespace detail

}  // namespace hardmax
