/* SPDX-License-Identifier: MIT */
/* A custom op that tests register: y = a x + b of f32 or f64, with a gradient and a kernel. */
#ifndef SELFTESTS_CUSTOM_AXPB_H
#define SELFTESTS_CUSTOM_AXPB_H

#include "rlx/custom.h"
#include "selftests/lib/rlx_test.h"

struct axpb { double a, b; };

static inline enum rlx_status axpb_infer(const struct rlx_custom_call *c, const struct rlx_type *in,
					 struct rlx_type *out)
{
	if (c->attr_bytes != sizeof(struct axpb))
		return rlx_fail(c->err, RLX_EINVAL, "attributes have %zu bytes", c->attr_bytes);
	if (in[0].dtype != RLX_F32 && in[0].dtype != RLX_F64)
		return rlx_fail(c->err, RLX_ETYPE, "x is %s, f32 or f64 is needed",
				rlx_dtype_name(in[0].dtype));
	out[0] = in[0];
	return RLX_OK;
}

static inline enum rlx_status axpb_eval(const struct rlx_custom_call *c,
					const struct rlx_tensor *in, const struct rlx_tensor *out,
					void *scratch)
{
	const struct axpb *p = c->attrs;
	int64_t n = rlx_type_count(&in[0].type), i;

	(void)scratch;
	for (i = 0; i < n; i++)
		if (in[0].type.dtype == RLX_F64)
			((double *)out[0].data)[i] = p->a * ((const double *)in[0].data)[i] + p->b;
		else
			((float *)out[0].data)[i] =
				(float)(p->a * (double)((const float *)in[0].data)[i] + p->b);
	return RLX_OK;
}

static inline enum rlx_status axpb_vjp(const struct rlx_custom_call *c, struct rlx_graph *g,
				       const rlx_value *in, const rlx_value *out,
				       const rlx_value *d_out, rlx_value *d_in)
{
	const struct axpb *p = c->attrs;
	enum rlx_dtype dt = rlx_type_of(g, in[0])->dtype;

	(void)out;
	d_in[0] = rlx_emit(g, mul, .a = d_out[0], .b = rlx_scalar_const(g, dt, p->a));
	return RLX_OK;
}

static const char axpb_text[] =
	"__device__ void axpb(const void *const *in, void *const *out, const long long *param)\n"
	"{\n"
	"	long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
	"	double k[2];\n"
	"	for (int j = 0; j < 2; j++) {\n"
	"		union { long long u; double d; } v;\n"
	"		v.u = param[1 + j];\n"
	"		k[j] = v.d;\n"
	"	}\n"
	"	if (i < param[0])\n"
	"		((float *)out[0])[i] = (float)(k[0] * ((const float *)in[0])[i] + k[1]);\n"
	"}\n";

static inline enum rlx_status axpb_launch(const struct rlx_custom_call *c,
					  const struct rlx_type *in, const struct rlx_type *out,
					  struct rlx_custom_launch *l)
{
	(void)out;
	if (in[0].dtype != RLX_F32)
		return rlx_fail(c->err, RLX_ENOSUP, "the kernel is for f32");
	l->param[0] = rlx_type_count(&in[0]);
	memcpy(&l->param[1], c->attrs, c->attr_bytes);
	l->block[0] = 128;
	l->grid[0] = (uint32_t)((l->param[0] + 127) / 128);
	return RLX_OK;
}

static const struct rlx_custom_kernel axpb_kernel[2] = {
	{ "cuda", axpb_text, "axpb", axpb_launch }, { "rocm", axpb_text, "axpb", axpb_launch },
};

#define AXPB(n)								\
	{ .size = sizeof(struct rlx_custom_op), .name = n, .n_in = 1, .n_out = 1,	\
	  .infer = axpb_infer, .eval = axpb_eval, .vjp = axpb_vjp,	\
	  .kernel = axpb_kernel, .n_kernel = 2 }

static inline void axpb_register(const char *name)
{
	struct rlx_custom_op op = AXPB(name);
	struct rlx_error err = { 0 };

	CHECKF(!rlx_custom_register(&op, &err), "%s", err.text);
}

#endif
