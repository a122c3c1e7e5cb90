/* SPDX-License-Identifier: MIT */
/* Element types, for programs and for kernels, those of GPUs too: nothing but their numbers. */
#ifndef RLX_DTYPE_H
#define RLX_DTYPE_H

/**
 * enum rlx_dtype - element types. The numbers are part of the ABI.
 *
 * Floats are IEEE; bf16 is the upper half of f32; f8e4m3 is OCP E4M3FN (no
 * infinity, largest 448), f8e5m2 is OCP E5M2. What does not fit either becomes its
 * largest number, infinities too, in a cast as in any other op. bool is one byte, 0 or 1.
 * c64 is two f32, real then imaginary. All little-endian in memory.
 */
enum rlx_dtype {
	RLX_NODTYPE	= 0,
	RLX_F64		= 1,
	RLX_F32		= 2,
	RLX_F16		= 3,
	RLX_BF16	= 4,
	RLX_F8E4M3	= 5,
	RLX_F8E5M2	= 6,
	RLX_I64		= 7,
	RLX_I32		= 8,
	RLX_I16		= 9,
	RLX_I8		= 10,
	RLX_U64		= 11,
	RLX_U32		= 12,
	RLX_U16		= 13,
	RLX_U8		= 14,
	RLX_BOOL	= 15,
	RLX_C64		= 16,
	RLX_DTYPE_COUNT,
};

#endif
