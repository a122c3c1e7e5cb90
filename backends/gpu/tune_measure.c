// SPDX-License-Identifier: MIT
/*
 * Candidates for a launch, measured: on buffers of their sizes, each as a graph of launches, in
 * turns, of which the fastest turn counts.
 */
#include <string.h>

#include "backends/gpu/tune.h"
#include "backends/gpu/tune_rig.h"
#include "base/clock.h"

enum { MOST = 6, LAUNCHES = 20, TURNS = 3 };

/* What of the model's prediction is close enough to be worth a measurement. */
static const double close_by = 1.5;

/* Addresses of fresh memory in place of the values that the staged arguments refer to. */
static bool fill_args(struct gpu_rig *r, struct gpu_lower *gl, const void *args)
{
	const struct rlx_lower *lo = &gl->base;
	struct { uint32_t root; uint64_t at; } seen[RLX_LOWER_REFS];
	uint32_t i, k, n = 0, root;
	uint64_t at;

	if (lo->n_staged > sizeof(r->args))
		return false;
	memcpy(r->args, args, lo->n_staged);
	for (i = 0; i < lo->n_ref; i++) {
		const struct rlx_ref *f = &lo->ref[i];

		if (f->kind != RLX_REF_VALUE)	/* a status word, tables */
			return false;
		root = lo->plan->val[f->val].root;
		for (k = 0; k < n && seen[k].root != root; k++)
			;
		if (k == n) {
			seen[n].root = root;
			seen[n].at = gpu_rig_memory(r, rlx_plan_bytes(lo->plan, root), 1);
			if (!seen[n++].at)
				return false;
		}
		at = seen[k].at + f->off;
		if (f->at != RLX_NO_FIELD)
			memcpy(r->args + f->at, &at, sizeof(at));
	}
	return true;
}

/* The nearest by prediction, at most MOST of them, @least first. */
static unsigned int list_close(const struct rlx_g_candidate *c, unsigned int n,
			       unsigned int least, unsigned int out[MOST])
{
	unsigned int many = 1, i, k;
	double most;

	out[0] = least;
	most = c[least].ns * close_by;
	while (many < MOST) {
		unsigned int best = n;

		for (i = 0; i < n; i++) {
			for (k = 0; k < many && out[k] != i; k++)
				;
			if (k == many && !c[i].why_not && c[i].ns <= most &&
			    (best == n || c[i].ns < c[best].ns))
				best = i;
		}
		if (best == n)
			break;
		out[many++] = best;
	}
	return many;
}

/* The fastest of @list into *@out_ns; 0: nobody ran. */
static unsigned int race(struct gpu_rig *r, const struct rlx_g_candidate *c,
			 const unsigned int *list, unsigned int n, double *out_ns)
{
	void *graph[MOST] = { NULL };
	double ns[MOST] = { 0 };
	unsigned int best = 0, i;

	for (i = 0; i < n; i++)
		graph[i] = gpu_rig_graph(r, &c[list[i]].launch, LAUNCHES);
	for (int turn = 0; turn < TURNS; turn++)
		for (i = 0; i < n; i++) {
			double t = graph[i] ? gpu_rig_time(r, graph[i]) / LAUNCHES : 0;

			if (t > 0 && (!(ns[i] > 0) || t < ns[i]))
				ns[i] = t;
		}
	for (i = 0; i < n; i++) {
		if (ns[i] > 0 && (!(ns[best] > 0) || ns[i] < ns[best]))
			best = i;
		gpu_rig_graph_free(r, graph[i]);
	}
	*out_ns = ns[best];
	return list[best];
}

unsigned int gpu_tune_measure(struct gpu_lower *gl, const void *args,
			      const struct rlx_g_candidate *c, unsigned int n, unsigned int least,
			      double *out_ns)
{
	unsigned int list[MOST], many = list_close(c, n, least, list), best = least;
	struct gpu_rig *r;

	*out_ns = 0;
	if (many < 2 || rlx_now() > gl->tune_until)
		return least;
	r = gpu_rig_new(gpu_of(&gl->base));
	if (r && fill_args(r, gl, args))
		best = race(r, c, list, many, out_ns);
	gpu_rig_free(r);
	return *out_ns > 0 ? best : least;
}
