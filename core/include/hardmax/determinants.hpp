// Exact signs of determinants, and of forms at points that are floats.
#pragma once
#include "arithmetic.hpp"
#include "rounding.hpp"

namespace hardmax {

struct Triple {
    double a, b, c;
};

// Multiply three numbers by a power of two, exactly, so that the largest is between 1 and 2. Return
// false if another number is then below 2^-300 or any number is not finite. Products of three such
// numbers are multiples of 2^-1056, so `two_product` is exact.
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
    // Numbers from 2^-100 to 2^100 need no scaling: products of three are far from any limit.
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

// The sign of a_1 x_1 + ... + a_n x_n + c, or 2 if the magnitudes of the terms differ too much.
//
// Factors are m 2^e with 1 <= |m| < 2, and terms are scaled by the largest exponent of a term. A
// term whose exponent is smaller by s is a multiple of 2^(-104 - s) and below 4. With s <= 900, all
// parts are normal numbers, and nothing is rounded. Requires capacity for n + 1 products.
template <int N>
int affine_sign(const double* a, const double* x, double c) {
    int top = -10000, bottom = 10000;
    const auto each_term = [&](auto visit) {
        if (c != 0.0) visit(c, 1.0);
        for (int k = 0; k < N; k++)
            if (a[k] != 0.0 && x[k] != 0.0) visit(a[k], x[k]);
    };
    each_term([&](double p, double q) {
        const int exponent = exponent_of(p) + exponent_of(q);
        top = most(top, exponent);
        bottom = least(bottom, exponent);
    });
    if (top - bottom > 900) return 2;
    double entries[2 * N + 2];
    std::int64_t length = 0;
    each_term([&](double p, double q) {
        const int e = exponent_of(p), f = exponent_of(q);
        const Doubled product = two_product(__builtin_ldexp(p, -e), __builtin_ldexp(q, -f));
        if (product.low != 0.0)
            length = grow(entries, length, __builtin_ldexp(product.low, e + f - top));
        length = grow(entries, length, __builtin_ldexp(product.high, e + f - top));
    });
    return sign(entries, length);
}

// Scratch for determinants of N rows.
template <int N>
struct Minors {
    static constexpr int capacity = 64;
    double entries[1 << N][capacity];
    std::int64_t lengths[1 << N];
    double sum[1200];
};

// Expand a determinant. Return its sign, or 2 if a minor has too many parts.
//
// Laplace expansion over sets of columns: the minor of the first r rows and the columns S, |S| = r,
// is D(S) = sum_{j in S} +-a_rj D(S - j), and D({}) = 1. If row i lies in 2^-q_i Z with entries of
// at most 1, then a minor of r rows, every part of it and every product is a multiple of 2^-(q_1 +
// ... + q_r) and at most N! in magnitude. The caller guarantees sum_i q_i <= 1000 and N <= 12. Then
// nothing overflows or underflows, and an expansion has at most one entry for each of 1100 bits.
template <int N>
int expand_determinant(const double (&rows)[N][N], Minors<N>& minors) {
    minors.entries[0][0] = 1.0;
    minors.lengths[0] = 1;
    std::int64_t length = 0;
    for (int columns = 1; columns < 1 << N; columns++) {
        const int row = __builtin_popcount(static_cast<unsigned>(columns)) - 1;
        length = 0;
        // When expanding along the last row, the sign of the last column is +1.
        double alternating = row % 2 == 0 ? 1.0 : -1.0;
        for (int j = 0; j < N; j++) {
            if ((columns >> j & 1) == 0) continue;
            const double a = alternating * rows[row][j];
            alternating = -alternating;
            if (a == 0.0) continue;
            const int smaller = columns ^ (1 << j);
            for (std::int64_t i = 0; i < minors.lengths[smaller]; i++)
                length = grow_by_product(minors.sum, length, a, minors.entries[smaller][i]);
        }
        length = compress(minors.sum, length);
        if (length > Minors<N>::capacity) return 2;
        minors.lengths[columns] = length;
        for (std::int64_t i = 0; i < length; i++) minors.entries[columns][i] = minors.sum[i];
    }
    return sign(minors.sum, length);
}

}  // namespace hardmax
