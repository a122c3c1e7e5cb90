// SPDX-License-Identifier: MIT
/* The rules of ops that processes run together. */
#include "ops/batch.h"
#include "ops/collective.h"
#include "ops/emit.h"

#define SAME_LAYOUT(name)						\
	_Static_assert(sizeof(struct rlx_op_##name) == sizeof(struct rlx_op_all_reduce) && \
		       offsetof(struct rlx_op_##name, ranks) ==		\
		       offsetof(struct rlx_op_all_reduce, ranks), "laid out alike")
SAME_LAYOUT(reduce_scatter);
SAME_LAYOUT(all_gather);
SAME_LAYOUT(own_part);

enum rlx_status op_collective_infer(struct rlx_infer *q)
{
	int32_t ranks = ((const struct rlx_op_all_reduce *)q->args)->ranks;
	enum rlx_dtype dt = q->in[0]->dtype;
	int64_t *n = q->out[0].dim;

	if (ranks < 1)
		return op_fail(q, RLX_EINVAL, "ranks is %d; there is one at least", ranks);
	if (rlx_op_sums_ranks(q->def) && dt != RLX_F64 && dt != RLX_F32 && dt != RLX_I64 &&
	    dt != RLX_I32)
		return op_fail(q, RLX_ETYPE, "%s; sums are of f64, f32, i64 and i32: cast it",
			       rlx_dtype_name(dt));
	q->out[0] = *q->in[0];
	if (q->def->index == RLX_OP_all_reduce)
		return RLX_OK;
	if (!q->in[0]->rank || (q->def->index == RLX_OP_all_gather ?
	    __builtin_mul_overflow(*n, ranks, n) : *n % ranks))
		return op_fail(q, RLX_ESHAPE, "x has no axis 0 that %d ranks share evenly", ranks);
	if (q->def->index != RLX_OP_all_gather)
		*n /= ranks;
	return RLX_OK;
}

enum rlx_status op_collective_eval(struct rlx_eval *q)
{
	int32_t ranks = ((const struct rlx_op_all_reduce *)q->args)->ranks;
	uint64_t in = (uint64_t)rlx_type_count(&q->in[0].type);
	uint64_t out = (uint64_t)rlx_type_count(&q->out[0].type);
	struct rlx_reduction r = {
		.src = q->in[0].data, .dst = q->out[0].data, .dtype = q->in[0].type.dtype,
		.count = in < out ? in : out,
	};
	size_t bytes = (size_t)rlx_type_bytes(&q->out[0].type), at;

	if (ranks > 1 && rlx_collective_check(q->collective, q->def, ranks, q->err))
		return q->err->status;
	if (ranks > 1 && rlx_op_waits_for_ranks(q->def))
		return rlx_collective_do(q->collective, q->def, &r, q->err);
	at = ranks > 1 ? q->collective->rank * bytes : 0;
	memmove(r.dst, (const char *)r.src + at, bytes);
	return RLX_OK;
}

static rlx_value swap_front(struct rlx_batching *q, rlx_value x)
{
	int64_t perm[RLX_MAX_RANK + 1] = { 1, 0 };
	uint32_t i;

	for (i = 2; i <= q->type->rank; i++)
		perm[i] = i;
	return rlx_emit(q->g, transpose, .x = x, .perm = { perm, q->type->rank + 1 });
}

enum rlx_status op_collective_batch(struct rlx_batching *q)
{
	enum rlx_status st;

	q->to[0] = swap_front(q, q->in[0]).id;
	st = op_batch_emit(q, q->args);
	if (!st)
		q->out[0] = swap_front(q, q->out[0]);
	return st ? st : op_done(q->g);
}

bool op_collective_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_all_reduce *a = s->args;

	if (i > 3)
		return false;
	s->n_in = 1;
	s->in[0] = i == 1 ? rlx_type(RLX_F32, 0, 3) : i == 2 ? rlx_type(RLX_I32, 7) :
		   i == 3 ? rlx_type(RLX_I64, 2, 3) : rlx_type(RLX_F32, 3, 5);
	s->f32_only = true;
	a->ranks = 1;
	return true;
}
