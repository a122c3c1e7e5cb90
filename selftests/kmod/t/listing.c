// SPDX-License-Identifier: MIT
/* What debugfs rlx/ lists of services, queues, executors and channels. */
#include <linux/rlx.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/arena.h"
#include "lib/chan.h"

#define DEPTH	16u
#define WIDE	11	/* columns of the widest list */

/* The numbers of the only line of a list whose column @col is @value; is it there? */
static bool row(const char *list, int col, unsigned long long value,
		unsigned long long *at)
{
	char path[64], buf[16384], *line, *next, *end;
	bool found = false;

	snprintf(path, sizeof(path), "/sys/kernel/debug/rlx/%s", list);
	k_file_read(path, buf, sizeof(buf));
	CHECKF(!strstr(buf, "ffff"), "%s: an address?\n%s", list, buf);
	line = strtok_r(buf, "\n", &next);	/* names of columns */
	while ((line = strtok_r(NULL, "\n", &next))) {
		unsigned long long v[WIDE] = { 0 };

		for (int n = 0; n < WIDE && *line; n++, line = end)
			v[n] = strtoull(line, &end, 10);
		if (v[col] != value)
			continue;
		CHECKF(!found, "%s: two of %llu", list, value);
		memcpy(at, v, sizeof(v));
		found = true;
	}
	return found;
}

static unsigned long long one_id(const char *list, int col, unsigned long long value,
				 unsigned long long *at)
{
	CHECKF(row(list, col, value, at), "%s: %llu is not there", list, value);
	return at[0];
}

TEST(what_there_is)
{
	unsigned long long v[WIDE], svc;
	struct rlx_rq rq[3];
	uint32_t id, tag[2];
	int s = k_open(), service = k_service(s, 2, DEPTH, RLX_SERVICE_REQUEUE);
	int ex = k_executor(service, 0), ch = k_channel(s, service, 8, 0, &id);

	svc = one_id("services", 2, (unsigned long long)getpid(), v);
	CHECK(v[3] == 0 && v[4] == RLX_SERVICE_REQUEUE && v[5] == 2 && v[6] == DEPTH);
	CHECK(v[7] == RLX_SERVICE_LIVE && v[8] == 1 && v[9] == 1 && v[10] == 7);

	one_id("executors", 0, svc, v);
	CHECK(v[1] == (unsigned long long)getpid() && v[2] == 1 && !v[3] && !v[4]);

	for (int i = 0; i < 3; i++)
		rq[i] = k_rq(1, i);
	CHECK_EQ(k_submit(ch, rq, 3, NULL), 3);
	CHECK_EQ(k_fetch(ex, tag, 2, 2, 0), 2);
	one_id("channels", 1, svc, v);
	CHECK(v[0] == id && v[3] == (unsigned long long)getpid() && v[6] == 8);
	CHECK(v[7] == 1 && v[8] == 2 && v[9] == 0);
	/* Ready and delivered; both queues are listed, one of them is at work. */
	one_id("queues", 2, 1, v);
	CHECK(v[0] == svc && v[3] == 2 && v[5] == 3 && v[6] == 0);

	close(ex);
	for (int i = 0; i < 60000 && row("executors", 0, svc, v); i++)
		usleep(1000);
	CHECK(!row("executors", 0, svc, v));
	one_id("services", 0, svc, v);
	CHECK(v[7] == RLX_SERVICE_DEAD);
	close(ch);
	for (int i = 0; i < 60000 && row("channels", 1, svc, v); i++)
		usleep(1000);
	CHECK(!row("channels", 1, svc, v));
	close(service);
	close(s);
	CHECK(k_stat_becomes("nr_services", 0));
	CHECK(!row("services", 0, svc, v));
}

/* Services come and go while somebody reads. */
TEST(read_while_they_go)
{
	unsigned long long v[WIDE];
	/* A round takes the debug kernel, which looks closer, as long as seventy do others. */
	int rounds = access("/sys/kernel/debug/kmemleak", F_OK) ? 300 : 80;
	int s = k_open(), status;
	pid_t pid = fork();

	if (!pid) {
		for (int i = 0; i < rounds; i++) {
			int service = k_service(s, 1, DEPTH, 0);
			int ex = k_executor(service, i & RLX_EXEC_RING);
			int ch = k_channel(s, service, 8, 0, NULL);

			close(i & 2 ? service : ch);
			close(ex);
			close(i & 2 ? ch : service);
		}
		_exit(0);
	}
	while (!waitpid(pid, &status, WNOHANG)) {
		row("services", 0, 0, v);
		row("queues", 0, 0, v);
		row("executors", 0, 0, v);
		row("channels", 0, 0, v);
	}
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
	close(s);
	CHECK(k_stat_becomes("nr_services", 0));
}

TEST(for_root_alone)
{
	static const char *const list[] = {
		"sessions", "arenas", "services", "queues", "executors", "channels",
	};
	char path[64];

	CHECK_EQ(setuid(1000), 0);
	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		snprintf(path, sizeof(path), "/sys/kernel/debug/rlx/%s", list[i]);
		CHECKF(access(path, R_OK), "%s may be read", path);
	}
}

TEST_MAIN()
