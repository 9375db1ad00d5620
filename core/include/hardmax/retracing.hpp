// Recomputing the polygons of stored cells: lines and vertices with radii, from signatures and
// walls.
//
// Cells come in the order of their signatures, so that a layer is composed once for each region of
// the earlier layers. The first cell of a region has its typical winners (see `path.hpp`).
#pragma once
#include "cells.hpp"
#include "polygon.hpp"

namespace hardmax {

struct Retracing {
    Path<2> path;
    DoubledPath<2> doubled;
    Wall* of_form;  // layer and group of each form, counted over all layers
    bool*
        may_differ;  // (n_layers): whether forms with different contributions may coincide with
                     // winners
    Edge* domain;    // the edges of the domain; the edge of row r is at 4 + r
    Edge* polygon;   // (room_edges)
    bool is_begun;
};

namespace detail {

// Whether any form of a group other than the winner may coincide with the winner and have a
// different contribution. A mean is then passed on, which the caller must compute.
inline bool may_differ(const Path<2>& path, int l) {
    const Layer& layer = path.network->layers[l];
    const Frame<2>& frame = path.frames[l];
    if (layer.is_relu || layer.is_plain) return false;
    for (int g = 0; g < layer.n_groups; g++) {
        const int winner = layer.starts[g] + path.signature[layer.first_group + g];
        for (int j = layer.starts[g]; j < layer.starts[g + 1]; j++) {
            if (layer.first[j] == layer.first[winner]) continue;
            const Line line = difference(frame, winner, j, path.scale);
            const bool is_sure = magnitude(line.a[0]) > line.slope_radius ||
                                 magnitude(line.a[1]) > line.slope_radius ||
                                 magnitude(line.c) > line.offset_radius;
            if (!is_sure) return true;
        }
    }
    return false;
}

// The same line with slopes near 1, if products of two slopes might overflow or underflow.
inline Line tame(const Line& line) {
    const double size = larger(magnitude(line.a[0]), magnitude(line.a[1]));
    if (size == 0.0 || !(size < kInfinity) || (size >= 0x1p-200 && size <= 0x1p200)) return line;
    // Two factors, each a power of two in range.
    const int e = -exponent_of(size), half = e / 2;
    const double one = power_of_two(half), other = power_of_two(e - half);
    const auto scaled = [&](double x) { return x * one * other; };
    return {{scaled(line.a[0]), scaled(line.a[1])},
            scaled(line.c),
            scaled(line.slope_radius) * kUp + kTiny,
            scaled(line.offset_radius) * kUp + kTiny};
}

}  // namespace detail

// Go to a cell. The layers that it shares with the previous cell are known.
template <class Winner>
void enter(Retracing& to, const Winner* signature) {
    Path<2>& path = to.path;
    const Network& network = *path.network;
    int known = 0;  // number of layers whose scores are known
    if (to.is_begun) {
        int g = 0;
        while (g < network.n_groups && path.signature[g] == signature[g]) g++;
        if (g == network.n_groups) return;
        while (g >= network.layers[known].first_group + network.layers[known].n_groups) known++;
        known++;
    }
    to.is_begun = true;
    for (int g = 0; g < network.n_groups; g++) path.signature[g] = signature[g];
    for (int l = known > 0 ? known - 1 : 0; l < network.n_layers; l++) {
        const Layer& layer = network.layers[l];
        if (l >= known) {
            if (l > 0) compose_stream(path, l - 1);
            compose_scores(path, l);
            for (int g = 0; g < layer.n_groups; g++)
                path.frames[l].typical[g] =
                    static_cast<std::int8_t>(path.signature[layer.first_group + g]);
        }
        to.may_differ[l] = detail::may_differ(path, l);
        if (to.may_differ[l] && improve_path(path, to.doubled, l))
            to.may_differ[l] = detail::may_differ(path, l);
    }
}

// Whether the cell is certain to agree with its forms: means of the last layer do not affect any
// wall.
inline bool is_certain(const Retracing& at) {
    for (int l = 0; l + 1 < at.path.network->n_layers; l++)
        if (at.may_differ[l]) return false;
    return true;
}

// Read the edges of the cell, given by the codes of their walls (see `wall_code`).
inline void read_walls(Retracing& at, const std::int32_t* codes, int n) {
    for (int i = 0; i < n; i++) {
        Edge& edge = at.polygon[i];
        if (codes[i] < 0) {
            edge = at.domain[-1 - codes[i]];
            edge.line = detail::tame(edge.line);
            continue;
        }
        edge.wall = at.of_form[codes[i]];
        edge.wall.winner =
            at.path
                .signature[at.path.network->layers[edge.wall.layer].first_group + edge.wall.group];
        edge.far_offset = 0.0;
    }
}

inline void place_vertices(Edge* polygon, int n) {
    for (int i = 0; i < n; i++) {
        const Edge& before = polygon[i > 0 ? i - 1 : n - 1];
        // Two sides of the domain meet at a vertex of the domain, which is known.
        if (before.wall.layer >= 0 || polygon[i].wall.layer >= 0)
            polygon[i].start = meet(before, polygon[i]);
    }
}

// Compute the lines of the edges, in floats or in twice the precision, and the vertices.
inline void place_edges(Retracing& at, int n, bool is_doubled) {
    Path<2>& path = at.path;
    if (is_doubled) compose_doubled(path, at.doubled, path.network->n_layers - 1);
    for (int i = 0; i < n; i++) {
        Edge& edge = at.polygon[i];
        if (edge.wall.layer < 0) continue;
        edge.line = detail::tame(is_doubled ? detail::nearest_form(path, at.doubled, edge.wall)
                                            : wall_form(path, edge.wall));
    }
    place_vertices(at.polygon, n);
}

}  // namespace hardmax
