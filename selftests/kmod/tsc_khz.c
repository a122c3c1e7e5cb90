// SPDX-License-Identifier: MIT
/*
 * Prints the rate of this processor's time stamp counter in kHz, for a guest's kernel, whose
 * emulated counter is the same: what it would measure itself is up to five times off where it
 * is interrupted, and its clock with it.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

struct moment {
	uint64_t tsc, ns, slack;
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Both clocks at one moment: of some readings the one with the least time between. */
static struct moment moment(void)
{
	struct moment best = { 0, 0, UINT64_MAX };

	for (int i = 0; i < 100; i++) {
		uint64_t before = __rdtsc(), ns = now_ns(), after = __rdtsc();

		if (after - before < best.slack)
			best = (struct moment){ before, ns, after - before };
	}
	return best;
}

int main(void)
{
	struct moment a = moment(), b;

	nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
	b = moment();
	printf("%.0f\n", 1e6 * (double)(b.tsc - a.tsc) / (double)(b.ns - a.ns));
	return 0;
}
