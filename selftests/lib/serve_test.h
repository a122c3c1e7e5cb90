/* SPDX-License-Identifier: MIT */
/* What tests of channels share: a service with threads that serve opcodes. */
#ifndef RLX_SERVE_TEST_H
#define RLX_SERVE_TEST_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "rlx/serve.h"
#include "selftests/lib/rlx_test.h"

/* What the executor of these tests does, by opcode. */
enum serve_op {
	OP_NOP,		/* result 0, aux: user_data */
	OP_ADD,		/* result: sum of the inline bytes */
	OP_COPY,	/* slice[0] into slice[1]; result: bytes */
	OP_SUM,		/* aux: sum of all bytes of all slices */
	OP_HOLD,	/* held until server_release() */
	OP_DIE,		/* the executor kills itself, holding it */
	OP_SLEEP,	/* inline u32: microseconds */
	OP_WANTED,	/* waits until cancelled, 2 s at most: result 1 if so */
};

enum { SERVER_HELD = 256 };

struct server {
	struct rlx_service	*svc;
	char			 address[64];
	pthread_t		 thread[8];
	unsigned int		 threads, queues;
	_Atomic bool		 tame;	/* opcodes may be anything: sum the slices */
	pthread_mutex_t		 lock;		/* guards held, events */
	struct rlx_work		*held[SERVER_HELD];
	unsigned int		 nr_held;
	unsigned int		 events[5];	/* by enum rlx_work_kind */
	unsigned int		 order_errors;
};

const char *serve_transport(void);	/* RLX_TEST_TRANSPORT, or "shm" */

/* An abstract address no other test has. */
void serve_address(char *buf, size_t n);

/* Start serving; fields of @o that are 0 get what tests want. */
void server_start(struct server *s, struct rlx_service_opts o,
		  unsigned int threads);
unsigned int server_held(struct server *s);
void server_release(struct server *s);
void server_stop(struct server *s);
/* Wait until the service has no client; fails the test after 5 s. */
void server_drained(struct server *s);

/* The same in a process of its own; returns its pid once it listens. */
pid_t server_fork(const char *address, struct rlx_service_opts o,
		  unsigned int threads);

struct rlx_channel *client_open(const char *address, struct rlx_channel_opts o);
struct rlx_arena *client_arena(uint64_t bytes);
/* Attach, or fail the test. */
uint32_t client_attach(struct rlx_channel *ch, struct rlx_arena *a,
		       uint32_t access);
/* One request, its reply. */
struct rlx_reply client_call(struct rlx_channel *ch, struct rlx_request r);
#define in_ms(ms)	rlx_deadline_in((ms) * 1000000ull)
/* For what must come: long after a machine with much else to do would have it. */
#define SOON		in_ms(60000)

#endif
