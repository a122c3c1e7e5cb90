// SPDX-License-Identifier: MIT
/*
 * Out of memory at every allocation of a request: it is answered, with an error or
 * rightly, or its connection is closed; the next one is answered rightly. At the end
 * nothing is left.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "selftests/lib/rlx_test.h"
#include "tools/rlxd/log.h"
#include "tools/rlxd/start.h"

static struct server sv;
static unsigned int port;

static bool open_server(const char *extra, struct rlx_error *err)
{
	const char *build = getenv("BUILD") ? getenv("BUILD") : "build";
	struct model_set *set;
	char text[1024];
	struct conf *c;

	snprintf(text, sizeof(text), "[server]\nlisten = 127.0.0.1:0\naccess_log = none\n"
		 "log_level = error\n%s\n[model minilm]\npath = %s/models/minilm\nbuckets = 16\n"
		 "max_batch = 2\n[model vision]\npath = %s/serve/vision.onnx\nmax_shapes = 2\n"
		 "[model rows]\npath = %s/serve/vision.onnx\nmax_shapes = 2\nbatch = yes\n",
		 extra, build, build, build);
	if (conf_parse(text, strlen(text), "test", &c, err))
		return false;
	memset(&sv, 0, sizeof(sv));
	if (server_open(&sv, c, 0, err) || worker_pool_grow(sv.workers, 4, err) ||
	    model_set_open(c, NULL, sv.workers, true, &set, err) || server_listen(&sv, 0, err) ||
	    server_serve(&sv, err))
		return false;
	model_set_put(sv.set);
	sv.set = set;
	atomic_store(&sv.loading, false);
	atomic_store(&sv.ready, true);
	port = (unsigned int)atoi(strrchr(sv.listener[0].name, ':') + 1);
	return true;
}

/* The status of the reply, 0 if the connection was closed, -1 if nothing came. */
static int ask(const char *path, const char *headers, const char *body, size_t n)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	struct timeval limit = { .tv_sec = 20 };
	int fd = socket(AF_INET, SOCK_STREAM, 0), status = 0;
	char buf[65536];
	size_t got = 0;
	ssize_t k;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (connect(fd, (struct sockaddr *)&a, sizeof(a))) {
		close(fd);
		return -1;
	}
	k = snprintf(buf, sizeof(buf), "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
		     "%sContent-Length: %zu\r\n\r\n", body ? "POST" : "GET", path, headers, n);
	memcpy(buf + k, body ? body : "", n);
	if (send(fd, buf, (size_t)k + n, MSG_NOSIGNAL) < 0)
		k = 0;
	while (k && got < sizeof(buf) - 1 &&
	       (k = recv(fd, buf + got, sizeof(buf) - 1 - got, 0)) > 0)
		got += (size_t)k;
	buf[got] = 0;
	if (k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		status = -1;
	else if (got > 12 && !memcmp(buf, "HTTP/1.1 ", 9))
		status = atoi(buf + 9);
	close(fd);
	return status;
}

/* Fails each allocation of a request in turn. Their number. */
static unsigned int sweep(const char *path, const char *headers, const char *body, size_t n)
{
	unsigned int i, calm = 0, failed = 0;
	uint64_t before;
	int st;

	CHECK_EQ(ask(path, headers, body, n), 200);
	for (i = 1; i < 3000 && calm < 3; i++) {
		before = rlx_alloc_count();
		rlx_alloc_fail_nth(i);
		st = ask(path, headers, body, n);
		rlx_alloc_fail_nth(0);
		CHECK(st == 200 || st == 503 || st == 0);
		failed += st != 200;
		/* Some succeed without what they were denied; three in a row of which
		 * no allocation was left to fail are the end. */
		calm = rlx_alloc_count() - before < i ? calm + 1 : 0;
		CHECK_EQ(ask(path, headers, body, n), 200);
	}
	CHECK(i < 3000);
	CHECK(failed > 0);
	return i;
}

static void infer_vision(char *body, size_t size, unsigned int batch, size_t *out_n,
			 char *headers, size_t hsize)
{
	size_t bytes = (size_t)batch * 3 * 16 * 16 * 4, n;

	n = (size_t)snprintf(body, size, "{\"inputs\":[{\"name\":\"x\",\"shape\":[%u,3,16,16],"
			     "\"datatype\":\"FP32\",\"parameters\":{\"binary_data_size\":%zu}}]}",
			     batch, bytes);
	snprintf(headers, hsize, "Inference-Header-Content-Length: %zu\r\n", n);
	memset(body + n, 0, bytes);
	*out_n = n + bytes;
}

static void sweep_all(void)
{
	static const char embed[] = "{\"model\":\"minilm\",\"input\":[\"hello world\",\"a b\"]}";
	static const char infer[] =
		"{\"inputs\":[{\"name\":\"input_ids\",\"shape\":[1,3],\"datatype\":\"INT64\","
		"\"data\":[101,2000,102]}]}";
	static char body[32768];
	char headers[128];
	size_t n;

	sweep("/v1/embeddings", "", embed, sizeof(embed) - 1);
	sweep("/v2/models/minilm/infer", "", infer, sizeof(infer) - 1);
	sweep("/metrics", "", NULL, 0);
	infer_vision(body, sizeof(body), 1, &n, headers, sizeof(headers));
	sweep("/v2/models/vision/infer", headers, body, n);
	/* The same again, in a body that is too long for one chunk. */
	infer_vision(body, sizeof(body), 6, &n, headers, sizeof(headers));
	sweep("/v2/models/vision/infer", headers, body, n);
	sweep("/v2/models/rows/infer", headers, body, n);
}

static void run_with(const char *engine)
{
	struct rlx_error err = { 0 };
	int64_t live = rlx_alloc_live();

	if (!open_server(engine, &err)) {
		printf("# %s\n", err.text);
		CHECK(false);
	} else {
		sweep_all();
	}
	server_close(&sv);
	CHECK_EQ(rlx_alloc_live(), live);
}

TEST(requests_io_uring)
{
	run_with("engine = auto");
}

TEST(requests_epoll)
{
	run_with("engine = epoll");
}

/* Opening a model fails at any allocation, and leaves nothing behind. */
TEST(loading)
{
	struct rlx_error err = { 0 };
	int64_t live = rlx_alloc_live();
	struct model_set *set;
	uint64_t n, count, step;

	if (!open_server("", &err)) {
		CHECK(false);
		server_close(&sv);
		return;
	}
	count = rlx_alloc_count();
	CHECK_EQ(model_set_open(sv.conf, NULL, sv.workers, true, &set, &err), RLX_OK);
	count = rlx_alloc_count() - count;
	model_set_put(set);
	/* Thousands; a hundred of them, more at the start. */
	for (n = 1; n < count; n += step) {
		int64_t now = rlx_alloc_live();

		step = 1 + n / 24;
		err = (struct rlx_error){ 0 };
		rlx_alloc_fail_nth(n);
		if (!model_set_open(sv.conf, NULL, sv.workers, true, &set, &err))
			model_set_put(set);
		else
			CHECK(err.status && *err.text);
		rlx_alloc_fail_nth(0);
		CHECK_EQ(rlx_alloc_live(), now);
	}
	server_close(&sv);
	CHECK_EQ(rlx_alloc_live(), live);
}

TEST_MAIN()
