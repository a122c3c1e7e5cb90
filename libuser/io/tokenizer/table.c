// SPDX-License-Identifier: MIT
/* Containers of a tokenizer: vocabulary, trie, working text, lists. */
#include <string.h>

#include "base/alloc.h"
#include "io/tokenizer/impl.h"
#include "io/tokenizer/utf8.h"
#include "ir/graph.h"

bool tk_pool_add(struct tk_pool *p, const void *s, size_t n, struct tk_str *out)
{
	if (n >= UINT32_MAX - p->n ||
	    !rlx_grow(&p->b, &p->cap, p->n + (uint32_t)n + 1, 1))
		return false;
	*out = (struct tk_str){ p->n, (uint32_t)n };
	memcpy(p->b + p->n, s, n);
	p->n += (uint32_t)n;
	p->b[p->n++] = 0;
	return true;
}

bool tk_vocab_init(struct tk_vocab *v, uint32_t reserve)
{
	uint32_t slots = 64;

	while (slots < 2 * (uint64_t)reserve && slots < 1u << 30)
		slots *= 2;
	v->slot = rlx_calloc(slots, sizeof(*v->slot));
	v->slots = slots;
	return v->slot;
}

void tk_vocab_fini(struct tk_vocab *v)
{
	if (!v->shared) {
		rlx_free(v->pool.b);
		rlx_free(v->tok);
		rlx_free(v->slot);
	}
	*v = (struct tk_vocab){ 0 };
}

/* These bytes where the store has them; NULL: nowhere. */
static void *stored(struct rlx_store *s, const void *p, size_t bytes)
{
	struct rlx_blob *b = rlx_blob_new(p, bytes, NULL, NULL);
	const void *kept = b ? rlx_store_contents(s, b) : NULL;

	rlx_blob_put(b);
	return (void *)(uintptr_t)kept;
}

void tk_vocab_share(struct tk_vocab *v, struct rlx_store *s)
{
	struct tk_vocab in = *v;

	if (!s || !v->n)
		return;
	in.pool.b = stored(s, v->pool.b, v->pool.n);
	in.tok = stored(s, v->tok, v->n * sizeof(*v->tok));
	in.slot = stored(s, v->slot, v->slots * sizeof(*v->slot));
	if (!in.pool.b || !in.tok || !in.slot)
		return;
	in.shared = true;
	tk_vocab_fini(v);
	*v = in;
}

enum { SLOT_ID = 0xffffff };

static enum rlx_status slot_put(const struct tk_vocab *v, uint32_t hash, uint32_t id)
{
	uint32_t i = hash & (v->slots - 1), n;

	for (n = 0; v->slot[i]; n++) {
		if (n == TK_PROBES_MAX)
			return RLX_ENOSUP;
		i = (i + 1) & (v->slots - 1);
	}
	v->slot[i] = (hash & ~(uint32_t)SLOT_ID) | (id + 1);
	return RLX_OK;
}

static enum rlx_status vocab_rehash(struct tk_vocab *v)
{
	enum rlx_status st = RLX_OK;
	struct tk_vocab bigger = *v;
	uint32_t i;

	bigger.slots *= 2;
	bigger.slot = rlx_calloc(bigger.slots, sizeof(*bigger.slot));
	if (!bigger.slot)
		return RLX_ENOMEM;
	for (i = 0; i < v->n && !st; i++) {
		struct tk_str t = v->tok[i];

		if (tk_vocab_has(v, i))
			st = slot_put(&bigger, tk_hash_end(tk_hash(TK_HASH0, v->pool.b + t.off,
								   t.len)), i);
	}
	rlx_free(st ? bigger.slot : v->slot);
	if (!st)
		*v = bigger;
	return st;
}

int64_t tk_vocab_find(const struct tk_vocab *v, uint64_t hash,
		      const struct tk_str *pre, const uint8_t *s, size_t n)
{
	/* @pre is the head of a spelling in this pool: "##" */
	uint32_t h = tk_hash_end(hash), i, k, pre_len = pre ? pre->len : 0;

	if (!v->slots)
		return -1;
	i = h & (v->slots - 1);
	for (k = 0; v->slot[i] && k <= TK_PROBES_MAX; k++, i = (i + 1) & (v->slots - 1)) {
		uint32_t id = (v->slot[i] & SLOT_ID) - 1;
		struct tk_str t;

		if ((v->slot[i] ^ h) > SLOT_ID)
			continue;
		t = v->tok[id];
		if (t.len != pre_len + n || memcmp(v->pool.b + t.off + pre_len, s, n))
			continue;
		if (!pre_len || !memcmp(v->pool.b + t.off, v->pool.b + pre->off,
					pre_len))
			return id;
	}
	return -1;
}

int64_t tk_vocab_get(const struct tk_vocab *v, const void *s, size_t n)
{
	return tk_vocab_find(v, tk_hash(TK_HASH0, s, n), NULL, s, n);
}

enum rlx_status tk_vocab_add(struct tk_vocab *v, const void *s, size_t n,
			     int64_t id)
{
	enum rlx_status st = RLX_OK;
	struct tk_str str;

	if (id < 0 || id >= TK_VOCAB_MAX)
		return RLX_ERANGE;
	if (tk_vocab_has(v, id) || tk_vocab_get(v, s, n) >= 0)
		return RLX_EEXIST;
	if (2 * v->used >= v->slots)
		st = vocab_rehash(v);
	if (!st && (!rlx_grow(&v->tok, &v->cap, (uint32_t)id + 1, sizeof(*v->tok)) ||
		    !tk_pool_add(&v->pool, s, n, &str)))
		st = RLX_ENOMEM;
	if (!st)
		st = slot_put(v, tk_hash_end(tk_hash(TK_HASH0, s, n)), (uint32_t)id);
	if (st)
		return st;
	while (v->n <= id)
		v->tok[v->n++] = (struct tk_str){ UINT32_MAX, 0 };
	v->tok[id] = str;
	if (n > v->longest)
		v->longest = (uint32_t)n;
	v->used++;
	return RLX_OK;
}

static uint32_t edge_slot(const struct tk_trie *t, uint32_t from)
{
	return (uint32_t)(from * 0x9e3779b97f4a7c15u >> 32) & (t->edges - 1);
}

static enum rlx_status edge_put(struct tk_trie *t, uint32_t from, uint32_t child)
{
	uint32_t i = edge_slot(t, from), n;

	for (n = 0; t->edge[i].child; n++) {
		if (n == TK_PROBES_MAX)
			return RLX_ENOSUP;
		i = (i + 1) & (t->edges - 1);
	}
	t->edge[i] = (struct tk_edge){ from, child };
	return RLX_OK;
}

static enum rlx_status edges_grow(struct tk_trie *t)
{
	struct tk_edge *old = t->edge, *edge;
	enum rlx_status st = RLX_OK;
	uint32_t n = t->edges, i;

	edge = rlx_calloc(n ? 2 * (size_t)n : 64, sizeof(*edge));
	if (!edge)
		return RLX_ENOMEM;
	t->edge = edge;
	t->edges = n ? 2 * n : 64;
	for (i = 0; i < n && !st; i++)
		if (old[i].child)
			st = edge_put(t, old[i].from, old[i].child);
	rlx_free(old);
	return st;
}

uint32_t tk_trie_child(const struct tk_trie *t, uint32_t node, uint8_t b)
{
	uint32_t from = node << 8 | b, i, n;

	if (!node)
		return t->first[b];
	i = edge_slot(t, from);
	for (n = 0; t->edge[i].child && n <= TK_PROBES_MAX; n++, i = (i + 1) & (t->edges - 1))
		if (t->edge[i].from == from)
			return t->edge[i].child;
	return 0;
}

static bool node_add(struct tk_trie *t, uint32_t *out)
{
	/* node << 8 must fit */
	if (t->n == 1u << 24 ||
	    !rlx_grow(&t->val, &t->cap, t->n + 1, sizeof(*t->val)))
		return false;
	t->val[t->n] = TK_NONE;
	*out = t->n++;
	return true;
}

enum rlx_status tk_trie_put(struct tk_trie *t, const uint8_t *s, size_t n, int32_t val)
{
	enum rlx_status st = t->edges ? RLX_OK : edges_grow(t);
	uint32_t node = 0, child;

	if (st)
		return st;
	if (!t->n && !node_add(t, &node))
		return RLX_ENOMEM;
	for (; n; n--, s++, node = child) {
		child = tk_trie_child(t, node, *s);
		if (child)
			continue;
		if (2 * t->used >= t->edges)
			st = edges_grow(t);
		if (!st && !node_add(t, &child))
			st = RLX_ENOMEM;
		if (!st && node)
			st = edge_put(t, node << 8 | *s, child);
		if (st)
			return st;
		if (node)
			t->used++;
		else
			t->first[*s] = child;
	}
	if (t->val[node] == TK_NONE)
		t->val[node] = val;
	return RLX_OK;
}

void tk_trie_fini(struct tk_trie *t)
{
	rlx_free(t->edge);
	rlx_free(t->val);
	*t = (struct tk_trie){ 0 };
}

bool tk_buf_reserve(struct tk_buf *b, size_t more)
{
	uint32_t cap = b->cap, map = b->cap;

	if (b->most && more > (b->n < b->most ? b->most - b->n : 0)) {
		b->over = true;
		return false;
	}
	if (more <= b->cap - b->n)
		return true;
	if (more > UINT32_MAX - b->n ||
	    !rlx_grow(&b->b, &cap, b->n + (uint32_t)more, 1) ||
	    !rlx_grow(&b->map, &map, b->n + (uint32_t)more, sizeof(*b->map)))
		return false;	/* @b->b may be larger than cap says: harmless */
	b->cap = cap;
	return true;
}

void tk_bound_growth(struct rlx_tokenizer_scratch *s, uint32_t n)
{
	struct tk_buf *const all[] = { &s->text, &s->seg, &s->tmp };
	uint64_t most = (uint64_t)TK_GROWTH * n + TK_GROWTH_MORE;
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(*all); i++) {
		all[i]->most = most > UINT32_MAX ? UINT32_MAX : (uint32_t)most;
		all[i]->over = false;
	}
}

bool tk_grew_over(const struct rlx_tokenizer_scratch *s)
{
	return s->text.over || s->seg.over || s->tmp.over;
}

bool tk_buf_put(struct tk_buf *b, const void *s, uint32_t n,
		struct rlx_token_span span)
{
	uint32_t i;

	if (!n)
		return true;
	if (!tk_buf_reserve(b, n))
		return false;
	memcpy(b->b + b->n, s, n);
	for (i = 0; i < n; i++)
		b->map[b->n + i] = span;
	b->n += n;
	return true;
}

bool tk_buf_put_cp(struct tk_buf *b, uint32_t cp, struct rlx_token_span span)
{
	uint8_t s[4];

	return tk_buf_put(b, s, rlx_utf8_put(s, cp), span);
}

bool tk_buf_copy(struct tk_buf *b, const struct tk_buf *from, uint32_t begin,
		 uint32_t end)
{
	uint32_t n = end - begin;

	if (!n)
		return true;
	if (!tk_buf_reserve(b, n))
		return false;
	memcpy(b->b + b->n, from->b + begin, n);
	memcpy(b->map + b->n, from->map + begin, n * sizeof(*b->map));
	b->n += n;
	return true;
}

bool tk_piece_add(struct tk_pieces *p, uint32_t begin, uint32_t end, int32_t id)
{
	if (!rlx_grow(&p->v, &p->cap, p->n + 1, sizeof(*p->v)))
		return false;
	p->v[p->n++] = (struct tk_piece){ begin, end, id };
	return true;
}

bool tk_token_add(struct tk_tokens *p, uint32_t id, struct rlx_token_span span)
{
	if (!rlx_grow(&p->v, &p->cap, p->n + 1, sizeof(*p->v)))
		return false;
	p->v[p->n++] = (struct tk_token){ id, span };
	return true;
}
