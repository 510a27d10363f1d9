import LinuxSystem
import WireProtocol

/// `daemon restart`: the executable that stands there now takes over.
enum DaemonRestartCommand {
  static let command = Command(
    name: "daemon restart", summary: "let the installed daemon take over from the running one", options: [.json],
    notes: [
      "Nothing is lost: transfers that can be continued are, and clients reconnect by themselves. Transfers that "
        + "cannot be continued (uploads, data tasks, requests that must not be sent twice, downloads without a "
        + "validator) get 30 s to end. It returns when the new daemon answers. When none runs, it starts one."
    ],
    run: { (arguments) throws(CommandFailure) in
      let link = try DaemonLink.open()
      try link.restartDaemon()
      let status = try link.call(.daemonStatus(EmptyParameters()), returning: DaemonStatusResult.self)
      if arguments.has(.json) {
        try StandardStream.output.writeLine(try JSONText.of(status))
      } else {
        try StandardStream.output.writeLine(
          "ferryd \(TerminalText.escaped(status.version)) took over as process \(status.pid).")
      }
      return .success
    })
}
