#include "searches.hpp"

namespace hardmax {

HM_SEARCH(, Polytopes<1>)
HM_SEARCH(, Polygons)
HM_SEARCH(, Polytopes<3>)

}  // namespace hardmax
