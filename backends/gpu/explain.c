// SPDX-License-Identifier: MIT
/*
 * Who has the last word where there is a choice of launches (a judge), and what is kept of it
 * under RLX_COMPILE_EXPLAIN.
 */
#include <stdio.h>
#include <string.h>

#include "backends/gpu/tune.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/env.h"

enum { MOST_TEXT = 640 };

/* So long a program's candidates are measured, not counting those that are being. */
#define TUNE_NS	5000000000ull

void gpu_launch_text(const struct rlx_g_launch *l, char *buf, size_t size)
{
	struct gpu_kernel k;
	char params[512] = "";

	if (!l->variant) {
		snprintf(buf, size, "pointwise code grid %ux%ux%u", l->grid[0], l->grid[1],
			 l->grid[2]);
		return;
	}
	k = gpu_kernel_of(l->variant, &l->param, l->shared);
	gpu_params_text(&k, params, sizeof(params));
	snprintf(buf, size, "%s%s grid %ux%ux%u", k.name, params, l->grid[0], l->grid[1],
		 l->grid[2]);
	if (l->n_launches > 1)
		snprintf(buf + strlen(buf), size - strlen(buf), " launches %u", l->n_launches);
}

/* What is to be done, and how it can be. */
struct problem {
	char				name[256];
	const void			*args;
	const struct rlx_g_candidate	*c;
	unsigned int			n;
};

static void fini(struct rlx_choice *c)
{
	rlx_free(c->problem);
	rlx_free(c->what);
}

/* Append @c with copies of its text. */
static bool add(struct rlx_choice **list, uint32_t *n, uint32_t *cap, struct rlx_choice c)
{
	if (!rlx_grow(list, cap, *n + 1, sizeof(**list)))
		return false;
	c.problem = c.problem ? rlx_strdup(c.problem) : NULL;
	c.what = c.what ? rlx_strdup(c.what) : NULL;
	(*list)[(*n)++] = c;
	return c.what;
}

/* What is decided is kept for the call that will be made of it, if one is. */
static bool keep(struct gpu_lower *gl, const struct problem *p, unsigned int chosen, bool tuned)
{
	const struct rlx_g_candidate *c = p->c;
	char what[MOST_TEXT];
	unsigned int i;
	bool ok = true;

	gl->decision = ++gl->n_decision;
	for (i = 0; i < p->n && ok; i++) {
		if (c[i].why_not)
			snprintf(what, sizeof(what), "%s", gpu_variants[c[i].variant].name);
		else
			gpu_launch_text(&c[i].launch, what, sizeof(what));
		ok = add(&gl->choice, &gl->n_choice, &gl->cap_choice, (struct rlx_choice){
			.call = gl->decision, .chosen = i == chosen,
			.tuned = tuned && i == chosen, .ns = c[i].ns,
			.why_not = c[i].why_not, .problem = (char *)(uintptr_t)p->name,
			.what = what });
	}
	return ok;
}

/* Which of them was the fastest when somebody measured, or now; @least if nobody did. */
static unsigned int measured(struct gpu_lower *gl, const struct problem *p, unsigned int least,
			     bool *out_tuned)
{
	const struct rlx_g_candidate *c = p->c;
	struct gpu_device *d = gpu_of(&gl->base);
	char what[MOST_TEXT], text[MOST_TEXT];
	unsigned int best = least, i;
	double ns = 0;

	if (gpu_tune_find(d, p->name, what, sizeof(what))) {
		for (i = 0; i < p->n; i++) {
			if (c[i].why_not)
				continue;
			gpu_launch_text(&c[i].launch, text, sizeof(text));
			*out_tuned = !strcmp(text, what);
			if (*out_tuned)
				return i;
		}
		return least;	/* the kernel can do it no more */
	}
	if (gl->tune)
		best = gpu_tune_measure(gl, p->args, c, p->n, least, &ns);
	*out_tuned = ns > 0;
	gpu_launch_text(&c[best].launch, what, sizeof(what));
	if (ns > 0 && !gpu_tune_put(d, p->name, what, ns))
		rlx_lower_out_of_memory(&gl->base);
	return best;
}

static unsigned int choose(struct rlx_g_judge *j, const struct rlx_g_family *f, const void *args,
			   const struct rlx_g_candidate *c, unsigned int n, unsigned int least)
{
	struct gpu_lower *gl = (struct gpu_lower *)(void *)
			       ((char *)j - offsetof(struct gpu_lower, judge));

	struct problem p = { .args = args, .c = c, .n = n };
	bool tuned = false;

	f->describe(args, p.name, sizeof(p.name));
	least = measured(gl, &p, least, &tuned);
	if (gl->explain && !keep(gl, &p, least, tuned))
		rlx_lower_out_of_memory(&gl->base);
	return least;
}

void gpu_judge_init(struct gpu_lower *gl, uint32_t flags)
{
	static const char *const words[] = { "0", "1" };
	static atomic_bool told;

	gl->judge.choose = choose;
	gl->explain = flags & RLX_COMPILE_EXPLAIN;
	gl->tune = flags & RLX_COMPILE_TUNE || rlx_env_word("RLX_TUNE", words, 2, &told) == 1;
	gl->tune_until = rlx_now() + TUNE_NS;
}

void gpu_judge_reset(struct gpu_lower *gl)
{
	while (gl->n_choice)
		fini(&gl->choice[--gl->n_choice]);
	gl->decision = gl->n_decision = 0;
}

void gpu_judge_fini(struct gpu_lower *gl)
{
	gpu_judge_reset(gl);
	rlx_free(gl->choice);
}

/* Call @i as it has become, with what there was to choose from for it. */
static bool explain_call(const struct gpu_lower *gl, const struct gpu_code *c, uint32_t i)
{
	struct rlx_code *code = gl->base.code;
	const struct gpu_call *call = &gpu_calls(c)[i];
	struct rlx_choice one = { .step = call->base.step, .n_step = call->base.n_step, .call = i };
	char what[MOST_TEXT];
	bool ok = true, chosen = false;
	uint32_t k;

	gpu_launch_text(&call->launch, what, sizeof(what));
	for (k = 0; k < gl->n_choice && ok && call->decision; k++) {
		if (gl->choice[k].call != call->decision)
			continue;
		one.chosen = gl->choice[k].chosen;
		one.tuned = gl->choice[k].tuned;
		one.ns = gl->choice[k].ns;
		one.why_not = gl->choice[k].why_not;
		one.problem = gl->choice[k].problem;
		one.what = one.chosen ? what : gl->choice[k].what;
		chosen = chosen || one.chosen;
		ok = add(&code->choice, &code->n_choice, &code->cap_choice, one);
	}
	if (chosen || !ok)
		return ok;
	one.chosen = true;
	one.ns = gpu_call_ns(c, call);
	one.what = what;
	return add(&code->choice, &code->n_choice, &code->cap_choice, one);
}

enum rlx_status gpu_explain(const struct gpu_lower *gl)
{
	const struct gpu_code *c = (const struct gpu_code *)gl->base.code;
	const struct rlx_g_chip *chip = gpu_chip(gpu_of(&gl->base));
	struct rlx_code *code = gl->base.code;
	uint32_t i;

	if (!gl->explain)
		return RLX_OK;
	snprintf(code->planned_for, sizeof(code->planned_for),
		 "%s, %u multiprocessors, %.0f GB/s; numbers: %s", chip->name, chip->sms,
		 chip->dram_bw, chip->source);
	for (i = 0; i < c->calls.n_call; i++)
		if (gpu_calls(c)[i].kind == GPU_KERNEL_CALL &&
		    gpu_calls(c)[i].base.step != GPU_NO_STEP &&
		    !explain_call(gl, c, i))
			return rlx_fail(gl->base.err, RLX_ENOMEM, "%s: out of memory",
					code->dev->be->name);
	return RLX_OK;
}
