// Wolfe's algorithm for the point nearest to the origin in the convex hull of a matrix's rows.
//
// By Gordan's theorem, either some direction has a positive product with every row, or the origin
// lies in the convex hull of the rows; the nearest point tells which. The results are floats and
// prove nothing: callers prove the direction or the support.
//
// The algorithm is Wolfe's [Wol76], formulated as a non-negative least-squares problem [LH74]: lift
// each row to b = (1, row) and project e = (1, 0, ..., 0) onto the cone of the lifted rows. The
// residual is g = (1 - s, -s p) with the nearest point p and s = 1 / (1 + |p|^2). Hence -g[1:] is
// the direction, and |g| measures the width of the cone. The active rows are stored as B^T = Q R,
// and Q is updated by Gram-Schmidt (twice) and Givens rotations. The normal equations would square
// the condition number and miss every cone thinner than 1e-8.
#pragma once
#include <cstdint>

#include "hardmax/arena.hpp"
#include "hardmax/lanes.hpp"
#include "hardmax/rounding.hpp"

namespace hardmax {

enum Separation {
    kUndecided = -1,  // rounding errors prevented a decision
    kContained = 0,   // in floats, the origin is the combination of the support with the weights
    kSeparated = 1    // in floats, every row has a positive product with the point
};

// Data of one search after another in the same dimension. The rows have approximately unit length.
struct NearestPoint {
    int dim;
    int n_active;
    std::int64_t* support;  // (dim + 2): the active rows
    double* weights;        // (dim + 2): their positive coefficients, with sum one
    double* point;          // (dim): a positive multiple of the nearest point of their hull
    double* basis;          // (dim + 2, dim + 1): Q, row by row
    double* upper;          // (dim + 2, dim + 2): R
    double* solution;
    double* lifted;
    double* residual;
};

inline void lay_out(NearestPoint& s, Arena& arena, int dim) {
    const std::size_t n = static_cast<std::size_t>(dim) + 2;
    s.dim = dim;
    s.n_active = 0;
    s.support = arena.take<std::int64_t>(n);
    s.weights = arena.take<double>(n);
    s.point = arena.take<double>(n);
    s.basis = arena.take<double>(n * (n - 1));
    s.upper = arena.take<double>(n * n);
    s.solution = arena.take<double>(n);
    s.lifted = arena.take<double>(n);
    s.residual = arena.take<double>(n);
}

// The input of a search.
struct NearestQuestion {
    const double* rows;  // (>= n_rows, dim)
    std::int64_t n_rows;
    // Number of entries of `support` to activate first, at most dim + 1. If it is 0 and `point` is
    // not zero, `point` is tried as the direction, which ends the search if it separates.
    int n_start = 0;
    // Stopping criterion if the rows can be separated. With 0, the search stops at the first
    // direction positive on all rows; towards 1, when the smallest product is at least this
    // fraction of the product at the active rows.
    double quality = 0.0;
    int most_rounds = 0;  // maximum number of activated rows; 0 for a large default
};

namespace detail {

constexpr std::int64_t kPriced = 64;  // number of rows priced before one is chosen
constexpr double kLevel = 1e-14;      // a residual that is shorter, relative to its origin, is
                                      // rounding error
constexpr double kSlack = 4e-16;      // a product that is smaller, per coordinate, is rounding
                                      // error

// Sum of products in eight running sums, so that additions need not wait for each other. The order
// is the same on all machines.
inline double dot(const double* a, const double* b, int n) {
    double tail = 0.0;
    if (n < 8) {
        for (int t = 0; t < n; ++t) tail += a[t] * b[t];
        return tail;
    }
    Lanes one{}, other{};
    int t = 0;
    for (; t + 8 <= n; t += 8) {
        one += load(a + t) * load(b + t);
        other += load(a + t + kLanes) * load(b + t + kLanes);
    }
    for (; t < n; ++t) tail += a[t] * b[t];
    const Lanes sums = one + other;
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + tail;
}

// Products of four consecutive rows with a vector.
inline void four_products(const double* rows, const double* x, int n, double out[4]) {
    const double *first = rows, *second = rows + n, *third = second + n, *fourth = third + n;
    double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
    int t = 0;
    if (n >= 8) {
        Lanes la{}, lb{}, lc{}, ld{};
        for (; t + kLanes <= n; t += kLanes) {
            const Lanes lanes = load(x + t);
            la += load(first + t) * lanes;
            lb += load(second + t) * lanes;
            lc += load(third + t) * lanes;
            ld += load(fourth + t) * lanes;
        }
        a = (la[0] + la[1]) + (la[2] + la[3]);
        b = (lb[0] + lb[1]) + (lb[2] + lb[3]);
        c = (lc[0] + lc[1]) + (lc[2] + lc[3]);
        d = (ld[0] + ld[1]) + (ld[2] + ld[3]);
    }
    for (; t < n; ++t) {
        a += first[t] * x[t];
        b += second[t] * x[t];
        c += third[t] * x[t];
        d += fourth[t] * x[t];
    }
    out[0] = a, out[1] = b, out[2] = c, out[3] = d;
}

// The products of the first rows of the basis with a vector.
inline void coefficients_of(const NearestPoint& s, const double* x, double* out) {
    const int size = s.dim + 1, whole = s.n_active & ~3;
    for (int j = 0; j < whole; j += 4) four_products(s.basis + j * size, x, size, out + j);
    for (int j = whole; j < s.n_active; ++j) out[j] = dot(s.basis + j * size, x, size);
}

// Subtract a combination of the first rows of the basis from a vector.
inline void subtract_combination(const NearestPoint& s, const double* coefficients, double* x) {
    const int size = s.dim + 1, whole = s.n_active & ~3;
    for (int j = 0; j < whole; j += 4) {
        const double *first = s.basis + j * size, *second = first + size;
        const double *third = second + size, *fourth = third + size;
        const double a = coefficients[j], b = coefficients[j + 1];
        const double c = coefficients[j + 2], d = coefficients[j + 3];
        for (int t = 0; t < size; ++t)
            x[t] -= (a * first[t] + b * second[t]) + (c * third[t] + d * fourth[t]);
    }
    for (int j = whole; j < s.n_active; ++j) {
        const double* row = s.basis + j * size;
        for (int t = 0; t < size; ++t) x[t] -= coefficients[j] * row[t];
    }
}

struct Lowest {
    double value;
    std::int64_t row;
};

// The smallest product of some rows with a vector, and the first row that attains it.
inline Lowest lowest_product(const double* rows, std::int64_t start, std::int64_t stop,
                             const double* point, int dim) {
    Lowest lowest = {kInfinity, start};
    std::int64_t j = start;
    for (; j + 4 <= stop; j += 4) {
        double values[4];
        four_products(rows + j * dim, point, dim, values);
        for (int r = 0; r < 4; ++r)
            if (values[r] < lowest.value) lowest = {values[r], j + r};
    }
    for (; j < stop; ++j) {
        const double value = dot(rows + j * dim, point, dim);
        if (value < lowest.value) lowest = {value, j};
    }
    return lowest;
}

// Activate a row as the last column of the factorization. Returns false if it depends on the
// others.
inline bool append(NearestPoint& s, const double* rows, std::int64_t row) {
    const int dim = s.dim, size = dim + 1, stride = dim + 2, n = s.n_active;
    s.lifted[0] = 1.0;
    for (int t = 0; t < dim; ++t) s.lifted[t + 1] = rows[row * dim + t];
    double* newest = s.basis + n * size;  // filled below; used as a buffer until then
    for (int i = 0; i < n; ++i) s.upper[i * stride + n] = 0.0;
    const double before = __builtin_sqrt(dot(s.lifted, s.lifted, size));
    double length = before;
    for (int pass = 0; pass < 2; ++pass) {
        coefficients_of(s, s.lifted, newest);
        subtract_combination(s, newest, s.lifted);
        for (int i = 0; i < n; ++i) s.upper[i * stride + n] += newest[i];
        const double previous = length;
        length = __builtin_sqrt(dot(s.lifted, s.lifted, size));
        if (length > 0.5 * previous) break;
    }
    if (!(length > kLevel * before)) return false;
    s.upper[n * stride + n] = length;
    for (int t = 0; t < size; ++t) newest[t] = s.lifted[t] / length;
    s.support[n] = row;
    s.weights[n] = 0.0;
    s.n_active = n + 1;
    return true;
}

// Write the part of e that is orthogonal to the basis, to full relative accuracy.
inline void project_out(NearestPoint& s) {
    const int size = s.dim + 1;
    double* coefficients = s.basis + s.n_active * size;
    s.residual[0] = 1.0;
    for (int t = 1; t < size; ++t) s.residual[t] = 0.0;
    for (int pass = 0; pass < 2; ++pass) {
        coefficients_of(s, s.residual, coefficients);
        subtract_combination(s, coefficients, s.residual);
    }
}

// Deactivate a row: rotate the remaining matrix back to triangular form.
inline void drop(NearestPoint& s, int column) {
    const int size = s.dim + 1, stride = s.dim + 2, n = s.n_active;
    for (int i = 0; i < n; ++i)
        for (int c = most(column, i - 1); c < n - 1; ++c)
            s.upper[i * stride + c] = s.upper[i * stride + c + 1];
    for (int i = column; i < n - 1; ++i) {
        double *above = s.upper + i * stride, *below = above + stride;
        const double length = __builtin_sqrt(above[i] * above[i] + below[i] * below[i]);
        if (length == 0.0) continue;
        const double cosine = above[i] / length, sine = below[i] / length;
        above[i] = length;
        below[i] = 0.0;
        for (int c = i + 1; c < n - 1; ++c) {
            const double x = above[c], y = below[c];
            above[c] = cosine * x + sine * y;
            below[c] = cosine * y - sine * x;
        }
        double *one = s.basis + i * size, *other = one + size;
        for (int t = 0; t < size; ++t) {
            const double x = one[t], y = other[t];
            one[t] = cosine * x + sine * y;
            other[t] = cosine * y - sine * x;
        }
    }
    for (int i = column; i < n - 1; ++i) {
        s.weights[i] = s.weights[i + 1];
        s.support[i] = s.support[i + 1];
    }
    s.n_active = n - 1;
}

// Solve R v = Q^T e: the coefficients of the projection of e on the span of the active rows.
inline void solve(const NearestPoint& s) {
    const int size = s.dim + 1, stride = s.dim + 2;
    for (int i = s.n_active - 1; i >= 0; --i) {
        const double* row = s.upper + i * stride;
        const double known = dot(row + i + 1, s.solution + i + 1, s.n_active - i - 1);
        s.solution[i] = (s.basis[i * size] - known) / row[i];
    }
}

// Move from the weights towards the projection on the span, dropping rows whose weight reaches
// zero, until all weights of the projection are positive. Returns whether rows were dropped.
inline bool descend(NearestPoint& s) {
    for (bool dropped = false;; dropped = true) {
        solve(s);
        double step = 1.0;
        int leaving = -1;
        for (int i = 0; i < s.n_active; ++i) {
            if (s.solution[i] > 0.0) continue;
            const double gap = s.weights[i] - s.solution[i];
            const double ratio = gap > 0.0 ? s.weights[i] / gap : 0.0;
            // All rows of the start have weight zero; among these, the most negative one leaves.
            const bool is_tied =
                leaving >= 0 && ratio == step && s.solution[i] < s.solution[leaving];
            if (leaving < 0 || ratio < step || is_tied) {
                step = ratio;
                leaving = i;
            }
        }
        if (leaving < 0 || s.n_active == 1) return dropped;
        for (int i = 0; i < s.n_active; ++i) {
            const double weight = s.weights[i] + step * (s.solution[i] - s.weights[i]);
            s.weights[i] = weight > 0.0 ? weight : 0.0;
        }
        drop(s, leaving);
    }
}

inline Separation with_weights(NearestPoint& s, double total, Separation answer) {
    for (int i = 0; i < s.n_active; ++i) s.weights[i] /= total;
    return answer;
}

}  // namespace detail

// Find a direction positive on all rows, or rows whose convex hull contains the origin. On return,
// `support`, `weights` and `point` are as described above.
inline Separation find_nearest(NearestPoint& s, const NearestQuestion& q) {
    using namespace detail;
    const int dim = s.dim, size = dim + 1;
    const double level = kLevel * __builtin_sqrt(static_cast<double>(size)), slack = kSlack * dim;
    s.n_active = 0;
    for (int a = 0; a < least(q.n_start, size); ++a) append(s, q.rows, s.support[a]);
    if (s.n_active == 0) {
        // One product with the starting direction: it may already separate, and otherwise
        // identifies a good first row.
        std::int64_t first = 0;
        bool is_zero = true;
        for (int t = 0; t < dim; ++t) is_zero = is_zero && s.point[t] == 0.0;
        if (!is_zero) {
            const Lowest lowest = lowest_product(q.rows, 0, q.n_rows, s.point, dim);
            first = lowest.row;
            if (lowest.value > slack * __builtin_sqrt(dot(s.point, s.point, dim)))
                return kSeparated;
        }
        append(s, q.rows, first);
    }
    std::int64_t position = 0;
    double previous = kInfinity, accurate = 0.0;
    bool is_fresh = false;
    const int most_rounds = q.most_rounds > 0 ? q.most_rounds : 20 * (dim + 2);
    for (int round = 0; round < most_rounds; ++round) {
        if (descend(s)) is_fresh = false;
        double total = 0.0;
        for (int i = 0; i < s.n_active; ++i) {
            s.weights[i] = s.solution[i];
            total += s.solution[i];
        }
        if (s.n_active == size) return with_weights(s, total, kContained);
        // Compute the residual of the projection. Each further row removes one more component from
        // it. If it has become much shorter, or rows were dropped, it is recomputed, because its
        // length distinguishes a thin cone from an empty one.
        if (is_fresh) {
            const double* newest = s.basis + (s.n_active - 1) * size;
            const double part = dot(newest, s.residual, size);
            for (int t = 0; t < size; ++t) s.residual[t] -= part * newest[t];
        }
        double length = __builtin_sqrt(dot(s.residual, s.residual, size));
        if (!is_fresh || length < 0.1 * accurate) {
            project_out(s);
            length = __builtin_sqrt(dot(s.residual, s.residual, size));
            accurate = length;
            is_fresh = true;
        }
        if (length <= level) return with_weights(s, total, kContained);
        for (int t = 0; t < dim; ++t) s.point[t] = -s.residual[t + 1] / length;
        if (!(length < previous)) return kUndecided;
        previous = length;
        // Price the rows in blocks, cyclically: the first block that contains a row on the wrong
        // side provides the next row.
        Lowest lowest = {kInfinity, -1};
        for (std::int64_t seen = 0; seen < q.n_rows && !(lowest.value <= 0.0);) {
            const std::int64_t last = position + kPriced < q.n_rows ? position + kPriced : q.n_rows;
            const Lowest here = lowest_product(q.rows, position, last, s.point, dim);
            if (here.value < lowest.value) lowest = here;
            seen += last - position;
            position = last < q.n_rows ? last : 0;
        }
        if (lowest.value > larger(slack, q.quality * length))
            return with_weights(s, total, kSeparated);
        for (int i = 0; i < s.n_active; ++i)
            if (s.support[i] == lowest.row) return kUndecided;
        if (lowest.row < 0 || !append(s, q.rows, lowest.row)) return kUndecided;
    }
    return kUndecided;
}

}  // namespace hardmax
