#!/usr/bin/python3
"""A private system bus with NetworkManager, UPower, logind and power-profiles-daemon of python3-dbusmock.

Prints the address of the bus, then reads commands, one a line, and answers each with "ok":
  start NAME          networkmanager, upower, logind or power_profiles_daemon
  stop NAME           its process ends, and its name leaves the bus
  hang NAME           its process stops, and answers nothing any more
  set NAME PROPERTY TYPE VALUE     one property, with PropertiesChanged; TYPE is u, b, d or s
  resume              logind says that the machine woke up
The end of its input ends all of it.
"""
import os
import signal
import subprocess
import sys

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
TYPES = {"u": dbus.UInt32, "b": lambda text: dbus.Boolean(text == "true"), "d": dbus.Double, "s": dbus.String}


class Devices(dbusmock.DBusTestCase):
    pass


def main():
    Devices.start_system_bus()
    print(os.environ["DBUS_SYSTEM_BUS_ADDRESS"], flush=True)
    bus = Devices.get_dbus(system_bus=True)
    processes = {}

    def place(name):
        service, path, interface = PLACES[name]
        return bus.get_object(service, path), interface

    def start(name):
        process, _ = Devices.spawn_server_template(name, {}, stdout=subprocess.DEVNULL)
        processes[name] = process
        if name == "networkmanager":
            # The template lacks it.
            target, interface = place(name)
            target.AddProperty(interface, "Metered", dbus.UInt32(0), dbus_interface=MOCK)

    try:
        for line in sys.stdin:
            words = line.split()
            if words[0] == "start":
                start(words[1])
            elif words[0] == "stop":
                process = processes.pop(words[1])
                process.terminate()
                process.wait()
            elif words[0] == "hang":
                processes[words[1]].send_signal(signal.SIGSTOP)
            elif words[0] == "set":
                target, interface = place(words[1])
                value = TYPES[words[3]](words[4] if words[3] in "bs" else float(words[4]))
                target.UpdateProperties(interface, {words[2]: value}, dbus_interface=MOCK)
            elif words[0] == "resume":
                target, interface = place("logind")
                target.EmitSignal(interface, "PrepareForSleep", "b", [dbus.Boolean(False)], dbus_interface=MOCK)
            print("ok", flush=True)
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
        Devices.tearDownClass()


main()
