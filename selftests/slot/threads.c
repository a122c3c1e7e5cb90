// SPDX-License-Identifier: MIT
/*
 * The slot machine under threads: clients, executors and everything that may end a
 * request race for the parked commands. Each is completed once, payloads pass from
 * side to side, and what is read without the lock is what slot.h says may be.
 */
#include <sched.h>

#include "kmod/slot.c"
#include "kmod/slot_check.c"
#include "selftests/lib/rlx_test.h"

unsigned int rlx_shim_warned;

#define CLIENTS		3
#define EXECUTORS	2
#define DEPTH		32
#define SHARE		8	/* slots of a client */
#define ROUNDS		(RLX_TEST_TSAN ? 20000 : 60000)

struct command {
	u64		payload;	/* plain: ordered by the lock alone */
	u64		answer;
	u32		completed;	/* atomic: how often */
	s32		result;		/* plain: written by its completer */
	u32		tag;
	u64		seq;
	struct command	*next;	/* ended early: an executor may be at it still */
};

static struct rlx_slots q;
static struct rlx_slot slot[DEPTH];
static struct command *work[DEPTH];	/* what desc[tag] is in the kernel */
static u32 heap[DEPTH];
static u64 seed0;
static u32 stop, serial, late, deaths;
/* Held for reading by an executor at work: its death waits for it, as exit does. */
static pthread_rwlock_t alive = PTHREAD_RWLOCK_INITIALIZER;

static void act(const struct rlx_slot_out *o)
{
	struct command *c = o->cmd;

	if (!(o->acts & RLX_ACT_CMD))
		return;
	c->result = o->result;
	CHECK_EQ(__atomic_add_fetch(&c->completed, 1, __ATOMIC_RELEASE), 1);
}

static void act_all(const struct rlx_slot_out *o, u32 n)
{
	while (n--)
		act(o++);
}

/*
 * The client's end of one request. Only one that succeeded may be used again; the
 * others stay until the lane has drained, as arenas do.
 */
static void finished(struct command *c, struct command **grave)
{
	if (c->result == 1) {
		CHECK_EQ(c->answer, c->payload * 3);
		free(c);
		return;
	}
	CHECKF(c->result == -ECANCELED || c->result == -ETIME ||
	       c->result == -EOWNERDEAD, "result %d", c->result);
	c->next = *grave;
	*grave = c;
}

/* Ends one of its requests early, in one of the ways there are. */
static void meddle(struct rlx_lane *lane, struct command *c, u64 *seed)
{
	struct rlx_slot_out out;
	int err;

	spin_lock(&q.lock);
	if (rlx_test_rand(seed) % 2)
		err = rlx_slot_cancel(lane, c->tag, c->seq, &out);
	else
		err = rlx_slot_abandon(&q, c->tag, c->seq, c, &out);
	spin_unlock(&q.lock);
	act(&out);
	CHECK(!err || err == -ESTALE || err == -EALREADY);
}

static bool submit_one(struct rlx_lane *lane, struct command **mine, u64 *seed)
{
	struct command *c = calloc(1, sizeof(*c));
	struct rlx_slot_out out;
	struct rlx_slot *s;
	int err;

	c->payload = rlx_test_rand(seed);
	spin_lock(&q.lock);
	err = rlx_lane_take(lane, &s, 1);
	if (err == 1) {
		c->tag = rlx_slot_tag(&q, s);
		c->seq = s->seq;
		work[c->tag] = c;
		s->cmd = c;
		s->user_data = 0;
		s->deadline = rlx_test_rand(seed) % 8 ? 0 :
			      rlx_test_rand(seed) % 1000 + 1;
		s->lease.words = 0;
		rlx_leases_add(&s->lease, rlx_test_rand(seed) % 200);
		err = rlx_slots_submit(lane, &s, 1, &out);
		CHECK_EQ(err, 0);	/* the lock was held since */
	}
	spin_unlock(&q.lock);
	if (err) {
		CHECK(err == -EAGAIN || err == -EPIPE);
		free(c);
		return false;
	}
	*mine = c;
	return true;
}

/* Dies with requests in every state, and waits for what is still out. */
static void die(struct rlx_lane *lane, struct command **mine, struct command **grave)
{
	struct rlx_slot_out out[4];
	enum rlx_lane_end way;
	bool drained;
	u32 i, n;

	do {
		spin_lock(&q.lock);
		way = rlx_lane_close(lane, out, ARRAY_SIZE(out), &n);
		spin_unlock(&q.lock);
		act_all(out, n);
	} while (way == RLX_LANE_MORE);
	for (i = 0; i < SHARE; i++) {
		while (mine[i] && !__atomic_load_n(&mine[i]->completed, __ATOMIC_ACQUIRE))
			sched_yield();
		if (mine[i])
			finished(mine[i], grave);
	}
	do {
		sched_yield();
		spin_lock(&q.lock);
		drained = lane->drained;
		spin_unlock(&q.lock);
	} while (!drained);
}

static void *client(void *arg)
{
	struct command *mine[SHARE] = { NULL }, *grave = NULL, *c;
	u64 seed = (u64)(uintptr_t)arg * 77 + seed0;
	struct rlx_lane lane;
	u32 i, round, done = 0;

	spin_lock(&q.lock);
	CHECK_EQ(rlx_lane_open(&q, &lane, SHARE, 1), 0);
	spin_unlock(&q.lock);
	/* however little of a processor the executors get meanwhile */
	for (round = 0; round < ROUNDS || done <= ROUNDS / 100; round++) {
		i = rlx_test_rand(&seed) % SHARE;
		if (!mine[i]) {
			submit_one(&lane, &mine[i], &seed);
		} else if (__atomic_load_n(&mine[i]->completed, __ATOMIC_ACQUIRE)) {
			done += mine[i]->result == 1;
			finished(mine[i], &grave);
			mine[i] = NULL;
		} else if (rlx_test_rand(&seed) % 16 == 0) {
			meddle(&lane, mine[i], &seed);
		} else {
			sched_yield();
		}
	}
	die(&lane, mine, &grave);
	while ((c = grave)) {
		grave = c->next;
		free(c);
	}
	return NULL;
}

/* Fetches and works; the payload is read and written without the lock. */
static int fetch_and_work(u32 gen, u64 *seed, struct rlx_slot_ref *ref)
{
	struct command *c[8];
	int n, i;

	pthread_rwlock_rdlock(&alive);
	spin_lock(&q.lock);
	n = rlx_slots_fetch(&q, gen, ref, 1 + rlx_test_rand(seed) % 8);
	for (i = 0; i < n; i++)
		c[i] = work[ref[i].tag];
	spin_unlock(&q.lock);
	for (i = 0; i < n; i++)
		c[i]->answer = c[i]->payload * 3;
	pthread_rwlock_unlock(&alive);
	return n;
}

/* Now and then hands all back; commits twice otherwise, perhaps after its death. */
static void execute(u32 gen, u64 *seed)
{
	struct rlx_slot_out out[8], again[8];
	struct rlx_slot_commit in[8];
	struct rlx_slot_ref ref[8];
	int n, i, done;

	n = fetch_and_work(gen, seed, ref);
	if (n <= 0) {
		sched_yield();
		return;
	}
	if (rlx_test_rand(seed) % 8 == 0) {
		spin_lock(&q.lock);
		rlx_slots_undeliver(&q, gen, ref, (u32)n, out);
		spin_unlock(&q.lock);
		act_all(out, (u32)n);
		return;
	}
	for (i = 0; i < n; i++)
		in[i] = (struct rlx_slot_commit){ .seq = ref[i].seq, .tag = ref[i].tag,
						   .result = 1 };
	spin_lock(&q.lock);
	done = rlx_slots_commit(&q, gen, in, (u32)n, out);
	if (done >= 0)
		CHECK_EQ(rlx_slots_commit(&q, gen, in, (u32)n, again), 0);
	spin_unlock(&q.lock);
	if (done < 0)
		__atomic_add_fetch(&late, 1, __ATOMIC_RELAXED);
	else
		act_all(out, (u32)n);
}

static void *executor(void *arg)
{
	u64 seed = (u64)(uintptr_t)arg * 99 + seed0;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
		execute(READ_ONCE(serial), &seed);
	return NULL;
}

/* Kills the executors' generation, buries, and brings in the next. */
static void *death(void *arg)
{
	struct rlx_slot_out out[3];
	bool more;
	u32 n, i;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		for (i = 0; i < 40; i++) {
			spin_lock(&q.lock);
			n = rlx_slots_expire(&q, i * 25, out, ARRAY_SIZE(out));
			spin_unlock(&q.lock);
			act_all(out, n);
			(void)rlx_slots_ready(&q);
			sched_yield();
		}
		pthread_rwlock_wrlock(&alive);
		spin_lock(&q.lock);
		rlx_slots_detach(&q, false);
		spin_unlock(&q.lock);
		pthread_rwlock_unlock(&alive);
		do {
			spin_lock(&q.lock);
			more = rlx_slots_bury(&q, out, ARRAY_SIZE(out), &n);
			spin_unlock(&q.lock);
			act_all(out, n);
		} while (more);
		spin_lock(&q.lock);
		CHECK_EQ(rlx_slots_attach(&q, q.gen + 1), 0);
		WRITE_ONCE(serial, q.gen);
		CHECKF(!rlx_slots_check(&q), "%s", rlx_slots_check(&q));
		spin_unlock(&q.lock);
		deaths++;
	}
	return NULL;
}

static void race(bool requeue)
{
	pthread_t c[CLIENTS], e[EXECUTORS], d;
	uintptr_t i;

	memset(slot, 0, sizeof(slot));
	stop = deaths = late = 0;
	seed0 = rlx_test_seed();
	CHECK_EQ(rlx_slots_init(&q, slot, heap, DEPTH, requeue), 0);
	spin_lock(&q.lock);
	CHECK_EQ(rlx_slots_attach(&q, 1), 0);
	WRITE_ONCE(serial, 1);
	spin_unlock(&q.lock);
	for (i = 0; i < CLIENTS; i++)
		CHECK_EQ(pthread_create(&c[i], NULL, client, (void *)(i + 1)), 0);
	for (i = 0; i < EXECUTORS; i++)
		CHECK_EQ(pthread_create(&e[i], NULL, executor, (void *)(i + 50)), 0);
	CHECK_EQ(pthread_create(&d, NULL, death, NULL), 0);
	for (i = 0; i < CLIENTS; i++)
		pthread_join(c[i], NULL);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	for (i = 0; i < EXECUTORS; i++)
		pthread_join(e[i], NULL);
	pthread_join(d, NULL);
	spin_lock(&q.lock);
	CHECKF(!rlx_slots_check(&q), "%s", rlx_slots_check(&q));
	CHECK_EQ(q.nr_pool, DEPTH);
	spin_unlock(&q.lock);
	CHECK(deaths > 0);
	printf("# %u deaths, %u batches came too late\n", deaths, late);
	CHECK_EQ(rlx_shim_warned, 0);
}

TEST(race_requeue)
{
	race(true);
}

TEST(race_fail)
{
	race(false);
}

TEST_MAIN()
