// Who wins at points: a network evaluated at four points at a time, every number with a radius.
//
// An affine map z = b + sum_j w_j h_j of numbers h_j known up to r_j is summed up in ascending order.
// With kappa = 2 (n + 8) u, more than what rounding takes from any product or bound,
//
//     |z - z*| <= (1 + kappa) (sum_j |w_j| (r_j + kappa |h_j|) + kappa |b|) + T,
//
// T for all underflow ([Higham02], section 3.1). A radius is 0 only where nothing but zeros without
// error is added to a constant: then the number is the same on the whole cell, unless a coordinate
// of the point is 0. So forms that tie without error are taken for forms that coincide, and the
// first wins; points with a coordinate 0 are left open there.
//
// A winner is accepted if it leads every other form by more than both radii. What is not finite is
// left open: a sum that overflowed does not become finite again.
#pragma once
#include "network.hpp"

namespace hardmax {

// Numbers with radii at four points, side by side.
struct Enclosures {
    Lanes* value;
    Lanes* radius;
};

struct Points {
    const Network* network;
    Affine embedding;
    Enclosures stream, query, scores, y, out;
    Lanes* share;  // scratch of `apply`
    Lanes* coordinates;
    LaneBits* winners;  // (n_groups)
};

inline Enclosures take_enclosures(Arena& arena, int n) {
    return {arena.take<Lanes>(n), arena.take<Lanes>(n)};
}

inline Points take_points(const Network& network, Packed embedding, int dim, bool is_identity,
                          Arena& arena) {
    Points points;
    points.network = &network;
    points.embedding = detail::read_affine(embedding, arena, dim, network.dim_stream, is_identity);
    const int n = most(network.most_rows, padded(dim));
    points.stream = take_enclosures(arena, n), points.query = take_enclosures(arena, n);
    points.scores = take_enclosures(arena, n), points.y = take_enclosures(arena, n);
    points.out = take_enclosures(arena, n);
    points.share = arena.take<Lanes>(n);
    points.coordinates = arena.take<Lanes>(dim);
    points.winners = arena.take<LaneBits>(network.n_groups);
    return points;
}

namespace detail {

inline LaneBits is_zero(Lanes x) { return x == all(0.0); }

// Write h W + b.
inline void apply(const Affine& map, const Enclosures& h, Lanes* share, const Enclosures& z) {
    const double kappa = 2.0 * (map.n_in + 8) * kU;
    for (int j = 0; j < map.n_in; j++) {
        const LaneBits is_nothing = is_zero(h.value[j]) & is_zero(h.radius[j]);
        // Not below 2^-900, so that no share is lost in a product with a tame weight.
        const Lanes some = h.radius[j] + all(kappa) * absolute(h.value[j]) + all(0x1p-900);
        share[j] = choose(is_nothing, all(0.0), some);
    }
    constexpr int tile = 4;
    for (int i = 0; i < map.stride; i += tile) {
        Lanes sum[tile], spread[tile];
        for (int c = 0; c < tile; c++) sum[c] = all(map.bias[i + c]), spread[c] = all(0.0);
        const double* weight = map.weight + i;
        for (int j = 0; j < map.n_in; j++, weight += map.stride) {
            const Lanes value = h.value[j], part = share[j];
            for (int c = 0; c < tile; c++) {
                sum[c] += value * all(weight[c]);
                spread[c] += part * all(magnitude(weight[c]));
            }
        }
        for (int c = 0; c < tile; c++) {
            const double offset = kappa * magnitude(map.bias[i + c]);
            const Lanes radius = all(1.0 + kappa) * (spread[c] + all(offset)) + all(kTiny);
            z.value[i + c] = sum[c];
            z.radius[i + c] = map.is_tame ? choose(is_zero(spread[c]), all(0.0), radius) : radius;
        }
    }
}

// The rounding of a sum; of a number and 0 there is none. Never 0 otherwise, so that what cancels at
// a point is not taken for zero on its cell.
inline Lanes rounding(Lanes a, Lanes b) {
    const Lanes most = all(kKappa) * (absolute(a) + absolute(b)) + all(kTiny);
    return choose(is_zero(a) | is_zero(b), all(0.0), most);
}

// Note the winners of ReLU units, and pass them on.
inline void pass_units(const Layer& layer, const Enclosures& q, const Enclosures& y,
                       LaneBits* winner, LaneBits& open, LaneBits& tied) {
    for (int i = 0; i < layer.n_groups; i++) {
        const Lanes v = q.value[i], r = q.radius[i];
        const LaneBits on = v > r, off = v < -r, finite = absolute(v) < all(kInfinity);
        const LaneBits zero = is_zero(v) & is_zero(r);
        open |= ~((on | off | zero) & finite);
        tied |= zero;
        winner[i] = on & 1;
        y.value[i] = choose(on, v, all(0.0)), y.radius[i] = choose(on, r, all(0.0));
    }
}

// Note the winners of groups of forms.
inline void find_winners(const Layer& layer, const Enclosures& scores, LaneBits* winner,
                         LaneBits& open, LaneBits& tied) {
    for (int g = 0; g < layer.n_groups; g++) {
        const int first = layer.starts[g], end = layer.starts[g + 1];
        Lanes best = scores.value[first], radius = scores.radius[first];
        LaneBits who = LaneBits{} + first;
        for (int j = first + 1; j < end; j++) {
            if (layer.first[j] != j) continue;
            const LaneBits wins = scores.value[j] > best;
            best = choose(wins, scores.value[j], best);
            radius = choose(wins, scores.radius[j], radius);
            who = (wins & (LaneBits{} + j)) | (~wins & who);
        }
        LaneBits sure = absolute(best) < all(kInfinity);
        for (int j = first; j < end; j++) {
            if (layer.first[j] != j) continue;
            const LaneBits is_it = who == (LaneBits{} + j);
            const Lanes gap = best - scores.value[j], both = radius + scores.radius[j];
            const LaneBits equal = is_zero(gap) & is_zero(both);
            const LaneBits exceeds = (gap > both * all(kUp)) & (gap < all(kInfinity));
            sure &= is_it | exceeds | equal;
            tied |= equal & ~is_it;
        }
        // A group of one form has nothing to decide.
        open |= end - first > 1 ? ~sure : LaneBits{};
        winner[g] = who - first;
    }
}

// Add up what the winners contribute.
inline void add_contributions(const Layer& layer, const Enclosures& scores, const LaneBits* winner,
                              const Enclosures& y) {
    for (int i = 0; i < layer.n_y; i++) y.value[i] = y.radius[i] = all(0.0);
    const auto add = [&](int column, Lanes number, Lanes radius) {
        const Lanes before = y.value[column];
        y.value[column] = before + number;
        y.radius[column] = (y.radius[column] + radius + rounding(before, number)) * all(kUp);
    };
    for (int g = 0; g < layer.n_groups; g++) {
        int form[kLanes];
        bool has_gain = false;
        for (int p = 0; p < kLanes; p++) {
            form[p] = layer.starts[g] + static_cast<int>(winner[g][p]);
            has_gain = has_gain || layer.gains[form[p]] != 0.0 || layer.gain_radii[form[p]] != 0.0;
        }
        if (has_gain) {
            Lanes number, radius;
            for (int p = 0; p < kLanes; p++) {
                const double gain = layer.gains[form[p]], off = layer.gain_radii[form[p]];
                const double score = scores.value[form[p]][p], spread = scores.radius[form[p]][p];
                const double product = gain * score;
                number[p] = product;
                double error = magnitude(gain) * spread + off * (magnitude(score) + spread);
                if (gain != 1.0) error += 4.0 * kU * magnitude(product) + kTiny;
                radius[p] = gain == 0.0 && off == 0.0 ? 0.0 : error * kUp;
            }
            add(layer.slots[g], number, radius);
        }
        for (int k = 0; k < layer.width; k++) {
            Lanes number, radius;
            for (int p = 0; p < kLanes; p++) {
                const std::size_t v = std::size_t(form[p]) * layer.width + k;
                number[p] = layer.values[v], radius[p] = layer.value_radii[v];
            }
            add(layer.slots[g] + k, number, radius);
        }
    }
}

}  // namespace detail

// Find the winners at the four points with the given coordinates; return which are left open.
inline LaneBits find_winners(Points& points) {
    const Network& network = *points.network;
    LaneBits open{}, tied{}, has_zero{};
    Enclosures &stream = points.stream, &out = points.out;
    Enclosures& first = points.embedding.is_identity ? stream : points.query;
    for (int k = 0; k < points.embedding.n_in; k++) {
        first.value[k] = points.coordinates[k], first.radius[k] = all(0.0);
        has_zero |= detail::is_zero(points.coordinates[k]);
    }
    if (!points.embedding.is_identity) detail::apply(points.embedding, first, points.share, stream);
    for (int l = 0; l < network.n_layers; l++) {
        const Layer& layer = network.layers[l];
        LaneBits* winner = points.winners + layer.first_group;
        const Enclosures* query = &stream;
        if (!layer.query.is_identity) {
            detail::apply(layer.query, stream, points.share, points.query);
            query = &points.query;
        }
        if (layer.is_relu) {
            detail::pass_units(layer, *query, points.y, winner, open, tied);
        } else {
            detail::apply(layer.forms, *query, points.share, points.scores);
            detail::find_winners(layer, points.scores, winner, open, tied);
            detail::add_contributions(layer, points.scores, winner, points.y);
        }
        if (l + 1 == network.n_layers) break;
        const Enclosures* made = &points.y;
        if (!layer.output.is_identity) {
            detail::apply(layer.output, points.y, points.share, out);
            made = &out;
        }
        for (int i = 0; i < layer.dim_out; i++) {
            const Lanes before = stream.value[i], more = made->value[i];
            if (layer.residual) {
                stream.value[i] = before + more;
                stream.radius[i] =
                    (stream.radius[i] + made->radius[i] + detail::rounding(before, more)) *
                    all(kUp);
            } else {
                stream.value[i] = more, stream.radius[i] = made->radius[i];
            }
        }
    }
    return open | (tied & has_zero);
}

}  // namespace hardmax
