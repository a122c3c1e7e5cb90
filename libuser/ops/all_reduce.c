// SPDX-License-Identifier: MIT
/* Sums over processes that run one program: rlx/collective.h. */
#include "ir/eval.h"
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	x[..] -> y[..], alike
 * Dtypes:	f64 f32 i64 i32; y as x
 * Does:	the sum of x over 'ranks' processes that run the same program, each with an x of its
 *		own; all get the same bits. Of one rank it is x. A session that has no communicator
 *		of so many ranks (rlx_session_collective()) fails to run it.
 * Gradient:	dx = all_reduce(dy): of the sum of what all ranks derive
 * Source:	MPI_Allreduce, ncclAllReduce
 */
RLX_OP(all_reduce, "sum over the processes that run this program",
	IN(x)
	DEF(i32, ranks, 1),
	RLX_T_INPLACE | RLX_T_IMPURE)

static enum rlx_status all_reduce_infer(struct rlx_infer *q)
{
	const struct rlx_op_all_reduce *a = q->args;
	enum rlx_dtype dt = q->in[0]->dtype;

	if (a->ranks < 1)
		return op_fail(q, RLX_EINVAL, "ranks is %d; there is one at least", a->ranks);
	if (dt != RLX_F64 && dt != RLX_F32 && dt != RLX_I64 && dt != RLX_I32)
		return op_fail(q, RLX_ETYPE, "%s; sums are of f64, f32, i64 and i32: cast it",
			       rlx_dtype_name(dt));
	return op_infer_same(q);
}

static enum rlx_status all_reduce_eval(struct rlx_eval *q)
{
	const struct rlx_op_all_reduce *a = q->args;
	struct rlx_reduction r = {
		.src = q->in[0].data, .dst = q->out[0].data, .dtype = q->in[0].type.dtype,
		.count = (uint64_t)rlx_type_count(&q->in[0].type),
	};

	if (a->ranks > 1)
		return rlx_collective_reduce(q->collective, a->ranks, &r, q->err);
	memmove(r.dst, r.src, (size_t)rlx_type_bytes(&q->in[0].type));
	return RLX_OK;
}

static enum rlx_status all_reduce_vjp(struct rlx_grad *q)
{
	const struct rlx_op_all_reduce *a = q->args;

	q->d_in[0] = rlx_emit(q->g, all_reduce, .x = q->d_out[0], .ranks = a->ranks);
	return op_done(q->g);
}

static bool all_reduce_sample(unsigned int i, struct rlx_sample *s)
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

const struct rlx_op_impl rlx_op_all_reduce_impl = {
	.infer = all_reduce_infer, .eval = all_reduce_eval, .vjp = all_reduce_vjp,
	.batch = op_batch_front,
};
RLX_SAMPLES(all_reduce, all_reduce_sample)
