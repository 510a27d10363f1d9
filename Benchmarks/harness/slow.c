/* Preloaded into a daemon: syncs of files under BENCH_SLOW_FOLDER take a second, and names in slow.invalid half a minute
   to look up. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void delay(int descriptor) {
  const char *folder = getenv("BENCH_SLOW_FOLDER");
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0 || !folder) return;
  path[length] = 0;
  if (!strncmp(path, folder, strlen(folder))) sleep(1);
}
int fsync(int descriptor) {
  delay(descriptor);
  return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(descriptor);
}
int fdatasync(int descriptor) {
  delay(descriptor);
  return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(descriptor);
}
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
  if (name && strstr(name, "slow.invalid")) {
    sleep(30);
    return EAI_AGAIN;
  }
  return ((int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))dlsym(
    RTLD_NEXT, "getaddrinfo"))(name, service, hints, found);
}
