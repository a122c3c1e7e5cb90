// SPDX-License-Identifier: MIT
/* The interpreter of elementwise programs. */
#include "kernels/cpu/convert.h"
#include "kernels/cpu/ew_gather.h"
#include "kernels/cpu/ew_step.h"
#ifdef RLX_V512		/* from vec.h */
#include "kernels/cpu/ew_bytes.h"
#endif

rlx_k_fn RLX_K(ew), RLX_K(ew_parts);

/* operands: inputs, then steps; an immediate takes its step's splat */
#define SLOTS	(RLX_EW_MAX_IN + RLX_EW_MAX_STEP)

struct state {
	const struct rlx_k_ew	*a;
	rlx_ew_step_fn *const	*ops;
	size_t			lane;		/* bytes of a register lane */
	char			*regs, *ins;	/* blocks in scratch */
	char			*raw;		/* gathered, not yet converted */
	struct rlx_ew_src	slot[SLOTS];
	rlx_convert_fn		*load[RLX_EW_MAX_IN];
	struct rlx_ew_gather	gather[RLX_EW_MAX_IN];	/* of those that are */
	int64_t			pos[RLX_K_DIMS];	/* where a row's block starts */
	const char		*end[RLX_EW_MAX_IN];	/* nothing is read in place from here on */
	const char		*one[RLX_EW_MAX_IN];	/* what a splat is of */
	char			splat[SLOTS][RLX_VB]
				__attribute__((aligned(RLX_VB)));
};

static bool in_class(const struct state *st, int type)
{
	const size_t lane = st->lane;
	int cls = st->a->cls;

	if (cls == RLX_EW_F32)
		return type == RLX_F32;
	if (cls == RLX_EW_F64)
		return type == RLX_F64;
	return type != RLX_BOOL && rlx_k_type_size((enum rlx_dtype)type) == lane &&
	       !rlx_k_type_float((enum rlx_dtype)type);
}

/* As one store: lane by lane it would not be there yet for the step that loads it. */
static void fill(char *dst, const void *one, size_t lane)
{
	uint64_t v = 0;

	memcpy(&v, one, lane);
	for (; lane < sizeof(v); lane *= 2)
		v |= v << 8 * lane;
	vd_storeu(dst, (vd)((vul){ 0 } + v));
}

static void splat_imm(struct state *st, int s)
{
	const struct rlx_k_ew_step *step = &st->a->step[s];
	float f = (float)step->imm.f;
	char *to = st->splat[RLX_EW_MAX_IN + s];

	if (st->a->cls == RLX_EW_F32)
		fill(to, &f, 4);
	else
		fill(to, &step->imm, st->lane);	/* of integers the low bytes */
}

/* Behind the last element of an input that is walked by strides, or in order. */
static const char *end_of(const struct rlx_k_ew *a, const struct rlx_k_ew_in *in)
{
	int64_t last = a->total - 1;

	for (int d = 0; in->kind != RLX_EW_LINEAR && d < a->rank; d++) {
		last = d ? last : 0;
		last += in->stride[d] > 0 ? (a->dim[d] - 1) * in->stride[d] : 0;
	}
	return (const char *)in->p +
	       (last + 1) * (int64_t)rlx_k_type_size((enum rlx_dtype)in->type);
}

/* Everything that is the same for all units of this call. */
static __attribute__((noinline)) void setup(struct state *st, const struct rlx_k_ew *a,
					    char *scratch)
{
	st->a = a;
	st->lane = rlx_k_ew_lane(a);
	st->ops = a->cls == RLX_EW_F32 ? RLX_K(ew_f32_steps) :
		  a->cls == RLX_EW_F64 ? RLX_K(ew_f64_steps) :
					 RLX_K(ew_int_steps);
	st->ins = scratch;
	st->regs = st->ins + (size_t)a->n_in * RLX_EW_BLOCK_ROOM;
	st->raw = st->regs + (size_t)a->n_reg * RLX_EW_BLOCK_ROOM;
	for (int i = 0; i < a->n_in; i++) {
		double one;

		st->one[i] = NULL;
		st->end[i] = end_of(a, &a->in[i]);
		st->load[i] = RLX_K(loader)(a->cls, a->in[i].type);
		if (a->in[i].kind == RLX_EW_GATHER)
			rlx_ew_gather_setup(&st->gather[i], a, &a->in[i]);
		if (a->in[i].kind != RLX_EW_SCALAR)
			continue;
		st->load[i](&one, a->in[i].p, 1);
		fill(st->splat[i], &one, st->lane);
		st->slot[i] = (struct rlx_ew_src){ st->splat[i], 0 };
	}
	for (int s = 0; s < a->n_step; s++) {
		splat_imm(st, s);
		st->slot[RLX_EW_MAX_IN + s] = (struct rlx_ew_src){
			st->regs + a->reg[s] * RLX_EW_BLOCK_ROOM, RLX_VB };
		if (a->step[s].op == RLX_EW_const_)
			st->slot[RLX_EW_MAX_IN + s] = (struct rlx_ew_src){
				st->splat[RLX_EW_MAX_IN + s], 0 };
	}
}

/* n elements of an input into its block; read in place where the last vector may be. */
static void bind_run(struct state *st, int i, const char *p, size_t n)
{
	char *block = st->ins + (size_t)i * RLX_EW_BLOCK_ROOM;
	size_t whole = (n * st->lane + RLX_VB - 1) / RLX_VB * RLX_VB;

	if (in_class(st, st->a->in[i].type) &&
	    (n * st->lane == whole || whole <= (size_t)(st->end[i] - p))) {
		st->slot[i] = (struct rlx_ew_src){ p, RLX_VB };
		return;
	}
	st->load[i](block, p, n);
	st->slot[i] = (struct rlx_ew_src){ block, RLX_VB };
}

static void bind_one(struct state *st, int i, const char *p)
{
	double one;

	if (st->one[i] == p)
		return;
	st->one[i] = p;
	if (in_class(st, st->a->in[i].type)) {
		fill(st->splat[i], p, st->lane);
	} else {
		st->load[i](&one, p, 1);
		fill(st->splat[i], &one, st->lane);
	}
	st->slot[i] = (struct rlx_ew_src){ st->splat[i], 0 };
}

/* n elements from element @at of the output on; a block that is as the last stays. */
static void bind_gather(struct state *st, int i, int64_t at, size_t n)
{
	const struct rlx_k_ew_in *in = &st->a->in[i];
	const size_t size = rlx_k_type_size((enum rlx_dtype)in->type);
	const bool as_is = in_class(st, in->type);
	char *block = st->ins + (size_t)i * RLX_EW_BLOCK_ROOM;
	struct rlx_ew_gather *g = &st->gather[i];

	st->slot[i] = (struct rlx_ew_src){ block, RLX_VB };
	if (g->alike && g->held >= (int64_t)n)
		return;
	rlx_ew_gather(g, as_is ? block : st->raw, in->p, at, (int64_t)n, size);
	g->held = (int64_t)n;
	if (!as_is)
		st->load[i](block, st->raw, n);
}

/* The coordinates of output element @at. */
static void locate(struct state *st, int64_t at)
{
	for (int d = st->a->rank; d-- > 0;) {
		st->pos[d] = at % st->a->dim[d];
		at /= st->a->dim[d];
	}
}

static void bind(struct state *st, int64_t at, size_t n)
{
	const struct rlx_k_ew *a = st->a;

	for (int i = 0; i < a->n_in; i++) {
		const struct rlx_k_ew_in *in = &a->in[i];
		int64_t size = (int64_t)rlx_k_type_size(
			(enum rlx_dtype)in->type);
		const char *p = in->p;
		int64_t off = 0;

		if (in->kind == RLX_EW_SCALAR)
			continue;
		if (in->kind == RLX_EW_LINEAR) {
			bind_run(st, i, p + at * size, n);
			continue;
		}
		if (in->kind == RLX_EW_GATHER) {
			bind_gather(st, i, at, n);
			continue;
		}
		for (int d = 0; d < a->rank; d++)
			off += st->pos[d] * in->stride[d];
		if (in->stride[a->rank - 1])
			bind_run(st, i, p + off * size, n);
		else
			bind_one(st, i, p + off * size);
	}
}

static void finish(struct state *st, const struct rlx_k_ew_out *out, char *p,
		   size_t n)
{
	rlx_convert_fn *store = RLX_K(storer)(st->a->cls, out->type);
	const struct rlx_ew_src *s = &st->slot[out->src];
	char *block = st->raw;

	if (s->inc) {
		if (s->p != p)
			store(p, s->p, n);
		return;
	}
	for (size_t i = 0; i < n * st->lane; i += RLX_VB)
		memcpy(block + i, s->p, RLX_VB);
	store(p, block, n);
}

/* The operands of step @s. */
static void operands(const struct state *st, int s, struct rlx_ew_src src[3])
{
	const struct rlx_k_ew_step *step = &st->a->step[s];

	for (int k = 0; k < 3; k++)
		if (step->src[k] == RLX_EW_IMM)
			src[k] = (struct rlx_ew_src){ st->splat[RLX_EW_MAX_IN + s], 0 };
		else
			src[k] = st->slot[step->src[k]];
}

/* May step @s write its result where the output has it? Only one that no other reads. */
static bool to_output(const struct state *st, int s)
{
	const struct rlx_k_ew *a = st->a;

	return s == a->n_step - 1 && a->n_out == 1 && in_class(st, a->out[0].type) &&
	       a->out[0].src == RLX_EW_STEP(s);
}

/* n elements of step @s, at @dst of the output, behind which nothing is written. */
static void run_to_output(struct state *st, int s, char *dst, size_t n)
{
	const struct rlx_k_ew_step *step = &st->a->step[s];
	int type = step->op == RLX_EW_cast ? step->type : st->a->cls;
	size_t whole = n * st->lane / RLX_VB, rest = n * st->lane % RLX_VB;
	char *last = st->regs + st->a->reg[s] * RLX_EW_BLOCK_ROOM;
	struct rlx_ew_src src[3];

	operands(st, s, src);
	if (rest) {	/* first: the output may lie in an input's place */
		struct rlx_ew_src end[3];

		for (int k = 0; k < 3; k++)
			end[k] = (struct rlx_ew_src){ src[k].p + whole * src[k].inc, src[k].inc };
		st->ops[step->op](last + whole * RLX_VB, end, 1, type);
	}
	if (whole)
		st->ops[step->op](dst, src, whole, type);
	memcpy(dst + whole * RLX_VB, last + whole * RLX_VB, rest);
	st->slot[RLX_EW_MAX_IN + s] = (struct rlx_ew_src){ dst, RLX_VB };
}

/* Elements [at, at + n) of the output. */
static __attribute__((noinline)) void block(struct state *st, int64_t at, size_t n)
{
	const struct rlx_k_ew *a = st->a;
	const size_t nv = (n * st->lane + RLX_VB - 1) / RLX_VB;
	struct rlx_ew_src src[3];

	bind(st, at, n);
	for (int s = 0; s < a->n_step; s++) {
		const struct rlx_k_ew_step *step = &a->step[s];
		char *dst = st->regs + a->reg[s] * RLX_EW_BLOCK_ROOM;

		if (step->op == RLX_EW_const_)
			continue;
		if (to_output(st, s)) {
			run_to_output(st, s, (char *)a->out[0].p + (size_t)at * st->lane, n);
			continue;
		}
		operands(st, s, src);
		st->ops[step->op](dst, src, nv, step->op == RLX_EW_cast ? step->type : a->cls);
		st->slot[RLX_EW_MAX_IN + s] = (struct rlx_ew_src){ dst, RLX_VB };
	}
	for (int k = 0; k < a->n_out; k++) {
		size_t size = rlx_k_type_size((enum rlx_dtype)a->out[k].type);

		finish(st, &a->out[k], (char *)a->out[k].p + (size_t)at * size, n);
	}
}

/* From the row whose block is done to the next one's. */
static void next_row(struct state *st)
{
	const struct rlx_k_ew *a = st->a;

	st->pos[a->rank - 1] = 0;
	for (int d = a->rank - 1; d-- > 0;) {
		if (++st->pos[d] < a->dim[d])
			return;
		st->pos[d] = 0;
	}
}

void RLX_K(ew)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_ew *a = args;
	const int64_t inner = a->flat ? a->total : a->dim[a->rank - 1];
	int64_t row = (int64_t)begin / a->pieces, piece = (int64_t)begin % a->pieces;
	struct state st;

#ifdef RLX_V512
	struct ew_sum sum;

	if (ew_sum_of(a, &sum)) {
		ew_sum_run(&sum, begin * (size_t)a->block,
			   (int64_t)end * a->block < inner ? end * (size_t)a->block : (size_t)inner);
		return;
	}
#endif
	setup(&st, a, scratch);
	if (!a->flat)
		locate(&st, row * inner);
	for (size_t u = begin; u < end; u++) {
		int64_t col = piece * a->block;
		int64_t n = inner - col < a->block ? inner - col : a->block;

		if (!a->flat)
			st.pos[a->rank - 1] = col;
		block(&st, row * inner + col, (size_t)n);
		if (++piece < a->pieces)
			continue;
		piece = 0;
		row++;
		if (!a->flat)
			next_row(&st);
	}
}

/*
 * The inputs of part @k, and how they are walked; @e is the program that runs. Once a part, and
 * few instructions beside a block's: small code is worth more than fast.
 */
static __attribute__((noinline, cold)) void take_part(struct state *st, struct rlx_k_ew *e,
						      const struct rlx_k_ew_parts *a, uint32_t k)
{
	const int64_t length = rlx_k_ew_part(a, k)->length;
	const void **own = rlx_k_ew_own(a, k);

	e->dim[0] = a->outer;
	e->dim[1] = a->split ? length : 1;
	e->dim[2] = rlx_k_ew_part_row(a, length);
	for (int i = 0; i < e->n_in; i++) {
		struct rlx_k_ew_in *in = &e->in[i];
		int64_t inner = a->has[i] & RLX_EW_INNER ? a->inner : 1;

		in->stride[0] = a->has[i] & RLX_EW_OUTER ?
				inner * (a->has[i] & RLX_EW_ALONG ? length : 1) : 0;
		in->stride[1] = a->has[i] & RLX_EW_ALONG ? inner : 0;
		in->stride[2] = (a->has[i] & RLX_EW_INNER) ||
				(!a->split && a->has[i] & RLX_EW_ALONG);
		if (a->own[i])
			in->p = own[a->own[i] - 1];
		st->end[i] = end_of(e, in);
	}
}

/* The first unit that is not part @k's, or @end. */
static uint64_t part_end(const struct rlx_k_ew_parts *a, uint32_t k, size_t end)
{
	return k + 1 < a->n_part && rlx_k_ew_part(a, k + 1)->unit < end ?
	       rlx_k_ew_part(a, k + 1)->unit : end;
}

__attribute__((cold))
void RLX_K(ew_parts)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_ew_parts *a = args;
	const int64_t block_of = rlx_k_ew_part_block(a);
	struct rlx_k_ew e;
	struct state st;
	uint32_t k = 0;

	/* what is used of it, for parts may be small and few */
	memcpy(&e, &a->ew, offsetof(struct rlx_k_ew, in) + a->ew.n_in * sizeof(e.in[0]));
	memcpy(e.step, a->ew.step, a->ew.n_step * sizeof(e.step[0]));
	memcpy(e.out, a->ew.out, (size_t)((const char *)(&a->ew + 1) - (const char *)a->ew.out));
	setup(&st, &e, scratch);
	for (size_t u = begin; u < end; k++) {
		const struct rlx_k_ew_part *part = rlx_k_ew_part(a, k);
		const size_t stop = part_end(a, k, end);
		int64_t row, pieces, done;

		if (stop <= u)
			continue;
		take_part(&st, &e, a, k);
		row = e.dim[2];
		memset(st.pos, 0, sizeof(st.pos));
		if (u > part->unit) {
			pieces = rlx_k_ew_part_pieces(a, part->length);
			done = (int64_t)(u - part->unit);
			locate(&st, done / pieces * row);
			st.pos[2] = done % pieces * block_of;
		}
		for (; u < stop; u++) {
			int64_t n = row - st.pos[2] < block_of ? row - st.pos[2] : block_of;

			block(&st, (st.pos[0] * a->total + part->at + st.pos[1]) * a->inner +
			      st.pos[2], (size_t)n);
			st.pos[2] += n;
			if (st.pos[2] == row)
				next_row(&st);
		}
	}
}
