// Affine forms in D variables with radii, and their composition.
//
// Let X >= 1 be the scale of the domain, a power of two that is at least every coordinate. The
// radius e of a form (a, c) means |a_k* - a_k| <= e / X and |c* - c| <= e, where the star denotes
// the form composed exactly. With mu_j = max(X max_k |a_jk|, |c_j|), a composition z_i = sum_j w_ij
// h_j + b_i of n forms has the radius
//
//     e_i = (1 + kappa) (sum_j |w_ij| (e_j + kappa mu_j) + kappa |b_i|) + X T,
//
// where kappa bounds the relative rounding error of a sum (`kappa_of`), and T bounds the total
// underflow in one number; X T / X covers the underflow in a slope ([Higham02], section 3.1, with
// all coefficients measured together). If a stream lies exactly on a grid 2^q Z, the weights lie on
// 2^p Z, and sum_j |w_ij| mu_j + |b_i| <= 2^(53 + g) on the common grid 2^g for all i, then nothing
// is rounded and all radii are 0.
#pragma once
#include "arithmetic.hpp"
#include "network.hpp"

namespace hardmax {

// Forms stored side by side: coefficient k of form i is coefficient[k][i]; the last coefficient is
// the offset.
template <int D>
struct Forms {
    double* coefficient[D + 1];
    double* radius;
};

// One form a_1 x_1 + ... + c, with a radius of each slope and a radius of the offset; without
// radii, it is exact.
template <int D>
struct Form {
    double a[D], c;
    double slope_radius, offset_radius;
    bool is_exact() const { return slope_radius == 0.0 && offset_radius == 0.0; }
};

template <int D>
double value_at(const Form<D>& form, const double* x) {
    double value = form.a[0] * x[0];
    for (int k = 1; k < D; k++) value += form.a[k] * x[k];
    return value + form.c;
}

// The sum of the absolute slopes.
template <int D>
double slopes_of(const Form<D>& form) {
    double slopes = magnitude(form.a[0]);
    for (int k = 1; k < D; k++) slopes += magnitude(form.a[k]);
    return slopes;
}

template <int D>
Form<D> opposite(Form<D> form) {
    for (double& a : form.a) a = -a;
    form.c = -form.c;
    return form;
}

template <int D>
Forms<D> take_forms(Arena& arena, int n) {
    Forms<D> forms;
    for (double*& row : forms.coefficient) row = arena.take<double>(n);
    forms.radius = arena.take<double>(n);
    return forms;
}

// Whether all radii are zero, and a grid that contains every form of radius 0.
struct Exactness {
    bool is_exact = false;
    int grid = 0;
};

// The size of a form, with its slopes multiplied by the scale.
template <int D>
double size_of(const Forms<D>& forms, int i, double scale) {
    double size = magnitude(forms.coefficient[0][i]);
    for (int k = 1; k < D; k++) size = larger(size, magnitude(forms.coefficient[k][i]));
    return larger(scale * size, magnitude(forms.coefficient[D][i]));
}

template <int D>
void copy_forms(const Forms<D>& from, const Forms<D>& to, int n) {
    for (int k = 0; k <= D; k++)
        for (int i = 0; i < n; i++) to.coefficient[k][i] = from.coefficient[k][i];
    for (int i = 0; i < n; i++) to.radius[i] = from.radius[i];
}

// The terms of a composition, gathered: the rows of the weights that multiply them, their
// coefficients, and their shares of the radii.
template <int D>
struct Terms {
    int n = 0;
    int* row;
    double* factor[D + 1];
    double* share;
    int at(int r) const { return r; }
    int row_of(int r) const { return row[r]; }
};

// The same without gathering, for all n forms or for those listed: form i is multiplied by row i.
template <int D>
struct TermsInPlace {
    int n;
    double* const (&factor)[D + 1];
    const double* share;
    int at(int r) const { return r; }
    int row_of(int r) const { return r; }
};
template <int D>
struct ListedTerms {
    int n;
    double* const (&factor)[D + 1];
    const double* share;
    const int* listed;
    int at(int r) const { return listed[r]; }
    int row_of(int r) const { return listed[r]; }
};

template <int D>
Terms<D> take_terms(Arena& arena, int n) {
    Terms<D> terms;
    terms.row = arena.take<int>(n);
    for (double*& factor : terms.factor) factor = arena.take<double>(n);
    terms.share = arena.take<double>(n);
    return terms;
}

namespace detail {

// Sums of products for several forms side by side: their coefficients and radii.
template <int D, int Chunk>
struct Sums {
    Lanes coefficient[D + 1][Chunk], radius[Chunk];

    void read(const Forms<D>& from, int i) {
        for (int c = 0; c < Chunk; c++) {
            for (int k = 0; k <= D; k++)
                coefficient[k][c] = load(from.coefficient[k] + i + c * kLanes);
            radius[c] = load(from.radius + i + c * kLanes);
        }
    }
    void write(const Forms<D>& to, int i) const {
        for (int c = 0; c < Chunk; c++) {
            for (int k = 0; k <= D; k++)
                store(to.coefficient[k] + i + c * kLanes, coefficient[k][c]);
            store(to.radius + i + c * kLanes, radius[c]);
        }
    }
    void start_at(const double* bias) {
        for (int c = 0; c < Chunk; c++) {
            for (int k = 0; k < D; k++) coefficient[k][c] = all(0.0);
            coefficient[D][c] = load(bias + c * kLanes);
            radius[c] = all(0.0);
        }
    }
    // Add sum_r factor[r] weight[row[r]] to the coefficients, and sum_r share[r] |weight[row[r]]| to
    // the radii, in runs of kRun.
    template <class TermsOf>
    void add_products(const TermsOf& terms, const double* weight, int stride) {
        for (int begin = 0; begin < terms.n; begin += kRun) {
            const int end = least(begin + kRun, terms.n);
            Lanes run[D + 1][Chunk], shares[Chunk];
            for (int c = 0; c < Chunk; c++) {
                for (int k = 0; k <= D; k++) run[k][c] = all(0.0);
                shares[c] = all(0.0);
            }
            for (int r = begin; r < end; r++) {
                const double* row = weight + std::size_t(terms.row_of(r)) * stride;
                Lanes factor[D + 1];
                const int at = terms.at(r);
                for (int k = 0; k <= D; k++) factor[k] = all(terms.factor[k][at]);
                const Lanes share = all(terms.share[at]);
                for (int c = 0; c < Chunk; c++) {
                    const Lanes w = load(row + c * kLanes);
                    for (int k = 0; k <= D; k++) run[k][c] += factor[k] * w;
                    shares[c] += share * absolute(w);
                }
            }
            for (int c = 0; c < Chunk; c++) {
                for (int k = 0; k <= D; k++) coefficient[k][c] += run[k][c];
                radius[c] += shares[c];
            }
        }
    }
};

// Call `of(sums, i)` for all forms, several side by side; the call handles the forms from i on.
template <int D, class Of>
void for_all_forms(int stride, const Of& of) {
    // Two lanes at a time share the factors; more lanes would not fit into registers.
    constexpr int chunk = D <= 3 ? 2 : 1;
    int i = 0;
    for (; i + chunk * kLanes <= stride; i += chunk * kLanes) of(Sums<D, chunk>(), i);
    for (; i < stride; i += kLanes) of(Sums<D, 1>(), i);
}

}  // namespace detail

// Add sum_r factor[r] weight[row[r]][i] to each coefficient of form i, and sum_r share[r]
// |weight[row[r]][i]| to its radius. Each sum is evaluated in ascending order in runs of kRun, and
// so are the runs.
template <int D>
void add_products(const Terms<D>& terms, const double* weight, int stride, const Forms<D>& to) {
    detail::for_all_forms<D>(stride, [&](auto sums, int i) {
        sums.read(to, i);
        sums.add_products(terms, weight + i, stride);
        sums.write(to, i);
    });
}

// The method of summation: whether all radii are zero; if so, whether each coefficient is a single
// product by one, that is, a copy (when the terms are the coordinates themselves); and a bound on
// the rounding error of a sum.
struct Summing {
    bool is_exact, is_copy;
    double scale, kappa;

    // The contribution of a form of some size to a radius or, if all forms are exact, to a bound on
    // the sum. At least 2^-900, so that no contribution is lost in a product with a tame weight.
    template <class Number>
    Number share(Number radius, Number size) const {
        return is_exact ? size : radius + kappa * size + 0x1p-900;
    }
};

// The coordinates that forms are equal to, up to sign.
struct CoordinatesSeen {
    unsigned seen = 0;
    // Whether a form is a coordinate that was not seen before.
    template <int D>
    bool is_new(const Forms<D>& h, int j) {
        bool is_new = h.coefficient[D][j] == 0.0;
        for (int k = 0; k < D; k++) {
            const double a = magnitude(h.coefficient[k][j]);
            if (a == 0.0) continue;
            is_new = is_new && a == 1.0 && !(seen >> k & 1u);
            seen |= 1u << k;
        }
        return is_new;
    }
};

// The terms of a composition of n forms, one after the other; zero forms are omitted.
template <int D>
struct Gathering {
    Terms<D>& terms;
    Summing summing;
    CoordinatesSeen coordinates;

    Gathering(Terms<D>& terms, bool is_exact, double scale, int n)
        : terms(terms), summing{is_exact, is_exact, scale, kappa_of(n)} {
        terms.n = 0;
    }

    void add(const Forms<D>& h, int j, int row) {
        const double size = size_of(h, j, summing.scale), radius = h.radius[j];
        if (size == 0.0 && radius == 0.0) return;
        const int r = terms.n++;
        terms.row[r] = row;
        for (int k = 0; k <= D; k++) terms.factor[k][r] = h.coefficient[k][j];
        terms.share[r] = summing.share(radius, size);
        summing.is_copy = summing.is_copy && coordinates.is_new(h, j);
    }
};

// Write the contributions of forms to a radius.
template <int D>
void write_shares(const Forms<D>& h, int n, const Summing& summing, double* share) {
    for (int i = 0; i < n; i += kLanes) {
        Lanes slopes = absolute(load(h.coefficient[0] + i));
        for (int k = 1; k < D; k++) slopes = larger(slopes, absolute(load(h.coefficient[k] + i)));
        const Lanes size = larger(all(summing.scale) * slopes, absolute(load(h.coefficient[D] + i)));
        store(share + i, summing.share(load(h.radius + i), size));
    }
}

template <int D>
bool has_zero_radius(const Forms<D>& forms, int n) {
    for (int i = 0; i < n; i++)
        if (forms.radius[i] == 0.0) return true;
    return false;
}

// Write the forms of h W + b, given the terms of h, which lie on a grid if they are exact.
template <class TermsOf, int D>
Exactness compose_terms(const TermsOf& terms, const Summing& summing, int grid_before,
                          const Affine& map, const Forms<D>& z) {
    const double kappa = summing.kappa, tiny = kTiny * summing.scale;
    const int n_out = map.stride;
    if (!summing.is_exact) {
        const LaneBits always = LaneBits{} - (map.is_tame ? 0 : 1);
        detail::for_all_forms<D>(n_out, [&](auto sums, int i) {
            sums.start_at(map.bias + i);
            sums.add_products(terms, map.weight + i, n_out);
            int c = i;
            for (Lanes& radius : sums.radius) {
                const Lanes share = radius, offset = absolute(load(map.bias + c));
                radius = all(1.0 + kappa) * (share + all(kappa) * offset) + all(tiny);
                radius = choose((share != all(0.0)) | always, radius, all(0.0));
                c += kLanes;
            }
            sums.write(z, i);
        });
        return {false, map.bias_grid};
    }
    detail::for_all_forms<D>(n_out, [&](auto sums, int i) {
        sums.start_at(map.bias + i);
        sums.add_products(terms, map.weight + i, n_out);
        sums.write(z, i);
    });
    if (summing.is_copy) {
        for (int i = 0; i < n_out; i++) z.radius[i] = 0.0;
        return {true, least(map.weight_grid, map.bias_grid)};
    }
    const int grid = least(map.weight_grid + grid_before, map.bias_grid);
    double most = 0.0;
    for (int i = 0; i < n_out; i++)
        most = bound(most, (z.radius[i] + magnitude(map.bias[i])) * (1.0 + 0x1p-30));
    if (grid >= kFinestGrid && most <= power_of_two(least(53 + grid, 1000))) {
        for (int i = 0; i < n_out; i++) z.radius[i] = 0.0;
        return {true, grid};
    }
    const bool is_rounded = !map.is_tame || grid < kFinestGrid;
    for (int i = 0; i < n_out; i++) {
        const double share = z.radius[i];
        const double radius = (1.0 + kappa) * kappa * (share + magnitude(map.bias[i])) + tiny;
        z.radius[i] = share != 0.0 || is_rounded ? radius : 0.0;
    }
    return {false, map.bias_grid};
}

// Write the forms of h W + b.
template <int D>
Exactness compose(const Forms<D>& h, Exactness before, const Affine& map, double scale,
                  Terms<D>& terms, const Forms<D>& z) {
    if (!before.is_exact && !has_zero_radius(h, map.n_in)) {
        const Summing summing{false, false, scale, kappa_of(map.n_in)};
        write_shares(h, map.n_in, summing, terms.share);
        const TermsInPlace<D> all_terms{map.n_in, h.coefficient, terms.share};
        return compose_terms(all_terms, summing, before.grid, map, z);
    }
    Gathering<D> gathered(terms, before.is_exact, scale, map.n_in);
    for (int j = 0; j < map.n_in; j++) gathered.add(h, j, j);
    return compose_terms(terms, gathered.summing, before.grid, map, z);
}

}  // namespace hardmax
