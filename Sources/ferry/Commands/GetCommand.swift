import LinuxSystem
import TransferCore
import WireProtocol

enum GetCommand {
  static let command = Command(
    name: "get", summary: "download a URL to a file",
    operands: OperandRow(usage: "URL", count: 1...1),
    options: [
      OptionRow(
        name: .output, letter: "o", value: "FILE|DIR",
        help: "the file, or the folder for it (default: the URL's last path component, in this folder)")
    ] + TransferRun.options + [
      OptionRow(name: .sha256, value: "HEX", help: "accept only content with this SHA-256"),
      OptionRow(name: .replace, help: "replace the file if it exists"),
      OptionRow(name: .rename, help: "choose a free name if the file exists"),
      OptionRow(name: .raw, help: "keep the content as it was sent, encoded (gzip …) if it came so"),
      .json,
    ],
    notes: [
      "The transfer belongs to the daemon: it goes on when this command, its terminal or the connection ends. Ctrl-C "
        + "lets go of it (exit code 130); `ferry wait ID` waits for it again, `ferry cancel ID` ends it.",
      "Without --replace or --rename a file that exists is refused before anything is fetched. On success the path is "
        + "printed; with --json the task, as `ferry show --json` prints it; with --detach the task's id.",
    ],
    run: run)

  private static func run(_ arguments: ParsedArguments) throws(CommandFailure) -> ExitCode {
    let url = try ArgumentValue.url(arguments.operands[0])
    if arguments.has(.replace), arguments.has(.rename) {
      throw .usage("--replace and --rename exclude each other.")
    }
    let collision: CollisionRule = arguments.has(.replace) ? .replace : arguments.has(.rename) ? .rename : .fail
    var expectedSHA256: String?
    if let text = arguments.value(.sha256) { expectedSHA256 = try ArgumentValue.sha256(text) }
    let destination = try DestinationPath.resolve(arguments.value(.output), url: url, collision: collision)
    var transfer = try TransferRun.make(
      kind: TaskKind.download.rawValue, url: url, name: Files.lastComponent(of: destination), arguments)
    transfer.specification.destination = destination
    transfer.specification.collision = collision.rawValue
    transfer.specification.sha256 = expectedSHA256
    if arguments.has(.raw) { transfer.specification.keepsEncoding = true }
    return try transfer.run { (task) throws(CommandFailure) in
      guard task.state == "succeeded" else { return }
      try StandardStream.output.writePath(task.file ?? destination)
      if StandardStream.error.isTerminal, let summary = TransferRun.summary(task) { Notice.say(summary) }
    }
  }
}

/// Where a download goes: an absolute path whose folder is canonical, checked while the person is still there to read
/// why not.
enum DestinationPath {
  static func resolve(_ given: String?, url: String, collision: CollisionRule) throws(CommandFailure) -> String {
    if given == "-" {
      throw .usage(
        "-o - is not possible: the download is the daemon's and may outlive this command, so it goes to a file. "
          + "Use `cat \"$(ferry get URL)\"`.")
    }
    if given?.isEmpty == true { throw .usage("-o needs a file or a folder.") }
    let name = FileName.fromURL(url)
    var path = given ?? name
    let isDirectory = FilePath.isFolder(path)
    if path.hasSuffix("/"), !isDirectory {
      throw CommandFailure(.destination, "There is no folder \(path); make it with `mkdir -p`.")
    }
    if isDirectory { path += path.hasSuffix("/") ? name : "/\(name)" }
    let last = Files.lastComponent(of: path)
    guard last != ".", last != ".." else {
      throw CommandFailure(.destination, "\(path) names no file.")
    }
    let result = try FilePath.absolute(path)
    guard collision == .fail, FilePath.status(result, followingSymlinks: false) != nil else { return result }
    throw CommandFailure(
      .destination,
      "\(result) exists; --replace replaces it, --rename chooses a free name, -o another place. Nothing was fetched.")
  }
}
