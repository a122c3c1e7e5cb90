// SPDX-License-Identifier: MIT
/* Einsum as GEMMs of two operands at a time. */
#include "io/onnx/handlers.h"

/*
 * Einsum. A label is a letter, or 128 + k for the k-th dim from the right of an
 * ellipsis. Operands are reduced two at a time by dot_general.
 */
struct labels {
	uint8_t		l[2 * RLX_MAX_RANK];
	uint32_t	n;
};

static bool has(const struct labels *s, uint8_t l)
{
	uint32_t i;

	for (i = 0; i < s->n; i++)
		if (s->l[i] == l)
			return true;
	return false;
}

/* Parse one term; the ellipsis stands for @dots dims. */
static bool parse_term(const char **p, const char *end, uint32_t dots,
		       struct labels *out)
{
	uint32_t k;

	out->n = 0;
	for (; *p < end && **p != ',' && **p != '-'; ++*p) {
		char c = **p;

		if (c == ' ')
			continue;
		if (c == '.') {
			if (end - *p < 3 || (*p)[1] != '.' || (*p)[2] != '.')
				return false;
			*p += 2;
			for (k = dots; k > 0 && out->n < RLX_MAX_RANK; k--)
				out->l[out->n++] = (uint8_t)(127 + k);
			continue;
		}
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) ||
		    out->n >= RLX_MAX_RANK)
			return false;
		out->l[out->n++] = (uint8_t)c;
	}
	return true;
}

/* How many dims "..." stands for in an operand of @rank: letters are the rest. */
static uint32_t dots_of(const char *p, const char *end, uint32_t rank)
{
	uint32_t letters = 0;

	for (; p < end && *p != ',' && *p != '-'; p++)
		letters += *p != '.' && *p != ' ';
	return rank > letters ? rank - letters : 0;
}

/* Keep i of dims (i, j) that have the same label: every (n+1)-th element. */
static rlx_value diagonal(struct onnx_op *q, rlx_value x, struct labels *s,
			  uint32_t i, uint32_t j)
{
	int64_t perm[RLX_MAX_RANK], dim[RLX_MAX_RANK], n;
	struct rlx_type t;
	uint32_t k, m = 0;

	for (k = 0; k < s->n; k++)
		if (k != i && k != j)
			perm[m++] = k;
	perm[m] = i;
	perm[m + 1] = j;
	x = E(q, transpose, .x = x, .perm = { perm, s->n });
	t = onnx_type(q, x);
	if (t.rank < 2 || t.dim[m] != t.dim[m + 1] || t.dim[m] > INT32_MAX)
		return RLX_NONE;
	n = t.dim[m];
	for (k = 0; k < m; k++)
		dim[k] = t.dim[k];
	dim[m] = n * n;
	x = onnx_reshape(q, x, m + 1, dim);
	x = E(q, slice, .x = x, .axes = RLX_INTS(m), .starts = RLX_INTS(0),
	      .ends = RLX_INTS(n * n), .steps = RLX_INTS(n + 1));
	for (k = 0; k < m; k++)
		dim[k] = s->l[perm[k]];
	dim[m] = s->l[i];
	s->n = m + 1;
	for (k = 0; k <= m; k++)
		s->l[k] = (uint8_t)dim[k];
	return x;
}

static rlx_value diagonals(struct onnx_op *q, rlx_value x, struct labels *s)
{
	uint32_t i, j;

	for (i = 0; i < s->n; i++)
		for (j = i + 1; j < s->n; j++)
			if (s->l[i] == s->l[j]) {
				x = diagonal(q, x, s, i, j);
				return x.id ? diagonals(q, x, s) : x;
			}
	return x;
}

/* Labels by their codes, however many. */
struct label_set {
	bool		has[256];
};

static void put_labels(struct label_set *set, const struct labels *s)
{
	uint32_t i;

	for (i = 0; i < s->n; i++)
		set->has[s->l[i]] = true;
}

/* Sum over labels that neither @keep nor @other has. */
static rlx_value sum_out(struct onnx_op *q, rlx_value x, struct labels *s,
			 const struct label_set *keep, const struct labels *other)
{
	int64_t axes[RLX_MAX_RANK];
	uint32_t i, n = 0, m = 0;

	for (i = 0; i < s->n; i++) {
		if (keep->has[s->l[i]] || (other && has(other, s->l[i])))
			s->l[m++] = s->l[i];
		else
			axes[n++] = i;
	}
	s->n = m;
	return n ? onnx_reduce(q, x, (struct rlx_ints){ axes, n },
			       RLX_REDUCE_SUM, false) : x;
}

/* A dim of size 1 that meets a larger one under the same label is stretched. */
static rlx_value stretch(struct onnx_op *q, rlx_value x, const struct labels *s,
			 rlx_value y, const struct labels *sy)
{
	struct rlx_type t = onnx_type(q, x), ty = onnx_type(q, y);
	bool change = false;
	uint32_t i, k;

	for (i = 0; i < s->n && i < t.rank; i++)
		for (k = 0; k < sy->n && k < ty.rank; k++)
			if (s->l[i] == sy->l[k] && t.dim[i] == 1 &&
			    ty.dim[k] != 1) {
				t.dim[i] = ty.dim[k];
				change = true;
			}
	return change ? E(q, expand, .x = x, .shape = { t.dim, t.rank }) : x;
}

/* a times b, summed over what is not kept; @a's labels become the result's. */
static rlx_value pair(struct onnx_op *q, rlx_value a, struct labels *sa,
		      rlx_value b, struct labels *sb,
		      const struct label_set *keep)
{
	int64_t lc[RLX_MAX_RANK], rc[RLX_MAX_RANK];
	int64_t lb[RLX_MAX_RANK], rb[RLX_MAX_RANK];
	struct labels out = { .n = 0 };
	uint32_t nc = 0, nb = 0, i, k;

	a = sum_out(q, a, sa, keep, sb);
	b = sum_out(q, b, sb, keep, sa);
	a = stretch(q, a, sa, b, sb);
	b = stretch(q, b, sb, a, sa);
	for (i = 0; i < sa->n; i++)
		for (k = 0; k < sb->n; k++) {
			if (sa->l[i] != sb->l[k])
				continue;
			if (keep->has[sa->l[i]]) {
				lb[nb] = i;
				rb[nb++] = k;
				out.l[out.n++] = sa->l[i];
			} else {
				lc[nc] = i;
				rc[nc++] = k;
			}
		}
	for (i = 0; i < sa->n; i++)
		if (!has(sb, sa->l[i]))
			out.l[out.n++] = sa->l[i];
	for (k = 0; k < sb->n; k++)
		if (!has(sa, sb->l[k]))
			out.l[out.n++] = sb->l[k];
	*sa = out;
	if (out.n > RLX_MAX_RANK)
		return RLX_NONE;
	return E(q, dot_general, .a = a, .b = b, .lhs_contract = { lc, nc },
		 .rhs_contract = { rc, nc }, .lhs_batch = { lb, nb },
		 .rhs_batch = { rb, nb });
}

/* Without "->": labels that occur once, in order, after the ellipsis. */
static void implicit_output(const struct labels *term, uint32_t n,
			    uint32_t dots, struct labels *out)
{
	uint32_t count[256] = { 0 }, i, k, c;

	for (i = 0; i < n; i++)
		for (k = 0; k < term[i].n; k++)
			count[term[i].l[k]]++;
	out->n = 0;
	for (k = dots; k > 0 && out->n < RLX_MAX_RANK; k--)
		out->l[out->n++] = (uint8_t)(127 + k);
	for (c = 'A'; c <= 'z'; c++)
		if (count[c] == 1 && out->n < RLX_MAX_RANK)
			out->l[out->n++] = (uint8_t)c;
}

static bool parse_equation(struct onnx_op *q, struct rlx_str eq,
			   struct labels *term, struct labels *out)
{
	const char *p = eq.p, *end = p + eq.n;
	uint32_t i, dots = 0, d;

	for (i = 0; i < q->n_in; i++) {
		d = dots_of(p, end, onnx_type(q, onnx_in(q, i)).rank);
		dots = d > dots ? d : dots;
		if (!parse_term(&p, end, d, &term[i]) ||
		    term[i].n != onnx_type(q, onnx_in(q, i)).rank)
			return false;
		if (i + 1 < q->n_in && (p >= end || *p++ != ','))
			return false;
	}
	while (p < end && *p == ' ')
		p++;
	if (p == end) {
		implicit_output(term, q->n_in, dots, out);
		return true;
	}
	if (end - p < 2 || p[0] != '-' || p[1] != '>')
		return false;
	p += 2;
	return parse_term(&p, end, dots, out) && p == end;
}

/* Labels that the output or an operand after @i has. */
static void wanted(const struct labels *term, uint32_t n, uint32_t i,
		   const struct labels *out, struct label_set *keep)
{
	*keep = (struct label_set){ { false } };
	put_labels(keep, out);
	for (i++; i < n; i++)
		put_labels(keep, &term[i]);
}

enum rlx_status onnx_einsum(struct onnx_op *q)
{
	const struct onnx_attr *a = onnx_attr_of(q, "equation");
	struct labels *term = rlx_bump_new(&q->b->mem, q->n_in + 1,
					   sizeof(*term));
	int64_t perm[RLX_MAX_RANK];
	struct label_set keep;
	struct labels out;
	uint32_t i, k;
	rlx_value x, y;

	if (!term)
		return onnx_nomem(q->b);
	if (!a || !a->s.n || !q->n_in || !parse_equation(q, a->s, term, &out))
		return op_err(q, RLX_EPARSE, "equation '%.*s' does not fit the "
			      "operands", ONNX_STR(a ? a->s : q->n->name));
	x = diagonals(q, onnx_in(q, 0), &term[0]);
	for (i = 1; i < q->n_in; i++) {
		y = diagonals(q, onnx_in(q, i), &term[i]);
		wanted(term, q->n_in, i, &out, &keep);
		x = pair(q, x, &term[0], y, &term[i], &keep);
		/* no more labels than dims: the next pair has room for no others */
		if (!x.id)
			break;
	}
	if (x.id) {
		wanted(term, 1, 0, &out, &keep);
		x = sum_out(q, x, &term[0], &keep, NULL);
	}
	if (onnx_graph_status(q))
		return q->b->err->status;
	if (!x.id || term[0].n != out.n)
		return op_err(q, RLX_ENOSUP, "equation '%.*s' is not "
			      "supported", ONNX_STR(a->s));
	for (i = 0; i < out.n; i++)
		for (k = 0; k < out.n; k++)
			if (term[0].l[k] == out.l[i])
				perm[i] = k;
	onnx_out(q, 0, out.n > 1 ? E(q, transpose, .x = x,
				     .perm = { perm, out.n }) : x);
	return RLX_OK;
}
