// SPDX-License-Identifier: MIT
/* gemm_f64 against sums in long double at every level this machine runs. */
#include "kernels/gemm.h"
#include "selftests/kernels/isa.h"

static uint64_t rng;

static size_t pick(size_t lo, size_t hi)
{
	return lo + rlx_test_rand(&rng) % (hi - lo + 1);
}

static double *fill(size_t n)
{
	double *p = fence_alloc(n * 8, 8);
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = rlx_test_uniform(&rng, -1, 1);
	return p;
}

static void product_new(struct rlx_k_gemm *g)
{
	memset(g, 0, sizeof(*g));
	g->m = pick(1, 40);
	g->a_type = g->b_type = g->c_type = RLX_F64;
	g->n = pick(0, 2) ? pick(1, 70) : pick(1, 4);
	g->k = pick(0, 90);
	g->trans_a = pick(0, 1);
	g->b_form = (enum rlx_k_b_form)pick(0, 2);
	g->act = (enum rlx_act)pick(0, RLX_ACT_CLIP);
	g->alpha = pick(0, 1) ? 1 : -0.6;
	g->beta = 0.4;
	g->lo = -0.5;
	g->hi = 0.8;
	g->lda = (g->trans_a ? g->m : g->k) + pick(0, 3);
	g->ldb = (g->b_form == RLX_B_COLS ? g->k : g->n) + pick(0, 3);
	g->ldc = g->n + pick(0, 3);
	g->ldr = g->n + pick(0, 3);
	g->a = fill(g->lda * (g->trans_a ? g->k : g->m));
	g->b = fill(g->ldb * (g->b_form == RLX_B_COLS ? g->n : g->k));
	g->c = fill(g->ldc * g->m);
	g->bias = pick(0, 1) ? fill(g->n) : NULL;
	g->row_bias = pick(0, 1) ? fill(g->m) : NULL;
	g->residual = pick(0, 1) ? fill(g->ldr * g->m) : NULL;
}

static double act(double x, const struct rlx_k_gemm *g)
{
	switch (g->act) {
	case RLX_ACT_RELU:
		return fmax(x, 0);
	case RLX_ACT_GELU:
		return 0.5 * x * (1 + erf(x / sqrt(2)));
	case RLX_ACT_GELU_TANH:
		return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) *
					   (x + 0.044715 * x * x * x)));
	case RLX_ACT_SILU:
		return x / (1 + exp(-x));
	case RLX_ACT_SIGMOID:
		return 1 / (1 + exp(-x));
	case RLX_ACT_TANH:
		return tanh(x);
	case RLX_ACT_HARD_SWISH:
		return x * fmin(fmax(x / 6 + 0.5, 0), 1);
	case RLX_ACT_HARD_SIGMOID:
		return fmin(fmax(g->lo * x + g->hi, 0), 1);
	case RLX_ACT_CLIP:
		return fmin(fmax(x, g->lo), g->hi);
	default:
		return x;
	}
}

static void check(const struct rlx_k_gemm *g, const double *b, enum rlx_isa isa)
{
	const double *a = g->a, *c = g->c, *bias = g->bias;
	const double *row_bias = g->row_bias, *res = g->residual;
	bool cols = g->b_form == RLX_B_COLS;
	size_t i, j, k;

	for (i = 0; i < g->m; i++)
		for (j = 0; j < g->n; j++) {
			long double s = 0;
			double want;

			for (k = 0; k < g->k; k++)
				s += (long double)a[g->trans_a ? k * g->lda + i :
						    i * g->lda + k] *
				     b[cols ? j * g->ldb + k : k * g->ldb + j];
			s *= g->alpha;
			s += bias ? bias[j] : 0;
			s += row_bias ? row_bias[i] : 0;
			s += res ? g->beta * res[i * g->ldr + j] : 0;
			want = act((double)s, g);
			CHECKF(fabs(c[i * g->ldc + j] - want) <=
			       1e-15 * (20 + (double)g->k),
			       "%s m%zu n%zu k%zu form%d act%d: %.17g, not %.17g",
			       isa_name(isa), g->m, g->n, g->k, g->b_form,
			       g->act, c[i * g->ldc + j], want);
		}
}

static void products(enum rlx_isa isa)
{
	const struct rlx_kernels *t = rlx_kernels_get(isa);
	int n;

	for (n = 0; n < 150; n++) {
		struct rlx_k_gemm g;
		const double *b;
		size_t size, u, step;
		void *scratch;

		product_new(&g);
		b = g.b;
		if (g.b_form == RLX_B_PACKED) {
			bool trans = g.k && g.ldb >= g.k && pick(0, 1);
			struct rlx_k_gemm_pack p = {
				.k = g.k, .n = g.n, .b = b, .ldb = g.ldb,
			};

			size = rlx_k_gemm_f64_pack_size(g.n, g.k, isa);
			p.dst = fence_alloc(size, 64);
			if (trans) {
				double *bt = fill(g.n * g.k);

				for (u = 0; u < g.n * g.k; u++)
					bt[u] = b[u % g.k * g.ldb + u / g.k];
				p.b = bt;
				p.ldb = g.k;
				p.trans = true;
			}
			t->gemm_f64_pack(&p, 0, rlx_k_gemm_panels(g.n, isa),
					 NULL);
			g.b = p.dst;
		}
		size = rlx_k_gemm_f64_scratch(&g, isa);
		scratch = fence_alloc(size, 64);
		for (u = rlx_k_gemm_units(&g, isa); u; u -= step) {
			step = pick(1, u);
			t->gemm_f64(&g, u - step, u, scratch);
		}
		check(&g, b, isa);
		fence_reset();
	}
}

TEST(random_products_match_long_double)
{
	enum rlx_isa isa;

	rng = rlx_test_seed();
	for (isa = RLX_ISA_BASE; isa < RLX_ISA_COUNT; isa++)
		if (isa_runs(isa))
			products(isa);
}

TEST_MAIN()
