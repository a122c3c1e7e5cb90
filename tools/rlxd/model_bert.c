// SPDX-License-Identifier: MIT
/* Encoders of the BERT family: tokens in, one vector a row out, in length buckets. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/proc.h"
#include "io/formats/file.h"
#include "io/tokenizer/share.h"
#include "mem/arena.h"
#include "model/mapped.h"
#include "rlx/backend.h"
#include "rlx/bert.h"
#include "rlx/run.h"
#include "rlx/tokenizer.h"
#include "tools/rlxd/budget.h"
#include "tools/rlxd/encoder_sizes.h"
#include "tools/rlxd/model.h"
#include "tools/rlxd/node.h"

enum {
	TOKENS_DEFAULT	= 512,
	SCRATCH_KEPT	= 1 << 20,	/* bytes of one that nobody uses */
	/* A text is read in windows of up to READ_MAX bytes, of which each takes so many. */
	READ_MAX	= 64 << 10,
	READ_EACH	= 64,
	COMPILERS	= 8,		/* threads that compile programs for a GPU, at most */
};

struct scratch {
	struct scratch			*next;
	struct rlx_tokenizer_scratch	*s;
};

/* For replicas of one node: of each size of a batch, in each length. */
struct programs {
	struct rlx_program	*of[ENCODER_SIZES][CONF_BUCKETS_MAX];
};

struct bert {
	struct rlx_bert		*bert;
	struct rlx_tokenizer	*tok;
	struct rlx_bert_info	 info;
	int64_t			 seq[CONF_BUCKETS_MAX];
	int64_t			 rows[ENCODER_SIZES];	/* of a batch; the first is 1 */
	unsigned int		 n_seq, n_size;
	struct programs		*on;		/* n_node of them, by node */
	int			 n_node;
	/* Guards the list of scratches nobody uses. */
	pthread_mutex_t		 lock;
	struct scratch		*scratch;
};

/* Loading: what goes on beside compiling. */
struct aside {
	struct model		*m;
	struct bert		*b;
	struct programs		*to;
	atomic_uint		*next;		/* of the programs that are to be compiled */
	void			 (*fn)(struct aside *a);
	pthread_t		 thread;
	bool			 started;
	enum rlx_status		 st;
	struct rlx_error	 err;
};

/* A session, with its inputs and output where they lie. */
struct slot {
	struct rlx_session	*s;
	int64_t			*ids, *lengths;
	const float		*out;
	uint64_t		 work_bytes;
};

struct bert_replica {
	struct rlx_arena	*arena, *work;	/* work: of whichever program runs */
	uint64_t		 work_taken;	/* pages of it are there */
	struct slot		 of[ENCODER_SIZES][CONF_BUCKETS_MAX];
};

static unsigned int bucket_of(const struct bert *b, uint32_t tokens)
{
	unsigned int i;

	for (i = 0; i + 1 < b->n_seq && b->seq[i] < tokens; i++)
		;
	return i;
}

/* The smallest program that takes so many rows. */
static unsigned int size_of(const struct bert *b, int64_t rows)
{
	unsigned int i;

	for (i = 0; i + 1 < b->n_size && b->rows[i] < rows; i++)
		;
	return i;
}

static void *aside_main(void *ctx)
{
	struct aside *a = ctx;

	a->fn(a);
	return NULL;
}

static void aside_begin(struct aside *a)
{
	a->started = !pthread_create(&a->thread, NULL, aside_main, a);
	if (!a->started)
		a->fn(a);
}

/* What came of it, if @st is good so far. */
static enum rlx_status aside_end(struct aside *a, enum rlx_status st, struct rlx_error *err)
{
	if (a->started)
		pthread_join(a->thread, NULL);
	return st || !a->st ? st : rlx_fail(err, a->st, "%s", a->err.text);
}

static void open_tokenizer(struct aside *a)
{
	const char *path = a->m->conf.tokenizer, *dir = a->m->conf.path;
	char text[4096];

	if (!path) {
		snprintf(text, sizeof(text), "%s/tokenizer.json", dir);
		if (access(text, F_OK))
			snprintf(text, sizeof(text), "%s/vocab.txt", dir);
		path = text;
	}
	a->st = rlx_tokenizer_new_file(path, NULL, &a->b->tok, &a->err);
	if (!a->st)
		rlx_tokenizer_share(a->b->tok, a->m->store);
}

/* Of workspace: what @p needs, if that is more than @bytes. */
static uint64_t most(uint64_t bytes, const struct rlx_program *p)
{
	struct rlx_program_info info;

	rlx_program_info(p, &info);
	return info.work_bytes > bytes ? info.work_bytes : bytes;
}

static enum rlx_status compile(struct model *m, struct bert *b, int64_t batch, int64_t seq,
			       struct rlx_program **out, struct rlx_error *err)
{
	struct rlx_bert_opts o = {
		.size = sizeof(o), .batch = batch, .seq = seq,
		.pool = m->conf.pool ? RLX_BERT_CLS : RLX_BERT_MEAN,
		.normalise = m->conf.normalise,
	};
	struct rlx_compile_opts c = {
		.size = sizeof(c), .device = m->conf.device,
		.threads = (unsigned int)m->conf.threads,
		.precision = (enum rlx_precision)m->conf.precision, .store = m->store,
		.flags = m->conf.strict_bits ? RLX_COMPILE_STRICT_BITS : 0,
	};
	struct rlx_graph *g;
	enum rlx_status st = rlx_bert_graph(b->bert, &o, &g, err);

	if (st)
		return st;
	st = rlx_compile(g, &c, out, err);
	rlx_graph_put(g);
	if (!st)
		model_count_kernels(m, *out);
	return st;
}

/* Programs that nobody is at yet, the longest first: shorter ones share their constants. */
static void compile_some(struct aside *a)
{
	unsigned int n = a->b->n_size * a->b->n_seq, i, size, seq;

	while (!a->st && (i = atomic_fetch_add(a->next, 1)) < n) {
		size = i % a->b->n_size;
		seq = a->b->n_seq - 1 - i / a->b->n_size;
		a->st = compile(a->m, a->b, a->b->rows[size], a->b->seq[seq],
				&a->to->of[size][seq], &a->err);
	}
	if (a->st)
		atomic_store(a->next, n);
}

/*
 * By some threads. What a program needs of a GPU's compiler may take longer than all the rest, and
 * each waits for its own only.
 */
static enum rlx_status compile_all(struct model *m, struct bert *b, struct programs *to,
				   struct rlx_error *err)
{
	unsigned int n = m->device->be->own_threads ? rlx_cpu_allowed() : 2, i;
	struct aside some[COMPILERS];
	enum rlx_status st = RLX_OK;
	atomic_uint next = 0;

	n = n < 2 ? 2 : n < COMPILERS ? n : COMPILERS;
	for (i = 0; i < n; i++) {
		some[i] = (struct aside){
			.m = m, .b = b, .to = to, .next = &next, .fn = compile_some };
		if (i)
			aside_begin(&some[i]);
	}
	compile_some(&some[0]);
	st = aside_end(&some[0], st, err);
	for (i = 1; i < n; i++)
		st = aside_end(&some[i], st, err);
	return st;
}

static void fit_buckets(struct model *m, struct bert *b)
{
	unsigned int i;

	for (i = 0; i < m->conf.n_bucket; i++) {
		if (m->conf.bucket[i] >= b->info.max_seq)
			break;
		b->seq[b->n_seq++] = m->conf.bucket[i];
	}
	if (i < m->conf.n_bucket)
		b->seq[b->n_seq++] = b->info.max_seq;
}

/*
 * How far sentence-transformers reads a text with this model: beyond, vectors would be
 * others than theirs. 0: the folder does not tell.
 */
static enum rlx_status read_max_seq_length(const char *dir, int64_t *out, struct rlx_error *err)
{
	char path[4096];
	struct rlx_json j = { 0 };
	struct rlx_file f;
	enum rlx_status st;
	uint32_t node;

	*out = 0;
	snprintf(path, sizeof(path), "%s/sentence_bert_config.json", dir);
	if (access(path, F_OK) && errno == ENOENT)
		return RLX_OK;
	st = rlx_file_map(&f, path, err);
	if (st)
		return st;
	st = rlx_json_parse(&j, (const char *)f.p, f.n, NULL, path, err);
	node = st ? 0 : rlx_json_get(&j, 0, "max_seq_length");
	/* null: as far as the model goes. */
	if (node && rlx_json_kind(&j, node) != RLX_JSON_NULL &&
	    (!rlx_json_int(&j, node, out) || *out < 3))
		st = rlx_fail(err, RLX_EPARSE, "%s: max_seq_length is no number of tokens from 3 "
			      "on", path);
	rlx_json_fini(&j);
	rlx_file_unmap(&f);
	return st;
}

/* What rlxd.conf says, else the folder; no more than there are programs for. */
static enum rlx_status fit_tokens(struct model *m, const struct bert *b, struct rlx_error *err)
{
	int64_t most = b->seq[b->n_seq - 1], want = m->conf.max_tokens;
	enum rlx_status st = want ? RLX_OK : read_max_seq_length(m->conf.path, &want, err);

	want = want ? want : TOKENS_DEFAULT;
	m->max_tokens = want < most ? want : most;
	return st;
}

static void describe(struct model *m, const struct bert *b)
{
	m->in[0] = (struct tensor_desc){ "input_ids", RLX_I64, 2, { -1, -1 } };
	m->in[1] = (struct tensor_desc){ "attention_mask", RLX_I64, 2, { -1, -1 },
					 .optional = true };
	m->out[0] = (struct tensor_desc){ "embedding", RLX_F32, 2, { -1, b->info.hidden } };
	m->n_in = 2;
	m->n_out = 1;
	m->embeds = true;
	m->width = b->info.hidden;
	m->vocab = b->info.vocab;
	m->n_length = b->n_seq;
	memcpy(m->length, b->seq, b->n_seq * sizeof(b->seq[0]));
	m->weight_bytes = b->info.weight_bytes;
}

static enum rlx_status bert_open(struct model *m, struct rlx_error *err)
{
	struct bert *b = rlx_calloc(1, sizeof(*b));
	struct aside tok = { .m = m, .b = b, .fn = open_tokenizer };
	enum rlx_status st;
	int i;

	if (!b)
		return rlx_fail(err, RLX_ENOMEM, "out of memory");
	pthread_mutex_init(&b->lock, NULL);
	m->state = b;
	st = rlx_bert_open(m->conf.path, &b->bert, err);
	if (st)
		return st;
	aside_begin(&tok);
	rlx_bert_info(b->bert, &b->info);
	fit_buckets(m, b);
	if (!m->conf.max_batch && m->device->be->own_threads)
		m->max_batch = ENCODER_BATCH;
	b->n_size = encoder_sizes(m->max_batch, m->device->be->own_threads, b->rows);
	st = fit_tokens(m, b, err);
	describe(m, b);
	b->n_node = m->conf.replicas < node_count() ? (int)m->conf.replicas : node_count();
	b->on = rlx_calloc((size_t)b->n_node, sizeof(*b->on));
	if (!st && !b->on)
		st = rlx_fail(err, RLX_ENOMEM, "out of memory");
	for (i = 0; !st && i < b->n_node; i++) {
		node_enter(i);
		st = compile_all(m, b, &b->on[i], err);
	}
	node_enter(NODE_ANY);
	return aside_end(&tok, st, err);
}

static void bert_close(struct model *m)
{
	struct bert *b = m->state;
	struct scratch *s;
	unsigned int i, size;
	int k;

	while ((s = b->scratch)) {
		b->scratch = s->next;
		rlx_tokenizer_scratch_free(s->s);
		rlx_free(s);
	}
	for (k = 0; b->on && k < b->n_node; k++)
		for (size = 0; size < b->n_size; size++)
			for (i = 0; i < b->n_seq; i++)
				rlx_program_put(b->on[k].of[size][i]);
	rlx_free(b->on);
	rlx_tokenizer_free(b->tok);
	rlx_bert_put(b->bert);
	pthread_mutex_destroy(&b->lock);
	rlx_free(b);
}

static const struct rlx_file *bert_mapped(const struct model *m, unsigned int i)
{
	const struct bert *b = m->state;

	return rlx_bert_mapped(b->bert, i);
}

/* What its inputs and output take. */
static uint64_t io_bytes(const struct rlx_program *p)
{
	struct rlx_program_info info;

	rlx_program_info(p, &info);
	return info.session_bytes - info.work_bytes;
}

static enum rlx_status open_slot(struct slot *s, struct rlx_program *p,
				 const struct bert_replica *br, struct rlx_error *err)
{
	struct rlx_session_opts o = { .size = sizeof(o), .arena = br->arena, .strict = true,
				      .work = rlx_buf_whole(br->work) };
	enum rlx_status st;

	st = rlx_session_new(p, &o, &s->s, err);
	if (st)
		return st;
	s->work_bytes = most(0, p);
	s->ids = rlx_buf_ptr(rlx_session_buf(s->s, RLX_IO_INPUT, "input_ids"));
	s->lengths = rlx_buf_ptr(rlx_session_buf(s->s, RLX_IO_INPUT, "lengths"));
	s->out = rlx_buf_ptr(rlx_session_buf(s->s, RLX_IO_OUTPUT, "embedding"));
	if (!s->ids || !s->lengths || !s->out)
		return rlx_fail(err, RLX_EBUG, "the encoder's program lacks an input or output");
	return RLX_OK;
}

static void close_slot(struct slot *s)
{
	if (s->s)
		rlx_session_free(s->s);
}

static void bert_replica_close(struct replica *r)
{
	struct bert *b = r->model->state;
	struct bert_replica *br = r->state;
	unsigned int i, size;

	for (size = 0; size < b->n_size; size++)
		for (i = 0; i < b->n_seq; i++)
			close_slot(&br->of[size][i]);
	rlx_arena_put(br->arena);
	rlx_arena_put(br->work);
	rlx_free(br);
	r->state = NULL;
}

/* Workspace is taken as rows come that need it: most models never see a full batch. */
static enum rlx_status run_slot(struct bert_replica *br, struct slot *s, struct rlx_error *err)
{
	if (!rlx_place_extend(br->work, &br->work_taken, s->work_bytes, true))
		return rlx_fail(err, RLX_ENOMEM, "no memory for %llu bytes of workspace",
				(unsigned long long)s->work_bytes);
	return rlx_session_run(s->s);
}

/*
 * The shortest program once: code, tables and threads are there then. The longer
 * programs use the same weights; running each would keep the first request waiting
 * for ten times as long.
 */
static enum rlx_status warm_up(const struct bert *b, struct bert_replica *br,
			       struct rlx_error *err)
{
	enum rlx_status st;
	unsigned int i;

	for (i = 0; i < b->n_size; i++) {
		struct slot *s = &br->of[i][0];

		s->lengths[0] = 1;
		st = i ? rlx_session_extent(s->s, 1, b->rows[i]) : RLX_OK;
		if (!st)
			st = run_slot(br, s, err);
		if (st)
			return rlx_fail(err, st, "%s", rlx_session_error(s->s)->text);
	}
	return RLX_OK;
}

static bool is_sealed(struct rlx_store *s)
{
	struct rlx_store_info info;

	rlx_store_info(s, &info);
	return info.sealed;
}

static enum rlx_status bert_replica_open(struct replica *r, struct rlx_error *err)
{
	struct bert *b = r->model->state;
	const struct programs *p = &b->on[r->node];
	struct bert_replica *br = rlx_calloc(1, sizeof(*br));
	struct rlx_arena_opts io = { .name = "rlxd-encoder" };
	/* For all of its programs: only one runs at a time. */
	struct rlx_arena_opts work = { .name = "rlxd-work", .size = 64, .flags = RLX_ARENA_LAZY };
	enum rlx_status st;
	unsigned int i, size;

	if (!br)
		return rlx_fail(err, RLX_ENOMEM, "out of memory");
	r->state = br;
	for (size = 0; size < b->n_size; size++)
		for (i = 0; i < b->n_seq; i++) {
			io.size += io_bytes(p->of[size][i]);
			work.size = most(work.size, p->of[size][i]);
		}
	st = rlx_arena_new(&io, &br->arena, err);
	if (!st)
		st = rlx_arena_new(&work, &br->work, err);
	/* The largest first: the others share what it has of a device's memory. */
	for (size = b->n_size; size--; )
		for (i = b->n_seq; !st && i--; )
			st = open_slot(&br->of[size][i], p->of[size][i], br, err);
	/* With kept weights who waits gets a reply sooner than from a run of its own. */
	if (st || (r->model->awaited && is_sealed(r->model->store)))
		return st;
	return warm_up(b, br, err);
}

static unsigned int bert_class(const struct model *m, const struct row *row)
{
	/* Rows in place are told by their shape, as their program is chosen. */
	int64_t seq = row->place ? row->in[0].type.dim[1] : row->tokens;

	return bucket_of(m->state, seq > 0 ? (uint32_t)seq : 0);
}

/* Rows of one bucket: a longer one would make the others pay for its length. */
static bool bert_fits(const struct model *m, const struct row *a, const struct row *c)
{
	const struct bert *b = m->state;

	return bucket_of(b, a->tokens) == bucket_of(b, c->tokens);
}

/* How many tokens the rows of @row have, by their masks. */
static enum rlx_status placed_lengths(const struct row *row, int64_t *lengths,
				      uint64_t *out_tokens, struct rlx_error *err)
{
	int64_t n = row->in[0].type.dim[0], seq = row->in[0].type.dim[1], i;
	const char *mask = row->n_in > 1 ? rlx_buf_ptr(row->place[1]) : NULL;

	for (i = 0; i < n; i++) {
		lengths[i] = mask ? model_mask_tokens(mask + i * seq * 8, seq) : seq;
		if (lengths[i] < 1)
			return rlx_fail(err, RLX_EINVAL, "attention_mask row %lld is not ones "
					"followed by zeros", (long long)i);
		*out_tokens += (uint64_t)lengths[i];
	}
	return RLX_OK;
}

/*
 * Rows where the client has them. It may change them meanwhile: the program checks
 * an id before it follows it, and lengths are ours.
 */
static enum rlx_status run_placed(struct replica *r, const struct row *row,
				  struct rlx_error *err)
{
	struct model *m = r->model;
	struct bert *b = m->state;
	struct bert_replica *br = r->state;
	const int64_t *dim = row->in[0].type.dim;
	unsigned int k = dim[1] > 0 ? bucket_of(b, (uint32_t)dim[1]) : 0;
	unsigned int size = size_of(b, dim[0]);
	struct slot *s = &br->of[size][k];
	uint64_t tokens = 0;
	enum rlx_status st;

	if (dim[1] != b->seq[k] || dim[0] < 1 || dim[0] > m->max_batch)
		return rlx_fail(err, RLX_ESHAPE, "input_ids of %lld x %lld: in place 1 to %lld "
				"rows of one of the lengths in buckets are taken",
				(long long)dim[0], (long long)dim[1], (long long)m->max_batch);
	if (row->n_in > 1 && memcmp(dim, row->in[1].type.dim, 2 * sizeof(*dim)))
		return rlx_fail(err, RLX_ESHAPE, "attention_mask and input_ids differ in shape");
	st = placed_lengths(row, s->lengths, &tokens, err);
	if (st)
		return st;
	st = rlx_session_bind(s->s, RLX_IO_INPUT, "input_ids", row->place[0]);
	if (!st)
		st = rlx_session_bind(s->s, RLX_IO_OUTPUT, "embedding", row->place[row->n_in]);
	if (!st && size)
		st = rlx_session_extent(s->s, dim[0], b->rows[size]);
	if (!st)
		st = run_slot(br, s, err);
	if (st)
		rlx_fail(err, st, "model %s: %s", m->name, rlx_session_error(s->s)->text);
	rlx_session_unbind(s->s);
	metric_add(&m->metric.tokens, tokens);
	metric_add(&m->metric.padding, (uint64_t)(dim[0] * dim[1]) - tokens);
	return st;
}

static enum rlx_status bert_run(struct replica *r, struct rlx_error *err)
{
	struct model *m = r->model;
	struct bert *b = m->state;
	struct bert_replica *br = r->state;
	unsigned int k = bucket_of(b, r->batch[0]->tokens), size = size_of(b, r->n), i;
	struct slot *s = &br->of[size][k];
	size_t width = (size_t)b->info.hidden, seq = (size_t)b->seq[k];
	uint64_t tokens = 0;
	enum rlx_status st = RLX_OK;

	if (r->batch[0]->place)
		return run_placed(r, r->batch[0], err);
	for (i = 0; i < r->n; i++) {
		const struct row *row = r->batch[i];

		memcpy(s->ids + i * seq, row->ids, row->tokens * sizeof(*s->ids));
		/* Any id that exists: nothing looks at it. */
		memset(s->ids + i * seq + row->tokens, 0, (seq - row->tokens) * sizeof(*s->ids));
		s->lengths[i] = row->tokens;
		tokens += row->tokens;
	}
	if (size)
		st = rlx_session_extent(s->s, r->n, b->rows[size]);
	if (!st)
		st = run_slot(br, s, err);
	if (st)
		return rlx_fail(err, st, "model %s: %s", m->name,
				rlx_session_error(s->s)->text);
	for (i = 0; i < r->n; i++)
		memcpy(r->batch[i]->out, s->out + i * width, width * sizeof(float));
	metric_add(&m->metric.tokens, tokens);
	metric_add(&metrics.bytes_copied, tokens * sizeof(*s->ids) + r->n * width * sizeof(float));
	metric_add(&m->metric.padding, r->n * seq - tokens);
	return RLX_OK;
}

static struct scratch *scratch_get(struct bert *b, struct rlx_error *err)
{
	struct scratch *s;

	pthread_mutex_lock(&b->lock);
	s = b->scratch;
	if (s)
		b->scratch = s->next;
	pthread_mutex_unlock(&b->lock);
	if (s)
		return s;
	s = rlx_calloc(1, sizeof(*s));
	if (!s) {
		rlx_fail(err, RLX_ENOMEM, "out of memory");
		return NULL;
	}
	if (rlx_tokenizer_scratch_new(b->tok, &s->s, err)) {
		rlx_free(s);
		return NULL;
	}
	return s;
}

/* One that a strange text made large does not stay so. */
static void scratch_put(struct bert *b, struct scratch *s)
{
	if (rlx_tokenizer_scratch_bytes(s->s) > SCRATCH_KEPT) {
		rlx_tokenizer_scratch_free(s->s);
		rlx_free(s);
		return;
	}
	pthread_mutex_lock(&b->lock);
	s->next = b->scratch;
	b->scratch = s;
	pthread_mutex_unlock(&b->lock);
}

/* What reading a text of @n bytes takes beside the scratch that is there. */
static uint64_t reading_bytes(size_t n)
{
	return n < READ_MAX ? READ_EACH * (uint64_t)n : READ_EACH * (uint64_t)READ_MAX;
}

static enum rlx_status bert_encode(struct model *m, struct account *a, const char *text,
				   size_t n, struct row *out, struct rlx_error *err)
{
	struct bert *b = m->state;
	uint32_t max = (uint32_t)m->max_tokens;
	/* Of a text that is too long no more is read than tells that it is. */
	struct rlx_encode_opts o = { .max_tokens = max, .stop = true };
	struct rlx_encoding enc = { 0 };
	enum rlx_status st;
	struct scratch *s;

	out->ids = NULL;
	if (!account_take(a, reading_bytes(n)))
		return rlx_fail(err, RLX_ENOMEM, "no more of max_memory to read a text of %zu "
				"bytes; try again later", n);
	s = scratch_get(b, err);
	if (!s) {
		account_give(a, reading_bytes(n));
		return err->status;
	}
	/* A token stands for one byte at least; the special ones come on top. */
	enc.capacity = n + 8 < max ? (uint32_t)n + 8 : max;
	enc.ids = account_alloc(a, enc.capacity, sizeof(*enc.ids));
	if (!enc.ids) {
		st = rlx_fail(err, RLX_ENOMEM, "no memory for %u tokens; try again later",
			      enc.capacity);
		goto out_scratch;
	}
	st = rlx_tokenizer_encode(s->s, text, n, &o, &enc, err);
	if (!st && enc.cut && !m->conf.truncate)
		st = rlx_fail(err, RLX_ERANGE, "the input has more tokens; model %s takes at most "
			      "%u; shorten it or split it", m->name, max);
	if (st) {
		rlx_free(enc.ids);
		goto out_scratch;
	}
	out->ids = enc.ids;
	out->tokens = enc.n;
out_scratch:
	scratch_put(b, s);
	account_give(a, reading_bytes(n));
	return st;
}

const struct model_kind model_bert = {
	.name	       = "bert",
	.platform      = "rlx_encoder",
	.open	       = bert_open,
	.close	       = bert_close,
	.mapped	       = bert_mapped,
	.replica_open  = bert_replica_open,
	.replica_close = bert_replica_close,
	.class_of      = bert_class,
	.fits	       = bert_fits,
	.run	       = bert_run,
	.encode	       = bert_encode,
};
