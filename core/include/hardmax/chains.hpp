// Large groups of forms on an interval: their upper envelope, computed once per region.
//
// The forms a t + c that are the largest somewhere are the corners (a, c) of an upper hull. A monotone
// chain ([And79]) keeps them in the order of their slopes, in which they win from left to right. A form
// is removed only if it is proven that nowhere it exceeds both of its neighbours on the chain, or that
// it does not exceed one of them on the region. The remaining forms are therefore sufficient, even if
// some signs are undecided. If every bend of the chain is proven too, the forms win one after the
// other. On any part of the region, the competitors are then a contiguous part of the chain, whose ends
// are found by bisection, and the walls at both ends of a part are known.
//
// Forms are floats with radii. If these leave a bend undecided, forms in twice the precision are used.
#pragma once
#include <algorithm>

#include "determinants.hpp"
#include "doubled.hpp"
#include "signs.hpp"

namespace hardmax {

constexpr int kChainFrom = 24;  // for fewer forms, clipping by all of them is as fast

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
    // Whether a form precedes another one in the order of computed slopes.
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
    // The difference of coefficient k of the forms j and i, and a bound on an error.
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

// The sign of the difference of the slopes of the forms j and i, or kUndecided.
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

// Bound the error of the product x y that results from the errors of its factors, without rounding.
inline double error_of_product(double x, double x_error, double y, double y_error) {
    return magnitude(x) * y_error + magnitude(y) * x_error + x_error * y_error;
}

}  // namespace detail

// The sign of the height of the point of form j above the line through the points of i and k, or
// kUndecided. It is positive if form j exceeds both at the point where they are equal. Slopes increase
// from i to j to k.
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
        // The determinant is positive for a turn to the left at j.
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
    // The relative error of sums and products of doubled numbers is below 8 u^2, and of high parts u.
    const double bound =
        detail::error_of_product(x1.high, error_at(x1, i, k, 0), y1.high, error_at(y1, i, j, 1)) +
        detail::error_of_product(x2.high, error_at(x2, i, j, 0), y2.high, error_at(y2, i, k, 1)) +
        32.0 * kU * kU * (magnitude(left.high) + magnitude(right.high));
    return magnitude(value.high) > bound * kDoubledUp + kTiny ? sign(value.high) : kUndecided;
}

// The status of a chain: proven; some bend is not proven; or some order of slopes is not proven either.
enum ChainStatus : int { kChainProven, kChainBends, kChainOpen };

// Keep the forms of a list that may be the largest somewhere on a region, in the order of their slopes,
// and return their number. `compare` returns which of two forms exceeds the other on the region: 1 for
// the first, -1 for the second, 0 if both coincide and contribute the same, or kUndecided.
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
                    // Keep all remaining forms.
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
