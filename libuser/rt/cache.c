// SPDX-License-Identifier: MIT
/*
 * A cache of programs. Entries are found by structural hash and then compared node
 * by node; the least recently used goes first. The lock guards everything in
 * struct rlx_cache and is dropped while a graph compiles: its entry then has no
 * program yet, and others who want it wait.
 */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/graph.h"
#include "rlx/cache.h"

struct entry {
	struct entry		*next;		/* most recently used first */
	uint64_t		 hash;
	struct rlx_graph	*g;
	char			 device[32];
	unsigned int		 threads;
	enum rlx_precision	 precision;
	uint32_t		 flags;
	struct rlx_store	*store;		/* the program's; not counted here */
	struct rlx_program	*program;	/* NULL: being compiled */
	bool			 failed;	/* that compile; whoever waits tries anew */
	unsigned int		 waiting;
};

struct rlx_cache {
	pthread_mutex_t		 lock;
	pthread_cond_t		 changed;
	struct entry		*first;
	unsigned int		 capacity;
	struct rlx_cache_stats	 stats;
};

struct rlx_cache *rlx_cache_new(unsigned int capacity)
{
	struct rlx_cache *c = rlx_calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->capacity = capacity ? capacity : 64;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	return c;
}

static void entry_free(struct entry *e)
{
	rlx_graph_put(e->g);
	rlx_program_put(e->program);
	rlx_free(e);
}

void rlx_cache_free(struct rlx_cache *c)
{
	struct entry *e, *next;

	if (!c)
		return;
	for (e = c->first; e; e = next) {
		next = e->next;
		entry_free(e);
	}
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	rlx_free(c);
}

static bool same_node(const struct rlx_graph *a, const struct rlx_node *x,
		      const struct rlx_graph *b, const struct rlx_node *y)
{
	uint32_t i;

	if (x->def != y->def || x->n_in != y->n_in || x->n_out != y->n_out ||
	    x->scope != y->scope || memcmp(x->in, y->in, x->n_in * sizeof(*x->in)) ||
	    !rlx_args_equal(x->def, x->args, y->args))
		return false;
	for (i = 0; i < x->n_out; i++)
		if (!rlx_type_equal(&a->val[x->out + i].type, &b->val[y->out + i].type))
			return false;
	return true;
}

/* Equal node by node in the same order: stricter than the hash, never looser. */
static bool same_graph(const struct rlx_graph *a, const struct rlx_graph *b)
{
	uint32_t i;
	int io;

	if (a == b)
		return true;
	if (a->n_node != b->n_node || a->n_val != b->n_val)
		return false;
	for (io = 0; io < 3; io++) {
		if (a->io[io].n != b->io[io].n)
			return false;
		for (i = 0; i < a->io[io].n; i++)
			if (a->io[io].e[i].v.id != b->io[io].e[i].v.id ||
			    strcmp(a->io[io].e[i].name, b->io[io].e[i].name))
				return false;
	}
	for (i = 0; i < a->n_node; i++)
		if (!same_node(a, &a->node[i], b, &b->node[i]))
			return false;
	return true;
}

static bool matches(const struct entry *e, const struct entry *want)
{
	return e->hash == want->hash && e->threads == want->threads &&
	       e->precision == want->precision && e->flags == want->flags &&
	       e->store == want->store && !strcmp(e->device, want->device) &&
	       same_graph(e->g, want->g);
}

/* Find and move to the front; the lock is held. */
static struct entry *find(struct rlx_cache *c, const struct entry *want)
{
	struct entry **at, *e;

	for (at = &c->first; *at; at = &(*at)->next)
		if (matches(*at, want)) {
			e = *at;
			*at = e->next;
			e->next = c->first;
			c->first = e;
			return e;
		}
	return NULL;
}

/* Drop entries from the end until there is room; those being made stay. */
static void evict_to_fit(struct rlx_cache *c)
{
	while (c->stats.held >= c->capacity) {
		struct entry **at, **last = NULL, *e;

		for (at = &c->first; *at; at = &(*at)->next)
			if ((*at)->program && !(*at)->waiting)
				last = at;
		if (!last)
			return;
		e = *last;
		*last = e->next;
		c->stats.held--;
		entry_free(e);
	}
}

static void unlink_entry(struct rlx_cache *c, struct entry *e)
{
	struct entry **at;

	for (at = &c->first; *at && *at != e; at = &(*at)->next)
		;
	if (*at)
		*at = e->next;
	c->stats.held--;
}

static enum rlx_status take_key(struct entry *k, struct rlx_graph *g,
				const struct rlx_compile_opts *opts,
				struct rlx_error *err)
{
	const char *device = opts && opts->device ? opts->device : "";

	*k = (struct entry){ .g = g };
	if (!g || !g->finished)
		return rlx_fail(err, RLX_EINVAL, "cache: a finished graph is needed");
	if (strlen(device) >= sizeof(k->device))
		return rlx_fail(err, RLX_ENODEV, "cache: no device '%.40s'", device);
	memcpy(k->device, device, strlen(device) + 1);
	k->threads = opts ? opts->threads : 0;
	k->precision = opts ? opts->precision : RLX_PRECISION_AS_WRITTEN;
	k->flags = opts ? opts->flags : 0;
	k->store = opts && opts->size >= offsetof(struct rlx_compile_opts, store) +
			   sizeof(opts->store) ? opts->store : NULL;
	k->hash = rlx_graph_hash(g);
	return RLX_OK;
}

/* Wait until @e has a program; NULL if making it failed. The lock is held. */
static struct rlx_program *wait_for(struct rlx_cache *c, struct entry *e)
{
	struct rlx_program *p;

	e->waiting++;
	while (!e->program && !e->failed)
		pthread_cond_wait(&c->changed, &c->lock);
	p = rlx_program_get(e->program);
	if (!--e->waiting && e->failed)
		entry_free(e);
	return p;
}

enum rlx_status rlx_cache_compile(struct rlx_cache *c, struct rlx_graph *g,
				  const struct rlx_compile_opts *opts,
				  struct rlx_program **out, struct rlx_error *err)
{
	struct rlx_program *p = NULL;
	struct entry key, *e;
	enum rlx_status st;

	if (!c || !out)
		return rlx_fail(err, RLX_EINVAL,
				"cache: a cache and a place for the program are needed");
	*out = NULL;
	st = take_key(&key, g, opts, err);
	if (st)
		return st;
	pthread_mutex_lock(&c->lock);
	while ((e = find(c, &key)) && !p)
		p = wait_for(c, e);
	if (p) {
		c->stats.hits++;
		pthread_mutex_unlock(&c->lock);
		*out = p;
		return RLX_OK;
	}
	c->stats.misses++;
	e = rlx_memdup(&key, sizeof(key));
	if (e) {
		evict_to_fit(c);
		e->g = rlx_graph_get(g);
		e->next = c->first;
		c->first = e;
		c->stats.held++;
	}
	pthread_mutex_unlock(&c->lock);
	st = rlx_compile(g, opts, &p, err);
	if (!e) {	/* no memory for an entry: the program is the caller's alone */
		*out = p;
		return st;
	}
	pthread_mutex_lock(&c->lock);
	e->program = rlx_program_get(p);
	if (st) {
		e->failed = true;
		unlink_entry(c, e);
		if (!e->waiting)
			entry_free(e);
	}
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	*out = p;
	return st;
}

void rlx_cache_stats(struct rlx_cache *c, struct rlx_cache_stats *out)
{
	if (!out)
		return;
	*out = (struct rlx_cache_stats){ 0 };
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	*out = c->stats;
	pthread_mutex_unlock(&c->lock);
}
