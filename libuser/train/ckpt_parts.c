// SPDX-License-Identifier: MIT
/*
 * Checkpoints that ranks write together: what they tell each other, and tensors of which each has
 * a part, from as many parts as there are.
 */
#include <string.h>

#include "base/alloc.h"
#include "rlx/comm.h"
#include "train/ckpt.h"
#include "train/zero.h"

unsigned int ckpt_ranks(const struct rlx_ckpt *ck)
{
	return rlx_comm_ranks(ck->o.comm);
}

bool ckpt_follows(const struct rlx_ckpt *ck)
{
	return rlx_comm_rank(ck->o.comm);
}

bool ckpt_lost(const struct rlx_ckpt *ck)
{
	return ck->o.comm && rlx_comm_error(ck->o.comm)->status;
}

/* What a rank tells the others when all have come to the same point. */
struct word {
	int32_t		status;
	uint32_t	pid, parts;
	uint64_t	step;
	char		text[400];
};

/* The one that all go by: a failure that ends a search before one that does not. */
static unsigned int chosen(const struct word *w, unsigned int n)
{
	unsigned int r, first = 0;

	for (r = 0; r < n; r++) {
		enum rlx_status st = (enum rlx_status)w[r].status;

		if (st && !ckpt_is_damage(st))
			return r;
		if (st && !w[first].status)
			first = r;
	}
	return first;
}

enum rlx_status ckpt_together(struct rlx_ckpt *ck, struct ckpt_slot *s, enum rlx_status st,
			      struct rlx_error *err)
{
	struct word own = { .status = st, .step = s->step, .parts = s->n_part,
			    .pid = (uint32_t)getpid() }, *all;
	unsigned int n = ckpt_ranks(ck), me = rlx_comm_rank(ck->o.comm), r;

	if (n < 2)
		return st;
	snprintf(own.text, sizeof(own.text), "%.399s", st ? err->text : "");
	all = rlx_calloc(n, sizeof(*all));
	if (!all) {
		rlx_comm_fail(ck->o.comm, "no memory for a checkpoint");
		return rlx_fail(err, RLX_ENOMEM, "%s: no memory", ck->dir);
	}
	st = rlx_comm_all_gather(ck->o.comm, &own, all, sizeof(own));
	if (st) {
		rlx_fail(err, st, "%s: %s", ck->dir, rlx_comm_error(ck->o.comm)->text);
		goto out_free;
	}
	ck->pid = all[0].pid;
	r = chosen(all, n);
	st = (enum rlx_status)all[r].status;
	if (st && r != me)
		rlx_fail(err, st, "rank %u: %s", r, all[r].text);
	for (r = 1; r < n && !st; r++)
		if (all[r].step != all[0].step || all[r].parts != all[0].parts)
			st = rlx_fail(err, RLX_EPROTO, "%s: rank %u has another checkpoint at hand "
				      "than rank 0", ck->dir, r);
out_free:
	rlx_free(all);
	return st;
}

/* Of an image all that a manifest has of it but its blocks. */
struct part_word {
	uint64_t	bytes;
	uint32_t	crc, blocks;
};

enum rlx_status ckpt_gather_parts(struct rlx_ckpt *ck, struct ckpt_slot *s, struct rlx_error *err)
{
	struct part_word own = { s->part->bytes, s->part->crc, s->part->blocks }, *all;
	unsigned int n = ckpt_ranks(ck), r;
	uint32_t most = 0, *mine = NULL, *crc = NULL;
	enum rlx_status st;

	all = rlx_calloc(n, sizeof(*all));
	st = all ? rlx_comm_all_gather(ck->o.comm, &own, all, sizeof(own)) : RLX_ENOMEM;
	for (r = 0; r < n && !st; r++)
		most = all[r].blocks > most ? all[r].blocks : most;
	mine = st ? NULL : rlx_calloc(most + 1ul, sizeof(*mine));
	crc = st ? NULL : rlx_calloc((most + 1ul) * n, sizeof(*crc));
	ckpt_drop_all(s);
	s->all = st ? NULL : rlx_calloc(n, sizeof(*s->all));
	if (!st && (!mine || !crc || !s->all))
		st = RLX_ENOMEM;
	if (!st) {
		memcpy(mine, s->part->block_crc, own.blocks * sizeof(*mine));
		st = rlx_comm_all_gather(ck->o.comm, mine, crc, most * sizeof(*crc));
	}
	for (r = 0; r < n && !st; r++) {
		struct ckpt_image *m = &s->all[s->n_all++];

		m->bytes = all[r].bytes;
		m->crc = all[r].crc;
		m->blocks = all[r].blocks;
		m->block_crc = rlx_memdup(crc + (size_t)r * most, most * sizeof(*crc) + 1);
		st = m->block_crc ? RLX_OK : RLX_ENOMEM;
	}
	rlx_free(all);
	rlx_free(mine);
	rlx_free(crc);
	if (st == RLX_ENOMEM)
		rlx_comm_fail(ck->o.comm, "no memory for a checkpoint");
	return st ? rlx_fail(err, st, "%s: %s", ck->dir, st == RLX_ENOMEM ? "no memory" :
			     rlx_comm_error(ck->o.comm)->text) : RLX_OK;
}

void ckpt_drop_all(struct ckpt_slot *s)
{
	while (s->n_all)
		rlx_free(s->all[--s->n_all].block_crc);
	rlx_free(s->all);
	s->all = NULL;
}

bool ckpt_is_cut(const struct rlx_ckpt *ck, const struct rlx_ckpt_tensor *t)
{
	return t->file != RLX_CKPT_PART || (ckpt_ranks(ck) > 1 && t->whole > 0 &&
		rlx_type_count(&t->type) == zero_part(t->whole, ckpt_ranks(ck)));
}

enum rlx_status ckpt_miscut(const struct rlx_ckpt *ck, const struct rlx_ckpt_tensor *t,
			    struct rlx_error *err)
{
	return rlx_fail(err, RLX_EINVAL, "%s: tensor \"%.80s\": of %lld elements each of %u ranks "
			"has a part of %lld, not %lld; rlx_ckpt_opts.comm says how many write "
			"together", ck->dir, t->name, (long long)t->whole, ckpt_ranks(ck),
			(long long)zero_part(t->whole, ckpt_ranks(ck)),
			(long long)rlx_type_count(&t->type));
}

/* ---- loading ---- */

/* Elements of the tensor that @t is, or is a part of. */
static int64_t elements(const struct rlx_ckpt_tensor *t)
{
	return t->file == RLX_CKPT_PART ? t->whole : rlx_type_count(&t->type);
}

/* The whole one that @t is of; NULL: it is in parts, or not there. */
static const struct rlx_safetensor *whole_of(const struct ckpt_loaded *l,
					     const struct rlx_ckpt_tensor *t)
{
	return rlx_safetensors_find(l->file[t->file == RLX_CKPT_MODEL ? RLX_CKPT_MODEL :
					    RLX_CKPT_OPTIM], t->name);
}

static const struct rlx_safetensor *part_of(const struct ckpt_loaded *l, unsigned int r,
					    const struct rlx_ckpt_tensor *t)
{
	return t->file != RLX_CKPT_MODEL && l->part[r] ? rlx_safetensors_find(l->part[r], t->name) :
	       NULL;
}

bool ckpt_in_parts(const struct ckpt_loaded *l, const struct rlx_ckpt_tensor *t)
{
	unsigned int r;

	for (r = 0; r < l->m.ranks; r++)
		if (part_of(l, r, t))
			return true;
	return false;
}

enum rlx_status ckpt_fits(const struct ckpt_loaded *l, const struct rlx_ckpt_tensor *t,
			  struct rlx_error *err)
{
	const struct rlx_safetensor *have = whole_of(l, t), *p;
	unsigned int r;

	if (have || !ckpt_in_parts(l, t)) {
		if (have && (t->file == RLX_CKPT_PART ? have->type.dtype == t->type.dtype &&
			     rlx_type_count(&have->type) == t->whole :
			     rlx_type_equal(&have->type, &t->type)))
			return RLX_OK;
		return ckpt_differ(l, t->file, t->name, have ? &have->type : NULL, &t->type, err);
	}
	for (r = 0; r < l->m.ranks; r++) {
		p = part_of(l, r, t);
		if (!l->part[r] && t->file != RLX_CKPT_PART)	/* beside others that are */
			return ckpt_differ(l, CKPT_FILES + r, t->name, NULL, &t->type, err);
		if (l->part[r] && (!p || p->type.dtype != t->type.dtype ||
				   rlx_type_count(&p->type) != zero_part(elements(t), l->m.ranks)))
			return rlx_fail(err, RLX_ESHAPE, "checkpoint of step %llu: tensor "
					"\"%.80s\": rank %u of %u has a part of %lld elements, "
					"of a tensor of %lld it is %lld", (unsigned long long)l->m.step, t->name,
					r, l->m.ranks, p ? (long long)rlx_type_count(&p->type) : 0,
					(long long)elements(t),
					(long long)zero_part(elements(t), l->m.ranks));
	}
	return RLX_OK;
}

/* Elements @from to @to of the tensor, as far as it has them, behind each other to @at. */
static void take(const struct ckpt_loaded *l, const struct rlx_ckpt_tensor *t, int64_t from,
		 int64_t to, char *at)
{
	const struct rlx_safetensor *whole = whole_of(l, t), *p;
	int64_t part = whole ? elements(t) : zero_part(elements(t), l->m.ranks), n;
	size_t each = rlx_dtype_size(t->type.dtype);

	for (; from < to; from += n, at += (size_t)n * each) {
		n = part - from % part;
		n = to - from < n ? to - from : n;
		p = whole ? whole : part_of(l, (unsigned int)(from / part), t);
		memcpy(at, (const char *)p->data + (size_t)(from % part) * each, (size_t)n * each);
	}
}

void ckpt_take(const struct rlx_ckpt *ck, const struct ckpt_loaded *l,
	       const struct rlx_ckpt_tensor *t)
{
	int64_t n = rlx_type_count(&t->type), from = 0, to;
	size_t each = rlx_dtype_size(t->type.dtype);

	if (!n)
		return;
	if (t->file == RLX_CKPT_PART)
		from = n * rlx_comm_rank(ck->o.comm);
	to = from + n < elements(t) ? from + n : elements(t);
	to = to < from ? from : to;
	take(l, t, from, to, rlx_buf_ptr(t->buf));
	memset((char *)rlx_buf_ptr(t->buf) + (size_t)(to - from) * each, 0,
	       (size_t)(from + n - to) * each);
}
