#include "searches.hpp"

namespace hardmax {

HM_SEARCH(, Polytopes<6>)
HM_SEARCH(, Polytopes<7>)

}  // namespace hardmax
