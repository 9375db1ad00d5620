// Large groups of forms on an interval: their upper envelope, found once for a region.
//
// The forms a t + c that are the largest somewhere are the corners (a, c) of an upper hull: a monotone
// chain keeps them in the order of their slopes, which is that of their parts from left to right
// ([And79]). A form is taken off only where it is proven to be nowhere larger than its neighbours on
// the chain, or than one of them on the region; so those that stay are enough, whatever could not be
// decided. Where every bend of the chain is proven as well, one form after the other wins on it: on any
// part of the region the competitors are a run of the chain, whose ends are found by bisection, and a
// part is bounded by two walls that are known.
//
// Forms come as floats with radii, and, where these leave a bend open, in twice the precision.
#pragma once
#include <algorithm>

#include "determinants.hpp"
#include "doubled.hpp"
#include "signs.hpp"

namespace hardmax {

constexpr int kChainFrom = 24;  // below, clipping by all forms is as fast

// The forms of a layer on a line.
struct LineForms {
    const Frame<1>& frame;
    const DoubledForms<1>* doubled;  // or null
    double scale;

    double slope(int i) const { return frame.scores.coefficient[0][i]; }
    double offset(int i) const { return frame.scores.coefficient[1][i]; }
    double radius(int i) const { return frame.scores.radius[i]; }
    bool is_exact(int i) const { return radius(i) == 0.0; }
    bool is_finite(int i) const {
        return magnitude(slope(i)) < kInfinity && magnitude(offset(i)) < kInfinity &&
               (!doubled || (magnitude(doubled->high.coefficient[0][i]) < kInfinity &&
                             magnitude(doubled->low[0][i]) < kInfinity));
    }
    // Whether a slope comes before another one, as computed.
    bool comes_before(int i, int j) const {
        if (doubled) {
            const double *high = doubled->high.coefficient[0], *low = doubled->low[0];
            if (high[i] != high[j]) return high[i] < high[j];
            if (low[i] != low[j]) return low[i] < low[j];
        } else if (slope(i) != slope(j)) {
            return slope(i) < slope(j);
        }
        return i < j;
    }
    int rise(int i, int j) const;
    int bend(int i, int j, int k) const;

   private:
    // Coefficient k of form j less that of form i, and how much it errs; in floats, or doubled.
    Doubled difference(int i, int j, int k) const {
        return add({doubled->high.coefficient[k][j], doubled->low[k][j]},
                   {-doubled->high.coefficient[k][i], -doubled->low[k][i]});
    }
    double error(double radius, int k) const {
        if (k == 1) return frame.is_homogeneous ? 0.0 : radius;
        return slope_radius(radius, scale);
    }
    int doubled_rise(int i, int j) const;
    int doubled_bend(int i, int j, int k) const;
};

// The sign of the slope of form j less that of form i, or kUndecided.
inline int LineForms::rise(int i, int j) const {
    const double x = slope(j) - slope(i);
    if (is_exact(i) && is_exact(j)) return sign(x);  // differences of floats do not underflow
    const double bound = (error(radius(i) + radius(j), 0) + kU * magnitude(x)) * kUp;
    if (magnitude(x) > bound) return sign(x);
    return doubled ? doubled_rise(i, j) : kUndecided;
}

inline int LineForms::doubled_rise(int i, int j) const {
    const double* radii = doubled->high.radius;
    const Doubled x = difference(i, j, 0);
    const double bound = error(radii[i] + radii[j], 0) + 8.0 * kU * kU * magnitude(x.high);
    return magnitude(x.high) > bound * kDoubledUp ? sign(x.high) : kUndecided;
}

namespace detail {

// Bound the error of x y, of which the factors err by some errors, up to its own rounding.
inline double error_of_product(double x, double x_error, double y, double y_error) {
    return magnitude(x) * y_error + magnitude(y) * x_error + x_error * y_error;
}

}  // namespace detail

// The sign of the height of form j, as a point, above the line through i and k: positive if it is larger
// than both where they are equal. Slopes rise from i to j to k. Or kUndecided.
inline int LineForms::bend(int i, int j, int k) const {
    const double x1 = slope(k) - slope(i), y1 = offset(j) - offset(i);
    const double x2 = slope(j) - slope(i), y2 = offset(k) - offset(i);
    const double left = x1 * y1, right = x2 * y2, value = left - right;
    const auto error_at = [&](double x, int p, int q, int axis) {
        return error(radius(p) + radius(q), axis) + kU * magnitude(x);
    };
    const double bound = detail::error_of_product(x1, error_at(x1, i, k, 0), y1, error_at(y1, i, j, 1)) +
                         detail::error_of_product(x2, error_at(x2, i, j, 0), y2, error_at(y2, i, k, 1)) +
                         4.0 * kU * (magnitude(left) + magnitude(right));
    if (magnitude(value) > bound * kUp + kTiny) return sign(value);
    if (is_exact(i) && is_exact(j) && is_exact(k)) {
        Triple rows[3] = {{slope(i), offset(i), 1.0}, {slope(j), offset(j), 1.0},
                          {slope(k), offset(k), 1.0}};
        bool is_tame = true;
        for (Triple& row : rows) is_tame = normalise(row) && is_tame;
        // The determinant is that of a turn to the left at j.
        if (is_tame) return -determinant_sign(rows[0], rows[1], rows[2]);
    }
    return doubled ? doubled_bend(i, j, k) : kUndecided;
}

inline int LineForms::doubled_bend(int i, int j, int k) const {
    const double* radii = doubled->high.radius;
    const Doubled x1 = difference(i, k, 0), y1 = difference(i, j, 1);
    const Doubled x2 = difference(i, j, 0), y2 = difference(i, k, 1);
    const Doubled left = multiply(x1, y1), right = multiply(x2, y2);
    const Doubled value = add(left, {-right.high, -right.low});
    const auto error_at = [&](const Doubled& x, int p, int q, int axis) {
        return error(radii[p] + radii[q], axis) + 8.0 * kU * kU * magnitude(x.high);
    };
    // Sums and products of two floats each err by less than 8 u^2, and high parts by u of the whole.
    const double bound =
        detail::error_of_product(x1.high, error_at(x1, i, k, 0), y1.high, error_at(y1, i, j, 1)) +
        detail::error_of_product(x2.high, error_at(x2, i, j, 0), y2.high, error_at(y2, i, k, 1)) +
        32.0 * kU * kU * (magnitude(left.high) + magnitude(right.high));
    return magnitude(value.high) > bound * kDoubledUp + kTiny ? sign(value.high) : kUndecided;
}

// What became of a chain: all of it is proven; some bend is not; or some order of slopes is not either.
enum ChainStatus : int { kChainProven, kChainBends, kChainOpen };

// Keep the forms of a list that may be the largest somewhere on a region, in the order of their slopes;
// return how many. `compare` says which of two forms exceeds the other on the region: 1 the first, -1
// the second, 0 both coincide and contribute the same, or kUndecided.
template <class Compare>
int keep_chain(const LineForms& forms, int* form, int count, const Compare& compare,
               ChainStatus& status) {
    status = kChainProven;
    for (int m = 0; m < count; m++) {
        if (forms.is_finite(form[m])) continue;
        status = kChainOpen;
        return count;
    }
    std::sort(form, form + count, [&](int i, int j) { return forms.comes_before(i, j); });
    int n = 0;
    for (int m = 0; m < count; m++) {
        const int next = form[m];
        bool is_kept = true;
        while (n > 0 && is_kept) {
            const int last = form[n - 1];
            if (forms.rise(last, next) != 1) {
                const int larger = compare(last, next);
                if (larger == kUndecided) {
                    // What has not been looked at stays.
                    status = kChainOpen;
                    for (; m < count; m++) form[n++] = form[m];
                    return n;
                }
                is_kept = larger < 0 || (larger == 0 && next < last);
                if (is_kept) n--;
                continue;
            }
            if (n == 1) break;
            const int bend = forms.bend(form[n - 2], last, next);
            if (bend == kUndecided) status = kChainBends;
            if (bend > 0) break;
            n--;
        }
        if (is_kept) form[n++] = next;
    }
    return n;
}

}  // namespace hardmax
