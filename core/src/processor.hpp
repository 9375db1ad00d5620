// The instruction sets that the current processor can run.
#ifndef HARDMAX_PROCESSOR_HPP
#define HARDMAX_PROCESSOR_HPP

namespace hardmax {

// Whether every instruction of x86-64-v3 (AVX2, FMA, BMI, ...) can be used, which includes the
// operating system's support for the wide registers. False on other architectures.
bool runs_x86_64_v3();

// Whether the calling thread rounds to nearest and keeps subnormal numbers.
bool float_environment_is_sound();

}  // namespace hardmax

#endif
