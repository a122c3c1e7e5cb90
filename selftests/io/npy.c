// SPDX-License-Identifier: MIT
/* .npy: round trips, files as numpy writes them, and files it does not. */
#include <unistd.h>

#include "base/alloc.h"
#include "rlx/npy.h"
#include "selftests/lib/rlx_test.h"

/* A file of version @major with header text @head and @n bytes of data. */
static size_t make(uint8_t *buf, int major, const char *head, const void *data,
		   size_t n)
{
	size_t len = strlen(head), at = major == 1 ? 10 : 12;

	memcpy(buf, "\x93NUMPY", 6);
	buf[6] = (uint8_t)major;
	buf[7] = 0;
	buf[8] = (uint8_t)len;
	buf[9] = (uint8_t)(len >> 8);
	buf[10] = buf[11] = 0;
	memcpy(buf + at, head, len);
	memcpy(buf + at + len, data, n);
	return at + len + n;
}

static enum rlx_status open_copy(const uint8_t *p, size_t n, struct rlx_npy **f,
				 void **copy, struct rlx_error *err)
{
	memset(err, 0, sizeof(*err));
	*copy = malloc(n ? n : 1);
	memcpy(*copy, p, n);
	return rlx_npy_open_mem(*copy, n, f, err);
}

static const enum rlx_dtype all[] = {
	RLX_F64, RLX_F32, RLX_F16, RLX_I64, RLX_I32, RLX_I16, RLX_I8, RLX_U64,
	RLX_U32, RLX_U16, RLX_U8, RLX_BOOL, RLX_C64,
};

TEST(every_dtype_and_rank_round_trips)
{
	char path[] = "/tmp/rlx-npy-XXXXXX";
	uint64_t s = rlx_test_seed();
	uint8_t data[8 * 256];
	size_t i, k;
	uint32_t rank;

	close(mkstemp(path));
	for (i = 0; i < sizeof(all) / sizeof(*all); i++)
		for (rank = 0; rank <= RLX_MAX_RANK; rank++) {
			struct rlx_type t = { .dtype = all[i], .rank = rank };
			struct rlx_error err = { 0 };
			struct rlx_npy *f;
			size_t bytes;

			for (k = 0; k < rank; k++)
				t.dim[k] = (int64_t)(rlx_test_rand(&s) % 3) +
					   (rlx_test_rand(&s) % 8 != 0);
			while (rlx_type_bytes(&t) > (int64_t)sizeof(data))
				for (k = 0; k < rank; k++)
					t.dim[k] = (t.dim[k] + 1) / 2;
			bytes = (size_t)rlx_type_bytes(&t);
			for (k = 0; k < bytes; k++)
				data[k] = (uint8_t)(rlx_test_rand(&s) &
						    (all[i] == RLX_BOOL ? 1 : 255));
			CHECKF(!rlx_npy_write(path, &t, data, &err), "%s",
			       err.text);
			CHECKF(!rlx_npy_open(path, &f, &err), "%s", err.text);
			CHECK(rlx_type_equal(&t, rlx_npy_type(f)));
			CHECK(!memcmp(rlx_npy_data(f), data, bytes));
			CHECK_EQ((uintptr_t)rlx_npy_data(f) % 64, 0);
			rlx_npy_close(f);
		}
	remove(path);
}

TEST(header_as_numpy_writes_it)
{
	static const float x[6] = { 1, 2, 3, 4, 5, 6 };
	struct rlx_type t = rlx_type(RLX_F32, 2, 3);
	char path[] = "/tmp/rlx-npy-XXXXXX";
	static const char want[] =
		"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': "
		"False, 'shape': (2, 3), }";
	char buf[256];
	size_t n;
	FILE *f;

	close(mkstemp(path));
	CHECK_EQ(rlx_npy_write(path, &t, x, NULL), RLX_OK);
	f = fopen(path, "rb");
	n = fread(buf, 1, sizeof(buf), f);
	fclose(f);
	remove(path);
	CHECK_EQ(n, 128 + sizeof(x));
	CHECK(!memcmp(buf, want, sizeof(want) - 1));
	CHECK_EQ(buf[127], '\n');
	CHECK(!memcmp(buf + 128, x, sizeof(x)));
}

TEST(fortran_order_is_transposed)
{
	/* a[i][j][k] = 100 i + 10 j + k, first index fastest */
	int16_t x[2 * 3 * 4], *p = x;
	const int16_t *got;
	struct rlx_error err;
	struct rlx_npy *f;
	uint8_t buf[512];
	void *copy;
	int i, j, k, big;
	size_t n;

	for (big = 0; big < 2; big++) {
		p = x;
		for (k = 0; k < 4; k++)
			for (j = 0; j < 3; j++)
				for (i = 0; i < 2; i++) {
					uint16_t v = (uint16_t)(100 * i + 10 * j + k);

					*p++ = (int16_t)(big ? v << 8 | v >> 8 : v);
				}
		n = make(buf, 2, big ?
			 "{\"shape\": (2, 3, 4,), \"descr\": \">i2\", \"fortran_order\": True}" :
			 "{'descr':'<i2','fortran_order':True,'shape':(2,3,4)}\n",
			 x, sizeof(x));
		CHECKF(!open_copy(buf, n, &f, &copy, &err), "%s", err.text);
		got = rlx_npy_data(f);
		for (i = 0; i < 2; i++)
			for (j = 0; j < 3; j++)
				for (k = 0; k < 4; k++)
					CHECK_EQ(*got++, 100 * i + 10 * j + k);
		rlx_npy_close(f);
		free(copy);
	}
}

TEST(big_endian_and_unaligned)
{
	static const uint8_t be[] = { 0x3f, 0x80, 0, 0, 0x40, 0, 0, 0 };
	struct rlx_error err;
	struct rlx_npy *f;
	uint8_t buf[256];
	const float *p;
	void *copy;
	size_t n;

	n = make(buf, 1, "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }",
		 be, 8);
	CHECK_EQ(open_copy(buf, n, &f, &copy, &err), RLX_OK);
	p = rlx_npy_data(f);
	CHECK(p[0] == 1 && p[1] == 2);
	CHECK_EQ((uintptr_t)p % 4, 0);
	rlx_npy_close(f);
	free(copy);
	n = make(buf, 3, "{'descr': '>c8', 'fortran_order': False, 'shape': ()}",
		 be, 8);
	CHECK_EQ(open_copy(buf, n, &f, &copy, &err), RLX_OK);
	p = rlx_npy_data(f);
	CHECK(p[0] == 1 && p[1] == 2);	/* the parts do not change places */
	rlx_npy_close(f);
	free(copy);
}

#define HEAD(d, s) "{'descr': '" d "', 'fortran_order': False, 'shape': " s ", }"

TEST(refused_with_a_message)
{
	static const struct {
		const char	*head, *message;
		enum rlx_status	 st;
		int		 major;
	} bad[] = {
		{ HEAD("<f4", "(3,)"), "8 bytes of elements", RLX_EPARSE, 1 },
		{ HEAD("<f4", "(1,)"), "the shape needs 4", RLX_EPARSE, 1 },
		{ HEAD("<f4", "(2)"), "no tuple", RLX_EPARSE, 1 },
		{ HEAD("<f4", "2"), "no tuple", RLX_EPARSE, 1 },
		{ HEAD("<f4", "(-2,)"), "dimension expected", RLX_EPARSE, 1 },
		{ HEAD("<f4", "(1 2)"), "',' or ')'", RLX_EPARSE, 1 },
		{ HEAD("<f4", "(2,"), "dimension expected", RLX_EPARSE, 1 },
		{ HEAD("<f4", "(99999999999999999999,)"), "too large", RLX_ERANGE, 1 },
		{ HEAD("<f4", "(4294967296,4294967296,2)"), "memory", RLX_ERANGE, 1 },
		{ HEAD("<f4", "(1,1,1,1,1,1,1,1,2)"), "8 dimensions", RLX_ENOSUP, 1 },
		{ HEAD("|O", "(2,)"), "'|O' is not supported", RLX_ENOSUP, 1 },
		{ HEAD("<U4", "(2,)"), "'<U4'", RLX_ENOSUP, 1 },
		{ HEAD("<f16", "(2,)"), "'<f16'", RLX_ENOSUP, 1 },
		{ HEAD("xf4", "(2,)"), "'xf4'", RLX_ENOSUP, 1 },
		{ "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}",
		  "not a plain dtype", RLX_ENOSUP, 1 },
		{ "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
		  "neither True nor False", RLX_EPARSE, 1 },
		{ "{'descr': '<f4', 'fortran_order': False}", "lacks", RLX_EPARSE, 1 },
		{ "{'descr': '<f4', 'descr': '<f4'}", "repeated", RLX_EPARSE, 1 },
		{ "{'what': 1}", "unknown", RLX_EPARSE, 1 },
		{ HEAD("<f4", "(2,)") "x", "behind the header", RLX_EPARSE, 1 },
		{ "", "'{' expected", RLX_EPARSE, 1 },
		{ HEAD("<f4", "(2,)"), "version 4.0", RLX_ENOSUP, 4 },
		{ HEAD("|b1", "(8,)"), "neither 0 nor 1", RLX_EPARSE, 1 },
	};
	static const uint8_t data[8] = { 0, 1, 2 };
	struct rlx_error err;
	struct rlx_npy *f;
	uint8_t buf[512];
	void *copy;
	size_t i, n;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		enum rlx_status st;

		n = make(buf, bad[i].major, bad[i].head, data, 8);
		st = open_copy(buf, n, &f, &copy, &err);
		CHECKF(st == bad[i].st, "%s: %s", bad[i].head, err.text);
		CHECKF(strstr(err.text, bad[i].message), "%s: %s", bad[i].head,
		       err.text);
		CHECK(!f);
		free(copy);
	}
	CHECK_EQ(rlx_npy_open("/", &f, NULL), RLX_EBADFD);
	CHECK_EQ(rlx_npy_open("/nowhere/x.npy", &f, NULL), RLX_ENOENT);
	CHECK_EQ(rlx_npy_open(NULL, &f, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_npy_open("x", NULL, NULL), RLX_EINVAL);
	rlx_npy_close(NULL);
}

TEST(every_truncation_and_bit_flip)
{
	static const float x[4] = { 1, 2, 3, 4 };
	struct rlx_error err;
	struct rlx_npy *f;
	uint8_t buf[256];
	void *copy;
	size_t n, i;
	int bit;

	n = make(buf, 1, HEAD("<f4", "(2, 2)"), x, sizeof(x));
	for (i = 0; i < n; i++) {
		CHECK_EQ(open_copy(buf, i, &f, &copy, &err), RLX_EPARSE);
		free(copy);
	}
	for (i = 0; i < n - sizeof(x); i++)
		for (bit = 0; bit < 8; bit++) {
			buf[i] ^= (uint8_t)(1 << bit);
			if (!open_copy(buf, n, &f, &copy, &err)) {
				/* then it is one that explains the data */
				CHECK_EQ(rlx_type_bytes(rlx_npy_type(f)),
					 sizeof(x));
				rlx_npy_close(f);
			} else {
				CHECK(err.text[0]);
			}
			free(copy);
			buf[i] ^= (uint8_t)(1 << bit);
		}
}

TEST(what_numpy_has_not)
{
	struct rlx_type t = rlx_type(RLX_BF16, 2);
	struct rlx_error err = { 0 };
	uint16_t x[2] = { 0 };

	CHECK_EQ(rlx_npy_write("/tmp/x.npy", &t, x, &err), RLX_ENOSUP);
	CHECK(strstr(err.text, "bf16"));
	t = rlx_type(RLX_F32, 2);
	CHECK_EQ(rlx_npy_write("/tmp/x.npy", &t, NULL, NULL), RLX_EINVAL);
	t.dim[0] = -1;
	CHECK_EQ(rlx_npy_write("/tmp/x.npy", &t, x, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_npy_write("/tmp/x.npy", NULL, x, NULL), RLX_EINVAL);
	t.dim[0] = 1;
	CHECK_EQ(rlx_npy_write("/nowhere/x.npy", &t, x, NULL), RLX_ENOENT);
	CHECK_EQ(rlx_npy_write(NULL, &t, x, NULL), RLX_EINVAL);
}

TEST(a_place_that_cannot_be_written)
{
	struct rlx_type t = rlx_type(RLX_U8, 1 << 20);
	struct rlx_error err = { 0 };
	uint8_t *x = calloc(1, 1 << 20);

	CHECK(rlx_npy_write("/proc/rlx.npy", &t, x, &err) != RLX_OK);
	CHECK(err.text[0]);
	free(x);
}

TEST(no_memory_anywhere)
{
	static const uint8_t x[8] = { 1 };
	char path[] = "/tmp/rlx-npy-XXXXXX";
	struct rlx_type t = rlx_type(RLX_U8, 8);
	uint8_t buf[256];
	size_t len;
	uint64_t n;

	close(mkstemp(path));
	len = make(buf, 1, "{'descr': '>i4', 'fortran_order': False, 'shape': (2,)}",
		   x, 8);
	for (n = 1; n < 50; n++) {
		struct rlx_error err = { 0 };
		struct rlx_npy *f = NULL;
		enum rlx_status st;

		rlx_alloc_fail_nth(n);
		st = rlx_npy_open_mem(buf, len, &f, &err);
		if (!st)
			st = rlx_npy_write(path, &t, x, &err);
		rlx_alloc_fail_nth(0);
		rlx_npy_close(f);
		if (!st)
			break;
		CHECK_EQ(st, RLX_ENOMEM);
	}
	CHECK(n > 2 && n < 50);
	remove(path);
}

TEST(the_header_alone_tells_what_follows)
{
	struct rlx_npy_header h = { 0 };
	struct rlx_error err = { 0 };
	uint8_t buf[400];
	size_t n;

	n = make(buf, 1, "{'descr': '>f4', 'fortran_order': True, 'shape': (7, 5, 1000), }", "", 0);
	CHECKF(!rlx_npy_header(buf, n, "x", &h, &err), "%s", err.text);
	CHECK(rlx_type_equal(&h.type, &rlx_type(RLX_F32, 7, 5, 1000)));
	CHECK_EQ(h.offset, n);
	CHECK(h.fortran && h.swapped);
	n = make(buf, 2, "{'descr': '|u1', 'fortran_order': True, 'shape': (9,), }", "", 0);
	CHECK(!rlx_npy_header(buf, sizeof(buf), "x", &h, &err));
	CHECK(h.offset == n && !h.fortran && !h.swapped);
	for (; n-- > 0;) {
		err.status = RLX_OK;
		CHECK_EQ(rlx_npy_header(buf, n, "x", &h, &err), RLX_EPARSE);
		CHECK(strstr(err.text, "x: byte "));
	}
}

TEST_MAIN()
