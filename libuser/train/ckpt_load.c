// SPDX-License-Identifier: MIT
/* Loading: the newest checkpoint of which every byte is as it was written. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "rlx/comm.h"
#include "train/ckpt.h"
#include "train/fileops.h"

static void loaded_fini(struct ckpt_loaded *l)
{
	unsigned int f;

	for (f = 0; f < CKPT_FILES; f++)
		rlx_safetensors_close(l->file[f]);
	for (f = 0; f < l->m.ranks; f++)
		rlx_safetensors_close(l->part[f]);
	rlx_json_fini(&l->m.json);
	*l = (struct ckpt_loaded){ 0 };
}

static enum rlx_status check_image(const struct ckpt_manifest *m, struct ckpt_image *image,
				   unsigned int f, const char *path, struct rlx_error *err)
{
	struct rlx_json_iter it;
	unsigned int i = 0;
	int64_t v;

	ckpt_image_crc(image);
	for (it = rlx_json_iter(&m->json, m->blocks[f]); rlx_json_next(&it); i++)
		if (!rlx_json_int(&m->json, it.val, &v) || v != image->block_crc[i])
			return rlx_fail(err, RLX_EIO,
					"%s: bytes %llu to %llu: their crc does not fit: "
					"damaged",
					path, (unsigned long long)i * CKPT_BLOCK,
					(unsigned long long)(i + 1) * CKPT_BLOCK - 1);
	return image->crc == m->crc[f] ? RLX_OK :
	       rlx_fail(err, RLX_EIO, "%s: its crc does not fit: damaged", path);
}

/* File @f into image @at. */
static enum rlx_status read_image(struct rlx_ckpt *ck, struct ckpt_loaded *l, unsigned int f,
				  unsigned int at, struct rlx_error *err)
{
	struct ckpt_slot *s = &ck->slot[0];
	struct ckpt_image *m = ckpt_image(s, at);
	char path[PATH_MAX], name[40];
	enum rlx_status st;
	struct stat id;
	int64_t fd, e;

	ckpt_path(path, ck, "step-", l->m.step, ckpt_file_name(name, f, l->m.ranks));
	fd = e = file_open(path, O_RDONLY, 0);
	if (fd >= 0)
		e = file_fstat((int)fd, &id);
	if (e >= 0 && (uint64_t)id.st_size == m->bytes)
		e = -ckpt_transfer(s, m, (int)fd, false);
	if (fd >= 0)
		close((int)fd);
	if (e < 0)
		return rlx_fail(err, file_status(e), "%s: %s", path, strerror((int)-e));
	if ((uint64_t)id.st_size != m->bytes)
		return rlx_fail(err, RLX_EIO, "%s: %lld bytes, not %llu: it was cut short", path,
				(long long)id.st_size, (unsigned long long)m->bytes);
	st = check_image(&l->m, m, f, path, err);
	return st ? st : rlx_safetensors_open_mem(m->base, m->bytes, f < CKPT_FILES ?
						  &l->file[f] : &l->part[f - CKPT_FILES], err);
}

/* As many ranks as wrote parts each want one; others want all. */
static bool wants_own(const struct rlx_ckpt *ck, const struct ckpt_manifest *m,
		      const struct rlx_ckpt_set *set)
{
	unsigned int i;

	for (i = 0; i < set->n && set->tensor[i].file != RLX_CKPT_PART; i++)
		;
	return i < set->n && ckpt_ranks(ck) == m->ranks;
}

static enum rlx_status read_all(struct rlx_ckpt *ck, uint64_t step, const struct rlx_ckpt_set *set,
				struct ckpt_loaded *l, struct rlx_error *err)
{
	enum rlx_status st = ckpt_manifest_read(ck, step, &l->m, err);
	uint64_t bytes[CKPT_FILES + CKPT_PARTS_MAX];
	unsigned int first = 0, n, f;

	if (!st && l->m.step != step)
		st = rlx_fail(err, RLX_EPARSE, "%s/step-%09llu: its manifest is of step %llu",
			      ck->dir, (unsigned long long)step, (unsigned long long)l->m.step);
	if (st)
		return st;
	n = l->m.ranks;
	if (n && wants_own(ck, &l->m, set)) {
		first = rlx_comm_rank(ck->o.comm);
		n = 1;
	}
	memcpy(bytes, l->m.bytes, CKPT_FILES * sizeof(*bytes));
	memcpy(bytes + CKPT_FILES, l->m.bytes + CKPT_FILES + first, n * sizeof(*bytes));
	st = ckpt_slot_reserve(ck, &ck->slot[0], bytes, n, err);
	for (f = 0; f < CKPT_FILES + n && !st; f++)
		st = read_image(ck, l, f < CKPT_FILES ? f : f + first, f, err);
	return st;
}

static void type_text(char *buf, size_t n, const struct rlx_type *t)
{
	if (t)
		rlx_type_print(t, buf, n);
	else
		snprintf(buf, n, "none");
}

enum rlx_status ckpt_differ(const struct ckpt_loaded *l, unsigned int f, const char *name,
			    const struct rlx_type *have, const struct rlx_type *want,
			    struct rlx_error *err)
{
	char h[80], w[80], file[40];

	type_text(h, sizeof(h), have);
	type_text(w, sizeof(w), want);
	return rlx_fail(err, RLX_ESHAPE, "checkpoint of step %llu: %s: tensor \"%.80s\": have %s, "
			"want %s", (unsigned long long)l->m.step,
			ckpt_file_name(file, f, l->m.ranks), name, h, w);
}

static bool wanted(const struct ckpt_loaded *l, const struct rlx_ckpt_set *set, unsigned int f,
		   const char *name)
{
	unsigned int i;

	for (i = 0; i < set->n; i++)
		if ((set->tensor[i].file == RLX_CKPT_MODEL) == (f == RLX_CKPT_MODEL) &&
		    ckpt_in_parts(l, &set->tensor[i]) == (f >= CKPT_FILES) &&
		    !strcmp(set->tensor[i].name, name))
			return true;
	return false;
}

/* Is all that file @f has wanted? So many are. Quadratic only where something is wrong. */
static enum rlx_status all_wanted(const struct ckpt_loaded *l, const struct rlx_ckpt_set *set,
				  unsigned int f, unsigned int n, struct rlx_error *err)
{
	const struct rlx_safetensors *file = f < CKPT_FILES ? l->file[f] : l->part[f - CKPT_FILES];
	unsigned int i;

	for (i = 0; file && n != rlx_safetensors_count(file) && i < rlx_safetensors_count(file);
	     i++) {
		const struct rlx_safetensor *t = rlx_safetensors_at(file, i);

		if (!wanted(l, set, f, t->name))
			return ckpt_differ(l, f, t->name, &t->type, NULL, err);
	}
	return RLX_OK;
}

/* Have both the same? */
static enum rlx_status match(const struct ckpt_loaded *l, const struct rlx_ckpt_set *set,
			     struct rlx_error *err)
{
	unsigned int f, i, n[CKPT_FILES + 1] = { 0 };
	enum rlx_status st = RLX_OK;

	if (set->graph_hash && l->m.graph_hash && set->graph_hash != l->m.graph_hash)
		return rlx_fail(err, RLX_ESHAPE,
				"checkpoint of step %llu: it is of another program: "
				"have graph %016llx, want %016llx",
				(unsigned long long)l->m.step, (unsigned long long)l->m.graph_hash,
				(unsigned long long)set->graph_hash);
	for (i = 0; i < set->n && !st; i++) {
		const struct rlx_ckpt_tensor *t = &set->tensor[i];

		st = ckpt_fits(l, t, err);
		f = t->file == RLX_CKPT_MODEL ? RLX_CKPT_MODEL : RLX_CKPT_OPTIM;
		n[ckpt_in_parts(l, t) ? CKPT_FILES : f]++;
	}
	for (f = 0; f < CKPT_FILES + l->m.ranks && !st; f++)
		st = all_wanted(l, set, f, n[f < CKPT_FILES ? f : CKPT_FILES], err);
	for (i = 0; i < set->n_blob && !st; i++)
		st = ckpt_manifest_blob(&l->m, &set->blob[i], false, err);
	return st;
}

/* Nothing fails any more, but of a partial load what does not fit is left. */
static void copy(const struct rlx_ckpt *ck, const struct ckpt_loaded *l,
		 const struct rlx_ckpt_set *set)
{
	unsigned int i;

	for (i = 0; i < set->n; i++)
		if (!ckpt_fits(l, &set->tensor[i], NULL))
			ckpt_take(ck, l, &set->tensor[i]);
	for (i = 0; i < set->n_blob; i++)
		if (ckpt_manifest_blob(&l->m, &set->blob[i], true, NULL))
			continue;
}

static enum rlx_status check_buffers(const struct rlx_ckpt *ck, const struct rlx_ckpt_set *set,
				     struct rlx_error *err)
{
	unsigned int i;

	for (i = 0; i < set->n; i++) {
		const struct rlx_ckpt_tensor *t = &set->tensor[i];
		int64_t n = t->name && t->file <= RLX_CKPT_PART ? rlx_type_bytes(&t->type) : -1;

		if (n < 0 || (n && (!rlx_buf_ptr(t->buf) || t->buf.bytes < (uint64_t)n)))
			return rlx_fail(err, n < 0 ? RLX_EINVAL : RLX_ERANGE,
					"checkpoint: tensor %u "
					"(\"%.80s\"): malformed, or its buffer is too small",
					i, t->name ? t->name : "");
		if (!ckpt_is_cut(ck, t))
			return ckpt_miscut(ck, t, err);
		if (rlx_arena_flags(t->buf.arena) & RLX_ARENA_RDONLY)
			return rlx_fail(err, RLX_EACCES,
					"checkpoint: tensor \"%.80s\": its arena is "
					"read-only",
					t->name);
	}
	return RLX_OK;
}

bool ckpt_is_damage(enum rlx_status st)
{
	return st == RLX_EIO || st == RLX_EPARSE || st == RLX_ENOENT || st == RLX_ENOSUP ||
	       st == RLX_EBADFD || st == RLX_ERANGE;
}

enum rlx_status rlx_ckpt_load_set(struct rlx_ckpt *ck, const struct rlx_ckpt_set *set,
				  uint32_t flags, uint64_t *out_step)
{
	enum rlx_status st;
	uint32_t i, left_out = 0;

	if (!ck)
		return RLX_EINVAL;
	if (rlx_ckpt_wait(ck, -1))	/* of the saves before: told by their own calls */
		rlx_log(RLX_LOG_WARN, "%s", ck->err.text);
	ck->err = (struct rlx_error){ 0 };
	if (!set || set->size != sizeof(*set) || flags & ~(uint32_t)RLX_CKPT_PARTIAL)
		return rlx_fail(&ck->err, RLX_EINVAL, "%s: no set, or an unknown flag", ck->dir);
	st = check_buffers(ck, set, &ck->err);
	/* another process may have written */
	if (!st && (ck->o.readonly || ckpt_follows(ck)))
		st = ckpt_list(ck, &ck->err);
	ck->slot[0].step = ck->steps;
	st = ckpt_together(ck, &ck->slot[0], st, &ck->err);
	if (st)
		return st;
	for (i = ck->steps; i-- > 0;) {
		struct ckpt_loaded l = { 0 };
		struct rlx_error err = { 0 };

		st = read_all(ck, ck->step[i].step, set, &l, &err);
		if (!st && !(flags & RLX_CKPT_PARTIAL))
			st = match(&l, set, &err);
		ck->slot[0].step = ck->step[i].step;
		st = ckpt_together(ck, &ck->slot[0], st, &err);
		if (!st)
			copy(ck, &l, set);
		loaded_fini(&l);
		if (!st && out_step)
			*out_step = ck->step[i].step;
		if (!ckpt_is_damage(st) || ckpt_lost(ck))
			return st ? rlx_fail(&ck->err, st, "%s", err.text) : RLX_OK;
		rlx_log(RLX_LOG_WARN, "%s: left out: %s", ck->dir, err.text);
		pthread_mutex_lock(&ck->mutex);
		ck->info.damaged++;
		pthread_mutex_unlock(&ck->mutex);
		left_out++;
	}
	return rlx_fail(&ck->err, RLX_ENOENT, "%s: no checkpoint%s", ck->dir,
			left_out ? " that is whole" : "");
}
