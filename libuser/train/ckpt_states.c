// SPDX-License-Identifier: MIT
/* Checkpoints of a session's states and a loader's position. */
#include <string.h>

#include "base/alloc.h"
#include "rlx/train.h"
#include "train/ckpt.h"
#include "train/loader.h"
#include "train/zero.h"

/* As a program or a session's states have it. */
typedef const struct rlx_type *state_type(const void *ctx, const char *name);

static const struct rlx_type *in_program(const void *ctx, const char *name)
{
	int i = rlx_program_io_find(ctx, RLX_IO_STATE, name);

	return i < 0 ? NULL : rlx_program_io_type(ctx, RLX_IO_STATE, (unsigned int)i);
}

static const struct rlx_type *in_states(const void *ctx, const char *name)
{
	int i = rlx_states_find(ctx, name);

	return i < 0 ? NULL : rlx_states_type(ctx, (unsigned int)i);
}

/* Elements of the variable that state @name is of, "<optimizer>.<what>.<variable>" and the like. */
static int64_t variable_count(const char *name, state_type *find, const void *ctx)
{
	const struct rlx_type *t = NULL;

	while (!t && (name = strchr(name, '.')))
		t = find(ctx, ++name);
	return t ? rlx_type_count(t) : 0;
}

static void name_it(struct rlx_ckpt_tensor *t, const char *name, const struct rlx_type *type,
		    state_type *find, const void *ctx)
{
	t->name = name;
	t->type = *type;
	t->file = rlx_train_keeps(name) || !strncmp(name, "ema.", 4) ? RLX_CKPT_OPTIM :
		  RLX_CKPT_MODEL;
	if (strncmp(name, ZERO_PREFIX, strlen(ZERO_PREFIX)))
		return;
	t->name = name + strlen(ZERO_PREFIX);
	t->file = RLX_CKPT_PART;
	t->whole = variable_count(t->name, find, ctx);
}

enum rlx_status rlx_ckpt_save(struct rlx_ckpt *ck, struct rlx_session *s, struct rlx_loader *ld,
			      uint64_t step)
{
	struct rlx_program *p = rlx_session_program(s);
	struct rlx_loader_pos pos;
	struct rlx_ckpt_blob blob = { "loader", &pos, sizeof(pos) };
	struct rlx_ckpt_set set = { .size = sizeof(set), .blob = &blob, .n_blob = !!ld };
	unsigned int i, n = rlx_program_io_count(p, RLX_IO_STATE);
	struct rlx_ckpt_tensor *t;
	enum rlx_status st = RLX_OK;

	if (!ck)
		return RLX_EINVAL;
	t = rlx_calloc(n + 1, sizeof(*t));
	ck->err = (struct rlx_error){ 0 };
	if (!t)
		return rlx_fail(&ck->err, RLX_ENOMEM, "%s: no memory for a list of states",
				ck->dir);
	for (i = 0; i < n && !st; i++) {
		name_it(&t[i], rlx_program_io_name(p, RLX_IO_STATE, i),
			rlx_program_io_type(p, RLX_IO_STATE, i), in_program, p);
		t[i].buf = rlx_session_bound_at(s, RLX_IO_STATE, i);
		if (!t[i].buf.arena)
			st = rlx_session_error(s)->status ?
			     rlx_fail(&ck->err, rlx_session_error(s)->status, "%s",
				      rlx_session_error(s)->text) :
			     rlx_fail(&ck->err, RLX_EINVAL, "%s: state \"%.80s\" has no value yet",
				      ck->dir, t[i].name);
	}
	if (ld)
		loader_tell_fed(ld, &pos);
	set.tensor = t;
	set.n = n;
	if (!st)
		st = rlx_ckpt_save_set(ck, &set, step);
	rlx_free(t);
	return st;
}

enum rlx_status rlx_ckpt_load(struct rlx_ckpt *ck, struct rlx_states *states,
			      struct rlx_loader *ld, uint64_t *out_step)
{
	unsigned int i, n = rlx_states_count(states);
	struct rlx_loader_pos pos;
	struct rlx_ckpt_blob blob = { "loader", &pos, sizeof(pos) };
	struct rlx_ckpt_set set = { .size = sizeof(set), .n = n, .blob = &blob, .n_blob = !!ld };
	struct rlx_ckpt_tensor *t;
	enum rlx_status st;

	if (!ck)
		return RLX_EINVAL;
	set.tensor = t = rlx_calloc(n + 1, sizeof(*t));
	ck->err = (struct rlx_error){ 0 };
	if (!t)
		return rlx_fail(&ck->err, RLX_ENOMEM, "%s: no memory for a list of states",
				ck->dir);
	for (i = 0; i < n; i++) {
		name_it(&t[i], rlx_states_name(states, i), rlx_states_type(states, i), in_states,
			states);
		t[i].buf = rlx_states_buf(states, i);
	}
	st = rlx_ckpt_load_set(ck, &set, 0, out_step);
	rlx_free(t);
	if (!st && ld && rlx_loader_seek(ld, &pos))
		st = rlx_fail(&ck->err, rlx_loader_error(ld)->status, "%s",
			      rlx_loader_error(ld)->text);
	return st;
}
