#include "hardmax/winners.hpp"

#include "hardmax/interface.h"

using namespace hardmax;

namespace {

StoredForms read(const hm_stored_forms* forms) {
    return {forms->slopes, forms->offsets, forms->points, forms->dim};
}

}  // namespace

extern "C" {

int32_t hm_test_difference(const hm_stored_forms* forms, double* expansion) {
    return expanded_difference(read(forms), 0, 0, 1, expansion);
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
