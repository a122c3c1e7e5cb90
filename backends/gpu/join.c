// SPDX-License-Identifier: MIT
/*
 * Horizontal fusion of launches: pointwise updates of states that follow each other, of one text
 * over states of their own (an optimizer's, of each variable), become one launch over a table of
 * tensors. Nothing has an address yet: see group.h.
 */
#include <string.h>

#include "backends/gpu/group.h"
#include "backends/gpu/pointwise_text.h"
#include "base/alloc.h"

struct joiner {
	struct gpu_code		*c;
	const struct rlx_plan	*p;
	struct rlx_bump		*texts;
	struct gpu_call		*call;		/* as they were; .text NULL: joined by now */
	uint32_t		 n;
	bool			*writer, *reader; /* per value: some call of the run does so */
	uint32_t		*member;	/* calls of one text */
	struct rlx_g_ew_parts	 args;
	struct rlx_ref		 ref[RLX_LOWER_REFS];
	uint32_t		 n_ref;
};

/* Whose storage value @v has: a state's is the input's whose next value it is. */
static uint32_t storage_of(const struct joiner *j, uint32_t v)
{
	const struct rlx_plan_io *io;
	uint32_t root = j->p->val[v].root;

	if (j->p->val[root].place.kind != RLX_PLACE_OUTPUT)
		return root;
	io = &j->p->io[RLX_IO_OUTPUT][j->p->val[root].place.index];
	return io->state ? j->p->val[j->p->io[RLX_IO_INPUT][io->donated - 1].val].root : root;
}

/* Is all that the call makes the next value of states, each whole? */
static bool is_update(const struct joiner *j, const struct gpu_call *call)
{
	const struct rlx_plan_step *st;
	uint32_t k;

	if (call->kind != GPU_KERNEL_CALL || !call->form || call->base.step == GPU_NO_STEP ||
	    call->base.n_step != 1 || call->base.checked.n || call->bad || call->interp)
		return false;
	st = &j->p->step[call->base.step];
	for (k = 0; k < st->n_out; k++) {
		uint32_t v = st->out[k];

		if (!gpu_is_next_value(j->p, v) ||
		    rlx_plan_bytes(j->p, v) != rlx_plan_bytes(j->p, j->p->val[v].root))
			return false;
	}
	return !st->once;
}

/* Does call @i touch what others of the run write, or write what they read? */
static bool meets_others(const struct joiner *j, uint32_t i)
{
	const struct rlx_plan_step *st = &j->p->step[j->call[i].base.step];
	uint32_t k, s;

	for (k = 0; k < st->n_in; k++)
		if (st->in[k] && j->writer[storage_of(j, st->in[k])])
			return true;
	for (k = 0; k < st->n_out; k++) {
		s = storage_of(j, st->out[k]);
		if (j->writer[s] || j->reader[s])
			return true;
	}
	return false;
}

static void note(struct joiner *j, uint32_t i, bool does)
{
	const struct rlx_plan_step *st = &j->p->step[j->call[i].base.step];
	uint32_t k;

	for (k = 0; k < st->n_in; k++)
		if (st->in[k])
			j->reader[storage_of(j, st->in[k])] = does;
	for (k = 0; k < st->n_out; k++)
		j->writer[storage_of(j, st->out[k])] = does;
}

/*
 * Calls [@from, result) are updates that may run in any order. What is noted of them is taken back:
 * to clear all values for each run would be quadratic.
 */
static uint32_t run_end(struct joiner *j, uint32_t from)
{
	uint32_t end = from, i;

	while (end < j->n && is_update(j, &j->call[end]) && !meets_others(j, end))
		note(j, end++, true);
	for (i = from; i < end; i++)
		note(j, i, false);
	return end;
}

/* ---- one launch ---- */

/* Where the arguments of @call have the field at @at of struct rlx_g_ew. */
static const struct rlx_ref *ref_at(const struct joiner *j, const struct gpu_call *call,
				    size_t at)
{
	const struct rlx_ref *r = j->c->calls.ref + call->base.ref, *end = r + call->base.n_ref;

	while (r < end && r->at != at)
		r++;
	return r < end ? r : NULL;
}

static const struct rlx_ref *operand_ref(const struct joiner *j, uint32_t i, uint32_t k)
{
	uint32_t n_in = j->call[i].form->n_in;

	return ref_at(j, &j->call[i], k < n_in ? offsetof(struct rlx_g_ew, in[k]) :
						  offsetof(struct rlx_g_ew, out[k - n_in]));
}

/* Do all members read operand @k at one place, a single element? */
static bool is_shared(const struct joiner *j, uint32_t n, uint32_t k)
{
	const struct gpu_ew_form *f = j->call[j->member[0]].form;
	const struct rlx_ref *r = operand_ref(j, j->member[0], k), *o;
	uint32_t i;

	if (k >= f->n_in || f->walk[k] != WALK_ONE)
		return false;
	for (i = 1; i < n; i++) {
		o = operand_ref(j, j->member[i], k);
		if (!r || !o || o->kind != r->kind || o->val != r->val || o->off != r->off)
			return false;
	}
	return r;
}

static bool add_ref(struct joiner *j, const struct rlx_ref *r, void *field)
{
	if (!r || j->n_ref == RLX_LOWER_REFS)
		return false;
	j->ref[j->n_ref] = *r;
	j->ref[j->n_ref++].at = (uint64_t)((char *)field - (char *)&j->args);
	gpu_put_known(j->c, r, field);
	return true;
}

/*
 * The kernel: the function of one element, and blocks that are each of one part. NULL in @out: it
 * is too long, the function alone being nearly so. False: out of memory.
 */
static bool text_of(struct joiner *j, const struct gpu_call *call, const uint32_t *own,
		    const char **out)
{
	const struct gpu_ew_form *f = call->form;
	struct writer *w = rlx_malloc(sizeof(*w));
	uint32_t k, n = f->n_in + f->n_out;
	bool fits;

	*out = NULL;
	if (!w)
		return false;
	w->n = 0;
	w->ok = true;
	put(w, "%.*s}\nRLX_G_KERNEL_PDL(ew, struct rlx_g_ew_parts, %d)\n{\n"
	    "const uint32_t k = ew_part_of(a, blockIdx.x);\n"
	    "const struct rlx_g_ew_part part = ew_part(a, k);\n"
	    "const int64_t i = ((blockIdx.x - part.block) * %d + threadIdx.x) * %d;\n"
	    "const int64_t left = part.length - i;\n"
	    "pdl_wait();\nif (left <= 0)\nreturn;\n", (int)f->function, call->text, THREADS,
	    THREADS, f->vec);
	for (k = 0; k < n; k++) {
		const char *type = k < f->n_in ? "const void" : "void";

		if (own[k])
			put(w, "%s *x%u = RLX_G_PTR(%s, ew_own(a, k, %u));\n", type, k, type,
			    own[k] - 1);
		else
			put(w, "%s *x%u = RLX_G_PTR(%s, a.in[%u]);\n", type, k, type, k);
		put(w, "ew_vec<%d, %d> i%u;\n", (int)f->type[k], f->vec, k);
		if (k < f->n_in)
			put(w, f->walk[k] == WALK_ONE ? "i%u.repeat(x%u, 0);\n" :
			    "i%u.load(x%u, i, left);\n", k, k);
	}
	put(w, "#pragma unroll\nfor (int j = 0; j < %d; j++) {\n", f->vec);
	for (k = f->n_in; k < n; k++)
		put(w, "%s r%u;\n", class_of(f->type[k]), k);
	put(w, "one(");
	for (k = 0; k < n; k++)
		put(w, k < f->n_in ? "%si%u.get(j)" : "%sr%u", k ? ", " : "", k);
	put(w, ");\n");
	for (k = f->n_in; k < n; k++)
		put(w, "i%u.set(j, r%u);\n", k, k);
	put(w, "}\n");
	for (k = f->n_in; k < n; k++)
		put(w, "i%u.store(x%u, i, left);\n", k, k);
	put(w, "}\n");
	fits = w->ok;
	if (fits)
		*out = rlx_bump_str(j->texts, w->text, w->n);
	rlx_free(w);
	return *out || !fits;
}

/* The steps of members [@from, @from + @n), of which runs may leave some out. */
static bool add_steps(struct joiner *j, uint32_t from, uint32_t n)
{
	struct gpu_code *c = j->c;
	uint32_t i;

	if (!rlx_grow(&c->joined, &c->cap_joined, c->n_joined + n, sizeof(*c->joined)))
		return false;
	for (i = 0; i < n; i++)
		c->joined[c->n_joined++] = j->call[j->member[from + i]].base.step;
	return true;
}

/* A call in the place of members [@from, @from + @n), whose operands are @own but for 0s. */
static bool emit(struct joiner *j, uint32_t from, uint32_t n, const uint32_t *own,
		 const char *text)
{
	const struct gpu_call *first = &j->call[j->member[from]];
	const struct gpu_ew_form *f = first->form;
	uint32_t all = f->n_in + f->n_out, step = first->base.step, k, i;
	struct rlx_g_ew_part *part = (void *)j->args.table;
	struct gpu_call *call;
	int64_t blocks = 0;

	j->args = (struct rlx_g_ew_parts){ .outer = 1, .inner = 1, .n_part = n };
	j->n_ref = 0;
	for (k = 0; k < all; k++)
		j->args.n_own += own[k] != 0;
	for (k = 0; k < all; k++)
		if (!own[k] && !add_ref(j, operand_ref(j, j->member[from], k), &j->args.in[k]))
			return false;
	for (i = 0; i < n; i++) {
		const struct gpu_call *m = &j->call[j->member[from + i]];
		const struct rlx_g_ew *a = (const void *)(j->c->calls.args + m->base.args);
		uint64_t *to = j->args.table + 3 * (size_t)n + (size_t)i * j->args.n_own;

		part[i] = (struct rlx_g_ew_part){ blocks, 0, a->n };
		blocks += (a->n + THREADS * f->vec - 1) / (THREADS * f->vec);
		for (k = 0; k < all; k++)
			if (own[k] && !add_ref(j, operand_ref(j, j->member[from + i], k),
					       &to[own[k] - 1]))
				return false;
	}
	call = rlx_calls_add(&j->c->calls, &j->args, sizeof(j->args), j->ref, j->n_ref);
	if (!call || !add_steps(j, from, n))
		return false;
	call->base.step = step;
	call->base.n_step = 1;
	call->first_joined = j->c->n_joined - n;
	call->n_joined = n;
	call->kind = GPU_KERNEL_CALL;
	call->text = text;
	call->launch = (struct rlx_g_launch){ .can = true, .grid = { (uint32_t)blocks, 1, 1 },
					      .block = { THREADS, 1, 1 } };
	return true;
}

static bool keep_members(struct joiner *j, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (!gpu_keep_call(j->c, &j->call[j->member[i]]))
			return false;
	return true;
}

/* Members, @n of them, in as few calls as their tables fit into; as they were without a text. */
static bool join_members(struct joiner *j, uint32_t n)
{
	const struct gpu_call *first = &j->call[j->member[0]];
	uint32_t all = first->form->n_in + first->form->n_out, n_own = 0, shared = 0, most, i, k;
	uint32_t own[RLX_G_EW_IN + RLX_G_EW_OUT];
	const char *text;

	for (k = 0; k < all; k++) {
		own[k] = is_shared(j, n, k) ? 0 : ++n_own;
		shared += !own[k];
	}
	if (!text_of(j, first, own, &text))
		return false;
	if (!text)
		return keep_members(j, n);
	most = RLX_G_EW_PART_WORDS / (3 + n_own);
	if (most > (RLX_LOWER_REFS - shared) / n_own)
		most = (RLX_LOWER_REFS - shared) / n_own;
	for (i = 0; i < n; i += k) {
		k = n - i < most ? n - i : most;
		if (!emit(j, i, k, own, text))
			return false;
	}
	return true;
}

/* Calls [@from, @end), which may run in any order: those of one text together. */
static bool join_run(struct joiner *j, uint32_t from, uint32_t end)
{
	uint32_t i, k, n;

	for (i = from; i < end; i++) {
		if (!j->call[i].text)
			continue;
		for (k = i, n = 0; k < end; k++)
			if (j->call[k].text && !strcmp(j->call[k].text, j->call[i].text))
				j->member[n++] = k;
		if (n > 1 && !join_members(j, n))
			return false;
		if (n == 1 && !gpu_keep_call(j->c, &j->call[i]))
			return false;
		while (n-- > 1)
			j->call[j->member[n]].text = NULL;
	}
	return true;
}

static bool join_all(struct joiner *j)
{
	uint32_t i, end;
	bool ok = true;

	for (i = 0; i < j->n && ok; i = end) {
		end = run_end(j, i);
		if (end > i + 1) {
			ok = join_run(j, i, end);
		} else {
			ok = gpu_keep_call(j->c, &j->call[i]);
			end = i + 1;
		}
	}
	return ok;
}

enum rlx_status gpu_join_calls(struct gpu_code *c, struct rlx_bump *texts, struct rlx_error *err)
{
	struct joiner *j = rlx_calloc(1, sizeof(*j));
	bool ok = false;

	if (!j)
		goto out;
	*j = (struct joiner){ .c = c, .p = c->base.plan, .texts = texts, .call = gpu_calls(c),
			      .n = c->calls.n_call };
	j->writer = rlx_calloc(j->p->n_val, sizeof(*j->writer));
	j->reader = rlx_calloc(j->p->n_val, sizeof(*j->reader));
	j->member = rlx_calloc(j->n + 1, sizeof(*j->member));
	if (j->writer && j->reader && j->member) {
		c->calls.call = NULL;
		c->calls.n_call = c->calls.cap_call = 0;
		ok = join_all(j);
		rlx_free(j->call);
	}
	rlx_free(j->writer);
	rlx_free(j->reader);
	rlx_free(j->member);
	rlx_free(j);
out:
	return ok ? RLX_OK : rlx_fail(err, RLX_ENOMEM, "%s: out of memory", c->base.dev->be->name);
}
