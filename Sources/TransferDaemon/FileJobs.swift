import CurlEngine
import Glibc
import LinuxSystem
import TransferCore

/// What file workers do. Each function blocks, and runs on a worker.
enum FileJobs {
  // MARK: Before a task is accepted

  /// A source larger than this is not copied when it can be neither cloned nor linked: it is read where it is.
  static let copyBoundBytes: Int64 = 64 << 20

  /// Looks at the files of one batch. Sources are pinned durably: a task that is accepted finds its body after a
  /// power cut.
  static func prepare(_ orders: [PrepareOrder], sources: String) -> [PreparedTask] {
    var folders: [String: Folder] = [:]
    let placed = orders.map { ($0, destination(of: $0, &folders)) }
    let prepared = SideBySide.map(placed) { order, destination in
      switch destination {
      case .success(let place): PreparedTask(task: order.task, outcome: prepare(order, place, sources: sources))
      case .failure(let refusal): PreparedTask(task: order.task, outcome: .refused(refusal.refusal))
      }
    }
    guard orders.contains(where: { $0.sourcePath != nil || $0.body != nil }) else { return prepared }
    do throws(SystemError) {
      try Files.syncDirectory(sources)
      return prepared
    } catch {
      let refusal = Refusal(.sourceUnusable, "The source cannot be kept: \(error)")
      return orders.map { PreparedTask(task: $0.task, outcome: .refused(refusal)) }
    }
  }

  private static func destination(
    of order: PrepareOrder, _ folders: inout [String: Folder]
  ) -> Swift.Result<Destination, Refused> {
    guard case .file(let path, let collision) = order.destination else { return .success(order.destination) }
    return canonical(path, collision, &folders).map { .file(path: $0, collision: collision) }
  }

  private static func prepare(
    _ order: PrepareOrder, _ destination: Destination, sources: String
  ) -> PreparedTask.Outcome {
    let name = "ferry-\(order.task).source"
    if let body = order.body { return keep(body, as: "\(sources)/\(name)", destination) }
    guard let path = order.sourcePath else { return .ready(source: nil, destination: destination) }
    do throws(SystemError) {
      try FaultPoint.reach("source.pin")
      let pin = try UploadPin.pin(
        source: path, into: sources, name: name, copyBoundBytes: copyBoundBytes)
      let source = UploadSource(path: path, pinnedPath: pin.path, pin: pin.kind, identity: pin.identity)
      return .ready(source: source, destination: destination)
    } catch {
      let name: Refusal.Name = error.number == ENOENT || error.number == ENOTDIR ? .sourceMissing : .sourceUnusable
      return .refused(Refusal(name, "The source cannot be used: \(error)"))
    }
  }

  /// A request body that came in the message becomes a file of ours, durable before the task is accepted.
  private static func keep(_ body: [UInt8], as path: String, _ destination: Destination) -> PreparedTask.Outcome {
    do throws(SystemError) {
      let file = try Files.createPrivate(path)
      try FaultPoint.reach("body.spool")
      try Syscall.writeAll(file.raw, body)
      try Files.syncFile(file.raw)
      let identity = try Files.identity(descriptor: file.raw)
      return .ready(
        source: UploadSource(path: path, pinnedPath: path, pin: .copy, identity: identity), destination: destination)
    } catch {
      try? Files.remove(path)
      return .refused(Refusal(.sourceUnusable, "The request body cannot be kept: \(error)"))
    }
  }

  private struct Refused: Error {
    var refusal: Refusal
    init(_ name: Refusal.Name, _ text: String) { refusal = Refusal(name, text) }
  }

  /// The real path of a folder in which files can be made, or why there can be none. Asked once a batch.
  private typealias Folder = Swift.Result<String, Refused>

  private static func folder(_ parent: String) -> Folder {
    guard let resolved = unsafe realpath(parent, nil) else {
      return .failure(
        Refused(.destinationUnusable, "The folder \(parent) cannot be used: \(SystemError.name(of: errno))."))
    }
    defer { unsafe free(resolved) }
    let folder = unsafe String(cString: resolved)
    guard unsafe access(folder, W_OK | X_OK) == 0 else {
      return .failure(
        Refused(.destinationUnusable, "The folder \(folder) cannot be written: \(SystemError.name(of: errno))."))
    }
    return .success(folder)
  }

  /// The destination with its folder's real path, so that two spellings of one place are one claim.
  private static func canonical(
    _ path: String, _ collision: CollisionRule, _ folders: inout [String: Folder]
  ) -> Swift.Result<String, Refused> {
    func refuse(_ name: Refusal.Name, _ text: String) -> Swift.Result<String, Refused> { .failure(Refused(name, text)) }
    let name = Files.lastComponent(of: path)
    guard path.hasPrefix("/"), !name.isEmpty, name != ".", name != "..", name.utf8.count <= 255 else {
      return refuse(.destinationUnusable, "The destination must be the absolute path of a file.")
    }
    let parent = Files.parent(of: path)
    let known = folders[parent] ?? Self.folder(parent)
    folders[parent] = known
    let folder: String
    switch known {
    case .success(let path): folder = path
    case .failure(let refusal): return .failure(refusal)
    }
    let target = folder == "/" ? "/\(name)" : "\(folder)/\(name)"
    var status = stat()
    if unsafe lstat(target, &status) == 0 {
      if status.st_mode & S_IFMT == S_IFDIR {
        return refuse(.destinationUnusable, "\(target) is a folder; name a file in it.")
      }
      if collision == .fail {
        return refuse(.destinationExists, "\(target) exists; choose another path, or let it be replaced or renamed.")
      }
    }
    return .success(target)
  }

  // MARK: Around an attempt

  /// Opened files on their way to the engine. Whoever takes the value owns the descriptors.
  struct Opened: Sendable {
    var part: Int32?
    var partBytes: Int64?
    var freeBytes: Int64?
    /// The destination shows the file already (0001): only its row is missing.
    var isPlaced = false
    var source: Int32?
  }

  /// - Parameter keptRoom: what is left free on the part file's filesystem.
  static func open(_ order: OpenOrder, leaving keptRoom: KeptRoom?) -> Swift.Result<Opened, FileFailure> {
    var opened = Opened()
    do throws(SystemError) {
      if let path = order.partPath {
        try FaultPoint.reach("part.open")
        let part = try openPart(path)
        // What was made this moment is empty and has no second name; nothing was decoded from it.
        opened.partBytes = part.isNew ? 0 : try Files.identity(descriptor: part.file.raw).sizeBytes
        let free = try? Files.freeBytes(path: Files.parent(of: path))
        opened.freeBytes = free.map { max(0, $0 - (keptRoom?.bytes ?? 0)) }
        if order.destination != .managed, !part.isNew {
          opened.isPlaced = Files.hasSecondName(path) || Files.hasSecondName(path + decodedSuffix)
        }
        opened.part = part.file.take()
      }
    } catch {
      return .failure(FileFailure(partFailure(error)))
    }
    guard let source = order.source else { return .success(opened) }
    do throws(SystemError) {
      opened.source = try OwnedDescriptor.open(source.pinnedPath, .read).take()
      return .success(opened)
    } catch {
      if let part = opened.part { close(part) }
      let isMissing = error.number == ENOENT || error.number == ENOTDIR
      return .failure(
        FileFailure(
          TransferFailure(
            isMissing ? .sourceMissing : .sourceUnreadable, .permanent, domain: "errno", number: Int(error.number),
            detail: "The source \(source.path) cannot be read any more: \(error.name).")))
    }
  }

  struct FileFailure: Error {
    var failure: TransferFailure
    init(_ failure: TransferFailure) { self.failure = failure }
  }

  private struct OpenedPart: ~Copyable {
    var file: OwnedDescriptor
    var isNew: Bool
  }

  /// The part file, made when it is missing; the daemon's own folder for it too.
  private static func openPart(_ path: String) throws(SystemError) -> OpenedPart {
    func open(_ creation: Int32) throws(SystemError) -> OwnedDescriptor {
      let flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | creation
      return OwnedDescriptor(
        adopting: try Syscall.retrying("open", path: path) { unsafe Glibc.open(path, flags, 0o600) })
    }
    do {
      return OpenedPart(file: try open(O_EXCL), isNew: true)
    } catch  where error.number == EEXIST {
      return OpenedPart(file: try open(0), isNew: false)
    } catch  where error.number == ENOENT && path.contains("/com.apple.nsurlsessiond/Downloads/") {
      try Files.makePrivateDirectory(Files.parent(of: path))
      return OpenedPart(file: try open(0), isNew: false)
    }
  }

  static func partFailure(_ error: SystemError) -> TransferFailure {
    switch error.number {
    case ENOSPC, EDQUOT:
      TransferFailure(
        .noSpace, .transient, domain: "errno", number: Int(error.number),
        detail: "The disk is full; the transfer goes on when there is room.")
    default:
      TransferFailure(
        .destinationUnavailable, .transient, domain: "errno", number: Int(error.number),
        detail: "The folder of the file cannot be used: \(error).")
    }
  }

  /// What became of files that were to go.
  struct Removal: Sendable {
    /// Tasks whose part file in a user's folder is gone.
    var parts: [TaskID] = []
    var failed: [String] = []
    /// Nobody has to hear of it.
    var isOrdinary: Bool { parts.isEmpty && failed.isEmpty }
  }

  static func remove(_ paths: [String]) -> Removal {
    var removal = Removal()
    for path in paths {
      do throws(SystemError) {
        try FaultPoint.reach("file.remove")
        let part = partOwner(path)
        // What was made of it first: the part file's own name tells the next daemon of the others.
        if part != nil { for name in FilePlacement.secondNames(path) { try Files.remove(name) } }
        if part != nil { for name in FilePlacement.secondNames(path + decodedSuffix) { try Files.remove(name) } }
        try Files.remove(path + decodedSuffix)
        try Files.remove(path)
        if let part { removal.parts.append(part) }
      } catch {
        removal.failed.append(path)
      }
    }
    return removal
  }

  /// "…/.ferry-17.part" → 17: a part file in a user's folder.
  private static func partOwner(_ path: String) -> TaskID? {
    let name = Files.lastComponent(of: path)
    guard name.hasPrefix(".ferry-"), name.hasSuffix(".part"), let number = Int64(name.dropFirst(7).dropLast(5)),
      number > 0
    else { return nil }
    return TaskID(rawValue: number)
  }

  static let decodedSuffix = ".decoded"

  /// Names of files in a folder of ours and in its folders, with the task id that each was made for.
  static func named(in folder: String) -> [(path: String, task: TaskID)] {
    var found: [(path: String, task: TaskID)] = []
    for name in Files.names(in: folder) {
      let path = "\(folder)/\(name)"
      if let id = taskID(name) {
        found.append((path, id))
      } else {
        for inner in Files.names(in: path) {
          if let id = taskID(inner) { found.append(("\(path)/\(inner)", id)) }
        }
      }
    }
    return found
  }

  /// "ferry-17.tmp" → 17
  private static func taskID(_ name: String) -> TaskID? {
    guard name.hasPrefix("ferry-"), let dot = name.firstIndex(of: "."),
      let number = Int64(name[name.index(name.startIndex, offsetBy: 6)..<dot]), number > 0
    else { return nil }
    return TaskID(rawValue: number)
  }
}
