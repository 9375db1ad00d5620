// Exact signs of determinants of three rows of numbers.
#pragma once
#include "arithmetic.hpp"
#include "rounding.hpp"

namespace hardmax {

struct Triple {
    double a, b, c;
};

// Multiply three numbers by a power of two, exactly, so that the largest is between 1 and 2; False
// if another one is then below 2^-300, or any is not finite. Products of three such numbers are
// multiples of 2^-1056, so `two_product` is exact.
inline bool normalise(Triple& triple) {
    double* numbers[] = {&triple.a, &triple.b, &triple.c};
    int top = -5000, bottom = 5000;
    for (double* x : numbers) {
        if (*x == 0.0) continue;
        if (!(magnitude(*x) < kInfinity)) return false;
        const int exponent = exponent_of(*x);
        top = most(top, exponent);
        bottom = least(bottom, exponent);
    }
    if (top < bottom) return true;
    if (top - bottom > 300) return false;
    // Numbers from 2^-100 to 2^100 are left alone: products of three are far from any limit.
    if (bottom >= -100 && top < 100) return true;
    for (double* x : numbers) *x = __builtin_ldexp(*x, -top);
    return true;
}

// The sign of the determinant of three rows.
inline int determinant_sign(const Triple& g, const Triple& p, const Triple& q) {
    double entries[32];
    std::int64_t length = 0;
    // Each of the six products of three numbers has at most four parts.
    const auto add = [&](double a, double b, double c) {
        if (a == 0.0 || b == 0.0 || c == 0.0) return;
        const Doubled product = two_product(b, c);
        if (product.low != 0.0) length = grow_by_product(entries, length, a, product.low);
        length = grow_by_product(entries, length, a, product.high);
    };
    add(g.a, p.b, q.c);
    add(-g.a, p.c, q.b);
    add(g.b, p.c, q.a);
    add(-g.b, p.a, q.c);
    add(g.c, p.a, q.b);
    add(-g.c, p.b, q.a);
    return sign(entries, length);
}

}  // namespace hardmax
