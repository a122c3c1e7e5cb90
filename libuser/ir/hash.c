// SPDX-License-Identifier: MIT
/* Structural hash and equality, from the field tables alone. */
#include <string.h>

#include "base/alloc.h"
#include "ir/custom.h"
#include "ir/dims.h"

/*
 * Bytes of an attribute, and in @head what counts those that are not fixed; false: it refers to
 * what is compared otherwise.
 */
static bool field_bytes(const struct rlx_field *f, const void *p, const void **bytes, size_t *n,
			uint64_t *head)
{
	const struct rlx_ints *l = p;		/* floats are alike */
	const struct rlx_type *t = p;

	*bytes = p;
	*n = 0;
	*head = 0;
	switch (f->kind) {
	case RLX_K_i32:
	case RLX_K_f32:
	case RLX_K_dtype:
		*n = 4;
		return true;
	case RLX_K_i64:
	case RLX_K_f64:
		*n = 8;
		return true;
	case RLX_K_bool:
		*n = sizeof(bool);
		return true;
	case RLX_K_str:
		*bytes = *(const char *const *)p;
		*head = *n = *bytes ? strlen(*bytes) : 0;
		return true;
	case RLX_K_ints:
	case RLX_K_floats:
		*bytes = l->v;
		*head = l->n;
		*n = l->n * 8ul;
		return true;
	case RLX_K_type:
		*bytes = t->dim;
		*head = (uint64_t)t->rank << 32 | t->dtype;
		*n = t->rank * sizeof(t->dim[0]);
		return true;
	case RLX_K_blob:
	case RLX_K_graph:
	case RLX_K_custom:
		break;
	}
	return false;
}

static uint64_t hash_field(const struct rlx_field *f, const void *args, uint64_t h)
{
	const void *p = rlx_field_ptr(f, args), *bytes;
	uint64_t head;
	size_t n;

	if (field_bytes(f, p, &bytes, &n, &head)) {
		h = rlx_hash_bytes(bytes, n, h);
		return f->kind != RLX_K_type ? h :
		       rlx_hash_bytes(&((const struct rlx_type *)p)->dtype, sizeof(enum rlx_dtype),
				      h);
	}
	if (f->kind == RLX_K_blob) {
		struct rlx_blob *b = *(struct rlx_blob *const *)p;
		uint64_t c = b ? rlx_blob_hash(b) : 0;

		return rlx_hash_bytes(&c, sizeof(c), h);
	}
	if (f->kind == RLX_K_graph) {
		const struct rlx_graph *g = *(struct rlx_graph *const *)p;
		uint64_t c = rlx_graph_hash(g);

		return g && !c ? 0 : rlx_hash_bytes(&c, sizeof(c), h);
	}
	if (f->kind == RLX_K_custom) {
		const struct rlx_custom *c = *(struct rlx_custom *const *)p;

		if (!c)
			return h;
		h = rlx_hash_bytes(c->op.name, strlen(c->op.name), h);
		return rlx_hash_bytes(&c->times, sizeof(c->times), h);
	}
	return h;
}

uint64_t rlx_args_hash(const struct rlx_op_def *def, const void *args, uint64_t seed)
{
	uint64_t h = rlx_hash_bytes(def->name, strlen(def->name), seed);
	unsigned int i;

	for (i = 0; i < def->n_field && h; i++)
		if (def->field[i].role == RLX_FIELD_ATTR)
			h = hash_field(&def->field[i], args, h);
	return h;
}

static bool field_equal(const struct rlx_field *f, const void *a, const void *b)
{
	const void *p = rlx_field_ptr(f, a), *q = rlx_field_ptr(f, b), *x, *y;
	uint64_t head_x, head_y;
	size_t n_x, n_y;

	if (field_bytes(f, p, &x, &n_x, &head_x) && field_bytes(f, q, &y, &n_y, &head_y))
		return n_x == n_y && head_x == head_y && (!n_x || !memcmp(x, y, n_x));
	if (f->kind == RLX_K_blob) {
		const struct rlx_blob *s = *(struct rlx_blob *const *)p;
		const struct rlx_blob *t = *(struct rlx_blob *const *)q;

		/* comparing large weights costs more than merging them gains */
		return s == t || (s && t && s->bytes == t->bytes && s->bytes <= 4096 &&
				  !memcmp(s->data, t->data, s->bytes));
	}
	return *(const void *const *)p == *(const void *const *)q;	/* graphs, custom ops */
}

bool rlx_args_equal(const struct rlx_op_def *def, const void *a, const void *b)
{
	unsigned int i;

	for (i = 0; i < def->n_field; i++)
		if (def->field[i].role == RLX_FIELD_ATTR &&
		    !field_equal(&def->field[i], a, b))
			return false;
	return true;
}

/*
 * As rlx_args_equal(): large blobs are equal only to themselves. What rlx_blob_hash() keeps of
 * others has a seed that all know.
 */
static uint64_t constant_hash(const struct rlx_op_constant *c, uint64_t secret)
{
	const size_t bytes = rlx_blob_bytes(c->data);
	uint64_t h = secret ^ c->type.dtype;

	h = rlx_hash_bytes(c->type.dim, c->type.rank * sizeof(c->type.dim[0]), h);
	return bytes > 4096 ? rlx_hash_bytes(&c->data, sizeof(c->data), h) :
			      rlx_hash_bytes(rlx_blob_data(c->data), bytes, h);
}

uint64_t rlx_node_hash(const struct rlx_node *n, const uint32_t *map, uint64_t secret)
{
	uint64_t h;
	uint32_t i;

	if (n->def->index == RLX_OP_constant)
		return constant_hash(n->args, secret);
	h = rlx_args_hash(n->def, n->args, secret ^ n->n_in);
	for (i = 0; i < n->n_in; i++)
		h = rlx_hash_bytes(map ? &map[n->in[i]] : &n->in[i], sizeof(uint32_t), h);
	return h;
}

bool rlx_node_equal(const struct rlx_node *a, const uint32_t *map, const struct rlx_node *b)
{
	uint32_t i;

	if (a->def != b->def || a->n_in != b->n_in ||
	    (!rlx_scope_equal(a, b) && !(a->def->traits & RLX_T_LEAF)))
		return false;
	for (i = 0; i < a->n_in; i++)
		if ((map ? map[a->in[i]] : a->in[i]) != b->in[i])
			return false;
	return rlx_args_equal(a->def, a->args, b->args);
}

bool rlx_node_merges(const struct rlx_node *n)
{
	return !(n->def->traits & RLX_T_IMPURE) && n->def->index != RLX_OP_input &&
	       n->def->index != RLX_OP_param;
}

bool rlx_args_bytes(const struct rlx_op_def *def, const void *args, unsigned char *to, size_t *n)
{
	const void *bytes;
	uint64_t head;
	uint32_t i;
	size_t k;

	*n = 0;
	for (i = 0; i < def->n_field; i++) {
		if (def->field[i].role != RLX_FIELD_ATTR)
			continue;
		if (!field_bytes(&def->field[i], rlx_field_ptr(&def->field[i], args), &bytes, &k,
				 &head))
			return false;
		if (to) {
			memcpy(to + *n, &head, sizeof(head));
			if (k)
				memcpy(to + *n + sizeof(head), bytes, k);
		}
		*n += sizeof(head) + k;
	}
	return true;
}

/*
 * Of each value and dimension, from what it is made of, whatever its number; @n_dim are
 * known.
 */
struct hashes {
	const struct rlx_graph	*g;
	uint64_t		*value;
	int64_t			*dim;
	uint32_t		 n_dim;
};

static int64_t hash_dim(const struct hashes *h, const struct rlx_dim *e)
{
	int64_t of[3] = { e->kind, e->a, e->b };
	uint64_t seed = e->name ? rlx_hash_bytes(e->name, strlen(e->name), 0) : 0;

	if (e->kind == RLX_DIM_VALUE)
		of[1] = (int64_t)h->value[e->a];
	else if (e->kind != RLX_DIM_NAME) {
		of[1] = rlx_is_dim(e->a) ? h->dim[rlx_dim_place(e->a)] : e->a;
		of[2] = rlx_is_dim(e->b) ? h->dim[rlx_dim_place(e->b)] : e->b;
	}
	return (int64_t)rlx_hash_bytes(of, sizeof(of), seed);
}

/* An op in a template; what its arguments name was there before it. 0: no memory. */
static uint64_t hash_template_args(struct hashes *h, const struct rlx_node *n)
{
	const struct rlx_dims *d = h->g->dims;
	const struct rlx_dim_at at = { .g = h->g, .sample = RLX_DIM_ALL, .size = h->dim };
	struct rlx_args_at c;
	uint64_t x;

	for (; h->n_dim < d->n; h->n_dim++) {
		const struct rlx_dim *e = &d->e[h->n_dim];

		if (e->kind == RLX_DIM_VALUE && e->a >= n->out)
			break;
		h->dim[h->n_dim] = hash_dim(h, e);
	}
	if (rlx_args_at(&c, &at, n->def, n->args, NULL))
		return 0;
	x = rlx_args_hash(n->def, c.args, n->n_in);
	rlx_args_at_fini(&c);
	return x;
}

/* False: no memory for those of a graph inside. */
static bool hash_values(struct hashes *h)
{
	const struct rlx_graph *g = h->g;
	uint32_t n, i;

	h->value[0] = 0x6e6f6e65;
	for (n = 0; n < g->n_node; n++) {
		const struct rlx_node *v = &g->node[n];
		uint64_t x = g->dims ? hash_template_args(h, v) :
				       rlx_args_hash(v->def, v->args, v->n_in);

		if (!x)
			return false;
		for (i = 0; i < v->n_in; i++)
			x = rlx_hash_bytes(&h->value[v->in[i]], sizeof(*h->value), x);
		for (i = 0; i < v->n_out; i++)
			h->value[v->out + i] = rlx_hash_bytes(&i, sizeof(i), x);
	}
	return true;
}

uint64_t rlx_graph_hash(const struct rlx_graph *g)
{
	struct hashes h = { .g = g };
	uint64_t x = 0;
	uint32_t i;
	int io;

	if (!g)
		return 0;
	h.value = rlx_calloc(g->n_val, sizeof(*h.value));
	h.dim = g->dims ? rlx_calloc(g->dims->n + 1ul, sizeof(*h.dim)) : NULL;
	if (!h.value || (g->dims && !h.dim) || !hash_values(&h))
		goto out_free;
	for (i = 0; g->dims && i < g->dims->n_name; i++)
		x += (uint64_t)hash_dim(&h, &g->dims->e[g->dims->name[i]]);
	for (io = 0; io < 3; io++)
		for (i = 0; i < g->io[io].n; i++) {
			const struct rlx_named *e = &g->io[io].e[i];

			x = rlx_hash_bytes(e->name, strlen(e->name), x);
			x = rlx_hash_bytes(&h.value[e->v.id], sizeof(*h.value), x);
		}
	x |= 1;
out_free:
	rlx_free(h.value);
	rlx_free(h.dim);
	return x;
}
