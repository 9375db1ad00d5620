// Exact arithmetic on float64: error-free sums and products, expansions, numbers of two floats.
//
// Notation: u = 2^-53, eta = 2^-1074 (the smallest positive float64), fl(x) is the float64 nearest
// to x (ties to even). "On the grid 2^k" means: an integer multiple of 2^k. Every float64 is on the
// grid eta. The statements below hold for finite results. An overflow appears as an infinity or NaN
// in the result, never as a wrong finite number, because an infinity or NaN that enters a sum
// persists.
//
// All proofs below rest on three facts, which include underflow:
//
// (S) The sum or difference of two float64 numbers is on the grid eta. Hence it is rounded only if it
//     is not subnormal: fl(a + b) = (a + b)(1 + d), |d| <= u, always. Sums do not underflow.
// (P) fl(a b) = a b (1 + d) + e with |d| <= u, |e| <= eta / 2, and d e = 0; and e = 0 if a b is on
//     the grid eta.
// (F) If x = fl(y), then y - x is on the grid of y, and |y - x| <= u |y| if y is on the grid eta.
//
// References: [Shewchuk97] for expansions (the theorem numbers below refer to this paper); [ORO05]
// for sums of products in twice the precision; [JMP17] for the operations on numbers of two floats.
#ifndef HARDMAX_ARITHMETIC_HPP
#define HARDMAX_ARITHMETIC_HPP

#include "hardmax/platform.hpp"

namespace hardmax {

// A number h + l represented by two floats. It is *normal* if h = fl(h + l); then |l| <= u |h|.
struct Doubled {
    double high;
    double low;
};

// --- Sums and products without error -------------------------------------------------------------

// The rounded sum and its rounding error: high + low = a + b exactly (Knuth; theorem 7). Holds for
// all a and b whose sum does not overflow; by (S), underflow does not matter.
HM_FUNCTION Doubled two_sum(double a, double b) {
    const double total = a + b;
    const double b_in_total = total - a;
    return {total, (a - (total - b_in_total)) + (b - b_in_total)};
}

// The same in three operations, if a = 0 or |a| >= |b| (Dekker; theorem 6).
HM_FUNCTION Doubled fast_two_sum(double a, double b) {
    const double total = a + b;
    return {total, b - (total - a)};
}

// Two halves of a: |high| and |low| each have at most 26 bits, and high + low = a (Veltkamp;
// theorem 17). Requires |a| < 2^996, so that the product with 2^27 + 1 stays finite. Underflow does
// not matter: the product with an integer is on the grid of a, and so are both halves.
HM_FUNCTION Doubled halves(double a) {
    const double scaled = (0x1p27 + 1.0) * a;
    const double high = scaled - (scaled - a);
    return {high, a - high};
}

// The rounded product and its rounding error, by halves (Dekker; theorem 18).
//
// Let a be on the grid 2^p and b on the grid 2^q, |a|, |b| < 2^996, |a b| < 2^1022.
// * If p + q >= -1074 then high + low = a b exactly: all four products of halves are on the grid
//   2^(p+q), hence exact, and so are the differences.
// * In any case |high + low - a b| <= 2 eta. Proof: let 2^i <= |a| < 2^(i+1), 2^j <= |b| < 2^(j+1) and
//   e = i + j. The high half of a is at most 2^(i+1) and on the grid 2^(i-25), the low half at most
//   2^(i-26) and on the grid 2^(i-52), or they are on coarser grids if a is subnormal; b likewise. A
//   product of halves that is off the grid eta is moved onto it, by at most eta / 2. That needs
//   e <= -1025 for high times high, e <= -998 for a mixed one, e <= -971 for low times low. Each number
//   that is formed after the first one moved is, up to the moves, what is left of a b - product once
//   some of the products of halves are taken away:
//     e <= -1025: at most the sum of all of them, below 2^(e+4) <= 2^-1021;
//     e <= -998:  high times high is gone: at most 2^(e-24) + 2^(e-50) < 2^(e-23) <= 2^-1021;
//     e <= -971:  only low times low is left: at most 2^(e-52) + 2^(e-52) <= 2^-1022.
//   Numbers on the grid eta up to 2^53 eta = 2^-1021 are floats, so these differences are exact; those
//   before the first move are exact as if nothing underflowed. The four moves are the whole error.
//
// The last `+ 0.0` makes an error of -0 into +0, which is what a fused operation gives: where the
// product is exact, both ways agree in every bit.
HM_FUNCTION Doubled two_product_by_halves(double a, double b) {
    const double product = a * b;
    const Doubled x = halves(a);
    const Doubled y = halves(b);
    const double rest = ((product - x.high * y.high) - x.low * y.high) - x.high * y.low;
    return {product, (x.low * y.low - rest) + 0.0};
}

#if HM_HAS_FMA
// The same by one fused operation, which rounds a b - high once.
//
// If |a b| < 2^1023 and p + q >= -1074, then high + low = a b exactly: a b - high is on the grid
// 2^(p+q) and at most u |a b|, and a b has at most 106 bits. In any case, |high + low - a b| <= eta
// / 2.
HM_FUNCTION Doubled two_product_by_fma(double a, double b) {
    const double product = a * b;
    return {product, HM_FMA(a, b, -product)};
}
#endif

// The rounded product and its rounding error, by the fastest method of the target.
//
// Under the conditions of `two_product_by_halves` with p + q >= -1074, the result is the same on
// every target. If the conditions do not hold, it may differ; the result may then enter a bound
// (with its 2^-1073), but never a returned number.
HM_FUNCTION Doubled two_product(double a, double b) {
#if HM_HAS_FMA
    return two_product_by_fma(a, b);
#else
    return two_product_by_halves(a, b);
#endif
}

// --- Expansions ----------------------------------------------------------------------------------
//
// An expansion is a list of nonzero, non-overlapping float64 numbers of increasing magnitude (all bits
// of a number lie below all bits of the next) that represents its exact sum. Its sign is
// the sign of its last entry. An expansion on the grid 2^k has at most one entry per bit. By (S),
// no operation here can underflow.

// Add a number in place and return the new length; requires capacity for length + 1 entries. The
// result is again an expansion (theorem 10; omitting zeros preserves this).
HM_FUNCTION int64_t grow(double* entries, int64_t length, double number) {
    double carry = number;
    int64_t kept = 0;
    for (int64_t i = 0; i < length; ++i) {
        const Doubled sum = two_sum(carry, entries[i]);
        carry = sum.high;
        if (sum.low != 0.0) entries[kept++] = sum.low;
    }
    if (carry != 0.0) entries[kept++] = carry;
    return kept;
}

// Add a b, exactly under the conditions of `two_product`; requires capacity for length + 2 entries.
HM_FUNCTION int64_t grow_by_product(double* entries, int64_t length, double a, double b) {
    const Doubled product = two_product(a, b);
    if (product.low != 0.0) length = grow(entries, length, product.low);
    return grow(entries, length, product.high);
}

// Rewrite an expansion in place with few entries of many bits. Return the new length (theorem 23).
HM_FUNCTION int64_t compress(double* entries, int64_t length) {
    if (length == 0) return 0;
    double carry = entries[length - 1];
    int64_t bottom = length - 1;
    for (int64_t i = length - 2; i >= 0; --i) {
        const Doubled sum = two_sum(carry, entries[i]);
        carry = sum.high;
        if (sum.low != 0.0) {
            entries[bottom--] = sum.high;
            carry = sum.low;
        }
    }
    entries[bottom] = carry;
    int64_t kept = 0;
    for (int64_t i = bottom + 1; i < length; ++i) {
        const Doubled sum = two_sum(entries[i], carry);
        carry = sum.high;
        if (sum.low != 0.0) entries[kept++] = sum.low;
    }
    entries[kept] = carry;
    return kept + 1;
}

HM_FUNCTION int32_t sign(double number) { return (number > 0.0) - (number < 0.0); }

// The sign of an expansion: the sum of all other entries is smaller in magnitude than the last
// entry.
HM_FUNCTION int32_t sign(const double* entries, int64_t length) {
    return length == 0 ? 0 : sign(entries[length - 1]);
}

// --- Numbers of two floats -----------------------------------------------------------------------
//
// x = h + l and y are normal. Bounds are relative to the exact result z; `tiny` = 2^-1071 covers
// the underflow of products (at most 2^-1073 for `two_product` and eta / 2 for each other product,
// scaled by at most 1 + 4u). All results are normal.

// |result - z| <= 2 u^2 |z| ([JMP17], algorithm 4). By (S) there is no term for underflow.
HM_FUNCTION Doubled add(Doubled x, double y) {
    const Doubled sum = two_sum(x.high, y);
    return fast_two_sum(sum.high, x.low + sum.low);
}

// |result - z| <= 4 u^2 |z| ([JMP17], algorithm 6: 3 u^2 + 13 u^3). No term for underflow.
HM_FUNCTION Doubled add(Doubled x, Doubled y) {
    const Doubled highs = two_sum(x.high, y.high);
    const Doubled lows = two_sum(x.low, y.low);
    const Doubled partial = fast_two_sum(highs.high, highs.low + lows.high);
    return fast_two_sum(partial.high, lows.low + partial.low);
}

// |result - z| <= 3 u^2 |z| + tiny ([JMP17], algorithm 8).
HM_FUNCTION Doubled multiply(Doubled x, double y) {
    const Doubled product = two_product(x.high, y);
    return fast_two_sum(product.high, product.low + x.low * y);
}

// |result - z| <= 7 u^2 |z| + tiny ([JMP17], algorithm 10).
HM_FUNCTION Doubled multiply(Doubled x, Doubled y) {
    const Doubled product = two_product(x.high, y.high);
    const double mixed = x.high * y.low + x.low * y.high;
    return fast_two_sum(product.high, product.low + mixed);
}

HM_FUNCTION int32_t sign(Doubled x) { return sign(x.high); }

// Make h the float nearest to h + l; the value does not change (see `two_sum`).
HM_FUNCTION Doubled normalised(Doubled x) { return two_sum(x.high, x.low); }

// Add w x to a running sum that is *not* kept normal: one term of b + sum_j w_j x_j.
//
// Start from {b, 0}, add n terms, then call `normalised`. With S = |b| + sum_j |w_j h_j|, the error
// of the result is at most kappa S + (n + 1) 2^-1072, where kappa = 2 (n + 4)^2 u^2. Proof: the sum
// of the high parts and products keeps every error, w h = p + t and high + p = high' + s. The
// floats t + w l + s that are added up separately have absolute values whose sum is below (n + 2)
// (1 + gamma_n) u S, and each is rounded at most n + 3 times ([ORO05], algorithm 5.3 and
// proposition 5.5). Each term adds at most 2^-1073 for t and eta / 2 for w l.
HM_FUNCTION Doubled add_term(Doubled sum, double w, Doubled x) {
    const Doubled product = two_product(w, x.high);
    const Doubled total = two_sum(sum.high, product.high);
    return {total.high, sum.low + (total.low + (product.low + w * x.low))};
}

}  // namespace hardmax

#endif
