// The cells of a ReLU network along a line, in integers with few digits.
//
// If the stream, the weights and the biases lie on grids and are not large, every form m t + c of
// every layer is a float without rounding (Lemma 3 of src/hardmax/exact/rounding.py): an integer
// below 2^53 times a power of two that depends only on the layer. Then a breakpoint is a quotient p
// / q of two such integers, and the sign of a form there is the sign of m p + c q, which has less
// than 128 bits. No sign is ever undecided, however many forms vanish together.
//
// The search is depth first, from left to right. A layer has its forms on one interval, which its
// units cut into parts; the next layer has the forms on the current part. Where units change, the
// forms of the next layer change by the corresponding rows of the weights, and the forms of all
// later layers are composed afresh.
#pragma once
#include <cstdint>

#include "hardmax/arithmetic.hpp"
#include "hardmax/lines.hpp"

namespace hardmax {

__extension__ typedef __int128 WideInteger;

// The point p / q with q > 0, or the point at infinity in the direction of p.
struct Ratio {
    std::int64_t p, q;
};

// The point where a unit changes.
struct ExactZero {
    Ratio at;
    std::int64_t unit;
};

struct IntegerLayer {
    double* forms;        // (2, width): slopes and offsets on the interval
    std::uint8_t* is_on;  // (width): on the current part
    ExactZero* zeros;     // (width): from left to right, inside the interval
    std::int64_t n_zeros, n_passed;
    Ratio right;        // the end of the interval
    double to_integer;  // a form times this power of two has integer coefficients
};

struct IntegerLine {
    const NormedMap* maps;
    std::int64_t n_layers, n_units;
    IntegerLayer* layers;
    Ratio left;  // start of the current cell
    bool has_begun, is_done;
};

inline void lay_out(IntegerLine& s, Arena& arena, const NormedMap* maps, std::int64_t n_layers) {
    s.maps = maps;
    s.n_layers = n_layers;
    s.n_units = 0;
    s.layers = arena.take<IntegerLayer>(static_cast<std::size_t>(n_layers));
    for (std::int64_t l = 0; l < n_layers; ++l) {
        const std::size_t n = static_cast<std::size_t>(maps[l].n_out);
        IntegerLayer layer = {};
        layer.forms = arena.take<double>(2 * n);
        layer.is_on = arena.take<std::uint8_t>(n);
        layer.zeros = arena.take<ExactZero>(n);
        if (arena.base) s.layers[l] = layer;
        s.n_units += maps[l].n_out;
    }
}

namespace detail {

inline bool is_before(const ExactZero& one, const ExactZero& other) {
    const WideInteger a = WideInteger{one.at.p} * other.at.q,
                      b = WideInteger{other.at.p} * one.at.q;
    return a != b ? a < b : one.unit < other.unit;
}

inline int sign_of(WideInteger x) { return (x > 0) - (x < 0); }

// The sign of m t + c just to the right or just to the left of a point; 0 only if the form is zero.
inline int sign_beside(std::int64_t m, std::int64_t c, const Ratio& at, int side) {
    const int sign = sign_of(WideInteger{m} * at.p + WideInteger{c} * at.q);
    if (sign != 0) return sign;
    return at.q != 0 ? side * sign_of(m) : sign_of(c);
}

// Add the row of a unit, times its form and times +1 or -1, to the forms of the next layer.
inline void add_unit(const IntegerLayer& layer, const NormedMap& map, std::int64_t unit,
                     const NormedMap& next, IntegerLayer& following, double sign) {
    const double* weight = next.rows + unit * next.n_out;
    for (int p = 0; p < 2; ++p) {
        const double factor = sign * layer.forms[p * map.n_out + unit];
        double* to = following.forms + p * next.n_out;
        if (factor == 0.0) continue;
        for (std::int64_t j = 0; j < next.n_out; ++j) to[j] += factor * weight[j];
    }
}

// Initialize the forms with the bias alone.
inline void clear_forms(const NormedMap& map, IntegerLayer& layer) {
    const double* bias = map.rows + map.n_in * map.n_out;
    for (std::int64_t j = 0; j < map.n_out; ++j) {
        layer.forms[j] = 0.0;
        layer.forms[map.n_out + j] = bias[j];
    }
}

inline Ratio end_of_part(const IntegerLayer& layer) {
    return layer.n_passed < layer.n_zeros ? layer.zeros[layer.n_passed].at : layer.right;
}

struct PieceChanges {
    std::int64_t* groups;
    std::uint8_t* winners;
    std::int64_t n;

    void add(std::int64_t group, bool is_on) {
        groups[n] = group;
        winners[n++] = is_on;
    }
};

// Find the units of a layer that are on from s.left on, and the points up to an end where units
// change.
inline void enter(IntegerLine& s, std::int64_t l, const Ratio& right, std::int64_t first_unit,
                  PieceChanges& changes) {
    IntegerLayer& layer = s.layers[l];
    const std::int64_t width = s.maps[l].n_out;
    layer.right = right;
    layer.n_zeros = layer.n_passed = 0;
    for (std::int64_t j = 0; j < width; ++j) {
        const std::int64_t m = static_cast<std::int64_t>(layer.forms[j] * layer.to_integer);
        const std::int64_t c = static_cast<std::int64_t>(layer.forms[width + j] * layer.to_integer);
        const int before = sign_beside(m, c, s.left, 1), after = sign_beside(m, c, right, -1);
        const bool is_on = before > 0;
        if (is_on != (layer.is_on[j] != 0)) {
            changes.add(first_unit + j, is_on);
            layer.is_on[j] = is_on;
        }
        if (before == after) continue;
        const Ratio zero = m > 0 ? Ratio{-c, m} : Ratio{c, -m};
        layer.zeros[layer.n_zeros++] = {zero, j};
    }
    sort(layer.zeros, layer.n_zeros, is_before);
}

// Enter all layers from one on, whose forms are already computed.
inline std::int64_t enter_from(IntegerLine& s, std::int64_t first, Ratio right,
                               std::int64_t first_unit, PieceChanges& changes) {
    std::int64_t n_signs = 0;
    for (std::int64_t l = first; l < s.n_layers; ++l) {
        const NormedMap& map = s.maps[l];
        if (l > first) {
            const IntegerLayer& before = s.layers[l - 1];
            clear_forms(map, s.layers[l]);
            for (std::int64_t j = 0; j < map.n_in; ++j)
                if (before.is_on[j]) add_unit(before, s.maps[l - 1], j, map, s.layers[l], 1.0);
        }
        enter(s, l, right, first_unit, changes);
        right = end_of_part(s.layers[l]);
        first_unit += map.n_out;
        n_signs += map.n_out;
    }
    return n_signs;
}

// The layer that determines the end of the current cell; -1 at the end of the domain.
inline std::int64_t next_layer(const IntegerLine& s) {
    std::int64_t l = s.n_layers - 1;
    while (l >= 0 && s.layers[l].n_passed == s.layers[l].n_zeros) --l;
    return l;
}

// Move on to the next cell.
inline std::int64_t cross(IntegerLine& s, std::int64_t l, PieceChanges& changes) {
    IntegerLayer& layer = s.layers[l];
    const ExactZero first = layer.zeros[layer.n_passed];
    std::int64_t first_unit = 0;
    for (std::int64_t k = 0; k < l; ++k) first_unit += s.maps[k].n_out;
    s.left = first.at;
    do {
        const std::int64_t unit = layer.zeros[layer.n_passed++].unit;
        layer.is_on[unit] ^= 1;
        changes.add(first_unit + unit, layer.is_on[unit]);
        if (l + 1 < s.n_layers)
            add_unit(layer, s.maps[l], unit, s.maps[l + 1], s.layers[l + 1],
                     layer.is_on[unit] ? 1.0 : -1.0);
    } while (layer.n_passed < layer.n_zeros &&
             WideInteger{layer.zeros[layer.n_passed].at.p} * first.at.q ==
                 WideInteger{first.at.p} * layer.zeros[layer.n_passed].at.q);
    return enter_from(s, l + 1, end_of_part(layer), first_unit + s.maps[l].n_out, changes);
}

// Write a point, rounded and with its radius, and its name: the first unit that changes there.
inline void write_end(const Ratio& at, const PointName& name, std::int64_t i,
                      hm_line_pieces& pieces) {
    pieces.ratios[2 * i] = at.p;
    pieces.ratios[2 * i + 1] = at.q;
    pieces.names[3 * i] = name.layer;
    pieces.names[3 * i + 1] = name.before;
    pieces.names[3 * i + 2] = name.after;
    const double p = static_cast<double>(at.p), q = static_cast<double>(at.q), where = p / q;
    const Doubled product = two_product(where, q);
    const bool is_exact = at.q == 0 || (product.high == p && product.low == 0.0);
    pieces.where[i] = where;
    pieces.radii[i] = is_exact ? 0.0 : magnitude(where) * 0x1p-52 + kTiny;
}

inline PointName name_of_end(const IntegerLine& s, std::int64_t l) {
    if (l < 0) return {-1, -1, -1};
    const std::int64_t unit = s.layers[l].zeros[s.layers[l].n_passed].unit;
    const bool is_on = s.layers[l].is_on[unit] != 0;
    return {l, 2 * unit + is_on, 2 * unit + !is_on};
}

}  // namespace detail

// Begin with the stream before the first layer: slopes and offsets (2, n_in), or the values at 0
// and at 1. Returns false if the computation might round.
inline bool begin_integers(IntegerLine& s, const double* stream, bool are_ends,
                           const Ratio* outer) {
    const NormedMap& first = s.maps[0];
    const std::int64_t n_in = first.n_in;
    constexpr int coarsest = 900;
    int grid = coarsest;
    double size = 0.0;
    for (std::int64_t k = 0; k < 2 * n_in; ++k) {
        grid = grid_of(stream[k], grid);
        size = larger(size, magnitude(stream[k]));
    }
    // A difference of two values is on their grid.
    if (are_ends) size *= 2.0;
    const auto fits = [&] { return grid >= kFinestGrid && size <= 0x1p53 * power_of_two(grid); };
    if (!fits()) return false;
    for (std::int64_t l = 0; l < s.n_layers; ++l) {
        const NormedMap& map = s.maps[l];
        grid = least(least(grid + static_cast<int>(map.grid), static_cast<int>(map.bias_grid)),
                     coarsest);
        size = (size * map.column_sum + map.bias_most) * kRaise;
        if (!fits()) return false;
        s.layers[l].to_integer = power_of_two(-grid);
        for (std::int64_t j = 0; j < map.n_out; ++j) s.layers[l].is_on[j] = 0;
    }
    IntegerLayer& layer = s.layers[0];
    detail::clear_forms(first, layer);
    for (std::int64_t k = 0; k < n_in; ++k) {
        const double* weight = first.rows + k * first.n_out;
        const double offset = stream[are_ends ? k : n_in + k];
        const double slope = are_ends ? stream[n_in + k] - offset : stream[k];
        for (std::int64_t j = 0; j < first.n_out; ++j) {
            layer.forms[j] += slope * weight[j];
            layer.forms[first.n_out + j] += offset * weight[j];
        }
    }
    s.left = outer[0];
    layer.right = outer[1];
    s.has_begun = s.is_done = false;
    return true;
}

// Write the next cells: see `hm_line_pieces`.
inline void run_integers(IntegerLine& s, hm_line_pieces& pieces) {
    detail::PieceChanges changes = {pieces.groups, pieces.winners, 0};
    std::int64_t n = 0, end_layer = s.has_begun ? detail::next_layer(s) : -1;
    pieces.n_signs = 0;
    for (; n < pieces.most_cells && changes.n + s.n_units <= pieces.most_changes; ++n) {
        PointName name = {-1, -1, -1};
        if (!s.has_begun) {
            pieces.n_signs += detail::enter_from(s, 0, s.layers[0].right, 0, changes);
            s.has_begun = true;
        } else {
            name = detail::name_of_end(s, end_layer);
            pieces.n_signs += detail::cross(s, end_layer, changes);
        }
        detail::write_end(s.left, name, n, pieces);
        if (n == 0) {
            changes.n = 0;
            std::uint8_t* to = pieces.signature;
            for (std::int64_t l = 0; l < s.n_layers; ++l)
                for (std::int64_t j = 0; j < s.maps[l].n_out; ++j) *to++ = s.layers[l].is_on[j];
            pieces.starts[0] = 0;
        }
        pieces.starts[n + 1] = changes.n;
        end_layer = detail::next_layer(s);
        s.is_done = end_layer < 0;
        if (s.is_done) {
            ++n;
            break;
        }
    }
    const Ratio end = s.is_done ? s.layers[0].right : detail::end_of_part(s.layers[end_layer]);
    detail::write_end(end, detail::name_of_end(s, end_layer), n, pieces);
    pieces.n_cells = n;
    pieces.n_changes = changes.n;
    pieces.is_done = s.is_done;
}

}  // namespace hardmax
