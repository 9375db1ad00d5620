// ReLU units on a cell: which are on, which are off, and which the cell is split by.
//
// The signs of open units at a vertex are bits, kept with the vertex: a cell's parts have its
// vertices, and only where a cut makes a new one are forms evaluated, those of all open units at
// once. Whether a unit splits a part is then a question about a few words. A bit is set only where
// the filter proves the sign; where neither bit is, `sign_at` is asked.
#pragma once
#include "signs.hpp"

namespace hardmax {

// Find the units of a ReLU layer that are on or off on a whole cell; list the others.
template <class Cell>
void analyse_units(const Layer& layer, Frame<Cell::dim>& frame, double scale, const Cell& cell,
                   SignCounts& counts) {
    constexpr int D = Cell::dim;
    const Forms<D>& forms = frame.scores;
    const Reach reach = reach_of(cell);
    const Lanes factor = all(reach.factor<D>(scale)), rho = all(reach.rho), size = all(reach.size);
    const Lanes far = all(kKappa + reach.far_rho),
                far_factor = all(D / scale * (1.0 + reach.far_rho));
    const Lanes kappa = all(kKappa), up = all(kUp), tiny = all(kTiny);
    // On a line the origin is an end, where a form that vanishes ties.
    const bool leaves_origin_out = frame.is_homogeneous && D > 1;
    const bool is_special = reach.has_far || leaves_origin_out;
    int n_pending = 0;
    for (int first = 0; first < layer.n_groups; first += kWindow) {
        const int end = least(first + kWindow, layer.n_groups);
        LaneMask is_on, is_off;
        for (int i = first; i < end; i += kLanes) {
            Lanes a[D];
            for (int k = 0; k < D; k++) a[k] = load(forms.coefficient[k] + i);
            const Lanes c = load(forms.coefficient[D] + i), radius = load(forms.radius + i);
            Lanes slopes = absolute(a[0]);
            for (int k = 1; k < D; k++) slopes += absolute(a[k]);
            Lanes low = all(kBeyond), high = all(-kBeyond);
            for (int v = 0; v < cell.n; v++) {
                if (is_special && cell.is_far(v)) {
                    Lanes value = a[0] * all(cell.d(v, 0));
                    for (int k = 1; k < D; k++) value += a[k] * all(cell.d(v, k));
                    const Lanes error = (slopes * far + far_factor * radius) * up + tiny;
                    low = choose(value > error, low, all(-kBeyond));
                    high = choose(value < -error, high, all(kBeyond));
                    continue;
                }
                // Such forms have one sign on a cell if they have it at all its other vertices.
                if (is_special && leaves_origin_out && is_origin(cell, v)) continue;
                Lanes value = a[0] * all(cell.x(v, 0));
                for (int k = 1; k < D; k++) value += a[k] * all(cell.x(v, k));
                value += c;
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
    counts.n_filtered += std::int64_t(cell.n) * (layer.n_groups - n_pending);
}

// Take the forms of a window of pending units.
template <int D>
void load_window(Frame<D>& frame, int index, double scale) {
    Window<D>& window = frame.window;
    window.index = index;
    window.n = least(frame.n_pending - index * kWindow, kWindow);
    for (int i = 0; i < padded(window.n); i++) {
        const bool is_used = i < window.n;
        const int unit = is_used ? frame.pending[index * kWindow + i] : 0;
        const double radius = is_used ? frame.scores.radius[unit] : 0.0;
        for (int k = 0; k <= D; k++)
            window.coefficient[k][i] = is_used ? frame.scores.coefficient[k][unit] : 0.0;
        window.slope_radius[i] = slope_radius(radius, scale);
        window.offset_radius[i] = frame.is_homogeneous ? 0.0 : radius;
    }
}

template <int D>
Form<D> form_of(const Window<D>& window, int i) {
    Form<D> form;
    for (int k = 0; k < D; k++) form.a[k] = window.coefficient[k][i];
    form.c = window.coefficient[D][i];
    form.slope_radius = window.slope_radius[i], form.offset_radius = window.offset_radius[i];
    return form;
}

// The signs of a window's forms, from one of them on, at a vertex with the given coordinates and
// radius, or, if it is far, along a direction.
template <int D>
Marks marks_of(const Window<D>& window, int from, const double (&x)[D], double rho, bool is_far) {
    double sum = magnitude(x[0]);
    for (int k = 1; k < D; k++) sum += magnitude(x[k]);
    const Lanes radius = all(rho), span = all(sum), far = all(kKappa + rho),
                far_factor = all(D * (1.0 + rho)), dim = all(D);
    LaneMask positive, negative;
    for (int i = from & ~(kLanes - 1); i < window.n; i += kLanes) {
        const Lanes slope_radius = load(window.slope_radius + i);
        const Lanes a = load(window.coefficient[0] + i), p = a * all(x[0]);
        Lanes value = p, sizes = absolute(p), slopes = absolute(a), error;
        for (int k = 1; k < D; k++) {
            const Lanes b = load(window.coefficient[k] + i), q = b * all(x[k]);
            value += q;
            sizes += absolute(q);
            slopes += absolute(b);
        }
        if (is_far) {
            error = slopes * far + far_factor * slope_radius;
        } else {
            const Lanes c = load(window.coefficient[D] + i);
            value = value + c;
            error = all(kKappa) * (sizes + absolute(c)) + slope_radius * span +
                    load(window.offset_radius + i);
            error = error + (slopes + dim * slope_radius) * radius;
        }
        error = error * all(kUp) + all(kTiny);
        positive.add(value > error, i);
        negative.add(value < -error, i);
    }
    return {positive.bits(), negative.bits()};
}

}  // namespace hardmax
