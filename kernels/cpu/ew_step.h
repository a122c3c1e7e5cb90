/* SPDX-License-Identifier: MIT */
/* What ew.c and the step tables ew_f32.c, ew_f64.c and ew_int.c share. */
#ifndef RLX_CPU_EW_STEP_H
#define RLX_CPU_EW_STEP_H

#include "kernels/cpu/convert.h"
#include "kernels/kernel.h"
#include "kernels/ew.h"
#include "kernels/simd/vec.h"

/* An operand: vector k is at p + k * inc; inc is RLX_VB, or 0 for a splat. */
struct rlx_ew_src {
	const char	*p;
	size_t		inc;
};

/*
 * One step over nv vectors; dst may be one of the sources. type: what a cast is to; other
 * steps get the class.
 */
typedef void rlx_ew_step_fn(char *dst, const struct rlx_ew_src *src, size_t nv,
			    int type);

/* By op; NULL where the class lacks it. */
extern rlx_ew_step_fn *const RLX_K(ew_f32_steps)[RLX_EW_OP_COUNT];
extern rlx_ew_step_fn *const RLX_K(ew_f64_steps)[RLX_EW_OP_COUNT];
extern rlx_ew_step_fn *const RLX_K(ew_int_steps)[RLX_EW_OP_COUNT];

/* Bodies: V is a vector type with unaligned view U; x, y, z the operands. */
#define RLX_EW_UN(name, V, U, expr)					\
static void name(char *d, const struct rlx_ew_src *s, size_t nv, int type) \
{									\
	const char *p = s[0].p;						\
									\
	for (size_t k = 0; k < nv; k++) {				\
		const V x = *(const U *)p;				\
									\
		*(U *)(d + k * RLX_VB) = (expr);			\
		p += s[0].inc;						\
	}								\
}

#define RLX_EW_BIN(name, V, U, expr)					\
static void name(char *d, const struct rlx_ew_src *s, size_t nv, int type) \
{									\
	const char *p = s[0].p, *q = s[1].p;				\
	const size_t pi = s[0].inc, qi = s[1].inc;			\
									\
	for (size_t k = 0; k < nv; k++) {				\
		const V x = *(const U *)p, y = *(const U *)q;		\
									\
		*(U *)(d + k * RLX_VB) = (expr);			\
		p += pi;						\
		q += qi;						\
	}								\
}

#define RLX_EW_TER(name, V, U, expr)					\
static void name(char *d, const struct rlx_ew_src *s, size_t nv, int type) \
{									\
	const char *p = s[0].p, *q = s[1].p, *r = s[2].p;		\
	const size_t pi = s[0].inc, qi = s[1].inc, ri = s[2].inc;	\
									\
	for (size_t k = 0; k < nv; k++) {				\
		const V x = *(const U *)p, y = *(const U *)q;		\
		const V z = *(const U *)r;				\
									\
		*(U *)(d + k * RLX_VB) = (expr);			\
		p += pi;						\
		q += qi;						\
		r += ri;						\
	}								\
}

/*
 * Lane by lane, for what has no vector form: x, y are scalars of type E. A call for
 * each lane, not one after another: that were a third of these files.
 */
#ifdef __clang__
#define RLX_EW_EACH	_Pragma("clang loop unroll(disable)")
#else
#define RLX_EW_EACH	_Pragma("GCC unroll 1")
#endif

#define RLX_EW_LANES1(name, E, expr)					\
static void name(char *d, const struct rlx_ew_src *s, size_t nv, int type) \
{									\
	for (size_t k = 0; k < nv; k++) {				\
		E t[RLX_VB / sizeof(E)];				\
									\
		memcpy(t, s[0].p + k * s[0].inc, RLX_VB);		\
		RLX_EW_EACH						\
		for (size_t l = 0; l < RLX_VB / sizeof(E); l++) {	\
			const E x = t[l];				\
									\
			t[l] = (expr);					\
		}							\
		memcpy(d + k * RLX_VB, t, RLX_VB);			\
	}								\
}

#define RLX_EW_LANES2(name, E, expr)					\
static void name(char *d, const struct rlx_ew_src *s, size_t nv, int type) \
{									\
	for (size_t k = 0; k < nv; k++) {				\
		E t[RLX_VB / sizeof(E)], u[RLX_VB / sizeof(E)];		\
									\
		memcpy(t, s[0].p + k * s[0].inc, RLX_VB);		\
		memcpy(u, s[1].p + k * s[1].inc, RLX_VB);		\
		RLX_EW_EACH						\
		for (size_t l = 0; l < RLX_VB / sizeof(E); l++) {	\
			const E x = t[l], y = u[l];			\
									\
			t[l] = (expr);					\
		}							\
		memcpy(d + k * RLX_VB, t, RLX_VB);			\
	}								\
}

/* Through memory of the type that a cast is to; E is the class's. */
#define RLX_EW_CAST(name, cls, E)					\
static void name(char *d, const struct rlx_ew_src *s, size_t nv, int type) \
{									\
	const size_t lanes = RLX_VB / sizeof(E);			\
	rlx_convert_fn *store = RLX_K(storer)(cls, type);		\
	rlx_convert_fn *load = RLX_K(loader)(cls, type);		\
	E v[RLX_VB / sizeof(E)];					\
	uint64_t raw[RLX_VB / sizeof(E)];				\
									\
	for (size_t k = 0; k < nv; k++) {				\
		memcpy(v, s[0].p + k * s[0].inc, RLX_VB);		\
		store(raw, v, lanes);					\
		load(v, raw, lanes);					\
		memcpy(d + k * RLX_VB, v, RLX_VB);			\
	}								\
}

#endif
