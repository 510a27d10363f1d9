#ifndef CLINUX_H
#define CLINUX_H
/* Kernel interfaces that Swift's Glibc module does not show (it is built without _GNU_SOURCE).
   Functions here live in CLinux.c, where _GNU_SOURCE is set: a header of this module would get the declarations of the
   Glibc module instead. Each returns what the call it is named after returns, with errno set on -1, unless it says
   otherwise. */
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <sys/un.h>

/* "ENOENT", or NULL for a number without a name. Static storage. */
const char *_Nullable clinux_errno_name(int number);
/* "No such file or directory", or NULL. Static storage, not translated. */
const char *_Nullable clinux_errno_text(int number);

/* The environment of the process as execve takes it. */
char *_Nullable *_Nullable clinux_environ(void);

/* Nanoseconds of CLOCK_BOOTTIME and CLOCK_REALTIME. */
int64_t clinux_boot_nanoseconds(void);
int64_t clinux_wall_nanoseconds(void);

/* struct epoll_event with the union replaced by the one member used. CLinux.c checks that the layouts agree. */
struct clinux_event {
  uint32_t bits;
  uint64_t word;
} __EPOLL_PACKED;
int clinux_epoll_create(void);
/* Adds or changes (EPOLL_CTL_ADD, EPOLL_CTL_MOD) or removes (EPOLL_CTL_DEL). */
int clinux_epoll_control(int poller, int operation, int descriptor, uint32_t bits, uint64_t word);
int clinux_epoll_wait(int poller, struct clinux_event *_Nonnull events, int capacity, int milliseconds);

/* A timerfd on CLOCK_BOOTTIME, non-blocking, close-on-exec; and arming it at an absolute time (0 disarms). */
int clinux_boot_timer(void);
int clinux_boot_timer_arm(int timer, int64_t nanoseconds);

/* Gives free pages of the heap back, and the mapping of the program's own code, which is read in again by need. */
void clinux_give_memory_back(void);

/* Files. */
int clinux_openat2_beneath(int directory, const char *_Nonnull name, int flags, unsigned mode);
int clinux_open_directory_path(const char *_Nonnull path);
int clinux_rename_noreplace(const char *_Nonnull from, const char *_Nonnull to);
int clinux_reflink(int destination, int source);
int clinux_link_descriptor(int source, const char *_Nonnull to);
ssize_t clinux_copy_range(int source, int destination, int64_t offset, size_t count);
/* A pipe whose ends do not block and are closed by exec; its room in bytes; and bytes of it to or from a descriptor (at an
   offset, or with -1 where that stands). */
int clinux_pipe(int *_Nonnull read_end, int *_Nonnull write_end);
int clinux_pipe_resize(int pipe, int bytes);
ssize_t clinux_splice(int source, int destination, int64_t offset, size_t count);
int clinux_start_writeback(int descriptor, int64_t offset, int64_t count);
/* Query or take the exclusive open-file-description lock of a whole file; query returns 1 when another holds it. */
int clinux_lock_take(int descriptor);
int clinux_lock_drop(int descriptor);
int clinux_lock_query(int descriptor);

/* A non-blocking, close-on-exec netlink socket that hears these multicast groups (a mask; netlink(7)): what changes of
   links, addresses and routes, and what the kernel tells of devices (uevents). */
int clinux_netlink_network_changes(void);
int clinux_netlink_device_changes(void);

/* Unix sockets. */
int clinux_unix_bind(int socket, const char *_Nonnull path);
int clinux_unix_connect(int socket, const char *_Nonnull path);
/* Sends one datagram; a path that begins with @ is an abstract name. */
int clinux_notify(const char *_Nonnull path, const char *_Nonnull text);
/* Bytes a socket's path may have, without the NUL. */
size_t clinux_unix_path_limit(void);
int clinux_accept(int listener);
int clinux_peer_credentials(int socket, uint32_t *_Nonnull uid, uint32_t *_Nonnull gid, int32_t *_Nonnull pid);
ssize_t clinux_send_descriptors(
  int socket, const void *_Nullable bytes, size_t count, const int *_Nullable descriptors, size_t descriptor_count);
/* At most `capacity` descriptors. When the control data was truncated every descriptor that arrived is closed already,
   *descriptor_count is 0 and *truncated is 1. */
ssize_t clinux_receive_descriptors(
  int socket, void *_Nullable bytes, size_t count, int *_Nonnull descriptors, size_t capacity,
  size_t *_Nonnull descriptor_count, int *_Nonnull truncated);

/* Processes. Returns an errno value, 0 on success. -1 as a descriptor means /dev/null. */
int clinux_spawn(
  pid_t *_Nonnull pid, const char *_Nonnull path, char *_Nullable const *_Nonnull arguments,
  char *_Nullable const *_Nonnull environment, const char *_Nullable directory, int input, int output, int error,
  int new_session);
int clinux_pidfd_open(pid_t pid);
int clinux_pidfd_send_signal(int pidfd, int signal);
int clinux_wait_exited(int status);
int clinux_wait_exit_code(int status);
int clinux_wait_signal(int status);

/* The home of `user` in the user database into `home`. Returns an errno value: ENOENT when there is none, ENAMETOOLONG
   when `capacity` is too small. */
int clinux_home_directory(uint32_t user, char *_Nonnull home, size_t capacity);

/* Signals. */
int clinux_signalfd(const int *_Nonnull signals, size_t count);
/* The number of the next pending signal, 0 when there is none, -1 on error. */
int clinux_signalfd_read(int descriptor, uint32_t *_Nonnull sender);
void clinux_ignore_sigpipe(void);
void clinux_block_all_signals(void);

/* Threads. Returns an errno value. */
int clinux_thread_start(
  unsigned long *_Nonnull thread, void *_Nullable (*_Nonnull entry)(void *_Nullable), void *_Nullable context,
  size_t stack_bytes);
int clinux_thread_name(const char *_Nonnull name);
int clinux_thread_join(unsigned long thread);
int clinux_thread_detach(unsigned long thread);
/* 0 when it ended, ETIMEDOUT when not by then (nanoseconds of CLOCK_MONOTONIC from now). */
int clinux_thread_join_within(unsigned long thread, int64_t nanoseconds);

#endif
