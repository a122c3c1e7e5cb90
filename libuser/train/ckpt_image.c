// SPDX-License-Identifier: MIT
/* Snapshots: tensors copied to where a file of them would have them. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "train/ckpt.h"
#include "train/crc32c.h"

static uint64_t pages(uint64_t bytes)
{
	return (bytes + CKPT_PAGE - 1) & ~(uint64_t)(CKPT_PAGE - 1);
}

void ckpt_slot_fini(struct ckpt_slot *s)
{
	unsigned int f, i;

	reader_free(s->reader);
	for (f = 0; f < CKPT_FILES + s->cap_part; f++) {
		rlx_free(ckpt_image(s, f)->block_crc);
		rlx_free(ckpt_image(s, f)->tensor);
		rlx_free(ckpt_image(s, f)->offset);
	}
	rlx_free(s->part);
	ckpt_drop_all(s);
	for (i = 0; i < s->n_blob; i++)
		rlx_free(s->blob[i].data);
	rlx_free(s->blob);
	rlx_free(s->req);
	if (s->memory.arena)
		rlx_buf_free(s->memory, NULL);
	rlx_arena_put(s->arena);
	*s = (struct ckpt_slot){ 0 };
}

static enum rlx_status take_memory(struct rlx_ckpt *ck, struct ckpt_slot *s, uint64_t bytes,
				   struct rlx_error *err)
{
	struct rlx_arena_opts ao = { .size = bytes, .name = "checkpoint" };
	struct reader_opts ro = { .depth = CKPT_IN_FLIGHT, .bytes = bytes };
	enum rlx_status st;

	reader_free(s->reader);
	s->reader = NULL;
	if (s->memory.arena)
		rlx_buf_free(s->memory, NULL);
	s->memory = (struct rlx_buf){ 0 };
	rlx_arena_put(s->arena);
	s->arena = ck->o.arena ? rlx_arena_get(ck->o.arena) : NULL;
	st = s->arena ? RLX_OK : rlx_arena_new(&ao, &s->arena, err);
	if (!st)
		st = rlx_buf_new(s->arena, bytes, CKPT_PAGE, &s->memory, err);
	if (st)
		return st;
	ro.memory = rlx_buf_ptr(s->memory);
	return reader_new(&ro, &s->reader, err);
}

bool ckpt_slot_parts(struct ckpt_slot *s, unsigned int parts)
{
	struct ckpt_image *p;

	if (parts > s->cap_part) {
		p = rlx_calloc(parts, sizeof(*p));
		if (!p)
			return false;
		if (s->part)
			memcpy(p, s->part, s->cap_part * sizeof(*p));
		rlx_free(s->part);
		s->part = p;
		s->cap_part = parts;
	}
	s->n_part = parts;
	return true;
}

enum rlx_status ckpt_slot_reserve(struct rlx_ckpt *ck, struct ckpt_slot *s, const uint64_t *bytes,
				  unsigned int parts, struct rlx_error *err)
{
	uint64_t all = 0, reqs = 0, longest = 0, n;
	enum rlx_status st = ckpt_slot_parts(s, parts) ? RLX_OK : RLX_ENOMEM;
	unsigned int f;

	for (f = 0; f < CKPT_FILES + parts; f++) {
		all += pages(bytes[f]);
		longest = bytes[f] > longest ? bytes[f] : longest;
	}
	reqs = longest / READER_PIECE + 2;
	if (!st && (!s->memory.arena || s->memory.bytes < all || !s->reader))
		st = take_memory(ck, s, all, err);
	if (!st && s->n_req < reqs) {
		rlx_free(s->req);
		s->req = rlx_calloc(reqs, sizeof(*s->req));
		s->n_req = s->req ? reqs : 0;
		st = s->req ? RLX_OK : RLX_ENOMEM;
	}
	for (f = 0, all = 0; f < CKPT_FILES + parts && !st; f++) {
		struct ckpt_image *m = ckpt_image(s, f);

		m->base = (uint8_t *)rlx_buf_ptr(s->memory) + all;
		m->bytes = bytes[f];
		all += pages(bytes[f]);
		n = bytes[f] / CKPT_BLOCK + 1;
		rlx_free(m->block_crc);
		m->block_crc = rlx_calloc(n, sizeof(*m->block_crc));
		m->blocks = (uint32_t)((bytes[f] + CKPT_BLOCK - 1) / CKPT_BLOCK);
		st = m->block_crc ? RLX_OK : RLX_ENOMEM;
	}
	return st == RLX_ENOMEM ? rlx_fail(err, st, "%s: no memory for a snapshot", ck->dir) : st;
}

/* Names, types and blobs as they should be. */
static enum rlx_status check_set(const struct rlx_ckpt *ck, const struct rlx_ckpt_set *set,
				 struct rlx_error *err)
{
	unsigned int i, k;

	if (!set || set->size != sizeof(*set) || (set->n && !set->tensor) ||
	    (set->n_blob && !set->blob))
		return rlx_fail(err, RLX_EINVAL, "%s: no set, or its size is another", ck->dir);
	for (i = 0; i < set->n; i++) {
		const struct rlx_ckpt_tensor *t = &set->tensor[i];
		int64_t bytes = rlx_type_bytes(&t->type);

		if (!t->name || t->file > RLX_CKPT_PART || bytes < 0)
			return rlx_fail(err, RLX_EINVAL,
					"%s: tensor %u (\"%.80s\"): no name, no such "
					"file, or a malformed type",
					ck->dir, i, t->name ? t->name : "");
		if (!ckpt_is_cut(ck, t))
			return ckpt_miscut(ck, t, err);
		if (bytes && (!rlx_buf_ptr(t->buf) || t->buf.bytes < (uint64_t)bytes))
			return rlx_fail(err, RLX_ERANGE, "%s: tensor \"%.80s\": its buffer has %llu "
					"bytes, its type %lld", ck->dir, t->name,
					(unsigned long long)t->buf.bytes, (long long)bytes);
	}
	for (i = 0; i < set->n_blob; i++) {
		const struct rlx_ckpt_blob *b = &set->blob[i];

		if (!b->key || !*b->key || strlen(b->key) >= CKPT_KEY_MAX ||
		    b->bytes > CKPT_BLOB_MAX || (b->bytes && !b->data))
			return rlx_fail(err, RLX_EINVAL,
					"%s: blob %u: a key has 1 to %d bytes, its data "
					"at most 1 MiB",
					ck->dir, i, CKPT_KEY_MAX - 1);
		for (k = 0; k < i; k++)
			if (!strcmp(b->key, set->blob[k].key))
				return rlx_fail(err, RLX_EEXIST, "%s: blob \"%s\" comes twice", ck->dir,
						b->key);
	}
	return RLX_OK;
}

/* Which image of this rank's @t goes to; another rank has it as well and writes it. */
static bool goes_to(const struct rlx_ckpt *ck, const struct rlx_ckpt_tensor *t, unsigned int f)
{
	return t->file == f && (f == RLX_CKPT_PART || !ckpt_follows(ck));
}

/* Tensors of file @f, and where each lies in it. */
static enum rlx_status lay_out(const struct rlx_ckpt *ck, struct ckpt_image *m, unsigned int f,
			       const struct rlx_ckpt_set *set, struct rlx_safetensors_head *h,
			       struct rlx_error *err)
{
	enum rlx_status st;
	unsigned int i;

	rlx_free(m->tensor);
	rlx_free(m->offset);
	m->n = 0;
	m->tensor = rlx_calloc(set->n + 1, sizeof(*m->tensor));
	m->offset = rlx_calloc(set->n + 1, sizeof(*m->offset));
	if (!m->tensor || !m->offset)
		return rlx_fail(err, RLX_ENOMEM, "checkpoint: no memory for names");
	for (i = 0; i < set->n; i++)
		if (goes_to(ck, &set->tensor[i], f))
			m->tensor[m->n++] = (struct rlx_safetensor){
				.name = set->tensor[i].name, .type = set->tensor[i].type,
			};
	h->align = CKPT_PAGE;
	h->offset = m->offset;
	st = rlx_safetensors_header(m->tensor, m->n, h, err);
	m->bytes = h->bytes;
	for (i = 0; i < m->n && !st; i++) {
		uint64_t end = m->offset[i] + (uint64_t)rlx_type_bytes(&m->tensor[i].type);

		m->bytes = end > m->bytes ? end : m->bytes;
	}
	return st;
}

static enum rlx_status copy_blobs(struct ckpt_slot *s, const struct rlx_ckpt_set *set,
				  struct rlx_error *err)
{
	unsigned int i;

	for (i = 0; i < s->n_blob; i++)
		rlx_free(s->blob[i].data);
	rlx_free(s->blob);
	s->n_blob = 0;
	s->blob = rlx_calloc(set->n_blob + 1, sizeof(*s->blob));
	for (i = 0; s->blob && i < set->n_blob; i++) {
		struct ckpt_blob *b = &s->blob[i];

		b->data = rlx_memdup(set->blob[i].data, set->blob[i].bytes);
		if (!b->data)
			break;
		b->bytes = set->blob[i].bytes;
		strcpy(b->key, set->blob[i].key);
		s->n_blob++;
	}
	return s->n_blob == set->n_blob && s->blob ? RLX_OK :
	       rlx_fail(err, RLX_ENOMEM, "checkpoint: no memory for blobs");
}

enum rlx_status ckpt_snapshot(struct rlx_ckpt *ck, struct ckpt_slot *s,
			      const struct rlx_ckpt_set *set, struct rlx_error *err)
{
	static const char *const meta[] = { "format", "rlx-checkpoint-1", NULL };
	struct rlx_safetensors_head h[CKPT_FILES + 1] = { { .meta = meta }, { .meta = meta },
							  { .meta = meta } };
	unsigned int f, i, parts = 0, k[CKPT_FILES + 1] = { 0 };
	uint64_t bytes[CKPT_FILES + 1];
	enum rlx_status st = check_set(ck, set, err);

	for (i = 0; i < set->n && !st; i++)
		parts |= set->tensor[i].file == RLX_CKPT_PART;
	if (!st && !ckpt_slot_parts(s, parts))
		st = rlx_fail(err, RLX_ENOMEM, "%s: no memory for a snapshot", ck->dir);
	for (f = 0; f < CKPT_FILES + parts && !st; f++) {
		st = lay_out(ck, ckpt_image(s, f), f, set, &h[f], err);
		bytes[f] = ckpt_image(s, f)->bytes;
	}
	if (!st)
		st = ckpt_slot_reserve(ck, s, bytes, parts, err);
	if (!st)
		st = copy_blobs(s, set, err);
	for (f = 0; f < CKPT_FILES + parts && !st; f++) {
		struct ckpt_image *m = ckpt_image(s, f);

		h[f].buf = m->base;
		h[f].room = h[f].bytes;
		st = rlx_safetensors_header(m->tensor, m->n, &h[f], err);
		memset(m->base + m->bytes, 0, pages(m->bytes) - m->bytes);
	}
	for (i = 0; i < set->n && !st; i++) {
		const struct rlx_ckpt_tensor *t = &set->tensor[i];
		uint64_t n = (uint64_t)rlx_type_bytes(&t->type);

		f = t->file;
		if (!goes_to(ck, t, f))
			continue;
		if (n)
			memcpy(ckpt_image(s, f)->base + ckpt_image(s, f)->offset[k[f]],
			       rlx_buf_ptr(t->buf), n);
		k[f]++;
	}
	s->graph_hash = set->graph_hash;
	s->has_metric = set->has_metric;
	s->metric = set->metric;
	return st;
}

void ckpt_image_crc(struct ckpt_image *m)
{
	uint64_t at, n;
	unsigned int i;

	m->crc = 0;
	for (at = 0, i = 0; at < m->bytes; at += n, i++) {
		n = m->bytes - at < CKPT_BLOCK ? m->bytes - at : CKPT_BLOCK;
		m->block_crc[i] = crc32c(0, m->base + at, n);
		m->crc = crc32c_join(m->crc, m->block_crc[i], n);
	}
}
