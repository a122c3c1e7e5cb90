/* SPDX-License-Identifier: MIT */
/* What fft, rfft and irfft share. */
#ifndef RLX_OPS_FFT_H
#define RLX_OPS_FFT_H

#include "ops/emit.h"
#include "ops/fft_axis.h"

/* Type rules: complex numbers are c64, or floats [.., 2]. */
enum rlx_status op_fft_infer(struct rlx_infer *q);
size_t op_fft_scratch(const struct rlx_infer *q);
enum rlx_status op_fft_eval(struct rlx_eval *q);
void op_fft_cost(const struct rlx_infer *q, struct rlx_cost *c);
/* What rlx_fft_axes() says of the call that @q is the gradient of. */
enum rlx_status op_fft_of(struct rlx_grad *q, struct op_fft *out);
/* The norm by which the adjoint of one is scaled. */
int32_t op_fft_norm_back(int32_t norm);
/* @x along @axis: its first n elements, zeros behind them. */
rlx_value op_fft_fit(struct rlx_graph *g, rlx_value x, uint32_t axis, int64_t n);
/* x times @inner along @axis, but for elements 0 and n / 2 if n is even, and beyond. */
rlx_value op_fft_weigh(struct rlx_graph *g, rlx_value x, uint32_t axis, int64_t n, double inner);
/* The sample of number @i; sets what the three have in common. */
bool op_fft_sample(unsigned int i, struct rlx_sample *s, enum op_fft_kind kind,
		   struct rlx_ints *axes, struct rlx_ints *n, int32_t *norm);

#endif
