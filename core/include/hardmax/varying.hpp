// The number of forms on which the scores of a layer depend.
//
// On a region, the scores of a layer and all later forms are functions of the forms that the
// earlier winners pass on. If there are fewer of these than dimensions, their slopes do not span
// the whole space, which rounding hides.
#pragma once
#include "path.hpp"

namespace hardmax {

template <int D>
bool may_vary(const Forms<D>& forms, int i) {
    bool varies = forms.radius[i] != 0.0;
    for (int k = 0; k < D; k++) varies = varies || forms.coefficient[k][i] != 0.0;
    return varies;
}

struct Varying {
    int count, group;  // at most the number of dimensions; a group that passes on a score, or -1
};

// Count the forms before a layer that may vary.
template <int D>
Varying count_varying(const Path<D>& path, int l) {
    if (l == 0) return {D, -1};
    const Layer& before = path.network->layers[l - 1];
    const Frame<D>& frame = path.frames[l - 1];
    Varying found{0, -1};
    if (before.residual) {
        for (int j = 0; j < before.dim_out && found.count < D; j++)
            found.count += may_vary(path.frames[l].stream, j);
        return found;
    }
    const double* gains = frame.is_merged ? frame.merged.gains : before.gains;
    const double* gain_radii = frame.is_merged ? frame.merged.gain_radii : before.gain_radii;
    for (int g = 0; g < before.n_groups && found.count < D; g++) {
        // A unit that repeats another adds nothing to the span.
        if (before.is_relu && before.first[g] >= 0 && before.first[g] < g) continue;
        const int winner = path.signature[before.first_group + g];
        int form = before.passed_on(g, winner);
        // Values are constants; a score is passed on only with a gain.
        if (!before.is_relu && gains[form] == 0.0 && gain_radii[form] == 0.0) form = -1;
        if (form >= 0 && may_vary(frame.scores, form)) {
            found.count++;
            found.group = g;
        }
    }
    return found;
}

}  // namespace hardmax
