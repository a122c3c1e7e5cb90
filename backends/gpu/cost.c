// SPDX-License-Identifier: MIT
/* The time a launch takes, by terms; and which of several launches takes the least. */
#include "backends/gpu/gpu.h"

static const struct rlx_g_chip *chip_of(const struct rlx_g_launch *l)
{
	return l->chip ? l->chip : gpu_chip_usual();
}

/* Blocks of a multiprocessor at a time, as shared memory, 1 KiB a block's own, and threads let. */
static double resident(const struct rlx_g_launch *l, const struct rlx_g_chip *c)
{
	double by_memory = c->smem_sm / (l->shared + 1024.0);
	double by_threads = (double)c->threads_sm / (l->block[0] ? l->block[0] : 1);
	double r = by_memory < by_threads ? by_memory : by_threads;

	return r < 1 ? 1 : r > 32 ? 32 : (double)(int)r;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static double smaller(double a, double b)
{
	return a < b ? a : b;
}

/* Whole ones, @n being a count. */
static double whole(double n)
{
	return (double)(int64_t)n;
}

/* Threads that a multiprocessor's four schedulers have when each has one warp. */
enum { SCHEDULED = 128 };

/*
 * So many times what @r blocks have to do as the scheduler has that has the most warps: those of a
 * block go round the schedulers, and three blocks of two warps take as long as four do.
 */
static double uneven(const struct rlx_g_launch *l, double r)
{
	double each = l->block[0] / (double)SCHEDULED, all = r * each;

	return each > 0 ? (whole(all) + (all > whole(all))) / each : r;
}

/* Of a multiprocessor that has @r blocks at a time. */
static double block_ns(const struct rlx_g_chip *c, const struct rlx_g_launch *l,
		       const struct rlx_g_cost *t, double r)
{
	double rate = c->rate[t->rate] * (t->part > 0 ? t->part : 1);
	double ns = t->steps * t->step_ns;

	if (r <= 0)
		return 0;
	if (t->flops > 0)
		ns = larger(ns, rate > 0 ? uneven(l, r) * t->flops / rate : 1e12);
	return t->begin_ns + larger(ns, r * t->l2_bytes / c->sm_l2_bw) + r * t->end_ns;
}

static double dram_ns(const struct rlx_g_chip *c, const struct rlx_g_cost *t, double sms,
		      double r)
{
	double busy = smaller(sms, t->blocks), each = smaller(r, larger(1, t->blocks / sms));
	double bw = smaller(c->dram_bw, busy * c->sm_dram_bw);

	if (t->in_flight > 0)
		bw = smaller(bw, busy * each * t->in_flight / c->dram_ns);
	return t->dram_bytes / bw;
}

double rlx_g_cost_ns(const struct rlx_g_launch *l, const struct rlx_g_cost *t)
{
	const struct rlx_g_chip *c = chip_of(l);
	double sms = l->processors ? l->processors : c->sms, rounds, rest, ns, m, most;
	double r = t->resident ? t->resident : resident(l, c);

	ns = c->start_ns + (l->n_launches > 1 ? l->n_launches - 1 : 0) * c->pdl_ns;
	if (t->blocks < 1)
		return ns;
	rounds = whole(t->blocks / (sms * r));
	rest = t->blocks - rounds * sms * r;
	m = rounds * block_ns(c, l, t, r) + block_ns(c, l, t, whole((rest + sms - 1) / sms));
	most = m;
	for (int i = 0; i < 2; i++) {
		double other = i ? dram_ns(c, t, sms, r) : t->blocks * t->l2_bytes / c->l2_bw;

		m += other;
		most = larger(most, other);
	}
	ns += c->dram_ns + t->once_ns + t->alone_bytes / c->dram_bw;
	return ns + most + (m - most) / 8;
}

double gpu_call_ns(const struct gpu_code *c, const struct gpu_call *call)
{
	const struct rlx_g_launch *l = &call->launch;
	const struct rlx_plan *p = c->base.plan;
	struct rlx_g_cost t = {
		.blocks = (double)l->grid[0] * l->grid[1] * l->grid[2],
		.rate = RLX_G_RATE_fma_f32, .part = 0.5,
	};
	uint32_t i;

	for (i = 0; call->base.step != GPU_NO_STEP && i < gpu_call_steps(call); i++) {
		const struct rlx_cost of = rlx_plan_cost(p, &p->step[gpu_call_step(c, call, i)]);

		t.flops += of.flops / (t.blocks > 1 ? t.blocks : 1);
		t.dram_bytes += of.bytes;
	}
	return l->ns > 0 ? l->ns : rlx_g_cost_ns(l, &t);
}

double gpu_launch_share(const struct rlx_g_launch *l)
{
	const struct rlx_g_chip *c = chip_of(l);
	double blocks = (double)l->grid[0] * l->grid[1] * l->grid[2];
	double sms = l->processors ? l->processors : c->sms, share = smaller(1, blocks / sms);

	/* where two blocks fit, a second launch fills what the first one waits for */
	return resident(l, c) < 2 ? share : share / 2;
}

double rlx_g_least_ns(const struct rlx_g_launch *l)
{
	const struct rlx_g_chip *c = chip_of(l);

	return c->start_ns + c->dram_ns;
}

/* Is @ns so much less than @than that the model can be believed? */
static bool gains(double ns, double than, double least)
{
	return than - ns > 50 && than - ns > (than - least) / 20;
}

/* The ways of option @o for @args into @c, of which there is room for @most; how many. */
static unsigned int list_option(const struct rlx_g_option *o, const void *args,
				const struct rlx_g_launch *on, struct rlx_g_candidate *c,
				unsigned int most)
{
	const char *why = o->why_not ? o->why_not(args, on) : NULL;
	const char *none = "no tiles of its fit the chip or the sizes";
	unsigned int i, n = 0;

	for (i = 0; !why && n < most; i++) {
		struct rlx_g_cost t = { 0 };

		c[n] = (struct rlx_g_candidate){ .variant = o->variant, .launch = *on };
		if (!o->plan(args, i, &c[n].launch))
			break;
		if (!c[n].launch.can)
			continue;
		if (on->strict && rlx_g_bits(c[n].launch.variant, &c[n].launch.param) ==
				  RLX_G_BITS_OTHER) {
			none = "it rounds or adds up otherwise than strict bits have it";
			continue;
		}
		t.blocks = (double)c[n].launch.grid[0] * c[n].launch.grid[1] *
			   c[n].launch.grid[2];
		o->cost(args, &c[n].launch, &t);
		c[n].ns = c[n].launch.ns = rlx_g_cost_ns(&c[n].launch, &t);
		n++;
	}
	if (!n && most)
		c[n++] = (struct rlx_g_candidate){
			.variant = o->variant,
			.why_not = why ? why : none,
		};
	return n;
}

void rlx_g_choose(const struct rlx_g_family *f, const void *args, struct rlx_g_launch *l)
{
	struct rlx_g_candidate c[RLX_G_MOST_CANDIDATES];
	unsigned int n = 0, i, best = RLX_G_MOST_CANDIDATES;

	for (i = 0; i < f->n_option; i++)
		n += list_option(&f->option[i], args, l, &c[n], RLX_G_MOST_CANDIDATES - n);
	for (i = 0; i < n; i++)
		if (!c[i].why_not && (best == RLX_G_MOST_CANDIDATES ||
				      gains(c[i].ns, c[best].ns, rlx_g_least_ns(l))))
			best = i;
	if (best == RLX_G_MOST_CANDIDATES)
		return;
	if (l->judge)
		best = l->judge->choose(l->judge, f, args, c, n, best);
	*l = c[best].launch;
}
