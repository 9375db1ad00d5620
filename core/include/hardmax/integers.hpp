// Integers of a fixed number of 64-bit limbs, lowest first, in two's complement.
//
// The caller chooses the number of limbs such that no result needs more; see `LiftedForms`.
#pragma once
#include "arithmetic.hpp"

namespace hardmax {

using Limb = uint64_t;
__extension__ typedef unsigned __int128 TwoLimbs;

inline bool is_negative(const Limb* a, int n) { return a[n - 1] >> 63; }

inline int sign(const Limb* a, int n) {
    if (is_negative(a, n)) return -1;
    for (int i = 0; i < n; i++)
        if (a[i]) return 1;
    return 0;
}

inline bool are_equal(const Limb* a, const Limb* b, int n) {
    for (int i = 0; i < n; i++)
        if (a[i] != b[i]) return false;
    return true;
}

// c = a - b; c may be a or b.
inline void subtract(const Limb* a, const Limb* b, int n, Limb* c) {
    Limb borrow = 0;
    for (int i = 0; i < n; i++) {
        const TwoLimbs difference = TwoLimbs{a[i]} - b[i] - borrow;
        c[i] = static_cast<Limb>(difference);
        borrow = static_cast<Limb>(difference >> 64) & 1;
    }
}

inline void add(const Limb* a, const Limb* b, int n, Limb* c) {
    Limb carry = 0;
    for (int i = 0; i < n; i++) {
        const TwoLimbs sum = TwoLimbs{a[i]} + b[i] + carry;
        c[i] = static_cast<Limb>(sum);
        carry = static_cast<Limb>(sum >> 64);
    }
}

// c = a b, with n + m limbs, which must not overlap a or b. A negative a is a + 2^(64 n) as an
// unsigned number, so b 2^(64 n) must be subtracted again; likewise for b.
inline void multiply(const Limb* a, int n, const Limb* b, int m, Limb* c) {
    for (int i = 0; i < n + m; i++) c[i] = 0;
    for (int i = 0; i < n; i++) {
        Limb carry = 0;
        for (int j = 0; j < m; j++) {
            const TwoLimbs sum = TwoLimbs{a[i]} * b[j] + c[i + j] + carry;
            c[i + j] = static_cast<Limb>(sum);
            carry = static_cast<Limb>(sum >> 64);
        }
        c[i + m] = carry;
    }
    if (is_negative(a, n)) subtract(c + n, b, m, c + n);
    if (is_negative(b, m)) subtract(c + m, a, n, c + m);
}

// The number of bits of the absolute value; 0 for 0.
inline int bits_of(const Limb* a, int n) {
    const Limb flip = is_negative(a, n) ? ~Limb{0} : 0;
    Limb carry = flip & 1;
    int bits = 0;
    for (int i = 0; i < n; i++) {
        const Limb magnitude = (a[i] ^ flip) + carry;
        carry = carry && magnitude == 0;
        if (magnitude) bits = 64 * i + 64 - __builtin_clzll(magnitude);
    }
    return bits;
}

// An integer to 106 bits: (high + low) 2^exponent is a with the bits below the leading 106 omitted,
// so that the error is below 2^-105 |a|; 1/2 <= |high| <= 1, and the mantissa is normal.
struct Leading {
    Doubled mantissa;
    int exponent;
};

inline Leading leading(const Limb* a, int n) {
    const int bits = bits_of(a, n);
    if (bits == 0) return {{0.0, 0.0}, 0};
    const Limb flip = is_negative(a, n) ? ~Limb{0} : 0;
    // Limb i of |a|: the carry of the negation passes through the limbs that are zero.
    const auto magnitude = [&](int i) -> Limb {
        if (i < 0) return 0;
        Limb carry = flip & 1;
        for (int k = 0; carry && k < i; k++) carry = a[k] == 0;
        return (a[i] ^ flip) + carry;
    };
    const int top = (bits - 1) / 64, shift = 64 * (top + 1) - bits;
    const Limb first = magnitude(top), second = magnitude(top - 1), third = magnitude(top - 2);
    const Limb upper = shift ? first << shift | second >> (64 - shift) : first;
    const Limb lower = shift ? second << shift | third >> (64 - shift) : second;
    // The 128 leading bits: the first 53, and 53 more.
    const double factor = flip ? -1.0 : 1.0;
    const Limb rest = (upper & 0x7ff) << 42 | lower >> 22;
    return {fast_two_sum(factor * 0x1p-53 * static_cast<double>(upper >> 11),
                         factor * 0x1p-106 * static_cast<double>(rest)),
            bits};
}

// The quotient of two integers, the lower one not 0, times 2^exponent, rounded to the nearest
// float64; NaN if it is nearly half way between two floats, or close to the limits of float64.
inline double nearest_quotient(const Leading& top, const Leading& bottom, int exponent) {
    if (top.mantissa.high == 0.0) return 0.0;
    // Both are known to 2^-105. q1 is the quotient to 2 u. top - q1 bottom is known to 2^-102 of
    // top (a difference of numbers of two floats after a product), and so is the result.
    const double q1 = top.mantissa.high / bottom.mantissa.high;
    const Doubled product = multiply(bottom.mantissa, -q1);
    const Doubled left = add(top.mantissa, product);
    const Doubled quotient = fast_two_sum(q1, left.high / bottom.mantissa.high);
    const double error = 0x1p-98 * __builtin_fabs(quotient.high);
    const int scale = top.exponent - bottom.exponent + exponent;
    const bool is_nearest = quotient.high + (quotient.low + error) == quotient.high &&
                            quotient.high + (quotient.low - error) == quotient.high;
    return is_nearest && scale > -1000 && scale < 1000 ? __builtin_ldexp(quotient.high, scale)
                                                       : __builtin_nan("");
}

}  // namespace hardmax
