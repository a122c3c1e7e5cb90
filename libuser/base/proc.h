/* SPDX-License-Identifier: MIT */
/* Reads the small text files of /proc, /sys and the cgroup tree; no heap. */
#ifndef RLX_BASE_PROC_H
#define RLX_BASE_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lines of a file through one fixed buffer; longer lines are cut. */
struct rlx_lines {
	int	fd;
	size_t	at, len;
	char	buf[4096];
};

bool rlx_lines_open(struct rlx_lines *l, const char *path);
/* The next line without its newline, valid until the next call; NULL at end. */
char *rlx_lines_next(struct rlx_lines *l);
void rlx_lines_close(struct rlx_lines *l);

/* The start of a file as a string; false if it cannot be read. */
bool rlx_proc_text(const char *path, char *out, size_t size);
/* A file that holds one number. */
bool rlx_proc_u64(const char *path, uint64_t *out);
/*
 * The number after "@key" in a file of "key value" or "key: value kB" lines;
 * a "kB" unit is applied.
 */
bool rlx_proc_key(const char *path, const char *key, uint64_t *out);

/*
 * rlx_cgroup_each - call @fn with the folder of this process's cgroup for
 * @controller and with that of every ancestor, nearest first. @v2 tells which
 * file names the folder has. Limits hold for the whole chain, so a caller
 * takes the minimum.
 */
void rlx_cgroup_each(const char *controller,
		     void (*fn)(void *ctx, const char *dir, bool v2),
		     void *ctx);

/* CPUs this process may use: affinity mask and cgroup quota; at least 1. */
unsigned int rlx_cpu_allowed(void);
/* Bytes that can be taken without swapping or an OOM kill, by the machine's
 * and the cgroups' count; UINT64_MAX if nothing says. */
uint64_t rlx_mem_available(void);

#endif
