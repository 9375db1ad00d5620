// The convex hull of points of R^N, 3 <= N <= 5: its facets, exactly.
//
// Points are inserted one by one. Each point that is not yet known to be inside waits at a facet
// that it is above. An inserted point replaces all facets that it is above by facets that join it
// to the border of the gap. The points that waited at the replaced facets are assigned to the new
// ones ([BDH96]).
//
// "Above" is strict: a point in the plane of a facet is not above it, and no perturbation is
// needed. Let the insertion of q replace a facet T and keep its neighbour U across a ridge: T(q) >
// 0 >= U(q), where T(x) is the height of x above the plane of T.
// - The new facet F that joins the ridge to q is not flat, and q replaces the corner of T opposite
//   to the ridge. Proof: T and U vanish together on the plane of the ridge, so q does not lie on
//   it. It lies on the side of the ridge where T(q) > U(q), which is the side of T.
// - The hull stays convex: up to a positive factor F = |U(q)| T + T(q) U, so F lies between T and
//   U.
// - If a point p was above a replaced facet and is above some facet of the new hull, it is above a
//   new facet. Proof: the facets that p was above are connected. So either all of them are
//   replaced, or at some ridge of the border T(p) > 0 and U(p) > 0, hence F(p) > 0. Therefore a
//   point that is above no new facet is inside for good, and equal points wait together until one
//   of them is inserted.
//
// Facets that lie in one plane stay divided into simplices and are reported as one face at the end.
// The faces do not depend on the order of insertion.
//
// *Upper hulls.* A corner at infinity stands for one more point, (c, -M), with c inside and M larger
// than all bounds below. The facets without that corner are the
// upper hull. A facet with that corner is vertical, up to 1/M. A point in its vertical plane is
// above it if the point is above the facet across the ridge opposite to that corner: within the
// vertical plane, the ridge has the same plane.
#pragma once
#include "arena.hpp"
#include "integers.hpp"
#include "rounding.hpp"

namespace hardmax {

constexpr int32_t kAtInfinity = -1;

// --- Points and their signs
// -------------------------------------------------------------------------

// Points as integers of any size, with a separate unit for the last column, or as floats. In
// addition, each point has floats of magnitude at most 1: the point minus the first point, each
// column in its own unit. For an upper hull, a form of the other columns is also subtracted from
// the last column. Signs of determinants do not depend on these changes.
template <int N>
struct HullPoints {
    int32_t n;
    int32_t limbs[2];  // three bits more than the longest number of the first columns, and of the
                       // last
    const Limb* columns[2];  // (n, N - 1, limbs[0]), (n, limbs[1]); or null if there are floats
    const double* floats;    // (n, N), as integers times 2^lowest
    int32_t lowest[2];
    double* rounded;     // (n, N)
    double rounding[N];  // error bounds of these floats
    bool is_small;  // heights above planes are integers below 2^53 in their unit, and are exact
    bool is_flat;   // all entries of the last column are equal
    Limb* scratch;
};

namespace detail {

template <int N>
size_t limbs_of_point(const HullPoints<N>& p) {
    return static_cast<size_t>((N - 1) * p.limbs[0] + p.limbs[1]);
}

// Write entry `axis` of point i as an integer.
template <int N>
const Limb* integer_of(const HullPoints<N>& p, int32_t i, int axis, Limb* room) {
    const int group = axis == N - 1, length = p.limbs[group];
    if (p.columns[0]) {
        const size_t place = group ? static_cast<size_t>(i)
                                   : static_cast<size_t>(i) * (N - 1) + static_cast<size_t>(axis);
        return p.columns[group] + place * static_cast<size_t>(length);
    }
    const double x = p.floats[static_cast<size_t>(i) * N + static_cast<size_t>(axis)];
    for (int k = 0; k < length; k++) room[k] = 0;
    if (x == 0.0) return room;
    uint64_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    const int exponent = static_cast<int>(bits >> 52 & 2047);
    Limb mantissa = bits & ((Limb{1} << 52) - 1);
    if (exponent > 0) mantissa |= Limb{1} << 52;
    // x = mantissa 2^shift in the unit of the group; a negative shift removes only zeros.
    const int shift = (exponent > 0 ? exponent : 1) - 1075 - p.lowest[group];
    if (shift < 0) {
        room[0] = mantissa >> -shift;
    } else {
        room[shift / 64] = mantissa << shift % 64;
        if (shift % 64 > 11 && shift / 64 + 1 < length)
            room[shift / 64 + 1] = mantissa >> (64 - shift % 64);
    }
    if (x < 0.0) {
        Limb carry = 1;
        for (int k = 0; k < length; k++) {
            room[k] = ~room[k] + carry;
            carry = carry && room[k] == 0;
        }
    }
    return room;
}

// Determinants of rows of integers, by expanding along one row after the other: the minor of the
// first r rows and the columns S, |S| = r, is D(S) = sum_{j in S} +-a_rj D(S - j). With three spare
// bits in each entry, one of them for the difference, r! 2^(-3 r) < 1/2: the minor fits into the
// limbs of its columns.
template <int N>
struct IntegerMinors {
    const HullPoints<N>& p;
    Limb* entry;          // N integers of the current row
    Limb* base;           // space for an integer of the base and one of the other point
    Limb* minor[1 << N];  // by the set of columns
    Limb* room;

    explicit IntegerMinors(const HullPoints<N>& points) : p(points) {
        Limb* next = p.scratch;
        const size_t length = limbs_of_point(p);
        entry = next;
        next += length;
        base = next;
        next += 2 * most(p.limbs[0], p.limbs[1]);
        room = next;
        next += length;
        for (int columns = 1; columns < 1 << N; columns++) {
            minor[columns] = next;
            next += width(columns);
        }
    }

    static size_t room_for(const HullPoints<N>& p) {
        return ((size_t{1} << (N - 1)) + 2) * limbs_of_point(p) +
               2 * static_cast<size_t>(most(p.limbs[0], p.limbs[1]));
    }

    int limbs(int axis) const { return p.limbs[axis == N - 1]; }

    int width(int columns) const {
        const int first = __builtin_popcount(static_cast<unsigned>(columns & ((1 << (N - 1)) - 1)));
        return first * p.limbs[0] + (columns >> (N - 1)) * p.limbs[1];
    }

    // Load the point `corner` minus the point `from`, or the downward direction.
    void load(int32_t corner, int32_t from) {
        Limb* next = entry;
        for (int axis = 0; axis < N; next += limbs(axis), axis++) {
            const int length = limbs(axis);
            if (corner == kAtInfinity) {
                for (int k = 0; k < length; k++) next[k] = axis == N - 1 ? ~Limb{0} : 0;
                continue;
            }
            const Limb* one = integer_of(p, corner, axis, base);
            const Limb* other = integer_of(p, from, axis, base + length);
            subtract(one, other, length, next);
        }
    }

    // Append the current row, which has `row` rows before it.
    void expand(int row) {
        for (int columns = 1; columns < 1 << N; columns++) {
            if (__builtin_popcount(static_cast<unsigned>(columns)) != row + 1) continue;
            const int total = width(columns);
            Limb* sum = minor[columns];
            bool is_begun = false, is_positive = row % 2 == 0;
            const Limb* next = entry;
            for (int axis = 0; axis < N; next += limbs(axis), axis++) {
                if ((columns >> axis & 1) == 0) continue;
                const int smaller = columns ^ 1 << axis;
                const bool adds = is_positive;
                is_positive = !is_positive;
                if (row == 0) {
                    for (int k = 0; k < total; k++) sum[k] = next[k];
                    is_begun = true;
                    continue;
                }
                if (sign(next, limbs(axis)) == 0) continue;
                multiply(minor[smaller], width(smaller), next, limbs(axis), room);
                if (!is_begun)
                    for (int k = 0; k < total; k++) sum[k] = 0;
                is_begun = true;
                if (adds)
                    add(sum, room, total, sum);
                else
                    subtract(sum, room, total, sum);
            }
            if (!is_begun)
                for (int k = 0; k < total; k++) sum[k] = 0;
        }
    }
};

}  // namespace detail

// The sign of the determinant of N points, the first of them finite, and of a last point: whether
// the last point is above the plane of the others.
template <int N>
int exact_side(const HullPoints<N>& points, const int32_t* corner, int32_t p) {
    detail::IntegerMinors<N> minors(points);
    for (int row = 0; row < N; row++) {
        minors.load(row < N - 1 ? corner[row + 1] : p, corner[0]);
        minors.expand(row);
    }
    constexpr int all = (1 << N) - 1;
    return sign(minors.minor[all], minors.width(all));
}

// The point where the forms <a, x> + c of N finite points (a, c) are equal: the plane of the points
// has the normal (x, 1) up to a factor. The coordinates are rounded as described at
// `nearest_quotient`.
template <int N>
void meeting_point(const HullPoints<N>& points, const int32_t* corner, int exponent, double* x) {
    detail::IntegerMinors<N> minors(points);
    for (int row = 0; row < N - 1; row++) {
        minors.load(corner[row + 1], corner[0]);
        minors.expand(row);
    }
    const auto minor = [&](int axis) {
        const int columns = ((1 << N) - 1) ^ 1 << axis;
        return leading(minors.minor[columns], minors.width(columns));
    };
    const Leading bottom = minor(N - 1);
    for (int axis = 0; axis < N - 1; axis++) {
        const double quotient = nearest_quotient(minor(axis), bottom, exponent);
        x[axis] = (N - 1 - axis) % 2 == 0 || quotient == 0.0 ? quotient : -quotient;
    }
}

template <int N>
bool are_same(const HullPoints<N>& points, int32_t p, int32_t q) {
    const double* one = points.rounded + static_cast<size_t>(p) * N;
    const double* other = points.rounded + static_cast<size_t>(q) * N;
    for (int axis = 0; axis < N; axis++)
        if (one[axis] != other[axis]) return false;
    Limb* room = points.scratch;
    for (int axis = 0; axis < N; axis++) {
        const int length = points.limbs[axis == N - 1];
        if (!are_equal(detail::integer_of(points, p, axis, room),
                       detail::integer_of(points, q, axis, room + length), length))
            return false;
    }
    return true;
}

// --- The hull ---------------------------------------------------------------------------------------

template <int N>
struct HullFacet {
    double normal[N], height;  // T(x) = <normal, x> + height, rounded,
    double radius;             // bound on the error of T at a point
    double farthest;           // T at the first of the waiting points
    int32_t corner[N];         // kAtInfinity is never the first
    int32_t neighbour[N];      // across the ridge opposite to this corner
    int32_t waiting;           // the first waiting point, or -1
    int32_t mark;              // +i: replaced by insertion i; -i: tested and not replaced;
                               // kFreeFacet
};

constexpr int32_t kNobody = -1;
constexpr int32_t kFreeFacet = -0x7fffffff;

template <int N>
struct ConvexHull {
    HullPoints<N> points;
    bool is_upper;
    int32_t* next;   // for each waiting point, the next one, or -1
    int32_t* first;  // for each point, the first equal point, once that is known
    HullFacet<N>* facets;
    int32_t* gap;   // facets to be replaced
    int32_t* made;  // new facets
    int32_t* free;
    int32_t room;
    int32_t n_facets, n_free, n_inserted, n_waiting;
    int32_t cursor;
};

// Memory for facets and for lists of facets.
template <int N>
void lay_out_facets(ConvexHull<N>& h, Arena& arena, int32_t room) {
    const size_t n = static_cast<size_t>(room);
    h.room = room;
    h.facets = arena.take<HullFacet<N>>(n);
    h.gap = arena.take<int32_t>(n);
    h.made = arena.take<int32_t>(n);
    h.free = arena.take<int32_t>(n);
}

template <int N>
void lay_out(ConvexHull<N>& h, Arena& arena, const HullPoints<N>& points, bool is_upper) {
    const size_t n = static_cast<size_t>(points.n);
    h.points = points;
    h.is_upper = is_upper;
    h.points.rounded = arena.take<double>(n * N);
    h.points.scratch = arena.take<Limb>(detail::IntegerMinors<N>::room_for(points));
    h.next = arena.take<int32_t>(n);
    h.first = arena.take<int32_t>(n);
}

namespace detail {

// The representation of a group of columns as integers: their unit and their limbs.
template <int N>
void measure_floats(HullPoints<N>& p) {
    int top[2] = {-1100, -1100};
    p.lowest[0] = p.lowest[1] = kCoarsestGrid;
    for (size_t k = 0; k < static_cast<size_t>(p.n) * N; k++) {
        const int group = k % N == N - 1;
        p.lowest[group] = grid_of(p.floats[k], p.lowest[group]);
        if (p.floats[k] != 0.0) top[group] = most(top[group], exponent_of(p.floats[k]));
    }
    for (int group = 0; group < 2; group++)
        p.limbs[group] = most(top[group] + 1 - p.lowest[group] + 3 + 63, 64) / 64;
}

// An entry minus the entry of the first point: mantissa 2^exponent, with an error of at most 2^-104
// relative plus 2^-1074 times 2^scale, or exactly. The magnitude of floats is below 2^(scale - 1).
struct Difference {
    Doubled mantissa;
    int exponent;
    bool is_exact;
};

template <int N>
Difference from_first(const HullPoints<N>& p, int32_t i, int axis, int scale) {
    if (!p.columns[0]) {
        const double* column = p.floats + axis;
        const double x = __builtin_ldexp(column[static_cast<size_t>(i) * N], -scale);
        const bool is_exact = p.lowest[axis == N - 1] - scale >= -1074;
        return {two_sum(x, -__builtin_ldexp(column[0], -scale)), scale, is_exact};
    }
    const int length = p.limbs[axis == N - 1];
    subtract(integer_of(p, i, axis, nullptr), integer_of(p, 0, axis, nullptr), length, p.scratch);
    const Leading x = leading(p.scratch, length);
    return {x.mantissa, x.exponent, x.exponent <= 106};
}

inline Doubled times_power(Doubled x, int e) {
    return {__builtin_ldexp(x.high, e), __builtin_ldexp(x.low, e)};
}

constexpr int kNoBits = -1000000;

// The unit 2^top of a column's floats, at least their largest magnitude; for `scale`, see
// `from_first`.
struct ColumnUnit {
    int scale, top;
};

template <int N>
ColumnUnit unit_of_column(const HullPoints<N>& p, int axis) {
    ColumnUnit unit{kNoBits, kNoBits};
    for (int32_t i = 0; !p.columns[0] && i < p.n; i++) {
        const double x = p.floats[static_cast<size_t>(i) * N + static_cast<size_t>(axis)];
        if (x != 0.0) unit.scale = most(unit.scale, exponent_of(x) + 2);
    }
    if (unit.scale == kNoBits) unit.scale = 0;
    for (int32_t i = 0; i < p.n; i++) {
        const Difference x = from_first(p, i, axis, unit.scale);
        if (x.mantissa.high != 0.0)
            unit.top = most(unit.top, exponent_of(x.mantissa.high) + 1 + x.exponent);
    }
    if (unit.top == kNoBits) unit.top = 0;
    return unit;
}

// Write the floats of all columns, each in its own unit.
template <int N>
void fill_rounded(HullPoints<N>& p, ColumnUnit (&unit)[N]) {
    int bits = 0;
    p.is_small = true;
    for (int axis = 0; axis < N; axis++) {
        unit[axis] = unit_of_column(p, axis);
        int grid = 0;
        bool is_exact = true;
        for (int32_t i = 0; i < p.n; i++) {
            const Difference x = from_first(p, i, axis, unit[axis].scale);
            double& entry = p.rounded[static_cast<size_t>(i) * N + static_cast<size_t>(axis)];
            entry = __builtin_ldexp(x.mantissa.high, x.exponent - unit[axis].top);
            is_exact = is_exact && x.is_exact && x.mantissa.low == 0.0;
            grid = grid_of(entry, grid);
        }
        // Half a bit of what is at most 1, and what underflows: floats that differ at all differ by 2^-54
        // of the largest one, so `top` is at most 56 below `scale`, and 2^(56 - 1074) is less than u.
        p.rounding[axis] = is_exact ? kTiny : 2.0 * kU;
        p.is_small = p.is_small && is_exact && grid > -100;
        bits -= grid;
    }
    // A height is a sum of at most 2 N! products of differences, each at most 2: 3840 < 2^12 for N
    // = 5.
    p.is_small = p.is_small && bits + 12 <= 53;
}

// Compute, in floats, the gradient of the last column with respect to the others on some points.
// Return false if it is undefined.
template <int N>
bool gradient_on(const HullPoints<N>& p, const int32_t* corner, double* gradient) {
    constexpr int m = N - 1;
    double rows[m][N];
    const double* base = p.rounded + static_cast<size_t>(corner[0]) * N;
    for (int i = 0; i < m; i++)
        for (int k = 0; k < N; k++)
            rows[i][k] =
                p.rounded[static_cast<size_t>(corner[i + 1]) * N + static_cast<size_t>(k)] -
                base[k];
    for (int k = 0; k < m; k++) {
        int pivot = k;
        for (int i = k + 1; i < m; i++)
            if (magnitude(rows[i][k]) > magnitude(rows[pivot][k])) pivot = i;
        if (rows[pivot][k] == 0.0) return false;
        for (int j = 0; j < N; j++) {
            const double x = rows[k][j];
            rows[k][j] = rows[pivot][j];
            rows[pivot][j] = x;
        }
        for (int i = 0; i < m; i++) {
            if (i == k) continue;
            const double factor = rows[i][k] / rows[k][k];
            for (int j = k; j < N; j++) rows[i][j] -= factor * rows[k][j];
        }
    }
    double size = 0.0;
    for (int k = 0; k < m; k++) size += magnitude(gradient[k] = rows[k][m] / rows[k][k]);
    return size < 0x1p40;
}

// If the last column is nearly a form of the others, as for sites far from the origin, subtract the
// form: the remainder carries more information. Any form is valid. In numbers of two floats, the
// error of the result is at most 2^-96 of the magnitudes added: up to 4 products and 4 sums, with
// less than 7 u^2 of the magnitudes each, and entries known to 2^-104.
template <int N>
void take_form_away(HullPoints<N>& p, const int32_t* corner, const ColumnUnit (&unit)[N]) {
    double gradient[N - 1];
    if (p.is_small || p.is_flat || !gradient_on(p, corner, gradient)) return;
    const auto rest = [&](int32_t i) {
        double x = p.rounded[static_cast<size_t>(i) * N + N - 1];
        for (int k = 0; k < N - 1; k++)
            x -= gradient[k] * p.rounded[static_cast<size_t>(i) * N + static_cast<size_t>(k)];
        return x;
    };
    double size = 1.0, largest = 0.0;
    for (double g : gradient) size += magnitude(g);
    for (int32_t i = 0; i < p.n; i++)
        largest = larger(largest, magnitude(rest(i) - rest(corner[0])));
    if (!(largest < 0x1p-8)) return;
    const auto left = [&](int32_t i) {
        const auto entry = [&](int axis) {
            const Difference x = from_first(p, i, axis, unit[axis].scale);
            return times_power(x.mantissa, x.exponent - unit[axis].top);
        };
        Doubled sum = entry(N - 1);
        for (int k = 0; k < N - 1; k++) sum = add(sum, multiply(entry(k), -gradient[k]));
        return sum;
    };
    const Doubled base = left(corner[0]);
    int top = kNoBits;
    for (int32_t i = 0; i < p.n; i++) {
        const Doubled x = add(left(i), {-base.high, -base.low});
        if (x.high != 0.0) top = most(top, exponent_of(x.high) + 1);
        p.rounded[static_cast<size_t>(i) * N + N - 1] = x.high;
    }
    // The unit must not be so fine that the error would be large relative to it.
    top = most(top, -40);
    for (int32_t i = 0; i < p.n; i++) {
        double& x = p.rounded[static_cast<size_t>(i) * N + N - 1];
        x = __builtin_ldexp(x, -top);
    }
    p.rounding[N - 1] = 2.0 * kU + __builtin_ldexp(size, -94 - top);
}

template <int N>
double height_above(const HullFacet<N>& facet, const double* x) {
    double value = facet.height;
    for (int k = 0; k < N; k++) value += facet.normal[k] * x[k];
    return value;
}

inline double determinant_of(const double (*rows)[5], const int* columns, int n) {
    if (n == 1) return rows[0][columns[0]];
    if (n == 2)
        return rows[0][columns[0]] * rows[1][columns[1]] -
               rows[0][columns[1]] * rows[1][columns[0]];
    double sum = 0.0;
    for (int j = 0; j < n; j++) {
        int rest[4], count = 0;
        for (int k = 0; k < n; k++)
            if (k != j) rest[count++] = columns[k];
        const double term = rows[n - 1][columns[j]] * determinant_of(rows, rest, n - 1);
        sum = (n - 1 + j) % 2 == 0 ? sum + term : sum - term;
    }
    return sum;
}

// Write the plane of a facet, and a bound on the error of its heights.
//
// The error of an entry x of the differences from the base is at most u |x| + 2 rounding. With m
// the largest magnitude in a column and e = 4 u m + 2 rounding, a product of r = N - 1 entries from
// different columns differs from the exact product by less than prod(m + e) - prod(m) <= sum_j e_j
// prod_{l != j} (m_l + e_l). A minor is a sum of r! such products, each rounded at most r (r + 1) /
// 2 - 1 <= 9 more times; using 4 u in place of u covers this, since 4 r >= r + r (r + 1) / 2 - 1.
// Hence the error of a minor is at most r! times the bound for one product. For heights of points
// of magnitude 1, each minor is multiplied by a difference of at most 2 with an error of 2
// rounding; the height of the base and the height itself are rounded 2 N + 2 times, on sums of at
// most twice the sum of the magnitudes.
template <int N>
void find_plane(const ConvexHull<N>& h, HullFacet<N>& facet) {
    const HullPoints<N>& p = h.points;
    const double* base = p.rounded + static_cast<size_t>(facet.corner[0]) * N;
    double rows[N - 1][5] = {};
    double size[N], error[N];
    for (int k = 0; k < N; k++) size[k] = 0.0;
    for (int i = 0; i < N - 1; i++) {
        const int32_t corner = facet.corner[i + 1];
        if (corner == kAtInfinity) {
            rows[i][N - 1] = -1.0;
            size[N - 1] = larger(size[N - 1], 1.0);
            continue;
        }
        const double* point = p.rounded + static_cast<size_t>(corner) * N;
        for (int k = 0; k < N; k++) {
            rows[i][k] = point[k] - base[k];
            size[k] = larger(size[k], magnitude(rows[i][k]));
        }
    }
    for (int k = 0; k < N; k++) {
        error[k] = 4.0 * kU * size[k] + 2.0 * p.rounding[k];
        size[k] += error[k];
    }
    constexpr double products = N == 3 ? 2.0 : N == 4 ? 6.0 : 24.0;
    double height = 0.0, radius = 0.0;
    for (int k = 0; k < N; k++) {
        int columns[N];
        int count = 0;
        double product = 1.0, change = 0.0;
        for (int j = 0; j < N; j++) {
            if (j == k) continue;
            columns[count++] = j;
            change = change * size[j] + product * error[j];
            product *= size[j];
        }
        const double minor = determinant_of(rows, columns, N - 1);
        facet.normal[k] = (N - 1 + k) % 2 == 0 ? minor : -minor;
        height -= facet.normal[k] * base[k];
        radius += 2.0 * products * change +
                  magnitude(minor) * (2.0 * p.rounding[k] + (4.0 * N + 8.0) * kU);
    }
    facet.height = height;
    facet.radius = p.is_small ? 0.0 : radius * kUp + kTiny;
}

template <int N>
int far_corner(const HullFacet<N>& facet) {
    for (int i = 1; i < N; i++)
        if (facet.corner[i] == kAtInfinity) return i;
    return -1;
}

// The sign of T(p), with a corner at infinity treated as exactly below.
template <int N>
int side_of_plane(const ConvexHull<N>& h, const HullFacet<N>& facet, int32_t p) {
    const double value = height_above(facet, h.points.rounded + static_cast<size_t>(p) * N);
    if (magnitude(value) > facet.radius) return sign(value);
    return h.points.is_small ? 0 : exact_side(h.points, facet.corner, p);
}

// The sign of T(p).
template <int N>
int side(const ConvexHull<N>& h, int32_t t, int32_t p) {
    const HullFacet<N>& facet = h.facets[t];
    const int far = h.is_upper ? far_corner(facet) : -1;
    if (far < 0) return h.points.is_flat ? 0 : side_of_plane(h, facet, p);
    const int found = side_of_plane(h, facet, p);
    return found != 0 ? found : side(h, facet.neighbour[far], p);
}

template <int N>
int corner_of(const HullFacet<N>& facet, int32_t corner) {
    int i = 0;
    while (i < N - 1 && facet.corner[i] != corner) i++;
    return i;
}

template <int N>
int side_towards(const HullFacet<N>& facet, int32_t neighbour) {
    int i = 0;
    while (i < N - 1 && facet.neighbour[i] != neighbour) i++;
    return i;
}

// Add a point to the waiting points of a facet that it is above. The highest point, according to
// floats, comes first.
template <int N>
void let_wait(ConvexHull<N>& h, HullFacet<N>& facet, int32_t p, double value) {
    if (facet.waiting == kNobody || value > facet.farthest) {
        h.next[p] = facet.waiting;
        facet.waiting = p;
        facet.farthest = value;
    } else {
        h.next[p] = h.next[facet.waiting];
        h.next[facet.waiting] = p;
    }
    h.n_waiting++;
}

// Assign a point to the first of some facets that it is above. Returns false if there is no such
// facet.
template <int N>
bool assign(ConvexHull<N>& h, const int32_t* among, int32_t n, int32_t p) {
    const double* x = h.points.rounded + static_cast<size_t>(p) * N;
    for (int32_t k = 0; k < n; k++) {
        HullFacet<N>& facet = h.facets[among[k]];
        const double value = height_above(facet, x);
        if (value < -facet.radius) continue;
        if (value > facet.radius || side(h, among[k], p) > 0) {
            let_wait(h, facet, p, value);
            return true;
        }
    }
    return false;
}

// Find the corners of a large simplex in floats: each is as far as possible from the span of the
// earlier ones.
template <int N>
void choose_corners(const ConvexHull<N>& h, int32_t* corner) {
    const int dim = h.is_upper ? N - 1 : N;
    const int32_t n = h.points.n;
    const auto point = [&](int32_t i) { return h.points.rounded + static_cast<size_t>(i) * N; };
    corner[0] = 0;
    for (int32_t i = 1; i < n; i++)
        if (point(i)[0] < point(corner[0])[0]) corner[0] = i;
    double basis[N][N];
    for (int count = 1; count <= dim; count++) {
        double best = -1.0, chosen[N];
        corner[count] = 0;
        for (int32_t i = 0; i < n; i++) {
            double rest[N], square = 0.0;
            for (int k = 0; k < dim; k++) rest[k] = point(i)[k] - point(corner[0])[k];
            for (int b = 0; b < count - 1; b++) {
                double part = 0.0;
                for (int k = 0; k < dim; k++) part += rest[k] * basis[b][k];
                for (int k = 0; k < dim; k++) rest[k] -= part * basis[b][k];
            }
            for (int k = 0; k < dim; k++) square += rest[k] * rest[k];
            if (square > best) {
                best = square;
                corner[count] = i;
                for (int k = 0; k < dim; k++) chosen[k] = rest[k];
            }
        }
        const double length = __builtin_sqrt(best);
        for (int k = 0; k < dim; k++) basis[count - 1][k] = length > 0.0 ? chosen[k] / length : 0.0;
    }
}

}  // namespace detail

// Begin with the simplex of the points `start` (N + 1 points, or N for an upper hull), or look for
// one, and assign all other points to facets. Returns false if the simplex is flat. If `start` was
// not given, this does not mean that all points lie in a plane.
template <int N>
bool begin(ConvexHull<N>& h, const int32_t* start) {
    using namespace detail;
    const int32_t n = h.points.n;
    h.n_facets = h.n_free = h.n_inserted = h.n_waiting = 0;
    h.cursor = 0;
    for (int32_t i = 0; i < n; i++) h.first[i] = i;
    ColumnUnit unit[N];
    fill_rounded(h.points, unit);
    h.points.is_flat = h.is_upper;
    for (int32_t i = 1; i < n && h.points.is_flat; i++) {
        const int length = h.points.limbs[1];
        Limb* room = h.points.scratch;
        h.points.is_flat = are_equal(integer_of(h.points, 0, N - 1, room),
                                     integer_of(h.points, i, N - 1, room + length), length);
    }
    if (n < (h.is_upper ? N : N + 1)) return false;
    int32_t corner[N + 1];
    if (start)
        for (int i = 0; i < N + !h.is_upper; i++) corner[i] = start[i];
    else
        choose_corners(h, corner);
    if (h.is_upper) {
        corner[N] = kAtInfinity;
        take_form_away(h.points, corner, unit);
    }
    const int orientation = exact_side(h.points, corner, corner[N]);
    if (orientation == 0) return false;
    int32_t all[N + 1];
    for (int i = 0; i <= N; i++) {
        HullFacet<N>& facet = h.facets[i];
        int count = 0;
        for (int j = 0; j <= N; j++) {
            if (j == i) continue;
            facet.corner[count] = corner[j];
            facet.neighbour[count++] = j;
        }
        // The omitted corner, moved to the end, must be below.
        if ((orientation > 0) == ((N - i) % 2 == 0)) {
            const int32_t c = facet.corner[0], m = facet.neighbour[0];
            facet.corner[0] = facet.corner[1];
            facet.neighbour[0] = facet.neighbour[1];
            facet.corner[1] = c;
            facet.neighbour[1] = m;
        }
        facet.waiting = kNobody;
        facet.mark = 0;
        find_plane(h, facet);
        all[i] = i;
    }
    h.n_facets = N + 1;
    for (int32_t p = 0; p < n; p++) {
        bool is_corner = false;
        for (int32_t c : corner) is_corner = is_corner || c == p;
        if (is_corner || assign(h, all, N + 1, p)) continue;
        for (int32_t c : corner)
            if (c != kAtInfinity && are_same(h.points, c, p) && p < h.first[c]) h.first[c] = p;
    }
    return true;
}

enum HullStatus { kHullDone = 0, kHullGoesOn = 1, kHullNeedsRoom = 2 };

namespace detail {

// A replaced facet stores, for its sides on the border of the gap, which new facet lies there.
inline int32_t as_new(int32_t facet) { return -2 - facet; }

// Insert the first waiting point of facet t. Returns false, with nothing changed, if the capacity
// is exceeded.
template <int N>
bool insert_from(ConvexHull<N>& h, int32_t t) {
    const int32_t q = h.facets[t].waiting;
    const int32_t stamp = ++h.n_inserted;
    int32_t n_gap = 0, n_border = 0;
    h.gap[n_gap++] = t;
    h.facets[t].mark = stamp;
    for (int32_t k = 0; k < n_gap; k++) {
        for (int32_t other : h.facets[h.gap[k]].neighbour) {
            int32_t& mark = h.facets[other].mark;
            if (mark == stamp) continue;
            if (mark != -stamp) mark = side(h, other, q) > 0 ? stamp : -stamp;
            if (mark == stamp)
                h.gap[n_gap++] = other;
            else
                n_border++;
        }
    }
    if (h.n_facets + n_border - h.n_free > h.room) return false;
    // The new facets, each replacing a facet at the border.
    int32_t n_made = 0;
    for (int32_t k = 0; k < n_gap; k++) {
        for (int i = 0; i < N; i++) {
            const int32_t old = h.gap[k], other = h.facets[old].neighbour[i];
            if (other < 0 || h.facets[other].mark == stamp) continue;
            const int32_t f = h.n_free > 0 ? h.free[--h.n_free] : h.n_facets++;
            HullFacet<N>& facet = h.facets[f];
            for (int j = 0; j < N; j++) {
                facet.corner[j] = h.facets[old].corner[j];
                facet.neighbour[j] = kNobody;
            }
            facet.corner[i] = q;
            facet.neighbour[i] = other;
            facet.waiting = kNobody;
            facet.mark = 0;
            HullFacet<N>& beyond = h.facets[other];
            beyond.neighbour[side_towards(beyond, old)] = f;
            h.facets[old].neighbour[i] = as_new(f);
            h.made[n_made++] = f;
        }
    }
    // Two new facets meet in q and a side of a ridge of the border. Turn around this side, through
    // replaced facets, to the next ridge on the border.
    for (int32_t k = 0; k < n_gap; k++) {
        for (int i = 0; i < N; i++) {
            const int32_t old = h.gap[k];
            if (h.facets[old].neighbour[i] >= 0) continue;
            const int32_t f = as_new(h.facets[old].neighbour[i]);
            for (int j = 0; j < N; j++) {
                if (h.facets[f].neighbour[j] != kNobody) continue;
                int32_t here = old, pivot = h.facets[old].corner[i];
                int leave = j, kept = i;
                while (h.facets[here].neighbour[leave] >= 0) {
                    const int32_t onwards = h.facets[here].neighbour[leave];
                    const HullFacet<N>& facet = h.facets[onwards];
                    // The corner of the facet that is not a corner of `here`.
                    kept = side_towards(facet, here);
                    here = onwards;
                    leave = corner_of(facet, pivot);
                    pivot = facet.corner[kept];
                }
                const int32_t g = as_new(h.facets[here].neighbour[leave]);
                h.facets[f].neighbour[j] = g;
                h.facets[g].neighbour[kept] = f;
            }
        }
    }
    for (int32_t k = 0; k < n_made; k++) find_plane(h, h.facets[h.made[k]]);
    // Reassign the waiting points.
    for (int32_t k = 0; k < n_gap; k++) {
        HullFacet<N>& facet = h.facets[h.gap[k]];
        for (int32_t p = facet.waiting; p != kNobody;) {
            const int32_t after = h.next[p];
            h.n_waiting--;
            if (p != q && !assign(h, h.made, n_made, p) && are_same(h.points, p, q) &&
                p < h.first[q])
                h.first[q] = p;
            p = after;
        }
        facet.waiting = kNobody;
        facet.mark = kFreeFacet;
        h.free[h.n_free++] = h.gap[k];
    }
    return true;
}

}  // namespace detail

// Insert some points.
template <int N>
HullStatus run(ConvexHull<N>& h, int32_t budget) {
    while (h.n_waiting > 0) {
        const HullFacet<N>& facet = h.facets[h.cursor];
        if (facet.mark != kFreeFacet && facet.waiting != kNobody) {
            if (budget-- <= 0) return kHullGoesOn;
            if (!detail::insert_from(h, h.cursor)) return kHullNeedsRoom;
        }
        if (++h.cursor >= h.n_facets) h.cursor = 0;
    }
    return kHullDone;
}

namespace detail {

// Whether a facet and its neighbour across corner i lie in one plane or, if both have a corner at
// infinity, in one vertical plane.
template <int N>
bool is_flat(const ConvexHull<N>& h, int32_t t, int i) {
    const HullFacet<N>& one = h.facets[t];
    const HullFacet<N>& other = h.facets[one.neighbour[i]];
    const int32_t opposite = other.corner[side_towards(other, t)];
    if (!h.is_upper) return side(h, t, opposite) == 0;
    const bool is_far = far_corner(one) >= 0;
    if (is_far != (far_corner(other) >= 0)) return false;
    if (!is_far) return side(h, t, opposite) == 0;
    return side_of_plane(h, one, opposite) == 0;
}

}  // namespace detail

// Once all points are inserted, write the facets (n, N), by indices of first equal points, and for
// each facet the index of its face, starting at 0. Returns the number of faces.
template <int N>
int32_t finish(ConvexHull<N>& h, int32_t* corners, int32_t* faces) {
    using namespace detail;
    int32_t n_faces = 0, written = 0;
    for (int32_t t = 0; t < h.n_facets; t++) {
        if (h.facets[t].mark == kFreeFacet) continue;
        h.facets[t].mark = -1;
        h.facets[t].waiting = written++;
    }
    for (int32_t start = 0; start < h.n_facets; start++) {
        if (h.facets[start].mark != -1) continue;
        int32_t depth = 0;
        h.gap[depth++] = start;
        h.facets[start].mark = n_faces;
        while (depth > 0) {
            const int32_t t = h.gap[--depth];
            HullFacet<N>& facet = h.facets[t];
            for (int i = 0; i < N; i++) {
                const int32_t other = facet.neighbour[i];
                if (h.facets[other].mark != -1 || !is_flat(h, t, i)) continue;
                h.facets[other].mark = n_faces;
                h.gap[depth++] = other;
            }
        }
        n_faces++;
    }
    for (int32_t t = 0; t < h.n_facets; t++) {
        const HullFacet<N>& facet = h.facets[t];
        if (facet.mark == kFreeFacet) continue;
        faces[facet.waiting] = facet.mark;
        int32_t* row = corners + static_cast<size_t>(facet.waiting) * N;
        for (int i = 0; i < N; i++)
            row[i] = facet.corner[i] == kAtInfinity ? kAtInfinity : h.first[facet.corner[i]];
    }
    return n_faces;
}

}  // namespace hardmax
