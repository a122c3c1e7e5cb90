// SPDX-License-Identifier: MIT
/*
 * The least server there can be around ONNX Runtime: LIBRARY MODEL SEQ THREADS. One
 * connection at a time has its turn, epoll tells which; a request is any head with
 * SEQ int64 ids as the last bytes of its body, a reply the mean vector as float32.
 * Nothing else is parsed or checked. PORT is printed.
 */
#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/rlx/peer_ort.h"

enum { ROOM = 1 << 16, WIDTH_MAX = 2048 };

struct conn {
	int	fd;
	size_t	n;
	char	buf[ROOM];
};

struct peer {
	struct rlx_peer	*ort;
	int64_t		 seq, ids[512], ones[512], zeros[512];
};

static int bind_inputs(struct peer *p, struct rlx_error *err)
{
	const struct rlx_peer_value *decl;
	size_t n = rlx_peer_inputs(p->ort, &decl), i;
	struct rlx_peer_value v[4];

	for (i = 0; i < n && i < 4; i++) {
		v[i] = (struct rlx_peer_value){ decl[i].name, rlx_type(RLX_I64, 1, p->seq) };
		v[i].data = !strcmp(decl[i].name, "input_ids") ? p->ids :
			    !strcmp(decl[i].name, "attention_mask") ? p->ones : p->zeros;
		v[i].bytes = (size_t)p->seq * 8;
	}
	return rlx_peer_bind(p->ort, v, n, err);
}

/* The vector of the ids that are bound; its width, 0 if it failed. */
static size_t infer(struct peer *p, float *out)
{
	struct rlx_error err = { 0 };
	struct rlx_peer_value v;
	size_t width, k;
	const float *x;
	double sum = 0;
	int64_t t;

	if (rlx_peer_run(p->ort, &err) || rlx_peer_output(p->ort, 0, &v, &err))
		return 0;
	width = (size_t)v.type.dim[v.type.rank - 1];
	x = v.data;
	memset(out, 0, width * sizeof(*out));
	for (t = 0; t < (v.type.rank == 3 ? p->seq : 1); t++)
		for (k = 0; k < width; k++)
			out[k] += x[(size_t)t * width + k];
	for (k = 0; k < width; k++)
		sum += (double)out[k] * (double)out[k];
	for (k = 0; k < width; k++)
		out[k] = (float)((double)out[k] / sqrt(sum));
	return width;
}

static int answer(struct peer *p, struct conn *c)
{
	float vec[WIDTH_MAX];
	char out[sizeof(vec) + 128], *end, *len;
	size_t body, width, n;

	end = memmem(c->buf, c->n, "\r\n\r\n", 4);
	if (!end)
		return 0;
	len = strcasestr(c->buf, "content-length:");
	body = len ? strtoull(len + 15, NULL, 10) : 0;
	if ((size_t)(end + 4 - c->buf) + body > c->n)
		return 0;
	memcpy(p->ids, end + 4 + body - (size_t)p->seq * 8, (size_t)p->seq * 8);
	width = infer(p, vec);
	n = (size_t)sprintf(out, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", width * 4);
	memcpy(out + n, vec, width * 4);
	n += width * 4;
	c->n = 0;
	return send(c->fd, out, n, MSG_NOSIGNAL) == (ssize_t)n ? 0 : -1;
}

static void turn(struct peer *p, struct conn *c)
{
	ssize_t n = recv(c->fd, c->buf + c->n, ROOM - 1 - c->n, 0);

	if (n > 0) {
		c->n += (size_t)n;
		c->buf[c->n] = 0;
		if (!answer(p, c))
			return;
	}
	close(c->fd);
	free(c);
}

static void loop(struct peer *p, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN }, got[64];
	int ep = epoll_create1(0), one = 1, i, n;

	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
	while ((n = epoll_wait(ep, got, 64, -1)) >= 0)
		for (i = 0; i < n; i++) {
			struct conn *c = got[i].data.ptr;

			if (c) {
				turn(p, c);
				continue;
			}
			c = calloc(1, sizeof(*c));
			if (!c)
				return;
			c->fd = accept(fd, NULL, NULL);
			setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
			ev.data.ptr = c;
			epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev);
		}
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	static struct peer p;
	struct rlx_error err = { 0 };
	socklen_t n = sizeof(a);
	float vec[WIDTH_MAX];
	int64_t i;

	if (argc != 5)
		return 2;
	p.seq = atoll(argv[3]);
	for (i = 0; i < p.seq && i < 512; i++) {
		p.ones[i] = 1;
		p.ids[i] = 2000 + i;
	}
	if (p.seq > 512 || rlx_peer_open(argv[1], argv[2], atoi(argv[4]), &p.ort, &err) ||
	    bind_inputs(&p, &err)) {
		fprintf(stderr, "peer: %s\n", err.text);
		return 1;
	}
	for (i = 0; i < 5; i++)
		if (!infer(&p, vec))
			return 1;
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 64) ||
	    getsockname(fd, (struct sockaddr *)&a, &n))
		return 1;
	printf("%u\n", ntohs(a.sin_port));
	fflush(stdout);
	loop(&p, fd);
	return 0;
}
