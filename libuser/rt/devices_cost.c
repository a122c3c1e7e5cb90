// SPDX-License-Identifier: MIT
/*
 * What a run is predicted to take: T = t_run + sum over steps of t_step and the longer of
 * operations by their rate and bytes by the bandwidth. The models are what such devices
 * commonly reach, to tell ten times from one; pick=measure knows better.
 */
#include <string.h>

#include "ir/graph.h"
#include "rt/devices.h"

/* By backend; a CPU's is made of its threads and instruction set. */
static const struct {
	const char		*backend;
	struct rlx_device_model	 m;
} models[] = {
	{ "cuda", { .t_run = 8e3, .t_step = 2e3, .t_transfer = 1e4, .bandwidth = 2e12, .link = 4e10,
		    .rate = { { 4e13, 4e14 }, { 1e13, 1e13 } } } },
	{ "rocm", { .t_run = 1.5e4, .t_step = 4e3, .t_transfer = 2e4, .bandwidth = 1.5e12,
		    .link = 4e10, .rate = { { 3e13, 2e14 }, { 1e13, 1e13 } } } },
	{ "vulkan", { .t_run = 5e4, .t_step = 4e3, .t_transfer = 3e4, .bandwidth = 5e11,
		      .link = 2e10, .rate = { { 8e12, 1.6e13 }, { 5e12, 5e12 } } } },
	{ "ref", { .t_run = 1e3, .t_step = 500, .bandwidth = 1e9, .link = 1e10,
		   .rate = { { 2e8, 2e8 }, { 1e8, 1e8 } } } },
	{ "null", { .t_run = 100, .t_step = 10, .bandwidth = 1e15, .link = 1e15,
		    .rate = { { 1e18, 1e18 }, { 1e18, 1e18 } } } },
};

/* Multiply-adds of a core a second, times two, by level, of elements of 4 and 2 bytes. */
static const struct {
	const char	*isa;
	double		 f32, f16;
} cores[] = {
	{ "base", 1.5e10, 8e9 }, { "v3", 6e10, 5e10 }, { "v4", 1e11, 8e10 },
	{ "v4_vnni", 1e11, 8e10 }, { "v4x", 1e11, 1.5e11 }, { "v4_amx", 1e11, 8e11 },
};

static struct rlx_device_model model_of(const struct rlx_dev_info *d)
{
	const size_t len = strcspn(d->backend, ":");
	struct rlx_device_model m = { .t_run = 1e3, .t_step = 300, .bandwidth = 1.2e10,
				      .link = 1.2e10 };
	double f32 = 1.5e10, f16 = 1.5e10, threads = d->threads ? d->threads : 1;
	unsigned int i;

	for (i = 0; i < sizeof(models) / sizeof(models[0]); i++)
		if (strlen(models[i].backend) == len && !memcmp(models[i].backend, d->backend, len))
			return models[i].m;
	for (i = 0; i < sizeof(cores) / sizeof(cores[0]); i++)
		if (!strcmp(cores[i].isa, d->isa)) {
			f32 = cores[i].f32;
			f16 = cores[i].f16;
		}
	m.rate[RLX_COST_GEMM][0] = f32 * threads;
	m.rate[RLX_COST_GEMM][1] = f16 * threads;
	m.rate[RLX_COST_OTHER][0] = m.rate[RLX_COST_OTHER][1] = f32 * threads / 8;
	m.bandwidth *= threads < 4 ? threads : 4;
	return m;
}

static double step_ns(const struct rlx_device_model *m, const struct rlx_op_def *def,
		      const struct rlx_type *out, struct rlx_cost c)
{
	const bool gemm = def->traits & RLX_T_COMPUTE;
	const size_t width = rlx_dtype_size(out->dtype);
	const double rate = m->rate[gemm ? RLX_COST_GEMM : RLX_COST_OTHER][width && width <= 2];
	const double compute = 1e9 * c.flops / rate, move = 1e9 * c.bytes / m->bandwidth;

	return m->t_step + (compute > move ? compute : move);
}

static bool usable(const struct rlx_device_model *m)
{
	int i, k;

	for (i = 0; i < RLX_COST_CLASSES; i++)
		for (k = 0; k < 2; k++)
			if (!(m->rate[i][k] > 0))
				return false;
	return m->bandwidth > 0 && m->t_run >= 0 && m->t_step >= 0;
}

/* Each step by @m; in @out_steps how many there are, without views. */
static double steps_ns(const struct rlx_plan *p, const struct rlx_device_model *m,
		       double *out_steps)
{
	double ns = 0;
	uint32_t i;

	*out_steps = 0;
	for (i = 0; i < p->n_step; i++) {
		const struct rlx_plan_step *st = &p->step[i];

		if (!st->def || !st->n_out)
			continue;
		ns += step_ns(m, st->def, &p->val[st->out[0]].type, rlx_plan_cost(p, st));
		++*out_steps;
	}
	return ns;
}

double rlx_cost_estimate(const struct rlx_graph *g, const struct rlx_device_model *m,
			 struct rlx_error *err)
{
	struct rlx_plan *p;
	double ns, steps;

	if (!g || !g->finished || g->err.status) {
		rlx_fail(err, RLX_EINVAL, "cost: the graph is not finished");
		return -1;
	}
	if (rlx_graph_is_bound(g, "cost", err))
		return -1;
	if (!m || m->size < sizeof(*m) || !usable(m)) {
		rlx_fail(err, RLX_EINVAL, "cost: the model lacks its size, a rate or a bandwidth");
		return -1;
	}
	/* A plan references its graph, and changes nothing of it. */
	if (rlx_plan_new((struct rlx_graph *)(uintptr_t)g, &p, err))
		return -1;
	ns = m->t_run + steps_ns(p, m, &steps);
	rlx_plan_free(p);
	return ns;
}

/* Inputs and outputs that cross to a memory of the device's own. */
static double io_ns(const struct rlx_program *p, const struct rlx_device_model *m)
{
	double bytes = 0;
	unsigned int i;
	int io;

	for (io = RLX_IO_INPUT; io <= RLX_IO_OUTPUT; io += RLX_IO_OUTPUT)
		for (i = 0; i < rlx_program_io_count(p, io); i++)
			bytes += (double)rlx_type_bytes(rlx_program_io_type(p, io, i));
	return 2 * m->t_transfer + 1e9 * bytes / m->link;
}

double rlx_devices_cost(const struct rlx_program *p, const struct rlx_dev_info *d)
{
	static const struct rlx_dev_info reference = { .backend = "ref" };
	const struct rlx_device_model m = model_of(d), ref = model_of(&reference);
	double steps, ns = m.t_run + steps_ns(p->plan, &m, &steps);

	/* Which steps are the host's a program does not tell: each is as the mean of all. */
	if (p->info.host && steps)
		ns += steps_ns(p->plan, &ref, &steps) * (p->info.host / steps) +
		      p->code->crossing * 2 * m.t_transfer;
	return d->memory ? ns + io_ns(p, &m) : ns;
}
