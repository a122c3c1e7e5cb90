// SPDX-License-Identifier: MIT
/* What an arena got, looked up in /proc and by asking the kernel. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/proc.h"
#include "mem/arena.h"

enum { SAMPLES = 64 };

/* Lines of a mapping in smaps that count pages present, and huge ones. */
static bool field(const char *line, const char *key, unsigned long long *out)
{
	size_t n = strlen(key);

	return !strncmp(line, key, n) && sscanf(line + n, " %llu kB", out) == 1;
}

static void smaps(const struct rlx_arena *a, struct rlx_arena_info *out)
{
	static const char *const huge[] = {
		"ShmemPmdMapped:", "FilePmdMapped:", "AnonHugePages:",
		"Shared_Hugetlb:", "Private_Hugetlb:",
	};
	uintptr_t lo = (uintptr_t)a->base, hi = lo + a->size;
	unsigned long long from, to, kb;
	struct rlx_lines l;
	bool in = false;
	unsigned int i;
	char *s;

	if (!rlx_lines_open(&l, "/proc/self/smaps"))
		return;
	while ((s = rlx_lines_next(&l))) {
		/* A header is "from-to perms ..."; fields begin upper case. */
		if ((*s < 'A' || *s > 'Z') &&
		    sscanf(s, "%llx-%llx", &from, &to) == 2) {
			if (in && from >= hi)
				break;
			in = from < hi && to > lo;
			continue;
		}
		if (!in)
			continue;
		if (field(s, "Rss:", &kb))
			out->bytes_there += kb * 1024;
		for (i = 0; i < sizeof(huge) / sizeof(huge[0]); i++) {
			if (!field(s, huge[i], &kb))
				continue;
			out->bytes_huge += kb * 1024;
			if (i >= 3)	/* Rss leaves hugetlb out */
				out->bytes_there += kb * 1024;
		}
	}
	rlx_lines_close(&l);
	/* A wrapped range may lie inside larger mappings. */
	if (out->bytes_there > a->size)
		out->bytes_there = a->size;
	if (out->bytes_huge > a->size)
		out->bytes_huge = a->size;
}

/* The node most of some evenly spread pages lie on. */
static int node_of(const struct rlx_arena *a)
{
	uint64_t page = rlx_page_bytes(), pages = a->size / page, i;
	unsigned int votes[64] = { 0 };
	void *addr[SAMPLES];
	int status[SAMPLES], best = -1;
	uint64_t n = pages < SAMPLES ? pages : SAMPLES;

	if (!n)
		return -1;
	for (i = 0; i < n; i++)
		addr[i] = a->base + i * (pages / n) * page;
	/* A kernel without NUMA lacks the call: it knows one node. */
	if (syscall(SYS_move_pages, 0, n, addr, NULL, status, 0))
		return errno == ENOSYS ? 0 : -1;
	for (i = 0; i < n; i++)
		if (status[i] >= 0 && status[i] < 64)
			votes[status[i]]++;
	for (i = 0; i < 64; i++)
		if (votes[i] && (best < 0 || votes[i] > votes[best]))
			best = (int)i;
	return best;
}

void rlx_arena_info(struct rlx_arena *a, struct rlx_arena_info *out)
{
	uint64_t whole;

	if (!out)
		return;
	*out = (struct rlx_arena_info){ .node = -1 };
	if (!a)
		return;
	out->provider = a->prov->name;
	out->bytes = a->size;
	out->page_bytes = a->page;
	out->flags = a->flags;
	out->seals = a->prov->seals ? a->prov->seals(a) : 0;
	pthread_mutex_lock(&a->lock);
	out->bytes_locked = a->locked;
	memcpy(out->why_lock, a->why_lock, sizeof(out->why_lock));
	pthread_mutex_unlock(&a->lock);
	pthread_mutex_lock(&a->space.lock);
	out->buffers = a->space.buffers;
	out->bytes_used = a->space.used;
	pthread_mutex_unlock(&a->space.lock);
	memcpy(out->why_pages, a->why_pages, sizeof(out->why_pages));
	memcpy(out->why_node, a->why_node, sizeof(out->why_node));
	memcpy(out->why_provider, a->why_prov, sizeof(out->why_provider));
	smaps(a, out);
	out->node = node_of(a);
	whole = a->size & ~((2ull << 20) - 1);
	if (!out->why_pages[0] && a->pages != RLX_PAGES_SMALL &&
	    a->page == rlx_page_bytes() && out->bytes_huge < whole)
		snprintf(out->why_pages, sizeof(out->why_pages),
			 "%llu of %llu bytes are huge: the rest is not touched "
			 "yet, or memory is in pieces",
			 (unsigned long long)out->bytes_huge,
			 (unsigned long long)a->size);
}
