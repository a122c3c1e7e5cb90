/* SPDX-License-Identifier: MIT */
/* Arenas as tests call and map them; negative errno on failure. */
#ifndef RLX_KMOD_ARENA_H
#define RLX_KMOD_ARENA_H

#include <linux/rlx.h>
#include <stddef.h>
#include <stdint.h>

/* fds */
long k_dup(int arena, uint32_t access);
long k_export(int arena, uint64_t offset, uint64_t length, uint32_t access);

long k_seal(int arena, uint32_t seals);
struct rlx_ioc_arena_info k_arena_info(int arena);

/* Shared, from @offset on; fails the test where that does not work. */
void *k_map(int fd, size_t size, int prot, uint64_t offset);

/* @size bytes that take @part of memory, mapped over and over, to write and to pin. */
void *k_map_over(uint64_t size, uint64_t part);

/* Random words by @seed, and whether they are there. */
void k_fill(uint64_t *p, size_t bytes, uint64_t seed);
void k_compare(const uint64_t *p, size_t bytes, uint64_t seed);

/* A file as a string, as much as fits; fails the test where it cannot be read. */
void k_file_read(const char *path, char *buf, size_t size);
/* The number that a small file holds, as those in /sys/class/misc/rlx do. */
#define K_TOTALS	"/sys/class/misc/rlx/"
long long k_file_number(const char *path);
/* The number behind @key, with which a line begins, or -1. */
long long k_file_field(const char *path, const char *key);
void k_file_write(const char *path, long long value);

#endif
