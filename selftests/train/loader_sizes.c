// SPDX-License-Identifier: MIT
/* Data sets whose sizes, as their headers tell them, wrap when they are added up. */
#include <sys/wait.h>

#include "selftests/lib/data_set.h"

static enum rlx_status decode_nothing(void *ctx, const struct rlx_sample *in, void *const *out,
				      struct rlx_error *err)
{
	(void)ctx;
	(void)in;
	(void)out;
	(void)err;
	return RLX_OK;
}

static void put(FILE *f, uint64_t v, unsigned int bytes)
{
	for (; bytes--; v >>= 8)
		fputc((int)(v & 255), f);
}

enum { LARGE_HEAD = 128, LARGE_BLOCK = 65535, LARGE_BLOCKS = 16 };

/* A .npy of (2^56 + 1, 64) bytes, or so it says, of which the stream has a mebibyte. */
static void put_large(FILE *f)
{
	char head[LARGE_HEAD + 1], *block = calloc(1, LARGE_BLOCK);
	unsigned int i;

	CHECK(block);
	snprintf(head, sizeof(head), "%-127s\n", "..........{'descr': '|u1', 'fortran_order': "
		 "False, 'shape': (72057594037927937, 64), }");
	memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
	memcpy(block, head, LARGE_HEAD);
	for (i = 0; i < LARGE_BLOCKS; i++) {
		put(f, i + 1 == LARGE_BLOCKS, 1);	/* stored */
		put(f, LARGE_BLOCK, 2);
		put(f, 0, 2);
		fwrite(block, 1, LARGE_BLOCK, f);
	}
	free(block);
}

/* An archive of four such, whose sizes together are 2^64 and a little. */
static void write_large(const char *path)
{
	const uint64_t packed = LARGE_BLOCKS * (LARGE_BLOCK + 5);
	const uint64_t bytes = (1ull << 62) + 64 + LARGE_HEAD;
	unsigned long local[4], directory, end;
	FILE *f = fopen(path, "wb");
	unsigned int i;

	CHECK(f);
	for (i = 0; i < 4; i++) {
		local[i] = (unsigned long)ftell(f);
		put(f, 0x04034b50, 4);
		put(f, 0, 22);
		put(f, 5, 2);
		put(f, 0, 2);
		fprintf(f, "%c.npy", 'a' + (int)i);
		put_large(f);
	}
	directory = (unsigned long)ftell(f);
	for (i = 0; i < 4; i++) {
		put(f, 0x02014b50, 4);
		put(f, 0, 6);
		put(f, 8, 2);			/* deflated */
		put(f, 0, 8);
		put(f, packed, 4);
		put(f, UINT32_MAX, 4);
		put(f, 5, 2);
		put(f, 12, 2);
		put(f, 0, 10);
		put(f, local[i], 4);
		fprintf(f, "%c.npy", 'a' + (int)i);
		put(f, 1 | 8 << 16, 4);
		put(f, bytes, 8);
	}
	end = (unsigned long)ftell(f);
	put(f, 0x06054b50, 4);
	put(f, 0, 4);
	put(f, 4 | 4 << 16, 4);
	put(f, end - directory, 4);
	put(f, directory, 4);
	put(f, 0, 2);
	fclose(f);
}

/* In a child, as it may end by a signal: what opening and the first batch come to. */
TEST(sizes_that_are_small_when_they_wrap)
{
	static const struct rlx_field wide = { "x", { RLX_U8, 1, { 1ll << 62 } } };
	struct rlx_loader_opts o = { .size = sizeof(o), .path = data_path("large.npz"),
				     .batch = 4 };
	struct rlx_loader *ld;
	struct rlx_error err = { 0 };
	struct rlx_batch b;
	int status;
	pid_t pid;

	write_large(o.path);
	pid = fork();
	if (!pid) {
		if (!rlx_loader_open(&o, &ld, &err) && !rlx_loader_next(ld, &b, -1))
			_exit(1);
		_exit(err.status == RLX_ENOSUP && strstr(err.text, "resident allows") ? 0 : 2);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECKF(!status, "it ends with status %#x", (unsigned int)status);
	o.path = data_path("ten.idx");
	data_write(o.path, "\0\0\x08\x01\0\0\0\x0a" "0123456789", 18);
	o.decoded = &wide;
	o.n_decoded = 1;
	o.decode = decode_nothing;
	CHECK_EQ(rlx_loader_open(&o, &ld, &err), RLX_ERANGE);
	CHECKF(strstr(err.text, "ten.idx"), "%s", err.text);
}

TEST_MAIN()
