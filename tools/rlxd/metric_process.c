// SPDX-License-Identifier: MIT
/* What Prometheus' own clients tell of a process, by the names that they have for it. */
#include <dirent.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/proc.h"
#include "tools/rlxd/metric.h"
#include "tools/rlxd/server.h"

/* Descriptors that are open, but for the one that lists them; -1: nothing tells. */
static int64_t open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int64_t n = -1;

	if (!d)
		return -1;
	for (const struct dirent *e; (e = readdir(d)); )
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static void limit(struct obuf *o, const char *name, const char *help, int what)
{
	struct rlimit r;

	if (!getrlimit(what, &r))
		metric_one(o, name, "gauge", help, r.rlim_cur == RLIM_INFINITY ? -1.0 :
			   (double)r.rlim_cur);
}

static void status(struct obuf *o, const char *name, const char *help, const char *key)
{
	uint64_t v;

	if (rlx_proc_key("/proc/self/status", key, &v))
		metric_one(o, name, "gauge", help, (double)v);
}

void metric_process(const struct server *s, struct obuf *o)
{
	int64_t n = open_fds();
	struct timespec cpu;

	if (!clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu))
		metric_one(o, "process_cpu_seconds_total", "counter",
			   "CPU time of all threads, in user and system mode.",
			   (double)cpu.tv_sec + (double)cpu.tv_nsec * 1e-9);
	if (n >= 0)
		metric_one(o, "process_open_fds", "gauge", "Open file descriptors.", (double)n);
	limit(o, "process_max_fds", "Most file descriptors that may be open.", RLIMIT_NOFILE);
	status(o, "process_virtual_memory_bytes", "Virtual memory.", "VmSize");
	limit(o, "process_virtual_memory_max_bytes",
	      "Most virtual memory that there may be; -1: no limit.", RLIMIT_AS);
	status(o, "process_resident_memory_bytes", "Resident memory.", "VmRSS");
	status(o, "process_threads", "Threads.", "Threads");
	metric_one(o, "process_start_time_seconds", "gauge",
		   "When the server started, since 1970.", (double)s->started);
}

void metric_build(struct obuf *o)
{
	metric_head(o, "rlxd_build_info", "gauge", "1, with what this build is as labels.");
	obuf_fmt(o, "rlxd_build_info{version=\"%s\",compiler=\"%s\",machine=\"%s\"} 1\n",
		 RLX_VERSION, __VERSION__,
#ifdef __aarch64__
		 "aarch64"
#else
		 "x86_64"
#endif
		);
}
