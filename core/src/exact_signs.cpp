#include "hardmax/exact_signs.hpp"

#include "hardmax/interface.h"

using namespace hardmax;

namespace {

StoredForms read(const hm_stored_forms* forms) {
    return {forms->slopes, forms->offsets, forms->points, forms->dim};
}

}  // namespace

extern "C" {

int64_t hm_signs_coarse(int64_t n_points, int64_t n_forms, const double* values,
                        const double* point_sizes, const double* slope_sizes,
                        const double* offset_sizes, double factor, double allowance, int8_t* signs,
                        int64_t* pending) {
    int64_t count = 0;
    for (int64_t p = 0; p < n_points; ++p) {
        const int64_t at = p * n_forms;
        const int64_t n =
            coarse_signs(n_forms, values + at, point_sizes[p], slope_sizes, offset_sizes,
                         {factor, allowance}, signs + at, pending + count);
        for (int64_t i = 0; i < n; ++i) pending[count + i] += at;
        count += n;
    }
    return count;
}

void hm_signs_filtered(const hm_stored_forms* forms, int64_t n, const int64_t* point,
                       const int64_t* plus, const int64_t* minus, double factor, double allowance,
                       int8_t* signs) {
    for (int64_t q = 0; q < n; ++q)
        signs[q] =
            filtered_difference(read(forms), point[q], plus[q], minus[q], {factor, allowance});
}

void hm_signs_expanded(const hm_stored_forms* forms, int64_t n, const int64_t* point,
                       const int64_t* plus, const int64_t* minus, double* expansion,
                       int8_t* signs) {
    for (int64_t q = 0; q < n; ++q)
        signs[q] = expanded_difference(read(forms), point[q], plus[q], minus[q], expansion);
}

void hm_determinants_filtered(int64_t n, int32_t k, const double* matrices, double factor,
                              double perturbation, double largest_pivot, double* buffer,
                              int8_t* signs) {
    const EliminationBound bound = {factor, perturbation, largest_pivot};
    for (int64_t i = 0; i < n; ++i)
        signs[i] = filtered_determinant(matrices + i * k * k, k, bound, buffer);
}

void hm_determinants_expanded(int64_t n, int32_t k, const double* matrices, double* minors,
                              int64_t* lengths, int64_t capacity, double* expansion,
                              int8_t* signs) {
    for (int64_t i = 0; i < n; ++i)
        signs[i] =
            expanded_determinant(matrices + i * k * k, k, {minors, lengths, capacity, expansion});
}

int64_t hm_winners_clear(int64_t n_points, int64_t n_forms, const double* values,
                         const double* bounds, int64_t* form, int64_t* pending) {
    int64_t count = 0;
    for (int64_t p = 0; p < n_points; ++p) {
        const int64_t winner = clear_winner(values + p * n_forms, n_forms, bounds[p]);
        form[p] = winner < 0 ? 0 : winner;
        pending[count] = p;
        count += winner < 0;
    }
    return count;
}

void hm_winners_exact(int64_t n_points, int64_t n_forms, const double* values,
                      const int64_t* multiplicity, int64_t* form, int64_t* n_tied) {
    for (int64_t p = 0; p < n_points; ++p) {
        const Winner winner = exact_winner(values + p * n_forms, n_forms, multiplicity);
        form[p] = winner.form;
        n_tied[p] = winner.n_tied;
    }
}

void hm_winners_play_off(const hm_stored_forms* forms, int64_t n_forms, const int64_t* multiplicity,
                         int64_t n, const int64_t* rows, int32_t is_filtering, double factor,
                         double allowance, double* upper, double* expansion, int64_t* form,
                         int64_t* n_tied, int8_t* stage) {
    for (int64_t r = 0; r < n; ++r) {
        const int64_t p = rows[r];
        Winner winner;
        stage[p] =
            static_cast<int8_t>(play_off(read(forms), n_forms, p, multiplicity, is_filtering != 0,
                                         {factor, allowance}, upper, expansion, winner));
        form[p] = winner.form;
        n_tied[p] = winner.n_tied;
    }
}

}  // extern "C"
