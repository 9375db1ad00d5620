// The affine maps of a ReLU network on cells along a line.
//
// On an interval, the pre-activations of a layer are forms s_j t + c_j. Where unit u changes, the
// forms of the next layer change by +-(s_u, c_u) W_u, a multiple of one row of its weights. Hence
// only the first part of an interval requires a product with the matrix; every other part requires
// only one row. The errors are those proved in src/hardmax/regions/_lines/rectified_maps.py; bounds
// are raised as in `lines.hpp`.
//
// Cells are processed in chunks from left to right, and each chunk layer by layer. The output of a
// unit matters only where it is on. Each chunk keeps the units that are on in some cell, about half
// of all units, and the matrices are reduced to these.
#pragma once
#include <cstdint>

#include "hardmax/lines.hpp"

namespace hardmax {

// Bounds on the radii of a row of forms, (e + rho) omega_j + beta |b_j|, for slopes (without bias)
// and offsets.
struct MapScale {
    double e[2], rho[2], beta;
};

// The forms of the kept units of a layer on the intervals of a chunk.
struct FormRows {
    std::int64_t n;
    std::int64_t* begins;  // the first cell of each interval
    double* forms;         // (n, 2, stride): slopes and offsets, padded to whole panels
    MapScale* scales;
};

// A unit that changes before a cell, and whether it is on from that cell on.
struct UnitChange {
    std::int64_t cell;
    std::int32_t unit;
    std::int32_t is_on;
};

// The data of a layer in a chunk.
struct LayerChunk {
    UnitChange* next;  // the first change that has not been made, and the end of all changes
    UnitChange* last;
    std::int64_t n_kept;
    std::int64_t stride;     // their number, padded
    std::int32_t* kept;      // (stride): the units that are on somewhere, padded with unit 0
    std::int32_t* place_of;  // (width): position of a unit among them, or -1
    std::uint8_t* is_on;     // (width): on the current cell
};

struct LineMaps {
    static constexpr int kParts = RowBatch::kRows / 2;

    // A part whose forms will be composed afresh together with the next parts.
    struct Waiting {
        const double* forms;
        double* out;
        std::int64_t* masks;  // masks of all bits for the kept units that are on
    };

    const NormedMap* maps;  // the maps into the layers, and the map to the output
    std::int64_t n_layers, n_cells, most_cells;
    LayerChunk* layers;  // (n_layers + 1): the last is for the output
    UnitChange* changes;
    double* first_forms;  // (2, width of the first layer)
    MapScale first_scale;
    double* matrix;  // the panels of the matrix from one layer to the next, reduced
    FormRows rows[2];
    std::int64_t* owners;            // (most_cells): for each part, its interval
    const UnitChange** only_change;  // the unit that changed before the part, if it was the only
                                     // one
    std::int64_t* masks;             // masks of the current part
    int n_waiting;
    Waiting waiting[kParts];
    RowBatch batch;
};

inline void lay_out(LineMaps& s, Arena& arena, const NormedMap* maps, std::int64_t n_layers,
                    std::int64_t n_changes) {
    std::int64_t most_width = maps[0].n_in, n_units = 0, most_entries = 0, most_following = 0;
    for (std::int64_t l = 0; l <= n_layers; ++l) {
        const std::int64_t n_entries = (maps[l].n_in + 1) * panel_columns(maps[l].n_out);
        if (maps[l].n_out > most_width) most_width = maps[l].n_out;
        if (l > 0 && maps[l].n_out > most_following) most_following = maps[l].n_out;
        if (l > 0 && n_entries > most_entries) most_entries = n_entries;
        if (l < n_layers) n_units += maps[l].n_out;
    }
    s.maps = maps;
    s.n_layers = n_layers;
    // Long chunks keep many units, and for short chunks, reducing the matrices does not pay.
    constexpr std::int64_t least_cells = 48, entries_at_once = 1 << 19;
    const std::int64_t room = entries_at_once / panel_columns(most_following);
    s.most_cells = n_units / 3 < room ? n_units / 3 : room;
    if (s.most_cells < least_cells) s.most_cells = least_cells;
    const std::size_t c = static_cast<std::size_t>(s.most_cells);
    const std::size_t w = static_cast<std::size_t>(panel_columns(most_width));
    // The first layer has one interval.
    const std::size_t n_forms = w + c * static_cast<std::size_t>(panel_columns(most_following));
    s.layers = arena.take<LayerChunk>(static_cast<std::size_t>(n_layers) + 1);
    for (std::int64_t l = 0; l <= n_layers; ++l) {
        const std::size_t n = static_cast<std::size_t>(maps[l].n_out);
        LayerChunk layer = {};
        layer.kept = arena.take<std::int32_t>(n + kPanelColumns);
        layer.place_of = arena.take<std::int32_t>(n);
        layer.is_on = arena.take<std::uint8_t>(n);
        if (arena.base) s.layers[l] = layer;
    }
    s.changes = arena.take<UnitChange>(static_cast<std::size_t>(n_changes));
    s.first_forms = arena.take<double>(2 * w);
    s.matrix = arena.take<double>(static_cast<std::size_t>(most_entries));
    for (FormRows& rows : s.rows) {
        rows.n = 0;
        rows.begins = arena.take<std::int64_t>(c);
        rows.forms = arena.take<double>(2 * n_forms);
        rows.scales = arena.take<MapScale>(c);
    }
    s.owners = arena.take<std::int64_t>(c);
    s.only_change = arena.take<const UnitChange*>(c);
    s.masks = arena.take<std::int64_t>(w);
    s.n_waiting = 0;
    for (LineMaps::Waiting& waiting : s.waiting) waiting.masks = arena.take<std::int64_t>(w);
    lay_out(s.batch, arena, most_width + 1, panel_columns(most_width));
}

namespace detail {

inline double on(const double* forms, const std::int64_t* masks, std::int64_t j) {
    std::int64_t bits;
    std::memcpy(&bits, forms + j, sizeof bits);
    bits &= masks[j];
    double x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

// A bound on the Euclidean norm of the entries that are on; 0 only if they are all zero.
inline double norm_on(const double* forms, const std::int64_t* masks, std::int64_t n) {
    Lanes squares = all(0.0);
    double total = 0.0;
    std::int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes) {
        LaneBits mask;
        std::memcpy(&mask, masks + j, sizeof mask);
        const Lanes x = choose(mask, load(forms + j), all(0.0));
        squares += x * x;
    }
    for (; j < n; ++j) total += on(forms, masks, j) * on(forms, masks, j);
    total += (squares[0] + squares[1]) + (squares[2] + squares[3]);
    if (total < 0x1p-900) {
        total = 0.0;
        for (j = 0; j < n; ++j) total += square_from_floor(on(forms, masks, j));
    }
    return __builtin_sqrt(total) * kRaise;
}

inline void make(LayerChunk& layer) {
    layer.is_on[layer.next->unit] = layer.next->is_on != 0;
    ++layer.next;
}

inline void pad(LayerChunk& layer) {
    layer.stride = panel_columns(layer.n_kept);
    for (std::int64_t k = layer.n_kept; k < layer.stride; ++k) layer.kept[k] = 0;
}

// Make the changes before the first cell of a chunk, and find the units that are on in any of its
// cells.
inline void keep_units(LayerChunk& layer, std::int64_t width, std::int64_t first,
                       std::int64_t end) {
    while (layer.next < layer.last && layer.next->cell <= first) make(layer);
    for (std::int64_t j = 0; j < width; ++j) layer.place_of[j] = layer.is_on[j] ? 0 : -1;
    for (const UnitChange* change = layer.next; change < layer.last && change->cell < end; ++change)
        if (change->is_on) layer.place_of[change->unit] = 0;
    layer.n_kept = 0;
    for (std::int64_t j = 0; j < width; ++j) {
        if (layer.place_of[j] < 0) continue;
        layer.place_of[j] = static_cast<std::int32_t>(layer.n_kept);
        layer.kept[layer.n_kept++] = static_cast<std::int32_t>(j);
    }
    pad(layer);
}

// Reduce a map, and its bias, to the units that are kept before and after it. This is done a few
// rows at a time, so that the data read and written stay in the cache.
inline Panels cut_down(const NormedMap& map, const LayerChunk& before, const LayerChunk& after,
                       double* numbers) {
    constexpr std::int64_t rows_at_once = 16;
    const std::int64_t n_rows = before.n_kept + 1;
    for (std::int64_t start = 0; start < n_rows; start += rows_at_once) {
        const std::int64_t stop = start + rows_at_once < n_rows ? start + rows_at_once : n_rows;
        for (std::int64_t column = 0; column < after.stride; column += kPanelColumns) {
            const std::int32_t* kept = after.kept + column;
            double* to = numbers + column * n_rows + start * kPanelColumns;
            for (std::int64_t k = start; k < stop; ++k, to += kPanelColumns) {
                const std::int64_t unit = k < before.n_kept ? before.kept[k] : map.n_in;
                const double* row = map.rows + unit * map.n_out;
                for (int j = 0; j < kPanelColumns; ++j) to[j] = row[kept[j]];
            }
        }
    }
    return {numbers, n_rows, after.stride};
}

// Write the factors of the listed terms: slopes and offsets of N parts.
template <int N>
inline void put_factors(const LineMaps& s, std::int64_t stride, RowBatch::Group& group) {
    const double* forms[N];
    const std::int64_t* masks[N];
    for (int q = 0; q < N; ++q) {
        forms[q] = s.waiting[q].forms;
        masks[q] = s.waiting[q].masks;
    }
    double* factor = group.factor;
    for (std::int64_t k = 0; k < group.n_terms; ++k, factor += 2 * N) {
        const std::int64_t term = group.term[k];
        for (int q = 0; q < N; ++q) {
            factor[2 * q] = on(forms[q], masks[q], term);
            factor[2 * q + 1] = on(forms[q] + stride, masks[q], term);
        }
    }
}

// Compose the forms of the waiting parts: slopes and offsets of the units that are on, and the bias
// for the offsets.
inline void put_waiting(LineMaps& s, const LayerChunk& layer, std::int64_t following) {
    if (s.n_waiting == 0) return;
    const std::int64_t width = layer.n_kept;
    double* outs[RowBatch::kRows];
    for (int r = 0; r < 2 * s.n_waiting; ++r) outs[r] = s.waiting[r / 2].out + r % 2 * following;
    RowBatch::Group& group = begin_group(s.batch, 2 * s.n_waiting, outs);
    for (std::int64_t j = 0; j < width; ++j) s.batch.flags[j] = s.waiting[0].masks[j];
    for (int q = 1; q < s.n_waiting; ++q)
        for (std::int64_t j = 0; j < width; ++j) s.batch.flags[j] |= s.waiting[q].masks[j];
    list_terms(s.batch, width, group);
    const std::int64_t n_on = group.n_terms, step = group.n_rows;
    if (s.n_waiting == 3)
        put_factors<3>(s, layer.stride, group);
    else if (s.n_waiting == 2)
        put_factors<2>(s, layer.stride, group);
    else
        put_factors<1>(s, layer.stride, group);
    for (int r = 0; r < step; ++r) group.factor[n_on * step + r] = r % 2;
    group.term[n_on] = static_cast<std::int32_t>(width);
    group.n_terms = n_on + 1;
    s.n_waiting = 0;
}

// Compose the forms of the next layer on the parts of this layer's intervals.
inline void compose_next(LineMaps& s, std::int64_t index, const FormRows& rows, std::int64_t end,
                         FormRows& after) {
    const NormedMap &map = s.maps[index], &next = s.maps[index + 1];
    LayerChunk& layer = s.layers[index];
    const Panels matrix = cut_down(next, layer, s.layers[index + 1], s.matrix);
    const std::int64_t width = layer.n_kept, stride = layer.stride, following = matrix.n_columns;
    for (std::int64_t k = 0; k < width; ++k) s.masks[k] = -std::int64_t{layer.is_on[layer.kept[k]]};
    double norms[2] = {0.0, 0.0};  // norms over the units that are on, and their number
    std::int64_t n_on = 0;
    after.n = 0;
    for (std::int64_t i = 0; i < rows.n; ++i) {
        const double* forms = rows.forms + 2 * i * stride;
        const std::int64_t stop = i + 1 < rows.n ? rows.begins[i + 1] : end;
        double errors[2];
        for (int p = 0; p < 2; ++p) {
            const MapScale& scale = rows.scales[i];
            const double error = map.sigma * scale.e[p] + map.frobenius * scale.rho[p];
            errors[p] = (p == 0 ? error : error + scale.beta * map.bias_norm) * kRaise + kTiny;
        }
        for (std::int64_t cell = rows.begins[i]; cell < stop;) {
            const UnitChange* first = layer.next;
            while (layer.next < layer.last && layer.next->cell <= cell) {
                s.masks[layer.place_of[layer.next->unit]] = -std::int64_t{layer.next->is_on};
                make(layer);
            }
            const std::int64_t part = after.n++;
            MapScale& scale = after.scales[part];
            const bool is_update = cell > rows.begins[i] && layer.next == first + 1;
            after.begins[part] = cell;
            s.owners[part] = i;
            s.only_change[part] = is_update ? first : nullptr;
            if (is_update) {
                const MapScale& before = after.scales[part - 1];
                n_on += first->is_on ? 1 : -1;
                scale.beta = before.beta + 8.0 * kU;
                for (int p = 0; p < 2; ++p) {
                    const std::int32_t place = layer.place_of[first->unit];
                    const double share = from_floor(forms[p * stride + place]), rho = before.rho[p];
                    if (first->is_on)
                        norms[p] = __builtin_sqrt(norms[p] * norms[p] + share * share) * kRaise;
                    scale.e[p] = n_on > 0 ? errors[p] : 0.0;
                    scale.rho[p] = (rho + 8.0 * kU * (share + norms[p] + errors[p] + rho)) * kRaise;
                }
            } else {
                n_on = 0;
                for (std::int64_t k = 0; k < width; ++k) n_on -= s.masks[k];
                scale.beta = next.kappa;
                for (int p = 0; p < 2; ++p) {
                    norms[p] = norm_on(forms + p * stride, s.masks, width);
                    scale.e[p] = n_on > 0 ? errors[p] : 0.0;
                    scale.rho[p] = next.kappa * norms[p] * kRaise;
                }
                LineMaps::Waiting& waiting = s.waiting[s.n_waiting++];
                waiting.forms = forms;
                waiting.out = after.forms + 2 * part * following;
                for (std::int64_t k = 0; k < width; ++k) waiting.masks[k] = s.masks[k];
                if (s.n_waiting == LineMaps::kParts) put_waiting(s, layer, following);
                if (s.batch.n_groups == RowBatch::kGroups) multiply(s.batch, matrix);
            }
            cell = layer.next < layer.last && layer.next->cell < stop ? layer.next->cell : stop;
        }
    }
    put_waiting(s, layer, following);
    multiply(s.batch, matrix);
    for (std::int64_t part = 0; part < after.n; ++part) {
        const UnitChange* only = s.only_change[part];
        if (!only) continue;
        const std::int64_t place = layer.place_of[only->unit];
        for (int p = 0; p < 2; ++p) {
            const double form = rows.forms[(2 * s.owners[part] + p) * stride + place];
            const double share = only->is_on ? form : -form;
            double* now = after.forms + (2 * part + p) * following;
            const double* before = now - 2 * following;
            for (std::int64_t column = 0; column < following; column += kPanelColumns) {
                const double* weight =
                    matrix.numbers + column * matrix.n_rows + place * kPanelColumns;
                for (int j = 0; j < kPanelColumns; j += kLanes)
                    store(now + column + j,
                          load(before + column + j) + all(share) * load(weight + j));
            }
        }
    }
}

// Write the maps and radii of the cells up to `end`, given the rows of the output.
inline void write_maps(const NormedMap& map, const FormRows& rows, std::int64_t end, double* values,
                       double* radii) {
    const std::int64_t n = map.n_out, stride = panel_columns(n);
    for (std::int64_t i = 0; i < rows.n; ++i) {
        const std::int64_t stop = i + 1 < rows.n ? rows.begins[i + 1] : end;
        const MapScale& scale = rows.scales[i];
        for (std::int64_t cell = rows.begins[i]; cell < stop; ++cell) {
            for (int p = 0; p < 2; ++p) {
                const LineScale radius = {scale.e[p], scale.rho[p], p == 0 ? 0.0 : scale.beta};
                for (std::int64_t j = 0; j < n; ++j) {
                    values[(2 * cell + p) * n + j] = rows.forms[(2 * i + p) * stride + j];
                    radii[(2 * cell + p) * n + j] =
                        radius_of(radius, map.omega[j], map.bias_size[j]);
                }
            }
        }
    }
}

// Write the forms of the first layer, which has one interval, and their bounds.
inline void enter_maps(LineMaps& s, const double* stream, const double errors[2]) {
    const NormedMap& map = s.maps[0];
    const double* const parts[2] = {stream, stream + map.n_in};
    const double bias_shares[2] = {0.0, 1.0};
    multiply_pair(map, parts, bias_shares, s.first_forms);
    s.first_scale.beta = map.kappa;
    for (int p = 0; p < 2; ++p) {
        double total = 0.0;
        for (std::int64_t k = 0; k < map.n_in; ++k)
            total += square_from_floor(stream[p * map.n_in + k]);
        s.first_scale.e[p] = errors[p];
        s.first_scale.rho[p] = map.kappa * (__builtin_sqrt(total) * kRaise) * kRaise;
    }
}

}  // namespace detail

// Start with the signature of the first cell and the changes after it. The changes from cell i - 1
// to cell i are at starts[i] up to starts[i + 1]; each is an entry of the signature and its new
// value. The stream before the first layer is (2, n_in), slopes and offsets; the norms of their
// errors are given.
inline void start_maps(LineMaps& s, std::int64_t n_cells, const std::uint8_t* signature,
                       const std::int64_t* starts, const std::int64_t* entries,
                       const std::uint8_t* winners, const double* stream, const double errors[2]) {
    UnitChange* next = s.changes;
    std::int64_t low = 0;
    s.n_cells = n_cells;
    for (std::int64_t l = 0; l < s.n_layers; ++l) {
        LayerChunk& layer = s.layers[l];
        const std::int64_t high = low + s.maps[l].n_out;
        for (std::int64_t j = low; j < high; ++j) layer.is_on[j - low] = signature[j] != 0;
        layer.next = next;
        for (std::int64_t cell = 1; cell < n_cells; ++cell)
            for (std::int64_t k = starts[cell]; k < starts[cell + 1]; ++k)
                if (entries[k] >= low && entries[k] < high)
                    *next++ = {cell, static_cast<std::int32_t>(entries[k] - low), winners[k] != 0};
        layer.last = next;
        low = high;
    }
    LayerChunk& output = s.layers[s.n_layers];
    output.n_kept = s.maps[s.n_layers].n_out;
    for (std::int64_t j = 0; j < output.n_kept; ++j) output.kept[j] = static_cast<std::int32_t>(j);
    detail::pad(output);
    detail::enter_maps(s, stream, errors);
}

// Write the maps (n_cells, 2, n_out) of some cells from `first` on, and their radii; the earlier
// cells must have been processed. Returns the first cell that is not done.
inline std::int64_t compose_maps(LineMaps& s, std::int64_t first, double* values, double* radii) {
    const std::int64_t rest = s.n_cells - first;
    const std::int64_t end = first + (rest < s.most_cells ? rest : s.most_cells);
    for (std::int64_t l = 0; l < s.n_layers; ++l)
        detail::keep_units(s.layers[l], s.maps[l].n_out, first, end);
    const LayerChunk& layer = s.layers[0];
    FormRows* rows = &s.rows[1];
    rows->n = 1;
    rows->begins[0] = first;
    rows->scales[0] = s.first_scale;
    for (int p = 0; p < 2; ++p)
        for (std::int64_t k = 0; k < layer.n_kept; ++k)
            rows->forms[p * layer.stride + k] = s.first_forms[p * s.maps[0].n_out + layer.kept[k]];
    for (std::int64_t l = 0; l < s.n_layers; ++l) {
        FormRows& after = s.rows[l % 2];
        detail::compose_next(s, l, *rows, end, after);
        rows = &after;
    }
    detail::write_maps(s.maps[s.n_layers], *rows, end, values, radii);
    return end;
}

}  // namespace hardmax
