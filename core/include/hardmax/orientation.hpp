// Signs of products and of solutions, decided in floats with a proven error bound.
//
// Rows are differences of exactly known points. The functions see row * scale * (1 + delta), entry
// by entry, with a positive scale for each row and |delta| <= 3 u, u = 2^-53. They decide
// statements about the exact rows: true is a proof, and false means "not decided". Every bound is
// written such that NaN and infinity lead to "not decided".
//
// The bounds rest on two facts [Higham02, chapter 3], [Rump10]. The error of a sum of n products,
// in any order, is at most gamma_n times the sum of the absolute products. And if B is any matrix
// with
// |I - B A|| <= eta < 1, then A is invertible, and A x = g implies ||x - y|| <= (||B g - y|| + eta
// ||y||) / (1 - eta) in the maximum norm, for every y.
#pragma once
#include <cstdint>

#include "hardmax/rounding.hpp"

namespace hardmax {

namespace detail {
// Larger than every underflow of products of numbers below 1e100.
constexpr double kUnderflow = 1e-200;
inline double rounding_of_products(int dim) { return (dim + 8) * 2.0 * kU; }
}  // namespace detail

// Prove that the exact row has a positive product with the direction. The entries of both are at
// most one in absolute value, and the direction is exact.
inline bool is_positive(const double* row, const double* direction, int dim) {
    double total = 0.0, size = 0.0;
    for (int t = 0; t < dim; ++t) {
        const double product = row[t] * direction[t];
        total += product;
        size += magnitude(product);
    }
    return total > detail::rounding_of_products(dim) * size + detail::kUnderflow;
}

// An approximate inverse B of a matrix A of rounded columns, and the bounds proved about it.
struct Inverse {
    double* entries;   // (dim, dim)
    double defect;     // at least ||I - B A|| for the exact A
    double roughness;  // at least (dim + 8) 2^-52 ||B||
};

// Invert the matrix A whose columns are the given rows. Returns true if A is proved to be regular,
// with a defect of at most one half. `matrix` is a buffer (dim, dim).
inline bool invert(const double* const* columns, int dim, double* matrix, Inverse& inverse) {
    double* b = inverse.entries;
    for (int t = 0; t < dim; ++t) {
        for (int i = 0; i < dim; ++i) {
            matrix[t * dim + i] = columns[i][t];
            b[t * dim + i] = t == i ? 1.0 : 0.0;
        }
    }
    for (int column = 0; column < dim; ++column) {
        int pivot = column;
        double best = magnitude(matrix[column * dim + column]);
        for (int t = column + 1; t < dim; ++t) {
            if (magnitude(matrix[t * dim + column]) > best) {
                best = magnitude(matrix[t * dim + column]);
                pivot = t;
            }
        }
        if (!(best > 1e-80)) return false;
        double *here = matrix + column * dim, *b_here = b + column * dim;
        if (pivot != column) {
            double *there = matrix + pivot * dim, *b_there = b + pivot * dim;
            for (int i = 0; i < dim; ++i) {
                const double x = here[i], y = b_here[i];
                here[i] = there[i], b_here[i] = b_there[i];
                there[i] = x, b_there[i] = y;
            }
        }
        const double scale = 1.0 / here[column];
        for (int i = 0; i < dim; ++i) here[i] *= scale, b_here[i] *= scale;
        for (int t = 0; t < dim; ++t) {
            double *row = matrix + t * dim, *b_row = b + t * dim;
            const double factor = row[column];
            if (t == column || factor == 0.0) continue;
            for (int i = column; i < dim; ++i) row[i] -= factor * here[i];
            for (int i = 0; i < dim; ++i) b_row[i] -= factor * b_here[i];
        }
    }
    const double unit = detail::rounding_of_products(dim);
    double largest_norm = 0.0, largest_defect = 0.0;
    for (int i = 0; i < dim; ++i) {
        double norm = 0.0, defect = 0.0;
        for (int t = 0; t < dim; ++t) norm += magnitude(b[i * dim + t]);
        for (int j = 0; j < dim; ++j) {
            double entry = i == j ? 1.0 : 0.0, size = entry;
            for (int t = 0; t < dim; ++t) {
                const double product = b[i * dim + t] * columns[j][t];
                entry -= product;
                size += magnitude(product);
            }
            defect += magnitude(entry) + unit * size;
        }
        if (!(norm < 1e100 && defect < 0.49)) return false;
        largest_norm = larger(largest_norm, norm);
        largest_defect = larger(largest_defect, defect);
    }
    inverse.defect = 1.01 * largest_defect;
    inverse.roughness = 1.01 * unit * largest_norm;
    return true;
}

// Prove that sign * row is a positive combination of the columns of the inverted matrix.
inline bool is_inside(const double* row, double sign, const Inverse& inverse, int dim) {
    double smallest = kInfinity, largest = 0.0;
    for (int i = 0; i < dim; ++i) {
        double weight = 0.0;
        for (int t = 0; t < dim; ++t) weight += inverse.entries[i * dim + t] * row[t];
        weight *= sign;
        if (!(weight > 0.0)) return false;
        if (weight < smallest) smallest = weight;
        largest = larger(largest, weight);
    }
    return smallest > 2.1 * (inverse.roughness + inverse.defect * largest) + detail::kUnderflow;
}

}  // namespace hardmax
