// SPDX-License-Identifier: MIT
/* In which order clients' requests are read, with no thread that does. */
#include "selftests/lib/rlx_test.h"
#include "tools/rlxd/worker_pool.h"

enum { LONG = 20 << 20, SHORT = 40000, CLIENTS = 10, CONNECTIONS = 100 };

/* How many are taken until one of @of is; what is taken comes again. */
static unsigned int taken_until(struct read_queue *q, const struct read_share *of)
{
	unsigned int n = 0;
	struct task *t;

	do {
		t = read_queue_take(q, true);
		read_queue_put(q, t, SHORT);
		n++;
	} while (t->share != of && n < 1000000);
	return n;
}

/*
 * While one long request is read no other may be: who reads short ones meanwhile has had no
 * more than others could have, and those that waited are owed nothing.
 */
TEST(clients_of_long_requests_stand_still)
{
	static struct task wait[CLIENTS], own[2], other[CONNECTIONS], late[CONNECTIONS];
	struct read_share share[CLIENTS] = { 0 }, b = { 0 }, c = { 0 };
	struct read_queue q = { 0 };
	unsigned int i, n;

	for (i = 0; i < CLIENTS; i++) {
		wait[i].share = &share[i];
		read_queue_put(&q, &wait[i], LONG);
	}
	CHECK(read_queue_take(&q, false)->size == READ_LONG);
	for (i = 0; i < 2; i++) {
		own[i].share = &b;
		read_queue_put(&q, &own[i], SHORT);
	}
	for (i = 0; i < 20000; i++)
		CHECK_EQ(taken_until(&q, &b), 1u);
	for (i = 0; i < CONNECTIONS; i++) {
		other[i].share = &c;
		read_queue_put(&q, &other[i], SHORT);
	}
	for (i = 0; i < 10; i++) {
		n = taken_until(&q, &b);
		CHECKF(n <= 3, "%u were read of who came last", n);
	}
	for (i = 0; i < CONNECTIONS; i++) {
		late[i].share = &share[CLIENTS / 2];
		read_queue_put(&q, &late[i], SHORT);
	}
	for (i = 0; i < 10; i++) {
		n = taken_until(&q, &b);
		CHECKF(n <= LONG / CLIENTS / SHORT + 3, "%u were read before it", n);
	}
}

TEST_MAIN()
