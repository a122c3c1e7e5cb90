// SPDX-License-Identifier: MIT
/* rlx info: what this machine offers, and what an arena got here. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/amx.h"
#include "base/lapack.h"
#include "base/proc.h"
#include "model/plan_file.h"
#include "rlx/device.h"
#include "tools/rlx/tool.h"

#define MODULE_NODE	"/dev/rlx"
#define THP		"/sys/kernel/mm/transparent_hugepage/"

static void versions(struct out *o)
{
	struct utsname u;

	out_section(o, "version");
	out_str(o, "rlx", RLX_VERSION);
	out_str(o, "compiler", __VERSION__);
	if (!uname(&u)) {
		out_str(o, "kernel", u.release);
		out_str(o, "machine", u.machine);
	}
	out_section_end(o);
}

/* The value of the first "key : value" line of /proc/cpuinfo. */
static bool cpuinfo(const char *key, char *buf, size_t size)
{
	struct rlx_lines l;
	size_t n = strlen(key);
	bool found = false;
	char *s;

	if (!rlx_lines_open(&l, "/proc/cpuinfo"))
		return false;
	while (!found && (s = rlx_lines_next(&l))) {
		char *v = strchr(s, ':');

		found = v && !strncmp(s, key, n) && strspn(s + n, " \t") ==
			(size_t)(v - s) - n;
		if (found)
			snprintf(buf, size, "%s", v + 1 + strspn(v + 1, " \t"));
	}
	rlx_lines_close(&l);
	return found;
}

static bool first_line(const char *path, char *buf, size_t size)
{
	if (!rlx_proc_text(path, buf, size))
		return false;
	buf[strcspn(buf, "\n")] = 0;
	return true;
}

static void caches(struct out *o)
{
	static const char *const leaf[3] = { "level", "type", "size" };
	char path[96], v[3][32], key[64];
	unsigned int i, k;

	for (i = 0; i < 16; i++) {
		for (k = 0; k < 3; k++) {
			snprintf(path, sizeof(path),
				 "/sys/devices/system/cpu/cpu0/cache/index%u/%s", i,
				 leaf[k]);
			if (!first_line(path, v[k], sizeof(v[k])))
				return;
		}
		snprintf(key, sizeof(key), "cache_l%s%s", v[0],
			 *v[1] == 'U' ? "" : *v[1] == 'D' ? "d" : "i");
		out_str(o, key, v[2]);
	}
}

static void cpu(struct out *o)
{
	static const char *const flags[] = {
		"avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16",
		"amx_bf16", "amx_int8", "asimd", "asimddp", "i8mm", "bf16", "sve",
	};
	char text[4096], have[256] = "";
	const char *why;
	unsigned int i;
	size_t n = 0;

	out_section(o, "cpu");
	out_str(o, "model", cpuinfo("model name", text, sizeof(text)) ? text : "unknown");
	out_int(o, "online", sysconf(_SC_NPROCESSORS_ONLN));
	out_int(o, "usable_here", rlx_cpu_allowed());
	caches(o);
	if (cpuinfo("flags", text, sizeof(text)) ||
	    cpuinfo("Features", text, sizeof(text)))
		for (i = 0; i < N_ELEM(flags); i++) {
			const char *at = strstr(text, flags[i]);
			size_t k = strlen(flags[i]);

			if (at && (at == text || at[-1] == ' ') && (!at[k] || at[k] == ' '))
				n += (size_t)snprintf(have + n, sizeof(have) - n, "%s%s",
						      n ? " " : "", flags[i]);
		}
	out_str(o, "vector", n ? have : "none known");
	why = rlx_amx_why();
	out_str(o, "amx_tiles", why ? why : "permitted");
	rlx_lapack_name(text, sizeof(text));
	out_str(o, "lapack", text);
	out_section_end(o);
}

/* Of the memory that is near a device; -1: there is one node, or nobody knows. */
static int numa_of(const struct rlx_dev_info *d)
{
	char path[96], text[16];
	size_t i;

	if (!*d->pci)
		return -1;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%.31s/numa_node", d->pci);
	for (i = 0; path[i]; i++)
		path[i] = (char)tolower((unsigned char)path[i]);
	return first_line(path, text, sizeof(text)) ? atoi(text) : -1;
}

static void device_text(const struct rlx_dev_info *d, char *text, size_t size)
{
	size_t n = (size_t)snprintf(text, size, "%s%s%s", d->name,
				    *d->isa ? ", kernels for " : "", d->isa);

	if (d->threads && n < size)	/* not every driver tells of a GPU's */
		n += (size_t)snprintf(text + n, size - n, ", %u %s%s", d->threads,
				      *d->pci ? "unit" : "thread", d->threads == 1 ? "" : "s");
	if (d->memory && n < size)
		n += (size_t)snprintf(text + n, size - n, ", %.1f GiB",
				      (double)d->memory / (1 << 30));
	if (*d->pci && n < size)
		n += (size_t)snprintf(text + n, size - n, ", at %s", d->pci);
	if (numa_of(d) >= 0 && n < size)
		n += (size_t)snprintf(text + n, size - n, ", NUMA node %d", numa_of(d));
	if (*d->pci && n < size && !strncmp(d->backend, "vulkan", 6))
		snprintf(text + n, size - n, ", driver %d.%d.%d", d->driver / 1000000,
			 d->driver / 1000 % 1000, d->driver % 1000);
	else if (*d->pci && n < size)
		snprintf(text + n, size - n, ", driver %d", d->driver);
}

static void device_json(struct out *o, const struct rlx_dev_info *d)
{
	out_section(o, d->backend);
	out_str(o, "name", d->name);
	out_str(o, "isa", d->isa);
	out_int(o, "threads", d->threads);
	out_int(o, "memory", (int64_t)d->memory);
	out_str(o, "pci", d->pci);
	out_int(o, "numa_node", numa_of(d));
	out_int(o, "driver", d->driver);
	out_section_end(o);
}

/* Those that there are, then why there is none of the others. */
static void devices(struct out *o)
{
	static const char *const gpus[] = { "cuda", "rocm", "vulkan", "pjrt" };
	struct rlx_dev_info d[16];
	unsigned int n = rlx_device_list(d, N_ELEM(d)), i;
	char text[256];
	const char *why;

	out_section(o, "devices");
	for (i = 0; i < n && i < N_ELEM(d); i++) {
		device_text(&d[i], text, sizeof(text));
		if (o->json)
			device_json(o, &d[i]);
		else
			out_named(o, d[i].backend, text);
	}
	for (i = 0; i < N_ELEM(gpus); i++) {
		why = rlx_device_why(gpus[i]);
		if (!why || !*why)
			continue;
		snprintf(text, sizeof(text), "none: %s", why);
		if (o->json)
			out_section(o, gpus[i]);
		out_named(o, o->json ? "none" : gpus[i], o->json ? why : text);
		if (o->json)
			out_section_end(o);
	}
	out_section_end(o);
}

static void memory(struct out *o)
{
	static const char info[] = "/proc/meminfo";
	struct rlimit lock;
	uint64_t v;
	char text[256];

	out_section(o, "memory");
	if (rlx_proc_key(info, "MemTotal", &v))
		out_bytes(o, "total", v);
	v = rlx_mem_available();
	if (v != UINT64_MAX)
		out_bytes(o, "available", v);
	if (!getrlimit(RLIMIT_MEMLOCK, &lock)) {
		if (lock.rlim_cur == RLIM_INFINITY)
			out_str(o, "memlock_limit", "unlimited");
		else
			out_bytes(o, "memlock_limit", lock.rlim_cur);
	}
	if (rlx_proc_key(info, "Hugepagesize", &v))
		out_bytes(o, "huge_page", v);
	if (rlx_proc_key(info, "HugePages_Total", &v))
		out_int(o, "huge_pages_in_pool", (int64_t)v);
	if (rlx_proc_key(info, "HugePages_Free", &v))
		out_int(o, "huge_pages_free", (int64_t)v);
	if (first_line(THP "enabled", text, sizeof(text)))
		out_str(o, "transparent_huge", text);
	if (first_line(THP "shmem_enabled", text, sizeof(text)))
		out_str(o, "transparent_huge_shared", text);
	if (first_line("/sys/devices/system/node/online", text, sizeof(text)))
		out_str(o, "numa_nodes", text);
	out_section_end(o);
}

/* Providers by asking each for the example; the first that gives is used. */
static void arena(struct out *o, uint64_t bytes)
{
	struct rlx_arena_opts opts = { .size = bytes, .name = "info" };
	struct rlx_error err = { 0 };
	struct rlx_arena_info i;
	struct rlx_arena *a;

	out_section(o, "arena");
	out_bytes(o, "asked_for", bytes);
	if (rlx_arena_new(&opts, &a, &err)) {
		out_str(o, "failed", err.text);
		out_section_end(o);
		return;
	}
	rlx_arena_info(a, &i);
	out_str(o, "provider", i.provider);
	out_str(o, "why_not_the_module", *i.why_provider ? i.why_provider :
		strcmp(i.provider, "kmod") ? "RLX_ARENA_PROVIDER" : "it is");
	out_bytes(o, "bytes", i.bytes);
	out_bytes(o, "page", i.page_bytes);
	out_bytes(o, "in_huge_pages", i.bytes_huge);
	out_bytes(o, "locked", i.bytes_locked);
	out_int(o, "node", i.node);
	out_str(o, "why_not_larger_pages", *i.why_pages ? i.why_pages : "as asked");
	out_str(o, "why_not_all_locked", *i.why_lock ? i.why_lock : "all is");
	rlx_arena_put(a);
	out_section_end(o);
}

static void module(struct out *o)
{
	struct stat st;
	bool node = !stat(MODULE_NODE, &st), loaded = !stat("/sys/module/rlx", &st);
	char v[64];

	out_section(o, "module");
	out_bool(o, "loaded", loaded);
	if (loaded && first_line("/sys/module/rlx/version", v, sizeof(v)))
		out_str(o, "version", v);
	out_bool(o, "node", node);
	out_bool(o, "readable_and_writable", node && !access(MODULE_NODE, R_OK | W_OK));
	if (loaded && first_line("/sys/class/misc/rlx/abi", v, sizeof(v)))
		out_str(o, "abi", v);
	if (!node)
		out_str(o, "note", MODULE_NODE " is absent: arenas are memfds, which "
				   "need no module");
	out_str(o, "more", "rlx doctor");
	out_section_end(o);
}

/* What a plan file says of itself, and whether it is whole and runs here. */
static int plan_file(struct out *o, const char *path, bool json, bool verify)
{
	struct rlx_load_opts l = { .size = sizeof(l), .threads = 1,
				   .flags = verify ? RLX_LOAD_VERIFY : 0 };
	struct rlx_program_file_info i;
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };
	struct rlx_plan_file *f;
	enum rlx_status st;

	/* Opened once: both answers are of the same file, whatever is renamed meanwhile. */
	if (rlx_plan_file_open(path, &f, &err))
		return tool_fail("info", TOOL_FAILED, "%s", err.text);
	rlx_plan_file_info(f, path, &i);
	st = rlx_plan_file_program(f, path, &l, &p, &err);
	rlx_program_put(p);
	rlx_plan_file_put(f);
	out_begin(o, json);
	out_section(o, path);
	out_str(o, "for", i.layout);
	out_str(o, "version", i.version);
	out_str(o, "sources", i.sources);
	out_int(o, "threads", i.threads);
	out_int(o, "graphs", i.graphs);
	out_bytes(o, "bytes", i.bytes);
	out_bytes(o, "prepared", i.prepared_bytes);
	out_bytes(o, "as_they_are", i.raw_bytes);
	out_int(o, "left_out", i.left_out);
	out_str(o, "here", st ? err.text : verify ? "it loads, and its weights are whole" :
		"it loads");
	out_section_end(o);
	if (!out_end(o))
		return tool_fail("info", TOOL_FAILED, "cannot write to standard output");
	return st ? TOOL_FAILED : TOOL_OK;
}

static int machine(struct out *o, bool json, uint64_t arena_bytes)
{
	out_begin(o, json);
	versions(o);
	cpu(o);
	devices(o);
	memory(o);
	arena(o, arena_bytes);
	module(o);
	return out_end(o) ? TOOL_OK :
	       tool_fail("info", TOOL_FAILED, "cannot write to standard output");
}

int cmd_info(int argc, char **argv)
{
	struct arg_list rest = { 0 };
	bool json = false, verify = false;
	uint64_t mib = UINT64_MAX;	/* not said */
	const struct arg arg[] = {
		{ "json", ARG_FLAG, &json, NULL, "print JSON" },
		{ "arena", ARG_UINT, &mib, "MIB", "size of the example arena (64)" },
		{ "verify", ARG_FLAG, &verify, NULL, "read the weights of PLAN-FILE, too" },
	};
	const struct args a = {
		"info", "[PLAN-FILE] [--json] [--arena MIB] [--verify]",
		"Tells what this machine offers, what an arena of an example size got\n"
		"here, and why it got no larger pages or no more locked memory; or what\n"
		"a plan file of rlx compile is for, and whether it runs here.",
		arg, N_ELEM(arg), NULL, &rest, 0, 1,
	};
	struct out o;
	int rc;

	if (!args_parse(&a, argc, argv, &rc))
		goto out_free;
	if (!rest.n && verify)
		rc = tool_fail("info", TOOL_USAGE, "--verify wants a PLAN-FILE");
	else if (rest.n && mib != UINT64_MAX)
		rc = tool_fail("info", TOOL_USAGE, "--arena is for the machine, not a PLAN-FILE");
	else if (rest.n)
		rc = plan_file(&o, rest.v[0], json, verify);
	else if (!mib || (mib != UINT64_MAX && mib > UINT64_MAX >> 20))
		rc = tool_fail("info", TOOL_USAGE, "--arena must be at least 1 MiB");
	else
		rc = machine(&o, json, (mib == UINT64_MAX ? 64 : mib) << 20);
out_free:
	arg_list_free(&rest);
	return rc;
}
