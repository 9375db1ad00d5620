// Affine forms a_1 x_1 + a_2 x_2 + c in the plane as points (a_1, a_2, c), and the signs that
// determine which of them are largest where.
//
// The coefficients are integers of any size: the slopes in one unit, the offsets in another, so
// that every float64 input, and every product of two inputs, is represented without rounding. In
// addition, there are pairs of floats, scaled so that the largest slope and the largest offset are
// below 1. A sign is taken from the floats if their error cannot change it, and otherwise from the
// integers; it is never open.
#pragma once
#include "arena.hpp"
#include "integers.hpp"
#include "rounding.hpp"

namespace hardmax {

struct LiftedForms {
    int n;
    int slope_limbs, offset_limbs;  // three bits more than the longest slope, and the longest
                                    // offset
    int slope_bits, offset_bits;
    bool floats_are_exact;  // no determinant of floats below is rounded
    const Limb* slopes;     // (n, 2, slope_limbs)
    const Limb* offsets;    // (n, offset_limbs)
    Doubled* column[3];     // each (n): the floats of a_1, a_2, c
    Limb* scratch;
};

namespace detail {

// Number of limbs for the differences of two points, a determinant of each kind, and one product.
inline size_t scratch_limbs(const LiftedForms& f) {
    return 3 * (2 * static_cast<size_t>(f.slope_limbs) + static_cast<size_t>(f.offset_limbs)) +
           4 * (2 * static_cast<size_t>(f.slope_limbs) + static_cast<size_t>(f.offset_limbs));
}

inline const Limb* slope_of(const LiftedForms& f, int i, int axis) {
    return f.slopes + (2 * static_cast<size_t>(i) + static_cast<size_t>(axis)) *
                          static_cast<size_t>(f.slope_limbs);
}

inline const Limb* offset_of(const LiftedForms& f, int i) {
    return f.offsets + static_cast<size_t>(i) * static_cast<size_t>(f.offset_limbs);
}

inline Doubled scaled(const Limb* a, int n, int bits) {
    const Leading x = leading(a, n);
    // Below 2^-1022 this is rounded, by at most 2^-1075 each.
    return {__builtin_ldexp(x.mantissa.high, x.exponent - bits),
            __builtin_ldexp(x.mantissa.low, x.exponent - bits)};
}

}  // namespace detail

inline void take_lifted(LiftedForms& f, Arena& arena) {
    for (Doubled*& column : f.column) column = arena.take<Doubled>(static_cast<size_t>(f.n));
    f.scratch = arena.take<Limb>(detail::scratch_limbs(f));
}

inline void fill_floats(LiftedForms& f) {
    f.slope_bits = f.offset_bits = 0;
    for (int i = 0; i < f.n; i++) {
        for (int axis = 0; axis < 2; axis++)
            f.slope_bits = most(f.slope_bits, bits_of(detail::slope_of(f, i, axis), f.slope_limbs));
        f.offset_bits = most(f.offset_bits, bits_of(detail::offset_of(f, i), f.offset_limbs));
    }
    // A determinant is a sum of 6 products of differences, each with one bit more than its column,
    // so all intermediate results are integers below 2^53 in the unit of the determinant.
    f.floats_are_exact = 2 * f.slope_bits + f.offset_bits + 6 <= 53;
    for (int i = 0; i < f.n; i++) {
        for (int axis = 0; axis < 2; axis++)
            f.column[axis][i] =
                detail::scaled(detail::slope_of(f, i, axis), f.slope_limbs, f.slope_bits);
        f.column[2][i] = detail::scaled(detail::offset_of(f, i), f.offset_limbs, f.offset_bits);
    }
}

namespace detail {

// The difference of two entries of a column, all below 1 in magnitude. With D = fl(h - h') and E =
// fl(l - l'), the error of the result fl(D + E) is at most u |D| + u |E| + u |result|, plus 2^-105
// + 2^-1074 for each entry. As |l| <= 2^-52, E is at most 2^-51 and |D| <= (1 + 2u)(|result| +
// |E|). The total is less than 4 u |result| + kTail.
constexpr double kTail = 0x1p-100;

inline double difference(const Doubled& p, const Doubled& q) {
    return (p.high - q.high) + (p.low - q.low);
}

}  // namespace detail

// The sign of (a_j - a_i) x (a_m - a_l): positive if the slopes turn left.
inline int turn_of_normals(const LiftedForms& f, int i, int j, int l, int m) {
    using detail::difference;
    const double x1 = difference(f.column[0][j], f.column[0][i]);
    const double y1 = difference(f.column[1][j], f.column[1][i]);
    const double x2 = difference(f.column[0][m], f.column[0][l]);
    const double y2 = difference(f.column[1][m], f.column[1][l]);
    const double left = x1 * y2, right = x2 * y1, value = left - right;
    if (f.floats_are_exact) return sign(value);
    // (x + e)(y + d) with |e| <= 4u |x| + tail: the error of a product is at most 10 u |x y| + 2
    // tail (|x| + |y|) + 2 tail^2 plus underflow; the difference is rounded once more.
    const double ends = magnitude(x1) + magnitude(y1) + magnitude(x2) + magnitude(y2);
    const double error = 16.0 * kU * (magnitude(left) + magnitude(right)) +
                         4.0 * detail::kTail * (ends + detail::kTail);
    if (magnitude(value) > error) return sign(value);
    const int n = f.slope_limbs;
    Limb* d[4] = {f.scratch, f.scratch + n, f.scratch + 2 * n, f.scratch + 3 * n};
    for (int axis = 0; axis < 2; axis++) {
        subtract(detail::slope_of(f, j, axis), detail::slope_of(f, i, axis), n, d[axis]);
        subtract(detail::slope_of(f, m, axis), detail::slope_of(f, l, axis), n, d[2 + axis]);
    }
    Limb* one = f.scratch + 4 * n;
    Limb* other = one + 2 * n;
    multiply(d[0], n, d[3], n, one);
    multiply(d[2], n, d[1], n, other);
    subtract(one, other, 2 * n, one);
    return sign(one, 2 * n);
}

// Whether the slopes p, q, r turn left.
inline int turn(const LiftedForms& f, int p, int q, int r) {
    return turn_of_normals(f, p, q, p, r);
}

namespace detail {

// The differences of three points from a fourth, and the determinants of two of them in two
// columns, from which all exact signs are computed.
struct ExactRows {
    const LiftedForms& f;
    Limb* entry[3][3];
    Limb* rest;

    ExactRows(const LiftedForms& forms, int p, const int* others, int n_others) : f(forms) {
        Limb* next = f.scratch;
        for (int i = 0; i < n_others; i++)
            for (int axis = 0; axis < 3; axis++) {
                entry[i][axis] = next;
                next += limbs(axis);
                if (axis < 2)
                    subtract(slope_of(f, others[i], axis), slope_of(f, p, axis), f.slope_limbs,
                             entry[i][axis]);
                else
                    subtract(offset_of(f, others[i]), offset_of(f, p), f.offset_limbs,
                             entry[i][axis]);
            }
        rest = next;
    }

    int limbs(int axis) const { return axis < 2 ? f.slope_limbs : f.offset_limbs; }

    // minor = entry[i][a] entry[j][b] - entry[j][a] entry[i][b]; returns its number of limbs.
    int minor(int i, int j, int a, int b, Limb* minor, Limb* room) const {
        const int n = limbs(a) + limbs(b);
        multiply(entry[i][a], limbs(a), entry[j][b], limbs(b), minor);
        multiply(entry[j][a], limbs(a), entry[i][b], limbs(b), room);
        subtract(minor, room, n, minor);
        return n;
    }
};

}  // namespace detail

// The sign of the height of point s above the plane of the points p, q, r, which turn left:
// positive if form s is larger than these three where they are equal.
inline int above(const LiftedForms& f, int p, int q, int r, int s) {
    using detail::difference;
    const int rows[3] = {q, r, s};
    double x[3], y[3], c[3];
    for (int i = 0; i < 3; i++) {
        x[i] = difference(f.column[0][rows[i]], f.column[0][p]);
        y[i] = difference(f.column[1][rows[i]], f.column[1][p]);
        c[i] = difference(f.column[2][rows[i]], f.column[2][p]);
    }
    const double a01 = x[0] * y[1], b01 = x[1] * y[0];
    const double a12 = x[1] * y[2], b12 = x[2] * y[1];
    const double a20 = x[2] * y[0], b20 = x[0] * y[2];
    const double value = c[0] * (a12 - b12) + c[1] * (a20 - b20) + c[2] * (a01 - b01);
    if (f.floats_are_exact) return sign(value);
    // The error of a product of three differences is at most 3 times 4 u, plus 5 u for two
    // products, two sums and the difference in between: 18 u of its magnitude in total. As for the
    // tails, since differences are at most 2, every product of three changes by tail (|x y| + |x c|
    // + |y c|) and less than 2^-190 from higher-order terms and underflow; there are 6 products.
    double size = 0.0, far_x = 0.0, far_y = 0.0, far_c = 0.0;
    size += magnitude(c[0]) * (magnitude(a12) + magnitude(b12));
    size += magnitude(c[1]) * (magnitude(a20) + magnitude(b20));
    size += magnitude(c[2]) * (magnitude(a01) + magnitude(b01));
    for (int i = 0; i < 3; i++) {
        far_x = larger(far_x, magnitude(x[i]));
        far_y = larger(far_y, magnitude(y[i]));
        far_c = larger(far_c, magnitude(c[i]));
    }
    const double error = 24.0 * kU * size + 0x1p-180 +
                         8.0 * detail::kTail * (far_x * far_y + far_c * (far_x + far_y));
    if (magnitude(value) > error) return sign(value);
    const detail::ExactRows exact(f, p, rows, 3);
    const int n = 2 * f.slope_limbs, m = n + f.offset_limbs;
    Limb* minor = exact.rest;
    Limb* room = minor + n;
    Limb* total = room + m;
    for (int i = 0; i < 3; i++) {
        exact.minor((i + 1) % 3, (i + 2) % 3, 0, 1, minor, room);
        multiply(minor, n, exact.entry[i][2], f.offset_limbs, i == 0 ? total : room);
        if (i > 0) add(total, room, m, total);
    }
    return sign(total, m);
}

inline bool are_same(const LiftedForms& f, int p, int q) {
    return are_equal(detail::slope_of(f, p, 0), detail::slope_of(f, q, 0), 2 * f.slope_limbs) &&
           are_equal(detail::offset_of(f, p), detail::offset_of(f, q), f.offset_limbs);
}

}  // namespace hardmax
