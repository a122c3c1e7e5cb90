// SPDX-License-Identifier: MIT
/*
 * Attention by Hopper's wgmma, warp-specialised: one producer warpgroup brings keys and values
 * to shared memory, one to three consumer warpgroups have 64 queries each and take turns at
 * the tensor cores, so that one's softmax runs beside another's MMA.
 *
 * Algorithm: as attention_mma.cu, with scores and weights in registers and q, k, v in swizzled
 * shared memory. Consumers pass the turn on by named barriers (ping-pong scheduling), and each
 * starts the scores of tile i + 1 before it weighs the values of tile i. Where jobs are few,
 * several blocks share out the keys of each (attention_split.h).
 *
 * Tiles: ATTENTION_GROUPS x 64 queries by ATT_KEYS keys (64 to 160, by width of a head).
 * Traffic: k and v once for every 64, 128 or 192 queries of a head.
 *
 * Source: Shah et al., "FlashAttention-3" (2024). Limits: sm_90a alone; f16, bf16; heads
 * up to 256 wide, filled up with zeros to 32, 64, 96, 128 or 256.
 */
#include "kernels/gpu/attention_plan.h"

#define RLX_G_BLOCKS	ATT_BLOCKS(HD, ATTENTION_GROUPS)

#include "kernels/gpu/attention_split.h"
#include "kernels/gpu/attention_wgmma.h"

enum {
	KEYS = ATT_KEYS(HD), STAGES = 2,
	Q_BYTES = ATT_Q_BYTES(HD, GROUPS), KV_BYTES = ATT_KV_BYTES(HD),
	SCORES = KEYS / 2, OUT = HD / 2,	/* of a thread */
};

/* Where tiles are handed over: the loading group fills, the others empty. */
struct barriers {
	uint64_t	q_full, q_free;
	uint64_t	k_full[STAGES], k_free[STAGES], v_full[STAGES], v_free[STAGES];
};

struct smem {
	unsigned char	*q, *k, *v;
	struct barriers	*bar;
};

/* Share @u of all: of a job whose number is that by @n. */
static DEV inline struct job share_at(const struct rlx_k_attention &a,
				      const struct rlx_g_env &env, uint32_t heads, uint32_t u,
				      uint32_t n)
{
	struct job w = job_at(a, env, heads, u / n, ROWS, KEYS);

	take_share(&w, (int)(u % n), (int)n);
	return w;
}

/* ---- the loading group ---- */

static DEV inline void feed(const struct rlx_k_attention &a, const struct rlx_g_env &env,
			    const struct smem &s)
{
	uint32_t heads = heads_of(a, env), n = shares_of(a, ROWS);
	uint32_t jobs = jobs_of(a, heads, ROWS) * n, u;
	pipeline_state<STAGES> t = {};

	for (uint32_t round = 0; (u = job_number(round)) < jobs; round++) {
		struct job w = share_at(a, env, heads, u, n);
		int kv_head = w.h / (int)(a.heads / a.kv_heads), from = w.from * KEYS;
		struct rows q = rows_of(RLX_G_PTR(const void, a.q), a.q_stride, w.b, w.h,
					w.first, a.head_dim);
		struct rows k = rows_of(RLX_G_PTR(const void, a.k), a.k_stride, w.b, kv_head,
					from, a.head_dim);
		struct rows v = rows_of(RLX_G_PTR(const void, a.v), a.v_stride, w.b, kv_head,
					from, a.v_dim);

		bar_wait(&s.bar->q_free, round % 2 ^ 1);
		load_rows<ROWS>(s.q, &q, (int)a.q_len - w.first, &s.bar->q_full);
		for (int i = w.from; i < w.to; i++, t.next()) {
			int left = w.len - i * KEYS;

			bar_wait(&s.bar->k_free[t.stage], t.phase ^ 1);
			load_rows<KEYS>(s.k + t.stage * KV_BYTES, &k, left,
					&s.bar->k_full[t.stage]);
			bar_wait(&s.bar->v_free[t.stage], t.phase ^ 1);
			load_rows<KEYS>(s.v + t.stage * KV_BYTES, &v, left,
					&s.bar->v_full[t.stage]);
		}
	}
}

/* ---- the computing groups ---- */

/* What group @g is at: a job, and the next tile of keys. */
struct task {
	struct job	w;
	const void	*bias;
	struct smem	r;
	pipeline_state<STAGES>	t;
	int		g, row;		/* the first of this warp's queries */
};

/* What the products of tile @i become; @scale: for the values so far. */
static DEV inline void weigh(const struct rlx_k_attention &a, const struct task &x,
			     struct state *s, float (&c)[SCORES], int i, float *scale)
{
	if (!PLAIN)
		adjust(a, x.bias, x.w, c, x.row, i * KEYS);
	mask(a, x.w, c, x.row, i * KEYS);
	soften(s, c, steepness(a), scale);
}

/* A job that sees keys. */
static DEV inline void attend(const struct rlx_k_attention &a, struct task *x, struct state *s)
{
	const unsigned char *q = x->r.q + x->g * 64 * ROW;
	struct barriers *bar = x->r.bar;
	float c[SCORES], scale[LANE_ROWS];
	pipeline_state<STAGES> v = x->t;	/* values follow one tile behind */
	uint32_t p[KEYS / 4];

	await(bar->k_full, x->t);
	if (GROUPS > 1)
		order_wait(x->g);
	wgmma_settle(c);
	wgmma_fence();
	multiply<KEYS>(c, q, x->r.k + x->t.stage * KV_BYTES);
	if (GROUPS > 1)
		order_pass(x->g, GROUPS);
	wgmma_wait<0>();
	wgmma_settle(c);
	bar_arrive(&bar->k_free[x->t.stage]);
	x->t.next();
	weigh(a, *x, s, c, x->w.from, scale);
	pack_weights(p, c);
	for (int i = x->w.from + 1; i < x->w.to; i++) {
		await(bar->k_full, x->t);
		if (GROUPS > 1)
			order_wait(x->g);
		wgmma_settle(c);
		wgmma_settle(s->out);
		wgmma_settle(p);
		wgmma_fence();
		multiply<KEYS>(c, q, x->r.k + x->t.stage * KV_BYTES);
		await(bar->v_full, v);
		wgmma_fence();
		add_up<KEYS>(s->out, p, x->r.v + v.stage * KV_BYTES);
		if (GROUPS > 1)
			order_pass(x->g, GROUPS);
		wgmma_wait<1>();
		wgmma_settle(c);
		bar_arrive(&bar->k_free[x->t.stage]);
		x->t.next();
		weigh(a, *x, s, c, i, scale);
		if (HD >= 96)
			wgmma_hold(s->sum[0] + s->sum[1]);
		wgmma_wait<0>();
		wgmma_settle(s->out);
		bar_arrive(&bar->v_free[v.stage]);
		v.next();
		rescale(s, scale);
		pack_weights(p, c);
	}
	bar_arrive(&bar->q_free);
	await(bar->v_full, v);
	wgmma_settle(s->out);
	wgmma_settle(p);
	wgmma_fence();
	add_up<KEYS>(s->out, p, x->r.v + v.stage * KV_BYTES);
	wgmma_wait<0>();
	wgmma_settle(s->out);
	bar_arrive(&bar->v_free[v.stage]);
}

static DEV inline void compute(const struct rlx_k_attention &a, const struct rlx_g_env &env,
			       const struct smem &r, int g)
{
	struct task x = { {}, RLX_G_PTR(const void, a.bias), r, {}, g, 0 };
	uint32_t heads = heads_of(a, env), n = shares_of(a, ROWS);
	uint32_t jobs = jobs_of(a, heads, ROWS) * n, u;

	if (GROUPS > 1)
		order_first(g, GROUPS);
	for (uint32_t round = 0; (u = job_number(round)) < jobs; round++) {
		struct state s;

		x.w = share_at(a, env, heads, u, n);
		x.row = x.w.first + g * 64 + warp_id() % 4 * MMA_M;
		state_clear(&s);
		bar_wait(&r.bar->q_full, round % 2);
		wgmma_see();
		if (x.w.from < x.w.to)
			attend(a, &x, &s);
		else
			bar_arrive(&r.bar->q_free);
		if (ATTENTION_SPLIT)
			leave(a, x.w, s, parts_of(a, env, u, ROWS, 1), x.row - x.w.first);
		else
			store(a, env, x.w, s, x.row);
	}
}

/* The second pass of split-KV. */
static DEV inline void merge_all(const struct rlx_k_attention &a, const struct rlx_g_env &env)
{
	uint32_t n = shares_of(a, ROWS), u = blockIdx.x / n;

	if (u < jobs_of(a, heads_of(a, env), ROWS))
		merge_job(a, env, u, ROWS, (int)(blockIdx.x % n), (int)n);
}

RLX_G_KERNEL_PDL(attention_wgmma, struct rlx_k_attention, THREADS)
{
	SHARED_DYNAMIC(shared);
	int group = same((int)threadIdx.x / GROUP);
	struct smem r = { shared, shared + Q_BYTES, shared + Q_BYTES + STAGES * KV_BYTES,
		(struct barriers *)(shared + Q_BYTES + 2 * STAGES * KV_BYTES) };

	clear_fill(a, shared, Q_BYTES + 2 * STAGES * KV_BYTES);
	if (threadIdx.x == 0) {
		bar_init(&r.bar->q_full, GROUP);
		bar_init(&r.bar->q_free, GROUPS * GROUP);
		for (int i = 0; i < STAGES; i++) {
			bar_init(&r.bar->k_full[i], GROUP);
			bar_init(&r.bar->v_full[i], GROUP);
			bar_init(&r.bar->k_free[i], GROUPS * GROUP);
			bar_init(&r.bar->v_free[i], GROUPS * GROUP);
		}
		bar_inited();
	}
	__syncthreads();
	pdl_wait();
	if (ATTENTION_SPLIT && env.pass) {
		merge_all(a, env);
		return;
	}
	if (group == 0) {
		regs_fewer<ATT_REGS_LOAD(HD)>();
		feed(a, env, r);
	} else {
		regs_more<ATT_REGS(HD, GROUPS)>();
		compute(a, env, r, group - 1);
	}
}
