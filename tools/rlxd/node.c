// SPDX-License-Identifier: MIT
/* Finds the nodes of memory and moves threads to them. */
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/proc.h"
#include "tools/rlxd/node.h"

/* Written before there are threads. */
static struct {
	cpu_set_t	cpus;		/* of those we may use */
	unsigned int	number;
} nodes[NODES_MAX];
static int n_nodes = 1;
_Static_assert(NODES_MAX <= 64, "a bit each");
static cpu_set_t at_start;

static _Thread_local int here = NODE_ANY;

/* "0-3,8" */
static void read_list(const char *s, cpu_set_t *out)
{
	unsigned long a, b;
	char *end;

	CPU_ZERO(out);
	for (; *s >= '0' && *s <= '9'; s = *end == ',' ? end + 1 : end) {
		a = b = strtoul(s, &end, 10);
		if (*end == '-')
			b = strtoul(end + 1, &end, 10);
		for (; a <= b && a < CPU_SETSIZE; a++)
			CPU_SET(a, out);
	}
}

/* Numbers of the nodes described in @dir: looking for each takes longer. */
static uint64_t list_nodes(const char *dir)
{
	DIR *d = opendir(dir);
	uint64_t found = 0;
	struct dirent *e;
	unsigned int i;

	while (d && (e = readdir(d)))
		if (sscanf(e->d_name, "node%u", &i) == 1 && i < NODES_MAX)
			found |= 1ull << i;
	if (d)
		closedir(d);
	return found;
}

void node_setup(const char *dir)
{
	uint64_t found = list_nodes(dir);
	char path[128], text[4096];
	unsigned int i;

	n_nodes = 0;
	if (sched_getaffinity(0, sizeof(at_start), &at_start))
		CPU_ZERO(&at_start);	/* more processors than it holds */
	for (i = 0; i < NODES_MAX; i++) {
		snprintf(path, sizeof(path), "%s/node%u/cpulist", dir, i);
		if (!(found >> i & 1) || !rlx_proc_text(path, text, sizeof(text)))
			continue;
		read_list(text, &nodes[n_nodes].cpus);
		CPU_AND(&nodes[n_nodes].cpus, &nodes[n_nodes].cpus, &at_start);
		nodes[n_nodes].number = i;
		n_nodes += CPU_COUNT(&nodes[n_nodes].cpus) > 0;
	}
	if (!n_nodes)
		n_nodes = 1;
}

int node_count(void)
{
	return n_nodes;
}

uint64_t node_mask(void)
{
	uint64_t mask = 0;
	int i;

	for (i = 0; n_nodes > 1 && i < n_nodes; i++)
		mask |= 1ull << nodes[i].number;
	return mask;
}

void node_enter(int node)
{
	const cpu_set_t *cpus = node == NODE_ANY ? &at_start : &nodes[node].cpus;

	if (n_nodes > 1 && node != here && !sched_setaffinity(0, sizeof(*cpus), cpus))
		here = node;
}

int node_here(void)
{
	return n_nodes > 1 ? here : 0;
}
