// SPDX-License-Identifier: MIT
/* Launches on memory of their own, as graphs between two events. */
#include <string.h>

#include "backends/gpu/tune_rig.h"
#include "base/alloc.h"

uint64_t gpu_rig_memory(struct gpu_rig *r, uint64_t bytes, unsigned char fill)
{
	uint64_t at;

	if (r->n_mem == GPU_RIG_MEMORY || gpu_mem_new(r->d, bytes + 64, &at, &r->err))
		return 0;
	r->mem[r->n_mem++] = at;
	return r->d->api->fill8(at, fill, bytes + 64, r->stream) ? 0 : at;
}

/* The driver takes the maps' address from the arguments, as a run does. */
static bool make_env(struct gpu_rig *r, const struct rlx_g_launch *l, struct rlx_g_env *env)
{
	_Alignas(64) unsigned char map[RLX_G_TENSOR_MAPS][RLX_G_TENSOR_MAP_BYTES];
	uint64_t at, zeros = gpu_rig_memory(r, RLX_G_ZEROS * sizeof(uint32_t), 0);
	uint64_t scratch = gpu_rig_memory(r, l->scratch, 0), maps;
	uint32_t i;

	for (i = 0; i < l->n_map; i++) {
		at = scratch + l->map[i].field;
		if (!l->map[i].in_scratch)
			memcpy(&at, r->args + l->map[i].field, sizeof(at));
		if (gpu_tensor_map_make(r->d, &l->map[i], at, map[i], &r->err))
			return false;
	}
	maps = gpu_rig_memory(r, sizeof(map), 0);
	*env = (struct rlx_g_env){
		.scratch = (void *)(uintptr_t)scratch, .zeros = (uint32_t *)(uintptr_t)zeros,
		.maps = (const void *)(uintptr_t)maps, .units = l->units,
	};
	return zeros && scratch && maps &&
	       !r->d->api->copy_in(maps, map, sizeof(map), r->stream) &&
	       !r->d->api->stream_wait(r->stream);
}

/* @behind: another of the graph, whose end it need not wait for to begin, as in a program's. */
static int launch(struct gpu_rig *r, const struct rlx_g_launch *l, void *fn, struct rlx_g_env *env,
		  bool behind)
{
	void *args[2] = { r->args, env };
	int rc = 0;

	for (env->pass = 0; env->pass < (l->n_launches ? l->n_launches : 1) && !rc; env->pass++)
		rc = gpu_launch_kernel(r->d, l, fn, args, r->stream, behind);
	return rc;
}

void *gpu_rig_graph(struct gpu_rig *r, const struct rlx_g_launch *l, unsigned int n)
{
	const struct gpu_kernel k = gpu_kernel_of(l->variant, &l->param, l->shared);
	const struct rlx_gpu_api *api = r->d->api;
	void *fn, *graph = NULL, *exec = NULL;
	struct rlx_g_env env;
	int rc, end;

	if (gpu_function_get(r->d, &k, &fn, &r->err) || !make_env(r, l, &env) ||
	    launch(r, l, fn, &env, false) || api->stream_wait(r->stream) ||
	    api->capture_begin(r->stream, 1))
		return NULL;
	rc = 0;
	for (unsigned int i = 0; i < n && !rc; i++)
		rc = launch(r, l, fn, &env, i > 0);
	end = api->capture_end(r->stream, &graph);
	if (!rc && !end && api->graph_ready(&exec, graph, 0))
		exec = NULL;
	if (!end && graph)
		api->graph_free(graph);
	return exec;
}

double gpu_rig_time(struct gpu_rig *r, void *graph)
{
	const struct rlx_gpu_api *api = r->d->api;
	float ms = 0;

	if (api->event_record(r->event[0], r->stream) || api->graph_launch(graph, r->stream) ||
	    api->event_record(r->event[1], r->stream) || api->stream_wait(r->stream) ||
	    api->event_elapsed(&ms, r->event[0], r->event[1]))
		return 0;
	return ms * 1e6;
}

void gpu_rig_graph_free(struct gpu_rig *r, void *graph)
{
	if (graph)
		r->d->api->graph_exec_free(graph);
}

struct gpu_rig *gpu_rig_new(struct gpu_device *d)
{
	struct gpu_rig *r = rlx_aligned(64, sizeof(*r));

	if (!r)
		return NULL;
	memset(r, 0, sizeof(*r));
	r->d = d;
	if (!gpu_enter(d, &r->err) && !d->api->stream_new(&r->stream, 1) &&
	    !d->api->event_new(&r->event[0], 0) && !d->api->event_new(&r->event[1], 0))
		return r;
	gpu_rig_free(r);
	return NULL;
}

void gpu_rig_free(struct gpu_rig *r)
{
	unsigned int i;

	if (!r)
		return;
	if (r->stream)
		r->d->api->stream_wait(r->stream);
	for (i = 0; i < 2; i++)
		if (r->event[i])
			r->d->api->event_free(r->event[i]);
	while (r->n_mem)
		gpu_mem_free(r->d, r->mem[--r->n_mem]);
	if (r->stream)
		r->d->api->stream_free(r->stream);
	rlx_free(r);
}
