#pragma once
#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stddef.h>
#include <string.h>

// curl_easy_setopt, curl_multi_setopt and curl_easy_getinfo are variadic, which Swift cannot call: one typed wrapper
// for each kind of argument. The kinds are those of CURLOPTTYPE_* in curl.h.

typedef size_t (*ccurl_data_function)(char *buffer, size_t size, size_t count, void *user);
typedef int (*ccurl_seek_function)(void *user, curl_off_t offset, int origin);
typedef curl_socket_t (*ccurl_open_socket_function)(void *user, curlsocktype purpose, struct curl_sockaddr *address);
typedef int (*ccurl_resolver_start_function)(void *state, void *reserved, void *user);
typedef int (*ccurl_prerequest_function)(
    void *user, char *primary_ip, char *local_ip, int primary_port, int local_port);
typedef int (*ccurl_socket_function)(CURL *easy, curl_socket_t socket, int what, void *user, void *assigned);
typedef int (*ccurl_timer_function)(CURLM *multi, long timeout_milliseconds, void *user);

static inline CURLcode ccurl_set_long(CURL *easy, CURLoption option, long value) {
  return curl_easy_setopt(easy, option, value);
}
static inline CURLcode ccurl_set_offset(CURL *easy, CURLoption option, curl_off_t value) {
  return curl_easy_setopt(easy, option, value);
}
static inline CURLcode ccurl_set_string(CURL *easy, CURLoption option, const char *value) {
  return curl_easy_setopt(easy, option, value);
}
static inline CURLcode ccurl_set_pointer(CURL *easy, CURLoption option, void *value) {
  return curl_easy_setopt(easy, option, value);
}
static inline CURLcode ccurl_set_list(CURL *easy, CURLoption option, struct curl_slist *value) {
  return curl_easy_setopt(easy, option, value);
}
static inline CURLcode ccurl_set_data_function(CURL *easy, CURLoption option, ccurl_data_function value) {
  return curl_easy_setopt(easy, option, value);
}
static inline CURLcode ccurl_set_seek_function(CURL *easy, ccurl_seek_function value) {
  return curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, value);
}
static inline CURLcode ccurl_set_open_socket_function(CURL *easy, ccurl_open_socket_function value) {
  return curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, value);
}
static inline CURLcode ccurl_set_resolver_start_function(CURL *easy, ccurl_resolver_start_function value) {
  return curl_easy_setopt(easy, CURLOPT_RESOLVER_START_FUNCTION, value);
}
static inline CURLcode ccurl_set_prerequest_function(CURL *easy, ccurl_prerequest_function value) {
  return curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, value);
}

static inline CURLMcode ccurl_multi_set_long(CURLM *multi, CURLMoption option, long value) {
  return curl_multi_setopt(multi, option, value);
}
static inline CURLMcode ccurl_multi_set_pointer(CURLM *multi, CURLMoption option, void *value) {
  return curl_multi_setopt(multi, option, value);
}
static inline CURLMcode ccurl_multi_set_socket_function(CURLM *multi, ccurl_socket_function value) {
  return curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, value);
}
static inline CURLMcode ccurl_multi_set_timer_function(CURLM *multi, ccurl_timer_function value) {
  return curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, value);
}

static inline CURLcode ccurl_get_long(CURL *easy, CURLINFO what, long *value) {
  return curl_easy_getinfo(easy, what, value);
}
static inline CURLcode ccurl_get_offset(CURL *easy, CURLINFO what, curl_off_t *value) {
  return curl_easy_getinfo(easy, what, value);
}
static inline CURLcode ccurl_get_pointer(CURL *easy, CURLINFO what, char **value) {
  return curl_easy_getinfo(easy, what, value);
}

static inline CURLcode ccurl_set_tls_context_function(
    CURL *easy, CURLcode (*value)(CURL *easy, void *context, void *user)) {
  return curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, value);
}
static inline void ccurl_set_tls_note_function(void *context, void (*value)(const SSL *session, int what, int value)) {
  SSL_CTX_set_info_callback((SSL_CTX *)context, value);
}
// OpenSSL's session of the transfer's connection; NULL without TLS, or with another TLS library.
static inline void *ccurl_get_tls_session(CURL *easy) {
  struct curl_tlssessioninfo *facts = NULL;
  if (curl_easy_getinfo(easy, CURLINFO_TLS_SSL_PTR, &facts) != CURLE_OK || facts == NULL) return NULL;
  return facts->backend == CURLSSLBACKEND_OPENSSL ? facts->internals : NULL;
}

static inline int ccurl_tls_version(void *session) { return SSL_version((SSL *)session); }
// IANA's number of the cipher suite; 0 where there is none.
static inline int ccurl_tls_cipher_suite(void *session) {
  const SSL_CIPHER *cipher = SSL_get_current_cipher((SSL *)session);
  return cipher == NULL ? 0 : SSL_CIPHER_get_protocol_id(cipher);
}

// A message's payload is a union behind a pointer; these two copy out what the engine reads of it.
static inline CURL *ccurl_next_done(CURLM *multi, CURLcode *result) {
  int left = 0;
  for (CURLMsg *message; (message = curl_multi_info_read(multi, &left));) {
    if (message->msg != CURLMSG_DONE) continue;
    *result = message->data.result;
    return message->easy_handle;
  }
  return NULL;
}

// Whether a socket's end on this machine has that address and port, or with port -1 whether its other end has the address.
static inline int ccurl_ends_at(curl_socket_t socket, const char *address, long port) {
  struct sockaddr_storage end;
  socklen_t length = sizeof end;
  char text[INET6_ADDRSTRLEN] = "";
  if ((port < 0 ? getpeername : getsockname)(socket, (struct sockaddr *)&end, &length) != 0) return 0;
  const int is_six = end.ss_family == AF_INET6;
  if (!is_six && end.ss_family != AF_INET) return 0;
  const struct sockaddr_in *four = (const struct sockaddr_in *)&end;
  const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&end;
  const void *bytes = is_six ? (const void *)&six->sin6_addr : (const void *)&four->sin_addr;
  if (inet_ntop(end.ss_family, bytes, text, sizeof text) == NULL || strcmp(text, address) != 0) return 0;
  return port < 0 || ntohs(is_six ? six->sin6_port : four->sin_port) == port;
}

// Whether a socket is the connection that the handle uses now, by what libcurl says of that connection's ends.
static inline int ccurl_uses(CURL *easy, curl_socket_t socket) {
  char *here = NULL, *there = NULL;
  long port = 0;
  return curl_easy_getinfo(easy, CURLINFO_LOCAL_IP, &here) == CURLE_OK && here != NULL
      && curl_easy_getinfo(easy, CURLINFO_LOCAL_PORT, &port) == CURLE_OK && port > 0
      && curl_easy_getinfo(easy, CURLINFO_PRIMARY_IP, &there) == CURLE_OK && there != NULL
      && ccurl_ends_at(socket, here, port) && ccurl_ends_at(socket, there, -1);
}

// The connection's round trip as the kernel has measured it, in microseconds (tcp(7)); -1 where it does not say.
static inline long ccurl_round_trip(curl_socket_t socket) {
  struct tcp_info facts;
  socklen_t length = sizeof facts;
  return getsockopt(socket, IPPROTO_TCP, TCP_INFO, &facts, &length) == 0 ? (long)facts.tcpi_rtt : -1;
}

// A socket counts as writable only while less than so many bytes wait in it unsent (tcp(7)).
static inline int ccurl_limit_unsent(curl_socket_t socket, int bytes) {
  return setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}
