/* SPDX-License-Identifier: MIT */
/* A control group of memory of the test's own. */
#ifndef RLX_KMOD_CGROUP_H
#define RLX_KMOD_CGROUP_H

/* Makes the group, of @max ("max": no limit); skips the test where there are none. */
void k_cgroup_new(const char *max);

/* The calling process is in it from here on, as its children will be; and was before. */
void k_cgroup_enter(void);
void k_cgroup_leave(void);

/* Removes it, once it is empty. */
void k_cgroup_free(void);

/* Bytes charged to it for the kernel's memory; how often one of its was killed for it. */
long long k_cgroup_kernel(void);
long long k_cgroup_killed(void);

/* Waits until hardly more than @bytes of the kernel's memory are charged. */
void k_cgroup_uncharged(long long bytes);

#endif
