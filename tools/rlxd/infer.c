// SPDX-License-Identifier: MIT
/* KServe's inference requests: tensors out of JSON, binary data and shared memory. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/rlxd/api.h"
#include "tools/rlxd/infer.h"
#include "tools/rlxd/loop.h"
#include "tools/rlxd/server.h"
#include "tools/rlxd/wire.h"

enum { ALIGN = 8 };

/* What is wrong with input or output @name; false, so that it can be returned. */
#define refuse(r, ...) (req_fail((r), 400, __VA_ARGS__), false)

static bool read_shape(struct req *r, uint32_t node, const struct tensor_desc *d,
		       struct rlx_type *out)
{
	const struct rlx_json *j = &r->json;
	struct rlx_json_iter it;
	uint32_t k = 0;

	if (!node || rlx_json_kind(j, node) != RLX_JSON_ARR || rlx_json_len(j, node) > RLX_MAX_RANK)
		return refuse(r, "input %s: 'shape' is no list of at most %d numbers", d->name,
			      RLX_MAX_RANK);
	*out = (struct rlx_type){ .dtype = d->dtype, .rank = rlx_json_len(j, node) };
	if (d->rank != out->rank)
		return refuse(r, "input %s: the shape has %u dimensions, model %s takes %u",
			      d->name, out->rank, r->model->name, d->rank);
	for (it = rlx_json_iter(j, node); rlx_json_next(&it); k++) {
		if (!rlx_json_int(j, it.val, &out->dim[k]) || out->dim[k] < 0)
			return refuse(r, "input %s: shape[%u] is no size", d->name, k);
		if (d->dim[k] >= 0 && out->dim[k] != d->dim[k])
			return refuse(r, "input %s: shape[%u] is %lld, model %s takes %lld", d->name,
				      k, (long long)out->dim[k], r->model->name,
				      (long long)d->dim[k]);
	}
	if (rlx_type_bytes(out) < 0)
		return refuse(r, "input %s: the shape is too large", d->name);
	return true;
}

/*
 * "parameters" of @obj, each of which is a text, a number or a boolean; 0 if there are none, or
 * null, as some clients write that. What is something else was meant to say something.
 */
static bool read_params(struct req *r, uint32_t obj, uint32_t *out)
{
	uint32_t node = rlx_json_get(&r->json, obj, "parameters");
	const struct rlx_json *j = &r->json;
	struct rlx_json_iter it;

	*out = 0;
	if (!node || rlx_json_kind(j, node) == RLX_JSON_NULL)
		return true;
	if (rlx_json_kind(j, node) != RLX_JSON_OBJ)
		return refuse(r, "'parameters' is no object");
	for (it = rlx_json_iter(j, node); rlx_json_next(&it); ) {
		enum rlx_json_kind kind = rlx_json_kind(j, it.val);

		if (kind != RLX_JSON_BOOL && kind != RLX_JSON_NUM && kind != RLX_JSON_STR)
			return refuse(r, "the parameter '%.60s' is no text, number or boolean",
				      rlx_json_text(j, it.key));
	}
	*out = node;
	return true;
}

/* true or false in "parameters"; @out stays if it is not there. */
static bool read_flag(struct req *r, uint32_t params, const char *key, bool *out)
{
	uint32_t node = params ? rlx_json_get(&r->json, params, key) : 0;

	if (!node)
		return true;
	if (rlx_json_kind(&r->json, node) != RLX_JSON_BOOL)
		return refuse(r, "%s is neither true nor false", key);
	*out = r->json.node[node].truth;
	return true;
}

/* A size or offset in "parameters"; 0 if it is not there. */
static bool read_param(struct req *r, uint32_t params, const char *key, uint64_t *out)
{
	uint32_t node = params ? rlx_json_get(&r->json, params, key) : 0;
	int64_t v = 0;

	*out = 0;
	if (!node)
		return true;
	if (!rlx_json_int(&r->json, node, &v) || v < 0)
		return refuse(r, "%s is no size", key);
	*out = (uint64_t)v;
	return true;
}

/* Data that a kernel would find at an odd address goes to memory of our own. */
static bool align(struct req *r, unsigned int i, const void *p, size_t bytes)
{
	struct infer *f = r->work;

	f->in[i].data = p;
	f->in[i].bytes = bytes;
	/* An encoder's rows are put together from wherever they lie. */
	if ((uintptr_t)p % ALIGN == 0 || r->model->embeds)
		return true;
	f->own[i] = account_memdup(&r->account, p, bytes);
	if (!f->own[i]) {
		req_fail_memory(r, "the inputs");
		return false;
	}
	f->in[i].data = f->own[i];
	r->copied += bytes;
	return true;
}

static bool take_region(struct req *r, uint32_t node, struct region **out)
{
	struct region_owner owner = shm_owner(r);
	const char *name = req_name(r, node);
	struct infer *f = r->work;

	if (!name)
		return refuse(r, "shared_memory_region is no name");
	*out = region_get(&owner, name);
	if (!*out)
		return refuse(r, "no shared memory region '%.79s' is registered", name);
	f->region[f->n_region++] = *out;
	return true;
}

static bool take_shared(struct req *r, uint32_t params, uint32_t region, unsigned int i)
{
	struct infer *f = r->work;
	const char *name = f->in[i].name;
	uint64_t bytes, offset;
	struct region *g;
	void *p;

	if (!read_param(r, params, "shared_memory_byte_size", &bytes) ||
	    !read_param(r, params, "shared_memory_offset", &offset) || !take_region(r, region, &g))
		return false;
	if (bytes != f->in[i].bytes)
		return refuse(r, "input %s: shared_memory_byte_size is %llu, the shape needs %zu",
			      name, (unsigned long long)bytes, f->in[i].bytes);
	p = region_at(g, offset, bytes);
	if (!p)
		return refuse(r, "input %s: bytes %llu to %llu are not in the region", name,
			      (unsigned long long)offset, (unsigned long long)(offset + bytes));
	return align(r, i, p, bytes);
}

static bool take_binary(struct req *r, uint64_t bytes, unsigned int i)
{
	struct infer *f = r->work;
	size_t left = r->body_n - (size_t)r->infer_length - f->binary_at;
	const char *p = r->body + r->infer_length + f->binary_at;

	if (!r->has_infer_length)
		return refuse(r, "binary_data_size without Inference-Header-Content-Length");
	if (bytes != f->in[i].bytes)
		return refuse(r, "input %s: binary_data_size is %llu, the shape needs %zu",
			      f->in[i].name, (unsigned long long)bytes, f->in[i].bytes);
	if (bytes > left)
		return refuse(r, "input %s: the body ends %llu bytes too early", f->in[i].name,
			      (unsigned long long)(bytes - left));
	f->binary_at += bytes;
	return align(r, i, p, bytes);
}

static bool take_json(struct req *r, uint32_t node, unsigned int i)
{
	struct infer *f = r->work;
	char why[160];

	/* At least two bytes of text an element: no shape can ask for more memory. */
	if ((uint64_t)rlx_type_count(&f->in[i].type) > r->body_n)
		return refuse(r, "input %s: the shape has more elements than the body bytes",
			      f->in[i].name);
	f->own[i] = account_alloc(&r->account, f->in[i].bytes + ALIGN, 1);
	if (!f->own[i]) {
		req_fail_memory(r, "the inputs");
		return false;
	}
	f->in[i].data = f->own[i];
	if (!wire_from_json(&r->json, node, &f->in[i].type, f->own[i], why))
		return refuse(r, "input %s: %s", f->in[i].name, why);
	r->copied += f->in[i].bytes;
	return true;
}

static const struct tensor_desc *find_desc(const struct tensor_desc *d, unsigned int n,
					   const char *name)
{
	for (; n--; d++)
		if (!strcmp(d->name, name))
			return d;
	return NULL;
}

/* An encoder's ids and mask, which many clients have as 32 bits, as the model has them. */
static bool widen(struct req *r, unsigned int i)
{
	struct infer *f = r->work;
	struct tensor *t = &f->in[i];
	size_t n = (size_t)rlx_type_count(&t->type), k;
	int64_t *to = account_alloc(&r->account, n * sizeof(*to) + ALIGN, 1);
	int32_t v;

	if (!to) {
		req_fail_memory(r, "the inputs");
		return false;
	}
	for (k = 0; k < n; k++) {
		memcpy(&v, (const char *)t->data + k * sizeof(v), sizeof(v));
		to[k] = v;
	}
	rlx_free(f->own[i]);
	t->data = f->own[i] = to;
	t->type.dtype = RLX_I64;
	t->bytes = n * sizeof(*to);
	r->copied += t->bytes;
	return true;
}

/* The elements of input @i, whose type is there, from wherever @node says. */
static bool read_data(struct req *r, uint32_t node, unsigned int i)
{
	const struct rlx_json *j = &r->json;
	uint32_t data = rlx_json_get(j, node, "data"), params, region;
	struct infer *f = r->work;
	uint64_t bytes;

	if (!read_params(r, node, &params))
		return false;
	region = params ? rlx_json_get(j, params, "shared_memory_region") : 0;
	if (region)
		return take_shared(r, params, region, i);
	if (params && rlx_json_get(j, params, "binary_data_size"))
		return read_param(r, params, "binary_data_size", &bytes) &&
		       take_binary(r, bytes, i);
	if (!data)
		return refuse(r, "input %s has neither 'data' nor binary data", f->in[i].name);
	return take_json(r, data, i);
}

static bool read_input(struct req *r, uint32_t node)
{
	const struct rlx_json *j = &r->json;
	struct infer *f = r->work;
	const char *name = req_name(r, rlx_json_get(j, node, "name"));
	const char *type = req_name(r, rlx_json_get(j, node, "datatype"));
	const struct tensor_desc *d;
	unsigned int i = f->n_in, k;
	bool narrow;

	if (!name)
		return refuse(r, "inputs[%u] has no name", i);
	d = find_desc(r->model->in, r->model->n_in, name);
	if (!d)
		return refuse(r, "model %s has no input '%.60s'; /v2/models/%s lists them",
			      r->model->name, name, r->model->name);
	for (k = 0; k < i; k++)
		if (f->in[k].name == d->name)
			return refuse(r, "input %s is given twice", d->name);
	narrow = type && r->model->embeds && d->dtype == RLX_I64 && wire_dtype(type) == RLX_I32;
	if (!type || (wire_dtype(type) != d->dtype && !narrow))
		return refuse(r, "input %s: datatype is '%.20s', model %s takes %s%s", d->name,
			      type ? type : "", r->model->name, wire_name(d->dtype),
			      r->model->embeds ? " or INT32" : "");
	f->in[i].name = d->name;
	if (!read_shape(r, rlx_json_get(j, node, "shape"), d, &f->in[i].type))
		return false;
	if (narrow)
		f->in[i].type.dtype = RLX_I32;
	f->in[i].bytes = (size_t)rlx_type_bytes(&f->in[i].type);
	f->n_in++;
	return read_data(r, node, i) && (!narrow || widen(r, i));
}

static bool read_inputs(struct req *r)
{
	uint32_t node = rlx_json_get(&r->json, 0, "inputs");
	struct infer *f = r->work;
	struct rlx_json_iter it;
	unsigned int i, k;

	if (!node || rlx_json_kind(&r->json, node) != RLX_JSON_ARR)
		return refuse(r, "'inputs' is missing: a list of tensors");
	if (rlx_json_len(&r->json, node) > r->model->n_in)
		return refuse(r, "%u inputs, model %s has %u", rlx_json_len(&r->json, node),
			      r->model->name, r->model->n_in);
	for (it = rlx_json_iter(&r->json, node); rlx_json_next(&it); )
		if (!read_input(r, it.val))
			return false;
	for (i = 0; i < r->model->n_in; i++) {
		for (k = 0; k < f->n_in && f->in[k].name != r->model->in[i].name; k++)
			;
		if (k == f->n_in && !r->model->in[i].optional)
			return refuse(r, "input %s of model %s is missing", r->model->in[i].name,
				      r->model->name);
	}
	if (r->has_infer_length && f->binary_at != r->body_n - r->infer_length)
		return refuse(r, "%llu bytes of binary data belong to no input",
			      (unsigned long long)(r->body_n - r->infer_length - f->binary_at));
	return true;
}

static bool read_output(struct req *r, uint32_t node)
{
	const struct rlx_json *j = &r->json;
	struct infer *f = r->work;
	struct infer_out *o = &f->out[f->n_out];
	const char *name = req_name(r, rlx_json_get(j, node, "name"));
	uint32_t params, region = 0;
	const struct tensor_desc *d;
	unsigned int i;

	if (!name)
		return refuse(r, "outputs[%u] has no name", f->n_out);
	d = find_desc(r->model->out, r->model->n_out, name);
	if (!d)
		return refuse(r, "model %s has no output '%.60s'; /v2/models/%s lists them",
			      r->model->name, name, r->model->name);
	o->index = (unsigned int)(d - r->model->out);
	for (i = 0; i < f->n_out; i++)
		if (f->out[i].index == o->index)
			return refuse(r, "output %s is asked for twice", d->name);
	o->binary = f->binary;
	if (!read_params(r, node, &params) || !read_flag(r, params, "binary_data", &o->binary))
		return false;
	if (params && rlx_json_get(j, params, "classification"))
		return refuse(r, "output %s: classification is not done here", d->name);
	if (params)
		region = rlx_json_get(j, params, "shared_memory_region");
	if (region && (!take_region(r, region, &o->region) ||
		       !read_param(r, params, "shared_memory_byte_size", &o->bytes) ||
		       !read_param(r, params, "shared_memory_offset", &o->offset)))
		return false;
	f->n_out++;
	return true;
}

static bool read_outputs(struct req *r)
{
	uint32_t node = rlx_json_get(&r->json, 0, "outputs");
	struct infer *f = r->work;
	struct rlx_json_iter it;
	unsigned int i;

	if (!node) {
		for (i = 0; i < r->model->n_out; i++)
			f->out[f->n_out++] = (struct infer_out){ .index = i, .binary = f->binary };
		return true;
	}
	if (rlx_json_kind(&r->json, node) != RLX_JSON_ARR || !rlx_json_len(&r->json, node) ||
	    rlx_json_len(&r->json, node) > r->model->n_out)
		return refuse(r, "'outputs' is no list of 1 to %u outputs", r->model->n_out);
	for (it = rlx_json_iter(&r->json, node); rlx_json_next(&it); )
		if (!read_output(r, it.val))
			return false;
	return true;
}

/*
 * What clients may ask for beside tensors. What would change the result, or when it
 * comes, is done or refused: to take it and do nothing would be a wrong answer.
 */
static bool read_wishes(struct req *r, uint32_t params)
{
	static const char *const sequence[] = { "sequence_start", "sequence_end" };
	const struct rlx_json *j = &r->json;
	uint32_t id = params ? rlx_json_get(j, params, "sequence_id") : 0;
	uint64_t us, priority;
	int64_t end, v;
	bool is_on;
	size_t i;

	if (!read_param(r, params, "priority", &priority) ||
	    !read_param(r, params, "timeout", &us))
		return false;
	if (priority)
		return refuse(r, "priority %llu: requests have none here; leave it out",
			      (unsigned long long)priority);
	/* 0, as an empty text, says that there is no sequence. */
	if (id && !(rlx_json_int(j, id, &v) && !v) && !rlx_json_str_is(j, id, ""))
		return refuse(r, "sequence_id: models keep nothing between requests here; "
			      "leave it out");
	for (i = 0; i < 2; i++) {
		is_on = false;
		if (!read_flag(r, params, sequence[i], &is_on))
			return false;
		if (is_on)
			return refuse(r, "%s: models keep nothing between requests here; leave "
				      "it out", sequence[i]);
	}
	/* From when the request came; no later than request_timeout. */
	if (us && !__builtin_mul_overflow((int64_t)us, 1000, &end) &&
	    !__builtin_add_overflow(end, r->t_head, &end) && end < r->deadline)
		r->deadline = end;
	return true;
}

bool infer_read(struct req *r)
{
	const struct rlx_json *j = &r->json;
	struct infer *f = r->work;
	uint32_t id, params;

	if (rlx_json_kind(j, 0) != RLX_JSON_OBJ)
		return refuse(r, "the body is no JSON object");
	if (!read_params(r, 0, &params) ||
	    !read_flag(r, params, "binary_data_output", &f->binary))
		return false;
	id = rlx_json_get(j, 0, "id");
	if (id && rlx_json_kind(j, id) == RLX_JSON_STR)
		f->id = (struct slice){ rlx_json_text(j, id), rlx_json_len(j, id) };
	else if (id && rlx_json_kind(j, id) != RLX_JSON_NULL)
		return refuse(r, "'id' is no text");
	return read_wishes(r, params) && read_inputs(r) && read_outputs(r);
}

/* The file behind a region shrank: what we read, or wrote, was not there. */
static bool is_torn(const struct infer *f)
{
	unsigned int i;

	for (i = 0; i < f->n_region; i++)
		if (region_is_torn(f->region[i]))
			return true;
	return false;
}

static bool to_region(struct req *r, const struct infer_out *o, const struct tensor *t)
{
	void *p;

	if (t->bytes > o->bytes)
		return refuse(r, "output %s has %zu bytes, shared_memory_byte_size is %llu",
			      t->name, t->bytes, (unsigned long long)o->bytes);
	p = region_at(o->region, o->offset, t->bytes);
	if (!p)
		return refuse(r, "output %s: bytes %llu to %llu are not in the region", t->name,
			      (unsigned long long)o->offset,
			      (unsigned long long)(o->offset + t->bytes));
	memcpy(p, t->data, t->bytes);
	return true;
}

static bool put_output(struct req *r, const struct infer_out *o, const struct tensor *t)
{
	struct obuf *b = &r->reply.body;

	obuf_str(b, "{\"name\":");
	obuf_json(b, t->name, strlen(t->name));
	obuf_fmt(b, ",\"datatype\":\"%s\",\"shape\":", wire_name(t->type.dtype) ?
		 wire_name(t->type.dtype) : "?");
	wire_shape(b, t->type.dim, t->type.rank);
	if (o->region) {
		obuf_fmt(b, ",\"parameters\":{\"shared_memory_byte_size\":%zu}", t->bytes);
	} else if (o->binary) {
		obuf_fmt(b, ",\"parameters\":{\"binary_data_size\":%zu}", t->bytes);
	} else {
		obuf_str(b, ",\"data\":");
		if (!wire_to_json(b, &t->type, t->data))
			return refuse(r, "output %s: this datatype has no form in JSON; ask for "
				      "binary data", t->name);
	}
	obuf_str(b, "}");
	return true;
}

static void put_begin(struct req *r)
{
	const struct infer *f = r->work;
	struct obuf *b = &r->reply.body;

	obuf_str(b, "{\"model_name\":");
	obuf_json(b, r->model->name, strlen(r->model->name));
	obuf_str(b, ",\"model_version\":\"" MODEL_VERSION "\"");
	if (f->id.n) {
		obuf_str(b, ",\"id\":");
		obuf_json(b, f->id.p, f->id.n);
	}
	obuf_str(b, ",\"outputs\":[");
}

size_t infer_result_bytes(const struct req *r)
{
	const struct infer *f = r->work;
	size_t bytes = 0;
	unsigned int i;

	for (i = 0; i < f->n_out; i++)
		bytes += f->result[f->out[i].index].bytes;
	return bytes;
}

void infer_reply(struct req *r)
{
	struct infer *f = r->work;
	struct obuf *b = &r->reply.body;
	bool binary = false;
	unsigned int i;

	for (i = 0; i < f->n_out; i++)
		if (f->out[i].region && !to_region(r, &f->out[i], &f->result[f->out[i].index]))
			return;
	if (is_torn(f)) {
		req_fail(r, 400, "a shared memory region became shorter while it was used");
		return;
	}
	put_begin(r);
	for (i = 0; i < f->n_out; i++) {
		obuf_str(b, i ? "," : "");
		binary |= f->out[i].binary && !f->out[i].region;
		if (!put_output(r, &f->out[i], &f->result[f->out[i].index]))
			return;
	}
	obuf_str(b, "]}");
	req_ok(r, binary ? "application/octet-stream" : "application/json");
	r->reply.json_bytes = binary ? b->n : 0;
	for (i = 0; binary && i < f->n_out; i++) {
		const struct tensor *t = &f->result[f->out[i].index];

		if (f->out[i].binary && !f->out[i].region && t->bytes)
			r->reply.tail[r->reply.n_tail++] = (struct iovec){
				(void *)(uintptr_t)t->data, t->bytes };
	}
}
