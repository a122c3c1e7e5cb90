// SPDX-License-Identifier: MIT
/* rlx load over a channel of rlxd: requests by the same clock as over HTTP. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "rlx/rlxd.h"
#include "rlx/serve.h"
#include "tools/rlx/load_run.h"

enum { REAP = 64, SLICES = 2 * RLXD_TENSORS };

/* A request of its own memory, asked again and again. */
struct slot {
	struct rlx_request	 rq;
	struct rlx_request_slice *slice;	/* in the arena, if they are many */
	int64_t			 due, begun;
	struct slot		*next;		/* idle ones */
	struct rlx_buf		 out[RLXD_TENSORS];
};

struct run {
	const struct load_plan	*p;
	struct load_result	*r;
	struct load_clock	 clock;
	struct rlx_channel	*ch;
	struct rlx_arena	*arena;
	struct rlxd_model	 model;
	struct rlxd_ask		 ask;
	unsigned int		 n_in;
	struct slot		*slot, *idle;
	unsigned int		 busy;
	bool			 gone;		/* nobody takes requests any more */
	const struct slot	*first;		/* answered first, if all must be alike */
};

/* Bytes of a tensor with its free dimensions from @size on; -1: more than there are. */
static int64_t tensor_bytes(const struct rlxd_tensor *t, const uint32_t *size, unsigned int *at)
{
	struct rlx_type type = { .dtype = (enum rlx_dtype)t->dtype, .rank = t->rank };
	unsigned int k;

	for (k = 0; k < t->rank && k < RLX_MAX_RANK; k++)
		type.dim[k] = t->dim[k] >= 0 ? t->dim[k] :
			      *at < RLXD_SIZES ? (int64_t)size[(*at)++] : -1;
	return rlx_type_bytes(&type);
}

/* How large an output becomes is the model's to know: as large as any size makes it. */
static int64_t output_bytes(const struct run *u, const struct rlxd_tensor *t)
{
	uint32_t most[RLXD_SIZES] = { 1 };
	unsigned int k, at = 0;

	for (k = 0; k < RLXD_SIZES; k++)
		most[0] = u->ask.size[k] > most[0] ? u->ask.size[k] : most[0];
	for (k = 1; k < RLXD_SIZES; k++)
		most[k] = most[0];
	return tensor_bytes(t, most, &at);
}

static enum rlx_status ask_model(struct run *u, struct rlx_error *err)
{
	struct rlx_request rq = { .opcode = RLXD_MODEL, .nr_slices = 1,
				  .inline_len = sizeof(u->ask) };
	struct rlx_reply reply;
	enum rlx_status st;
	struct rlx_buf b;

	memcpy(rq.inline_data, &u->ask, sizeof(u->ask));
	st = rlx_buf_new(u->arena, sizeof(u->model), 64, &b, err);
	if (!st)
		st = rlx_channel_slice(u->ch, b, RLX_ACCESS_WRITE, &rq.slice[0]);
	if (!st)
		st = rlx_channel_call(u->ch, &rq, &reply, rlx_deadline_in(10000000000));
	if (!st && reply.result)
		return rlx_fail(err, (enum rlx_status)reply.result, "there is no model '%s' at %s",
				u->p->model, u->p->channel);
	if (st)
		return rlx_fail(err, st, "%s: %s", u->p->channel, rlx_channel_error(u->ch)->text);
	memcpy(&u->model, rlx_buf_ptr(b), sizeof(u->model));
	if (!u->model.in_place || u->model.nr_in > RLXD_TENSORS || u->model.nr_out > RLXD_TENSORS)
		return rlx_fail(err, RLX_ENOSUP, "model %s cannot be asked over a channel",
				u->p->model);
	return RLX_OK;
}

/* Sizes that were not given are 1, and an encoder's shortest length. */
static void fill_sizes(struct run *u)
{
	unsigned int i, k, at = 0;

	for (i = 0; i < u->model.nr_in && !u->model.in[i].optional; i++)
		for (k = 0; k < u->model.in[i].rank; k++, at += u->model.in[i].dim[k - 1] < 0)
			if (u->model.in[i].dim[k] < 0 && !u->ask.size[at])
				u->ask.size[at] = k && u->model.nr_length ? u->model.length[0] : 1;
	u->n_in = i;
}

/* Something to compute with; integers stay zeros, for they may be indices. */
static void fill(struct rlx_buf b, const struct rlxd_tensor *t)
{
	float *x = rlx_buf_ptr(b);
	uint64_t i;

	for (i = 0; t->dtype == RLX_F32 && i < b.bytes / sizeof(*x); i++)
		x[i] = (float)(i * 37 % 101) / 101 - 0.5f;
}

/* Memory of its own for a tensor, and the slice that names it. */
static enum rlx_status add_slice(struct run *u, int64_t bytes, uint32_t access, struct rlx_buf *b,
				 struct rlx_request_slice *slice, struct rlx_error *err)
{
	enum rlx_status st = rlx_buf_new(u->arena, bytes ? (uint64_t)bytes : 1, 64, b, err);

	return st ? st : rlx_channel_slice(u->ch, *b, access, slice);
}

static enum rlx_status make_slot(struct run *u, struct slot *s, struct rlx_error *err)
{
	unsigned int i, at = 0, n = u->n_in + u->model.nr_out;
	struct rlx_buf list, in;
	enum rlx_status st;

	st = rlx_buf_new(u->arena, SLICES * sizeof(*s->slice), 64, &list, err);
	if (st)
		return st;
	s->slice = n > RLX_REQUEST_SLICES ? rlx_buf_ptr(list) : s->rq.slice;
	for (i = 0; !st && i < u->n_in; i++) {
		st = add_slice(u, tensor_bytes(&u->model.in[i], u->ask.size, &at),
			       RLX_ACCESS_READ, &in, &s->slice[i], err);
		if (!st)
			fill(in, &u->model.in[i]);
	}
	for (i = 0; !st && i < u->model.nr_out; i++)
		st = add_slice(u, output_bytes(u, &u->model.out[i]), RLX_ACCESS_WRITE,
			       &s->out[i], &s->slice[u->n_in + i], err);
	s->rq.opcode = RLXD_INFER;
	s->rq.user_data = (uint64_t)(s - u->slot);
	s->rq.nr_slices = n;
	s->rq.inline_len = sizeof(u->ask);
	memcpy(s->rq.inline_data, &u->ask, sizeof(u->ask));
	if (!st && s->slice != s->rq.slice) {
		list.bytes = n * sizeof(*s->slice);
		s->rq.flags = RLX_REQUEST_INDIRECT;
		st = rlx_channel_slice(u->ch, list, RLX_ACCESS_READ, &s->rq.slice[0]);
	}
	s->next = u->idle;
	u->idle = s;
	return st;
}

/* Room for all slots; a slice is rounded up to 64 bytes. */
static enum rlx_status attach(struct run *u, uint64_t bytes, struct rlx_error *err)
{
	struct rlx_arena_opts o = { .size = bytes, .name = "rlx-load" };
	uint32_t handle;
	enum rlx_status st;

	rlx_arena_put(u->arena);
	u->arena = NULL;
	st = rlx_arena_new(&o, &u->arena, err);
	return st ? st : rlx_channel_attach(u->ch, u->arena, RLX_ACCESS_READ | RLX_ACCESS_WRITE,
					    &handle, err);
}

static enum rlx_status make_slots(struct run *u, struct rlx_error *err)
{
	uint64_t bytes = SLICES * (sizeof(struct rlx_request_slice) + 64);
	enum rlx_status st = RLX_OK;
	unsigned int i, at = 0;
	int64_t n;

	fill_sizes(u);
	for (i = 0; i < u->n_in + u->model.nr_out; i++) {
		n = i < u->n_in ? tensor_bytes(&u->model.in[i], u->ask.size, &at) :
				  output_bytes(u, &u->model.out[i - u->n_in]);
		if (n < 0 || n > (int64_t)1 << 40)
			return rlx_fail(err, RLX_ERANGE, "--size makes a tensor too large");
		bytes += (uint64_t)n;
	}
	st = attach(u, bytes * u->p->connections, err);
	for (i = 0; !st && i < u->p->connections; i++)
		st = make_slot(u, &u->slot[i], err);
	return st;
}

static void judge(struct run *u, const struct rlx_reply *reply, int64_t now)
{
	struct slot *s = &u->slot[reply->user_data];
	struct load_result *r = u->r;
	unsigned int i;

	u->busy--;
	s->next = u->idle;
	u->idle = s;
	if (s->due < u->clock.measure)
		return;
	if (reply->result) {
		r->bad_status++;
		r->status = reply->result;
		snprintf(r->text, sizeof(r->text), "%s",
			 rlx_status_name((enum rlx_status)reply->result));
		return;
	}
	if (u->p->same && !u->first)
		u->first = s;
	for (i = 0; u->first && i < u->model.nr_out; i++)
		if (memcmp(rlx_buf_ptr(u->first->out[i]), rlx_buf_ptr(s->out[i]),
			   u->first->out[i].bytes)) {
			r->differ++;
			return;
		}
	r->ok++;
	hist_add(&r->time, (uint64_t)(now - s->due));
	hist_add(&r->service, (uint64_t)(now - s->begun));
}

/* Begin what is due; when the next is. */
static int64_t begin_due(struct run *u)
{
	int64_t now = (int64_t)rlx_now(), due;
	struct slot *s;

	for (;;) {
		due = load_clock_due(&u->clock, now);
		s = u->idle;
		if (due > now || !s || u->gone)
			return due;
		/* There is room for all slots: what is refused now will be for ever. */
		u->gone = rlx_channel_submit(u->ch, &s->rq, 1, NULL) != 1;
		if (u->gone) {
			u->r->broken++;
			return due;
		}
		u->idle = s->next;
		s->due = due;
		s->begun = now;
		u->busy++;
		u->clock.n++;
		u->r->sent++;
		now = (int64_t)rlx_now();
	}
}

static void sleep_until(int64_t ns)
{
	struct timespec ts = { ns / 1000000000, ns % 1000000000 };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

static void loop(struct run *u)
{
	int64_t next, until, now;
	struct rlx_reply reply[REAP];
	int i, n;

	for (;;) {
		next = begin_due(u);
		now = (int64_t)rlx_now();
		if ((u->gone && !u->busy) || load_clock_over(&u->clock, now, u->busy))
			break;
		until = u->idle && next != INT64_MAX && !u->gone ? next : now + 100000000;
		n = 0;
		if (u->busy)
			n = rlx_channel_wait(u->ch, reply, 1, REAP, (uint64_t)until);
		else
			sleep_until(until);
		if (n < 0)
			break;
		now = (int64_t)rlx_now();
		for (i = 0; i < n; i++)
			judge(u, &reply[i], now);
	}
	u->r->broken += u->busy;
	load_clock_end(&u->clock, u->r);
}

enum rlx_status load_run_channel(const struct load_plan *p, struct load_result *out,
				 struct rlx_error *err)
{
	struct rlx_channel_opts o = {
		.size = sizeof(o), .address = p->channel, .depth = 1,
		.spin_ns = p->spin ? RLX_NO_DEADLINE - 1 : RLX_SPIN_AUTO,
	};
	struct run u = { .p = p, .r = out };
	enum rlx_status st;

	while (o.depth < p->connections)
		o.depth *= 2;
	memcpy(u.ask.model, p->model, strlen(p->model));
	memcpy(u.ask.size, p->size, sizeof(u.ask.size));
	u.slot = rlx_calloc(p->connections, sizeof(*u.slot));
	if (!u.slot)
		return rlx_fail(err, RLX_ENOMEM, "out of memory");
	st = rlx_channel_open(&o, &u.ch, err);
	if (!st)
		st = attach(&u, sizeof(u.model), err);
	if (!st)
		st = ask_model(&u, err);
	if (!st)
		st = make_slots(&u, err);
	if (!st) {
		load_clock_start(&u.clock, p);
		loop(&u);
	}
	rlx_channel_close(u.ch);
	rlx_arena_put(u.arena);
	rlx_free(u.slot);
	return st;
}
