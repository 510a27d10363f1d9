import Foundation
import Glibc
import LinuxSystem
import Testing

/// The package's units under a real `systemd --user`, in namespaces of its own.
@Suite struct UnitTests {
  static let obstacle: String? = {
    guard geteuid() == 0 else { return "not root: no mount namespace can be made" }
    guard ["/usr/lib/systemd/systemd", "/lib/systemd/systemd"].contains(where: Shell.isExecutable),
      Shell.isExecutable("/usr/bin/systemctl") || Shell.isExecutable("/bin/systemctl")
    else { return "systemd is not installed" }
    return Shell.isExecutable("/usr/bin/unshare") ? nil : "unshare is missing (apt-get install util-linux)"
  }()

  @Test func theSocketStartsTheDaemonAndAKilledOneComesBack() throws {
    if let obstacle = Self.obstacle { return print("SKIPPED: units: \(obstacle)") }
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent().path
    let home = "/tmp/ferry-units-\(getpid())-\(String(Clocks.randomWord(), radix: 36))"
    try Files.makePrivateDirectory(home)
    defer { Shell.remove(home) }
    let programs = Files.parent(of: DaemonHome.executable("ferryd"))
    let ran = try Shell.output(
      "/usr/bin/unshare",
      [
        "--mount", "--pid", "--fork", "--kill-child", "/bin/bash", "\(root)/Tests/DaemonTests/Fixtures/user_units.sh",
        programs, root, home,
      ], seconds: 90)
    #expect(ran.status == .exited(code: 0), "\(ran.output) \(ran.errors)")
    #expect(
      ran.output.split(separator: "\n") == [
        "socket active", "before inactive", "tasks 1", "after active", "same 1", "scope active 0", "restarted",
        "launched 1", "outlives active", "scope gone", "stopped inactive", "refused 1",
      ], "\(ran.output) \(ran.errors)")
  }
}
