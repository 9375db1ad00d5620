// Products of a few rows, many of whose entries are zero, with one matrix.
//
// Neighbouring rows on a line have nearly the same zeros. Six rows share a list of the terms in
// which any of them is not zero, and a tile of six rows and eight columns is kept in registers: 12
// vectors of sums, 2 vectors of the matrix, one broadcast number and one product use the 16
// registers of AVX2. The matrix is divided into panels of eight columns, stored row by row; 256
// rows of a panel (16 KiB) stay in the L1 cache while the rows of a batch are processed. Each entry
// is a sum in ascending order of its terms, independently of the tiles.
#pragma once
#include <cstdint>

#include "hardmax/arena.hpp"
#include "hardmax/lanes.hpp"

namespace hardmax {

constexpr int kPanelLanes = 2;
constexpr int kPanelColumns = kPanelLanes * kLanes;

struct Panels {
    const double* numbers;  // (n_panels, n_rows, 8), the last panel padded
    std::int64_t n_rows, n_columns;
};

inline std::int64_t panel_columns(std::int64_t n_columns) {
    return (n_columns + kPanelColumns - 1) / kPanelColumns * kPanelColumns;
}

// Rows to be multiplied, added group by group.
struct RowBatch {
    static constexpr int kRows = 6, kGroups = 16;

    struct Group {
        int n_rows;  // 2, 4 or 6
        std::int64_t n_terms;
        std::int64_t n_done, n_next;  // number of terms that are done, and end of the terms before
                                      // the next rows
        std::int32_t* term;           // indices of the rows of the matrix, ascending
        double* factor;               // (n_terms, n_rows)
        double* out[kRows];
    };

    int n_groups;
    Group groups[kGroups];
    double* unused;       // output for rows that do not exist
    std::int64_t* flags;  // masks of all bits for the terms in which a row is not zero
};

inline void lay_out(RowBatch& batch, Arena& arena, std::int64_t most_terms,
                    std::int64_t most_columns) {
    const std::size_t n = static_cast<std::size_t>(most_terms);
    batch.n_groups = 0;
    for (RowBatch::Group& group : batch.groups) {
        group.term = arena.take<std::int32_t>(n);
        group.factor = arena.take<double>(RowBatch::kRows * n);
    }
    batch.unused = arena.take<double>(static_cast<std::size_t>(most_columns));
    batch.flags = arena.take<std::int64_t>(n);
}

// Begin a group of n rows with the outputs `out`; an odd row is paired with a row whose output is
// discarded.
inline RowBatch::Group& begin_group(RowBatch& batch, int n, double* const* out) {
    RowBatch::Group& group = batch.groups[batch.n_groups++];
    group.n_rows = (n + 1) & ~1;
    for (int r = 0; r < group.n_rows; ++r) group.out[r] = r < n ? out[r] : batch.unused;
    return group;
}

// List the terms, out of n, that have a flag.
inline void list_terms(const RowBatch& batch, std::int64_t n, RowBatch::Group& group) {
    std::int64_t k = 0;
    for (std::int64_t j = 0; j < n; ++j) {
        group.term[k] = static_cast<std::int32_t>(j);
        k -= batch.flags[j];
    }
    group.n_terms = k;
}

namespace detail {

// Add the next terms to the sums of R rows in the columns of a panel.
template <int R>
inline void multiply_tile(const RowBatch::Group& group, const double* panel, double* const* out) {
    Lanes sums[R][kPanelLanes];
    for (int r = 0; r < R; ++r)
        for (int v = 0; v < kPanelLanes; ++v)
            sums[r][v] = group.n_done > 0 ? load(out[r] + v * kLanes) : all(0.0);
    for (std::int64_t k = group.n_done; k < group.n_next; ++k) {
        const double* row = panel + static_cast<std::int64_t>(group.term[k]) * kPanelColumns;
        const double* factor = group.factor + R * k;
        const Lanes one = load(row), other = load(row + kLanes);
        for (int r = 0; r < R; ++r) {
            const Lanes x = all(factor[r]);
            sums[r][0] += x * one;
            sums[r][1] += x * other;
        }
    }
    for (int r = 0; r < R; ++r)
        for (int v = 0; v < kPanelLanes; ++v) store(out[r] + v * kLanes, sums[r][v]);
}

inline void multiply_tile(const RowBatch::Group& group, const double* panel, double* const* out) {
    if (group.n_rows == 6)
        multiply_tile<6>(group, panel, out);
    else if (group.n_rows == 4)
        multiply_tile<4>(group, panel, out);
    else
        multiply_tile<2>(group, panel, out);
}

// The same if only some columns of the panel exist.
inline void multiply_edge(const RowBatch::Group& group, const double* panel, double* const* out,
                          std::int64_t width) {
    double edge[RowBatch::kRows][kPanelColumns];
    double* places[RowBatch::kRows];
    for (int r = 0; r < group.n_rows; ++r) {
        places[r] = edge[r];
        for (std::int64_t j = 0; j < kPanelColumns; ++j)
            edge[r][j] = j < width && group.n_done > 0 ? out[r][j] : 0.0;
    }
    multiply_tile(group, panel, places);
    for (int r = 0; r < group.n_rows; ++r)
        for (std::int64_t j = 0; j < width; ++j) out[r][j] = edge[r][j];
}

}  // namespace detail

// Multiply all rows of a batch with a matrix, and empty the batch. Every group has a term.
inline void multiply(RowBatch& batch, const Panels& matrix) {
    constexpr std::int64_t rows_at_once = 256;
    for (int g = 0; g < batch.n_groups; ++g) batch.groups[g].n_done = 0;
    for (std::int64_t stop = rows_at_once; stop < matrix.n_rows + rows_at_once;
         stop += rows_at_once) {
        for (int g = 0; g < batch.n_groups; ++g) {
            RowBatch::Group& group = batch.groups[g];
            group.n_next = stop < matrix.n_rows ? group.n_done : group.n_terms;
            while (group.n_next < group.n_terms && group.term[group.n_next] < stop) ++group.n_next;
        }
        for (std::int64_t column = 0; column < matrix.n_columns; column += kPanelColumns) {
            const double* panel = matrix.numbers + column * matrix.n_rows;
            const std::int64_t width = matrix.n_columns - column;
            for (int g = 0; g < batch.n_groups; ++g) {
                const RowBatch::Group& group = batch.groups[g];
                double* out[RowBatch::kRows];
                for (int r = 0; r < group.n_rows; ++r) out[r] = group.out[r] + column;
                if (width < kPanelColumns)
                    detail::multiply_edge(group, panel, out, width);
                else
                    detail::multiply_tile(group, panel, out);
            }
        }
        for (int g = 0; g < batch.n_groups; ++g) batch.groups[g].n_done = batch.groups[g].n_next;
    }
    batch.n_groups = 0;
}

}  // namespace hardmax
