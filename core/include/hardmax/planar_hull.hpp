// Convex hulls and upper hulls of points in the plane, exactly: two monotone chains ([And79]).
//
// Points come in lexicographic order, found outside: comparing floats is exact. A chain keeps the
// corners of the hull of the points so far; the sign of a triangle decides whether its last corner
// stays. That sign comes from differences of coordinates where their error cannot change it, from two
// exact products where the differences are floats, and else from integers: it is never open.
#pragma once
#include "arithmetic.hpp"
#include "convex_hull.hpp"

namespace hardmax {

// Floats span 2^-1074 to 2^1024: with three bits to spare an integer has at most 33 limbs.
constexpr int kMostFloatLimbs = 33;

struct PlanarPoints {
    HullPoints<2> exact;  // as integers, with room for determinants
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

// Whether products of this number with another such are exact as sums of two floats.
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
    // Differences err by u of themselves, underflow included; a product by 3 u and more than 2 u^2 of
    // itself, and by 2^-1075 where it underflows; the value by u more. Infinity and NaN prove nothing.
    const double error = 5.0 * kU * (magnitude(left) + magnitude(right)) + kTiny;
    if (magnitude(value) > error) return sign(value);
    const bool are_exact = x1.low == 0.0 && y1.low == 0.0 && x2.low == 0.0 && y2.low == 0.0;
    if (are_exact && detail::is_moderate(x1.high) && detail::is_moderate(y1.high) &&
        detail::is_moderate(x2.high) && detail::is_moderate(y2.high)) {
        // The nearest floats of two numbers come in the order of the numbers; where they are the same,
        // what is left decides.
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

// Take corners off the end of a chain, of which `n` are its own, that a point makes superfluous: the chain
// turns strictly, to the left if `side` is 1.
inline int32_t shortened(const PlanarPoints& points, const int32_t* chain, int32_t n, int32_t next,
                         int side) {
    while (n > 1 && side * turn(points, chain[n - 2], chain[n - 1], next) <= 0) n--;
    return n;
}

}  // namespace detail

// Write the corners of the upper hull from left to right, of equal points the first in the order; return
// how many. There is room for n of them.
inline int32_t upper_hull(const PlanarPoints& points, const int32_t* order, int32_t* corners) {
    int32_t n = 0;
    for (int32_t k = 0; k < points.exact.n; k++) {
        const int32_t next = order[k];
        // Above each other the last is the highest.
        if (n > 0 && points.at(corners[n - 1])[0] == points.at(next)[0]) {
            if (detail::is_same(points, corners[n - 1], next)) continue;
            n--;
        }
        n = detail::shortened(points, corners, n, next, -1);
        corners[n++] = next;
    }
    return n;
}

// Write the corners of the convex hull counter-clockwise, likewise, from the first in the order; return how
// many. There is room for n + 1 of them; `distinct` is scratch (n).
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
    // Back along the upper side: its first corner, the last of the lower side, is there already.
    const int32_t base = n - 1;
    for (int32_t k = n_distinct - 2; k >= 0; k--) {
        n = base + detail::shortened(points, corners + base, n - base, distinct[k], 1);
        corners[n++] = distinct[k];
    }
    // The first point closes the polygon.
    return n > 1 ? n - 1 : n;
}

}  // namespace hardmax
