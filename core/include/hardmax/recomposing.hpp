// Recomposing the forms of stored cells' facets.
//
// Cells come in the order of their signatures. Each cell shares most layers with the previous one,
// and only layers whose earlier winners have changed are composed. If a mean over coinciding forms
// is passed on, the caller skips the cell.
#pragma once
#include "facets.hpp"
#include "path.hpp"

namespace hardmax {

// Compose the layers that the facets of a cell require; `known` is the last layer whose scores
// follow from the winners on the path, initially -1.
template <int D>
void go_to_cell(Path<D>& path, const FacetTable& t, std::int64_t cell, int& known) {
    const Network& network = *path.network;
    int deepest = 0, valid = 0;
    for (std::int64_t f = t.starts[cell]; f < t.starts[cell + 1]; f++)
        deepest = most(deepest, t.layer(t.group(f)));
    if (known < 0 && network.n_layers > 0) compose_scores(path, known = 0);
    for (; valid < known; valid++) {
        const Layer& layer = network.layers[valid];
        bool agrees = true;
        for (int g = layer.first_group; g < layer.first_group + layer.n_groups; g++)
            agrees = agrees && path.signature[g] == t.winner(cell, g);
        if (!agrees) break;
    }
    for (int l = valid; l < deepest; l++) {
        const Layer& layer = network.layers[l];
        for (int g = layer.first_group; g < layer.first_group + layer.n_groups; g++)
            path.signature[g] = t.winner(cell, g);
        compose_stream(path, l);
        compose_scores(path, l + 1);
    }
    known = most(valid, deepest);
}

// The wall of a facet of a cell.
inline Wall wall_of(const Network& network, const FacetTable& t, std::int64_t cell,
                    std::int64_t facet) {
    const int group = t.group(facet), l = t.layer(group);
    return {l, group - network.layers[l].first_group, t.winner(cell, group), t.rival(facet)};
}

}  // namespace hardmax
