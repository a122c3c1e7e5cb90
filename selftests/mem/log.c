// SPDX-License-Identifier: MIT
/* RLX_DEBUG words, and where lines go. */
#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"
#include "selftests/lib/rlx_test.h"

static char got[2000];
static int lines;

static void keep(void *ctx, enum rlx_log_level level, const char *line)
{
	CHECK(ctx == got);
	snprintf(got, sizeof(got), "%d %s", level, line);
	lines++;
}

TEST(words_set_flags_and_unknown_ones_are_named_once)
{
	rlx_log_set(keep, got);
	setenv("RLX_DEBUG", "mem,,bogus,plan", 1);
	CHECK(rlx_debug_on(RLX_DEBUG_MEM));
	CHECK(rlx_debug_on(RLX_DEBUG_PLAN));
	CHECK(!rlx_debug_on(RLX_DEBUG_PASS));
	CHECK(!rlx_debug_on(RLX_DEBUG_IO));
	CHECK_EQ(lines, 1);
	CHECK(strstr(got, "\"bogus\""));
}

TEST(all_sets_each)
{
	setenv("RLX_DEBUG", "all", 1);
	CHECK(rlx_debug_on(RLX_DEBUG_PASS));
	CHECK(rlx_debug_on(RLX_DEBUG_IO));
}

TEST(nothing_is_on_by_itself)
{
	unsetenv("RLX_DEBUG");
	CHECK(!rlx_debug_on(RLX_DEBUG_PASS));
	CHECK(!rlx_debug_on(RLX_DEBUG_IO));
}

TEST(lines_go_to_the_sink_or_to_stderr)
{
	char text[1200] = { 0 }, big[3000];
	int fd[2];

	rlx_log_set(keep, got);
	rlx_log(RLX_LOG_DEBUG, "x is %d", 5);
	CHECK_STR(got, "1 x is 5");
	rlx_log_set(NULL, NULL);
	CHECK(!pipe(fd));
	CHECK(dup2(fd[1], 2) == 2);
	rlx_log(RLX_LOG_WARN, "y is %d", 6);
	CHECK_EQ(read(fd[0], text, sizeof(text)), 12);
	CHECK_STR(text, "rlx: y is 6\n");
	memset(big, 'b', sizeof(big) - 1);
	big[sizeof(big) - 1] = 0;
	rlx_log(RLX_LOG_WARN, "%s", big);
	CHECK_EQ(read(fd[0], text, sizeof(text)), 1000);
	CHECK_EQ(text[999], '\n');
	CHECK_EQ(lines, 1);
}

TEST_MAIN()
