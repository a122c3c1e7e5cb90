/* SPDX-License-Identifier: MIT */
/*
 * Groups: calls that follow each other and become one launch. A row of groups.def names the
 * families of the calls and a function that says whether they may, and builds the launch.
 * Nothing has an address yet, so that what stays inside a group needs no memory, and what its
 * launch reads cannot lie where it writes.
 */
#ifndef RLX_BACKENDS_GPU_GROUP_H
#define RLX_BACKENDS_GPU_GROUP_H

#include "backends/gpu/gpu.h"

enum gpu_family {
	GPU_FAMILY_NONE,
	GPU_FAMILY_NORM,		/* struct rlx_k_norm */
	GPU_FAMILY_NORM_GRAD,		/* struct rlx_k_norm_grad, of one step */
	GPU_FAMILY_CAST,
	GPU_FAMILY_ADD,
	GPU_FAMILY_GATHER,		/* struct rlx_k_gather */
	GPU_FAMILY_ATTENTION,		/* struct rlx_k_attention */
	GPU_FAMILY_SMALL_M,		/* struct rlx_k_gemm */
	GPU_FAMILY_HORIZONTAL,		/* struct rlx_g_horizontal, of any number of steps */
	GPU_FAMILY_WGMMA,		/* struct rlx_k_gemm */
	GPU_FAMILY_HORIZONTAL_TILED,	/* struct rlx_g_horizontal_tiled, of any number of steps */
	GPU_FAMILY_TAIL,		/* struct rlx_g_encoder_tail */
};

/* Most members of a group, and bytes of arguments: parameters of a launch have 4 KiB. */
enum { GPU_GROUP_CALLS = 3, GPU_MOST_ARGS = 4096 - sizeof(struct rlx_g_env) };

/*
 * @call: the members. What they become begins as zeros but for @rows, which are those of the
 * last one; @again: blocks read what members did again and again.
 */
struct gpu_group {
	struct gpu_code		*c;
	const struct rlx_plan	*p;
	const struct gpu_call	*call;
	struct rlx_g_launch	 launch;
	int64_t			 rows;
	struct rlx_checked	 checked;
	uint32_t		 bad, scratch;		/* a member's value for that, or 0 */
	bool			 again;
	uint32_t		 n_args, n_ref;
	struct rlx_ref		 ref[RLX_LOWER_REFS];
	_Alignas(64) unsigned char args[GPU_MOST_ARGS];
};

/* True: @g is what the members become. */
typedef bool gpu_group_fn(struct gpu_group *g);
#define GROUP(name, ...) gpu_group_fn gpu_group_##name;
#include "backends/gpu/groups.def"
#undef GROUP

/* Put together what may be of the code's calls. */
enum rlx_status gpu_group_calls(struct gpu_code *c, struct rlx_error *err);

/* @call once more, behind those that the code has; false: out of memory. */
bool gpu_keep_call(struct gpu_code *c, const struct gpu_call *call);

/* unread.c: copies that nobody reads are left out. */
enum rlx_status gpu_drop_unread(struct gpu_code *c, struct rlx_error *err);
/* parts.c: parts of a concat are written in their places, slices read in theirs */
enum rlx_status gpu_place_parts(struct gpu_code *c, struct rlx_error *err);
/* join.c: pointwise updates of states as fewer launches, whose texts are in @texts */
enum rlx_status gpu_join_calls(struct gpu_code *c, struct rlx_bump *texts, struct rlx_error *err);

/* The plan's step that is the last of member @k's. */
static inline const struct rlx_plan_step *gpu_step_of(const struct gpu_group *g, uint32_t k)
{
	return &g->p->step[g->call[k].base.step + g->call[k].base.n_step - 1];
}

static inline const void *gpu_args_of(const struct gpu_group *g, uint32_t k)
{
	return g->c->calls.args + g->call[k].base.args;
}

/* Member @k's arguments to @to, in g->args, with its references. False: too many. */
bool gpu_group_take(struct gpu_group *g, uint32_t k, void *to);
/* @field, in g->args, points at value @v, which the launch writes; what else was there is not. */
void gpu_group_writes(struct gpu_group *g, void *field, uint32_t v);

/* @field, in g->args, points at value @v, which the launch reads; false: too many references. */
bool gpu_group_reads(struct gpu_group *g, void *field, uint32_t v);

/* Is @st the last to use the storage that value @v has for itself in the workspace? */
bool gpu_dies_at(const struct rlx_plan *p, uint32_t v, const struct rlx_plan_step *st);
/* Is @v, or what it is a view of, the next value of a state? */
bool gpu_is_next_value(const struct rlx_plan *p, uint32_t v);
/* Is the value in a @kind of place? */
bool gpu_is_in(const struct rlx_plan *p, uint32_t v, enum rlx_place_kind kind);
/* Is @v all of what a step made at @root, and does nobody need that behind @st? */
bool gpu_is_last_of(const struct rlx_plan *p, uint32_t v, uint32_t root,
		    const struct rlx_plan_step *st);
/*
 * Does member @k read, by another input than its first, what members ahead of it make? Other
 * blocks of the launch write that, if it is written at all.
 */
bool gpu_reads_made(const struct gpu_group *g, uint32_t k);

#endif
