// Values of a ReLU network at points of a line, layer by layer.
//
// Rows are the pre-activations of a layer at points p_0 < p_1 < ...; between two consecutive
// points, every unit is an affine form. The proofs of the error bounds, and the definitions of
// their names, are in src/hardmax/regions/_lines/rectified_lines.py. A value a_j has the radius A
// omega_j + beta |b_j|. It is exactly 0 if its factors are; otherwise it is increased by kRaise,
// which exceeds its own rounding error, and by kTiny, which exceeds every underflow. The points
// differ from the true ends of an interval by at most eta times its length.
#pragma once
#include <cstdint>

#include "hardmax/packed_maps.hpp"

namespace hardmax {

// The numbers e, rho and beta in the radii of a row: A = e + rho.
struct LineScale {
    double e, rho, beta;
};

// Bounds on the distances of an interval's true ends from its points, in lengths of the interval.
struct Blur {
    double left, right;
};

// The coordinate w t; the weight w that belongs to the values; and the weight again, close to that
// of the true breakpoint and as precise as the coordinate.
struct Place {
    double at[3];
};

// The layer and the two forms that tie there.
struct PointName {
    std::int64_t layer, before, after;
};

struct LineRows {
    std::int64_t n;
    const double* values;  // (n, width)
    const LineScale* scales;
    const Blur* blurs;  // (n - 1)
    const Place* places;
    const PointName* names;
};

namespace detail {

// The larger of two numbers; infinity if either is NaN.
inline double larger_or_infinite(double one, double other) {
    if (one >= other) return one;
    return other > one ? other : kInfinity;
}

// The beta of a point. It is 0 only if the weight is 0; the weight may be known to only a few bits.
inline double bias_scale(double kappa, double weight) {
    return weight != 0.0 ? kappa * weight * kRaise + kTiny : 0.0;
}

// A bound on the Euclidean norm of the positive part of a row; 0 only if this part is zero.
inline double positive_norm(const double* row, std::int64_t n) {
    Lanes squares = all(0.0);
    double total = 0.0;
    std::int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes) {
        const Lanes x = load(row + j), positive = choose(x > all(0.0), x, all(0.0));
        squares += positive * positive;
    }
    for (; j < n; ++j) total += row[j] > 0.0 ? row[j] * row[j] : 0.0;
    total += (squares[0] + squares[1]) + (squares[2] + squares[3]);
    if (total < 0x1p-900) {
        total = 0.0;
        for (j = 0; j < n; ++j)
            if (row[j] > 0.0) total += square_from_floor(row[j]);
    }
    return __builtin_sqrt(total) * kRaise;
}

// Bounds common to all units of an interval: bounds on A and beta at both ends.
struct IntervalBounds {
    double scale, beta;
};

inline IntervalBounds bounds_of(const LineScale& one, const LineScale& other) {
    return {larger_or_infinite(one.e + one.rho, other.e + other.rho),
            larger_or_infinite(one.beta, other.beta)};
}

struct Changes {
    std::int64_t n;    // number of units that change between two points; -1 if a sign may be
                       // undecided
    std::int64_t sum;  // sum of their indices; -1 if some units may be 0
};

inline Changes count_changes(const double* left, const double* right, const NormedMap& map,
                             IntervalBounds bounds, double eta) {
    const std::int64_t n = map.n_out;
    LaneBits doubts{}, changes{}, sums{}, index = {0, 1, 2, 3};
    std::int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes) {
        const Lanes a = load(left + j), b = load(right + j);
        const Lanes size_a = absolute(a), size_b = absolute(b);
        const Lanes radius = bounds.scale * load(map.omega + j) +
                             bounds.beta * load(map.bias_size + j) + eta * (size_a + size_b) +
                             kTiny;
        doubts |= ~((size_a > radius) & (size_b > radius));
        const LaneBits change = (a > all(0.0)) ^ (b > all(0.0));
        changes -= change;
        sums += change & index;
        index += kLanes;
    }
    bool is_open = (doubts[0] | doubts[1] | doubts[2] | doubts[3]) != 0;
    Changes found = {changes[0] + changes[1] + changes[2] + changes[3],
                     sums[0] + sums[1] + sums[2] + sums[3]};
    for (; j < n; ++j) {
        const double a = left[j], b = right[j];
        const double radius = bounds.scale * map.omega[j] + bounds.beta * map.bias_size[j] +
                              eta * (magnitude(a) + magnitude(b)) + kTiny;
        is_open |= !(magnitude(a) > radius && magnitude(b) > radius);
        const bool change = (a > 0.0) != (b > 0.0);
        found.n += change;
        found.sum += change ? j : 0;
    }
    if (is_open) found.n = -1;
    return found;
}

inline double radius_of(const LineScale& scale, double omega, double bias_size) {
    const double factor = scale.e + scale.rho;
    if ((factor == 0.0 || omega == 0.0) && (scale.beta == 0.0 || bias_size == 0.0)) return 0.0;
    return (factor * omega + scale.beta * bias_size) * kRaise + kTiny;
}

// The same with the radii of each end. A form that is exactly 0, or is 0 at an exact end, is known.
inline std::int64_t count_carefully(const double* left, const double* right, const NormedMap& map,
                                    const LineScale* scales, const Blur& blur) {
    std::int64_t n_changes = 0;
    for (std::int64_t j = 0; j < map.n_out; ++j) {
        const double a = magnitude(left[j]), b = magnitude(right[j]);
        const double r_a = radius_of(scales[0], map.omega[j], map.bias_size[j]);
        const double r_b = radius_of(scales[1], map.omega[j], map.bias_size[j]);
        const bool is_zero_left = a == 0.0 && r_a == 0.0, is_zero_right = b == 0.0 && r_b == 0.0;
        if (is_zero_left && is_zero_right) continue;
        if (is_zero_left && blur.left == 0.0 && b > r_b) continue;
        if (is_zero_right && blur.right == 0.0 && a > r_a) continue;
        const double reach = (a + b + r_a + r_b) * kRaise;
        if (!(a > (r_a + blur.left * reach) * kRaise)) return -1;
        if (!(b > (r_b + blur.right * reach) * kRaise)) return -1;
        n_changes += (left[j] > 0.0) != (right[j] > 0.0);
    }
    return n_changes;
}

// The zero of a unit between two points: its position as a part of the way, and a bound on its
// error.
typedef hm_line_zero Zero;

// The zero of a form with values a, b of opposite signs, known to r, is at |a| / S with S = |a| +
// |b|, known to (r + 4 u |a|) / (S - 2 r). Returns false if this bound is useless.
inline bool find_zero(const double* left, const double* right, const NormedMap& map,
                      IntervalBounds bounds, std::int64_t j, Zero& zero) {
    const double a = magnitude(left[j]), size = a + magnitude(right[j]);
    const double radius =
        (bounds.scale * map.omega[j] + bounds.beta * map.bias_size[j]) * kRaise + kTiny;
    zero = {j, a / size, (radius + 4.0 * kU * a) / (size - 2.0 * radius) * kRaise + kTiny};
    return size > 4.0 * radius && size < kInfinity;
}

// Sort from left to right. Heapsort, because insertion sort would be slow if many units change.
template <class T, class Order>
void sift_down(T* zeros, std::int64_t root, std::int64_t n, const Order& is_before) {
    const T moved = zeros[root];
    for (std::int64_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && is_before(zeros[child], zeros[child + 1])) ++child;
        if (!is_before(moved, zeros[child])) break;
        zeros[root] = zeros[child];
    }
    zeros[root] = moved;
}

template <class T, class Order>
void sort(T* zeros, std::int64_t n, const Order& is_before) {
    constexpr std::int64_t most_inserted = 24;
    if (n > most_inserted) {
        for (std::int64_t k = n / 2; k-- > 0;) sift_down(zeros, k, n, is_before);
        for (std::int64_t k = n - 1; k > 0; --k) {
            const T largest = zeros[0];
            zeros[0] = zeros[k];
            zeros[k] = largest;
            sift_down(zeros, 0, k, is_before);
        }
        return;
    }
    for (std::int64_t k = 1; k < n; ++k) {
        const T moved = zeros[k];
        std::int64_t i = k;
        for (; i > 0 && is_before(moved, zeros[i - 1]); --i) zeros[i] = zeros[i - 1];
        zeros[i] = moved;
    }
}

// Find the zeros of the n units that change between two points, from left to right.
inline bool find_zeros(const double* left, const double* right, const NormedMap& map,
                       IntervalBounds bounds, std::int64_t n, Zero* zeros) {
    std::int64_t k = 0;
    bool is_sure = true;
    for (std::int64_t j = 0; j < map.n_out && k < n; ++j)
        if ((left[j] > 0.0) != (right[j] > 0.0) && left[j] != 0.0 && right[j] != 0.0)
            is_sure &= find_zero(left, right, map, bounds, j, zeros[k++]);
    if (is_sure)
        sort(zeros, k, [](const Zero& one, const Zero& other) { return one.part < other.part; });
    return is_sure;
}

// Divide the errors of the ends by the lengths of the parts that they bound. Returns false if a
// quotient is too large.
inline bool find_blurs(const Zero* zeros, std::int64_t n, const Blur& outer, Blur* blurs) {
    constexpr double widest = 0.25;
    double before = 0.0, blur = outer.left;
    for (std::int64_t k = 0; k <= n; ++k) {
        const double after = k < n ? zeros[k].part : 1.0;
        const double next_blur = k < n ? zeros[k].blur : outer.right;
        const double length = after - before;
        if (!(length > 0.0 && blur + next_blur < widest * length)) return false;
        blurs[k] = {blur / length * kRaise, next_blur / length * kRaise};
        before = after;
        blur = next_blur;
    }
    return true;
}

// Write the rows of the next layer at the zeros between two points, computed from the rows at the
// points. `weight` contains the contribution of each unit, and `form` is scratch for one row. The
// rows are consecutive: the left point, the new points, the right point.
inline void carry(const double* left, const double* right, const Zero* zeros, std::int64_t n,
                  const double* weight, std::int64_t width, double* rows, double* form) {
    const double *a = rows, *b = rows + (n + 1) * width;
    if (n == 1) {
        const double share = magnitude(right[zeros[0].unit]), part = zeros[0].part;
        const double rest = 1.0 - part;
        const double* row = weight + zeros[0].unit * width;
        double* now = rows + width;
        for (std::int64_t j = 0; j < width; ++j)
            now[j] = rest * a[j] + part * (b[j] - share * row[j]);
        return;
    }
    // At the right point: the form of each part, from right to left.
    for (std::int64_t k = n; k > 0; --k) {
        const double share = magnitude(right[zeros[k - 1].unit]);
        const double *row = weight + zeros[k - 1].unit * width, *next = rows + (k + 1) * width;
        double* now = rows + k * width;
        for (std::int64_t j = 0; j < width; ++j) now[j] = next[j] - share * row[j];
    }
    for (std::int64_t j = 0; j < width; ++j) form[j] = a[j];
    for (std::int64_t k = 1; k <= n; ++k) {
        const double share = magnitude(left[zeros[k - 1].unit]), part = zeros[k - 1].part;
        const double rest = 1.0 - part;
        const double* row = weight + zeros[k - 1].unit * width;
        double* now = rows + k * width;
        for (std::int64_t j = 0; j < width; ++j) {
            now[j] = rest * form[j] + part * now[j];
            form[j] -= share * row[j];
        }
    }
}

// A bound on the norm of the positive part, including units that are off here but on elsewhere in
// the interval.
inline double continued_norm(double size, const double* row, const Zero* zeros, std::int64_t n) {
    double total = size * size;
    for (std::int64_t k = 0; k < n; ++k)
        if (row[zeros[k].unit] < 0.0) total += square_from_floor(row[zeros[k].unit]);
    return __builtin_sqrt(total) * kRaise;
}

inline Panels panels_of(const NormedMap& map) { return {map.panels, map.n_in + 1, map.n_out}; }

// Append the positive parts of the rows at up to six points, and their weights, to a batch.
inline void put_points(RowBatch& batch, const double* values, std::int64_t width,
                       const Place* places, double* const* outs, int n) {
    RowBatch::Group& group = begin_group(batch, n, outs);
    const double* rows[RowBatch::kRows];
    for (int r = 0; r < group.n_rows; ++r) rows[r] = values + least(r, n - 1) * width;
    std::int64_t j = 0;
    for (; j + kLanes <= width; j += kLanes) {
        LaneBits is_on{};
        for (int r = 0; r < group.n_rows; ++r) is_on |= load(rows[r] + j) > all(0.0);
        std::memcpy(batch.flags + j, &is_on, sizeof is_on);
    }
    for (; j < width; ++j) {
        batch.flags[j] = 0;
        for (int r = 0; r < group.n_rows; ++r) batch.flags[j] |= -(rows[r][j] > 0.0);
    }
    list_terms(batch, width, group);
    const std::int64_t n_on = group.n_terms, step = group.n_rows;
    for (int r = 0; r < step; ++r) {
        double* factor = group.factor + r;
        for (std::int64_t k = 0; k < n_on; ++k) {
            const double x = rows[r][group.term[k]];
            factor[k * step] = x > 0.0 ? x : 0.0;
        }
        factor[n_on * step] = places[least(r, n - 1)].at[1];
    }
    group.term[n_on] = static_cast<std::int32_t>(width);
    group.n_terms = n_on + 1;
}

}  // namespace detail

namespace detail {

// Multiply two rows, each ending with a number for the bias, by a map. Four terms are processed at
// a time, to read and write the sums less often; the order of summation is still ascending.
inline void multiply_pair(const NormedMap& map, const double* const* rows, const double* last,
                          double* products) {
    const std::int64_t n = map.n_out, n_terms = map.n_in + 1;
    for (std::int64_t j = 0; j < 2 * n; ++j) products[j] = 0.0;
    for (std::int64_t start = 0; start < n_terms; start += 4) {
        const double* weights[4];
        double factors[2][4];
        for (std::int64_t k = 0; k < 4; ++k) {
            // An extra term is 0 times the bias.
            const std::int64_t term = start + k;
            weights[k] = map.rows + (term < n_terms ? term : map.n_in) * n;
            for (int r = 0; r < 2; ++r)
                factors[r][k] = term < map.n_in ? rows[r][term] : term == map.n_in ? last[r] : 0.0;
        }
        for (int r = 0; r < 2; ++r) {
            const double* x = factors[r];
            double* sums = products + r * n;
            std::int64_t j = 0;
            for (; j + kLanes <= n; j += kLanes) {
                Lanes sum = load(sums + j);
                for (int k = 0; k < 4; ++k) sum += all(x[k]) * load(weights[k] + j);
                store(sums + j, sum);
            }
            for (; j < n; ++j)
                for (int k = 0; k < 4; ++k) sums[j] += x[k] * weights[k][j];
        }
    }
}

}  // namespace detail

// Write the rows of a layer at two points, given the stream before it with weights. The scales
// already contain e.
inline void enter_line(const NormedMap& map, const double* const* ends, const double* weights,
                       double* rows, LineScale* scales) {
    detail::multiply_pair(map, ends, weights, rows);
    for (int i = 0; i < 2; ++i) {
        double total = 0.0;
        for (std::int64_t k = 0; k < map.n_in; ++k) total += detail::square_from_floor(ends[i][k]);
        scales[i].rho = map.kappa * (__builtin_sqrt(total) * kRaise) * kRaise;
        scales[i].beta = detail::bias_scale(map.kappa, weights[i]);
    }
}

// The reason why `advance` returned: no layer is left; a limit on the work is reached; an interval
// is undecided; the next layer would have too many entries; the memory is too small for it.
enum LineStatus { kLineDone, kLinePaused, kLineOpen, kLineCrowded, kLineFull };

// The search along a line, in the caller's memory: one half contains the rows of one layer, the
// other half the rows of the next.
struct LineSearch {
    const NormedMap* maps;
    std::int64_t n_layers;
    std::int64_t index;  // the layer of the rows
    std::int64_t n_signs;
    LineRows rows;
    std::uint8_t* is_open;  // (n - 1): which intervals are undecided
    char* halves[2];
    std::size_t half_size;
    int half;  // the half that does not contain the rows
};

// The data of the cells once no layer is left.
struct FoundCells {
    double *where, *radii;  // the ends
    std::int64_t* groups;   // (n - 2): the entry of the signature that changes at each inner end
    std::uint8_t* winners;  // the new value of this entry
};

namespace detail {

// Cut the intervals by the units of one layer. On kLineDone (for this layer) and kLineOpen, the
// search has advanced; otherwise it is unchanged.
inline LineStatus cut_by_layer(LineSearch& s, std::uint8_t* states, std::int64_t most_entries) {
    const NormedMap& map = s.maps[s.index];
    const LineRows rows = s.rows;
    const std::int64_t n = rows.n, width = map.n_out;
    const std::size_t n_points = static_cast<std::size_t>(n);
    Arena arena{s.halves[s.half]};
    std::uint8_t* is_open = arena.take<std::uint8_t>(n_points);
    std::int64_t* starts = arena.take<std::int64_t>(n_points);
    std::int64_t* sums = arena.take<std::int64_t>(n_points);
    double* sizes = arena.take<double>(n_points);
    double* errors = arena.take<double>(n_points);
    if (arena.used > s.half_size) return kLineFull;
    bool all_sure = true;
    starts[0] = 0;
    for (std::int64_t i = 0; i + 1 < n; ++i) {
        const double *a = rows.values + i * width, *b = a + width;
        const double eta = larger_or_infinite(rows.blurs[i].left, rows.blurs[i].right);
        const double raised = (1.0 + 2.0 * eta) * kRaise;
        IntervalBounds bounds = bounds_of(rows.scales[i], rows.scales[i + 1]);
        bounds.scale *= raised;
        bounds.beta *= raised;
        Changes found = count_changes(a, b, map, bounds, eta * kRaise);
        if (found.n < 0) found = {count_carefully(a, b, map, rows.scales + i, rows.blurs[i]), -1};
        is_open[i] = found.n < 0;
        all_sure = all_sure && found.n >= 0;
        sums[i] = found.sum;
        starts[i + 1] = starts[i] + (found.n > 0 ? found.n : 0);
    }
    const std::int64_t n_new = starts[n - 1];
    const std::size_t n_after = static_cast<std::size_t>(n + n_new);
    Zero* zeros = arena.take<Zero>(static_cast<std::size_t>(n_new));
    Blur* blurs = arena.take<Blur>(n_after);
    if (arena.used > s.half_size) return kLineFull;
    for (std::int64_t i = 0; i + 1 < n; ++i) {
        const std::int64_t first = starts[i], count = starts[i + 1] - first;
        if (count == 0) {
            blurs[i + first] = rows.blurs[i];
            continue;
        }
        const double *a = rows.values + i * width, *b = a + width;
        const IntervalBounds bounds = bounds_of(rows.scales[i], rows.scales[i + 1]);
        const bool is_sure = count == 1 && sums[i] >= 0
                                 ? find_zero(a, b, map, bounds, sums[i], zeros[first])
                                 : find_zeros(a, b, map, bounds, count, zeros + first);
        if (!is_sure || !find_blurs(zeros + first, count, rows.blurs[i], blurs + i + first)) {
            is_open[i] = 1;
            all_sure = false;
        }
    }
    if (!all_sure) {
        s.is_open = is_open;
        return kLineOpen;
    }
    const bool is_last = s.index + 1 == s.n_layers;
    const std::int64_t following = is_last ? 0 : s.maps[s.index + 1].n_out;
    if (n > 2 && n_new * following > most_entries) return kLineCrowded;
    Place* places = arena.take<Place>(n_after);
    PointName* names = arena.take<PointName>(n_after);
    LineScale* scales = arena.take<LineScale>(n_after);
    double* values = arena.take<double>(n_after * static_cast<std::size_t>(following));
    double* form = arena.take<double>(static_cast<std::size_t>(following));
    RowBatch batch;
    if (!is_last) lay_out(batch, arena, width + 1, following);
    if (arena.used > s.half_size) return kLineFull;
    {
        const double *a = rows.values, *b = a + width;
        for (std::int64_t j = 0; j < width; ++j)
            states[j] = a[j] > 0.0 || (a[j] == 0.0 && b[j] > 0.0);
    }
    for (std::int64_t i = 0; i < n; ++i) {
        std::int64_t k = i + starts[i];
        places[k] = rows.places[i];
        names[k] = rows.names[i];
        if (i == n - 1) break;
        const double *a = rows.values + i * width, *b = a + width;
        const Place &p = rows.places[i], &q = rows.places[i + 1];
        for (std::int64_t z = starts[i]; z < starts[i + 1]; ++z) {
            const std::int64_t unit = zeros[z].unit;
            ++k;
            // Far out on a ray, the difference between a part and 1 has few digits.
            const double part = zeros[z].part,
                         rest = magnitude(b[unit]) / (magnitude(a[unit]) + magnitude(b[unit]));
            for (int c = 0; c < 3; ++c)
                places[k].at[c] = p.at[c] == q.at[c] ? p.at[c] : rest * p.at[c] + part * q.at[c];
            if (p.at[1] != q.at[1]) places[k].at[1] = (1.0 - part) * p.at[1] + part * q.at[1];
            const bool rises = b[unit] > 0.0;
            names[k] = {s.index, 2 * unit + !rises, 2 * unit + rises};
        }
    }
    if (!is_last) {
        const NormedMap& next = s.maps[s.index + 1];
        double* outs[RowBatch::kRows];
        for (std::int64_t i = 0; i < n; ++i) {
            const std::int64_t k = i + starts[i];
            const LineScale& scale = rows.scales[i];
            sizes[i] = positive_norm(rows.values + i * width, width);
            errors[i] = map.sigma * scale.e + map.frobenius * scale.rho;
            errors[i] = (errors[i] + scale.beta * map.bias_norm) * kRaise + kTiny;
            scales[k] = {sizes[i] > 0.0 ? errors[i] : 0.0, next.kappa * sizes[i] * kRaise,
                         bias_scale(next.kappa, rows.places[i].at[1])};
            const int r = static_cast<int>(i % RowBatch::kRows);
            outs[r] = values + k * following;
            if (r + 1 < RowBatch::kRows && i + 1 < n) continue;
            put_points(batch, rows.values + (i - r) * width, width, rows.places + (i - r), outs,
                       r + 1);
            if (batch.n_groups == RowBatch::kGroups || i + 1 == n) multiply(batch, panels_of(next));
        }
        for (std::int64_t i = 0; i + 1 < n; ++i) {
            const std::int64_t first = starts[i], count = starts[i + 1] - first;
            if (count == 0) continue;
            const double *a = rows.values + i * width, *b = a + width;
            carry(a, b, zeros + first, count, next.rows, following,
                  values + (i + first) * following, form);
            const double size =
                larger_or_infinite(continued_norm(sizes[i], a, zeros + first, count),
                                   continued_norm(sizes[i + 1], b, zeros + first, count));
            const double rounding = next.kappa + kU * static_cast<double>(count + 8);
            const double error =
                (larger_or_infinite(errors[i], errors[i + 1]) + 4.0 * kU * size) * kRaise;
            const double weight =
                larger_or_infinite(rows.places[i].at[1], rows.places[i + 1].at[1]);
            for (std::int64_t k = i + first + 1; k <= i + first + count; ++k)
                scales[k] = {error, rounding * size * kRaise, bias_scale(rounding, weight)};
        }
    }
    s.n_signs += (n - 1) * width;
    s.rows = {n + n_new, values, scales, blurs, places, names};
    s.half = 1 - s.half;
    ++s.index;
    return kLineDone;
}

}  // namespace detail

// Write the positions t = at[0] / at[2] of a row's points, and bounds on the distances of the true
// ends of intervals from them. `reach` >= 1 bounds the absolute values of the finite ends of the
// line.
//
// Proof: a point (T, w) is a mean of two others in each layer, with parts known to 4 u and rounded
// to 2 u. After l layers and the rounding of an end, the error of both coordinates is at most 8 (l
// + 2) u times the largest coordinate, which is 1 or the reach. With T = at[0] and w = at[1],
// T* / w* - t| <= (error (reach + |t|) + |t| |at[2] - w|) / (w - error) for the point (T*, w*)
// itself. A true end differs from its point by a
// part eta of the way from p to q, along which t moves at most m / (1 - m eta)^2 times as fast as
// at constant speed, where m is the quotient of the larger weight and the smaller.
inline void bound_ends(std::int64_t n, const Place* places, const Blur* blurs,
                       std::int64_t n_layers, double reach, double* where, double* radii) {
    const double error = 8.0 * static_cast<double>(n_layers + 2) * kU;
    for (std::int64_t i = 0; i < n; ++i) where[i] = places[i].at[0] / places[i].at[2];
    const auto rounded = [&](std::int64_t i) {
        const double w = places[i].at[1], size = magnitude(where[i]);
        if (!(w > 2.0 * error)) return kInfinity;
        return (error * (reach + size) + size * magnitude(places[i].at[2] - w)) / (w - error);
    };
    // Bound the error due to the interval between two ends, of which this end is off by a part eta.
    const auto off = [&](std::int64_t left, double eta) {
        if (eta == 0.0) return 0.0;
        const double p = places[left].at[1], q = places[left + 1].at[1];
        // Both weights may have small errors.
        const double part = 1.125 * eta * larger(p, q) / (p < q ? p : q);
        const double length =
            where[left + 1] - where[left] + 2.0 * (rounded(left) + rounded(left + 1));
        return part < 0.125 ? 2.0 * part * length : kInfinity;
    };
    for (std::int64_t i = 0; i < n; ++i) {
        const double before = i > 0 ? off(i - 1, blurs[i - 1].right) : kInfinity;
        const double after = i + 1 < n ? off(i, blurs[i].left) : kInfinity;
        const double radius = (rounded(i) + (before < after ? before : after)) * kRaise + kTiny;
        radii[i] = magnitude(where[i]) == kInfinity ? 0.0 : radius < kInfinity ? radius : kInfinity;
    }
}

// Write the data of the cells.
inline LineStatus finish(const LineSearch& s, double reach, FoundCells& found) {
    const std::int64_t n = s.rows.n;
    Arena arena{s.halves[s.half]};
    found.where = arena.take<double>(static_cast<std::size_t>(n));
    found.radii = arena.take<double>(static_cast<std::size_t>(n));
    found.groups = arena.take<std::int64_t>(static_cast<std::size_t>(n));
    found.winners = arena.take<std::uint8_t>(static_cast<std::size_t>(n));
    if (arena.used > s.half_size) return kLineFull;
    bound_ends(n, s.rows.places, s.rows.blurs, s.n_layers, reach, found.where, found.radii);
    std::int64_t layer = -1, first_unit = 0;
    for (std::int64_t i = 1; i + 1 < n; ++i) {
        const PointName& name = s.rows.names[i];
        if (name.layer != layer) {
            layer = name.layer;
            first_unit = 0;
            for (std::int64_t l = 0; l < layer; ++l) first_unit += s.maps[l].n_out;
        }
        found.groups[i - 1] = first_unit + name.after / 2;
        found.winners[i - 1] = name.after & 1;
    }
    return kLineDone;
}

// Cut intervals by the units of one layer after another. `states` receives the units that are on in
// the first interval, for all layers that the search completes, starting with the first.
// `most_rows` contains, for each layer, the number of rows up to which the search does not pause
// before it. `most_entries` is the maximum number of entries in new rows.
inline LineStatus advance(LineSearch& s, std::uint8_t* states, const std::int64_t* most_rows,
                          std::int64_t most_entries, double reach, FoundCells& found) {
    while (s.index < s.n_layers) {
        const std::int64_t width = s.maps[s.index].n_out;
        const LineStatus status = detail::cut_by_layer(s, states, most_entries);
        if (status != kLineDone) return status;
        if (s.index < s.n_layers && s.rows.n > most_rows[s.index]) return kLinePaused;
        states += width;
    }
    return finish(s, reach, found);
}

// The same, starting from the two ends of a segment, given exactly as the stream before the first
// layer.
inline LineStatus advance_between(LineSearch& s, const double* const* ends, std::uint8_t* states,
                                  const std::int64_t* most_rows, std::int64_t most_entries,
                                  FoundCells& found) {
    const NormedMap& map = s.maps[0];
    const std::size_t n_out = static_cast<std::size_t>(map.n_out);
    Arena arena{s.halves[1]};
    double* values = arena.take<double>(2 * n_out);
    LineScale* scales = arena.take<LineScale>(2);
    Blur* blurs = arena.take<Blur>(1);
    Place* places = arena.take<Place>(2);
    PointName* names = arena.take<PointName>(2);
    if (arena.used > s.half_size) return kLineFull;
    for (int i = 0; i < 2; ++i) {
        scales[i].e = 0.0;
        places[i] = {{static_cast<double>(i), 1.0, 1.0}};
        names[i] = {-1, -1, -1};
    }
    blurs[0] = {0.0, 0.0};
    const double weights[2] = {1.0, 1.0};
    enter_line(map, ends, weights, values, scales);
    s.rows = {2, values, scales, blurs, places, names};
    s.half = 0;
    return advance(s, states, most_rows, most_entries, 4.0, found);
}

}  // namespace hardmax
