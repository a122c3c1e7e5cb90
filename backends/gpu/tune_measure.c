// SPDX-License-Identifier: MIT
/*
 * Candidates for a launch, measured: on buffers of their sizes, each as a graph of launches, in
 * turns, of which the fastest turn counts.
 */
#include <string.h>

#include "backends/gpu/tune.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

enum { MOST = 6, LAUNCHES = 20, TURNS = 3, MOST_MEMORY = 128, MOST_ARGS = 4096 };

/* What of the model's prediction is close enough to be worth a measurement. */
static const double close_by = 1.5;

struct rig {
	struct gpu_device	*d;
	void			*stream, *event[2], *graph[MOST];
	uint64_t		 mem[MOST_MEMORY];	/* to be freed */
	unsigned int		 n_mem;
	_Alignas(64) unsigned char args[MOST_ARGS];
	struct rlx_error	 err;
};

/* Bytes of 1: small numbers, true, long lengths; 0: no memory. */
static uint64_t new_memory(struct rig *r, uint64_t bytes, unsigned char fill)
{
	uint64_t at;

	if (r->n_mem == MOST_MEMORY || gpu_mem_new(r->d, bytes + 64, &at, &r->err))
		return 0;
	r->mem[r->n_mem++] = at;
	return r->d->api->fill8(at, fill, bytes + 64, r->stream) ? 0 : at;
}

/* Addresses of fresh memory in place of the values that the staged arguments refer to. */
static bool fill_args(struct rig *r, struct gpu_lower *gl, const void *args)
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
			seen[n].at = new_memory(r, rlx_plan_bytes(lo->plan, root), 1);
			if (!seen[n++].at)
				return false;
		}
		at = seen[k].at + f->off;
		if (f->at != RLX_NO_FIELD)
			memcpy(r->args + f->at, &at, sizeof(at));
	}
	return true;
}

/* The driver takes the maps' address from the arguments, as a run does. */
static bool make_env(struct rig *r, const struct rlx_g_launch *l, struct rlx_g_env *env)
{
	_Alignas(64) unsigned char map[RLX_G_TENSOR_MAPS][RLX_G_TENSOR_MAP_BYTES];
	uint64_t at, zeros = new_memory(r, RLX_G_ZEROS * sizeof(uint32_t), 0);
	uint64_t scratch = new_memory(r, l->scratch, 0), maps;
	uint32_t i;

	for (i = 0; i < l->n_map; i++) {
		memcpy(&at, r->args + l->map[i].field, sizeof(at));
		if (gpu_tensor_map_make(r->d, &l->map[i], at, map[i], &r->err))
			return false;
	}
	maps = new_memory(r, sizeof(map), 0);
	*env = (struct rlx_g_env){
		.scratch = (void *)(uintptr_t)scratch, .zeros = (uint32_t *)(uintptr_t)zeros,
		.maps = (const void *)(uintptr_t)maps, .units = l->units,
	};
	return zeros && scratch && maps &&
	       !r->d->api->copy_in(maps, map, sizeof(map), r->stream) &&
	       !r->d->api->stream_wait(r->stream);
}

static int launch(struct rig *r, const struct rlx_g_launch *l, void *fn, struct rlx_g_env *env)
{
	void *args[2] = { r->args, env };
	int rc = 0;

	for (env->pass = 0; env->pass < (l->n_launches ? l->n_launches : 1) && !rc; env->pass++)
		rc = r->d->api->launch(fn, l->grid[0], l->grid[1], l->grid[2], l->block[0],
				       l->block[1], l->block[2], l->shared, r->stream, args, NULL);
	return rc;
}

/* A graph of launches of @l, after one that is waited for; NULL: it cannot be had. */
static void *make_graph(struct rig *r, const struct rlx_g_launch *l)
{
	const struct gpu_kernel k = gpu_kernel_of(l->variant, &l->param, l->shared);
	const struct rlx_gpu_api *api = r->d->api;
	void *fn, *graph = NULL, *exec = NULL;
	struct rlx_g_env env;
	int rc, end;

	if (gpu_function_get(r->d, &k, &fn, &r->err) || !make_env(r, l, &env) ||
	    launch(r, l, fn, &env) || api->stream_wait(r->stream) ||
	    api->capture_begin(r->stream, 1))
		return NULL;
	rc = 0;
	for (int i = 0; i < LAUNCHES && !rc; i++)
		rc = launch(r, l, fn, &env);
	end = api->capture_end(r->stream, &graph);
	if (!rc && !end && api->graph_ready(&exec, graph, 0))
		exec = NULL;
	if (!end && graph)
		api->graph_free(graph);
	return exec;
}

/* ns of a launch of @graph, or 0 */
static double run_graph(struct rig *r, void *graph)
{
	const struct rlx_gpu_api *api = r->d->api;
	float ms = 0;

	if (api->event_record(r->event[0], r->stream) || api->graph_launch(graph, r->stream) ||
	    api->event_record(r->event[1], r->stream) || api->stream_wait(r->stream) ||
	    api->event_elapsed(&ms, r->event[0], r->event[1]))
		return 0;
	return ms * 1e6 / LAUNCHES;
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
static unsigned int race(struct rig *r, const struct rlx_g_candidate *c,
			 const unsigned int *list, unsigned int n, double *out_ns)
{
	double ns[MOST] = { 0 };
	unsigned int best = 0, i;

	for (i = 0; i < n; i++)
		r->graph[i] = make_graph(r, &c[list[i]].launch);
	for (int turn = 0; turn < TURNS; turn++)
		for (i = 0; i < n; i++) {
			double t = r->graph[i] ? run_graph(r, r->graph[i]) : 0;

			if (t > 0 && (!(ns[i] > 0) || t < ns[i]))
				ns[i] = t;
		}
	for (i = 1; i < n; i++)
		if (ns[i] > 0 && (!(ns[best] > 0) || ns[i] < ns[best]))
			best = i;
	*out_ns = ns[best];
	return list[best];
}

static void fini(struct rig *r)
{
	unsigned int i;

	if (r->stream)
		r->d->api->stream_wait(r->stream);
	for (i = 0; i < MOST; i++)
		if (r->graph[i])
			r->d->api->graph_exec_free(r->graph[i]);
	for (i = 0; i < 2; i++)
		if (r->event[i])
			r->d->api->event_free(r->event[i]);
	while (r->n_mem)
		gpu_mem_free(r->d, r->mem[--r->n_mem]);
	if (r->stream)
		r->d->api->stream_free(r->stream);
}

unsigned int gpu_tune_measure(struct gpu_lower *gl, const void *args,
			      const struct rlx_g_candidate *c, unsigned int n, unsigned int least,
			      double *out_ns)
{
	unsigned int list[MOST], many = list_close(c, n, least, list), best = least;
	struct rig *r;

	*out_ns = 0;
	if (many < 2 || rlx_now() > gl->tune_until)
		return least;
	r = rlx_aligned(64, sizeof(*r));
	if (!r)
		return least;
	memset(r, 0, sizeof(*r));
	r->d = gpu_of(&gl->base);
	if (!gpu_enter(r->d, &r->err) && !r->d->api->stream_new(&r->stream, 1) &&
	    !r->d->api->event_new(&r->event[0], 0) && !r->d->api->event_new(&r->event[1], 0) &&
	    fill_args(r, gl, args))
		best = race(r, c, list, many, out_ns);
	fini(r);
	rlx_free(r);
	return *out_ns > 0 ? best : least;
}
