// SPDX-License-Identifier: MIT
/* Making a case that fails smaller while it fails. */
#include "selftests/lib/fuzz_case.h"
#include "selftests/lib/rlx_test.h"

struct shrink {
	struct fuzz_case *c, *try;	/* what fails, and what may */
	const char	*device;
	bool		 progress;
};

/* Keep what was tried if it still fails. */
static void attempt(struct shrink *s)
{
	char text[FUZZ_TEXT] = "";

	fuzz_prune(s->try);
	if (s->try->n_node && fuzz_infer(s->try) &&
	    !fuzz_check_apart(s->try, s->device, text)) {
		fuzz_copy(s->c, s->try);
		s->progress = true;
	}
	fuzz_copy(s->try, s->c);
}

/* A leaf in place of an input that is another node's result. */
static void cut_inputs(struct shrink *s)
{
	uint32_t n, k;

	for (n = 0; n < s->c->n_node; n++)
		for (k = 0; n < s->c->n_node && k < s->c->node[n].n_in; k++) {
			fuzz_ref r = s->c->node[n].in[k];

			if (r < FUZZ_LEAVES || s->c->n_leaf == FUZZ_LEAVES)
				continue;
			s->try->leaf[s->try->n_leaf] = (struct fuzz_leaf){
				.type = *fuzz_type(s->c, r), .id = 1000 + s->c->n_leaf,
			};
			s->try->node[n].in[k] = (fuzz_ref)s->try->n_leaf++;
			attempt(s);
		}
}

static void cut_nodes(struct shrink *s)
{
	uint32_t n;

	for (n = s->c->n_node; n-- > 0;) {
		if (n >= s->c->n_node)
			continue;
		if (n + 1 < s->c->n_node) {	/* end here */
			s->try->n_node = n + 1;
			attempt(s);
		}
		if (n < s->c->n_node && (s->c->keep & 1u << n)) {
			s->try->keep &= ~(1u << n);
			attempt(s);
		}
	}
}

static void cut_optional(struct shrink *s)
{
	uint32_t n, k;

	for (n = 0; n < s->c->n_node; n++)
		for (k = 0; n < s->c->n_node && k < s->c->node[n].n_in; k++)
			if (s->c->node[n].in[k] >= 0 && fuzz_is_optional(s->c->node[n].def, k)) {
				s->try->node[n].in[k] = -1;
				attempt(s);
			}
}

static void plain_leaves(struct shrink *s)
{
	uint32_t k;

	for (k = 0; k < s->c->n_leaf; k++) {
		if (s->c->leaf[k].draw != FUZZ_EVEN) {
			s->try->leaf[k].draw = FUZZ_EVEN;
			attempt(s);
		}
		if (k < s->c->n_leaf && s->c->leaf[k].fixed) {
			s->try->leaf[k].fixed = false;
			attempt(s);
		}
	}
	if (s->c->flags) {
		s->try->flags = 0;
		attempt(s);
	}
	if (s->c->threads != 1) {
		s->try->threads = 1;
		attempt(s);
	}
}

/* Every size and every number of a list that is @from becomes @to. */
static void rename_all(struct fuzz_case *c, int64_t from, int64_t to)
{
	uint32_t n, i, k;

	for (k = 0; k < c->n_leaf; k++)
		for (i = 0; i < c->leaf[k].type.rank; i++)
			if (c->leaf[k].type.dim[i] == from)
				c->leaf[k].type.dim[i] = to;
	for (n = 0; n < c->n_node; n++)
		for (i = 0; i < c->node[n].def->n_field; i++) {
			const struct rlx_field *f = &c->node[n].def->field[i];
			struct rlx_ints *l = (void *)(c->node[n].args + f->offset);

			for (k = 0; f->role == RLX_FIELD_ATTR && f->kind == RLX_K_ints &&
			     k < l->n; k++)
				if (c->node[n].list[i].i[k] == from)
					c->node[n].list[i].i[k] = to;
		}
}

static void smaller_sizes(struct shrink *s)
{
	uint32_t k, i, t;

	for (k = 0; k < s->c->n_leaf; k++)
		for (i = 0; k < s->c->n_leaf && i < s->c->leaf[k].type.rank; i++)
			for (t = 0; k < s->c->n_leaf && i < s->c->leaf[k].type.rank && t < 6; t++) {
				int64_t d = s->c->leaf[k].type.dim[i];
				const int64_t to[3] = { 1, d / 2, d - 1 };

				if (d < 2 || to[t % 3] < 1)
					continue;
				if (t < 3)
					rename_all(s->try, d, to[t]);
				else
					s->try->leaf[k].type.dim[i] = to[t % 3];
				attempt(s);
			}
}

static void plain_attributes(struct shrink *s)
{
	uint32_t n, i;

	for (n = 0; n < s->c->n_node; n++)
		for (i = 0; n < s->c->n_node && i < s->c->node[n].def->n_field; i++) {
			const struct rlx_field *f = &s->c->node[n].def->field[i];
			static const unsigned char zero[16];
			unsigned char *p = s->try->node[n].args + f->offset;
			size_t size = f->kind == RLX_K_bool ? 1 : f->kind == RLX_K_i64 ||
				      f->kind == RLX_K_f64 ? 8 : 4;

			if (f->role != RLX_FIELD_ATTR || f->kind == RLX_K_type ||
			    !strcmp(f->name, "eps"))
				continue;
			if (f->kind == RLX_K_ints)
				((struct rlx_ints *)(void *)p)->n = 0;
			else if (f->kind == RLX_K_floats)
				((struct rlx_floats *)(void *)p)->n = 0;
			else if (memcmp(p, zero, size))
				memset(p, 0, size);
			else
				continue;
			attempt(s);
		}
}

void fuzz_shrink(struct fuzz_case *c, const char *device)
{
	struct shrink s = { .c = c, .device = device };
	int rounds;

	s.try = malloc(sizeof(*s.try));
	CHECK(s.try);
	fuzz_copy(s.try, c);
	for (rounds = 0, s.progress = true; s.progress && rounds < 6; rounds++) {
		s.progress = false;
		cut_nodes(&s);
		cut_inputs(&s);
		cut_optional(&s);
		plain_leaves(&s);
		smaller_sizes(&s);
		plain_attributes(&s);
	}
	free(s.try);
}
