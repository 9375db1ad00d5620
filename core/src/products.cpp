#include "hardmax/products.hpp"

#include "hardmax/interface.h"

extern "C" {

int64_t hm_max_plus_n_tiles(int64_t n_rows, int64_t n_columns) {
    return (n_rows + hardmax::kTileRows - 1) / hardmax::kTileRows *
           ((n_columns + hardmax::kTileColumns - 1) / hardmax::kTileColumns);
}

void hm_max_plus_tiles(const double* left, const double* right, double* out, int64_t n_rows,
                       int64_t inner, int64_t n_columns, int64_t row_step, int64_t column_step,
                       int64_t first, int64_t last) {
    hardmax::max_plus_tiles({left, right, out, n_rows, inner, n_columns, row_step, column_step},
                            first, last);
}

int32_t hm_max_plus_relax(int64_t n, const double* weights, double* labels, int64_t* parents,
                          int64_t n_sweeps) {
    return hardmax::relax(n, weights, labels, parents, n_sweeps);
}

}  // extern "C"
