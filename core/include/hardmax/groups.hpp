// Who can win in a group of forms on a polygon.
//
// A form is dropped only when one rival exceeds it at every vertex: then it does so everywhere. That
// no vertex is won by a form says nothing, since it can win only inside.
#pragma once
#include "units.hpp"

namespace hardmax {

// One form less another.
inline Line difference(const Frame<2>& frame, const Forms<2>& forms, int plus, int minus,
                       double scale) {
    const double radius = forms.radius[plus] + forms.radius[minus];
    const Doubled d1 = two_sum(forms.coefficient[0][plus], -forms.coefficient[0][minus]);
    const Doubled d2 = two_sum(forms.coefficient[1][plus], -forms.coefficient[1][minus]);
    const Doubled d3 = two_sum(forms.coefficient[2][plus], -forms.coefficient[2][minus]);
    // Sums, not maxima: NaN stays NaN.
    const double slopes =
        (slope_radius(radius, scale) + (magnitude(d1.low) + magnitude(d2.low))) * kUp;
    const double offset = frame.is_homogeneous ? 0.0 : (radius + magnitude(d3.low)) * kUp;
    return {d1.high, d2.high, d3.high, slopes, offset};
}

// Scratch for groups: forms that compete, and bounds on their errors.
struct Contest {
    int* form;          // the forms that compete
    double* error;      // at finite vertices
    double* far_error;  // along directions
};

// Whether one form certainly exceeds another at all vertices where not all forms vanish.
inline bool exceeds(const Forms<2>& forms, int leader, int j, const Edge* polygon, int n,
                    const Pencils& pencils, double error, double far_error) {
    const double d1 = forms.coefficient[0][leader] - forms.coefficient[0][j];
    const double d2 = forms.coefficient[1][leader] - forms.coefficient[1][j];
    const double d3 = forms.coefficient[2][leader] - forms.coefficient[2][j];
    // The differences round; the errors of both forms, kKappa times their sizes, pay for that.
    for (int i = 0; i < n; i++) {
        const Vertex& v = polygon[i].start;
        if (v.is_far()) {
            if (!(d1 * v.dx + d2 * v.dy > far_error * kUp)) return false;
        } else if (!(d1 * v.x + d2 * v.y + d3 > error * kUp)) {
            if (pencils.is_homogeneous && v.is_origin()) continue;
            if (!pencils.meets(polygon[i > 0 ? i - 1 : n - 1], polygon[i])) return false;
        }
    }
    return true;
}

// Keep the competing forms that no single rival exceeds at all vertices; return how many.
//
// Rivals tried are the winners at the middle and at each vertex, as rounded values have it; which
// rivals are tried changes only how much is dropped here.
inline int cull(const Forms<2>& forms, double scale, const Edge* polygon, int n,
                const Pencils& pencils, int count, Contest& contest, SignCounts& counts) {
    const Reach reach = reach_of(polygon, n);
    const double factor = reach.factor(scale);
    double mx = 0.0, my = 0.0;
    for (int i = 0; i < n; i++) {
        mx += polygon[i].start.x / n;
        my += polygon[i].start.y / n;
    }
    for (int m = 0; m < count; m++) {
        const int j = contest.form[m];
        const double slopes =
            magnitude(forms.coefficient[0][j]) + magnitude(forms.coefficient[1][j]);
        const double error = forms.radius[j] * factor + slopes * reach.rho +
                             kKappa * (slopes * reach.size + magnitude(forms.coefficient[2][j]));
        contest.error[m] = error * kUp + kTiny;
        const double far_error = slopes * (kKappa + reach.far_rho) +
                                 2.0 * forms.radius[j] / scale * (1.0 + reach.far_rho);
        contest.far_error[m] = far_error * kUp + kTiny;
    }
    for (int v = -1; v < n && count > 1; v++) {
        double x = mx, y = my;
        if (v >= 0) {
            const Vertex& vertex = polygon[v].start;
            x = vertex.is_far() ? vertex.dx : vertex.x;
            y = vertex.is_far() ? vertex.dy : vertex.y;
        }
        int lead = 0;
        double best = -kBeyond;
        for (int m = 0; m < count; m++) {
            const int j = contest.form[m];
            const double value =
                forms.coefficient[0][j] * x + forms.coefficient[1][j] * y + forms.coefficient[2][j];
            if (value > best) best = value, lead = m;
        }
        const int leader = contest.form[lead];
        const double error = contest.error[lead], far_error = contest.far_error[lead];
        int n_kept = 0;
        for (int m = 0; m < count; m++) {
            const int j = contest.form[m];
            if (j != leader && exceeds(forms, leader, j, polygon, n, pencils,
                                       error + contest.error[m], far_error + contest.far_error[m]))
                continue;
            contest.form[n_kept] = j;
            contest.error[n_kept] = contest.error[m];
            contest.far_error[n_kept++] = contest.far_error[m];
        }
        counts.n_filtered += std::int64_t(n) * (count - n_kept);
        count = n_kept;
    }
    return count;
}

// Note who wins in the middle of a polygon, up to rounding: typical winners on it. A margin keeps
// them the same where the middle lies on a wall.
inline void note_typical(const Layer& layer, Frame<2>& frame, double scale, const Edge* polygon,
                         int n) {
    double x = 0.0, y = 0.0;
    for (int i = 0; i < n; i++) {
        // Towards infinity, a step along the direction.
        x += (polygon[i].start.x + scale * polygon[i].start.dx) / n;
        y += (polygon[i].start.y + scale * polygon[i].start.dy) / n;
    }
    const double *a1 = frame.scores.coefficient[0], *a2 = frame.scores.coefficient[1],
                 *c = frame.scores.coefficient[2];
    const double margin = 0x1p-30 * scale;
    if (layer.is_relu) {
        for (int i = 0; i < layer.n_groups; i++)
            frame.typical[i] =
                a1[i] * x + a2[i] * y + c[i] > margin * (magnitude(a1[i]) + magnitude(a2[i]));
        return;
    }
    for (int g = 0; g < layer.n_groups; g++) {
        const int first = layer.starts[g];
        int best = first;
        for (int j = first + 1; j < layer.starts[g + 1]; j++) {
            const double d1 = a1[j] - a1[best], d2 = a2[j] - a2[best];
            if (d1 * x + d2 * y + (c[j] - c[best]) > margin * (magnitude(d1) + magnitude(d2)))
                best = j;
        }
        frame.typical[g] = static_cast<std::int8_t>(best - first);
    }
}

// Find the groups of a layer that have one winner on a whole polygon; list the others.
inline void analyse_groups(const Layer& layer, Frame<2>& frame, double scale, const Edge* polygon,
                           int n, Contest& contest, SignCounts& counts) {
    Pencils pencils;
    pencils.is_homogeneous = frame.is_homogeneous;
    frame.n_pending = 0;
    for (int g = 0; g < layer.n_groups; g++) {
        const int first = layer.starts[g];
        int count = 0;
        for (int j = first; j < layer.starts[g + 1]; j++)
            if (layer.first[j] == j) contest.form[count++] = j;
        if (count > 1)
            count = cull(frame.scores, scale, polygon, n, pencils, count, contest, counts);
        for (int m = 0; m < count; m++) frame.candidates[first + m] = contest.form[m];
        frame.n_candidates[g] = count;
        frame.fixed[g] = frame.candidates[first] - first;
        if (count > 1) frame.pending[frame.n_pending++] = g;
    }
}

}  // namespace hardmax
