// Regions on which all lines of a layer are parallel.
//
// If all forms before a layer except one are constant, the scores of this layer and of all later
// layers are functions of that form, so their lines are parallel. Towards a vertex at infinity on
// one of these lines, or on the line of the form itself, the scores stay bounded and have the sign
// of the remaining part, which floats cannot detect. If all forms before a layer are constant, so
// are all forms after it. Without offsets, all these lines are one.
#pragma once
#include "polygon.hpp"
#include "varying.hpp"

namespace hardmax {

// Find the first layer from which on lines are parallel to the lines of a layer, if there is one.
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

// The statement about parallel lines is valid only where `note_ray` was called. It is not used
// elsewhere, where there is neither a vertex at infinity nor a layer without offsets. If a group is
// given, the statement about the group is included.
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
