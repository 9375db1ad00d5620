// ReLU units on a cell: the units that are on, the units that are off, and the units that split the
// cell.
//
// The signs of open units at a vertex are bits stored with the vertex. The parts of a cell inherit
// its vertices, and only at new vertices of a cut are forms evaluated, for all open units at once.
// Whether a unit splits a part then depends on a few words only. A bit is set only if the filter
// proves the sign; if neither bit is set, `sign_at` decides.
//
// A cell is any type with `n` vertices: coordinates x(i, k), a radius rho(i), and is_far(i); if
// is_far(i), also a direction d(i, k) with radius far_rho(i).
#pragma once
#include "signs.hpp"

namespace hardmax {

namespace detail {

// The factor by which the radius of a form is multiplied to bound its error at a vertex.
template <int D>
double radius_factor(const Reach& reach, double scale) {
    return D * reach.size / scale + 1.0 + D * reach.rho / scale;
}

template <class Cell>
bool is_origin(const Cell& cell, int i) {
    bool is_zero = cell.rho(i) == 0.0 && !cell.is_far(i);
    for (int k = 0; k < Cell::dim; k++) is_zero = is_zero && cell.x(i, k) == 0.0;
    return is_zero;
}

}  // namespace detail

// Find the units of a ReLU layer that are on or off on a whole cell; list the others.
template <class Cell>
void analyse_units(const Layer& layer, Frame<Cell::dim>& frame, double scale, const Cell& cell,
                   SignCounts& counts) {
    constexpr int D = Cell::dim;
    const Forms<D>& forms = frame.scores;
    const Reach reach = reach_of(cell);
    const Lanes factor = all(detail::radius_factor<D>(reach, scale)), rho = all(reach.rho),
                size = all(reach.size);
    const Lanes far = all(kKappa + reach.far_rho),
                far_factor = all(D / scale * (1.0 + reach.far_rho));
    const Lanes kappa = all(kKappa), up = all(kUp), tiny = all(kTiny);
    const bool is_special = reach.has_far || frame.is_homogeneous;
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
                // Such forms have one sign on a cell if they have this sign at all its other
                // vertices. On a line, the origin is an end, and a form that vanishes there ties.
                if (D > 1 && is_special && frame.is_homogeneous && detail::is_origin(cell, v))
                    continue;
                Lanes value = a[0] * all(cell.x(v, 0));
                for (int k = 1; k < D; k++) value += a[k] * all(cell.x(v, k));
                value += c;
                low = value < low ? value : low;
                high = value > high ? value : high;
            }
            // Infinite if a product overflows.
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

// Load the forms of a window of pending units.
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

// The signs of a window's forms, from one of them on, at a point known up to rho. A sign is proven
// if, with the radii r_a and r_c of the form, the absolute value exceeds
//
//     kappa sum |terms| + r_a |x|_1 + r_c + (|a|_1 + D r_a) rho.
template <int D>
Marks marks_at(const Window<D>& window, int from, const double (&x)[D], double rho) {
    double span = magnitude(x[0]);
    for (int k = 1; k < D; k++) span += magnitude(x[k]);
    LaneMask positive, negative;
    for (int i = from & ~(kLanes - 1); i < window.n; i += kLanes) {
        const Lanes c = load(window.coefficient[D] + i),
                    slope_radius = load(window.slope_radius + i);
        Lanes value = all(0.0), sizes = all(0.0), slopes = all(0.0);
        for (int k = 0; k < D; k++) {
            const Lanes a = load(window.coefficient[k] + i), product = a * all(x[k]);
            value = k == 0 ? product : value + product;
            sizes = k == 0 ? absolute(product) : sizes + absolute(product);
            slopes = k == 0 ? absolute(a) : slopes + absolute(a);
        }
        value = value + c;
        Lanes error = all(kKappa) * (sizes + absolute(c)) + slope_radius * all(span) +
                      load(window.offset_radius + i);
        error = (error + (slopes + all(D) * slope_radius) * all(rho)) * all(kUp) + all(kTiny);
        positive.add(value > error, i);
        negative.add(value < -error, i);
    }
    return {positive.bits(), negative.bits()};
}

// The same towards infinity, in a direction known up to rho.
template <int D>
Marks far_marks_at(const Window<D>& window, int from, const double (&d)[D], double rho) {
    LaneMask positive, negative;
    for (int i = from & ~(kLanes - 1); i < window.n; i += kLanes) {
        Lanes value = all(0.0), slopes = all(0.0);
        for (int k = 0; k < D; k++) {
            const Lanes a = load(window.coefficient[k] + i);
            value = k == 0 ? a * all(d[k]) : value + a * all(d[k]);
            slopes = k == 0 ? absolute(a) : slopes + absolute(a);
        }
        const Lanes error =
            (slopes * all(kKappa + rho) + all(D * (1.0 + rho)) * load(window.slope_radius + i)) *
                all(kUp) +
            all(kTiny);
        positive.add(value > error, i);
        negative.add(value < -error, i);
    }
    return {positive.bits(), negative.bits()};
}

}  // namespace hardmax
