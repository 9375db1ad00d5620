// ReLU units on a polygon: which are on, which are off, and which the polygon is split by.
//
// The signs of open units at a vertex are bits, kept with the vertex: a polygon's parts have its
// vertices, and only where a cut makes a new one are forms evaluated, those of all open units at
// once. Whether a unit splits a part is then a question about a few words. A bit is set only where
// the filter proves the sign; where neither bit is, `sign_at` is asked.
#pragma once
#include "rays.hpp"

namespace hardmax {

// Bounds on the coordinates of the vertices, and on their radii.
struct Reach {
    double size = 0.0, rho = 0.0, far_rho = 0.0;
    bool has_far = false;
    // What a radius is multiplied by to bound the error of a form at a vertex.
    double factor(double scale) const { return 2.0 * size / scale + 1.0 + 2.0 * rho / scale; }
};

inline Reach reach_of(const Edge* polygon, int n) {
    Reach reach;
    double sum = 0.0;
    for (int i = 0; i < n; i++) {
        const Vertex& v = polygon[i].start;
        const double size = larger(magnitude(v.x), magnitude(v.y));
        reach.size = larger(reach.size, size);
        reach.rho = larger(reach.rho, v.rho);
        reach.far_rho = larger(reach.far_rho, v.far_rho);
        reach.has_far |= v.is_far();
        sum += magnitude(v.x) + magnitude(v.y) + v.rho + v.far_rho;
    }
    // Maxima may forget what is not a number, sums of what is not negative do not.
    if (!(sum < kInfinity)) reach.size = reach.rho = reach.far_rho = kInfinity;
    return reach;
}

inline double slope_radius(double radius, double scale) {
    // The quotient may underflow, and a radius of 0 would say that the form is exact.
    return radius / scale + (radius > 0.0 ? kTiny : 0.0);
}

// The score of a ReLU unit.
inline Line unit_line(const Frame<2>& frame, int unit, double scale) {
    const Forms<2>& forms = frame.scores;
    const double radius = forms.radius[unit];
    return {forms.coefficient[0][unit], forms.coefficient[1][unit], forms.coefficient[2][unit],
            slope_radius(radius, scale), frame.is_homogeneous ? 0.0 : radius};
}

// Find the units of a ReLU layer that are on or off on a whole polygon; list the others.
inline void analyse_units(const Layer& layer, Frame<2>& frame, double scale, const Edge* polygon,
                          int n, SignCounts& counts) {
    const Forms<2>& forms = frame.scores;
    const Reach reach = reach_of(polygon, n);
    const Lanes factor = all(reach.factor(scale)), rho = all(reach.rho), size = all(reach.size);
    const Lanes far = all(kKappa + reach.far_rho),
                far_factor = all(2.0 / scale * (1.0 + reach.far_rho));
    const Lanes kappa = all(kKappa), up = all(kUp), tiny = all(kTiny);
    const bool is_special = reach.has_far || frame.is_homogeneous;
    int n_pending = 0;
    for (int first = 0; first < layer.n_groups; first += kWindow) {
        const int end = least(first + kWindow, layer.n_groups);
        LaneMask is_on, is_off;
        for (int i = first; i < end; i += kLanes) {
            const Lanes a1 = load(forms.coefficient[0] + i), a2 = load(forms.coefficient[1] + i);
            const Lanes c = load(forms.coefficient[2] + i), radius = load(forms.radius + i);
            const Lanes slopes = absolute(a1) + absolute(a2);
            Lanes low = all(kBeyond), high = all(-kBeyond);
            for (const Edge* edge = polygon; edge < polygon + n; edge++) {
                const Vertex& vertex = edge->start;
                if (is_special && vertex.is_far()) {
                    const Lanes value = a1 * all(vertex.dx) + a2 * all(vertex.dy);
                    const Lanes error = (slopes * far + far_factor * radius) * up + tiny;
                    low = choose(value > error, low, all(-kBeyond));
                    high = choose(value < -error, high, all(kBeyond));
                    continue;
                }
                // Such forms have one sign on a polygon if they have it at all its other vertices.
                if (is_special && frame.is_homogeneous && vertex.is_origin()) continue;
                const Lanes value = a1 * all(vertex.x) + a2 * all(vertex.y) + c;
                low = value < low ? value : low;
                high = value > high ? value : high;
            }
            // Infinite where a product overflows.
            const Lanes error =
                (radius * factor + slopes * rho + kappa * (slopes * size + absolute(c))) * up +
                tiny;
            is_on.add(low > error, i - first);
            is_off.add(high < -error, i - first);
        }
        const std::uint64_t on = is_on.bits(), used = low_bits(end - first);
        frame.on[first / kWindow] = on & used;
        for (std::uint64_t open = ~(on | is_off.bits()) & used; open != 0; open &= open - 1)
            frame.pending[n_pending++] = first + __builtin_ctzll(open);
    }
    frame.n_pending = n_pending;
    frame.window.index = -1;
    counts.n_filtered += std::int64_t(n) * (layer.n_groups - n_pending);
}

// Take the forms of a window of pending units.
inline void load_window(Frame<2>& frame, int index, double scale) {
    Window<2>& window = frame.window;
    window.index = index;
    window.n = least(frame.n_pending - index * kWindow, kWindow);
    for (int i = 0; i < padded(window.n); i++) {
        const bool is_used = i < window.n;
        const int unit = is_used ? frame.pending[index * kWindow + i] : 0;
        const double radius = is_used ? frame.scores.radius[unit] : 0.0;
        for (int k = 0; k < 3; k++)
            window.coefficient[k][i] = is_used ? frame.scores.coefficient[k][unit] : 0.0;
        window.slope_radius[i] = slope_radius(radius, scale);
        window.offset_radius[i] = frame.is_homogeneous ? 0.0 : radius;
    }
}

inline Line line_of(const Window<2>& window, int i) {
    return {window.coefficient[0][i], window.coefficient[1][i], window.coefficient[2][i],
            window.slope_radius[i], window.offset_radius[i]};
}

// Note the signs of a window's forms at a vertex, from one of them on: `filtered_sign` for each.
inline void mark_signs(const Window<2>& window, int from, Vertex& v) {
    const bool is_far = v.is_far();
    const double x = is_far ? v.dx : v.x, y = is_far ? v.dy : v.y;
    const Lanes rho = all(v.rho), span = all(magnitude(x) + magnitude(y)),
                far = all(kKappa + v.far_rho), far_factor = all(2.0 * (1.0 + v.far_rho));
    LaneMask positive, negative;
    for (int i = from & ~(kLanes - 1); i < window.n; i += kLanes) {
        const Lanes a1 = load(window.coefficient[0] + i), a2 = load(window.coefficient[1] + i);
        const Lanes slope_radius = load(window.slope_radius + i);
        const Lanes p1 = a1 * all(x), p2 = a2 * all(y), slopes = absolute(a1) + absolute(a2);
        Lanes value = p1 + p2, error;
        if (is_far) {
            error = slopes * far + far_factor * slope_radius;
        } else {
            const Lanes c = load(window.coefficient[2] + i);
            value = value + c;
            error = all(kKappa) * (absolute(p1) + absolute(p2) + absolute(c)) +
                    slope_radius * span + load(window.offset_radius + i);
            error = error + (slopes + all(2.0) * slope_radius) * rho;
        }
        error = error * all(kUp) + all(kTiny);
        positive.add(value > error, i);
        negative.add(value < -error, i);
    }
    v.positive = positive.bits(), v.negative = negative.bits();
}

}  // namespace hardmax
