// SPDX-License-Identifier: MIT
/* OpenAI's /v1/models and /v1/embeddings. */
#include <string.h>

#include "base/alloc.h"
#include "tools/rlxd/api.h"
#include "tools/rlxd/loop.h"
#include "tools/rlxd/model.h"
#include "tools/rlxd/req.h"
#include "tools/rlxd/server.h"

enum { INPUTS_MAX = 2048 /* as the original has it */ };

/* Between the request and its reply. */
struct embed {
	bool		 base64;
	int64_t		**ids;		/* of each input, own memory */
	float		*out;
	uint64_t	 tokens;
	/* Inputs are read a few at a time: those before @n_read are. */
	unsigned int	 n_read;
	bool		 list;		/* of them, in @it; else one, at node @one */
	uint32_t	 one;
	struct rlx_json_iter it;
};

enum progress { DONE, MORE, FAILED };

static void put_model(struct obuf *o, const struct model *m)
{
	obuf_str(o, "{\"id\":");
	obuf_json(o, m->name, strlen(m->name));
	obuf_str(o, ",\"object\":\"model\",\"created\":");
	obuf_int(o, m->loaded);
	obuf_str(o, ",\"owned_by\":\"rlxd\"}");
}

bool openai_models(struct req *r)
{
	struct obuf *o = &r->reply.body;
	unsigned int i, n = 0;

	req_ok(r, "application/json");
	obuf_str(o, "{\"object\":\"list\",\"data\":[");
	for (i = 0; i < r->set->n; i++) {
		if (!(r->may_use >> i & 1))
			continue;
		obuf_str(o, n++ ? "," : "");
		put_model(o, r->set->model[i]);
	}
	obuf_str(o, "]}");
	return true;
}

bool openai_model(struct req *r)
{
	req_ok(r, "application/json");
	put_model(&r->reply.body, r->model);
	return true;
}

void openai_embeddings_finish(struct req *r)
{
	struct embed *e = r->work;
	struct obuf *o = &r->reply.body;
	size_t width = (size_t)r->model->width, k;
	unsigned int i;

	req_ok(r, "application/json");
	obuf_str(o, "{\"object\":\"list\",\"data\":[");
	for (i = 0; i < r->job.n_rows; i++) {
		const float *x = e->out + i * width;

		obuf_str(o, i ? ",{" : "{");
		obuf_str(o, "\"object\":\"embedding\",\"index\":");
		obuf_int(o, i);
		obuf_str(o, ",\"embedding\":");
		if (e->base64) {
			obuf_str(o, "\"");
			obuf_base64(o, x, width * sizeof(*x));
			obuf_str(o, "\"}");
			continue;
		}
		for (k = 0; k < width; k++) {
			obuf_str(o, k ? "," : "[");
			obuf_float(o, x[k]);
		}
		obuf_str(o, "]}");
	}
	obuf_str(o, "],\"model\":");
	obuf_json(o, r->model->name, strlen(r->model->name));
	obuf_str(o, ",\"usage\":{\"prompt_tokens\":");
	obuf_u64(o, e->tokens);
	obuf_str(o, ",\"total_tokens\":");
	obuf_u64(o, e->tokens);
	obuf_str(o, "}}");
}

size_t openai_embeddings_bytes(const struct req *r)
{
	return r->job.n_rows * (size_t)r->model->width * sizeof(float);
}

void openai_embeddings_clean(struct req *r)
{
	struct embed *e = r->work;
	unsigned int i;

	if (!e)
		return;
	for (i = 0; e->ids && i < r->job.n_rows; i++)
		rlx_free(e->ids[i]);
	rlx_free(e->ids);
	rlx_free(e->out);
	rlx_free(r->job.rows);
	rlx_free(e);
}

static bool is_ids(const struct rlx_json *j, uint32_t node)
{
	return rlx_json_kind(j, node) == RLX_JSON_ARR && rlx_json_len(j, node) &&
	       rlx_json_kind(j, node + 1) == RLX_JSON_NUM;
}

/* Inputs of @node: a text, a list of ids, or a list of one of the two. */
static unsigned int count_inputs(const struct rlx_json *j, uint32_t node)
{
	if (rlx_json_kind(j, node) != RLX_JSON_ARR || is_ids(j, node))
		return 1;
	return rlx_json_len(j, node);
}

static bool take_ids(struct req *r, uint32_t node, unsigned int i)
{
	struct embed *e = r->work;
	const struct rlx_json *j = &r->json;
	uint32_t n = rlx_json_len(j, node), k = 0;
	struct rlx_json_iter it;

	if (n > r->model->max_tokens) {
		req_fail(r, 400, "input[%u] has %u tokens, model %s takes at most %lld", i, n,
			 r->model->name, (long long)r->model->max_tokens);
		return false;
	}
	e->ids[i] = account_alloc(&r->account, n, sizeof(int64_t));
	if (!e->ids[i]) {
		req_fail_memory(r, "the inputs");
		return false;
	}
	for (it = rlx_json_iter(j, node); rlx_json_next(&it); k++)
		if (!rlx_json_int(j, it.val, &e->ids[i][k]) || e->ids[i][k] < 0 ||
		    e->ids[i][k] >= r->model->vocab) {
			req_fail(r, 400, "input[%u][%u] is no token id of model %s (0 to %lld)",
				 i, k, r->model->name, (long long)r->model->vocab - 1);
			return false;
		}
	r->job.rows[i].tokens = n;
	return true;
}

static bool take_text(struct req *r, uint32_t node, unsigned int i)
{
	struct row *row = &r->job.rows[i];
	struct embed *e = r->work;
	struct rlx_error err = { 0 };
	enum rlx_status st;

	if (!rlx_json_len(&r->json, node)) {
		req_fail(r, 400, "input[%u] is an empty text", i);
		return false;
	}
	st = model_encode(r->model, &r->account, rlx_json_text(&r->json, node),
			 rlx_json_len(&r->json, node), row, &err);
	e->ids[i] = (int64_t *)(uintptr_t)row->ids;
	if (st)
		req_fail(r, st == RLX_ENOMEM ? 503 : 400, "input[%u]: %s", i, err.text);
	return !st;
}

static bool take_input(struct req *r, uint32_t node, unsigned int i)
{
	struct embed *e = r->work;
	bool ok;

	if (rlx_json_kind(&r->json, node) == RLX_JSON_STR) {
		ok = take_text(r, node, i);
	} else if (is_ids(&r->json, node)) {
		ok = take_ids(r, node, i);
	} else {
		req_fail(r, 400, "input[%u] is neither a text nor a list of token ids", i);
		ok = false;
	}
	if (!ok)
		return false;
	r->job.rows[i].ids = e->ids[i];
	r->job.rows[i].out = e->out + (size_t)i * (size_t)r->model->width;
	e->tokens += r->job.rows[i].tokens;
	return true;
}

static bool begin_inputs(struct req *r, uint32_t node)
{
	unsigned int n = count_inputs(&r->json, node);
	struct embed *e = r->work;

	if (!n || n > INPUTS_MAX) {
		req_fail(r, 400, "input has %u entries; 1 to %d are taken", n, INPUTS_MAX);
		return false;
	}
	e->ids = account_alloc(&r->account, n, sizeof(*e->ids));
	r->job.rows = account_alloc(&r->account, n, sizeof(*r->job.rows));
	e->out = account_alloc(&r->account, n, (size_t)r->model->width * sizeof(float));
	if (!e->ids || !r->job.rows || !e->out) {
		req_fail_memory(r, "the inputs");
		return false;
	}
	r->job.n_rows = n;
	e->list = rlx_json_kind(&r->json, node) == RLX_JSON_ARR && !is_ids(&r->json, node);
	e->one = node;
	e->it = rlx_json_iter(&r->json, node);
	return true;
}

/* Read inputs until @until (CLOCK_MONOTONIC ns), but one at least. */
static enum progress take_inputs(struct req *r, int64_t until)
{
	struct embed *e = r->work;
	uint32_t node = e->one;

	do {
		if (e->n_read == r->job.n_rows)
			return DONE;
		if (e->list) {
			rlx_json_next(&e->it);
			node = e->it.val;
		}
		if (!take_input(r, node, e->n_read++))
			return FAILED;
	} while (now_ns() < until);
	return MORE;
}

static bool take_model(struct req *r)
{
	const char *name = req_name(r, rlx_json_get(&r->json, 0, "model"));

	if (!name) {
		req_fail(r, 400, "'model' is missing, or no name out of /v1/models");
		return false;
	}
	if (server_may_use(r, name))
		r->model = model_find(r->set, name);
	if (!r->model) {
		req_fail(r, 404, "there is no model '%.60s' here; /v1/models lists what there is",
			 name);
		return false;
	}
	if (!r->model->embeds) {
		req_fail(r, 400, "model %s makes no embeddings; see /v2/models/%s for what it "
			 "takes", r->model->name, r->model->name);
		return false;
	}
	return true;
}

static bool take_options(struct req *r)
{
	struct embed *e = r->work;
	uint32_t node = rlx_json_get(&r->json, 0, "encoding_format");
	int64_t v;

	if (node && !rlx_json_str_is(&r->json, node, "float") &&
	    !rlx_json_str_is(&r->json, node, "base64") &&
	    rlx_json_kind(&r->json, node) != RLX_JSON_NULL) {
		req_fail(r, 400, "encoding_format is neither 'float' nor 'base64'");
		return false;
	}
	e->base64 = node && rlx_json_str_is(&r->json, node, "base64");
	node = rlx_json_get(&r->json, 0, "dimensions");
	if (node && rlx_json_kind(&r->json, node) != RLX_JSON_NULL &&
	    (!rlx_json_int(&r->json, node, &v) || v != r->model->width)) {
		req_fail(r, 400, "model %s gives %lld dimensions and cannot be asked for others",
			 r->model->name, (long long)r->model->width);
		return false;
	}
	return true;
}

/* All but the inputs. False: the reply says why not. */
static bool begin(struct req *r)
{
	struct rlx_json_limits lim = req_json_limits(r, r->body_n);
	struct rlx_error err = { 0 };
	uint32_t node;

	lim.nodes = 4 << 20;
	lim.depth = 8;
	if (rlx_json_parse(&r->json, r->body, r->body_n, &lim, "request", &err)) {
		req_fail(r, err.status == RLX_ENOMEM ? 503 : 400, "%s", err.text);
		return false;
	}
	if (rlx_json_kind(&r->json, 0) != RLX_JSON_OBJ) {
		req_fail(r, 400, "the body is no JSON object");
		return false;
	}
	r->work = rlx_calloc(1, sizeof(struct embed));
	if (!r->work) {
		req_fail_memory(r, "the inputs");
		return false;
	}
	if (!take_model(r) || !take_options(r))
		return false;
	node = rlx_json_get(&r->json, 0, "input");
	if (!node) {
		req_fail(r, 400, "'input' is missing: a text, a list of texts, or token ids");
		return false;
	}
	return begin_inputs(r, node);
}

/*
 * Reads until @until. DONE: it is queued, and no longer ours; FAILED: the reply says why
 * not.
 */
static enum progress prepare(struct req *r, int64_t until)
{
	enum progress p;

	if (!r->work && !begin(r))
		return FAILED;
	p = take_inputs(r, until);
	if (p != DONE)
		return p;
	/* What was read is not needed while rows wait. */
	req_drop_source(r);
	return req_submit(r) ? DONE : FAILED;
}

static void prepare_task(struct task *t)
{
	struct req *r = (struct req *)((char *)t - offsetof(struct req, task));
	enum progress p = FAILED;

	/* Nobody takes a reply of one that is cancelled. */
	if (!atomic_load(&r->cancelled))
		p = prepare(r, now_ns() + WORKER_POOL_SLICE_NS);
	if (p == MORE)
		worker_pool_post_rest(r->loop->server->workers, &r->task);
	else if (p == FAILED)
		loop_post(r->loop, r);
}

bool openai_embeddings(struct req *r)
{
	if (loop_may_read(r->loop, r->body_n))
		return prepare(r, INT64_MAX) == FAILED;
	req_read(r, prepare_task, r->body_n);
	return false;
}
