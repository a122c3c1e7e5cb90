/* SPDX-License-Identifier: MIT */
/*
 * What client and service say to each other: messages on the unix socket, and
 * the layout of the memory of the shm transport. docs/rlx-channel.7.scd tells it
 * in words.
 */
#ifndef RLX_SERVE_WIRE_H
#define RLX_SERVE_WIRE_H

#include <stdatomic.h>
#include <stdint.h>

#include "rlx/serve.h"

/* ---- socket: one message is one packet of fixed size -------------------- */

enum {
	RLX_WIRE_MAGIC	 = 0x73786c72,	/* "rlxs" */
	RLX_WIRE_VERSION = 1,
	RLX_WIRE_TEXT	 = 128,
};

enum rlx_wire_type {
	RLX_WIRE_HELLO = 1,	/* client: depth, queue, transports, tag */
	RLX_WIRE_WELCOME,	/* service: the same as granted; descriptors */
	RLX_WIRE_ATTACH,	/* client: handle, access; shm: one descriptor */
	RLX_WIRE_DETACH,	/* client: handle */
	RLX_WIRE_DONE,		/* service: status of ATTACH or DETACH */
	RLX_WIRE_BYE,		/* service: no more, status and text say why */
	RLX_WIRE_FD_STORE,		/* to and from rlxd's fd store, see tools/rlxd/fd_store.h */
};

enum rlx_wire_transport {
	RLX_WIRE_SHM	= 1 << 0,
	RLX_WIRE_KMOD	= 1 << 1,
};

/* In access of a WELCOME of kmod: requests may be parked in an io_uring. */
#define RLX_WIRE_URING	1

/* Fields that a type does not use are 0. @text ends in a zero byte. */
struct rlx_wire_msg {
	uint32_t	magic;
	uint16_t	version;
	uint16_t	type;
	uint32_t	serial;		/* a reply carries its question's */
	int32_t		status;
	uint32_t	handle, access;
	uint32_t	depth, queue;	/* queue + 1; 0 for any */
	uint32_t	transports;
	uint32_t	arenas_max, slices_max;
	uint32_t	pad;
	uint64_t	tag;
	uint64_t	bytes;
	char		text[RLX_WIRE_TEXT];
};
_Static_assert(sizeof(struct rlx_wire_msg) == 192, "on the wire");

/* Descriptors of a WELCOME of the shm transport, in this order. */
enum rlx_wire_fd {
	RLX_FD_CLIENT,		/* memory the client writes */
	RLX_FD_SERVICE,		/* memory the service writes: maps read-only */
	RLX_FD_QUEUE,		/* one page of the queue: maps read-only */
	RLX_FD_BELL,		/* socket: a byte wakes who sleeps at the other end */
	RLX_WIRE_FDS,		/* at most, with one message */
};

/* ---- shared memory ------------------------------------------------------ */

/*
 * All of it is words that are loaded and stored whole, because either side may
 * write at any time: what is read once is copied, what is read twice is two
 * things.
 *
 * Client memory: a line with need_wakeup, then desc[depth] of 32 words, then
 * cancel[depth]. Position p (0, 1, 2 ...) of the stream of requests stands in
 * desc[p % depth]. Its word 0 is published last, and is the claim, which changes
 * by compare-and-swap: the service turns QUEUED or WITHDRAWN into TAKEN and goes
 * on to the next position; the client turns QUEUED into WITHDRAWN, and back after
 * it put another request there.
 */
enum rlx_shm_claim {
	RLX_SHM_QUEUED	  = 1,
	RLX_SHM_TAKEN	  = 2,	/* by the service */
	RLX_SHM_WITHDRAWN = 3,	/* by the client */
};

static inline uint64_t rlx_shm_seq(uint64_t pos, enum rlx_shm_claim claim)
{
	return (pos + 1) << 2 | claim;
}

/* Words of a descriptor; two halves: low first. */
enum rlx_shm_word {
	RLX_DW_SEQ,
	RLX_DW_TAG,		/* tag, generation */
	RLX_DW_OP,		/* opcode, flags */
	RLX_DW_USER,
	RLX_DW_DEADLINE,
	RLX_DW_COUNT,		/* nr_slices, inline_len */
	RLX_DW_SLICE,		/* 3 each: arena and access, offset, length */
	RLX_DW_INLINE	= 24,
	RLX_DW_WORDS	= 32,
};

struct rlx_shm_desc {
	_Atomic uint64_t	w[RLX_DW_WORDS];
};

struct rlx_shm_client {
	_Alignas(128) _Atomic uint32_t	need_wakeup;
	_Alignas(256) struct rlx_shm_desc desc[];
};

/* The generation whose cancellation is asked for, by tag. */
static inline _Atomic uint32_t *rlx_shm_cancel(struct rlx_shm_client *a,
					       uint32_t depth, uint32_t tag)
{
	return (_Atomic uint32_t *)&a->desc[depth] + tag;
}

/*
 * Service memory: how far it has read the requests, then reply[depth]: reply
 * number n stands in reply[n % depth], word 0 is n + 1 and is published last. No
 * reply is overwritten unread while the client has at most depth requests open.
 */
enum rlx_shm_reply_word {
	RLX_RW_SEQ,
	RLX_RW_TAG,		/* tag, generation */
	RLX_RW_RESULT,		/* result, flags */
	RLX_RW_AUX,
	RLX_RW_WORDS,
};

struct rlx_shm_reply {
	_Atomic uint64_t	w[RLX_RW_WORDS];
};

struct rlx_shm_service {
	_Alignas(128) _Atomic uint64_t	head;
	_Alignas(256) struct rlx_shm_reply reply[];
};

/* Of a queue: how many executor threads sleep. Clients then ring. */
struct rlx_shm_queue {
	_Atomic uint32_t	sleepers;
};

static inline uint64_t rlx_shm_client_bytes(uint32_t depth)
{
	return sizeof(struct rlx_shm_client) +
	       depth * (uint64_t)(sizeof(struct rlx_shm_desc) + 4);
}

static inline uint64_t rlx_shm_service_bytes(uint32_t depth)
{
	return sizeof(struct rlx_shm_service) +
	       depth * (uint64_t)sizeof(struct rlx_shm_reply);
}

/*
 * Between raising one's own flag and looking at what the other side wrote: one of
 * the two sees the other. The thread sanitizer does not know fences, and gcc
 * warns of that; nothing else here depends on them.
 */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wtsan"
#endif
static inline void rlx_shm_fence(void)
{
	atomic_thread_fence(memory_order_seq_cst);
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

static inline uint64_t rlx_shm_pair(uint32_t low, uint32_t high)
{
	return low | (uint64_t)high << 32;
}

static inline uint64_t rlx_shm_get(const _Atomic uint64_t *w)
{
	return atomic_load_explicit(w, memory_order_relaxed);
}

static inline void rlx_shm_set(_Atomic uint64_t *w, uint64_t v)
{
	atomic_store_explicit(w, v, memory_order_relaxed);
}

#endif
