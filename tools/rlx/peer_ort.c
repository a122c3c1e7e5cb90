// SPDX-License-Identifier: MIT
/* Runs models in ONNX Runtime through its C interface, opened at run time. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/rlx/peer_ort.h"

/*
 * The interface is a table of functions whose places never change; new ones are
 * added at its end and the version asked for tells how many there must be. Only
 * the places used here are named. Version 11 has them all.
 */
enum {
	ORT_API_VERSION		= 11,

	ORT_GET_ERROR_MESSAGE	= 2,
	ORT_CREATE_ENV		= 3,
	ORT_CREATE_SESSION	= 7,
	ORT_RUN			= 9,
	ORT_CREATE_OPTIONS	= 10,
	ORT_SET_EXECUTION_MODE	= 13,
	ORT_SET_OPTIMIZATION	= 23,
	ORT_SET_INTRA_THREADS	= 24,
	ORT_SET_INTER_THREADS	= 25,
	ORT_INPUT_COUNT		= 30,
	ORT_OUTPUT_COUNT	= 31,
	ORT_INPUT_TYPE		= 33,
	ORT_OUTPUT_TYPE		= 34,
	ORT_INPUT_NAME		= 36,
	ORT_OUTPUT_NAME		= 37,
	ORT_TENSOR_WITH_DATA	= 49,
	ORT_TENSOR_DATA		= 51,
	ORT_TYPE_TO_TENSOR	= 55,
	ORT_ELEMENT_TYPE	= 60,
	ORT_DIM_COUNT		= 61,
	ORT_DIMS		= 62,
	ORT_TYPE_OF_VALUE	= 65,
	ORT_CREATE_CPU_MEMORY	= 69,
	ORT_ALLOCATOR_FREE	= 76,
	ORT_DEFAULT_ALLOCATOR	= 78,
	ORT_RELEASE_ENV		= 92,
	ORT_RELEASE_STATUS	= 93,
	ORT_RELEASE_MEMORY	= 94,
	ORT_RELEASE_SESSION	= 95,
	ORT_RELEASE_VALUE	= 96,
	ORT_RELEASE_TYPE	= 98,
	ORT_RELEASE_TENSOR_TYPE	= 99,
	ORT_RELEASE_OPTIONS	= 100,
	ORT_ADD_CONFIG		= 130,

	ORT_LOG_ERROR		= 3,
	ORT_OPTIMIZE_ALL	= 99,
	ORT_DEVICE_ALLOCATOR	= 0,
	ORT_ARENA_ALLOCATOR	= 1,
	ORT_DEFAULT_MEMORY	= 0,
};

typedef void (*ort_fn)(void);
typedef void *ort_status;	/* NULL is success */

struct ort_base {
	const ort_fn	*(*get_api)(uint32_t version);
	const char	*(*version)(void);
};

/* ORT(p, PLACE, argument types...) is the function at that place. */
#define ORT(p, place, ...) \
	((ort_status (*)(__VA_ARGS__))(p)->api[place])
#define ORT_VOID(p, place) \
	((void (*)(void *))(p)->api[place])

struct rlx_peer {
	const struct ort_base	*base;
	const ort_fn		*api;
	void			*env, *session, *memory, *allocator;
	size_t			 n_in, n_out, n_bound;
	struct rlx_peer_value	*in, *out;	/* declared */
	const char		**in_name, **out_name;
	void			**in_value, **out_value;
	bool			 ran;
};

/* The peer's element type numbers, by ours. */
static const uint8_t ort_type[RLX_DTYPE_COUNT] = {
	[RLX_F32] = 1, [RLX_U8] = 2, [RLX_I8] = 3, [RLX_U16] = 4,
	[RLX_I16] = 5, [RLX_I32] = 6, [RLX_I64] = 7, [RLX_BOOL] = 9,
	[RLX_F16] = 10, [RLX_F64] = 11, [RLX_U32] = 12, [RLX_U64] = 13,
	[RLX_C64] = 14, [RLX_BF16] = 16, [RLX_F8E4M3] = 17, [RLX_F8E5M2] = 19,
};

static enum rlx_dtype dtype_of(int type)
{
	int i;

	for (i = 1; i < RLX_DTYPE_COUNT; i++)
		if (ort_type[i] == type)
			return (enum rlx_dtype)i;
	return RLX_NODTYPE;
}

/* Turns the peer's status into ours and frees it. */
static enum rlx_status check(struct rlx_peer *p, ort_status st,
			     enum rlx_status as, const char *what,
			     struct rlx_error *err)
{
	const char *(*text)(void *);

	if (!st)
		return RLX_OK;
	text = (const char *(*)(void *))p->api[ORT_GET_ERROR_MESSAGE];
	rlx_fail(err, as, "onnxruntime, %s: %s", what, text(st));
	ORT_VOID(p, ORT_RELEASE_STATUS)(st);
	return as;
}

static enum rlx_status load(struct rlx_peer *p, const char *lib,
			    struct rlx_error *err)
{
	const struct ort_base *(*get_base)(void);
	void *h;

	if (access(lib, R_OK))
		return rlx_fail(err, RLX_ENOENT,
				"%s: not found; tools/fetch-models.sh onnxruntime fetches it",
				lib);
	h = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
	if (!h)
		return rlx_fail(err, RLX_ENOENT, "%s: %s", lib, dlerror());
	get_base = (const struct ort_base *(*)(void))dlsym(h, "OrtGetApiBase");
	if (!get_base)
		return rlx_fail(err, RLX_EBADFD,
				"%s: no OrtGetApiBase; is it onnxruntime's library?", lib);
	p->base = get_base();
	p->api = p->base->get_api(ORT_API_VERSION);
	if (!p->api)
		return rlx_fail(err, RLX_ENOSUP,
				"%s: version %s is older than interface %d", lib,
				p->base->version(), ORT_API_VERSION);
	return RLX_OK;
}

static enum rlx_status set_options(struct rlx_peer *p, void *opt, int threads,
				   struct rlx_error *err)
{
	ort_status s;

	s = ORT(p, ORT_SET_EXECUTION_MODE, void *, int)(opt, 0);
	if (!s)
		s = ORT(p, ORT_SET_OPTIMIZATION, void *, int)(opt,
							      ORT_OPTIMIZE_ALL);
	if (!s)
		s = ORT(p, ORT_SET_INTRA_THREADS, void *, int)(opt, threads);
	if (!s)
		s = ORT(p, ORT_SET_INTER_THREADS, void *, int)(opt, 1);
	if (!s)
		s = ORT(p, ORT_ADD_CONFIG, void *, const char *, const char *)
			(opt, "session.intra_op.allow_spinning", "1");
	return check(p, s, RLX_EINVAL, "session options", err);
}

static enum rlx_status open_session(struct rlx_peer *p, const char *model,
				    int threads, struct rlx_error *err)
{
	enum rlx_status st;
	void *opt = NULL;

	if (access(model, R_OK))
		return rlx_fail(err, RLX_ENOENT, "%s: not found", model);
	st = check(p, ORT(p, ORT_CREATE_ENV, int, const char *, void **)
			(ORT_LOG_ERROR, "rlx", &p->env),
		   RLX_ENOMEM, "environment", err);
	if (st)
		return st;
	st = check(p, ORT(p, ORT_CREATE_OPTIONS, void **)(&opt),
		   RLX_ENOMEM, "options", err);
	if (st)
		return st;
	st = set_options(p, opt, threads, err);
	if (!st)
		st = check(p, ORT(p, ORT_CREATE_SESSION, void *, const char *,
				  void *, void **)
				(p->env, model, opt, &p->session),
			   RLX_EPARSE, model, err);
	ORT_VOID(p, ORT_RELEASE_OPTIONS)(opt);
	if (st)
		return st;
	st = check(p, ORT(p, ORT_CREATE_CPU_MEMORY, int, int, void **)
			(ORT_ARENA_ALLOCATOR, ORT_DEFAULT_MEMORY, &p->memory),
		   RLX_ENOMEM, "memory info", err);
	if (st)
		return st;
	return check(p, ORT(p, ORT_DEFAULT_ALLOCATOR, void **)(&p->allocator),
		     RLX_ENOMEM, "allocator", err);
}

/* Reads a tensor type; one of a rank or element type we have not is ENOSUP. */
static enum rlx_status read_type(struct rlx_peer *p, const void *info,
				 const char *name, struct rlx_type *out,
				 struct rlx_error *err)
{
	enum rlx_status st;
	size_t rank = 0;
	int type = 0;

	memset(out, 0, sizeof(*out));
	if (!info)
		return rlx_fail(err, RLX_ENOSUP, "%s is not a tensor", name);
	st = check(p, ORT(p, ORT_ELEMENT_TYPE, const void *, int *)(info, &type),
		   RLX_ETYPE, name, err);
	if (!st)
		st = check(p, ORT(p, ORT_DIM_COUNT, const void *, size_t *)
				(info, &rank), RLX_ESHAPE, name, err);
	if (st)
		return st;
	out->dtype = dtype_of(type);
	if (!out->dtype || rank > RLX_MAX_RANK)
		return rlx_fail(err, RLX_ENOSUP,
				"%s has element type %d and rank %zu", name, type, rank);
	out->rank = (uint32_t)rank;
	return check(p, ORT(p, ORT_DIMS, const void *, int64_t *, size_t)
			(info, out->dim, rank), RLX_ESHAPE, name, err);
}

/* The name and type of input or output @i; @name and @type are the places. */
static enum rlx_status describe(struct rlx_peer *p, int name, int type, size_t i,
				struct rlx_peer_value *v, struct rlx_error *err)
{
	const void *tensor = NULL;
	enum rlx_status st;
	void *info = NULL;
	char *s = NULL;

	st = check(p, ORT(p, name, void *, size_t, void *, char **)
			(p->session, i, p->allocator, &s),
		   RLX_EIO, "name", err);
	if (st)
		return st;
	v->name = strdup(s);
	check(p, ORT(p, ORT_ALLOCATOR_FREE, void *, void *)(p->allocator, s),
	      RLX_EIO, "free", NULL);
	if (!v->name)
		return rlx_fail(err, RLX_ENOMEM, "no memory for a name");
	st = check(p, ORT(p, type, void *, size_t, void **)(p->session, i, &info),
		   RLX_EIO, v->name, err);
	if (st)
		return st;
	st = check(p, ORT(p, ORT_TYPE_TO_TENSOR, void *, const void **)
			(info, &tensor), RLX_ETYPE, v->name, err);
	if (!st)
		st = read_type(p, tensor, v->name, &v->type, err);
	ORT_VOID(p, ORT_RELEASE_TYPE)(info);
	return st;
}

static enum rlx_status read_signature(struct rlx_peer *p, struct rlx_error *err)
{
	enum rlx_status st;
	size_t i;

	st = check(p, ORT(p, ORT_INPUT_COUNT, void *, size_t *)
			(p->session, &p->n_in), RLX_EIO, "inputs", err);
	if (!st)
		st = check(p, ORT(p, ORT_OUTPUT_COUNT, void *, size_t *)
				(p->session, &p->n_out), RLX_EIO, "outputs", err);
	if (st)
		return st;
	/* One more than needed, so that no count makes calloc(0). */
	p->in = calloc(p->n_in + 1, sizeof(*p->in));
	p->out = calloc(p->n_out + 1, sizeof(*p->out));
	p->in_name = calloc(p->n_in + 1, sizeof(*p->in_name));
	p->out_name = calloc(p->n_out + 1, sizeof(*p->out_name));
	p->in_value = calloc(p->n_in + 1, sizeof(*p->in_value));
	p->out_value = calloc(p->n_out + 1, sizeof(*p->out_value));
	if (!p->in || !p->out || !p->in_name || !p->out_name || !p->in_value ||
	    !p->out_value)
		return rlx_fail(err, RLX_ENOMEM, "no memory for the signature");
	for (i = 0; i < p->n_in && !st; i++) {
		st = describe(p, ORT_INPUT_NAME, ORT_INPUT_TYPE, i, &p->in[i],
			      err);
		p->in_name[i] = p->in[i].name;
	}
	for (i = 0; i < p->n_out && !st; i++) {
		st = describe(p, ORT_OUTPUT_NAME, ORT_OUTPUT_TYPE, i, &p->out[i],
			      err);
		p->out_name[i] = p->out[i].name;
	}
	return st;
}

enum rlx_status rlx_peer_open(const char *lib, const char *model, int threads,
			      struct rlx_peer **out, struct rlx_error *err)
{
	enum rlx_status st;
	struct rlx_peer *p;

	if (!lib || !model || threads < 1 || !out)
		return rlx_fail(err, RLX_EINVAL, "peer: a NULL, or %d threads",
				threads);
	p = calloc(1, sizeof(*p));
	if (!p)
		return rlx_fail(err, RLX_ENOMEM, "no memory for a peer");
	st = load(p, lib, err);
	if (!st)
		st = open_session(p, model, threads, err);
	if (!st)
		st = read_signature(p, err);
	if (st) {
		rlx_peer_close(p);
		return st;
	}
	*out = p;
	return RLX_OK;
}

/* Releases each value of an array that may hold NULLs, or be NULL itself. */
static void drop_values(struct rlx_peer *p, void **v, size_t n)
{
	size_t i;

	for (i = 0; v && i < n; i++) {
		if (v[i])
			ORT_VOID(p, ORT_RELEASE_VALUE)(v[i]);
		v[i] = NULL;
	}
}

static void free_signature(struct rlx_peer_value *v, size_t n)
{
	size_t i;

	for (i = 0; v && i < n; i++)
		free((void *)v[i].name);
	free(v);
}

void rlx_peer_close(struct rlx_peer *p)
{
	if (!p)
		return;
	drop_values(p, p->in_value, p->n_in);
	drop_values(p, p->out_value, p->n_out);
	if (p->memory)
		ORT_VOID(p, ORT_RELEASE_MEMORY)(p->memory);
	if (p->session)
		ORT_VOID(p, ORT_RELEASE_SESSION)(p->session);
	if (p->env)
		ORT_VOID(p, ORT_RELEASE_ENV)(p->env);
	free_signature(p->in, p->n_in);
	free_signature(p->out, p->n_out);
	free(p->in_name);
	free(p->out_name);
	free(p->in_value);
	free(p->out_value);
	free(p);
}

const char *rlx_peer_version(const struct rlx_peer *p)
{
	return p->base->version();
}

size_t rlx_peer_inputs(const struct rlx_peer *p,
		       const struct rlx_peer_value **out)
{
	*out = p->in;
	return p->n_in;
}

size_t rlx_peer_outputs(const struct rlx_peer *p,
			const struct rlx_peer_value **out)
{
	*out = p->out;
	return p->n_out;
}

static enum rlx_status bind_one(struct rlx_peer *p,
				const struct rlx_peer_value *v,
				struct rlx_error *err)
{
	int64_t bytes = rlx_type_bytes(&v->type);
	int type = 0;
	size_t i;

	for (i = 0; i < p->n_in; i++)
		if (v->name && !strcmp(p->in[i].name, v->name))
			break;
	if (i == p->n_in)
		return rlx_fail(err, RLX_ENOENT, "the model has no input '%s'",
				v->name ? v->name : "(null)");
	if (p->in_value[i])
		return rlx_fail(err, RLX_EEXIST, "input '%s' is given twice",
				v->name);
	if (v->type.dtype < RLX_DTYPE_COUNT)
		type = ort_type[v->type.dtype];
	if (!type)
		return rlx_fail(err, RLX_ENOSUP, "input '%s': the peer has no %s",
				v->name, rlx_dtype_name(v->type.dtype));
	if (bytes < 0 || v->bytes != (size_t)bytes || (bytes && !v->data))
		return rlx_fail(err, RLX_ERANGE,
				"input '%s': %zu bytes for a type of %lld", v->name,
				v->bytes, (long long)bytes);
	return check(p, ORT(p, ORT_TENSOR_WITH_DATA, void *, void *, size_t,
			    const int64_t *, size_t, int, void **)
			(p->memory, (void *)v->data, v->bytes, v->type.dim,
			 v->type.rank, type, &p->in_value[i]),
		     RLX_ETYPE, v->name, err);
}

enum rlx_status rlx_peer_bind(struct rlx_peer *p, const struct rlx_peer_value *v,
			      size_t n, struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;
	size_t i;

	p->ran = false;
	p->n_bound = 0;
	drop_values(p, p->in_value, p->n_in);
	drop_values(p, p->out_value, p->n_out);
	for (i = 0; i < n && !st; i++)
		st = bind_one(p, &v[i], err);
	for (i = 0; i < p->n_in && !st; i++)
		if (!p->in_value[i])
			st = rlx_fail(err, RLX_EINVAL, "input '%s' is not given",
				      p->in[i].name);
	if (!st)
		p->n_bound = n;
	return st;
}

static ort_status run_once(struct rlx_peer *p)
{
	return ORT(p, ORT_RUN, void *, void *, const char **, void **, size_t,
		   const char **, size_t, void **)
		(p->session, NULL, p->in_name, p->in_value, p->n_in,
		 p->out_name, p->n_out, p->out_value);
}

enum rlx_status rlx_peer_run(struct rlx_peer *p, struct rlx_error *err)
{
	enum rlx_status st;

	if (p->n_bound != p->n_in)
		return rlx_fail(err, RLX_EINVAL, "the peer's inputs are not bound");
	st = check(p, run_once(p), RLX_EIO, "run", p->ran ? NULL : err);
	/* New data may want outputs of another size: once more with fresh ones. */
	if (st && p->ran) {
		drop_values(p, p->out_value, p->n_out);
		st = check(p, run_once(p), RLX_EIO, "run", err);
	}
	p->ran = !st;
	return st;
}

enum rlx_status rlx_peer_output(struct rlx_peer *p, size_t i,
				struct rlx_peer_value *out, struct rlx_error *err)
{
	enum rlx_status st;
	void *info = NULL, *data = NULL;

	if (i >= p->n_out || !p->ran)
		return rlx_fail(err, RLX_ERANGE,
				"output %zu of %zu, or no run yet", i, p->n_out);
	st = check(p, ORT(p, ORT_TYPE_OF_VALUE, void *, void **)
			(p->out_value[i], &info), RLX_ETYPE, p->out[i].name, err);
	if (st)
		return st;
	st = read_type(p, info, p->out[i].name, &out->type, err);
	ORT_VOID(p, ORT_RELEASE_TENSOR_TYPE)(info);
	if (!st)
		st = check(p, ORT(p, ORT_TENSOR_DATA, void *, void **)
				(p->out_value[i], &data), RLX_EIO,
			   p->out[i].name, err);
	if (st)
		return st;
	out->name = p->out[i].name;
	out->data = data;
	out->bytes = (size_t)rlx_type_bytes(&out->type);
	return RLX_OK;
}

enum rlx_status rlx_peer_time(struct rlx_peer *p, size_t n, double *ns,
			      struct rlx_error *err)
{
	enum rlx_status st;
	uint64_t begin;
	size_t i;

	for (i = 0; i < n; i++) {
		begin = rlx_now();
		st = rlx_peer_run(p, err);
		if (st)
			return st;
		ns[i] = (double)(rlx_now() - begin);
	}
	return RLX_OK;
}
