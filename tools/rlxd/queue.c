// SPDX-License-Identifier: MIT
/* Rows wait in a line per connection; a batch takes some of several that fit together. */
#include "base/alloc.h"
#include "tools/rlxd/queue.h"

enum {
	LOOK_AHEAD	= 64,	/* rows of one line looked at for one that fits */
	LINES_AHEAD	= 64,	/* likewise lines of one client */
	FEW_PART	= 64,	/* few rows are such a part of max_queue, or one */
};

/*
 * Weighted fair queueing, twice: among clients, and among the connections of one. What
 * each has been given, in ns of running, is its tag; the virtual time is what each would
 * have if all that wait were served at once, and where one that comes begins. The next
 * batch is of whoever would be through with it first: so a request of one row waits for
 * the batch that runs, not for those of others.
 */

/* A place in a ring; the first member of what stands in one. */
struct turn_link {
	struct turn_link *next, *prev;
};

/* The rows of one connection. */
struct line {
	struct turn_link link;
	const void	*of;		/* names the connection */
	struct row	*head, **tail;
	unsigned int	 n;
	int64_t		 tag;
};

/* The lines of one client. */
struct flow {
	struct turn_link link;
	struct client	*client;
	struct turn_link *line;		/* ring; the first to be asked for a row that fits */
	unsigned int	 n;
	int64_t		 tag, now;	/* its own; its lines' virtual time */
};

/* Both come and go with each request: what is not used is kept. */
union spare {
	union spare	*next;
	struct line	 line;
	struct flow	 flow;
};

static void *take_spare(struct model *m)
{
	union spare *s = m->spare;

	if (!s)
		return rlx_malloc(sizeof(*s));
	m->spare = s->next;
	return s;
}

static void give_spare(struct model *m, void *p)
{
	union spare *s = p;

	s->next = m->spare;
	m->spare = s;
}

/* Last in turn: before the one that is next. */
static void ring_add(struct turn_link **ring, struct turn_link *k)
{
	if (!*ring) {
		*ring = k->next = k->prev = k;
		return;
	}
	k->next = *ring;
	k->prev = (*ring)->prev;
	k->prev->next = k->next->prev = k;
}

static void ring_del(struct turn_link **ring, struct turn_link *k)
{
	if (*ring == k)
		*ring = k->next == k ? NULL : k->next;
	k->next->prev = k->prev;
	k->prev->next = k->next;
}

static struct flow *flow_of(struct model *m, struct client *c)
{
	struct turn_link *k = m->flow;
	struct flow *f;

	if (k)
		do
			if (((struct flow *)k)->client == c)
				return (struct flow *)k;
		while ((k = k->next) != m->flow);
	f = take_spare(m);
	if (!f)
		return NULL;
	*f = (struct flow){ .client = c, .tag = m->virtual_now };
	ring_add(&m->flow, &f->link);
	m->n_flow++;
	return f;
}

static struct line *line_of(struct model *m, struct flow *f, const void *of)
{
	struct turn_link *k = f->line;
	struct line *l;

	if (k)
		do
			if (((struct line *)k)->of == of)
				return (struct line *)k;
		while ((k = k->next) != f->line);
	l = take_spare(m);
	if (!l)
		return NULL;
	*l = (struct line){ .of = of, .tag = f->now };
	l->tail = &l->head;
	ring_add(&f->line, &l->link);
	f->n++;
	return l;
}

/* @l, NULL or without rows, and with it @f, go away if nothing is left of them. */
static void end_empty(struct model *m, struct flow *f, struct line *l)
{
	if (l && !l->head) {
		ring_del(&f->line, &l->link);
		f->n--;
		give_spare(m, l);
	}
	if (!f->line) {
		ring_del(&m->flow, &f->link);
		m->n_flow--;
		give_spare(m, f);
	}
}

/* How many rows of @j's connection wait. */
static unsigned int rows_before(const struct model *m, const struct job *j)
{
	struct turn_link *k = m->flow, *n;

	if (!k)
		return 0;
	do {
		struct flow *f = (struct flow *)k;

		n = f->client == j->client ? f->line : NULL;
		if (n)
			do
				if (((struct line *)n)->of == j->line)
					return ((struct line *)n)->n;
			while ((n = n->next) != f->line);
	} while ((k = k->next) != m->flow);
	return 0;
}

bool queue_has_room(const struct model *m, const struct job *j)
{
	int64_t max = m->conf.max_queue, few = max < FEW_PART ? 1 : max / FEW_PART;
	int64_t n = (int64_t)m->n_rows + j->n_rows;

	if (n <= max)
		return true;
	/* Who fills the queue is not to shut others out. */
	return n <= max + (max + 7) / 8 && (int64_t)rows_before(m, j) + j->n_rows <= few;
}

bool queue_put(struct model *m, const struct job *j)
{
	struct flow *f = flow_of(m, j->client);
	struct line *l = f ? line_of(m, f, j->line) : NULL;
	unsigned int i;

	if (!l) {
		if (f)
			end_empty(m, f, NULL);
		return false;
	}
	for (i = 0; i < j->n_rows; i++) {
		j->rows[i].next = NULL;
		*l->tail = &j->rows[i];
		l->tail = &j->rows[i].next;
	}
	l->n += j->n_rows;
	m->n_rows += j->n_rows;
	return true;
}

static struct row *unlink_row(struct model *m, struct line *l, struct row **at)
{
	struct row *row = *at;

	*at = row->next;
	if (!row->next)
		l->tail = at;
	l->n--;
	m->n_rows--;
	return row;
}

static bool is_wanted(const struct row *row, int64_t now)
{
	const struct job *j = row->job;

	return j->deadline > now && !atomic_load(&j->failed) && !j->unwanted(j);
}

/* What a batch is looked for with. */
struct search {
	struct model	 *m;
	const struct row *first;	/* what others must fit */
	bool		  only_short;
	int64_t		  now;
	struct row	**dropped;
};

static bool may_begin(const struct search *s, const struct row *row)
{
	return !s->only_short || model_is_short(s->m, row);
}

static void drop(const struct search *s, struct line *l, struct row **at)
{
	struct row *row = unlink_row(s->m, l, at);

	row->next = *s->dropped;
	*s->dropped = row;
}

/* The first row of @l that fits s->first, unlinked; or NULL. */
static struct row *line_take(const struct search *s, struct line *l)
{
	struct row **at = &l->head, *row;
	unsigned int n = 0;

	while ((row = *at) && n++ < LOOK_AHEAD) {
		if (!is_wanted(row, s->now)) {
			drop(s, l, at);
			n--;
		} else if (!row->place && s->m->kind->fits(s->m, s->first, row)) {
			return unlink_row(s->m, l, at);
		} else {
			at = &row->next;
		}
	}
	return NULL;
}

/* What a row like this one takes, until one has told. */
static const int64_t guess_ns = 1000000;

/* What @row takes, with all that it stands for. */
static int64_t each_ns(const struct model *m, const struct row *row)
{
	int64_t each = model_row_ns(m, row);

	return (each ? each : guess_ns) * model_rows_of(m, row);
}

/*
 * How many rows like @first may run at once: no run is to take longer than others can be
 * kept waiting for. One alone tells what they take.
 */
static unsigned int batch_rows(const struct model *m, const struct row *first, unsigned int max)
{
	int64_t each = model_row_ns(m, first), n = each ? MODEL_RUN_NS / each : 1;

	if (first->place || n <= 1)
		return 1;
	return n < max ? (unsigned int)n : max;
}

/* What the next batch would take if it were @l's alone. */
static int64_t line_cost(const struct model *m, const struct line *l)
{
	unsigned int n = batch_rows(m, l->head, (unsigned int)m->max_batch);

	return (n < l->n ? n : l->n) * each_ns(m, l->head);
}

enum { STALE = -1 };

/*
 * Whose batch would end first of @f's lines, and what it takes. NULL: none may begin. A line
 * whose first rows nobody wants, STALE, comes first of all: only without them is it known
 * what it takes, for a new connection may have the name of one that went.
 */
static struct line *flow_next(const struct search *s, const struct flow *f, int64_t *out_cost)
{
	struct turn_link *k = f->line;
	int64_t first = INT64_MAX;
	struct line *best = NULL;

	do {
		struct line *l = (struct line *)k;
		int64_t cost;

		if (!is_wanted(l->head, s->now)) {
			*out_cost = STALE;
			return l;
		}
		cost = line_cost(s->m, l);
		if (l->tag + cost >= first || !may_begin(s, l->head))
			continue;
		first = l->tag + cost;
		best = l;
		*out_cost = cost;
	} while ((k = k->next) != f->line);
	return best;
}

/* Likewise of all clients. NULL: nobody waits. */
static struct line *next_line(const struct search *s, struct flow **out_f)
{
	int64_t first = INT64_MAX, cost = 0;
	struct turn_link *k = s->m->flow;
	struct line *best = NULL, *l;

	if (!k)
		return NULL;
	do {
		struct flow *f = (struct flow *)k;

		l = flow_next(s, f, &cost);
		if (l && cost == STALE) {
			*out_f = f;
			return l;
		}
		if (!l || f->tag + cost >= first)
			continue;
		first = f->tag + cost;
		best = l;
		*out_f = f;
	} while ((k = k->next) != s->m->flow);
	return best;
}

static void charge(struct model *m, struct flow *f, struct line *l, int64_t ns)
{
	l->tag += ns;
	f->tag += ns;
	f->now += ns / f->n;
	m->virtual_now += ns / m->n_flow;
}

/* Rows that @l begins with and nobody wants. False: there are none. */
static bool drop_first(const struct search *s, struct line *l)
{
	bool any = false;

	for (; l->head && !is_wanted(l->head, s->now); any = true)
		drop(s, l, &l->head);
	return any;
}

/* The row that a batch begins with. NULL: there is none. */
static struct row *take_first(const struct search *s)
{
	struct row *row = NULL;
	struct flow *f = NULL;
	struct line *l;

	while (!row && (l = next_line(s, &f))) {
		if (!drop_first(s, l)) {
			row = unlink_row(s->m, l, &l->head);
			charge(s->m, f, l, each_ns(s->m, row));
		}
		end_empty(s->m, f, l);
	}
	return row;
}

/* A row of @f that fits, of its lines in turn. */
static struct row *flow_take(const struct search *s, struct flow *f)
{
	unsigned int left = f->n < LINES_AHEAD ? f->n : LINES_AHEAD;
	struct turn_link *k = f->line, *next;
	struct row *row = NULL;
	bool empty, last = false;

	for (; left && !row && !last; left--, k = next) {
		struct line *l = (struct line *)k;

		next = k->next;
		row = line_take(s, l);
		if (row) {
			charge(s->m, f, l, each_ns(s->m, row));
			f->line = next;
		}
		/* With its last line @f is gone. */
		empty = !l->head;
		last = empty && f->n == 1;
		if (empty)
			end_empty(s->m, f, l);
	}
	return row;
}

unsigned int queue_take(struct model *m, int64_t now, bool only_short, struct row **batch,
			unsigned int max, struct row **out_dropped)
{
	struct search s = { .m = m, .only_short = only_short, .now = now,
			    .dropped = out_dropped };
	struct turn_link *k, *next;
	unsigned int n, left;
	struct row *row;
	bool some = true;

	*out_dropped = NULL;
	batch[0] = take_first(&s);
	if (!batch[0])
		return 0;
	s.first = batch[0];
	max = batch_rows(m, batch[0], max);
	/* Round after round, until one finds nothing that fits. */
	for (n = 1; some && n < max && m->flow; ) {
		some = false;
		k = m->flow;
		for (left = m->n_flow; left && n < max; left--, k = next) {
			next = k->next;
			row = flow_take(&s, (struct flow *)k);
			if (row)
				batch[n++] = row;
			some |= row != NULL;
		}
	}
	return n;
}

const struct row *queue_next(struct model *m)
{
	struct search s = { .m = m };
	struct flow *f;
	struct line *l = next_line(&s, &f);

	return l ? l->head : NULL;
}

bool queue_has_short(struct model *m, int64_t now)
{
	struct search s = { .m = m, .only_short = true, .now = now };
	struct flow *f;

	return next_line(&s, &f) != NULL;
}

static int64_t flow_oldest(const struct flow *f)
{
	const struct turn_link *k = f->line;
	int64_t oldest = INT64_MAX;

	do {
		const struct line *l = (const struct line *)k;

		if (l->head->queued < oldest)
			oldest = l->head->queued;
	} while ((k = k->next) != f->line);
	return oldest;
}

int64_t queue_oldest(const struct model *m)
{
	const struct turn_link *k = m->flow;
	int64_t oldest = INT64_MAX, of;

	if (!k)
		return oldest;
	do {
		of = flow_oldest((const struct flow *)k);
		if (of < oldest)
			oldest = of;
	} while ((k = k->next) != m->flow);
	return oldest;
}

void queue_fini(struct model *m)
{
	union spare *s;

	while ((s = m->spare)) {
		m->spare = s->next;
		rlx_free(s);
	}
}
