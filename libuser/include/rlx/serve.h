/* SPDX-License-Identifier: MIT */
/*
 * Channels: requests from one process to another and back, without copying what
 * they are about. A request is 256 bytes that name slices of arenas; the client
 * attaches an arena once, the executor maps it once.
 *
 *	client					executor
 *	rlx_channel_open()			rlx_service_new()
 *	rlx_channel_attach(arena)
 *	rlx_channel_submit(request)	---->	rlx_service_fetch(work)
 *						... reads and writes the slices ...
 *	rlx_channel_wait(reply)		<----	rlx_service_commit(work)
 *
 * Two transports carry this and behave the same: "kmod", the channels of
 * /dev/rlx, and "shm", rings in memory that both map. Both are set up over a
 * unix socket, on which the kernel tells who the peer is.
 *
 * Who may ruin what: neither side can make the other crash, hang or read
 * outside what was attached, whatever it writes where. A client that writes
 * nonsense into a ring is cut off, with a reason, and the others do not notice.
 * The content of a slice is the client's: an executor that must rely on what it
 * checked there copies it first, since the client may write on.
 *
 * Times are CLOCK_MONOTONIC in nanoseconds; see rlx_deadline_in().
 */
#ifndef RLX_SERVE_H
#define RLX_SERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rlx/arena.h>
#include <rlx/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct io_uring_sqe;

enum {
	RLX_REQUEST_SLICES	= 6,	/* in a request itself */
	RLX_REQUEST_SLICES_MAX	= 64,	/* with RLX_REQUEST_INDIRECT */
	RLX_REQUEST_INLINE	= 64,	/* bytes of parameters */
	RLX_CHANNEL_DEPTH_MAX	= 4096,
	RLX_CHANNEL_ARENAS_MAX	= 256,
};

/* As a deadline: wait for ever. 0, where waiting is meant: do not wait. */
#define RLX_NO_DEADLINE	UINT64_MAX

/* As spin_ns: decided from how long waits took so far; see rlx_channel_wait(). */
#define RLX_SPIN_AUTO	0
#define RLX_SPIN_NEVER	UINT64_MAX

/** rlx_deadline_in - @ns from now as a deadline; saturates. Context: any. */
RLX_EXPORT uint64_t rlx_deadline_in(uint64_t ns);

/* What an attachment or a slice allows the executor. */
enum rlx_access {
	RLX_ACCESS_READ		= 1 << 0,
	RLX_ACCESS_WRITE	= 1 << 1,
};

/**
 * struct rlx_request_slice - a range of an attached arena.
 * @arena:  handle from rlx_channel_attach()
 * @access: enum rlx_access, within what was attached
 * @offset: bytes
 * @length: bytes, not 0
 */
struct rlx_request_slice {
	uint32_t	arena;
	uint32_t	access;
	uint64_t	offset;
	uint64_t	length;
};

/**
 * enum rlx_request_flags - of a request.
 * @RLX_REQUEST_INDIRECT: slice[0] is a range that holds nr_slices (at most
 *                        RLX_REQUEST_SLICES_MAX) struct rlx_request_slice, which
 *                        the executor gets a checked copy of
 * @RLX_REQUEST_USER:     bits that are carried and not looked at
 */
enum rlx_request_flags {
	RLX_REQUEST_INDIRECT	= 1 << 0,
};
#define RLX_REQUEST_USER	0xffff0000u

/**
 * struct rlx_request - what the client asks; 256 bytes.
 * @opcode:      meaning is the executor's; the top bit is 0
 * @flags:       enum rlx_request_flags
 * @user_data:   comes back in the reply
 * @deadline_ns: 0 none. A request no executor has taken by then is answered
 *               with -ETIME (on "kmod" when the executor looks for work the next
 *               time); one that was taken runs to its end
 * @nr_slices:   how many of @slice
 * @inline_len:  how many bytes of @inline_data
 * @reserved:    0
 */
struct rlx_request {
	uint32_t	opcode;
	uint32_t	flags;
	uint64_t	user_data;
	uint64_t	deadline_ns;
	uint32_t	nr_slices;
	uint32_t	inline_len;
	uint64_t	reserved[2];
	struct rlx_request_slice slice[RLX_REQUEST_SLICES];
	uint8_t		inline_data[RLX_REQUEST_INLINE];
};

/**
 * enum rlx_reply_flags - of a reply.
 * @RLX_REPLY_UNDELIVERED: no executor ever saw the request, so that asking again
 *                         does nothing twice. Where it is not known: not set
 */
enum rlx_reply_flags {
	RLX_REPLY_UNDELIVERED	= 1 << 0,
};

/**
 * struct rlx_reply - the end of a request.
 * @user_data: of the request
 * @id:        of the request
 * @aux:       the executor's
 * @result:    the executor's; or of the channel: -ECANCELED (cancelled), -ETIME
 *             (deadline), -EOWNERDEAD (the executor died; it may have written to
 *             the slices), and what a request can be refused with: -EINVAL,
 *             -ENOENT (no such arena), -ERANGE, -EACCES
 * @flags:     enum rlx_reply_flags
 */
struct rlx_reply {
	uint64_t	user_data;
	uint64_t	id;
	uint64_t	aux;
	int32_t		result;
	uint32_t	flags;
};

/* ---- client ----------------------------------------------------------- */

/*
 * struct rlx_channel - a client's end. One thread at a time; threads that want
 * to ask at once open a channel each. Not to be used after fork() by the child.
 */
struct rlx_channel;

/**
 * enum rlx_channel_flags - of struct rlx_channel_opts.
 * @RLX_CHANNEL_RECOVER:     when the executor dies, wait for a new one at the same
 *                           address (see recover_ns), attach the same arenas
 *                           under the same handles, and give it the requests that
 *                           the old one had not taken
 * @RLX_CHANNEL_RECOVER_ALL: and also those it had taken: only where doing a
 *                           request twice is as good as once
 */
enum rlx_channel_flags {
	RLX_CHANNEL_RECOVER	= 1 << 0,
	RLX_CHANNEL_RECOVER_ALL	= 1 << 1,
};

/**
 * struct rlx_channel_opts - zero means the default everywhere.
 * @size:       sizeof(struct rlx_channel_opts)
 * @address:    "/path" or "@name" (abstract) of the service's socket; required
 * @transport:  "shm" or "kmod"; NULL: kmod where /dev/rlx can be used here, /proc is
 *              mounted and the service has it, else shm. kmod needs /proc, to know the
 *              module's descriptors from others; it takes arenas of the module, and
 *              others where the kernel can pin a memfd (6.11). With RECOVER it must be
 *              named: which requests a dead executor had taken is not known there, so
 *              that those end with -EOWNERDEAD that RECOVER_ALL would ask again
 * @depth:      requests not yet reaped, at most; a power of two; 0: 64
 * @queue:      1 + the service's queue that is wished; 0: the service chooses
 * @flags:      enum rlx_channel_flags
 * @spin_ns:    how long a wait spins before it sleeps: RLX_SPIN_AUTO,
 *              RLX_SPIN_NEVER, or nanoseconds
 * @timeout_ns: for opening, attaching and detaching; 0: 5 s
 * @recover_ns: how long to look for a new executor; 0: 10 s
 * @tag:        told to the executor (struct rlx_peer)
 * @reserved:   0
 */
struct rlx_channel_opts {
	size_t		 size;
	const char	*address;
	const char	*transport;
	uint32_t	 depth;
	uint32_t	 queue;
	uint32_t	 flags;
	uint32_t	 pad;
	uint64_t	 spin_ns;
	uint64_t	 timeout_ns;
	uint64_t	 recover_ns;
	uint64_t	 tag;
	uint64_t	 reserved[4];
};

/**
 * rlx_channel_open - connect to a service.
 * @opts: not kept
 * @out:  NULL on failure
 *
 * Context: sleeps up to opts->timeout_ns, allocates.
 * Ownership: rlx_channel_close().
 * Return: RLX_ENOTCONN if nobody listens there; RLX_EACCES if this user may not
 * connect; RLX_ENOSUP for a transport that one side lacks; RLX_EAGAIN if the
 * service has no room for another client; RLX_EINVAL; RLX_ETIME; RLX_EPROTO if
 * what listens there is no such service; RLX_ENOMEM, also for descriptors.
 */
RLX_EXPORT __rlx_must_check enum rlx_status
rlx_channel_open(const struct rlx_channel_opts *opts, struct rlx_channel **out,
		 struct rlx_error *err);

/**
 * rlx_channel_close - give the channel up; NULL is fine.
 *
 * Requests under way are not waited for: an executor that has one may still
 * write to the slices. Reap first where that matters.
 * Context: sleeps.
 */
RLX_EXPORT void rlx_channel_close(struct rlx_channel *ch);

/**
 * rlx_channel_attach - let requests name an arena.
 * @arena:      one with a descriptor; referenced until detached or closed
 * @access:     enum rlx_access; with WRITE the executor may write anywhere in it, and
 *              can read it whether READ is given or not
 * @out_handle: for slices; never 0, not used again in this channel
 *
 * Context: sleeps up to timeout_ns, allocates.
 * Return: RLX_ENOSUP for an arena without a descriptor; RLX_EACCES for WRITE on
 * a read-only one, or if the service refuses it (its text says why);
 * RLX_ERANGE past RLX_CHANNEL_ARENAS_MAX or the service's cap of bytes;
 * RLX_EPIPE, RLX_ETIME, RLX_ENOMEM.
 */
RLX_EXPORT __rlx_must_check enum rlx_status
rlx_channel_attach(struct rlx_channel *ch, struct rlx_arena *arena,
		   uint32_t access, uint32_t *out_handle,
		   struct rlx_error *err);

/**
 * rlx_channel_detach - take an attachment back.
 * Once it returns RLX_OK the service has no way to the arena any more, but for
 * an executor that keeps a reference of its own.
 * Return: RLX_ENOENT; RLX_EBUSY while a request that names it is not reaped;
 * RLX_EPIPE, RLX_ETIME.
 */
RLX_EXPORT enum rlx_status
rlx_channel_detach(struct rlx_channel *ch, uint32_t handle,
		   struct rlx_error *err);

/**
 * rlx_channel_slice - a buffer as a slice of a request.
 * @buf: in an attached arena
 * Context: neither sleeps nor allocates.
 * Return: RLX_ENOENT if its arena is not attached; RLX_ERANGE if the buffer is
 * empty or not inside its arena; RLX_EACCES if it was attached with less.
 */
RLX_EXPORT enum rlx_status
rlx_channel_slice(struct rlx_channel *ch, struct rlx_buf buf, uint32_t access,
		  struct rlx_request_slice *out);

/**
 * rlx_channel_submit - hand requests over.
 * @req: @n of them; not kept
 * @ids: if not NULL, @n names for rlx_channel_cancel()
 *
 * Everything in a request is checked here as the executor will check it; the
 * first that is refused ends the call.
 * Context: does not sleep or allocate, but with RLX_CHANNEL_RECOVER, when the
 * executor has died, it first looks for the next.
 * Return: how many were taken, in order; if none: RLX_EAGAIN when depth requests
 * are not yet reaped; RLX_EPIPE when the executor is gone, RLX_EPROTO when it
 * wrote nonsense (rlx_channel_error() says more); RLX_EINVAL, RLX_ENOENT (no
 * such arena), RLX_ERANGE, RLX_EACCES for a bad request.
 */
RLX_EXPORT int rlx_channel_submit(struct rlx_channel *ch,
				  const struct rlx_request *req, unsigned int n,
				  uint64_t *ids);

/**
 * rlx_channel_reap - take the replies there are, at most @max.
 * Context: does not sleep or allocate. Return: how many; RLX_EPIPE or RLX_EPROTO
 * if there are none and will be none: every request has been answered.
 */
RLX_EXPORT int rlx_channel_reap(struct rlx_channel *ch, struct rlx_reply *out,
				unsigned int max);

/**
 * rlx_channel_wait - take replies; wait for at least @min.
 * @deadline_ns: 0 is rlx_channel_reap(); RLX_NO_DEADLINE for ever
 *
 * Spins first and then sleeps. With RLX_SPIN_AUTO it spins as long as waits of
 * late were short enough for that to pay, and not at all on one processor.
 * Context: sleeps; does not allocate, but for a recovery.
 * Return: how many, at least 1 unless the deadline passed (then maybe 0);
 * RLX_EPIPE, RLX_EPROTO as rlx_channel_reap(); RLX_EINVAL if @min is larger than
 * @max, or nothing is under way and @min is not 0.
 */
RLX_EXPORT int rlx_channel_wait(struct rlx_channel *ch, struct rlx_reply *out,
				unsigned int min, unsigned int max,
				uint64_t deadline_ns);

/**
 * rlx_channel_call - submit one request and wait for its reply; no other may be
 * under way.
 * Return: RLX_OK and @reply; RLX_EBUSY if another is under way; RLX_ETIME if
 * @deadline_ns passed: the request goes on, and is to be reaped; else as
 * rlx_channel_submit() and rlx_channel_wait().
 */
RLX_EXPORT enum rlx_status
rlx_channel_call(struct rlx_channel *ch, const struct rlx_request *req,
		 struct rlx_reply *reply, uint64_t deadline_ns);

/**
 * rlx_channel_cancel - take a request back that no executor has taken yet.
 * @id: from rlx_channel_submit() or a reply
 *
 * Either way there will be one reply: -ECANCELED, or the executor's result if it
 * had the request already (it is told, see rlx_work_cancelled()). On "shm" it is
 * there at once; on "kmod" when the executor looks for work the next time.
 * Context: does not sleep. Return: RLX_ESTALE if the request has ended.
 */
RLX_EXPORT enum rlx_status rlx_channel_cancel(struct rlx_channel *ch,
					      uint64_t id);

/**
 * rlx_channel_fd - a descriptor to poll for POLLIN in the caller's own loop.
 *
 * It tells of replies only after rlx_channel_arm() returned 0, and of the
 * executor's end always. It stays the same over recoveries.
 * Ownership: the channel's. Context: allocates a descriptor at the first call.
 * Return: RLX_ENOMEM (descriptors ran out).
 */
RLX_EXPORT int rlx_channel_fd(struct rlx_channel *ch);

/**
 * rlx_channel_arm - ask to be told of the next reply.
 *
 * Call it before sleeping on rlx_channel_fd(). If it returns more than 0, reap
 * instead; whoever slept then would sleep over them.
 * Return: replies there now; else as rlx_channel_reap().
 */
RLX_EXPORT int rlx_channel_arm(struct rlx_channel *ch);

/**
 * rlx_channel_prep_wait - fill @sqe of the caller's io_uring with a wait for
 * rlx_channel_fd(); its completion says: reap now. Arm before submitting it.
 * Return: RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status
rlx_channel_prep_wait(struct rlx_channel *ch, struct io_uring_sqe *sqe);

/**
 * rlx_channel_prep_request - fill @sqe of the caller's io_uring with a request;
 * its completion is the reply: res is the result.
 * @req: must live until the completion; user_data is for the executor, who wants
 *       it back from the SQE sets it there too
 *
 * It takes a place of depth while it is open, but is not reaped and not seen by
 * rlx_channel_wait(). It can be linked to others, and ends with -ECANCELED when
 * the ring is closed.
 * Return: RLX_ENOSUP on "shm", where the kernel has no part in a request, on a
 * channel that recovers, which could not give it to the next executor, and on
 * kernels before 6.10: there submit, and wait with rlx_channel_prep_wait(); else
 * as rlx_channel_submit() for a bad request.
 */
RLX_EXPORT enum rlx_status
rlx_channel_prep_request(struct rlx_channel *ch, struct io_uring_sqe *sqe,
			 const struct rlx_request *req);

/**
 * struct rlx_channel_info - a channel as it is now.
 * @transport: "shm" or "kmod"
 * @depth:     granted
 * @queue:     of the service
 * @in_flight: submitted and not reaped
 * @pid, @uid: of the service's process, as the kernel says
 * @alive:     the executor was there when last looked at
 * @recoveries: executors that were lost and replaced
 * @submitted, @replied: ever
 * @sleeps:    waits that had to sleep
 * @bells:     times the executor had to be woken
 */
struct rlx_channel_info {
	const char	*transport;
	uint32_t	 depth, queue, in_flight;
	int32_t		 pid;
	uint32_t	 uid;
	bool		 alive;
	uint64_t	 recoveries, submitted, replied, sleeps, bells;
	uint64_t	 reserved[4];
};

/** rlx_channel_info - of NULL: transport "none". Context: any time by the channel's thread. */
RLX_EXPORT void rlx_channel_info(struct rlx_channel *ch,
				 struct rlx_channel_info *out);

/** rlx_channel_error - why the channel is dead, or one with status RLX_OK. */
RLX_EXPORT const struct rlx_error *
rlx_channel_error(const struct rlx_channel *ch);

/* ---- executor --------------------------------------------------------- */

/* struct rlx_service - the place clients connect to. Any thread. */
struct rlx_service;

/**
 * enum rlx_service_flags - of struct rlx_service_opts.
 * @RLX_SERVICE_LISTEN_FD: listen_fd is a listening socket (SOCK_SEQPACKET) that
 *                         somebody else made, as systemd does; address is then
 *                         only a name
 * @RLX_SERVICE_ANY_USER:  every user may connect who can reach the socket
 * @RLX_SERVICE_EVENTS:    fetch also yields work of kinds other than REQUEST
 */
enum rlx_service_flags {
	RLX_SERVICE_LISTEN_FD	= 1 << 0,
	RLX_SERVICE_ANY_USER	= 1 << 1,
	RLX_SERVICE_EVENTS	= 1 << 2,
};

/**
 * struct rlx_service_opts - zero means the default everywhere.
 * @size:         sizeof(struct rlx_service_opts)
 * @address:      "/path" or "@name" (abstract); required
 * @transport:    "shm" or "kmod" and no other; NULL: shm, and kmod where it is there
 * @flags:        enum rlx_service_flags
 * @mode:         permission bits of the socket file; 0: 0600
 * @uids, @nr_uids: users that may connect besides our own and root; as the kernel
 *                tells (SO_PEERCRED)
 * @gids, @nr_gids: groups whose members may connect, likewise (SO_PEERGROUPS)
 * @queues:       1 to 64; 0: 1. A client belongs to one
 * @depth_max:    of a channel; 0: 256
 * @clients_max:  0: 1024
 * @user_clients_max: of one user; 0: no limit but clients_max
 * @arenas_max:   of a channel; 0: 16
 * @slices_max:   of a request; 0: RLX_REQUEST_SLICES, so no INDIRECT
 * @quantum:      taken from one client before the next one's turn; 0: 8
 * @client_bytes: attached by one client, at most; 0: a quarter of the memory
 * @spin_ns:      how long a fetch spins before it sleeps
 * @listen_fd:    with RLX_SERVICE_LISTEN_FD; stays the caller's
 * @reserved:     0
 */
struct rlx_service_opts {
	size_t		 size;
	const char	*address;
	const char	*transport;
	uint32_t	 flags;
	uint32_t	 mode;
	const uint32_t	*uids, *gids;
	uint32_t	 nr_uids, nr_gids;
	uint32_t	 queues;
	uint32_t	 depth_max;
	uint32_t	 clients_max;
	uint32_t	 user_clients_max;
	uint32_t	 arenas_max;
	uint32_t	 slices_max;
	uint32_t	 quantum;
	int		 listen_fd;
	uint64_t	 client_bytes;
	uint64_t	 spin_ns;
	uint64_t	 reserved[4];
};

/**
 * struct rlx_peer - a client, as the executor sees it.
 * @id:   never 0, never used again by this service
 * @pid, @uid, @gid: as the kernel told when it connected
 * @tag:  from struct rlx_channel_opts
 * @priv: the executor's own, NULL at first; it may be set in any work of this
 *        peer by one thread at a time
 */
struct rlx_peer {
	uint64_t	 id;
	int32_t		 pid;
	uint32_t	 uid, gid;
	uint32_t	 queue;
	uint64_t	 tag;
	void		*priv;
};

/**
 * struct rlx_work_slice - a slice, checked and mapped.
 * @ptr:    its first byte here; NULL only in events
 * @offset, @length: inside @arena
 * @arena:  the client's memory as an arena of ours, for rlx_session_bind() and
 *          the like. Referenced by the work; whoever keeps it longer takes a
 *          reference
 * @access: enum rlx_access: writing through one without WRITE is a fault where
 *          the mapping is read-only, and always wrong
 * @handle: the client's name for the arena
 */
struct rlx_work_slice {
	void			*ptr;
	uint64_t		 offset, length;
	struct rlx_arena	*arena;
	uint32_t		 access;
	uint32_t		 handle;
};

/**
 * enum rlx_work_kind - what a fetched item is.
 * @RLX_WORK_REQUEST: to be answered
 * With RLX_SERVICE_EVENTS, in order with the requests, and to be committed like
 * them (result and aux do not matter):
 * @RLX_WORK_OPEN:    a client is there
 * @RLX_WORK_ATTACH:  slice[0] is an arena that its requests may name from now on:
 *                    the time to register it with a device
 * @RLX_WORK_DETACH:  slice[0] is an arena that it takes back; unmapped after the
 *                    commit
 * @RLX_WORK_GONE:    the client is gone, all its requests have been committed.
 *                    After the commit the peer is freed
 */
enum rlx_work_kind {
	RLX_WORK_REQUEST,
	RLX_WORK_OPEN,
	RLX_WORK_ATTACH,
	RLX_WORK_DETACH,
	RLX_WORK_GONE,
};

/**
 * struct rlx_work - something fetched. A copy of what the client wrote, taken
 * once and checked: it does not change under the reader.
 * @kind:        enum rlx_work_kind
 * @opcode, @flags, @user_data, @deadline_ns: of the request
 * @nr_slices, @slice: resolved; up to slices_max of the service
 * @inline_len, @inline_data: of the request
 * @result, @aux: the answer, to be set before the commit; 0 at first
 * @priv:        the executor's own, NULL at first
 */
struct rlx_work {
	uint32_t		 kind;
	uint32_t		 opcode;
	uint32_t		 flags;
	uint32_t		 nr_slices;
	uint32_t		 inline_len;
	int32_t			 result;
	uint64_t		 aux;
	uint64_t		 user_data;
	uint64_t		 deadline_ns;
	struct rlx_peer		*peer;
	const struct rlx_work_slice *slice;
	const uint8_t		*inline_data;
	void			*priv;
};

/**
 * rlx_service_new - listen.
 * @opts: not kept
 *
 * Starts one thread, which does the setting up of channels; the caller's threads
 * fetch and commit. A socket file that nobody listens on is replaced.
 * Context: sleeps, allocates. Ownership: rlx_service_free().
 * Return: RLX_EBUSY if a service listens there; RLX_EACCES, RLX_ENOENT for the
 * address; RLX_ENOSUP for a transport that is not there; RLX_EINVAL; RLX_ENOMEM.
 */
RLX_EXPORT __rlx_must_check enum rlx_status
rlx_service_new(const struct rlx_service_opts *opts, struct rlx_service **out,
		struct rlx_error *err);

/**
 * rlx_service_free - end the service; NULL is fine.
 *
 * No thread may be in a call on it, and no device may still work on slices. What
 * was fetched and not committed is answered with -EOWNERDEAD; what was not
 * fetched clients may give to the next service (RLX_CHANNEL_RECOVER).
 * Context: sleeps.
 */
RLX_EXPORT void rlx_service_free(struct rlx_service *svc);

/**
 * rlx_service_stop - let no new client in and end waiting: fetch yields what was
 * submitted already, and when nothing is left RLX_EPIPE. Context: any thread.
 */
RLX_EXPORT void rlx_service_stop(struct rlx_service *svc);

/**
 * rlx_service_fetch - take work.
 * @queue: 0 to queues - 1; threads may share one
 * @out:   up to @max; each is the caller's until it is committed
 * @min:   wait for this many; 0 does not wait
 * @deadline_ns: then return what there is; 0 does not wait
 *
 * Clients take turns. What a client did wrong is answered here and not yielded.
 * Context: sleeps after spinning (spin_ns); does not allocate.
 * Return: how many, 0 if the deadline passed first; RLX_EPIPE once stopped and
 * empty; RLX_EINVAL.
 */
RLX_EXPORT int rlx_service_fetch(struct rlx_service *svc, unsigned int queue,
				 struct rlx_work **out, unsigned int min,
				 unsigned int max, uint64_t deadline_ns);

/**
 * rlx_service_commit - answer; @work[i] belongs to the service again.
 *
 * All writing to the slices, by devices too, must be over. Replies of one call
 * wake each client at most once. If the client is gone, nothing happens.
 * Context: any thread, also one that did not fetch; does not sleep or allocate.
 * Return: RLX_ESTALE if one of them was not fetched, or was committed before; the
 * others are answered.
 */
RLX_EXPORT enum rlx_status rlx_service_commit(struct rlx_service *svc,
					      struct rlx_work *const *work,
					      unsigned int n);

/**
 * rlx_work_cancelled - does nobody want the answer any more? True if the client
 * is gone or asked to cancel. It is to be committed all the same. False for NULL.
 * Context: any thread, while the work is the caller's.
 */
RLX_EXPORT bool rlx_work_cancelled(const struct rlx_work *work);

/**
 * rlx_service_fd - a descriptor to poll for POLLIN in the caller's own loop. It
 * tells of work only after rlx_service_arm() returned 0. Ownership: the service's.
 * Context: any thread. Return: RLX_EINVAL (NULL, no such queue).
 */
RLX_EXPORT int rlx_service_fd(struct rlx_service *svc, unsigned int queue);

/**
 * rlx_service_arm - ask to be told of the next work in @queue.
 *
 * Call it before sleeping on rlx_service_fd(). If it returns 1, fetch instead.
 * It holds until the next fetch from that queue.
 * Return: 0 armed; 1 there is work, or the service was stopped; RLX_EINVAL.
 */
RLX_EXPORT int rlx_service_arm(struct rlx_service *svc, unsigned int queue);

/**
 * rlx_service_cut - throw a client out.
 * @peer:   rlx_peer.id
 * @reason: one line, told to the client; at most 100 bytes of it
 *
 * Work of it that is under way is to be committed as ever.
 * Context: any thread. Return: RLX_ENOENT if it is gone already.
 */
RLX_EXPORT enum rlx_status rlx_service_cut(struct rlx_service *svc,
					   uint64_t peer, const char *reason);

/**
 * struct rlx_service_stats - counts since the service began.
 * @clients:   connected now
 * @clients_ever: connected
 * @refused:   not let in: wrong user, no room, no such transport
 * @cut:       thrown out, for nonsense or by rlx_service_cut()
 * @fetched, @committed: requests
 * @orphaned:  committed when the client was gone
 * @rejected:  requests answered here because they were wrong
 * @expired:   requests answered here because their deadline had passed
 * @under_way: fetched and not committed
 * @arenas, @arena_bytes: attached now
 * @sleeps:    fetches that had to sleep
 * @bells:     clients woken
 * @bytes_copied: of slices, by the library: 0
 */
struct rlx_service_stats {
	uint64_t clients, clients_ever, refused, cut;
	uint64_t fetched, committed, orphaned, rejected, expired, under_way;
	uint64_t arenas, arena_bytes, sleeps, bells, bytes_copied;
	uint64_t reserved[8];
};

/** rlx_service_stats - Context: any thread; takes locks for a moment. */
RLX_EXPORT void rlx_service_stats(struct rlx_service *svc,
				  struct rlx_service_stats *out);

/** rlx_service_transport - the best it has: "kmod" or "shm"; "none" of NULL. */
RLX_EXPORT const char *rlx_service_transport(const struct rlx_service *svc);

#ifdef __cplusplus
}
#endif
#endif
