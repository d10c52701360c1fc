/* The same where fused multiply-adds are worked out. */
#ifdef __x86_64__
#define EMULATE_FUSED
#define SUITE vmathf_emulated
#include "tests/unit/core/kernels/vmathf.c"
#endif
