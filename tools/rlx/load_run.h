/* SPDX-License-Identifier: MIT */
/*
 * Requests over a number of connections, begun by the clock and not when the one
 * before is answered: a reply's time counts from when its request was due, so that
 * a stall shows in all requests that it held up.
 */
#ifndef RLX_TOOLS_LOAD_RUN_H
#define RLX_TOOLS_LOAD_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "rlx/rlxd.h"
#include "rlx/status.h"
#include "tools/rlx/hist.h"
#include "tools/rlx/load_tls.h"

#define LOAD_GRACE_NS	10000000000

struct load_plan {
	struct sockaddr_storage	 to;
	socklen_t		 to_len;
	struct load_tls		*tls;		/* NULL: plain */
	const char		*request;	/* head and body */
	size_t			 request_n;
	unsigned int		 connections;
	double			 rate;		/* requests a second; 0: one behind the other */
	double			 seconds, warm_up;
	bool			 same;		/* bodies of replies must all be alike */
	bool			 raw;		/* an echo: as many bytes as were sent */
	/* Over a channel, instead of @to and @request. */
	const char		*channel, *model;
	uint32_t		 size[RLXD_SIZES];	/* 0: of one's own choice */
	bool			 spin;		/* never sleep */
};

/* When requests are due. */
struct load_clock {
	double		rate;
	int64_t		begin, measure, end;
	uint64_t	n;		/* begun, or due and waiting */
};

struct load_result {
	struct hist	time;		/* from when a request was due to its whole reply */
	struct hist	service;	/* from when it was sent */
	uint64_t	sent, ok, bad_status, differ, broken, late;
	uint64_t	bytes_in;
	double		seconds;
	int		status;		/* one of the bad ones */
	char		text[200];	/* the start of its body */
};

void load_clock_start(struct load_clock *c, const struct load_plan *p);
/*
 * When the next request is due; @now if no rate is wished. What was due in time and
 * waits for a connection is begun until LOAD_GRACE_NS after the end, then never.
 */
int64_t load_clock_due(const struct load_clock *c, int64_t now);
/* Is the run over, with @busy requests that are not answered? They get LOAD_GRACE_NS, too. */
bool load_clock_over(const struct load_clock *c, int64_t now, unsigned int busy);
/* How long it took, and what was due within the time and never begun. */
void load_clock_end(const struct load_clock *c, struct load_result *r);

/* Into @out, which is all zeros: of its memory, what no time falls into is never used. */
enum rlx_status load_run_channel(const struct load_plan *p, struct load_result *out,
				 struct rlx_error *err);
enum rlx_status load_run(const struct load_plan *p, struct load_result *out,
			 struct rlx_error *err);

#endif
