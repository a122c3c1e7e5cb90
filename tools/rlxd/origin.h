/* SPDX-License-Identifier: MIT */
/*
 * What browsers are let do. A page of any site may send requests to addresses of its
 * visitor's machine and network, and the site's own name may come to mean such an
 * address (DNS rebinding): to the browser both pages are then of one origin. So a name
 * that is not known to be ours is refused, and so is a page that the configuration
 * does not name.
 */
#ifndef RLXD_ORIGIN_H
#define RLXD_ORIGIN_H

#include "tools/rlxd/conf.h"
#include "tools/rlxd/http.h"

/*
 * Is @host (NAME or ADDRESS, with or without a port) one that nobody else can make
 * mean us: an IP address, localhost, or one of @names, where "*" is any? No Host at all
 * is no browser's.
 */
bool origin_host_is_ours(struct slice host, const struct conf_list *names);

/*
 * May a page of @origin ask @host? One of @allowed, where "*" is any; or one that came
 * from us, @host being ours.
 */
bool origin_is_allowed(struct slice origin, struct slice host, const struct conf_server *cf);

/*
 * Can a body of this type be sent by a page of another site without asking us first
 * (CORS's safelisted types), or is it none that we read? None is JSON.
 */
bool origin_type_is_json(struct slice type);

#endif
