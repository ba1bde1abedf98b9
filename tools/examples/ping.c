// SPDX-License-Identifier: GPL-2.0
/*
 * RDMA ping: the client sends a message over a reliable connection, the server sends it back, the
 * client compares it. librdmacm makes the connection.
 *
 *	ping server ADDRESS PORT
 *	ping client ADDRESS PORT	(the server's address)
 */
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 100, SIZE = 4096 };

static char message[SIZE], received[SIZE];

static void die(const char *what)
{
	fprintf(stderr, "ping: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* One completion: of a SEND or of a receive. A work request that failed ends the program. */
static void wait_for(const char *what, struct rdma_cm_id *id,
		     int (*get)(struct rdma_cm_id *, struct ibv_wc *))
{
	struct ibv_wc wc;

	if (get(id, &wc) < 0)
		die(what);
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "ping: %s: %s\n", what, ibv_wc_status_str(wc.status));
		exit(1);
	}
}

static void post_receive(struct rdma_cm_id *id, struct ibv_mr *mr)
{
	if (rdma_post_recv(id, NULL, received, SIZE, mr))
		die("rdma_post_recv");
}

static void send_message(struct rdma_cm_id *id, void *data, struct ibv_mr *mr)
{
	if (rdma_post_send(id, NULL, data, SIZE, mr, IBV_SEND_SIGNALED))
		die("rdma_post_send");
	wait_for("send", id, rdma_get_send_comp);
}

/* The server's next receive stands before its answer goes out, so that none arrives too early. */
static void serve(struct rdma_cm_id *id, struct ibv_mr *in, struct ibv_mr *out)
{
	for (int round = 0; round < ROUNDS; round++) {
		wait_for("receive", id, rdma_get_recv_comp);
		memcpy(message, received, SIZE);
		post_receive(id, in);
		send_message(id, message, out);
	}
}

static void ask(struct rdma_cm_id *id, struct ibv_mr *in, struct ibv_mr *out)
{
	for (int round = 0; round < ROUNDS; round++) {
		memset(message, 'a' + round % 26, SIZE);
		send_message(id, message, out);
		wait_for("receive", id, rdma_get_recv_comp);
		if (memcmp(message, received, SIZE)) {
			fprintf(stderr, "ping: answer %d has other bytes\n", round);
			exit(1);
		}
		if (round + 1 < ROUNDS)
			post_receive(id, in);
	}
	printf("%d messages of %d bytes came back as they were\n", ROUNDS, SIZE);
}

int main(int argc, char **argv)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *info;
	struct rdma_cm_id *id, *listener;
	struct ibv_mr *in, *out;
	int is_server;

	if (argc != 4) {
		fprintf(stderr, "usage: ping server|client ADDRESS PORT\n");
		return 2;
	}
	is_server = !strcmp(argv[1], "server");
	if (is_server)
		hints.ai_flags = RAI_PASSIVE;
	if (rdma_getaddrinfo(argv[2], argv[3], &hints, &info))
		die("rdma_getaddrinfo");
	/* The peer's address is to be found in two seconds. An emulated CPU may need more. */
	for (int attempt = 1; rdma_create_ep(&id, info, NULL, &attr); attempt++)
		if (errno != ETIMEDOUT || attempt == 10)
			die("rdma_create_ep");
	if (is_server) {
		listener = id;
		if (rdma_listen(listener, 1) || rdma_get_request(listener, &id))
			die("listen");
	}
	in = rdma_reg_msgs(id, received, SIZE);
	out = rdma_reg_msgs(id, message, SIZE);
	if (!in || !out)
		die("rdma_reg_msgs");
	post_receive(id, in);
	if (is_server ? rdma_accept(id, NULL) : rdma_connect(id, NULL))
		die("connect");
	(is_server ? serve : ask)(id, in, out);
	rdma_disconnect(id);
	rdma_dereg_mr(in);
	rdma_dereg_mr(out);
	rdma_destroy_ep(id);
	if (is_server)
		rdma_destroy_ep(listener);
	rdma_freeaddrinfo(info);
	return 0;
}
