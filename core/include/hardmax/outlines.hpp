// On which rows the vertices of cells lie, and facets of a wall in space compared by their edges.
//
// A vertex lies on D independent facets at least; if all forms but D have a sign there, these are the ones.
// If more have none, but all of them are linear, the vertex is the origin, and lies on all of them.
//
// In three dimensions facets of a wall are convex polygons of a plane. Two of them with no inner point in
// common are parted by a line through an edge of one of them, one on each closed side. Edges lie on other
// facets of their cell, or on sides of the domain, which part nothing from what is inside. So let F and G be
// facets of cells P and Q on both sides of a wall:
//   if all vertices of F are negative on a row of Q, or all of G on one of P, they are apart;
//   if on each row of Q, but for that of G, some vertex of F is positive, and some vertex of G on each row
//   of P, but for that of F, they overlap.
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

// Write the vertices of a facet to some room, which shrinks; `masks` are those of all vertices, 0 where nobody
// has asked yet.
inline void write_outline(const FacetTable& t, std::int64_t facet, Word* masks, double*& room,
                          const double* end, Outline& found) {
    constexpr int D = 3;
    const std::int64_t cell = t.owners[facet], first = t.point_starts[cell];
    const double rho = t.blurs[2 * cell];
    if (masks[first] == 0) find_incidences<D>(t, cell, masks);
    found = {room, 0, 0.0, rho, {}, {}, -1};
    for (int k = 0; k < D; k++) found.low[k] = kInfinity, found.high[k] = -kInfinity;
    int n = 0;
    for (std::int64_t i = first; i < t.point_starts[cell + 1]; i++) {
        double* block = room + std::size_t(n / kLanes) * kLanes * D;
        if (masks[i] == kNotOnRows || end - block < kLanes * D) return;
        if ((masks[i] >> t.place(facet) & 1) == 0) continue;
        for (int k = 0; k < D; k++) {
            const double x = t.points[i * D + k];
            for (int lane = n % kLanes; lane < kLanes; lane++) block[k * kLanes + lane] = x;
            const double widened = (rho + 2.0 * kKappa * magnitude(x)) * kUp + kTiny;
            found.size = larger(found.size, magnitude(x));
            found.low[k] = x - widened < found.low[k] ? x - widened : found.low[k];
            found.high[k] = larger(found.high[k], x + widened);
        }
        n++;
    }
    if (n < D || !(found.size + rho < kInfinity)) return;
    found.n_blocks = (n + kLanes - 1) / kLanes;
    room += std::size_t(found.n_blocks) * kLanes * D;
}

// 1 if some vertex of a facet is certainly positive on a row, -1 if all are certainly negative, else 0. The
// bound is that of `Polytopes::error_on`.
inline int side_of(const FacetTable& t, std::int64_t row, const Outline& outline) {
    constexpr int D = 3;
    const double* form = t.forms + row * (D + 3);
    const double slopes = magnitude(form[0]) + magnitude(form[1]) + magnitude(form[2]);
    const double error =
        (kKappa * (slopes * outline.size + magnitude(form[D])) + form[D + 1] * D * outline.size +
         form[D + 2] + (slopes + D * form[D + 1]) * outline.rho) *
            kUp +
        kTiny;
    LaneBits is_positive{}, is_negative = ~LaneBits{};
    for (int b = 0; b < outline.n_blocks; b++) {
        const double* block = outline.blocks + b * kLanes * D;
        Lanes value = all(form[0]) * load(block);
        for (int k = 1; k < D; k++) value += all(form[k]) * load(block + k * kLanes);
        value += all(form[D]);
        is_positive |= value > all(error);
        is_negative &= value < all(-error);
    }
    if (is_positive[0] | is_positive[1] | is_positive[2] | is_positive[3]) return 1;
    return is_negative[0] & is_negative[1] & is_negative[2] & is_negative[3] ? -1 : 0;
}

// Compare facets on both sides of a wall; kOpen where signs are.
inline int compare_outlines(const FacetTable& t, std::int64_t one, const Outline& first,
                            std::int64_t other, Outline& second) {
    if (first.n_blocks == 0 || second.n_blocks == 0) return kOpen;
    for (int k = 0; k < 3; k++)
        if (first.low[k] > second.high[k] || second.low[k] > first.high[k]) return kApart;
    // What parted a facet from the one before often does from the next.
    if (second.parting >= 0 && side_of(t, second.parting, first) < 0) return kApart;
    int verdict = kOverlap;
    for (int side = 0; side < 2; side++) {
        const std::int64_t own = side == 0 ? other : one, cell = t.owners[own];
        const Outline& beyond = side == 0 ? first : second;
        for (std::int64_t row = t.starts[cell]; row < t.starts[cell + 1]; row++) {
            if (row == own) continue;
            const int found = side_of(t, row, beyond);
            if (found < 0) {
                if (side == 0) second.parting = row;
                return kApart;
            }
            if (found == 0) verdict = kOpen;
        }
    }
    return verdict;
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
