// Signs of affine forms, of their differences and of determinants, and the largest of several forms: by
// floats and a proven bound, or by expansions. What neither decides is left to integers of any size.
//
// A computed value s is accepted when beta < |s| < infinity with the bound beta = fl(fl(kappa M) + T)
// of Lemma 2 in src/hardmax/algebra/exact/rounding.py, M the sum of the magnitudes of its terms. Where
// something overflowed, s or beta is an infinity or NaN and the test fails, as it must.
#pragma once
#include <cstdint>

#include "hardmax/arithmetic.hpp"
#include "hardmax/lanes.hpp"
#include "hardmax/rounding.hpp"

namespace hardmax {

constexpr std::int8_t kNoSign = 2;  // in place of a sign that could not be taken

// The kappa and the T of a bound.
struct SumBound {
    double factor, allowance;
};

inline bool is_beyond(double value, double size, SumBound bound) {
    const double error = bound.factor * size + bound.allowance;
    return error < magnitude(value) && magnitude(value) < kInfinity;
}

// Write the signs of n computed values at a point, the magnitude of each at most that of the point times
// that of the slopes plus that of the offset; list those that this does not prove. Returns how many.
inline std::int64_t coarse_signs(std::int64_t n, const double* values, double point_size,
                                 const double* slope_sizes, const double* offset_sizes,
                                 SumBound bound, std::int8_t* signs, std::int64_t* pending) {
    typedef std::int8_t Bytes __attribute__((vector_size(kLanes)));
    std::int64_t count = 0, j = 0;
    const auto put = [&](std::int64_t i) {
        const double size = point_size * slope_sizes[i] + offset_sizes[i];
        signs[i] = static_cast<std::int8_t>(sign(values[i]));
        if (!is_beyond(values[i], size, bound)) pending[count++] = i;
    };
    for (; j + kLanes <= n; j += kLanes) {
        const Lanes value = load(values + j), zero = all(0.0);
        const Lanes size = point_size * load(slope_sizes + j) + load(offset_sizes + j);
        const Lanes error = bound.factor * size + bound.allowance;
        const LaneBits is_open = ~((error < absolute(value)) & (absolute(value) < all(kInfinity)));
        if ((is_open[0] | is_open[1] | is_open[2] | is_open[3]) != 0) {
            for (int i = 0; i < kLanes; ++i) put(j + i);
            continue;
        }
        const Bytes found = __builtin_convertvector((value < zero) - (value > zero), Bytes);
        std::memcpy(signs + j, &found, sizeof found);
    }
    for (; j < n; ++j) put(j);
    return count;
}

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

// The sign of form `plus` less form `minus` (-1: the zero form) at a point, or kNoSign. Summed term by
// term, no difference of coefficients being rounded first.
inline std::int8_t filtered_difference(const StoredForms& forms, std::int64_t point,
                                       std::int64_t plus, std::int64_t minus, SumBound bound) {
    Sum sum = {0.0, 0.0};
    add_form(forms, plus, point, 1.0, sum);
    if (minus >= 0) add_form(forms, minus, point, -1.0, sum);
    return is_beyond(sum.value, sum.size, bound) ? static_cast<std::int8_t>(sign(sum.value))
                                                 : kNoSign;
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

// The exact sign of form `plus` less form `minus` at a point, or kNoSign.
//
// The sum is sum_k a_k x_k - sum_k b_k x_k + c - c', with no difference rounded first. Every factor is
// split into m 2^e with 1/2 <= |m| < 1, and every term is taken relative to the largest exponent E of a
// term. A term of exponent E - s is then a multiple of 2^(-106-s) and below 1; with s <= 900 all
// numbers are normal, and `two_product` and `two_sum` are exact, whatever the scale of the data.
// `expansion` has room for 4 dim + 4 numbers.
inline std::int8_t expanded_difference(const StoredForms& forms, std::int64_t point,
                                       std::int64_t plus, std::int64_t minus, double* expansion) {
    constexpr int widest = 900;
    const double* x = forms.points + point * forms.dim;
    int top = -(1 << 30), bottom = 1 << 30;
    std::int64_t length = 0;
    // First for the exponents, then for the terms; the last one is that of the offsets.
    for (int pass = 0; pass < 2; ++pass) {
        for (std::int64_t k = 0; k <= forms.dim; ++k) {
            const bool is_offset = k == forms.dim;
            const std::int64_t at = plus * forms.dim + k, other_at = minus * forms.dim + k;
            const double a = is_offset ? forms.offsets[plus] : forms.slopes[at];
            const double b = minus < 0   ? 0.0
                             : is_offset ? forms.offsets[minus]
                                         : forms.slopes[other_at];
            // Equal coefficients cancel exactly, and would only widen the spread.
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

// --- Determinants ---------------------------------------------------------------------------------

// What the proof of `filtered_determinant` needs: kappa_k >= 2 gamma_k, at least k tau, and the size of
// pivots up to which that was proved.
struct EliminationBound {
    double factor, perturbation, largest_pivot;
};

// Overwrite a matrix (k, k) by its LU factors; return the sign of their product, 0 if unusable.
inline int eliminate(double* work, int k) {
    int answer = 1;
    for (int s = 0; s < k; ++s) {
        int pivot = s;
        for (int i = s + 1; i < k; ++i)
            if (magnitude(work[i * k + s]) > magnitude(work[pivot * k + s])) pivot = i;
        if (work[pivot * k + s] == 0.0) return 0;
        double* here = work + s * k;
        if (pivot != s) {
            answer = -answer;
            for (int j = 0; j < k; ++j) {
                const double x = here[j];
                here[j] = work[pivot * k + j];
                work[pivot * k + j] = x;
            }
        }
        if (here[s] < 0.0) answer = -answer;
        for (int i = s + 1; i < k; ++i) {
            double* row = work + i * k;
            const double ratio = row[s] / here[s];
            row[s] = ratio;
            for (int j = s + 1; j < k; ++j) row[j] -= ratio * here[j];
        }
    }
    return answer;
}

// Check that the elimination error cannot make the matrix singular on the way; buffers of k numbers.
inline bool elimination_is_safe(const double* work, int k, EliminationBound bound, double* first,
                                double* second) {
    for (int i = 0; i < k; ++i) {
        double total = 0.0;
        for (int j = i; j < k; ++j) {
            const double size = magnitude(work[i * k + j]);
            if (!(size <= bound.largest_pivot)) return false;
            total += size;
        }
        first[i] = total;
    }
    for (int i = 0; i < k; ++i) {
        double total = first[i];
        for (int j = 0; j < i; ++j) total += magnitude(work[i * k + j]) * first[j];
        second[i] = bound.factor * total + bound.perturbation;
    }
    for (int i = 0; i < k; ++i) {
        double total = second[i];
        for (int j = 0; j < i; ++j) total += magnitude(work[i * k + j]) * first[j];
        first[i] = total;  // from here on the solution of the lower triangular system
    }
    for (int i = k - 1; i >= 0; --i) {
        double total = first[i];
        for (int j = i + 1; j < k; ++j) total += magnitude(work[i * k + j]) * second[j];
        second[i] = total / magnitude(work[i * k + i]);
        if (!(second[i] <= 0.25)) return false;
    }
    return true;
}

// The sign of a determinant that its LU factors prove, or kNoSign; `buffer` has room for k (k + 2).
//
// Gaussian elimination with partial pivoting computes L U = P A + D with |D| <= gamma_k |L| |U| + tau,
// where L is unit lower triangular and tau stands for underflow. The matrices P A + t D, 0 <= t <= 1,
// lead from P A to L U, whose determinant has the known sign prod_i sign u_ii. If none of them is
// singular, det P A has that sign too. Now L U - s D = L U (I - s (L U)^-1 D), so it is enough that
//
//     z = |U^-1| |L^-1| (gamma_k |L| |U| + tau) e < 1
//
// in every component, e being the vector of ones: max_i z_i bounds the row-sum norm of (L U)^-1 D. For a
// triangular R the inverse of the comparison matrix M(R) (|r_ii| on the diagonal, -|r_ij| off it)
// satisfies |R^-1| <= M(R)^-1, so two triangular substitutions in which no subtraction occurs bound z
// from above. Their rounding changes z by a factor below 2 (see src/hardmax/algebra/exact/
// determinants.py), and 1/4 is asked for, with twice the gamma_k ([Higham02], theorems 8.12 and 9.3,
// and equation 2.8 for underflow; [Rump10] for the idea).
inline std::int8_t filtered_determinant(const double* matrix, int k, EliminationBound bound,
                                        double* buffer) {
    double* sums = buffer + k * k;
    for (int i = 0; i < k * k; ++i) buffer[i] = matrix[i];
    const int answer = eliminate(buffer, k);
    const bool is_safe = answer != 0 && elimination_is_safe(buffer, k, bound, sums, sums + k);
    return is_safe ? static_cast<std::int8_t>(answer) : kNoSign;
}

// Room for minors: one expansion for each set of columns.
struct Minors {
    double* entries;  // (2^k, capacity)
    std::int64_t* lengths;
    std::int64_t capacity;
    double* expansion;  // one number for each bit of the grid below
};

// The exact sign of a determinant, or kNoSign if a minor has more entries than there is room for.
//
// Laplace expansion over sets of columns: the minor of the first r rows and the columns S, |S| = r, is
// D(S) = sum_{j in S} +- a_rj D(S \ j), and D of no columns is 1. Let row i lie in 2^-q_i Z with
// entries of at most 1. A minor of r rows, every entry of its expansion and every partial product is a
// multiple of 2^-(q_1 + ... + q_r), and at most k! in magnitude. The caller sees to it that
// sum_i q_i <= 1000 and k <= 12; then nothing overflows or underflows and the arithmetic is exact.
inline std::int8_t expanded_determinant(const double* matrix, int k, const Minors& minors) {
    minors.entries[0] = 1.0;
    minors.lengths[0] = 1;
    std::int64_t length = 1;
    for (std::int64_t columns = 1; columns < std::int64_t{1} << k; ++columns) {
        const int row = __builtin_popcountll(static_cast<std::uint64_t>(columns)) - 1;
        // Expanding along the last row, the sign of the last column is +1.
        double alternating = row % 2 == 0 ? 1.0 : -1.0;
        length = 0;
        for (int j = 0; j < k; ++j) {
            if ((columns >> j & 1) == 0) continue;
            const double a = alternating * matrix[row * k + j];
            alternating = -alternating;
            if (a == 0.0) continue;
            const std::int64_t smaller = columns ^ (std::int64_t{1} << j);
            const double* entries = minors.entries + smaller * minors.capacity;
            for (std::int64_t i = 0; i < minors.lengths[smaller]; ++i)
                length = grow_by_product(minors.expansion, length, a, entries[i]);
        }
        length = compress(minors.expansion, length);
        if (length > minors.capacity) return kNoSign;
        minors.lengths[columns] = length;
        for (std::int64_t i = 0; i < length; ++i)
            minors.entries[columns * minors.capacity + i] = minors.expansion[i];
    }
    return k == 0 ? std::int8_t{1} : static_cast<std::int8_t>(sign(minors.expansion, length));
}

// --- Winners --------------------------------------------------------------------------------------

// The largest of the computed values of a row, if it leads the second by more than 2 beta, the error of
// each being at most beta; else -1.
inline std::int64_t clear_winner(const double* values, std::int64_t n, double error) {
    double best = -kInfinity, second = -kInfinity;
    double finite = 0.0;  // NaN as soon as one is not, and then for good
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
    std::int64_t n_tied;  // how many do
};

// The first largest of exact values, and how many forms have it; a row stands for `multiplicity` forms.
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

// Decide who is largest at a point: intervals first, each from the magnitude of its own form; who ends
// below where another begins is out. If several remain they play in the order of their indices, each
// against the champion so far. Without a filter every form plays. `upper` has room for n numbers,
// `expansion` for 4 dim + 4.
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
        // An overflow leaves the form in play and its value unused.
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
