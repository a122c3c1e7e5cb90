// SPDX-License-Identifier: MIT
/* What a request through the library costs in a guest, beside other ways. */
/* rig: timeout=240 */
#include "selftests/lib/rlx_test.h"

int bench_channel(int argc, char **argv);
#define main bench_channel
#include "selftests/bench/channel.c"
#undef main

static double p50(const char *name)
{
	unsigned int i;

	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(ways[i].name, name))
			return ways[i].p50;
	return 0;
}

TEST(round_trips)
{
	char *argv[] = { "channel", "1", "500", NULL };
	double one, wake;

	/* Where the host is busy, processors of the guest take turns themselves. */
	margin = "# ";
	CHECK_EQ(bench_channel(3, argv), 0);
	one = p50("channel of the module, spinning");
	wake = p50("eventfd");
	printf("# spinning, a request costs %.2f of an eventfd round trip\n",
	       one / wake);
	CHECK(one > 0 && wake > 0);
}

TEST_MAIN()
