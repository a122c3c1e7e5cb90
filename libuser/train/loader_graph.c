// SPDX-License-Identifier: MIT
/* Batches as a program's inputs: what is bound, and the ops that pick a field out of it. */
#include <stdio.h>
#include <string.h>

#include "train/loader.h"

/* What a batch of part @p is bound to: data in units or rows of elements of @dt. */
static struct rlx_type data_type(const struct rlx_loader *ld, unsigned int p, enum rlx_dtype dt)
{
	const struct loader_part *lp = &ld->part[p];
	int64_t size = (int64_t)rlx_dtype_size(dt), unit = (int64_t)lp->unit;

	if (lp->fixed)
		return rlx_type(dt, ld->o.batch, (int64_t)lp->pitch / size);
	if (ld->layout == RLX_LAYOUT_ROWS)
		return rlx_type(dt, (int64_t)(lp->pitch * ld->o.batch) / unit, unit / size);
	if (ld->layout == RLX_LAYOUT_RESIDENT)
		return rlx_type(dt, ((int64_t)(ld->d.part[p].end - ld->d.part[p].base) + unit - 1) /
				unit, unit / size);
	return rlx_type(dt, (int64_t)(2 * ld->window_chunks * lp->pitch) / unit, unit / size);
}

static void data_name(char *buf, size_t n, unsigned int p, const char *what)
{
	snprintf(buf, n, "data%u.%s", p, what);
}

static void add_input(struct rlx_batch *b, enum rlx_io io, const char *name, struct rlx_type t,
		      struct rlx_buf memory, uint64_t at)
{
	unsigned int i;

	for (i = 0; i < b->n; i++)
		if (!strcmp(b->input[i].name, name))
			return;
	b->input[b->n].io = io;
	b->input[b->n].name = name;
	b->input[b->n].type = t;
	b->input[b->n].buf = (struct rlx_buf){
		memory.arena, memory.offset + at, (uint64_t)rlx_type_bytes(&t),
	};
	b->n++;
}

/* The text lives as long as the loader. */
static const char *keep_name(struct rlx_loader *ld, unsigned int p, unsigned int i,
			     const char *what)
{
	data_name(ld->name[p][i], sizeof(ld->name[p][i]), p, what);
	return ld->name[p][i];
}

static struct rlx_type batched(const struct rlx_loader *ld, const struct rlx_type *t)
{
	struct rlx_type b = { .dtype = t->dtype, .rank = t->rank + 1, .dim = { ld->o.batch } };

	memcpy(b.dim + 1, t->dim, t->rank * sizeof(*t->dim));
	return b;
}

void loader_describe(struct rlx_loader *ld, struct rlx_batch *b, const struct loader_slot *s)
{
	bool resident = ld->layout == RLX_LAYOUT_RESIDENT;
	unsigned int i;

	for (i = 0; i < ld->fields && ld->dense; i++)
		add_input(b, RLX_IO_INPUT, ld->public_field[i].name,
			  batched(ld, &ld->public_field[i].type), ld->memory,
			  s->at + ld->dense_at[i]);
	for (i = 0; i < ld->fields && !ld->dense; i++) {
		unsigned int p = ld->d.field[i].part;
		enum rlx_dtype dt = ld->public_field[i].type.dtype;
		const struct loader_part *lp = &ld->part[p];

		add_input(b, resident ? RLX_IO_PARAM : RLX_IO_INPUT,
			  keep_name(ld, p, dt, rlx_dtype_name(dt)), data_type(ld, p, dt), ld->memory,
			  ld->layout == RLX_LAYOUT_ROWS ? s->at + lp->data :
			  lp->region + lp->origin);
		if (!lp->fixed)
			add_input(b, RLX_IO_INPUT, keep_name(ld, p, 0, "rows"),
				  rlx_type(RLX_I64, ld->o.batch), ld->memory, s->at + lp->rows);
	}
}

/* The leaf of that name, or a new one: fields share what they are picked from. */
static rlx_value leaf(struct rlx_graph *g, enum rlx_io io, const char *name, struct rlx_type t)
{
	unsigned int i, n = g ? rlx_graph_io_count(g, io) : 0;

	for (i = 0; i < n; i++)
		if (!strcmp(rlx_graph_io_name(g, io, i), name))
			return rlx_graph_io_value(g, io, i);
	return io == RLX_IO_PARAM ? rlx_param(g, name, t) : rlx_input(g, name, t);
}

/* Columns [begin, begin + n) of x[B, ..], in shape @t with a batch axis. */
static rlx_value cut(const struct rlx_loader *ld, struct rlx_graph *g, rlx_value x,
		     int64_t begin, const struct rlx_type *t)
{
	int64_t n = rlx_type_count(t);
	struct rlx_type b = batched(ld, t);
	const struct rlx_type *have = rlx_type_of(g, x);

	if (have && (begin || have->dim[1] != n))
		x = rlx_emit(g, slice, .x = x, .axes = RLX_INTS(1), .starts = RLX_INTS(begin),
			     .ends = RLX_INTS(begin + n));
	return rlx_emit(g, reshape, .x = x, .shape = { b.dim, b.rank });
}

static rlx_value pick(const struct rlx_loader *ld, struct rlx_graph *g, unsigned int field)
{
	const struct dataset_field *f = &ld->d.field[field];
	const struct loader_part *lp = &ld->part[f->part];
	enum rlx_dtype dt = f->field.type.dtype;
	int64_t size = (int64_t)rlx_dtype_size(dt), unit = (int64_t)lp->unit, units;
	int64_t bytes = rlx_type_bytes(&f->field.type), batch = ld->o.batch;
	char name[32];
	rlx_value x, rows, steps;

	data_name(name, sizeof(name), f->part, rlx_dtype_name(dt));
	x = leaf(g, ld->layout == RLX_LAYOUT_RESIDENT ? RLX_IO_PARAM : RLX_IO_INPUT, name,
		 data_type(ld, f->part, dt));
	if (lp->fixed)
		return cut(ld, g, x, (int64_t)f->offset / size, &f->field.type);
	data_name(name, sizeof(name), f->part, "rows");
	rows = leaf(g, RLX_IO_INPUT, name, rlx_type(RLX_I64, batch));
	if (lp->whole) {
		x = rlx_emit(g, gather, .x = x, .indices = rows, .axis = 0);
		return cut(ld, g, x, (int64_t)f->offset / size, &f->field.type);
	}
	units = (bytes + unit - 1) / unit;
	steps = rlx_emit(g, iota, .type = rlx_type(RLX_I64, 1, units), .axis = 1,
			 .start = (double)((int64_t)f->offset / unit));
	rows = rlx_emit(g, reshape, .x = rows, .shape = RLX_INTS(batch, 1));
	rows = rlx_emit(g, add, .a = rows, .b = steps);
	x = rlx_emit(g, gather, .x = x, .indices = rows, .axis = 0);
	x = rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(batch, units * (unit / size)));
	return cut(ld, g, x, 0, &f->field.type);
}

rlx_value rlx_loader_input(const struct rlx_loader *ld, struct rlx_graph *g, const char *field)
{
	unsigned int i;

	if (!ld) {
		rlx_graph_fail(g, RLX_EINVAL, "no loader to take a field of");
		return RLX_NONE;
	}
	for (i = 0; i < ld->fields; i++)
		if (field && !strcmp(ld->public_field[i].name, field))
			break;
	if (i == ld->fields) {
		rlx_graph_fail(g, RLX_ENOENT, "%s: no field \"%.40s\"; there are %s%s%s%s",
			       ld->d.part[0].path, field ? field : "", ld->public_field[0].name,
			       ld->fields > 1 ? ", " : "",
			       ld->fields > 1 ? ld->public_field[1].name : "",
			       ld->fields > 2 ? " and others" : "");
		return RLX_NONE;
	}
	if (ld->dense)
		return leaf(g, RLX_IO_INPUT, field, batched(ld, &ld->public_field[i].type));
	return pick(ld, g, i);
}

/* Bind @b to what of it the program has. */
static enum rlx_status bind(struct rlx_session *s, const struct rlx_batch *b)
{
	struct rlx_program *p = rlx_session_program(s);
	enum rlx_status st = RLX_OK;
	unsigned int i;

	for (i = 0; i < b->n && !st; i++) {
		struct rlx_buf has;

		if (rlx_program_io_find(p, b->input[i].io, b->input[i].name) < 0)
			continue;
		has = b->input[i].io == RLX_IO_PARAM ?
		      rlx_session_bound(s, RLX_IO_PARAM, b->input[i].name) : (struct rlx_buf){ 0 };
		/* a device keeps a copy of a param: bound anew it would be moved again */
		if (has.arena == b->input[i].buf.arena && has.offset == b->input[i].buf.offset &&
		    has.arena)
			continue;
		st = rlx_session_bind(s, b->input[i].io, b->input[i].name, b->input[i].buf);
	}
	return st;
}

/* The batch that is fed next becomes ld->ahead, which is out until then. */
static enum rlx_status take_ahead(struct rlx_loader *ld, int64_t timeout_ns)
{
	enum rlx_status st = RLX_OK;

	if (!ld->is_ahead)
		st = rlx_loader_next(ld, &ld->ahead, timeout_ns);
	ld->is_ahead = !st;
	return st;
}

/* Inputs that the program has; a param stays where it is. @none: what was is forgotten. */
static enum rlx_status prefetch(struct rlx_session *s, const struct rlx_batch *b, bool none)
{
	struct rlx_program *p = rlx_session_program(s);
	enum rlx_status st = RLX_OK;
	unsigned int i;

	for (i = 0; i < b->n && !st; i++)
		if (b->input[i].io == RLX_IO_INPUT &&
		    rlx_program_io_find(p, RLX_IO_INPUT, b->input[i].name) >= 0)
			st = rlx_session_prefetch(s, RLX_IO_INPUT, b->input[i].name,
						  none ? (struct rlx_buf){ 0 } : b->input[i].buf);
	return st;
}

enum rlx_status rlx_loader_prefetch(struct rlx_loader *ld, struct rlx_session *s)
{
	enum rlx_status st;

	if (!ld)
		return RLX_EINVAL;
	st = take_ahead(ld, 0);
	if (st == RLX_ETIME || st == RLX_EAGAIN) {
		ld->err = (struct rlx_error){ 0 };
		return RLX_OK;
	}
	if (!st)
		st = prefetch(s, &ld->ahead, false);
	return st && ld->is_ahead ? rlx_fail(&ld->err, st, "%s", rlx_session_error(s)->text) : st;
}

enum rlx_status rlx_loader_feed(struct rlx_loader *ld, struct rlx_session *s)
{
	enum rlx_status st;

	if (!ld)
		return RLX_EINVAL;
	st = take_ahead(ld, ld->is_fed && ld->o.depth == 1 ? 0 : -1);
	if (st == RLX_EAGAIN && ld->is_fed) {	/* depth 1: the one that is out comes first */
		rlx_loader_done(ld, &ld->fed);
		ld->is_fed = false;
		st = take_ahead(ld, -1);
	}
	if (st)
		return st;
	if (ld->stale)		/* its memory has been read to anew */
		st = prefetch(s, &ld->ahead, true);
	if (!st)
		st = bind(s, &ld->ahead);
	if (!st && ld->o.keep_last)
		st = rlx_session_extent(s, ld->ahead.rows < ld->o.batch ? ld->ahead.rows : 0,
					ld->o.batch);
	if (st) {
		loader_give_back(ld);
		return rlx_fail(&ld->err, st, "%s", rlx_session_error(s)->text);
	}
	if (ld->is_fed)
		rlx_loader_done(ld, &ld->fed);
	ld->fed = ld->ahead;
	ld->is_fed = true;
	ld->is_ahead = ld->stale = false;
	return RLX_OK;
}

const void *rlx_batch_row(const struct rlx_loader *ld, const struct rlx_batch *b,
			  const char *field, unsigned int row)
{
	const struct loader_slot *s;
	const struct loader_part *lp;
	const int64_t *rows;
	unsigned int i;

	if (!ld || !b || !field)
		return NULL;
	s = &ld->slot[(ld->begin + b->sequence) % ld->o.depth];
	for (i = 0; i < ld->fields && strcmp(ld->public_field[i].name, field); i++)
		;
	if (i == ld->fields || row >= ld->o.batch)
		return NULL;
	if (ld->dense)
		return ld->base + s->at + ld->dense_at[i] +
		       row * (uint64_t)rlx_type_bytes(&ld->public_field[i].type);
	lp = &ld->part[ld->d.field[i].part];
	if (lp->fixed)
		return ld->base + s->at + lp->data + row * lp->pitch + ld->d.field[i].offset;
	rows = (const int64_t *)(ld->base + s->at + lp->rows);
	return ld->base + (ld->layout == RLX_LAYOUT_ROWS ? s->at + lp->data :
			   lp->region + lp->origin) +
	       (uint64_t)rows[row] * lp->unit + ld->d.field[i].offset;
}
