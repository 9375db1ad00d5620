// The loop of the search, compiled once per dimension. The sources search_of_*.cpp contain a few
// dimensions each, so that several cores can compile them in parallel.
//
//   HM_SEARCH(extern, Kind)   declares the loop for this kind of cells
//   HM_SEARCH(, Kind)         defines it here
#pragma once
#include "hardmax/polygons.hpp"
#include "hardmax/polytopes.hpp"
#include "hardmax/search.hpp"

#define HM_SEARCH(where, Kind)                                                      \
    where template int run(Search<Kind>&, Cells&, std::int64_t limit, std::int64_t, \
                           const std::int32_t* is_wanted,                           \
                           const std::int32_t* is_stopped);                         \
    where template bool detail::improve(Search<Kind>&);                             \
    where template void compose_scores(Path<Search<Kind>::dim>&, int layer);        \
    where template void compose_stream(Path<Search<Kind>::dim>&, int layer);
