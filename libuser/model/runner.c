// SPDX-License-Identifier: MIT
/*
 * Running models whose shapes are known only as inputs come. For given input
 * types the import may ask for the contents of some small inputs; types and those
 * contents lead to a first stage. A stage that ends at a cut is run, and the
 * values it gives lead to the next. Every stage is built and compiled once.
 */
#include <string.h>

#include "base/alloc.h"
#include "model/compiled.h"
#include "rlx/store.h"

/*
 * More than RLX_MAX_STAGES, or RLX_MAX_STAGE_BYTES, and what was used least recently is dropped,
 * whole trees of stages: a stream of ever new shapes must not grow. Keys of what was dropped stay
 * in the maps, up to a number.
 */
enum { MAX_KEYS = 1 << 14 };

enum rlx_status rlx_runner_no_memory(struct rlx_error *err)
{
	return rlx_fail(err, RLX_ENOMEM, "runner: out of memory");
}

static void stage_free(struct rlx_runner *r, struct rlx_stage *s)
{
	rlx_session_free(s->session);
	if (s->compiled) {
		rlx_compiled_put(r->compiles, s->compiled);
	} else {
		rlx_segment_fini(&s->seg);
		rlx_program_put(s->program);
	}
	rlx_map_fini(&s->child);
	rlx_free(s->answers);
	rlx_free(s);
}

/* All that came of @root; NULL: of any. */
static void drop_stages(struct rlx_runner *r, struct rlx_stage *root)
{
	struct rlx_stage **at = &r->all, *s;

	if (root && root->keyed)	/* overwritten: that cannot fail */
		rlx_map_put(&r->first, root->compiled->key.p, root->compiled->key.n, 0);
	while ((s = *at)) {
		if (root && s->root != root) {
			at = &s->next_all;
			continue;
		}
		*at = s->next_all;
		r->n_stage--;
		r->bytes -= s->bytes;
		if (s != root)
			stage_free(r, s);
	}
	if (root)
		stage_free(r, root);
	r->last = NULL;
}

/* The tree that was used longest ago, but for what somebody else has. */
static struct rlx_stage *oldest(const struct rlx_runner *r)
{
	struct rlx_stage *s, *old = NULL;

	for (s = r->all; s; s = s->next_all)
		if (s->root == s && !s->lent && (!old || s->used < old->used))
			old = s;
	return old;
}

/* All trees are built again when they are asked for; those that somebody has are kept. */
static void forget_keys(struct rlx_runner *r)
{
	struct rlx_stage *s;

	while ((s = oldest(r)))
		drop_stages(r, s);
	rlx_map_fini(&r->first);
	rlx_map_fini(&r->asked);
}

/* Of a tree that grows with each size that data tells: what the last run did without. */
static void drop_sessions(struct rlx_runner *r)
{
	struct rlx_stage *s, *p;

	for (s = r->all; s; s = s->next_all) {
		for (p = r->last; p && p != s; p = p->parent)
			;
		if (!p && !s->root->lent)
			rlx_stage_drop_session(r, s);
	}
}

/* Before a run: room for what it may need. The tree of the last one stays, if it alone. */
static void evict_to_fit(struct rlx_runner *r)
{
	struct rlx_stage *s, *latest = NULL;

	for (s = r->all; s; s = s->next_all)
		if (s->root == s && (!latest || s->used > latest->used))
			latest = s;
	while (r->n_stage > RLX_MAX_STAGES || r->bytes > RLX_MAX_STAGE_BYTES) {
		s = oldest(r);
		if (!s || (s == latest && r->n_stage <= RLX_MAX_STAGES))
			break;
		drop_stages(r, s);
	}
	if (r->bytes > RLX_MAX_STAGE_BYTES)
		drop_sessions(r);
	if (r->first.n > MAX_KEYS || r->asked.n > MAX_KEYS)
		forget_keys(r);
}

/* May there be a session of @s beside those of the stages before it? */
static enum rlx_status admit(const struct rlx_runner *r, const struct rlx_stage *s,
			     struct rlx_error *err)
{
	uint64_t bytes = rlx_compiled_bytes(s->program);
	const struct rlx_stage *p;

	for (p = s->parent; p; p = p->parent)
		if (__builtin_add_overflow(bytes, p->bytes, &bytes))
			bytes = UINT64_MAX;
	return r->admit ? r->admit(r->admit_ctx, bytes, err) : RLX_OK;
}

/* A session, if there is none yet or no more, and where it has what the next stage depends on. */
static enum rlx_status stage_session(struct rlx_runner *r, struct rlx_stage *s,
				     struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;
	uint32_t i;

	if (!s->program || s->session)
		return RLX_OK;
	st = admit(r, s, err);
	if (st)
		return st;
	if (!s->answers)
		s->answers = rlx_calloc(s->seg.n_needed + 1, sizeof(*s->answers));
	if (!s->answers)
		return rlx_runner_no_memory(err);
	if (s->compiled)
		s->session = rlx_prepared_take(r, s->compiled);
	if (!s->session)
		st = rlx_session_new(s->program, NULL, &s->session, err);
	if (st)
		return st;
	s->bytes = rlx_compiled_bytes(s->program);
	r->bytes += s->bytes;
	for (i = 0; i < s->seg.n_needed; i++) {
		const char *name = rlx_program_io_name(s->program, RLX_IO_OUTPUT, i);

		s->answers[i].type = *rlx_program_io_type(s->program, RLX_IO_OUTPUT, i);
		s->answers[i].data = rlx_buf_ptr(rlx_session_buf(s->session, RLX_IO_OUTPUT, name));
	}
	s->answer = (struct rlx_answer){ s->seg.n_needed, s->answers };
	return RLX_OK;
}

/* Of @c, which goes with it, or for a later stage of @seg, which does. NULL: it is gone. */
static struct rlx_stage *stage_new(struct rlx_runner *r, struct rlx_stage *parent,
				   struct rlx_compiled *c, struct rlx_segment *seg,
				   struct rlx_error *err)
{
	struct rlx_stage *s = rlx_calloc(1, sizeof(*s));
	enum rlx_status st;

	if (!s) {
		rlx_compiled_put(r->compiles, c);
		if (!c)
			rlx_segment_fini(seg);
		rlx_runner_no_memory(err);
		return NULL;
	}
	s->parent = parent;
	s->root = parent ? parent->root : s;
	s->compiled = c;
	s->seg = *seg;
	if (c)
		s->program = c->program;
	st = c || !seg->g ? RLX_OK :
	     rlx_segment_program(r->m, seg, &r->opts, &s->program, err);
	if (!st)
		st = stage_session(r, s, err);
	if (st) {
		stage_free(r, s);
		return NULL;
	}
	s->next_all = r->all;
	r->all = s;
	r->n_stage++;
	return s;
}

/* Answers of all stages before the one to build, first stage first. */
static struct rlx_answer *list_answers(const struct rlx_stage *last, uint32_t *out_n)
{
	const struct rlx_stage *s;
	struct rlx_answer *a;
	uint32_t n = 0;

	for (s = last; s; s = s->parent)
		n++;
	a = rlx_calloc(n + 1, sizeof(*a));
	*out_n = n;
	for (s = last; a && s; s = s->parent)
		a[--n] = s->answer;
	return a;
}

/* Build the segment after @parent. */
static enum rlx_status build_after(struct rlx_runner *r, struct rlx_stage *parent,
				   const struct rlx_spec *in, unsigned int n_in,
				   struct rlx_segment *seg, struct rlx_error *err)
{
	enum rlx_status st = RLX_ENOMEM;
	struct rlx_wanted want;
	uint32_t n;
	struct rlx_answer *a = list_answers(parent, &n);

	if (rlx_wanted_init(&want, r, in, n_in) && a)
		st = rlx_wanted_build(&want, in, a, n, seg, err);
	else
		rlx_runner_no_memory(err);
	rlx_free(a);
	rlx_wanted_fini(&want);
	return st;
}

/* One that was not in the maps, and is then: a clone's, what was compiled ahead, or a new one. */
static struct rlx_stage *first_new(struct rlx_runner *r, const struct rlx_spec *in,
				   unsigned int n, struct rlx_error *err)
{
	struct rlx_compiled *c = NULL;
	struct rlx_stage *s = NULL;
	struct rlx_wanted want;

	if (!rlx_wanted_init(&want, r, in, n))
		rlx_runner_no_memory(err);
	else if (!rlx_compiled_get(r->compiles, &want, &c, err))
		s = stage_new(r, NULL, c, &c->seg, err);
	if (s)		/* one that is not found again is built again: no harm but time */
		s->keyed = rlx_map_put(&r->asked, c->key.p, c->n_types, c->asked) &&
			   rlx_map_put(&r->first, c->key.p, c->key.n, (uintptr_t)s);
	rlx_wanted_fini(&want);
	return s;
}

static struct rlx_stage *first_stage(struct rlx_runner *r, const struct rlx_spec *in,
				     unsigned int n, uint64_t *out_asked,
				     struct rlx_error *err)
{
	struct rlx_key key = { 0 };
	struct rlx_stage *s;
	uint64_t at = 0;

	rlx_key_types(&key, r, in, n);
	if (!key.failed && rlx_map_get(&r->asked, key.p, key.n, out_asked)) {
		rlx_key_asked(&key, in, n, *out_asked);
		if (!key.failed)
			(void)rlx_map_get(&r->first, key.p, key.n, &at);
	}
	rlx_free(key.p);
	s = (struct rlx_stage *)(uintptr_t)at;
	if (!s)
		s = first_new(r, in, n, err);
	else if (stage_session(r, s, err))
		s = NULL;
	if (s)
		*out_asked = s->compiled->asked;
	return s;
}

static struct rlx_stage *next_stage(struct rlx_runner *r, struct rlx_stage *s,
				    const struct rlx_spec *in, unsigned int n,
				    struct rlx_error *err)
{
	struct rlx_segment seg;
	struct rlx_stage *c;
	struct rlx_key k = { 0 };
	uint64_t at;
	uint32_t i;

	for (i = 0; i < s->answer.n; i++) {
		rlx_key_type(&k, &s->answers[i].type);
		rlx_key_add(&k, s->answers[i].data,
			    (size_t)rlx_type_bytes(&s->answers[i].type));
	}
	if (!k.failed && rlx_map_get(&s->child, k.p, k.n, &at)) {
		rlx_free(k.p);
		c = (struct rlx_stage *)(uintptr_t)at;
		return stage_session(r, c, err) ? NULL : c;
	}
	c = NULL;
	if (k.failed)
		rlx_runner_no_memory(err);
	else if (!build_after(r, s, in, n, &seg, err)) {
		c = stage_new(r, s, NULL, &seg, err);
		if (c)
			rlx_map_put(&s->child, k.p, k.n, (uintptr_t)c);
	}
	rlx_free(k.p);
	return c;
}

/* "name" of a tensor or "name[i]" of a list's item among the specs. */
static const struct rlx_spec *find_spec(const struct rlx_spec *in, unsigned int n,
					 const char *name)
{
	const char *open = strrchr(name, '[');
	unsigned int i, item;
	size_t len;

	for (i = 0; i < n; i++)
		if (in[i].kind == RLX_SPEC_TENSOR && !strcmp(in[i].name, name))
			return &in[i];
	if (!open || sscanf(open, "[%u]", &item) != 1)
		return NULL;
	len = (size_t)(open - name);
	for (i = 0; i < n; i++)
		if (in[i].kind == RLX_SPEC_LIST && strlen(in[i].name) == len &&
		    !memcmp(in[i].name, name, len) && item < in[i].n_item)
			return &in[i].item[item];
	return NULL;
}

/* Inputs of a stage: the caller's, or outputs of stages before it, in place. */
static enum rlx_status feed_stage(struct rlx_stage *s, const struct rlx_spec *in,
				  unsigned int n_in, struct rlx_error *err)
{
	unsigned int i, n = rlx_program_io_count(s->program, RLX_IO_INPUT);

	for (i = 0; i < n; i++) {
		const char *name = rlx_program_io_name(s->program, RLX_IO_INPUT, i);
		const struct rlx_spec *spec = find_spec(in, n_in, name);
		struct rlx_stage *p;
		enum rlx_status st;

		if (spec && spec->data) {
			st = rlx_session_set(s->session, RLX_IO_INPUT, name, spec->type,
					     spec->data);
		} else {
			for (p = s->parent; p; p = p->parent)
				if (p->program && rlx_program_io_find(p->program,
								      RLX_IO_OUTPUT, name) >= 0)
					break;
			if (!p)
				return rlx_fail(err, RLX_EINVAL, "input '%s' has no data", name);
			st = rlx_session_bind(s->session, RLX_IO_INPUT, name,
					      rlx_session_buf(p->session, RLX_IO_OUTPUT, name));
		}
		if (st)
			return rlx_fail(err, st, "%s", rlx_session_error(s->session)->text);
	}
	return RLX_OK;
}

static enum rlx_status run_stage(const struct rlx_runner *r, struct rlx_stage *s,
				 const struct rlx_spec *in, unsigned int n, struct rlx_error *err)
{
	enum rlx_status st;

	if (!s->session)
		return RLX_OK;
	st = rlx_runner_params_bind(r, s, err);
	if (!st)
		st = feed_stage(s, in, n, err);
	if (st)
		return st;
	st = rlx_session_run(s->session);
	if (st)
		*err = *rlx_session_error(s->session);
	return st;
}

/* What stages behind @first are built of: contents that it was found by. */
static struct rlx_spec *specs_behind(const struct rlx_stage *first, const struct rlx_spec *in,
				     unsigned int n, struct rlx_error *err)
{
	const struct rlx_compiled *c = first->compiled;
	struct rlx_spec *own = rlx_specs_own(in, n, c->asked);
	struct rlx_key key = { 0 };
	bool same;

	if (!own) {
		rlx_runner_no_memory(err);
		return NULL;
	}
	rlx_key_add(&key, c->key.p, c->n_types);
	rlx_key_asked(&key, own, n, c->asked);
	same = !key.failed && key.n == c->key.n && !memcmp(key.p, c->key.p, key.n);
	if (key.failed)
		rlx_runner_no_memory(err);
	else if (!same)
		rlx_fail(err, RLX_EINVAL, "an input that sizes follow from was changed while it "
			 "was read; give memory that nobody writes to meanwhile");
	rlx_free(key.p);
	if (same)
		return own;
	rlx_specs_free(own, n);
	return NULL;
}

enum rlx_status rlx_runner_run_specs(struct rlx_runner *r,
				     const struct rlx_spec *in, unsigned int n_in,
				     struct rlx_error *err)
{
	struct rlx_stage *s, *first;
	struct rlx_spec *own = NULL;
	uint64_t asked = 0;
	enum rlx_status st;

	evict_to_fit(r);
	r->last = NULL;
	st = rlx_runner_params_whole(r, err);
	if (st)
		return st;
	s = first = first_stage(r, in, n_in, &asked, err);
	if (s)
		s->used = ++r->runs;
	while (s) {
		st = run_stage(r, s, in, n_in, err);
		if (st) {
			rlx_specs_free(own, n_in);
			return st;
		}
		if (s->seg.need == RLX_NEED_NOTHING)
			break;
		if (!own)
			own = specs_behind(first, in, n_in, err);
		s = own ? next_stage(r, s, own, n_in, err) : NULL;
	}
	rlx_specs_free(own, n_in);
	if (!s)
		return err->status ? err->status : rlx_runner_no_memory(err);
	r->last = s;
	return RLX_OK;
}

const void *rlx_runner_find(const struct rlx_runner *r, const char *name)
{
	if (!r->last || !r->last->session ||
	    rlx_program_io_find(r->last->program, RLX_IO_OUTPUT, name) < 0)
		return NULL;
	return rlx_buf_ptr(rlx_session_buf(r->last->session, RLX_IO_OUTPUT, name));
}

enum rlx_status rlx_runner_new(struct rlx_model *m, const struct rlx_compile_opts *opts,
			       struct rlx_runner **out, struct rlx_error *err)
{
	struct rlx_runner *r;
	enum rlx_status st;

	if (!m || !out)
		return rlx_fail(err, RLX_EINVAL, "runner: a model and a place for it are needed");
	*out = NULL;
	r = rlx_calloc(1, sizeof(*r));
	if (!r)
		return rlx_runner_no_memory(err);
	st = rlx_compile_take(opts, &r->opts, err);
	if (st) {
		rlx_free(r);
		return st;
	}
	if (r->opts.device) {
		r->device = rlx_strdup(r->opts.device);
		r->opts.device = r->device;
		if (!r->device) {
			rlx_free(r);
			return rlx_runner_no_memory(err);
		}
	}
	rlx_store_get(r->opts.store);
	r->m = rlx_model_get(m);
	r->compiles = rlx_compiles_new();
	st = r->compiles ? rlx_runner_params_init(r, err) : rlx_runner_no_memory(err);
	if (st) {
		rlx_runner_free(r);
		return st;
	}
	*out = r;
	return RLX_OK;
}

void rlx_runner_free(struct rlx_runner *r)
{
	if (!r)
		return;
	if (r->compiles)
		rlx_prepared_cancel(r);
	drop_stages(r, NULL);
	rlx_compiles_put(r->compiles);
	rlx_runner_params_fini(r);
	rlx_map_fini(&r->first);
	rlx_map_fini(&r->asked);
	rlx_store_put(r->opts.store);
	rlx_model_put(r->m);
	rlx_free(r->device);
	rlx_free(r);
}

enum rlx_status rlx_runner_specs(const struct rlx_runner *r, const struct rlx_named_tensor *in,
				 unsigned int n, struct rlx_spec **out, struct rlx_error *err)
{
	if (!r || (n && !in))
		return rlx_fail(err, RLX_EINVAL, "runner: no runner or no inputs");
	return rlx_model_specs(r->m, in, n, out, err);
}

enum rlx_status rlx_runner_run(struct rlx_runner *r, const struct rlx_named_tensor *in,
			       unsigned int n_in, struct rlx_error *err)
{
	struct rlx_error own = { 0 };
	struct rlx_spec *s;
	enum rlx_status st;

	err = err ? err : &own;
	st = rlx_runner_specs(r, in, n_in, &s, err);
	if (st)
		return st;
	st = rlx_runner_run_specs(r, s, n_in, err);
	rlx_free(s);
	return st;
}

unsigned int rlx_runner_output_count(const struct rlx_runner *r)
{
	return r && r->last ? r->last->seg.n_out : 0;
}

bool rlx_runner_output(const struct rlx_runner *r, unsigned int i,
		       struct rlx_named_tensor *out)
{
	const struct rlx_spec *s;

	if (i >= rlx_runner_output_count(r))
		return false;
	s = &r->last->seg.out[i];
	if (s->kind != RLX_SPEC_TENSOR)
		return false;
	*out = (struct rlx_named_tensor){
		s->name, s->type, s->data ? s->data : rlx_runner_find(r, s->name),
	};
	return out->data || !rlx_type_bytes(&s->type);
}

struct rlx_session *rlx_runner_session(struct rlx_runner *r,
				       const struct rlx_named_tensor *in,
				       unsigned int n_in, struct rlx_error *err)
{
	struct rlx_error own = { 0 };
	struct rlx_spec *specs;
	struct rlx_stage *s;
	uint64_t asked;

	err = err ? err : &own;
	if (rlx_runner_specs(r, in, n_in, &specs, err))
		return NULL;
	s = first_stage(r, specs, n_in, &asked, err);
	rlx_free(specs);
	if (!s)
		return NULL;
	if (s->seg.need != RLX_NEED_NOTHING || !s->session) {
		rlx_fail(err, RLX_ENOSUP,
			 "this model needs several programs for these inputs; use rlx_runner_run()");
		return NULL;
	}
	if (rlx_runner_params_bind(r, s, err))
		return NULL;
	s->root->lent = true;
	return s->session;
}
