#include "CSystemd.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <time.h>

/* Every function of libsystemd that is used, with the type that its header gives it. */
#define FUNCTIONS(X)                                                                                                  \
  X(sd_bus_open_system) X(sd_bus_close_unref) X(sd_bus_get_fd) X(sd_bus_get_events) X(sd_bus_get_timeout)             \
  X(sd_bus_process) X(sd_bus_add_match_async) X(sd_bus_message_new_method_call) X(sd_bus_message_append_basic)        \
  X(sd_bus_message_set_auto_start) X(sd_bus_call_async) X(sd_bus_message_unref) X(sd_bus_message_is_method_error)     \
  X(sd_bus_message_enter_container) X(sd_bus_message_peek_type) X(sd_bus_message_read_basic)                          \
  X(sd_bus_open_user) X(sd_bus_new) X(sd_bus_set_address) X(sd_bus_start) X(sd_bus_message_append) X(sd_bus_call)

static struct {
#define MEMBER(name) __typeof__(&name) name;
  FUNCTIONS(MEMBER)
#undef MEMBER
} library;

static int load_result;

static void load_once(void) {
  load_result = -ENOSYS;
  void *handle = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!handle) return;
#define RESOLVE(name)                                                                                                 \
  *(void **)&library.name = dlsym(handle, #name);                                                                     \
  if (!library.name) return;
  FUNCTIONS(RESOLVE)
#undef RESOLVE
  load_result = 0;
}

/* The device's sources and the user's manager are asked on threads of their own. */
static int load(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_once);
  return load_result;
}

int csystemd_bus_open(csystemd_bus **bus) {
  int result = load();
  return result < 0 ? result : library.sd_bus_open_system((sd_bus **)bus);
}

void csystemd_bus_close(csystemd_bus *bus) { library.sd_bus_close_unref((sd_bus *)bus); }

int csystemd_bus_descriptor(csystemd_bus *bus) { return library.sd_bus_get_fd((sd_bus *)bus); }

int csystemd_bus_events(csystemd_bus *bus) { return library.sd_bus_get_events((sd_bus *)bus); }

int csystemd_bus_timeout(csystemd_bus *bus, uint64_t *microseconds) {
  return library.sd_bus_get_timeout((sd_bus *)bus, microseconds);
}

int csystemd_bus_process(csystemd_bus *bus) { return library.sd_bus_process((sd_bus *)bus, NULL); }

int csystemd_bus_match(csystemd_bus *bus, const char *rule, csystemd_handler handler, void *context) {
  return library.sd_bus_add_match_async(
      (sd_bus *)bus, NULL, rule, (sd_bus_message_handler_t)(void *)handler, NULL, context);
}

int csystemd_bus_get(
    csystemd_bus *bus, const char *service, const char *path, const char *interface, const char *property,
    csystemd_handler handler, void *context, uint64_t limit_microseconds) {
  sd_bus_message *message = NULL;
  int result = library.sd_bus_message_new_method_call(
      (sd_bus *)bus, &message, service, path, "org.freedesktop.DBus.Properties", "Get");
  if (result < 0) return result;
  result = library.sd_bus_message_set_auto_start(message, 0);
  if (result >= 0) result = library.sd_bus_message_append_basic(message, 's', interface);
  if (result >= 0) result = library.sd_bus_message_append_basic(message, 's', property);
  if (result >= 0)
    result = library.sd_bus_call_async(
        (sd_bus *)bus, NULL, message, (sd_bus_message_handler_t)(void *)handler, context, limit_microseconds);
  library.sd_bus_message_unref(message);
  return result;
}

/* The next value, if it is of a basic type that somebody here wants. */
static int read_value(sd_bus_message *message, struct csystemd_value *value) {
  union {
    uint8_t y;
    int b;
    int16_t n;
    uint16_t q;
    int32_t i;
    uint32_t u;
    int64_t x;
    uint64_t t;
    double d;
    const char *s;
  } read;
  char type = 0;
  memset(value, 0, sizeof *value);
  memset(&read, 0, sizeof read);
  int result = library.sd_bus_message_peek_type(message, &type, NULL);
  if (result <= 0) return result < 0 ? result : -ENODATA;
  if (type == 0 || !strchr("ybnqiuxtdsog", type)) return -EPROTOTYPE;
  result = library.sd_bus_message_read_basic(message, type, &read);
  if (result < 0) return result;
  value->type = type;
  switch (type) {
    case 'y': value->integer = read.y; break;
    case 'b': value->integer = read.b != 0; break;
    case 'n': value->integer = read.n; break;
    case 'q': value->integer = read.q; break;
    case 'i': value->integer = read.i; break;
    case 'u': value->integer = read.u; break;
    case 'x': value->integer = read.x; break;
    case 't': value->integer = read.t > INT64_MAX ? INT64_MAX : (int64_t)read.t; break;
    case 'd': value->number = read.d; break;
    default: value->text = read.s; break;
  }
  return 0;
}

int csystemd_message_property(csystemd_message *opaque, struct csystemd_value *value) {
  sd_bus_message *message = (sd_bus_message *)opaque;
  memset(value, 0, sizeof *value);
  if (library.sd_bus_message_is_method_error(message, SD_BUS_ERROR_NO_REPLY) > 0) return -ETIMEDOUT;
  if (library.sd_bus_message_is_method_error(message, NULL) > 0) return -EIO;
  int result = library.sd_bus_message_enter_container(message, 'v', NULL);
  return result < 0 ? result : read_value(message, value);
}

int csystemd_message_argument(csystemd_message *message, struct csystemd_value *value) {
  return read_value((sd_bus_message *)message, value);
}

static int open_user(const char *address, sd_bus **bus) {
  if (!address) return library.sd_bus_open_user(bus);
  int result = library.sd_bus_new(bus);
  if (result < 0) return result;
  result = library.sd_bus_set_address(*bus, address);
  if (result >= 0) result = library.sd_bus_start(*bus);
  if (result < 0) library.sd_bus_close_unref(*bus);
  return result;
}

int csystemd_start_scope(
    const char *address, const char *name, const char *slice, const char *description, uint32_t process,
    uint64_t limit_microseconds) {
  sd_bus *bus = NULL;
  sd_bus_message *message = NULL;
  int result = load();
  if (result >= 0) result = open_user(address, &bus);
  if (result < 0) return result;
  result = library.sd_bus_message_new_method_call(
      bus, &message, "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager",
      "StartTransientUnit");
  if (result >= 0) result = library.sd_bus_message_set_auto_start(message, 0);
  if (result >= 0) result = library.sd_bus_message_append(message, "ss", name, "fail");
  if (result >= 0)
    result = library.sd_bus_message_append(
        message, "a(sv)", 4, "Description", "s", description, "Slice", "s", slice, "CollectMode", "s",
        "inactive-or-failed", "PIDs", "au", 1, process);
  if (result >= 0) result = library.sd_bus_message_append(message, "a(sa(sv))", 0);
  if (result >= 0) result = library.sd_bus_call(bus, message, limit_microseconds, NULL, NULL);
  if (message) library.sd_bus_message_unref(message);
  library.sd_bus_close_unref(bus);
  return result < 0 ? result : 0;
}

uint64_t csystemd_monotonic_microseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}
