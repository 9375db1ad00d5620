// Vertices of polytopes, computed from the facets that meet there, with proven radii.
//
// A vertex is the intersection of the facets in its mask. It is defined by D independent facets,
// with forms (m_j, c_j) and matrix M. With the true forms and a computed point v, the true vertex
// v* satisfies M* (v - v*) = r, where r_j are the values of the true forms at v. For any matrix R,
// approximately the inverse of M,
//
//     v - v* = (I - R M*) (v - v*) + R r,  hence  |v - v*|_inf <= max_i sum_j |R_ij| R_j / (1 - beta),
//
// provided that beta >= |I - R M*|_inf is below 1, which also proves that the point is unique. Here
// R_j >= |r_j| is the sum of the computed value, its rounding error and the radius of the form.
// beta is the sum of the computed norm, D + 1 roundings of each entry, and sum_j |R_ij| D r_j for
// the radii r_j of the slopes ([Rump10], section 10). Facets are scaled so that the largest slope
// is between 1/2 and 1.
//
// A vertex on an edge between u and w, at which a form g has the values p > 0 > q, is computed and
// bounded without an inverse: see `on_edge`.
//
// A vertex at infinity is p + M d with a formal M -> infinity; both parts solve such a system.
#pragma once
#include "determinants.hpp"
#include "lanes.hpp"
#include "signs.hpp"

namespace hardmax {

// A point or a direction, known up to rho. A radius of 0 means that it is exact.
template <int D>
struct Point {
    double x[D], rho;
};

template <int D>
struct Facet {
    Form<D> form;
    double norm;  // upper bound on the sum of the true absolute slopes
    double far;   // the offset at infinity
    Wall wall;
    bool is_pure;  // the form depends only on the earlier winners (see `Frame`)
};

template <int D>
double size_of(const Point<D>& point) {
    double size = 0.0;
    for (double x : point.x) size = bound(size, magnitude(x));
    return size;
}

// A facet made from a form, scaled by a power of two so that products of its slopes stay in range.
// Numbers that are small after scaling may have lost some or all bits; therefore they receive a
// radius.
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
    // An offset outside the range of floats is unknown, too.
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

// If a point is within rounding error of a coarse grid, which contains the vertices of integer
// models, move it onto the grid. Otherwise return false.
template <int D>
bool snap(const double (&x)[D], double scale, Point<D>& to) {
    // A sum with this number is rounded to multiples of 2^-24 scale.
    const double shift = 0x1.8p28 * scale, most = 0x1p-44 * scale;
    bool is_near = true;
    for (int k = 0; k < D; k++) {
        to.x[k] = (x[k] + shift) - shift;
        is_near = is_near && magnitude(x[k] - to.x[k]) <= most;
    }
    to.rho = 0.0;
    return is_near;
}

// Whether a point certainly lies on a facet.
template <int D>
bool lies_on(const Facet<D>& facet, const Point<D>& v) {
    return facet.form.is_exact() && affine_sign<D>(facet.form.a, v.x, facet.form.c) == 0;
}

template <int D>
bool is_linear(const Facet<D>& facet) {
    return facet.form.c == 0.0 && facet.form.offset_radius == 0.0;
}

namespace detail {

// Up to four systems of D facets each, stored side by side.
template <int D>
struct Systems {
    Lanes a[D][D], c[D], far[D], norm[D], slope_radius[D], offset_radius[D];
};

// Store n <= kLanes lists of facets side by side.
template <int D>
Systems<D> side_by_side(const Facet<D>* const (*lists)[D], int n) {
    Systems<D> s;
    for (int i = 0; i < kLanes; i++) {
        for (int j = 0; j < D; j++) {
            const Facet<D>& facet = *lists[least(i, n - 1)][j];
            for (int k = 0; k < D; k++) s.a[j][k][i] = facet.form.a[k];
            s.c[j][i] = facet.form.c, s.far[j][i] = facet.far, s.norm[j][i] = facet.norm;
            s.slope_radius[j][i] = facet.form.slope_radius;
            s.offset_radius[j][i] = facet.form.offset_radius;
        }
    }
    return s;
}

// Compute approximate inverses of the slopes. Nothing is assumed about their accuracy.
//
// Three and four dimensions use cofactors, which need no pivots; higher dimensions use elimination.
inline void invert(const Systems<3>& s, Lanes (&inverse)[3][3]) {
    const Lanes *p = s.a[0], *q = s.a[1], *r = s.a[2];
    const auto cofactor = [](const Lanes* a, const Lanes* b, int i, int j) {
        return a[i] * b[j] - a[j] * b[i];
    };
    for (int i = 0; i < 3; i++) {
        const int j = (i + 1) % 3, k = (i + 2) % 3;
        inverse[i][0] = cofactor(q, r, j, k);
        inverse[i][1] = cofactor(r, p, j, k);
        inverse[i][2] = cofactor(p, q, j, k);
    }
    const Lanes scale =
        all(1.0) / (p[0] * inverse[0][0] + p[1] * inverse[1][0] + p[2] * inverse[2][0]);
    for (auto& row : inverse)
        for (Lanes& entry : row) entry *= scale;
}

inline void invert(const Systems<4>& s, Lanes (&inverse)[4][4]) {
    const Lanes *p = s.a[0], *q = s.a[1], *r = s.a[2], *t = s.a[3];
    // The minors of the first two rows, and of the last two: columns 01, 02, 03, 12, 13, 23.
    const auto minor = [](const Lanes* a, const Lanes* b, int i, int j) {
        return a[i] * b[j] - a[j] * b[i];
    };
    const Lanes s0 = minor(p, q, 0, 1), s1 = minor(p, q, 0, 2), s2 = minor(p, q, 0, 3),
                s3 = minor(p, q, 1, 2), s4 = minor(p, q, 1, 3), s5 = minor(p, q, 2, 3);
    const Lanes c0 = minor(r, t, 0, 1), c1 = minor(r, t, 0, 2), c2 = minor(r, t, 0, 3),
                c3 = minor(r, t, 1, 2), c4 = minor(r, t, 1, 3), c5 = minor(r, t, 2, 3);
    const Lanes scale = all(1.0) / (s0 * c5 - s1 * c4 + s2 * c3 + s3 * c2 - s4 * c1 + s5 * c0);
    const Lanes cofactors[4][4] = {
        {q[1] * c5 - q[2] * c4 + q[3] * c3, -p[1] * c5 + p[2] * c4 - p[3] * c3,
         t[1] * s5 - t[2] * s4 + t[3] * s3, -r[1] * s5 + r[2] * s4 - r[3] * s3},
        {-q[0] * c5 + q[2] * c2 - q[3] * c1, p[0] * c5 - p[2] * c2 + p[3] * c1,
         -t[0] * s5 + t[2] * s2 - t[3] * s1, r[0] * s5 - r[2] * s2 + r[3] * s1},
        {q[0] * c4 - q[1] * c2 + q[3] * c0, -p[0] * c4 + p[1] * c2 - p[3] * c0,
         t[0] * s4 - t[1] * s2 + t[3] * s0, -r[0] * s4 + r[1] * s2 - r[3] * s0},
        {-q[0] * c3 + q[1] * c1 - q[2] * c0, p[0] * c3 - p[1] * c1 + p[2] * c0,
         -t[0] * s3 + t[1] * s1 - t[2] * s0, r[0] * s3 - r[1] * s1 + r[2] * s0}};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) inverse[i][j] = scale * cofactors[i][j];
}

template <int D>
void invert(const Systems<D>& s, Lanes (&inverse)[D][D]) {
    // The slopes, extended by columns that become the inverse.
    Lanes m[D][2 * D];
    for (int j = 0; j < D; j++) {
        for (int k = 0; k < D; k++) {
            m[j][k] = s.a[j][k];
            m[j][D + k] = all(j == k ? 1.0 : 0.0);
        }
    }
    // Operations on a column of slopes that is already a unit vector have no effect and are
    // omitted.
    for (int j = 0; j < D; j++) {
        Lanes largest = absolute(m[j][j]);
        LaneBits pivot = LaneBits{} + j;
        for (int r = j + 1; r < D; r++) {
            const Lanes size = absolute(m[r][j]);
            const LaneBits is_larger = size > largest;
            largest = is_larger ? size : largest;
            pivot = is_larger ? LaneBits{} + r : pivot;
        }
        for (int r = j + 1; r < D; r++) {
            const LaneBits is_pivot = pivot == LaneBits{} + r;
            for (int k = j; k < 2 * D; k++) {
                const Lanes entry = m[j][k];
                m[j][k] = is_pivot ? m[r][k] : entry;
                m[r][k] = is_pivot ? entry : m[r][k];
            }
        }
        const Lanes lead = all(1.0) / m[j][j];
        for (int k = j + 1; k < 2 * D; k++) m[j][k] *= lead;
        for (int r = 0; r < D; r++) {
            if (r == j) continue;
            const Lanes factor = m[r][j];
            for (int k = j + 1; k < 2 * D; k++) m[r][k] -= factor * m[j][k];
        }
    }
    for (int i = 0; i < D; i++)
        for (int j = 0; j < D; j++) inverse[i][j] = m[i][D + j];
}

// Bound |I - R M*|_inf; NaN if the inverse does not exist.
template <int D>
Lanes defect(const Systems<D>& s, const Lanes (&inverse)[D][D]) {
    Lanes beta = all(0.0);
    for (int i = 0; i < D; i++) {
        Lanes rest[D] = {}, sum = all(0.0), sizes = all(1.0);
        rest[i] = all(-1.0);
        for (int j = 0; j < D; j++) {
            for (int k = 0; k < D; k++) rest[k] += inverse[i][j] * s.a[j][k];
            sizes += absolute(inverse[i][j]);
            sum += absolute(inverse[i][j]) * s.slope_radius[j];
        }
        sum = all(D) * (sum + all(kKappa) * sizes);
        for (const Lanes& x : rest) sum += absolute(x);
        beta = bound(beta, sum);
    }
    return beta * all(kUp) + all(kTiny);
}

// Solve for offsets known up to radii, and bound the residual. Return the bound on v - v*.
template <int D>
Lanes solve(const Systems<D>& s, const Lanes (&inverse)[D][D], Lanes beta, const Lanes (&offset)[D],
            const Lanes* offset_radius, Lanes (&x)[D]) {
    const Lanes kappa = all(kKappa), up = all(kUp), tiny = all(kTiny);
    Lanes reach = all(0.0), top = all(0.0), residual[D], rho = all(0.0);
    for (int k = 0; k < D; k++) {
        Lanes sum = all(0.0);
        for (int j = 0; j < D; j++) sum -= inverse[k][j] * offset[j];
        x[k] = sum;
        reach += absolute(sum);
        top = bound(top, absolute(sum));
    }
    for (int j = 0; j < D; j++) {
        Lanes value = all(0.0);
        for (int k = 0; k < D; k++) value += s.a[j][k] * x[k];
        value += offset[j];
        // The norm of a facet and the largest coordinate bound the rounding error of a value.
        residual[j] = absolute(value) + kappa * (s.norm[j] * top + absolute(offset[j])) +
                      s.slope_radius[j] * reach;
        if (offset_radius) residual[j] += offset_radius[j];
        residual[j] = residual[j] * up + tiny;
    }
    for (int k = 0; k < D; k++) {
        Lanes sum = all(0.0);
        for (int j = 0; j < D; j++) sum += absolute(inverse[k][j]) * residual[j];
        rho = bound(rho, sum);
    }
    return rho / (all(1.0) - beta) * up + tiny;
}

}  // namespace detail

// Write the intersections of D facets for n <= kLanes lists of facets, with the directions if the
// domain is unbounded.
template <int D>
void meet(const Facet<D>* const (*lists)[D], int n, double scale, Point<D>* points,
          Point<D>* directions) {
    const detail::Systems<D> s = detail::side_by_side<D>(lists, n);
    bool some_far = false;
    for (int i = 0; i < n; i++)
        for (const Facet<D>* facet : lists[i]) some_far = some_far || facet->far != 0.0;
    Lanes inverse[D][D], x[D], d[D] = {}, far_rho = all(0.0);
    detail::invert(s, inverse);
    const Lanes beta = detail::defect(s, inverse);
    const Lanes rho = detail::solve(s, inverse, beta, s.c, s.offset_radius, x);
    if (directions && some_far) far_rho = detail::solve<D>(s, inverse, beta, s.far, nullptr, d);
    for (int i = 0; i < n; i++) {
        const auto& f = lists[i];
        // Whether the vertex is at infinity follows from the facets that meet there, not from the
        // rounded direction.
        bool is_far = false, is_origin = true;
        for (const Facet<D>* facet : f) {
            is_far = is_far || facet->far != 0.0;
            is_origin = is_origin && is_linear(*facet);
        }
        Point<D>& v = points[i];
        v = {};
        if (directions) directions[i] = {};
        if (!(beta[i] < 0.5)) {
            v.rho = kInfinity;
            if (directions) directions[i].rho = is_far ? kInfinity : 0.0;
            continue;
        }
        if (directions && is_far) {
            for (int k = 0; k < D; k++) directions[i].x[k] = d[k][i];
            directions[i].rho = far_rho[i];
        }
        if (is_origin) continue;
        for (int k = 0; k < D; k++) v.x[k] = x[k][i];
        v.rho = rho[i];
        Point<D> exact;
        bool is_exact = snap(v.x, scale, exact);
        for (int j = 0; j < D && is_exact; j++) is_exact = lies_on(*f[j], exact);
        if (is_exact) v = exact;
    }
}

// The sign of an exact form at the intersection of D exact facets, computed with two exact
// determinants, det(M, c; g) / det M for these offsets c; or kUndecided.
template <int D>
int quotient_sign(const Facet<D>* const (&f)[D], const Form<D>& g, const double (&offsets)[D + 1],
                  Minors<D + 1>& minors) {
    double rows[D + 1][D + 1];
    int depth = 0;
    for (int j = 0; j <= D; j++) {
        const Form<D>& form = j < D ? f[j]->form : g;
        if (!form.is_exact()) return kUndecided;
        for (int k = 0; k < D; k++) rows[j][k] = form.a[k];
        rows[j][D] = offsets[j];
        double top = 0.0, least = kInfinity;
        for (double entry : rows[j]) {
            const double size = magnitude(entry);
            top = bound(top, size);
            if (size != 0.0 && size < least) least = size;
        }
        if (!(0x1p-900 < least && least <= top && top < 0x1p900)) return kUndecided;
        const int exponent = exponent_of(top) + 1;
        // A float of exponent e is a multiple of 2^(e - 52).
        depth += 53 + exponent - exponent_of(least);
        for (double& entry : rows[j]) entry = __builtin_ldexp(entry, -exponent);
    }
    if (depth > 1000) return kUndecided;
    const int sign = expand_determinant<D + 1>(rows, minors);
    if (sign == 2) return kUndecided;
    // The minor of the first rows without the offsets is det M.
    constexpr int slopes = (1 << D) - 1;
    const int below_it = hardmax::sign(minors.entries[slopes], minors.lengths[slopes]);
    return below_it == 0 ? kUndecided : sign * below_it;
}

// Write the point where a form changes its sign between two vertices. The radius is left open if no
// good bound is found.
//
// Let p and q be the values of the form at u and w, known up to E_u and E_w, and let p* > 0 > q* be
// the true values. The true point divides the edge in the share s* = p* / (p* - q*), and s = p / (p
// - q) satisfies
//
//     |s - s*| = |p* (q - q*) - q* (p - p*)| / ((p - q) (p* - q*))
//             <= ((1 - s*) E_u + s* E_w) / (p - q) <= delta,
//
// with delta = max(E_u, E_w) / (p - q). Hence, with the width |u - w|_inf, and with s* <= s + delta
// and 1 - s* <= 1 - s + delta,
//
//     |v - v*| <= (1 - s*) (rho_u + E_u |u - w| / (p - q)) + s* (rho_w + E_w |u - w| / (p - q))
//                 + 8 u |u - w| + 8 u (|u| + |w|):
//
// the share, which is at most 9/8 if delta <= 1/8, has a relative error of 3 u, and a coordinate is
// rounded four times. Underflow of the share is below 8 u, and underflow of a coordinate is below
// kTiny.
template <int D>
void meet_edge(const Point<D>& u, const Point<D>& w, double p, double q, double u_error,
               double w_error, Point<D>& v) {
    const double gap = p - q;
    // A sign decided exactly may belong to a value that rounding has moved across zero.
    const double share = gap > 0.0 ? p / gap : 0.5, rest = 1.0 - share;
    double width = 0.0, u_size = 0.0, w_size = 0.0;
    for (int k = 0; k < D; k++) {
        v.x[k] = share * w.x[k] + rest * u.x[k];
        width = larger(width, magnitude(u.x[k] - w.x[k]));
        u_size = larger(u_size, magnitude(u.x[k]));
        w_size = larger(w_size, magnitude(w.x[k]));
    }
    v.rho = kInfinity;
    const double delta = bound(u_error, w_error) / gap;
    if (!(gap > 0.0 && gap < kInfinity && delta <= 0.125)) return;
    const double ratio = width / gap;
    const double rho = (larger(rest, 0.0) + delta) * (u.rho + u_error * ratio) +
                       (larger(share, 0.0) + delta) * (w.rho + w_error * ratio) +
                       8.0 * kU * (width + u_size + w_size);
    if (rho < kInfinity) v.rho = rho * kUp + kTiny;
}

}  // namespace hardmax
