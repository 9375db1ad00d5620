// Definitions shared by all kinds of cells: the names of walls, signs, and bounds on the positions
// of vertices.
#pragma once
#include "path.hpp"

namespace hardmax {

// The wall of an edge or facet: the forms `winner` and `rival` of a group of a layer, with the
// winner inside. For a side of the domain, the layer is -1, and the group is the row.
struct Wall {
    int layer, group, winner, rival;
};

struct SignCounts {
    std::int64_t n_filtered = 0, n_expanded = 0;
};

constexpr int kUndecided = 2;

// The signs of a form at all vertices; `n_positive` is -1 if any sign is undecided.
struct Signs {
    int n_positive, n_negative;
};

// Signs of forms at a vertex as bits, set if they are proven: see `units.hpp`.
struct Marks {
    std::uint64_t positive = 0, negative = 0;
};

// Bounds on the coordinates of the vertices, and on their radii.
struct Reach {
    double size = 0.0, rho = 0.0, far_rho = 0.0;
    bool has_far = false;
};

template <class Cell>
Reach reach_of(const Cell& cell) {
    Reach reach;
    double sum = 0.0;
    for (int i = 0; i < cell.n; i++) {
        for (int k = 0; k < Cell::dim; k++) {
            const double size = magnitude(cell.x(i, k));
            reach.size = larger(reach.size, size);
            sum += size;
        }
        reach.rho = larger(reach.rho, cell.rho(i));
        sum += cell.rho(i);
        if (!cell.has_far()) continue;
        reach.far_rho = larger(reach.far_rho, cell.far_rho(i));
        reach.has_far |= cell.is_far(i);
        sum += cell.far_rho(i);
    }
    // Maxima may lose NaN; sums of nonnegative numbers do not.
    if (!(sum < kInfinity)) reach.size = reach.rho = reach.far_rho = kInfinity;
    return reach;
}

// The first unit of a ReLU layer with the same wall as the given unit.
inline int wall_of(const Layer& layer, int unit) {
    const int code = layer.first[unit];
    return code >= 0 ? code : -1 - code;
}

inline double slope_radius(double radius, double scale) {
    // The quotient may underflow, and a radius of 0 would mean that the form is exact.
    return radius / scale + (radius > 0.0 ? kTiny : 0.0);
}

// The score of a ReLU unit.
template <int D>
Form<D> unit_form(const Frame<D>& frame, int unit, double scale) {
    Form<D> form;
    for (int k = 0; k < D; k++) form.a[k] = frame.scores.coefficient[k][unit];
    form.c = frame.scores.coefficient[D][unit];
    const double radius = frame.scores.radius[unit];
    form.slope_radius = slope_radius(radius, scale);
    form.offset_radius = frame.is_homogeneous ? 0.0 : radius;
    return form;
}

// One form minus another.
template <int D>
Form<D> difference(const Frame<D>& frame, int plus, int minus, double scale) {
    const Forms<D>& forms = frame.scores;
    const double radius = forms.radius[plus] + forms.radius[minus];
    Form<D> form;
    // A sum instead of a maximum, so that NaN is preserved.
    double lost = 0.0;
    for (int k = 0; k < D; k++) {
        const Doubled slope = two_sum(forms.coefficient[k][plus], -forms.coefficient[k][minus]);
        form.a[k] = slope.high;
        lost += magnitude(slope.low);
    }
    const Doubled offset = two_sum(forms.coefficient[D][plus], -forms.coefficient[D][minus]);
    form.c = offset.high;
    form.slope_radius = (slope_radius(radius, scale) + lost) * kUp;
    form.offset_radius = frame.is_homogeneous ? 0.0 : (radius + magnitude(offset.low)) * kUp;
    return form;
}

// The form of a wall from the forms on the path.
template <int D>
Form<D> wall_form(const Path<D>& path, const Wall& wall) {
    const Layer& layer = path.network->layers[wall.layer];
    const Frame<D>& frame = path.frames[wall.layer];
    if (layer.is_relu) {
        const Form<D> form = unit_form(frame, wall.group, path.scale);
        return wall.winner == 0 ? opposite(form) : form;
    }
    const int first = layer.starts[wall.group];
    return difference(frame, first + wall.winner, first + wall.rival, path.scale);
}

}  // namespace hardmax
