#!/usr/bin/python3
"""A private system bus with NetworkManager, UPower, logind and power-profiles-daemon of python3-dbusmock.

Prints the address of the bus, then reads commands, one a line, and answers each with "ok":
  bus start|stop|hang the bus itself; it runs from the beginning, and ends its services when it stops
  start NAME          networkmanager, upower, logind or power_profiles_daemon
  stop NAME           its process ends, and its name leaves the bus
  hang NAME           its process stops, and answers nothing any more
  set NAME PROPERTY TYPE VALUE     one property, with PropertiesChanged; TYPE is u, x, t, b, d, s or as
  flood NAME COUNT    so many PropertiesChanged of something else, at once
  resume              logind says that the machine woke up
The end of its input, or SIGTERM, ends all of it.
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import dbus
import dbusmock

MOCK = "org.freedesktop.DBus.Mock"
PLACES = {
    "networkmanager": ("org.freedesktop.NetworkManager", "/org/freedesktop/NetworkManager",
                       "org.freedesktop.NetworkManager"),
    "upower": ("org.freedesktop.UPower", "/org/freedesktop/UPower", "org.freedesktop.UPower"),
    "display": ("org.freedesktop.UPower", "/org/freedesktop/UPower/devices/DisplayDevice",
                "org.freedesktop.UPower.Device"),
    "logind": ("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager"),
    "power_profiles_daemon": ("net.hadess.PowerProfiles", "/net/hadess/PowerProfiles", "net.hadess.PowerProfiles"),
}
TYPES = {
    "u": lambda text: dbus.UInt32(int(text)), "x": lambda text: dbus.Int64(int(text)),
    "t": lambda text: dbus.UInt64(int(text)), "b": lambda text: dbus.Boolean(text == "true"), "d": dbus.Double,
    "s": dbus.String, "as": lambda text: dbus.Array([text], signature="s"),
}
CONFIGURATION = """<busconfig>
  <type>system</type>
  <keep_umask/>
  <listen>unix:path=%s</listen>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
  <!-- A flood is more at once than the 128 that a connection may wait for. -->
  <limit name="max_replies_per_connection">100000</limit>
</busconfig>
"""


class Bus:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="ferry-bus-")
        self.path = os.path.join(self.folder, "socket")
        self.configuration = os.path.join(self.folder, "bus.conf")
        with open(self.configuration, "w", encoding="utf8") as file:
            file.write(CONFIGURATION % self.path)
        # Without the bus's own id, which is another one each time.
        os.environ["DBUS_SYSTEM_BUS_ADDRESS"] = "unix:path=" + self.path
        self.services = {}
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["dbus-daemon", "--nofork", "--print-address", "--config-file=" + self.configuration],
            stdout=subprocess.PIPE)
        self.process.stdout.readline()
        self.connection = dbus.bus.BusConnection(os.environ["DBUS_SYSTEM_BUS_ADDRESS"])

    def stop(self):
        for name in list(self.services):
            self.stop_service(name)
        end(self.process)
        if os.path.exists(self.path):
            os.unlink(self.path)

    def hang(self):
        self.process.send_signal(signal.SIGSTOP)

    def close(self):
        self.stop()
        shutil.rmtree(self.folder)

    def place(self, name):
        service, path, interface = PLACES[name]
        return self.connection.get_object(service, path), interface

    def start_service(self, name):
        process, _ = dbusmock.DBusTestCase.spawn_server_template(name, {}, stdout=subprocess.DEVNULL)
        self.services[name] = process
        if name == "networkmanager":
            # The template lacks it.
            target, interface = self.place(name)
            target.AddProperty(interface, "Metered", dbus.UInt32(0), dbus_interface=MOCK)

    def stop_service(self, name):
        end(self.services.pop(name))

    def set(self, name, member, value):
        target, interface = self.place(name)
        target.UpdateProperties(interface, {member: value}, dbus_interface=MOCK)

    def flood(self, name, count):
        target, interface = self.place(name)
        target.AddProperty(interface, "Weather", dbus.UInt32(0), dbus_interface=MOCK)
        for number in range(count):
            target.UpdateProperties(interface, {"Weather": dbus.UInt32(number)}, dbus_interface=MOCK,
                                    ignore_reply=True)

    def resume(self):
        target, interface = self.place("logind")
        target.EmitSignal(interface, "PrepareForSleep", "b", [dbus.Boolean(False)], dbus_interface=MOCK)


def end(process):
    process.kill()
    process.wait()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    bus = Bus()
    print(os.environ["DBUS_SYSTEM_BUS_ADDRESS"], flush=True)
    try:
        for line in sys.stdin:
            words = line.split()
            if words[0] == "bus":
                {"start": bus.start, "stop": bus.stop, "hang": bus.hang}[words[1]]()
            elif words[0] == "start":
                bus.start_service(words[1])
            elif words[0] == "stop":
                bus.stop_service(words[1])
            elif words[0] == "hang":
                bus.services[words[1]].send_signal(signal.SIGSTOP)
            elif words[0] == "set":
                bus.set(words[1], words[2], TYPES[words[3]](words[4]))
            elif words[0] == "flood":
                bus.flood(words[1], int(words[2]))
            elif words[0] == "resume":
                bus.resume()
            print("ok", flush=True)
    except Exception as error:  # The test waits for an answer, and says what it was.
        print("%s: %s" % (type(error).__name__, error), flush=True)
        raise
    finally:
        bus.close()


main()
