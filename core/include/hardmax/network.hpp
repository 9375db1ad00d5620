// A network of argmax layers in the form that the search reads: immutable, and shared by all
// threads.
//
// A layer maps z to [z +] y(q) W_y + b_y with q = z W_q + b_q. Group g owns the forms s_j(q) =
// <a_j, q> + c_j for starts[g] <= j < starts[g + 1]. The largest form j wins. It adds gain_j s_j(q)
// to column slots[g] of y, and value_j to the `width` columns that start there. A ReLU unit is the
// group of the forms 0 and q_i; a layer of units has no matrix between query and forms.
#pragma once
#include <algorithm>
#include <initializer_list>

#include "arena.hpp"
#include "lanes.hpp"
#include "rounding.hpp"

namespace hardmax {

// z -> z W + b.
struct Affine {
    int n_in = 0, n_out = 0;
    int stride = 0;            // row stride of W, which is padded with zeros
    bool is_identity = false;  // if true, W is not stored
    bool is_tame = true;       // no nonzero weight is below 2^-100, so that no share of a radius
                               // underflows
    bool is_dense = false;     // no weight is 0, and none is much larger than most
    int weight_grid = 0, bias_grid = 0;  // exponents e such that all entries are in 2^e Z
    const double* weight = nullptr;      // (n_in, stride)
    const double* bias = nullptr;        // (stride)
};

struct Layer {
    int dim_in = 0, dim_out = 0, n_query = 0, n_forms = 0, n_groups = 0, n_y = 0, width = 0;
    int first_group = 0;  // number of groups in the earlier layers
    int first_form = 0;   // number of forms in the earlier layers
    bool is_relu = false;
    bool residual = false;
    bool is_plain = false;        // y contains the winning form of each group, and the output is y
    bool has_no_offsets = false;  // if z is linear, so are the scores
    bool keeps_zero = false;      // if the scores are linear, so is the output, not counting z
    Affine query, forms, output;
    // For each group, the number of entries (slopes and offset) in which its forms differ. All
    // differences of the forms are combinations of this number of functions, and vanish where as
    // many differences with independent slopes vanish. The same holds for all scores of a layer
    // without offsets, with `dim_in` as the number.
    const int* n_different = nullptr;  // (n_groups)
    const int* starts = nullptr;       // (n_groups + 1)
    const int* slots = nullptr;        // (n_groups)
    // Whether the forms of each group are proven to differ, except for the forms that `first`
    // identifies.
    bool is_distinct = true;
    // For each form, the first form of the group that coincides with it independently of the
    // earlier layers; only first forms compete. In a ReLU layer: the first unit with the same
    // weights or, if the first such unit k has the opposite weights, -1 - k.
    const int* first = nullptr;
    const double* gains = nullptr;        // (n_forms): means over coinciding forms
    const double* gain_radii = nullptr;   // (n_forms)
    const double* values = nullptr;       // (n_forms, width)
    const double* value_radii = nullptr;  // (n_forms, width)
    int values_grid = 0;

    // The last map in the composition of the scores, applied to the query or to the stream.
    const Affine& scored_by() const { return is_relu ? query : forms; }
    int n_scores() const { return is_relu ? n_query : n_forms; }
    // Whether the scores are a single composition of the stream.
    bool has_one_weight() const { return is_relu != query.is_identity; }
    // The score that a group of a plain layer passes on, or -1 if it passes on none.
    int passed_on(int group, int winner) const {
        return is_relu ? (winner == 1 ? group : -1) : starts[group] + winner;
    }
};

struct Network {
    int n_layers = 0;
    int n_groups = 0;
    int dim_out = 0;
    int dim_stream = 0;  // the width of the stream before the first layer
    int most_rows = 0;   // the maximum number of forms, streams or queries of a layer, padded
    int most_groups = 1;
    int largest_group = 0;
    Layer* layers = nullptr;
    Affine readout;
};

// The input from which a network is made: integers and numbers, each in one array.
//
// Integers: n_layers, dim_stream; for each layer is_relu, residual, n_forms, n_groups, width, its
// query and output as (n_in, n_out, is_identity). Unless the layer is ReLU, these are followed by
// starts, slots, n_read, the entries of the query that each group reads (n_groups, n_read) with -1
// for no entry (nothing if all groups read all entries, n_read = -1), whether forms coincide, and
// the first forms if they do. The readout comes last. Numbers: for each layer the query; unless the
// layer is ReLU, the slopes (n_forms, n_read), offsets, gains and values, each with its radii if
// forms coincide; then the output. The readout comes last. The weights of a map (absent for an
// identity) precede its biases.
// Another thread may set `is_stopped` to stop reading.
struct Packed {
    const std::int64_t* integers;
    const double* numbers;
    const std::int32_t* is_stopped = nullptr;
    bool stopped() const {
        return is_stopped != nullptr && __atomic_load_n(is_stopped, __ATOMIC_RELAXED) != 0;
    }
    int next() { return static_cast<int>(*integers++); }
    const double* next(std::size_t n) {
        const double* here = numbers;
        numbers += n;
        return here;
    }
};

namespace detail {

inline int grid_of(const double* numbers, std::size_t n) {
    int grid = kCoarsestGrid;
    for (std::size_t i = 0; i < n; i++) grid = hardmax::grid_of(numbers[i], grid);
    return grid;
}

// Whether most weights are at least 1/256 of the largest, and none is 0.
inline bool is_dense(const double* weight, std::size_t n) {
    double most = 0.0;
    for (std::size_t i = 0; i < n; i++) {
        if (weight[i] == 0.0) return false;
        most = larger(most, magnitude(weight[i]));
    }
    std::size_t n_large = 0;
    for (std::size_t i = 0; i < n; i++) n_large += 256.0 * magnitude(weight[i]) >= most;
    return 2 * n_large > n;
}

// Record the properties of a map's weights and biases that compositions use.
inline void describe(Affine& map, const double* weight, std::size_t n) {
    for (std::size_t i = 0; i < n; i++)
        map.is_tame = map.is_tame && (weight[i] == 0.0 || magnitude(weight[i]) >= 0x1p-100);
    map.weight_grid = map.is_identity ? 0 : grid_of(weight, n);
    map.bias_grid = grid_of(map.bias, map.n_out);
    map.is_dense = !map.is_identity && is_dense(weight, n);
}

inline Affine read_affine(Packed& packed, Arena& arena, int n_in, int n_out, bool is_identity) {
    Affine map;
    map.n_in = n_in, map.n_out = n_out, map.stride = padded(n_out), map.is_identity = is_identity;
    const std::size_t n = is_identity ? 0 : static_cast<std::size_t>(n_in) * n_out;
    const double* weight = packed.next(n);
    const double* bias = packed.next(n_out);
    double* own_weight = arena.take<double>(is_identity ? 0 : std::size_t(n_in) * map.stride);
    double* own_bias = arena.take<double>(map.stride);
    if (!own_bias) return map;
    map.weight = own_weight, map.bias = own_bias;
    for (int j = 0; j < (is_identity ? 0 : n_in) && !packed.stopped(); j++) {
        for (int i = 0; i < map.stride; i++)
            own_weight[std::size_t(j) * map.stride + i] =
                i < n_out ? weight[std::size_t(j) * n_out + i] : 0.0;
    }
    for (int i = 0; i < map.stride; i++) own_bias[i] = i < n_out ? bias[i] : 0.0;
    if (!packed.stopped()) describe(map, weight, n);
    return map;
}

// Read the forms of a layer as a map of its query; group g reads the entries `reads[g]` of the
// query.
inline Affine read_forms(Packed& packed, Arena& arena, const Layer& layer) {
    Affine map;
    map.n_in = layer.n_query, map.n_out = layer.n_forms, map.stride = padded(layer.n_forms);
    const int given = packed.next(), n_read = given < 0 ? layer.n_query : given;
    const std::int64_t* reads = packed.integers;
    if (given >= 0) packed.integers += std::size_t(layer.n_groups) * n_read;
    const std::size_t n_slopes = std::size_t(layer.n_forms) * n_read;
    const double *slopes = packed.next(n_slopes), *offsets = packed.next(layer.n_forms);
    const std::size_t n = std::size_t(map.n_in) * map.stride;
    double* weight = arena.take<double>(n);
    double* bias = arena.take<double>(map.stride);
    if (!weight) return map;
    map.weight = weight, map.bias = bias;
    for (std::size_t i = 0; i < n; i++) weight[i] = 0.0;
    for (int i = 0; i < map.stride; i++) bias[i] = i < map.n_out ? offsets[i] : 0.0;
    for (int g = 0; g < layer.n_groups && !packed.stopped(); g++) {
        for (int k = 0; k < n_read; k++) {
            const std::int64_t entry = given < 0 ? k : reads[std::size_t(g) * n_read + k];
            for (int j = layer.starts[g]; entry >= 0 && j < layer.starts[g + 1]; j++)
                weight[entry * map.stride + j] = slopes[std::size_t(j) * n_read + k];
        }
    }
    if (packed.stopped()) return map;
    describe(map, slopes, n_slopes);
    map.is_dense = map.is_dense && given < 0;
    return map;
}

// Whether floats prove that no two forms of a group are equal, independently of the earlier layers.
//
// Equal forms (a_j W_q, <a_j, b_q> + c_j) have equal values under every functional v; v is chosen
// here without any pattern. The error of a sum of n products is at most 2 n u times the sum of
// their sizes, plus 2^-1000 for underflow. An overflow proves nothing. `scratch` has capacity for 2
// n_query + n_forms numbers.
inline bool are_distinct(const Layer& layer, double* scratch) {
    const auto v = [](int k) {
        const double x = (k + 1) * 0.6180339887498949;
        return 1.0 + (x - static_cast<double>(static_cast<std::int64_t>(x)));
    };
    const Affine &query = layer.query, &forms = layer.forms;
    double *value = scratch, *size = value + layer.n_query, *values = size + layer.n_query;
    const double last = v(layer.dim_in);
    for (int i = 0; i < layer.n_query; i++) {
        value[i] = last * query.bias[i], size[i] = last * magnitude(query.bias[i]);
        if (query.is_identity) value[i] += v(i), size[i] += v(i);
    }
    for (int j = 0; !query.is_identity && j < layer.dim_in; j++) {
        const double* row = query.weight + std::size_t(j) * query.stride;
        const double factor = v(j);
        for (int i = 0; i < layer.n_query; i++)
            value[i] += factor * row[i], size[i] += factor * magnitude(row[i]);
    }
    const double gamma = 2.0 * (most(layer.n_query, layer.dim_in) + 4) * kU;
    for (int g = 0; g < layer.n_groups; g++) {
        const int first = layer.starts[g], end = layer.starts[g + 1];
        double error = 0.0;
        for (int j = first; j < end; j++) {
            double sum = last * forms.bias[j], sizes = last * magnitude(forms.bias[j]),
                   slopes = 0.0;
            for (int i = 0; i < layer.n_query; i++) {
                const double a = forms.weight[std::size_t(i) * forms.stride + j];
                sum += a * value[i], sizes += magnitude(a) * size[i], slopes += magnitude(a);
            }
            values[j] = sum;
            error = bound(error, 4.0 * gamma * sizes + (1.0 + slopes) * kTiny);
        }
        if (!(error < kInfinity)) return false;
        // This uses its own comparison: some C++ libraries compile the default one separately, and
        // the core does not link to a C++ library.
        std::sort(values + first, values + end, [](double a, double b) { return a < b; });
        for (int j = first + 1; j < end; j++)
            if (!(values[j] - values[j - 1] > 2.0 * error)) return false;
    }
    return true;
}

// For each unit, the first unit with its weights and bias, or -1 - k if k is the first unit with
// the opposite ones. If reading is stopped, the result is meaningless.
inline void find_repeated(const Affine& query, int* first, std::uint64_t* hashes,
                          const Packed& packed) {
    const int n = query.n_out;
    const auto entry = [&](int j, int i) {
        return j < query.n_in ? query.weight[std::size_t(j) * query.stride + i] : query.bias[i];
    };
    if (query.is_identity) {
        for (int i = 0; i < n; i++) first[i] = i;
        return;
    }
    for (int i = 0; i < n; i++) hashes[i] = 1469598103934665603u;
    for (int j = 0; j <= query.n_in; j++) {
        if (packed.stopped()) return;
        for (int i = 0; i < n; i++) {
            const double size = magnitude(entry(j, i));
            std::uint64_t bits;
            __builtin_memcpy(&bits, &size, sizeof bits);
            hashes[i] = (hashes[i] ^ bits) * 1099511628211u;
            hashes[i] ^= hashes[i] >> 29;
        }
    }
    for (int i = 0; i < n; i++) {
        first[i] = i;
        for (int o = 0; o < i; o++) {
            if (hashes[o] != hashes[i] || first[o] != o) continue;
            bool is_same = true, is_opposite = true;
            for (int j = 0; j <= query.n_in && (is_same || is_opposite); j++) {
                is_same = is_same && entry(j, o) == entry(j, i);
                is_opposite = is_opposite && entry(j, o) == -entry(j, i);
            }
            if (is_same || is_opposite) {
                first[i] = is_same ? o : -1 - o;
                break;
            }
        }
    }
}

inline int* read_indices(Packed& packed, Arena& arena, int n) {
    int* own = arena.take<int>(n);
    for (int i = 0; i < n; i++) {
        const int index = packed.next();
        if (own) own[i] = index;
    }
    return own;
}

inline const double* copied(Packed& packed, Arena& arena, std::size_t n) {
    const double* given = packed.next(n);
    double* own = arena.take<double>(n);
    for (std::size_t i = 0; own && i < n; i++) own[i] = given[i];
    return own;
}

inline const int* count_up(Arena& arena, int n) {
    int* own = arena.take<int>(n);
    for (int i = 0; own && i < n; i++) own[i] = i;
    return own;
}

inline const double* zeros(Arena& arena, std::size_t n) {
    double* own = arena.take<double>(n);
    for (std::size_t i = 0; own && i < n; i++) own[i] = 0.0;
    return own;
}

inline bool all_zero(const double* numbers, std::size_t n) {
    for (std::size_t i = 0; i < n; i++)
        if (numbers[i] != 0.0) return false;
    return true;
}

// Whether the stream after a layer consists of the winning form of each group, or 0.
inline bool is_plain(const Layer& layer) {
    if (layer.residual || !layer.output.is_identity || layer.n_y != layer.n_groups) return false;
    if (layer.is_relu) return true;
    for (int g = 0; g < layer.n_groups; g++) {
        // Winners are stored in bytes.
        if (layer.slots[g] != g || layer.starts[g + 1] - layer.starts[g] > 127) return false;
    }
    for (int j = 0; j < layer.n_forms; j++) {
        if (layer.gains[j] != 1.0 || layer.gain_radii[j] != 0.0) return false;
    }
    const std::size_t n = std::size_t(layer.n_forms) * layer.width;
    return all_zero(layer.values, n) && all_zero(layer.value_radii, n);
}

// The number of entries (slopes and offset) in which the forms of a group differ.
inline int count_different(const Affine& forms, int first, int end) {
    int n_different = 0;
    for (int k = 0; k <= forms.n_in; k++) {
        const double* row =
            k < forms.n_in ? forms.weight + std::size_t(k) * forms.stride : forms.bias;
        bool is_different = false;
        for (int j = first + 1; j < end && !is_different; j++) is_different = row[j] != row[first];
        n_different += is_different;
    }
    return n_different;
}

inline Layer read_layer(Packed& packed, Arena& arena) {
    Layer layer;
    layer.is_relu = packed.next(), layer.residual = packed.next();
    layer.n_forms = packed.next(), layer.n_groups = packed.next(), layer.width = packed.next();
    int query[3], output[3];
    for (int& entry : query) entry = packed.next();
    for (int& entry : output) entry = packed.next();
    layer.dim_in = query[0], layer.n_query = query[1], layer.n_y = output[0],
    layer.dim_out = output[1];
    layer.query = read_affine(packed, arena, query[0], query[1], query[2]);
    if (layer.is_relu) {
        int* first = arena.take<int>(layer.n_groups);
        std::uint64_t* hashes = arena.take<std::uint64_t>(layer.n_groups);
        layer.first = first;
        if (first && !packed.stopped()) find_repeated(layer.query, first, hashes, packed);
    } else {
        layer.starts = read_indices(packed, arena, layer.n_groups + 1);
        layer.slots = read_indices(packed, arena, layer.n_groups);
        layer.forms = read_forms(packed, arena, layer);
        const bool coincide = packed.next();
        layer.first =
            coincide ? read_indices(packed, arena, layer.n_forms) : count_up(arena, layer.n_forms);
        const std::size_t n = std::size_t(layer.n_forms) * layer.width;
        layer.gains = copied(packed, arena, layer.n_forms);
        layer.gain_radii =
            coincide ? copied(packed, arena, layer.n_forms) : zeros(arena, layer.n_forms);
        layer.values = copied(packed, arena, n);
        layer.value_radii = coincide ? copied(packed, arena, n) : zeros(arena, n);
        double* scratch = arena.take<double>(2 * std::size_t(layer.n_query) + layer.n_forms);
        layer.is_distinct =
            coincide || (scratch && !packed.stopped() && are_distinct(layer, scratch));
        int* n_different = arena.take<int>(layer.n_groups);
        layer.n_different = n_different;
        for (int g = 0; n_different && g < layer.n_groups && !packed.stopped(); g++)
            n_different[g] = count_different(layer.forms, layer.starts[g], layer.starts[g + 1]);
    }
    layer.output = read_affine(packed, arena, output[0], output[1], output[2]);
    if (!arena.base || packed.stopped()) return layer;
    const auto has_bias = [](const Affine& map) { return !all_zero(map.bias, map.n_out); };
    const std::size_t n_values = layer.is_relu ? 0 : std::size_t(layer.n_forms) * layer.width;
    layer.values_grid = grid_of(layer.values, n_values);
    layer.has_no_offsets = !has_bias(layer.query) && (layer.is_relu || !has_bias(layer.forms));
    layer.keeps_zero = all_zero(layer.values, n_values) && all_zero(layer.value_radii, n_values) &&
                       !has_bias(layer.output);
    layer.is_plain = is_plain(layer);
    return layer;
}

}  // namespace detail

// Lay out a network in an arena; if the arena has no memory, only compute the size. If another thread
// sets `packed.is_stopped`, the function returns early, and the number of layers is -1.
inline Network* read_network(Packed packed, Arena& arena) {
    Network* network = arena.take<Network>(1);
    Network sizes;
    sizes.n_layers = packed.next(), sizes.dim_stream = packed.next();
    sizes.layers = arena.take<Layer>(sizes.n_layers);
    sizes.most_rows = sizes.dim_stream;
    int first_form = 0;
    for (int i = 0; i < sizes.n_layers; i++) {
        Layer layer = detail::read_layer(packed, arena);
        // A layer read while reading was stopped is incomplete.
        if (packed.stopped()) {
            network->n_layers = -1;
            return network;
        }
        layer.first_group = sizes.n_groups, layer.first_form = first_form;
        sizes.n_groups += layer.n_groups;
        first_form += layer.n_forms;
        sizes.most_groups = most(sizes.most_groups, layer.n_groups);
        for (int rows : {layer.n_query, layer.n_scores(), layer.n_y, layer.dim_out})
            sizes.most_rows = most(sizes.most_rows, rows);
        for (int g = 0; layer.starts && g < layer.n_groups; g++)
            sizes.largest_group = most(sizes.largest_group, layer.starts[g + 1] - layer.starts[g]);
        if (sizes.layers) sizes.layers[i] = layer;
    }
    int readout[3];
    for (int& entry : readout) entry = packed.next();
    sizes.readout = detail::read_affine(packed, arena, readout[0], readout[1], readout[2]);
    sizes.dim_out = readout[1];
    sizes.most_rows = padded(most(sizes.most_rows, sizes.dim_out) + 1);
    if (packed.stopped()) sizes.n_layers = -1;
    if (network) *network = sizes;
    return network;
}

}  // namespace hardmax
