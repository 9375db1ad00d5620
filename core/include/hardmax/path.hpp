// The layers on the path of the search, with their forms on the region that is being split.
//
// A region of layer l is a set on which the winners of all layers before l are constant. Its stream
// and scores are composed once, and the search then splits the region by the groups of l. Since the
// search is depth first, one frame per layer is enough, and the winners on the path identify every
// line.
#pragma once
#include "forms.hpp"

namespace hardmax {

constexpr std::int64_t kNoRay = INT64_C(1) << 62;
constexpr std::int64_t kEveryRay = -(INT64_C(1) << 62);

// The contributions of a group's forms, with coinciding forms merged.
struct Merged {
    double* gains;  // (n_forms): means over coinciding forms
    double* gain_radii;
    double* values;  // (n_forms, width)
    double* value_radii;
    bool* has_coinciding;  // (n_forms): whether later forms coincide, in addition to those that
                           // coincide in the layer
};

// Number of forms of pending ReLU units in a window, one per bit of a word: see `units.hpp`.
constexpr int kWindow = 64;
template <int D>
struct Window {
    int index = -1;  // index of the window of pending units, or -1
    int n = 0;
    double* coefficient[D + 1];
    double *slope_radius, *offset_radius;
};

template <int D>
struct Frame {
    Forms<D> stream, scores;
    Exactness stream_exactness, scores_exactness;
    bool has_exact = true;     // whether the radius of any unit's score may be 0
    std::int64_t version = 0;  // increases with each region
    bool is_anchored = false;
    bool is_homogeneous = false;  // the scores have no offsets on the whole domain
    bool is_merged = false;       // `merged` replaces the contributions of the layer
    Merged merged;
    // Whether stream and scores depend only on the earlier winners, and were not replaced by more
    // precise forms.
    bool is_pure = true;
    int n_pending = 0;
    int* fixed;               // (n_groups): the winners, if known on the whole region
    std::uint64_t* on;        // for ReLU units instead: one bit per unit, set if it is on in the
                              // whole region
    bool is_written = false;  // whether the signature contains the fixed winners
    int* pending;             // the groups that are not fixed
    Window<D> window;         // of pending ReLU units
    int* candidates;          // for each group, from its first form on, the forms that may win
    int* n_candidates;        // (n_groups)
    bool* is_chain;           // (n_groups): on a line, whether they win one after the other: see `chains.hpp`
    // All lines of the layer are parallel to edges of layers from `ray_layer` on, and to edges of the
    // unit (ray_unit_layer, ray_unit); see `note_ray`.
    std::int64_t ray_layer = kNoRay;
    int ray_unit_layer = -1, ray_unit = -1;
    // The scores of units, one row per unit (n_groups, kLanes): coefficients, then the share of the
    // radius. Rows are filled on request, after the scores were written.
    double* rows;
    bool has_rows = false;
    int n_varying = D;  // number of forms before the layer that vary, at least D: see `varying.hpp`
    std::int64_t doubled_version = -1;   // the region for which doubled forms are known
    std::int64_t improved_version = -1;  // the region on which doubled forms replaced the forms
    // Scores for the typical winners of the preceding plain layer. The scores of a region differ
    // from them in few terms: see `score_near_anchor`.
    Forms<D> anchor;
    Exactness anchor_made;
    std::int64_t anchor_version = -1;  // the region of the preceding layer that the anchor belongs
                                       // to
    std::int8_t* typical;              // (n_groups): the typical winners of this layer
};

constexpr int kLeastAnchored = 24;  // measured: narrower layers are composed afresh

// Whether the scores of a layer are computed from the scores for typical winners. If some weights
// are zero or small, subtracting a form may leave only rounding errors.
inline bool is_anchored(const Network& network, int l) {
    const Layer& layer = network.layers[l];
    return l > 0 && network.layers[l - 1].is_plain && layer.has_one_weight() &&
           layer.scored_by().is_dense && layer.dim_in >= kLeastAnchored;
}

template <int D>
struct Path {
    const Network* network;
    double scale;      // the X of `forms.hpp`
    Frame<D>* frames;  // (n_layers + 1); the last contains the stream before the readout
    int* signature;    // (n_groups + 8): the winners of the completed layers, then zeros
    Forms<D> query;    // scratch: a query, or sums of contributions
    Forms<D> output;   // scratch
    Terms<D> terms;
    int *passed, *changed;  // scratch
};

template <int D>
Path<D> take_path(const Network& network, Arena& arena) {
    Path<D> path;
    path.network = &network;
    path.frames = arena.take<Frame<D>>(network.n_layers + 1);
    for (int l = 0; l <= network.n_layers; l++) {
        Frame<D> frame;
        const bool is_layer = l < network.n_layers;
        const int rows = network.most_rows;
        frame.stream = take_forms<D>(arena, rows);
        if (is_layer) {
            const Layer& layer = network.layers[l];
            const std::size_t n = layer.is_relu ? 0 : layer.n_forms;
            frame.scores = take_forms<D>(arena, padded(layer.n_scores()) + kLanes);
            const bool has_rows = layer.is_relu && D + 2 <= kLanes;
            frame.rows = arena.take<double>(has_rows ? kLanes * padded(layer.n_groups) : 0);
            frame.fixed = arena.take<int>(layer.is_relu ? 0 : layer.n_groups);
            frame.on = arena.take<std::uint64_t>(layer.is_relu ? layer.n_groups / kWindow + 1 : 0);
            const int n_window = layer.is_relu ? padded(least(kWindow, layer.n_groups)) : 0;
            for (double*& row : frame.window.coefficient) row = arena.take<double>(n_window);
            frame.window.slope_radius = arena.take<double>(n_window);
            frame.window.offset_radius = arena.take<double>(n_window);
            frame.pending = arena.take<int>(layer.n_groups + kLanes);
            frame.is_anchored = is_anchored(network, l);
            frame.typical = arena.take<std::int8_t>(layer.n_groups);
            frame.anchor = take_forms<D>(arena, frame.is_anchored ? padded(layer.n_scores()) : 0);
            frame.candidates = arena.take<int>(n);
            frame.n_candidates = arena.take<int>(n ? layer.n_groups : 0);
            frame.is_chain = arena.take<bool>(n && D == 1 ? layer.n_groups : 0);
            frame.merged.gains = arena.take<double>(n);
            frame.merged.gain_radii = arena.take<double>(n);
            frame.merged.values = arena.take<double>(n * layer.width);
            frame.merged.value_radii = arena.take<double>(n * layer.width);
            frame.merged.has_coinciding = arena.take<bool>(n);
        }
        if (path.frames) path.frames[l] = frame;
    }
    path.signature = arena.take<int>(network.n_groups + 8);
    path.query = take_forms<D>(arena, network.most_rows);
    path.output = take_forms<D>(arena, network.most_rows);
    path.terms = take_terms<D>(arena, network.most_rows + 1);
    path.passed = arena.take<int>(network.most_rows + 1);
    path.changed = arena.take<int>(network.most_rows + 1);
    return path;
}

// Determine the layers whose forms have no offsets: every earlier layer maps zero to zero.
template <int D>
void note_homogeneous(Path<D>& path) {
    const Network& network = *path.network;
    const Forms<D>& stream = path.frames[0].stream;
    bool is_linear = true;
    for (int i = 0; i < network.dim_stream; i++)
        is_linear = is_linear && stream.coefficient[D][i] == 0.0 && stream.radius[i] == 0.0;
    for (int l = 0; l < network.n_layers; l++) {
        is_linear = is_linear && network.layers[l].has_no_offsets;
        path.frames[l].is_homogeneous = is_linear;
        is_linear = is_linear && network.layers[l].keeps_zero;
    }
}

// Compose the outputs of the units listed in the terms with a map, and write the resulting scores.
// Either all scores are exact, or all are rounded.
template <int D>
Exactness compose_units_on(Path<D>& path, int l, const Affine& map, const Forms<D>& to) {
    const Frame<D>& frame = path.frames[l];
    const Forms<D>& scores = frame.scores;
    Terms<D>& terms = path.terms;
    const bool is_exact = frame.scores_exactness.is_exact;
    Summing summing{is_exact, is_exact, path.scale, kappa_of(map.n_in)};
    write_shares(scores, path.network->layers[l].n_groups, summing, terms.share);
    CoordinatesSeen coordinates;
    for (int r = 0; summing.is_copy && r < terms.n; r++) {
        const int i = terms.row[r];
        summing.is_copy = terms.share[i] == 0.0 || coordinates.is_new(scores, i);
    }
    const ListedTerms<D> listed{terms.n, scores.coefficient, terms.share, terms.row};
    return compose_terms(listed, summing, frame.scores_exactness.grid, map, to);
}

constexpr int kFewOutputs = 3;

// The same for maps with few outputs, if all scores are rounded. The vector lanes contain the
// numbers of one form instead of several outputs, and are summed in the same order.
template <int D>
Exactness compose_few_outputs(Path<D>& path, int l, const Affine& map, const Forms<D>& to) {
    Frame<D>& frame = path.frames[l];
    const double kappa = kappa_of(map.n_in);
    if (!frame.has_rows) {
        const Summing summing{false, false, path.scale, kappa};
        for (int g = 0; g < path.network->layers[l].n_groups; g++) {
            double* row = frame.rows + kLanes * g;
            for (int k = 0; k <= D; k++) row[k] = frame.scores.coefficient[k][g];
            row[D + 1] =
                summing.share(frame.scores.radius[g], size_of(frame.scores, g, path.scale));
        }
        frame.has_rows = true;
    }
    LaneBits signs = LaneBits{} - 1;
    signs[D + 1] = INT64_MAX;  // the radius is summed with absolute weights
    for (double* column : to.coefficient) store(column, all(0.0));
    store(to.radius, all(0.0));
    for (int i = 0; i < map.n_out; i++) {
        Lanes sum = all(0.0);
        sum[D] = map.bias[i];
        for (int begin = 0; begin < path.terms.n; begin += kRun) {
            const int end = least(begin + kRun, path.terms.n);
            Lanes run = all(0.0);
            for (int r = begin; r < end; r++) {
                const std::size_t g = path.terms.row[r];
                const Lanes weight = (Lanes)((LaneBits)all(map.weight[g * map.stride + i]) & signs);
                run += load(frame.rows + kLanes * g) * weight;
            }
            sum += run;
        }
        for (int k = 0; k <= D; k++) to.coefficient[k][i] = sum[k];
        const double share = sum[D + 1];
        to.radius[i] = share != 0.0 || !map.is_tame
                           ? (1.0 + kappa) * (share + kappa * magnitude(map.bias[i])) +
                                 kTiny * path.scale
                           : 0.0;
    }
    return {false, map.bias_grid};
}

// Write the composition of a map with the units of a plain layer that has the given winners.
template <int D, class Winner>
Exactness compose_passed_on(Path<D>& path, int l, const Winner* winners, const Affine& map,
                            const Forms<D>& to) {
    const Layer& layer = path.network->layers[l];
    const Frame<D>& frame = path.frames[l];
    int *row = path.terms.row, *form = layer.is_relu ? row : path.passed, n = 0;
    for (int g = 0; layer.is_relu && g < layer.n_groups; g++) {
        row[n] = g;
        n += winners[g];
    }
    const bool is_exact = frame.scores_exactness.is_exact;
    if (layer.is_relu && n > 0 && (is_exact || !frame.has_exact)) {
        path.terms.n = n;
        if constexpr (D + 2 <= kLanes)
            if (!is_exact && map.n_out <= kFewOutputs) return compose_few_outputs(path, l, map, to);
        return compose_units_on(path, l, map, to);
    }
    for (int g = 0; !layer.is_relu && g < layer.n_groups; g++, n++)
        row[n] = g, form[n] = layer.starts[g] + winners[g];
    int n_rounded = 0;
    for (int r = 0; r < n; r++)
        n_rounded += frame.scores.radius[form[r]] != 0.0;  // also true for NaN
    Gathering<D> gathered(path.terms, n_rounded == 0, path.scale, map.n_in);
    for (int r = 0; r < n; r++) gathered.add(frame.scores, form[r], row[r]);
    return compose_terms(path.terms, gathered.summing, frame.scores_exactness.grid, map, to);
}

// The winners of a layer on the path.
template <int D>
const int* winners_of(const Path<D>& path, int l) {
    return path.signature + path.network->layers[l].first_group;
}

// Write the scores of an anchored layer: the scores for the typical winners of the preceding layer,
// plus the changes due to the few winners that differ.
//
// Let z be the scores, of radius r, and let m forms change: a form delta_j is added, with radius
// e_j, or removed. Then z' = fl(z + sum_j w_ij delta_j) has the radius
//
//     r' = (1 + 4 kappa) (r + sum_j |w_ij| (e_j + |lambda_j| + kappa mu(delta_j)) + (s + 1/2) u mu(z')) + X T,
//
// where e_j counts only for added forms (the error of a removed form is removed with it), lambda_j
// is the rounding error of a difference of two forms, s = ceil(m / kRun) sums round z, and kappa =
// 2 (s + min(m, kRun) + 4) u. Proof: the rounding error is at most gamma_s |z| + gamma_{s + kRun +
// 1} sum_j |w_ij delta_j|, and |z| is at most |z'| + sum_j |w_ij delta_j|. On a grid, nothing is
// rounded as long as mu(z) + sum_j |w_ij| mu(delta_j) fits, as in `forms.hpp`. The typical winners
// depend only on the region. Hence the result is a function of the winners on the path and of the
// typical winners, independent of the order of the search.
template <int D>
Exactness score_near_anchor(Path<D>& path, int l) {
    const Layer &layer = path.network->layers[l], &before = path.network->layers[l - 1];
    Frame<D>&frame = path.frames[l], &source = path.frames[l - 1];
    const Affine& map = layer.scored_by();
    const int* winners = winners_of(path, l - 1);
    const std::int8_t* typical = source.typical;
    int *changed = path.passed, n_changed = 0, n_on = 0;
    for (int g = 0; g < before.n_groups; g++) {
        changed[n_changed] = g;
        n_changed += winners[g] != typical[g];
        n_on += winners[g];
    }
    n_on = before.is_relu ? n_on : before.n_groups;
    if (3 * n_changed + 4 > n_on) return compose_passed_on(path, l - 1, winners, map, frame.scores);
    if (frame.anchor_version != source.version) {
        for (int r = 0; r < n_changed; r++)
            path.changed[r] = changed[r];  // `passed` is overwritten
        frame.anchor_made = compose_passed_on(path, l - 1, typical, map, frame.anchor);
        frame.anchor_version = source.version;
        for (int r = 0; r < n_changed; r++) changed[r] = path.changed[r];
    }
    copy_forms(frame.anchor, frame.scores, map.stride);
    if (n_changed == 0) return frame.anchor_made;
    const bool was_exact = frame.anchor_made.is_exact;
    const int n_sums = (n_changed + kRun - 1) / kRun;
    const double kappa = 2.0 * (n_sums + least(n_changed, kRun) + 4) * kU;
    bool is_exact = was_exact;
    Terms<D>& terms = path.terms;
    terms.n = n_changed;
    for (int r = 0; r < n_changed; r++) {
        const int g = changed[r], now = before.passed_on(g, winners[g]),
                  old = before.passed_on(g, typical[g]);
        double size = 0.0, lost = 0.0;
        terms.row[r] = g;
        for (int k = 0; k <= D; k++) {
            const double unit = k < D ? path.scale : 1.0;
            const Doubled change = two_sum(now >= 0 ? source.scores.coefficient[k][now] : 0.0,
                                           old >= 0 ? -source.scores.coefficient[k][old] : 0.0);
            terms.factor[k][r] = change.high;
            size = larger(size, unit * magnitude(change.high));
            lost += unit * magnitude(change.low);
        }
        const double radius = (now >= 0 ? source.scores.radius[now] : 0.0) + lost;
        const double old_radius = old >= 0 ? source.scores.radius[old] : 0.0;
        is_exact = is_exact && radius == 0.0 && old_radius == 0.0;
        terms.share[r] = was_exact ? size : radius + kappa * size + 0x1p-900;
    }
    // Exact scores are either updated exactly or composed afresh.
    if (was_exact && !is_exact) return compose_passed_on(path, l - 1, winners, map, frame.scores);
    Forms<D>& z = frame.scores;
    if (was_exact)
        for (int i = 0; i < map.stride; i++) z.radius[i] = size_of(z, i, path.scale);
    add_products(terms, map.weight, map.stride, z);
    if (was_exact) {
        const int grid = least(frame.anchor_made.grid, map.weight_grid + source.scores_exactness.grid);
        double most = 0.0;
        for (int i = 0; i < map.stride; i++) most = bound(most, z.radius[i] * (1.0 + 0x1p-30));
        if (grid < kFinestGrid || !(most <= power_of_two(least(53 + grid, 1000))))
            return compose_passed_on(path, l - 1, winners, map, frame.scores);
        for (int i = 0; i < map.stride; i++) z.radius[i] = 0.0;
        return {true, grid};
    }
    const double sum_kappa = (n_sums + 0.5) * kU, tiny = kTiny * path.scale,
                 grown = 1.0 + 4.0 * kappa;
    for (int i = 0; i < map.stride; i++)
        z.radius[i] = grown * (z.radius[i] + sum_kappa * size_of(z, i, path.scale)) + tiny;
    return frame.anchor_made;
}

// Write the outputs of a plain layer's units.
template <int D>
Exactness select_units(const Path<D>& path, int l, const Forms<D>& y) {
    const Layer& layer = path.network->layers[l];
    const Forms<D>& scores = path.frames[l].scores;
    int n_rounded = 0;
    for (int g = 0; g < layer.n_groups; g++) {
        const int form = layer.passed_on(g, path.signature[layer.first_group + g]);
        for (int k = 0; k <= D; k++)
            y.coefficient[k][g] = form >= 0 ? scores.coefficient[k][form] : 0.0;
        y.radius[g] = form >= 0 ? scores.radius[form] : 0.0;
        n_rounded += y.radius[g] != 0.0;  // also true for NaN
    }
    return {n_rounded == 0, path.frames[l].scores_exactness.grid};
}

namespace detail {

template <int D>
Exactness score(Path<D>& path, int l) {
    const Layer& layer = path.network->layers[l];
    Frame<D>& frame = path.frames[l];
    Exactness before = frame.stream_exactness;
    if (l > 0 && path.network->layers[l - 1].is_plain) {
        if (frame.is_anchored) return score_near_anchor(path, l);
        if (layer.has_one_weight())
            return compose_passed_on(path, l - 1, winners_of(path, l - 1), layer.scored_by(),
                                     frame.scores);
        before = select_units(path, l - 1, frame.stream);
    }
    const Forms<D>& query = layer.is_relu ? frame.scores : path.query;
    Exactness made = before;
    if (layer.query.is_identity) {
        if (!layer.is_relu)
            return compose(frame.stream, before, layer.forms, path.scale, path.terms, frame.scores);
        copy_forms(frame.stream, query, layer.n_query);
    } else {
        made = compose(frame.stream, before, layer.query, path.scale, path.terms, query);
    }
    return layer.is_relu
               ? made
               : compose(query, made, layer.forms, path.scale, path.terms, frame.scores);
}

}  // namespace detail

// Write the scores of a layer for a new region.
template <int D>
void compose_scores(Path<D>& path, int l) {
    Frame<D>& frame = path.frames[l];
    frame.version++;
    frame.is_merged = frame.has_rows = false;
    frame.scores_exactness = detail::score(path, l);
    const Layer& layer = path.network->layers[l];
    frame.has_exact = !layer.is_relu || has_zero_radius(frame.scores, layer.n_scores());
    frame.is_pure = l == 0 || path.frames[l - 1].is_pure;
}

// Sum the contributions of the winners.
template <int D>
Exactness gather(const Path<D>& path, int l, const Forms<D>& scores, const Forms<D>& y) {
    const Layer& layer = path.network->layers[l];
    const Frame<D>& frame = path.frames[l];
    const double* gains = frame.is_merged ? frame.merged.gains : layer.gains;
    const double* gain_radii = frame.is_merged ? frame.merged.gain_radii : layer.gain_radii;
    const double* values = frame.is_merged ? frame.merged.values : layer.values;
    const double* value_radii = frame.is_merged ? frame.merged.value_radii : layer.value_radii;
    const double tiny = kTiny * path.scale;
    for (int i = 0; i < layer.n_y; i++) {
        for (int k = 0; k <= D; k++) y.coefficient[k][i] = 0.0;
        y.radius[i] = 0.0;
    }
    bool is_copied = true;
    for (int g = 0; g < layer.n_groups; g++) {
        const int j = layer.starts[g] + path.signature[layer.first_group + g],
                  slot = layer.slots[g];
        const double gain = gains[j], gain_radius = gain_radii[j];
        if (gain != 0.0 || gain_radius != 0.0) {
            double lost = 0.0, size = 0.0;
            for (int k = 0; k <= D; k++) {
                const double unit = k < D ? path.scale : 1.0, score = scores.coefficient[k][j];
                const Doubled sum = two_sum(y.coefficient[k][slot], gain * score);
                y.coefficient[k][slot] = sum.high;
                size += unit * magnitude(score);
                lost += unit * (magnitude(sum.low) +
                                (gain == 1.0 ? 0.0 : 4.0 * kU * magnitude(gain * score)));
            }
            double radius = scores.radius[j];
            if (gain != 1.0 || gain_radius != 0.0) {
                is_copied = false;
                radius = magnitude(gain) * radius + gain_radius * (size + radius) + tiny;
            }
            y.radius[slot] = (y.radius[slot] + radius + lost) * kUp;
        }
        for (int k = 0; k < layer.width; k++) {
            const std::size_t v = std::size_t(j) * layer.width + k;
            const Doubled sum = two_sum(y.coefficient[D][slot + k], values[v]);
            y.coefficient[D][slot + k] = sum.high;
            y.radius[slot + k] = (y.radius[slot + k] + magnitude(sum.low) + value_radii[v]) * kUp;
        }
    }
    bool is_exact = is_copied;
    for (int i = 0; i < layer.n_y; i++) is_exact = is_exact && y.radius[i] == 0.0;
    int grid = layer.values_grid;
    // If the mean of m numbers is a float, it lies on a grid that is finer by at most log2(m) bits.
    if (frame.is_merged) grid -= 32 - __builtin_clz(layer.n_forms);
    return {is_exact, least(grid, frame.scores_exactness.grid)};
}

// Add the stream before a layer to the output of the layer.
template <int D>
Exactness add_residual(const Path<D>& path, const Forms<D>& stream, Exactness before, int n,
                       Exactness made, const Forms<D>& out) {
    bool is_exact = true;
    for (int i = 0; i < n; i++) {
        double lost = 0.0;
        for (int k = 0; k <= D; k++) {
            const Doubled sum = two_sum(out.coefficient[k][i], stream.coefficient[k][i]);
            lost += magnitude(sum.low) * (k < D ? path.scale : 1.0);
            out.coefficient[k][i] = sum.high;
        }
        out.radius[i] = (out.radius[i] + stream.radius[i] + lost) * kUp;
        is_exact = is_exact && out.radius[i] == 0.0;
    }
    return {is_exact, least(made.grid, before.grid)};
}

// Compose the stream after a layer. For a plain layer, this stream is not written: its forms are
// scores.
template <int D>
void compose_stream(Path<D>& path, int l) {
    const Layer& layer = path.network->layers[l];
    Frame<D>&frame = path.frames[l], &after = path.frames[l + 1];
    if (layer.is_plain) return;
    Exactness made;
    if (layer.is_relu) {
        made = layer.output.is_identity
                   ? select_units(path, l, after.stream)
                   : compose_passed_on(path, l, winners_of(path, l), layer.output, after.stream);
    } else {
        const Forms<D>& y = layer.output.is_identity ? after.stream : path.query;
        made = gather(path, l, frame.scores, y);
        if (!layer.output.is_identity)
            made = compose(y, made, layer.output, path.scale, path.terms, after.stream);
    }
    if (layer.residual)
        made = add_residual(path, frame.stream, frame.stream_exactness, layer.dim_out, made,
                            after.stream);
    after.stream_exactness = made;
}

// Compose the output from the winners of all layers.
template <int D>
const Forms<D>& compose_output(Path<D>& path) {
    const Network& network = *path.network;
    const Frame<D>& end = path.frames[network.n_layers];
    const Affine& readout = network.readout;
    const int last = network.n_layers - 1;
    if (last >= 0) compose_stream(path, last);
    if (last >= 0 && network.layers[last].is_plain) {
        if (!readout.is_identity) {
            compose_passed_on(path, last, winners_of(path, last), readout, path.output);
            return path.output;
        }
        select_units(path, last, end.stream);
    }
    if (readout.is_identity) return end.stream;
    compose(end.stream, end.stream_exactness, readout, path.scale, path.terms, path.output);
    return path.output;
}

}  // namespace hardmax
