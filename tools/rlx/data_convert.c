// SPDX-License-Identifier: MIT
/* rlx data convert: data sets, streams and texts to record files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "rlx/npy.h"
#include "rlx/tokenizer.h"
#include "tools/rlx/corpus.h"
#include "tools/rlx/data.h"
#include "tools/rlx/out.h"

enum { BATCH = 16 };

enum rlx_status data_create(const struct data_args *a, const struct rlx_field *field,
			    unsigned int n, uint32_t flags, struct rlx_record_writer **out,
			    struct rlx_error *err)
{
	struct rlx_record_opts o = { .size = sizeof(o), .flags = flags,
				     .chunk_bytes = a->chunk == UINT64_MAX ? 0 :
				     a->chunk * 1024 };

	return rlx_record_create(a->output, field, n, &o, out, err);
}

static enum rlx_status finish(struct rlx_record_writer *w, enum rlx_status st,
			      struct rlx_error *err)
{
	if (!st)
		return rlx_record_commit(w, err);
	rlx_record_abort(w);
	return st;
}

/* ---- what the loader reads ---- */

static enum rlx_status copy_records(struct rlx_loader *ld, struct rlx_record_writer *w,
				    uint64_t records, struct rlx_error *err)
{
	const void *data[RLX_FIELDS_MAX];
	enum rlx_status st = RLX_OK;
	const struct rlx_field *f;
	struct progress bar;
	struct rlx_batch b;
	unsigned int row, i;
	uint64_t done = 0;

	progress_begin(&bar, "records", records);
	while (done < records && !st) {
		st = rlx_loader_next(ld, &b, -1);
		if (st) {
			rlx_fail(err, st, "%s", rlx_loader_error(ld)->text);
			break;
		}
		for (row = 0; row < b.rows && !st; row++, done++) {
			for (i = 0; (f = rlx_loader_field(ld, i)); i++)
				data[i] = rlx_batch_row(ld, &b, f->name, row);
			st = rlx_record_add(w, data, 1, err);
		}
		rlx_loader_done(ld, &b);
		progress_at(&bar, done);
	}
	progress_end(&bar);
	return st;
}

static enum rlx_status convert_set(const struct data_args *a, const char *path,
				   struct rlx_error *err)
{
	struct rlx_loader_opts o = {
		.size = sizeof(o), .path = path, .batch = BATCH, .keep_last = true,
		.resident = (uint64_t)sysconf(_SC_PHYS_PAGES) * 4096 / 2,
	};
	struct rlx_field field[RLX_FIELDS_MAX];
	struct rlx_record_writer *w = NULL;
	struct rlx_loader_info info;
	struct rlx_loader *ld = NULL;
	enum rlx_status st;
	unsigned int n;

	st = rlx_loader_open(&o, &ld, err);
	if (st)
		return st;
	rlx_loader_info(ld, &info);
	for (n = 0; rlx_loader_field(ld, n); n++)
		field[n] = *rlx_loader_field(ld, n);
	st = data_create(a, field, n, 0, &w, err);
	if (!st)
		st = finish(w, copy_records(ld, w, info.records, err), err);
	rlx_loader_close(ld);
	return st;
}

/* ---- arrays that are not read in place: Fortran order, the other byte order ---- */

struct arrays {
	struct rlx_npy	*f[RLX_FIELDS_MAX];
	struct rlx_field field[RLX_FIELDS_MAX];
	unsigned int	 n;
	int64_t		 records;
};

static enum rlx_status add_array(struct arrays *s, const char *name, const char *path,
				 struct rlx_error *err)
{
	const struct rlx_type *t;
	struct rlx_field *f = &s->field[s->n];
	enum rlx_status st;

	if (s->n == RLX_FIELDS_MAX || strlen(name) >= RLX_FIELD_NAME)
		return rlx_fail(err, RLX_ERANGE, "%s: over %d fields, or a name over %d bytes",
				path, RLX_FIELDS_MAX, RLX_FIELD_NAME - 1);
	st = rlx_npy_open(path, &s->f[s->n], err);
	if (st)
		return st;
	t = rlx_npy_type(s->f[s->n++]);
	if (!t->rank || (s->n > 1 && t->dim[0] != s->records))
		return rlx_fail(err, RLX_ESHAPE,
				"%s: it has not as many records as the array before", path);
	s->records = t->dim[0];
	snprintf(f->name, sizeof(f->name), "%s", name);
	f->type.dtype = t->dtype;
	f->type.rank = t->rank - 1;
	memcpy(f->type.dim, t->dim + 1, f->type.rank * sizeof(*t->dim));
	return RLX_OK;
}

static enum rlx_status open_arrays(struct arrays *s, const char *path, struct rlx_error *err)
{
	char *list = rlx_strdup(path), *rest = list, *item, *eq;
	enum rlx_status st = list ? RLX_OK : RLX_ENOMEM;

	if (list && !strchr(list, '='))
		st = add_array(s, "data", list, err);
	else
		while (!st && (item = strsep(&rest, ","))) {
			eq = strchr(item, '=');
			if (eq)
				*eq = 0;
			st = add_array(s, eq ? item : "data", eq ? eq + 1 : item, err);
		}
	rlx_free(list);
	return st;
}

static enum rlx_status convert_arrays(const struct data_args *a, const char *path,
				      struct rlx_error *err)
{
	struct rlx_record_writer *w;
	const void *data[RLX_FIELDS_MAX];
	struct arrays s = { .n = 0 };
	enum rlx_status st = open_arrays(&s, path, err);
	unsigned int i;
	int64_t r;

	if (!st)
		st = data_create(a, s.field, s.n, 0, &w, err);
	if (!st) {
		for (r = 0; r < s.records && !st; r++) {
			for (i = 0; i < s.n; i++)
				data[i] = (const char *)rlx_npy_data(s.f[i]) +
					  r * rlx_type_bytes(&s.field[i].type);
			st = rlx_record_add(w, data, 1, err);
		}
		st = finish(w, st, err);
	}
	for (i = 0; i < RLX_FIELDS_MAX; i++)
		rlx_npy_close(s.f[i]);
	return st;
}

static enum rlx_status convert_stream(const struct data_args *a, const char *path,
				      struct rlx_error *err)
{
	struct rlx_field f = { .name = "tokens" };
	struct rlx_record_writer *w;
	enum rlx_status st;
	struct rlx_npy *x;
	const void *data;

	st = rlx_npy_open(path, &x, err);
	if (st)
		return st;
	f.type.dtype = rlx_npy_type(x)->dtype;
	data = rlx_npy_data(x);
	if (rlx_npy_type(x)->rank != 1)
		st = rlx_fail(err, RLX_ESHAPE, "%s: --stream takes an array of rank 1", path);
	if (!st)
		st = data_create(a, &f, 1, RLX_RECORD_STREAM, &w, err);
	if (!st)
		st = finish(w, rlx_record_add(w, &data, (uint64_t)rlx_npy_type(x)->dim[0], err),
			    err);
	rlx_npy_close(x);
	return st;
}

/* ---- texts ---- */

struct texts {
	struct rlx_tokenizer		*t;
	struct rlx_tokenizer_scratch	*scratch;
	struct rlx_record_writer	*w;
	int64_t				 end;		/* -1: none */
	bool				 wide;		/* u32, else u16 */
	int64_t				*ids;
	uint32_t			 cap;
};

static enum rlx_status put_tokens(struct texts *x, const int64_t *ids, uint32_t n,
				  struct rlx_error *err)
{
	const void *data = x->ids;
	uint32_t i, size = x->wide ? 4 : 2;

	for (i = 0; i < n; i++) {	/* in place: what is written was read already */
		uint32_t id = (uint32_t)ids[i];

		memcpy((char *)x->ids + (size_t)i * size, &id, size);	/* little-endian */
	}
	return rlx_record_add(x->w, &data, n, err);
}

static enum rlx_status put_text(struct texts *x, const struct corpus_file *f,
				struct rlx_error *err)
{
	const struct rlx_encode_opts o = { .no_special = true };
	struct rlx_encoding enc = { 0 };
	struct rlx_error e = { 0 };
	const void *data = f->map.p;
	enum rlx_status st;

	if (!x->t)
		return rlx_record_add(x->w, &data, f->map.n, err);
	st = rlx_tokenizer_encode(x->scratch, (const char *)f->map.p, f->map.n, &o, &enc, &e);
	if (st)
		return rlx_fail(err, st, "%.200s: %s", f->path, e.text);
	if (!rlx_grow(&x->ids, &x->cap, enc.n + 1, sizeof(*x->ids)))
		return rlx_fail(err, RLX_ENOMEM, "%s: no memory for its tokens", f->path);
	enc.ids = x->ids;
	enc.capacity = x->cap;
	st = rlx_tokenizer_encode(x->scratch, (const char *)f->map.p, f->map.n, &o, &enc, err);
	return st ? st : put_tokens(x, x->ids, enc.n, err);
}

static enum rlx_status put_end(struct texts *x, struct rlx_error *err)
{
	uint8_t byte = (uint8_t)x->end;
	const void *data = &byte;

	if (x->end < 0)
		return RLX_OK;
	if (!x->t)
		return rlx_record_add(x->w, &data, 1, err);
	if (!rlx_grow(&x->ids, &x->cap, 1, sizeof(*x->ids)))
		return rlx_fail(err, RLX_ENOMEM, "no memory for tokens");
	x->ids[0] = x->end;
	return put_tokens(x, x->ids, 1, err);
}

static enum rlx_status open_tokenizer(struct texts *x, const struct data_args *a,
				      struct rlx_field *f, struct rlx_error *err)
{
	struct rlx_tokenizer_info info = { .vocab_size = 256 };
	enum rlx_status st = RLX_OK;
	uint64_t v;

	if (a->tokenizer) {
		st = rlx_tokenizer_new_file(a->tokenizer, NULL, &x->t, err);
		if (!st)
			st = rlx_tokenizer_scratch_new(x->t, &x->scratch, err);
		if (st)
			return st;
		rlx_tokenizer_info(x->t, &info);
		x->wide = info.vocab_size > 65536;
	}
	f->type.dtype = !x->t ? RLX_U8 : x->wide ? RLX_U32 : RLX_U16;
	x->end = -1;
	if (!a->end)
		return RLX_OK;
	if (x->t)
		x->end = rlx_tokenizer_id(x->t, a->end, strlen(a->end));
	if (x->end < 0 && parse_u64(a->end, info.vocab_size - 1, &v))
		x->end = (int64_t)v;
	return x->end >= 0 ? RLX_OK : rlx_fail(err, RLX_ENOENT, "--end %s: no such token, and no "
					       "number below %u", a->end, info.vocab_size);
}

enum rlx_status data_convert_text(const struct data_args *a, const char *const *path,
				  unsigned int n, struct rlx_error *err)
{
	struct rlx_field f = { .name = "tokens" };
	struct corpus c = { 0 };
	struct texts x = { 0 };
	enum rlx_status st = RLX_OK;
	unsigned int i;

	for (i = 0; i < n && !st; i++)
		st = corpus_add(&c, path[i], err);
	if (!st)
		st = open_tokenizer(&x, a, &f, err);
	if (!st)
		st = data_create(a, &f, 1, RLX_RECORD_STREAM, &x.w, err);
	for (i = 0; i < c.n_file && !st; i++) {
		st = put_text(&x, &c.file[i], err);
		if (!st)
			st = put_end(&x, err);
	}
	if (x.w)
		st = finish(x.w, st, err);
	if (!st)
		printf("%u texts%s\n", c.n_file, c.n_binary ? ", binary files left out" : "");
	rlx_free(x.ids);
	rlx_tokenizer_scratch_free(x.scratch);
	rlx_tokenizer_free(x.t);
	corpus_fini(&c);
	return st;
}

int data_convert(const struct data_args *a, const struct arg_list *input)
{
	struct rlx_error err = { 0 }, second = { 0 };
	struct rlx_record_info info;
	struct rlx_record *r;
	enum rlx_status st;

	if (!a->text && input->n != 1)
		return tool_fail("data", TOOL_USAGE,
				 "convert takes one input, several with --text");
	if (a->text) {
		st = data_convert_text(a, input->v, input->n, &err);
	} else if (a->stream) {
		st = convert_stream(a, input->v[0], &err);
	} else if (a->images) {
		st = data_convert_images(a, input->v[0], &err);
	} else {
		st = convert_set(a, input->v[0], &err);
		if (st == RLX_ENOSUP) {
			st = convert_arrays(a, input->v[0], &second);
			if (st != RLX_EPARSE)	/* no .npy at all: what the loader said holds */
				err = second;
		}
	}
	if (!st)
		st = rlx_record_open(a->output, &r, &err);
	if (st)
		return tool_fail("data", TOOL_FAILED, "%s",
				 *err.text ? err.text : rlx_status_name(st));
	rlx_record_info(r, &info);
	printf("%s: %llu %s, %llu bytes\n", a->output, (unsigned long long)info.records,
	       info.flags & RLX_RECORD_STREAM ? "tokens" : "records",
	       (unsigned long long)info.bytes);
	rlx_record_close(r);
	return TOOL_OK;
}
