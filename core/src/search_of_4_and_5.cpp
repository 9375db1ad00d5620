#include "searches.hpp"

namespace hardmax {

HM_SEARCH(, Polytopes<4>)
HM_SEARCH(, Polytopes<5>)

}  // namespace hardmax
