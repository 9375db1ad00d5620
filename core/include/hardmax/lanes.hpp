// Four numbers at a time. Loops run over units, never along a sum, so that results do not depend on
// the width of a machine's registers.
#pragma once
#include <cstdint>
#include <cstring>

namespace hardmax {

constexpr int kLanes = 4;
typedef double Lanes __attribute__((vector_size(32)));
typedef std::int64_t LaneBits __attribute__((vector_size(32)));

inline int padded(int n) { return (n + kLanes - 1) & ~(kLanes - 1); }

inline Lanes load(const double* from) {
    Lanes lanes;
    std::memcpy(&lanes, from, sizeof lanes);
    return lanes;
}
inline void store(double* to, Lanes lanes) { std::memcpy(to, &lanes, sizeof lanes); }
inline Lanes all(double x) { return Lanes{x, x, x, x}; }
inline Lanes absolute(Lanes x) { return (Lanes)((LaneBits)x & (LaneBits{} + INT64_MAX)); }
inline Lanes choose(LaneBits mask, Lanes yes, Lanes no) {
    return (Lanes)((mask & (LaneBits)yes) | (~mask & (LaneBits)no));
}
// A single instruction, if the processor has one.
inline Lanes larger(Lanes a, Lanes b) { return a < b ? b : a; }
// Like `bound` of numbers: NaN is preserved.
inline Lanes bound(Lanes most, Lanes x) { return ((x <= most) | (most != most)) ? most : x; }

// The lowest n bits, n <= 64.
inline std::uint64_t low_bits(int n) {
    return n >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
}

// Comparisons of up to 64 numbers as the bits of one word.
struct LaneMask {
    LaneBits words = {};
    // Add the comparisons of the numbers i to i + kLanes - 1.
    void add(LaneBits is_true, int i) { words |= is_true & (LaneBits{1, 2, 4, 8} << i); }
    std::uint64_t bits() const {
        return static_cast<std::uint64_t>(words[0] | words[1] | words[2] | words[3]);
    }
};

}  // namespace hardmax
