// Affine maps with bounds on their norms, in the order in which products read them.
//
// The bounds are those of `NormedMap` in src/hardmax/models/_arithmetic/normed_maps.py. Squares of
// numbers that are at least kFloor do not underflow, and kRaise exceeds the relative rounding error
// of a sum.
#pragma once
#include <cstdint>

#include "hardmax/interface.h"
#include "hardmax/rounding.hpp"
#include "hardmax/row_products.hpp"

namespace hardmax {

typedef hm_normed_map NormedMap;

constexpr double kRaise = 1.0 + 0x1p-20;
constexpr double kFloor = 0x1p-480;  // squares of numbers that are at least this large do not
                                     // underflow

namespace detail {

// The magnitude of a number, raised to kFloor unless the number is 0.
inline double from_floor(double x) {
    const double size = magnitude(x);
    return size < kFloor && x != 0.0 ? kFloor : size;
}

inline double square_from_floor(double x) { return from_floor(x) * from_floor(x); }

inline Lanes square_from_floor(Lanes x) {
    const Lanes size = absolute(x);
    const Lanes raised = choose((size < all(kFloor)) & (x != all(0.0)), all(kFloor), size);
    return raised * raised;
}

// Add the squares of some rows to the sums of the columns, and copy the rows into panels.
inline void pack_rows(const NormedMap& map, std::int64_t start, std::int64_t stop, double* squares,
                      double* panels) {
    const std::int64_t n = map.n_out;
    for (std::int64_t column = 0; column < n; column += kPanelColumns) {
        const std::int64_t width = n - column;
        const std::int64_t panel = column * (map.n_in + 1);
        for (std::int64_t k = start; k < stop; ++k) {
            const double* row = map.rows + k * n + column;
            double edge[kPanelColumns] = {};
            if (width < kPanelColumns) {
                for (std::int64_t j = 0; j < width; ++j) edge[j] = row[j];
                row = edge;
            }
            for (int j = 0; j < kPanelColumns; j += kLanes) {
                const Lanes x = load(row + j);
                if (panels) store(panels + panel + k * kPanelColumns + j, x);
                if (k < map.n_in)
                    store(squares + column + j, load(squares + column + j) + square_from_floor(x));
            }
        }
    }
}

// Find the grids on which the weights and biases lie, and their magnitudes, provided that the
// weights are integers with few digits on their grid. Most weights are not, as the first few show.
inline void find_grids(NormedMap& map, double* sums) {
    constexpr double most_digits = 0x1p24;
    constexpr std::int64_t most_entries = 1 << 20;
    const std::int64_t n = map.n_in * map.n_out;
    const double* bias = map.rows + n;
    int grid = kCoarsestGrid, bias_grid = kCoarsestGrid;
    double size = 0.0, largest = 0.0, most = 0.0;
    map.grid = map.bias_grid = kFinestGrid - kCoarsestGrid;
    map.column_sum = map.bias_most = kInfinity;
    if (n > most_entries) return;
    for (std::int64_t k = 0; k < n; ++k) {
        if (map.rows[k] == 0.0) continue;
        grid = grid_of(map.rows[k], grid);
        size = larger(size, magnitude(map.rows[k]));
        if (grid < kFinestGrid || size > most_digits * power_of_two(grid)) return;
    }
    for (std::int64_t j = 0; j < map.n_out; ++j) sums[j] = 0.0;
    for (std::int64_t k = 0; k < map.n_in; ++k)
        for (std::int64_t j = 0; j < map.n_out; ++j)
            sums[j] += magnitude(map.rows[k * map.n_out + j]);
    for (std::int64_t j = 0; j < map.n_out; ++j) {
        bias_grid = grid_of(bias[j], bias_grid);
        largest = larger(largest, sums[j]);
        most = larger(most, magnitude(bias[j]));
    }
    map.grid = grid;
    map.bias_grid = bias_grid;
    map.column_sum = largest * kRaise;
    map.bias_most = most;
}

inline void pack(NormedMap& map, std::int64_t n_layers, double* panels, double* omega,
                 double* bias_size) {
    constexpr std::int64_t rows_at_once = 16;
    const double* bias = map.rows + map.n_in * map.n_out;
    find_grids(map, omega);
    for (std::int64_t j = 0; j < panel_columns(map.n_out); ++j) omega[j] = 0.0;
    for (std::int64_t start = 0; start <= map.n_in; start += rows_at_once)
        pack_rows(map, start,
                  start + rows_at_once <= map.n_in ? start + rows_at_once : map.n_in + 1, omega,
                  panels);
    double squares = 0.0, bias_squares = 0.0;
    for (std::int64_t j = 0; j < map.n_out; ++j) {
        squares += omega[j];
        bias_squares += square_from_floor(bias[j]);
        omega[j] = __builtin_sqrt(omega[j]) * kRaise;
        bias_size[j] = magnitude(bias[j]);
    }
    map.frobenius = map.sigma = __builtin_sqrt(squares) * kRaise;
    map.bias_norm = __builtin_sqrt(bias_squares) * kRaise + kTiny;
    map.kappa = static_cast<double>(map.n_in + 4 + 4 * n_layers) * kU * kRaise;
    map.panels = panels;
    map.omega = omega;
    map.bias_size = bias_size;
}

}  // namespace detail

// Compute the norms of the maps into the n_layers layers of a network, in memory of the caller.
// Divide all maps except the first into panels; the first is never multiplied by many rows.
// Spectral norms are bounded by Frobenius norms. Returns the size of the memory; without memory,
// nothing else is done.
inline std::size_t pack_maps(NormedMap* maps, std::int64_t n, std::int64_t n_layers, void* memory) {
    Arena arena{static_cast<char*>(memory)};
    for (std::int64_t l = 0; l < n; ++l) {
        const std::size_t width = static_cast<std::size_t>(panel_columns(maps[l].n_out));
        const std::size_t n_rows = static_cast<std::size_t>(maps[l].n_in) + 1;
        double* panels = l > 0 ? arena.take<double>(n_rows * width) : nullptr;
        double* omega = arena.take<double>(width);
        double* bias_size = arena.take<double>(width);
        if (arena.base) detail::pack(maps[l], n_layers, panels, omega, bias_size);
    }
    return arena.used;
}

}  // namespace hardmax
