#ifndef CSYSTEMD_H
#define CSYSTEMD_H
/* What DeviceConditions needs of sd-bus(3). libsystemd is opened when it is first needed, not linked: it brings six more
   libraries, which a daemon that nobody asks about power or metered networks should not carry, and a machine without it
   is a machine without that source. Functions return 0 or more, or a negative errno, as sd-bus does. */
#include <stdint.h>

/* A connection to the system bus (DBUS_SYSTEM_BUS_ADDRESS where it is set). */
typedef struct csystemd_bus csystemd_bus;
/* A message; valid only inside the handler that it is given to. */
typedef struct csystemd_message csystemd_message;

typedef int (*csystemd_handler)(
    csystemd_message *_Nullable message, void *_Nullable context, void *_Nullable error);

/* A value of a basic type: `type` is its D-Bus signature character, 0 where it is of another type. Booleans and whole
   numbers stand in `integer`, 'd' in `number`, texts in `text` (valid as long as the message). */
struct csystemd_value {
  char type;
  int64_t integer;
  double number;
  const char *_Nullable text;
};

/* Begins to connect; does not wait. -ENOSYS where there is no libsystemd. */
int csystemd_bus_open(csystemd_bus *_Nullable *_Nonnull bus);
void csystemd_bus_close(csystemd_bus *_Nonnull bus);
int csystemd_bus_descriptor(csystemd_bus *_Nonnull bus);
/* poll(2) events that the connection waits for. */
int csystemd_bus_events(csystemd_bus *_Nonnull bus);
/* Microseconds of CLOCK_MONOTONIC at which `csystemd_bus_process` must be called; UINT64_MAX: no such moment. */
int csystemd_bus_timeout(csystemd_bus *_Nonnull bus, uint64_t *_Nonnull microseconds);
/* Does one piece of work, which may call a handler; more than 0: there may be more to do. */
int csystemd_bus_process(csystemd_bus *_Nonnull bus);
int csystemd_bus_match(
    csystemd_bus *_Nonnull bus, const char *_Nonnull rule, csystemd_handler _Nonnull handler, void *_Nullable context);
/* Asks for a property; never starts the service. The handler gets the reply, or an error (also when it took too long). */
int csystemd_bus_get(
    csystemd_bus *_Nonnull bus, const char *_Nonnull service, const char *_Nonnull path,
    const char *_Nonnull interface, const char *_Nonnull property, csystemd_handler _Nonnull handler,
    void *_Nullable context, uint64_t limit_microseconds);

/* The value in the reply to `csystemd_bus_get`. -ETIMEDOUT where the service took too long, -EIO where the reply is another
   error. */
int csystemd_message_property(csystemd_message *_Nonnull message, struct csystemd_value *_Nonnull value);
/* The first argument of a signal. */
int csystemd_message_argument(csystemd_message *_Nonnull message, struct csystemd_value *_Nonnull value);

/* Has the service manager of this user put a process into a transient scope (org.freedesktop.systemd1(5)); it is moved
   soon after. `address`: of the manager itself; null: it is asked over the user's bus. Blocks, in vain for minutes where
   somebody listens and does not speak. */
int csystemd_start_scope(
    const char *_Nullable address, const char *_Nonnull name, const char *_Nonnull slice,
    const char *_Nonnull description, uint32_t process, uint64_t limit_microseconds);

/* Microseconds of CLOCK_MONOTONIC now. */
uint64_t csystemd_monotonic_microseconds(void);
#endif
