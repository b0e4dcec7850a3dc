// SPDX-License-Identifier: Apache-2.0
// The constants of the inverse DCT, for the C and its sisters: those of
// libjpeg-turbo src/jidctint.c, with CONST_BITS fraction bits.
#ifndef CPU_RECONSTRUCT_H
#define CPU_RECONSTRUCT_H

enum {
    CONST_BITS = 13,
    PASS1_BITS = 2,
    SHIFT1 = CONST_BITS - PASS1_BITS,      // at the end of pass 1
    SHIFT2 = CONST_BITS + PASS1_BITS + 3,  // and of pass 2
    F_0_298 = 2446,
    F_0_390 = 3196,
    F_0_541 = 4433,
    F_0_765 = 6270,
    F_0_899 = 7373,
    F_1_175 = 9633,
    F_1_501 = 12299,
    F_1_847 = 15137,
    F_1_961 = 16069,
    F_2_053 = 16819,
    F_2_562 = 20995,
    F_3_072 = 25172,
};

#endif
