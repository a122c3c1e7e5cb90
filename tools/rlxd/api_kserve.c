// SPDX-License-Identifier: MIT
/* KServe's protocol, version 2: health, metadata, inference, shared memory. */
#include <string.h>

#include "base/alloc.h"
#include "tools/rlxd/api.h"
#include "tools/rlxd/infer.h"
#include "tools/rlxd/loop.h"
#include "tools/rlxd/rows.h"
#include "tools/rlxd/server.h"
#include "tools/rlxd/wire.h"

/* More are read by a worker, wherever they are and however short the JSON is. */
enum { INLINE_ELEMENTS = 16 << 10 };

bool kserve_server(struct req *r)
{
	req_ok(r, "application/json");
	obuf_str(&r->reply.body, "{\"name\":\"rlxd\",\"version\":\"" RLX_VERSION "\","
		 "\"extensions\":[\"binary_tensor_data\",\"system_shared_memory\","
		 "\"model_repository\",\"model_configuration\"]}");
	return true;
}

bool kserve_live(struct req *r)
{
	req_ok(r, "application/json");
	obuf_str(&r->reply.body, "{\"live\":true}");
	return true;
}

bool kserve_ready(struct req *r)
{
	if (!api_is_ready(r))
		return true;
	req_ok(r, "application/json");
	obuf_str(&r->reply.body, "{\"ready\":true}");
	return true;
}

bool kserve_index(struct req *r)
{
	struct obuf *o = &r->reply.body;
	unsigned int i, n = 0;

	req_ok(r, "application/json");
	obuf_str(o, "[");
	for (i = 0; i < r->set->n; i++) {
		if (!(r->may_use >> i & 1))
			continue;
		obuf_str(o, n++ ? ",{\"name\":" : "{\"name\":");
		obuf_json(o, r->set->model[i]->name, strlen(r->set->model[i]->name));
		obuf_str(o, ",\"version\":\"" MODEL_VERSION "\",\"state\":\"READY\"}");
	}
	obuf_str(o, "]");
	return true;
}

/* A model's inputs or outputs, in metadata's form or in that of a configuration. */
static void put_tensors(struct obuf *o, const struct tensor_desc *d, unsigned int n,
			bool config)
{
	unsigned int i;

	obuf_str(o, "[");
	for (i = 0; i < n; i++, d++) {
		obuf_str(o, i ? ",{\"name\":" : "{\"name\":");
		obuf_json(o, d->name, strlen(d->name));
		obuf_fmt(o, config ? ",\"data_type\":\"TYPE_%s\",\"dims\":" :
			 ",\"datatype\":\"%s\",\"shape\":",
			 wire_name(d->dtype) ? wire_name(d->dtype) : "?");
		wire_shape(o, d->dim, d->rank);
		if (config)
			obuf_fmt(o, ",\"optional\":%s", d->optional ? "true" : "false");
		obuf_str(o, "}");
	}
	obuf_str(o, "]");
}

bool kserve_model(struct req *r)
{
	struct obuf *o = &r->reply.body;

	req_ok(r, "application/json");
	obuf_str(o, "{\"name\":");
	obuf_json(o, r->model->name, strlen(r->model->name));
	obuf_str(o, ",\"versions\":[\"" MODEL_VERSION "\"],\"platform\":\"");
	obuf_str(o, r->model->platform);
	obuf_str(o, "\",\"inputs\":");
	put_tensors(o, r->model->in, r->model->n_in, false);
	obuf_str(o, ",\"outputs\":");
	put_tensors(o, r->model->out, r->model->n_out, false);
	obuf_str(o, "}");
	return true;
}

bool kserve_model_ready(struct req *r)
{
	req_ok(r, "application/json");
	obuf_str(&r->reply.body, "{\"name\":");
	obuf_json(&r->reply.body, r->model->name, strlen(r->model->name));
	obuf_str(&r->reply.body, ",\"ready\":true}");
	return true;
}

/* Batches are part of the dims, so max_batch_size is 0 as Triton has it. */
bool kserve_config(struct req *r)
{
	struct obuf *o = &r->reply.body;

	req_ok(r, "application/json");
	obuf_str(o, "{\"name\":");
	obuf_json(o, r->model->name, strlen(r->model->name));
	obuf_str(o, ",\"platform\":\"\",\"backend\":\"rlx\",\"max_batch_size\":0,\"input\":");
	put_tensors(o, r->model->in, r->model->n_in, true);
	obuf_str(o, ",\"output\":");
	put_tensors(o, r->model->out, r->model->n_out, true);
	obuf_str(o, "}");
	return true;
}

void kserve_infer_clean(struct req *r)
{
	struct infer *f = r->work;
	unsigned int i;

	if (!f)
		return;
	for (i = 0; i < MODEL_IO_MAX; i++) {
		rlx_free(f->own[i]);
		if (!f->vectors)
			rlx_free((void *)f->result[i].data);
	}
	for (i = 0; i < f->n_region; i++)
		region_put(f->region[i]);
	rlx_free(f->vectors);
	rlx_free(r->job.rows);
	rlx_free(f);
}

static int64_t at(const char *p, int64_t k)
{
	int64_t v;

	memcpy(&v, p + (size_t)k * sizeof(v), sizeof(v));
	return v;
}

/* Row @i's tokens: those before its first 0 in the mask, all of them valid ids. */
static bool take_row(struct req *r, const struct tensor *ids, const struct tensor *mask,
		     unsigned int i)
{
	int64_t seq = ids->type.dim[1], n, k;
	const char *id = (const char *)ids->data + (size_t)(i * seq) * sizeof(int64_t);
	const char *m = mask ? (const char *)mask->data + (id - (const char *)ids->data) : NULL;
	int64_t vocab = r->model->vocab;

	n = m ? model_mask_tokens(m, seq) : seq;
	if (n < 0) {
		req_fail(r, 400, "attention_mask row %u is not ones followed by zeros", i);
		return false;
	}
	if (!n || n > r->model->max_tokens) {
		req_fail(r, 400, "row %u has %lld tokens, model %s takes 1 to %lld", i,
			 (long long)n, r->model->name, (long long)r->model->max_tokens);
		return false;
	}
	for (k = 0; k < n; k++)
		if (at(id, k) < 0 || at(id, k) >= vocab) {
			req_fail(r, 400, "input_ids[%u][%lld] is %lld, no token id of model %s "
				 "(0 to %lld)", i, (long long)k, (long long)at(id, k),
				 r->model->name, (long long)vocab - 1);
			return false;
		}
	r->job.rows[i].ids = id;
	r->job.rows[i].tokens = (uint32_t)n;
	return true;
}

static const struct tensor *input(const struct infer *f, const char *name)
{
	unsigned int i;

	for (i = 0; i < f->n_in; i++)
		if (!strcmp(f->in[i].name, name))
			return &f->in[i];
	return NULL;
}

/*
 * Shared memory can change between our check of an id and its use: then a copy of
 * it is what is checked and used.
 */
static bool own_inputs(struct req *r)
{
	struct infer *f = r->work;
	unsigned int i;

	for (i = 0; f->n_region && i < f->n_in; i++) {
		if (f->own[i])
			continue;
		f->own[i] = account_memdup(&r->account, f->in[i].data, f->in[i].bytes);
		if (!f->own[i]) {
			req_fail_memory(r, "the request");
			return false;
		}
		f->in[i].data = f->own[i];
		r->copied += f->in[i].bytes;
	}
	return true;
}

/* How many rows are run apart from each other; 0: the request is one run. */
static bool take_count(struct req *r, unsigned int *out)
{
	struct infer *f = r->work;
	struct rlx_error err = { 0 };
	enum rlx_status st = rows_count(r->model, f->in, f->n_in, out, &err);

	if (st)
		req_fail(r, st == RLX_ERANGE ? 413 : 400, "%s", err.text);
	return !st;
}

static bool submit_encoder(struct req *r)
{
	struct infer *f = r->work;
	const struct tensor *ids = input(f, "input_ids"), *mask = input(f, "attention_mask");
	size_t width = (size_t)r->model->width;
	unsigned int i, n;

	if (!take_count(r, &n))
		return false;
	if (!n) {
		req_fail(r, 400, "a batch of 0 rows; model %s takes 1 to %lld", r->model->name,
			 (long long)r->model->conf.max_queue);
		return false;
	}
	if (mask && mask->type.dim[1] != ids->type.dim[1]) {
		req_fail(r, 400, "attention_mask and input_ids differ in shape");
		return false;
	}
	r->job.rows = account_alloc(&r->account, n, sizeof(*r->job.rows));
	f->vectors = account_alloc(&r->account, n, width * sizeof(float));
	if (!r->job.rows || !f->vectors) {
		req_fail_memory(r, "the request");
		return false;
	}
	if (!own_inputs(r))
		return false;
	ids = input(f, "input_ids");
	mask = input(f, "attention_mask");
	for (i = 0; i < n; i++) {
		if (!take_row(r, ids, mask, i))
			return false;
		r->job.rows[i].out = f->vectors + i * width;
	}
	r->job.n_rows = n;
	f->result[0] = (struct tensor){
		r->model->out[0].name, rlx_type(RLX_F32, (int64_t)n, r->model->width),
		f->vectors, n * width * sizeof(float),
	};
	return req_submit(r);
}

static bool submit_tensors(struct req *r)
{
	struct infer *f = r->work;
	unsigned int n;

	if (!take_count(r, &n))
		return false;
	r->job.rows = account_alloc(&r->account, n + !n, sizeof(*r->job.rows));
	if (!r->job.rows) {
		req_fail_memory(r, "the request");
		return false;
	}
	rows_fill(&r->job, n, f->in, f->n_in, f->result);
	return req_submit(r);
}

/* How many elements the inputs have, by their shapes; no more than UINT32_MAX. */
static uint64_t count_elements(const struct rlx_json *j)
{
	uint32_t node = rlx_json_kind(j, 0) == RLX_JSON_OBJ ? rlx_json_get(j, 0, "inputs") : 0;
	struct rlx_json_iter it, d;
	uint64_t sum = 0, n;
	uint32_t shape;
	int64_t v;

	if (!node || rlx_json_kind(j, node) != RLX_JSON_ARR)
		return 0;
	for (it = rlx_json_iter(j, node); rlx_json_next(&it); sum += n) {
		shape = rlx_json_get(j, it.val, "shape");
		n = shape && rlx_json_kind(j, shape) == RLX_JSON_ARR;
		if (!n)
			continue;
		for (d = rlx_json_iter(j, shape); rlx_json_next(&d); ) {
			if (!rlx_json_int(j, d.val, &v) || v < 0)
				v = 0;
			if (__builtin_mul_overflow(n, (uint64_t)v, &n) || n > UINT32_MAX)
				return UINT32_MAX;
		}
	}
	return sum < UINT32_MAX ? sum : UINT32_MAX;
}

/* False: the reply says why not. */
static bool parse(struct req *r)
{
	size_t n = r->has_infer_length ? (size_t)r->infer_length : r->body_n;
	struct rlx_json_limits lim = req_json_limits(r, n);
	struct rlx_error err = { 0 };

	lim.nodes = 16 << 20;
	lim.depth = 16;
	if (rlx_json_parse(&r->json, r->body, n, &lim, "request", &err)) {
		req_fail(r, err.status == RLX_ENOMEM ? 503 : 400, "%s", err.text);
		return false;
	}
	return true;
}

/* True: queued, false: the reply says why not. */
static bool prepare(struct req *r)
{
	if (!r->json.text && !parse(r))
		return false;
	r->work = rlx_calloc(1, sizeof(struct infer));
	if (!r->work) {
		req_fail_memory(r, "the request");
		return false;
	}
	if (!infer_read(r))
		return false;
	return r->model->embeds ? submit_encoder(r) : submit_tensors(r);
}

static void prepare_task(struct task *t)
{
	struct req *r = (struct req *)((char *)t - offsetof(struct req, task));

	/* Nobody takes a reply of one that is cancelled. */
	if (atomic_load(&r->cancelled) || !prepare(r))
		loop_post(r->loop, r);
}

bool kserve_infer(struct req *r)
{
	size_t n = r->has_infer_length ? (size_t)r->infer_length : r->body_n;
	uint64_t elements = 0;

	if (r->has_infer_length && r->infer_length > r->body_n) {
		req_fail(r, 400, "Inference-Header-Content-Length is %llu, the body has %zu bytes",
			 (unsigned long long)r->infer_length, r->body_n);
		return true;
	}
	if (loop_may_read(r->loop, n)) {
		if (!parse(r))
			return true;
		elements = count_elements(&r->json);
		if (elements <= INLINE_ELEMENTS)
			return !prepare(r);
	}
	req_read(r, prepare_task, n + elements);
	return false;
}
