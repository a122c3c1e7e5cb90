// SPDX-License-Identifier: MIT
/* Linear algebra by LAPACK: lapack_type.h for both types that it has. */
#include <string.h>

#include "kernels/cast.h"
#include "kernels/lapack.h"
#include "kernels/simd/transpose.h"

rlx_k_fn RLX_K(lapack);

static inline size_t size_of(const struct rlx_k_lapack *a)
{
	return rlx_k_type_size((enum rlx_dtype)a->l.type);
}

/* By the level that the processor has, as conversions are all that differs by it. */
static void convert(const struct rlx_k_lapack *a, const void *from, uint8_t type, void *to,
		    uint8_t to_type, size_t n)
{
	const struct rlx_k_cast cast = { from, to, (int64_t)n, type, to_type };

	a->cast(&cast, 0, rlx_k_cast_units(&cast), NULL);
}

#define T		float
#define V		vf
#define VN		RLX_VL
#define V_CALL(name)	vf_##name
#define F(name)		name##_f32
#define LAPACK		f32
#define DTYPE		RLX_F32
#define TINY		0x1p-103f
#include "kernels/cpu/lapack_type.h"
#undef T
#undef F
#undef LAPACK
#undef DTYPE
#undef TINY
#undef V
#undef VN
#undef V_CALL

#define T		double
#define V		vd
#define VN		RLX_VLD
#define V_CALL(name)	vd_##name
#define F(name)		name##_f64
#define LAPACK		f64
#define DTYPE		RLX_F64
#define TINY		0x1p-970
#include "kernels/cpu/lapack_type.h"

static void own(const struct rlx_k_lapack *a, size_t u, void *scratch)
{
	struct rlx_k_linalg one = a->l;

	one.team = NULL;
	a->own(&one, u, u + 1, scratch);
}

void RLX_K(lapack)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_lapack *a = args;

	if (a->l.team) {	/* one unit is all */
		begin = 0;
		end = (size_t)a->l.batch;
		scratch = a->l.work;
	}
	a->lapack->enter(a->threads);
	for (; begin < end; begin++) {
		bool done = a->l.type == RLX_F64 ? one_f64(a, begin, scratch) :
						   one_f32(a, begin, scratch);

		if (!done)
			own(a, begin, scratch);
	}
	a->lapack->leave();
}
