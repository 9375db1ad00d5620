// Exact convex hulls and upper hulls of points in the plane, by two monotone chains ([And79]).
//
// The caller sorts the points lexicographically, which is exact for floats. A chain contains the
// corners of the hull of the points processed so far. The sign of the area of a triangle decides
// whether the last corner stays. This sign is decided by differences of coordinates if their error
// cannot change it, by two exact products if the differences are floats, and otherwise in integers. It
// is never left open.
#pragma once
#include "arithmetic.hpp"
#include "convex_hull.hpp"

namespace hardmax {

// Floats range from 2^-1074 to 2^1024, so an integer has at most 33 limbs, three spare bits included.
constexpr int kMostFloatLimbs = 33;

struct PlanarPoints {
    HullPoints<2> exact;  // as integers, with scratch for determinants
    Limb scratch[((1 << 1) + 2) * 2 * kMostFloatLimbs + 2 * kMostFloatLimbs];

    PlanarPoints(const double* points, int32_t n) {
        exact = {};
        exact.n = n;
        exact.floats = points;
        detail::measure_floats(exact);
        exact.scratch = scratch;
    }
    const double* at(int32_t i) const { return exact.floats + 2 * static_cast<size_t>(i); }
};

namespace detail {

// Whether the products of two such numbers are exactly sums of two floats.
inline bool is_moderate(double x) {
    return x == 0.0 || (0x1p-400 < magnitude(x) && magnitude(x) < 0x1p400);
}

}  // namespace detail

// The sign of the area of a triangle: positive if the points p, q, r turn left.
inline int turn(const PlanarPoints& points, int32_t p, int32_t q, int32_t r) {
    const double *a = points.at(p), *b = points.at(q), *c = points.at(r);
    const Doubled x1 = two_sum(b[0], -a[0]), y1 = two_sum(b[1], -a[1]);
    const Doubled x2 = two_sum(c[0], -a[0]), y2 = two_sum(c[1], -a[1]);
    const double left = x1.high * y2.high, right = x2.high * y1.high, value = left - right;
    // The relative error of a difference is at most u, even if it underflows. The error of a product is
    // a little more than 3 u relative to the product, plus 2^-1075 if it underflows. The subtraction
    // adds a relative error of u. With infinities and NaN, nothing is proven.
    const double error = 5.0 * kU * (magnitude(left) + magnitude(right)) + kTiny;
    if (magnitude(value) > error) return sign(value);
    const bool are_exact = x1.low == 0.0 && y1.low == 0.0 && x2.low == 0.0 && y2.low == 0.0;
    if (are_exact && detail::is_moderate(x1.high) && detail::is_moderate(y1.high) &&
        detail::is_moderate(x2.high) && detail::is_moderate(y2.high)) {
        // Rounding to the nearest float is monotone. If the rounded products are equal, the remainders
        // decide.
        const Doubled one = two_product(x1.high, y2.high), other = two_product(x2.high, y1.high);
        return one.high != other.high ? sign(one.high - other.high) : sign(one.low - other.low);
    }
    const int32_t line[] = {p, q};
    return exact_side(points.exact, line, r);
}

namespace detail {

inline bool is_same(const PlanarPoints& points, int32_t p, int32_t q) {
    const double *a = points.at(p), *b = points.at(q);
    return a[0] == b[0] && a[1] == b[1];
}

// Remove those of the `n` corners of a chain from its end that the next point makes redundant, so that
// the chain turns strictly, to the left if `side` is 1.
inline int32_t shortened(const PlanarPoints& points, const int32_t* chain, int32_t n, int32_t next,
                         int side) {
    while (n > 1 && side * turn(points, chain[n - 2], chain[n - 1], next) <= 0) n--;
    return n;
}

}  // namespace detail

// Write the corners of the upper hull from left to right and return their number; of equal points, write
// the first in the order. `corners` has n entries.
inline int32_t upper_hull(const PlanarPoints& points, const int32_t* order, int32_t* corners) {
    int32_t n = 0;
    for (int32_t k = 0; k < points.exact.n; k++) {
        const int32_t next = order[k];
        // Of points above each other, the last is the highest.
        if (n > 0 && points.at(corners[n - 1])[0] == points.at(next)[0]) {
            if (detail::is_same(points, corners[n - 1], next)) continue;
            n--;
        }
        n = detail::shortened(points, corners, n, next, -1);
        corners[n++] = next;
    }
    return n;
}

// Write the corners of the convex hull counter-clockwise, starting with the first point in the order, and
// return their number. `corners` has n + 1 entries; `distinct` is scratch (n).
inline int32_t planar_hull(const PlanarPoints& points, const int32_t* order, int32_t* distinct,
                           int32_t* corners) {
    int32_t n_distinct = 0;
    for (int32_t k = 0; k < points.exact.n; k++)
        if (n_distinct == 0 || !detail::is_same(points, distinct[n_distinct - 1], order[k]))
            distinct[n_distinct++] = order[k];
    int32_t n = 0;
    for (int32_t k = 0; k < n_distinct; k++) {
        n = detail::shortened(points, corners, n, distinct[k], 1);
        corners[n++] = distinct[k];
    }
    // Return along the upper side. Its first corner is the last corner of the lower side.
    const int32_t base = n - 1;
    for (int32_t k = n_distinct - 2; k >= 0; k--) {
        n = base + detail::shortened(points, corners + base, n - base, distinct[k], 1);
        corners[n++] = distinct[k];
    }
    // The first point closes the polygon.
    return n > 1 ? n - 1 : n;
}

}  // namespace hardmax
