// SPDX-License-Identifier: MIT
/* A variable of the environment that says nothing known is named, once, and changes nothing. */
#include "backends/cpu/cpu.h"
#include "base/env.h"
#include "base/lapack.h"
#include "rlx/log.h"
#include "selftests/lib/rlx_test.h"

static unsigned int lines;
static char last[1000];

static void take_line(void *ctx, enum rlx_log_level level, const char *line)
{
	lines += level == RLX_LOG_WARN;
	snprintf(last, sizeof(last), "%s", line);
}

/* One line more since the last call, with these words in it. */
static void told(const char *a, const char *b)
{
	CHECKF(lines == 1 && strstr(last, a) && strstr(last, b), "%u lines: %s", lines, last);
	lines = 0;
}

TEST(isa)
{
	enum rlx_isa best;

	rlx_log_set(take_line, NULL);
	unsetenv("RLX_ISA");
	best = cpu_isa_detect();
	CHECK(setenv("RLX_ISA", "", 1) == 0);
	CHECK_EQ(cpu_isa_detect(), best);
	CHECK(setenv("RLX_ISA", "base", 1) == 0);
	CHECK_EQ(cpu_isa_detect(), RLX_ISA_BASE);
	CHECKF(!lines, "%s", last);
	CHECK(setenv("RLX_ISA", "avx512", 1) == 0);
	CHECK_EQ(cpu_isa_detect(), best);
	told("RLX_ISA: \"avx512\"", " base v3 v4 v4_vnni v4x v4_amx");
	CHECK_EQ(cpu_isa_detect(), best);
	CHECKF(!lines, "told again: %s", last);
}

TEST(words)
{
	static const char *const words[] = { "off", "on" };
	atomic_bool once = false;

	rlx_log_set(take_line, NULL);
	unsetenv("RLX_TEST_WORD");
	CHECK_EQ(rlx_env_word("RLX_TEST_WORD", words, 2, &once), -1);
	CHECK(setenv("RLX_TEST_WORD", "on", 1) == 0);
	CHECK_EQ(rlx_env_word("RLX_TEST_WORD", words, 2, &once), 1);
	CHECK(!lines);
	CHECK(setenv("RLX_TEST_WORD", "On", 1) == 0);
	CHECK_EQ(rlx_env_word("RLX_TEST_WORD", words, 2, &once), -1);
	told("RLX_TEST_WORD: \"On\"", "known are off on");
	CHECK_EQ(rlx_env_word("RLX_TEST_WORD", words, 2, &once), -1);
	CHECK(!lines);
}

/* The word and a library that is not there; nothing asked for is no news. */
TEST(lapack)
{
	rlx_log_set(take_line, NULL);
	CHECK(setenv("RLX_LAPACK", "none", 1) == 0);
	CHECK(!rlx_lapack_library() && !lines);
	CHECK(setenv("RLX_LAPACK", "/nonexistent/liblapack.so", 1) == 0);
	CHECK(!rlx_lapack_library());
	told("RLX_LAPACK", "/nonexistent/liblapack.so");
	CHECK(!rlx_lapack_library() && !lines);
}

TEST_MAIN()
