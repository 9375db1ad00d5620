// The forms on the path in twice the precision.
//
// Radii grow with every layer by a factor of about half the sum of a unit's absolute weights, so
// that after one or two dozen layers they are too large to be useful. If a sign is undecided, the
// forms are composed again with coefficients of two floats each, high + low with |low| <= u |high|.
// A composition z = b + sum_j w_j (h_j + l_j) of n forms is summed in h with all errors kept: w_j
// h_j = p_j + t_j and h + p_j = h' + s_j exactly, and the floats t_j + w_j l_j + s_j are summed
// separately. With S = |b| + sum_j |w_j h_j|, the sum of their absolute values is below (n + 2)(1 +
// gamma_n) u S, and each is rounded at most n + 3 times. So up to underflow
//
//     e = (1 + 2^-30) (sum_j |w_j| (e_j + kappa mu_j) + kappa |b|) + X T,  kappa = 2 (n + 4)^2 u^2,
//
// with mu_j as in `forms.hpp` ([ORO05], algorithm 5.3 and proposition 5.5).
#pragma once
#include "arithmetic.hpp"
#include "path.hpp"

namespace hardmax {

template <int D>
struct DoubledForms {
    Forms<D> high;  // its radii apply to high + low
    double* low[D + 1];
};

template <int D>
struct DoubledPath {
    DoubledForms<D>* streams;  // (n_layers + 1); the first must be given
    DoubledForms<D>* scores;   // (n_layers)
    DoubledForms<D> scratch;
};

template <int D>
DoubledForms<D> take_doubled(Arena& arena, int n) {
    DoubledForms<D> forms;
    forms.high = take_forms<D>(arena, n);
    for (double*& row : forms.low) row = arena.take<double>(n);
    return forms;
}

template <int D>
DoubledPath<D> take_doubled_path(const Network& network, Arena& arena) {
    DoubledPath<D> doubled;
    doubled.streams = arena.take<DoubledForms<D>>(network.n_layers + 1);
    doubled.scores = arena.take<DoubledForms<D>>(network.n_layers);
    for (int l = 0; l <= network.n_layers; l++) {
        const DoubledForms<D> stream = take_doubled<D>(arena, network.most_rows);
        if (doubled.streams) doubled.streams[l] = stream;
        if (l == network.n_layers) break;
        const int n = padded(network.layers ? network.layers[l].n_scores() : 0);
        const DoubledForms<D> scores = take_doubled<D>(arena, n);
        if (doubled.scores) doubled.scores[l] = scores;
    }
    doubled.scratch = take_doubled<D>(arena, network.most_rows);
    return doubled;
}

constexpr double kDoubledUp = 1.0 + 0x1p-30;

namespace detail {

// Normalize a form so that its high parts are the nearest floats. Return 0, or NaN if there was an
// overflow.
template <int D>
double renormalise(const DoubledForms<D>& z, int i) {
    double spoiled = 0.0;
    for (int k = 0; k <= D; k++) {
        const Doubled sum = two_sum(z.high.coefficient[k][i], z.low[k][i]);
        z.high.coefficient[k][i] = sum.high;
        z.low[k][i] = sum.low;
        spoiled += sum.low - sum.low;
    }
    return spoiled;
}

template <int D>
void clear(const DoubledForms<D>& z, int n) {
    for (int k = 0; k <= D; k++)
        for (int i = 0; i < n; i++) z.high.coefficient[k][i] = z.low[k][i] = 0.0;
    for (int i = 0; i < n; i++) z.high.radius[i] = 0.0;
}

template <int D>
void copy_form(const DoubledForms<D>& from, int j, const DoubledForms<D>& to, int i) {
    for (int k = 0; k <= D; k++) {
        to.high.coefficient[k][i] = from.high.coefficient[k][j];
        to.low[k][i] = from.low[k][j];
    }
    to.high.radius[i] = from.high.radius[j];
}

template <int D>
void compose(const DoubledForms<D>& h, const Affine& map, double scale, const DoubledForms<D>& z) {
    const double kappa = 2.0 * (map.n_in + 4.0) * (map.n_in + 4.0) * kU * kU;
    const int n = map.stride;
    clear(z, n);
    for (int i = 0; i < n; i++) z.high.coefficient[D][i] = map.bias[i];
    for (int j = 0; j < map.n_in; j++) {
        const double size = size_of(h.high, j, scale), error = h.high.radius[j];
        if (size == 0.0 && error == 0.0) continue;
        const double* weight = map.weight + std::size_t(j) * map.stride;
        for (int k = 0; k <= D; k++) {
            const double high = h.high.coefficient[k][j], low = h.low[k][j];
            double *to = z.high.coefficient[k], *rest = z.low[k];
            for (int i = 0; i < n; i++) {
                const Doubled product = two_product(weight[i], high),
                              sum = two_sum(to[i], product.high);
                to[i] = sum.high;
                rest[i] += sum.low + (product.low + weight[i] * low);
            }
        }
        // At least 2^-900, so that no share is lost in a product.
        const double share = error + kappa * size + 0x1p-900;
        for (int i = 0; i < n; i++) z.high.radius[i] += magnitude(weight[i]) * share;
    }
    for (int i = 0; i < map.n_out; i++) {
        const double error = (z.high.radius[i] + kappa * magnitude(map.bias[i])) * kDoubledUp;
        z.high.radius[i] = error + kTiny * scale + renormalise(z, i);
    }
}

// Add a form times a gain, known up to a radius, to another form. Low parts and errors, at most 2 u
// |h| for each form and 2 u times both for their sum, are rounded at most 4 times.
template <int D>
void add_form(const DoubledForms<D>& to, int i, const DoubledForms<D>& from, int j, double gain,
              double gain_radius, double scale) {
    const double size = size_of(from.high, j, scale), radius = from.high.radius[j];
    double error = magnitude(gain) * radius + gain_radius * (size * kDoubledUp + radius);
    error += 32.0 * kU * kU * (magnitude(gain) * size + size_of(to.high, i, scale));
    for (int k = 0; k <= D; k++) {
        const Doubled product = two_product(gain, from.high.coefficient[k][j]);
        const Doubled sum = two_sum(to.high.coefficient[k][i], product.high);
        to.high.coefficient[k][i] = sum.high;
        to.low[k][i] += sum.low + (product.low + gain * from.low[k][j]);
    }
    error = (to.high.radius[i] + error) * kDoubledUp + kTiny * scale;
    to.high.radius[i] = error + renormalise(to, i);
}

// Add a constant, known up to a radius, to a form.
template <int D>
void add_value(const DoubledForms<D>& to, int i, double value, double value_radius) {
    const double before = to.high.coefficient[D][i];
    const Doubled sum = two_sum(before, value);
    to.high.coefficient[D][i] = sum.high;
    to.low[D][i] += sum.low;
    const double error = value_radius + 8.0 * kU * kU * (magnitude(before) + magnitude(value));
    const double radius = (to.high.radius[i] + error) * kDoubledUp + kTiny;
    to.high.radius[i] = radius + renormalise(to, i);
}

template <int D>
void compose_doubled_scores(const Path<D>& path, DoubledPath<D>& doubled, int l) {
    const Layer& layer = path.network->layers[l];
    const DoubledForms<D>& query = layer.is_relu ? doubled.scores[l] : doubled.scratch;
    if (layer.query.is_identity) {
        for (int i = 0; i < layer.n_query; i++) copy_form(doubled.streams[l], i, query, i);
    } else {
        compose(doubled.streams[l], layer.query, path.scale, query);
    }
    if (!layer.is_relu) compose(query, layer.forms, path.scale, doubled.scores[l]);
}

template <int D>
void compose_doubled_stream(const Path<D>& path, DoubledPath<D>& doubled, int after) {
    const Layer& layer = path.network->layers[after - 1];
    const Frame<D>& frame = path.frames[after - 1];
    const DoubledForms<D>& scores = doubled.scores[after - 1];
    const DoubledForms<D>& y = layer.output.is_identity ? doubled.streams[after] : doubled.scratch;
    const double* gains = frame.is_merged ? frame.merged.gains : layer.gains;
    const double* gain_radii = frame.is_merged ? frame.merged.gain_radii : layer.gain_radii;
    const double* values = frame.is_merged ? frame.merged.values : layer.values;
    const double* value_radii = frame.is_merged ? frame.merged.value_radii : layer.value_radii;
    clear(y, layer.n_y);
    for (int g = 0; g < layer.n_groups; g++) {
        const int winner = path.signature[layer.first_group + g];
        if (layer.is_relu) {
            if (winner == 1) copy_form(scores, g, y, g);
            continue;
        }
        const int j = layer.starts[g] + winner, slot = layer.slots[g];
        if (gains[j] != 0.0 || gain_radii[j] != 0.0)
            add_form(y, slot, scores, j, gains[j], gain_radii[j], path.scale);
        for (int k = 0; k < layer.width; k++) {
            const std::size_t v = std::size_t(j) * layer.width + k;
            add_value(y, slot + k, values[v], value_radii[v]);
        }
    }
    if (!layer.output.is_identity) compose(y, layer.output, path.scale, doubled.streams[after]);
    if (layer.residual) {
        for (int i = 0; i < layer.dim_out; i++)
            add_form(doubled.streams[after], i, doubled.streams[after - 1], i, 1.0, 0.0,
                     path.scale);
    }
}

// Replace the forms that are known more precisely in twice the precision.
template <int D>
void replace(const DoubledForms<D>& doubled, const Forms<D>& forms, int n, double scale) {
    for (int i = 0; i < n; i++) {
        double rest = magnitude(doubled.low[D][i]);
        for (int k = 0; k < D; k++) rest = larger(rest, scale * magnitude(doubled.low[k][i]));
        const double radius = (rest + doubled.high.radius[i]) * kDoubledUp;
        if (radius < forms.radius[i]) {
            for (int k = 0; k <= D; k++) forms.coefficient[k][i] = doubled.high.coefficient[k][i];
            forms.radius[i] = radius;
        }
    }
}

}  // namespace detail

// Compose the doubled forms on the path up to the scores of a layer, as far as they are not known
// yet. Return whether there was anything to do.
template <int D>
bool compose_doubled(Path<D>& path, DoubledPath<D>& doubled, int layer) {
    bool is_known = true;
    for (int l = 0; l <= layer; l++) {
        Frame<D>& frame = path.frames[l];
        is_known = is_known && frame.doubled_version == frame.version;
        if (is_known) continue;
        if (l > 0) detail::compose_doubled_stream(path, doubled, l);
        detail::compose_doubled_scores(path, doubled, l);
        frame.doubled_version = frame.version;
        // Forms that are exact floats are kept.
        const DoubledForms<D>& scores = doubled.scores[l];
        for (int i = 0; i < path.network->layers[l].n_scores(); i++) {
            if (frame.scores.radius[i] != 0.0) continue;
            for (int k = 0; k <= D; k++) {
                scores.high.coefficient[k][i] = frame.scores.coefficient[k][i];
                scores.low[k][i] = 0.0;
            }
            scores.high.radius[i] = 0.0;
        }
    }
    return !is_known;
}

// Replace the forms on the path, up to the scores of a layer, by the nearest floats. Return whether
// there was anything to do.
template <int D>
bool improve_path(Path<D>& path, DoubledPath<D>& doubled, int layer) {
    compose_doubled(path, doubled, layer);
    bool is_changed = false;
    for (int l = 0; l <= layer; l++) {
        const Layer& now = path.network->layers[l];
        Frame<D>& frame = path.frames[l];
        if (!is_changed && frame.improved_version == frame.version) continue;
        is_changed = true;
        frame.improved_version = frame.version;
        detail::replace(doubled.scores[l], frame.scores, now.n_scores(), path.scale);
        // Only a residual layer passes on its stream; in the other layers, the scores already
        // include it.
        if (now.residual) detail::replace(doubled.streams[l], frame.stream, now.dim_in, path.scale);
        frame.is_pure = frame.has_rows = false;
        path.frames[l + 1].anchor_version = -1;
    }
    return is_changed;
}

}  // namespace hardmax
