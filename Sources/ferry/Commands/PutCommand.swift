import Glibc
import LinuxSystem
import TransferCore
import WireProtocol

enum PutCommand {
  static let command = Command(
    name: "put", summary: "upload a file to a URL",
    operands: OperandRow(usage: "FILE URL", count: 2...2),
    options: [
      OptionRow(name: .request, letter: "X", value: "METHOD", help: "the request's method (PUT)"),
      OptionRow(
        name: .output, letter: "o", value: "FILE", help: "write the response's body to a file, not to standard output"),
      OptionRow(name: .replace, help: "with -o: replace the file if it exists"),
    ] + TransferRun.options + [
      OptionRow(
        name: .noIdempotencyKey,
        help: "send no Idempotency-Key; without this option each attempt of one POST or PATCH carries the same one"),
      .json,
    ],
    notes: [
      "The file is kept safe when the upload is accepted: it may be deleted afterwards, but a change in place fails "
        + "the upload. Ctrl-C lets go of the transfer (exit code 130), which goes on.",
      "On success the body of the server's response goes to standard output; with --json the task is printed instead "
        + "and its member `body` names the file with the body; with --detach the task's id.",
    ],
    run: run)

  private static func run(_ arguments: ParsedArguments) throws(CommandFailure) -> ExitCode {
    let url = try ArgumentValue.url(arguments.operands[1])
    let method = try ArgumentValue.method(arguments.value(.request) ?? "PUT")
    if arguments.has(.output), arguments.has(.detach) || arguments.has(.json) {
      throw .usage(
        "-o goes with neither --detach nor --json; `ferry show --json ID` names the file with the response's body.")
    }
    if arguments.has(.replace), !arguments.has(.output) {
      throw .usage("--replace is about the file of -o.")
    }
    let source = try sourcePath(arguments.operands[0])
    let copy = try arguments.value(.output).map { (path) throws(CommandFailure) in
      try BodyFile(path, isReplacing: arguments.has(.replace))
    }
    var transfer = try TransferRun.make(
      kind: TaskKind.upload.rawValue, url: url, name: Files.lastComponent(of: source), arguments)
    transfer.specification.method = method
    transfer.specification.source = source
    transfer.specification.addsIdempotencyKey = !arguments.has(.noIdempotencyKey)
    return try transfer.run { (task) throws(CommandFailure) in
      // An error's body is shown as well: it is where servers say what was wrong.
      if let body = task.body {
        if let copy { try copy.write(from: body) } else { try BodyFile.copy(body, to: StandardStream.output.rawValue) }
      } else if let copy, task.state == "succeeded" {
        try copy.write(from: nil)
      }
      if task.state == "succeeded", StandardStream.error.isTerminal {
        let status = task.response.map { "HTTP \($0.status); " } ?? ""
        Notice.say(status + (TransferRun.summary(task) ?? "sent"))
      }
    }
  }

  private static func sourcePath(_ given: String) throws(CommandFailure) -> String {
    if given == "-" {
      throw .usage(
        "put sends files only: standard input ends with this command, and the upload may not.")
    }
    guard let path = FilePath.canonical(given) else {
      throw CommandFailure(.source, "\(SystemError(errno, operation: "put", path: given))")
    }
    guard let status = FilePath.status(path), status.st_mode & S_IFMT == S_IFREG else {
      throw CommandFailure(.source, "\(given) is no regular file.")
    }
    return path
  }
}

/// The file that `put -o` writes: whole or not at all.
struct BodyFile {
  private let path: String
  private let isReplacing: Bool

  /// Checked before anything is sent.
  init(_ given: String, isReplacing: Bool) throws(CommandFailure) {
    guard given != "-", !given.isEmpty, !given.hasSuffix("/"), !FilePath.isFolder(given) else {
      throw .usage("-o of put takes the path of a file; without -o the body goes to standard output.")
    }
    path = try FilePath.absolute(given)
    self.isReplacing = isReplacing
    if !isReplacing, FilePath.status(path, followingSymlinks: false) != nil {
      throw CommandFailure(.destination, "\(path) exists; --replace replaces it. Nothing was sent.")
    }
  }

  /// Copies the spooled body; nil writes an empty file.
  func write(from body: String?) throws(CommandFailure) {
    let folder = Files.parent(of: path)
    let temporary = "\(folder)/.\(String(Clocks.randomWord(), radix: 36)).ferry-new"
    do {
      let descriptor = try Syscall.retrying("open", path: temporary) {
        unsafe open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o666)
      }
      let file = OwnedDescriptor(adopting: descriptor)
      if let body { try Self.copy(body, to: file.raw) }
      // link(2) refuses a name that exists, rename(2) replaces it.
      let path = path
      if isReplacing {
        try Syscall.retrying("rename", path: path) { unsafe rename(temporary, path) }
      } else {
        try Syscall.retrying("link", path: path) { unsafe link(temporary, path) }
        try Syscall.retrying("unlink", path: temporary) { unsafe unlink(temporary) }
      }
    } catch let error as CommandFailure {
      _ = unsafe unlink(temporary)
      throw error
    } catch {
      _ = unsafe unlink(temporary)
      throw CommandFailure(.destination, "\(error)")
    }
  }

  static func copy(_ body: String, to descriptor: Int32) throws(CommandFailure) {
    do {
      let source = try OwnedDescriptor.open(body, .read)
      var buffer = [UInt8](repeating: 0, count: 128 * 1024)
      while true {
        guard let count = try Syscall.read(source.raw, into: &buffer), count > 0 else { return }
        try Syscall.writeAll(descriptor, buffer.span.extracting(..<count))
      }
    } catch {
      throw CommandFailure(error.number == EPIPE ? .failure : .destination, error.number == EPIPE ? "" : "\(error)")
    }
  }
}
