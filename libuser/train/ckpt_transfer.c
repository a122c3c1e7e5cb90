// SPDX-License-Identifier: MIT
/* Whole files between memory and disk: pieces of 1 MiB, several in flight, direct if it can. */
#include <errno.h>
#include <fcntl.h>

#include "train/ckpt.h"
#include "train/fileops.h"

int ckpt_transfer(struct ckpt_slot *s, const struct ckpt_image *m, int fd, bool write)
{
	uint32_t align = file_direct_align(fd);
	uint64_t at, n, end = m->bytes, pieces = 0;
	struct reader_req *q;
	int error = 0;

	/* the page that is filled up goes along, and the file is cut to its length behind it */
	if (align && !fcntl(fd, F_SETFL, O_DIRECT))
		end = (end + CKPT_PAGE - 1) & ~(uint64_t)(CKPT_PAGE - 1);
	for (at = 0; at < end; at += n, pieces++) {
		q = &s->req[pieces];
		n = end - at < READER_PIECE ? end - at : READER_PIECE;
		*q = (struct reader_req){
			.data = m->base + at,
			.offset = at,
			.bytes = (uint32_t)n,
			.fd = fd,
			.write = write,
			.need = (uint32_t)(write || m->bytes - at > n ? n : m->bytes - at),
		};
		reader_submit(s->reader, q);
	}
	while (pieces)
		for (q = reader_wait(s->reader); q; q = q->next, pieces--)
			if (q->error && !error)
				error = q->error;
	return error;
}
