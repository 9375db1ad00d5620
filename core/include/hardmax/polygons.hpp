// Polygons on the stack of a search: signs, cuts, winning parts, and storage of cells.
#pragma once
#include "cells.hpp"
#include "polygon.hpp"
#include "sections.hpp"
#include "walks.hpp"

namespace hardmax {

struct Polygons {
    static constexpr int dim = 2;
    static constexpr bool notes_ties = false;  // ties on whole edges follow from the names of the
                                               // edges
    static constexpr bool lists_parts = false, walks_groups = true;
    using Known = Pencils;
    // The place of a polygon on the stack.
    struct Place {
        int start, n;
    };
    // A part of a polygon under construction, with space for its next cut.
    struct Part {
        Edge *area, *other;
        int n;
    };

    Edge* edges;         // the edges of all polygons, one after the other; free edges above them
                         // are scratch
    std::int8_t* signs;  // scratch
    int room;
    bool has_far;  // the domain is unbounded
    Crowd crowd;
    Sections<2>* sections;  // used if cells are only counted

    Polygon at(const Place& place) const { return {edges + place.start, place.n, has_far}; }
    // The first place above a polygon.
    Place after(const Place& place) const { return {place.start + place.n, 0}; }

    // Whether there is enough capacity to split a polygon by a unit.
    bool has_room(const Place& place) const { return place.start + 3 * place.n + 6 <= room; }
    // Whether there is capacity for one more part of a polygon, for a group of `count` forms: the
    // part twice, and all parts once more.
    bool has_room(const Place& whole, const Place& at, int count) const {
        const int used = at.start - whole.start - whole.n;
        return at.start + used + 3 * (whole.n + count + 2) <= room;
    }

    static Known known(const Path<2>& path, int l, int group = -1) {
        return pencils_of(path, l, group);
    }
    static void note_region(Path<2>& path, int l, bool has_far) {
        if (has_far || path.frames[l].is_homogeneous) note_ray(path, l);
    }
    int sign_at(const Place& place, int i, const Line& g, const Wall& wall, const Known& known,
                SignCounts& counts) {
        const Polygon polygon = at(place);
        return hardmax::sign_at(polygon.before(i), polygon.edges[i], g, wall, known, counts);
    }

    // Record the signs of the units of a window, from one of them on: see `units.hpp`.
    static void mark(const Window<2>& window, int from, Vertex& v) {
        v.marks = v.is_far() ? far_marks_at<2>(window, from, {v.dx, v.dy}, v.far_rho)
                             : marks_at<2>(window, from, {v.x, v.y}, v.rho);
    }
    void mark(const Place& place, const Window<2>& window, int from) {
        for (int i = 0; i < place.n; i++) mark(window, from, edges[place.start + i].start);
    }
    // The marks common to all vertices.
    Marks marks_of(const Place& place) const {
        Marks common = edges[place.start].start.marks;
        for (int i = 1; i < place.n; i++) {
            const Marks& marks = edges[place.start + i].start.marks;
            common.positive &= marks.positive, common.negative &= marks.negative;
        }
        return common;
    }
    const Marks& marks_at_vertex(const Place& place, int i) const {
        return edges[place.start + i].start.marks;
    }
    // The number of cells into which a window's forms, selected by bits because they may cut the
    // polygon, divide it; -1 if this number cannot be determined without cutting.
    std::int64_t count_parts(const Place& place, const Window<2>& window, Word open, double scale) {
        const int n = place.n;
        const Reach reach = reach_of(at(place));
        if (n > 64 || reach.has_far) return -1;
        Sections<2>& s = *sections;
        if (!begin_sections(s, window, open, n, reach, scale)) return -1;
        for (int i = 0; i < n; i++) {
            const Vertex& v = edges[place.start + i].start;
            s.points[i] = {{v.x, v.y}, v.rho};
            s.masks[i] = Word{1} << i | Word{1} << (i > 0 ? i - 1 : n - 1);
        }
        return count_all(s, n);
    }

    // Split a polygon by a unit of a window, with known signs. The polygon becomes the upper part.
    bool split(Place& place, Place& lower, const Line& g, const Wall& wall, const Window<2>& window,
               int bit, bool) {
        // Both parts are written above the polygon. Its edges are free again once the parts are
        // complete.
        const Edge* polygon = edges + place.start;
        Edge* to = edges + place.start + place.n;
        const int n = place.n, upper = cut(polygon, n, signs, 1, g, wall, to, nullptr, 0);
        mark(window, bit + 1, to[0].start);
        mark(window, bit + 1, to[upper - 1].start);
        const Wall opposite{wall.layer, wall.group, wall.rival, wall.winner};
        lower.n = cut(polygon, n, signs, -1, g, opposite, to + upper, to, upper);
        place = {place.start + n, upper};
        lower.start = place.start + upper;
        return true;
    }

    Part begin(const Place& whole, const Place& at, int count) {
        Part part{edges + at.start, edges + at.start + whole.n + count + 2, whole.n};
        for (int i = 0; i < whole.n; i++) {
            part.area[i] = edges[whole.start + i];
            part.area[i].mark = 0;
        }
        return part;
    }
    Signs signs_of(const Part& part, const Line& g, const Wall& wall, const Known& known,
                   SignCounts& counts) {
        return hardmax::signs_of(part.area, part.n, g, wall, known, signs, counts);
    }
    // A polygon has few vertices, so rivals are tested one at a time.
    std::uint64_t exceeded_on(const Part&, const Forms<2>&, const Contest&, int, int, int) const {
        return 0;
    }
    bool clip(Part& part, const Line& g, const Wall& wall, bool) {
        part.n = cut(part.area, part.n, signs, 1, g, wall, part.other, nullptr, 0);
        Edge* swap = part.area;
        part.area = part.other, part.other = swap;
        return true;
    }
    Place finish(const Part& part, const Place& at) {
        Edge* to = edges + at.start;
        if (part.area != to)
            for (int i = 0; i < part.n; i++) to[i] = part.area[i];
        return {at.start, part.n};
    }

    // Move the parts, in their new order, to the place of the polygon that they replace.
    template <class Item>
    void settle(const Place& whole, const Place& end, Item* parts, int n_parts) {
        Edge* sorted = edges + end.start;
        int n_edges = 0;
        for (int i = 0; i < n_parts; i++) {
            for (int e = 0; e < parts[i].place.n; e++) {
                sorted[n_edges] = edges[parts[i].place.start + e];
                sorted[n_edges++].is_new = false;
            }
        }
        for (int e = 0; e < n_edges; e++) edges[whole.start + e] = sorted[e];
        int start = whole.start;
        for (int i = 0; i < n_parts; i++) {
            parts[i].place.start = start;
            start += parts[i].place.n;
        }
    }

    bool note_ties(Place&, const Signs&, int, const Wall&) { return true; }
    bool note_ties(Part&, const Signs&, int, const Wall&) { return true; }

    // Large groups are split by walking: see `walks.hpp`.
    bool walks(int count) const { return count >= kWalkFrom; }
    void gather(const GroupSplit<Polygons>& split, const int* candidates, int count,
                const Polygon& polygon) {
        gather_crowd(crowd, split.frame.scores, candidates, count, split.first);
        crowd.centre = centre_of(crowd, split.frame, split.known, split.scale);
        plant(crowd, polygon.edges, polygon.n, split.scale);
    }
    int begin_walk(const Polygon& polygon, double scale) {
        const int m = largest_inside(crowd, polygon.edges, polygon.n, scale);
        crowd.queue[0] = m;
        crowd.is_queued[m] = 1;
        return 1;
    }
    int walked_to(int q) const { return crowd.queue[q]; }
    int walked_form(int m) const { return crowd.form[m]; }
    int go_on(int m, const Place& part, int n_queued, double scale) {
        return push_neighbours(crowd, m, edges + part.start, part.n, n_queued, scale);
    }
    // The first form wins nowhere, because of rounding or an equal form before it. Try the others.
    int queue_all(int n_queued) {
        for (int o = 0; o < crowd.count; o++) {
            if (crowd.is_queued[o]) continue;
            crowd.is_queued[o] = 1;
            crowd.queue[n_queued++] = o;
        }
        return n_queued;
    }
    int walked_part(const GroupSplit<Polygons>& split, Part& part, int w, SignCounts& counts);
    bool name_edges(const GroupSplit<Polygons>& split, Part& part, int w, SignCounts& counts);
};

namespace detail {

// Choose the next vertex: an unknown one, otherwise one with ties, otherwise any.
inline int least_marked(const Edge* polygon, int n) {
    int chosen = 0;
    for (int v = 0; v < n; v++) {
        if (polygon[v].mark == 0) return v;
        if (polygon[v].mark < 0) chosen = v;
    }
    return chosen;
}

}  // namespace detail

// Cut a part down to the set where one form wins, comparing only with forms that are large at a
// vertex (see `walks.hpp`). Return its number of edges, or -1 if a sign is undecided.
//
// Marks of vertices: 0, nothing is known; -1, no form certainly exceeds this one; 1 and 2, no form
// exceeds this one at all, and no forms (1) or some forms (2) tie besides those that name the
// edges.
inline int Polygons::walked_part(const GroupSplit<Polygons>& split, Part& part, int w,
                                 SignCounts& counts) {
    const int winner = crowd.form[w];
    int since = 0;
    while (true) {
        const int v = detail::least_marked(part.area, part.n);
        Edge& at = part.area[v];
        const Edge& before = part.area[v > 0 ? v - 1 : part.n - 1];
        if (at.mark > 0) break;
        const int mark = at.mark;
        int m;
        if ((split.frame.is_homogeneous && at.start.is_origin()) || split.known.meets(before, at)) {
            // All forms vanish here; coinciding forms are found at the other vertices.
            at.mark = 2;
            continue;
        }
        if (mark == 0) {
            m = largest_rival(crowd, w, at.start, split.scale);
            if (m < 0) {
                at.mark = -1;
                continue;
            }
        } else {
            m = next_tie(crowd, w, before, at, split.scale, since);
            if (m < 0) {
                at.mark = since > 0 ? 2 : 1;
                since = 0;
                continue;
            }
        }
        const int rival = crowd.form[m];
        const Line g = difference(split.frame, winner, rival, split.scale);
        if (mark < 0) {
            const int sign = compare(part.area, part.n, g, split.known, counts);
            if (sign == kUndecided) return -1;
            if (sign == 0 && !contribute_alike(split.layer, split.frame, winner, rival)) return -1;
            if (sign == 0 && winner > rival) return 0;
            if (sign >= 0) continue;
        }
        const Wall wall{split.l, split.group, winner - split.first, rival - split.first};
        const Signs found = signs_of(part, g, wall, split.known, counts);
        if (found.n_positive < 0) return -1;
        if (found.n_positive == 0) return 0;
        if (found.n_negative > 0) {
            clip(part, g, wall, true);
            since = 0;
        }
    }
    return name_edges(split, part, w, counts) ? part.n : -1;
}

// Name each new edge of a walked part by the first form that ties with the winner along it, as
// cutting by all forms in turn would. Return false if a sign is undecided. A form other than the
// one that cut the edge has ties at both ends (mark 2).
inline bool Polygons::name_edges(const GroupSplit<Polygons>& split, Part& part, int w,
                                 SignCounts& counts) {
    const int winner = crowd.form[w];
    for (int i = 0; i < part.n; i++) {
        const int next = i + 1 < part.n ? i + 1 : 0;
        Edge &edge = part.area[i], &after = part.area[next];
        if (!edge.is_new || edge.mark != 2 || after.mark != 2) continue;
        const Box& box = box_on(crowd, edge, after);
        for (int p = box.start; p < box.start + box.length; p++) {
            const int m = crowd.listed[p], rival = crowd.form[m];
            if (m == crowd.position[edge.wall.rival]) break;
            if (m == w || !may_tie(crowd, m, w, edge.start, split.scale) ||
                !may_tie(crowd, m, w, after.start, split.scale))
                continue;
            const Line g = difference(split.frame, winner, rival, split.scale);
            const Wall wall{split.l, split.group, winner - split.first, rival - split.first};
            const Signs found = signs_of(part, g, wall, split.known, counts);
            if (found.n_positive < 0) return false;
            // A form that is zero everywhere coincides with this one.
            if (found.n_positive == 0 || signs[i] != 0 || signs[next] != 0) continue;
            edge.line = g;
            edge.wall = wall;
            edge.is_met = after.is_met = false;
            break;
        }
    }
    return true;
}

namespace detail {

// Whether a vertex is too uncertain to be stored.
inline bool is_imprecise(const Vertex& v, double scale) {
    const double size = larger(scale, larger(magnitude(v.x), magnitude(v.y)));
    return !(v.rho <= kStoredRadius * size && v.far_rho <= kStoredRadius);
}

// Compute the vertices as intersections of lines. Return whether all of them are known well enough.
inline bool set_vertices(Edge* polygon, int n, double scale) {
    bool is_precise = true;
    for (int i = 0; i < n; i++) {
        const Edge& before = polygon[i > 0 ? i - 1 : n - 1];
        // A vertex between two sides of the domain is known.
        if (!polygon[i].is_met && (before.wall.layer >= 0 || polygon[i].wall.layer >= 0))
            polygon[i].start = meet(before, polygon[i]);
        is_precise = is_precise && !is_imprecise(polygon[i].start, scale);
    }
    return is_precise;
}

// Replace the lines of a polygon.
template <class Of>
void set_lines(Edge* polygon, int n, const Of& line_of) {
    for (int i = 0; i < n; i++) {
        if (polygon[i].wall.layer >= 0) polygon[i].line = line_of(polygon[i].wall);
        polygon[i].is_met = false;
    }
}

// Recompute the vertices that are not known well enough, with lines from the forms in twice the
// precision, composed only as deep as these lines require.
inline bool set_vertices_anew(Edge* polygon, int n, Path<2>& path, DoubledPath<2>& doubled) {
    const auto next = [n](int i) { return i + 1 < n ? i + 1 : 0; };
    int deepest = -1;
    for (int i = 0; i < n; i++) polygon[i].mark = 0;
    for (int i = 0; i < n; i++) {
        if (!is_imprecise(polygon[next(i)].start, path.scale)) continue;
        for (Edge* edge : {polygon + i, polygon + next(i)}) {
            edge->mark = edge->wall.layer >= 0;
            deepest = most(deepest, edge->wall.layer);
        }
    }
    if (deepest < 0) return false;
    compose_doubled(path, doubled, deepest);
    for (int i = 0; i < n; i++) {
        if (polygon[i].mark == 0) continue;
        polygon[i].line = nearest_form(path, doubled, polygon[i].wall);
        polygon[i].is_met = polygon[next(i)].is_met = false;
    }
    return set_vertices(polygon, n, path.scale);
}

}  // namespace detail

// Replace the lines of a polygon that another search has cut by the lines of the path. The other
// search may have replaced forms, and replaced forms are never stored (see `store_cell`).
inline void renew_lines(Polygons& polygons, const Polygons::Place& place, const Path<2>& path,
                        int layer) {
    if (!path.frames[layer].is_pure) return;
    detail::set_lines(polygons.edges + place.start, place.n,
                      [&](const Wall& wall) { return wall_form(path, wall); });
}

inline bool has_room(const Polygons&, const Polygons::Place& place, const Network&,
                     const Cells& cells) {
    return cells.n_cells < cells.room_cells && cells.n_vertices + place.n <= cells.room_vertices;
}

// Store a cell. Return false if a vertex is too uncertain. With `is_precise`, the vertices of the
// polygon are used as the caller set them.
inline bool store_cell(Polygons& polygons, const Polygons::Place& place, Path<2>& path,
                       Path<2>& pure, DoubledPath<2>& doubled, bool is_precise, Cells& cells) {
    const Network& network = *path.network;
    Edge* polygon = polygons.edges + place.start;
    const int n = place.n;
    Path<2>& fresh = detail::fresh_path(path, pure);
    // If no forms were replaced, the search's lines are the freshly composed ones, and their
    // intersections were found by the same computation.
    if (!is_precise && &fresh != &path)
        detail::set_lines(polygon, n, [&](const Wall& wall) { return wall_form(fresh, wall); });
    if (!is_precise && !detail::set_vertices(polygon, n, path.scale) &&
        !detail::set_vertices_anew(polygon, n, path, doubled))
        return false;
    const std::int64_t cell = detail::store_map(fresh, cells);
    // Start with the edge of least code, so that the result is independent of the order of the
    // cuts.
    int first = 0;
    std::int32_t least_code = wall_code(network, polygon[0].wall);
    for (int i = 1; i < n; i++) {
        const std::int32_t code = wall_code(network, polygon[i].wall);
        if (code < least_code) least_code = code, first = i;
    }
    for (int i = 0, at = first; i < n; i++, at = at + 1 < n ? at + 1 : 0) {
        const std::int64_t v = cells.n_vertices++;
        const Vertex& vertex = polygon[at].start;
        // The sign of a zero depends on which side of a line was cut first; adding 0.0 makes it
        // positive.
        cells.points[2 * v] = vertex.x + 0.0, cells.points[2 * v + 1] = vertex.y + 0.0;
        if (cells.directions)
            cells.directions[2 * v] = vertex.dx + 0.0,
                                 cells.directions[2 * v + 1] = vertex.dy + 0.0;
        cells.walls[v] = wall_code(network, polygon[at].wall);
    }
    cells.ends[cell] = cells.n_vertices;
    return true;
}

// Recompute the lines and vertices of a polygon. Return whether anything became more precise.
inline bool improve_cell(Polygons& polygons, const Polygons::Place& place, const Path<2>& path) {
    Edge* polygon = polygons.edges + place.start;
    bool is_clearer = false;
    for (int i = 0; i < place.n; i++) {
        Edge& edge = polygon[i];
        if (edge.wall.layer < 0) continue;
        const Line line = wall_form(path, edge.wall), old = edge.line;
        if (!(line.slope_radius <= old.slope_radius && line.offset_radius <= old.offset_radius))
            continue;
        edge.line = line;
        is_clearer = is_clearer || 2.0 * line.slope_radius < old.slope_radius ||
                     2.0 * line.offset_radius < old.offset_radius;
    }
    for (int i = 0; i < place.n; i++) {
        const Vertex v = meet(polygon[i > 0 ? i - 1 : place.n - 1], polygon[i]);
        Vertex& old = polygon[i].start;
        if (!(v.rho <= old.rho && v.far_rho <= old.far_rho)) continue;
        is_clearer = is_clearer || 2.0 * v.rho < old.rho || 2.0 * v.far_rho < old.far_rho;
        old = v;
    }
    return is_clearer;
}

}  // namespace hardmax
