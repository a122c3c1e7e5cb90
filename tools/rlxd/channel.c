// SPDX-License-Identifier: MIT
/*
 * Requests over channels. A thread for each channel fetches them and queues them as
 * jobs, which run on the slices where they lie, and answers from whichever thread
 * ran them. What would be too long a run is divided into rows, which are copied.
 */
#include <grp.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/overlap.h"
#include "rlx/rlxd.h"
#include "rlx/serve.h"
#include "tools/rlxd/channel.h"
#include "tools/rlxd/log.h"
#include "tools/rlxd/loop.h"
#include "tools/rlxd/node.h"
#include "tools/rlxd/region.h"
#include "tools/rlxd/req.h"
#include "tools/rlxd/rows.h"

enum { FETCH_MAX = 32, FREE_ASKS = 64, PLACE_ALIGN = 64 };	/* the last: rlx/rlxd.h */

/* So often a thread that nobody asks anything tells that it is well. */
static const uint64_t beat_ns = 500000000;

_Static_assert((int)RLXD_TENSORS == MODEL_IO_MAX && (int)RLXD_LENGTHS == CONF_BUCKETS_MAX &&
	       sizeof(struct rlxd_ask) <= RLX_REQUEST_INLINE &&
	       2 * (int)RLXD_TENSORS <= RLX_REQUEST_SLICES_MAX, "what a request can carry");

/* A request to run a model. */
struct ask {
	struct job	 job;
	struct row	 row;
	struct tensor	 in[MODEL_IO_MAX], result[MODEL_IO_MAX];
	struct rlx_buf	 place[2 * MODEL_IO_MAX];
	struct channel	*ch;
	struct rlx_work	*work;
	int64_t		 begun;
	struct ask	*next;
};

struct channel {
	struct server		*server;
	char			 name[64];
	struct rlx_service	*svc;
	pthread_t		 thread;
	int			 node;		/* where it runs */
	struct turn		 turn;
	int64_t			 now;		/* when the last fetch ended */
	_Atomic(int64_t)	 beat;
	atomic_uint		 under_way;	/* queued and not answered */
	atomic_bool		 stop, ended;
	/* Guards the list of asks nobody uses. */
	pthread_mutex_t		 lock;
	struct ask		*free;
	unsigned int		 n_free;
};

static struct ask *ask_new(struct channel *ch, struct rlx_work *w)
{
	struct ask *a;

	pthread_mutex_lock(&ch->lock);
	a = ch->free;
	if (a) {
		ch->free = a->next;
		ch->n_free--;
	}
	pthread_mutex_unlock(&ch->lock);
	if (!a)
		a = rlx_malloc(sizeof(*a));
	if (!a)
		return NULL;
	a->job = (struct job){ .rows = &a->row, .n_rows = 1 };
	a->ch = ch;
	a->work = w;
	a->begun = ch->now;
	return a;
}

static void ask_free(struct ask *a)
{
	struct channel *ch = a->ch;
	bool kept;

	if (a->job.rows != &a->row)
		rlx_free(a->job.rows);
	pthread_mutex_lock(&ch->lock);
	kept = ch->n_free < FREE_ASKS;
	if (kept) {
		a->next = ch->free;
		ch->free = a;
		ch->n_free++;
	}
	pthread_mutex_unlock(&ch->lock);
	if (!kept)
		rlx_free(a);
}

static void answer(struct channel *ch, struct rlx_work *w, int64_t begun,
		   const struct rlx_error *err)
{
	const struct client *c = w->peer->priv;
	int status = err->status ? req_status(err->status) : 200;
	int64_t now = now_ns();

	w->result = err->status;
	metric_count("channel", status);
	hist_add(&metrics.request, now - begun);
	if (log_request(&ch->server->limits, status))
		log_event(LOG_INFO, "request", L_STR("client", c ? c->name : ""),
			  L_INT("pid", w->peer->pid), L_INT("opcode", w->opcode),
			  L_INT("status", status), L_INT("us", (now - begun) / 1000),
			  L_STR("error", err->text));
	/* ESTALE would be a mistake of ours: it was fetched, and is answered once. */
	if (rlx_service_commit(ch->svc, &w, 1))
		log_event(LOG_ERROR, "a request was answered twice", L_STR("channel", ch->name));
}

static void ask_done(struct job *j)
{
	struct ask *a = (struct ask *)((char *)j - offsetof(struct ask, job));
	struct channel *ch = a->ch;

	answer(ch, a->work, a->begun, &j->err);
	model_put(j->model);
	ask_free(a);
	atomic_fetch_sub(&ch->under_way, 1);
}

static bool is_unwanted(const struct job *j)
{
	const struct ask *a = (const struct ask *)((const char *)j - offsetof(struct ask, job));

	return rlx_work_cancelled(a->work);
}

/* The model asked for, with a reference. */
static struct model *find_model(struct channel *ch, struct rlx_work *w,
				struct rlxd_ask *ask, struct rlx_error *err)
{
	char name[RLXD_NAME + 1] = "";
	struct model *m;
	unsigned int i;

	if (w->inline_len != sizeof(*ask)) {
		rlx_fail(err, RLX_EINVAL, "%u bytes of inline data; a struct rlxd_ask has %zu",
			 w->inline_len, sizeof(*ask));
		return NULL;
	}
	memcpy(ask, w->inline_data, sizeof(*ask));
	memcpy(name, ask->model, RLXD_NAME);
	if (!name[0] && w->opcode != RLXD_MODEL) {
		rlx_fail(err, RLX_EINVAL, "the request names no model");
		return NULL;
	}
	m = server_channel_model(ch->server, ch->name, w->peer->priv, name, ask->size[0],
				 w->opcode == RLXD_MODEL ? &w->aux : NULL);
	if (m)
		return m;
	/* For the log, whatever the client wrote there. */
	for (i = 0; name[i]; i++)
		if (name[i] < ' ' || name[i] > '~')
			name[i] = '?';
	rlx_fail(err, RLX_ENOENT, "there is no model '%s' on channel %s", name, ch->name);
	return NULL;
}

static bool fits_place(const struct model *m)
{
	unsigned int i, k, free = 0;

	for (i = 0; i < m->n_in; i++)
		for (k = 0; k < m->in[i].rank; k++)
			free += m->in[i].dim[k] < 0;
	return free <= RLXD_SIZES;
}

static void describe_tensors(struct rlxd_tensor *to, const struct tensor_desc *d, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++, d++, to++) {
		snprintf(to->name, sizeof(to->name), "%.*s", (int)sizeof(to->name) - 1, d->name);
		to->dtype = d->dtype;
		to->rank = d->rank;
		to->optional = d->optional;
		memcpy(to->dim, d->dim, sizeof(to->dim));
	}
}

static enum rlx_status describe(struct channel *ch, struct rlx_work *w,
				struct rlx_error *err)
{
	struct rlxd_model d = { .reserved = 0 };
	struct rlxd_ask ask;
	struct model *m;
	unsigned int i;

	if (w->nr_slices != 1)
		return rlx_fail(err, RLX_EINVAL, "%u slices; a model is told in one", w->nr_slices);
	if (!(w->slice[0].access & RLX_ACCESS_WRITE))
		return rlx_fail(err, RLX_EACCES, "the slice is not to be written to");
	m = find_model(ch, w, &ask, err);
	if (!m)
		return err->status;
	memcpy(d.name, m->name, strlen(m->name));
	d.in_place = fits_place(m);
	d.nr_in = m->n_in;
	d.nr_out = m->n_out;
	if (m->embeds) {
		d.nr_length = m->n_length;
		for (i = 0; i < d.nr_length; i++)
			d.length[i] = (uint32_t)m->length[i];
		d.rows_max = (uint32_t)m->max_batch;
	}
	describe_tensors(d.in, m->in, m->n_in);
	describe_tensors(d.out, m->out, m->n_out);
	memcpy(w->slice[0].ptr, &d, w->slice[0].length < sizeof(d) ?
	       (size_t)w->slice[0].length : sizeof(d));
	model_put(m);
	return RLX_OK;
}

/* Input @i: its type, by the free sizes from @*at on, and whether its slice has it. */
static enum rlx_status take_input(struct ask *a, const struct rlxd_ask *ask, unsigned int i,
				  unsigned int *at, struct rlx_error *err)
{
	const struct tensor_desc *d = &a->job.model->in[i];
	const struct rlx_work_slice *s = &a->work->slice[i];
	struct tensor *t = &a->in[i];
	unsigned int k;
	int64_t bytes;

	t->name = d->name;
	t->data = NULL;
	t->type = (struct rlx_type){ .dtype = d->dtype, .rank = d->rank };
	for (k = 0; k < d->rank; k++)
		t->type.dim[k] = d->dim[k] >= 0 ? d->dim[k] : ask->size[(*at)++];
	bytes = rlx_type_bytes(&t->type);
	if (bytes < 0)
		return rlx_fail(err, RLX_ESHAPE, "input %s: the shape is too large", d->name);
	t->bytes = (size_t)bytes;
	if (!(s->access & RLX_ACCESS_READ))
		return rlx_fail(err, RLX_EACCES, "input %s: its slice is not to be read", d->name);
	if (s->length < t->bytes)
		return rlx_fail(err, RLX_ERANGE, "input %s: its slice has %llu bytes, the shape "
				"needs %zu", d->name, (unsigned long long)s->length, t->bytes);
	return RLX_OK;
}

static enum rlx_status take_slices(struct ask *a, const struct rlxd_ask *ask,
				   struct rlx_error *err)
{
	const struct rlx_work *w = a->work;
	const struct model *m = a->job.model;
	unsigned int i, n_in, at = 0;
	enum rlx_status st = RLX_OK;

	if (!fits_place(m))
		return rlx_fail(err, RLX_ENOSUP, "model %s has more than %d free sizes", m->name,
				RLXD_SIZES);
	n_in = w->nr_slices < m->n_out ? 0 : w->nr_slices - m->n_out;
	if (w->nr_slices != n_in + m->n_out || n_in > m->n_in ||
	    (n_in < m->n_in && !m->in[n_in].optional))
		return rlx_fail(err, RLX_EINVAL, "%u slices; model %s has %u inputs and %u outputs",
				w->nr_slices, m->name, m->n_in, m->n_out);
	for (i = 0; !st && i < n_in; i++)
		st = take_input(a, ask, i, &at, err);
	for (; !st && at < RLXD_SIZES; at++)
		if (ask->size[at])
			st = rlx_fail(err, RLX_EINVAL, "size[%u] is none of model %s", at, m->name);
	for (i = 0; !st && i < w->nr_slices; i++) {
		if (i >= n_in && !(w->slice[i].access & RLX_ACCESS_WRITE))
			st = rlx_fail(err, RLX_EACCES, "output %s: its slice is not to be written "
				      "to", m->out[i - n_in].name);
		else if (w->slice[i].offset % PLACE_ALIGN)	/* by whatever device runs it */
			st = rlx_fail(err, RLX_ERANGE, "%s: its slice begins at byte %llu, not at a "
				      "multiple of %d", i < n_in ? m->in[i].name :
				      m->out[i - n_in].name,
				      (unsigned long long)w->slice[i].offset, PLACE_ALIGN);
		a->place[i] = (struct rlx_buf){ w->slice[i].arena, w->slice[i].offset,
						w->slice[i].length };
	}
	a->row = (struct row){ .in = a->in, .n_in = n_in, .at = ROW_WHOLE, .place = a->place };
	return st;
}

/*
 * Rows that may run in place, as one batch: as long as others can be kept waiting for. As
 * long as none told what it takes, as many as a batch has.
 */
static int64_t rows_in_place(const struct model *m, const struct row *row)
{
	int64_t each = model_row_ns(m, row);

	return each ? MODEL_RUN_NS / each : m->max_batch;
}

/*
 * As for a session in place: what is written is nothing that is still to be read, and no
 * two outputs are in one place. How long those are no row has told yet: all of their slices.
 */
static enum rlx_status check_apart(const struct ask *a, struct rlx_error *err)
{
	const struct rlx_work_slice *s = a->work->slice;
	const struct model *m = a->job.model;
	unsigned int n_in = a->row.n_in, i, o;

	for (o = n_in; o < a->work->nr_slices; o++)
		for (i = 0; i < o; i++) {
			if (!rlx_overlap(s[i].ptr, i < n_in ? a->in[i].bytes : s[i].length,
					 s[o].ptr, s[o].length))
				continue;
			return i < n_in ?
			       rlx_fail(err, RLX_EACCES, "input '%s' shares its memory with "
					"output '%s'", m->in[i].name, m->out[o - n_in].name) :
			       rlx_fail(err, RLX_EINVAL, "output '%s' and output '%s' overlap",
					m->out[i - n_in].name, m->out[o - n_in].name);
		}
	return RLX_OK;
}

/* An encoder's rows: as many tokens as their masks tell, which the client may change. */
static enum rlx_status fill_encoder(struct ask *a, unsigned int n, struct rlx_error *err)
{
	const struct rlx_work_slice *out = &a->work->slice[a->row.n_in];
	size_t width = (size_t)a->job.model->width;
	const struct model *m = a->job.model;
	int64_t seq = a->in[0].type.dim[1], most = m->length[m->n_length - 1], tokens;
	const char *ids = a->in[0].data, *mask = a->row.n_in > 1 ? a->in[1].data : NULL;
	unsigned int i;

	if (mask && a->in[1].type.dim[1] != seq)
		return rlx_fail(err, RLX_ESHAPE, "attention_mask and input_ids differ in shape");
	/* The longest program has room for no more, whatever the masks say. */
	if (seq > most)
		return rlx_fail(err, RLX_ESHAPE, "input_ids of %u x %lld: model %s takes rows of "
				"at most %lld tokens", n, (long long)seq, m->name,
				(long long)most);
	if (out->length < n * width * sizeof(float))
		return rlx_fail(err, RLX_ERANGE, "output %s needs %zu bytes, its slice has %llu",
				a->job.model->out[0].name, n * width * sizeof(float),
				(unsigned long long)out->length);
	for (i = 0; i < n; i++) {
		size_t at = i * (size_t)seq * sizeof(int64_t);

		tokens = mask ? model_mask_tokens(mask + at, seq) : seq;
		if (tokens < 1)
			return rlx_fail(err, RLX_EINVAL, "attention_mask row %u is not ones "
					"followed by zeros", i);
		a->job.rows[i] = (struct row){ .ids = ids + at, .tokens = (uint32_t)tokens,
					       .out = (float *)out->ptr + i * width };
	}
	a->job.n_rows = n;
	return RLX_OK;
}

static enum rlx_status divide(struct ask *a, unsigned int n, struct rlx_error *err)
{
	const struct rlx_work_slice *s = a->work->slice;
	const struct model *m = a->job.model;
	enum rlx_status st = check_apart(a, err);
	unsigned int i;

	if (st)
		return st;
	a->job.rows = rlx_calloc(n, sizeof(*a->job.rows));
	if (!a->job.rows) {
		a->job.rows = &a->row;
		return rlx_fail(err, RLX_ENOMEM, "out of memory");
	}
	for (i = 0; i < a->row.n_in; i++)
		a->in[i].data = s[i].ptr;
	if (m->embeds)
		return fill_encoder(a, n, err);
	for (i = 0; i < m->n_out; i++)
		a->result[i] = (struct tensor){ .data = s[a->row.n_in + i].ptr,
						.bytes = s[a->row.n_in + i].length };
	rows_fill(&a->job, n, a->in, a->row.n_in, a->result);
	return RLX_OK;
}

/* A request whose rows together take too long for one run, and may be run apart. */
static enum rlx_status divide_long(struct ask *a, struct rlx_error *err)
{
	const struct model *m = a->job.model;
	enum rlx_status st;
	unsigned int n;

	/* An encoder takes no more; running it tells so. */
	if (m->embeds && a->in[0].type.dim[0] > m->max_batch)
		return RLX_OK;
	st = rows_count(m, a->in, a->row.n_in, &n, err);
	return st || n < 2 || n <= rows_in_place(m, &a->row) ? st : divide(a, n, err);
}

/* Queue a request. Not RLX_OK: it is to be answered at once. */
static enum rlx_status infer(struct channel *ch, struct rlx_work *w, struct rlx_error *err)
{
	int64_t limit = ch->now + ch->server->limits.request_timeout_ns;
	struct ask *a = ask_new(ch, w);
	struct job *j = &a->job;
	struct rlxd_ask ask;
	enum rlx_status st;

	if (!a)
		return rlx_fail(err, RLX_ENOMEM, "out of memory");
	j->model = find_model(ch, w, &ask, err);
	st = j->model ? take_slices(a, &ask, err) : err->status;
	if (!st)
		st = divide_long(a, err);
	if (!st) {
		j->client = w->peer->priv;
		j->line = w->peer;
		j->queued = ch->now;
		j->deadline = w->deadline_ns && w->deadline_ns < (uint64_t)limit ?
			      (int64_t)w->deadline_ns : limit;
		j->unwanted = is_unwanted;
		j->done = ask_done;
		/* Once queued it may be done at any moment. */
		atomic_fetch_add(&ch->under_way, 1);
		st = model_submit(j, &ch->turn, err);
		if (!st)
			return RLX_OK;
		atomic_fetch_sub(&ch->under_way, 1);
	}
	model_put(j->model);
	ask_free(a);
	return st;
}

static void take_request(struct channel *ch, struct rlx_work *w)
{
	struct rlx_error err = { 0 };

	if (w->opcode == RLXD_INFER) {
		if (!infer(ch, w, &err))
			return;
	} else if (w->opcode != RLXD_MODEL) {
		rlx_fail(&err, RLX_EINVAL, "unknown opcode %u", w->opcode);
	} else {
		describe(ch, w, &err);
	}
	answer(ch, w, ch->now, &err);
}

/* Clients are told apart by user: all processes of one share its quota and its turn. */
static void take_event(struct channel *ch, struct rlx_work *w)
{
	char name[96];

	if (w->kind == RLX_WORK_OPEN) {
		snprintf(name, sizeof(name), "channel:%s:uid:%u", ch->name, w->peer->uid);
		w->peer->priv = server_client(ch->server, name);
		if (!w->peer->priv)
			rlx_service_cut(ch->svc, w->peer->id, "out of memory");
	} else if (w->kind == RLX_WORK_GONE && w->peer->priv) {
		client_put(w->peer->priv);
	}
	if (rlx_service_commit(ch->svc, &w, 1))
		log_event(LOG_ERROR, "an event was answered twice", L_STR("channel", ch->name));
}

static void *channel_main(void *ctx)
{
	struct channel *ch = ctx;
	struct rlx_work *work[FETCH_MAX];
	int i, n = 0;

	region_thread_signals();
	node_enter(ch->node);
	ch->now = now_ns();
	while (n >= 0 && !atomic_load(&ch->stop)) {
		n = rlx_service_fetch(ch->svc, 0, work, 1, FETCH_MAX,
				      (uint64_t)ch->now + beat_ns);
		ch->now = now_ns();
		atomic_store_explicit(&ch->beat, ch->now, memory_order_relaxed);
		for (i = 0; i < n; i++) {
			if (work[i]->kind == RLX_WORK_REQUEST)
				take_request(ch, work[i]);
			else
				take_event(ch, work[i]);
		}
		turn_end(&ch->turn);
	}
	atomic_store(&ch->ended, true);
	return NULL;
}

static bool user_id(const char *s, uint32_t *out)
{
	const struct passwd *p = getpwnam(s);

	if (p)
		*out = p->pw_uid;
	return p != NULL;
}

static bool group_id(const char *s, uint32_t *out)
{
	const struct group *g = getgrnam(s);

	if (g)
		*out = g->gr_gid;
	return g != NULL;
}

/* Numbers stand for themselves. */
static enum rlx_status find_ids(const struct conf_list *l, bool (*find)(const char *, uint32_t *),
				const char *what, uint32_t *out, struct rlx_error *err)
{
	unsigned int i;

	for (i = 0; i < l->n; i++) {
		if (find(l->v[i], &out[i]))
			continue;
		if (!l->v[i][0] || strlen(l->v[i]) > 9 ||
		    l->v[i][strspn(l->v[i], "0123456789")])
			return rlx_fail(err, RLX_ENOENT, "there is no %s '%s'", what, l->v[i]);
		out[i] = (uint32_t)strtoul(l->v[i], NULL, 10);
	}
	return RLX_OK;
}

static enum rlx_status open_service(struct channel *ch, const struct conf_channel *c,
				    struct rlx_error *err)
{
	static const char *const transports[] = { NULL, "shm", "kmod" };
	static const uint64_t spins[] = { RLX_SPIN_AUTO, RLX_SPIN_NEVER, RLX_NO_DEADLINE - 1 };
	uint32_t uids[CONF_LIST_MAX], gids[CONF_LIST_MAX];
	struct rlx_service_opts o = {
		.size = sizeof(o), .address = c->address, .transport = transports[c->transport],
		.flags = RLX_SERVICE_EVENTS, .mode = (uint32_t)c->mode,
		.uids = uids, .nr_uids = c->users.n, .gids = gids, .nr_gids = c->groups.n,
		.depth_max = (uint32_t)c->max_depth, .clients_max = (uint32_t)c->max_clients,
		.user_clients_max = (uint32_t)c->max_user_clients,
		.slices_max = 2 * RLXD_TENSORS, .client_bytes = (uint64_t)c->max_memory,
		.spin_ns = spins[c->spin],
	};
	enum rlx_status st = find_ids(&c->users, user_id, "user", uids, err);

	/* Whom the credentials let in must reach the socket. */
	if (!o.mode)
		o.mode = c->users.n || c->groups.n ? 0666 : 0600;
	if (!st)
		st = find_ids(&c->groups, group_id, "group", gids, err);
	return st ? st : rlx_service_new(&o, &ch->svc, err);
}

static void channel_free(struct channel *ch)
{
	struct ask *a;

	rlx_service_free(ch->svc);
	turn_drop(&ch->turn);
	while ((a = ch->free)) {
		ch->free = a->next;
		rlx_free(a);
	}
	pthread_mutex_destroy(&ch->lock);
	rlx_free(ch);
}

static enum rlx_status open_one(struct server *s, const struct conf_channel *c,
				struct rlx_error *err)
{
	struct channel *ch = rlx_calloc(1, sizeof(*ch));
	struct rlx_error why = { 0 };
	enum rlx_status st;
	int rc;

	if (!ch)
		return rlx_fail(err, RLX_ENOMEM, "out of memory");
	pthread_mutex_init(&ch->lock, NULL);
	ch->server = s;
	ch->turn.inline_ns = s->limits.inline_ns;
	snprintf(ch->name, sizeof(ch->name), "%s", c->name);
	st = open_service(ch, c, &why);
	if (st) {
		rlx_fail(err, st, "[channel %s]: %s", c->name, why.text);
		channel_free(ch);
		return st;
	}
	atomic_store(&ch->beat, now_ns());
	ch->node = (int)s->n_channel % node_count();
	rc = pthread_create(&ch->thread, NULL, channel_main, ch);
	if (rc) {
		channel_free(ch);
		return rlx_fail(err, RLX_ENOMEM, "cannot start a thread: %s", strerror(rc));
	}
	pthread_setname_np(ch->thread, "rlxd-channel");
	/* Loops' threads look at the channels when they are asked for metrics. */
	s->channel[s->n_channel] = ch;
	atomic_fetch_add(&s->n_channel, 1);
	log_event(LOG_NOTE, "channel open", L_STR("channel", ch->name),
		  L_STR("address", c->address),
		  L_STR("transport", rlx_service_transport(ch->svc)));
	return RLX_OK;
}

enum rlx_status channels_open(struct server *s, struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;
	unsigned int i;

	for (i = s->n_channel; !st && i < s->conf->n_channel; i++)
		st = open_one(s, &s->conf->channel[i], err);
	return st;
}

void channels_drain(struct server *s)
{
	unsigned int i;

	for (i = 0; i < s->n_channel; i++)
		rlx_service_stop(s->channel[i]->svc);
}

bool channels_are_idle(const struct server *s)
{
	unsigned int i;

	for (i = 0; i < s->n_channel; i++)
		if (!atomic_load(&s->channel[i]->ended) || atomic_load(&s->channel[i]->under_way))
			return false;
	return true;
}

bool channels_are_alive(const struct server *s, int64_t ns)
{
	int64_t now = now_ns();
	unsigned int i;

	for (i = 0; i < s->n_channel; i++)
		if (now - atomic_load(&s->channel[i]->beat) > ns)
			return false;
	return true;
}

void channels_stop(struct server *s)
{
	unsigned int i;

	for (i = 0; i < s->n_channel; i++) {
		atomic_store(&s->channel[i]->stop, true);
		rlx_service_stop(s->channel[i]->svc);
	}
	for (i = 0; i < s->n_channel; i++)
		pthread_join(s->channel[i]->thread, NULL);
}

void channels_close(struct server *s)
{
	while (s->n_channel)
		channel_free(s->channel[--s->n_channel]);
}

/* What a service counts, and how it is called here. */
static const struct {
	const char	*name, *type, *help;
	size_t		 at;
} counts[] = {
#define AT(m) offsetof(struct rlx_service_stats, m)
	{ "rlxd_channel_clients", "gauge", "Clients connected.", AT(clients) },
	{ "rlxd_channel_arenas", "gauge", "Arenas that clients attached.", AT(arenas) },
	{ "rlxd_channel_arena_bytes", "gauge", "Bytes in them.", AT(arena_bytes) },
	{ "rlxd_channel_refused_total", "counter", "Clients turned away.", AT(refused) },
	{ "rlxd_channel_cut_total", "counter", "Clients thrown out for nonsense.", AT(cut) },
	{ "rlxd_channel_requests_total", "counter", "Requests fetched.", AT(fetched) },
	{ "rlxd_channel_rejected_total", "counter", "Requests that were malformed.",
	  AT(rejected) },
	{ "rlxd_channel_expired_total", "counter", "Requests fetched past their deadline.",
	  AT(expired) },
	{ "rlxd_channel_orphaned_total", "counter", "Answers nobody was there for.",
	  AT(orphaned) },
#undef AT
};

void channels_print(struct server *s, struct obuf *o)
{
	struct rlx_service_stats st[CONF_CHANNELS_MAX];
	unsigned int i, k;

	for (i = 0; i < s->n_channel; i++)
		rlx_service_stats(s->channel[i]->svc, &st[i]);
	for (k = 0; s->n_channel && k < sizeof(counts) / sizeof(counts[0]); k++) {
		metric_head(o, counts[k].name, counts[k].type, counts[k].help);
		for (i = 0; i < s->n_channel; i++)
			obuf_fmt(o, "%s{channel=\"%s\"} %llu\n", counts[k].name,
				 s->channel[i]->name, (unsigned long long)
				 *(uint64_t *)((char *)&st[i] + counts[k].at));
	}
}
