// SPDX-License-Identifier: MIT
/*
 * How ranks find each other: by name, by what launchers put into the environment; and what is
 * said when some do not come, die before all have, or are not what the others are.
 */
#include <signal.h>

#include "base/clock.h"
#include "rlx/comm.h"
#include "selftests/lib/ranks.h"

static enum rlx_status by_name(const char *name, unsigned int rank, unsigned int n, int kind,
			       struct rlx_comm **c, struct rlx_error *err)
{
	struct rlx_comm_opts o = { .size = sizeof(o), .name = name, .rank = rank, .ranks = n,
				   .kind = kind, .timeout_ns = 5000000000 };

	return rlx_comm_new(&o, c, err);
}

/* @ranks[r] is how many rank r believes that there are; all get @want. */
static void meet_by_name(const char *name, const unsigned int *ranks, const unsigned int *rank,
			 unsigned int n, enum rlx_status want, const char *text)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		struct rlx_error err = { 0 };
		struct rlx_comm *c;
		float x = 1;

		if (!ranks_fork(i))
			continue;
		CHECKF(by_name(name, rank[i], ranks[i], RLX_COMM_SHM, &c, &err) == want &&
		       strstr(err.text, text), "%d: %s", err.status, err.text);
		if (!want)
			CHECK(!rlx_comm_all_reduce(c, &x, 1, RLX_F32) && x == (float)n);
		rlx_comm_free(c);
		ranks_exit();
	}
	ranks_end(n, -1);
}

TEST(ranks_of_a_name_find_each_other)
{
	char name[40];

	snprintf(name, sizeof(name), "test-%d", getpid());
	meet_by_name(name, (unsigned int[]){ 3, 3, 3 }, (unsigned int[]){ 2, 0, 1 }, 3, RLX_OK, "");
	meet_by_name(name, (unsigned int[]){ 2, 3 }, (unsigned int[]){ 0, 1 }, 2, RLX_EPROTO,
		     "rank 1 is of 3 ranks, the others of 2");
	meet_by_name(name, (unsigned int[]){ 3, 3, 3 }, (unsigned int[]){ 0, 1, 1 }, 3, RLX_EEXIST,
		     "two processes are rank 1");
}

/* Of names that differ where no address has room. */
TEST(ranks_of_long_names_find_their_own)
{
	char name[400];
	struct rlx_error err = { 0 };
	struct rlx_comm *c;

	memset(name, 'x', sizeof(name));
	snprintf(name + 380, 20, "%d", getpid());
	meet_by_name(name, (unsigned int[]){ 2, 2 }, (unsigned int[]){ 0, 1 }, 2, RLX_OK, "");
	if (ranks_fork(0)) {
		CHECK_EQ(by_name(name, 0, 2, RLX_COMM_SHM, &c, &err), RLX_ETIME);
		ranks_exit();
	}
	name[379] = 'y';
	CHECK_EQ(by_name(name, 1, 2, RLX_COMM_SHM, &c, &err), RLX_ETIME);
	CHECKF(strstr(err.text, "found no rank 0"), "%s", err.text);
	ranks_end(1, -1);
}

/* Until rank @r has the arena, which rank 0 gave it. */
static void await_arena(unsigned int r)
{
	char path[32], line[512];
	bool has = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", pids[r]);
	while (!has) {
		usleep(1000);
		CHECKF(!waitpid(pids[r], NULL, WNOHANG), "rank %u ended without rank 0", r);
		f = fopen(path, "r");
		CHECK(f);
		while (!has && fgets(line, sizeof(line), f))
			has = strstr(line, "/memfd:rlx-comm");
		fclose(f);
	}
}

/* Rank 1 of 3 is there, and rank 2 never comes. */
TEST(a_rank_0_that_dies_before_all_have_come_is_named)
{
	struct rlx_error err = { 0 };
	struct rlx_comm *c;
	char name[40];
	uint64_t from;

	snprintf(name, sizeof(name), "dies-%d", getpid());
	if (ranks_fork(0))
		_exit(by_name(name, 0, 3, RLX_COMM_SHM, &c, &err));
	if (ranks_fork(1)) {
		CHECKF(by_name(name, 1, 3, RLX_COMM_SHM, &c, &err) == RLX_EOWNERDEAD &&
		       strstr(err.text, "rank 0"), "%d: %s", err.status, err.text);
		ranks_exit();
	}
	await_arena(1);
	from = rlx_now();
	CHECK(!kill(pids[0], SIGKILL));
	ranks_end(2, 0);
	CHECK(rlx_test_within(from, 5));
}

TEST(a_rank_without_its_library_tells_the_others)
{
	struct rlx_error err = { 0 };
	struct rlx_comm *c;
	char name[40];

	snprintf(name, sizeof(name), "library-%d", getpid());
	setenv("RLX_NCCL", "/nowhere/libnccl.so.2", 1);
	if (ranks_fork(0)) {
		CHECK_EQ(by_name(name, 1, 2, RLX_COMM_NCCL, &c, NULL), RLX_ENODEV);
		ranks_exit();
	}
	CHECKF(by_name(name, 0, 2, RLX_COMM_SHM, &c, &err) == RLX_ECANCELED &&
	       strstr(err.text, "rank 1 failed: communicator: /nowhere"), "%d: %s", err.status,
	       err.text);
	ranks_end(1, -1);
}

/* NULL @text: it is rank @rank of @n. */
static void check_environment(const char *const *set, int rank, int n, enum rlx_status want,
			      const char *text)
{
	static const char *const all[] = {
		"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
		"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
		"PMIX_NAMESPACE", "PMI_RANK", "PMI_SIZE", "PMI_JOBID", "MPI_LOCALNRANKS",
		"SLURM_PROCID", "SLURM_NTASKS", "SLURM_NNODES", "SLURM_JOB_ID", "SLURM_STEP_ID",
		"RLX_COMM_FD",
	};
	struct rlx_comm_opts o = { .size = sizeof(o), .timeout_ns = 100000000 };
	struct rlx_error err = { 0 };
	struct rlx_comm *c;
	unsigned int i;

	for (i = 0; i < sizeof(all) / sizeof(*all); i++)
		unsetenv(all[i]);
	for (i = 0; set[i]; i += 2)
		setenv(set[i], set[i + 1], 1);
	CHECKF(rlx_comm_new(&o, &c, &err) == want && (!want || strstr(err.text, text)),
	       "%s: %d: %s", set[0] ? set[0] : "", err.status, err.text);
	if (want)
		return;
	CHECK_EQ(rlx_comm_rank(c), rank);
	CHECK_EQ(rlx_comm_ranks(c), n);
	rlx_comm_free(c);
}

#define ENV(...) ((const char *const[]){ __VA_ARGS__, NULL })
TEST(launchers_say_which_rank_it_is)
{
	char me[20];

	snprintf(me, sizeof(me), "%d", getpid());
	check_environment((const char *const[]){ NULL }, 0, 1, RLX_OK, "");
	check_environment(ENV("RANK", "0", "WORLD_SIZE", "1"), 0, 1, RLX_OK, "");
	check_environment(ENV("OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "1"), 0, 1,
			  RLX_OK, "");
	check_environment(ENV("PMI_RANK", "0", "PMI_SIZE", "1"), 0, 1, RLX_OK, "");
	check_environment(ENV("SLURM_PROCID", "0", "SLURM_NTASKS", "1"), 0, 1, RLX_OK, "");
	check_environment(ENV("RANK", "1", "WORLD_SIZE", "3", "MASTER_ADDR", "a", "MASTER_PORT",
			      me), 1, 3, RLX_ETIME, "rank 1 found no rank 0");
	check_environment(ENV("RANK", "0", "WORLD_SIZE", "3", "MASTER_ADDR", "a", "MASTER_PORT",
			      me), 0, 3, RLX_ETIME,
			  "ranks 1, 2 did not come within 0.1 s");
	check_environment(ENV("RANK", "2", "WORLD_SIZE", "2"), 0, 0, RLX_EINVAL,
			  "RANK is '2' and WORLD_SIZE '2'");
	check_environment(ENV("RANK", "x", "WORLD_SIZE", "2"), 0, 0, RLX_EINVAL, "RANK is 'x'");
	check_environment(ENV("PMI_RANK", "1", "PMI_SIZE", "3", "MASTER_ADDR", "a", "MASTER_PORT",
			      me), 1, 3, RLX_ETIME, "rank 1 found no rank 0");
	check_environment(ENV("PMI_RANK", "1", "PMI_SIZE", "3"), 0, 0, RLX_EINVAL,
			  "set MASTER_ADDR and MASTER_PORT");
	check_environment(ENV("RANK", "0"), 0, 0, RLX_EINVAL, "WORLD_SIZE 'not set'");
	check_environment(ENV("WORLD_SIZE", "2"), 0, 0, RLX_EINVAL, "RANK not set");
	check_environment(ENV("WORLD_SIZE", "1"), 0, 1, RLX_OK, "");
	check_environment(ENV("RANK", "0", "WORLD_SIZE", "2", "LOCAL_WORLD_SIZE", "x"), 0, 0,
			  RLX_EINVAL, "LOCAL_WORLD_SIZE is 'x'");
	check_environment(ENV("RANK", "0", "WORLD_SIZE", "2"), 0, 0, RLX_EINVAL,
			  "set MASTER_ADDR and MASTER_PORT");
	check_environment(ENV("RANK", "0", "WORLD_SIZE", "4", "LOCAL_WORLD_SIZE", "2"), 0, 0,
			  RLX_ENOSUP, "several hosts");
	check_environment(ENV("SLURM_PROCID", "0", "SLURM_NTASKS", "4", "SLURM_NNODES", "2"), 0, 0,
			  RLX_ENOSUP, "several hosts");
	check_environment(ENV("RLX_COMM_FD", "-3"), 0, 0, RLX_EINVAL, "no descriptor");
	check_environment(ENV("RLX_COMM_FD", "0"), 0, 0, RLX_EBADFD, "");
}

TEST(wrong_options_are_refused)
{
	struct rlx_comm_opts o = { .size = sizeof(o), .ranks = 2, .rank = 2 };
	struct rlx_error err = { 0 };
	struct rlx_comm *c;
	struct rlx_arena *a;

	CHECK_EQ(rlx_comm_new(&o, &c, &err), RLX_EINVAL);
	CHECK_EQ(rlx_comm_new(&o, NULL, &err), RLX_EINVAL);
	o = (struct rlx_comm_opts){ .size = sizeof(o), .kind = 9 };
	CHECK_EQ(rlx_comm_new(&o, &c, &err), RLX_EINVAL);
	CHECK_EQ(rlx_comm_arena(0, &a, &err), RLX_EINVAL);
	CHECK_EQ(rlx_comm_arena(100000, &a, &err), RLX_EINVAL);
	CHECK_EQ(rlx_comm_rank(NULL), 0);
	CHECK_EQ(rlx_comm_ranks(NULL), 1);
	CHECK(!rlx_comm_collective(NULL));
	CHECK_EQ(rlx_comm_barrier(NULL), RLX_EINVAL);
	rlx_comm_fail(NULL, "");
	rlx_comm_free(NULL);
	setenv("RLX_NCCL", "/nowhere/libnccl.so.2", 1);
	o = (struct rlx_comm_opts){ .size = sizeof(o), .kind = RLX_COMM_NCCL, .ranks = 1 };
	err = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_comm_new(&o, &c, &err), RLX_ENODEV);
	CHECKF(strstr(err.text, "RLX_NCCL"), "%s", err.text);
}

TEST_MAIN()
