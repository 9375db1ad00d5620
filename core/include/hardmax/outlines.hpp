// The rows on which the vertices of cells lie, and comparison of a wall's facets by their vertices
// and rows.
//
// A vertex lies on at least D independent facets. If all forms except D have a sign at the vertex,
// it lies on these D facets. If more than D forms have no sign there but all of them are linear,
// the vertex is the origin and lies on all of them.
//
// Let F and G be facets of cells P and Q on the two sides of a wall of layer l on which no groups
// tie. P and Q have the same winners up to layer l, except for the two forms that meet on the wall,
// and therefore the same forms. The forms that these winners exceed are the same in P and Q, and on
// the wall the two forms that meet are equal. Hence the rows of layers up to l and the sides of the
// domain are positive on both F and G, and G is the set where its other rows are positive: the rows
// of later layers that contain vertices of G. These are the parting rows of G.
//   If all of F is negative on one of them, F and G are apart.
//   If a point of F is positive on all of them, F and G overlap: G contains F near this point.
// In three dimensions, facets are convex polygons in a plane. Two polygons without a common inner
// point are separated by a line through an edge of one of them, with one polygon on each closed
// side. This line is on a parting row.
//   If each parting row of G is positive at some vertex of F, and each parting row of F at some
//   vertex of G, they overlap.
// In four dimensions, facets are polytopes in a 3-dimensional space. If they met, a vertex of their
// intersection would be the only common point of a face of F and a face of G. One of these faces
// would be an edge or a vertex, because two larger faces cannot meet in a single point in three
// dimensions.
//   If no segment between vertices of F meets G, and no segment between vertices of G meets F, they
//   are apart.
#pragma once
#include "facets.hpp"
#include "lanes.hpp"
#include "sections.hpp"

namespace hardmax {

namespace detail {

// The rows of a cell: first the rows of its facets, then the rows of the domain.
struct Rows {
    std::int64_t first, border;
    int n_own, n;
    Rows(const FacetTable& t, std::int64_t cell) : first(t.starts[cell]), border(t.n_facets) {
        n_own = static_cast<int>(t.starts[cell + 1] - first);
        n = n_own + t.n_borders;
    }
    std::int64_t operator[](int r) const { return r < n_own ? first + r : border + r - n_own; }
};

// Write the rows on which each vertex of a cell lies, as bits, or kNotOnRows if these are unknown.
//
// The value of a row at a point with coordinates of at most X has three errors: 2 kappa (|a|_1 X +
// |c|) from rounding, d r (X + beta) + s from the radii of the row, and |a|_1 beta from the radius
// of the point.
constexpr Word kNotOnRows = ~Word{0};
template <int D>
void find_incidences(const FacetTable& t, std::int64_t cell, Word* masks) {
    const Rows rows(t, cell);
    const double beta = t.blurs[2 * cell];
    double coefficient[D + 1][kWindow], error[kWindow], growth[kWindow];
    Word linear = 0;
    for (int r = rows.n; r < padded(rows.n) && rows.n < kWindow; r++) {
        for (int k = 0; k <= D; k++) coefficient[k][r] = 0.0;
        error[r] = growth[r] = 0.0;
    }
    for (int r = 0; r < rows.n && rows.n < kWindow; r++) {
        const double* form = t.forms + rows[r] * (D + 3);
        double slopes = 0.0;
        for (int k = 0; k <= D; k++) coefficient[k][r] = form[k];
        for (int k = 0; k < D; k++) slopes += magnitude(form[k]);
        const double radius = D * form[D + 1];
        error[r] =
            (2.0 * kKappa * magnitude(form[D]) + form[D + 2] + (slopes + radius) * beta) * kUp +
            kTiny;
        growth[r] = (2.0 * kKappa * slopes + radius) * kUp;
        if (form[D] == 0.0 && form[D + 2] == 0.0) linear |= Word{1} << r;
    }
    for (std::int64_t i = t.point_starts[cell]; i < t.point_starts[cell + 1]; i++) {
        masks[i] = kNotOnRows;
        if (rows.n >= kWindow || t.is_far(i)) continue;
        const double* x = t.points + i * D;
        double size = 0.0;
        for (int k = 0; k < D; k++) size = larger(size, magnitude(x[k]));
        LaneMask has_sign;
        for (int r = 0; r < rows.n; r += kLanes) {
            Lanes value = load(coefficient[0] + r) * all(x[0]);
            for (int k = 1; k < D; k++) value += load(coefficient[k] + r) * all(x[k]);
            value += load(coefficient[D] + r);
            has_sign.add(absolute(value) > load(error + r) + load(growth + r) * all(size), r);
        }
        const Word mask = ~has_sign.bits() & low_bits(rows.n);
        if (bit_count(mask) == D || (mask & ~linear) == 0) masks[i] = mask;
    }
}

// The numbers of kLanes rows side by side: slopes, offset, the sum of the absolute slopes, the sum
// of the slopes' radii, and the radius of the offset.
template <int D>
constexpr int kRowBlock = (D + 4) * kLanes;

// Write some rows of a cell, followed by rows that are positive everywhere.
template <int D>
void write_parting_rows(const FacetTable& t, std::int64_t first_row, Word some, double* to) {
    for (int i = 0; some != 0 || i % kLanes != 0; i++, some &= some - 1) {
        double* block = to + i / kLanes * kRowBlock<D> + i % kLanes;
        if (some == 0) {
            for (int k = 0; k < D + 4; k++) block[k * kLanes] = k == D ? 1.0 : 0.0;
            continue;
        }
        const double* form = t.forms + (first_row + lowest_bit(some)) * (D + 3);
        double slopes = 0.0;
        for (int k = 0; k < D; k++) slopes += magnitude(form[k]);
        for (int k = 0; k <= D; k++) block[k * kLanes] = form[k];
        block[(D + 1) * kLanes] = slopes;
        block[(D + 2) * kLanes] = D * form[D + 1];
        block[(D + 3) * kLanes] = form[D + 2] + kTiny;
    }
}

// Write the outline of a facet to a buffer, and reduce the buffer's remaining capacity. `masks`
// belong to all vertices; a mask is 0 if it was not computed yet.
template <int D>
void write_outline(const FacetTable& t, std::int64_t facet, Word* masks, double*& room,
                   const double* end, Outline& found) {
    const std::int64_t cell = t.owners[facet], first = t.point_starts[cell],
                       last = t.point_starts[cell + 1], first_row = t.starts[cell];
    const int place = t.place(facet), layer = t.layer(t.group(facet)),
              n_rows = static_cast<int>(t.starts[cell + 1] - first_row);
    if (masks[first] == 0) find_incidences<D>(t, cell, masks);
    found.n = 0;
    // A facet without bounds meets every facet, and the comparison stays open.
    for (int k = 0; k < D; k++) found.low[k] = -kInfinity, found.high[k] = kInfinity;
    if (end - room < D * (last - first)) return;
    Word touched = 0, parting = 0;
    int n = 0;
    bool is_certain = true;
    // Whether a vertex is on the facet is hard to predict. Therefore all vertices are written, and
    // those that are not on the facet are overwritten.
    for (std::int64_t i = first; i < last; i++) {
        const Word is_on = masks[i] >> place & 1;
        is_certain = is_certain && masks[i] != kNotOnRows;
        for (int k = 0; k < D; k++) room[D * n + k] = t.points[i * D + k];
        touched |= masks[i] & (Word{0} - is_on);
        n += static_cast<int>(is_on);
    }
    if (!is_certain) return;
    double low[D], high[D], size = 0.0;
    for (int k = 0; k < D; k++) low[k] = kInfinity, high[k] = -kInfinity;
    for (int v = 0; v < n; v++)
        for (int k = 0; k < D; k++) {
            const double x = room[D * v + k];
            low[k] = x < low[k] ? x : low[k];
            high[k] = larger(high[k], x);
        }
    for (touched &= low_bits(n_rows); touched != 0; touched &= touched - 1) {
        const int r = lowest_bit(touched);
        parting |= static_cast<Word>(t.layer(t.group(first_row + r)) > layer) << r;
    }
    for (int k = 0; k < D; k++) size = larger(size, larger(-low[k], high[k]));
    const int n_blocks = (bit_count(parting) + kLanes - 1) / kLanes;
    const double rho = t.blurs[2 * cell], widened = (rho + 2.0 * kKappa * size) * kUp + kTiny;
    if (n < D || !(size + rho < kInfinity) || end - room < D * n + n_blocks * kRowBlock<D>) return;
    for (int k = 0; k < D; k++) found.low[k] = low[k] - widened, found.high[k] = high[k] + widened;
    found.n = n, found.n_blocks = n_blocks, found.size = size, found.rho = rho;
    found.points = room, found.rows = room + D * n;
    write_parting_rows<D>(t, first_row, parting, room + D * n);
    room += D * n + n_blocks * kRowBlock<D>;
}

inline bool any(LaneBits bits) { return (bits[0] | bits[1] | bits[2] | bits[3]) != 0; }

// Some rows of a facet, and a bound on the errors of their values at the vertices of another facet
// (see `Polytopes::error_on`). In case of overflow, the bound is infinite or NaN.
template <int D>
struct RowsAt {
    Lanes slope[D], offset, error;

    RowsAt(const Outline& facet, int block, const Outline& other) {
        const auto number = [&](int k) {
            return load(facet.rows + block * kRowBlock<D> + k * kLanes);
        };
        const Lanes size = all(other.size), rho = all(other.rho), slopes = number(D + 1);
        for (int k = 0; k < D; k++) slope[k] = number(k);
        offset = number(D);
        error = (all(kKappa) * (slopes * size + absolute(offset)) +
                 number(D + 2) * (size + rho) + slopes * rho + number(D + 3)) *
                all(kUp);
    }
    Lanes value(const double* point) const {
        Lanes sum = slope[0] * all(point[0]);
        for (int k = 1; k < D; k++) sum += slope[k] * all(point[k]);
        return sum + offset;
    }
};

// Certain positions of a facet's vertices relative to the parting rows of another facet: all of
// them are negative on one row; on each row, one of them is positive; one of them is positive on
// all rows.
struct Sides {
    bool are_parted, meet_each, has_inner;
};
template <int D>
Sides sides_of(const Outline& facet, const Outline& other) {
    LaneBits is_parted{}, is_met = ~LaneBits{}, outside{};
    for (int b = 0; b < facet.n_blocks; b++) {
        const RowsAt<D> rows(facet, b, other);
        Lanes highest = all(-kInfinity);
        for (int v = 0; v < other.n; v++) {
            const Lanes value = rows.value(other.points + D * v);
            highest = value > highest ? value : highest;
            outside |= ~(value > rows.error) & (LaneBits{1, 1, 1, 1} << v % kWindow);
        }
        is_parted |= highest < -rows.error;
        is_met &= highest > rows.error;
        if (any(is_parted)) break;
    }
    const Word somewhere = outside[0] | outside[1] | outside[2] | outside[3];
    return {any(is_parted), !any(~is_met), (~somewhere & low_bits(other.n)) != 0};
}

// kOverlap if the mean of a facet's vertices, or a point of a segment between them, is inside
// another facet; kApart if certainly no segment has a point in common with it.
//
// The mean of n <= 32 values has their error plus a rounding error of n u times the largest value,
// in total less than three times the error of the values. Let rows have the values a, a' at one end
// of a segment and c, c' at the other. They are negative on the whole segment if p a + q a' and p c
// + q c' are negative for some positive p and q. The errors of such sums are at most 5/4 of the
// errors of the values, which are much larger than the rounding errors.
template <int D>
Verdict follow_segments(const Outline& facet, const Outline& other) {
    constexpr int most_blocks = 4, most_vertices = 32;
    const int n_rows = facet.n_blocks * kLanes;
    if (facet.n_blocks > most_blocks || other.n > most_vertices) return kOpen;
    double values[most_vertices][most_blocks * kLanes], errors[most_blocks * kLanes];
    for (int b = 0; b < facet.n_blocks; b++) {
        const RowsAt<D> rows(facet, b, other);
        store(errors + b * kLanes, all(2.0) * rows.error);
        for (int v = 0; v < other.n; v++)
            store(values[v] + b * kLanes, rows.value(other.points + D * v));
    }
    bool has_mean = true;
    for (int b = 0; b < n_rows; b += kLanes) {
        Lanes sum = load(values[0] + b);
        for (int v = 1; v < other.n; v++) sum += load(values[v] + b);
        has_mean = has_mean && !any(~(sum > all(2.0 * other.n) * load(errors + b)));
    }
    if (has_mean) return kOverlap;
    bool are_apart = true;
    for (int v = 0; v < other.n; v++)
        for (int w = 0; w < v; w++) {
            const double *one = values[v], *end = values[w];
            // The range in which rows are positive.
            double low = 0.0, high = 1.0;
            int rising = -1, falling = -1;
            bool is_parted = false, is_met = true;
            for (int r = 0; r < n_rows; r++) {
                is_parted = is_parted || (one[r] < -errors[r] && end[r] < -errors[r]);
                const double share = one[r] / (one[r] - end[r]);
                if (one[r] < 0.0 && !(share < low)) low = share, rising = r;
                if (end[r] < 0.0 && !(share > high)) high = share, falling = r;
            }
            if (is_parted) continue;
            const double middle = 0.5 * (low + high);
            for (int r = 0; r < n_rows; r++)
                is_met = is_met && (1.0 - middle) * one[r] + middle * end[r] > errors[r];
            if (is_met && low < high) return kOverlap;
            are_apart = are_apart && rising >= 0 && falling >= 0;
            if (!are_apart) continue;
            const double p = 1.0 / (end[rising] - one[rising]),
                         q = 1.0 / (one[falling] - end[falling]),
                         error = (p * errors[rising] + q * errors[falling]) * kUp + kTiny;
            are_apart = p > 0.0 && q > 0.0 && p * one[rising] + q * one[falling] < -error &&
                        p * end[rising] + q * end[falling] < -error;
        }
    return are_apart ? kApart : kOpen;
}

// Compare facets on the two sides of a wall; kOpen if signs are undecided.
template <int D>
Verdict compare_outlines(const Outline& one, const Outline& other) {
    if (one.n == 0 || other.n == 0) return kOpen;
    const Sides first = sides_of<D>(other, one);
    if (first.are_parted) return kApart;
    if (first.has_inner) return kOverlap;
    const Sides second = sides_of<D>(one, other);
    if (second.are_parted) return kApart;
    if (second.has_inner || (D == 3 && first.meet_each && second.meet_each)) return kOverlap;
    if (D == 3) return kOpen;
    const Verdict through = follow_segments<D>(other, one);
    if (through == kOverlap) return kOverlap;
    const Verdict back = follow_segments<D>(one, other);
    return back == kOverlap || (D == 4 && through == back) ? back : kOpen;
}

// Bounds on kLanes facets side by side: the lower bound of each coordinate, then the upper bound.
template <int D>
constexpr int kBoxBlock = 2 * D * kLanes;

template <int D>
void write_boxes(const Outline* outlines, int n, double* boxes) {
    for (int i = 0; i < padded(n); i++) {
        double* block = boxes + i / kLanes * kBoxBlock<D> + i % kLanes;
        for (int k = 0; k < D; k++) {
            block[k * kLanes] = i < n ? outlines[i].low[k] : kInfinity;
            block[(D + k) * kLanes] = i < n ? outlines[i].high[k] : -kInfinity;
        }
    }
}

// Call a function with the index of each of n facets beyond a wall that overlaps the given facet.
// Return whether all comparisons were decided. If not, the function may already have been called
// for some facets.
template <int D, class F>
bool for_overlapping(const Outline& one, const Outline* beyond, int n, const double* boxes,
                     F call) {
    for (int i = 0; i < n; i += kLanes) {
        const double* block = boxes + i / kLanes * kBoxBlock<D>;
        LaneBits is_apart{};
        for (int k = 0; k < D; k++)
            is_apart |= (all(one.low[k]) > load(block + (D + k) * kLanes)) |
                        (load(block + k * kLanes) > all(one.high[k]));
        if (!any(~is_apart)) continue;
        for (int lane = 0; lane < kLanes && i + lane < n; lane++) {
            if (is_apart[lane]) continue;
            const Verdict verdict = compare_outlines<D>(one, beyond[i + lane]);
            if (verdict == kOpen) return false;
            if (verdict == kOverlap) call(i + lane);
        }
    }
    return true;
}

}  // namespace detail

// Whether the facets of a wall are compared; this requires the forms of their cells on both sides.
// If the cells beyond the wall are cells of the last layer, listing many of them is faster. If
// groups tie, walls may have other names.
inline bool are_compared(const FacetTable& t, const Meeting& m, std::int64_t wall) {
    const std::int64_t n_far = m.sides[wall + 1].begin - m.sides[wall].middle;
    const bool is_last = t.layer(t.group(m.order[m.sides[wall].begin])) + 2 >= t.n_layers();
    return t.dim >= 3 && t.tie_starts[t.n_cells] == 0 && n_far <= (is_last ? 12 : kMostCompared);
}

// Mark the cells whose forms are needed for the facets that are to be searched.
inline void want_cells(const FacetTable& t, Meeting& m) {
    for (std::int64_t cell = 0; cell < t.n_cells; cell++) m.is_wanted[cell] = 0;
    std::int64_t wall = -1;
    for (std::int64_t i = 0; i < m.n_searched; i++) {
        m.is_wanted[t.owners[m.order[m.searched[i]]]] = 1;
        if (wall >= 0 && m.searched[i] < m.sides[wall + 1].begin) continue;
        while (m.searched[i] >= m.sides[wall + 1].begin) wall++;
        if (!are_compared(t, m, wall)) continue;
        for (std::int64_t k = m.sides[wall].middle; k < m.sides[wall + 1].begin; k++)
            m.is_wanted[t.owners[m.order[k]]] = 1;
    }
}

}  // namespace hardmax
