// SPDX-License-Identifier: MIT
/* DLPack tensors become wrapped arenas, and buffers become DLPack tensors. */
#include <string.h>

#include "base/alloc.h"
#include "base/shape.h"
#include "base/strided.h"
#include "mem/arena.h"
#include "mem/dlpack.h"

/* The layout is an ABI of others: say so where it could drift. */
_Static_assert(sizeof(struct rlx_dl_dtype) == 4, "DLDataType");
_Static_assert(sizeof(void *) != 8 ||
	       (sizeof(struct rlx_dl_tensor) == 48 &&
		offsetof(struct rlx_dl_tensor, dtype) == 20 &&
		offsetof(struct rlx_dl_tensor, byte_offset) == 40), "DLTensor");
_Static_assert(sizeof(void *) != 8 ||
	       (sizeof(struct rlx_dl_managed) == 64 &&
		sizeof(struct rlx_dl_versioned) == 80 &&
		offsetof(struct rlx_dl_versioned, tensor) == 32),
	       "DLManagedTensor");

static const struct rlx_dl_dtype dtypes[RLX_DTYPE_COUNT] = {
	[RLX_F64]    = { RLX_DL_FLOAT, 64, 1 },
	[RLX_F32]    = { RLX_DL_FLOAT, 32, 1 },
	[RLX_F16]    = { RLX_DL_FLOAT, 16, 1 },
	[RLX_BF16]   = { RLX_DL_BFLOAT, 16, 1 },
	[RLX_F8E4M3] = { RLX_DL_F8E4M3FN, 8, 1 },
	[RLX_F8E5M2] = { RLX_DL_F8E5M2, 8, 1 },
	[RLX_I64]    = { RLX_DL_INT, 64, 1 },
	[RLX_I32]    = { RLX_DL_INT, 32, 1 },
	[RLX_I16]    = { RLX_DL_INT, 16, 1 },
	[RLX_I8]     = { RLX_DL_INT, 8, 1 },
	[RLX_U64]    = { RLX_DL_UINT, 64, 1 },
	[RLX_U32]    = { RLX_DL_UINT, 32, 1 },
	[RLX_U16]    = { RLX_DL_UINT, 16, 1 },
	[RLX_U8]     = { RLX_DL_UINT, 8, 1 },
	[RLX_BOOL]   = { RLX_DL_BOOL, 8, 1 },
	[RLX_C64]    = { RLX_DL_COMPLEX, 64, 1 },
};

static enum rlx_dtype dtype_of(struct rlx_dl_dtype d)
{
	unsigned int i;

	for (i = 1; i < RLX_DTYPE_COUNT; i++)
		if (dtypes[i].lanes == d.lanes && dtypes[i].code == d.code &&
		    dtypes[i].bits == d.bits)
			return (enum rlx_dtype)i;
	return RLX_NODTYPE;
}

static enum rlx_status check_type(const struct rlx_dl_tensor *t,
				  struct rlx_type *out, struct rlx_error *err)
{
	int i;

	*out = (struct rlx_type){ .dtype = dtype_of(t->dtype) };
	if (!out->dtype)
		return rlx_fail(err, RLX_ETYPE,
				"DLPack dtype code %u, %u bits, %u lanes: not "
				"one we have", t->dtype.code, t->dtype.bits,
				t->dtype.lanes);
	if (t->ndim < 0 || t->ndim > RLX_MAX_RANK)
		return rlx_fail(err, RLX_EINVAL,
				"DLPack tensor of rank %d: 0 to %d is possible",
				t->ndim, RLX_MAX_RANK);
	if (t->ndim && !t->shape)
		return rlx_fail(err, RLX_EINVAL, "DLPack tensor without shape");
	out->rank = (uint32_t)t->ndim;
	for (i = 0; i < t->ndim; i++) {
		if (t->shape[i] < 0)
			return rlx_fail(err, RLX_EINVAL,
					"DLPack tensor: dimension %d is %lld",
					i, (long long)t->shape[i]);
		out->dim[i] = t->shape[i];
	}
	return RLX_OK;
}

enum rlx_status rlx_dl_check_reach(struct rlx_dl_device at, struct rlx_error *err)
{
	if (at.device_type != RLX_DL_CPU &&
	    at.device_type != RLX_DL_CUDA_HOST &&
	    at.device_type != RLX_DL_ROCM_HOST &&
	    at.device_type != RLX_DL_CUDA_MANAGED)
		return rlx_fail(err, RLX_ENOSUP,
				"DLPack tensor on device type %d: only memory "
				"the CPU reaches can be wrapped",
				at.device_type);
	return RLX_OK;
}

/* Checks @t but for its device; on success @user says where the bytes are, @view how they lie. */
static enum rlx_status check(const struct rlx_dl_tensor *t, struct rlx_type *type,
			     struct rlx_view *view, struct rlx_arena_user *user,
			     struct rlx_error *err)
{
	static char nothing[64];	/* an address for tensors of no bytes */
	enum rlx_status st = check_type(t, type, err);
	uint64_t down, up;
	uintptr_t base;
	int64_t bytes;

	*view = (struct rlx_view){ 0 };
	if (st)
		return st;
	bytes = rlx_type_bytes(type);
	if (bytes < 0 ||
	    __builtin_add_overflow((uintptr_t)t->data, t->byte_offset, &base))
		return rlx_fail(err, RLX_ERANGE,
				"DLPack tensor: its size overflows");
	if (!bytes) {
		user->base = nothing;
		user->size = sizeof(nothing);
		return RLX_OK;
	}
	if (!t->data)
		return rlx_fail(err, RLX_EINVAL, "DLPack tensor: data is NULL");
	shape_dense(type, view->stride);
	if (t->strides)
		memcpy(view->stride, t->strides, type->rank * sizeof(*view->stride));
	if (!rlx_strided_reach(type, view->stride, &down, &up) || down > base ||
	    up > UINTPTR_MAX - base)
		return rlx_fail(err, RLX_ERANGE,
				"DLPack tensor: by its strides it overflows");
	if (base % rlx_dtype_align(type->dtype))
		return rlx_fail(err, RLX_ENOSUP,
				"DLPack tensor of %s at %p: not aligned to its "
				"elements", rlx_dtype_name(type->dtype),
				(void *)base);
	view->first = down;
	user->base = (void *)(base - down);
	user->size = down + up;
	return RLX_OK;
}

static void release_plain(void *ctx, void *base, uint64_t size)
{
	struct rlx_dl_managed *dl = ctx;

	if (dl->deleter)
		dl->deleter(dl);
}

static void release_versioned(void *ctx, void *base, uint64_t size)
{
	struct rlx_dl_versioned *dl = ctx;

	if (dl->deleter)
		dl->deleter(dl);
}

/* @user has who lets go of it, and how it may be used. */
static enum rlx_status import(const struct rlx_dl_tensor *t, struct rlx_arena_user *user,
			      struct rlx_type *type, struct rlx_view *out, struct rlx_error *err)
{
	enum rlx_status st = check(t, type, out, user, err);

	if (!st)
		st = rlx_dl_check_reach(t->device, err);
	if (!st)
		st = rlx_arena_wrap(user, &out->buf.arena, err);
	if (!st)
		out->buf.bytes = rlx_type_bytes(type) ? user->size : 0;
	return st;
}

enum rlx_status rlx_dl_import_view(struct rlx_dl_managed *dl, struct rlx_type *out_type,
				   struct rlx_view *out, struct rlx_error *err)
{
	struct rlx_arena_user user = { .release = release_plain, .ctx = dl };

	if (out)
		*out = (struct rlx_view){ 0 };
	if (!dl || !out_type || !out)
		return rlx_fail(err, RLX_EINVAL, "DLPack import: NULL given");
	return import(&dl->tensor, &user, out_type, out, err);
}

static enum rlx_status versioned_user(struct rlx_dl_versioned *dl, struct rlx_arena_user *user,
				      struct rlx_error *err)
{
	/* Of another major version only the deleter's place is known. */
	if (dl->version.major != 1)
		return rlx_fail(err, RLX_ENOSUP, "DLPack version %u.%u: 1.x is "
				"what we read", dl->version.major,
				dl->version.minor);
	*user = (struct rlx_arena_user){
		.release = release_versioned, .ctx = dl,
		.flags = dl->flags & RLX_DL_READ_ONLY ? RLX_ARENA_RDONLY : 0,
	};
	return RLX_OK;
}

enum rlx_status rlx_dl_import_view_versioned(struct rlx_dl_versioned *dl,
					     struct rlx_type *out_type, struct rlx_view *out,
					     struct rlx_error *err)
{
	struct rlx_arena_user user;
	enum rlx_status st;

	if (out)
		*out = (struct rlx_view){ 0 };
	if (!dl || !out_type || !out)
		return rlx_fail(err, RLX_EINVAL, "DLPack import: NULL given");
	st = versioned_user(dl, &user, err);
	return st ? st : import(&dl->tensor, &user, out_type, out, err);
}

enum rlx_status rlx_dl_look(struct rlx_dl_managed *plain, struct rlx_dl_versioned *versioned,
			    struct rlx_type *type, struct rlx_arena_user *user,
			    struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;
	struct rlx_view v;

	if (!(plain || versioned) || !type)
		return rlx_fail(err, RLX_EINVAL, "DLPack import: NULL given");
	*user = (struct rlx_arena_user){ .release = release_plain, .ctx = plain };
	if (versioned)
		st = versioned_user(versioned, user, err);
	if (!st)
		st = check(plain ? &plain->tensor : &versioned->tensor, type, &v, user, err);
	return st || rlx_strided_dense(type, v.stride) ? st :
	       rlx_fail(err, RLX_ENOSUP,
			"DLPack tensor with gaps or not row-major: make it contiguous, or take "
			"it by rlx_dl_import_view()");
}

/* After a failure it is still the caller's. */
static enum rlx_status import_dense(struct rlx_dl_managed *plain,
				    struct rlx_dl_versioned *versioned, struct rlx_type *type,
				    struct rlx_buf *out, struct rlx_error *err)
{
	struct rlx_arena_user user;
	enum rlx_status st;

	if (out)
		*out = (struct rlx_buf){ 0 };
	st = rlx_dl_look(plain, versioned, out ? type : NULL, &user, err);
	if (!st)
		st = rlx_dl_check_reach((plain ? &plain->tensor : &versioned->tensor)->device, err);
	if (!st)
		st = rlx_arena_wrap(&user, &out->arena, err);
	if (!st)
		out->bytes = (uint64_t)rlx_type_bytes(type);
	return st;
}

enum rlx_status rlx_dl_import(struct rlx_dl_managed *dl,
			      struct rlx_type *out_type,
			      struct rlx_buf *out_buf, struct rlx_error *err)
{
	return import_dense(dl, NULL, out_type, out_buf, err);
}

enum rlx_status rlx_dl_import_versioned(struct rlx_dl_versioned *dl,
					struct rlx_type *out_type,
					struct rlx_buf *out_buf,
					struct rlx_error *err)
{
	return import_dense(NULL, dl, out_type, out_buf, err);
}

/* What hangs on a lent tensor: one block with the structure itself in front. */
struct lent {
	union {
		struct rlx_dl_managed	plain;
		struct rlx_dl_versioned	versioned;
	} dl;
	struct rlx_arena	*arena;
	int64_t			 shape[RLX_MAX_RANK], strides[RLX_MAX_RANK];
};

static void give_back(struct lent *l)
{
	rlx_arena_put(l->arena);
	rlx_free(l);
}

static void delete_plain(struct rlx_dl_managed *dl)
{
	give_back(dl->manager_ctx);
}

static void delete_versioned(struct rlx_dl_versioned *dl)
{
	give_back(dl->manager_ctx);
}

static void fill(struct lent *l, struct rlx_dl_tensor *t, struct rlx_buf buf,
		 const struct rlx_type *type)
{
	int64_t step = 1;
	uint32_t i;

	for (i = type->rank; i-- > 0;) {
		l->shape[i] = type->dim[i];
		l->strides[i] = step;
		step *= type->dim[i] ? type->dim[i] : 1;
	}
	*t = (struct rlx_dl_tensor){
		.data = rlx_buf_ptr(buf),
		.device = { buf.arena->dl_type ? : RLX_DL_CPU, buf.arena->dl_id },
		.ndim = (int32_t)type->rank,
		.dtype = dtypes[type->dtype],
		.shape = l->shape,
		.strides = l->strides,
	};
	l->arena = rlx_arena_get(buf.arena);
}

static enum rlx_status lend(struct rlx_buf buf, const struct rlx_type *type,
			    struct lent **out, struct rlx_error *err)
{
	int64_t bytes;

	if (!buf.arena || !type)
		return rlx_fail(err, RLX_EINVAL,
				"DLPack export: no arena or no type");
	bytes = rlx_type_bytes(type);
	if (bytes < 0)
		return rlx_fail(err, RLX_EINVAL,
				"DLPack export: the type is malformed");
	if (!rlx_buf_ptr(buf) || (uint64_t)bytes > buf.bytes)
		return rlx_fail(err, RLX_ERANGE,
				"DLPack export: %lld bytes needed, the buffer "
				"has %llu at %llu of an arena of %llu",
				(long long)bytes,
				(unsigned long long)buf.bytes,
				(unsigned long long)buf.offset,
				(unsigned long long)buf.arena->size);
	*out = rlx_calloc(1, sizeof(**out));
	if (!*out)
		return rlx_fail(err, RLX_ENOMEM, "DLPack export: no memory");
	return RLX_OK;
}

enum rlx_status rlx_dl_export(struct rlx_buf buf, const struct rlx_type *type,
			      struct rlx_dl_managed **out,
			      struct rlx_error *err)
{
	enum rlx_status st;
	struct lent *l;

	if (!out)
		return rlx_fail(err, RLX_EINVAL, "DLPack export: out is NULL");
	*out = NULL;
	if (rlx_arena_flags(buf.arena) & RLX_ARENA_RDONLY)
		return rlx_fail(err, RLX_EACCES,
				"DLPack export of a read-only arena: the plain "
				"form cannot say so, the versioned one can");
	st = lend(buf, type, &l, err);
	if (st)
		return st;
	fill(l, &l->dl.plain.tensor, buf, type);
	l->dl.plain.manager_ctx = l;
	l->dl.plain.deleter = delete_plain;
	*out = &l->dl.plain;
	return RLX_OK;
}

enum rlx_status rlx_dl_export_versioned(struct rlx_buf buf,
					const struct rlx_type *type,
					struct rlx_dl_versioned **out,
					struct rlx_error *err)
{
	enum rlx_status st;
	struct lent *l;

	if (!out)
		return rlx_fail(err, RLX_EINVAL, "DLPack export: out is NULL");
	*out = NULL;
	st = lend(buf, type, &l, err);
	if (st)
		return st;
	fill(l, &l->dl.versioned.tensor, buf, type);
	l->dl.versioned.version.major = 1;
	l->dl.versioned.manager_ctx = l;
	l->dl.versioned.deleter = delete_versioned;
	if (rlx_arena_flags(buf.arena) & RLX_ARENA_RDONLY)
		l->dl.versioned.flags = RLX_DL_READ_ONLY;
	*out = &l->dl.versioned;
	return RLX_OK;
}
