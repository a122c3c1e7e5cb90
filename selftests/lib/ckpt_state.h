/* SPDX-License-Identifier: MIT */
/* A small state for tests of checkpoints, whose bytes tell which step they are of. */
#ifndef RLX_TEST_CKPT_STATE_H
#define RLX_TEST_CKPT_STATE_H

#include <dirent.h>

#include "rlx/ckpt.h"
#include "selftests/lib/data_set.h"

/* A state: tensors in an arena, and a blob. */
enum { TENSORS_MAX = 40 };

struct state {
	struct rlx_arena	*arena;
	struct rlx_ckpt_tensor	 tensor[TENSORS_MAX];
	char			 name[TENSORS_MAX][40];
	struct rlx_ckpt_blob	 blob[2];
	uint64_t		 pos[6], seed;
	struct rlx_ckpt_set	 set;
};

static inline void state_fill(struct state *s, uint64_t step)
{
	unsigned int i;

	for (i = 0; i < s->set.n; i++) {
		uint64_t n = (uint64_t)rlx_type_bytes(&s->tensor[i].type);

		if (n)
			data_fill(rlx_buf_ptr(s->tensor[i].buf), step, i, n);
	}
	for (i = 0; i < 6; i++)
		s->pos[i] = step * 1000 + i;
	s->seed = ~step;
}

static inline bool state_is(const struct state *s, uint64_t step)
{
	unsigned int i;

	for (i = 0; i < s->set.n; i++) {
		uint64_t n = (uint64_t)rlx_type_bytes(&s->tensor[i].type);

		if (n && !data_is(rlx_buf_ptr(s->tensor[i].buf), step, i, n))
			return false;
	}
	return s->pos[0] == step * 1000 && s->pos[5] == step * 1000 + 5 && s->seed == ~step;
}

static inline void state_add(struct state *s, const char *name, struct rlx_type t, uint32_t file)
{
	struct rlx_ckpt_tensor *c = &s->tensor[s->set.n];
	struct rlx_error err = { 0 };

	snprintf(s->name[s->set.n], sizeof(s->name[0]), "%s", name);
	c->name = s->name[s->set.n];
	c->type = t;
	c->file = file;
	CHECKF(!rlx_buf_new(s->arena, (uint64_t)rlx_type_bytes(&t), 0, &c->buf, &err), "%s",
	       err.text);
	s->set.n++;
}

static inline void state_begin(struct state *s)
{
	struct rlx_arena_opts ao = { .size = 64 << 20,
				     .provider = "memfd",
				     .flags = RLX_ARENA_LAZY };
	struct rlx_error err = { 0 };

	memset(s, 0, sizeof(*s));
	CHECKF(!rlx_arena_new(&ao, &s->arena, &err), "%s", err.text);
	s->blob[0] = (struct rlx_ckpt_blob){ "loader", s->pos, sizeof(s->pos) };
	s->blob[1] = (struct rlx_ckpt_blob){ "seed", &s->seed, sizeof(s->seed) };
	s->set = (struct rlx_ckpt_set){
		.size = sizeof(s->set), .tensor = s->tensor, .blob = s->blob, .n_blob = 2,
		.graph_hash = 0xabcdef0123456789,
	};
}

static inline void state_small(struct state *s)
{
	state_begin(s);
	state_add(s, "weight", rlx_type(RLX_F32, 30, 17), RLX_CKPT_MODEL);
	state_add(s, "bias", rlx_type(RLX_BF16, 17), RLX_CKPT_MODEL);
	state_add(s, "adamw.m.weight", rlx_type(RLX_F32, 30, 17), RLX_CKPT_OPTIM);
}

static inline struct rlx_ckpt *open_ok(const char *dir, const struct rlx_ckpt_opts *o)
{
	struct rlx_ckpt *ck = NULL;
	struct rlx_error err = { 0 };

	CHECKF(!rlx_ckpt_open(dir, o, &ck, &err), "%s", err.text);
	return ck;
}

static inline void save_ok(struct rlx_ckpt *ck, struct state *s, uint64_t step)
{
	state_fill(s, step);
	CHECKF(!rlx_ckpt_save_set(ck, &s->set, step), "%s", rlx_ckpt_error(ck)->text);
	CHECKF(!rlx_ckpt_wait(ck, -1), "%s", rlx_ckpt_error(ck)->text);
}

/* Load into a state that was spoiled; the step it is of. */
static inline uint64_t load_ok(struct rlx_ckpt *ck, struct state *s)
{
	uint64_t step = 0;

	state_fill(s, 987654321);
	CHECKF(!rlx_ckpt_load_set(ck, &s->set, 0, &step), "%s", rlx_ckpt_error(ck)->text);
	CHECKF(state_is(s, step), "what was loaded is not that of step %llu",
	       (unsigned long long)step);
	return step;
}

/* Names in @dir, sorted, with blanks between them. */
static inline const char *listing(const char *dir)
{
	static char text[2000];
	struct dirent **e;
	int n = scandir(dir, &e, NULL, alphasort), i;

	*text = 0;
	for (i = 0; i < n; i++) {
		if (strcmp(e[i]->d_name, ".") && strcmp(e[i]->d_name, ".."))
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
				 *text ? " " : "", e[i]->d_name);
		free(e[i]);
	}
	free(e);
	return text;
}

#endif
