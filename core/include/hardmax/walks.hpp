// Splitting by large groups of forms, by walking from one winner to the next.
//
// The part of a polygon where form w wins is found from the polygon itself. At a vertex where some
// form exceeds w, the polygon is cut by such a form; otherwise the vertex stays. When all vertices
// stay, w is the largest form at each of them, hence everywhere between them, and the polygon is
// the part. No other comparison is needed. The parts are connected through their edges, so all
// parts can be found from one of them by examining the forms that tie with w along its edges.
//
// The forms that can be the largest at a vertex are read from trees of boxes: one tree around the
// polygon and, for an unbounded polygon, one for each side of the square of directions. A box lists
// forms. A form is omitted only if a listed form, or a form that is itself exceeded in this way,
// exceeds it on the whole box by more than all errors. A part with k edges then costs about 3 k
// evaluations of short lists, independently of the number of forms. Errors are bounded per box, and
// a list that is hardly shorter than the list of the enclosing box is not stored again. Hence a
// polygon that is much wider than the parts costs only a few more levels.
//
// If all differences of the forms vanish in one point, the centre, boxes around it would never have
// short lists. But then a difference has one sign along each ray from the centre. Hence the forms
// are looked up by direction, in the trees of directions, and no other boxes are made. At the
// centre, and so near to it that rounding hides the direction, all forms are compared.
#pragma once
#include "groups.hpp"
#include "rays.hpp"

namespace hardmax {

constexpr int kWalkFrom = 24;  // measured: below this, clipping by all forms is faster
constexpr int kNodesPerForm = 2, kListedPerForm = 80;
constexpr int kTriedPerForm = 600;  // maximum average number of tests per form for building the
                                    // lists
constexpr int kFarSides = 4;

struct Box {
    double x, y, half_width, half_height;
    double rho;         // the largest radius of a vertex for which the list is valid
    int child;          // the first child, or -1
    int start, length;  // of the box's list
    bool is_far;        // whether this is a box of directions
};

// A point where all differences of a group's forms vanish, known up to a radius; the radius is
// negative if there is no such point.
struct Centre {
    double x, y, rho;
    bool is_there() const { return rho >= 0.0; }
};

// The competing forms of one group, stored side by side, and the boxes around the polygon.
struct Crowd {
    int count;
    Centre centre;
    Forms<2> forms;
    int* form;      // the index of each form
    int* position;  // the inverse: from forms of the group to positions
    int* queue;     // positions, in the order of processing
    std::int8_t* is_queued;
    double *x, *y;                   // a point in the part of each form, or NaN
    double slopes, offsets, radius;  // bounds on |a_1| + |a_2|, |c| and the radii
    Box*
        boxes;  // all forms; around the polygon; the sides x = -1, x = 1, y = -1, y = 1 at infinity
    int* listed;
    int room_boxes, room_listed;
};

inline Crowd take_crowd(const Network& network, Arena& arena) {
    const int n = network.largest_group >= kWalkFrom ? network.largest_group : 0;
    Crowd crowd{};
    crowd.forms = take_forms<2>(arena, n);
    crowd.form = arena.take<int>(n);
    crowd.position = arena.take<int>(n);
    crowd.queue = arena.take<int>(n);
    crowd.is_queued = arena.take<std::int8_t>(n);
    crowd.x = arena.take<double>(n);
    crowd.y = arena.take<double>(n);
    crowd.room_boxes = 2 + kFarSides + kNodesPerForm * n;
    crowd.room_listed = kListedPerForm * n;
    crowd.boxes = arena.take<Box>(crowd.room_boxes);
    crowd.listed = arena.take<int>(crowd.room_listed);
    return crowd;
}

// Copy the competing forms side by side, and bound their sizes.
inline void gather_crowd(Crowd& crowd, const Forms<2>& forms, const int* candidates, int count,
                         int first) {
    crowd.count = count;
    crowd.slopes = crowd.offsets = crowd.radius = 0.0;
    for (int m = 0; m < count; m++) {
        const int j = candidates[m];
        crowd.form[m] = j;
        crowd.position[j - first] = m;
        crowd.is_queued[m] = 0;
        crowd.x[m] = __builtin_nan("");
        for (int k = 0; k < 3; k++) crowd.forms.coefficient[k][m] = forms.coefficient[k][j];
        crowd.forms.radius[m] = forms.radius[j];
        const double slope =
            magnitude(forms.coefficient[0][j]) + magnitude(forms.coefficient[1][j]);
        crowd.slopes = bound(crowd.slopes, slope);
        crowd.offsets = bound(crowd.offsets, magnitude(forms.coefficient[2][j]));
        crowd.radius = bound(crowd.radius, forms.radius[j]);
    }
}

// The point where all differences of the forms vanish, if such a point is known to exist.
//
// If all differences are combinations of two affine functions, and two differences have slopes that
// are not parallel, then both functions vanish where these two differences vanish, and so do all
// other differences.
inline Centre centre_of(const Crowd& crowd, const Frame<2>& frame, const Pencils& known,
                        double scale) {
    if (frame.is_homogeneous) return {0.0, 0.0, 0.0};
    if (known.pencil < 0 && known.pencil_group < 0) return {0.0, 0.0, -1.0};
    // Three forms whose slopes span a large triangle.
    const double *a1 = crowd.forms.coefficient[0], *a2 = crowd.forms.coefficient[1];
    int second = 0, third = 0;
    double most = 0.0;
    for (int m = 1; m < crowd.count; m++) {
        const double distance = magnitude(a1[m] - a1[0]) + magnitude(a2[m] - a2[0]);
        if (distance > most) most = distance, second = m;
    }
    const double b1 = a1[second] - a1[0], b2 = a2[second] - a2[0];
    most = 0.0;
    for (int m = 1; m < crowd.count; m++) {
        const double area = magnitude(b1 * (a2[m] - a2[0]) - b2 * (a1[m] - a1[0]));
        if (area > most) most = area, third = m;
    }
    Edge one{}, other{};
    one.line = difference(frame, crowd.form[second], crowd.form[0], scale);
    other.line = difference(frame, crowd.form[third], crowd.form[0], scale);
    const Vertex v = meet(one, other);
    return {v.x, v.y, v.rho};
}

namespace detail {

// List the forms of a list that no form leading at the middle or at a corner exceeds on a box of
// points or directions.
inline int shortened(const Crowd& crowd, int source, int length, int to, const Box& box,
                     double error) {
    const double *a1 = crowd.forms.coefficient[0], *a2 = crowd.forms.coefficient[1],
                 *c = crowd.forms.coefficient[2];
    const double one = box.is_far ? 0.0 : 1.0;
    for (int corner = 0; corner < 5; corner++) {
        const double px = corner == 0       ? box.x
                          : corner % 2 == 1 ? box.x - box.half_width
                                            : box.x + box.half_width;
        const double py = corner == 0   ? box.y
                          : corner <= 2 ? box.y - box.half_height
                                        : box.y + box.half_height;
        int leader = crowd.listed[source];
        double best = -kBeyond;
        for (int p = source; p < source + length; p++) {
            const int m = crowd.listed[p];
            const double value = a1[m] * px + a2[m] * py + one * c[m];
            if (value > best) best = value, leader = m;
        }
        int kept = 0;
        for (int p = source; p < source + length; p++) {
            const int m = crowd.listed[p];
            const double d1 = a1[leader] - a1[m], d2 = a2[leader] - a2[m], d3 = c[leader] - c[m];
            const double gap = d1 * box.x + d2 * box.y + one * d3 -
                               (magnitude(d1) * box.half_width + magnitude(d2) * box.half_height);
            if (!(gap > error)) crowd.listed[to + kept++] = m;
        }
        source = to, length = kept;
    }
    return length;
}

constexpr double kBlur =
    0x1p-30;  // a vertex with a larger relative radius is not looked up

inline double size_of(const Box& box) {
    return larger(magnitude(box.x) + box.half_width, magnitude(box.y) + box.half_height);
}

// Bound the error of a difference of two forms anywhere in a box, or at a vertex that may lie next
// to it.
inline double error_in(const Crowd& crowd, const Box& box, double scale) {
    const double slope_radius = 2.0 * crowd.radius / scale;
    if (box.is_far) {
        const double error =
            crowd.slopes * (8.0 * kKappa + 2.0 * box.rho) + 2.0 * slope_radius * (1.0 + box.rho);
        return error * kUp + kTiny;
    }
    const double size = size_of(box);
    double error = 8.0 * kKappa * (crowd.slopes * size + crowd.offsets);
    error += 4.0 * (slope_radius * size + crowd.radius);
    error += 2.0 * (crowd.slopes + slope_radius) * box.rho;
    return error * kUp + kTiny;
}

// The box around the finite vertices of a polygon or, if the polygon is unbounded, around the
// relevant area; its radius is negative if there is no such box.
inline Box box_around(const Crowd& crowd, const Edge* polygon, int n, bool& is_far) {
    double x0 = kBeyond, y0 = kBeyond, x1 = -kBeyond, y1 = -kBeyond;
    Box box = {0.0, 0.0, 0.0, 0.0, -1.0, -1, 0, crowd.count, false};
    is_far = false;
    for (int i = 0; i < n; i++) {
        const Vertex& v = polygon[i].start;
        is_far = is_far || v.is_far();
        if (v.is_far()) continue;
        if (!(v.rho < kBeyond)) return box;
        x0 = v.x - v.rho < x0 ? v.x - v.rho : x0, x1 = larger(x1, v.x + v.rho);
        y0 = v.y - v.rho < y0 ? v.y - v.rho : y0, y1 = larger(y1, v.y + v.rho);
    }
    if (is_far) {
        // Vertices lie where differences of offsets are proportional to differences of slopes.
        double reach = crowd.slopes > 0.0 ? crowd.offsets / crowd.slopes : 0.0;
        if (x0 <= x1)
            for (double x : {x0, y0, x1, y1}) reach = larger(reach, magnitude(x));
        x1 = y1 = 0x1p20 * reach;
        x0 = y0 = -x1;
    }
    const double size =
        larger(larger(magnitude(x0), magnitude(x1)), larger(magnitude(y0), magnitude(y1)));
    if (!(crowd.slopes * size + crowd.offsets + crowd.radius < 1e300)) return box;
    // Larger than the rounding error of the middle and than the error of halving the smallest
    // numbers.
    const double rim = 0x1p-45 * size + kTiny;
    box.x = 0.5 * x0 + 0.5 * x1, box.half_width = 0.5 * x1 - 0.5 * x0 + rim;
    box.y = 0.5 * y0 + 0.5 * y1, box.half_height = 0.5 * y1 - 0.5 * y0 + rim;
    box.rho = kBlur * size;
    return box;
}

}  // namespace detail

// Build the trees of boxes.
inline void plant(Crowd& crowd, const Edge* polygon, int n, double scale) {
    constexpr int short_list = 8;
    for (int m = 0; m < crowd.count; m++) crowd.listed[m] = m;
    bool is_far;
    crowd.boxes[0] = {0.0, 0.0, 0.0, 0.0, kInfinity, -1, 0, crowd.count, false};
    crowd.boxes[1] = detail::box_around(crowd, polygon, n, is_far);
    // A centre that is not known precisely enough for the size of the polygon is useless.
    Centre& centre = crowd.centre;
    const double half = larger(crowd.boxes[1].half_width, crowd.boxes[1].half_height);
    if (!(centre.rho <= 0x1p-10 * detail::kBlur * half)) centre.rho = -1.0;
    if (centre.is_there()) crowd.boxes[1].rho = -1.0;
    is_far = (is_far || centre.is_there()) && crowd.slopes + crowd.radius / scale < 1e300;
    constexpr double thin = 0x1p-40;
    for (int side = 0; side < kFarSides; side++) {
        Box& box = crowd.boxes[2 + side];
        box = {0.0, 0.0, 1.0 + thin,  1.0 + thin, is_far ? detail::kBlur : -1.0,
               -1,  0,   crowd.count, true};
        (side < 2 ? box.x : box.y) = side % 2 == 0 ? -1.0 : 1.0;
        (side < 2 ? box.half_width : box.half_height) = thin;
    }
    int n_boxes = 2 + kFarSides, used = crowd.count;
    int64_t tried = 0;
    const double least_half = 0x1p-40 * detail::size_of(crowd.boxes[1]);
    // Process long lists first, so that the available capacity is used where many forms are large.
    for (int longest = crowd.count / 2; longest >= short_list; longest /= 2) {
        for (int i = 1; i < n_boxes; i++) {
            const Box parent = crowd.boxes[i];
            if (parent.child >= 0 || parent.length <= longest || parent.rho < 0.0) continue;
            const bool far = parent.is_far;
            const int n_children = far ? 2 : 4;
            const int64_t trying = int64_t{n_children} * parent.length;
            if (n_boxes + n_children > crowd.room_boxes || used + trying > crowd.room_listed ||
                tried + trying > int64_t{kTriedPerForm} * crowd.count)
                continue;
            if (!(larger(parent.half_width, parent.half_height) > (far ? thin : least_half)))
                continue;
            tried += trying;
            crowd.boxes[i].child = n_boxes;
            const double rim = 0x1p-45 * detail::size_of(parent) + kTiny;
            for (int q = 0; q < n_children; q++) {
                Box& child = crowd.boxes[n_boxes + q];
                child = parent;
                if (!far || parent.half_width > thin) {
                    child.x += (q % 2 == 1 ? 0.5 : -0.5) * parent.half_width;
                    child.half_width = 0.5 * parent.half_width + rim;
                }
                if (!far || parent.half_height > thin) {
                    child.y += ((far ? q == 1 : q >= 2) ? 0.5 : -0.5) * parent.half_height;
                    child.half_height = 0.5 * parent.half_height + rim;
                }
                if (!far) child.rho = detail::kBlur * detail::size_of(child);
                const double error = detail::error_in(crowd, child, scale);
                const int length =
                    detail::shortened(crowd, parent.start, parent.length, used, child, error);
                if (4 * length > 3 * parent.length) continue;
                child.start = used, child.length = length;
                used += length;
            }
            n_boxes += n_children;
        }
    }
}

// The smallest box of a tree around a point or direction, known up to a radius, whose list is valid
// for it; the first of all boxes, with all forms, if there is no such box.
inline const Box& box_of(const Crowd& crowd, double x, double y, double rho, bool is_far) {
    if (!is_far && crowd.centre.is_there()) {
        // The direction (x, y) / size from the centre. The difference and the quotient are each
        // rounded by u, and the quotient may underflow.
        x -= crowd.centre.x, y -= crowd.centre.y, rho += crowd.centre.rho;
        const double size = larger(magnitude(x), magnitude(y));
        if (!(size > 0.0 && size < kBeyond)) return crowd.boxes[0];
        x /= size, y /= size, rho = rho / size * kUp + (4.0 * kU + kTiny);
        is_far = true;
    }
    const int root = !is_far                       ? 1
                     : magnitude(x) > magnitude(y) ? (x < 0.0 ? 2 : 3)
                                                   : (y < 0.0 ? 4 : 5);
    const Box* box = crowd.boxes + root;
    if (!(rho <= box->rho && magnitude(x - box->x) <= box->half_width &&
          magnitude(y - box->y) <= box->half_height))
        return crowd.boxes[0];
    while (box->child >= 0) {
        const int right = x >= box->x, upper = y >= box->y;
        const Box* child = crowd.boxes + box->child +
                           (root == 1  ? right + 2 * upper
                            : root < 4 ? upper
                                       : right);
        if (!(rho <= child->rho)) break;
        box = child;
    }
    return *box;
}

// The box whose list contains all forms that may be the largest at a vertex.
inline const Box& box_at(const Crowd& crowd, const Vertex& v) {
    return v.is_far() ? box_of(crowd, v.dx, v.dy, v.far_rho, true)
                      : box_of(crowd, v.x, v.y, v.rho, false);
}

// A box whose list contains all forms that may be the largest along an edge: they are in the lists
// of both ends.
inline const Box& box_on(const Crowd& crowd, const Edge& edge, const Edge& after) {
    const Box &one = box_at(crowd, edge.start), &other = box_at(crowd, after.start);
    return one.length <= other.length ? one : other;
}

// The position of the form that leads at a point inside, up to rounding. The point is the mean of
// the vertices with weights 1 to n, since many forms may tie in the middle of a symmetric polygon.
// Towards infinity, a step is taken along the direction.
inline int largest_inside(Crowd& crowd, const Edge* polygon, int n, double scale) {
    double x = 0.0, y = 0.0, best = -kBeyond;
    for (int i = 0; i < n; i++) {
        const Vertex& v = polygon[i].start;
        const double weight = 2.0 * (i + 1) / (double(n) * (n + 1));
        x += weight * (v.x + scale * v.dx);
        y += weight * (v.y + scale * v.dy);
    }
    int leader = 0;
    for (int m = 0; m < crowd.count; m++) {
        const double value = crowd.forms.coefficient[0][m] * x + crowd.forms.coefficient[1][m] * y +
                             crowd.forms.coefficient[2][m];
        if (value > best) best = value, leader = m;
    }
    crowd.x[leader] = x, crowd.y[leader] = y;
    return leader;
}

// Bound the error of a computed difference of two forms at a vertex.
inline double blur_at(const Crowd& crowd, const Vertex& v, double scale) {
    if (v.is_far()) {
        const double error = crowd.slopes * (4.0 * kKappa + v.far_rho) +
                             2.0 * crowd.radius / scale * (1.0 + v.far_rho);
        return 2.0 * error * kUp + kTiny;
    }
    const double size = larger(magnitude(v.x), magnitude(v.y));
    const double error = 4.0 * kKappa * (crowd.slopes * size + crowd.offsets) +
                         crowd.radius * (2.0 * size / scale + 1.0) +
                         (crowd.slopes + 2.0 * crowd.radius / scale) * v.rho;
    return 2.0 * error * kUp + kTiny;
}

// One form minus another at a vertex, or along its direction.
inline double gap_at(const Crowd& crowd, int plus, int minus, const Vertex& v) {
    const double* const* coefficient = crowd.forms.coefficient;
    const double d1 = coefficient[0][plus] - coefficient[0][minus];
    const double d2 = coefficient[1][plus] - coefficient[1][minus];
    if (v.is_far()) return d1 * v.dx + d2 * v.dy;
    return d1 * v.x + d2 * v.y + (coefficient[2][plus] - coefficient[2][minus]);
}

// Whether a form may be at least as large as form w at a vertex; the comparison treats NaN as a
// tie.
inline bool may_tie(const Crowd& crowd, int m, int w, const Vertex& v, double scale) {
    return !(gap_at(crowd, m, w, v) < -blur_at(crowd, v, scale));
}

// A form that certainly exceeds form w at a vertex, or -1 if the largest form does not.
//
// Among such forms, the function looks for the first one on the way from a point of the part to the
// vertex, because it cuts off most. The point need not be exact, since the returned form exceeds w
// at the vertex in any case.
inline int largest_rival(const Crowd& crowd, int w, const Vertex& v, double scale) {
    const double blur = blur_at(crowd, v, scale);
    const double *a1 = crowd.forms.coefficient[0], *a2 = crowd.forms.coefficient[1],
                 *c = crowd.forms.coefficient[2];
    const Box* box = &box_at(crowd, v);
    // From the point p of the part towards the vertex: p + share (step).
    const double step_x = v.is_far() ? v.dx : v.x - crowd.x[w];
    const double step_y = v.is_far() ? v.dy : v.y - crowd.y[w];
    double x = v.x, y = v.y, share = v.is_far() ? kInfinity : 1.0;
    int rival = -1;
    while (true) {
        double best = blur;
        int found = -1;
        for (int p = box->start; p < box->start + box->length; p++) {
            const int m = crowd.listed[p];
            const double gap = share == kInfinity
                                   ? gap_at(crowd, m, w, v)
                                   : (a1[m] - a1[w]) * x + (a2[m] - a2[w]) * y + (c[m] - c[w]);
            if (gap > best) best = gap, found = m;
        }
        if (found < 0 || (rival >= 0 && !(gap_at(crowd, found, w, v) > blur))) return rival;
        const double at_point =
            (a1[found] - a1[w]) * crowd.x[w] + (a2[found] - a2[w]) * crowd.y[w] + (c[found] - c[w]);
        if (!(at_point < 0.0)) return found;
        // The point where this form ties: another form that exceeds w even there ties earlier.
        // Rounding errors can make a form appear to do so; therefore the way is only ever
        // shortened, which guarantees termination.
        const double gap = gap_at(crowd, found, w, v);
        const double tie = v.is_far() ? at_point / -gap : at_point / (at_point - gap);
        if (!(tie < share)) return rival >= 0 ? rival : found;
        rival = found;
        share = tie;
        x = crowd.x[w] + share * step_x;
        y = crowd.y[w] + share * step_y;
        box = &box_of(crowd, x, y, 0.0, false);
    }
}

// A form that may tie with form w at the start of an edge, from position `since` of its list on, or
// -1 if there is none; the two forms that name the edges at this vertex are skipped.
inline int next_tie(const Crowd& crowd, int w, const Edge& before, const Edge& at, double scale,
                    int& since) {
    const Box& box = box_at(crowd, at.start);
    const double blur = blur_at(crowd, at.start, scale);
    const int one = before.is_new ? crowd.position[before.wall.rival] : -1;
    const int other = at.is_new ? crowd.position[at.wall.rival] : -1;
    for (int p = since; p < box.length; p++) {
        const int m = crowd.listed[box.start + p];
        // This comparison treats NaN as a tie.
        if (m == w || m == one || m == other || gap_at(crowd, m, w, at.start) < -blur) continue;
        since = p + 1;
        return m;
    }
    return -1;
}

// The relation of a form to the polygon, given that it is proven nonnegative at the vertices
// already done: 1 if it is negative nowhere, 0 if it vanishes everywhere, -1 if it is negative at
// some vertex, and kUndecided.
inline int compare(const Edge* polygon, int n, const Line& g, const Pencils& pencils,
                   SignCounts& counts) {
    bool is_positive = false;
    for (int done = 0; done < 2; done++) {
        for (int i = 0; i < n; i++) {
            if ((polygon[i].mark > 0) != (done == 1) || (done == 1 && is_positive)) continue;
            const int sign =
                sign_at(polygon[i > 0 ? i - 1 : n - 1], polygon[i], g, pencils, counts);
            if (sign == kUndecided || sign < 0) return sign;
            is_positive = is_positive || sign > 0;
        }
    }
    return is_positive ? 1 : 0;
}

// Queue the forms that may win across the new edges of a part. Return the length of the queue.
//
// A form that ties with w along an edge ties at both its ends. So if an end has no ties except
// those that name its edges (mark 1), the form that names the edge is the only candidate;
// otherwise, all forms that tie at both ends are queued.
inline int push_neighbours(Crowd& crowd, int w, const Edge* part, int n, int n_queued,
                           double scale) {
    for (int i = 0; i < n; i++) {
        const Edge &edge = part[i], &after = part[i + 1 < n ? i + 1 : 0];
        if (!edge.is_new) continue;
        // The middle of the edge is a point of the part on the other side; edges with infinite ends
        // have none.
        const bool is_far = edge.start.is_far() || after.start.is_far();
        const double x = is_far ? __builtin_nan("") : 0.5 * edge.start.x + 0.5 * after.start.x;
        const double y = 0.5 * edge.start.y + 0.5 * after.start.y;
        const auto push = [&](int m) {
            if (crowd.is_queued[m]) return;
            crowd.is_queued[m] = 1;
            crowd.queue[n_queued++] = m;
            crowd.x[m] = x, crowd.y[m] = y;
        };
        if (edge.mark == 1 || after.mark == 1) {
            push(crowd.position[edge.wall.rival]);
            continue;
        }
        const Box& box = box_on(crowd, edge, after);
        const double here = blur_at(crowd, edge.start, scale),
                     there = blur_at(crowd, after.start, scale);
        for (int p = box.start; p < box.start + box.length; p++) {
            const int m = crowd.listed[p];
            if (gap_at(crowd, m, w, edge.start) < -here ||
                gap_at(crowd, m, w, after.start) < -there)
                continue;
            push(m);
        }
    }
    return n_queued;
}

}  // namespace hardmax
