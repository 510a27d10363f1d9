import Glibc
import LinuxSystem
import TransferCore
import WireProtocol

/// Credentials and settings of TLS of the command line. A password is never an argument: everybody can read those
/// (proc(5), cmdline).
enum AccessValues {
  static let options: [OptionRow] =
    [
      OptionRow(
        name: .user, value: "NAME",
        help:
          "user for a server that asks (Basic, Digest); the password is asked for on the terminal, or read from the "
          + "file that FERRY_PASSWORD_FILE names"),
      OptionRow(name: .proxyUser, value: "NAME", help: "the same for a proxy that asks (FERRY_PROXY_PASSWORD_FILE)"),
    ] + tlsOptions

  static let tlsOptions: [OptionRow] = [
    OptionRow(name: .cacert, value: "FILE", help: "trust the PEM certificates in this file in place of the system's"),
    OptionRow(
      name: .cert, value: "FILE",
      help: "client certificate, PEM or PKCS#12 (.p12, .pfx); its key's password from FERRY_KEY_PASSWORD_FILE"),
    OptionRow(name: .key, value: "FILE", help: "the client certificate's key in PEM, if it has a file of its own"),
    OptionRow(
      name: .pinnedKey, value: "sha256//BASE64", isRepeatable: true,
      help: "accept only a server with this public key, or one of these"),
    OptionRow(name: .tlsMin, value: "VERSION", help: "accept no TLS below this: 1.0, 1.1, 1.2 or 1.3"),
  ]

  static func apply(_ arguments: ParsedArguments, to specification: inout WireTaskSpecification) throws(CommandFailure)
  {
    specification.tls = try tls(arguments)
    specification.credential = try credential(arguments.value(.user), .user, file: "FERRY_PASSWORD_FILE")
    specification.proxyCredential = try credential(
      arguments.value(.proxyUser), .proxyUser, file: "FERRY_PROXY_PASSWORD_FILE")
    if arguments.has(.ask) { specification.answersChallenges = true }
  }

  static func tls(_ arguments: ParsedArguments) throws(CommandFailure) -> WireTLS? {
    var tls = WireTLS()
    tls.authorityFile = try file(arguments.value(.cacert), .cacert)
    tls.certificateFile = try file(arguments.value(.cert), .cert)
    tls.keyFile = try file(arguments.value(.key), .key)
    if tls.keyFile != nil, tls.certificateFile == nil { throw .usage("--key belongs to a --cert.") }
    let pins = arguments.all(.pinnedKey)
    tls.pinnedKeys = pins.isEmpty ? nil : pins
    if let text = arguments.value(.tlsMin) {
      guard TLSSettings.Version(rawValue: text) != nil else {
        throw .usage("--tls-min takes 1.0, 1.1, 1.2 or 1.3, not \"\(text)\".")
      }
      tls.minimum = text
    }
    if tls.certificateFile != nil, let path = ProcessEnvironment.current()["FERRY_KEY_PASSWORD_FILE"], !path.isEmpty {
      tls.keyPassword = try firstLine(path, "FERRY_KEY_PASSWORD_FILE")
    }
    return tls.isEmpty ? nil : tls
  }

  /// The daemon reads the file later, from another folder.
  private static func file(_ given: String?, _ option: OptionName) throws(CommandFailure) -> String? {
    guard let given else { return nil }
    guard let path = FilePath.canonical(given) else {
      throw CommandFailure(.usage, "\(SystemError(errno, operation: "--\(option.rawValue)", path: given))")
    }
    return path
  }

  static func credential(
    _ user: String?, _ option: OptionName, file variable: String
  ) throws(CommandFailure) -> WireCredential? {
    guard let user else { return nil }
    guard !user.isEmpty, !user.contains(":") else {
      throw .usage("--\(option.rawValue) takes a user's name alone, without a colon; the password is asked for.")
    }
    return WireCredential(user: user, password: try password(of: user, variable))
  }

  private static func password(of user: String, _ variable: String) throws(CommandFailure) -> String {
    if let path = ProcessEnvironment.current()[variable], !path.isEmpty { return try firstLine(path, variable) }
    guard isatty(STDIN_FILENO) == 1 else {
      throw .usage("There is no terminal to ask for the password; name a file that holds it in \(variable).")
    }
    return try askAtTerminal(user)
  }

  /// Without its line end.
  private static func firstLine(_ path: String, _ variable: String) throws(CommandFailure) -> String {
    do {
      let file = try OwnedDescriptor.open(path, .read)
      var buffer = [UInt8](repeating: 0, count: 4097)
      var text: [UInt8] = []
      while text.count <= 4096, let count = try Syscall.read(file.raw, into: &buffer), count > 0 {
        text += buffer[..<count]
        if text.contains(0x0A) { break }
      }
      var line = Array(text.prefix { $0 != 0x0A })
      if line.last == 0x0D { line.removeLast() }
      guard line.count <= 4096 else {
        throw CommandFailure(.usage, "The first line of \(variable)'s file is too long.")
      }
      return String(decoding: line, as: UTF8.self)
    } catch let error as CommandFailure {
      throw error
    } catch {
      throw CommandFailure(.usage, "\(variable): \(error)")
    }
  }

  private static func askAtTerminal(_ user: String) throws(CommandFailure) -> String {
    var quiet = termios()
    guard unsafe tcgetattr(STDIN_FILENO, &quiet) == 0 else {
      throw CommandFailure(.failure, "\(SystemError(errno, operation: "tcgetattr", path: nil))")
    }
    var loud = quiet
    quiet.c_lflag &= ~tcflag_t(ECHO)
    _ = unsafe tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet)
    defer { _ = unsafe tcsetattr(STDIN_FILENO, TCSAFLUSH, &loud) }
    try StandardStream.error.write("Password of \(TerminalText.escaped(user)): ")
    let line = readLine(strippingNewline: true)
    try StandardStream.error.write("\n")
    guard let line else { throw .usage("No password was given.") }
    return line
  }
}
