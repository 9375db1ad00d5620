// Regions on which all lines of a layer are parallel.
//
// Where all forms before a layer but one are constant, its scores, and those of all layers after it,
// are functions of that form: their lines are parallel. So towards a vertex at infinity on one of
// these lines, or on the line of the form itself, they are bounded, and have the sign of what is
// left; which floats cannot see. Where all forms before a layer are constant, so are all after it.
// Without offsets all these lines are one.
#pragma once
#include "polygon.hpp"
#include "varying.hpp"

namespace hardmax {

// Find out from which layer on, if at all, lines are parallel to those of a layer.
inline void note_ray(Path<2>& path, int l) {
    Frame<2>& frame = path.frames[l];
    frame.ray_layer = l > 0 ? path.frames[l - 1].ray_layer : kNoRay;
    frame.ray_unit_layer = l > 0 ? path.frames[l - 1].ray_unit_layer : -1;
    frame.ray_unit = l > 0 ? path.frames[l - 1].ray_unit : -1;
    if (frame.ray_layer == kEveryRay) return;
    const Varying varying = count_varying(path, l);
    if (varying.count == 0) {
        frame.ray_layer = kEveryRay;
    } else if (varying.count == 1 && frame.ray_layer == kNoRay) {
        frame.ray_layer = l;
        if (varying.group >= 0 && path.network->layers[l - 1].is_relu) {
            frame.ray_unit_layer = l - 1;
            frame.ray_unit = wall_of(path.network->layers[l - 1], varying.group);
        }
    }
}

// What is said about parallel lines holds where `note_ray` was called; nobody asks elsewhere, where
// there is neither a vertex at infinity nor a layer without offsets. Of a group, if one is given, what
// is known about it as well.
inline Pencils pencils_of(const Path<2>& path, int l, int group = -1) {
    const Layer& layer = path.network->layers[l];
    const Frame<2>& frame = path.frames[l];
    Pencils pencils;
    if (layer.has_no_offsets && layer.dim_in <= 2)
        pencils.pencil = l, pencils.pencil_rank = layer.dim_in;
    if (group >= 0 && layer.n_different[group] <= 2) {
        pencils.pencil_group_layer = l, pencils.pencil_group = group;
        pencils.pencil_group_rank = layer.n_different[group];
    }
    pencils.ray_layer = frame.ray_layer;
    pencils.ray_unit_layer = frame.ray_unit_layer, pencils.ray_unit = frame.ray_unit;
    pencils.is_homogeneous = frame.is_homogeneous;
    return pencils;
}

}  // namespace hardmax
