// SPDX-License-Identifier: MIT
/* Loading: the newest checkpoint of which every byte is as it was written. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "train/ckpt.h"
#include "train/fileops.h"

/* A checkpoint in memory, checked. */
struct loaded {
	struct ckpt_manifest	 m;
	struct rlx_safetensors	*file[CKPT_FILES];
};

static void loaded_fini(struct loaded *l)
{
	unsigned int f;

	for (f = 0; f < CKPT_FILES; f++)
		rlx_safetensors_close(l->file[f]);
	rlx_json_fini(&l->m.json);
	*l = (struct loaded){ 0 };
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

static enum rlx_status read_image(struct rlx_ckpt *ck, struct ckpt_slot *s, struct loaded *l,
				  unsigned int f, struct rlx_error *err)
{
	struct ckpt_image *m = &s->image[f];
	char path[PATH_MAX];
	enum rlx_status st;
	struct stat id;
	int64_t fd, e;

	ckpt_path(path, ck, "step-", l->m.step, ckpt_file_name[f]);
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
	if (!st)
		st = rlx_safetensors_open_mem(m->base, m->bytes, &l->file[f], err);
	return st;
}

static enum rlx_status read_all(struct rlx_ckpt *ck, uint64_t step, struct loaded *l,
				struct rlx_error *err)
{
	struct ckpt_slot *s = &ck->slot[0];
	enum rlx_status st = ckpt_manifest_read(ck, step, &l->m, err);
	unsigned int f;

	if (!st && l->m.step != step)
		st = rlx_fail(err, RLX_EPARSE, "%s/step-%09llu: its manifest is of step %llu",
			      ck->dir, (unsigned long long)step, (unsigned long long)l->m.step);
	if (!st)
		st = ckpt_slot_reserve(ck, s, l->m.bytes, err);
	for (f = 0; f < CKPT_FILES && !st; f++)
		st = read_image(ck, s, l, f, err);
	return st;
}

static void type_text(char *buf, size_t n, const struct rlx_type *t)
{
	if (t)
		rlx_type_print(t, buf, n);
	else
		snprintf(buf, n, "none");
}

static enum rlx_status differ(const struct loaded *l, unsigned int f, const char *name,
			      const struct rlx_type *have, const struct rlx_type *want,
			      struct rlx_error *err)
{
	char h[80], w[80];

	type_text(h, sizeof(h), have);
	type_text(w, sizeof(w), want);
	return rlx_fail(err, RLX_ESHAPE, "checkpoint of step %llu: %s: tensor \"%.80s\": have %s, "
			"want %s", (unsigned long long)l->m.step, ckpt_file_name[f], name, h, w);
}

static const struct rlx_ckpt_tensor *wanted(const struct rlx_ckpt_set *set, unsigned int f,
					    const char *name)
{
	unsigned int i;

	for (i = 0; i < set->n; i++)
		if (set->tensor[i].file == f && !strcmp(set->tensor[i].name, name))
			return &set->tensor[i];
	return NULL;
}

/* Have both the same? Linear in tensors times tensors only where something is wrong. */
static enum rlx_status match(const struct loaded *l, const struct rlx_ckpt_set *set,
			     struct rlx_error *err)
{
	unsigned int f, i, n[CKPT_FILES] = { 0 };
	enum rlx_status st = RLX_OK;

	if (set->graph_hash && l->m.graph_hash && set->graph_hash != l->m.graph_hash)
		return rlx_fail(err, RLX_ESHAPE,
				"checkpoint of step %llu: it is of another program: "
				"have graph %016llx, want %016llx",
				(unsigned long long)l->m.step, (unsigned long long)l->m.graph_hash,
				(unsigned long long)set->graph_hash);
	for (i = 0; i < set->n; i++) {
		const struct rlx_ckpt_tensor *t = &set->tensor[i];
		const struct rlx_safetensor *have = rlx_safetensors_find(l->file[t->file], t->name);

		if (!have || !rlx_type_equal(&have->type, &t->type))
			return differ(l, t->file, t->name, have ? &have->type : NULL, &t->type, err);
		n[t->file]++;
	}
	for (f = 0; f < CKPT_FILES; f++)
		for (i = 0; n[f] != rlx_safetensors_count(l->file[f]) &&
		     i < rlx_safetensors_count(l->file[f]); i++) {
			const struct rlx_safetensor *t = rlx_safetensors_at(l->file[f], i);

			if (!wanted(set, f, t->name))
				return differ(l, f, t->name, &t->type, NULL, err);
		}
	for (i = 0; i < set->n_blob && !st; i++)
		st = ckpt_manifest_blob(&l->m, &set->blob[i], false, err);
	return st;
}

/* Nothing fails any more, but of a partial load what does not fit is left. */
static void copy(const struct loaded *l, const struct rlx_ckpt_set *set)
{
	unsigned int i;

	for (i = 0; i < set->n; i++) {
		const struct rlx_ckpt_tensor *t = &set->tensor[i];
		const struct rlx_safetensor *have = rlx_safetensors_find(l->file[t->file], t->name);

		if (have && rlx_type_equal(&have->type, &t->type) && rlx_type_bytes(&t->type))
			memcpy(rlx_buf_ptr(t->buf), have->data, (size_t)rlx_type_bytes(&t->type));
	}
	for (i = 0; i < set->n_blob; i++)
		if (ckpt_manifest_blob(&l->m, &set->blob[i], true, NULL))
			continue;
}

static enum rlx_status check_buffers(const struct rlx_ckpt_set *set, struct rlx_error *err)
{
	unsigned int i;

	for (i = 0; i < set->n; i++) {
		const struct rlx_ckpt_tensor *t = &set->tensor[i];
		int64_t n = t->name && t->file < CKPT_FILES ? rlx_type_bytes(&t->type) : -1;

		if (n < 0 || (n && (!rlx_buf_ptr(t->buf) || t->buf.bytes < (uint64_t)n)))
			return rlx_fail(err, n < 0 ? RLX_EINVAL : RLX_ERANGE,
					"checkpoint: tensor %u "
					"(\"%.80s\"): malformed, or its buffer is too small",
					i, t->name ? t->name : "");
		if (rlx_arena_flags(t->buf.arena) & RLX_ARENA_RDONLY)
			return rlx_fail(err, RLX_EACCES,
					"checkpoint: tensor \"%.80s\": its arena is "
					"read-only",
					t->name);
	}
	return RLX_OK;
}

/* Damaged means that an older one may serve; anything else ends the search. */
static bool is_damage(enum rlx_status st)
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
	st = check_buffers(set, &ck->err);
	if (!st && ck->o.readonly)	/* another process may have written */
		st = ckpt_list(ck, &ck->err);
	if (st)
		return st;
	for (i = ck->steps; i-- > 0;) {
		struct loaded l = { 0 };
		struct rlx_error err = { 0 };

		st = read_all(ck, ck->step[i].step, &l, &err);
		if (!st && !(flags & RLX_CKPT_PARTIAL))
			st = match(&l, set, &err);
		if (!st)
			copy(&l, set);
		loaded_fini(&l);
		if (!st && out_step)
			*out_step = ck->step[i].step;
		if (!is_damage(st))
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
