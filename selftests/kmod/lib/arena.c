// SPDX-License-Identifier: MIT
/* Arenas as tests call and map them. */
/* Offsets of mappings have more than 32 bits. */
#define _FILE_OFFSET_BITS 64

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/arena.h"

long k_dup(int arena, uint32_t access)
{
	struct rlx_ioc_arena_dup d = { .access = access };

	return k_ioctl(arena, RLX_IOC_ARENA_DUP, &d);
}

long k_export(int arena, uint64_t offset, uint64_t length, uint32_t access)
{
	struct rlx_ioc_arena_export e = {
		.offset = offset, .length = length, .access = access,
	};

	return k_ioctl(arena, RLX_IOC_ARENA_EXPORT, &e);
}

long k_seal(int arena, uint32_t seals)
{
	struct rlx_ioc_arena_seal s = { .seals = seals };

	return k_ioctl(arena, RLX_IOC_ARENA_SEAL, &s);
}

struct rlx_ioc_arena_info k_arena_info(int arena)
{
	struct rlx_ioc_arena_info i = { 0 };

	CHECK_EQ(k_ioctl(arena, RLX_IOC_ARENA_INFO, &i), 0);
	return i;
}

void *k_map(int fd, size_t size, int prot, uint64_t offset)
{
	void *p = mmap(NULL, size, prot, MAP_SHARED, fd, (off_t)offset);

	CHECKF(p != MAP_FAILED, "mmap of %zu bytes: %s", size, strerror(errno));
	return p;
}

void *k_map_over(uint64_t size, uint64_t part)
{
	int fd = memfd_create("part", MFD_CLOEXEC);
	uint64_t at, n;
	char *p;

	CHECK(fd >= 0 && !ftruncate(fd, part));
	p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	for (at = 0; at < size; at += n) {
		n = part < size - at ? part : size - at;
		CHECK(mmap(p + at, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
		      p + at);
	}
	close(fd);
	return p;
}

void k_fill(uint64_t *p, size_t bytes, uint64_t seed)
{
	size_t i;

	for (i = 0; i < bytes / 8; i++)
		p[i] = rlx_test_rand(&seed);
}

void k_compare(const uint64_t *p, size_t bytes, uint64_t seed)
{
	size_t i;

	for (i = 0; i < bytes / 8; i++) {
		uint64_t want = rlx_test_rand(&seed);

		CHECKF(p[i] == want, "word %zu of %zu is another one", i,
		       bytes / 8);
	}
}

void k_file_read(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t at = 0;
	ssize_t n;

	CHECKF(fd >= 0, "%s: %s", path, strerror(errno));
	while ((n = read(fd, buf + at, size - 1 - at)) > 0)
		at += n;
	buf[at] = 0;
	close(fd);
}

long long k_file_field(const char *path, const char *key)
{
	FILE *f = fopen(path, "re");
	long long n = -1;
	char line[256];

	CHECKF(f, "%s: %s", path, strerror(errno));
	while (n < 0 && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)))
			n = strtoll(line + strlen(key), NULL, 10);
	fclose(f);
	return n;
}

long long k_file_number(const char *path)
{
	char buf[64];

	k_file_read(path, buf, sizeof(buf));
	CHECKF(buf[0], "%s is empty", path);
	return (long long)strtoull(buf, NULL, 0);
}

void k_file_write(const char *path, long long value)
{
	char buf[32];
	int fd = open(path, O_WRONLY);

	CHECKF(fd >= 0, "%s: %s", path, strerror(errno));
	snprintf(buf, sizeof(buf), "%lld", value);
	CHECK(write(fd, buf, strlen(buf)) > 0);
	close(fd);
}
