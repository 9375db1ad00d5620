// All constants of the error bounds, with the errors that they cover.
#pragma once
#include <cmath>
#include <cstdint>

namespace hardmax {

constexpr double kU = 0x1p-53;         // the unit roundoff
constexpr double kKappa = 0x1p-49;     // exceeds the sum of all relative errors of one evaluation
                                       // of a form
constexpr double kUp = 1.0 + 0x1p-40;  // exceeds the effect of rounding on a bound
// Exceeds the total underflow in one computation: each underflow is at most 2^-1075, and is
// multiplied at most by the number of products that are summed.
constexpr double kTiny = 0x1p-1000;
constexpr int kFinestGrid = -1000;   // below this, products of numbers on grids may underflow
constexpr int kCoarsestGrid = 2000;  // the grid of zero
constexpr double kBeyond = 1e308;
constexpr double kInfinity = __builtin_inf();

inline double magnitude(double x) { return __builtin_fabs(x); }
inline int most(int a, int b) { return a < b ? b : a; }
inline int least(int a, int b) { return a < b ? a : b; }
inline double larger(double a, double b) { return a < b ? b : a; }
// The larger of a bound and a number. NaN counts as larger than every number, and is preserved.
inline double bound(double most, double x) { return x <= most || most != most ? most : x; }

// A float that is at least x; infinity for NaN.
inline float rounded_up(double x) {
    // Rounding reduces x by at most 2^-24 of it, or by half of the smallest float.
    const double larger = x * (1.0 + 0x1p-22) + (x > 0.0 ? 0x1p-148 : 0.0);
    return larger <= 0x1p127 ? static_cast<float>(larger) : __builtin_inff();
}

// 2^e, for -1022 <= e <= 1023.
inline double power_of_two(int e) {
    const std::uint64_t bits = static_cast<std::uint64_t>(e + 1023) << 52;
    double x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

// The e with 2^e <= |x| < 2^(e+1), for a finite nonzero number.
inline int exponent_of(double x) {
    std::uint64_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    const int exponent = static_cast<int>(bits >> 52 & 2047);
    if (exponent > 0) return exponent - 1023;
    return -1011 - __builtin_clzll(bits & ((std::uint64_t{1} << 52) - 1));
}

// The largest e <= coarsest with x in 2^e Z.
inline int grid_of(double x, int coarsest) {
    if (x == 0.0) return coarsest;
    std::uint64_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    int exponent = static_cast<int>(bits >> 52 & 2047);
    std::uint64_t mantissa = bits & ((std::uint64_t{1} << 52) - 1);
    if (exponent > 0)
        mantissa |= std::uint64_t{1} << 52;
    else
        exponent = 1;
    const int e = exponent - 1075 + __builtin_ctzll(mantissa);
    return e < coarsest ? e : coarsest;
}

// The maximum length of a run. For sums of n products in two stages (see `add_products`), a product
// is rounded once, then with each sum of its run of at most kRun, and then with each later run. The
// bound is at least twice too large.
constexpr int kRun = 16;
inline double kappa_of(int n) {
    const int in_run = n < kRun ? n : kRun;
    return 2.0 * (in_run + n / kRun + 8) * kU;
}

}  // namespace hardmax
