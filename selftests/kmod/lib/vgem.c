// SPDX-License-Identifier: MIT
/* vgem and sw_sync by their ioctls; the numbers are those of their ABI. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/vgem.h"

struct drm_version {
	int major, minor, patch;
	size_t name_len;
	char *name;
	size_t date_len;
	char *date;
	size_t desc_len;
	char *desc;
};

struct drm_gem_close {
	uint32_t handle, pad;
};

struct drm_prime {
	uint32_t handle, flags;
	int32_t fd;
};

struct drm_create_dumb {
	uint32_t height, width, bpp, flags, handle, pitch;
	uint64_t size;
};

struct vgem_attach {
	uint32_t handle, flags, out_fence, pad;
};

struct vgem_fence_signal {
	uint32_t fence, flags;
};

struct sw_sync_create {
	uint32_t value;
	char name[32];
	int32_t fence;
};

#define DRM_VERSION	_IOWR('d', 0x00, struct drm_version)
#define DRM_GEM_CLOSE	_IOW('d', 0x09, struct drm_gem_close)
#define DRM_HANDLE_TO_FD _IOWR('d', 0x2d, struct drm_prime)
#define DRM_FD_TO_HANDLE _IOWR('d', 0x2e, struct drm_prime)
#define DRM_CREATE_DUMB	_IOWR('d', 0xb2, struct drm_create_dumb)
#define VGEM_ATTACH	_IOWR('d', 0x41, struct vgem_attach)
#define VGEM_SIGNAL	_IOW('d', 0x42, struct vgem_fence_signal)
#define SW_CREATE	_IOWR('W', 0, struct sw_sync_create)
#define SW_INC		_IOW('W', 1, uint32_t)

/* Where DRM begins to give out offsets for mmap. */
#define DRM_OFFSET_FIRST	0x100000000ull

static bool is_vgem(int fd)
{
	char name[32] = "";
	struct drm_version v = { .name = name, .name_len = sizeof(name) - 1 };

	return !ioctl(fd, DRM_VERSION, &v) && !strcmp(name, "vgem");
}

int vgem_open(void)
{
	/* Not the render nodes: those cannot make buffers. */
	static const char *const dirs[] = { "/dev/dri/card0",
					    "/dev/dri/card1" };
	size_t i;
	int fd;

	for (i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		fd = open(dirs[i], O_RDWR | O_CLOEXEC);
		if (fd >= 0 && is_vgem(fd))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	rlx_test_skip("no vgem device");
}

uint32_t vgem_create(int vgem, size_t size)
{
	struct drm_create_dumb d = {
		.height = size / 4096, .width = 1024, .bpp = 32,
	};

	CHECK_EQ(k_ioctl(vgem, DRM_CREATE_DUMB, &d), 0);
	return d.handle;
}

int vgem_import(int vgem, int dmabuf, uint32_t *handle)
{
	struct drm_prime p = { .fd = dmabuf };
	int ret = k_ioctl(vgem, DRM_FD_TO_HANDLE, &p);

	*handle = p.handle;
	return ret;
}

int vgem_export(int vgem, uint32_t handle)
{
	struct drm_prime p = { .handle = handle, .flags = O_CLOEXEC | O_RDWR };
	int ret = k_ioctl(vgem, DRM_HANDLE_TO_FD, &p);

	return ret < 0 ? ret : p.fd;
}

void vgem_close_handle(int vgem, uint32_t handle)
{
	struct drm_gem_close c = { .handle = handle };
	long ret;

	/* A sweep of failures may have its fault here. */
	do {
		ret = k_ioctl(vgem, DRM_GEM_CLOSE, &c);
	} while (ret == -EFAULT || ret == -ENOMEM);
	CHECK_EQ(ret, 0);
}

void *vgem_map(int vgem, size_t size, int prot)
{
	uint64_t at, end = DRM_OFFSET_FIRST + (4096ull << 12);
	void *p;

	for (at = DRM_OFFSET_FIRST; at < end; at += 4096) {
		p = mmap(NULL, size, prot, MAP_SHARED, vgem, at);
		if (p != MAP_FAILED)
			return p;
		/* No buffer begins here, or one of another open file. */
		if (errno != EINVAL && errno != EACCES)
			return NULL;
	}
	return NULL;
}

void vgem_cannot_write(int vgem, int dmabuf, size_t size)
{
	uint32_t handle;
	int ret = vgem_import(vgem, dmabuf, &handle);
	void *p;

	if (ret) {
		CHECK_EQ(ret, -EACCES);
		return;
	}
	CHECK(!vgem_map(vgem, size, PROT_READ | PROT_WRITE));
	p = vgem_map(vgem, size, PROT_READ);
	CHECK(p);
	CHECK(mprotect(p, size, PROT_READ | PROT_WRITE) && errno == EACCES);
	munmap(p, size);
	vgem_close_handle(vgem, handle);
}

uint32_t vgem_fence(int vgem, uint32_t handle, bool write)
{
	struct vgem_attach a = { .handle = handle, .flags = write };

	CHECK_EQ(k_ioctl(vgem, VGEM_ATTACH, &a), 0);
	return a.out_fence;
}

long vgem_signal(int vgem, uint32_t fence)
{
	struct vgem_fence_signal s = { .fence = fence };

	return k_ioctl(vgem, VGEM_SIGNAL, &s);
}

int dmabuf_sync_file(int dmabuf, bool write)
{
	struct dma_buf_export_sync_file e = {
		.flags = write ? DMA_BUF_SYNC_RW : DMA_BUF_SYNC_READ,
	};
	long ret = k_ioctl(dmabuf, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &e);

	return ret < 0 ? ret : e.fd;
}

int sw_sync_open(void)
{
	return open("/sys/kernel/debug/sync/sw_sync", O_RDWR | O_CLOEXEC);
}

int sw_sync_fence(int sw, uint32_t value)
{
	struct sw_sync_create c = { .value = value, .name = "rlx" };

	CHECK_EQ(k_ioctl(sw, SW_CREATE, &c), 0);
	return c.fence;
}

void sw_sync_inc(int sw, uint32_t by)
{
	CHECK_EQ(k_ioctl(sw, SW_INC, &by), 0);
}
