/* SPDX-License-Identifier: MIT */
/* What quantising ops share: where scales and zero points lie. */
#ifndef RLX_OPS_QUANT_H
#define RLX_OPS_QUANT_H

#include "ops/emit.h"

/* Of 8-bit integers? */
static inline bool op_quant_bytes(const struct rlx_type *t)
{
	return t->dtype == RLX_U8 || t->dtype == RLX_I8;
}

/* u8 i8 u16 i16 i32 f8e4m3 f8e5m2 */
bool op_quant_dtype(enum rlx_dtype dt);
/*
 * Scale (input 1) and zero point (input 2) fit input 0: one element for the
 * tensor; a vector along @axis; or, with @block > 0, x's shape with dim @axis
 * divided by @block, rounded up.
 */
enum rlx_status op_quant_infer(struct rlx_infer *q, int32_t axis, int64_t block);
/* Which element of the scale belongs to element @i of @x. */
int64_t op_quant_at(const struct rlx_type *x, const struct rlx_type *scale,
		    int32_t axis, int64_t block, int64_t i);
/* Cases 0..8 that quantize and dequantize share. */
bool op_quant_sample(unsigned int i, struct rlx_sample *s, int32_t *axis,
		     int64_t *block, enum rlx_dtype *to);

/* One element, or a vector of @n: scales of rows, columns or channels. */
enum rlx_status op_quant_vector(struct rlx_infer *q, uint32_t k, const char *what,
				int64_t n);
/* Element @i of such an input; @absent if it was not given. */
double op_quant_get(const struct rlx_tensor *t, int64_t i, double absent);

/* What an i32 accumulator holds of @sum, as kernels add up products of bytes and a bias. */
static inline double op_quant_sum(int64_t sum)
{
	return (double)(int32_t)(uint32_t)(uint64_t)sum;
}

/*
 * The output rule of qmatmul and qconv; inputs from @first on are x_scale, x_zp,
 * w_scale, w_zp, y_scale, y_zp.
 */
enum rlx_status op_requant_infer(struct rlx_infer *q, uint32_t first);

/*
 * What ops of quantized operands expand into. Input @v, one number or a vector along dimension
 * @axis of a tensor of @rank dimensions, as @dt and in a shape that broadcasts over it; none
 * for none.
 */
rlx_value op_quant_along(struct rlx_graph *g, rlx_value v, uint32_t axis, uint32_t rank,
			 enum rlx_dtype dt);
/* A scale or zero point as op_quant_infer() has them, in a shape that broadcasts over @x. */
rlx_value op_quant_spread(struct rlx_graph *g, rlx_value v, const struct rlx_type *x,
			  int32_t axis, int64_t block);
/* @x - @zp, which is along @axis, as doubles: products of these are exact. */
rlx_value op_quant_exact(struct rlx_graph *g, rlx_value x, rlx_value zp, uint32_t axis);
/* round(@x / @scale) + @zp in @dt. */
rlx_value op_quant_narrow(struct rlx_graph *g, rlx_value x, rlx_value scale, rlx_value zp,
			  enum rlx_dtype dt);

/* Of fake quantizers: the largest integer of so many bits with a sign, none of which is -2^n. */
double op_fake_most(int32_t bits);
/* @s as a step, at least 1e-12. */
rlx_value op_fake_step(struct rlx_graph *g, rlx_value s);
/* clamp(round(@x / step), -most, most) step, which broadcasts over @x; NaN is the lower end. */
rlx_value op_fake_round(struct rlx_graph *g, rlx_value x, rlx_value step, int32_t bits);

#endif
