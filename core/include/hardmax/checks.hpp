// Checks of sizes and indices from outside, before anything is read or written with them.
//
// Numbers from model files, stored partitions and web pages pass through these checks, so a number
// may have any value. No number is added or multiplied before it is known to be small.
#pragma once
#include <cstdint>

#include "facets.hpp"
#include "interface.h"
#include "neighbours.hpp"
#include "network.hpp"
#include "ranges.hpp"

namespace hardmax {

// In the core, sizes are ints, and sums of a few sizes must also fit: hence the limit on each size.
constexpr std::int64_t kMostOfAnything = std::int64_t{1} << 28;
// Maximum number of entries of a matrix, so that the bytes of a matrix and everything stored beside
// it fit a size_t.
constexpr std::int64_t kMostEntries = sizeof(std::size_t) > 4 ? std::int64_t{1} << 44 : 1 << 24;
// Rows from 0 on are the rows of the domain; four more rows represent the sides of a square at
// infinity.
constexpr int kLowestBorder = -4;

namespace detail {

// Whether no number is infinite or NaN. (For such a number, adding 1 to the exponent would carry into
// the sign.)
inline bool are_finite(const double* numbers, std::int64_t n) {
    constexpr std::uint64_t exponent = std::uint64_t{0x7ff} << 52, one = std::uint64_t{1} << 52;
    std::uint64_t carried = 0;
    for (std::int64_t i = 0; i < n; i++) {
        std::uint64_t bits;
        __builtin_memcpy(&bits, numbers + i, sizeof bits);
        carried |= (bits & exponent) + one;
    }
    return carried >> 63 == 0;
}

// Whether rows begin at 0, do not decrease, and end at `last`.
template <class Index>
bool are_rows(const Index* starts, std::int64_t n_rows, std::int64_t last) {
    return rise(starts, n_rows) && starts[n_rows] == last;
}

// A reader of a packed network that stops at the ends of both arrays.
struct CheckedPacked {
    const std::int64_t* integers;
    const double* numbers;
    std::int64_t n_integers, n_numbers;
    bool fits = true;

    std::int64_t next(std::int64_t low, std::int64_t high) {
        fits = fits && n_integers > 0 && is_between(*integers, low, high);
        if (!fits) return low;
        n_integers--;
        return *integers++;
    }
    // Skip a table of integers; return null if it is incomplete.
    const std::int64_t* table(std::int64_t n_rows, std::int64_t n_columns) {
        fits = fits && (n_columns == 0 || n_rows <= n_integers / n_columns);
        if (!fits) return nullptr;
        const std::int64_t* here = integers;
        integers += n_rows * n_columns, n_integers -= n_rows * n_columns;
        return here;
    }
    // Skip a table of finite numbers; radii may be infinite.
    void pass(std::int64_t n_rows, std::int64_t n_columns, bool are_radii = false) {
        fits = fits && (n_columns == 0 || n_rows <= n_numbers / n_columns);
        if (!fits) return;
        const std::int64_t n = n_rows * n_columns;
        fits = are_radii || are_finite(numbers, n);
        numbers += n, n_numbers -= n;
    }
};

struct MapSizes {
    std::int64_t n_in, n_out;
    bool is_identity;
};

inline MapSizes next_map(CheckedPacked& packed) {
    MapSizes map;
    map.n_in = packed.next(0, kMostOfAnything), map.n_out = packed.next(0, kMostOfAnything);
    map.is_identity = packed.next(0, 1) != 0;
    packed.fits = packed.fits && (!map.is_identity || map.n_in == map.n_out);
    return map;
}

inline void pass_map(CheckedPacked& packed, const MapSizes& map) {
    if (!map.is_identity) packed.pass(map.n_in, map.n_out);
    packed.pass(1, map.n_out);
}

// Check a layer whose input stream has `dim_in` numbers. Return the width of the stream after the
// layer.
inline std::int64_t check_layer(CheckedPacked& packed, std::int64_t dim_in, std::int64_t& n_groups,
                                std::int64_t& n_forms) {
    const bool is_relu = packed.next(0, 1), residual = packed.next(0, 1);
    const std::int64_t own_forms = packed.next(1, kMostOfAnything),
                       own_groups = packed.next(1, own_forms),
                       width = packed.next(1, kMostOfAnything);
    n_groups += own_groups, n_forms += own_forms;
    const MapSizes query = next_map(packed), output = next_map(packed);
    packed.fits = packed.fits && query.n_in == dim_in && width <= output.n_in &&
                  (!residual || output.n_out == dim_in) && n_forms <= kMostOfAnything;
    pass_map(packed, query);
    if (is_relu) {
        packed.fits = packed.fits && own_groups == query.n_out && own_forms == 2 * own_groups &&
                      output.n_in == own_groups && width == 1;
    } else {
        const std::int64_t* starts = packed.table(1, own_groups + 1);
        const std::int64_t* slots = packed.table(1, own_groups);
        if (!packed.fits) return 0;
        packed.fits = are_rows(starts, own_groups, own_forms) &&
                      all_between(slots, own_groups, 0, output.n_in - width);
        for (std::int64_t g = 0; packed.fits && g < own_groups; g++)
            packed.fits = starts[g] < starts[g + 1];
        const std::int64_t given = packed.next(-1, query.n_out),
                           n_read = given < 0 ? query.n_out : given;
        const std::int64_t* reads = packed.table(given < 0 ? 0 : own_groups, n_read);
        if (!packed.fits) return 0;
        packed.fits = all_between(reads, given < 0 ? 0 : own_groups * n_read, -1, query.n_out - 1);
        const bool coincide = packed.next(0, 1);
        const std::int64_t* first = packed.table(coincide ? 1 : 0, own_forms);
        for (std::int64_t g = 0; packed.fits && coincide && g < own_groups; g++)
            packed.fits = all_between(first + starts[g], starts[g + 1] - starts[g], starts[g],
                                      starts[g + 1] - 1);
        packed.pass(own_forms, n_read), packed.pass(1, own_forms);
        packed.fits = packed.fits && query.n_out <= kMostEntries / own_forms;
        packed.pass(1, own_forms);
        if (coincide) packed.pass(1, own_forms, true);
        packed.pass(own_forms, width);
        if (coincide) packed.pass(own_forms, width, true);
    }
    pass_map(packed, output);
    return output.n_out;
}

// Whether winners are valid forms of their groups, from layer `begin` up to `end`.
template <class Winner>
bool are_winners(const Network& network, const Winner* winners, int begin, int end) {
    bool is_bad = false;
    for (int l = begin; l < end; l++) {
        const Layer& layer = network.layers[l];
        const Winner* own = winners + layer.first_group;
        if (layer.is_relu) {
            is_bad |= !all_below(own, layer.n_groups, 2);
            continue;
        }
        for (int g = 0; g < layer.n_groups; g++)
            is_bad |= own[g] < 0 || own[g] >= layer.starts[g + 1] - layer.starts[g];
    }
    return !is_bad;
}

inline int size_of_group(const Layer& layer, int group) {
    return layer.is_relu ? 2 : layer.starts[group + 1] - layer.starts[group];
}

// Whether typical winners are valid forms of their groups. Typical winners of groups with too many
// forms for a byte are never read.
inline bool are_typical(const Network& network, const std::int8_t* typical, int end) {
    bool is_bad = false;
    for (int l = 0; l < end; l++) {
        const Layer& layer = network.layers[l];
        for (int g = 0; g < layer.n_groups; g++) {
            const int size = size_of_group(layer, g), own = typical[layer.first_group + g];
            is_bad |= size <= 127 && !is_between(own, 0, size - 1);
        }
    }
    return !is_bad;
}

// A number of forms that every group has, at most two.
inline int smallest_group(const Network& network) {
    int smallest = 2;
    for (int l = 0; l < network.n_layers; l++) {
        const Layer& layer = network.layers[l];
        for (int g = 0; !layer.is_relu && g < layer.n_groups; g++)
            smallest = least(smallest, size_of_group(layer, g));
    }
    return smallest;
}

// Whether a wall belongs to two forms of a group, or is a row of the domain.
inline bool is_wall(const Network& network, const std::int32_t* wall) {
    if (wall[0] == -1) return is_between(wall[1], kLowestBorder, kMostOfAnything);
    if (!is_between(wall[0], 0, network.n_layers - 1)) return false;
    const Layer& layer = network.layers[wall[0]];
    if (!is_between(wall[1], 0, layer.n_groups - 1)) return false;
    const int n = size_of_group(layer, wall[1]);
    return is_between(wall[2], 0, n - 1) && is_between(wall[3], 0, n - 1);
}

}  // namespace detail

// Whether packed arrays (see `Packed`) are a network: the lengths match, consecutive layers fit,
// every index is in range, and all numbers are finite.
inline bool is_network(const std::int64_t* integers, std::int64_t n_integers, const double* numbers,
                       std::int64_t n_numbers) {
    detail::CheckedPacked packed{integers, numbers, n_integers, n_numbers};
    const std::int64_t n_layers = packed.next(0, kMostOfAnything);
    std::int64_t dim = packed.next(0, kMostOfAnything), n_groups = 0, n_forms = 0;
    for (std::int64_t l = 0; packed.fits && l < n_layers; l++)
        dim = detail::check_layer(packed, dim, n_groups, n_forms);
    const detail::MapSizes readout = detail::next_map(packed);
    packed.fits = packed.fits && readout.n_in == dim;
    detail::pass_map(packed, readout);
    return packed.fits && packed.n_integers == 0 && packed.n_numbers == 0;
}

// Whether a cell may be pushed on the stack of a search. For a part, `n_sources` is the number of
// facets of the whole cell; otherwise it is -1.
inline bool is_cell(const Network& network, int dim, const hm_cell& cell, int n_sources) {
    const int n = cell.n_vertices, n_facets = dim == 2 ? n : cell.n_facets;
    if (!is_between(n, 1, kMostOfAnything / 8) || !is_between(n_facets, 0, kMostOfAnything / 8))
        return false;
    for (std::int64_t f = 0; f < n_facets; f++)
        if (!detail::is_wall(network, cell.walls + 4 * f)) return false;
    if (dim == 2) return true;
    if (!is_between(cell.n_words, 0, kMostOfAnything / 64) || 64 * cell.n_words < n_facets ||
        !is_between(cell.n_ties, 0, kMostOfAnything))
        return false;
    // No vertex lies on a facet that does not exist.
    for (std::int64_t i = 0; i < n; i++) {
        for (int w = n_facets / 64; w < cell.n_words; w++) {
            const std::uint64_t word = cell.masks[i * cell.n_words + w];
            if ((w == n_facets / 64 ? word >> (n_facets % 64) : word) != 0) return false;
        }
    }
    for (std::int64_t f = 0; n_sources >= 0 && f < n_facets; f++)
        if (!is_between(cell.sources[f], -1, n_sources - 1)) return false;
    for (std::int64_t t = 0; t < cell.n_ties; t++) {
        const std::int32_t* tie = cell.ties + 3 * t;
        if (!is_between(tie[0], -1, n_facets - 1) || !is_between(tie[1], 0, network.n_groups - 1))
            return false;
        int l = 0;
        while (network.layers[l].first_group + network.layers[l].n_groups <= tie[1]) l++;
        const Layer& layer = network.layers[l];
        const int size = detail::size_of_group(layer, tie[1] - layer.first_group);
        if (!is_between(tie[2], 0, size - 1)) return false;
    }
    return true;
}

// Whether the winners of the cells from `first` to `end` exist in the network.
inline bool have_winners(const Network& network, const std::uint8_t* short_signatures,
                         const std::int32_t* signatures, std::int64_t first, std::int64_t end) {
    const int smallest = detail::smallest_group(network);
    const auto all_are = [&](const auto* winners) {
        // Winners that exist in every group, such as winners of units, are checked all together.
        const std::int64_t n_groups = network.n_groups;
        if (all_below(winners + first * n_groups, (end - first) * n_groups, smallest)) return true;
        for (std::int64_t i = first; i < end; i++)
            if (!detail::are_winners(network, winners + i * network.n_groups, 0, network.n_layers))
                return false;
        return true;
    };
    return short_signatures ? all_are(short_signatures) : all_are(signatures);
}

// Whether the codes from `begin` to `end` (see `wall_code`) are forms or rows of the domain.
inline bool are_codes(const std::int32_t* codes, std::int64_t begin, std::int64_t end,
                      std::int64_t n_rows, std::int64_t n_forms) {
    return all_between(codes + begin, end - begin, kLowestBorder - n_rows, n_forms - 1);
}

// Whether polygons can be compared: rows increase, and all winners and codes are valid forms.
inline bool are_polygons(const StoredPolygons& p) {
    // Cells and edges are counted in ints.
    constexpr std::int64_t most = (std::int64_t{1} << 31) - 2;
    if (!is_between(p.n_cells, 0, most) || !is_between(p.n_edges, 0, most) ||
        !is_between(p.n_layers, 0, kMostOfAnything) ||
        !is_between(p.n_groups, 0, kMostOfAnything) ||
        !detail::are_rows(p.first_groups, p.n_layers, p.n_groups) || p.form_starts[0] != 0)
        return false;
    std::int64_t smallest = kMostOfAnything;
    for (int g = 0; g < p.n_groups; g++) {
        if (p.form_starts[g] >= p.form_starts[g + 1]) return false;
        const std::int64_t size = p.form_starts[g + 1] - p.form_starts[g];
        smallest = size < smallest ? size : smallest;
    }
    if (!detail::are_rows(p.starts, p.n_cells, p.n_edges)) return false;
    const auto are_winners = [&](const auto* winners) {
        if (all_below(winners, p.n_cells * p.n_groups, smallest)) return true;
        bool is_bad = false;
        for (std::int64_t i = 0; i < p.n_cells; i++, winners += p.n_groups)
            for (int g = 0; g < p.n_groups; g++)
                is_bad |= winners[g] < 0 || winners[g] >= p.form_starts[g + 1] - p.form_starts[g];
        return !is_bad;
    };
    return are_codes(p.codes, 0, p.n_edges, kMostOfAnything, p.form_starts[p.n_groups]) &&
           (p.short_signatures ? are_winners(p.short_signatures) : are_winners(p.signatures));
}

namespace detail {

// Whether some rows are consecutive within `most` entries.
inline bool are_rows_within(const std::int64_t* starts, std::int64_t first, std::int64_t end,
                            std::int64_t most) {
    bool is_bad = starts[first] < 0 || starts[end] > most;
    for (std::int64_t i = first; i < end; i++) is_bad |= starts[i] > starts[i + 1];
    return !is_bad;
}

// Whether the groups of some facets exist, and the rivals exist in these groups.
inline bool are_walls(const Network& network, const FacetTable& t, std::int64_t begin,
                      std::int64_t end) {
    std::uint32_t group = 0, rival = 0;
    for (std::int64_t f = begin; f < end; f++) {
        const std::uint32_t one = static_cast<std::uint32_t>(t.walls[2 * f]),
                            other = static_cast<std::uint32_t>(t.walls[2 * f + 1]);
        group = one > group ? one : group, rival = other > rival ? other : rival;
    }
    if (begin == end) return true;
    if (group >= static_cast<std::uint32_t>(network.n_groups)) return false;
    if (rival < static_cast<std::uint32_t>(smallest_group(network))) return true;
    for (std::int64_t f = begin; f < end; f++) {
        const Layer& layer = network.layers[t.layer(t.group(f))];
        const int size = size_of_group(layer, t.group(f) - layer.first_group);
        if (!is_between(t.rival(f), 0, size - 1)) return false;
    }
    return true;
}

}  // namespace detail

// Whether the cells from `first` to `end` of a table have existing winners, facets, ties and
// vertices.
inline bool are_facets(const Network& network, const FacetTable& t, std::int64_t first,
                       std::int64_t end) {
    if (t.n_groups != network.n_groups || !is_between(t.n_borders, 0, kMostOfAnything) ||
        !is_between(first, 0, end) || end > t.n_cells || t.n_facets < 0)
        return false;
    for (int l = 0; l < network.n_layers; l++) {
        const Layer& layer = network.layers[l];
        if (!all_between(t.group_layers + layer.first_group, layer.n_groups, l, l))
            return false;
    }
    if (!detail::are_rows_within(t.starts, first, end, t.n_facets) ||
        !detail::are_rows_within(t.tie_starts, first, end, t.cells->n_ties) ||
        !detail::are_rows_within(t.point_starts, first, end, t.cells->n_vertices) ||
        !have_winners(network, t.short_signatures, t.signatures, first, end) ||
        !detail::are_walls(network, t, t.starts[first], t.starts[end]))
        return false;
    for (std::int64_t cell = first; t.tie_starts[cell] < t.tie_starts[end]; cell++)
        for (std::int64_t k = t.tie_starts[cell]; k < t.tie_starts[cell + 1]; k++)
            if (!is_between(t.ties[2 * k], -1, t.starts[cell + 1] - t.starts[cell] - 1) ||
                !is_between(t.ties[2 * k + 1], 0, t.n_groups - 1))
                return false;
    return true;
}

// Whether this holds for all cells of a table, and each row belongs to one of them.
inline bool are_facets(const Network& network, const FacetTable& t) {
    return t.n_cells >= 0 && detail::are_rows(t.starts, t.n_cells, t.n_facets) &&
           detail::are_rows(t.tie_starts, t.n_cells, t.cells->n_ties) &&
           detail::are_rows(t.point_starts, t.n_cells, t.cells->n_vertices) &&
           are_facets(network, t, 0, t.n_cells);
}

}  // namespace hardmax
