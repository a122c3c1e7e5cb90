// SPDX-License-Identifier: MIT
/*
 * Small-M GEMM (kernels/gpu/gemm_small_m.h): several of one operand in a launch, and
 * what makes that operand, which each block does again, in the same one.
 */
#include <string.h>

#include "backends/gpu/gpu.h"
#include "kernels/gpu/gemm_horizontal.h"
#include "kernels/gpu/gemm_tile.h"

static struct gpu_code *code_of(const struct rlx_lower *lo)
{
	return (struct gpu_code *)lo->code;
}

/* Is the bias what a step from @st on makes? */
static bool adds_result(const struct rlx_lower *lo, const struct rlx_plan_step *st)
{
	const struct rlx_plan_val *val = lo->plan->val;
	uint32_t bias = lo->st->n_in > 2 ? lo->st->in[2] : 0, i;

	for (; bias && st < lo->st; st++)
		for (i = 0; i < st->n_out; i++)
			if (val[bias].root == val[st->out[i]].root)
				return true;
	return false;
}

/* By gemm_small_m_f32.h, of f32. */
static bool is_exact(const struct rlx_g_launch *l)
{
	return l->variant == RLX_G_gemm_horizontal_f32;
}

/* The launch of a product alone as one that may take others in, and what is ahead of them. */
static struct rlx_g_launch horizontal(const struct rlx_g_launch *alone)
{
	const struct rlx_g_gemm_small_m_f32_param *exact = &alone->param.gemm_small_m_f32;
	const struct rlx_g_gemm_small_m_param *p = &alone->param.gemm_small_m;
	struct rlx_g_launch l = *alone;

	if (alone->variant == RLX_G_gemm_small_m_f32)
		RLX_G_VARIANT(&l, gemm_horizontal_f32, .GEMM_B_COLS = exact->GEMM_B_COLS,
			      .GEMM_TILE_M = exact->GEMM_TILE_M,
			      .GEMM_TILE_N = exact->GEMM_TILE_N);
	else
		RLX_G_VARIANT(&l, gemm_horizontal, .GEMM_TYPE_A = p->GEMM_TYPE_A,
			      .GEMM_TYPE_B = p->GEMM_TYPE_B, .GEMM_TYPE_C = p->GEMM_TYPE_C,
			      .GEMM_SCALED = p->GEMM_SCALED, .GEMM_COLS = p->GEMM_COLS);
	return l;
}

static bool has_norm(const struct rlx_g_launch *l)
{
	return is_exact(l) ? l->param.gemm_horizontal_f32.PROLOGUE_NORM :
			     l->param.gemm_horizontal.PROLOGUE_NORM;
}

/* Are these of one kernel, but for what is ahead, with room for @l in the blocks of @by? */
static bool fits(const struct rlx_g_launch *l, const struct rlx_g_launch *by)
{
	const struct rlx_g_gemm_horizontal_f32_param *e = &l->param.gemm_horizontal_f32;
	const struct rlx_g_gemm_horizontal_f32_param *f = &by->param.gemm_horizontal_f32;
	const struct rlx_g_gemm_horizontal_param *p = &l->param.gemm_horizontal;
	const struct rlx_g_gemm_horizontal_param *q = &by->param.gemm_horizontal;

	if (l->variant != by->variant)
		return false;
	if (is_exact(l))
		return e->GEMM_TILE_M == f->GEMM_TILE_M && e->GEMM_TILE_N == f->GEMM_TILE_N;
	return p->GEMM_TYPE_A == q->GEMM_TYPE_A && p->GEMM_TYPE_B == q->GEMM_TYPE_B &&
	       p->GEMM_TYPE_C == q->GEMM_TYPE_C && p->GEMM_SCALED == q->GEMM_SCALED &&
	       p->GEMM_COLS <= q->GEMM_COLS;
}

/* Is b read by 16 bytes, as what is done before the GEMM (its prologue) wants it? */
static bool reads_wide(const struct rlx_k_gemm *g)
{
	size_t by = g->b_num == RLX_NUM_F32 ? 4 : 8;

	return g->ldb % by == 0 && (g->b_form == RLX_B_COLS || g->n % by == 0);
}

/*
 * Steps that follow each other and multiply one a by weights, without a residual,
 * share a launch. No result of theirs will lie where another of them reads.
 */
static bool may_join(const struct rlx_lower *lo, const struct gpu_call *last,
		     const struct rlx_k_gemm *g, const struct rlx_g_launch *l)
{
	const struct rlx_plan_step *first = &lo->plan->step[last->base.step];
	const struct rlx_k_gemm *h = &((struct rlx_g_horizontal *)(void *)
				       (lo->calls->args + last->base.args))->g;
	const struct rlx_plan_val *val = lo->plan->val;

	return last->joined < RLX_G_JOIN && !adds_result(lo, first) &&
	       val[lo->st->in[0]].root == val[lo->st[-1].in[0]].root &&
	       g->m == h->m && g->k == h->k && g->lda == h->lda &&
	       g->b_fixed && h->b_fixed && !g->residual && !h->residual &&
	       rlx_k_gemm_batches(g) == 1 && rlx_k_gemm_batches(h) == 1 && g->act == h->act &&
	       !memcmp(&g->alpha, &h->alpha, offsetof(struct rlx_k_gemm, act) -
		       offsetof(struct rlx_k_gemm, alpha)) &&
	       l->block[0] == last->launch.block[0] && fits(l, &last->launch) &&
	       g->b_form == h->b_form && (!has_norm(&last->launch) || reads_wide(g));
}

static uint8_t type_of_a(const struct rlx_k_gemm *g)
{
	return g->a_num == RLX_NUM_F16 ? RLX_F16 : g->a_num == RLX_NUM_F32 ? RLX_F32 :
	       RLX_BF16;
}

/*
 * May the GEMM's blocks do again what the preceding step did, whose result they multiply
 * by weights? They may where they are on the chip at one time.
 */
static bool may_do_again(const struct rlx_lower *lo, const struct rlx_k_gemm *g,
			 const struct rlx_g_launch *l)
{
	return g->m <= (is_exact(l) ? 16 : 64) &&
	       l->grid[0] <= 2 * (uint32_t)gpu_of(lo)->attr[GPU_ATTR_SM_COUNT] &&
	       g->a_num == g->b_num && (g->a_num != RLX_NUM_F32 || is_exact(l)) &&
	       g->lda == g->k && g->b_fixed && rlx_k_gemm_batches(g) == 1 && g->k % 8 == 0 &&
	       reads_wide(g) && gpu_is_in(lo, lo->st[-1].out[0], RLX_PLACE_WORK);
}

/* The last step normalised the rows that this one multiplies; @out_add: and a residual. */
static bool may_norm(const struct rlx_lower *lo, const struct rlx_k_gemm *g,
		     const struct rlx_g_launch *l, bool *out_add)
{
	const struct gpu_call *plain = gpu_call_before(lo, 0, RLX_OP_layer_norm);
	const struct gpu_call *sum = gpu_call_before(lo, 0, RLX_OP_fused_residual_norm);
	const struct rlx_plan_step *st = lo->st - 1;
	uint32_t gamma = sum ? 3 : 1, i;
	const struct rlx_k_norm *n;
	uint8_t type = type_of_a(g);

	if ((!plain && !sum) || !may_do_again(lo, g, l) || st->n_in < gamma + 2 ||
	    !gpu_is_in(lo, st->in[0], RLX_PLACE_WORK))
		return false;
	for (i = sum ? 1 : gamma; i < gamma + 2; i++)
		if (sum && i == 2 ? st->in[i] : !gpu_is_in(lo, st->in[i], RLX_PLACE_CONST))
			return false;
	n = gpu_args_of(lo, plain ? plain : sum);
	*out_add = sum;
	if (is_exact(l) &&
	    GEMM_SMALL_M_F32_STEP(l->param.gemm_horizontal_f32.GEMM_TILE_M,
				  l->param.gemm_horizontal_f32.GEMM_TILE_N) != 32)
		return false;
	return st->out[0] == lo->st->in[0] && !n->rms && !n->sum && !n->mean && !n->inv &&
	       n->x_type == type && n->y_type == type && n->param_type == RLX_F32 &&
	       (!sum || (n->residual_type == type && n->residual_stride % 8 == 0)) &&
	       n->rows == (int64_t)g->m && n->n == (int64_t)g->k &&
	       (uint64_t)g->k == l->block[0] && g->k % 64 == 0;
}

/* What the norm normalises, and nobody else reads, are rows of a table. */
static bool may_pick(const struct rlx_lower *lo)
{
	const struct gpu_call *call = gpu_call_before(lo, 1, RLX_OP_gather);
	const struct rlx_plan_step *norm = lo->st - 1, *st = lo->st - 2;
	const struct rlx_k_gather *p;
	const struct rlx_k_norm *n;

	if (!call || st->out[0] != norm->in[0] || !gpu_dies_at(lo, st->out[0], norm) ||
	    !gpu_is_in(lo, st->in[0], RLX_PLACE_CONST))
		return false;
	p = gpu_args_of(lo, call);
	n = gpu_args_of(lo, call + 1);
	return p->outer == 1 && p->n_idx == n->rows && p->inner == 2 * n->n;
}

/*
 * What a block takes to make the attention of its rows, which are of @batch ones, in ns on
 * an H200: a multiprocessor reads 64 bytes in a clock, and one head after the other takes
 * its time.
 */
static int64_t attention_ns(const struct rlx_k_attention *a, int64_t batch,
			    const struct rlx_g_launch *l)
{
	int64_t q_len = a->q_len < 16 ? a->q_len : 16;
	int64_t elements = q_len * a->heads * a->head_dim +
			   a->kv_len * a->kv_heads * (a->head_dim + a->v_dim);

	return batch * elements * 2 / 110 +
	       rlx_g_ceil(batch * a->heads, l->block[0] / 32) * (300 + 8 * a->kv_len);
}

/* Most rows of the batch that 16 rows of the GEMM are of. */
static int64_t batch_rows(const struct rlx_k_attention *a)
{
	int64_t n = 16 % a->q_len && a->q_len % 16 ? 14 / a->q_len + 2 :
		    rlx_g_ceil(16, a->q_len);

	return n < a->batch ? n : a->batch;
}

/* Do q, k and v lie as they can be read by 16 bytes? */
static bool lie_wide(const struct rlx_k_attention *a)
{
	int64_t odd = a->head_dim | a->v_dim;
	int i;

	for (i = 0; i < 3; i++)
		odd |= a->q_stride[i] | a->k_stride[i] | a->v_stride[i];
	return odd % 8 == 0;
}

/* A launch of its own takes about 3 us; what it gains must be worth it. */
enum { MOST_ATTENTION_NS = 2000 };

/* The product's launch @l with the attention @a, whose own launch is @by. */
static struct rlx_g_launch with_heads(const struct rlx_g_launch *l,
				      const struct rlx_k_attention *a,
				      const struct rlx_g_launch *by)
{
	uint32_t warps = l->block[0] / 32, jobs = (uint32_t)(batch_rows(a) * a->heads);
	uint32_t rooms = (warps < jobs ? warps : jobs) * (by->shared / RLX_G_ATTENTION_WARPS);
	const struct rlx_g_attention_short_kv_param *form = &by->param.attention_short_kv;
	struct rlx_g_launch with = *l;

	with.shared = (l->shared > rooms ? l->shared : rooms) +
		      16 * RLX_G_JOIN_LD((uint32_t)(a->heads * a->v_dim)) * 2;
	with.param.gemm_horizontal.PROLOGUE_ATTENTION = true;
	with.param.gemm_horizontal.ATTENTION_WIDTH = form->ATTENTION_WIDTH;
	with.param.gemm_horizontal.ATTENTION_KEYS = form->ATTENTION_KEYS;
	with.param.gemm_horizontal.ATTENTION_MASKED = form->ATTENTION_MASKED;
	return with;
}

/*
 * The last step attended, and this one alone multiplies what came out, as it lies, and
 * does no more with it, as it is written nowhere: then @l becomes a launch of both.
 */
static bool may_attend(const struct rlx_lower *lo, const struct rlx_k_gemm *g,
		       struct rlx_g_launch *l)
{
	const struct gpu_call *call = gpu_call_before(lo, 0, RLX_OP_attention);
	uint8_t type = type_of_a(g);
	const struct rlx_k_attention *a;
	struct rlx_g_launch with;

	/* heads want registers, and wider blocks as well */
	if (!call || call->launch.variant != RLX_G_attention_short_kv || is_exact(l) ||
	    l->param.gemm_horizontal.GEMM_COLS > 32 ||
	    !may_do_again(lo, g, l) ||
	    !gpu_is_last_of(lo, lo->st->in[0], lo->st[-1].out[0], lo->st) ||
	    gpu_reads_again(lo, lo->st[-1].out[0]))
		return false;
	a = gpu_args_of(lo, call);
	if (!lie_wide(a))
		return false;
	with = with_heads(l, a, &call->launch);
	if (a->q_type != type || a->kv_type != type || a->out_type != type || a->lse ||
	    a->batch * a->q_len != (int64_t)g->m || a->heads * a->v_dim != (int64_t)g->k ||
	    a->out_stride[2] != (int64_t)g->k || a->out_stride[1] != a->v_dim ||
	    (a->batch > 1 && a->out_stride[0] != a->q_len * (int64_t)g->k) ||
	    attention_ns(a, batch_rows(a), l) > MOST_ATTENTION_NS ||
	    with.shared > (uint32_t)gpu_of(lo)->attr[GPU_ATTR_SHARED])
		return false;
	*l = with;
	return true;
}

/* How many calls before the GEMM (its prologue) become parts of its launch @l. */
static uint32_t put_prologue(const struct rlx_lower *lo, const struct rlx_k_gemm *g,
			  struct rlx_g_launch *l)
{
	bool add, pick;

	if (!may_norm(lo, g, l, &add))
		return may_attend(lo, g, l);
	pick = !is_exact(l) && may_pick(lo);
	if (is_exact(l)) {
		l->param.gemm_horizontal_f32.PROLOGUE_NORM = true;
		l->param.gemm_horizontal_f32.PROLOGUE_ADD = add;
	} else {
		l->param.gemm_horizontal.PROLOGUE_NORM = true;
		l->param.gemm_horizontal.PROLOGUE_ADD = add;
		l->param.gemm_horizontal.PROLOGUE_GATHER = pick;
	}
	l->shared += RLX_G_JOIN_STATS(l->block[0]);
	return pick ? 2 : 1;
}

/*
 * Their arguments, of @n calls, into @join, as @l has them. What they read comes
 * over the bus once, and not for each block.
 */
static void take_prologue(struct rlx_lower *lo, struct rlx_g_horizontal *join,
			  const struct rlx_g_launch *l, uint32_t n)
{
	const struct rlx_plan_val *val = lo->plan->val;
	const struct rlx_plan_step *st;
	uint32_t i;

	for (st = lo->st - n; st < lo->st; st++)
		for (i = 0; i < st->n_in; i++)
			if (val[st->in[i]].place.kind == RLX_PLACE_INPUT)
				code_of(lo)->io[val[st->in[i]].place.index].readers++;
	if (!is_exact(l) && l->param.gemm_horizontal.PROLOGUE_ATTENTION)
		gpu_take_last(lo, &join->attention);
	if (has_norm(l))
		gpu_take_last(lo, &join->norm);
	if (!is_exact(l) && l->param.gemm_horizontal.PROLOGUE_GATHER)
		gpu_take_last(lo, &join->pick);
}

/* References to the fields of a product that a member has too, for member @to. */
static void refer_member(struct rlx_lower *lo, struct rlx_g_member *to)
{
	struct { size_t at; void *field; } both[] = {
		{ offsetof(struct rlx_k_gemm, b), &to->b },
		{ offsetof(struct rlx_k_gemm, c), &to->c },
		{ offsetof(struct rlx_k_gemm, bias), &to->bias },
	};
	uint32_t n = lo->n_ref, i, k;

	for (i = 0; i < n; i++)
		for (k = 0; k < 3; k++)
			if (lo->ref[i].at == both[k].at)
				rlx_lower_ref_add(lo, both[k].field, lo->ref[i]);
}

/* Of @cols columns each, whatever a launch of its own would have. */
static uint32_t blocks_of(const struct rlx_k_gemm *g, int32_t cols)
{
	return (uint32_t)(rlx_g_ceil((int64_t)g->n, cols) * rlx_g_ceil((int64_t)g->m, 16));
}

/* One more product in the last call. */
static enum rlx_status join_last(struct rlx_lower *lo, const struct rlx_g_member *member,
				 uint32_t blocks)
{
	struct gpu_code *c = code_of(lo);
	struct gpu_call *last = &gpu_calls(c)[c->calls.n_call - 1];
	uint32_t n = lo->n_ref, i = last->joined;
	struct rlx_g_horizontal *join;

	/* the member alone is staged, with what refers to it */
	refer_member(lo, (void *)lo->staged);
	memmove(lo->ref, lo->ref + n, (lo->n_ref - n) * sizeof(*lo->ref));
	lo->n_ref -= n;
	memcpy(lo->staged, member, sizeof(*member));
	lo->n_staged = sizeof(*member);
	gpu_take_refs(lo, &last->bad);
	if (!rlx_calls_extend(lo->calls, offsetof(struct rlx_g_horizontal, of[i]), lo->staged,
			      (uint32_t)lo->n_staged, lo->ref, lo->n_ref))
		return rlx_lower_out_of_memory(lo);
	join = (void *)(lo->calls->args + last->base.args);
	join->end[i] = join->end[i - 1] + blocks;
	last->launch.grid[0] = join->end[i];
	last->base.n_step++;
	last->joined++;
	return RLX_OK;
}

enum rlx_status gpu_call_small_m(struct rlx_lower *lo, const struct rlx_k_gemm *g,
			      const struct rlx_g_launch *launch)
{
	struct rlx_g_horizontal *join = (void *)lo->staged;
	struct rlx_g_member member = { g->b, g->bias, g->c, g->n, g->ldb, g->ldc };
	struct gpu_code *c = code_of(lo);
	struct gpu_call *last = c->calls.n_call ? &gpu_calls(c)[c->calls.n_call - 1] : NULL;
	struct rlx_g_launch l = horizontal(launch);
	enum rlx_status st;
	uint32_t ahead;
	struct gpu_kernel k;
	struct gpu_module *m;

	if (last && last->joined &&
	    last->base.step + last->base.n_step == (uint32_t)(lo->st - lo->plan->step) &&
	    may_join(lo, last, g, &l))
		return join_last(lo, &member, is_exact(&l) ? l.grid[0] :
				 blocks_of(g, last->launch.param.gemm_horizontal.GEMM_COLS));
	ahead = put_prologue(lo, g, &l);
	k = gpu_kernel_of(l.variant, &l.param, l.shared);
	st = gpu_module_get(gpu_of(lo), &k, &m, lo->err);
	if (st)
		return lo->status = st;
	memset(&join->g + 1, 0, sizeof(*join) - sizeof(join->g));
	join->of[0] = member;
	join->end[0] = l.grid[0];
	refer_member(lo, &join->of[0]);
	take_prologue(lo, join, &l, ahead);
	lo->n_staged = sizeof(*join);
	st = lo->status ? lo->status : gpu_call(lo, m, &l);
	if (st)
		return st;
	last = &gpu_calls(c)[c->calls.n_call - 1];
	last->joined = 1;
	last->base.step -= ahead;
	last->base.n_step += ahead;
	return RLX_OK;
}
