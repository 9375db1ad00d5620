#include "processor.hpp"

#include <stdint.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace hardmax {

#if defined(__x86_64__)

namespace {

// The compilers' own test (__builtin_cpu_supports) requires a run-time library that is not always
// available.
struct Leaf {
    uint32_t a, b, c, d;
};

Leaf leaf_of(uint32_t number) {
    Leaf leaf = {0, 0, 0, 0};
    __get_cpuid_count(number, 0, &leaf.a, &leaf.b, &leaf.c, &leaf.d);
    return leaf;
}

bool has(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

bool system_saves_wide_registers() {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return has(low, (1u << 1) | (1u << 2));  // XMM and YMM state
}

}  // namespace

bool runs_x86_64_v3() {
    const uint32_t features =  // SSE3, SSSE3, FMA, CMPXCHG16B, SSE4.1, SSE4.2, MOVBE, POPCNT,
                               // OSXSAVE, AVX, F16C
        1u << 0 | 1u << 9 | 1u << 12 | 1u << 13 | 1u << 19 | 1u << 20 | 1u << 22 | 1u << 23 |
        1u << 27 | 1u << 28 | 1u << 29;
    const uint32_t structured = 1u << 3 | 1u << 5 | 1u << 8;  // BMI1, AVX2, BMI2
    const uint32_t extended = 1u << 0 | 1u << 5;              // LAHF, LZCNT
    return has(leaf_of(1).c, features) && system_saves_wide_registers() &&
           has(leaf_of(7).b, structured) && has(leaf_of(0x80000001u).c, extended);
}

#else

bool runs_x86_64_v3() { return false; }

#endif

bool float_environment_is_sound() {
    // volatile prevents the compiler from evaluating these at compile time.
    volatile double smallest = 0x1p-1074, least_normal = 0x1p-1022, one = 1.0, quarter = 0x1p-54;
    volatile double sum = least_normal - smallest;       // 0 or 2^-1022 if subnormals are flushed
    volatile double doubled = smallest + smallest;       // 0 if subnormal arguments are treated as
                                                         // 0
    volatile double above = one + quarter;               // 1 + 2^-52 if rounding goes up
    volatile double below = -one - quarter;              // the same downwards
    volatile double towards_zero = one - quarter / 2.0;  // 1 - 2^-53 if rounding goes to zero
    return sum == 0x1.ffffffffffffep-1023 && doubled == 0x1p-1073 && above == 1.0 &&
           below == -1.0 && towards_zero == 1.0;
}

}  // namespace hardmax
