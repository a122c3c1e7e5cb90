// SPDX-License-Identifier: MIT
/* Descriptors over a socket. */
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "selftests/lib/fds.h"
#include "selftests/lib/rlx_test.h"

void rlx_test_send_fd(int sock, int fd)
{
	char byte = 'x', buf[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec io = { &byte, 1 };
	struct msghdr m = {
		.msg_iov = &io, .msg_iovlen = 1,
		.msg_control = buf, .msg_controllen = sizeof(buf),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	CHECK_EQ(sendmsg(sock, &m, 0), 1);
}

int rlx_test_recv_fd(int sock)
{
	char byte, buf[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec io = { &byte, 1 };
	struct msghdr m = {
		.msg_iov = &io, .msg_iovlen = 1,
		.msg_control = buf, .msg_controllen = sizeof(buf),
	};
	int fd;

	CHECK_EQ(recvmsg(sock, &m, MSG_CMSG_CLOEXEC), 1);
	CHECK(CMSG_FIRSTHDR(&m));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}
