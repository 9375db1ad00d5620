// Max-plus linear algebra: tiles of a matrix product, and sweeps over the edges of a graph.
#pragma once
#include <cstdint>

#include "hardmax/lanes.hpp"
#include "hardmax/rounding.hpp"

namespace hardmax {

// A tile has 4 rows and 12 columns: 12 vectors of running maxima, 3 vectors of the right factor and
// one broadcast number use the 16 registers of AVX2. A panel is 12 columns of the right factor; 256
// of its rows, stored consecutively (24 KiB), stay in the L1 cache while the rows of the left
// factor are processed.
constexpr int kTileRows = 4;
constexpr int kTileLanes = 3;
constexpr int kTileColumns = kTileLanes * kLanes;
constexpr std::int64_t kTileDepth = 256;

// Update the maxima of a tile with the terms left[r][k] + panel[k], k ascending.
inline void raise_tile(const double* const left[kTileRows], const double* panel,
                       std::int64_t n_terms, Lanes best[kTileRows][kTileLanes]) {
    for (std::int64_t k = 0; k < n_terms; ++k, panel += kTileColumns) {
        const Lanes b0 = load(panel), b1 = load(panel + kLanes), b2 = load(panel + 2 * kLanes);
        for (int r = 0; r < kTileRows; ++r) {
            const Lanes a = all(left[r][k]);
            best[r][0] = larger(best[r][0], a + b0);
            best[r][1] = larger(best[r][1], a + b1);
            best[r][2] = larger(best[r][2], a + b2);
        }
    }
}

// left is (n_rows, inner) in row-major order; right is (inner, n_columns) with the given strides.
struct MaxPlusProduct {
    const double* left;
    const double* right;
    double* out;
    std::int64_t n_rows, inner, n_columns;
    std::int64_t right_row_step, right_column_step;
};

// Copy rows k to k + n_terms of a panel, padded with -inf.
inline void pack_panel(const MaxPlusProduct& product, std::int64_t column, int width,
                       std::int64_t k, std::int64_t n_terms, double* panel) {
    const std::int64_t step = product.right_column_step;
    const double* from = product.right + k * product.right_row_step + column * step;
    for (std::int64_t t = 0; t < n_terms; ++t, from += product.right_row_step) {
        double* to = panel + t * kTileColumns;
        for (int j = 0; j < kTileColumns; ++j) to[j] = j < width ? from[j * step] : -kInfinity;
    }
}

// Write tiles of the product max_k left[i][k] + right[k][j]. The grid of (panel, group of rows) is
// numbered panel by panel, so that threads can share it; tiles `first` to `last` are computed.
// Entries are maxima of sums rounded once, so they do not depend on the division of the grid.
inline void max_plus_tiles(const MaxPlusProduct& product, std::int64_t first, std::int64_t last) {
    const std::int64_t n_groups = (product.n_rows + kTileRows - 1) / kTileRows;
    double panel[kTileDepth * kTileColumns];
    double edge[kTileRows][kTileColumns] = {};
    for (std::int64_t p = first / n_groups; p * n_groups < last; ++p) {
        const std::int64_t column = p * kTileColumns, rest = product.n_columns - column;
        const int width = rest < kTileColumns ? static_cast<int>(rest) : kTileColumns;
        const std::int64_t begin = first > p * n_groups ? first - p * n_groups : 0;
        const std::int64_t end = last < (p + 1) * n_groups ? last - p * n_groups : n_groups;
        for (std::int64_t k = 0; k < product.inner; k += kTileDepth) {
            const std::int64_t left_over = product.inner - k;
            const std::int64_t n_terms = left_over < kTileDepth ? left_over : kTileDepth;
            pack_panel(product, column, width, k, n_terms, panel);
            for (std::int64_t group = begin; group < end; ++group) {
                const double* rows[kTileRows];
                double* places[kTileRows];
                Lanes best[kTileRows][kTileLanes];
                for (int r = 0; r < kTileRows; ++r) {
                    // Rows past the end are copies of the last row.
                    const std::int64_t wanted = group * kTileRows + r;
                    const std::int64_t row = wanted < product.n_rows ? wanted : product.n_rows - 1;
                    rows[r] = product.left + row * product.inner + k;
                    places[r] = product.out + row * product.n_columns + column;
                    for (int j = 0; k > 0 && j < width; ++j) edge[r][j] = places[r][j];
                    for (int v = 0; v < kTileLanes; ++v)
                        best[r][v] = k > 0 ? load(edge[r] + v * kLanes) : all(-kInfinity);
                }
                raise_tile(rows, panel, n_terms, best);
                for (int r = 0; r < kTileRows; ++r) {
                    for (int v = 0; v < kTileLanes; ++v) store(edge[r] + v * kLanes, best[r][v]);
                    for (int j = 0; j < width; ++j) places[r][j] = edge[r][j];
                }
            }
        }
    }
}

// Apply Bellman-Ford sweeps over all edges until nothing changes, or n_sweeps times. Returns
// whether the last sweep changed nothing. The weight of edge i -> j is weights[i][j], or -inf if
// there is no such edge. Labels are rounded: the caller treats them and the parents as a guess.
inline bool relax(std::int64_t n, const double* weights, double* labels, std::int64_t* parents,
                  std::int64_t n_sweeps) {
    for (std::int64_t sweep = 0; sweep < n_sweeps; ++sweep) {
        bool changed = false;
        for (std::int64_t i = 0; i < n; ++i) {
            const double label = labels[i];
            if (label == -kInfinity) continue;
            const double* row = weights + i * n;
            for (std::int64_t j = 0; j < n; ++j) {
                const double t = label + row[j];
                if (t > labels[j]) {
                    labels[j] = t;
                    parents[j] = i;
                    changed = true;
                }
            }
        }
        if (!changed) return true;
    }
    return false;
}

}  // namespace hardmax
