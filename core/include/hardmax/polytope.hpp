// Vertices of polytopes from the facets that meet there, with proven radii.
//
// A vertex is where the facets of its mask meet; D independent ones, forms (m_j, c_j) with matrix M,
// define it. With the true forms and a computed point v, the true vertex v* has M* (v - v*) = r with
// the values r_j of the true forms at v. By Cramer's rule and Hadamard's inequality, with
// n_j >= |m_j*|_1,
//
//     |v - v*|_inf <= prod_k n_k / |det M*| sum_j R_j / n_j,
//     |det M*| >= |det M| - prod_k n_k (2^-47 + sum_k D r_k / n_k),
//
// and facets are scaled to a largest slope between 1/2 and 1, so that 1 / n_j <= 2. Here R_j >= |r_j|
// is the computed value, its rounding and the radius r_j of the form. The first term in the bracket is
// the rounding of a Laplace expansion: a product of entries passes at most D + D (D + 1) / 2 <= 35
// roundings for D <= 7, and the sum of their absolute values is at most prod_k n_k.
//
// A vertex on an edge between u and w, where a form g has the values p > 0 > q, is found and bounded
// without any determinant: see `on_edge`.
//
// A vertex at infinity is p + M d with a formal M -> infinity; both parts solve such a system.
#pragma once
#include "determinants.hpp"
#include "signs.hpp"

namespace hardmax {

// A point, or a direction, known up to rho. A radius of 0 means exactly.
template <int D>
struct Point {
    double x[D], rho;
};

template <int D>
struct Facet {
    Form<D> form;
    double norm;  // the sum of the true absolute slopes is no larger
    double far;   // the offset at infinity
    Wall wall;
    bool is_pure;  // the form is a function of the winners before alone (see `Frame`)
};

template <int D>
double size_of(const Point<D>& point) {
    double size = 0.0;
    for (double x : point.x) size = bound(size, magnitude(x));
    return size;
}

// A facet from a form: scaled by a power of two, so that no product of its slopes gets far. What is
// small afterwards may have lost bits, or all of them: it gets a radius.
template <int D>
Facet<D> facet_of(Form<D> form, const Wall& wall, bool is_pure) {
    constexpr double small = 0x1p-900;
    Facet<D> facet{form, kInfinity, 0.0, wall, is_pure};
    double top = 0.0;
    for (double a : form.a) top = bound(top, magnitude(a));
    if (!(0x1p-1000 < top && top < 0x1p1000)) return facet;
    const double factor = power_of_two(-exponent_of(top) - 1);
    double norm = 0.0;
    bool is_slope_lost = false;
    for (double& a : form.a) {
        const double scaled = a * factor;
        is_slope_lost = is_slope_lost || (a != 0.0 && magnitude(scaled) < small);
        a = scaled;
        norm += magnitude(scaled);
    }
    const double c = form.c * factor;
    double lost = form.c != 0.0 && magnitude(c) < small ? small : 0.0;
    // Nor is anything known of an offset that leaves the range of floats.
    if (!(magnitude(c) < kInfinity)) lost = kInfinity;
    form.c = c;
    if (form.slope_radius != 0.0 || is_slope_lost)
        form.slope_radius = form.slope_radius * factor * kUp + small;
    if (form.offset_radius != 0.0 || lost != 0.0)
        form.offset_radius = form.offset_radius * factor * kUp + larger(lost, small);
    facet.form = form;
    facet.norm = (norm + D * form.slope_radius) * kUp;
    return facet;
}

namespace detail {

// The determinant of the slopes of D facets, rounded.
template <int D>
double determinant(const Facet<D>* const (&f)[D]) {
    const auto m = [&](int row, int column) { return f[row]->form.a[column]; };
    // The minor of two rows and two columns.
    const auto two = [&](int p, int q, int i, int j) {
        return m(p, i) * m(q, j) - m(p, j) * m(q, i);
    };
    if constexpr (D == 1) {
        return m(0, 0);
    } else if constexpr (D == 3) {
        return m(0, 0) * two(1, 2, 1, 2) - m(0, 1) * two(1, 2, 0, 2) + m(0, 2) * two(1, 2, 0, 1);
    } else if constexpr (D == 4) {
        return two(0, 1, 0, 1) * two(2, 3, 2, 3) - two(0, 1, 0, 2) * two(2, 3, 1, 3) +
               two(0, 1, 0, 3) * two(2, 3, 1, 2) + two(0, 1, 1, 2) * two(2, 3, 0, 3) -
               two(0, 1, 1, 3) * two(2, 3, 0, 2) + two(0, 1, 2, 3) * two(2, 3, 0, 1);
    } else {
        double minors[1 << D];
        minors[0] = 1.0;
        for (int columns = 1; columns < 1 << D; columns++) {
            const int row = __builtin_popcount(static_cast<unsigned>(columns)) - 1;
            double sum = 0.0, alternating = row % 2 == 0 ? 1.0 : -1.0;
            for (int rest = columns; rest != 0; rest &= rest - 1) {
                const int j = __builtin_ctz(static_cast<unsigned>(rest));
                sum += alternating * m(row, j) * minors[columns ^ (1 << j)];
                alternating = -alternating;
            }
            minors[columns] = sum;
        }
        return minors[(1 << D) - 1];
    }
}

}  // namespace detail

// Whether a point, at which the rounded values of D facets vanish, lies on all of them.
template <int D>
bool lies_on_all(const Facet<D>* const (&f)[D], const Point<D>& v) {
    for (const Facet<D>* facet : f)
        if (affine_sign<D>(facet->form.a, v.x, facet->form.c) != 0) return false;
    return true;
}

// Bound the distance of a computed point, and of its direction if there is one, from where D facets
// meet. Facets without offsets meet in the origin; the point is then moved there.
template <int D>
void set_radii(const Facet<D>* const (&f)[D], Point<D>& v, Point<D>* direction) {
    // Sums of what is not negative vanish only where all of it does.
    double product = 1.0, norms = 0.0, values = 0.0, offsets = 0.0, slope_radii = 0.0,
           offset_radii = 0.0, far_total = 0.0, reach = 0.0, far_reach = 0.0;
    const bool is_far = direction && direction->rho != 0.0;
    for (int k = 0; k < D; k++) {
        reach += magnitude(v.x[k]);
        if (is_far) far_reach += magnitude(direction->x[k]);
    }
    const double top = size_of(v);
    for (const Facet<D>* facet : f) {
        const Form<D>& form = facet->form;
        product *= facet->norm;
        norms += facet->norm;
        values += magnitude(value_at(form, v.x));
        offsets += magnitude(form.c);
        slope_radii += form.slope_radius;
        offset_radii += form.offset_radius;
        if (!is_far) continue;
        double value = facet->far, size = magnitude(facet->far);
        for (int k = 0; k < D; k++) {
            value += form.a[k] * direction->x[k];
            size += magnitude(form.a[k] * direction->x[k]);
        }
        far_total +=
            (magnitude(value) + 2.0 * kKappa * size + form.slope_radius * far_reach) * (2.0 * kUp) +
            kTiny;
    }
    const double blur = 0x1p-47 + 2.0 * D * slope_radii;
    const double least = magnitude(detail::determinant(f)) - product * blur * kUp - kTiny;
    if (!(least > 0.0)) {
        v.rho = kInfinity;
        if (direction) direction->rho = is_far ? kInfinity : 0.0;
        return;
    }
    const double factor = product / least * kUp;
    if (direction) direction->rho = is_far ? factor * far_total : 0.0;
    if (offsets == 0.0 && offset_radii == 0.0) {
        v = {};
        return;
    }
    const bool may_be_exact =
        values == 0.0 && offset_radii == 0.0 && (slope_radii == 0.0 || reach == 0.0);
    if (may_be_exact && lies_on_all(f, v)) {
        v.rho = 0.0;
        return;
    }
    // What the norm of a facet and the largest coordinate bound is rounded away in a value.
    const double total =
        values + 2.0 * kKappa * (offsets + norms * top) + slope_radii * reach + offset_radii;
    v.rho = factor * (total * (2.0 * kUp) + D * kTiny);
}

// Write where D facets meet; with its direction, if the domain is unbounded. Gauss-Jordan elimination
// with column pivots; nothing is assumed about its accuracy.
template <int D>
void meet(const Facet<D>* const (&f)[D], Point<D>& v, Point<D>* direction) {
    double m[D][D + 2];
    bool has_direction = false;
    for (int j = 0; j < D; j++) {
        for (int k = 0; k < D; k++) m[j][k] = f[j]->form.a[k];
        m[j][D] = -f[j]->form.c;
        m[j][D + 1] = -f[j]->far;
        has_direction = has_direction || f[j]->far != 0.0;
    }
    for (int j = 0; j < D; j++) {
        int pivot = j;
        for (int r = j + 1; r < D; r++)
            if (magnitude(m[r][j]) > magnitude(m[pivot][j])) pivot = r;
        if (pivot != j) {
            for (int k = j; k < D + 2; k++) {
                const double entry = m[j][k];
                m[j][k] = m[pivot][k], m[pivot][k] = entry;
            }
        }
        const double lead = m[j][j] == 0.0 ? 1.0 : m[j][j];
        for (int k = j; k < D + 2; k++) m[j][k] /= lead;
        for (int r = 0; r < D; r++) {
            const double factor = m[r][j];
            for (int k = j; r != j && k < D + 2; k++) m[r][k] -= factor * m[j][k];
        }
    }
    for (int k = 0; k < D; k++) v.x[k] = m[k][D];
    if (direction) {
        // Which facets meet says whether the vertex is at infinity, not the rounded direction.
        for (int k = 0; k < D; k++) direction->x[k] = has_direction ? m[k][D + 1] : 0.0;
        direction->rho = has_direction ? kInfinity : 0.0;
    }
    set_radii(f, v, direction);
}

// Write where a form changes its sign between two vertices; False, with an open radius, if that is not
// bounded well.
//
// With the values p and q of the form at u and w, each known up to E, and the true ones p* > 0 > q*,
// the true point is at the share s* = p* / (p* - q*) of the way, and s = p / (p - q) has
//
//     |s - s*| = |p* (q - q*) - q* (p - p*)| / ((p - q) (p* - q*)) <= E / (p - q).
//
// Hence |v - v*| <= max(rho_u, rho_w) + (E / (p - q) + 8 u) |u - w| + 8 u (|u| + |w|): the share, at
// most 9/8 where p - q > 8 E, has a relative error of 3 u, and a coordinate is rounded four times.
// Underflow of the share is below 8 u, that of a coordinate below kTiny.
template <int D>
bool on_edge(const Point<D>& u, const Point<D>& w, double p, double q, double error, Point<D>& v) {
    const double gap = p - q;
    // A sign decided exactly may go with a value that rounded across zero.
    const double share = gap > 0.0 ? p / gap : 0.5, rest = 1.0 - share;
    double width = 0.0;
    for (int k = 0; k < D; k++) {
        v.x[k] = share * w.x[k] + rest * u.x[k];
        width = bound(width, magnitude(u.x[k] - w.x[k]));
    }
    v.rho = kInfinity;
    if (!(gap > 8.0 * error && gap < kInfinity)) return false;
    v.rho = (bound(u.rho, w.rho) + (error / gap + 8.0 * kU) * width +
             8.0 * kU * (size_of(u) + size_of(w))) *
                kUp +
            kTiny;
    return v.rho < kInfinity;
}

}  // namespace hardmax
