// SPDX-License-Identifier: MIT
/*
 * Plan files written. The program's graphs are lowered once more, which tells what its kernels
 * read of constants: the contents, or what was prepared of them, which is at hand.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model/plan_file.h"
#include "rt/rt.h"

/* What was prepared: struct plan_entry has where it goes. */
struct prepared {
	struct plan_entry	 e;
	struct rlx_blob		*of;
	const void		*data;
};

/* A plan file on its way to the disk. */
struct saver {
	struct rlx_gather	 gather;
	const struct rlx_program *p;
	struct rlx_graph	**g;		/* as struct rlx_passed has them */
	uint32_t		 n_g, cap_g;
	struct prepared		*prepared;
	uint32_t		 n_prepared, cap_prepared;
	struct rlx_map		 read;		/* blobs whose contents are, by address */
	struct rlx_blob_list	 blobs;
	bool			 failed;	/* out of memory */
	char			*text;		/* of all graphs; open_memstream's own */
	size_t			 n_text;
	struct plan_graph	*graph;		/* places from the first text on */
	struct rlx_error	*err;
};

static enum rlx_status out_of_memory(struct saver *s)
{
	return rlx_fail(s->err, RLX_ENOMEM, "program save: out of memory");
}

/* ---- what is needed ---- */

static void note_read(struct rlx_gather *g, struct rlx_blob *of)
{
	struct saver *s = (struct saver *)g;

	s->failed |= !rlx_map_put(&s->read, &of, sizeof(of), 1);
}

static void note_prepared(struct rlx_gather *g, struct rlx_blob *of, const char *kind,
			  const int64_t param[4], size_t bytes, const void *data)
{
	struct saver *s = (struct saver *)g;
	struct prepared *p;
	uint32_t i;

	if (strlen(kind) >= RLX_STORE_KIND_BYTES) {	/* no store takes it: it is made anew */
		note_read(g, of);
		return;
	}
	for (i = 0; i < s->n_prepared; i++)
		if (s->prepared[i].data == data)
			return;
	if (!rlx_grow(&s->prepared, &s->cap_prepared, s->n_prepared + 1, sizeof(*s->prepared))) {
		s->failed = true;
		return;
	}
	p = &s->prepared[s->n_prepared++];
	*p = (struct prepared){ .e.bytes = bytes, .of = of, .data = data };
	memcpy(p->e.param, param, sizeof(p->e.param));
	memcpy(p->e.kind, kind, strlen(kind));
}

static void note_graph(struct saver *s, const struct rlx_graph *g, bool inside);

/*
 * Constants of fused ops are read where lowering is not asked: kept. Those of control flow are
 * read in its bodies.
 */
static void note_node(struct saver *s, const struct rlx_node *n, bool inside)
{
	bool is_called = rlx_calls_bodies(n->def) && s->p->dev->be->bodies;
	uint32_t i;

	for (i = 0; i < n->def->n_field; i++) {
		const struct rlx_field *f = &n->def->field[i];
		void *v = rlx_field_ptr(f, n->args);

		if (f->role != RLX_FIELD_ATTR)
			continue;
		if (f->kind == RLX_K_graph && *(struct rlx_graph **)v && (inside || !is_called))
			note_graph(s, *(struct rlx_graph **)v, true);
		if (f->kind == RLX_K_blob && *(struct rlx_blob **)v &&
		    (inside || n->def->index != RLX_OP_constant))
			note_read(&s->gather, *(struct rlx_blob **)v);
	}
}

static void note_graph(struct saver *s, const struct rlx_graph *g, bool inside)
{
	uint32_t n;

	for (n = 0; n < g->n_node; n++)
		note_node(s, &g->node[n], inside);
}

static enum rlx_status gather(struct saver *s)
{
	struct rlx_passed passed = { .at = 1 };
	struct rlx_build b = { .dev = s->p->dev, .store = s->p->store, .err = s->err,
			       .opts.flags = s->p->flags, .passed = &passed,
			       .gather = &s->gather };
	struct rlx_plan *plan = NULL;
	struct rlx_code *code = NULL;
	enum rlx_status st;
	uint32_t i;

	if (!rlx_program_graphs(s->p, &s->g, &s->n_g, &s->cap_g))
		return out_of_memory(s);
	passed.g = s->g;
	passed.n = s->n_g;
	for (i = 0; i < s->n_g; i++)
		note_graph(s, s->g[i], false);
	st = rlx_plan_new(s->p->g, &plan, s->err);
	if (!st)
		st = rlx_build_code(&b, plan, &code);
	rlx_code_free(code);
	rlx_plan_free(plan);
	return st ? st : s->failed ? out_of_memory(s) : RLX_OK;
}

/* ---- the text ---- */

static enum rlx_status print(struct saver *s)
{
	enum rlx_status st = RLX_OK;
	uint32_t i;
	FILE *f;

	s->graph = rlx_calloc(s->n_g, sizeof(*s->graph));
	f = s->graph ? open_memstream(&s->text, &s->n_text) : NULL;
	if (!f)
		return out_of_memory(s);
	for (i = 0; i < s->n_g && !st; i++) {
		s->graph[i].at = (uint64_t)ftello(f);
		st = rlx_graph_print_listed(s->g[i], f, &s->blobs);
		while (!st && ftello(f) % 8)
			st = putc('\n', f) == EOF ? RLX_ENOMEM : RLX_OK;
		s->graph[i].bytes = (uint64_t)ftello(f) - s->graph[i].at;
	}
	return fclose(f) || st ? out_of_memory(s) : RLX_OK;
}

/* What is read back must be what was written. */
static enum rlx_status check_graph(struct saver *s, uint32_t i)
{
	const char *text = s->text + s->graph[i].at;
	struct rlx_error why = { 0 };
	struct rlx_graph *back;
	enum rlx_status st;
	uint64_t is, was;

	st = rlx_graph_parse_listed(text, s->graph[i].bytes, &s->blobs, &back, &why);
	if (st)		/* an op that the library does not know by its name */
		return rlx_fail(s->err, st == RLX_ENOMEM ? st : RLX_ENOSUP, "program save: graph "
				"'%s' cannot be read back: %s", s->g[i]->name, why.text);
	is = rlx_graph_hash(back);
	was = rlx_graph_hash(s->g[i]);
	rlx_graph_put(back);
	if (!is || !was)
		return out_of_memory(s);
	if (is != was)
		return rlx_fail(s->err, RLX_EBUG, "program save: graph '%s' is another one when it "
				"is read back", s->g[i]->name);
	return RLX_OK;
}

static enum rlx_status check_text(struct saver *s)
{
	enum rlx_status st = RLX_OK;
	uint32_t i;

	for (i = 0; i < s->n_g && !st; i++)
		st = check_graph(s, i);
	return st;
}

/* ---- places ---- */

/* All that the file is made of but the arrays themselves. */
struct draft {
	struct plan_header	h;
	struct plan_blob	*blob;
	struct plan_entry	*entry;
};

static uint64_t place(struct plan_header *h, uint64_t bytes)
{
	uint64_t align = bytes >= PLAN_BIG ? PLAN_PAGE : PLAN_ALIGN;
	uint64_t at = (h->bytes + align - 1) & ~(align - 1);

	h->bytes = at + bytes + PLAN_ALIGN;
	return at;
}

static bool is_left_out(const struct saver *s, const struct rlx_blob *b)
{
	uint64_t v;

	return !b->bytes ||
	       (b->bytes >= PLAN_SMALL && !rlx_map_get(&s->read, &b, sizeof(b), &v)) || b->absent;
}

static void place_arrays(struct saver *s, struct draft *d)
{
	uint32_t i, number;

	for (i = 0; i < s->blobs.n; i++) {
		struct rlx_blob *b = s->blobs.blob[i];

		d->blob[i] = (struct plan_blob){ .bytes = b->bytes, .hash = rlx_blob_hash(b) };
		if (!is_left_out(s, b))
			d->blob[i].at = place(&d->h, b->bytes);
	}
	for (i = 0; i < s->n_prepared; i++) {
		struct prepared *p = &s->prepared[i];

		rlx_blob_list_add(&s->blobs, p->of, &number);	/* it is there */
		p->e.blob = number;
		p->e.hash = rlx_hash_bytes(p->data, p->e.bytes, 0) | 1;
		p->e.at = place(&d->h, p->e.bytes);
		d->entry[i] = p->e;
	}
}

static uint64_t reserve(uint64_t *at, uint64_t bytes)
{
	uint64_t begin = *at;

	*at += (bytes + 7) & ~(uint64_t)7;
	return begin;
}

static enum rlx_status lay_out(struct saver *s, struct draft *d)
{
	struct plan_header *h = &d->h;
	uint64_t text;
	uint32_t i;

	*h = (struct plan_header){
		.format = PLAN_FORMAT, .endian = PLAN_ENDIAN, .flags = s->p->flags,
		.threads = s->p->info.threads, .meta = sizeof(*h),
		.n_graph = s->n_g, .n_blob = s->blobs.n, .n_entry = s->n_prepared,
		.version = RLX_VERSION,
	};
	memcpy(h->magic, PLAN_MAGIC, sizeof(h->magic));
	rlx_layout_name(s->p->dev->be, s->p->dev->isa, h->layout, sizeof(h->layout));
	memcpy(h->sources, plan_file_sources, sizeof(h->sources));
	d->blob = rlx_calloc((size_t)h->n_blob + 1, sizeof(*d->blob));
	d->entry = rlx_calloc((size_t)h->n_entry + 1, sizeof(*d->entry));
	if (!d->blob || !d->entry)
		return out_of_memory(s);
	h->graph = reserve(&h->meta, h->n_graph * sizeof(*s->graph));
	h->blob = reserve(&h->meta, h->n_blob * sizeof(*d->blob));
	h->entry = reserve(&h->meta, h->n_entry * sizeof(*d->entry));
	text = reserve(&h->meta, s->n_text);
	for (i = 0; i < s->n_g; i++)
		s->graph[i].at += text;
	h->bytes = (h->meta + PLAN_PAGE - 1) & ~(uint64_t)(PLAN_PAGE - 1);
	place_arrays(s, d);
	h->bytes += PLAN_ALIGN;
	return RLX_OK;
}

/* The metadata as they lie in the file, with their hash. NULL: out of memory. */
static struct plan_header *metadata(const struct saver *s, const struct draft *d)
{
	char *m = rlx_calloc(1, d->h.meta);
	struct plan_header *h = (struct plan_header *)(void *)m;

	if (!m)
		return NULL;
	memcpy(m, &d->h, sizeof(d->h));
	memcpy(m + d->h.graph, s->graph, d->h.n_graph * sizeof(*s->graph));
	memcpy(m + d->h.blob, d->blob, d->h.n_blob * sizeof(*d->blob));
	memcpy(m + d->h.entry, d->entry, d->h.n_entry * sizeof(*d->entry));
	memcpy(m + s->graph[0].at, s->text, s->n_text);
	plan_file_hash(h, h->hash);
	return h;
}

/* ---- the file ---- */

/* @data at @at, behind zeros from @*end on, which then is where it ends. */
static enum rlx_status put_at(struct rlx_file_writer *w, uint64_t *end, uint64_t at,
			      const void *data, uint64_t bytes, struct rlx_error *err)
{
	static const char zeros[PLAN_PAGE];
	enum rlx_status st = RLX_OK;
	uint64_t n;

	for (; *end < at && !st; *end += n) {
		n = at - *end < sizeof(zeros) ? at - *end : sizeof(zeros);
		st = rlx_file_put(w, zeros, n, err);
	}
	if (!st)
		st = rlx_file_put(w, data, bytes, err);
	*end += bytes;
	return st;
}

static enum rlx_status write_all(struct saver *s, const struct draft *d, const char *path)
{
	struct plan_header *meta = metadata(s, d);
	struct rlx_file_writer w;
	enum rlx_status st;
	uint64_t end = 0;
	uint32_t i;

	if (!meta)
		return out_of_memory(s);
	st = rlx_file_write_begin(&w, path, s->err);
	if (st) {
		rlx_free(meta);
		return st;
	}
	w.durable = true;
	st = put_at(&w, &end, 0, meta, d->h.meta, s->err);
	for (i = 0; i < d->h.n_blob && !st; i++)
		if (d->blob[i].at)
			st = put_at(&w, &end, d->blob[i].at, s->blobs.blob[i]->data,
				    d->blob[i].bytes, s->err);
	for (i = 0; i < d->h.n_entry && !st; i++)
		st = put_at(&w, &end, d->entry[i].at, s->prepared[i].data, d->entry[i].bytes,
			    s->err);
	if (!st)
		st = put_at(&w, &end, d->h.bytes, "", 0, s->err);
	st = rlx_file_write_end(&w, st, s->err);
	rlx_free(meta);
	return st;
}

static void saver_fini(struct saver *s)
{
	rlx_free(s->g);
	rlx_free(s->prepared);
	rlx_free(s->graph);
	rlx_map_fini(&s->read);
	rlx_blob_list_fini(&s->blobs);
	free(s->text);		/* open_memstream's own */
}

enum rlx_status rlx_program_save(const struct rlx_program *p, const char *path,
				 struct rlx_error *err)
{
	struct rlx_error own = { 0 };
	struct saver s = { .gather = { note_prepared, note_read }, .p = p,
			   .err = err ? err : &own };
	struct draft d = { .blob = NULL };
	enum rlx_status st;

	if (!p || !path)
		return rlx_fail(s.err, RLX_EINVAL, "program save: a program and a path are needed");
	if (!p->dev->be->plan_files)
		return rlx_fail(s.err, RLX_ENOSUP, "%s: programs of '%s' cannot be written to plan "
				"files, those of 'cpu' can: compile for %s where it starts", path,
				p->dev->name, p->dev->be->name);
	st = gather(&s);
	if (!st)
		st = print(&s);
	if (!st)
		st = check_text(&s);
	if (!st)
		st = lay_out(&s, &d);
	if (!st)
		st = write_all(&s, &d, path);
	rlx_free(d.blob);
	rlx_free(d.entry);
	saver_fini(&s);
	return st;
}
