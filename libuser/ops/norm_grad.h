/* SPDX-License-Identifier: MIT */
/* What gradients of norms share: inputs 0 to 2 are x, dy and gamma, outputs dx, dgamma, dbeta. */
#ifndef RLX_OPS_NORM_GRAD_H
#define RLX_OPS_NORM_GRAD_H

#include "ops/emit.h"

/* What is asked of x, dy, gamma and @axis; sets the outputs' types and *@out_ax. */
enum rlx_status op_infer_norm_grad(struct rlx_infer *q, int32_t axis, uint32_t *out_ax);

/* The dtype that sums are kept in. */
enum rlx_dtype op_norm_grad_acc(const struct rlx_type *x, const struct rlx_type *dy);

/* For evaluation: bytes of scratch, and the op. @stats: mean, and 1 / deviation. */
typedef void op_norm_stats(const struct rlx_eval *q, int64_t row, int64_t n, double out[2]);
size_t op_norm_grad_scratch(const struct rlx_infer *q, int32_t axis);
void op_norm_grad_eval(struct rlx_eval *q, int32_t axis, bool centred, op_norm_stats *stats);

/* The outputs, of @xh, x as it was normalised, and @inv, both in the dtype of sums. */
void op_norm_grad_expand(struct rlx_expand *q, int32_t axis, bool centred, rlx_value xh,
			 rlx_value inv);

/* Sample @i of x, dy, gamma and @axis; false: there is none. */
bool op_norm_grad_sample(unsigned int i, struct rlx_sample *s, int32_t *axis);

/* Of a norm of x, gamma and beta: the gradients of those two, of the op whose output 0 is @dx. */
void op_norm_grad_params(struct rlx_grad *q, rlx_value dx);

#endif
