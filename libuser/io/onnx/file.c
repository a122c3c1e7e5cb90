// SPDX-License-Identifier: MIT
/*
 * Opening ONNX files: mappings of the model and of the external data beside
 * it, held together by one count.
 */
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/formats/file.h"
#include "io/onnx/desc.h"

struct mapping {
	struct mapping	*next;
	char		*path;	/* of external data: where the model has it; else NULL */
	const char	*name;	/* in the model: the end of @path */
	struct rlx_file	 file;
};

struct onnx_file {
	_Atomic unsigned int	 refs;
	enum onnx_root		 root;
	char			*name;
	char			*dir;	/* NULL: opened from memory */
	struct mapping		*maps;
	struct rlx_bump	 arena;
	struct onnx_blobs	*blobs;
	union {
		struct onnx_model	model;
		struct onnx_tensor	tensor;
		struct onnx_seq_value	seq;
		struct onnx_opt_value	opt;
	};
};

static void mapping_free(struct mapping *m)
{
	rlx_file_unmap(&m->file);
	rlx_free(m->path);
	rlx_free(m);
}

/* A relative path without ".." and without a NUL inside. */
static bool path_is_inside(struct rlx_str s)
{
	size_t i, start = 0;

	if (!s.n || s.p[0] == '/' || memchr(s.p, 0, s.n))
		return false;
	for (i = 0; i <= s.n; i++) {
		if (i < s.n && s.p[i] != '/')
			continue;
		if (i - start == 2 && !memcmp(s.p + start, "..", 2))
			return false;
		start = i + 1;
	}
	return true;
}

static bool is_below(const char *path, const char *root)
{
	size_t n = strlen(root);

	return n == 1 || (!strncmp(path, root, n) && path[n] == '/');
}

/*
 * The file's real path, if it is below the real directory of @dir or of the
 * model file: a link in a downloaded folder must not make us read what the
 * folder does not hold. Caches keep files by hash and a folder of links to
 * them; there the model and its data are links to the same place.
 */
static enum rlx_status resolve(struct onnx_pb *pb, const char *dir,
			       const struct mapping *m, char out[PATH_MAX])
{
	const char *name = m->name;
	char root[PATH_MAX];
	char *slash;

	if (strlen(m->path) >= PATH_MAX)
		return rlx_fail(pb->err, RLX_ENOENT, "%s: the path of external "
				"data '%.80s' is too long", pb->file, name);
	if (!realpath(dir, root) || !realpath(m->path, out))
		return rlx_fail(pb->err, rlx_file_status(errno), "%s: external data "
				"'%.80s': %s", pb->file, name, strerror(errno));
	if (is_below(out, root))
		return RLX_OK;
	slash = realpath(pb->file, root) ? strrchr(root, '/') : NULL;
	if (slash)
		slash[slash == root] = 0;
	if (!slash || !is_below(out, root))
		return rlx_fail(pb->err, RLX_EACCES, "%s: external data "
				"'%.80s' is a link to outside the model's "
				"directory; put the file itself there",
				pb->file, name);
	return RLX_OK;
}

static enum rlx_status external_map(struct onnx_pb *pb, struct rlx_str name,
				    struct mapping **out)
{
	struct onnx_file *f = pb->user;
	struct mapping *m;
	char path[PATH_MAX];
	enum rlx_status st;
	size_t n;

	if (!path_is_inside(name))
		return rlx_fail(pb->err, RLX_EACCES, "%s: external data "
				"location '%.*s' leaves the model's directory",
				pb->file, ONNX_STR(name));
	for (m = f->maps; m; m = m->next)
		if (m->name && strlen(m->name) == name.n &&
		    !memcmp(m->name, name.p, name.n)) {
			*out = m;
			return RLX_OK;
		}
	if (!f->dir)
		return rlx_fail(pb->err, RLX_ENOSUP, "%s: external data "
				"'%.*s': a model in memory has no directory; "
				"open it by path", pb->file, ONNX_STR(name));
	m = rlx_calloc(1, sizeof(*m));
	n = strlen(f->dir) + 1;
	if (m)
		m->path = rlx_malloc(n + name.n + 1);
	if (!m || !m->path) {
		rlx_free(m);
		return pb_nomem(pb);
	}
	snprintf(m->path, n + name.n + 1, "%s/%.*s", f->dir, ONNX_STR(name));
	m->name = m->path + n;
	st = resolve(pb, f->dir, m, path);
	if (!st)
		st = rlx_file_map(&m->file, path, pb->err);
	if (st) {
		mapping_free(m);
		return st;
	}
	m->file.path = m->path;
	m->next = f->maps;
	f->maps = m;
	*out = m;
	return RLX_OK;
}

enum rlx_status onnx_file_external(struct onnx_pb *pb, struct rlx_str name,
				   uint64_t offset, int64_t length,
				   struct rlx_str *out)
{
	enum rlx_status st;
	struct mapping *m;
	uint64_t left;

	st = external_map(pb, name, &m);
	if (st)
		return st;
	left = offset <= m->file.n ? m->file.n - offset : 0;
	if (offset > m->file.n || (length >= 0 && (uint64_t)length > left))
		return rlx_fail(pb->err, RLX_ERANGE, "%s: external data '%.*s' "
				"has %zu bytes, but %lld are wanted at offset "
				"%llu", pb->file, ONNX_STR(name), m->file.n,
				(long long)length, (unsigned long long)offset);
	out->n = length >= 0 ? (size_t)length : (size_t)left;
	out->p = out->n ? (const char *)m->file.p + offset : NULL;
	return RLX_OK;
}

static void file_free(struct onnx_file *f)
{
	struct mapping *m = f->maps, *next;

	for (; m; m = next) {
		next = m->next;
		mapping_free(m);
	}
	rlx_bump_fini(&f->arena);
	onnx_blobs_free(f->blobs);
	rlx_free(f->dir);
	rlx_free(f->name);
	rlx_free(f);
}

static enum rlx_status parse(struct onnx_file *f, const void *p, size_t n,
			     struct rlx_error *err)
{
	static const struct pb_msg *const root[] = {
		[ONNX_ROOT_MODEL] = &onnx_msg_model,
		[ONNX_ROOT_TENSOR] = &onnx_msg_tensor,
		[ONNX_ROOT_SEQUENCE] = &onnx_msg_seq,
		[ONNX_ROOT_OPTIONAL] = &onnx_msg_opt,
	};
	struct onnx_pb pb = {
		.base = p, .file = f->name, .arena = &f->arena, .err = err,
		.user = f,
	};

	/* Nothing at all is a valid empty sequence or optional. */
	if (!n)
		pb.base = p = (const void *)"";
	return pb_parse(&pb, root[f->root], (struct rlx_str){ p, n },
			&f->model, 0);
}

static struct onnx_file *file_new(const char *name, enum onnx_root root)
{
	struct onnx_file *f = rlx_calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->refs = 1;
	f->root = root;
	f->name = rlx_strdup(name);
	f->blobs = onnx_blobs_new();
	if (!f->name || !f->blobs) {
		onnx_blobs_free(f->blobs);
		rlx_free(f->name);
		rlx_free(f);
		return NULL;
	}
	return f;
}

enum rlx_status onnx_open(const char *path, enum onnx_root root,
			  struct onnx_file **out, struct rlx_error *err)
{
	struct mapping *m;
	struct onnx_file *f;
	enum rlx_status st;
	const char *slash;

	*out = NULL;
	if (!path || root > ONNX_ROOT_OPTIONAL)
		return rlx_fail(err, RLX_EINVAL, "onnx_open: no path");
	slash = strrchr(path, '/');
	f = file_new(path, root);
	if (!f)
		return rlx_fail(err, RLX_ENOMEM, "%s: out of memory", path);
	/* "/model.onnx" lies in "/", "model.onnx" in ".". */
	f->dir = !slash ? rlx_strdup(".") :
		 rlx_strndup(path, slash == path ? 1 : (size_t)(slash - path));
	m = rlx_calloc(1, sizeof(*m));
	if (!f->dir || !m) {
		rlx_free(m);
		st = rlx_fail(err, RLX_ENOMEM, "%s: out of memory", path);
		goto out_free;
	}
	f->maps = m;
	st = rlx_file_map(&m->file, path, err);
	if (!st)
		st = parse(f, m->file.p, m->file.n, err);
	if (st)
		goto out_free;
	*out = f;
	return RLX_OK;
out_free:
	file_free(f);
	return st;
}

enum rlx_status onnx_open_mem(const void *p, size_t n, const char *name,
			      enum onnx_root root, struct onnx_file **out,
			      struct rlx_error *err)
{
	struct onnx_file *f;
	enum rlx_status st;

	*out = NULL;
	if ((!p && n) || !name || root > ONNX_ROOT_OPTIONAL)
		return rlx_fail(err, RLX_EINVAL, "onnx_open_mem: no bytes");
	f = file_new(name, root);
	if (!f)
		return rlx_fail(err, RLX_ENOMEM, "%s: out of memory", name);
	st = parse(f, p, n, err);
	if (st) {
		file_free(f);
		return st;
	}
	*out = f;
	return RLX_OK;
}

struct onnx_file *onnx_get(struct onnx_file *f)
{
	atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
	return f;
}

void onnx_put(struct onnx_file *f)
{
	if (f && atomic_fetch_sub_explicit(&f->refs, 1,
					   memory_order_acq_rel) == 1)
		file_free(f);
}

const struct onnx_model *onnx_file_model(const struct onnx_file *f)
{
	return f->root == ONNX_ROOT_MODEL ? &f->model : NULL;
}

const struct onnx_tensor *onnx_file_tensor(const struct onnx_file *f)
{
	return f->root == ONNX_ROOT_TENSOR ? &f->tensor : NULL;
}

const struct onnx_seq_value *onnx_file_sequence(const struct onnx_file *f)
{
	return f->root == ONNX_ROOT_SEQUENCE ? &f->seq : NULL;
}

const struct onnx_opt_value *onnx_file_optional(const struct onnx_file *f)
{
	return f->root == ONNX_ROOT_OPTIONAL ? &f->opt : NULL;
}

bool onnx_file_place(const struct onnx_file *f, const void *p, uint64_t *out_source,
		     uint64_t *out_offset)
{
	const struct mapping *m;

	for (m = f->maps; m; m = m->next) {
		*out_offset = (uintptr_t)p - (uintptr_t)m->file.p;
		*out_source = m->file.source;
		if (m->file.source && *out_offset < m->file.n)
			return true;
	}
	return false;
}

const struct rlx_file *onnx_file_mapped(const struct onnx_file *f, unsigned int i)
{
	const struct mapping *m = f->maps;

	while (m && i--)
		m = m->next;
	return m ? &m->file : NULL;
}

struct onnx_blobs *onnx_file_blobs(const struct onnx_file *f)
{
	return f->blobs;
}

const char *onnx_file_name(const struct onnx_file *f)
{
	return f->name;
}

int64_t onnx_opset_find(const struct onnx_opset *o, size_t n,
			struct rlx_str domain)
{
	bool std = !domain.n || onnx_str_is(domain, "ai.onnx");
	size_t i;

	for (i = 0; i < n; i++)
		if (onnx_str_eq(o[i].domain, domain) ||
		    (std && (!o[i].domain.n ||
			     onnx_str_is(o[i].domain, "ai.onnx"))))
			return o[i].version;
	return 0;
}

const struct onnx_attr *onnx_attr_find(const struct onnx_node *n,
				       const char *name)
{
	size_t i;

	for (i = 0; i < n->nattrs; i++)
		if (onnx_str_is(n->attrs[i].name, name))
			return &n->attrs[i];
	return NULL;
}
