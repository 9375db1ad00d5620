// Networks whose nodes form a directed graph, on one cell of a line or a plane.
//
// Every number that a network computes has a slot. A node computes its own slots from earlier
// slots. It is a block (a convolution or a matrix: rows of outputs, each a sum over taps of
// channels times a kernel), a sparse map, or a node of maxima. On a cell, where the winners of all
// maxima are known, every slot is an affine form of the D coordinates of the domain.
//
// Radii have the same meaning as in `forms.hpp`: with the scale X, |a_k* - a_k| <= e / X and |c* -
// c| <= e. A sum of n products has the radius (1 + kappa)(sum_j |w_j| (e_j + kappa mu_j) + kappa
// |b|) + X T with kappa = 2 (n + 4) u: a product is rounded once, each of at most n + 1 sums is
// rounded once, and (1 + u)^(n + 2) - 1 < kappa / 1.5 as long as n < 2^40. A radius is 0 only if
// all input forms are zero; then the form is exactly the bias.
//
// Across a wall, one maximum changes from one form to another. Let f be the difference of these
// forms. Then every form downstream changes by a multiple delta f. Only these multiples are
// propagated, as a sparse column, with errors eps that grow as radii do, to (1 + kappa) sum_j |w_j|
// (eps_j + kappa |delta_j|) + T. A form z becomes z' = z + delta f with
//
//     e' = (1 + 2^-30) (e + |delta| (e_f + 2 u mu(f)) + eps (mu(f) + e_f) + 2 u mu(z')) + X T,
//
// since |z' - z'*| <= |z - z*| + |delta| |f - f*| + |delta - delta*| |f*| plus two roundings.
#pragma once
#include <cstdint>

#include "hardmax/interface.h"
#include "hardmax/rounding.hpp"

namespace hardmax {

typedef hm_graph_node GraphNode;
typedef hm_graph_cell GraphCell;

enum GraphKind { kBlock, kSparse, kMaxima };

// A form of at most two coordinates: slopes, then the offset, and the radius.
template <int D>
struct GraphForm {
    double at[D + 1];
    double radius;
};

namespace detail {

constexpr double kGraphUp = 1.0 + 0x1p-30;

inline double graph_kappa(std::int64_t n) { return 2.0 * (static_cast<double>(n) + 4.0) * kU; }

template <int D>
double* column_of(const GraphCell& cell, int k) {
    return cell.forms + static_cast<std::int64_t>(k) * cell.n_slots;
}

template <int D>
double size_at(const GraphCell& cell, std::int64_t slot) {
    double size = 0.0;
    for (int k = 0; k < D; ++k) size = larger(size, magnitude(column_of<D>(cell, k)[slot]));
    return larger(cell.scale * size, magnitude(column_of<D>(cell, D)[slot]));
}

template <int D>
double size_of(const GraphCell& cell, const GraphForm<D>& form) {
    double size = 0.0;
    for (int k = 0; k < D; ++k) size = larger(size, magnitude(form.at[k]));
    return larger(cell.scale * size, magnitude(form.at[D]));
}

template <int D>
bool is_zero(const GraphCell& cell, std::int64_t slot) {
    return cell.radii[slot] == 0.0 && size_at<D>(cell, slot) == 0.0;
}

template <int D>
void compose_block(const GraphCell& cell, const GraphNode& node) {
    const std::int64_t width = node.n_columns, n_terms = node.n_taps * node.n_channels;
    const double kappa = graph_kappa(n_terms), tiny = kTiny * cell.scale;
    for (std::int64_t row = 0; row < node.n_rows; ++row) {
        const std::int64_t first = node.first + row * node.stride;
        double* to[D + 2];
        for (int k = 0; k <= D; ++k) to[k] = column_of<D>(cell, k) + first;
        to[D + 1] = cell.radii + first;
        for (std::int64_t i = 0; i < width; ++i) {
            for (int k = 0; k < D; ++k) to[k][i] = 0.0;
            to[D][i] = node.bias[i];
            to[D + 1][i] = 0.0;
        }
        bool is_known = true;
        for (std::int64_t tap = 0; tap < node.n_taps; ++tap) {
            const std::int64_t base = node.columns[row * node.n_taps + tap];
            if (base < 0) continue;
            const double* kernel = node.weights + tap * node.n_channels * width;
            for (std::int64_t c = 0; c < node.n_channels; ++c, kernel += width) {
                const std::int64_t slot = base + c;
                const double size = size_at<D>(cell, slot), radius = cell.radii[slot];
                if (size == 0.0 && radius == 0.0) continue;
                is_known = false;
                double factor[D + 1];
                for (int k = 0; k <= D; ++k) factor[k] = column_of<D>(cell, k)[slot];
                const double share = radius + kappa * size;
                for (int k = 0; k <= D; ++k) {
                    double* out = to[k];
                    for (std::int64_t i = 0; i < width; ++i) out[i] += factor[k] * kernel[i];
                }
                double* out = to[D + 1];
                for (std::int64_t i = 0; i < width; ++i) out[i] += share * magnitude(kernel[i]);
            }
        }
        if (is_known) continue;
        for (std::int64_t i = 0; i < width; ++i)
            to[D + 1][i] =
                (1.0 + 2.0 * kappa) * (to[D + 1][i] + kappa * magnitude(node.bias[i])) + tiny;
    }
}

template <int D>
void compose_sparse(const GraphCell& cell, const GraphNode& node) {
    const double tiny = kTiny * cell.scale;
    for (std::int64_t row = 0; row < node.n_rows; ++row) {
        const std::int64_t begin = node.starts[row], end = node.starts[row + 1];
        const double kappa = graph_kappa(end - begin);
        double sums[D + 1] = {}, share = 0.0;
        sums[D] = node.bias[row];
        bool is_known = true;
        for (std::int64_t j = begin; j < end; ++j) {
            const std::int64_t slot = node.columns[j];
            const double size = size_at<D>(cell, slot), radius = cell.radii[slot];
            if (size == 0.0 && radius == 0.0) continue;
            is_known = false;
            for (int k = 0; k <= D; ++k) sums[k] += node.weights[j] * column_of<D>(cell, k)[slot];
            share += magnitude(node.weights[j]) * (radius + kappa * size);
        }
        const std::int64_t slot = node.first + row;
        for (int k = 0; k <= D; ++k) column_of<D>(cell, k)[slot] = sums[k];
        cell.radii[slot] =
            is_known ? 0.0
                     : (1.0 + 2.0 * kappa) * (share + kappa * magnitude(node.bias[row])) + tiny;
    }
}

// The form of one entry of a maximum: slope times a slot plus an offset.
template <int D>
GraphForm<D> entry_of(const GraphCell& cell, const GraphNode& node, std::int64_t entry) {
    GraphForm<D> form = {};
    const std::int64_t slot = node.columns[entry];
    const double slope = node.weights[entry], offset = node.bias[entry];
    if (slot < 0 || slope == 0.0 || is_zero<D>(cell, slot)) {
        form.at[D] = offset;
        return form;
    }
    for (int k = 0; k <= D; ++k) form.at[k] = slope * column_of<D>(cell, k)[slot];
    form.at[D] += offset;
    if ((slope == 1.0 || slope == -1.0) && offset == 0.0) {
        form.radius = cell.radii[slot];
        return form;
    }
    const double size = magnitude(slope) * size_at<D>(cell, slot) + magnitude(offset);
    form.radius =
        (magnitude(slope) * cell.radii[slot] + 4.0 * kU * size) * kGraphUp + kTiny * cell.scale;
    return form;
}

template <int D>
GraphForm<D> difference(const GraphCell& cell, const GraphForm<D>& one, const GraphForm<D>& other) {
    GraphForm<D> form;
    const bool is_copy = other.radius == 0.0 && size_of<D>(cell, other) == 0.0;
    for (int k = 0; k <= D; ++k) form.at[k] = one.at[k] - other.at[k];
    form.radius = one.radius;
    if (is_copy) return form;
    if (one.radius == 0.0 && size_of<D>(cell, one) == 0.0) {
        form.radius = other.radius;
        return form;
    }
    form.radius = (one.radius + other.radius + 2.0 * kU * size_of<D>(cell, form)) * kGraphUp +
                  kTiny * cell.scale;
    return form;
}

// The form of a group's maximum on the cell.
template <int D>
void compose_maximum(const GraphCell& cell, const GraphNode& node, std::int64_t group) {
    const std::int64_t winner = cell.winners[node.first_group + group];
    const GraphForm<D> form = entry_of<D>(cell, node, node.starts[group] + winner);
    const std::int64_t slot = node.first + group;
    for (int k = 0; k <= D; ++k) column_of<D>(cell, k)[slot] = node.sign * form.at[k];
    cell.radii[slot] = form.radius;
}

// Add a slot to the list of slots that change.
inline void mark(const GraphCell& cell, const GraphNode& node, std::int64_t& n, std::int64_t slot) {
    if (cell.marks[slot]) return;
    cell.marks[slot] = 1;
    cell.deltas[slot] = cell.eps[slot] = 0.0;
    cell.dirty[node.first_dirty + n++] = static_cast<std::int32_t>(slot);
}

// Propagate changes through a node; the slots of the node that change are listed in `dirty`. For a
// block, first the rows that change are listed, then each of them is summed, a few columns at a
// time.
inline void mark_block(const GraphCell& cell, const GraphNode& node, const GraphNode& source,
                       std::int64_t n_in, std::int64_t& n_out) {
    std::int64_t last = -1;
    for (std::int64_t i = 0; i < n_in; ++i) {
        const std::int64_t slot = cell.dirty[source.first_dirty + i];
        if (slot < node.low || slot >= node.low + node.n_readable) continue;
        const std::int64_t pixel = node.owners[slot - node.low];
        if (pixel < 0 || pixel == last) continue;
        last = pixel;
        for (std::int64_t j = node.use_starts[pixel]; j < node.use_starts[pixel + 1]; ++j) {
            const std::int64_t first = node.first + node.uses[2 * j] * node.stride;
            if (cell.marks[first]) continue;
            for (std::int64_t k = 0; k < node.n_columns; ++k) mark(cell, node, n_out, first + k);
        }
    }
}

template <int Chunk>
void carry_row(const GraphCell& cell, const GraphNode& node, std::int64_t row,
               std::int64_t column) {
    double sums[Chunk] = {}, errors[Chunk] = {};
    for (std::int64_t tap = 0; tap < node.n_taps; ++tap) {
        const std::int64_t base = node.columns[row * node.n_taps + tap];
        if (base < 0) continue;
        const double* kernel = node.weights + tap * node.n_channels * node.n_columns + column;
        for (std::int64_t c = 0; c < node.n_channels; ++c, kernel += node.n_columns) {
            if (!cell.marks[base + c]) continue;
            const double delta = cell.deltas[base + c];
            const double share = cell.eps[base + c] + node.kappa * magnitude(delta);
            for (int k = 0; k < Chunk; ++k) {
                sums[k] += delta * kernel[k];
                errors[k] += share * magnitude(kernel[k]);
            }
        }
    }
    const std::int64_t first = node.first + row * node.stride + column;
    for (int k = 0; k < Chunk; ++k) cell.deltas[first + k] = sums[k];
    for (int k = 0; k < Chunk; ++k) cell.eps[first + k] = errors[k];
}

inline void carry_block(const GraphCell& cell, const GraphNode& node, std::int64_t n_out) {
    for (std::int64_t j = 0; j < n_out; j += node.n_columns) {
        const std::int64_t row = (cell.dirty[node.first_dirty + j] - node.first) / node.stride;
        std::int64_t column = 0;
        for (; column + 16 <= node.n_columns; column += 16) carry_row<16>(cell, node, row, column);
        for (; column + 4 <= node.n_columns; column += 4) carry_row<4>(cell, node, row, column);
        for (; column < node.n_columns; ++column) carry_row<1>(cell, node, row, column);
    }
}

// Call a function with every change in the inputs of a node and the position where it is read:
// slot, change, and row, or group and entry, of the node.
template <class F>
void for_all_uses(const GraphCell& cell, const GraphNode& node, const GraphNode& source,
                  std::int64_t n_in, F call) {
    for (std::int64_t i = 0; i < n_in; ++i) {
        const std::int64_t slot = cell.dirty[source.first_dirty + i];
        const double delta = cell.deltas[slot];
        if ((delta == 0.0 && cell.eps[slot] == 0.0) || slot < node.low ||
            slot >= node.low + node.n_readable)
            continue;
        const std::int64_t at = slot - node.low;
        for (std::int64_t j = node.use_starts[at]; j < node.use_starts[at + 1]; ++j)
            call(slot, delta, node.uses[2 * j], node.uses[2 * j + 1]);
    }
}

inline void carry_sparse(const GraphCell& cell, const GraphNode& node, const GraphNode& source,
                         std::int64_t n_in, std::int64_t& n_out) {
    for_all_uses(cell, node, source, n_in, [&](auto slot, double delta, auto row, auto entry) {
        mark(cell, node, n_out, node.first + row);
        cell.deltas[node.first + row] += delta * node.weights[entry];
        cell.eps[node.first + row] +=
            magnitude(node.weights[entry]) * (cell.eps[slot] + node.kappa * magnitude(delta));
    });
}

inline void carry_maxima(const GraphCell& cell, const GraphNode& node, const GraphNode& source,
                         std::int64_t n_in, std::int64_t& n_out) {
    for_all_uses(cell, node, source, n_in, [&](auto slot, double delta, auto group, auto entry) {
        cell.reaches[node.first_group + group] = -1.0;
        if (entry != node.starts[group] + cell.winners[node.first_group + group]) return;
        mark(cell, node, n_out, node.first + group);
        const double slope = node.weights[entry];
        cell.deltas[node.first + group] += node.sign * (slope * delta);
        cell.eps[node.first + group] +=
            magnitude(slope) * (cell.eps[slot] + (slope == 1.0 ? 0.0 : kU * magnitude(delta)));
    });
}

}  // namespace detail

// Write the forms of the nodes from `begin` to `end`, given the earlier slots and the winners.
template <int D>
void compose_graph(const GraphCell& cell, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
        const GraphNode& node = cell.nodes[i];
        if (node.kind == kBlock) detail::compose_block<D>(cell, node);
        if (node.kind == kSparse) detail::compose_sparse<D>(cell, node);
        for (std::int64_t g = 0; node.kind == kMaxima && g < node.n_rows; ++g) {
            detail::compose_maximum<D>(cell, node, g);
            cell.reaches[node.first_group + g] = -1.0;
        }
    }
}

namespace detail {

// Add multiples of a row of derivatives to Chunk rows of `to`, which are `n` numbers apart.
template <int Chunk>
void add_row(const double* from, const double* weights, std::int64_t n, double* to) {
    double factors[Chunk];
    for (int k = 0; k < Chunk; ++k) factors[k] = weights[k];
    for (std::int64_t i = 0; i < n; ++i)
        for (int k = 0; k < Chunk; ++k) to[k * n + i] += factors[k] * from[i];
}

}  // namespace detail

// Propagate the derivatives of all slots with respect to some inputs from node to node. A slot has
// n derivatives; slots that depend on no input are not written.
inline void differentiate_graph(const GraphCell& cell, std::int64_t n, double* derivatives,
                                std::uint8_t* is_moved) {
    const auto clear = [&](std::int64_t slot) {
        if (is_moved[slot]) return;
        is_moved[slot] = 1;
        for (std::int64_t i = 0; i < n; ++i) derivatives[slot * n + i] = 0.0;
    };
    for (std::int64_t at = 0; at < cell.n_nodes; ++at) {
        const GraphNode& node = cell.nodes[at];
        for (std::int64_t row = 0; row < node.n_rows; ++row) {
            const std::int64_t first = node.first + row * node.stride;
            if (node.kind == kBlock) {
                for (std::int64_t k = 0; k < node.n_columns; ++k) is_moved[first + k] = 0;
                for (std::int64_t tap = 0; tap < node.n_taps; ++tap) {
                    const std::int64_t base = node.columns[row * node.n_taps + tap];
                    if (base < 0) continue;
                    const double* kernel = node.weights + tap * node.n_channels * node.n_columns;
                    for (std::int64_t c = 0; c < node.n_channels; ++c, kernel += node.n_columns) {
                        if (!is_moved[base + c]) continue;
                        const double* from = derivatives + (base + c) * n;
                        for (std::int64_t k = 0; k < node.n_columns; ++k) clear(first + k);
                        std::int64_t k = 0;
                        for (; k + 4 <= node.n_columns; k += 4)
                            detail::add_row<4>(from, kernel + k, n, derivatives + (first + k) * n);
                        for (; k < node.n_columns; ++k)
                            detail::add_row<1>(from, kernel + k, n, derivatives + (first + k) * n);
                    }
                }
                continue;
            }
            is_moved[first] = 0;
            const bool is_maximum = node.kind == kMaxima;
            const std::int64_t begin =
                node.starts[row] + (is_maximum ? cell.winners[node.first_group + row] : 0);
            const std::int64_t end = is_maximum ? begin + 1 : node.starts[row + 1];
            for (std::int64_t j = begin; j < end; ++j) {
                const std::int64_t slot = node.columns[j];
                const double weight = (is_maximum ? node.sign : 1.0) * node.weights[j];
                if (slot < 0 || weight == 0.0 || !is_moved[slot]) continue;
                clear(first);
                detail::add_row<1>(derivatives + slot * n, &weight, n, derivatives + first * n);
            }
        }
    }
}

namespace detail {

// Add multiples of a form to the forms of n slots.
template <int D>
void move_forms(const GraphCell& cell, const GraphForm<D>& f, std::int64_t first, std::int64_t n) {
    const double size = size_of<D>(cell, f), tiny = kTiny * cell.scale;
    const double by_delta = f.radius + 2.0 * kU * size, by_eps = size + f.radius;
    const double *deltas = cell.deltas + first, *eps = cell.eps + first;
    double *radii = cell.radii + first, *forms[D + 1];
    for (int k = 0; k <= D; ++k) forms[k] = column_of<D>(cell, k) + first;
    for (std::int64_t i = 0; i < n; ++i) {
        double moved = 0.0;
        for (int k = 0; k <= D; ++k) {
            forms[k][i] += deltas[i] * f.at[k];
            moved =
                larger(moved, k < D ? cell.scale * magnitude(forms[k][i]) : magnitude(forms[k][i]));
        }
        const double grown = magnitude(deltas[i]) * by_delta + eps[i] * by_eps + 2.0 * kU * moved;
        radii[i] = (radii[i] + grown) * kGraphUp + tiny;
    }
}

}  // namespace detail

// Change the winners of some groups of a node, whose entries are the same forms in all of them, and
// all forms downstream; `is_stale` receives the nodes whose radii have grown. A maximum is
// recomputed from its slot, so that exact forms stay exact, with radius 0.
template <int D>
void flip_groups(const GraphCell& cell, std::int64_t at, std::int64_t n_groups,
                 const std::int32_t* groups, std::int32_t winner, std::uint8_t* is_stale) {
    const GraphNode& changed = cell.nodes[at];
    const std::int64_t start = changed.starts[groups[0]];
    const GraphForm<D> f = detail::difference<D>(
        cell, detail::entry_of<D>(cell, changed, start + winner),
        detail::entry_of<D>(cell, changed, start + cell.winners[changed.first_group + groups[0]]));
    for (std::int64_t i = 0; i < cell.n_nodes; ++i) cell.n_dirty[i] = 0;
    for (std::int64_t g = 0; g < n_groups; ++g) {
        const std::int64_t slot = changed.first + groups[g];
        detail::mark(cell, changed, cell.n_dirty[at], slot);
        cell.deltas[slot] = changed.sign;
        cell.winners[changed.first_group + groups[g]] = winner;
        cell.reaches[changed.first_group + groups[g]] = -1.0;
    }
    for (std::int64_t i = at; i < cell.n_nodes; ++i) {
        const GraphNode& node = cell.nodes[i];
        std::int64_t& n_out = cell.n_dirty[i];
        for (std::int64_t s = 0; i > at && s < node.n_sources; ++s) {
            const std::int32_t from = node.sources[s];
            if (from < at || cell.n_dirty[from] == 0) continue;
            const GraphNode& source = cell.nodes[from];
            if (node.kind == kBlock)
                detail::mark_block(cell, node, source, cell.n_dirty[from], n_out);
            if (node.kind == kSparse)
                detail::carry_sparse(cell, node, source, cell.n_dirty[from], n_out);
            if (node.kind == kMaxima)
                detail::carry_maxima(cell, node, source, cell.n_dirty[from], n_out);
        }
        if (i > at && node.kind == kBlock) detail::carry_block(cell, node, n_out);
        if (n_out > 0) is_stale[i] = 1;
        // The slots of a block's row are consecutive.
        const std::int64_t step = node.kind == kBlock ? node.n_columns : 1;
        for (std::int64_t j = 0; j < n_out; j += step) {
            const std::int64_t first = cell.dirty[node.first_dirty + j];
            if (i > at)
                for (std::int64_t slot = first; slot < first + step; ++slot)
                    cell.eps[slot] = cell.eps[slot] * (1.0 + 2.0 * node.kappa) + kTiny;
            if (node.kind == kMaxima)
                detail::compose_maximum<D>(cell, node, first - node.first);
            else
                detail::move_forms<D>(cell, f, first, step);
        }
    }
    for (std::int64_t i = at; i < cell.n_nodes; ++i)
        for (std::int64_t j = 0; j < cell.n_dirty[i]; ++j)
            cell.marks[cell.dirty[cell.nodes[i].first_dirty + j]] = 0;
}

}  // namespace hardmax
