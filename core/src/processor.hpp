// Which instruction sets the processor at hand can run.
#ifndef HARDMAX_PROCESSOR_HPP
#define HARDMAX_PROCESSOR_HPP

namespace hardmax {

// Whether every instruction of x86-64-v3 (AVX2, FMA, BMI, ...) can be used, the system's support for
// the wide registers included. False on other processors.
bool runs_x86_64_v3();

// Whether the calling thread rounds to nearest and keeps subnormal numbers.
bool float_environment_is_sound();

}  // namespace hardmax

#endif
