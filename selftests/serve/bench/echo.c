// SPDX-License-Identifier: MIT
/* Sends back what comes: the least that any server on TCP costs. PORT is printed. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void *serve(void *ctx)
{
	int fd = (int)(long)ctx;
	static __thread char buf[1 << 20];
	ssize_t n, k, w;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		for (k = 0; k < n; k += w) {
			w = send(fd, buf + k, (size_t)(n - k), MSG_NOSIGNAL);
			if (w <= 0)
				goto out_close;
		}
out_close:
	close(fd);
	return NULL;
}

int main(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1, c;
	socklen_t n = sizeof(a);
	pthread_t t;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 64) ||
	    getsockname(fd, (struct sockaddr *)&a, &n)) {
		perror("echo");
		return 1;
	}
	printf("%u\n", ntohs(a.sin_port));
	fflush(stdout);
	while ((c = accept(fd, NULL, NULL)) >= 0) {
		setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		if (pthread_create(&t, NULL, serve, (void *)(long)c))
			close(c);
		else
			pthread_detach(t);
	}
	return 0;
}
