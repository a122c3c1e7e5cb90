// SPDX-License-Identifier: MIT
/* Adapters of low rank: as variables, merged into their weights, as files of PEFT's layout. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json_write.h"
#include "train/fileops.h"
#include "train/vars.h"

static const char tail_a[] = ".lora_A.weight", tail_b[] = ".lora_B.weight";
enum { TAIL = sizeof(tail_a) - 1 };

/* How long the name of the module is in front of @tail; 0: it does not end so. */
static size_t module_len(const char *name, const char *tail)
{
	size_t n = name ? strlen(name) : 0;

	return n > TAIL && !strcmp(name + n - TAIL, tail) ? n - TAIL : 0;
}

/* ---- variables ---- */

/* The variable of param @name; none if it is no adapter's. */
static rlx_value adapter_var(struct rlx_graph *g, struct rlx_vars *v, const char *name,
			     const struct rlx_type *t)
{
	double most;

	if (module_len(name, tail_b))
		return rlx_var(g, v, name, *t, RLX_ZEROS, 0);
	if (!module_len(name, tail_a))
		return RLX_NONE;
	most = t->dim[1] ? 1 / sqrt((double)t->dim[1]) : 0;
	return rlx_var(g, v, name, *t, RLX_UNIFORM(-most, most), 0);
}

static bool names(const struct rlx_inline *how, const char *name)
{
	unsigned int i;

	for (i = 0; i < how->n; i++)
		if (how->name && how->name[i] && !strcmp(how->name[i], name))
			return true;
	return false;
}

enum rlx_status rlx_lora_inline(struct rlx_graph *g, struct rlx_vars *v,
				const struct rlx_graph *part, const struct rlx_inline *how,
				rlx_value *out)
{
	struct rlx_inline all = { .size = sizeof(all) };
	unsigned int n = rlx_graph_io_count(part, RLX_IO_PARAM), i;
	const char **name;
	rlx_value *value;

	if (!g || rlx_graph_error(g)->status)
		return rlx_graph_error(g)->status;
	if (how && how->size)
		memcpy(&all, how, how->size < sizeof(all) ? how->size : sizeof(all));
	else if (how)
		return rlx_graph_inline(g, part, how, out);	/* which says what is wrong */
	name = rlx_calloc((size_t)all.n + n + 1, sizeof(*name));
	value = rlx_calloc((size_t)all.n + n + 1, sizeof(*value));
	if (!name || !value) {
		rlx_graph_fail(g, RLX_ENOMEM, "lora: out of memory");
		goto out_free;
	}
	for (i = 0; i < all.n && all.name && all.value; i++) {
		name[i] = all.name[i];
		value[i] = all.value[i];
	}
	all.n = i;
	for (i = 0; i < n; i++) {
		const char *param = rlx_graph_io_name(part, RLX_IO_PARAM, i);
		rlx_value w = RLX_NONE;

		if (!how || !names(how, param))
			w = adapter_var(g, v, param, rlx_type_of(part,
					rlx_graph_io_value(part, RLX_IO_PARAM, i)));
		if (w.id) {
			name[all.n] = param;
			value[all.n++] = w;
		}
	}
	all.name = name;
	all.value = value;
	rlx_graph_inline(g, part, &all, out);
out_free:
	rlx_free(name);
	rlx_free(value);
	return rlx_graph_error(g)->status;
}

/* ---- merging ---- */

static double element(const struct rlx_safetensor *t, int64_t i)
{
	return float_load(t->type.dtype, t->data, i);
}

static enum rlx_status check_merge(const struct rlx_lora_merge *m, struct rlx_error *err)
{
	const struct rlx_type *w, *a, *b;

	if (!m->w || !m->a || !m->b || !isfinite(m->scale))
		return rlx_fail(err, RLX_EINVAL, "lora: a weight, A and B are needed, and a finite "
				"scale: it is %g", m->scale);
	w = &m->w->type;
	a = &m->a->type;
	b = &m->b->type;
	if ((w->dtype != RLX_F64 && w->dtype != RLX_F32 && w->dtype != RLX_F16 &&
	     w->dtype != RLX_BF16) || (a->dtype != RLX_F32 && a->dtype != RLX_F64) ||
	    (b->dtype != RLX_F32 && b->dtype != RLX_F64))
		return rlx_fail(err, RLX_ETYPE, "lora: '%s' is %s, its adapters %s and %s: f64, "
				"f32, f16 or bf16, and f32 or f64, are merged", m->w->name,
				rlx_dtype_name(w->dtype), rlx_dtype_name(a->dtype),
				rlx_dtype_name(b->dtype));
	if (w->rank != 2 || a->rank != 2 || b->rank != 2 || a->dim[0] != b->dim[1] ||
	    a->dim[1] != w->dim[m->in_first ? 0 : 1] || b->dim[0] != w->dim[m->in_first ? 1 : 0])
		return rlx_fail(err, RLX_ESHAPE, "lora: '%s', its A[rank, in] and B[out, rank] do "
				"not fit", m->w->name);
	return RLX_OK;
}

enum rlx_status rlx_lora_merge(const struct rlx_lora_merge *how, void *to, struct rlx_error *err)
{
	struct rlx_lora_merge m = { 0 };
	int64_t in, out, rank, o, i, r, at;
	enum rlx_status st;
	double sum;

	if (!how || !how->size || !to)
		return rlx_fail(err, RLX_EINVAL, "lora: arguments with their size, and where to, "
				"are needed");
	memcpy(&m, how, how->size < sizeof(m) ? how->size : sizeof(m));
	st = check_merge(&m, err);
	if (st)
		return st;
	rank = m.a->type.dim[0];
	in = m.a->type.dim[1];
	out = m.b->type.dim[0];
	if (to != m.w->data)
		memcpy(to, m.w->data, (size_t)rlx_type_bytes(&m.w->type));
	for (o = 0; o < out; o++)
		for (i = 0; i < in; i++) {
			for (sum = 0, r = 0; r < rank; r++)
				sum += element(m.b, o * rank + r) * element(m.a, r * in + i);
			at = m.in_first ? i * out + o : o * in + i;
			if (sum != 0)
				float_store(m.w->type.dtype, to, at, element(m.w, at) + m.scale * sum);
		}
	return RLX_OK;
}

/* ---- files ---- */

static void put_text(struct rlx_json_writer *w, const char *key, const char *text)
{
	rlx_json_put_key(w, key);
	if (text)
		rlx_json_put_str(w, text);
	else
		rlx_json_put_null(w);
}

static void put_config(FILE *to, const struct rlx_lora_file *f)
{
	struct rlx_json_writer w;
	uint32_t i;

	rlx_json_writer_begin(&w, to, true);
	rlx_json_put_begin(&w, '{');
	put_text(&w, "peft_type", "LORA");
	put_text(&w, "task_type", NULL);
	put_text(&w, "base_model_name_or_path", f->base);
	put_text(&w, "bias", "none");
	rlx_json_put_key(&w, "r");
	rlx_json_put_int(&w, f->rank);
	rlx_json_put_key(&w, "lora_alpha");
	rlx_json_put_double(&w, f->alpha);
	rlx_json_put_key(&w, "lora_dropout");
	rlx_json_put_double(&w, 0);
	rlx_json_put_key(&w, "fan_in_fan_out");
	rlx_json_put_bool(&w, false);
	rlx_json_put_key(&w, "inference_mode");
	rlx_json_put_bool(&w, true);
	rlx_json_put_key(&w, "target_modules");
	rlx_json_put_begin(&w, '[');
	for (i = 0; i < f->n; i++) {
		size_t n = module_len(f->tensor[i].name, tail_a);

		if (n)
			rlx_json_put_strn(&w, f->tensor[i].name, n);
	}
	rlx_json_put_end(&w);
	rlx_json_put_end(&w);
	if (rlx_json_writer_end(&w))
		fputc('\n', to);
}

/* @path through a file beside it. */
static enum rlx_status write_text(const char *path, const char *text, size_t len,
				  struct rlx_error *err)
{
	char tmp[PATH_MAX + 8];
	int64_t fd, e;

	snprintf(tmp, sizeof(tmp), "%.*s.tmp", PATH_MAX, path);
	fd = file_open(tmp, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	e = fd < 0 ? fd : file_write((int)fd, text, len, 0);
	if (fd >= 0 && e >= 0)
		e = file_sync((int)fd);
	if (fd >= 0)
		close((int)fd);
	if (e >= 0)
		e = file_rename(tmp, path, FILE_RENAME_REPLACE);
	if (e >= 0)
		return RLX_OK;
	if (fd >= 0)
		file_unlink(tmp);
	return rlx_fail(err, file_status(e), "%s cannot be written: %s", path, strerror((int)-e));
}

static enum rlx_status write_config(const char *path, const struct rlx_lora_file *f,
				    struct rlx_error *err)
{
	enum rlx_status st = RLX_ENOMEM;
	char *text = NULL;
	size_t len = 0;
	FILE *to = open_memstream(&text, &len);

	if (to) {
		put_config(to, f);
		if (!fclose(to))
			st = RLX_OK;
	}
	st = st ? rlx_fail(err, st, "%s: out of memory", path) : write_text(path, text, len, err);
	free(text);	/* open_memstream's */
	return st;
}

/* Is tensor @i half of an adapter of this rank, and the other half there? */
static enum rlx_status check_half(const struct rlx_lora_file *f, uint32_t i, struct rlx_error *err)
{
	const struct rlx_safetensor *t = &f->tensor[i];
	size_t a = module_len(t->name, tail_a), n = a ? a : module_len(t->name, tail_b);
	uint32_t k, halves = 0;

	for (k = 0; n && k < f->n; k++) {
		const char *other = f->tensor[k].name;

		halves += module_len(other, a ? tail_b : tail_a) == n && !memcmp(other, t->name, n);
	}
	if (halves != 1)
		return rlx_fail(err, RLX_EINVAL, "lora: tensor '%s' is no half of an adapter whose "
				"other half is there: names end in %s and %s",
				t->name ? t->name : "", tail_a, tail_b);
	if (t->type.rank != 2 || t->type.dim[a ? 0 : 1] != (int64_t)f->rank)
		return rlx_fail(err, RLX_ESHAPE, "lora: tensor '%s' is not of rank %u", t->name,
				f->rank);
	return RLX_OK;
}

/* The tensors under PEFT's names, which are in @text. */
static enum rlx_status write_tensors(const char *path, const struct rlx_lora_file *f,
				     struct rlx_error *err)
{
	static const char *const meta[] = { "format", "pt", NULL };
	struct rlx_safetensor *t = rlx_calloc(f->n + 1ul, sizeof(*t));
	size_t room = 0, n;
	enum rlx_status st;
	char *text, *at;
	uint32_t i;

	for (i = 0; i < f->n; i++)
		room += strlen(f->tensor[i].name) + sizeof("base_model.model.");
	at = text = rlx_malloc(room + 1);
	for (i = 0; t && at && i < f->n; i++) {
		n = (size_t)snprintf(at, room, "base_model.model.%s", f->tensor[i].name) + 1;
		t[i] = f->tensor[i];
		t[i].name = at;
		at += n;
		room -= n;
	}
	st = t && text ? rlx_safetensors_write(path, t, f->n, meta, err) :
	     rlx_fail(err, RLX_ENOMEM, "%s: out of memory", path);
	rlx_free(text);
	rlx_free(t);
	return st;
}

enum rlx_status rlx_lora_write(const char *folder, const struct rlx_lora_file *file,
			       struct rlx_error *err)
{
	struct rlx_lora_file f = { 0 };
	enum rlx_status st = RLX_OK;
	char path[PATH_MAX];
	int64_t e;
	uint32_t i;

	if (!folder || strlen(folder) > sizeof(path) - 40 || !file || !file->size)
		return rlx_fail(err, RLX_EINVAL, "lora: a folder and adapters with their size are "
				"needed");
	memcpy(&f, file, file->size < sizeof(f) ? file->size : sizeof(f));
	if (!f.n || !f.tensor || !isfinite(f.alpha))
		return rlx_fail(err, RLX_EINVAL, "lora: no tensors, or alpha is not finite");
	for (i = 0; i < f.n && !st; i++)
		st = check_half(&f, i, err);
	if (st)
		return st;
	e = file_mkdir(folder);
	if (e < 0 && e != -EEXIST)
		return rlx_fail(err, file_status(e), "folder %s cannot be made: %s", folder,
				strerror((int)-e));
	snprintf(path, sizeof(path), "%s/adapter_model.safetensors", folder);
	st = write_tensors(path, &f, err);
	snprintf(path, sizeof(path), "%s/adapter_config.json", folder);
	return st ? st : write_config(path, &f, err);
}
