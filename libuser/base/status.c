// SPDX-License-Identifier: MIT
/* Recording the first failure, and the names of the status values. */
#include <stdarg.h>
#include <stdio.h>

#include "base/status.h"

const struct rlx_error rlx_error_null = {
	.status = RLX_EINVAL, .text = "NULL was given: there is no such object",
};

enum rlx_status rlx_error_set(struct rlx_error *err, enum rlx_status st,
			      const char *file, unsigned int line,
			      const char *fmt, ...)
{
	va_list ap;

	if (!err || err->status)
		return st;
	err->status = st;
	err->file = file;
	err->line = line;
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return st;
}

const char *rlx_status_name(enum rlx_status st)
{
#define ROW(s) case s: return #s;
	switch (st) {
	ROW(RLX_OK) ROW(RLX_ENOENT) ROW(RLX_EIO) ROW(RLX_EBADFD)
	ROW(RLX_ENOMEM) ROW(RLX_EACCES) ROW(RLX_EBUSY) ROW(RLX_EEXIST)
	ROW(RLX_EINVAL) ROW(RLX_ERANGE) ROW(RLX_ESHAPE) ROW(RLX_ETYPE)
	ROW(RLX_EPARSE) ROW(RLX_ENOSUP) ROW(RLX_ENODEV) ROW(RLX_ETIME)
	ROW(RLX_ELOST) ROW(RLX_EAGAIN) ROW(RLX_ENOTCONN) ROW(RLX_EPIPE)
	ROW(RLX_EOWNERDEAD) ROW(RLX_ECANCELED) ROW(RLX_ESTALE)
	ROW(RLX_EPROTO) ROW(RLX_EBUG)
	}
#undef ROW
	return "RLX_E?";
}
