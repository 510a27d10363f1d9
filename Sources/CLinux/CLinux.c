#define _GNU_SOURCE 1
#include "CLinux.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <linux/openat2.h>
#include <malloc.h>
#include <linux/rtnetlink.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const char *clinux_errno_name(int number) { return strerrorname_np(number); }
const char *clinux_errno_text(int number) { return strerrordesc_np(number); }
char **clinux_environ(void) { return environ; }

static int64_t nanoseconds_of(clockid_t clock) {
  struct timespec now = {0};
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
int64_t clinux_boot_nanoseconds(void) { return nanoseconds_of(CLOCK_BOOTTIME); }
int64_t clinux_wall_nanoseconds(void) { return nanoseconds_of(CLOCK_REALTIME); }

_Static_assert(sizeof(struct clinux_event) == sizeof(struct epoll_event), "layout of epoll_event");
_Static_assert(offsetof(struct clinux_event, bits) == offsetof(struct epoll_event, events), "layout of epoll_event");
_Static_assert(offsetof(struct clinux_event, word) == offsetof(struct epoll_event, data), "layout of epoll_event");
int clinux_epoll_create(void) { return epoll_create1(EPOLL_CLOEXEC); }
int clinux_epoll_control(int poller, int operation, int descriptor, uint32_t bits, uint64_t word) {
  struct epoll_event event = {.events = bits, .data.u64 = word};
  return epoll_ctl(poller, operation, descriptor, &event);
}
int clinux_epoll_wait(int poller, struct clinux_event *events, int capacity, int milliseconds) {
  return epoll_wait(poller, (struct epoll_event *)events, capacity, milliseconds);
}

int clinux_boot_timer(void) { return timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC); }
int clinux_boot_timer_arm(int timer, int64_t nanoseconds) {
  struct itimerspec at = {0};
  at.it_value.tv_sec = nanoseconds / 1000000000;
  at.it_value.tv_nsec = nanoseconds % 1000000000;
  return timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
}

int clinux_openat2_beneath(int directory, const char *name, int flags, unsigned mode) {
  struct open_how how = {
    .flags = (unsigned)flags | O_CLOEXEC | O_NOFOLLOW,
    .mode = (flags & O_CREAT) ? mode : 0,
    .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
  };
  return (int)syscall(SYS_openat2, directory, name, &how, sizeof how);
}
int clinux_open_directory_path(const char *path) { return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC); }
int clinux_rename_noreplace(const char *from, const char *to) {
  return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
}
int clinux_reflink(int destination, int source) { return ioctl(destination, FICLONE, source); }
int clinux_link_descriptor(int source, const char *to) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", source);
  return linkat(AT_FDCWD, path, AT_FDCWD, to, AT_SYMLINK_FOLLOW);
}
ssize_t clinux_copy_range(int source, int destination, int64_t offset, size_t count) {
  off64_t from = offset, to = offset;
  return copy_file_range(source, &from, destination, &to, count, 0);
}
int clinux_pipe(int *read_end, int *write_end) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) return -1;
  *read_end = ends[0];
  *write_end = ends[1];
  return 0;
}
int clinux_pipe_resize(int pipe, int bytes) { return fcntl(pipe, F_SETPIPE_SZ, bytes); }
ssize_t clinux_splice(int source, int destination, int64_t offset, size_t count) {
  off64_t to = offset;
  return splice(source, NULL, destination, offset < 0 ? NULL : &to, count, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
}
int clinux_start_writeback(int descriptor, int64_t offset, int64_t count) {
  return sync_file_range(descriptor, offset, count, SYNC_FILE_RANGE_WRITE);
}
int clinux_lock_take(int descriptor) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  return fcntl(descriptor, F_OFD_SETLK, &whole);
}
int clinux_lock_drop(int descriptor) {
  struct flock whole = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
  return fcntl(descriptor, F_OFD_SETLK, &whole);
}
int clinux_lock_query(int descriptor) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  if (fcntl(descriptor, F_OFD_GETLK, &whole) < 0) return -1;
  return whole.l_type != F_UNLCK;
}

size_t clinux_unix_path_limit(void) { return sizeof(((struct sockaddr_un *)0)->sun_path) - 1; }
static int unix_address(struct sockaddr_un *address, socklen_t *size, const char *path) {
  size_t length = strlen(path);
  if (length > clinux_unix_path_limit()) {
    errno = ENAMETOOLONG;
    return -1;
  }
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  memcpy(address->sun_path, path, length);
  *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
  return 0;
}
int clinux_unix_bind(int socket, const char *path) {
  struct sockaddr_un address;
  socklen_t size;
  if (unix_address(&address, &size, path) < 0) return -1;
  return bind(socket, (struct sockaddr *)&address, size);
}
int clinux_unix_connect(int socket, const char *path) {
  struct sockaddr_un address;
  socklen_t size;
  if (unix_address(&address, &size, path) < 0) return -1;
  return connect(socket, (struct sockaddr *)&address, size);
}
int clinux_notify(const char *path, const char *text) {
  struct sockaddr_un address;
  socklen_t size;
  if (unix_address(&address, &size, path) < 0) return -1;
  if (*path == '@') {
    /* An abstract name: it begins with a NUL, and does not end with one. */
    address.sun_path[0] = 0;
    size--;
  }
  int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return -1;
  ssize_t sent = sendto(descriptor, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&address, size);
  int number = errno;
  close(descriptor);
  errno = number;
  return sent < 0 ? -1 : 0;
}
int clinux_accept(int listener) { return accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC); }
int clinux_peer_credentials(int socket, uint32_t *uid, uint32_t *gid, int32_t *pid) {
  struct ucred peer = {0};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) return -1;
  *uid = peer.uid;
  *gid = peer.gid;
  *pid = peer.pid;
  return 0;
}

/* The kernel's SCM_MAX_FD. */
#define DESCRIPTORS_MAX 253

ssize_t clinux_send_descriptors(
  int socket, const void *bytes, size_t count, const int *descriptors, size_t descriptor_count) {
  struct iovec part = {.iov_base = (void *)bytes, .iov_len = count};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int) * DESCRIPTORS_MAX)];
  } control;
  if (descriptor_count > DESCRIPTORS_MAX) {
    errno = EINVAL;
    return -1;
  }
  if (descriptor_count > 0) {
    memset(&control, 0, sizeof control);
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * descriptor_count);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * descriptor_count);
    memcpy(CMSG_DATA(header), descriptors, sizeof(int) * descriptor_count);
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL);
}

ssize_t clinux_receive_descriptors(
  int socket, void *bytes, size_t count, int *descriptors, size_t capacity, size_t *descriptor_count,
  int *truncated) {
  struct iovec part = {.iov_base = bytes, .iov_len = count};
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int) * DESCRIPTORS_MAX)];
  } control;
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes};
  if (capacity > DESCRIPTORS_MAX) capacity = DESCRIPTORS_MAX;
  /* CMSG_LEN, not CMSG_SPACE: the padding would let one descriptor more in than the caller has room for. */
  message.msg_controllen = CMSG_LEN(sizeof(int) * capacity);
  *descriptor_count = 0;
  *truncated = 0;
  ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (got < 0) return got;
  size_t taken = 0;
  int surplus = 0;
  for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    size_t here = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t index = 0; index < here; index++) {
      int descriptor;
      memcpy(&descriptor, CMSG_DATA(header) + index * sizeof(int), sizeof descriptor);
      if (taken < capacity) {
        descriptors[taken++] = descriptor;
      } else {
        close(descriptor);
        surplus = 1;
      }
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) || surplus) {
    for (size_t index = 0; index < taken; index++) close(descriptors[index]);
    *truncated = 1;
    return got;
  }
  *descriptor_count = taken;
  return got;
}

/* A descriptor of 3 or above for `given` (-1: /dev/null), so that the dup2 actions cannot overwrite one another's
   sources. */
static int standard_source(int given) {
  if (given >= 0) return fcntl(given, F_DUPFD_CLOEXEC, 3);
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0 || null >= 3) return null;
  int moved = fcntl(null, F_DUPFD_CLOEXEC, 3);
  int number = errno;
  close(null);
  errno = number;
  return moved;
}

int clinux_spawn(
  pid_t *pid, const char *path, char *const *arguments, char *const *environment, const char *directory, int input,
  int output, int error, int new_session) {
  int given[3] = {input, output, error};
  int sources[3] = {-1, -1, -1};
  int result = 0;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  if ((result = posix_spawn_file_actions_init(&actions)) != 0) return result;
  if ((result = posix_spawnattr_init(&attributes)) != 0) {
    posix_spawn_file_actions_destroy(&actions);
    return result;
  }
  for (int target = 0; target < 3 && result == 0; target++) {
    sources[target] = standard_source(given[target]);
    result = sources[target] < 0 ? errno : posix_spawn_file_actions_adddup2(&actions, sources[target], target);
  }
  if (result == 0) result = posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  if (result == 0 && directory) result = posix_spawn_file_actions_addchdir_np(&actions, directory);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  if (result == 0) result = posix_spawnattr_setsigmask(&attributes, &none);
  if (result == 0) result = posix_spawnattr_setsigdefault(&attributes, &all);
  short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | (new_session ? POSIX_SPAWN_SETSID : 0);
  if (result == 0) result = posix_spawnattr_setflags(&attributes, flags);
  if (result == 0) result = posix_spawn(pid, path, &actions, &attributes, arguments, environment);
  for (int target = 0; target < 3; target++)
    if (sources[target] >= 0) close(sources[target]);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return result;
}
int clinux_pidfd_open(pid_t pid) { return (int)syscall(SYS_pidfd_open, pid, 0); }
int clinux_pidfd_send_signal(int pidfd, int signal) {
  return (int)syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0);
}
int clinux_wait_exited(int status) { return WIFEXITED(status); }
int clinux_wait_exit_code(int status) { return WEXITSTATUS(status); }
int clinux_wait_signal(int status) { return WTERMSIG(status); }

int clinux_home_directory(uint32_t user, char *home, size_t capacity) {
  for (size_t size = 1024; size <= 1 << 20; size *= 2) {
    char *strings = malloc(size);
    if (!strings) return ENOMEM;
    struct passwd record, *found = NULL;
    int result;
    do result = getpwuid_r(user, &record, strings, size, &found);
    while (result == EINTR);
    if (result == 0) {
      if (!found || !record.pw_dir) result = ENOENT;
      else if (strlen(record.pw_dir) >= capacity) result = ENAMETOOLONG;
      else strcpy(home, record.pw_dir);
    }
    free(strings);
    if (result != ERANGE) return result;
  }
  return ERANGE;
}

int clinux_signalfd(const int *signals, size_t count) {
  sigset_t set;
  sigemptyset(&set);
  for (size_t index = 0; index < count; index++)
    if (sigaddset(&set, signals[index]) < 0) return -1;
  int result = pthread_sigmask(SIG_BLOCK, &set, NULL);
  if (result != 0) {
    errno = result;
    return -1;
  }
  return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}
int clinux_signalfd_read(int descriptor, uint32_t *sender) {
  struct signalfd_siginfo entry;
  ssize_t got = read(descriptor, &entry, sizeof entry);
  if (got == (ssize_t)sizeof entry) {
    *sender = entry.ssi_pid;
    return (int)entry.ssi_signo;
  }
  if (got < 0 && errno != EAGAIN) return -1;
  return 0;
}
void clinux_ignore_sigpipe(void) { signal(SIGPIPE, SIG_IGN); }
void clinux_block_all_signals(void) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
}

/* The first object is the program itself. Its code is mapped from its file and never written: nothing is lost. */
static int release_code(struct dl_phdr_info *object, size_t size, void *unused) {
  (void)size, (void)unused;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  for (int index = 0; index < object->dlpi_phnum; index++) {
    const ElfW(Phdr) *part = &object->dlpi_phdr[index];
    if (part->p_type != PT_LOAD || !(part->p_flags & PF_X) || (part->p_flags & PF_W)) continue;
    uintptr_t begin = (object->dlpi_addr + part->p_vaddr) & ~(page - 1);
    uintptr_t end = (object->dlpi_addr + part->p_vaddr + part->p_memsz) & ~(page - 1);
    if (end > begin) madvise((void *)begin, end - begin, MADV_DONTNEED);
  }
  return 1;
}
void clinux_give_memory_back(void) {
  malloc_trim(0);
  dl_iterate_phdr(release_code, NULL);
}

int clinux_thread_start(
  unsigned long *thread, void *(*entry)(void *), void *context, size_t stack_bytes) {
  pthread_attr_t attributes;
  int result = pthread_attr_init(&attributes);
  if (result != 0) return result;
  result = pthread_attr_setstacksize(&attributes, stack_bytes);
  if (result == 0) result = pthread_create(thread, &attributes, entry, context);
  pthread_attr_destroy(&attributes);
  return result;
}
int clinux_thread_name(const char *name) { return pthread_setname_np(pthread_self(), name); }
int clinux_thread_join(unsigned long thread) { return pthread_join(thread, NULL); }
int clinux_thread_detach(unsigned long thread) { return pthread_detach(thread); }
int clinux_thread_join_within(unsigned long thread, int64_t nanoseconds) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  int64_t at = (int64_t)until.tv_nsec + nanoseconds % 1000000000;
  until.tv_sec += nanoseconds / 1000000000 + at / 1000000000;
  until.tv_nsec = at % 1000000000;
  return pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until);
}

static int netlink_listen(int protocol, unsigned groups) {
  int descriptor = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
  if (descriptor < 0) return -1;
  struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = groups};
  if (bind(descriptor, (struct sockaddr *)&address, sizeof address) == 0) return descriptor;
  int number = errno;
  close(descriptor);
  errno = number;
  return -1;
}
int clinux_netlink_network_changes(void) {
  return netlink_listen(
      NETLINK_ROUTE,
      RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_IFADDR | RTMGRP_IPV6_ROUTE);
}
/* Group 1 is the kernel's own; group 2 would be udevd's. */
int clinux_netlink_device_changes(void) { return netlink_listen(NETLINK_KOBJECT_UEVENT, 1); }
