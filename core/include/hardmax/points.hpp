// The winners at points: a network evaluated at four points at a time, with a radius for every
// number.
//
// An affine map z = b + sum_j w_j h_j of numbers h_j known up to r_j is summed in ascending order.
// With kappa = 2 (n + 8) u, which exceeds the relative rounding error of any product or bound,
//
//     |z - z*| <= (1 + kappa) (sum_j |w_j| (r_j + kappa |h_j|) + kappa |b|) + T,
//
// where T bounds the total underflow ([Higham02], section 3.1). A radius is 0 only if nothing but
// exact zeros is added to a constant. Then the number is the same on the whole cell, unless a
// coordinate of the point is 0. Hence forms that tie exactly are treated as forms that coincide,
// and the first wins; at points with a coordinate 0, such ties are left open.
//
// A winner is accepted if it exceeds every other form by more than both radii. Non-finite values
// are left open: a sum that overflowed never becomes finite again.
//
// Radii cost as much work as the numbers. Therefore bounds on the numbers and their errors are
// computed first that hold at once for all points whose coordinates do not exceed some X, for any
// winners. They use the same formulas, with bounds in place of |h_j| and r_j. Winners that lead by
// more than these bounds need no radii of their own.
#pragma once
#include "network.hpp"

namespace hardmax {

// Numbers with radii at four points, side by side.
struct Enclosures {
    Lanes* value;
    Lanes* radius;
};

// Bounds on the magnitudes of computed numbers, and on their errors.
struct Sizes {
    double* most;
    double* error;
};

struct Points {
    const Network* network;
    Affine embedding;
    Enclosures stream, query, scores, y, out;
    Lanes* share;  // scratch of `apply`
    Lanes* coordinates;
    LaneBits* winners;  // (n_groups)
    bool has_no_gains;  // except for ReLU units, contributions are values without gains
    // Whether winners are first computed without radii, and how often this was tried and failed.
    bool is_quick;
    std::int64_t n_tried, n_vain;
    double* margins;  // (n_groups): the required lead of a unit or of a group's winner
    Sizes stream_sizes, query_sizes, score_sizes, y_sizes, out_sizes;
};

inline Enclosures take_enclosures(Arena& arena, int n) {
    return {arena.take<Lanes>(n), arena.take<Lanes>(n)};
}

inline Sizes take_sizes(Arena& arena, int n) {
    return {arena.take<double>(n), arena.take<double>(n)};
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
    points.margins = arena.take<double>(network.n_groups);
    points.stream_sizes = take_sizes(arena, n), points.query_sizes = take_sizes(arena, n);
    points.score_sizes = take_sizes(arena, n), points.y_sizes = take_sizes(arena, n);
    points.out_sizes = take_sizes(arena, n);
    points.is_quick = false;
    points.has_no_gains = true;
    for (int l = 0; l < network.n_layers; l++) {
        const Layer& layer = network.layers[l];
        for (int j = 0; !layer.is_relu && j < layer.n_forms; j++)
            points.has_no_gains = points.has_no_gains && layer.gains[j] == 0.0 &&
                                  layer.gain_radii[j] == 0.0;
    }
    return points;
}

namespace detail {

inline LaneBits is_zero(Lanes x) { return x == all(0.0); }

// Write h W + b.
inline void apply(const Affine& map, const Enclosures& h, Lanes* share, const Enclosures& z) {
    const double kappa = 2.0 * (map.n_in + 8) * kU;
    for (int j = 0; j < map.n_in; j++) {
        const LaneBits is_nothing = is_zero(h.value[j]) & is_zero(h.radius[j]);
        // At least 2^-900, so that no share is lost in a product with a tame weight.
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

// The rounding error of a sum; 0 for a number plus 0. It is never 0 otherwise, so that cancellation
// at one point is not mistaken for zero on the whole cell.
inline Lanes rounding(Lanes a, Lanes b) {
    const Lanes most = all(kKappa) * (absolute(a) + absolute(b)) + all(kTiny);
    return choose(is_zero(a) | is_zero(b), all(0.0), most);
}

// Record the winners of ReLU units, and pass on their outputs.
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

// Record the winners of groups of forms.
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
        // In a group of one form, there is nothing to decide.
        open |= end - first > 1 ? ~sure : LaneBits{};
        winner[g] = who - first;
    }
}

// Sum the contributions of the winners.
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

// Find the winners at the four current points. Return the points left open.
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

namespace detail {

// Bounds on h W + b.
inline void bound_map(const Affine& map, const Sizes& h, const Sizes& z) {
    const double kappa = 2.0 * (map.n_in + 8) * kU, grown = (1.0 + kappa) * (1.0 + kappa);
    for (int i = 0; i < map.n_out; i++) {
        double most = magnitude(map.bias[i]), error = kappa * most;
        for (int j = 0; j < map.n_in; j++) {
            const double weight = magnitude(map.weight[std::size_t(j) * map.stride + i]);
            most += weight * h.most[j];
            error += weight * (h.error[j] + kappa * h.most[j]);
        }
        z.most[i] = grown * most + kTiny, z.error[i] = grown * error + kTiny;
    }
}

// Bounds on a sum in which the second number has a radius in addition to its error.
inline void bound_sum(double& most, double& error, double more, double more_error) {
    error = (error + more_error + kKappa * (most + more) + kTiny) * kUp;
    most = (most + more) * kUp;
}

// Bounds on the contributions of groups, for any winners.
inline void bound_contributions(const Layer& layer, const Sizes& y) {
    for (int i = 0; i < layer.n_y; i++) y.most[i] = y.error[i] = 0.0;
    for (int g = 0; g < layer.n_groups; g++)
        for (int k = 0; k < layer.width; k++) {
            double more = 0.0, radius = 0.0;
            for (int j = layer.starts[g]; j < layer.starts[g + 1]; j++) {
                const std::size_t v = std::size_t(j) * layer.width + k;
                more = bound(more, magnitude(layer.values[v]));
                radius = bound(radius, layer.value_radii[v]);
            }
            bound_sum(y.most[layer.slots[g] + k], y.error[layer.slots[g] + k], more, radius);
        }
}

// Write h W + b without radii.
template <int tile>
void sum_columns(const Affine& map, const Lanes* h, int i, Lanes* z) {
    Lanes sum[tile];
    for (int c = 0; c < tile; c++) sum[c] = all(map.bias[i + c]);
    const double* weight = map.weight + i;
    for (int j = 0; j < map.n_in; j++, weight += map.stride)
        for (int c = 0; c < tile; c++) sum[c] += h[j] * all(weight[c]);
    for (int c = 0; c < tile; c++) z[i + c] = sum[c];
}
inline void apply(const Affine& map, const Lanes* h, Lanes* z) {
    int i = 0;
    for (; i + 4 <= map.n_out; i += 4) sum_columns<4>(map, h, i, z);
    for (; i + 2 <= map.n_out; i += 2) sum_columns<2>(map, h, i, z);
    if (i < map.n_out) sum_columns<1>(map, h, i, z);
}

// Record the winners of units and groups and their contributions, without radii. Return the points
// at which a lead is smaller than the margin.
inline LaneBits pass_units(const Layer& layer, const Lanes* q, const double* margins,
                           LaneBits* winner, Lanes* y) {
    LaneBits sure = ~LaneBits{};
    for (int i = 0; i < layer.n_groups; i++) {
        const LaneBits on = q[i] > all(0.0);
        sure &= absolute(q[i]) > all(margins[i]);
        winner[i] = on & 1;
        y[i] = (Lanes)(on & (LaneBits)q[i]);
    }
    return ~sure;
}
inline LaneBits find_winners(const Layer& layer, const Lanes* scores, const double* margins,
                             LaneBits* winner) {
    LaneBits sure = ~LaneBits{};
    for (int g = 0; g < layer.n_groups; g++) {
        const int first = layer.starts[g], end = layer.starts[g + 1];
        Lanes best = scores[first], second = all(-kInfinity);
        LaneBits who{};
        for (int j = first + 1; j < end; j++) {
            if (layer.first[j] != j) continue;
            const Lanes score = scores[j];
            const LaneBits wins = score > best;
            const Lanes lower = choose(wins, best, score);
            second = lower > second ? lower : second;
            best = choose(wins, score, best);
            who = (wins & (LaneBits{} + (j - first))) | (~wins & who);
        }
        sure &= best - second > all(margins[g]);
        winner[g] = who;
    }
    return ~sure;
}
inline void add_values(const Layer& layer, const LaneBits* winner, Lanes* y) {
    for (int i = 0; i < layer.n_y; i++) y[i] = all(0.0);
    for (int g = 0; g < layer.n_groups; g++) {
        const double* from[kLanes];
        for (int p = 0; p < kLanes; p++)
            from[p] = layer.values + (layer.starts[g] + winner[g][p]) * layer.width;
        for (int k = 0; k < layer.width; k++)
            y[layer.slots[g] + k] += Lanes{from[0][k], from[1][k], from[2][k], from[3][k]};
    }
}

// Find the winners at the four current points without radii. Return the points at which a lead is
// smaller than the margin.
inline LaneBits find_leaders(Points& points) {
    const Network& network = *points.network;
    LaneBits open{};
    Lanes *stream = points.stream.value, *query = points.query.value, *y = points.y.value;
    if (points.embedding.is_identity)
        for (int k = 0; k < points.embedding.n_in; k++) stream[k] = points.coordinates[k];
    else
        apply(points.embedding, points.coordinates, stream);
    for (int l = 0; l < network.n_layers; l++) {
        const Layer& layer = network.layers[l];
        LaneBits* winner = points.winners + layer.first_group;
        const double* margins = points.margins + layer.first_group;
        if (!layer.query.is_identity) apply(layer.query, stream, query);
        const Lanes* q = layer.query.is_identity ? stream : query;
        const bool is_last = l + 1 == network.n_layers;
        if (layer.is_relu) {
            open |= pass_units(layer, q, margins, winner, y);
        } else {
            apply(layer.forms, q, points.scores.value);
            open |= find_winners(layer, points.scores.value, margins, winner);
            if (!is_last) add_values(layer, winner, y);
        }
        if (is_last) break;
        if (!layer.output.is_identity) apply(layer.output, y, points.out.value);
        const Lanes* made = layer.output.is_identity ? y : points.out.value;
        for (int i = 0; i < layer.dim_out; i++)
            stream[i] = layer.residual ? stream[i] + made[i] : made[i];
    }
    return open;
}

}  // namespace detail

constexpr std::int64_t kFewPoints = 32;  // for fewer points, computing margins does not pay

// Compute the margins that hold at all points whose coordinates do not exceed `reach`, and use
// them.
inline void begin_points(Points& points, double reach) {
    const Network& network = *points.network;
    points.is_quick = points.has_no_gains;
    points.n_tried = points.n_vain = 0;
    if (!points.is_quick) return;
    const Sizes &stream = points.stream_sizes, &out = points.out_sizes;
    const Sizes& first = points.embedding.is_identity ? stream : points.query_sizes;
    for (int k = 0; k < points.embedding.n_in; k++) first.most[k] = reach, first.error[k] = 0.0;
    if (!points.embedding.is_identity) detail::bound_map(points.embedding, first, stream);
    for (int l = 0; l < network.n_layers; l++) {
        const Layer& layer = network.layers[l];
        double* margins = points.margins + layer.first_group;
        const Sizes* query = &stream;
        if (!layer.query.is_identity) {
            detail::bound_map(layer.query, stream, points.query_sizes);
            query = &points.query_sizes;
        }
        const Sizes* y = query;
        if (layer.is_relu) {
            for (int g = 0; g < layer.n_groups; g++) margins[g] = query->error[g];
        } else {
            detail::bound_map(layer.forms, *query, points.score_sizes);
            for (int g = 0; g < layer.n_groups; g++) {
                double error = 0.0;
                for (int j = layer.starts[g]; j < layer.starts[g + 1]; j++)
                    error = bound(error, points.score_sizes.error[j]);
                // In a group of one form, there is nothing to decide.
                margins[g] = layer.starts[g + 1] - layer.starts[g] > 1 ? 2.0 * error * kUp : 0.0;
            }
            detail::bound_contributions(layer, points.y_sizes);
            y = &points.y_sizes;
        }
        const Sizes* made = y;
        if (!layer.output.is_identity) {
            detail::bound_map(layer.output, *y, out);
            made = &out;
        }
        for (int i = 0; i < layer.dim_out; i++) {
            if (layer.residual)
                detail::bound_sum(stream.most[i], stream.error[i], made->most[i], made->error[i]);
            else
                stream.most[i] = made->most[i], stream.error[i] = made->error[i];
        }
    }
}

// Find the winners at the four current points, without radii if possible. Return the points left
// open.
inline LaneBits find_winners_quickly(Points& points) {
    constexpr std::int64_t least_tried = 64;
    if (!points.is_quick) return find_winners(points);
    const LaneBits open = detail::find_leaders(points);
    points.n_tried++;
    if ((open[0] | open[1] | open[2] | open[3]) == 0) return open;
    points.n_vain++;
    points.is_quick = points.n_tried < least_tried || 3 * points.n_vain < points.n_tried;
    return find_winners(points);
}

}  // namespace hardmax
