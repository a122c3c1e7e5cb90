/* SPDX-License-Identifier: MIT */
/*
 * What kernels use of <stdint.h>, <stddef.h> and <stdbool.h>, for compilers that
 * come without them; given to those under the three names.
 */
#ifndef RLX_G_STD_H
#define RLX_G_STD_H

#ifdef __HIPCC_RTC__	/* it has these already, of another type of their size */
#define int64_t		rlx_g_i64
#define uint64_t	rlx_g_u64
#endif

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef unsigned long size_t;
typedef unsigned long uintptr_t;

#define INT8_MIN	(-128)
#define INT8_MAX	127
#define INT16_MIN	(-32768)
#define INT16_MAX	32767
#define INT32_MIN	(-2147483647 - 1)
#define INT32_MAX	2147483647
#define INT64_MIN	(-9223372036854775807L - 1)
#define INT64_MAX	9223372036854775807L
#define UINT8_MAX	255
#define UINT16_MAX	65535
#define UINT32_MAX	4294967295u
#define UINT64_MAX	18446744073709551615ul
#ifndef NULL
#define NULL		0
#endif

#endif
