// SPDX-License-Identifier: MIT
// Graphs: captured tasks, run in an order that their dependences allow.
#include "emu.h"

#include <stdlib.h>
#include <string.h>

struct emu_graph {
	struct emu_task	**node;
	int		n, cap;
};

struct emu_exec {
	struct emu_graph *graph;
	int		refs;
	unsigned int	runs;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct emu_graph *emu_graph_new(void)
{
	struct emu_graph *g = calloc(1, sizeof(*g));

	if (g)
		emu_count(EMU_GRAPH, 1);
	return g;
}

void emu_graph_put(struct emu_graph *g)
{
	if (!g)
		return;
	for (int i = 0; i < g->n; i++)
		emu_task_free(g->node[i]);
	free(g->node);
	free(g);
	emu_count(EMU_GRAPH, -1);
}

struct emu_task *emu_graph_add(struct emu_graph *g, const struct emu_task *t,
			       struct emu_task **dep, int n_dep)
{
	struct emu_task *n = emu_task_copy(t);

	if (g->n == g->cap) {
		int cap = g->cap ? g->cap * 2 : 16;
		struct emu_task **p = realloc(g->node, (size_t)cap * sizeof(*p));

		if (p) {
			g->node = p;
			g->cap = cap;
		} else {
			emu_task_free(n);
			n = NULL;
		}
	}
	if (!n)
		return NULL;
	n->dep = malloc((size_t)(n_dep + 1) * sizeof(*dep));
	if (!n->dep) {
		emu_task_free(n);
		return NULL;
	}
	if (n_dep)
		memcpy(n->dep, dep, (size_t)n_dep * sizeof(*dep));
	n->n_dep = n_dep;
	n->index = g->n;
	g->node[g->n++] = n;
	return n;
}

void emu_graph_mark(struct emu_graph *g, struct emu_task **node, int n)
{
	for (int i = 0; i < g->n; i++)
		g->node[i]->done = false;
	for (int i = 0; i < n; i++)
		node[i]->done = true;
	for (int i = g->n; i-- > 0;)	/* a node's dependences were there before it */
		for (int k = 0; g->node[i]->done && k < g->node[i]->n_dep; k++)
			g->node[i]->dep[k]->done = true;
}

static struct emu_graph *graph_copy(const struct emu_graph *g)
{
	struct emu_graph *c = emu_graph_new();

	for (int i = 0; c && i < g->n; i++) {
		const struct emu_task *t = g->node[i];
		struct emu_task *n = emu_graph_add(c, t, t->dep, t->n_dep);

		if (!n) {
			emu_graph_put(c);
			return NULL;
		}
		for (int k = 0; k < n->n_dep; k++)
			n->dep[k] = c->node[t->dep[k]->index];
	}
	return c;
}

void emu_exec_hold(struct emu_exec *x)
{
	pthread_mutex_lock(&lock);
	x->refs++;
	pthread_mutex_unlock(&lock);
}

void emu_exec_put(struct emu_exec *x)
{
	bool last;

	pthread_mutex_lock(&lock);
	last = --x->refs == 0;
	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	emu_graph_put(x->graph);
	free(x);
	emu_count(EMU_EXEC, -1);
}

static bool ready(const struct emu_task *t)
{
	if (t->done)
		return false;
	for (int k = 0; k < t->n_dep; k++)
		if (!t->dep[k]->done)
			return false;
	return true;
}

/*
 * Of the nodes that may run now take one of any place, or each second time the last one,
 * so that a dependence which was not captured shows.
 */
int emu_exec_run(struct emu_exec *x)
{
	struct emu_graph *g = x->graph;
	unsigned int dice = emu_config.seed + x->runs++ * 2654435761u;
	int err = 0, first = 0, *some = malloc((size_t)(g->n + 1) * sizeof(*some));
	bool last = x->runs % 2;
	static uint32_t all;
	uint32_t run = __atomic_add_fetch(&all, 1, __ATOMIC_RELAXED);

	if (!some)
		return EMU_OUT_OF_MEMORY;
	emu_graph_mark(g, NULL, 0);
	while (first < g->n && !err) {
		int n = 0;

		for (int i = first; i < g->n; i++)
			if (ready(g->node[i]))
				some[n++] = i;
		dice = dice * 1664525 + 1013904223;
		n = some[last ? n - 1 : (int)((dice >> 16) % (unsigned int)n)];
		if (g->node[n]->kind == EMU_TASK_KERNEL)
			g->node[n]->launch.run = run;
		err = emu_task_run(g->node[n]);
		g->node[n]->done = true;
		while (first < g->n && g->node[first]->done)
			first++;
	}
	free(some);
	return err;
}

EMU_API int cuGraphInstantiateWithFlags(struct emu_exec **out, struct emu_graph *g,
					unsigned long long flags);
EMU_API int cuGraphInstantiateWithFlags(struct emu_exec **out, struct emu_graph *g,
					unsigned long long flags)
{
	int err = emu_enter("cuGraphInstantiate");
	struct emu_exec *x;

	if (err)
		return err;
	x = calloc(1, sizeof(*x));
	if (!x)
		return EMU_OUT_OF_MEMORY;
	x->graph = graph_copy(g);
	if (!x->graph) {
		free(x);
		return EMU_OUT_OF_MEMORY;
	}
	x->refs = 1;
	emu_count(EMU_EXEC, 1);
	*out = x;
	return 0;
}

EMU_API int cuGraphLaunch(struct emu_exec *x, struct emu_stream *s);
EMU_API int cuGraphLaunch(struct emu_exec *x, struct emu_stream *s)
{
	int err = emu_enter("cuGraphLaunch");

	if (err)
		return err;
	return emu_submit(s, &(struct emu_task){ .kind = EMU_TASK_GRAPH, .exec = x });
}

EMU_API int cuGraphUpload(struct emu_exec *x, struct emu_stream *s);
EMU_API int cuGraphUpload(struct emu_exec *x, struct emu_stream *s)
{
	return emu_enter("cuGraphUpload");
}

EMU_API int cuGraphExecDestroy(struct emu_exec *x);
EMU_API int cuGraphExecDestroy(struct emu_exec *x)
{
	int err = emu_enter("cuGraphExecDestroy");

	emu_exec_put(x);
	return err;
}

EMU_API int cuGraphDestroy(struct emu_graph *g);
EMU_API int cuGraphDestroy(struct emu_graph *g)
{
	int err = emu_enter("cuGraphDestroy");

	emu_graph_put(g);
	return err;
}

EMU_API int cuGraphGetNodes(struct emu_graph *g, struct emu_task **out, size_t *n);
EMU_API int cuGraphGetNodes(struct emu_graph *g, struct emu_task **out, size_t *n)
{
	int err = emu_enter("cuGraphGetNodes");

	if (err)
		return err;
	for (int i = 0; out && i < g->n && (size_t)i < *n; i++)
		out[i] = g->node[i];
	if (!out || *n > (size_t)g->n)
		*n = (size_t)g->n;
	return 0;
}

/* CUgraphNodeType: 0 kernel 1 memcpy 2 memset 3 host 5 empty */
EMU_API int cuGraphNodeGetType(struct emu_task *t, int *out);
EMU_API int cuGraphNodeGetType(struct emu_task *t, int *out)
{
	static const int type[] = { [EMU_TASK_KERNEL] = 0, [EMU_TASK_COPY] = 1,
				    [EMU_TASK_SET] = 2, [EMU_TASK_HOST] = 3,
				    [EMU_TASK_EMPTY] = 5 };
	int err = emu_enter("cuGraphNodeGetType");

	if (!err)
		*out = type[t->kind];
	return err;
}

struct kernel_params {		/* CUDA_KERNEL_NODE_PARAMS_v2 */
	struct emu_kernel *kernel;
	unsigned int	grid[3], block[3], shared;
	void		**params, **extra;
	void		*kern, *ctx;
};

/* @t is the node of the graph; the exec's one has the same number. */
EMU_API int cuGraphExecKernelNodeSetParams_v2(struct emu_exec *x, struct emu_task *t,
					      const struct kernel_params *p);
EMU_API int cuGraphExecKernelNodeSetParams_v2(struct emu_exec *x, struct emu_task *t,
					      const struct kernel_params *p)
{
	struct emu_task with = { .kind = EMU_TASK_KERNEL }, *n, *old;
	int err = emu_enter("cuGraphExecKernelNodeSetParams");

	if (err)
		return err;
	if (t->kind != EMU_TASK_KERNEL || t->index >= x->graph->n || p->extra)
		return EMU_INVALID_VALUE;
	with.launch.kernel = p->kernel;
	memcpy(with.launch.grid, p->grid, sizeof(p->grid));
	memcpy(with.launch.block, p->block, sizeof(p->block));
	with.launch.shared = p->shared;
	for (int i = 0; p->kernel->size[i]; i++)
		with.launch.params[i] = p->params[i];
	err = emu_check_launch(&with.launch);
	if (err)
		return err;
	n = emu_task_copy(&with);
	if (!n)
		return EMU_OUT_OF_MEMORY;
	emu_sync_all();		/* launches before keep the old values */
	old = x->graph->node[t->index];
	free(old->launch.store);
	n->launch.early = old->launch.early;
	old->launch = n->launch;
	free(n);
	return 0;
}
