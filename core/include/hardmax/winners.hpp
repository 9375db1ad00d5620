// The largest of several affine forms at a point: by floats with a proven bound, or by expansions.
// Cases that neither decides are left to integers of any size.
//
// A computed value s is known up to the bound beta = fl(fl(kappa M) + T) of Lemma 2 in
// src/hardmax/exact/rounding.py, where M is the sum of the magnitudes of its terms. After an
// overflow, s or beta is an infinity or NaN, and the form remains a candidate.
#pragma once
#include <cstdint>

#include "hardmax/arithmetic.hpp"
#include "hardmax/rounding.hpp"

namespace hardmax {

constexpr std::int8_t kNoSign = 2;  // replaces a sign that could not be computed

// The numbers kappa and T of a bound.
struct SumBound {
    double factor, allowance;
};

// Forms a_j x + c_j, and points.
struct StoredForms {
    const double* slopes;  // (n_forms, dim)
    const double* offsets;
    const double* points;  // (n_points, dim)
    std::int64_t dim;
};

// A value and the sum of the magnitudes of its terms.
struct Sum {
    double value, size;
};

inline void add_form(const StoredForms& forms, std::int64_t form, std::int64_t point, double sign,
                     Sum& sum) {
    const double* slopes = forms.slopes + form * forms.dim;
    const double* x = forms.points + point * forms.dim;
    sum.value += sign * forms.offsets[form];
    sum.size += magnitude(forms.offsets[form]);
    for (std::int64_t k = 0; k < forms.dim; ++k) {
        const double term = slopes[k] * x[k];
        sum.value += sign * term;
        sum.size += magnitude(term);
    }
}

// A number m 2^e with 1/2 <= |m| < 1; not 0.
struct Scaled {
    double mantissa;
    int exponent;
};

inline Scaled scaled(double x) {
    const int exponent = exponent_of(x) + 1;
    return {__builtin_ldexp(x, -exponent), exponent};
}

// The exact sign of form `plus` minus form `minus` at a point, or kNoSign.
//
// The sum is sum_k a_k x_k - sum_k b_k x_k + c - c', with no difference rounded first. Every factor
// is split into m 2^e with 1/2 <= |m| < 1, and every term is scaled by the largest exponent E of a
// term. A term of exponent E - s is then a multiple of 2^(-106-s) and below 1. With s <= 900, all
// numbers are normal, and `two_product` and `two_sum` are exact at any scale of the data.
// `expansion` has capacity for 4 dim + 4 numbers.
inline std::int8_t expanded_difference(const StoredForms& forms, std::int64_t point,
                                       std::int64_t plus, std::int64_t minus, double* expansion) {
    constexpr int widest = 900;
    const double* x = forms.points + point * forms.dim;
    int top = -(1 << 30), bottom = 1 << 30;
    std::int64_t length = 0;
    // The first pass computes the exponents, the second the terms; the offsets come last.
    for (int pass = 0; pass < 2; ++pass) {
        for (std::int64_t k = 0; k <= forms.dim; ++k) {
            const bool is_offset = k == forms.dim;
            const std::int64_t at = plus * forms.dim + k, other_at = minus * forms.dim + k;
            const double a = is_offset ? forms.offsets[plus] : forms.slopes[at];
            const double b = minus < 0   ? 0.0
                             : is_offset ? forms.offsets[minus]
                                         : forms.slopes[other_at];
            // Equal coefficients cancel exactly, and would only increase the range of exponents.
            if (a == b || (!is_offset && x[k] == 0.0)) continue;
            const Scaled factor = is_offset ? Scaled{0.5, 1} : scaled(x[k]);
            const double coefficients[2] = {a, -b};
            for (const double coefficient : coefficients) {
                if (coefficient == 0.0) continue;
                const Scaled other = scaled(coefficient);
                const int exponent = factor.exponent + other.exponent;
                if (pass == 0) {
                    top = most(top, exponent);
                    bottom = least(bottom, exponent);
                    continue;
                }
                const Doubled product = two_product(other.mantissa, factor.mantissa);
                if (product.low != 0.0)
                    length = grow(expansion, length, __builtin_ldexp(product.low, exponent - top));
                length = grow(expansion, length, __builtin_ldexp(product.high, exponent - top));
            }
        }
        if (top - bottom > widest) return kNoSign;
    }
    return static_cast<std::int8_t>(sign(expansion, length));
}

// The largest of the computed values of a row, if it exceeds the second by more than 2 beta, where
// the error of each is at most beta; otherwise -1.
inline std::int64_t clear_winner(const double* values, std::int64_t n, double error) {
    double best = -kInfinity, second = -kInfinity;
    double finite = 0.0;  // NaN from the first non-finite number on
    std::int64_t winner = 0;
    for (std::int64_t j = 0; j < n; ++j) {
        const double value = values[j];
        finite += value - value;
        if (value > best) {
            second = best;
            best = value;
            winner = j;
        } else if (value > second) {
            second = value;
        }
    }
    return finite == 0.0 && (n == 1 || best - second > 2.0 * error) ? winner : -1;
}

struct Winner {
    std::int64_t form;    // the first that attains the maximum
    std::int64_t n_tied;  // number of forms that attain it
};

// The first of the largest exact values, and the number of forms that attain it; a row represents
// `multiplicity` forms.
inline Winner exact_winner(const double* values, std::int64_t n, const std::int64_t* multiplicity) {
    Winner winner = {0, multiplicity[0]};
    for (std::int64_t j = 1; j < n; ++j) {
        if (values[j] > values[winner.form])
            winner = {j, multiplicity[j]};
        else if (values[j] == values[winner.form])
            winner.n_tied += multiplicity[j];
    }
    return winner;
}

enum WinnerStage { kFilteredWinner, kExpandedWinner, kPendingWinner };

// Decide which form is largest at a point. First compute intervals, each from the magnitude of its
// own form, and eliminate every form whose interval ends below the beginning of another. The
// remaining forms are compared in the order of their indices, each with the largest so far. Without
// a filter, all forms are compared. `upper` has capacity for n numbers, `expansion` for 4 dim + 4.
inline WinnerStage play_off(const StoredForms& forms, std::int64_t n, std::int64_t point,
                            const std::int64_t* multiplicity, bool is_filtering, SumBound bound,
                            double* upper, double* expansion, Winner& winner) {
    double floor = -kInfinity;
    for (std::int64_t j = 0; j < n; ++j) {
        upper[j] = kInfinity;
        if (!is_filtering) continue;
        Sum sum = {0.0, 0.0};
        add_form(forms, j, point, 1.0, sum);
        const double error = bound.factor * sum.size + bound.allowance;
        // After an overflow, the form remains a candidate and its value is ignored.
        if (magnitude(sum.value) < kInfinity && error < kInfinity) {
            upper[j] = sum.value + error;
            floor = larger(floor, sum.value - error);
        }
    }
    WinnerStage stage = kFilteredWinner;
    winner = {-1, 0};
    for (std::int64_t j = 0; j < n; ++j) {
        if (upper[j] < floor) continue;
        if (winner.form < 0) {
            winner = {j, multiplicity[j]};
            continue;
        }
        const std::int8_t answer = expanded_difference(forms, point, j, winner.form, expansion);
        if (answer == kNoSign) return kPendingWinner;
        stage = kExpandedWinner;
        if (answer > 0)
            winner = {j, multiplicity[j]};
        else if (answer == 0)
            winner.n_tied += multiplicity[j];
    }
    return stage;
}

}  // namespace hardmax
