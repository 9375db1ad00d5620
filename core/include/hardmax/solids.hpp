// Measures of cells in three to seven dimensions: volume, a point inside, and a largest ball, each
// with a proof.
//
// A cell is given by its vertices, each known up to a radius rho, and by rows, forms that are
// positive inside: its facets and the sides of the domain.
#pragma once
#include "measures.hpp"
#include "polytopes.hpp"

namespace hardmax {

template <int D>
struct Solid {
    const double* points;      // (n, D)
    const double* directions;  // (n, D), or null
    double rho, far_rho;       // error bounds for vertices and directions
    double scale;              // scale of the domain
    bool is_precise;           // the rows are more precise than those from which the vertices were
                               // computed
    int n, n_rows, n_words;
    Facet<D>* rows;  // (room_rows)
    Word* sets;      // (room_rows, n_words): the vertices on each row
    bool is_simple;  // every vertex lies on exactly D rows
    // Scratch.
    const Facet<D>** tight;  // (room_rows)
    Minors<D + 1>* minors;
    Word* faces;    // (D + 1, room_rows, n_words)
    int* touching;  // (D + 1, room_rows)
    Point<D>* met;  // (room_points): the vertices, each with its radius
    double* y;      // (room_points, D): the vertices relative to the first, transformed so that the
                    // cell is round
    double *sizes, *offs;      // (room_points): bounds on the lengths of these vectors and on their
                               // errors
    double *slacks, *normals;  // (room_rows), (room_rows, D)

    Word* set(int row) const { return sets + std::size_t(row) * n_words; }
    bool lies_on(int vertex, int row) const { return set(row)[vertex / 64] >> vertex % 64 & 1; }
    const double* point(int i) const { return points + std::size_t(i) * D; }
    const double* direction(int i) const { return directions + std::size_t(i) * D; }
};

template <int D>
struct SolidMeasured {
    double volume, volume_radius;
    double witness[D];
    double centre[D], radius;
};

namespace detail {

template <int D>
bool is_unbounded(const Solid<D>& s) {
    for (int i = 0; s.directions && i < s.n; i++)
        for (int k = 0; k < D; k++)
            if (s.direction(i)[k] != 0.0) return true;
    return false;
}

// The value of a row at a point, and a bound on its difference from the value of the true row.
template <int D>
Value value_at(const Facet<D>& row, const double* x) {
    const Form<D>& form = row.form;
    double value = 0.0, total = magnitude(form.c), reach = 0.0;
    for (int k = 0; k < D; k++) {
        const double product = form.a[k] * x[k];
        value += product;
        total += magnitude(product);
        reach += magnitude(x[k]);
    }
    const double error = kKappa * total + form.slope_radius * reach + form.offset_radius;
    return {value + form.c, error * kUp + kTiny};
}

template <int D>
bool is_inside(const Solid<D>& s, const double* x) {
    for (int f = 0; f < s.n_rows; f++) {
        const Value at = value_at(s.rows[f], x);
        if (!(at.value > at.error)) return false;
    }
    return true;
}

// The mean of the vertices; for vertices at infinity, the given M replaces the formal one.
template <int D>
void middle(const Solid<D>& s, double M, double* x) {
    for (int k = 0; k < D; k++) {
        const double first = s.point(0)[k];
        double sum = 0.0;
        for (int i = 0; i < s.n; i++) {
            sum += s.point(i)[k] - first;
            if (s.directions) sum += M * s.direction(i)[k];
        }
        x[k] = first + sum / s.n;
    }
}

// Whether some rows vanish exactly at a point.
template <int D>
bool vanish(const Facet<D>* const* rows, int n, const Point<D>& v) {
    const bool is_origin = size_of(v) == 0.0;
    for (int t = 0; t < n; t++)
        if (!(is_origin && is_linear(*rows[t])) && !lies_on(*rows[t], v)) return false;
    return true;
}

// Whether some rows certainly meet in one point: all the others vanish where D of them meet.
template <int D>
bool meet_in_a_point(const Facet<D>* const* rows, int n, Minors<D + 1>& minors) {
    const Facet<D>* chosen[D];
    double reduced[D][D], offsets[D + 1];
    int pivots[D], n_chosen = 0;
    for (int t = 0; t < n && n_chosen < D; t++) {
        double* row = reduced[n_chosen];
        for (int k = 0; k < D; k++) row[k] = rows[t]->form.a[k];
        for (int j = 0; j < n_chosen; j++) {
            const double factor = row[pivots[j]] / reduced[j][pivots[j]];
            for (int k = 0; k < D; k++) row[k] -= factor * reduced[j][k];
        }
        int pivot = 0;
        for (int k = 1; k < D; k++)
            if (magnitude(row[k]) > magnitude(row[pivot])) pivot = k;
        if (!(magnitude(row[pivot]) > 0x1p-20)) continue;
        pivots[n_chosen] = pivot;
        offsets[n_chosen] = rows[t]->form.c;
        chosen[n_chosen++] = rows[t];
    }
    if (n_chosen < D) return false;
    for (int t = 0; t < n; t++) {
        bool is_chosen = false;
        for (const Facet<D>* row : chosen) is_chosen = is_chosen || row == rows[t];
        offsets[D] = rows[t]->form.c;
        if (!is_chosen && quotient_sign(chosen, rows[t]->form, offsets, minors) != 0) return false;
    }
    return true;
}

// Determine which vertices lie on which rows, and copy the vertices. Return false if this stays
// undecided.
//
// Let T be the rows whose values at a computed vertex do not exceed their errors. The true vertex
// lies on no other rows, and on at least D independent rows. So if T has D rows, the vertex lies on
// exactly these. If T has more rows, and all of them certainly meet in one point, then the true
// vertex is this point and lies on all of them.
template <int D>
bool find_incidences(Solid<D>& s) {
    double size = 0.0;
    for (int i = 0; i < s.n * D; i++) size = bound(size, magnitude(s.points[i]));
    for (int f = 0; f < s.n_rows; f++) {
        const Facet<D>& row = s.rows[f];
        const Form<D>& form = row.form;
        const double error =
            (kKappa * (row.norm * size + magnitude(form.c)) + form.slope_radius * D * size +
             form.offset_radius + (row.norm + D * form.slope_radius) * s.rho) *
                kUp +
            kTiny;
        if (!(error < kInfinity)) return false;
        for (int w = 0; w < s.n_words; w++) s.set(f)[w] = 0;
        for (int i = 0; i < s.n; i++) {
            const double value = hardmax::value_at(form, s.point(i));
            if (value < -error) return false;
            s.set(f)[i / 64] |= Word{!(value > error)} << i % 64;
        }
    }
    s.is_simple = true;
    for (int i = 0; i < s.n; i++) {
        Point<D>& v = s.met[i];
        for (int k = 0; k < D; k++) v.x[k] = s.point(i)[k];
        v.rho = s.rho;
        int n_tight = 0;
        for (int f = 0; f < s.n_rows; f++)
            if (s.lies_on(i, f)) s.tight[n_tight++] = s.rows + f;
        if (n_tight < D) return false;
        if (n_tight == D) {
            if (!s.is_precise) continue;
            const Facet<D>* tight[D];
            for (int t = 0; t < D; t++) tight[t] = s.tight[t];
            Point<D> better{};
            meet<D>(&tight, 1, s.scale, &better, nullptr);
            if (better.rho < v.rho) v = better;
            continue;
        }
        s.is_simple = false;
        if (vanish(s.tight, n_tight, v))
            v.rho = 0.0;
        else if (!meet_in_a_point(s.tight, n_tight, *s.minors))
            return false;
    }
    return true;
}

// Bound the error of T v for a vertex v, as a vector.
//
// With the rows M* through v, their approximate inverse R, and the values r of these rows at v,
//
//     T (v - v*) = T R r + T (I - R M*) (v - v*),
//
// where the last difference is at most rho = |R| |r| / (1 - beta), and beta >= |I - R M*|_inf (see
// polytope.hpp). If a cell is long and thin, this is much smaller than |T| rho.
template <int D>
double off_where_round(const Solid<D>& s, int i, const double (&T)[D][D]) {
    const Point<D>& v = s.met[i];
    double slopes = 0.0;
    for (int k = 0; k < D; k++)
        for (int j = 0; j <= k; j++) slopes += magnitude(T[k][j]);
    const double simple = slopes * v.rho * kUp;
    const Facet<D>* tight[D];
    int n_tight = 0;
    for (int f = 0; f < s.n_rows && n_tight <= D; f++) {
        if (!s.lies_on(i, f)) continue;
        if (n_tight < D) tight[n_tight] = s.rows + f;
        n_tight++;
    }
    if (!s.is_precise || n_tight != D || v.rho == 0.0) return simple;
    const Facet<D>* const(&list)[D] = tight;
    const Systems<D> system = side_by_side<D>(&list, 1);
    Lanes inverses[D][D];
    invert(system, inverses);
    const double beta = defect<D>(system, inverses)[0];
    double values[D], rho = 0.0, off = 0.0;
    const auto inverse = [&](int k, int j) { return inverses[k][j][0]; };
    if (!(beta < 0.5)) return simple;
    for (int j = 0; j < D; j++) {
        const Value at = value_at(*tight[j], v.x);
        values[j] = magnitude(at.value) + at.error;
    }
    for (int k = 0; k < D; k++) {
        double sum = 0.0;
        for (int j = 0; j < D; j++) sum += magnitude(inverse(k, j)) * values[j];
        rho = bound(rho, 2.0 * sum);
        for (int j = 0; j < D; j++) {
            double product = 0.0;
            for (int m = 0; m <= k; m++) product += T[k][m] * inverse(m, j);
            off += magnitude(product) * values[j];
        }
    }
    // The rounding error of the products T R is at most kappa |T| |R|.
    off = (off + slopes * (beta + kKappa) * rho) * kUp + kTiny;
    return off < simple ? off : simple;
}

// Write the vertices relative to the first, transformed so that the cell is round, with bounds on
// their lengths and on their errors as vectors. Return whether this succeeded, and the exponent of
// the factor by which volumes are multiplied.
//
// Volumes are computed from y = T (v - v_0), with a triangular matrix T whose diagonal entries are
// powers of two, so that its determinant is known exactly. Any such T is valid; an approximate
// inverse of the Cholesky factor of sum_i (v_i - v_0)(v_i - v_0)^T makes errors small. With E_j the
// largest
// v_ij - v_0j|, the error of a coordinate of y_i is at most sum_j |T_kj| (kappa E_j + t), where t
// covers underflow, plus the errors due to v_i and v_0.
template <int D>
bool make_round(Solid<D>& s, int& exponent) {
    double wide[D] = {}, size = 0.0, second[D][D] = {}, T[D][D] = {};
    for (int i = 1; i < s.n; i++)
        for (int k = 0; k < D; k++)
            wide[k] = bound(wide[k], magnitude(s.met[i].x[k] - s.met[0].x[k]));
    for (double x : wide) size = bound(size, x);
    if (!(0x1p-900 < size && size < 0x1p900)) return false;
    const int scale = -exponent_of(size);
    const double unit = power_of_two(scale);
    exponent = D * scale;
    for (int i = 1; i < s.n; i++) {
        double* y = s.y + std::size_t(i) * D;
        for (int k = 0; k < D; k++) y[k] = (s.met[i].x[k] - s.met[0].x[k]) * unit;
        for (int k = 0; k < D; k++)
            for (int j = 0; j <= k; j++) second[k][j] += y[k] * y[j];
    }
    // Row k of T is row k of the inverse factor, computed from the rows before it.
    double factor[D][D] = {};
    for (int k = 0; k < D; k++) {
        for (int j = 0; j < k; j++) {
            double rest = second[k][j];
            for (int m = 0; m < j; m++) rest -= factor[k][m] * factor[j][m];
            factor[k][j] = rest / factor[j][j];
        }
        double rest = second[k][k];
        for (int m = 0; m < k; m++) rest -= factor[k][m] * factor[k][m];
        const double least = 0x1p-50 * second[k][k] + 0x1p-400;
        factor[k][k] = std::sqrt(rest > least ? rest : least);
        for (int j = 0; j < k; j++) {
            double sum = 0.0;
            for (int m = j; m < k; m++) sum -= factor[k][m] * T[m][j];
            T[k][j] = sum / factor[k][k];
        }
        T[k][k] = 1.0 / factor[k][k];
        // Scale the row so that its diagonal entry becomes a power of two.
        const int e = exponent_of(T[k][k]);
        const double ratio = power_of_two(e) / T[k][k];
        for (int j = 0; j < k; j++) T[k][j] *= ratio;
        T[k][k] = power_of_two(e);
        exponent += e;
    }
    double rounded = 0.0;
    for (int k = 0; k < D; k++)
        for (int j = 0; j <= k; j++)
            rounded += magnitude(T[k][j]) * (kKappa * wide[j] * unit + kTiny);
    const double first = off_where_round(s, 0, T);
    for (int i = 1; i < s.n; i++) {
        double *y = s.y + std::size_t(i) * D, squares = 0.0;
        for (int k = D - 1; k >= 0; k--) {
            double sum = 0.0;
            for (int j = 0; j <= k; j++) sum += T[k][j] * y[j];
            y[k] = sum;
            squares += sum * sum;
        }
        s.offs[i] = (rounded + (off_where_round(s, i, T) + first) * unit) * kUp + kTiny;
        // Squares below 2^-1022 may have been lost.
        s.sizes[i] = std::sqrt(squares) * kUp + 0x1p-500;
        // Underflow is never multiplied by a larger number.
        if (!(s.sizes[i] < 0x1p60 && s.offs[i] < 1.0)) return false;
    }
    return true;
}

// The simplices of a cell, one vertex after the other.
//
// A face is the union of the cones from its first vertex over its facets that do not
// contain this vertex; the cones have no common inner point ([CH79]). Applied recursively, this
// divides a cell of D dimensions into simplices that share its first vertex. D! times the volume of
// a simplex with edges e_1, ..., e_D from there is |det E|. Rows are reduced by the rows before
// them: with the rounding errors H, there is a triangular matrix L with unit diagonal such that E +
// H = L R, where row i of R is zero at the pivots of the earlier rows. Hence |det(E + H)| is the
// product of the pivots. If tau_i bounds the error of row i due to H and to the radii of the
// vertices together,
//
//     |det E* - det(E + H)| <= sum_i tau_i prod_{j != i} (|e_j| + tau_j)
//
// by Hadamard's inequality, one row after the other ([Higham02], section 14.6).
template <int D>
struct Simplices {
    Solid<D>& s;
    double most_simplices;
    double total = 0.0, moved = 0.0;
    double n = 0.0;
    double rows[D][D] = {};
    double lengths[D] = {};  // bounds on the sums of the absolute entries of the rows
    int pivots[D] = {};
    // The product of the first pivots, the product of the bounds on the edges, and the sum of their
    // shares.
    double volume[D + 1] = {1.0}, most[D + 1] = {1.0}, shares[D + 1] = {};

    void add(int level, int vertex) {
        double* row = rows[level];
        const double* y = s.y + std::size_t(vertex) * D;
        for (int k = 0; k < D; k++) row[k] = y[k];
        // The error of a step r - l p is at most u (|l p| + |r - l p|) <= u (|r| + 2 |l p|), and at
        // the pivot entry u |r|. `length` bounds the sum of the absolute values of r.
        double rounded = 0.0, length = 0.0;
        for (double x : rows[level]) length += magnitude(x);
        for (int j = 0; j < level; j++) {
            const double* before = rows[j];
            const int pivot = pivots[j];
            if (before[pivot] == 0.0) continue;
            const double factor = row[pivot] / before[pivot],
                         product = magnitude(factor) * lengths[j];
            for (int k = 0; k < D; k++) row[k] -= factor * before[k];
            row[pivot] = 0.0;
            rounded += 2.0 * (length + product);
            length += product;
        }
        lengths[level] = length;
        int pivot = 0;
        for (int k = 1; k < D; k++)
            if (magnitude(row[k]) > magnitude(row[pivot])) pivot = k;
        pivots[level] = pivot;
        const double tau = s.offs[vertex] + 2.0 * kU * rounded + kTiny,
                     size = s.sizes[vertex] + tau;
        volume[level + 1] = volume[level] * magnitude(row[pivot]);
        most[level + 1] = most[level] * size;
        shares[level + 1] = shares[level] + tau / size;
    }

    // The first rows belong to the vertices chosen before, and the others to a simplex.
    void close(int level, const Word* face) {
        for (int w = 0; w < s.n_words; w++)
            for (Word bits = face[w]; bits != 0; bits &= bits - 1)
                add(level++, 64 * w + lowest_bit(bits));
        total += volume[D];
        moved += most[D] * shares[D];
        n += 1.0;
    }

    int count(const Word* face) const {
        int found = 0;
        for (int w = 0; w < s.n_words; w++) found += bit_count(face[w]);
        return found;
    }
    bool holds(const Word* face, int vertex) const { return face[vertex / 64] >> vertex % 64 & 1; }

    // Whether a part of a face is one of its facets, and is the first among equal parts.
    bool is_facet(const Word* parts, int n_parts, int chosen) const {
        const Word* part = parts + std::size_t(chosen) * s.n_words;
        for (int g = 0; g < n_parts; g++) {
            const Word* other = parts + std::size_t(g) * s.n_words;
            bool is_within = g != chosen, is_equal = true;
            for (int w = 0; w < s.n_words; w++) {
                is_within = is_within && (part[w] & ~other[w]) == 0;
                is_equal = is_equal && part[w] == other[w];
            }
            if (is_within && !(is_equal && g > chosen)) return false;
        }
        return true;
    }

    // Visit the cones over the facets of a face of D - level dimensions from one of its vertices.
    // The face may have parts on the given rows.
    void open(int level, const Word* face, int apex, const int* given, int n_given) {
        Word* parts = s.faces + std::size_t(level) * s.n_rows * s.n_words;
        int *touching = s.touching + std::size_t(level) * s.n_rows, n_parts = 0;
        for (int t = 0; t < n_given; t++) {
            Word *part = parts + std::size_t(n_parts) * s.n_words, some = 0, rest = 0;
            for (int w = 0; w < s.n_words; w++) {
                part[w] = face[w] & s.set(given[t])[w];
                some |= part[w];
                rest |= face[w] ^ part[w];
            }
            // A row through the whole face does not define a part of it.
            touching[n_parts] = given[t];
            n_parts += some != 0 && rest != 0;
        }
        const int dim = D - 1 - level;
        for (int f = 0; f < n_parts; f++) {
            const Word* part = parts + std::size_t(f) * s.n_words;
            if (holds(part, apex)) continue;
            const int size = count(part);
            if (size <= dim || !(s.is_simple || is_facet(parts, n_parts, f))) continue;
            if (size == dim + 1) {
                close(level, part);
                continue;
            }
            // This happens only if the sets are wrong.
            if (dim == 0) continue;
            int first = 0;
            while (!holds(part, first)) first++;
            add(level, first);
            open(level + 1, part, first, touching, n_parts);
            if (n > most_simplices) return;
        }
    }
};

// Divide a cell into simplices; stop if there are more than the given limit.
template <int D>
Simplices<D> cut_into_simplices(Solid<D>& s, double most_simplices = kInfinity) {
    Simplices<D> simplices{s, most_simplices};
    // All vertices lie on the last row of the scratch.
    Word* whole = s.faces + std::size_t(D) * s.n_rows * s.n_words;
    for (int w = 0; w < s.n_words; w++) whole[w] = 0;
    for (int i = 0; i < s.n; i++) whole[i / 64] |= Word{1} << i % 64;
    // The list of all rows is stored after the levels.
    int* all = s.touching + std::size_t(D) * s.n_rows;
    for (int f = 0; f < s.n_rows; f++) all[f] = f;
    simplices.open(0, whole, 0, all, s.n_rows);
    return simplices;
}

template <int D>
constexpr double factorial() {
    double product = 1.0;
    for (int k = 2; k <= D; k++) product *= k;
    return product;
}

}  // namespace detail

template <int D>
bool find_volume(Solid<D>& s, SolidMeasured<D>& found) {
    if (detail::is_unbounded(s)) {
        found.volume = kInfinity, found.volume_radius = 0.0;
        return true;
    }
    if (!detail::find_incidences(s)) return false;
    int exponent = 0;
    if (!detail::make_round(s, exponent)) return false;
    const detail::Simplices<D> simplices = detail::cut_into_simplices(s);
    constexpr double factorial = detail::factorial<D>();
    // A product of D pivots is rounded D times, the sum n times, and the quotient once.
    const double radius =
        (simplices.moved + 2.0 * (simplices.n + 2 * D) * kU * simplices.total) / factorial;
    found.volume = __builtin_ldexp(simplices.total / factorial, -exponent);
    found.volume_radius = __builtin_ldexp(radius, -exponent) * (kUp + 4.0 * simplices.n * kU);
    return 0x1p-900 < found.volume && found.volume < 0x1p1000 &&
           found.volume_radius <= kMeasured * found.volume;
}

// The approximate volume of a bounded cell with known sets and with its vertices in `y`. For
// estimates only, never for decisions. NaN if the computation would take too long, or if a
// coordinate is too large.
template <int D>
double about_volume(Solid<D>& s) {
    constexpr double most_simplices = 1 << 16;
    int exponent = 0;
    for (int k = 0; k < D; k++) {
        double first = s.y[k], wide = 0.0;
        for (int i = 0; i < s.n; i++) {
            double& x = s.y[std::size_t(i) * D + k];
            x -= first;
            wide = bound(wide, magnitude(x));
        }
        if (!(wide < kInfinity)) return __builtin_nan("");
        if (wide == 0.0) return 0.0;
        const int e = exponent_of(wide);
        exponent += e;
        for (int i = 0; i < s.n; i++) {
            double& x = s.y[std::size_t(i) * D + k];
            x = __builtin_ldexp(x, -e);
        }
    }
    for (int i = 0; i < s.n; i++) s.offs[i] = s.sizes[i] = 0.0;
    const detail::Simplices<D> simplices = detail::cut_into_simplices(s, most_simplices);
    if (simplices.n > most_simplices) return __builtin_nan("");
    return __builtin_ldexp(simplices.total / detail::factorial<D>(), exponent);
}

// A point at which all rows of the cell are certainly positive.
template <int D>
bool find_witness(const Solid<D>& s, double* x) {
    if (!detail::is_unbounded(s)) {
        detail::middle(s, 0.0, x);
        return detail::is_inside(s, x);
    }
    double size = 0.0;
    for (int i = 0; i < s.n * D; i++) size = larger(size, magnitude(s.points[i]));
    size = size == 0.0 ? 1.0 : 2.0 * size;
    for (int exponent : {0, 6, 12, 24, 48}) {
        detail::middle(s, size * power_of_two(exponent), x);
        if (detail::is_inside(s, x)) return true;
    }
    return false;
}

namespace detail {

// Whether balls of every size fit into an unbounded cell: some direction leads away from every row.
template <int D>
bool is_wide(const Solid<D>& s) {
    double way[D] = {};
    for (int i = 0; i < s.n; i++)
        for (int k = 0; k < D; k++) way[k] += s.direction(i)[k];
    for (int f = 0; f < s.n_rows; f++) {
        Facet<D> linear = s.rows[f];
        linear.form.c = linear.form.offset_radius = 0.0;
        const Value at = value_at(linear, way);
        if (!(at.value > at.error)) return false;
    }
    return true;
}

// Approximate the largest r with <n_i, z> + b_i >= r for all rows, by the simplex method. Writes z,
// and up to D + 1 rows with numbers lambda_i >= 0 such that sum_i lambda_i n_i is approximately
// zero. Returns false if the method does not terminate. `slacks` are the b_i.
//
// The walk starts at z = 0, where the nearest row is tight, and z is fixed by D equations, which
// are dropped one by one. An entry below eps counts as zero; the result is verified later.
template <int D>
struct LargestBall {
    Solid<D>& s;
    double z[D + 1] = {};   // and r
    int basis[D + 1] = {};  // rows, or -1 for an equation
    double inverse[D + 1][D + 1] = {};

    // The rate at which r - <n_i, z> increases along a direction.
    double rate(int row, const double* way) const {
        double sum = way[D];
        for (int k = 0; k < D; k++) sum -= s.normals[std::size_t(row) * D + k] * way[k];
        return sum;
    }

    bool walk() {
        constexpr double eps = 0x1p-40;
        int nearest = 0;
        for (int f = 1; f < s.n_rows; f++)
            if (s.slacks[f] < s.slacks[nearest]) nearest = f;
        const double least = s.slacks[nearest];
        for (int f = 0; f < s.n_rows; f++) s.slacks[f] -= least;
        z[D] = least;
        // The inverse for the equations z_k = 0 and the row -<n, z> + r = b.
        for (int k = 0; k < D; k++) {
            basis[k] = -1;
            inverse[k][k] = 1.0;
            inverse[D][k] = s.normals[std::size_t(nearest) * D + k];
        }
        basis[D] = nearest;
        inverse[D][D] = 1.0;
        for (int step = 0; step < 8 * (s.n_rows + D); step++) {
            int leaving = -1;
            double best = eps;
            bool is_equation = false;
            for (int j = 0; j <= D; j++) {
                const double lambda = inverse[D][j];
                const bool is_free = basis[j] < 0;
                const double gain = is_free ? magnitude(lambda) : -lambda;
                if (is_equation && !is_free) continue;
                if (gain > best || (is_free && !is_equation && gain > eps))
                    best = gain, leaving = j, is_equation = is_free;
            }
            if (leaving < 0) return true;
            const double turn = inverse[D][leaving] > 0.0 ? 1.0 : -1.0;
            double way[D + 1];
            for (int k = 0; k <= D; k++) way[k] = turn * inverse[k][leaving];
            int entering = -1;
            double length = kInfinity;
            for (int f = 0; f < s.n_rows; f++) {
                const double speed = rate(f, way);
                if (!(speed > eps)) continue;
                const double until = larger(s.slacks[f], 0.0) / speed;
                if (until < length) length = until, entering = f;
            }
            if (entering < 0) return false;
            for (int k = 0; k <= D; k++) z[k] += length * way[k];
            for (int f = 0; f < s.n_rows; f++) s.slacks[f] -= length * rate(f, way);
            double products[D + 1];
            for (int j = 0; j <= D; j++) {
                double column[D + 1];
                for (int k = 0; k <= D; k++) column[k] = inverse[k][j];
                products[j] = rate(entering, column);
            }
            for (int k = 0; k <= D; k++) {
                const double entry = inverse[k][leaving] / products[leaving];
                for (int j = 0; j <= D; j++) inverse[k][j] -= products[j] * entry;
                inverse[k][leaving] = entry;
            }
            basis[leaving] = entering;
        }
        return true;
    }
};

}  // namespace detail

// A largest ball, given a point w inside; the proof is the same as for `find_ball` in the plane.
template <int D>
bool find_ball(Solid<D>& s, const double* w, SolidMeasured<D>& found) {
    if (detail::is_unbounded(s)) {
        for (int k = 0; k < D; k++) found.centre[k] = w[k];
        found.radius = kInfinity;
        return detail::is_wide(s);
    }
    const auto norm_of = [&](int f) {
        double squares = 0.0;
        for (double a : s.rows[f].form.a) squares += a * a;
        return std::sqrt(squares);
    };
    for (int f = 0; f < s.n_rows; f++) {
        const double norm = norm_of(f);
        for (int k = 0; k < D; k++) s.normals[std::size_t(f) * D + k] = s.rows[f].form.a[k] / norm;
        s.slacks[f] = detail::value_at(s.rows[f], w).value / norm;
    }
    detail::LargestBall<D> ball{s};
    if (!ball.walk()) return false;
    for (int k = 0; k < D; k++) found.centre[k] = w[k] + ball.z[k];
    double below = kInfinity, reach = 0.0;
    // The errors of norms are below 16 u plus the radii of the true row's D slopes.
    for (int f = 0; f < s.n_rows; f++) {
        const detail::Value at = detail::value_at(s.rows[f], found.centre);
        const double distance =
            (at.value - at.error) / ((norm_of(f) + D * s.rows[f].form.slope_radius) * kUp);
        // This is not a minimum, which would lose NaN.
        if (!(distance >= below)) below = distance;
    }
    for (int i = 0; i < s.n; i++) {
        double far = 0.0;
        for (int k = 0; k < D; k++) far += magnitude(s.point(i)[k] - w[k]) + s.rho;
        reach = bound(reach, far * kUp);
    }
    double total = 0.0, above = 0.0, off = 0.0, sum[D] = {};
    for (int j = 0; j <= D; j++) {
        const int f = ball.basis[j];
        const double lambda = ball.inverse[D][j];
        if (f < 0 || !(lambda > 0.0)) continue;
        const double slope_radius = s.rows[f].form.slope_radius, norm = norm_of(f);
        const double least = norm - D * slope_radius * kUp;
        if (!(least > 0.5 * norm)) return false;
        const detail::Value at = detail::value_at(s.rows[f], w);
        total += lambda;
        above += lambda * ((at.value + at.error) / least * kUp);
        for (int k = 0; k < D; k++) sum[k] += lambda * s.normals[std::size_t(f) * D + k];
        // The error of a computed normal is at most the radii of the slopes, twice because of its
        // length, plus a few roundings.
        off += lambda * (4.0 * D * slope_radius / norm + D * kKappa);
    }
    for (double x : sum) off += magnitude(x);
    above = (above + off * reach) / total * kUp;
    found.radius = below * (1.0 - 0x1p-40);
    return found.radius > 0.0 && found.radius < kInfinity &&
           above <= found.radius * (1.0 + kMeasured);
}

// Compute the requested quantities for a cell. Return those left open.
template <int D>
int measure(Solid<D>& s, int wanted, SolidMeasured<D>& found) {
    // Rows that could not be scaled, and directions that rounded to zero, do not contain enough
    // information.
    for (int f = 0; f < s.n_rows; f++)
        if (!(s.rows[f].norm < kInfinity)) return wanted;
    if (!(s.rho < kInfinity && s.far_rho < kInfinity) || s.n <= D) return wanted;
    if (wanted & kVolume && find_volume(s, found)) wanted &= ~kVolume;
    double w[D];
    if (!(wanted & (kWitness | kBall)) || !find_witness(s, w)) return wanted;
    if (wanted & kWitness)
        for (int k = 0; k < D; k++) found.witness[k] = w[k];
    if (wanted & kBall && find_ball(s, w, found)) wanted &= ~kBall;
    return wanted & ~kWitness;
}

}  // namespace hardmax
