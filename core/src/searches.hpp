// The loop of the search, a dimension at a time. Each is compiled once, in a source that has few of
// them (search_of_*.cpp), so that a machine with several cores compiles them side by side.
//
//   HM_SEARCH(extern, Kind)   the loop on such cells is elsewhere
//   HM_SEARCH(, Kind)         it is here
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
