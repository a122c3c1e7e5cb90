/* SPDX-License-Identifier: MIT */
/*
 * The CPU kernel ABI. A kernel is a pure function over packed arguments and a
 * range of work units; who runs which range on which thread is the caller's
 * business. Kernels allocate nothing, take no lock, know no graph or plan.
 *
 * Each family (gemm, conv, norm ...) has a header kernels/<family>.h with its
 * argument struct, the meaning of one work unit, and the bytes of scratch a
 * thread needs. Every kernels/cpu/<file>.c is compiled once per ISA level, or at
 * the base level alone (KERNEL_BASE in kernels/build.mk);
 * RLX_K(name) gives the symbol of this level. kernels/cpu/kernels.def lists
 * what exists; kernels/cpu/table.c builds one table per level from it.
 */
#ifndef RLX_KERNEL_H
#define RLX_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * enum rlx_isa - levels in rising order; a level includes the lower ones.
 * @RLX_ISA_BASE: portable C (also aarch64); 16-byte vectors
 * @RLX_ISA_V3:   x86-64-v3: AVX2, FMA, F16C; 32-byte vectors
 * @RLX_ISA_V4:   x86-64-v4: AVX-512 F, BW, CD, DQ, VL; 64-byte vectors
 * @RLX_ISA_V4_VNNI: v4 with VNNI, dot products of bytes
 * @RLX_ISA_V4X:  v4_vnni with BF16 dot products
 * @RLX_ISA_V4_AMX: v4x with AMX tiles of bf16 and bytes; a thread's tiles are
 *		configured and released within one kernel call
 */
enum rlx_isa {
	RLX_ISA_BASE,
	RLX_ISA_V3,
	RLX_ISA_V4,
	RLX_ISA_V4_VNNI,
	RLX_ISA_V4X,
	RLX_ISA_V4_AMX,
	RLX_ISA_COUNT,
};

/* Bytes of a level's vectors. */
static inline size_t rlx_isa_vector_bytes(enum rlx_isa isa)
{
	return isa >= RLX_ISA_V4 ? 64 : isa == RLX_ISA_V3 ? 32 : 16;
}

/*
 * Compute units [begin, end) of the work described by @args, using @scratch
 * (64-byte aligned, private to this thread for the call, as large as the
 * family's header says; NULL where it says 0). Units are independent: any split
 * over threads gives the same bits.
 */
typedef void rlx_k_fn(const void *args, size_t begin, size_t end, void *scratch);

#define RLX_K_CAT_(a, b)	a##__##b
#define RLX_K_CAT(a, b)		RLX_K_CAT_(a, b)
/* RLX_K(gemm_f32) is rlx_k_gemm_f32__v4 when built at level v4 */
#define RLX_K(name)		RLX_K_CAT(rlx_k_##name, RLX_ISA)

/*
 * struct rlx_kernels - one member per row of kernels.def; NULL where a level
 * does not have the kernel and no lower level has it either.
 */
#ifndef __cplusplus	/* GPU kernels want the argument structs alone */
struct rlx_kernels {
#define KERNEL(name, base, v3, v4, v4_vnni, v4x, v4_amx)	rlx_k_fn *name;
#include "kernels/cpu/kernels.def"
#undef KERNEL
};

/* A row of kernels.def by name, for callers that have a table of their own. */
enum rlx_kernel_id {
#define KERNEL(name, base, v3, v4, v4_vnni, v4x, v4_amx)	RLX_KERNEL_##name,
#include "kernels/cpu/kernels.def"
#undef KERNEL
	RLX_KERNEL_COUNT,
};

/* The table for a level: each member is the best kernel at or below it. */
const struct rlx_kernels *rlx_kernels_get(enum rlx_isa isa);
#endif

#endif
