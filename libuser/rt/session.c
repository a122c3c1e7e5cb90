// SPDX-License-Identifier: MIT
/* A session's life, its run, and which outputs a run computes. */
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/thread.h"
#include "mem/arena.h"
#include "rlx/collective.h"
#include "rt/session.h"
#include "rt/trace.h"

/* What the host and the device pass each other is copied, whatever buffers are bound. */
static enum rlx_status refuse_crossing(const struct rlx_program *p, struct rlx_error *err)
{
	uint32_t i = p->code->first_crossing;
	const struct rlx_plan_step *at = &p->plan->step[i];

	rlx_error_set(err, RLX_EACCES, at->file, at->line, "session: it is strict, and %u of %u "
		      "steps run on the host with values that are copied from or to %s, the first "
		      "being step %u, %s; RLX_COMPILE_NATIVE tells why there is no kernel: change "
		      "the op, or open the session without strict", p->code->crossing,
		      p->plan->n_step, p->info.device, i, at->def->name);
	if (err)
		err->node = at->node;
	return RLX_EACCES;
}

/* Look at a workspace that sessions may share, and hold it. */
static enum rlx_status take_work(struct rlx_session *s, struct rlx_buf work,
				 struct rlx_error *err)
{
	uint64_t need = s->p->code->work_bytes;

	/* A buffer that leaves its arena has no address. */
	if (work.bytes < need || (uintptr_t)rlx_buf_ptr(work) % 64 || !rlx_buf_ptr(work))
		return rlx_fail(err, RLX_ERANGE, "session: %llu bytes of workspace, 64-byte "
				"aligned, are needed; given are %llu", (unsigned long long)need,
				(unsigned long long)work.bytes);
	if (rlx_arena_flags(work.arena) & RLX_ARENA_RDONLY)
		return rlx_fail(err, RLX_EACCES, "session: the workspace is read-only");
	rlx_arena_get(work.arena);
	s->work = work;
	s->work_given = true;
	return RLX_OK;
}

/* One arena for the workspace, the inputs and the outputs. */
static enum rlx_status take_arena(struct rlx_session *s, struct rlx_arena *given,
				  struct rlx_error *err)
{
	struct rlx_arena_opts o = {
		.name = "rlx-session", .size = s->p->info.session_bytes,
	};
	enum rlx_status st;

	if (s->work_given)
		o.size -= s->p->code->work_bytes;
	if (given) {
		s->arena = rlx_arena_get(given);
	} else {
		st = rlx_arena_new(&o, &s->arena, err);
		if (st)
			return st;
	}
	if (s->work_given)
		return RLX_OK;
	st = rlx_buf_new(s->arena, s->p->code->work_bytes ? s->p->code->work_bytes : 1,
			 64, &s->work, err);
	return st;
}

static enum rlx_status take_slots(struct rlx_session *s, struct rlx_error *err)
{
	unsigned int i, n;
	int io;

	s->exec = rlx_calloc(1, s->p->dev->be->exec_size);
	s->persistent = rlx_calloc(rlx_slot_count(s, RLX_IO_OUTPUT) + 1, sizeof(*s->persistent));
	s->content = rlx_calloc(rlx_slot_count(s, RLX_IO_INPUT) + 1, sizeof(*s->content));
	s->placed = rlx_calloc(rlx_slot_count(s, RLX_IO_OUTPUT) + 1, sizeof(*s->placed));
	if (!s->exec || !s->persistent || !s->content || !s->placed)
		goto out_no_memory;
	s->exec->content = s->content;
	for (io = 0; io < 3; io++) {
		n = rlx_slot_count(s, io);
		s->slot[io] = rlx_calloc(n + 1, sizeof(*s->slot[io]));
		s->ptr[io] = rlx_calloc(n + 1, sizeof(*s->ptr[io]) + sizeof(*s->exec->at[io]));
		s->arenas[io] = rlx_calloc(n + 1, sizeof(*s->arenas[io]));
		if (!s->slot[io] || !s->ptr[io] || !s->arenas[io])
			goto out_no_memory;
		for (i = 0; i < n; i++) {
			const struct rlx_plan_io *e = &s->p->plan->io[io][i];
			const struct rlx_type *t = &s->p->plan->val[e->val].type;

			s->slot[io][i] = (struct rlx_slot){
				.name = e->name, .type = t, .state = e->state, .other = -1,
				.bytes = (uint64_t)rlx_type_bytes(t), .feeds = -1,
			};
			if (io != RLX_IO_OUTPUT || !e->state)
				continue;
			s->slot[io][i].other = (int)e->donated - 1;
			s->slot[RLX_IO_INPUT][e->donated - 1].other = (int)i;
		}
		s->exec->ptr[io] = s->ptr[io];
		s->exec->at[io] = (uint64_t *)(s->ptr[io] + n + 1);
		s->exec->arena[io] = s->arenas[io];
	}
	return RLX_OK;
out_no_memory:
	return rlx_fail(err, RLX_ENOMEM, "session: out of memory");
}

enum rlx_status rlx_session_new(struct rlx_program *p,
				const struct rlx_session_opts *opts,
				struct rlx_session **out, struct rlx_error *err)
{
	struct rlx_session_opts o = { 0 };
	struct rlx_error own = { 0 };
	struct rlx_session *s;
	enum rlx_status st;

	if (!err)
		err = &own;
	if (!p || !out || (opts && !opts->size))
		return rlx_fail(err, RLX_EINVAL,
				"session: a program, a place for the result and opts.size are needed");
	*out = NULL;
	if (opts)
		memcpy(&o, opts, opts->size < sizeof(o) ? opts->size : sizeof(o));
	if (o.strict && p->code->crossing)
		return refuse_crossing(p, err);
	s = rlx_calloc(1, sizeof(*s));
	if (!s)
		return rlx_fail(err, RLX_ENOMEM, "session: out of memory");
	s->p = rlx_program_get(p);
	s->strict = o.strict;
	pthread_mutex_init(&s->runner.lock, NULL);
	pthread_cond_init(&s->runner.work, NULL);
	rlx_cond_init(&s->runner.done);
	st = take_slots(s, err);
	if (!st)
		st = o.work.arena ? take_work(s, o.work, err) : RLX_OK;
	if (!st)
		st = take_arena(s, o.arena, err);
	if (!st)
		st = rlx_skip_init(s, err);
	if (!st)
		st = rlx_placements_init(s, err);
	if (!st) {
		s->exec->code = p->code;
		s->exec->work = rlx_buf_ptr(s->work);
		s->exec->work_kept = !s->work_given;
		s->exec->work_arena = s->work.arena;
		s->exec->err = err;
		st = p->dev->be->init(s->exec);
		s->exec->err = &s->err;
		if (st)		/* nothing for fini to undo */
			s->exec->code = NULL;
	}
	if (!st)
		st = rlx_states_attach(s, o.states, err);
	if (st) {
		rlx_session_free(s);
		return st;
	}
	*out = s;
	return RLX_OK;
}

void rlx_session_free(struct rlx_session *s)
{
	unsigned int i;
	int io;

	if (!s)
		return;
	rlx_runner_fini(s);
	if (s->exec && s->exec->code)
		s->p->dev->be->fini(s->exec);
	rlx_states_detach(s);
	for (io = 0; io < 3; io++) {
		for (i = 0; s->slot[io] && i < rlx_slot_count(s, io); i++)
			rlx_slot_fini(&s->slot[io][i]);
		rlx_free(s->slot[io]);
		rlx_free(s->ptr[io]);
		rlx_free(s->arenas[io]);
	}
	if (s->work_given)
		rlx_arena_put(s->work.arena);
	else if (s->work.arena)
		rlx_buf_free(s->work, NULL);
	rlx_arena_put(s->arena);
	rlx_skip_fini(s);
	rlx_placements_fini(s);
	rlx_free(s->persistent);
	rlx_free(s->content);
	rlx_free(s->placed);
	rlx_free(s->exec);
	rlx_program_put(s->p);
	rlx_free(s);
}

const struct rlx_error *rlx_session_error(const struct rlx_session *s)
{
	return s ? &s->err : &rlx_error_null;
}

enum rlx_status rlx_session_collective(struct rlx_session *s, const struct rlx_collective *c)
{
	if (!s)
		return RLX_EINVAL;
	s->err = (struct rlx_error){ 0 };
	if (rlx_runner_busy(s))
		return rlx_fail(&s->err, RLX_EBUSY, "a submitted run is under way");
	if (c && (!c->all_reduce || c->rank >= c->ranks))
		return rlx_fail(&s->err, RLX_EINVAL, "collective: rank %u of %u; and all_reduce is "
				"needed", c->rank, c->ranks);
	s->exec->collective = c;
	return RLX_OK;
}

struct rlx_program *rlx_session_program(const struct rlx_session *s)
{
	return s ? s->p : NULL;
}

struct rlx_transfers rlx_session_transfers(const struct rlx_session *s)
{
	return s ? s->exec->moved : (struct rlx_transfers){ 0 };
}

enum rlx_status rlx_session_want(struct rlx_session *s, const char *const *outputs,
				 unsigned int n)
{
	const struct rlx_plan *p;
	uint8_t *want = NULL;
	unsigned int i, at;

	if (!s)
		return RLX_EINVAL;
	s->err = (struct rlx_error){ 0 };
	if (rlx_runner_busy(s))
		return rlx_fail(&s->err, RLX_EBUSY, "a submitted run is under way");
	p = s->p->plan;
	if (outputs) {
		want = rlx_calloc((size_t)p->n_val + 1, 1);
		if (!want)
			return rlx_fail(&s->err, RLX_ENOMEM, "session: out of memory");
	}
	for (i = 0; outputs && i < n; i++) {
		if (!rlx_slot_find(s, &(enum rlx_io){ RLX_IO_OUTPUT }, outputs[i], &at)) {
			rlx_free(want);
			return s->err.status;
		}
		want[p->val[p->io[RLX_IO_OUTPUT][at].val].root] = 1;
	}
	rlx_free(s->want);
	s->want = want;
	s->skip_stale = true;
	return RLX_OK;
}

/* RLX_ESHAPE if @upper is the leading dimension of no input: all would be computed. */
static enum rlx_status check_rows(struct rlx_session *s, int64_t actual, int64_t upper)
{
	unsigned int i, n = rlx_slot_count(s, RLX_IO_INPUT);
	const struct rlx_slot *in = s->slot[RLX_IO_INPUT];
	char known[256] = "", type[96];
	size_t at = 0;

	for (i = 0; i < n; i++)
		if (rlx_plan_has_rows(in[i].type, upper))
			return RLX_OK;
	for (i = 0; i < n && at < sizeof(known); i++) {
		rlx_type_print(in[i].type, type, sizeof(type));
		at += (size_t)snprintf(known + at, sizeof(known) - at, "%s%s %s", i ? ", " : "",
				       in[i].name, type);
	}
	return rlx_fail(&s->err, RLX_ESHAPE, "extent %lld of %lld: no input has %lld rows or a "
			"multiple of them (inputs: %s); give the leading dimension that the "
			"program was compiled for", (long long)actual, (long long)upper,
			(long long)upper, n ? known : "none");
}

enum rlx_status rlx_session_extent(struct rlx_session *s, int64_t actual, int64_t upper)
{
	if (!s)
		return RLX_EINVAL;
	s->err = (struct rlx_error){ 0 };
	if (rlx_runner_busy(s))
		return rlx_fail(&s->err, RLX_EBUSY, "a submitted run is under way");
	if (actual < 0 || upper < 1 || actual > upper)
		return rlx_fail(&s->err, RLX_ERANGE, "extent %lld of %lld",
				(long long)actual, (long long)upper);
	if (actual && check_rows(s, actual, upper))
		return s->err.status;
	s->exec->extent = actual == upper ? 0 : actual;
	s->exec->upper = upper;
	return RLX_OK;
}

/* Outputs that become inputs: exchange buffers, so nothing is copied. */
static void feed(struct rlx_session *s)
{
	unsigned int o, n = rlx_slot_count(s, RLX_IO_OUTPUT);

	for (o = 0; o < n; o++) {
		struct rlx_slot *out = &s->slot[RLX_IO_OUTPUT][o], *in;
		struct rlx_slot t = *out;

		if (out->feeds < 0 || s->persistent[o])
			continue;
		in = &s->slot[RLX_IO_INPUT][out->feeds];
		/* With whose they are, for rlx_session_unbind(). */
		out->buf = in->buf;
		out->own = in->own;
		out->bound = in->bound;
		out->shown = in->shown;
		out->computed = false;
		in->buf = t.buf;
		in->own = t.own;
		in->bound = t.bound;
		in->shown = t.shown;
		rlx_slot_apply(s, RLX_IO_OUTPUT, o);
		rlx_slot_apply(s, RLX_IO_INPUT, (unsigned int)out->feeds);
	}
}

static void copy_staged(struct rlx_session *s)
{
	unsigned int i, n = rlx_slot_count(s, RLX_IO_INPUT);

	for (i = 0; i < n; i++) {
		struct rlx_slot *in = &s->slot[RLX_IO_INPUT][i];

		if (!in->staged)
			continue;
		memcpy(rlx_buf_ptr(in->stage), rlx_buf_ptr(in->buf), in->bytes);
		rlx_stat_copied(in->bytes);
	}
	rlx_session_copy_views(s, RLX_IO_INPUT);
}

/* Is anything copied before or after a run? */
bool rlx_session_stages(const struct rlx_session *s)
{
	unsigned int i;
	int io;

	for (io = RLX_IO_INPUT; io <= RLX_IO_OUTPUT; io++)
		for (i = 0; i < rlx_slot_count(s, io); i++)
			if (s->slot[io][i].staged || s->slot[io][i].view)
				return true;
	return false;
}

/* What another rank's end did to this run is the reason for all that came of it. */
static enum rlx_status ask_collective(struct rlx_session *s, enum rlx_status st)
{
	const struct rlx_collective *c = s->exec->collective;
	struct rlx_error err = { 0 };

	if (!c || !c->ended || !c->ended(c->ctx, &err))
		return st;
	*s->exec->err = err;
	return err.status;
}

enum rlx_status rlx_session_ended(struct rlx_session *s, enum rlx_status st)
{
	st = ask_collective(s, st);
	if (s->exec->copied)
		rlx_stat_copied(s->exec->copied);
	s->exec->copied = 0;
	rlx_content_ran(s, st);
	if (!st)
		rlx_skip_ran(s);
	if (!st)
		feed(s);
	return st;
}

enum rlx_status rlx_exec_run(struct rlx_exec *exec)
{
	const struct rlx_backend *be = exec->code->dev->be;
	uint64_t point = 0;
	enum rlx_status st = be->submit(exec, false, &point);

	return st || !be->wait ? st : be->wait(exec, point, -1);
}

enum rlx_status rlx_session_run_now(struct rlx_session *s)
{
	enum rlx_status st;

	copy_staged(s);
	rlx_skip_begin(s);
	st = rlx_trace_on() ? rlx_trace_run(s) : rlx_exec_run(s->exec);
	if (!st)
		rlx_session_copy_views(s, RLX_IO_OUTPUT);
	return rlx_session_ended(s, st);
}

enum rlx_status rlx_session_run(struct rlx_session *s)
{
	enum rlx_status st;

	if (!s)
		return RLX_EINVAL;
	if (s->err.status)
		s->err = (struct rlx_error){ 0 };
	if (rlx_runner_busy(s))
		return rlx_fail(&s->err, RLX_EBUSY,
				"a submitted run is under way; wait for it first");
	st = s->ready ? RLX_OK : rlx_slots_ready(s);
	return st ? st : rlx_session_run_now(s);
}
