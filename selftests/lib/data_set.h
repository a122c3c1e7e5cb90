/* SPDX-License-Identifier: MIT */
/* Data sets for tests: record files with bytes that tell where they belong, in a folder. */
#ifndef RLX_TEST_DATA_SET_H
#define RLX_TEST_DATA_SET_H

#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rlx/data.h"
#include "selftests/lib/rlx_test.h"

/* Where the test's folder is made: on a disk, for direct I/O; memory is faster. */
#ifndef DATA_BASE
#define DATA_BASE	"/var/tmp"
#endif

static char data_dir[64];
static const char *data_base = DATA_BASE;

static inline int data_remove(const char *path, const struct stat *st, int kind, struct FTW *f)
{
	return remove(path);
}

static inline void data_dir_end(void)
{
	if (*data_dir)
		nftw(data_dir, data_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* A file's path in the test's folder, which ends with the process. Eight at a time. */
static inline const char *data_path(const char *name)
{
	static char path[8][128];
	static unsigned int k;

	if (!*data_dir) {
		snprintf(data_dir, sizeof(data_dir), "%s/rlx-train-XXXXXX", data_base);
		CHECK(mkdtemp(data_dir));
		atexit(data_dir_end);
	}
	k = (k + 1) % 8;
	snprintf(path[k], sizeof(path[k]), "%s/%s", data_dir, name);
	return path[k];
}

/* Byte @j of field @f of record @i: what the loader's batches are compared with. */
static inline uint8_t data_byte(uint64_t i, unsigned int f, uint64_t j)
{
	uint64_t x = i * 0x9e3779b97f4a7c15u + f * 0x1000003u + j * 31;

	return (uint8_t)(x >> 40 ^ x >> 17 ^ x);
}

static inline void data_fill(uint8_t *p, uint64_t i, unsigned int f, uint64_t bytes)
{
	uint64_t j;

	for (j = 0; j < bytes; j++)
		p[j] = data_byte(i, f, j);
}

/* Do @bytes at @p say that they are field @f of record @i? */
static inline bool data_is(const uint8_t *p, uint64_t i, unsigned int f, uint64_t bytes)
{
	uint64_t j;

	for (j = 0; j < bytes; j++)
		if (p[j] != data_byte(i, f, j))
			return false;
	return true;
}

/* A record file of @n records; @n_field fields. */
static inline void data_record(const char *path, const struct rlx_field *field,
			       unsigned int n_field, uint64_t n, uint64_t chunk)
{
	struct rlx_record_opts o = { .size = sizeof(o), .chunk_bytes = chunk };
	const void *data[RLX_FIELDS_MAX];
	struct rlx_record_writer *w;
	struct rlx_error err = { 0 };
	unsigned int f;
	uint64_t i;

	CHECKF(!rlx_record_create(path, field, n_field, &o, &w, &err), "%s", err.text);
	for (f = 0; f < n_field; f++)
		data[f] = malloc((size_t)rlx_type_bytes(&field[f].type));
	for (i = 0; i < n; i++) {
		for (f = 0; f < n_field; f++)
			data_fill((uint8_t *)data[f], i, f,
				  (uint64_t)rlx_type_bytes(&field[f].type));
		CHECKF(!rlx_record_add(w, data, 1, &err), "%s", err.text);
	}
	for (f = 0; f < n_field; f++)
		free((void *)data[f]);
	CHECKF(!rlx_record_commit(w, &err), "%s", err.text);
}

static inline void data_write(const char *path, const void *p, size_t n)
{
	FILE *f = fopen(path, "wb");

	CHECK(f && fwrite(p, 1, n, f) == n && !fclose(f));
}

static inline uint8_t *data_read(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	struct stat st;
	uint8_t *p;

	CHECK(f && !fstat(fileno(f), &st));
	*n = (size_t)st.st_size;
	p = malloc(*n + 1);
	CHECK(p && fread(p, 1, *n, f) == *n);
	fclose(f);
	return p;
}

#endif
