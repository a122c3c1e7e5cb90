/* SPDX-License-Identifier: MIT */
/*
 * OpenSSL, loaded when it is first needed: a process that speaks no TLS has none of its
 * memory. Calls look as they always do, once openssl_open() has said yes.
 */
#ifndef RLX_TOOLS_OPENSSL_H
#define RLX_TOOLS_OPENSSL_H

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "rlx/status.h"

/* Any thread, any number of times. */
enum rlx_status __rlx_must_check openssl_open(struct rlx_error *err);

/* What is called; below the same once more. */
#define OPENSSL_CALLS(X) \
	X(ASN1_TIME_to_tm) \
	X(BIO_ctrl) \
	X(ERR_clear_error) \
	X(ERR_peek_error) \
	X(ERR_peek_last_error) \
	X(ERR_reason_error_string) \
	X(OPENSSL_sk_pop_free) \
	X(SSL_CIPHER_get_name) \
	X(SSL_CTX_check_private_key) \
	X(SSL_CTX_ctrl) \
	X(SSL_CTX_free) \
	X(SSL_CTX_get0_certificate) \
	X(SSL_CTX_load_verify_file) \
	X(SSL_CTX_new) \
	X(SSL_CTX_set_alpn_select_cb) \
	X(SSL_CTX_set_cipher_list) \
	X(SSL_CTX_set_client_CA_list) \
	X(SSL_CTX_set_default_passwd_cb) \
	X(SSL_CTX_set_default_passwd_cb_userdata) \
	X(SSL_CTX_set_default_verify_paths) \
	X(SSL_CTX_set_options) \
	X(SSL_CTX_set_session_id_context) \
	X(SSL_CTX_set_verify) \
	X(SSL_CTX_use_PrivateKey_file) \
	X(SSL_CTX_use_certificate_chain_file) \
	X(SSL_connect) \
	X(SSL_ctrl) \
	X(SSL_do_handshake) \
	X(SSL_free) \
	X(SSL_get0_param) \
	X(SSL_get_current_cipher) \
	X(SSL_get_error) \
	X(SSL_get_rbio) \
	X(SSL_get_shutdown) \
	X(SSL_get_verify_result) \
	X(SSL_get_version) \
	X(SSL_get_wbio) \
	X(SSL_has_pending) \
	X(SSL_load_client_CA_file) \
	X(SSL_new) \
	X(SSL_pending) \
	X(SSL_read_ex) \
	X(SSL_select_next_proto) \
	X(SSL_set1_host) \
	X(SSL_set_accept_state) \
	X(SSL_set_fd) \
	X(SSL_shutdown) \
	X(SSL_write_ex) \
	X(TLS_client_method) \
	X(TLS_server_method) \
	X(X509_NAME_free) \
	X(X509_VERIFY_PARAM_set1_ip_asc) \
	X(X509_cmp_current_time) \
	X(X509_get0_notAfter) \
	X(X509_get0_notBefore) \
	X(X509_verify_cert_error_string)

#define OPENSSL_MEMBER(call) __typeof__(call) *call;
extern struct openssl {
	OPENSSL_CALLS(OPENSSL_MEMBER)
} openssl;

#ifndef OPENSSL_BY_TABLE
#define ASN1_TIME_to_tm                          openssl.ASN1_TIME_to_tm
#define BIO_ctrl                                 openssl.BIO_ctrl
#define ERR_clear_error                          openssl.ERR_clear_error
#define ERR_peek_error                           openssl.ERR_peek_error
#define ERR_peek_last_error                      openssl.ERR_peek_last_error
#define ERR_reason_error_string                  openssl.ERR_reason_error_string
#define OPENSSL_sk_pop_free                      openssl.OPENSSL_sk_pop_free
#define SSL_CIPHER_get_name                      openssl.SSL_CIPHER_get_name
#define SSL_CTX_check_private_key                openssl.SSL_CTX_check_private_key
#define SSL_CTX_ctrl                             openssl.SSL_CTX_ctrl
#define SSL_CTX_free                             openssl.SSL_CTX_free
#define SSL_CTX_get0_certificate                 openssl.SSL_CTX_get0_certificate
#define SSL_CTX_load_verify_file                 openssl.SSL_CTX_load_verify_file
#define SSL_CTX_new                              openssl.SSL_CTX_new
#define SSL_CTX_set_alpn_select_cb               openssl.SSL_CTX_set_alpn_select_cb
#define SSL_CTX_set_cipher_list                  openssl.SSL_CTX_set_cipher_list
#define SSL_CTX_set_client_CA_list               openssl.SSL_CTX_set_client_CA_list
#define SSL_CTX_set_default_passwd_cb            openssl.SSL_CTX_set_default_passwd_cb
#define SSL_CTX_set_default_passwd_cb_userdata   openssl.SSL_CTX_set_default_passwd_cb_userdata
#define SSL_CTX_set_default_verify_paths         openssl.SSL_CTX_set_default_verify_paths
#define SSL_CTX_set_options                      openssl.SSL_CTX_set_options
#define SSL_CTX_set_session_id_context           openssl.SSL_CTX_set_session_id_context
#define SSL_CTX_set_verify                       openssl.SSL_CTX_set_verify
#define SSL_CTX_use_PrivateKey_file              openssl.SSL_CTX_use_PrivateKey_file
#define SSL_CTX_use_certificate_chain_file       openssl.SSL_CTX_use_certificate_chain_file
#define SSL_connect                              openssl.SSL_connect
#define SSL_ctrl                                 openssl.SSL_ctrl
#define SSL_do_handshake                         openssl.SSL_do_handshake
#define SSL_free                                 openssl.SSL_free
#define SSL_get0_param                           openssl.SSL_get0_param
#define SSL_get_current_cipher                   openssl.SSL_get_current_cipher
#define SSL_get_error                            openssl.SSL_get_error
#define SSL_get_rbio                             openssl.SSL_get_rbio
#define SSL_get_shutdown                         openssl.SSL_get_shutdown
#define SSL_get_verify_result                    openssl.SSL_get_verify_result
#define SSL_get_version                          openssl.SSL_get_version
#define SSL_get_wbio                             openssl.SSL_get_wbio
#define SSL_has_pending                          openssl.SSL_has_pending
#define SSL_load_client_CA_file                  openssl.SSL_load_client_CA_file
#define SSL_new                                  openssl.SSL_new
#define SSL_pending                              openssl.SSL_pending
#define SSL_read_ex                              openssl.SSL_read_ex
#define SSL_select_next_proto                    openssl.SSL_select_next_proto
#define SSL_set1_host                            openssl.SSL_set1_host
#define SSL_set_accept_state                     openssl.SSL_set_accept_state
#define SSL_set_fd                               openssl.SSL_set_fd
#define SSL_shutdown                             openssl.SSL_shutdown
#define SSL_write_ex                             openssl.SSL_write_ex
#define TLS_client_method                        openssl.TLS_client_method
#define TLS_server_method                        openssl.TLS_server_method
#define X509_NAME_free                           openssl.X509_NAME_free
#define X509_VERIFY_PARAM_set1_ip_asc            openssl.X509_VERIFY_PARAM_set1_ip_asc
#define X509_cmp_current_time                    openssl.X509_cmp_current_time
#define X509_get0_notAfter                       openssl.X509_get0_notAfter
#define X509_get0_notBefore                      openssl.X509_get0_notBefore
#define X509_verify_cert_error_string            openssl.X509_verify_cert_error_string
#endif

#endif
