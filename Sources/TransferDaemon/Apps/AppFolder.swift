import LinuxSystem
import TransferCore
import WireProtocol

/// The folder in which files register apps: one app a file, in the shape of `app.register`'s parameters.
enum AppFolder {
  struct Reading: Sendable {
    var registrations: [AppRegistration] = []
    var refused: [RefusedRegistration] = []
  }

  /// `$FERRY_HOME/data/apps`, else `$XDG_DATA_HOME/ferry/apps`, else `$HOME/.local/share/ferry/apps`; nil without any.
  static func path(_ environment: [String: String]) -> String? {
    func absolute(_ name: String) -> String? { environment[name].flatMap { $0.hasPrefix("/") ? $0 : nil } }
    if let home = absolute("FERRY_HOME") { return home + "/data/apps" }
    if let data = absolute("XDG_DATA_HOME") { return data + "/ferry/apps" }
    return absolute("HOME").map { $0 + "/.local/share/ferry/apps" }
  }

  /// Reads all of it; of two files for one app the first by name counts.
  static func read(_ folder: String) -> Reading {
    var reading = Reading()
    for name in Files.names(in: folder).sorted() where name.hasSuffix(".json") && !name.hasPrefix(".") {
      let path = "\(folder)/\(name)"
      guard reading.registrations.count < Limits.apps else {
        reading.refused.append(RefusedRegistration(file: path, reason: "More than \(Limits.apps) files; remove some."))
        break
      }
      do throws(WireError) {
        let registration = try registration(path)
        if let first = reading.registrations.first(where: { $0.id == registration.id })?.file {
          throw WireError(.invalidParameters, "\(first) registers \"\(registration.id)\" already; remove one of them.")
        }
        reading.registrations.append(registration)
      } catch {
        reading.refused.append(RefusedRegistration(file: path, reason: error.message))
      }
    }
    return reading
  }

  private static func registration(_ path: String) throws(WireError) -> AppRegistration {
    let bytes: [UInt8]
    do throws(SystemError) {
      bytes = try Files.readTrusted(path, limitBytes: AppJobs.registrationBytes)
    } catch {
      throw WireError(.invalidParameters, "\(error)")
    }
    return try RequestIntake.registration(WireCoding.decodeRegistration(bytes), file: path)
  }
}
