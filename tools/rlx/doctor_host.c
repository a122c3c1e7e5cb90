// SPDX-License-Identifier: MIT
/* Checks of rlx doctor about the machine: limits, pages, kernel, CPU, GPUs. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

#include "base/proc.h"
#include "tools/rlx/doctor.h"

#define THP	"/sys/kernel/mm/transparent_hugepage/"
#define LIMITS	"/etc/security/limits.d/rlx.conf"

enum { WANT_LOCK_MIB = 1024, LEAST_LOCK_MIB = 64 };

static void check_memlock(const struct patient *p, struct finding *f)
{
	char line[128];
	uint64_t soft;
	char *end;

	if (p->caps >> CAP_IPC_LOCK & 1) {
		found(f, FINDING_OK, "no limit (CAP_IPC_LOCK)");
		return;
	}
	if (!patient_key(p, "/proc/self/limits", "Max locked memory", line,
			 sizeof(line))) {
		found(f, FINDING_INFO, "the limit cannot be read");
		return;
	}
	soft = strtoull(line, &end, 10);
	if (end == line) {	/* "unlimited" */
		found(f, FINDING_OK, "no limit");
		return;
	}
	if (soft >> 20 >= WANT_LOCK_MIB) {
		found(f, FINDING_OK, "%llu MiB may be locked",
		      (unsigned long long)soft >> 20);
		return;
	}
	found(f, soft >> 20 < LEAST_LOCK_MIB ? FINDING_MISSING : FINDING_WEAK,
	      "only %llu KiB may be locked (RLIMIT_MEMLOCK): arenas beyond that are "
	      "not pinned", (unsigned long long)soft >> 10);
	fix(f, "echo '@render - memlock unlimited' > " LIMITS ", then log in again; "
	    "for a service LimitMEMLOCK=infinity");
}

/* The word in brackets. */
static bool choice(const struct patient *p, const char *path, char *out,
		   size_t size)
{
	char line[128], *a, *b;

	if (!patient_line(p, path, line, sizeof(line)))
		return false;
	a = strchr(line, '[');
	b = a ? strchr(a, ']') : NULL;
	if (!b)
		return false;
	snprintf(out, size, "%.*s", (int)(b - a - 1), a + 1);
	return true;
}

static void check_thp(const struct patient *p, struct finding *f)
{
	char mode[32], shmem[32];

	if (!choice(p, THP "enabled", mode, sizeof(mode)) ||
	    !choice(p, THP "shmem_enabled", shmem, sizeof(shmem))) {
		found(f, FINDING_WEAK, "this kernel has no transparent huge pages");
		return;
	}
	if (strcmp(shmem, "never") && strcmp(shmem, "deny")) {
		found(f, FINDING_OK, "for memory '%s', shared '%s'", mode, shmem);
		return;
	}
	if (p->loaded) {
		found(f, FINDING_INFO, "shared memory '%s'; the module's arenas do "
		      "not depend on it", shmem);
		return;
	}
	found(f, FINDING_WEAK, "off for shared memory ('%s'), of which arenas are "
	      "without the module: they are put together afterwards, if at all",
	      shmem);
	fix(f, "echo advise > " THP "shmem_enabled");
}

static void check_hugetlb(const struct patient *p, struct finding *f)
{
	char total[32], freed[32], size[32];

	if (!patient_key(p, "/proc/meminfo", "HugePages_Total", total,
			 sizeof(total)) ||
	    !patient_key(p, "/proc/meminfo", "HugePages_Free", freed,
			 sizeof(freed)) ||
	    !patient_key(p, "/proc/meminfo", "Hugepagesize", size, sizeof(size))) {
		found(f, FINDING_INFO, "this kernel has no hugetlb pool");
		return;
	}
	if (atoll(total))
		found(f, FINDING_OK, "%s of %s pages of %s free", freed, total, size);
	else
		found(f, FINDING_INFO, "the pool is empty; nothing needs it, 'sysctl "
		      "vm.nr_hugepages=N' fills it");
}

static void check_io_uring(const struct patient *p, struct finding *f)
{
	uint64_t v = 0, group = 0;

	if (patient_u64(p, "/proc/sys/kernel/io_uring_disabled", &v) && v) {
		patient_u64(p, "/proc/sys/kernel/io_uring_group", &group);
		if (v == 1 && ((p->caps >> CAP_SYS_ADMIN & 1) ||
			       patient_in_group(p, (unsigned int)group))) {
			found(f, FINDING_OK, "allowed to you, not to everybody");
			return;
		}
		found(f, FINDING_MISSING, "switched off (kernel.io_uring_disabled = "
		      "%llu)", (unsigned long long)v);
		fix(f, "sysctl -w kernel.io_uring_disabled=0");
		return;
	}
	if (!*p->root && syscall(SYS_io_uring_setup, 0, NULL) < 0 &&
	    (errno == ENOSYS || errno == EPERM)) {
		found(f, FINDING_MISSING, "%s", errno == ENOSYS ?
		      "this kernel has no io_uring" :
		      "a seccomp filter forbids it (a container?)");
		fix(f, "%s", errno == ENOSYS ? "run a kernel with CONFIG_IO_URING" :
		    "allow io_uring_setup, io_uring_enter and io_uring_register in "
		    "the container's seccomp profile");
		return;
	}
	found(f, FINDING_OK, "allowed");
}

static void check_kernel(const struct patient *p, struct finding *f)
{
	unsigned int a = 0, b = 0;

	if (sscanf(p->release, "%u.%u", &a, &b) != 2) {
		found(f, FINDING_INFO, "unknown");
	} else if (a < 6 || (a == 6 && b < 1)) {
		found(f, FINDING_MISSING, "%s: RLX wants 6.1 or newer", p->release);
		fix(f, "apt install linux-image-amd64 && reboot");
	} else if (a == 6 && b < 7) {
		found(f, FINDING_OK, "%s; from 6.7 requests may wait inside io_uring",
		      p->release);
	} else {
		found(f, FINDING_OK, "%s", p->release);
	}
}

/* Does the list of words have this one? */
static bool has_word(const char *list, const char *word)
{
	size_t n = strlen(word);
	const char *s;

	for (s = strstr(list, word); s; s = strstr(s + 1, word))
		if ((s == list || s[-1] == ' ') && (!s[n] || s[n] == ' '))
			return true;
	return false;
}

static void check_cpu(const struct patient *p, struct finding *f)
{
	static const char *const level[][5] = {
		{ "avx2", "bmi2", "fma", "f16c", "movbe" },
		{ "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl" },
	};
	unsigned int v, i, have = 2;
	char flags[4096];

	if (patient_key(p, "/proc/cpuinfo", "Features", flags, sizeof(flags))) {
		found(f, FINDING_OK, "ARM with%s asimd", has_word(flags, "asimd") ?
		      "" : "out");
		return;
	}
	if (!patient_key(p, "/proc/cpuinfo", "flags", flags, sizeof(flags))) {
		found(f, FINDING_INFO, "unknown");
		return;
	}
	for (v = 0; v < 2 && have == v + 2; v++) {
		for (i = 0; i < 5 && has_word(flags, level[v][i]); i++)
			;
		have += i == 5;
	}
	if (have == 2)
		found(f, FINDING_WEAK, "below x86-64-v3 (no AVX2 and FMA): kernels "
		      "run at a fraction of the speed");
	else
		found(f, FINDING_OK, "x86-64-v%u%s%s", have,
		      has_word(flags, "avx512_bf16") ? ", bf16" : "",
		      has_word(flags, "amx_tile") ? ", AMX" : "");
}

/* The lowest limit from this process's group (v2) up to the top. */
static uint64_t cgroup_limit(const struct patient *p)
{
	char path[512], line[64], group[256];
	uint64_t best = UINT64_MAX, v;
	char *end, *slash;

	if (!patient_line(p, "/proc/self/cgroup", group, sizeof(group)) ||
	    strncmp(group, "0::/", 4))
		return best;
	for (;;) {
		snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.max",
			 group + 3);
		if (patient_line(p, path, line, sizeof(line))) {
			v = strtoull(line, &end, 10);
			if (end != line && v < best)
				best = v;
		}
		slash = strrchr(group + 3, '/');
		if (!slash)
			return best;
		*slash = 0;
	}
}

static void check_memory(const struct patient *p, struct finding *f)
{
	uint64_t limit = cgroup_limit(p);
	char line[64];

	if (limit != UINT64_MAX) {
		found(f, limit >> 20 < 512 ? FINDING_WEAK : FINDING_INFO,
		      "this cgroup may use %llu MiB, arenas included",
		      (unsigned long long)limit >> 20);
		if (limit >> 20 < 512)
			fix(f, "raise MemoryMax= of the service, or --memory of the "
			    "container");
		return;
	}
	if (patient_key(p, "/proc/meminfo", "MemAvailable", line, sizeof(line)))
		found(f, FINDING_OK, "%llu MiB available, no limit of a cgroup",
		      strtoull(line, NULL, 10) >> 10);
	else
		found(f, FINDING_INFO, "unknown");
}

/* Appends each name of @dir that begins with @prefix. */
static void add_nodes(const struct patient *p, const char *dir,
		      const char *prefix, char *to, size_t size)
{
	char path[PATIENT_PATH];
	DIR *d = opendir(patient_path(p, path, "%s", dir));
	struct dirent *e;
	size_t n;

	while (d && (e = readdir(d))) {
		if (strncmp(e->d_name, prefix, strlen(prefix)))
			continue;
		n = strlen(to);
		snprintf(to + n, size - n, "%s%s/%.60s", n ? " " : "", dir,
			 e->d_name);
	}
	if (d)
		closedir(d);
}

static void check_gpu(const struct patient *p, struct finding *f)
{
	char nodes[300] = "";

	add_nodes(p, "/dev/dri", "renderD", nodes, sizeof(nodes));
	add_nodes(p, "/dev/accel", "accel", nodes, sizeof(nodes));
	add_nodes(p, "/dev", "nvidia", nodes, sizeof(nodes));
	add_nodes(p, "/dev", "kfd", nodes, sizeof(nodes));
	add_nodes(p, "/dev", "udmabuf", nodes, sizeof(nodes));
	found(f, FINDING_INFO, "%s", *nodes ? nodes : "no device node of one");
}

const struct check doctor_host[] = {
	{ "memlock",	false, check_memlock },
	{ "huge_pages",	false, check_thp },
	{ "hugetlb",	false, check_hugetlb },
	{ "io_uring",	false, check_io_uring },
	{ "kernel",	false, check_kernel },
	{ "cpu",	false, check_cpu },
	{ "memory",	false, check_memory },
	{ "gpu",	false, check_gpu },
	{ 0 }
};
