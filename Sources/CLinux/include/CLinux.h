#ifndef CLINUX_H
#define CLINUX_H
/* Kernel interfaces that Swift's Glibc module does not show. Constants that are
   macros with casts, and variadic calls, get a typed `static inline` form here. */
#define _GNU_SOURCE 1
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#endif
