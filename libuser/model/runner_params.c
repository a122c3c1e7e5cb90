// SPDX-License-Identifier: MIT
/*
 * Params of a model that is a graph: set once for all sizes. They lie in arenas of their own,
 * which the sessions of all stages bind; large ones a device with memory has before any run.
 */
#include <string.h>

#include "base/alloc.h"
#include "ir/dims.h"
#include "model/compiled.h"
#include "rlx/resident.h"
#include "rt/convert.h"

/*
 * Devices share memory in steps of up to 2 MiB: what is smaller than half of one is not resident,
 * but uploaded by each session that meets it first. It is in the device once all the same while
 * sessions have it, as weights are by their address.
 */
enum { LEAST_LARGE = 1 << 20 };

/* What a param was set to; clones share it. */
struct rlx_param_value {
	atomic_uint		 refs;
	struct rlx_arena	*arena;
	struct rlx_resident	*resident;	/* NULL: the device uses the host's memory */
};

static struct rlx_param_value *value_get(struct rlx_param_value *v)
{
	if (v)
		atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
	return v;
}

static void value_put(struct rlx_param_value *v)
{
	if (!v || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) != 1)
		return;
	rlx_resident_put(v->resident);
	rlx_arena_put(v->arena);
	rlx_free(v);
}

enum rlx_status rlx_runner_params_init(struct rlx_runner *r, struct rlx_error *err)
{
	unsigned int i;

	r->n_param = r->m->graph ? rlx_graph_io_count(r->m->graph, RLX_IO_PARAM) : 0;
	if (!r->n_param)
		return RLX_OK;
	r->param = rlx_calloc(r->n_param, sizeof(*r->param));
	r->value = rlx_calloc(r->n_param, sizeof(*r->value));
	r->set_turn = rlx_calloc(r->n_param, sizeof(*r->set_turn));
	if (!r->param || !r->value || !r->set_turn)
		return rlx_runner_no_memory(err);
	for (i = 0; i < r->n_param; i++) {	/* one of a fixed shape has its type at once */
		r->param[i].name = rlx_graph_io_name(r->m->graph, RLX_IO_PARAM, i);
		r->param[i].type = *rlx_type_of(r->m->graph, rlx_graph_io_value(r->m->graph,
										RLX_IO_PARAM, i));
	}
	return RLX_OK;
}

void rlx_runner_params_fini(struct rlx_runner *r)
{
	unsigned int i;

	for (i = 0; r->value && i < r->n_param; i++)
		value_put(r->value[i]);
	rlx_free(r->value);
	rlx_free(r->set_turn);
	rlx_free(r->param);
}

/*
 * Clones share it, so no session may write there; the device's own memory has it once for all, but
 * for experts of a program that places them. Where either is not to be had (RLX_ENOSUP) each
 * session brings it as it does other weights.
 */
static enum rlx_status share(const struct rlx_runner *r, struct rlx_param_value *v,
			     struct rlx_error *err)
{
	struct rlx_error why = { 0 };
	struct rlx_device *dev;
	enum rlx_status st = rlx_arena_seal(v->arena, RLX_SEAL_WRITE, &why);

	if (!st && !(r->opts.flags & RLX_COMPILE_PLACE) &&
	    !rlx_device_get(rlx_device_choice(r->opts.device), 0, &dev, NULL)) {
		/* without a device compiling says what is wrong with it */
		if (dev->be->memory)
			st = rlx_resident_new(v->arena, 0, r->opts.device, &v->resident, &why);
		rlx_device_put(dev);
	}
	return st && st != RLX_ENOSUP ? rlx_fail(err, st, "%s", why.text) : RLX_OK;
}

static void release(void *ctx, void *base, uint64_t bytes)
{
	(void)ctx;
	(void)bytes;
	rlx_free(base);
}

/* Small ones, of which there may be thousands: a descriptor each is more than a process has. */
static enum rlx_status small_arena(uint64_t bytes, struct rlx_arena **out, struct rlx_error *err)
{
	struct rlx_arena_user u = { .base = rlx_aligned(64, bytes), .size = bytes,
				    .release = release, .flags = RLX_ARENA_RDONLY };
	enum rlx_status st;

	if (!u.base)
		return rlx_runner_no_memory(err);
	st = rlx_arena_wrap(&u, out, err);
	if (st)
		rlx_free(u.base);
	return st;
}

/* A copy of @data in the dtype of @to. */
static enum rlx_status value_new(const struct rlx_runner *r, const struct rlx_type *to,
				 const struct rlx_type *from, const void *data,
				 struct rlx_param_value **out, struct rlx_error *err)
{
	uint64_t bytes = (uint64_t)rlx_type_bytes(to);
	struct rlx_arena_opts o = { .name = "rlx-param", .size = bytes };
	struct rlx_param_value *v = rlx_calloc(1, sizeof(*v));
	enum rlx_status st;

	if (!v)
		return rlx_runner_no_memory(err);
	atomic_init(&v->refs, 1);
	st = bytes < LEAST_LARGE ? small_arena(bytes ? bytes : 1, &v->arena, err) :
	     rlx_arena_new(&o, &v->arena, err);
	if (!st) {
		rlx_convert(*to, rlx_arena_base(v->arena), *from, data);
		st = bytes < LEAST_LARGE ? RLX_OK : share(r, v, err);
	}
	if (st)
		value_put(v);
	else
		*out = v;
	return st;
}

/* Does the template take it, together with the params that are set already? */
static enum rlx_status check_type(const struct rlx_runner *r, unsigned int at,
				  const struct rlx_type *type, struct rlx_error *err)
{
	const struct rlx_graph *g = r->m->graph;
	struct rlx_leaf_type *l = rlx_calloc(r->n_param, sizeof(*l));
	int64_t *size = rlx_calloc((g->dims ? g->dims->n : 0) + 1ul, sizeof(*size));
	struct rlx_type have = *type;
	enum rlx_status st = RLX_OK;
	uint32_t n = 0, i;

	if (!l || !size)
		st = rlx_runner_no_memory(err);
	for (i = 0; !st && i < r->n_param; i++)
		if (i != at && r->value[i])
			l[n++] = (struct rlx_leaf_type){ r->param[i].name, &r->param[i].type };
	if (!st) {
		l[n++] = (struct rlx_leaf_type){ r->param[at].name, type };
		st = rlx_dims_solve(g, l, n, false, size, err);
	}
	rlx_free(l);
	rlx_free(size);
	if (st)
		return st;
	have.dtype = rlx_type_of(g, rlx_graph_io_value(g, RLX_IO_PARAM, at))->dtype;
	return rlx_may_convert(&have, type, "param", r->param[at].name, err);
}

/* Is what was set since @s was given params of the types that its program takes? */
static bool takes_types(const struct rlx_runner *r, const struct rlx_stage *s)
{
	unsigned int i;
	int at;

	for (i = 0; i < r->n_param; i++) {
		at = rlx_program_io_find(s->program, RLX_IO_PARAM, r->param[i].name);
		if (r->set_turn[i] > s->turn && at >= 0 &&
		    !rlx_type_equal(rlx_program_io_type(s->program, RLX_IO_PARAM, (unsigned int)at),
				    &r->param[i].type))
			return false;
	}
	return true;
}

void rlx_stage_drop_session(struct rlx_runner *r, struct rlx_stage *s)
{
	rlx_session_free(s->session);
	s->session = NULL;
	r->bytes -= s->bytes;
	s->bytes = 0;
	s->turn = 0;
}

/*
 * Sessions run without the runner, too, and what they had goes. One that cannot take it now (a
 * run is under way) is behind, and gets it when the runner uses it next. One of other shapes is
 * made again for them.
 */
static void bind_in_all(struct rlx_runner *r)
{
	struct rlx_stage *s;

	for (s = r->all; s; s = s->next_all) {
		if (!s->session)
			continue;
		if (takes_types(r, s))
			(void)rlx_runner_params_bind(r, s, NULL);
		else if (!s->lent && s != r->last)	/* it would keep params that are no more */
			rlx_stage_drop_session(r, s);
	}
}

enum rlx_status rlx_runner_set(struct rlx_runner *r, const char *param, struct rlx_type type,
			       const void *data, struct rlx_error *err)
{
	struct rlx_param_value *v = NULL;
	struct rlx_error own = { 0 };
	struct rlx_type to = type;
	enum rlx_status st;
	unsigned int i;

	err = err ? err : &own;
	if (!r || !param || rlx_type_bytes(&type) < 0 || (!data && rlx_type_bytes(&type)))
		return rlx_fail(err, RLX_EINVAL, "runner: a param '%.80s' of a whole type, and "
				"its data, are needed", param ? param : "(null)");
	for (i = 0; i < r->n_param && strcmp(r->param[i].name, param); i++)
		;
	if (i == r->n_param)
		return rlx_fail(err, RLX_ENOENT, "runner: %s no param '%.80s'", r->m->graph ?
				"the graph has" : "weights of files are their own, there is", param);
	st = check_type(r, i, &type, err);
	if (st)
		return st;
	to.dtype = rlx_type_of(r->m->graph, rlx_graph_io_value(r->m->graph, RLX_IO_PARAM,
							       i))->dtype;
	st = value_new(r, &to, &type, data, &v, err);
	if (st)
		return st;
	value_put(r->value[i]);
	r->value[i] = v;
	r->param[i].type = to;
	r->set_turn[i] = ++r->turn;
	bind_in_all(r);
	return RLX_OK;
}

/* The params that are set, in the graph's order, as builds take them. */
unsigned int rlx_runner_params_set(const struct rlx_runner *r, struct rlx_named_tensor *out)
{
	unsigned int i, n = 0;

	for (i = 0; i < r->n_param; i++)
		if (r->value[i])
			out[n++] = r->param[i];
	return n;
}

enum rlx_status rlx_runner_params_whole(const struct rlx_runner *r, struct rlx_error *err)
{
	unsigned int i;

	for (i = 0; i < r->n_param; i++)
		if (!r->value[i])
			return rlx_fail(err, RLX_EINVAL, "runner: the param '%s' is not set; "
					"rlx_runner_set() does that", r->param[i].name);
	return RLX_OK;
}

enum rlx_status rlx_runner_params_bind(const struct rlx_runner *r, struct rlx_stage *s,
				       struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;
	unsigned int i;

	if (s->turn == r->turn || !s->session)
		return RLX_OK;
	for (i = 0; i < r->n_param && !st; i++)
		if (r->set_turn[i] > s->turn)
			st = rlx_session_bind(s->session, RLX_IO_PARAM, r->param[i].name,
					      rlx_buf_whole(r->value[i]->arena));
	if (st)
		return rlx_fail(err, st, "%s", rlx_session_error(s->session)->text);
	s->turn = r->turn;
	return RLX_OK;
}

enum rlx_status rlx_runner_clone(const struct rlx_runner *r, struct rlx_runner **out,
				 struct rlx_error *err)
{
	struct rlx_error own = { 0 };
	struct rlx_runner *c;
	enum rlx_status st;
	unsigned int i;

	err = err ? err : &own;
	if (!r || !out)
		return rlx_fail(err, RLX_EINVAL, "runner: one, and a place for the clone, are "
				"needed");
	*out = NULL;
	st = rlx_runner_new(r->m, &r->opts, &c, err);
	if (st)
		return st;
	for (i = 0; i < r->n_param; i++) {
		c->value[i] = value_get(r->value[i]);
		c->param[i] = r->param[i];
		c->set_turn[i] = r->set_turn[i];
	}
	c->turn = r->turn;
	rlx_compiles_put(c->compiles);
	c->compiles = rlx_compiles_get(r->compiles);
	*out = c;
	return RLX_OK;
}
