// SPDX-License-Identifier: MIT
/*
 * Plan files read: mapped, checked, and made a program of. Nothing in one is believed: places
 * are checked against the file, graphs are built by the functions that build all others, and
 * kernel arguments come of those graphs.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "model/plan_file.h"
#include "rt/rt.h"

const uint8_t plan_file_sources[PLAN_SOURCES] = {
#include "layout_id.h"
};

void plan_file_hash(const struct plan_header *h, uint64_t out[2])
{
	struct plan_header blank = *h;
	uint64_t part[2], i;

	memset(blank.hash, 0, sizeof(blank.hash));
	for (i = 0; i < 2; i++) {
		part[0] = rlx_hash_bytes(&blank, sizeof(blank), i);
		part[1] = rlx_hash_bytes(h + 1, h->meta - sizeof(*h), i);
		out[i] = rlx_hash_bytes(part, sizeof(part), PLAN_FORMAT);
	}
}

/* ---- the header ---- */

static bool in_meta(const struct plan_header *h, uint64_t at, uint64_t n, uint64_t size)
{
	return at >= sizeof(*h) && at % 8 == 0 && at <= h->meta && n <= (h->meta - at) / size;
}

/* Of the file's first bytes, before the metadata is copied. */
static enum rlx_status check_sizes(const struct plan_header *h, uint64_t n, const char *path,
				   struct rlx_error *err)
{
	if (n < sizeof(h->magic) || memcmp(h->magic, PLAN_MAGIC, sizeof(h->magic)))
		return rlx_fail(err, RLX_EPARSE, "%s: no plan file: it does not begin as one",
				path);
	if (n < sizeof(*h))
		return rlx_fail(err, RLX_EPARSE, "%s: the plan file is cut short: %llu bytes, no "
				"whole header", path, (unsigned long long)n);
	if (h->endian != PLAN_ENDIAN)
		return rlx_fail(err, RLX_ENOSUP, "%s: a plan file of a machine with the other byte "
				"order, or damaged", path);
	if (h->format != PLAN_FORMAT)
		return rlx_fail(err, RLX_ENOSUP, "%s: a plan file of format %u, known here is %d: "
				"compile the model again, with this version", path, h->format,
				PLAN_FORMAT);
	if (h->bytes != n)
		return rlx_fail(err, RLX_EPARSE, "%s: the plan file has %llu bytes, and says %llu: "
				"it is cut short, or something stands behind it", path,
				(unsigned long long)n, (unsigned long long)h->bytes);
	if (h->meta < sizeof(*h) || h->meta > n)
		return rlx_fail(err, RLX_EPARSE, "%s: the plan file's header is damaged: %llu "
				"bytes of metadata in %llu", path, (unsigned long long)h->meta,
				(unsigned long long)n);
	return RLX_OK;
}

/* Arrays lie behind the metadata, and before the file's last 64 bytes. */
static bool is_place(const struct plan_header *h, uint64_t at, uint64_t bytes)
{
	return at % PLAN_ALIGN == 0 && at >= h->meta && at <= h->bytes &&
	       bytes <= h->bytes - at && h->bytes - at - bytes >= PLAN_ALIGN;
}

static const void *table(const struct plan_header *h, uint64_t at)
{
	return (const char *)h + at;
}

static bool has_tables(const struct plan_header *h)
{
	return h->n_graph && in_meta(h, h->graph, h->n_graph, sizeof(struct plan_graph)) &&
	       in_meta(h, h->blob, h->n_blob, sizeof(struct plan_blob)) &&
	       in_meta(h, h->entry, h->n_entry, sizeof(struct plan_entry)) &&
	       memchr(h->version, 0, sizeof(h->version)) &&
	       memchr(h->layout, 0, sizeof(h->layout));
}

/* Of tables that are there. */
static bool has_places(const struct plan_header *h)
{
	const struct plan_graph *g = table(h, h->graph);
	const struct plan_blob *b = table(h, h->blob);
	const struct plan_entry *e = table(h, h->entry);
	bool ok = true;
	uint32_t i;

	for (i = 0; ok && i < h->n_graph; i++)
		ok = in_meta(h, g[i].at, g[i].bytes, 1);
	for (i = 0; ok && i < h->n_blob; i++)
		ok = b[i].at ? is_place(h, b[i].at, b[i].bytes) : b[i].bytes < INT64_MAX;
	for (i = 0; ok && i < h->n_entry; i++)
		ok = e[i].blob < h->n_blob && is_place(h, e[i].at, e[i].bytes);
	return ok;
}

static enum rlx_status read_meta(struct rlx_plan_file *f, const char *path,
				 struct rlx_error *err)
{
	struct plan_header h = { .bytes = 0 };
	enum rlx_status st;
	uint64_t hash[2];

	memcpy(&h, f->file.p, f->file.n < sizeof(h) ? f->file.n : sizeof(h));
	st = check_sizes(&h, f->file.n, path, err);
	if (st)
		return st;
	f->h = rlx_malloc(h.meta);
	if (!f->h)
		return rlx_fail(err, RLX_ENOMEM, "%s: out of memory", path);
	memcpy(f->h, f->file.p, h.meta);
	*f->h = h;	/* as it was looked at */
	plan_file_hash(f->h, hash);
	if (memcmp(hash, h.hash, sizeof(hash)))
		return rlx_fail(err, RLX_EPARSE, "%s: the plan file is damaged: its first %llu "
				"bytes do not have the hash that they hold", path,
				(unsigned long long)h.meta);
	if (!has_tables(f->h) || !has_places(f->h))
		return rlx_fail(err, RLX_EPARSE, "%s: a table of the plan file has a place outside "
				"of it", path);
	return RLX_OK;
}

bool rlx_is_plan_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char magic[sizeof(PLAN_MAGIC)] = "";
	bool yes = fd >= 0 && pread(fd, magic, sizeof(magic) - 1, 0) > 0 &&
		   !strcmp(magic, PLAN_MAGIC);

	if (fd >= 0)
		close(fd);
	return yes;
}

enum rlx_status rlx_plan_file_open(const char *path, struct rlx_plan_file **out,
				   struct rlx_error *err)
{
	struct rlx_plan_file *f = rlx_calloc(1, sizeof(*f));
	enum rlx_status st;

	if (!f)
		return rlx_fail(err, RLX_ENOMEM, "%s: out of memory", path);
	atomic_init(&f->refs, 1);
	st = rlx_file_map(&f->file, path, err);
	if (!st)
		st = read_meta(f, path, err);
	if (st)
		rlx_plan_file_put(f);
	else
		*out = f;
	return st;
}

static void get(struct rlx_plan_file *f)
{
	atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
}

void rlx_plan_file_put(struct rlx_plan_file *f)
{
	if (!f || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (f->zeros)
		munmap(f->zeros, f->n_zero);
	rlx_file_unmap(&f->file);
	rlx_free(f->h);
	rlx_free(f);
}

static void put_file(void *f)
{
	rlx_plan_file_put(f);
}

/* ---- the machine ---- */

/* "cpu" of "cpu v4". */
static void device_of(const struct plan_header *h, char *out, size_t size)
{
	snprintf(out, size, "%.*s", (int)strcspn(h->layout, " "), h->layout);
}

/* @here: as rlx_layout_name() calls what it shall run on. */
static enum rlx_status fits_layout(const struct rlx_plan_file *f, const char *path,
				   const char *here, struct rlx_error *err)
{
	if (strcmp(here, f->h->layout))
		return rlx_fail(err, RLX_ENOSUP, "%s: made for %s by version %s of the library; "
				"this machine runs %.*s: compile the model again here, by 'rlx compile "
				"MODEL -o FILE' or rlx_program_save()", path, f->h->layout,
				f->h->version, (int)strlen(here) - (here[strlen(here) - 1] == ' '),
				here);
	if (memcmp(plan_file_sources, f->h->sources, sizeof(plan_file_sources)))
		return rlx_fail(err, RLX_ENOSUP, "%s: made by a library of other sources, version "
				"%s; this is one of %s: compile the model again, by 'rlx "
				"compile MODEL -o FILE' or rlx_program_save()", path,
				f->h->version, RLX_VERSION);
	return RLX_OK;
}

enum rlx_status rlx_plan_file_fits(const struct rlx_plan_file *f, const char *path,
				   const char *device, struct rlx_error *err)
{
	char made[32], here[32];
	enum rlx_status st;

	device_of(f->h, made, sizeof(made));
	st = rlx_device_layout(device ? device : made, here, sizeof(here), err);
	return st ? st : fits_layout(f, path, here, err);
}

/* ---- the graphs ---- */

/* Contents of what is left out: zeros, that nobody writes to and that take no memory. */
static bool map_zeros(struct rlx_plan_file *f)
{
	const struct plan_blob *b = table(f->h, f->h->blob);
	uint64_t most = 0;
	uint32_t i;
	void *p;

	for (i = 0; i < f->h->n_blob; i++)
		if (!b[i].at && b[i].bytes > most)
			most = b[i].bytes;
	if (!most || f->zeros)
		return true;
	p = mmap(NULL, most + PLAN_ALIGN, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		 -1, 0);
	if (p == MAP_FAILED)
		return false;
	f->zeros = p;
	f->n_zero = most + PLAN_ALIGN;
	return true;
}

static struct rlx_blob *blob_new(struct rlx_plan_file *f, const struct plan_blob *b, uint32_t i)
{
	const void *data = b->at ? f->file.p + b->at : b->bytes ? f->zeros : f->file.p;
	struct rlx_blob *out;

	get(f);
	out = rlx_blob_new(data, b->bytes, put_file, f);
	if (!out) {
		rlx_plan_file_put(f);
		return NULL;
	}
	rlx_blob_set_source(out, f->file.source, i);
	out->hash = b->hash | 1;
	out->absent = !b->at && b->bytes;
	return out;
}

static bool make_blobs(struct rlx_plan_file *f, struct plan_graphs *out)
{
	const struct plan_blob *b = table(f->h, f->h->blob);
	struct rlx_blob_list *l = &out->blobs;

	l->blob = rlx_calloc((size_t)f->h->n_blob + 1, sizeof(*l->blob));
	if (!l->blob || !map_zeros(f))
		return false;
	for (; l->n < f->h->n_blob; l->n++) {
		l->blob[l->n] = blob_new(f, &b[l->n], l->n);
		if (!l->blob[l->n])
			return false;
	}
	return true;
}

enum rlx_status rlx_plan_file_graphs(struct rlx_plan_file *f, struct plan_graphs *out,
				     struct rlx_error *err)
{
	const struct plan_graph *g = table(f->h, f->h->graph);
	enum rlx_status st = RLX_OK;

	*out = (struct plan_graphs){ 0 };
	out->g = rlx_calloc(f->h->n_graph, sizeof(*out->g));
	if (!out->g || !make_blobs(f, out))
		return rlx_fail(err, RLX_ENOMEM, "plan file: out of memory");
	for (; out->n < f->h->n_graph && !st; out->n += !st)
		st = rlx_graph_parse_listed(table(f->h, g[out->n].at), g[out->n].bytes,
					    &out->blobs, &out->g[out->n], err);
	return st;
}

void plan_graphs_fini(struct plan_graphs *g)
{
	uint32_t i;

	for (i = 0; i < g->n; i++)
		rlx_graph_put(g->g[i]);
	for (i = 0; i < g->blobs.n; i++)
		rlx_blob_put(g->blobs.blob[i]);
	rlx_free(g->g);
	rlx_blob_list_fini(&g->blobs);
}

/* ---- the program ---- */

static enum rlx_status store_of(struct rlx_plan_file *f, struct rlx_store **out,
				struct rlx_error *err)
{
	const struct plan_entry *e = table(f->h, f->h->entry);
	struct rlx_store_entry *s = rlx_calloc((size_t)f->h->n_entry + 1, sizeof(*s));
	enum rlx_status st;
	uint32_t i;

	if (!s)
		return rlx_fail(err, RLX_ENOMEM, "plan file: out of memory");
	for (i = 0; i < f->h->n_entry; i++) {
		s[i].key = (struct rlx_store_key){ .source = f->file.source, .offset = e[i].blob,
						   .bytes = e[i].bytes };
		memcpy(s[i].key.param, e[i].param, sizeof(e[i].param));
		memcpy(s[i].key.kind, e[i].kind, sizeof(e[i].kind));
		s[i].at = e[i].at;
	}
	get(f);
	st = rlx_store_mapped(&(struct rlx_store_memory){ f->file.p, f->file.n, put_file, f },
			      f->h->layout, s, f->h->n_entry, out, err);
	if (st)
		rlx_plan_file_put(f);
	rlx_free(s);
	return st;
}

static bool is_intact(const struct rlx_plan_file *f, uint64_t at, uint64_t bytes, uint64_t hash)
{
	return !at || (rlx_hash_bytes(f->file.p + at, bytes, 0) | 1) == (hash | 1);
}

static enum rlx_status damaged(const char *path, uint64_t at, uint64_t bytes,
			       struct rlx_error *err)
{
	return rlx_fail(err, RLX_EPARSE, "%s: weights of the plan file are damaged, in the %llu "
			"bytes from %llu on", path, (unsigned long long)bytes,
			(unsigned long long)at);
}

enum rlx_status rlx_plan_file_verify(const struct rlx_plan_file *f, const char *path,
				     struct rlx_error *err)
{
	const struct plan_blob *b = table(f->h, f->h->blob);
	const struct plan_entry *e = table(f->h, f->h->entry);
	uint32_t i;

	for (i = 0; i < f->h->n_blob; i++)
		if (!is_intact(f, b[i].at, b[i].bytes, b[i].hash))
			return damaged(path, b[i].at, b[i].bytes, err);
	for (i = 0; i < f->h->n_entry; i++)
		if (!is_intact(f, e[i].at, e[i].bytes, e[i].hash))
			return damaged(path, e[i].at, e[i].bytes, err);
	return RLX_OK;
}

enum rlx_status rlx_plan_file_program(struct rlx_plan_file *f, const char *path,
				      const struct rlx_load_opts *opts,
				      struct rlx_program **out, struct rlx_error *err)
{
	struct rlx_compile_opts o = { .threads = opts->threads, .flags = f->h->flags };
	struct plan_graphs g = { 0 };
	struct rlx_device *dev = NULL;
	struct rlx_passed passed;
	char device[32], here[32];
	enum rlx_status st;

	if (rlx_strict_by_environment() && !(o.flags & RLX_COMPILE_STRICT_BITS))
		return rlx_fail(err, RLX_EINVAL, "program load: %s was made without strict bits, "
				"which RLX_STRICT_BITS asks for; make it anew with them", path);
	device_of(f->h, device, sizeof(device));
	o.device = opts->device ? opts->device : device;
	/* open, it is not looked for once more when the program is made */
	st = rlx_device_get(o.device, o.threads, &dev, err);
	if (!st) {
		rlx_layout_name(dev->be, dev->isa, here, sizeof(here));
		st = fits_layout(f, path, here, err);
	}
	if (!st && opts->flags & RLX_LOAD_VERIFY)
		st = rlx_plan_file_verify(f, path, err);
	if (!st)
		st = rlx_plan_file_graphs(f, &g, err);
	if (!st)
		st = store_of(f, &o.store, err);
	if (!st) {
		passed = (struct rlx_passed){ .g = g.g, .n = g.n };
		st = rlx_program_of(&passed, &o, out, err);
	}
	rlx_store_put(o.store);
	plan_graphs_fini(&g);
	rlx_device_put(dev);
	return st;
}

enum rlx_status rlx_program_load(const char *path, const struct rlx_load_opts *opts,
				 struct rlx_program **out, struct rlx_error *err)
{
	struct rlx_load_opts o = { 0 };
	struct rlx_error own = { 0 };
	struct rlx_plan_file *f;
	enum rlx_status st;

	err = err ? err : &own;
	if (!path || !out || (opts && !opts->size))
		return rlx_fail(err, RLX_EINVAL, "program load: a path, a place for the program "
				"and opts.size are needed");
	*out = NULL;
	if (opts)
		memcpy(&o, opts, opts->size < sizeof(o) ? opts->size : sizeof(o));
	if (o.flags & ~(uint32_t)RLX_LOAD_VERIFY)
		return rlx_fail(err, RLX_EINVAL, "program load: unknown flags 0x%x", o.flags);
	st = rlx_plan_file_open(path, &f, err);
	if (st)
		return st;
	st = rlx_plan_file_program(f, path, &o, out, err);
	rlx_plan_file_put(f);
	return st;
}

void rlx_plan_file_info(const struct rlx_plan_file *f, const char *path,
			struct rlx_program_file_info *out)
{
	const struct plan_blob *b = table(f->h, f->h->blob);
	const struct plan_entry *e = table(f->h, f->h->entry);
	struct rlx_error not_here = { 0 };
	uint32_t i;

	*out = (struct rlx_program_file_info){
		.threads = f->h->threads, .graphs = f->h->n_graph, .bytes = f->h->bytes,
		.usable = !rlx_plan_file_fits(f, path, NULL, &not_here),
	};
	memcpy(out->version, f->h->version, sizeof(out->version));
	memcpy(out->layout, f->h->layout, sizeof(out->layout));
	for (i = 0; i < PLAN_SOURCES; i++)
		snprintf(out->sources + (size_t)2 * i, 3, "%02x", f->h->sources[i]);
	for (i = 0; i < f->h->n_blob; i++) {
		out->left_out += !b[i].at;
		out->weights += !!b[i].at;
		out->raw_bytes += b[i].at ? b[i].bytes : 0;
	}
	for (i = 0; i < f->h->n_entry; i++, out->weights++)
		out->prepared_bytes += e[i].bytes;
}

enum rlx_status rlx_program_file_info(const char *path, struct rlx_program_file_info *out,
				      struct rlx_error *err)
{
	struct rlx_error own = { 0 };
	struct rlx_plan_file *f;
	enum rlx_status st;

	err = err ? err : &own;
	if (!path || !out)
		return rlx_fail(err, RLX_EINVAL, "plan file: a path and a place are needed");
	*out = (struct rlx_program_file_info){ .bytes = 0 };
	st = rlx_plan_file_open(path, &f, err);
	if (st)
		return st;
	rlx_plan_file_info(f, path, out);
	rlx_plan_file_put(f);
	return RLX_OK;
}
