/* SPDX-License-Identifier: MIT */
/* Channels: the front end for clients that share memory with us (rlx/rlxd.h). */
#ifndef RLXD_CHANNEL_H
#define RLXD_CHANNEL_H

#include "tools/rlxd/server.h"

/* Serve s->conf's channels, once there are models; those that do not serve yet. */
enum rlx_status __rlx_must_check channels_open(struct server *s, struct rlx_error *err);
/* Let nobody in any more, answer what was asked. */
void channels_drain(struct server *s);
/* Everything is answered, and nothing more is fetched. */
bool channels_are_idle(const struct server *s);
/* All threads did a turn within @ns. */
bool channels_are_alive(const struct server *s, int64_t ns);
/* End the threads; workers may still have requests. */
void channels_stop(struct server *s);
/* Without workers. */
void channels_close(struct server *s);
void channels_print(struct server *s, struct obuf *o);

#endif
