// On which rows the vertices of cells lie, and facets of a wall in space compared by their edges.
//
// A vertex lies on D independent facets at least; if all forms but D have a sign there, these are the ones.
// If more have none, but all of them are linear, the vertex is the origin, and lies on all of them.
//
// In three dimensions facets of a wall are convex polygons of a plane. Two of them with no inner point in
// common are parted by a line through an edge of one of them, one on each closed side. Edges lie on other
// facets of their cell, or on sides of the domain, which part nothing from what is inside. So let F and G be
// facets of cells P and Q on both sides of a wall, and take the rows of Q through edges of G, which are those
// of other facets that hold vertices of G, and the rows of P through edges of F likewise:
//   if all vertices of F are negative on one of these rows of Q, or all of G on one of P, they are apart;
//   if on each of these rows of Q some vertex of F is positive, and on each of P some vertex of G, they
//   overlap.
#pragma once
#include "facets.hpp"
#include "lanes.hpp"
#include "sections.hpp"

namespace hardmax {

namespace detail {

// The rows of a cell, those of its facets, then those of the domain.
struct Rows {
    std::int64_t first, border;
    int n_own, n;
    Rows(const FacetTable& t, std::int64_t cell) : first(t.starts[cell]), border(t.n_facets) {
        n_own = static_cast<int>(t.starts[cell + 1] - first);
        n = n_own + t.n_borders;
    }
    std::int64_t operator[](int r) const { return r < n_own ? first + r : border + r - n_own; }
};

// Write the rows on which each vertex of a cell lies, as bits, and kNotOnRows where that is not known.
//
// The value of a row at a point with coordinates of at most X is off by 2 kappa (|a|_1 X + |c|), where
// it rounds, by d r (X + beta) + s for its radii, and by |a|_1 beta for that of the point.
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

// Numbers of kLanes rows side by side: slopes, the offset, the sum of the absolute slopes, that of their
// radii, and the radius of the offset.
constexpr int kRowNumbers = 7, kRowBlock = kRowNumbers * kLanes;

// Write some rows of a cell, and after them rows that are positive everywhere.
inline void write_edge_rows(const FacetTable& t, std::int64_t first_row, Word some, double* to) {
    constexpr int D = 3;
    for (int i = 0; some != 0 || i % kLanes != 0; i++, some &= some - 1) {
        double* block = to + i / kLanes * kRowBlock + i % kLanes;
        if (some == 0) {
            for (int k = 0; k < kRowNumbers; k++) block[k * kLanes] = k == D ? 1.0 : 0.0;
            continue;
        }
        const double* form = t.forms + (first_row + lowest_bit(some)) * (D + 3);
        for (int k = 0; k <= D; k++) block[k * kLanes] = form[k];
        block[4 * kLanes] = magnitude(form[0]) + magnitude(form[1]) + magnitude(form[2]);
        block[5 * kLanes] = D * form[D + 1];
        block[6 * kLanes] = form[D + 2] + kTiny;
    }
}

// Write the outline of a facet to some room, which shrinks; `masks` are those of all vertices, 0 where
// nobody has asked yet.
inline void write_outline(const FacetTable& t, std::int64_t facet, Word* masks, double*& room,
                          const double* end, Outline& found) {
    constexpr int D = 3;
    const std::int64_t cell = t.owners[facet], first = t.point_starts[cell];
    const int place = t.place(facet),
              n_rows = static_cast<int>(t.starts[cell + 1] - t.starts[cell]);
    const double rho = t.blurs[2 * cell];
    if (masks[first] == 0) find_incidences<D>(t, cell, masks);
    found.n = 0;
    // Without bounds it meets everything, and that is open.
    for (int k = 0; k < D; k++) found.low[k] = -kInfinity, found.high[k] = kInfinity;
    double low[D], high[D], size = 0.0;
    for (int k = 0; k < D; k++) low[k] = kInfinity, high[k] = -kInfinity;
    Word touched = 0;
    int n = 0;
    for (std::int64_t i = first; i < t.point_starts[cell + 1]; i++) {
        if (masks[i] == kNotOnRows || end - room < D * (n + 1)) return;
        if ((masks[i] >> place & 1) == 0) continue;
        for (int k = 0; k < D; k++) {
            const double x = room[D * n + k] = t.points[i * D + k];
            const double widened = (rho + 2.0 * kKappa * magnitude(x)) * kUp + kTiny;
            size = larger(size, magnitude(x));
            low[k] = x - widened < low[k] ? x - widened : low[k];
            high[k] = larger(high[k], x + widened);
        }
        touched |= masks[i];
        n++;
    }
    touched &= low_bits(n_rows) & ~(Word{1} << place);
    const int n_blocks = (bit_count(touched) + kLanes - 1) / kLanes;
    if (n < D || !(size + rho < kInfinity) || end - room < D * n + n_blocks * kRowBlock) return;
    for (int k = 0; k < D; k++) found.low[k] = low[k], found.high[k] = high[k];
    found.n = n, found.n_blocks = n_blocks, found.size = size, found.rho = rho;
    found.points = room, found.rows = room + D * n;
    write_edge_rows(t, t.starts[cell], touched, room + D * n);
    room += D * n + n_blocks * kRowBlock;
}

inline bool any(LaneBits bits) { return (bits[0] | bits[1] | bits[2] | bits[3]) != 0; }

// -1 if on some row through an edge of a facet all vertices of another one are certainly negative, 1 if on
// each of them some vertex is certainly positive, else 0.
//
// The bound is that of `Polytopes::error_on`. Where something overflows it is infinite, or not a number.
inline int side_of(const Outline& edges, const Outline& vertices) {
    const Lanes size = all(vertices.size), rho = all(vertices.rho);
    LaneBits is_parted{}, is_met = ~LaneBits{};
    for (int b = 0; b < edges.n_blocks; b++) {
        const double* row = edges.rows + b * kRowBlock;
        const auto number = [&](int k) { return load(row + k * kLanes); };
        const Lanes x = number(0), y = number(1), z = number(2), offset = number(3);
        Lanes highest = all(-kInfinity);
        for (int v = 0; v < vertices.n; v++) {
            const double* point = vertices.points + 3 * v;
            const Lanes value =
                x * all(point[0]) + y * all(point[1]) + z * all(point[2]) + offset;
            highest = value > highest ? value : highest;
        }
        const Lanes slopes = number(4), radius = number(5);
        const Lanes error = (all(kKappa) * (slopes * size + absolute(offset)) +
                             radius * (size + rho) + slopes * rho + number(6)) *
                            all(kUp);
        is_parted |= highest < -error;
        is_met &= highest > error;
    }
    return any(is_parted) ? -1 : any(~is_met) ? 0 : 1;
}

// Compare facets on both sides of a wall; kOpen where signs are.
inline int compare_outlines(const Outline& one, const Outline& other) {
    if (one.n == 0 || other.n == 0) return kOpen;
    const int first = side_of(other, one);
    if (first < 0) return kApart;
    const int second = side_of(one, other);
    return second < 0 ? kApart : first > 0 && second > 0 ? kOverlap : kOpen;
}

// Bounds on kLanes facets side by side: low in each coordinate, then high.
constexpr int kBoxBlock = 6 * kLanes;

inline void write_boxes(const Outline* outlines, int n, double* boxes) {
    for (int i = 0; i < padded(n); i++) {
        double* block = boxes + i / kLanes * kBoxBlock + i % kLanes;
        for (int k = 0; k < 3; k++) {
            block[k * kLanes] = i < n ? outlines[i].low[k] : kInfinity;
            block[(3 + k) * kLanes] = i < n ? outlines[i].high[k] : -kInfinity;
        }
    }
}

// Call a function with the numbers of those of n facets beyond a wall that overlap one of it; say whether
// nothing stayed open. It may have been called with some before that.
template <class F>
bool for_overlapping(const Outline& one, const Outline* beyond, int n, const double* boxes,
                     F call) {
    for (int i = 0; i < n; i += kLanes) {
        const double* block = boxes + i / kLanes * kBoxBlock;
        LaneBits is_apart{};
        for (int k = 0; k < 3; k++)
            is_apart |= (all(one.low[k]) > load(block + (3 + k) * kLanes)) |
                        (load(block + k * kLanes) > all(one.high[k]));
        if (!any(~is_apart)) continue;
        for (int lane = 0; lane < kLanes && i + lane < n; lane++) {
            if (is_apart[lane]) continue;
            const int verdict = compare_outlines(one, beyond[i + lane]);
            if (verdict == kOpen) return false;
            if (verdict == kOverlap) call(i + lane);
        }
    }
    return true;
}

}  // namespace detail

// Whether the facets of a wall are compared; the forms of their cells are then needed on both sides. Where
// the cells beyond are those of a last layer, many are listed more quickly. Where groups tie, walls may have
// other names.
inline bool are_compared(const FacetTable& t, const Meeting& m, std::int64_t wall) {
    const std::int64_t n_far = m.sides[wall + 1].begin - m.sides[wall].middle;
    const bool is_last = t.layer(t.group(m.order[m.sides[wall].begin])) + 2 >= t.n_layers();
    return t.dim == 3 && t.tie_starts[t.n_cells] == 0 && n_far <= (is_last ? 8 : kMostCompared);
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
