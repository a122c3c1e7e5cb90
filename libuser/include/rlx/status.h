/* SPDX-License-Identifier: MIT */
/* What a call returns, and the message of the first failure. */
#ifndef RLX_STATUS_H
#define RLX_STATUS_H

#include <errno.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RLX_EXPORT		__attribute__((visibility("default")))
#define __rlx_must_check	__attribute__((warn_unused_result))
#define __rlx_printf(f, a)	__attribute__((format(printf, f, a)))

/**
 * enum rlx_status - what a call returns. Values are -errno, so that an ioctl's
 * result needs no translation and module, library and tools speak one language.
 *
 * NULL where a call takes an object or a thing to fill ends no process. It is RLX_EINVAL, or
 * as the call says; calls without a status do nothing, or tell 0 or NULL; what is told into a
 * struct is zero, or none's; an object's error is one with RLX_EINVAL, and never NULL.
 *
 * @RLX_OK:      done
 * @RLX_ENOENT:  a name is unknown: file, input, parameter, node
 * @RLX_EIO:     reading or writing failed, or a file ends too early
 * @RLX_EBADFD:  the descriptor is of the wrong kind
 * @RLX_ENOMEM:  memory ran out; nothing was changed
 * @RLX_EACCES:  not permitted: a read-only or sealed arena, a device node
 * @RLX_EBUSY:   in use, so cannot be changed or put now
 * @RLX_EEXIST:  the name is taken
 * @RLX_EINVAL:  the request is malformed whatever the state (NULL, bad value)
 * @RLX_ERANGE:  a size, offset or index is outside what it refers to
 * @RLX_ESHAPE:  operands are well formed but do not fit each other
 * @RLX_ETYPE:   the dtype is not one this op takes
 * @RLX_EPARSE:  a file or text is not what it claims to be
 * @RLX_ENOSUP:  correct, but this backend or build cannot do it; another may
 * @RLX_ENODEV:  no such device, or its driver library is absent
 * @RLX_ETIME:   the deadline passed; the work goes on
 * @RLX_ELOST:   the device failed; its buffers' contents are undefined
 * @RLX_EAGAIN:  full, or nothing there yet; later it may work
 * @RLX_ENOTCONN: nobody listens there
 * @RLX_EPIPE:   the other side is gone
 * @RLX_EOWNERDEAD: the other side died holding the request
 * @RLX_ECANCELED: taken back before it was begun
 * @RLX_ESTALE:  it names a request that has ended
 * @RLX_EPROTO:  the other side does not keep to the protocol
 * @RLX_EBUG:    an invariant of ours broke; please report
 */
enum rlx_status {
	RLX_OK		= 0,
	RLX_ENOENT	= -ENOENT,
	RLX_EIO		= -EIO,
	RLX_EBADFD	= -EBADF,
	RLX_ENOMEM	= -ENOMEM,
	RLX_EACCES	= -EACCES,
	RLX_EBUSY	= -EBUSY,
	RLX_EEXIST	= -EEXIST,
	RLX_EINVAL	= -EINVAL,
	RLX_ERANGE	= -ERANGE,
	RLX_ESHAPE	= -EDOM,
	RLX_ETYPE	= -EPROTOTYPE,
	RLX_EPARSE	= -EBADMSG,
	RLX_ENOSUP	= -EOPNOTSUPP,
	RLX_ENODEV	= -ENODEV,
	RLX_ETIME	= -ETIME,
	RLX_ELOST	= -EREMOTEIO,
	RLX_EAGAIN	= -EAGAIN,
	RLX_ENOTCONN	= -ENOTCONN,
	RLX_EPIPE	= -EPIPE,
	RLX_EOWNERDEAD	= -EOWNERDEAD,
	RLX_ECANCELED	= -ECANCELED,
	RLX_ESTALE	= -ESTALE,
	RLX_EPROTO	= -EPROTO,
	RLX_EBUG	= -ENOTRECOVERABLE,
};

/**
 * struct rlx_error - the message of the first failure. Never allocated; it lives
 * in its owner (a graph, an arena call's caller, a device).
 *
 * @status: RLX_OK while nothing failed
 * @node:   id of the node concerned in its graph, 0 if none
 * @line:   line in @file
 * @file:   where the caller asked for what failed; static storage, may be NULL
 * @text:   what, where and what to do, one line without a newline
 *
 * Zero-initialise before first use. The first failure sticks; later ones are
 * dropped, so that the cause is kept and not its consequences.
 */
struct rlx_error {
	enum rlx_status	 status;
	unsigned int	 node;
	unsigned int	 line;
	const char	*file;
	char		 text[496];
};

/**
 * rlx_error_set - record a failure unless one is recorded already.
 * @err:  may be NULL: then only the status is passed on
 * @st:   what failed; returned as is
 * @file: static string, kept by reference
 * @line: line in @file
 * @fmt:  printf format of the text
 *
 * Context: any thread that owns @err; does not allocate or sleep.
 * Return: @st, so that a check is one statement.
 */
RLX_EXPORT enum rlx_status __rlx_printf(5, 6)
rlx_error_set(struct rlx_error *err, enum rlx_status st, const char *file,
	      unsigned int line, const char *fmt, ...);

/**
 * rlx_status_name - the constant's name ("RLX_ESHAPE"), or "RLX_E?" for a value
 * that is none. Context: any. Ownership: static string.
 */
RLX_EXPORT const char *rlx_status_name(enum rlx_status st);

/* return rlx_fail(err, RLX_ESHAPE, "matmul: inner dims %lld != %lld", k, n); */
#define rlx_fail(err, st, ...) \
	rlx_error_set((err), (st), __FILE__, __LINE__, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
