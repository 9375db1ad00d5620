// The forms of a group that can win on a cell.
//
// A form is dropped only if a single rival exceeds it at every vertex, because then the rival
// exceeds it on the whole cell. A form that wins at no vertex is not dropped, because it may win in
// the interior. If many forms are equal in one point, each of them is the largest there up to
// rounding; such forms are compared along directions: see `cull_pencil`.
#pragma once
#include "units.hpp"

namespace hardmax {

// Scratch for groups: the competing forms and bounds on their errors, with kLanes spare entries.
struct Contest {
    int* form;          // the competing forms
    double* error;      // at finite vertices
    double* far_error;  // along directions
    double* slopes;     // the sums of their absolute slopes
    int* listed;        // indices of forms, in any order
    bool* is_kept;
};

// A box around the computed vertices of a cell.
template <int D>
struct Bounds {
    double middle[D], half[D];
};

template <class Cell>
Bounds<Cell::dim> box_around(const Cell& cell) {
    Bounds<Cell::dim> box{};
    for (int k = 0; k < Cell::dim; k++) {
        double low = cell.x(0, k), high = low;
        for (int i = 1; i < cell.n; i++) {
            low = cell.x(i, k) < low ? cell.x(i, k) : low;
            high = larger(high, cell.x(i, k));
        }
        box.middle[k] = 0.5 * low + 0.5 * high;
        box.half[k] = larger(high - box.middle[k], box.middle[k] - low);
    }
    return box;
}

// The forms, among a few from number m on, that a leader certainly exceeds in a box around points
// of radius rho; one bit per form. The errors are those on a cell that contains the points.
struct Leader {
    int form;
    double error, slopes;
};
template <int D>
std::uint64_t exceeded_in(const Bounds<D>& box, double rho, const Forms<D>& forms,
                          const Leader& leader, const Contest& contest, int m, int count) {
    int form[kLanes];
    for (int i = 0; i < kLanes; i++) form[i] = contest.form[least(m + i, count - 1)];
    Lanes value = all(0.0), rise = all(0.0);
    for (int k = 0; k <= D; k++) {
        const double* row = forms.coefficient[k];
        const Lanes gap =
            all(row[leader.form]) - Lanes{row[form[0]], row[form[1]], row[form[2]], row[form[3]]};
        value += k < D ? gap * all(box.middle[k]) : gap;
        if (k < D) rise += absolute(gap) * all(box.half[k]);
    }
    // Twice the errors of both forms, which include kKappa times their sizes, cover the rounding
    // errors.
    const Lanes error = load(contest.error + m) + all(leader.error),
                slopes = load(contest.slopes + m) + all(leader.slopes);
    LaneMask mask;
    mask.add(value - rise > all(2.0 * kUp) * (error + slopes * all(rho)), 0);
    return mask.bits() & low_bits(least(count - m, kLanes));
}

// The forms, among a few from number m on, that one form certainly exceeds at all vertices where
// not all forms vanish (`known` may identify these vertices); one bit per form.
template <class Cell, class Known>
std::uint64_t exceeded(const Forms<Cell::dim>& forms, int leader, const Contest& contest, int m,
                       int count, const Cell& cell, const Known& known, double error,
                       double far_error) {
    constexpr int D = Cell::dim;
    int form[kLanes];
    for (int i = 0; i < kLanes; i++) form[i] = contest.form[least(m + i, count - 1)];
    Lanes gap[D + 1];
    for (int k = 0; k <= D; k++) {
        const double* row = forms.coefficient[k];
        gap[k] = all(row[leader]) - Lanes{row[form[0]], row[form[1]], row[form[2]], row[form[3]]};
    }
    // The differences are rounded. The errors of both forms, which include kKappa times their
    // sizes, cover this.
    const Lanes bound = (load(contest.error + m) + all(error)) * all(kUp);
    LaneBits is_exceeded = LaneBits{} - 1;
    for (int i = 0; i < cell.n; i++) {
        const bool is_far = cell.is_far(i);
        Lanes value = gap[0] * all(is_far ? cell.d(i, 0) : cell.x(i, 0));
        for (int k = 1; k < D; k++) value += gap[k] * all(is_far ? cell.d(i, k) : cell.x(i, k));
        if (is_far)
            is_exceeded &= value > (load(contest.far_error + m) + all(far_error)) * all(kUp);
        else if (!known.all_vanish(cell, i))
            is_exceeded &= value + gap[D] > bound;
    }
    LaneMask mask;
    mask.add(is_exceeded, 0);
    return mask.bits() & low_bits(least(count - m, kLanes));
}

// Keep the competing forms that no single rival exceeds at all vertices. Return their number.
//
// The rivals tried are the winners at the middle and at each vertex according to rounded values.
// The choice of rivals affects only how many forms are dropped.
template <class Cell, class Known>
int cull(const Forms<Cell::dim>& forms, double scale, const Cell& cell, const Reach& reach,
         const Known& known, int count, Contest& contest, SignCounts& counts) {
    constexpr int D = Cell::dim, most_tried = 8;
    int tried[most_tried], n_tried = 0;
    const double factor = detail::radius_factor<D>(reach, scale), share = 1.0 / cell.n;
    double middle[D] = {};
    for (int i = 0; i < cell.n; i++)
        for (int k = 0; k < D; k++) middle[k] += cell.x(i, k) * share;
    for (int m = 0; m < count; m++) {
        const int j = contest.form[m];
        double slopes = magnitude(forms.coefficient[0][j]);
        for (int k = 1; k < D; k++) slopes += magnitude(forms.coefficient[k][j]);
        const double error = forms.radius[j] * factor + slopes * reach.rho +
                             kKappa * (slopes * reach.size + magnitude(forms.coefficient[D][j]));
        contest.error[m] = error * kUp + kTiny;
        contest.slopes[m] = slopes;
    }
    // Along directions; in space, `cull_pencil` needs them, too.
    for (int m = 0; (D > 2 || reach.has_far) && m < count; m++) {
        const double radius = D * forms.radius[contest.form[m]] / scale,
                     far_error = contest.slopes[m] * (kKappa + reach.far_rho) +
                                 radius * (1.0 + reach.far_rho);
        contest.far_error[m] = far_error * kUp + kTiny;
    }
    // Drop the forms that a leader exceeds; the function tests four forms at a time.
    const auto drop = [&](int leader, auto is_exceeded_from) {
        int n_kept = 0;
        for (int first = 0; first < count; first += kLanes) {
            const std::uint64_t is_exceeded = is_exceeded_from(first);
            if (is_exceeded == 0 && n_kept == first) {
                n_kept = least(first + kLanes, count);
                continue;
            }
            for (int m = first; m < least(first + kLanes, count); m++) {
                const int j = contest.form[m];
                contest.form[n_kept] = j;
                contest.error[n_kept] = contest.error[m];
                contest.slopes[n_kept] = contest.slopes[m];
                contest.far_error[n_kept] = contest.far_error[m];
                n_kept += j == leader || !(is_exceeded >> (m - first) & 1);
            }
        }
        counts.n_filtered += std::int64_t(cell.n) * (count - n_kept);
        count = n_kept;
    };
    for (int v = -1; v < cell.n && count > 1; v++) {
        double x[D];
        for (int k = 0; k < D; k++)
            x[k] = v < 0 ? middle[k] : cell.is_far(v) ? cell.d(v, k) : cell.x(v, k);
        int top = 0;
        double best = -kBeyond;
        for (int m = 0; m < count; m++) {
            const int j = contest.form[m];
            double value = forms.coefficient[0][j] * x[0];
            for (int k = 1; k < D; k++) value += forms.coefficient[k][j] * x[k];
            value += forms.coefficient[D][j];
            if (value > best) best = value, top = m;
        }
        const int leader = contest.form[top];
        bool is_new = true;
        for (int i = 0; i < n_tried; i++) is_new = is_new && tried[i] != leader;
        if (!is_new) continue;
        if (n_tried < most_tried) tried[n_tried++] = leader;
        const double error = contest.error[top], far_error = contest.far_error[top];
        // In space, a cell has many vertices, and a box around them decides most of many forms.
        if (D > 2 && v < 0 && count >= 2 * kLanes && !reach.has_far) {
            const Bounds<D> box = box_around(cell);
            const Leader in_middle{leader, error, contest.slopes[top]};
            drop(leader,
                 [&](int m) { return exceeded_in(box, 0.0, forms, in_middle, contest, m, count); });
        }
        drop(leader, [&](int m) {
            return exceeded(forms, leader, contest, m, count, cell, known, error, far_error);
        });
    }
    return count;
}

constexpr int kDivideFrom = 24;      // measured: number of forms from which on directions are tried
constexpr int kDividedPerForm = 64;  // maximum average number of tests per form

// Of the first `count` listed forms, keep those that no leader certainly exceeds along some
// direction of a box, tested in the box or in parts of it. At most `allowed` tests are made. Return
// the number of tests left.
template <int D>
std::int64_t keep_leaders(const Forms<D>& forms, const Contest& contest, const Bounds<D>& box,
                          int count, std::int64_t allowed) {
    int *listed = contest.listed, top = listed[0];
    double best = -kBeyond;
    for (int p = 0; p < count; p++) {
        const int j = contest.form[listed[p]];
        double value = forms.coefficient[0][j] * box.middle[0];
        for (int k = 1; k < D; k++) value += forms.coefficient[k][j] * box.middle[k];
        if (value > best) best = value, top = listed[p];
    }
    const int leader = contest.form[top];
    contest.is_kept[top] = true;
    const double* error = contest.far_error;
    // The remaining forms are moved to the front of the list, which keeps its entries.
    int n_left = 0, n_new = 0;
    for (int p = 0; p < count; p += kLanes) {
        int m[kLanes], form[kLanes];
        for (int i = 0; i < kLanes; i++) {
            m[i] = listed[least(p + i, count - 1)];
            form[i] = contest.form[m[i]];
        }
        Lanes value = all(0.0), rise = all(0.0);
        for (int k = 0; k < D; k++) {
            const double* row = forms.coefficient[k];
            const Lanes gap =
                all(row[leader]) - Lanes{row[form[0]], row[form[1]], row[form[2]], row[form[3]]};
            value += gap * all(box.middle[k]);
            rise += absolute(gap) * all(box.half[k]);
        }
        // Twice the errors of both forms, which include kKappa times their slopes, cover the
        // rounding errors of this computation; the box itself is exact.
        const Lanes own = {error[m[0]], error[m[1]], error[m[2]], error[m[3]]};
        LaneMask mask;
        mask.add(value - rise > all(2.0 * kUp) * (own + all(error[top])), 0);
        const std::uint64_t is_exceeded = mask.bits();
        for (int i = 0; i < least(kLanes, count - p); i++) {
            if (is_exceeded >> i & 1) continue;
            listed[p + i] = listed[n_left];
            listed[n_left++] = m[i];
            n_new += !contest.is_kept[m[i]];
        }
    }
    allowed -= count;
    if (n_new == 0) return allowed;
    int side = 0;
    for (int k = 1; k < D; k++)
        if (box.half[k] > box.half[side]) side = k;
    // Halves down to 2^-20 are exact.
    if (n_left <= 2 || allowed < 2 * n_left || box.half[side] < 0x1p-20) {
        for (int p = 0; p < n_left; p++) contest.is_kept[listed[p]] = true;
        return allowed;
    }
    Bounds<D> lower = box, upper = box;
    lower.half[side] = upper.half[side] = 0.5 * box.half[side];
    lower.middle[side] -= lower.half[side], upper.middle[side] += upper.half[side];
    const std::int64_t rest = keep_leaders(forms, contest, lower, n_left, allowed / 2);
    return keep_leaders(forms, contest, upper, n_left, rest + allowed - allowed / 2);
}

// Keep the competing forms that may be the largest along some direction. Return their number. All
// differences of the forms must be combinations of D affine functions.
//
// Proof: if a form is exceeded along each direction, its differences from the forms that exceed it
// span all slopes. Hence the D functions vanish in one point, and so do all differences. Along a
// ray from this point, the differences have the same signs as along the ray's direction. Therefore
// the form is exceeded everywhere except in that point.
template <int D>
int cull_pencil(const Forms<D>& forms, int count, const Contest& contest) {
    for (int m = 0; m < count; m++) contest.listed[m] = m, contest.is_kept[m] = false;
    const std::int64_t allowed = std::int64_t{kDividedPerForm} * count;
    const auto count_kept = [&] {
        int n_kept = 0;
        for (int m = 0; m < count; m++) n_kept += contest.is_kept[m];
        return n_kept;
    };
    for (int side = 0; side < 2 * D; side++) {
        Bounds<D> box{};
        for (double& half : box.half) half = 1.0;
        box.half[side / 2] = 0.0;
        box.middle[side / 2] = side % 2 == 0 ? -1.0 : 1.0;
        keep_leaders(forms, contest, box, count, allowed / (2 * D));
        // If almost all forms win on the first two of 2 D sides, testing the others is unlikely to
        // drop any.
        if (side == 1 && D * count_kept() > count) return count;
    }
    int n_kept = 0;
    for (int m = 0; m < count; m++) {
        contest.form[n_kept] = contest.form[m];
        n_kept += contest.is_kept[m];
    }
    return n_kept;
}

// Record the winners in the middle of a cell, up to rounding, as its typical winners. A margin
// keeps them the same if the middle lies on a wall.
template <class Cell>
void note_typical(const Layer& layer, Frame<Cell::dim>& frame, double scale, const Cell& cell) {
    constexpr int D = Cell::dim;
    double middle[D] = {};
    for (int i = 0; i < cell.n; i++) {
        // Towards infinity, take a step along the direction.
        for (int k = 0; k < D; k++)
            middle[k] +=
                (cell.has_far() ? cell.x(i, k) + scale * cell.d(i, k) : cell.x(i, k)) / cell.n;
    }
    const double margin = 0x1p-30 * scale;
    const Forms<D>& forms = frame.scores;
    // Whether the form `plus`, minus the form `minus` if given, is certainly positive there.
    const auto is_positive = [&](int plus, int minus) {
        double value = 0.0, slopes = 0.0;
        for (int k = 0; k < D; k++) {
            const double a =
                forms.coefficient[k][plus] - (minus < 0 ? 0.0 : forms.coefficient[k][minus]);
            value = k == 0 ? a * middle[k] : value + a * middle[k];
            slopes = k == 0 ? magnitude(a) : slopes + magnitude(a);
        }
        const double c =
            forms.coefficient[D][plus] - (minus < 0 ? 0.0 : forms.coefficient[D][minus]);
        return value + c > margin * slopes;
    };
    if (layer.is_relu) {
        for (int i = 0; i < layer.n_groups; i++) frame.typical[i] = is_positive(i, -1);
        return;
    }
    for (int g = 0; g < layer.n_groups; g++) {
        const int first = layer.starts[g];
        int best = first;
        for (int j = first + 1; j < layer.starts[g + 1]; j++)
            if (is_positive(j, best)) best = j;
        frame.typical[g] = static_cast<std::int8_t>(best - first);
    }
}

// Property of all forms of a layer: without offsets, they vanish at the origin.
struct Homogeneous {
    bool is_homogeneous;
    template <class Cell>
    bool all_vanish(const Cell& cell, int i) const {
        return Cell::dim > 1 && is_homogeneous && detail::is_origin(cell, i);
    }
};

// Find the groups of a layer that have a single winner on a whole cell; list the others.
template <class Cell>
void analyse_groups(const Layer& layer, Frame<Cell::dim>& frame, double scale, const Cell& cell,
                    Contest& contest, SignCounts& counts) {
    constexpr int D = Cell::dim;
    const Homogeneous known{frame.is_homogeneous};
    const bool is_linear = frame.is_homogeneous || (layer.has_no_offsets && layer.dim_in <= D);
    const Reach reach = reach_of(cell);
    frame.n_pending = 0;
    for (int g = 0; g < layer.n_groups; g++) {
        const int first = layer.starts[g];
        int count = 0;
        for (int j = first; j < layer.starts[g + 1]; j++)
            if (layer.first[j] == j) contest.form[count++] = j;
        if (count > 1) count = cull(frame.scores, scale, cell, reach, known, count, contest, counts);
        // In the plane, large groups are split by walking: see `walks.hpp`.
        if (D > 2 && count >= kDivideFrom && (is_linear || layer.n_different[g] <= D))
            count = cull_pencil(frame.scores, count, contest);
        for (int m = 0; m < count; m++) frame.candidates[first + m] = contest.form[m];
        frame.n_candidates[g] = count;
        frame.fixed[g] = frame.candidates[first] - first;
        if (count > 1) frame.pending[frame.n_pending++] = g;
    }
}

// The data for splitting a cell by a group.
template <class Kind>
struct GroupSplit {
    const Layer& layer;
    const Frame<Kind::dim>& frame;
    typename Kind::Known known;
    int l, group, first;
    double scale;
};

// Whether two coinciding forms of a group certainly have the same contribution.
template <int D>
bool contribute_alike(const Layer& layer, const Frame<D>& frame, int one, int other) {
    if (frame.is_merged) return true;
    bool is_zero = frame.scores.radius[one] == 0.0 && frame.scores.radius[other] == 0.0;
    for (const double* row : frame.scores.coefficient)
        is_zero = is_zero && row[one] == 0.0 && row[other] == 0.0;
    // A positive radius means that the number is not known exactly; equal floats are then no proof.
    if (!is_zero && (layer.gains[one] != layer.gains[other] || layer.gain_radii[one] != 0.0 ||
                     layer.gain_radii[other] != 0.0))
        return false;
    for (int k = 0; k < layer.width; k++) {
        const std::size_t p = std::size_t(one) * layer.width + k,
                          q = std::size_t(other) * layer.width + k;
        if (layer.values[p] != layer.values[q] ||
            layer.value_radii[p] + layer.value_radii[q] != 0.0)
            return false;
    }
    return true;
}

}  // namespace hardmax
