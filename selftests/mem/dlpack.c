// SPDX-License-Identifier: MIT
/* DLPack both ways: in place, all dtypes, and what is refused. */
#include "base/alloc.h"
#include "rlx/dlpack.h"
#include "selftests/lib/rlx_test.h"

static int deleted;

static void on_delete(struct rlx_dl_managed *dl)
{
	deleted++;
}

static void on_delete_versioned(struct rlx_dl_versioned *dl)
{
	deleted++;
}

/* A good 2x3 f32 tensor to be spoilt in one place. */
static float data[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
static int64_t shape[9] = { 2, 3 }, strides[9] = { 3, 1 };

static struct rlx_dl_managed good(void)
{
	shape[0] = 2;
	shape[1] = 3;
	strides[0] = 3;
	strides[1] = 1;
	return (struct rlx_dl_managed){
		.tensor = {
			.data = data, .device = { RLX_DL_CPU, 0 }, .ndim = 2,
			.dtype = { RLX_DL_FLOAT, 32, 1 }, .shape = shape,
			.strides = strides,
		},
		.deleter = on_delete,
	};
}

TEST(import_is_in_place_and_deletes_once)
{
	struct rlx_dl_managed dl = good();
	struct rlx_type t;
	struct rlx_buf b;

	dl.tensor.byte_offset = 8;
	CHECK(!rlx_dl_import(&dl, &t, &b, NULL));
	CHECK_EQ(t.dtype, RLX_F32);
	CHECK_EQ(t.rank, 2);
	CHECK_EQ(t.dim[0], 2);
	CHECK_EQ(t.dim[1], 3);
	CHECK_EQ(b.bytes, 24);
	CHECK(rlx_buf_ptr(b) == data + 2);
	rlx_arena_get(b.arena);
	rlx_arena_put(b.arena);
	CHECK_EQ(deleted, 0);
	rlx_arena_put(b.arena);
	CHECK_EQ(deleted, 1);
}

TEST(no_strides_no_deleter_rank_0_and_unit_dimensions_are_fine)
{
	struct rlx_dl_managed dl = good();
	struct rlx_type t;
	struct rlx_buf b;

	dl.tensor.strides = NULL;
	dl.deleter = NULL;
	CHECK(!rlx_dl_import(&dl, &t, &b, NULL));
	rlx_arena_put(b.arena);
	dl.tensor.ndim = 0;
	dl.tensor.shape = NULL;
	CHECK(!rlx_dl_import(&dl, &t, &b, NULL));
	CHECK_EQ(t.rank, 0);
	CHECK_EQ(b.bytes, 4);
	rlx_arena_put(b.arena);
	dl = good();
	shape[0] = 1;
	strides[0] = 12345;
	CHECK(!rlx_dl_import(&dl, &t, &b, NULL));
	rlx_arena_put(b.arena);
}

TEST(no_elements_give_an_empty_buffer)
{
	struct rlx_dl_managed dl = good();
	struct rlx_type t;
	struct rlx_buf b;

	shape[1] = 0;
	dl.tensor.data = NULL;
	CHECK(!rlx_dl_import(&dl, &t, &b, NULL));
	CHECK_EQ(b.bytes, 0);
	CHECK(b.arena);
	CHECK_EQ(deleted, 0);
	rlx_arena_put(b.arena);
	CHECK_EQ(deleted, 1);
}

static void refuse(struct rlx_dl_managed *dl, enum rlx_status want,
		   const char *word)
{
	struct rlx_error err = { 0 };
	struct rlx_type t;
	struct rlx_buf b = { (void *)1, 1, 1 };
	enum rlx_status st = rlx_dl_import(dl, &t, &b, &err);

	CHECKF(st == want, "%s, not %s: %s", rlx_status_name(st),
	       rlx_status_name(want), err.text);
	CHECKF(strstr(err.text, word), "\"%s\" lacks \"%s\"", err.text, word);
	CHECK(!b.arena);
	CHECK_EQ(deleted, 0);
}

/* A slice that walks up one dimension and down another, and one that repeats. */
TEST(views)
{
	struct rlx_dl_managed dl = good();
	struct rlx_view v;
	struct rlx_type t;

	dl.tensor.data = data + 5;
	strides[0] = 2;
	strides[1] = -2;
	CHECK(!rlx_dl_import_view(&dl, &t, &v, NULL));
	CHECK(rlx_buf_ptr(v.buf) == data + 1 && v.buf.bytes == 28 && v.first == 16);
	CHECK(v.stride[0] == 2 && v.stride[1] == -2 && t.rank == 2 && t.dim[1] == 3);
	rlx_arena_put(v.buf.arena);
	CHECK_EQ(deleted, 1);
	dl = good();
	strides[0] = 0;
	CHECK(!rlx_dl_import_view(&dl, &t, &v, NULL));
	CHECK(v.buf.bytes == 12 && !v.first && !v.stride[0]);
	rlx_arena_put(v.buf.arena);
	dl = good();
	dl.tensor.strides = NULL;
	CHECK(!rlx_dl_import_view(&dl, &t, &v, NULL));
	CHECK(v.buf.bytes == 24 && v.stride[0] == 3 && v.stride[1] == 1);
	rlx_arena_put(v.buf.arena);
	CHECK_EQ(deleted, 3);
	dl = good();
	strides[1] = INT64_MAX / 4;
	CHECK_EQ(rlx_dl_import_view(&dl, &t, &v, NULL), RLX_ERANGE);
	strides[1] = -(INT64_MAX / 16);
	CHECK_EQ(rlx_dl_import_view(&dl, &t, &v, NULL), RLX_ERANGE);
	CHECK_EQ(rlx_dl_import_view(&dl, &t, NULL, NULL), RLX_EINVAL);
	CHECK(!v.buf.arena && deleted == 3);
}

TEST(what_cannot_be_wrapped_is_refused_and_stays_the_callers)
{
	struct rlx_dl_managed dl;

	refuse((dl = good(), dl.tensor.dtype.lanes = 4, &dl), RLX_ETYPE, "lanes");
	refuse((dl = good(), dl.tensor.dtype.bits = 4, &dl), RLX_ETYPE, "4 bits");
	refuse((dl = good(), dl.tensor.dtype.code = 3, &dl), RLX_ETYPE, "code 3");
	refuse((dl = good(), dl.tensor.dtype.lanes = 0, &dl), RLX_ETYPE, "lanes");
	refuse((dl = good(), dl.tensor.ndim = 9, &dl), RLX_EINVAL, "rank 9");
	refuse((dl = good(), dl.tensor.ndim = -1, &dl), RLX_EINVAL, "rank -1");
	refuse((dl = good(), dl.tensor.shape = NULL, &dl), RLX_EINVAL, "shape");
	refuse((dl = good(), shape[1] = -3, &dl), RLX_EINVAL, "-3");
	refuse((dl = good(), dl.tensor.data = NULL, &dl), RLX_EINVAL, "NULL");
	refuse((dl = good(), strides[0] = 4, &dl), RLX_ENOSUP, "contiguous");
	refuse((dl = good(), strides[0] = 1, strides[1] = 2, &dl), RLX_ENOSUP, "contiguous");
	refuse((dl = good(), strides[1] = -1, &dl), RLX_ENOSUP, "contiguous");
	refuse((dl = good(), dl.tensor.byte_offset = 2, &dl), RLX_ENOSUP, "align");
	refuse((dl = good(), dl.tensor.device.device_type = 2, &dl), RLX_ENOSUP, "device type 2");
	refuse((dl = good(), shape[0] = INT64_MAX, &dl), RLX_ERANGE, "overflow");
	refuse((dl = good(), dl.tensor.byte_offset = UINT64_MAX, &dl), RLX_ERANGE, "overflow");
	refuse(NULL, RLX_EINVAL, "NULL");
	dl = good();
	rlx_alloc_fail_nth(1);
	refuse(&dl, RLX_ENOMEM, "memory");
}

TEST(every_dtype_survives_out_and_in)
{
	static _Alignas(8) char mem[64];
	struct rlx_arena *a;
	int dt;

	CHECK(!rlx_arena_wrap(&(struct rlx_arena_user){
		.base = mem, .size = 64 }, &a, NULL));
	for (dt = RLX_NODTYPE + 1; dt < RLX_DTYPE_COUNT; dt++) {
		struct rlx_type t = rlx_type((enum rlx_dtype)dt, 2, 1, 3), u;
		struct rlx_dl_managed *dl;
		struct rlx_buf b;

		CHECK(!rlx_dl_export(rlx_buf_whole(a), &t, &dl, NULL));
		CHECK_EQ(dl->tensor.dtype.bits, 8 * rlx_dtype_size(t.dtype));
		CHECK_EQ(dl->tensor.strides[0], 3);
		CHECK_EQ(dl->tensor.strides[2], 1);
		CHECK(dl->tensor.data == mem);
		CHECK(!rlx_dl_import(dl, &u, &b, NULL));
		CHECK(rlx_type_equal(&t, &u));
		CHECK(rlx_buf_ptr(b) == mem);
		rlx_arena_put(b.arena);		/* deletes dl */
	}
	rlx_arena_put(a);
}

TEST(a_lent_buffer_keeps_its_arena)
{
	struct rlx_arena_opts o = { .size = 4096 };
	struct rlx_type t = rlx_type(RLX_I32, 10);
	struct rlx_dl_managed *dl;
	struct rlx_stats s0, s1;
	struct rlx_arena *a;
	struct rlx_buf b;

	rlx_stats_read(&s0);
	CHECK(!rlx_arena_new(&o, &a, NULL));
	CHECK(!rlx_buf_slice(rlx_buf_whole(a), 64, 40, &b, NULL));
	CHECK(!rlx_dl_export(b, &t, &dl, NULL));
	rlx_arena_put(a);
	((int *)dl->tensor.data)[9] = 5;	/* still mapped */
	rlx_stats_read(&s1);
	CHECK_EQ(s1.arenas, s0.arenas + 1);
	dl->deleter(dl);
	rlx_stats_read(&s1);
	CHECK_EQ(s1.arenas, s0.arenas);
}

TEST(export_checks_type_room_and_rights)
{
	struct rlx_type t = rlx_type(RLX_F32, 1024), bad = t;
	struct rlx_arena_opts o = { .size = 4096 };
	struct rlx_error err = { 0 };
	struct rlx_dl_versioned *v;
	struct rlx_dl_managed *dl;
	struct rlx_arena *a;
	struct rlx_buf b, out;

	CHECK(!rlx_arena_new(&o, &a, NULL));
	b = rlx_buf_whole(a);
	CHECK(!rlx_buf_slice(b, 0, 4095, &out, NULL));
	CHECK_EQ(rlx_dl_export(out, &t, &dl, &err), RLX_ERANGE);
	CHECK(!dl && strstr(err.text, "4096 bytes needed"));
	bad.dtype = RLX_NODTYPE;
	CHECK_EQ(rlx_dl_export(b, &bad, &dl, NULL), RLX_EINVAL);
	bad = t;
	bad.rank = 100;
	CHECK_EQ(rlx_dl_export(b, &bad, &dl, NULL), RLX_EINVAL);
	b.arena = NULL;
	CHECK_EQ(rlx_dl_export(b, &t, &dl, NULL), RLX_EINVAL);
	b.arena = a;
	rlx_alloc_fail_nth(1);
	CHECK_EQ(rlx_dl_export(b, &t, &dl, NULL), RLX_ENOMEM);
	rlx_alloc_fail_nth(0);
	CHECK(!rlx_dl_export_versioned(b, &t, &v, NULL));
	CHECK_EQ(v->flags, 0);
	CHECK_EQ(v->version.major, 1);
	v->deleter(v);
	CHECK(!rlx_arena_seal(a, RLX_SEAL_WRITE, NULL));
	CHECK_EQ(rlx_dl_export(b, &t, &dl, NULL), RLX_EACCES);
	CHECK(!rlx_dl_export_versioned(b, &t, &v, NULL));
	CHECK_EQ(v->flags, RLX_DL_READ_ONLY);
	v->deleter(v);
	rlx_arena_put(a);
}

TEST(versioned_import_heeds_version_and_read_only)
{
	struct rlx_dl_versioned v = {
		.version = { 1, 1 }, .deleter = on_delete_versioned,
		.flags = RLX_DL_READ_ONLY, .tensor = good().tensor,
	};
	struct rlx_type t;
	struct rlx_buf b;

	CHECK(!rlx_dl_import_versioned(&v, &t, &b, NULL));
	CHECK(rlx_arena_flags(b.arena) & RLX_ARENA_RDONLY);
	rlx_arena_put(b.arena);
	CHECK_EQ(deleted, 1);
	v.version.major = 2;
	CHECK_EQ(rlx_dl_import_versioned(&v, &t, &b, NULL), RLX_ENOSUP);
	CHECK_EQ(deleted, 1);
}

TEST_MAIN()
