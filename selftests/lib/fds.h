/* SPDX-License-Identifier: MIT */
/* Descriptors over a socket; both fail the test where that does not work. */
#ifndef RLX_FDS_H
#define RLX_FDS_H

void rlx_test_send_fd(int sock, int fd);
/* Waits for one; it has FD_CLOEXEC. */
int rlx_test_recv_fd(int sock);

#endif
