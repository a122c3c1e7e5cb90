// SPDX-License-Identifier: MIT
/*
 * Groups of small-M GEMMs (kernels/gpu/gemm_small_m.h): several of one operand in a launch, and
 * what makes that operand, which each block does again, in the same one.
 */
#include <string.h>

#include "backends/gpu/group.h"
#include "kernels/gpu/gemm_horizontal.h"
#include "kernels/gpu/gemm_tile.h"

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
	size_t by = g->b_type == RLX_F32 ? 4 : 8;

	return g->ldb % by == 0 && (g->b_form == RLX_B_COLS || g->n % by == 0);
}

/* ---- GEMMs beside each other ---- */

/* References of member @k to the fields that a product of the launch has, for product @to. */
static bool refer_product(struct gpu_group *g, uint32_t k, struct rlx_g_member *to)
{
	struct { size_t at; void *field; } both[] = {
		{ offsetof(struct rlx_k_gemm, b), &to->b },
		{ offsetof(struct rlx_k_gemm, c), &to->c },
		{ offsetof(struct rlx_k_gemm, bias), &to->bias },
	};
	const struct rlx_call *m = &g->call[k].base;
	uint32_t i, f;

	for (i = m->ref; i < m->ref + m->n_ref; i++)
		for (f = 0; f < 3; f++) {
			struct rlx_ref r = g->c->calls.ref[i];

			if (r.at != both[f].at)
				continue;
			if (g->n_ref == RLX_LOWER_REFS)
				return false;
			r.at = (uint64_t)((unsigned char *)both[f].field - g->args);
			g->ref[g->n_ref++] = r;
		}
	return true;
}

static struct rlx_g_member product_of(const struct rlx_k_gemm *m)
{
	return (struct rlx_g_member){ m->b, m->bias, m->c, m->n, m->ldb, m->ldc };
}

static uint32_t count(const struct rlx_g_horizontal *join)
{
	uint32_t n = 0;

	while (n < RLX_G_JOIN && join->end[n])
		n++;
	return n;
}

/* One a by weights each, without a residual. No result will lie where another of them reads. */
bool gpu_group_gemm_horizontal(struct gpu_group *g)
{
	const struct rlx_plan_step *st = gpu_step_of(g, 1);
	struct rlx_g_launch l = horizontal(&g->call[1].launch), *by = &g->launch;
	struct rlx_g_horizontal *join = (void *)g->args;
	const struct rlx_k_gemm *m = gpu_args_of(g, 1), *h;
	uint32_t n;

	if (!gpu_group_take(g, 0, join))
		return false;
	*by = g->call->launch;
	h = &join->g;
	n = count(join);
	if (n == RLX_G_JOIN || gpu_reads_made(g, 1) ||
	    g->p->val[st->in[0]].root != g->p->val[st[-1].in[0]].root ||
	    m->m != h->m || m->k != h->k || m->lda != h->lda || !m->b_fixed || !h->b_fixed ||
	    m->residual || h->residual || rlx_k_gemm_batches(m) != 1 ||
	    rlx_k_gemm_batches(h) != 1 || m->act != h->act || m->bias_as_c != h->bias_as_c ||
	    memcmp(&m->alpha, &h->alpha, offsetof(struct rlx_k_gemm, act) -
		   offsetof(struct rlx_k_gemm, alpha)) ||
	    l.block[0] != by->block[0] || !fits(&l, by) || m->b_form != h->b_form ||
	    (has_norm(by) && !reads_wide(m)) || !refer_product(g, 1, &join->of[n]))
		return false;
	join->of[n] = product_of(m);
	/* of as many columns as the blocks have, whatever a launch of its own would have */
	join->end[n] = join->end[n - 1] + (is_exact(&l) ? l.grid[0] :
		(uint32_t)(rlx_g_ceil((int64_t)m->n, by->param.gemm_horizontal.GEMM_COLS) *
			   rlx_g_ceil((int64_t)m->m, 16)));
	by->grid[0] = join->end[n];
	g->n_args = sizeof(*join);
	return true;
}

/* ---- in tiles of warpgroups ---- */

/* Where member @k's A is. */
static struct rlx_ref ref_of_a(const struct gpu_group *g, uint32_t k)
{
	const struct rlx_call *m = &g->call[k].base;
	uint32_t i = m->ref;

	while (i < m->ref + m->n_ref && g->c->calls.ref[i].at != offsetof(struct rlx_k_gemm, a))
		i++;
	return i < m->ref + m->n_ref ? g->c->calls.ref[i] : (struct rlx_ref){ .kind = 0 };
}

/* Are the sizes of @m, its strides, types and all that follows the sum those of @h? */
static bool same_but_operands(const struct rlx_k_gemm *m, const struct rlx_k_gemm *h)
{
	return m->m == h->m && m->n == h->n && m->k == h->k && m->lda == h->lda &&
	       m->ldb == h->ldb && m->ldc == h->ldc && m->trans_a == h->trans_a &&
	       m->b_form == h->b_form && m->a_type == h->a_type && m->b_type == h->b_type &&
	       m->c_type == h->c_type && m->act == h->act && m->bias_as_c == h->bias_as_c &&
	       m->strict == h->strict &&
	       !memcmp(&m->alpha, &h->alpha, offsetof(struct rlx_k_gemm, act) -
		       offsetof(struct rlx_k_gemm, alpha));
}

/* May @m be beside others: weights that lie as TMA reads them, nothing added but a bias? */
static bool may_join_tiled(const struct rlx_k_gemm *m)
{
	return m->b_fixed && rlx_k_gemm_batches(m) == 1 && !m->residual && !m->row_bias &&
	       !m->scales && !rlx_g_gemm_unaligned(m);
}

/*
 * GEMMs of one A by weights of equal sizes: one more batch index of a launch in tiles of its own,
 * if by its cost that is less than both.
 */
bool gpu_group_gemm_horizontal_tiled(struct gpu_group *g)
{
	const bool begun = g->call->launch.variant == RLX_G_gemm_wgmma_horizontal;
	const struct rlx_ref a = ref_of_a(g, 0), b = ref_of_a(g, 1);
	const struct rlx_k_gemm *m = gpu_args_of(g, 1);
	struct rlx_g_horizontal_tiled *all = (void *)g->args;
	const double apart = g->call[0].launch.ns + g->call[1].launch.ns;
	size_t n;

	if (!gpu_group_take(g, 0, &all->g))
		return false;
	n = begun ? all->g.batch[0] : 1;
	if (n == RLX_G_JOIN_TILED || gpu_reads_made(g, 1) || !a.val || a.val != b.val ||
	    a.off != b.off || a.kind != b.kind || !may_join_tiled(m) ||
	    !same_but_operands(m, &all->g) || (!begun && !may_join_tiled(&all->g)) ||
	    (!begun && !refer_product(g, 0, &all->of[0])) || !refer_product(g, 1, &all->of[n]))
		return false;
	if (!begun)
		all->of[0] = product_of(&all->g);
	all->of[n] = product_of(m);
	all->g.batch[0] = n + 1;
	all->g.batch[1] = 1;
	memset(all->g.a_step, 0, sizeof(all->g.a_step));
	memset(all->g.b_step, 0, sizeof(all->g.b_step));
	memset(all->g.c_step, 0, sizeof(all->g.c_step));
	g->launch = gpu_launch_for(gpu_device_of(&g->c->base), 0);
	rlx_g_horizontal_tiled_launch(all, &g->launch);
	g->n_args = sizeof(*all);
	return g->launch.can && g->launch.ns < apart;
}

/* ---- what makes their operand ---- */

/* Member @k, a GEMM, as the first product of launch @l. */
static bool begin(struct gpu_group *g, uint32_t k, const struct rlx_g_launch *l)
{
	struct rlx_g_horizontal *join = (void *)g->args;

	if (!gpu_group_take(g, k, &join->g) || !refer_product(g, k, &join->of[0]))
		return false;
	join->of[0] = product_of(&join->g);
	join->end[0] = l->grid[0];
	g->n_args = sizeof(*join);
	g->launch = *l;
	g->again = g->again || k;
	return true;
}

bool gpu_group_gemm_alone(struct gpu_group *g)
{
	struct rlx_g_launch l = horizontal(&g->call->launch);

	return begin(g, 0, &l);
}

/*
 * May the blocks of GEMM @m, member @k, do again what the member ahead does, whose result they
 * multiply by weights? They may where they are on the chip at one time.
 */
static bool may_do_again(const struct gpu_group *g, uint32_t k, const struct rlx_k_gemm *m,
			 const struct rlx_g_launch *l)
{
	uint32_t sms = (uint32_t)gpu_device_of(&g->c->base)->attr[GPU_ATTR_SM_COUNT];

	return m->m <= (is_exact(l) ? 16 : 64) && l->grid[0] <= 2 * sms && !gpu_reads_made(g, k) &&
	       m->a_type == m->b_type && (m->a_type != RLX_F32 || is_exact(l)) &&
	       m->lda == m->k && m->b_fixed && rlx_k_gemm_batches(m) == 1 && m->k % 8 == 0 &&
	       reads_wide(m) && gpu_is_in(g->p, gpu_step_of(g, k - 1)->out[0], RLX_PLACE_WORK);
}

/* Are x, in the workspace, and gamma and beta, constants, where the kernel can read them? */
static bool lie_well(const struct rlx_plan *p, const struct rlx_plan_step *st, bool add)
{
	uint32_t gamma = add ? 3 : 1, i;

	if (st->n_in < gamma + 2 || !gpu_is_in(p, st->in[0], RLX_PLACE_WORK))
		return false;
	for (i = add ? 1 : gamma; i < gamma + 2; i++)
		if (add && i == 2 ? st->in[i] : !gpu_is_in(p, st->in[i], RLX_PLACE_CONST))
			return false;
	return true;
}

/* Member @k normalises the rows that the next one multiplies: *@l becomes a launch of both. */
static bool may_norm(const struct gpu_group *g, uint32_t k, struct rlx_g_launch *l)
{
	const struct rlx_plan_step *st = gpu_step_of(g, k);
	const struct rlx_k_gemm *m = gpu_args_of(g, k + 1);
	const struct rlx_k_norm *n = gpu_args_of(g, k);
	bool add = st->def->index == RLX_OP_fused_residual_norm;
	uint8_t type = (uint8_t)m->a_type;

	*l = horizontal(&g->call[k + 1].launch);
	if (is_exact(l) &&
	    GEMM_SMALL_M_F32_STEP(l->param.gemm_horizontal_f32.GEMM_TILE_M,
				  l->param.gemm_horizontal_f32.GEMM_TILE_N) != 32)
		return false;
	if (st->def->index == RLX_OP_rms_norm || !may_do_again(g, k + 1, m, l) ||
	    !lie_well(g->p, st, add) || st->out[0] != gpu_step_of(g, k + 1)->in[0] || n->rms ||
	    n->sum || n->mean || n->inv || n->x_type != type || n->y_type != type ||
	    n->param_type != RLX_F32 ||
	    (add && (n->residual_type != type || n->residual_stride % 8)) ||
	    n->rows != (int64_t)m->m || n->n != (int64_t)m->k ||
	    (uint64_t)m->k != l->block[0] || m->k % 64)
		return false;
	if (is_exact(l)) {
		l->param.gemm_horizontal_f32.PROLOGUE_NORM = true;
		l->param.gemm_horizontal_f32.PROLOGUE_ADD = add;
	} else {
		l->param.gemm_horizontal.PROLOGUE_NORM = true;
		l->param.gemm_horizontal.PROLOGUE_ADD = add;
	}
	l->shared += RLX_G_JOIN_STATS(l->block[0]);
	return true;
}

bool gpu_group_norm_gemm(struct gpu_group *g)
{
	struct rlx_g_horizontal *join = (void *)g->args;
	struct rlx_g_launch l;

	return may_norm(g, 0, &l) && begin(g, 1, &l) && gpu_group_take(g, 0, &join->norm);
}

/* What the norm normalises, and nobody else reads, are rows of a table. */
bool gpu_group_gather_norm_gemm(struct gpu_group *g)
{
	const struct rlx_plan_step *st = gpu_step_of(g, 0), *norm = gpu_step_of(g, 1);
	struct rlx_g_horizontal *join = (void *)g->args;
	const struct rlx_k_gather *t = gpu_args_of(g, 0);
	const struct rlx_k_norm *n = gpu_args_of(g, 1);
	struct rlx_g_launch l;

	if (st->out[0] != norm->in[0] || !gpu_dies_at(g->p, st->out[0], norm) ||
	    gpu_reads_made(g, 1) ||
	    !gpu_is_in(g->p, st->in[0], RLX_PLACE_CONST) || t->outer != 1 ||
	    t->n_idx != n->rows || t->inner != 2 * n->n || !may_norm(g, 1, &l) || is_exact(&l))
		return false;
	l.param.gemm_horizontal.PROLOGUE_GATHER = true;
	return begin(g, 2, &l) && gpu_group_take(g, 1, &join->norm) &&
	       gpu_group_take(g, 0, &join->pick);
}

/*
 * What a block of @l takes, beside all else, to make the attention of its rows, which are of
 * @batch ones: its warps take one head after the other.
 */
static double attention_ns(const struct rlx_k_attention *a, int64_t batch,
			   const struct rlx_g_launch *l)
{
	int64_t q_len = a->q_len < 16 ? a->q_len : 16;
	int64_t heads = rlx_g_ceil(batch * a->heads, l->block[0] / 32);
	const struct rlx_g_cost t = {
		.blocks = 1, .begin_ns = (double)heads * rlx_g_attention_head_ns(a),
		.l2_bytes = (double)(batch * (q_len * a->heads * a->head_dim +
				     a->kv_len * a->kv_heads * (a->head_dim + a->v_dim)) * 2),
	};

	return rlx_g_cost_ns(l, &t) - rlx_g_least_ns(l);
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
 * The GEMM alone multiplies what the attention makes, as it lies, and does no more with it, as
 * it is written nowhere. Heads want registers, and wider blocks as well.
 */
bool gpu_group_attention_gemm(struct gpu_group *g)
{
	const struct rlx_plan_step *st = gpu_step_of(g, 0), *gemm = gpu_step_of(g, 1);
	struct rlx_g_launch l = horizontal(&g->call[1].launch), with;
	struct rlx_g_horizontal *join = (void *)g->args;
	const struct rlx_k_attention *a = gpu_args_of(g, 0);
	const struct rlx_k_gemm *m = gpu_args_of(g, 1);
	uint8_t type = (uint8_t)m->a_type;

	if (g->call->launch.variant != RLX_G_attention_short_kv || is_exact(&l) ||
	    l.param.gemm_horizontal.GEMM_COLS > 32 || !may_do_again(g, 1, m, &l) ||
	    !gpu_is_last_of(g->p, gemm->in[0], st->out[0], gemm) ||
	    !lie_wide(a))
		return false;
	with = with_heads(&l, a, &g->call->launch);
	if (a->q_type != type || a->kv_type != type || a->out_type != type || a->lse ||
	    a->batch * a->q_len != (int64_t)m->m || a->heads * a->v_dim != (int64_t)m->k ||
	    a->out_stride[2] != (int64_t)m->k || a->out_stride[1] != a->v_dim ||
	    (a->batch > 1 && a->out_stride[0] != a->q_len * (int64_t)m->k) ||
	    attention_ns(a, batch_rows(a), &l) + l.chip->pdl_ns > g->call->launch.ns ||
	    with.shared > (uint32_t)gpu_device_of(&g->c->base)->attr[GPU_ATTR_SHARED])
		return false;
	return begin(g, 1, &with) && gpu_group_take(g, 0, &join->attention);
}
