/* SPDX-License-Identifier: MIT */
/*
 * Fences and importing by vgem and sw_sync, both made for tests, by their
 * ioctls: the foreign drivers that every kernel of the rig has.
 */
#ifndef RLX_KMOD_VGEM_H
#define RLX_KMOD_VGEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An fd of vgem's; fails the test without one ("rig: modules=vgem"). */
int vgem_open(void);

/* A buffer of vgem's own, by handle. */
uint32_t vgem_create(int vgem, size_t size);
/* A dma-buf as a buffer of vgem's, and back: 0 or a negative errno, or fd. */
int vgem_import(int vgem, int dmabuf, uint32_t *handle);
int vgem_export(int vgem, uint32_t handle);
void vgem_close_handle(int vgem, uint32_t handle);

/*
 * Maps a buffer through vgem's own file, imported ones too; vgem tells nobody
 * their offset, so it is searched for. NULL if there is none, errno set.
 */
void *vgem_map(int vgem, size_t size, int prot);

/*
 * Checks that vgem cannot write what was exported for reading. Up to 6.16 it maps
 * an import for its device at once, both ways, and is refused; later it leaves that
 * to those that need it (drm_gem_shmem_prime_import_no_map), and its user, who has
 * the import, is refused a mapping to write through.
 */
void vgem_cannot_write(int vgem, int dmabuf, size_t size);

/* Puts an unsignalled fence on a buffer (it ends by itself after 10 s). */
uint32_t vgem_fence(int vgem, uint32_t handle, bool write);
long vgem_signal(int vgem, uint32_t fence);

/* The fences of a dma-buf as a sync_file; negative errno. */
int dmabuf_sync_file(int dmabuf, bool write);

/* sw_sync: -1 where the kernel lacks it. */
int sw_sync_open(void);
int sw_sync_fence(int sw, uint32_t value);
void sw_sync_inc(int sw, uint32_t by);

#endif
