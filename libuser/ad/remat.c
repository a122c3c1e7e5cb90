// SPDX-License-Identifier: MIT
/*
 * Rematerialisation (Chen et al. 1604.06174): what a backward pass reads of the forward one is kept
 * for it, or computed once more right before it is first needed, out of what is kept and of leaves.
 *
 * What is to be done is a list of nodes, of the backward pass and of the forward one once more, in
 * their order; so it is known when each value is needed first and last, and how many bytes there
 * are at any time. While that is more than the budget, what is kept at the worst moment and needed
 * later is given up, by bytes for the time that computing it takes.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ad/remat.h"
#include "ad/remat_impl.h"
#include "base/alloc.h"
#include "base/log.h"
#include "ir/eval.h"

/* Operations in the time of a byte moved: between CPUs (20 to 60) and GPUs (180). */
static const double ops_per_byte = 64;
/* What is computed along with another may take so much of its time. */
static const double along = 0.1;

/* Nodes that are gone through to find what is better. */
enum { MOST_LOOKS = 50000000 };

static bool push(struct remat *m, uint32_t **p, uint32_t *n, uint32_t *cap, uint32_t x)
{
	if (!rlx_grow(p, cap, *n + 1, sizeof(**p))) {
		m->no_memory = true;
		return false;
	}
	(*p)[(*n)++] = x;
	return true;
}
#define PUSH(m, what, x)	push((m), &(m)->what, &(m)->n_##what, &(m)->cap_##what, (x))

static int64_t bytes_of(const struct remat *m, uint32_t v)
{
	return rlx_type_bytes(&m->g->val[v].type);
}

static uint32_t node_of(const struct remat *m, uint32_t v)
{
	return m->g->val[v].node;
}

static bool is_view(const struct rlx_node *n)
{
	return n->def->traits & RLX_T_VIEW && !rlx_op_waits_for_ranks(n->def);
}

/* Gives the same bits once more, and asks nobody else. */
static bool repeats(const struct rlx_node *n)
{
	return !(n->def->traits & (RLX_T_LEAF | RLX_T_IMPURE)) && !rlx_op_waits_for_ranks(n->def);
}

/* Is it there without being computed once more, or has it been? */
static bool ready(const struct remat *m, uint32_t v)
{
	return !m->root[v] || m->kept[m->root[v]] || m->made[node_of(m, v)];
}

/* ---- what is done in which order ---- */

/* The next node needs it. */
static void touch(struct remat *m, uint32_t v)
{
	uint32_t r = m->root[v];

	if (!r)
		return;
	m->begin[r] = m->begin[r] ? m->begin[r] : m->n_order + 1;
	m->end[r] = m->n_order + 1;
}

static void once_more(struct remat *m, uint32_t n)
{
	const struct rlx_node *v = &m->g->node[n];
	uint32_t i;

	for (i = 0; i < v->n_in; i++)
		if (v->in[i])
			touch(m, v->in[i]);
	for (i = 0; i < v->n_out; i++)
		touch(m, v->out + i);
	m->made[n] = true;
	PUSH(m, order, n);
}

static bool listed(const struct remat *m, uint32_t n)
{
	return m->seen[n] == m->turn;
}

static double add_to_list(struct remat *m, uint32_t n)
{
	m->seen[n] = m->turn;
	PUSH(m, list, n);
	return m->time[n];
}

/* The list becomes all nodes that making value @v takes; gives their time. */
static double list_needed(struct remat *m, uint32_t v)
{
	double time;
	uint32_t i, k;

	m->turn++;
	m->n_list = 0;
	time = add_to_list(m, node_of(m, v));
	for (i = 0; i < m->n_list && !m->no_memory; i++) {
		const struct rlx_node *node = &m->g->node[m->list[i]];

		for (k = 0; k < node->n_in; k++)
			if (node->in[k] && !ready(m, node->in[k]) &&
			    !listed(m, node_of(m, node->in[k])))
				time += add_to_list(m, node_of(m, node->in[k]));
	}
	return time;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Compute value @v once more, and before it what that takes, in the order of the first time. */
static void need(struct remat *m, uint32_t v)
{
	uint32_t i;

	list_needed(m, v);
	qsort(m->list, m->n_list, sizeof(*m->list), by_number);
	for (i = 0; i < m->n_list && !m->no_memory; i++)
		once_more(m, m->list[i]);
}

/* The most bytes at a time, and when. */
static void find_peak(struct remat *m)
{
	int64_t now = 0, peak = 0;
	uint32_t v, t;

	if (!rlx_grow(&m->change, &m->cap_change, m->n_order + 2, sizeof(*m->change))) {
		m->no_memory = true;
		return;
	}
	memset(m->change, 0, (m->n_order + 2ul) * sizeof(*m->change));
	for (v = 1; v < m->first_val; v++) {
		if (!m->end[v])
			continue;
		m->change[m->kept[v] ? 0 : m->begin[v]] += bytes_of(m, v);
		m->change[m->end[v] + 1] -= bytes_of(m, v);
	}
	m->worst = 0;
	for (t = 0; t <= m->n_order; t++) {
		now += m->change[t];
		if (now > peak) {
			peak = now;
			m->worst = t;
		}
	}
	m->peak = (uint64_t)peak;
}

static void run_through(struct remat *m)
{
	uint32_t n, i;

	memset(m->made, 0, m->first * sizeof(*m->made));
	memset(m->begin, 0, m->first_val * sizeof(*m->begin));
	memset(m->end, 0, m->first_val * sizeof(*m->end));
	m->n_order = 0;
	for (n = m->first; n < m->g->n_node && !m->no_memory; n++) {
		const struct rlx_node *v = &m->g->node[n];

		/* what nothing needs stays, as its attributes have references, and needs nothing */
		for (i = 0; i < v->n_in && m->live[n]; i++)
			if (v->in[i] && v->in[i] < m->first_val && !ready(m, v->in[i]))
				need(m, v->in[i]);
		for (i = 0; i < v->n_in && m->live[n]; i++)
			if (v->in[i] && v->in[i] < m->first_val)
				touch(m, v->in[i]);
		PUSH(m, order, n);
	}
	if (!m->no_memory)
		find_peak(m);
}

/* ---- what is given up ---- */

/* Kept at the worst moment, and needed after it. */
static bool may_go(const struct remat *m, uint32_t v)
{
	return m->open[v] && m->kept[v] && m->begin[v] > m->worst;
}

/* Can node @n be computed of what is there and of the list? */
static bool follows(const struct remat *m, uint32_t n)
{
	const struct rlx_node *v = &m->g->node[n];
	uint32_t i;

	for (i = 0; i < v->n_in; i++)
		if (v->in[i] && !ready(m, v->in[i]) && !listed(m, node_of(m, v->in[i])))
			return false;
	return repeats(v);
}

/* The list gets nodes that follow from it at little cost and make what may go, too. */
static double add_along(struct remat *m, double time, double *bytes)
{
	const double most = along * time;
	double more = 0;
	uint32_t i, k, r, v, e;

	for (i = 0; i < m->n_list && !m->no_memory; i++) {
		const struct rlx_node *node = &m->g->node[m->list[i]];

		for (k = m->reader_at[node->out]; k < m->reader_at[node->out + node->n_out]; k++) {
			r = m->reader[k];
			e = m->g->node[r].out;
			if (listed(m, r) || more + m->time[r] > most || !follows(m, r))
				continue;
			for (v = e; v < e + m->g->node[r].n_out && !may_go(m, v); v++)
				;
			if (v == e + m->g->node[r].n_out && !is_view(&m->g->node[r]))
				continue;
			more += add_to_list(m, r);
			for (v = e; v < e + m->g->node[r].n_out; v++)
				if (may_go(m, v) && PUSH(m, along, v))
					*bytes += (double)bytes_of(m, v);
		}
	}
	return more;
}

/* Bytes for the time that it takes to compute @v, and what comes with it, once more. */
static double score(struct remat *m, uint32_t v)
{
	double bytes = (double)bytes_of(m, v), time = list_needed(m, v);

	m->n_along = 0;
	PUSH(m, along, v);
	time += add_along(m, time, &bytes);
	/* of equal ones that which is needed last */
	return bytes / (time + 1) * (1 + 1e-3 * m->begin[v] / (m->n_order + 1.0));
}

static int by_score(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->score != y->score ? (x->score < y->score ? 1 : -1) :
	       x->val < y->val ? -1 : x->val > y->val;
}

static uint32_t list_candidates(struct remat *m)
{
	uint32_t v, n = 0;

	/* all that it takes, also what is computed for others: long ways are parted, not longer */
	memset(m->made, 0, m->first * sizeof(*m->made));
	for (v = 1; v < m->first_val && !m->no_memory; v++)
		if (may_go(m, v))
			m->cand[n++] = (struct candidate){ v, score(m, v) };
	qsort(m->cand, n, sizeof(*m->cand), by_score);
	return n;
}

/*
 * Give up the best of @n, or @one alone, until that is half of what is too much or a small part of
 * all: what is best changes with what is gone. False: nothing went.
 */
static bool give_up(struct remat *m, uint32_t n, uint64_t budget, bool one)
{
	double bytes = 0, enough = fmin((double)(m->peak - budget) / 2, (double)m->peak / 32);
	uint32_t i, k;

	for (i = 0; i < n && !m->no_memory && bytes < enough; i++) {
		if (!m->kept[m->cand[i].val])
			continue;
		/* of what is kept by now: beside one that has gone others are dearer */
		if (score(m, m->cand[i].val) < 0.7 * m->cand[i].score && i)
			continue;
		for (k = 0; k < m->n_along && PUSH(m, gone, m->along[k]); k++) {
			m->kept[m->along[k]] = false;
			bytes += (double)bytes_of(m, m->along[k]);
		}
		if (one)
			break;
	}
	return bytes > 0;
}

/* Keep again what was given up from entry @to of the list on. */
static void take_back(struct remat *m, uint32_t to)
{
	while (m->n_gone > to)
		m->kept[m->gone[--m->n_gone]] = true;
}

/* Until no more than @budget is had at a time, or giving up nothing makes it less. */
static void descend(struct remat *m, uint64_t budget)
{
	bool one = false;
	uint32_t before, n;
	uint64_t was;

	while (m->peak > budget && !m->no_memory) {
		before = m->n_gone;
		was = m->peak;
		n = list_candidates(m);
		if (!give_up(m, n, budget, one))
			break;
		run_through(m);
		if (m->peak <= was) {
			one = false;
			continue;
		}
		if (one)
			m->open[m->gone[before]] = false;
		take_back(m, before);
		run_through(m);
		one = true;
	}
}

/* Keep again what makes the worst moment better: it parts what is computed at a time. */
static bool part(struct remat *m)
{
	uint32_t i, k;
	uint64_t was;
	bool any = false;

	for (i = m->n_gone; i-- > 0 && !m->no_memory && m->looks > m->n_order;) {
		k = m->gone[i];
		if (!m->end[k] || m->begin[k] > m->worst || m->end[k] < m->worst)
			continue;	/* it has no part in that */
		m->looks -= m->n_order;
		was = m->peak;
		m->kept[k] = true;
		run_through(m);
		if (m->peak < was) {
			m->gone[i] = m->gone[--m->n_gone];
			any = true;
			continue;
		}
		m->kept[k] = false;
		run_through(m);
	}
	return any;
}

static void keep_less(struct remat *m, uint64_t budget)
{
	uint32_t v, n = m->first_val;

	do {
		for (v = 1; v < n; v++)		/* what made it worse may do better now */
			m->open[v] = m->able[v];
		descend(m, budget);
	} while (m->peak > budget && part(m));
}

/* What turned out not to be needed, of the dearest first, as far as looking takes a moment. */
static void keep_more(struct remat *m, uint64_t budget)
{
	uint32_t i, n = m->n_gone;

	memset(m->made, 0, m->first * sizeof(*m->made));	/* all of what they take */
	for (i = 0; i < n && !m->no_memory; i++)
		m->cand[i] = (struct candidate){ m->gone[i], -score(m, m->gone[i]) };
	qsort(m->cand, n, sizeof(*m->cand), by_score);
	for (i = 0; i < n && !m->no_memory && m->looks > m->n_order; i++) {
		m->looks -= m->n_order;
		m->kept[m->cand[i].val] = true;
		run_through(m);
		if (m->peak > budget)
			m->kept[m->cand[i].val] = false;
	}
	run_through(m);
}

/*
 * Is a value the only one of those that are not small that crosses from the nodes up to it to those
 * behind? Then what is kept may be such ones alone: segments are computed one by one.
 */
static bool find_separators(const struct remat *m, bool *is)
{
	uint32_t *last = rlx_calloc(m->first_val, sizeof(*last)), v, k, n, i, across = 0;
	uint64_t sum = 0;		/* of the numbers of those across */
	int64_t large = 0;

	for (v = 1; v < m->first_val && last; v++) {
		for (k = m->reader_at[v]; k < m->reader_at[v + 1]; k++)
			if (m->root[v] && m->reader[k] > last[m->root[v]])
				last[m->root[v]] = m->reader[k];
		large = m->able[v] && bytes_of(m, v) > large ? bytes_of(m, v) : large;
	}
	for (n = 0; n < m->first && last; n++) {
		const struct rlx_node *node = &m->g->node[n];

		for (i = 0; i < node->n_in + node->n_out; i++) {
			v = i < node->n_in ? m->root[node->in[i]] : node->out + (i - node->n_in);
			if (!v || m->root[v] != v || bytes_of(m, v) < large / 16)
				continue;
			if (i < node->n_in && last[v] == n) {
				last[v] = 0;	/* also if it is read twice */
				across--;
				sum -= v;
			} else if (i >= node->n_in && last[v] > n) {
				across++;
				sum += v;
			}
		}
		if (across == 1)
			is[sum] = true;
	}
	rlx_free(last);
	return last;
}

/* ---- which of two ways ---- */

/* What has been found: it can be compared with another, and come back. */
struct found {
	bool		*kept;
	uint64_t	peak;
	double		time;		/* of what is computed once more */
};

static struct found found(const struct remat *m)
{
	struct found f = { .peak = m->peak };
	uint32_t i;

	f.kept = rlx_memdup(m->kept, m->first_val * sizeof(*m->kept));
	for (i = 0; i < m->n_order; i++)
		f.time += m->order[i] < m->first ? m->time[m->order[i]] : 0;
	return f;
}

static void choose(struct remat *m, const struct found *a, const struct found *b, uint64_t budget)
{
	bool fits = a->peak <= budget && b->peak <= budget;
	const struct found *best = (fits ? a->time <= b->time : a->peak <= b->peak) ? a : b;

	memcpy(m->kept, best->kept, m->first_val * sizeof(*m->kept));
	run_through(m);
}

/* From all downwards, and from segments upwards. */
static void find(struct remat *m, uint64_t budget)
{
	bool *separates = rlx_calloc(m->first_val, sizeof(*separates));
	struct found down, up = { NULL };
	uint32_t v;

	keep_less(m, budget);
	if (m->peak <= budget)
		keep_more(m, budget);
	down = found(m);
	m->n_gone = 0;
	m->looks = MOST_LOOKS;
	m->no_memory |= !separates || !down.kept || !find_separators(m, separates);
	for (v = 1; v < m->first_val && !m->no_memory; v++) {
		if (!m->able[v])
			continue;
		m->kept[v] = separates[v];
		if (!separates[v])
			PUSH(m, gone, v);
	}
	if (!m->no_memory) {
		run_through(m);
		keep_less(m, budget);
		if (m->peak <= budget)
			keep_more(m, budget);
		up = found(m);
		m->no_memory |= !up.kept;
	}
	if (!m->no_memory)
		choose(m, &down, &up, budget);
	rlx_free(separates);
	rlx_free(down.kept);
	rlx_free(up.kept);
}

/* ---- what is known from the beginning ---- */

static void find_roots(struct remat *m)
{
	const struct rlx_graph *g = m->g;
	uint32_t n, i;

	for (n = 0; n < m->first; n++) {
		const struct rlx_node *v = &g->node[n];

		for (i = 0; i < v->n_out; i++) {
			m->root[v->out + i] = v->def->traits & RLX_T_LEAF ? 0 : v->out + i;
			m->kept[v->out + i] = true;
			m->open[v->out + i] = repeats(v);
		}
		if (is_view(v) && v->in[0])
			m->root[v->out] = m->root[v->in[0]];
	}
}

static bool find_readers(struct remat *m)
{
	const struct rlx_graph *g = m->g;
	uint32_t n, i, v, at = 0;

	for (n = 0; n < m->first; n++)
		for (i = 0; i < g->node[n].n_in; i++)
			m->reader_at[g->node[n].in[i] + 1]++;
	m->reader_at[1] = 0;		/* of absent ones */
	for (v = 1; v <= m->first_val; v++)
		at = m->reader_at[v] += at;
	m->reader = rlx_calloc(at + 1ul, sizeof(*m->reader));
	if (!m->reader)
		return false;
	for (n = 0; n < m->first; n++)
		for (i = 0; i < g->node[n].n_in; i++)
			if (g->node[n].in[i])
				m->reader[m->reader_at[g->node[n].in[i]]++] = n;
	for (v = m->first_val; v > 0; v--)	/* from ends to beginnings */
		m->reader_at[v] = m->reader_at[v - 1];
	return true;
}

static bool find_times(struct remat *m)
{
	const struct rlx_type **types;
	struct rlx_cost c;
	uint32_t n, most = 1;

	for (n = 0; n < m->first; n++)
		most = m->g->node[n].n_in > most ? m->g->node[n].n_in : most;
	types = rlx_malloc(most * sizeof(*types));
	for (n = 0; types && n < m->first; n++) {
		if (m->g->node[n].def->traits & RLX_T_LEAF || is_view(&m->g->node[n]))
			continue;
		c = rlx_node_cost(m->g, &m->g->node[n], types);
		m->time[n] = c.bytes + c.flops / ops_per_byte;
	}
	rlx_free(types);
	return types;
}

static bool begin(struct remat *m, const rlx_value *d, uint32_t n_d)
{
	uint32_t n = m->first, v = m->first_val;

	m->root = rlx_calloc(v + 1ul, sizeof(*m->root));
	m->begin = rlx_calloc(v + 1ul, sizeof(*m->begin));
	m->end = rlx_calloc(v + 1ul, sizeof(*m->end));
	m->kept = rlx_calloc(v + 1ul, sizeof(*m->kept));
	m->open = rlx_calloc(v + 1ul, sizeof(*m->open));
	m->able = rlx_calloc(v + 1ul, sizeof(*m->able));
	m->reader_at = rlx_calloc(v + 2ul, sizeof(*m->reader_at));
	m->cand = rlx_calloc(v + 1ul, sizeof(*m->cand));
	m->made = rlx_calloc(n + 1ul, sizeof(*m->made));
	m->seen = rlx_calloc(n + 1ul, sizeof(*m->seen));
	m->time = rlx_calloc(n + 1ul, sizeof(*m->time));
	if (!m->root || !m->begin || !m->end || !m->kept || !m->open || !m->able || !m->reader_at ||
	    !m->cand || !m->made || !m->seen || !m->time)
		return false;
	find_roots(m);
	m->live = rlx_ad_live(m->g, d, n_d);
	return m->live && find_readers(m) && find_times(m);
}

static void fini(struct remat *m)
{
	rlx_free(m->root);
	rlx_free(m->begin);
	rlx_free(m->end);
	rlx_free(m->kept);
	rlx_free(m->open);
	rlx_free(m->able);
	rlx_free(m->reader);
	rlx_free(m->reader_at);
	rlx_free(m->cand);
	rlx_free(m->made);
	rlx_free(m->live);
	rlx_free(m->seen);
	rlx_free(m->time);
	rlx_free(m->order);
	rlx_free(m->change);
	rlx_free(m->list);
	rlx_free(m->along);
	rlx_free(m->gone);
}

/*
 * Of what is needed, as was just found, all is kept, and of the rest what cannot be computed
 * again. Gives up what is inside a scope, the outermost: read by nothing outside. False: there is
 * none.
 */
static bool give_up_marked(struct remat *m)
{
	const struct rlx_graph *g = m->g;
	uint32_t v, k, top, r;
	bool any = false;

	for (v = 1; v < m->first_val; v++) {
		m->kept[v] = m->end[v] || !m->open[v];
		m->open[v] = m->open[v] && m->end[v];
	}
	for (v = 1; v < m->first_val; v++)	/* views are read in the place of what they see */
		for (k = m->reader_at[v]; k < m->reader_at[v + 1]; k++) {
			r = m->root[v];
			top = r ? rlx_scope_top(g, rlx_node_of(g, r)->scope) : 0;
			if (top && !is_view(&g->node[m->reader[k]]) &&
			    rlx_scope_top(g, g->node[m->reader[k]].scope) != top)
				m->seen[node_of(m, r)] = UINT32_MAX;
		}
	for (v = 1; v < m->first_val; v++) {
		if (!m->open[v] || !rlx_scope_top(g, rlx_node_of(g, v)->scope) ||
		    m->seen[node_of(m, v)] == UINT32_MAX)
			continue;
		any = true;
		m->kept[v] = m->open[v] = false;
	}
	memcpy(m->able, m->open, m->first_val * sizeof(*m->able));
	return any;
}

static void choose_and_rebuild(struct remat *m, uint64_t budget, rlx_value *d, uint32_t n)
{
	uint64_t all;
	bool marked;

	run_through(m);
	if (m->no_memory)
		return;
	all = m->peak;
	marked = give_up_marked(m);
	memset(m->seen, 0, m->first * sizeof(*m->seen));
	if (!marked && (!budget || all <= budget))
		return;
	run_through(m);
	if (budget && m->peak > budget)
		find(m, budget);
	if (!m->no_memory && budget && m->peak > budget) {
		rlx_fail(&m->g->err, RLX_ERANGE, "gradient: the backward pass has %llu bytes of "
			 "what was computed before it, %llu at least if it computes some once more; "
			 "memory allows %llu", (unsigned long long)all,
			 (unsigned long long)m->peak, (unsigned long long)budget);
		return;
	}
	if (rlx_debug_on(RLX_DEBUG_PASS))
		rlx_log(RLX_LOG_DEBUG, "gradient: of %llu bytes %llu are kept, %u nodes run twice",
			(unsigned long long)all, (unsigned long long)m->peak,
			m->n_order - (m->g->n_node - m->first));
	if (!m->no_memory)
		rlx_ad_rebuild(m, d, n);
}

void rlx_ad_remat(struct rlx_graph *g, uint32_t first, uint32_t first_val, uint64_t budget,
		  rlx_value *d, uint32_t n)
{
	struct remat m = {
		.g = g, .first = first, .first_val = first_val, .looks = MOST_LOOKS,
	};

	if (!budget && !g->last_scope)
		return;
	m.no_memory = !rlx_ad_merge_equal(g, d, n) || !begin(&m, d, n);
	if (!m.no_memory)
		choose_and_rebuild(&m, budget, d, n);
	if (m.no_memory)
		rlx_fail(&g->err, RLX_ENOMEM, "gradient: out of memory");
	fini(&m);
}
