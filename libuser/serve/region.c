// SPDX-License-Identifier: MIT
/* Making, sealing and mapping the memory of rings. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/proc.h"
#include "serve/region.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL	8u
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE	0x0010
#endif

enum rlx_status rlx_region_new(struct rlx_region *r, const char *name,
			       uint64_t bytes, bool ours, struct rlx_error *err)
{
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	const char *what = "memfd_create";
	void *p;
	int fd;

	*r = (struct rlx_region){ .fd = -1 };
	fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)		/* before 6.3 */
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		goto out_fail;
	what = "ftruncate";
	if (ftruncate(fd, (off_t)bytes))
		goto out_close;
	what = "mmap";
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_POPULATE, fd, 0);
	if (p == MAP_FAILED)
		goto out_close;
	what = "seals";
	if (fcntl(fd, F_ADD_SEALS, seals | (ours ? F_SEAL_FUTURE_WRITE : 0)))
		goto out_unmap;
	*r = (struct rlx_region){ p, bytes, fd };
	return RLX_OK;

out_unmap:
	munmap(p, bytes);
out_close:
	close(fd);
out_fail:
	return rlx_fail(err, RLX_ENOMEM, "ring memory: %s: %s", what,
			strerror(errno));
}

enum rlx_status rlx_region_open(struct rlx_region *r, int fd, uint64_t bytes,
				bool write, struct rlx_error *err)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat s;
	void *p;

	*r = (struct rlx_region){ .fd = -1 };
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &s) ||
	    s.st_size < 0 || (uint64_t)s.st_size < bytes)
		return rlx_fail(err, RLX_EPROTO,
				"the service's ring memory is too small, or may "
				"shrink under us");
	p = mmap(NULL, bytes, write ? PROT_READ | PROT_WRITE : PROT_READ,
		 MAP_SHARED | MAP_POPULATE, fd, 0);
	if (p == MAP_FAILED)
		return rlx_fail(err, RLX_ENOMEM, "ring memory: mmap: %s",
				strerror(errno));
	*r = (struct rlx_region){ p, bytes, -1 };
	return RLX_OK;
}

void rlx_region_fini(struct rlx_region *r)
{
	if (r->base)
		munmap(r->base, r->bytes);
	if (r->base && r->fd >= 0)
		close(r->fd);
	*r = (struct rlx_region){ .fd = -1 };
}

bool rlx_fd_is_kmod(int fd, const char *kind)
{
	char path[64], text[512], want[64];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	snprintf(want, sizeof(want), "\nrlx-kind:\t%s\n", kind);
	if (!rlx_proc_text(path, text, sizeof(text)))
		return false;
	errno = EPROTO;
	return strstr(text, want);
}
