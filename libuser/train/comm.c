// SPDX-License-Identifier: MIT
/* Communicators: making one, and the calls that all kinds have. */
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/status.h"
#include "train/comm.h"

static enum rlx_status in_host(struct rlx_comm *c, int what, const struct rlx_reduction *r)
{
	if (what == COMM_SUM)
		return comm_sum(c, r->src, r->dst, r->count, r->dtype);
	if (what == COMM_SCATTER)
		return comm_scatter(c, r->src, r->dst, r->count, r->dtype);
	return comm_gather(c, r->src, r->dst, r->count * rlx_dtype_size(r->dtype));
}

static enum rlx_status run(struct rlx_comm *c, int what, const struct rlx_reduction *r,
			   struct rlx_error *err)
{
	enum rlx_status st = c->err.status;

	if (!st && !r->device)
		st = in_host(c, what, r);
	else if (!st && c->nccl)
		st = comm_nccl_run(c, what, r);
	else if (!st)
		st = comm_failed(c, RLX_ENOSUP, "sums in the memory of '%s' want a communicator of "
				 "kind nccl or rccl; this one is shm", r->device);
	if (st)
		rlx_error_set(err, st, c->err.file, c->err.line, "%s", c->err.text);
	return st;
}

static enum rlx_status all_reduce(void *ctx, const struct rlx_reduction *r, struct rlx_error *err)
{
	return run(ctx, COMM_SUM, r, err);
}

static enum rlx_status reduce_scatter(void *ctx, const struct rlx_reduction *r,
				      struct rlx_error *err)
{
	return run(ctx, COMM_SCATTER, r, err);
}

static enum rlx_status all_gather(void *ctx, const struct rlx_reduction *r, struct rlx_error *err)
{
	return run(ctx, COMM_GATHER, r, err);
}

/* The rank's own. In a device's memory sums are in place. */
static enum rlx_status no_reduce(void *ctx, const struct rlx_reduction *r, struct rlx_error *err)
{
	(void)ctx;
	(void)err;
	if (!r->device && r->dst != r->src)
		memcpy(r->dst, r->src, r->count * rlx_dtype_size(r->dtype));
	return RLX_OK;
}

/*
 * What comes of the rank's part, or the parts of others, is for nobody: runs that only add up
 * select by whether an update is due. Of a device it stays what the memory has.
 */
static enum rlx_status no_scatter(void *ctx, const struct rlx_reduction *r, struct rlx_error *err)
{
	(void)ctx;
	(void)err;
	if (!r->device)
		memset(r->dst, 0, r->count * rlx_dtype_size(r->dtype));
	return RLX_OK;
}

static enum rlx_status no_gather(void *ctx, const struct rlx_reduction *r, struct rlx_error *err)
{
	const struct rlx_comm *c = ctx;

	(void)err;
	if (!r->device)
		memset(r->dst, 0, r->count * c->collective.ranks * rlx_dtype_size(r->dtype));
	return RLX_OK;
}

static enum rlx_status ended(void *ctx, struct rlx_error *err)
{
	struct rlx_comm *c = ctx;
	enum rlx_status st = c->err.status;

	if (!st && c->nccl)
		st = comm_nccl_ended(c);
	if (st)
		rlx_error_set(err, st, c->err.file, c->err.line, "%s", c->err.text);
	return st;
}

/* All have come, with the same number of ranks (comm_find() looked) and kind. */
static enum rlx_status join(struct rlx_comm *c)
{
	struct comm_tag tag = { .what = COMM_JOIN, .dtype = (uint32_t)c->kind };
	enum rlx_status st = comm_meet(c, tag, NULL, 0);

	if (!st)
		comm_watch(c);
	return st || !c->nccl ? st : comm_nccl_begin(c);
}

enum rlx_status rlx_comm_new(const struct rlx_comm_opts *opts, struct rlx_comm **out,
			     struct rlx_error *err)
{
	struct rlx_comm_opts o = { 0 };
	struct rlx_error own = { 0 };
	struct rlx_comm *c;
	enum rlx_status st;

	if (!err)
		err = &own;
	if (!out || (opts && !opts->size))
		return rlx_fail(err, RLX_EINVAL, "communicator: a place for the result and "
				"opts.size are needed");
	*out = NULL;
	if (opts)
		memcpy(&o, opts, opts->size < sizeof(o) ? opts->size : sizeof(o));
	if (o.kind < 0 || o.kind > RLX_COMM_RCCL || o.timeout_ns < 0)
		return rlx_fail(err, RLX_EINVAL, "communicator: kind is one of enum rlx_comm_kind, "
				"timeout_ns not below 0");
	c = rlx_calloc(1, sizeof(*c));
	if (!c)
		return rlx_fail(err, RLX_ENOMEM, "communicator: out of memory");
	memset(c->pidfd, -1, sizeof(c->pidfd));
	c->kind = o.kind;
	c->timeout = o.timeout_ns ? (uint64_t)o.timeout_ns : UINT64_C(600000000000);
	c->collective = (struct rlx_collective){
		.ctx = c, .all_reduce = all_reduce, .reduce_scatter = reduce_scatter,
		.all_gather = all_gather, .ended = ended,
	};
	st = comm_find(c, &o, err);
	c->idle = c->collective;
	c->idle.all_reduce = no_reduce;
	c->idle.reduce_scatter = no_scatter;
	c->idle.all_gather = no_gather;
	if (!st && c->kind != RLX_COMM_SHM) {
		st = comm_nccl_open(c, err);
		if (st)
			rlx_comm_fail(c, err->text);
	}
	if (!st && join(c))
		st = rlx_error_set(err, c->err.status, c->err.file, c->err.line, "%s",
				   c->err.text);
	if (st)
		rlx_comm_free(c);
	else
		*out = c;
	return st;
}

void rlx_comm_free(struct rlx_comm *c)
{
	unsigned int i;

	if (!c)
		return;
	if (c->nccl)
		comm_nccl_close(c);
	comm_stand_up(c);
	for (i = 0; i < COMM_MOST; i++)
		if (c->pidfd[i] >= 0)
			close(c->pidfd[i]);
	rlx_arena_put(c->arena);
	rlx_free(c);
}

enum rlx_status rlx_comm_arena(unsigned int ranks, struct rlx_arena **out, struct rlx_error *err)
{
	struct rlx_arena_opts o = { .name = "comm", .flags = RLX_ARENA_NOLOCK | RLX_ARENA_LAZY };
	enum rlx_status st;

	if (!out || !ranks || ranks > COMM_MOST)
		return rlx_fail(err, RLX_EINVAL, "communicator: %u ranks; 1 to %d can meet", ranks,
				COMM_MOST);
	o.size = comm_shared_bytes(ranks);
	st = rlx_arena_new(&o, out, err);
	if (!st)
		comm_shared_init(rlx_arena_base(*out), ranks);
	return st;
}

unsigned int rlx_comm_rank(const struct rlx_comm *c)
{
	return c ? c->collective.rank : 0;
}

unsigned int rlx_comm_ranks(const struct rlx_comm *c)
{
	return c ? c->collective.ranks : 1;
}

const struct rlx_collective *rlx_comm_collective(const struct rlx_comm *c)
{
	return c ? &c->collective : NULL;
}

const struct rlx_collective *rlx_comm_idle(const struct rlx_comm *c)
{
	return c ? &c->idle : NULL;
}

const struct rlx_error *rlx_comm_error(const struct rlx_comm *c)
{
	return c ? &c->err : &rlx_error_null;
}

enum rlx_status rlx_comm_all_reduce(struct rlx_comm *c, void *data, uint64_t count,
				    enum rlx_dtype dtype)
{
	if (!c || (!data && count))
		return RLX_EINVAL;
	return c->err.status ? c->err.status : comm_sum(c, data, data, count, dtype);
}

enum rlx_status rlx_comm_reduce_scatter(struct rlx_comm *c, const void *src, void *dst,
					uint64_t count, enum rlx_dtype dtype)
{
	if (!c || ((!src || !dst) && count))
		return RLX_EINVAL;
	return c->err.status ? c->err.status : comm_scatter(c, src, dst, count, dtype);
}

enum rlx_status rlx_comm_all_gather(struct rlx_comm *c, const void *src, void *dst, size_t bytes)
{
	if (!c || ((!src || !dst) && bytes))
		return RLX_EINVAL;
	return c->err.status ? c->err.status : comm_gather(c, src, dst, bytes);
}

enum rlx_status rlx_comm_broadcast(struct rlx_comm *c, void *data, size_t bytes)
{
	struct comm_tag tag = { .what = COMM_BROADCAST, .count = bytes };
	enum rlx_status st = RLX_OK;
	size_t at, n;

	if (!c || (!data && bytes))
		return RLX_EINVAL;
	st = c->err.status;
	for (at = 0; at < bytes && !st; at += n) {
		n = bytes - at < COMM_WORD ? bytes - at : COMM_WORD;
		st = comm_meet(c, tag, (char *)data + at, n);
		if (!st)
			memcpy((char *)data + at, comm_word(c, 0), n);
	}
	return st;
}

enum rlx_status rlx_comm_barrier(struct rlx_comm *c)
{
	if (!c)
		return RLX_EINVAL;
	return c->err.status ? c->err.status :
	       comm_meet(c, (struct comm_tag){ .what = COMM_BARRIER }, NULL, 0);
}

enum rlx_status rlx_comm_agree(struct rlx_comm *c, const char *what, uint64_t value)
{
	enum rlx_status st;
	unsigned int r;
	uint64_t v[2];

	if (!c || !what)
		return RLX_EINVAL;
	st = c->err.status ? c->err.status :
	     comm_meet(c, (struct comm_tag){ .what = COMM_AGREE }, &value, sizeof(value));
	memcpy(v, comm_word(c, 0), sizeof(*v));
	for (r = 1; r < c->collective.ranks && !st; r++) {
		memcpy(v + 1, comm_word(c, r), sizeof(*v));
		if (v[1] != v[0])
			st = comm_failed(c, RLX_EPROTO, "the %s of rank %u is %#llx, that of rank 0 "
					 "%#llx; all ranks want the same", what, r,
					 (unsigned long long)v[1], (unsigned long long)v[0]);
	}
	return st;
}
