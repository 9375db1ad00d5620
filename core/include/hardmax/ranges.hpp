// Comparison of numbers with their bounds, without additions or subtractions that might wrap
// around.
#pragma once
#include <cstdint>
#include <type_traits>

namespace hardmax {

inline bool is_between(std::int64_t x, std::int64_t low, std::int64_t high) {
    return x >= low && x <= high;
}

template <class Index>
bool all_between(const Index* numbers, std::int64_t n, std::int64_t low, std::int64_t high) {
    bool is_bad = false;
    for (std::int64_t i = 0; i < n; i++) is_bad |= numbers[i] < low || numbers[i] > high;
    return !is_bad;
}

// Whether numbers are at least 0 and below a bound. As unsigned numbers, negative ones are large,
// and compilers vectorize the maximum.
template <class Index>
bool all_below(const Index* numbers, std::int64_t n, std::int64_t end) {
    std::make_unsigned_t<Index> largest = 0;
    for (std::int64_t i = 0; i < n; i++) {
        const auto number = static_cast<std::make_unsigned_t<Index>>(numbers[i]);
        largest = number > largest ? number : largest;
    }
    return n == 0 || static_cast<std::uint64_t>(largest) < static_cast<std::uint64_t>(end);
}

// Whether rows begin at 0 and do not decrease; the caller must check the end of the last row.
template <class Index>
bool rise(const Index* starts, std::int64_t n_rows) {
    bool is_bad = starts[0] != 0;
    for (std::int64_t i = 0; i < n_rows; i++) is_bad |= starts[i] > starts[i + 1];
    return !is_bad;
}

}  // namespace hardmax
