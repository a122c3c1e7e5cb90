// SPDX-License-Identifier: MIT
/*
 * Running models whose shapes are known only as inputs come. For given input
 * types the import may ask for the contents of some small inputs; types and those
 * contents lead to a first stage. A stage that ends at a cut is run, and the
 * values it gives lead to the next. Every stage is built and compiled once.
 */
#include <string.h>

#include "base/alloc.h"
#include "model/format.h"
#include "model/model.h"
#include "rlx/store.h"
#include "rt/rt.h"

/*
 * More than this and what was used least recently is dropped, whole trees of stages: a
 * stream of ever new shapes must not grow. Keys of what was dropped stay in the maps,
 * up to a number.
 */
enum { MAX_STAGES = 512, MAX_BYTES = 256 << 20, MAX_KEYS = 1 << 14, MAX_ASKS = 64 };

/* A growing key; bytes that say all there is to say. */
struct key {
	unsigned char	*p;
	uint32_t	 n, cap;
	bool		 failed;
};

static void key_add(struct key *k, const void *p, size_t n)
{
	if (k->failed || n > UINT32_MAX - k->n ||
	    !rlx_grow(&k->p, &k->cap, k->n + (uint32_t)n, 1)) {
		k->failed = true;
		return;
	}
	if (n)
		memcpy(k->p + k->n, p, n);
	k->n += (uint32_t)n;
}

static void key_type(struct key *k, const struct rlx_type *t)
{
	int32_t head[2] = { (int32_t)t->dtype, (int32_t)t->rank };

	key_add(k, head, sizeof(head));
	key_add(k, t->dim, t->rank * sizeof(t->dim[0]));
}

static void key_spec(struct key *k, const struct rlx_spec *s, int depth)
{
	uint32_t kind = s->kind, i;

	key_add(k, &kind, sizeof(kind));
	if (s->name)
		key_add(k, s->name, strlen(s->name) + 1);
	key_add(k, &s->n_item, sizeof(s->n_item));
	key_type(k, &s->type);
	for (i = 0; s->kind == RLX_SPEC_STRINGS && i < rlx_type_count(&s->type); i++) {
		key_add(k, &s->str[i].n, sizeof(s->str[i].n));
		key_add(k, s->str[i].p, s->str[i].n);
	}
	for (i = 0; s->kind == RLX_SPEC_LIST && i < s->n_item && depth < 8; i++)
		key_spec(k, &s->item[i], depth + 1);
}

static void key_contents(struct key *k, const struct rlx_spec *s)
{
	uint32_t i;

	if (s->kind == RLX_SPEC_TENSOR && s->data)
		key_add(k, s->data, (size_t)rlx_type_bytes(&s->type));
	for (i = 0; s->kind == RLX_SPEC_LIST && i < s->n_item; i++)
		key_contents(k, &s->item[i]);
}

static void stage_free(struct rlx_stage *s)
{
	rlx_segment_fini(&s->seg);
	rlx_session_free(s->session);
	rlx_program_put(s->program);
	rlx_map_fini(&s->child);
	rlx_free(s->answers);
	rlx_free(s->key);
	rlx_free(s);
}

/* All that came of @root; NULL: of any. */
static void drop_stages(struct rlx_runner *r, struct rlx_stage *root)
{
	struct rlx_stage **at = &r->all, *s;

	if (root && root->key)		/* overwritten: that cannot fail */
		rlx_map_put(&r->first, root->key, root->n_key, 0);
	while ((s = *at)) {
		if (root && s->root != root) {
			at = &s->next_all;
			continue;
		}
		*at = s->next_all;
		r->n_stage--;
		r->bytes -= s->bytes;
		if (s != root)
			stage_free(s);
	}
	if (root)
		stage_free(root);
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

/* Before a run: room for what it may need. The tree of the last one stays, if it alone. */
static void evict_to_fit(struct rlx_runner *r)
{
	struct rlx_stage *s, *latest = NULL;

	for (s = r->all; s; s = s->next_all)
		if (s->root == s && (!latest || s->used > latest->used))
			latest = s;
	while (r->n_stage > MAX_STAGES || r->bytes > MAX_BYTES) {
		s = oldest(r);
		if (!s || (s == latest && r->n_stage <= MAX_STAGES))
			break;
		drop_stages(r, s);
	}
	if (r->first.n > MAX_KEYS || r->asked.n > MAX_KEYS)
		forget_keys(r);
}

static enum rlx_status compile_stage(struct rlx_runner *r, struct rlx_stage *s,
				     struct rlx_error *err)
{
	enum rlx_status st;
	uint32_t i;

	if (!s->seg.g)
		return RLX_OK;
	st = rlx_segment_program(r->m, &s->seg, &r->opts, &s->program, err);
	if (!st)
		st = rlx_session_new(s->program, NULL, &s->session, err);
	if (st)
		return st;
	s->bytes = s->program->info.session_bytes + s->program->code->device_bytes;
	s->answers = rlx_calloc(s->seg.n_needed + 1, sizeof(*s->answers));
	if (!s->answers)
		return rlx_fail(err, RLX_ENOMEM, "runner: out of memory");
	for (i = 0; i < s->seg.n_needed; i++) {
		const char *name = rlx_program_io_name(s->program, RLX_IO_OUTPUT, i);

		s->answers[i].type = *rlx_program_io_type(s->program, RLX_IO_OUTPUT, i);
		s->answers[i].data = rlx_buf_ptr(rlx_session_buf(s->session, RLX_IO_OUTPUT, name));
	}
	s->answer = (struct rlx_answer){ s->seg.n_needed, s->answers };
	return RLX_OK;
}

static struct rlx_stage *stage_new(struct rlx_runner *r, struct rlx_stage *parent,
				   const struct rlx_segment *seg,
				   struct rlx_error *err)
{
	struct rlx_stage *s = rlx_calloc(1, sizeof(*s));

	if (!s) {
		rlx_fail(err, RLX_ENOMEM, "runner: out of memory");
		return NULL;
	}
	s->parent = parent;
	s->root = parent ? parent->root : s;
	s->seg = *seg;
	if (compile_stage(r, s, err)) {
		s->seg = (struct rlx_segment){ 0 };	/* the caller's still */
		stage_free(s);
		return NULL;
	}
	s->next_all = r->all;
	r->all = s;
	r->n_stage++;
	r->bytes += s->bytes;
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

/* Build the segment after @parent; with RLX_EAGAIN-like need of inputs in @seg. */
static enum rlx_status build_after(struct rlx_runner *r, struct rlx_stage *parent,
				   const struct rlx_spec *in, unsigned int n_in,
				   struct rlx_segment *seg, struct rlx_error *err)
{
	struct rlx_instance want = { .spec = in, .n_spec = n_in };
	struct rlx_answer *a = list_answers(parent, &want.n_answer);
	struct rlx_named_tensor *p = rlx_calloc(r->n_param + 1ul, sizeof(*p));
	enum rlx_status st;

	if (a && p) {
		want.answer = a;
		want.param = p;
		want.n_param = rlx_runner_params_set(r, p);
		st = r->m->format->build(r->m, &want, seg, err);
	} else {
		st = rlx_fail(err, RLX_ENOMEM, "runner: out of memory");
	}
	rlx_free(a);
	rlx_free(p);
	return st;
}

/* Contents only where the import asked for them: others must not matter. */
static struct rlx_spec *mask_specs(const struct rlx_spec *in, unsigned int n,
				    uint64_t asked)
{
	struct rlx_spec *s = rlx_memdup(in, n * sizeof(*in));
	unsigned int i;

	for (i = 0; s && i < n; i++)
		if (i >= 64 || !(asked >> i & 1))
			s[i].data = NULL;
	return s;
}

static enum rlx_status not_enough(struct rlx_error *err)
{
	return rlx_fail(err, RLX_ENOMEM, "runner: out of memory");
}

/* Build for these types, asking for contents until the import is content. */
static enum rlx_status build_first(struct rlx_runner *r, const struct rlx_spec *in,
				   unsigned int n, uint64_t *asked,
				   struct rlx_segment *seg, struct rlx_error *err)
{
	struct rlx_spec *masked;
	enum rlx_status st;
	int i;

	for (i = 0; i < MAX_ASKS; i++) {
		masked = mask_specs(in, n, *asked);
		if (!masked)
			return not_enough(err);
		st = build_after(r, NULL, masked, n, seg, err);
		rlx_free(masked);
		if (st || seg->need != RLX_NEED_INPUTS)
			return st;
		if (!(seg->inputs & ~*asked)) {
			rlx_segment_fini(seg);
			break;
		}
		*asked |= seg->inputs;
		rlx_segment_fini(seg);
	}
	return rlx_fail(err, RLX_EBUG, "runner: the import keeps asking for inputs");
}

static struct rlx_stage *first_stage(struct rlx_runner *r, const struct rlx_spec *in,
				     unsigned int n, uint64_t *out_asked,
				     struct rlx_error *err)
{
	struct key types = { 0 }, full = { 0 };
	struct rlx_stage *s = NULL;
	struct rlx_segment seg;
	uint64_t asked = 0, at;
	unsigned int i;
	bool known;

	for (i = 0; i < n; i++)
		key_spec(&types, &in[i], 0);
	for (i = 0; i < r->n_param; i++)	/* sizes may follow from params, too */
		key_type(&types, &r->param[i].type);
	known = !types.failed && rlx_map_get(&r->asked, types.p, types.n, &asked);
	*out_asked = asked;
	if (known) {
		key_add(&full, types.p, types.n);
		for (i = 0; i < n && i < 64; i++)
			if (asked >> i & 1)
				key_contents(&full, &in[i]);
		if (!full.failed && rlx_map_get(&r->first, full.p, full.n, &at) && at) {
			s = (struct rlx_stage *)(uintptr_t)at;
			goto out_free;
		}
	}
	if (types.failed || full.failed || build_first(r, in, n, &asked, &seg, err))
		goto out_free;
	*out_asked = asked;
	full.n = 0;
	key_add(&full, types.p, types.n);
	for (i = 0; i < n && i < 64; i++)
		if (asked >> i & 1)
			key_contents(&full, &in[i]);
	s = stage_new(r, NULL, &seg, err);
	if (!s) {
		rlx_segment_fini(&seg);
		goto out_free;
	}
	/* a stage that is not found again is built again: no harm but time */
	s->key = full.failed ? NULL : rlx_memdup(full.p, full.n);
	s->n_key = full.n;
	if (s->key && rlx_map_put(&r->asked, types.p, types.n, asked))
		rlx_map_put(&r->first, full.p, full.n, (uintptr_t)s);
out_free:
	if (!s && !err->status)
		not_enough(err);
	rlx_free(types.p);
	rlx_free(full.p);
	return s;
}

static struct rlx_stage *next_stage(struct rlx_runner *r, struct rlx_stage *s,
				    const struct rlx_spec *in, unsigned int n,
				    struct rlx_error *err)
{
	struct rlx_segment seg;
	struct rlx_stage *c;
	struct key k = { 0 };
	uint64_t at;
	uint32_t i;

	for (i = 0; i < s->answer.n; i++) {
		key_type(&k, &s->answers[i].type);
		key_add(&k, s->answers[i].data,
			(size_t)rlx_type_bytes(&s->answers[i].type));
	}
	if (!k.failed && rlx_map_get(&s->child, k.p, k.n, &at)) {
		rlx_free(k.p);
		return (struct rlx_stage *)(uintptr_t)at;
	}
	c = NULL;
	if (k.failed)
		not_enough(err);
	else if (!build_after(r, s, in, n, &seg, err)) {
		c = stage_new(r, s, &seg, err);
		if (!c)
			rlx_segment_fini(&seg);
		else
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

enum rlx_status rlx_runner_run_specs(struct rlx_runner *r,
				     const struct rlx_spec *in, unsigned int n_in,
				     struct rlx_error *err)
{
	struct rlx_spec *masked = NULL;
	struct rlx_stage *s;
	uint64_t asked = 0;
	enum rlx_status st;

	evict_to_fit(r);
	r->last = NULL;
	st = rlx_runner_params_whole(r, err);
	if (st)
		return st;
	s = first_stage(r, in, n_in, &asked, err);
	if (s)
		s->used = ++r->runs;
	while (s) {
		st = run_stage(r, s, in, n_in, err);
		if (st) {
			rlx_free(masked);
			return st;
		}
		if (s->seg.need == RLX_NEED_NOTHING)
			break;
		if (!masked)
			masked = mask_specs(in, n_in, asked);
		s = masked ? next_stage(r, s, masked, n_in, err) : NULL;
	}
	rlx_free(masked);
	if (!s)
		return err->status ? err->status : not_enough(err);
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

	if (!m || !out || (opts && !opts->size))
		return rlx_fail(err, RLX_EINVAL,
				"runner: a model, a place for it and opts.size are needed");
	*out = NULL;
	r = rlx_calloc(1, sizeof(*r));
	if (!r)
		return not_enough(err);
	r->opts.size = sizeof(r->opts);
	if (opts) {
		memcpy(&r->opts, opts, opts->size < sizeof(r->opts) ? opts->size
								    : sizeof(r->opts));
		r->opts.size = sizeof(r->opts);
	}
	if (r->opts.device) {
		r->device = rlx_strdup(r->opts.device);
		r->opts.device = r->device;
		if (!r->device) {
			rlx_free(r);
			return not_enough(err);
		}
	}
	rlx_store_get(r->opts.store);
	r->m = rlx_model_get(m);
	st = rlx_runner_params_init(r, err);
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
	drop_stages(r, NULL);
	rlx_runner_params_fini(r);
	rlx_map_fini(&r->first);
	rlx_map_fini(&r->asked);
	rlx_store_put(r->opts.store);
	rlx_model_put(r->m);
	rlx_free(r->device);
	rlx_free(r);
}

/* In the model's order, so that another order of the caller's is no other key. */
static void put_in_order(const struct rlx_model *m, struct rlx_spec *s, unsigned int n)
{
	unsigned int i, k;

	for (k = 0; k < m->n_io[0] && k < n; k++)
		for (i = k; i < n; i++)
			if (!strcmp(s[i].name, m->io[0][k].name)) {
				struct rlx_spec t = s[k];

				s[k] = s[i];
				s[i] = t;
				break;
			}
}

static struct rlx_spec *specs_of(const struct rlx_model *m, const struct rlx_named_tensor *in,
				 unsigned int n, struct rlx_error *err)
{
	struct rlx_spec *s;
	unsigned int i;

	if (rlx_inputs_are_typed(in, n, err))
		return NULL;
	s = rlx_calloc(n + 1, sizeof(*s));
	for (i = 0; s && i < n; i++)
		s[i] = (struct rlx_spec){ .kind = RLX_SPEC_TENSOR, .name = in[i].name ?
					   in[i].name : "", .type = in[i].type,
					   .data = in[i].data };
	if (s)
		put_in_order(m, s, n);
	else
		not_enough(err);
	return s;
}

enum rlx_status rlx_runner_run(struct rlx_runner *r, const struct rlx_named_tensor *in,
			       unsigned int n_in, struct rlx_error *err)
{
	struct rlx_error own = { 0 };
	struct rlx_spec *s;
	enum rlx_status st;

	err = err ? err : &own;
	if (!r || (n_in && !in))
		return rlx_fail(err, RLX_EINVAL, "runner: no runner or no inputs");
	s = specs_of(r->m, in, n_in, err);
	st = s ? rlx_runner_run_specs(r, s, n_in, err) : err->status;
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
	struct rlx_stage *s = NULL;
	struct rlx_spec *specs;
	uint64_t asked;

	err = err ? err : &own;
	if (!r || (n_in && !in)) {
		rlx_fail(err, RLX_EINVAL, "runner: no runner or no inputs");
		return NULL;
	}
	specs = specs_of(r->m, in, n_in, err);
	if (specs)
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
